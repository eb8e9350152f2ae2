//! `spead+TRANSPORT:PLACE?key=value&…`: the URL of the transport with `spead+` in front; keys of SPEAD stand among its own.
//!
//! Receiving: `spead+udp://`, `spead+tcp://`, `spead+pcap:`, `spead+xdp://`, `spead+packet://`. Sending: `spead+udp://`, `spead+tcp://`,
//! `spead+pcap:FILE` (a capture is written). Refuses keys that neither SPEAD nor the transport has, and values outside their ranges.
//! Source: `docs/architecture.md`, "Endpoints are URLs".

use std::path::PathBuf;
use std::time::Duration;

use fullcount_core::source::UrlKey;
use fullcount_core::url::{self, NotTaken, Scheme, SchemeKey, UrlError, UrlProblem, split};
use fullcount_spead::send::{CutRules, PaceSettings, PayloadSize, SenderConfig};
use fullcount_spead::wire::{self, id};

use crate::udp::url::{BIND_TAKES, BUFFER, BUFFER_TAKES, UdpUrl, own_address};

mod input;
mod output;
pub(super) mod shared;

pub use input::SpeadInput;
pub use output::SpeadOutput;

/// What carries the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeadTransport {
    /// A packet in each datagram.
    Udp,
    /// A byte stream.
    Tcp,
    /// Datagrams in a file.
    Pcap,
    /// Datagrams from an interface's driver.
    Xdp,
    /// Datagrams from an interface's copies.
    Packet,
}

impl SpeadTransport {
    /// Scheme with `spead+`.
    pub fn scheme(self) -> &'static str {
        match self {
            SpeadTransport::Udp => "spead+udp",
            SpeadTransport::Tcp => "spead+tcp",
            SpeadTransport::Pcap => "spead+pcap",
            SpeadTransport::Xdp => "spead+xdp",
            SpeadTransport::Packet => "spead+packet",
        }
    }

    /// Packets may be lost on the way, a stop heap among them, and nothing else says that the stream has ended.
    fn loses(self) -> bool {
        matches!(self, SpeadTransport::Udp | SpeadTransport::Xdp | SpeadTransport::Packet)
    }

    /// A sender may fall silent: its host is gone or its process stands still.
    fn may_stall(self) -> bool {
        self != SpeadTransport::Pcap
    }

    /// All, in the order in which people see them.
    pub const ALL: [SpeadTransport; 5] = [
        SpeadTransport::Udp,
        SpeadTransport::Tcp,
        SpeadTransport::Pcap,
        SpeadTransport::Xdp,
        SpeadTransport::Packet,
    ];
}

/// How heaps lie on a byte stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpeadFraming {
    /// Packets back to back, as spead2 sends them.
    #[default]
    Packets,
    /// Each heap is one packet of any length.
    Heap,
}

/// Which item of a heap is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemChoice {
    /// By its id.
    Id(u64),
    /// By the name in its descriptor.
    Name(String),
}

impl Default for ItemChoice {
    fn default() -> ItemChoice {
        ItemChoice::Id(id::FIRST_CHOSEN)
    }
}

impl ItemChoice {
    /// `0x1000`, `4096` or a name.
    fn read(text: &str) -> Result<ItemChoice, NotTaken> {
        let number = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        match number {
            Some(id) if id > wire::id::STREAM_CTRL => Ok(ItemChoice::Id(id)),
            Some(_) => Err(NotTaken::Other),
            None if text.starts_with("0x") => Err(NotTaken::Other),
            None => Ok(ItemChoice::Name(text.to_owned())),
        }
    }
}

const FRAMINGS: [(&str, SpeadFraming); 2] =
    [("packets", SpeadFraming::Packets), ("heap", SpeadFraming::Heap)];
const TIMES: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
const TIME_TAKES: &str = "0 (never) or a time up to 1h";
const ADDRESS_TAKES: &str = "an address with a port, 192.0.2.1:9100 or [2001:db8::1]:9100";
const ITEM_TAKES: &str = "an item id from 7, 0x1000, or a name";

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// A TCP endpoint: the place of a `udp://` URL, and buffers.
struct TcpUrl(UdpUrl);

impl Scheme for TcpUrl {
    const NAME: &'static str = "spead+tcp";
    const FORM: &'static str =
        "spead+tcp://ADDRESS:PORT, for example spead+tcp://0.0.0.0:8888 or spead+tcp://[::]:8888";
    const KEYS: &'static [SchemeKey<TcpUrl>] = &[
        SchemeKey::told(
            "receive_buffer",
            BUFFER_TAKES,
            "the system's, which grows",
            "receive buffer of the socket",
            |u, v| v.size(BUFFER).map(|bytes| u.0.receive_buffer = Some(bytes)),
        ),
        SchemeKey::told(
            "send_buffer",
            BUFFER_TAKES,
            "the system's, which grows",
            "send buffer of the socket",
            |u, v| v.size(BUFFER).map(|bytes| u.0.send_buffer = Some(bytes)),
        ),
        SchemeKey::told(
            "bind",
            BIND_TAKES,
            "the system's choice",
            "sending only: local address of the connection",
            |u, v| own_address(v.text()?).map(|ip| u.0.bind = Some(ip)),
        ),
    ];

    fn at(place: &str) -> Result<TcpUrl, String> {
        UdpUrl::at(place).map(TcpUrl).map_err(|why| why.replace("udp:", "spead+tcp:"))
    }
}

/// A URL taken apart: the transport's own one, and what SPEAD is told.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeadUrl<T> {
    /// What carries the packets.
    pub transport: SpeadTransport,
    /// The transport's URL: without `spead+` and without SPEAD's keys. Of TCP it is not used.
    pub inner: String,
    /// Address of UDP and TCP.
    pub address: Option<UdpUrl>,
    /// The file of a capture.
    pub file: Option<PathBuf>,
    /// What SPEAD is told.
    pub told: T,
}

/// What these keys of SPEAD say together.
fn told<T: Scheme>(mut keys: Vec<&str>) -> Result<T, UrlError> {
    // The first sets many things at once, and what else is said holds wherever it stands; the last is compared with the longest heap.
    keys.sort_by_key(|part| match part.split_once('=') {
        Some(("compat", _)) => 0,
        Some(("max_live", _)) => 2,
        _ => 1,
    });
    url::read::<T>(&format!("spead://?{}", keys.join("&")))
}

impl<T: Scheme> SpeadUrl<T> {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    pub fn read(text: &str) -> Result<SpeadUrl<T>, UrlError> {
        let error = |problem| UrlError { url: text.to_owned(), problem };
        let place = |why: String| error(UrlProblem::Place { why, form: T::FORM });
        let scheme = url::scheme(text);
        let known = |name: &str| SpeadTransport::ALL.into_iter().find(|t| t.scheme() == name);
        let Some((transport, rest)) = scheme.and_then(|(name, rest)| Some((known(&name)?, rest)))
        else {
            return Err(place("it does not begin with spead+ and a transport".into()));
        };
        let (at, query) = split(rest);
        let own = |part: &&str| {
            let name = part.split_once('=').map_or(*part, |(name, _)| name);
            T::KEYS.iter().any(|key| key.name == name)
        };
        let (mine, others): (Vec<&str>, Vec<&str>) =
            query.split('&').filter(|part| !part.is_empty()).partition(own);
        let keys = SpeadUrl::<T>::keys(transport);
        let name = |part: &&str| part.split('=').next().unwrap_or_default().to_owned();
        if let Some(key) = others.iter().map(name).find(|name| keys.iter().all(|k| k.name != name))
        {
            let known = keys.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
            return Err(error(UrlProblem::UnknownKey { scheme: transport.scheme(), key, known }));
        }
        let told = told::<T>(mine).map_err(|e| error(e.problem))?;
        let scheme = transport.scheme().trim_start_matches("spead+");
        let keys = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
        let inner = format!("{scheme}:{at}{keys}");
        let address = match transport {
            SpeadTransport::Udp => Some(url::read::<UdpUrl>(&inner).map_err(|e| error(e.problem))?),
            SpeadTransport::Tcp => {
                let all = format!("spead+{inner}");
                Some(url::read::<TcpUrl>(&all).map_err(|e| error(e.problem))?.0)
            }
            _ => None,
        };
        let file = (transport == SpeadTransport::Pcap).then(|| PathBuf::from(at));
        Ok(SpeadUrl { transport, inner, address, file, told })
    }

    /// Keys for people: SPEAD's, then the transport's.
    pub fn keys(transport: SpeadTransport) -> Vec<UrlKey> {
        let mut keys = UrlKey::of::<T>();
        match transport {
            SpeadTransport::Udp => keys.extend(UrlKey::of::<UdpUrl>()),
            SpeadTransport::Tcp => keys.extend(UrlKey::of::<TcpUrl>()),
            SpeadTransport::Pcap => keys.extend(UrlKey::of::<crate::endpoint::PcapUrl>()),
            SpeadTransport::Xdp => keys.extend(UrlKey::of::<crate::endpoint::XdpUrl>()),
            SpeadTransport::Packet => keys.extend(UrlKey::of::<crate::endpoint::PacketUrl>()),
        }
        keys
    }
}

/// A stream from a network ends after so long without a packet, because its stop heap was lost or its sender stands still, unless its first
/// URL says otherwise or asks for what spead2 does. True: it does.
pub fn end_when_stalled(urls: &mut [SpeadUrl<SpeadInput>], after: Duration) -> bool {
    let may_stall = urls.iter().any(|url| url.transport.may_stall());
    // The settings of a stream are those of its first URL.
    match urls.first_mut().map(|first| &mut first.told) {
        Some(told) if may_stall && !told.spead2 && !told.stall_said => {
            (told.config.stall_timeout_ns, told.config.stall_ends) = (ns(after), true);
            true
        }
        _ => false,
    }
}

/// A stream of datagrams that goes on when its sender does: it counts the stall and gives up the heaps that wait, and does not end.
pub fn count_stalls(url: &mut SpeadUrl<SpeadInput>, after: Duration) {
    let loses = url.transport.loses();
    let told = &mut url.told;
    if loses && !told.spead2 && !told.stall_said {
        told.config.stall_timeout_ns = ns(after);
    }
}

impl SpeadUrl<SpeadOutput> {
    /// The send stream at this rate in SPEAD bytes/s (0: no limit), cut as the framing wants it.
    pub fn sender_config(&self, rate: f64) -> SenderConfig {
        let told = &self.told;
        let payload = match told.framing {
            SpeadFraming::Heap => PayloadSize::Heap,
            SpeadFraming::Packets => told.config.cut.payload,
        };
        SenderConfig {
            cut: CutRules { payload, ..told.config.cut },
            pace: PaceSettings { rate, ..told.config.pace },
            ..told.config.clone()
        }
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
