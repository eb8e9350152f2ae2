//! `spead+TRANSPORT:PLACE?key=value&…`: the URL of the transport with `spead+` in front; keys of SPEAD stand among its own.
//!
//! Receiving: `spead+udp://`, `spead+tcp://`, `spead+pcap:`, `spead+xdp://`, `spead+packet://`. Sending: `spead+udp://`, `spead+tcp://`,
//! `spead+pcap:FILE` (a capture is written). Refuses keys that neither SPEAD nor the transport has, and values outside their ranges.
//! Source: `docs/architecture.md`, "Endpoints are URLs".

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fullcount_core::source::UrlKey;
use fullcount_core::url::{self, NotTaken, SWITCH, Scheme, SchemeKey, UrlError, UrlProblem, split};
use fullcount_spead::receive::{OnIncomplete, ReceiverConfig};
use fullcount_spead::send::{CutRules, PaceSettings, PayloadSize, SenderConfig};
use fullcount_spead::wire::id;
use fullcount_spead::{Flavour, wire};

use crate::udp::url::{BUFFER, BUFFER_TAKES, UdpUrl};

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

/// Keys of a receiving URL.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeadInput {
    /// The stream.
    pub config: ReceiverConfig,
    /// Senders of this endpoint: connections on TCP, stop heaps on UDP.
    pub senders: u32,
    /// Largest packet, bytes; 0: no limit beyond the transport's.
    pub max_packet: usize,
    /// On a byte stream.
    pub framing: SpeadFraming,
    /// Blocks that a memory pool keeps; 0: plain memory.
    pub pool: usize,
    /// Smallest and largest heap that takes a block.
    pub pool_range: (u64, u64),
    /// Where reports go.
    pub feedback: Option<SocketAddr>,
    /// Missing packets are asked for.
    pub resend: bool,
    /// Of a carrier.
    pub item: ItemChoice,
}

impl Default for SpeadInput {
    fn default() -> SpeadInput {
        SpeadInput {
            config: ReceiverConfig::default(),
            senders: 1,
            max_packet: 0,
            framing: SpeadFraming::Packets,
            pool: 16,
            pool_range: (16 << 10, 32 << 20),
            feedback: None,
            resend: false,
            item: ItemChoice::default(),
        }
    }
}

/// Keys of a sending URL.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeadOutput {
    /// The stream, its rate aside.
    pub config: SenderConfig,
    /// Widths of pointers.
    pub flavour: Flavour,
    /// On a byte stream.
    pub framing: SpeadFraming,
    /// Local address where reports come in.
    pub feedback: Option<SocketAddr>,
    /// The rate follows the reports.
    pub tune: bool,
    /// Share of payload that may be missing.
    pub loss_target: f64,
    /// Of a carrier.
    pub item: ItemChoice,
    /// Heaps from one descriptor to the next; 0: only once.
    pub descriptors: u64,
}

impl Default for SpeadOutput {
    fn default() -> SpeadOutput {
        SpeadOutput {
            config: SenderConfig::default(),
            flavour: Flavour::default(),
            framing: SpeadFraming::Packets,
            feedback: None,
            tune: false,
            loss_target: 0.0,
            item: ItemChoice::default(),
            descriptors: 0,
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

impl Scheme for SpeadInput {
    const NAME: &'static str = "spead";
    const FORM: &'static str = "spead+udp://ADDRESS:PORT, spead+tcp://ADDRESS:PORT, spead+pcap:FILE, spead+xdp://INTERFACE:PORT or \
         spead+packet://INTERFACE:PORT with keys, for example spead+udp://0.0.0.0:8888?max_heaps=8";
    const KEYS: &'static [SchemeKey<SpeadInput>] = &[
        SchemeKey::told(
            "compat",
            "spead2",
            "–",
            "heaps and statistics exactly as spead2 gives them",
            |u, v| {
                v.one_of(&[("spead2", ())])?;
                u.config = ReceiverConfig {
                    stops: u.config.stops,
                    readers: u.config.readers,
                    ..ReceiverConfig::spead2()
                };
                Ok(())
            },
        ),
        SchemeKey::told(
            "max_heaps",
            "1 to 4096",
            "4",
            "heaps that are put together at once, in each substream",
            |u, v| v.within(1..=4096).map(|n| u.config.max_heaps = n),
        ),
        SchemeKey::told(
            "substreams",
            "1 to 4096",
            "1",
            "windows: heap number modulo this",
            |u, v| v.within(1..=4096).map(|n| u.config.substreams = n),
        ),
        SchemeKey::told(
            "senders",
            "1 to 1024",
            "1",
            "so many stop heaps or ended connections end the stream",
            |u, v| v.within(1..=1024).map(|n| u.senders = n),
        ),
        SchemeKey::told(
            "max_packet",
            "a size from 56B to 1GiB",
            "no limit; TCP: 64 MiB",
            "largest packet that is taken",
            |u, v| v.size(56..=1 << 30).map(|n| u.max_packet = n as usize),
        ),
        SchemeKey::told(
            "max_heap",
            "a size from 1B to 64GiB",
            "1 GiB",
            "longest heap that is taken",
            |u, v| {
                v.size(1..=64 << 30).map(|n| {
                    u.config.max_heap_bytes = n;
                    u.config.max_live_bytes = u.config.max_live_bytes.max(n);
                })
            },
        ),
        SchemeKey::told(
            "framing",
            "packets or heap",
            "packets",
            "spead+tcp only: packets back to back as spead2 sends them, or whole heaps",
            |u, v| v.one_of(&FRAMINGS).map(|f| u.framing = f),
        ),
        SchemeKey::told("in_order", SWITCH, "0", "packets of a heap in order only", |u, v| {
            v.switch().map(|on| u.config.allow_out_of_order = !on)
        }),
        SchemeKey::told(
            "heap_timeout",
            TIME_TAKES,
            "5s",
            "a heap without a new packet for so long is given up",
            |u, v| v.duration(TIMES).map(|t| u.config.heap_timeout_ns = ns(t)),
        ),
        SchemeKey::told(
            "stall_timeout",
            TIME_TAKES,
            "never",
            "without any packet for so long the stream has ended",
            |u, v| {
                v.duration(TIMES).map(|t| {
                    u.config.stall_timeout_ns = ns(t);
                    u.config.stall_ends = !t.is_zero();
                })
            },
        ),
        SchemeKey::told(
            "ignore_stop",
            SWITCH,
            "0",
            "stop heaps are heaps like any other",
            |u, v| v.switch().map(|on| u.config.stop_on_stop_item = !on),
        ),
        SchemeKey::told(
            "incomplete",
            SWITCH,
            "0",
            "incomplete heaps are handed on with a map of what is there",
            |u, v| {
                v.switch().map(|on| {
                    u.config.incomplete = if on { OnIncomplete::Give } else { OnIncomplete::Drop }
                })
            },
        ),
        SchemeKey::told(
            "pool",
            "0 to 4096",
            "16",
            "free blocks of memory kept for heaps; 0: memory of the process for each",
            |u, v| v.within(0..=4096).map(|n| u.pool = n),
        ),
        SchemeKey::told(
            "feedback",
            ADDRESS_TAKES,
            "–",
            "where reports to the sender go, over UDP",
            |u, v| v.parse().map(|a| u.feedback = Some(a)),
        ),
        SchemeKey::told(
            "resend",
            SWITCH,
            "0",
            "missing packets are asked for; needs feedback here and keep at the sender",
            |u, v| v.switch().map(|on| u.resend = on),
        ),
        SchemeKey::told(
            "item",
            ITEM_TAKES,
            "0x1000",
            "as a carrier: the item that holds the datagram",
            |u, v| ItemChoice::read(v.text()?).map(|item| u.item = item),
        ),
    ];

    fn at(_: &str) -> Result<SpeadInput, String> {
        Ok(SpeadInput::default())
    }
}

impl Scheme for SpeadOutput {
    const NAME: &'static str = "spead";
    const FORM: &'static str = "spead+udp://ADDRESS:PORT, spead+tcp://ADDRESS:PORT or spead+pcap:FILE with keys, for example \
         spead+udp://192.0.2.1:8888?packet=8972";
    const KEYS: &'static [SchemeKey<SpeadOutput>] = &[
        SchemeKey::told(
            "packet",
            "a size from 56B to 1GiB",
            "1472 B",
            "largest packet; over UDP at most 65,507 B",
            |u, v| v.size(56..=1 << 30).map(|n| u.config.cut.max_packet_size = n as usize),
        ),
        SchemeKey::told(
            "payload",
            "a multiple of 8B",
            "what fits",
            "the same payload in each packet but the last",
            |u, v| {
                v.size(8..=1 << 30).map(|n| u.config.cut.payload = PayloadSize::Fixed(n as usize))
            },
        ),
        SchemeKey::told(
            "flavour",
            "8, 16, 24, 32, 40, 48 or 56",
            "40",
            "bits of an address (SPEAD-64-Y)",
            |u, v| {
                let flavour = Flavour::new(v.parse()?).map_err(|_| NotTaken::Other)?;
                u.flavour = flavour;
                Ok(())
            },
        ),
        SchemeKey::told(
            "framing",
            "packets or heap",
            "packets",
            "spead+tcp only: packets back to back as spead2 sends them, or whole heaps",
            |u, v| v.one_of(&FRAMINGS).map(|f| u.framing = f),
        ),
        SchemeKey::told(
            "burst",
            "a size from 1B to 1GiB",
            "64 KiB",
            "bytes that leave without a pause",
            |u, v| v.size(1..=1 << 30).map(|n| u.config.pace.burst_size = n),
        ),
        SchemeKey::told(
            "burst_ratio",
            "1 to 1000",
            "1.05",
            "how much faster than the rate it may catch up",
            |u, v| v.within(1.0..=1000.0).map(|n| u.config.pace.burst_rate_ratio = n),
        ),
        SchemeKey::told("max_heaps", "1 to 65536", "4", "heaps in the queue", |u, v| {
            v.within(1..=65_536).map(|n| u.config.max_heaps = n)
        }),
        SchemeKey::told(
            "keep",
            "a size from 0B to 64GiB",
            "0",
            "bytes of sent heaps that are kept for re-requests; needs feedback",
            |u, v| v.size(0..=64 << 30).map(|n| u.config.keep_bytes = n),
        ),
        SchemeKey::told(
            "feedback",
            ADDRESS_TAKES,
            "–",
            "local address where reports come in, over UDP",
            |u, v| v.parse().map(|a| u.feedback = Some(a)),
        ),
        SchemeKey::told(
            "tune",
            SWITCH,
            "0",
            "finds and holds the highest rate without loss, below --rate; needs feedback",
            |u, v| v.switch().map(|on| u.tune = on),
        ),
        SchemeKey::told(
            "loss",
            "0 to 0.5",
            "0",
            "with tune: share of payload that may be missing",
            |u, v| v.within(0.0..=0.5).map(|n| u.loss_target = n),
        ),
        SchemeKey::told(
            "descriptors",
            "a number",
            "0",
            "heaps from one descriptor to the next; 0: once, at the beginning",
            |u, v| v.parse().map(|n| u.descriptors = n),
        ),
        SchemeKey::told(
            "item",
            ITEM_TAKES,
            "0x1000",
            "as a carrier: the item that holds the datagram",
            |u, v| ItemChoice::read(v.text()?).map(|item| u.item = item),
        ),
    ];

    fn at(_: &str) -> Result<SpeadOutput, String> {
        Ok(SpeadOutput::default())
    }
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
        let told = format!("spead://?{}", mine.join("&"));
        let told = url::read::<T>(&told).map_err(|e| error(e.problem))?;
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
mod tests {
    use super::*;

    #[test]
    fn keys_of_spead_and_of_the_transport_stand_together() {
        let url = SpeadUrl::<SpeadInput>::read(
            "spead+udp://239.1.2.3:8888?max_heaps=8&interface=10.0.0.1&item=packet&receive_buffer=8MiB",
        )
        .unwrap();
        assert_eq!(url.inner, "udp://239.1.2.3:8888?interface=10.0.0.1&receive_buffer=8MiB");
        assert_eq!(
            (url.told.config.max_heaps, url.told.item),
            (8, ItemChoice::Name("packet".into()))
        );
        let url =
            SpeadUrl::<SpeadOutput>::read("spead+tcp://[::1]:8888?framing=heap&send_buffer=1MiB")
                .unwrap();
        assert_eq!(url.address.clone().unwrap().send_buffer, Some(1 << 20));
        assert_eq!(url.sender_config(0.0).cut.payload, PayloadSize::Heap);
        let url =
            SpeadUrl::<SpeadInput>::read("spead+pcap:a/b.pcapng?flat-out&compat=spead2").unwrap();
        assert_eq!(
            (url.inner.as_str(), url.told.config.ring_heaps),
            ("pcap:a/b.pcapng?flat-out", 4)
        );
    }

    #[test]
    fn what_is_refused_is_named_with_what_is_allowed() {
        for (text, told) in [
            ("spead+udp://x", "port is missing"),
            ("spead+udp://1.2.3.4:5?size=1", "unknown key 'size' for spead+udp"),
            ("spead+udp://1.2.3.4:5?max_heaps=0", "max_heaps=0 is not allowed; 1 to 4096"),
            ("spead+udp://1.2.3.4:5?item=5", "item=5 is not allowed; an item id from 7"),
            ("spead+tcp://1.2.3.4:5?ttl=2", "unknown key 'ttl' for spead+tcp"),
            ("spead+tcp://1.2.3.4:5?framing=frames", "packets or heap"),
            ("spead+smoke://x", "it does not begin with spead+ and a transport"),
        ] {
            let said = SpeadUrl::<SpeadInput>::read(text).unwrap_err().to_string();
            assert!(said.contains(told), "{said}");
        }
    }
}
