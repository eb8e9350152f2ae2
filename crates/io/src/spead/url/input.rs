//! Keys of SPEAD in a URL that receives.

use std::net::SocketAddr;

use fullcount_core::url::{NotTaken, SWITCH, Scheme, SchemeKey};
use fullcount_spead::BugCompat;
use fullcount_spead::receive::{NumberSequence, OnIncomplete, PayloadCopy, ReceiverConfig};

use super::{ADDRESS_TAKES, FRAMINGS, ITEM_TAKES, ItemChoice, SpeadFraming, TIME_TAKES, TIMES, ns};

/// Keys of a receiving URL.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeadInput {
    /// The stream.
    pub config: ReceiverConfig,
    /// Senders of this endpoint: connections on TCP, stop heaps on UDP.
    pub senders: u32,
    /// The URL says them.
    pub senders_said: bool,
    /// Sockets that share the port, of UDP; `None`: as many as the receive buffer needs.
    pub sockets: Option<u32>,
    /// Largest packet, bytes; 0: no limit beyond the transport's.
    pub max_packet: usize,
    /// On a byte stream.
    pub framing: SpeadFraming,
    /// A reader of a fast byte stream is woken when so many bytes are there.
    pub low_water: usize,
    /// The URL says a longest heap.
    pub heap_said: bool,
    /// Blocks that a memory pool keeps; 0: plain memory.
    pub pool: usize,
    /// Smallest and largest heap that takes a block.
    pub pool_range: (u64, u64),
    /// Blocks that are made at once.
    pub pool_initial: usize,
    /// Long payloads are copied page by page.
    pub pages_ahead: bool,
    /// Payloads are copied past the cache.
    pub streaming: bool,
    /// How descriptors are written.
    pub compat: BugCompat,
    /// Where reports go.
    pub feedback: Option<SocketAddr>,
    /// Missing packets are asked for.
    pub resend: bool,
    /// Of a carrier; `None`: the URL says none.
    pub item: Option<ItemChoice>,
    /// As spead2 has it: no timeout that the URL does not say.
    pub spead2: bool,
    /// The URL says a stall timeout, or that there is none.
    pub stall_said: bool,
}

impl SpeadInput {
    /// How payloads are copied into heaps.
    pub fn copies(&self) -> PayloadCopy {
        match (self.streaming, self.pages_ahead) {
            (true, _) => PayloadCopy::Streaming,
            (false, true) => PayloadCopy::PagesAhead,
            (false, false) => PayloadCopy::AtOnce,
        }
    }
}

impl Default for SpeadInput {
    fn default() -> SpeadInput {
        SpeadInput {
            config: ReceiverConfig::default(),
            senders: 1,
            senders_said: false,
            sockets: None,
            max_packet: 0,
            framing: SpeadFraming::Packets,
            low_water: crate::tcp::low_water::LOW_WATER,
            heap_said: false,
            pool: 16,
            pool_range: (16 << 10, 32 << 20),
            pool_initial: 0,
            pages_ahead: true,
            streaming: false,
            compat: BugCompat::default(),
            feedback: None,
            resend: false,
            item: None,
            spead2: false,
            stall_said: false,
        }
    }
}

const SEQUENCE_TAKES: &str = "FIRST,STEP or STEP, 1 and 1 for spead2's; the step is at least 1";

/// `FIRST,STEP`, or `STEP` with 1 for the first.
fn sequence(text: &str) -> Result<NumberSequence, NotTaken> {
    let (first, step) = text.split_once(',').unwrap_or(("1", text));
    let number = |text: &str| text.parse::<u64>().map_err(|_| NotTaken::Other);
    match number(step)? {
        0 => Err(NotTaken::Other),
        step => Ok(NumberSequence { first: number(first)?, step }),
    }
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
            "heaps, and counts of heaps and packets, exactly as spead2 gives them",
            |u, v| {
                v.one_of(&[("spead2", ())])?;
                // It is read before all other keys.
                (u.config, u.spead2) = (ReceiverConfig::spead2(), true);
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
            "0 to 1024",
            "1",
            "so many stop heaps or ended connections, of all URLs of the stream together, end it; 0 beside a URL with more; with compat=spead2 and in no URL: the first ends it",
            |u, v| v.within(0..=1024).map(|n| (u.senders, u.senders_said) = (n, true)),
        ),
        SchemeKey::told(
            "sockets",
            "1 to 64",
            "1; up to 32 where the system grants less receive buffer than asked for",
            "spead+udp only, no group: so many sockets share the port, and a train goes to any of them; each has a receive buffer of its own",
            |u, v| v.within(1..=64).map(|n| u.sockets = Some(n)),
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
                    (u.config.max_heap_bytes, u.heap_said) = (n, true);
                    u.config.max_live_bytes = u.config.max_live_bytes.max(n);
                })
            },
        ),
        SchemeKey::told(
            "max_live",
            "a size from 1B to 1TiB, at least max_heap",
            "4 GiB, or max_heap if that is more",
            "memory of all unfinished heaps together; without max_heap it is the longest heap too, if that would be longer",
            |u, v| {
                // It is read after all other keys.
                let bytes = v.size(1..=1 << 40)?;
                if u.heap_said && bytes < u.config.max_heap_bytes {
                    return Err(NotTaken::Other);
                }
                u.config.max_live_bytes = bytes;
                u.config.max_heap_bytes = u.config.max_heap_bytes.min(bytes);
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
            "low_water",
            "a size from 0B to 16MiB",
            "1 MiB",
            "spead+tcp only: while a connection is fast, the reader is woken when so many bytes are there, or after 1 ms; 0: at each segment",
            |u, v| v.size(0..=16 << 20).map(|n| u.low_water = n as usize),
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
            "never; datagrams, and TCP in receive: 30s",
            "without any packet for so long, after the first one, the stream has ended; in run it ends only if this key is given, and the stall is counted",
            |u, v| {
                v.duration(TIMES).map(|t| {
                    u.stall_said = true;
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
            "pool_lower",
            "a size from 1B to 64GiB",
            "16 KiB",
            "smallest heap that takes a block of the pool",
            |u, v| v.size(1..=64 << 30).map(|n| u.pool_range.0 = n),
        ),
        SchemeKey::told(
            "pool_upper",
            "a size from 1B to 64GiB",
            "32 MiB",
            "size of the pool's blocks, and largest heap that takes one",
            |u, v| v.size(1..=64 << 30).map(|n| u.pool_range.1 = n),
        ),
        SchemeKey::told(
            "pool_initial",
            "0 to 4096, at most pool",
            "0",
            "blocks of the pool that are made before the first heap comes",
            |u, v| v.within(0..=4096).map(|n| u.pool_initial = n),
        ),
        SchemeKey::told(
            "pages_ahead",
            SWITCH,
            "1",
            "payloads of 16 KiB and more are copied page by page, and the next page is asked for ahead; 0: neither",
            |u, v| v.switch().map(|on| u.pages_ahead = on),
        ),
        SchemeKey::told(
            "streaming",
            SWITCH,
            "0",
            "payloads are copied past the processor's cache into memory (non-temporal stores): for a consumer that looks at heaps late or elsewhere; pages_ahead has then no effect",
            |u, v| v.switch().map(|on| u.streaming = on),
        ),
        SchemeKey::told(
            "ring_heaps",
            "1 to 1048576",
            "64; with compat=spead2: 4",
            "finished heaps that may wait for their consumer",
            |u, v| v.within(1..=1 << 20).map(|n| u.config.ring_heaps = n),
        ),
        SchemeKey::told(
            "sequence",
            SEQUENCE_TAKES,
            "–",
            "numbers of the heaps: then heaps of which no packet came are counted, else they are unknown",
            |u, v| sequence(v.text()?).map(|told| u.config.sequence = Some(told)),
        ),
        SchemeKey::told(
            "packet_payload",
            "a size from 1B to 1GiB",
            "–",
            "payload of a full packet: then missing packets are counted, else they are unknown; exact if the item pointers of a heap fit into its first packet or the sender has payload=, else the least number",
            |u, v| v.size(1..=1 << 30).map(|n| u.config.packet_payload = Some(n)),
        ),
        SchemeKey::told(
            "pyspead",
            SWITCH,
            "0",
            "descriptors as PySPEAD 0.5.2 writes them",
            |u, v| {
                v.switch()
                    .map(|on| u.compat = if on { BugCompat::PYSPEAD } else { BugCompat::default() })
            },
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
            "0x1000; heap: none",
            "as a carrier: the item that holds the datagram; the detector heap gets the heaps themselves unless it is given",
            |u, v| ItemChoice::read(v.text()?).map(|item| u.item = Some(item)),
        ),
    ];

    fn at(_: &str) -> Result<SpeadInput, String> {
        Ok(SpeadInput::default())
    }
}
