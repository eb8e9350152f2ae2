//! `stcp://ADDRESS:PORT?interface=…&address=…`: the simplified TCP to a listening TCP socket.
//!
//! Parsing touches no system. Refuses addresses that are not IPv4, port 0, values that a key does not take, and, once all keys
//! are read, what does not fit together ([`StcpUrl::check`]). Source: docs/stcp.md, "`send --to stcp://`".

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use fullcount_core::url::{Given, NotTaken, SWITCH, Scheme, SchemeKey, port};
use fullcount_stcp::{Coalescing, StcpSettings, Strategy};

use super::setup::{Driver, MOST_STREAMS, UNIT};

/// Which settings the others change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    Daq,
    Default,
    Rfc,
}

/// Congestion control, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    None,
    Static,
    Simplified,
    Reno,
}

/// What stands in front of each packet, for receivers that find their borders by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    None,
    Be16,
    Le16,
    Be32,
    Le32,
}

impl Prefix {
    /// Longest packet, bytes.
    pub fn most(self) -> usize {
        match self {
            Prefix::Be16 | Prefix::Le16 => usize::from(u16::MAX),
            Prefix::None | Prefix::Be32 | Prefix::Le32 => u32::MAX as usize,
        }
    }

    /// What stands in front of a packet of `length` bytes: the first [`Prefix::bytes`] of these.
    pub fn of(self, length: usize) -> [u8; 4] {
        let two = |[a, b]: [u8; 2]| [a, b, 0, 0];
        match self {
            Prefix::None => [0; 4],
            Prefix::Be16 => two((length as u16).to_be_bytes()),
            Prefix::Le16 => two((length as u16).to_le_bytes()),
            Prefix::Be32 => (length as u32).to_be_bytes(),
            Prefix::Le32 => (length as u32).to_le_bytes(),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> usize {
        match self {
            Prefix::None => 0,
            Prefix::Be16 | Prefix::Le16 => 2,
            Prefix::Be32 | Prefix::Le32 => 4,
        }
    }
}

/// `stcp://ADDRESS:PORT?key=value&…`
#[derive(Debug, Clone, PartialEq)]
pub struct StcpUrl {
    /// The receiver.
    pub peer: (Ipv4Addr, u16),
    pub(super) interface: String,
    pub(super) driver: Driver,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) mac: Option<[u8; 6]>,
    pub(super) gateway: Option<Ipv4Addr>,
    pub(super) offload: Option<bool>,
    mtu: u16,
    profile: Profile,
    control: Control,
    window: u32,
    pub(super) buffer: u32,
    pub(super) unit: u32,
    pub(super) large_pages: bool,
    pub(super) streams: u16,
    pub(super) port: u16,
    coalescing: Option<Coalescing>,
    pub(super) prefix: Prefix,
    pub(super) frames_to: Option<PathBuf>,
    pub(super) frames_limit: u64,
}

impl fmt::Display for StcpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stcp://{}:{}", self.peer.0, self.peer.1)
    }
}

fn ipv4(v: Given<'_>) -> Result<Ipv4Addr, NotTaken> {
    let address: Ipv4Addr = v.parse()?;
    let usable = !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast();
    usable.then_some(address).ok_or(NotTaken::Other)
}

fn mac(v: Given<'_>) -> Result<[u8; 6], NotTaken> {
    let text = v.text()?;
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|p| p.len() == 2).ok_or(NotTaken::Other)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| NotTaken::Other)?;
    }
    // A group's address is nobody's own.
    if parts.next().is_some() || mac[0] & 1 != 0 { Err(NotTaken::Other) } else { Ok(mac) }
}

fn coalescing(v: Given<'_>) -> Result<Coalescing, NotTaken> {
    match v.text()? {
        "nagle" => Ok(Coalescing::Nagle),
        "nodelay" => Ok(Coalescing::NoDelay),
        _ => {
            let time = v.duration(Duration::from_micros(100)..=Duration::from_secs(1))?;
            Ok(Coalescing::Within(time.as_micros() as u32))
        }
    }
}

impl Scheme for StcpUrl {
    const NAME: &'static str = "stcp";
    const FORM: &'static str = "stcp://ADDRESS:PORT?interface=NAME&address=ADDRESS, for example \
                                stcp://10.0.0.2:5000?interface=eth0&address=10.0.0.9";
    const KEYS: &'static [SchemeKey<StcpUrl>] = &[
        SchemeKey::told(
            "interface",
            "the name of an interface",
            "– (must be given)",
            "where the frames leave; a TAP device with driver=tap",
            |x, v| {
                let name = v.text()?;
                let fits = name.len() <= 15 && !name.contains(['/', ' ', '\0']);
                if !fits {
                    return Err(NotTaken::Other);
                }
                x.interface = name.into();
                Ok(())
            },
        ),
        SchemeKey::told(
            "address",
            "an IPv4 address",
            "– (must be given)",
            "own address, on the receiver's network and used by nobody else, this host included",
            |x, v| ipv4(v).map(|a| x.address = Some(a)),
        ),
        SchemeKey::told(
            "mac",
            "six hexadecimal bytes with colons",
            "02:00 and the own address",
            "own MAC address",
            |x, v| mac(v).map(|m| x.mac = Some(m)),
        ),
        SchemeKey::told(
            "gateway",
            "an IPv4 address",
            "none: the receiver is on the link",
            "router to the receiver",
            |x, v| ipv4(v).map(|a| x.gateway = Some(a)),
        ),
        SchemeKey::told(
            "driver",
            "packet, tap or xdp",
            "`packet`",
            "how frames leave: packet socket, TAP device, or AF_XDP (no offload)",
            |x, v| v.one_of(&Driver::ALL.map(|d| (d.name(), d))).map(|d| x.driver = d),
        ),
        SchemeKey::told(
            "offload",
            SWITCH,
            "1; with driver=xdp 0",
            "several segments leave as one unit, which the kernel or the card cuts",
            |x, v| v.switch().map(|on| x.offload = Some(on)),
        ),
        SchemeKey::told(
            "mtu",
            "a number from 576 to 9000",
            "9000",
            "longest IP packet, bytes; the MSS is 40 less",
            |x, v| v.within(576..=9000).map(|n| x.mtu = n),
        ),
        SchemeKey::told(
            "profile",
            "daq, default or rfc",
            "`daq`",
            "times and limits that the other keys do not set",
            |x, v| {
                let all =
                    [("daq", Profile::Daq), ("default", Profile::Default), ("rfc", Profile::Rfc)];
                v.one_of(&all).map(|p| x.profile = p)
            },
        ),
        SchemeKey::told(
            "strategy",
            "none, static, simplified or reno",
            "`simplified`",
            "congestion control; none may make a shared network collapse",
            |x, v| {
                let all = [
                    ("none", Control::None),
                    ("static", Control::Static),
                    ("simplified", Control::Simplified),
                    ("reno", Control::Reno),
                ];
                v.one_of(&all).map(|c| x.control = c)
            },
        ),
        SchemeKey::told(
            "window",
            "0 or a size from 1kB to 1GiB",
            "0: the receiver's",
            "greatest window; with strategy=static the window, which must be given",
            |x, v| match v.text()? {
                "0" => {
                    x.window = 0;
                    Ok(())
                }
                _ => v.size(1000..=1 << 30).map(|n| x.window = n as u32),
            },
        ),
        SchemeKey::told(
            "buffer",
            "a size from 128KiB to 1GiB, a power of two",
            "8 MiB",
            "send buffer of each stream: packets from submission to acknowledgement",
            |x, v| {
                let bytes = v.size(1 << 17..=1 << 30)?;
                if !bytes.is_power_of_two() {
                    return Err(NotTaken::Other);
                }
                x.buffer = bytes as u32;
                Ok(())
            },
        ),
        SchemeKey::told(
            "unit",
            "a size from 64KiB to 512kB",
            "256 KiB",
            "longest unit with offload; at most what the interface takes (`gso_ipv4_max_size`)",
            |x, v| v.size(1 << 16..=512_000).map(|n| x.unit = n as u32),
        ),
        SchemeKey::told(
            "large_pages",
            SWITCH,
            "1",
            "send buffers lie on large pages where the system has some",
            |x, v| v.switch().map(|on| x.large_pages = on),
        ),
        SchemeKey::told(
            "streams",
            "a number from 1 to 1024",
            "1",
            "connections; packets go to them in turn",
            |x, v| v.within(1..=MOST_STREAMS as u16).map(|n| x.streams = n),
        ),
        SchemeKey::told(
            "port",
            "a number from 1 to 65535",
            "10",
            "local port of the first stream; the others follow",
            |x, v| v.within(1..=65535).map(|n| x.port = n),
        ),
        SchemeKey::told(
            "coalescing",
            "nagle, nodelay or a time from 100us to 1s",
            "that of the profile; daq: 1 ms",
            "when a short segment at the end of what was sent may leave",
            |x, v| coalescing(v).map(|c| x.coalescing = Some(c)),
        ),
        SchemeKey::told(
            "framing",
            "none, u16be, u16le, u32be or u32le",
            "`none`",
            "length in front of each packet; fragments find their borders without",
            |x, v| {
                let all = [
                    ("none", Prefix::None),
                    ("u16be", Prefix::Be16),
                    ("u16le", Prefix::Le16),
                    ("u32be", Prefix::Be32),
                    ("u32le", Prefix::Le32),
                ];
                v.one_of(&all).map(|p| x.prefix = p)
            },
        ),
        SchemeKey::told(
            "frames_to",
            "the name of a new file",
            "none",
            "frames that left and came go there (pcap; pcapng by its ending)",
            |x, v| v.text().map(|name| x.frames_to = Some(name.into())),
        ),
        SchemeKey::told(
            "frames_limit",
            "a size from 1kB to 1TB",
            "1 GB",
            "size of that file at most; what comes after is counted",
            |x, v| v.size(1000..=1_000_000_000_000).map(|n| x.frames_limit = n),
        ),
    ];

    fn at(at: &str) -> Result<StcpUrl, String> {
        let (host, rest) = at.rsplit_once(':').ok_or("it has no port")?;
        let host = host.strip_prefix("//").unwrap_or(host);
        let address: Ipv4Addr = host.parse().map_err(|_| format!("'{host}' is no IPv4 address"))?;
        Ok(StcpUrl::new(address, port(rest, 1..=65535)?))
    }
}

impl StcpUrl {
    /// The URL without any key.
    pub fn new(address: Ipv4Addr, port: u16) -> StcpUrl {
        StcpUrl {
            peer: (address, port),
            interface: String::new(),
            driver: Driver::Packet,
            address: None,
            mac: None,
            gateway: None,
            offload: None,
            mtu: 9000,
            profile: Profile::Daq,
            control: Control::Simplified,
            window: 0,
            buffer: 8 << 20,
            unit: UNIT,
            large_pages: true,
            streams: 1,
            port: 10,
            coalescing: None,
            prefix: Prefix::None,
            frames_to: None,
            frames_limit: 1_000_000_000,
        }
    }

    /// What its keys say together.
    ///
    /// # Errors
    /// What does not fit together, as a clause.
    pub fn check(&self) -> Result<(), String> {
        if self.interface.is_empty() {
            return Err("interface=NAME is missing: where the frames leave".into());
        }
        let Some(address) = self.address else {
            return Err("address=ADDRESS is missing: own address, used by nobody else".into());
        };
        if address == self.peer.0 {
            return Err(format!("address={address} is the receiver's"));
        }
        if self.offload == Some(true) && !self.driver.can_offload() {
            return Err(format!("driver={} has no offload: offload=0", self.driver.name()));
        }
        if self.control == Control::Static && self.window == 0 {
            return Err("strategy=static needs window=SIZE".into());
        }
        if u32::from(self.port) + u32::from(self.streams) > 65536 {
            let (port, streams) = (self.port, self.streams);
            return Err(format!("port={port} and streams={streams} go beyond port 65535"));
        }
        self.settings().check().map_err(|e| e.to_string())
    }

    /// What a user should know before it is used, as clauses.
    pub(super) fn cautions(&self) -> Vec<String> {
        let none = "strategy=none has no congestion control, and makes a shared network collapse; it is for experiments";
        (self.control == Control::None).then(|| none.to_owned()).into_iter().collect()
    }

    /// Settings of a stream.
    pub(super) fn settings(&self) -> StcpSettings {
        let base = match self.profile {
            Profile::Daq => StcpSettings::daq(),
            Profile::Default => StcpSettings::default(),
            Profile::Rfc => StcpSettings::rfc(),
        };
        let strategy = match self.control {
            Control::None => Strategy::Free,
            Control::Static => Strategy::Static { cwnd: self.window },
            Control::Simplified => match Strategy::SIMPLIFIED {
                Strategy::Simplified { shift_max, floor, clean_rounds, .. } => {
                    Strategy::Simplified { cwnd_max: self.window, shift_max, floor, clean_rounds }
                }
                other => other,
            },
            Control::Reno => Strategy::Reno,
        };
        let coalescing = self.coalescing.unwrap_or(base.coalescing);
        StcpSettings { mtu: self.mtu, strategy, coalescing, ..base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::url::read;

    const BASE: &str = "stcp://10.0.0.2:5000?interface=eth0&address=10.0.0.9";

    #[test]
    fn keys_become_settings() {
        let all = "&mac=02:00:00:00:00:09&driver=xdp&mtu=1500&strategy=static&window=80kB&buffer=1MiB\
                   &streams=4&port=100&coalescing=nodelay&framing=u32be&profile=rfc&gateway=10.0.0.1\
                   &frames_to=x.pcap&frames_limit=1MB&large_pages=0&unit=64KiB";
        let url: StcpUrl = read(&format!("{BASE}{all}")).unwrap();
        url.check().unwrap();
        let settings = url.settings();
        assert_eq!(settings.strategy, Strategy::Static { cwnd: 80_000 });
        assert_eq!((settings.mtu, settings.coalescing), (1500, Coalescing::NoDelay));
        assert_eq!(settings.rto_min_us, 1_000_000);
        assert_eq!((url.buffer, url.streams, url.port), (1 << 20, 4, 100));
        assert_eq!((url.large_pages, url.unit), (false, 1 << 16));
        assert_eq!(url.to_string(), "stcp://10.0.0.2:5000");
        let plain: StcpUrl = read(BASE).unwrap();
        plain.check().unwrap();
        assert_eq!(plain.settings(), StcpSettings::daq());
        assert!(plain.cautions().is_empty());
        let free: StcpUrl = read(&format!("{BASE}&strategy=none")).unwrap();
        free.check().unwrap();
        assert!(free.cautions()[0].contains("strategy=none"), "{:?}", free.cautions());
        let timed: StcpUrl = read(&format!("{BASE}&coalescing=200us&window=1MB")).unwrap();
        assert_eq!(timed.settings().coalescing, Coalescing::Within(200));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (url, told) in [
            ("stcp://10.0.0.2", "no port"),
            ("stcp://host:5000", "no IPv4 address"),
            ("stcp://10.0.0.2:0", "0"),
        ] {
            let said = read::<StcpUrl>(url).unwrap_err().to_string();
            assert!(said.contains(told), "{said}");
        }
        for key in [
            "mac=01:00:00:00:00:09",
            "mac=2:0:0:0:0:9",
            "mtu=9001",
            "streams=0",
            "buffer=3MB",
            "window=1",
            "coalescing=1us",
            "framing=u64",
            "strategy=cubic",
            "driver=dpdk",
            "gateway=255.255.255.255",
        ] {
            let (name, _) = key.split_once('=').unwrap();
            let said = read::<StcpUrl>(&format!("{BASE}&{key}")).unwrap_err().to_string();
            assert!(said.contains(name), "{said}");
        }
        for (url, told) in [
            ("stcp://10.0.0.2:1?address=10.0.0.9", "interface"),
            ("stcp://10.0.0.2:1?interface=e", "address"),
            ("stcp://10.0.0.9:1?interface=e&address=10.0.0.9", "receiver"),
            ("stcp://10.0.0.2:1?interface=e&address=10.0.0.9&driver=xdp&offload", "offload"),
            ("stcp://10.0.0.2:1?interface=e&address=10.0.0.9&strategy=static", "window"),
            ("stcp://10.0.0.2:1?interface=e&address=10.0.0.9&port=65535&streams=2", "65535"),
        ] {
            let said = read::<StcpUrl>(url).unwrap().check().unwrap_err();
            assert!(said.contains(told), "{said}");
        }
    }
}
