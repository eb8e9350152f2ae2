//! Endpoints are URLs, the same ones for every verb: where packets come from and go to.
//!
//! `udp://ADDRESS:PORT?interface=…&ttl=…&loop=…&broadcast=…`, `pcap:FILE?preload&repeat=N&shift&…`,
//! `xdp://INTERFACE:PORT?…` and `packet://INTERFACE:PORT?…`.
//! Parsing touches no system: names are resolved and files opened later. Refuses: unknown schemes
//! (listing the known ones), schemes of a later version by name, unknown or doubled keys, values out
//! of range; each sentence names scheme, key, value and what is allowed. A file name cannot hold
//! `?`. Source: `docs/architecture.md`, "Endpoints are URLs".

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use crate::quantity;

mod interface;
pub use interface::{PacketUrl, XdpMode, XdpUrl};

/// Schemes that this version opens.
pub const SCHEMES: [&str; 4] = ["udp", "pcap", "xdp", "packet"];
/// Schemes that are part of the design and not of this version.
pub const LATER_SCHEMES: [&str; 5] = ["tcp", "stcp", "spead+udp", "spead+tcp", "kafka"];

/// Smallest socket buffer that can be asked for: 4 KiB.
pub const BUFFER_MIN: u64 = 4 << 10;
/// Largest socket buffer that can be asked for: 1 GiB, the kernel's own limit.
pub const BUFFER_MAX: u64 = 1 << 30;

/// A place where packets come from or go to.
#[derive(Debug, Clone, PartialEq)]
pub enum Endpoint {
    /// Datagrams on a socket.
    Udp(UdpUrl),
    /// Datagrams recorded in a file.
    Pcap(PcapUrl),
    /// Datagrams from an interface's driver.
    Xdp(XdpUrl),
    /// Datagrams from an interface's copies.
    Packet(PacketUrl),
}

/// Why an endpoint was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No `scheme:` in front.
    #[error("'{url}' has no scheme: {}", meant(url))]
    NoScheme {
        /// As typed.
        url: String,
    },
    /// A scheme that nobody knows.
    #[error("'{url}': unknown scheme '{scheme}'; known are {}", SCHEMES.join(", "))]
    UnknownScheme {
        /// As typed.
        url: String,
        /// The part before the colon.
        scheme: String,
    },
    /// A scheme that a later version brings.
    #[error(
        "'{url}': scheme '{scheme}' is not yet supported by this version; supported are {}",
        SCHEMES.join(", ")
    )]
    NotYet {
        /// As typed.
        url: String,
        /// The part before the colon.
        scheme: String,
    },
    /// The address part of a `udp://` URL.
    #[error(
        "'{url}': {problem}; write udp://ADDRESS:PORT, for example udp://0.0.0.0:9000 or udp://[::]:9000"
    )]
    Address {
        /// As typed.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The place in an `xdp://` or `packet://` URL.
    #[error(
        "'{url}': {problem}; write {scheme}://INTERFACE:PORT, for example {scheme}://eth0:9000"
    )]
    Interface {
        /// As typed.
        url: String,
        /// Its scheme.
        scheme: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// No file name after `pcap:`.
    #[error("'{url}' names no file; write for example pcap:run.pcapng?flat-out")]
    NoFile {
        /// As typed.
        url: String,
    },
    /// A key that this scheme does not have.
    #[error("'{url}': unknown key '{key}' for {scheme}; known are {known}")]
    UnknownKey {
        /// As typed.
        url: String,
        /// Scheme whose keys are listed.
        scheme: &'static str,
        /// The key.
        key: String,
        /// Keys of the scheme.
        known: String,
    },
    /// The same key twice, or two keys that exclude each other.
    #[error("'{url}': '{key}' and '{other}' cannot both be given")]
    Conflict {
        /// As typed.
        url: String,
        /// One key.
        key: String,
        /// The other.
        other: String,
    },
    /// A value that the key does not take.
    #[error("'{url}': {key}={value} is not allowed; {allowed}")]
    Value {
        /// As typed.
        url: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
}

/// Address of a `udp://` URL: numeric, or a name that is looked up when the socket is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A numeric address.
    Addr(IpAddr),
    /// A name.
    Name(String),
}

/// Network interface, by its own address, name or number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interface {
    /// IPv4 address of the interface.
    V4(Ipv4Addr),
    /// IPv6 address of the interface.
    V6(Ipv6Addr),
    /// Number (`ip link` prints it in front of the name).
    Index(u32),
    /// Name such as `eth0`.
    Name(String),
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interface::V4(a) => a.fmt(f),
            Interface::V6(a) => a.fmt(f),
            Interface::Index(i) => i.fmt(f),
            Interface::Name(n) => f.write_str(n),
        }
    }
}

/// How datagrams are received and sent. Chosen once, when the socket is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// The fastest that a probe finds: gro, else mmsg, else plain.
    #[default]
    Auto,
    /// One call per datagram; works on every system.
    Plain,
    /// `recvmmsg`/`sendmmsg` without offload.
    Mmsg,
    /// `recvmmsg` with UDP GRO; `sendmmsg` with UDP GSO.
    Gro,
    /// Multishot `recvmsg` of io_uring with UDP GRO; receiving only, never chosen by `Auto`.
    Uring,
}

impl Engine {
    /// Name in URLs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::Plain => "plain",
            Engine::Mmsg => "mmsg",
            Engine::Gro => "gro",
            Engine::Uring => "uring",
        }
    }
}

/// `udp://ADDRESS:PORT?key=value&…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpUrl {
    /// Address to bind (receiving) or to send to; a multicast group is joined.
    pub host: Host,
    /// Port, 0..=65535; 0 lets the system choose when receiving.
    pub port: u16,
    /// Interface of a multicast group, of a broadcast, or to which a socket is tied.
    pub interface: Option<Interface>,
    /// Multicast TTL or hop limit, 0..=255 (unicast TTL as well). System's default: 1 for multicast.
    pub ttl: Option<u8>,
    /// Whether multicast that is sent comes back to receivers on this host. Default: yes.
    pub loop_: Option<bool>,
    /// Whether sending to a broadcast address is allowed. Default: only for 255.255.255.255.
    pub broadcast: Option<bool>,
    /// Receive buffer in bytes, 4 KiB..=1 GiB.
    pub receive_buffer: Option<u64>,
    /// Send buffer in bytes, 4 KiB..=1 GiB.
    pub send_buffer: Option<u64>,
    /// Way to receive or send.
    pub engine: Engine,
    /// Poll without sleeping: lowest loss, one core at 100 %.
    pub spin: bool,
    /// How long to sleep on a timer in the middle of a stream instead of being woken by each arrival, up to
    /// 10 ms; 0: never. Default: 0.2 to 1 ms, less where the receive buffer is small.
    pub nap: Option<std::time::Duration>,
    /// Number of source ports to send from in turn, 1..=64.
    pub source_ports: u8,
}

/// Longest nap of a receiver: 10 ms, a fifth of what the default buffer holds at 10 Gb/s.
pub const MOST_NAP: std::time::Duration = std::time::Duration::from_millis(10);

const UDP_KEYS: [&str; 10] = [
    "interface",
    "ttl",
    "loop",
    "broadcast",
    "receive_buffer",
    "send_buffer",
    "engine",
    "spin",
    "nap",
    "source_ports",
];

impl UdpUrl {
    /// The URL without any key.
    pub fn new(addr: SocketAddr) -> UdpUrl {
        UdpUrl::at(Host::Addr(addr.ip()), addr.port())
    }

    fn at(host: Host, port: u16) -> UdpUrl {
        UdpUrl {
            host,
            port,
            interface: None,
            ttl: None,
            loop_: None,
            broadcast: None,
            receive_buffer: None,
            send_buffer: None,
            engine: Engine::Auto,
            spin: false,
            nap: None,
            source_ports: 1,
        }
    }

    /// The address, asking the system's resolver if the host is a name (its first answer; IPv4 first).
    ///
    /// # Errors
    /// The resolver's answer if the name is unknown.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        match &self.host {
            Host::Addr(ip) => Ok(SocketAddr::new(*ip, self.port)),
            Host::Name(name) => {
                let mut all: Vec<SocketAddr> =
                    (name.as_str(), self.port).to_socket_addrs()?.collect();
                all.sort_by_key(SocketAddr::is_ipv6);
                let none = || std::io::Error::other(format!("the name '{name}' has no address"));
                all.first().copied().ok_or_else(none)
            }
        }
    }
}

impl fmt::Display for UdpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Addr(ip) => write!(f, "udp://{}", SocketAddr::new(*ip, self.port)),
            Host::Name(name) => write!(f, "udp://{name}:{}", self.port),
        }
    }
}

/// How often a capture is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// So many times; 1 is once.
    Times(NonZeroU64),
    /// Until stopped.
    Forever,
}

/// How fast a capture is played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PcapSpeed {
    /// As recorded.
    Recorded,
    /// So many times faster, 0.000001..=1000000.
    Factor(f64),
    /// As fast as it is taken: back-pressure instead of loss.
    FlatOut,
}

/// Which packets of a capture count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// IPv4 and IPv6; fragments are put together.
    Any,
    /// IPv4 datagrams in one packet: what the readouts send whose format knows no other.
    WholeV4,
}

/// `pcap:FILE?key=value&…`
#[derive(Debug, Clone, PartialEq)]
pub struct PcapUrl {
    /// Capture file, pcap or pcapng.
    pub path: PathBuf,
    /// Read the whole file into memory first.
    pub preload: bool,
    /// How often.
    pub repeat: Repeat,
    /// Move counters and times on with each repeat.
    pub shift: bool,
    /// How fast.
    pub speed: PcapSpeed,
    /// Each packet keeps its own recorded time: only those of the same time make a train.
    pub exact_times: bool,
    /// Only datagrams to this UDP destination port, 1..=65535.
    pub port: Option<u16>,
    /// Which packets count; `None`: as the detector's format has it, else any.
    pub ip: Option<Ip>,
}

const PCAP_KEYS: [&str; 8] =
    ["preload", "repeat", "shift", "speed", "flat-out", "exact-times", "port", "ip"];

impl PcapUrl {
    /// The file played once at recorded speed.
    pub fn new(path: impl Into<PathBuf>) -> PcapUrl {
        PcapUrl {
            path: path.into(),
            preload: false,
            repeat: Repeat::Times(NonZeroU64::MIN),
            shift: false,
            speed: PcapSpeed::Recorded,
            exact_times: false,
            port: None,
            ip: None,
        }
    }
}

impl fmt::Display for PcapUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pcap:{}", self.path.display())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Udp(u) => u.fmt(f),
            Endpoint::Pcap(p) => p.fmt(f),
            Endpoint::Xdp(x) => x.fmt(f),
            Endpoint::Packet(p) => p.fmt(f),
        }
    }
}

/// What a URL without a scheme was most likely meant to be.
fn meant(url: &str) -> String {
    let place = url.split_once('?').map_or(url, |(place, _)| place);
    let host = |(host, port): &(&str, &str)| {
        !host.is_empty() && !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit())
    };
    let ends = [".pcap", ".pcapng"];
    if place.rsplit_once(':').filter(host).is_some() {
        return format!("is udp://{url} meant?");
    }
    if ends.iter().any(|end| place.ends_with(end)) {
        return format!("is pcap:{url} meant?");
    }
    "write for example udp://0.0.0.0:9000 or pcap:run.pcapng".into()
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Endpoint, EndpointError> {
        let none = || EndpointError::NoScheme { url: url.into() };
        let (scheme, rest) = url.split_once(':').ok_or_else(none)?;
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        // `run.pcap:x` or `10.0.0.1:9000` is a file or an address without a scheme.
        let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        if !starts || !scheme.chars().all(letters) || scheme.contains('.') {
            return Err(none());
        }
        let scheme = scheme.to_ascii_lowercase();
        let (place, query) = match rest.split_once('?') {
            Some((place, query)) => (place, Some(query)),
            None => (rest, None),
        };
        match scheme.as_str() {
            "udp" => udp(url, place, query).map(Endpoint::Udp),
            "pcap" => pcap(url, place, query).map(Endpoint::Pcap),
            "xdp" => interface::xdp(url, place, query).map(Endpoint::Xdp),
            "packet" => interface::packet(url, place, query).map(Endpoint::Packet),
            // `localhost:9000`: what follows the colon is a port, so the scheme is missing.
            _ if place.chars().all(|c| c.is_ascii_digit()) => Err(none()),
            s if LATER_SCHEMES.contains(&s) => {
                Err(EndpointError::NotYet { url: url.into(), scheme })
            }
            _ => Err(EndpointError::UnknownScheme { url: url.into(), scheme }),
        }
    }
}

/// One `key` or `key=value` of a URL, with what its error sentences need.
struct Pair<'a> {
    url: &'a str,
    key: &'a str,
    value: Option<&'a str>,
}

impl<'a> Pair<'a> {
    fn refuse(&self, allowed: impl Into<String>) -> EndpointError {
        EndpointError::Value {
            url: self.url.into(),
            key: self.key.into(),
            value: self.value.unwrap_or("").into(),
            allowed: allowed.into(),
        }
    }

    fn text(&self, allowed: &str) -> Result<&'a str, EndpointError> {
        self.value.filter(|v| !v.is_empty()).ok_or_else(|| self.refuse(allowed))
    }

    fn parse<T: FromStr>(&self, allowed: &str) -> Result<T, EndpointError> {
        self.text(allowed)?.parse().map_err(|_| self.refuse(allowed))
    }

    /// `key`, `key=1`, `key=true`, `key=yes` and their opposites.
    fn switch(&self) -> Result<bool, EndpointError> {
        match self.value {
            None | Some("1" | "true" | "yes" | "on") => Ok(true),
            Some("0" | "false" | "no" | "off") => Ok(false),
            Some(_) => Err(self.refuse("write 1 or 0")),
        }
    }

    /// `0` or a duration up to 10 ms.
    fn nap(&self) -> Result<std::time::Duration, EndpointError> {
        let allowed = "0 or a time up to 10ms";
        let text = self.text(allowed)?;
        let nap = match text {
            "0" => std::time::Duration::ZERO,
            _ => quantity::duration(text).map_err(|e| self.refuse(e.to_string()))?,
        };
        let ok = nap <= MOST_NAP;
        ok.then_some(nap).ok_or_else(|| self.refuse(allowed))
    }

    fn buffer(&self) -> Result<u64, EndpointError> {
        let allowed = "a size from 4KiB to 1GiB";
        let bytes = quantity::size(self.text(allowed)?).map_err(|e| self.refuse(e.to_string()))?;
        let ok = (BUFFER_MIN..=BUFFER_MAX).contains(&bytes);
        ok.then_some(bytes).ok_or_else(|| self.refuse(allowed))
    }
}

/// Splits the query, refusing empty, unknown and doubled keys.
fn pairs<'a>(
    url: &'a str,
    query: Option<&'a str>,
    scheme: &'static str,
    known: &[&str],
) -> Result<Vec<Pair<'a>>, EndpointError> {
    let mut all: Vec<Pair<'a>> = Vec::new();
    for part in query.unwrap_or("").split('&').filter(|p| !p.is_empty()) {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (part, None),
        };
        if !known.contains(&key) {
            return Err(EndpointError::UnknownKey {
                url: url.into(),
                scheme,
                key: key.into(),
                known: known.join(", "),
            });
        }
        if all.iter().any(|p| p.key == key) {
            return Err(conflict(url, key, key));
        }
        all.push(Pair { url, key, value });
    }
    Ok(all)
}

fn conflict(url: &str, key: &str, other: &str) -> EndpointError {
    EndpointError::Conflict { url: url.into(), key: key.into(), other: other.into() }
}

fn udp(url: &str, place: &str, query: Option<&str>) -> Result<UdpUrl, EndpointError> {
    let bad = |problem: &str| EndpointError::Address { url: url.into(), problem: problem.into() };
    let place = place.strip_prefix("//").ok_or_else(|| bad("'//' is missing after 'udp:'"))?;
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = place.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
    if host.starts_with('[') && !host.ends_with(']') {
        return Err(bad("the port is missing or ']' is not closed"));
    }
    let port = match port.bytes().all(|b| b.is_ascii_digit()) {
        true => port.parse().map_err(|_| bad(&format!("port '{port}' is not in 0..=65535")))?,
        false => return Err(bad(&format!("port '{port}' is not a number"))),
    };
    let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(v6) => {
            let ip: Result<Ipv6Addr, _> = v6.parse();
            Host::Addr(IpAddr::V6(ip.map_err(|_| bad(&format!("'{v6}' is not an IPv6 address")))?))
        }
        None if host.is_empty() => return Err(bad("the address is missing")),
        None if host.contains(':') => {
            return Err(bad(&format!("IPv6 addresses stand in brackets: [{host}]")));
        }
        None => match host.parse::<Ipv4Addr>() {
            Ok(v4) => Host::Addr(IpAddr::V4(v4)),
            // Four numbers with a typing error are no name.
            Err(_) if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                return Err(bad(&format!("'{host}' is not an IPv4 address")));
            }
            Err(_) if host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) => {
                Host::Name(host.into())
            }
            Err(_) => return Err(bad(&format!("'{host}' is neither an address nor a name"))),
        },
    };
    let mut udp = UdpUrl::at(host, port);
    for p in pairs(url, query, "udp", &UDP_KEYS)? {
        match p.key {
            "interface" => {
                let name = p.text("write its name, its number or its address")?;
                udp.interface = Some(interface_of(name));
            }
            "ttl" => udp.ttl = Some(p.parse("a number from 0 to 255")?),
            "loop" => udp.loop_ = Some(p.switch()?),
            "broadcast" => udp.broadcast = Some(p.switch()?),
            "receive_buffer" => udp.receive_buffer = Some(p.buffer()?),
            "send_buffer" => udp.send_buffer = Some(p.buffer()?),
            "engine" => {
                let all = [Engine::Auto, Engine::Plain, Engine::Mmsg, Engine::Gro, Engine::Uring];
                let allowed = "one of auto, plain, mmsg, gro, uring (receiving only)";
                let name = p.text(allowed)?;
                let found = all.into_iter().find(|e| e.name() == name);
                udp.engine = found.ok_or_else(|| p.refuse(allowed))?;
            }
            "spin" => udp.spin = p.switch()?,
            "nap" => udp.nap = Some(p.nap()?),
            "source_ports" => {
                let allowed = "a number from 1 to 64";
                let n: u8 = p.parse(allowed)?;
                let ok = (1..=64).contains(&n);
                udp.source_ports = ok.then_some(n).ok_or_else(|| p.refuse(allowed))?;
            }
            other => unreachable!("'{other}' is in UDP_KEYS"),
        }
    }
    Ok(udp)
}

fn interface_of(text: &str) -> Interface {
    if let Ok(v4) = text.parse() {
        return Interface::V4(v4);
    }
    if let Ok(v6) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Interface::V6(v6);
    }
    text.parse().map_or_else(|_| Interface::Name(text.into()), Interface::Index)
}

fn pcap(url: &str, place: &str, query: Option<&str>) -> Result<PcapUrl, EndpointError> {
    // `pcap:///data/run.pcap` is the same file as `pcap:/data/run.pcap`.
    let path = place.strip_prefix("//").filter(|p| p.starts_with('/')).unwrap_or(place);
    if path.is_empty() {
        return Err(EndpointError::NoFile { url: url.into() });
    }
    let mut pcap = PcapUrl::new(path);
    let mut speed_key: Option<&str> = None;
    for p in pairs(url, query, "pcap", &PCAP_KEYS)? {
        match p.key {
            "preload" => pcap.preload = p.switch()?,
            "shift" => pcap.shift = p.switch()?,
            "exact-times" => pcap.exact_times = p.switch()?,
            "repeat" => {
                let allowed = "a number from 1 or 'forever'";
                pcap.repeat = match p.text(allowed)? {
                    "forever" => Repeat::Forever,
                    _ => Repeat::Times(p.parse(allowed)?),
                };
            }
            "speed" => {
                let allowed = "a factor from 0.000001 to 1000000";
                let factor: f64 = p.parse(allowed)?;
                let ok = (1e-6..=1e6).contains(&factor);
                let factor = ok.then_some(factor).ok_or_else(|| p.refuse(allowed))?;
                if let Some(other) = speed_key.replace(p.key) {
                    return Err(conflict(url, p.key, other));
                }
                pcap.speed = PcapSpeed::Factor(factor);
            }
            "flat-out" => {
                if p.switch()? {
                    if let Some(other) = speed_key.replace(p.key) {
                        return Err(conflict(url, p.key, other));
                    }
                    pcap.speed = PcapSpeed::FlatOut;
                }
            }
            "port" => {
                let allowed = "a UDP port from 1 to 65535";
                let port: std::num::NonZeroU16 = p.parse(allowed)?;
                pcap.port = Some(port.get());
            }
            "ip" => {
                let allowed = "any or whole-v4";
                pcap.ip = Some(match p.text(allowed)? {
                    "any" => Ip::Any,
                    "whole-v4" => Ip::WholeV4,
                    _ => return Err(p.refuse(allowed)),
                });
            }
            other => unreachable!("'{other}' is in PCAP_KEYS"),
        }
    }
    Ok(pcap)
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
