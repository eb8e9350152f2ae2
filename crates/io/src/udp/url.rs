//! `udp://ADDRESS:PORT?interface=…&ttl=…&loop=…&broadcast=…`: datagrams on a socket.
//!
//! Parsing touches no system: names are resolved and interfaces looked up when the socket is opened. Refuses invalid
//! addresses, ports outside 0..=65535, and values that a key does not allow. Source: `docs/architecture.md`, "Endpoints
//! are URLs".

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;

use fullcount_core::url::{NotTaken, SWITCH, Scheme, SchemeKey, authority, port, split};

/// Smallest socket buffer that can be asked for: 4 KiB.
pub const BUFFER_MIN: u64 = 4 << 10;
/// Largest socket buffer that can be asked for: 1 GiB, the kernel's own limit.
pub const BUFFER_MAX: u64 = 1 << 30;
/// Both.
pub(crate) const BUFFER: RangeInclusive<u64> = BUFFER_MIN..=BUFFER_MAX;
/// [`BUFFER`] in words.
pub(crate) const BUFFER_TAKES: &str = "a size from 4KiB to 1GiB";
/// Longest nap of a receiver: 10 ms, a fifth of what the default buffer holds at 10 Gb/s.
pub const MOST_NAP: Duration = Duration::from_millis(10);
/// [`MOST_NAP`] in words.
pub(crate) const NAP_TAKES: &str = "0 or a time up to 10ms";
/// What `bind` takes, in words.
pub(crate) const BIND_TAKES: &str = "an address of this host, 192.0.2.7 or [2001:db8::7]";
/// Why a receiver refuses `bind`.
pub(crate) const BIND_SENDS: &str = "bind is for sending: the URL's address says where it listens";
/// Most ports of a range: each has a separate worker.
const MOST_PORTS: u16 = 64;

/// Address of a `udp://` URL: numeric, or a name that is looked up when the socket is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UdpHost {
    /// A numeric address.
    Addr(IpAddr),
    /// A name.
    Name(String),
}

/// Network interface, by its own address, name or number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceChoice {
    /// IPv4 address of the interface.
    V4(Ipv4Addr),
    /// IPv6 address of the interface.
    V6(Ipv6Addr),
    /// Number (`ip link` prints it in front of the name).
    Index(u32),
    /// Name such as `eth0`.
    Name(String),
}

impl fmt::Display for InterfaceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterfaceChoice::V4(a) => a.fmt(f),
            InterfaceChoice::V6(a) => a.fmt(f),
            InterfaceChoice::Index(i) => i.fmt(f),
            InterfaceChoice::Name(n) => f.write_str(n),
        }
    }
}

/// How datagrams are received and sent. Chosen once, when the socket is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// The fastest that a probe finds: gro, otherwise mmsg, otherwise plain.
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
    /// Names in URLs, configuration and messages.
    pub const NAMES: [(&str, Engine); 5] = [
        ("auto", Engine::Auto),
        ("plain", Engine::Plain),
        ("mmsg", Engine::Mmsg),
        ("gro", Engine::Gro),
        ("uring", Engine::Uring),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let own = Engine::NAMES.iter().find(|(_, engine)| *engine == self);
        own.map_or("auto", |(name, _)| name)
    }
}

/// `udp://ADDRESS:PORT?key=value&…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpUrl {
    /// Address to bind (receiving) or to send to; a multicast group is joined.
    pub host: UdpHost,
    /// Port, 0..=65535; 0 lets the system choose when receiving.
    pub port: u16,
    /// Interface of a multicast group, of a broadcast, or to which a socket is tied.
    pub interface: Option<InterfaceChoice>,
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
    pub nap: Option<Duration>,
    /// Number of source ports to send from in turn, 1..=64.
    pub source_ports: u8,
    /// Local address to send from. Default: the system's choice. Receiving endpoints refuse it.
    pub bind: Option<IpAddr>,
}

impl UdpUrl {
    /// The URL without any key.
    pub fn new(addr: SocketAddr) -> UdpUrl {
        UdpUrl::at_host(UdpHost::Addr(addr.ip()), addr.port())
    }

    fn at_host(host: UdpHost, port: u16) -> UdpUrl {
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
            bind: None,
        }
    }

    /// The address, asking the system's resolver if the host is a name (its first answer; IPv4 first).
    ///
    /// # Errors
    /// The resolver's answer if the name is unknown.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        self.host.resolve(self.port)
    }
}

impl UdpHost {
    /// The address with this port, asking the system's resolver if it is a name (its first answer; IPv4 first).
    ///
    /// # Errors
    /// The resolver's answer if the name is unknown.
    pub fn resolve(&self, port: u16) -> std::io::Result<SocketAddr> {
        match self {
            UdpHost::Addr(ip) => Ok(SocketAddr::new(*ip, port)),
            UdpHost::Name(name) => {
                let mut all: Vec<SocketAddr> = (name.as_str(), port).to_socket_addrs()?.collect();
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
            UdpHost::Addr(ip) => write!(f, "udp://{}", SocketAddr::new(*ip, self.port)),
            UdpHost::Name(name) => write!(f, "udp://{name}:{}", self.port),
        }
    }
}

impl Scheme for UdpUrl {
    const NAME: &'static str = "udp";
    const FORM: &'static str =
        "udp://ADDRESS:PORT, for example udp://0.0.0.0:9000 or udp://[::]:9000";
    const KEYS: &'static [SchemeKey<UdpUrl>] = &[
        SchemeKey::told(
            "interface",
            "write its name, its number or its address",
            "the system's choice",
            "of a multicast group or a broadcast; or what a socket is tied to",
            |u, v| v.text().map(|name| u.interface = Some(interface_of(name))),
        ),
        SchemeKey::told(
            "ttl",
            "a number from 0 to 255",
            "the system's: 1 for multicast",
            "TTL or hop limit of what is sent",
            |u, v| v.parse().map(|n| u.ttl = Some(n)),
        ),
        SchemeKey::told(
            "loop",
            SWITCH,
            "1",
            "whether multicast that is sent comes back to this host",
            |u, v| v.switch().map(|on| u.loop_ = Some(on)),
        ),
        SchemeKey::told(
            "broadcast",
            SWITCH,
            "only for 255.255.255.255",
            "whether sending to a broadcast address is allowed",
            |u, v| v.switch().map(|on| u.broadcast = Some(on)),
        ),
        SchemeKey::told(
            "receive_buffer",
            BUFFER_TAKES,
            "`source.receive_buffer`",
            "receive buffer of the socket",
            |u, v| v.size(BUFFER).map(|bytes| u.receive_buffer = Some(bytes)),
        ),
        SchemeKey::told(
            "send_buffer",
            BUFFER_TAKES,
            "4 MiB",
            "send buffer of the socket",
            |u, v| v.size(BUFFER).map(|bytes| u.send_buffer = Some(bytes)),
        ),
        SchemeKey::told(
            "engine",
            "one of auto, plain, mmsg, gro, uring (receiving only)",
            "`auto`",
            "as `source.engine`; for sending `gro` means segmentation offload (GSO)",
            |u, v| v.one_of(&Engine::NAMES).map(|engine| u.engine = engine),
        ),
        SchemeKey::told("spin", SWITCH, "0", "as `source.busy_poll`", |u, v| {
            v.switch().map(|on| u.spin = on)
        }),
        SchemeKey::told(
            "nap",
            NAP_TAKES,
            "0.2 to 1 ms, less where the receive buffer is small; 0 with `plain`",
            "as `source.nap`",
            |u, v| v.duration(Duration::ZERO..=MOST_NAP).map(|nap| u.nap = Some(nap)),
        ),
        SchemeKey::told(
            "source_ports",
            "a number from 1 to 64",
            "1",
            "source ports that `send` uses in turn",
            |u, v| v.within(1..=64).map(|n| u.source_ports = n),
        ),
        SchemeKey::told(
            "bind",
            BIND_TAKES,
            "the system's choice",
            "sending only: local address of the socket",
            |u, v| own_address(v.text()?).map(|ip| u.bind = Some(ip)),
        ),
    ];

    fn at(place: &str) -> Result<UdpUrl, String> {
        let (host, port) = host_and_port(authority::<UdpUrl>(place)?)?;
        Ok(UdpUrl::at_host(host, port))
    }
}

/// `HOST:PORT`, IPv6 addresses in brackets.
///
/// # Errors
/// What is wrong with it, as a clause.
pub(crate) fn host_and_port(place: &str) -> Result<(UdpHost, u16), String> {
    let (host, number) = place.rsplit_once(':').ok_or("the port is missing")?;
    if host.starts_with('[') && !host.ends_with(']') {
        return Err("the port is missing or ']' is not closed".into());
    }
    let port = port(number, 0..=u16::MAX)?;
    Ok((host_of(host)?, port))
}

fn host_of(host: &str) -> Result<UdpHost, String> {
    if let Some(v6) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        let ip: Result<Ipv6Addr, _> = v6.parse();
        let ip = ip.map_err(|_| format!("'{v6}' is not an IPv6 address"))?;
        return Ok(UdpHost::Addr(IpAddr::V6(ip)));
    }
    if host.is_empty() {
        return Err("the address is missing".into());
    }
    if host.contains(':') {
        return Err(format!("IPv6 addresses stand in brackets: [{host}]"));
    }
    let name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    match host.parse::<Ipv4Addr>() {
        Ok(v4) => Ok(UdpHost::Addr(IpAddr::V4(v4))),
        // Four numbers with a typing error are no name.
        Err(_) if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
            Err(format!("'{host}' is not an IPv4 address"))
        }
        Err(_) if host.bytes().all(name) => Ok(UdpHost::Name(host.into())),
        Err(_) => Err(format!("'{host}' is neither an address nor a name")),
    }
}

/// The address of a `bind` key; brackets around IPv6 may be left out.
pub(crate) fn own_address(text: &str) -> Result<IpAddr, NotTaken> {
    let text = text.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(text);
    text.parse().map_err(|_| NotTaken::Other)
}

fn interface_of(text: &str) -> InterfaceChoice {
    if let Ok(v4) = text.parse() {
        return InterfaceChoice::V4(v4);
    }
    if let Ok(v6) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return InterfaceChoice::V6(v6);
    }
    text.parse().map_or_else(|_| InterfaceChoice::Name(text.into()), InterfaceChoice::Index)
}

/// The URLs of `udp://HOST:FIRST-LAST`, one for each port; any other URL is returned unchanged.
///
/// # Errors
/// A range that runs backwards, holds port 0 or more than 64 ports.
pub fn each_port(url: &str) -> Result<Vec<String>, &'static str> {
    let (place, query) = split(url);
    let range = place.strip_prefix("udp://").and_then(|place| {
        let (host, ports) = place.rsplit_once(':')?;
        Some((host, ports.split_once('-')?))
    });
    let Some((host, (first, last))) = range else { return Ok(vec![url.to_owned()]) };
    let ends = port(first, 1..=u16::MAX).and_then(|first| Ok((first, port(last, 1..=u16::MAX)?)));
    match ends {
        Ok((first, last)) if last >= first && last - first < MOST_PORTS => {
            let query = if query.is_empty() { String::new() } else { format!("?{query}") };
            Ok((first..=last).map(|port| format!("udp://{host}:{port}{query}")).collect())
        }
        _ => Err("a range of ports is FIRST-LAST, both from 1 to 65535, at most 64 ports"),
    }
}
