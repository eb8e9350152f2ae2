//! `tcp://ADDRESS:PORT?framing=…&connect&…`: packets on byte streams.
//!
//! Refuses invalid addresses, ports outside 0..=65535, and values that a key does not allow.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use fullcount_core::source::FrameRule;
use fullcount_core::url::{SWITCH, Scheme, SchemeKey, authority};

use crate::udp::url::{BUFFER, BUFFER_TAKES, UdpHost, host_and_port};

/// What `frame_max` takes.
const FRAME: std::ops::RangeInclusive<u64> = 64..=64 << 20;
/// What `read` takes, bytes.
pub const READ_TAKES: std::ops::RangeInclusive<u64> = 16 << 10..=4 << 20;

/// `tcp://ADDRESS:PORT?key=value&…`
#[derive(Debug, Clone)]
pub struct TcpUrl {
    /// Address to listen on, or to connect to.
    pub host: UdpHost,
    /// Port; 0 lets the system choose when listening.
    pub port: u16,
    /// Connects instead of listening, and again after an end.
    pub connect: bool,
    /// How streams are cut; `None`: as the decoder says, else `u32be`.
    pub framing: Option<FrameRule>,
    /// Longest packet, framing included, bytes.
    pub frame_max: usize,
    /// Streams at a time.
    pub max_streams: usize,
    /// Bytes of one read at most.
    pub read: usize,
    /// `SO_RCVBUF`, bytes; `None`: the kernel adapts it.
    pub receive_buffer: Option<usize>,
    /// Silence of a stream that may send after which it is named; zero: never.
    pub stall: Duration,
    /// Silence after which the kernel asks whether the peer lives; zero: never.
    pub keepalive: Duration,
    /// The source ends once all streams have ended.
    pub until_closed: bool,
}

impl TcpUrl {
    /// The address, asking the system's resolver if the host is a name.
    ///
    /// # Errors
    /// The resolver's answer.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        self.host.resolve(self.port)
    }
}

impl fmt::Display for TcpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            UdpHost::Addr(ip) => write!(f, "tcp://{}", SocketAddr::new(*ip, self.port)),
            UdpHost::Name(name) => write!(f, "tcp://{name}:{}", self.port),
        }
    }
}

impl Scheme for TcpUrl {
    const NAME: &'static str = "tcp";
    const FORM: &'static str = "tcp://ADDRESS:PORT, for example tcp://0.0.0.0:9000 or tcp://[::]:9000; \
                                tcp://HOST:PORT?connect connects";
    const KEYS: &'static [SchemeKey<TcpUrl>] = &[
        SchemeKey::told(
            "connect",
            SWITCH,
            "0",
            "connect to the address instead of listening on it, and again after an end",
            |u, v| v.switch().map(|on| u.connect = on),
        ),
        SchemeKey::told(
            "framing",
            "one of u16be, u16le, u32be, u32le",
            "that of the detector, else `u32be`",
            "how a stream is cut into packets: a whole number of 16 or 32 bits, big- or little-endian, then so many bytes",
            |u, v| {
                let names = FrameRule::PREFIXES.map(|rule| (rule.name, rule));
                v.one_of(&names).map(|rule| u.framing = Some(rule))
            },
        ),
        SchemeKey::told(
            "frame_max",
            "a size from 64B to 64MiB",
            "1 MiB",
            "longest packet, framing included; a stream with a longer one is closed",
            |u, v| v.size(FRAME).map(|n| u.frame_max = n as usize),
        ),
        SchemeKey::told(
            "max_streams",
            "a number from 1 to 65536",
            "1024",
            "connections at a time; more are closed at once",
            |u, v| v.within(1..=1 << 16).map(|n| u.max_streams = n),
        ),
        SchemeKey::told(
            "read",
            "a size from 16KiB to 4MiB",
            "512 KiB",
            "bytes of one read at most; above 256 KiB of many streams less, 16 MiB together",
            |u, v| v.size(READ_TAKES).map(|n| u.read = n as usize),
        ),
        SchemeKey::told(
            "receive_buffer",
            BUFFER_TAKES,
            "the kernel adapts it (net.ipv4.tcp_rmem)",
            "receive buffer of each connection",
            |u, v| v.size(BUFFER).map(|n| u.receive_buffer = Some(n as usize)),
        ),
        SchemeKey::told(
            "stall",
            "0 or a time from 100ms to 1h",
            "10 s",
            "silence after which a stream that may send is named; 0: never",
            |u, v| v.duration(Duration::ZERO..=HOUR).map(|t| u.stall = t),
        ),
        SchemeKey::told(
            "keepalive",
            "0 or a time from 1s to 1h",
            "10 s",
            "silence after which the kernel asks the peer whether it lives; after 3 questions without answer the stream ends; 0: never",
            |u, v| v.duration(Duration::ZERO..=HOUR).map(|t| u.keepalive = t),
        ),
        SchemeKey::told(
            "until",
            "closed",
            "–",
            "`closed`: the source ends once streams have come and all have ended",
            |u, v| v.one_of(&[("closed", true)]).map(|on| u.until_closed = on),
        ),
    ];

    fn at(place: &str) -> Result<TcpUrl, String> {
        let (host, port) = host_and_port(authority::<TcpUrl>(place)?)?;
        Ok(TcpUrl {
            host,
            port,
            connect: false,
            framing: None,
            frame_max: 1 << 20,
            max_streams: 1024,
            read: 512 << 10,
            receive_buffer: None,
            stall: Duration::from_secs(10),
            keepalive: Duration::from_secs(10),
            until_closed: false,
        })
    }
}

const HOUR: Duration = Duration::from_secs(3600);
