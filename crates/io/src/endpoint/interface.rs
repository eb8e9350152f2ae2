//! `xdp://INTERFACE:PORT` and `packet://INTERFACE:PORT`: datagrams taken from an interface, past the
//! sockets.
//!
//! Refuses: what no interface can be called, port 0 (there is no socket whose port the system could
//! choose), values out of range.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::{EndpointError, Pair, pairs};

/// Where in the kernel the filter runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XdpMode {
    /// In the driver if it can, else in the stack.
    #[default]
    Auto,
    /// In the driver, or fail.
    Native,
    /// In the stack.
    Generic,
}

/// `xdp://INTERFACE:PORT?key=value&…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpUrl {
    /// Name of the interface, 1 to 15 bytes.
    pub interface: String,
    /// UDP destination port, 1..=65535.
    pub port: u16,
    /// Destination address; a group is joined. Default: any.
    pub address: Option<IpAddr>,
    /// One receive queue, from 0. Default: all.
    pub queue: Option<u32>,
    /// Where the filter runs.
    pub mode: XdpMode,
    /// Whether the card writes into our memory itself. Default: if it can.
    pub zero_copy: Option<bool>,
    /// Whether UDP checksums are verified. Default: yes.
    pub verify: bool,
    /// Packet memory a queue in bytes, 4 KiB..=1 GiB.
    pub receive_buffer: Option<u64>,
    /// Most datagrams a receive call, 1..=4096.
    pub batch: u16,
    /// Poll without sleeping: lowest loss, one core at 100 %.
    pub spin: bool,
    /// Sleep in the middle of a stream instead of being woken by each arrival, at most 10 ms; 0: never.
    pub nap: Duration,
    /// Do the card's work on the receiving thread.
    pub busy_poll: bool,
}

/// `packet://INTERFACE:PORT?key=value&…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketUrl {
    /// Name of the interface, 1 to 15 bytes.
    pub interface: String,
    /// UDP destination port, 1..=65535.
    pub port: u16,
    /// Destination address; a group is joined. Default: any.
    pub address: Option<IpAddr>,
    /// Whether UDP checksums are verified. Default: yes.
    pub verify: bool,
    /// Ring in bytes, 4 KiB..=1 GiB.
    pub receive_buffer: Option<u64>,
    /// Most datagrams a receive call, 1..=4096.
    pub batch: u16,
    /// Longest time that a block of packets waits for more, ms, 1..=1000.
    pub block_timeout_ms: u32,
    /// Poll without sleeping: lowest loss, one core at 100 %.
    pub spin: bool,
}

/// Most datagrams a receive call, unless the URL says: 256 of 64 B are 16 KiB of a first-level cache.
const BATCH: u16 = 256;
/// Longest wait of a block: below what a person sees, above what a timer costs.
const BLOCK_TIMEOUT_MS: u32 = 2;

/// Nap of an AF_XDP receiver: 3,000 of the smallest frames at 10 Gb/s, a fifth of the 16,384 places in its rings.
const NAP: Duration = Duration::from_micros(200);

const XDP_KEYS: [&str; 10] = [
    "address",
    "queue",
    "mode",
    "zero_copy",
    "checksum",
    "receive_buffer",
    "batch",
    "spin",
    "nap",
    "busy_poll",
];
const PACKET_KEYS: [&str; 6] =
    ["address", "checksum", "receive_buffer", "batch", "block_timeout", "spin"];

impl XdpUrl {
    /// The URL without any key.
    pub fn new(interface: &str, port: u16) -> XdpUrl {
        XdpUrl {
            interface: interface.into(),
            port,
            address: None,
            queue: None,
            mode: XdpMode::Auto,
            zero_copy: None,
            verify: true,
            receive_buffer: None,
            batch: BATCH,
            spin: false,
            nap: NAP,
            busy_poll: false,
        }
    }
}

impl PacketUrl {
    /// The URL without any key.
    pub fn new(interface: &str, port: u16) -> PacketUrl {
        PacketUrl {
            interface: interface.into(),
            port,
            address: None,
            verify: true,
            receive_buffer: None,
            batch: BATCH,
            block_timeout_ms: BLOCK_TIMEOUT_MS,
            spin: false,
        }
    }
}

impl fmt::Display for XdpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xdp://{}:{}", self.interface, self.port)
    }
}

impl fmt::Display for PacketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet://{}:{}", self.interface, self.port)
    }
}

fn place<'a>(
    url: &str,
    scheme: &'static str,
    place: &'a str,
) -> Result<(&'a str, u16), EndpointError> {
    let bad = |problem: String| EndpointError::Interface { url: url.into(), scheme, problem };
    let missing = || bad(format!("'//' is missing after '{scheme}:'"));
    let place = place.strip_prefix("//").ok_or_else(missing)?;
    let place = place.strip_suffix('/').unwrap_or(place);
    let parts = place.rsplit_once(':');
    let (name, port) = parts.ok_or_else(|| bad("the port is missing".into()))?;
    if name.is_empty() {
        return Err(bad("the interface is missing".into()));
    }
    if name.parse::<IpAddr>().is_ok() || name.starts_with('[') {
        let hint = format!("'{name}' is an address: give the interface, and ?address={name}");
        return Err(bad(hint));
    }
    // What the kernel allows (dev_valid_name).
    let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if name.len() > 15 || name.contains(wrong) {
        return Err(bad(format!("no interface can be called '{name}'")));
    }
    let number = port.parse().ok().filter(|_| port.bytes().all(|b| b.is_ascii_digit()));
    match number {
        Some(port) if port != 0 => Ok((name, port)),
        _ => Err(bad(format!("port '{port}' is not a number from 1 to 65535"))),
    }
}

impl Pair<'_> {
    fn address(&self) -> Result<IpAddr, EndpointError> {
        let allowed = "an IPv4 or IPv6 address of the interface, or a group";
        let text = self.text(allowed)?;
        let text = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        text.parse().map_err(|_| self.refuse(allowed))
    }

    fn checksum(&self) -> Result<bool, EndpointError> {
        match self.value {
            Some("verify") => Ok(true),
            Some("off") => Ok(false),
            _ => Err(self.refuse("verify or off")),
        }
    }

    fn within<T>(&self, from: T, to: T) -> Result<T, EndpointError>
    where
        T: std::str::FromStr + PartialOrd + fmt::Display + Copy,
    {
        let allowed = format!("a number from {from} to {to}");
        let n: T = self.parse(&allowed)?;
        if (from..=to).contains(&n) { Ok(n) } else { Err(self.refuse(allowed)) }
    }
}

pub(super) fn xdp(url: &str, at: &str, query: Option<&str>) -> Result<XdpUrl, EndpointError> {
    let (name, port) = place(url, "xdp", at)?;
    let mut xdp = XdpUrl::new(name, port);
    for p in pairs(url, query, "xdp", &XDP_KEYS)? {
        match p.key {
            "address" => xdp.address = Some(p.address()?),
            "queue" => xdp.queue = Some(p.within(0, 4095)?),
            "mode" => {
                xdp.mode = match p.value {
                    Some("auto") => XdpMode::Auto,
                    Some("native") => XdpMode::Native,
                    Some("generic") => XdpMode::Generic,
                    _ => return Err(p.refuse("auto, native or generic")),
                }
            }
            "zero_copy" => xdp.zero_copy = Some(p.switch()?),
            "checksum" => xdp.verify = p.checksum()?,
            "receive_buffer" => xdp.receive_buffer = Some(p.buffer()?),
            "batch" => xdp.batch = p.within(1, 4096)?,
            "spin" => xdp.spin = p.switch()?,
            "nap" => xdp.nap = p.nap()?,
            "busy_poll" => xdp.busy_poll = p.switch()?,
            other => unreachable!("'{other}' is in XDP_KEYS"),
        }
    }
    Ok(xdp)
}

pub(super) fn packet(url: &str, at: &str, query: Option<&str>) -> Result<PacketUrl, EndpointError> {
    let (name, port) = place(url, "packet", at)?;
    let mut packet = PacketUrl::new(name, port);
    for p in pairs(url, query, "packet", &PACKET_KEYS)? {
        match p.key {
            "address" => packet.address = Some(p.address()?),
            "checksum" => packet.verify = p.checksum()?,
            "receive_buffer" => packet.receive_buffer = Some(p.buffer()?),
            "batch" => packet.batch = p.within(1, 4096)?,
            "block_timeout" => {
                let allowed = "a time from 1ms to 1s";
                let time = crate::quantity::duration(p.text(allowed)?)
                    .map_err(|e| p.refuse(e.to_string()))?;
                let ms = time.as_millis();
                let ok = (1..=1000).contains(&ms);
                packet.block_timeout_ms =
                    if ok { ms as u32 } else { return Err(p.refuse(allowed)) };
            }
            "spin" => packet.spin = p.switch()?,
            other => unreachable!("'{other}' is in PACKET_KEYS"),
        }
    }
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::super::Endpoint;
    use super::*;

    fn refusal(url: &str) -> String {
        url.parse::<Endpoint>().expect_err(url).to_string()
    }

    #[test]
    fn every_key_of_both_schemes() {
        let plain: Endpoint = "xdp://eth0:9000".parse().unwrap();
        assert_eq!(plain, Endpoint::Xdp(XdpUrl::new("eth0", 9000)));
        let url = "XDP://enp1s0f0np0:9/?address=239.1.2.3&queue=3&mode=generic&zero_copy=0&\
                   checksum=off&receive_buffer=8MiB&batch=64&spin&busy_poll=1&nap=50us";
        let Ok(Endpoint::Xdp(x)) = url.parse() else { panic!("{url}") };
        assert_eq!(x.to_string(), "xdp://enp1s0f0np0:9");
        assert_eq!((x.address, x.queue), (Some("239.1.2.3".parse().unwrap()), Some(3)));
        assert_eq!((x.mode, x.zero_copy, x.verify), (XdpMode::Generic, Some(false), false));
        assert_eq!(
            (x.receive_buffer, x.batch, x.spin, x.busy_poll, x.nap),
            (Some(8 << 20), 64, true, true, Duration::from_micros(50))
        );
        let url = "packet://lo:9?address=[::1]&checksum=verify&receive_buffer=8MiB&batch=4096&\
                   block_timeout=10ms&spin";
        let Ok(Endpoint::Packet(p)) = url.parse() else { panic!("{url}") };
        assert_eq!(
            (p.to_string(), p.address),
            ("packet://lo:9".into(), Some("::1".parse().unwrap()))
        );
        assert_eq!((p.verify, p.batch, p.block_timeout_ms, p.spin), (true, 4096, 10, true));
    }

    #[test]
    fn each_wrong_place_or_value_gets_its_own_sentence() {
        for (url, parts) in [
            ("xdp:eth0:9", ["'//' is missing after 'xdp:'", "xdp://eth0:9000"]),
            ("xdp://eth0", ["the port is missing", "INTERFACE:PORT"]),
            ("xdp://:9", ["the interface is missing", "xdp://"]),
            ("xdp://10.0.0.1:9", ["'10.0.0.1' is an address", "?address=10.0.0.1"]),
            ("xdp://[::1]:9", ["is an address", "xdp://"]),
            ("xdp://eth0:0", ["port '0'", "1 to 65535"]),
            ("xdp://eth0:+9", ["port '+9'", "1 to 65535"]),
            ("xdp://a0123456789abcdef:9", ["no interface can be called", "xdp://"]),
            ("packet://a b:9", ["no interface can be called 'a b'", "packet://"]),
            ("xdp://e:9?queue=-1", ["queue=-1", "0 to 4095"]),
            ("xdp://e:9?mode=skb", ["mode=skb", "auto, native or generic"]),
            ("xdp://e:9?checksum=1", ["checksum=1", "verify or off"]),
            ("xdp://e:9?batch=0", ["batch=0", "1 to 4096"]),
            ("xdp://e:9?address=host", ["address=host", "IPv4 or IPv6"]),
            ("xdp://e:9?ttl=1", ["'ttl' for xdp", "queue"]),
            ("packet://e:9?queue=1", ["'queue' for packet", "block_timeout"]),
            ("packet://e:9?block_timeout=2s", ["block_timeout=2s", "1ms to 1s"]),
            ("packet://e:9?block_timeout=1us", ["block_timeout=1us", "1ms to 1s"]),
        ] {
            let told = refusal(url);
            assert!(parts.iter().all(|p| told.contains(p)), "{told}");
        }
    }
}
