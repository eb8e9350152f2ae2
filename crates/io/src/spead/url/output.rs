//! Keys of SPEAD in a URL that sends.

use std::net::SocketAddr;

use fullcount_core::quantity::Rate;
use fullcount_core::url::{NotTaken, SWITCH, Scheme, SchemeKey};
use fullcount_spead::send::{PayloadSize, SenderConfig};
use fullcount_spead::{BugCompat, Flavour};

use super::{ADDRESS_TAKES, FRAMINGS, ITEM_TAKES, ItemChoice, SpeadFraming};

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
    /// The rate is never below this, SPEAD bytes/s; `None`: the tuner's own.
    pub min_rate: Option<f64>,
    /// How descriptors are written.
    pub compat: BugCompat,
    /// Of a carrier.
    pub item: ItemChoice,
    /// Heaps from one descriptor to the next; 0: only once.
    pub descriptors: u64,
    /// Payload goes to the system from where it lies.
    pub gather: bool,
    /// Congestion control of a connection; `None`: the system's.
    pub congestion: Option<String>,
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
            min_rate: None,
            compat: BugCompat::default(),
            item: ItemChoice::default(),
            descriptors: 0,
            gather: true,
            congestion: None,
        }
    }
}

const CONGESTION_TAKES: &str = "a name of 1 to 15 of a-z, 0-9, - and _, for example cubic";

/// A name that the kernel may know.
fn congestion(text: &str) -> Result<String, NotTaken> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    match (1..=15).contains(&text.len()) && text.chars().all(good) {
        true => Ok(text.to_owned()),
        false => Err(NotTaken::Other),
    }
}

const RATE_TAKES: &str = "a rate from 1bps to 1000000Gbps";

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
            "min_rate",
            RATE_TAKES,
            "8 Mbps",
            "with tune: the rate never goes below this, in bits of SPEAD packets",
            |u, v| match v.parse::<Rate>()? {
                Rate::Bits(bits) => {
                    u.min_rate = Some(bits / 8.0);
                    Ok(())
                }
                Rate::Packets(_) => Err(NotTaken::Other),
            },
        ),
        SchemeKey::told(
            "pyspead",
            SWITCH,
            "0",
            "descriptors as PySPEAD 0.5.2 reads them",
            |u, v| {
                v.switch()
                    .map(|on| u.compat = if on { BugCompat::PYSPEAD } else { BugCompat::default() })
            },
        ),
        SchemeKey::told(
            "descriptors",
            "a number",
            "0",
            "heaps from one descriptor to the next; 0: once, at the beginning",
            |u, v| v.parse().map(|n| u.descriptors = n),
        ),
        SchemeKey::told(
            "gather",
            SWITCH,
            "1",
            "the kernel takes payload from the heaps where it lies; 0: packets are put together first",
            |u, v| v.switch().map(|on| u.gather = on),
        ),
        SchemeKey::told(
            "congestion",
            CONGESTION_TAKES,
            "the system's",
            "spead+tcp only: congestion control of the connection, one of net.ipv4.tcp_available_congestion_control",
            |u, v| congestion(v.text()?).map(|name| u.congestion = Some(name)),
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
