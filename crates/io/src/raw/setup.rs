//! What a link is told, what it counts, and why it cannot be.

use fullcount_core::sim::Spec;
use fullcount_stcp::sender::MakeError;
use fullcount_stcp::wire::WireError;

use crate::frames::FramesError;

/// Most streams of one link.
pub const MOST_STREAMS: usize = 1024;
/// Longest unit unless the setup says another. Without a limit it has 1.2 of the rate of units of 64 KiB (docs/results/stcp-sweep-64k.md); longer
/// ones were not measured.
pub const UNIT: u32 = 256 << 10;
/// Longest unit that is one IP packet, and that every interface with offload takes.
pub(super) const SHORT_UNIT: u32 = 1 << 16;

/// How frames go out and come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// A packet socket with the kernel's note before each frame; many frames a call, through the interface's queueing
    /// discipline.
    #[default]
    Packet,
    /// A TAP device: the streams are the far end of its wire. One frame, or one unit for segmentation, a call.
    Tap,
    /// AF_XDP for what leaves, a packet socket for what comes; past the queueing discipline. Checksums are computed
    /// here, and there is no segmentation offload.
    Xdp,
}

impl Driver {
    /// All.
    pub const ALL: [Driver; 3] = [Driver::Packet, Driver::Tap, Driver::Xdp];

    /// As a person names it.
    pub const fn name(self) -> &'static str {
        match self {
            Driver::Packet => "packet",
            Driver::Tap => "tap",
            Driver::Xdp => "xdp",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Driver> {
        Driver::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Several segments can leave as one unit, which the kernel or the card cuts.
    pub const fn can_offload(self) -> bool {
        !matches!(self, Driver::Xdp)
    }
}

/// Why a link or a stream cannot be.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum RawError {
    /// The interface.
    #[error(transparent)]
    Frames(#[from] FramesError),
    /// AF_XDP.
    #[error("{interface}: AF_XDP: {what}: {cause}; driver=packet works on every interface")]
    Xdp { interface: String, what: &'static str, cause: std::io::Error },
    /// A setting, or the size of the send buffer.
    #[error("{0}")]
    Stream(String),
    /// Too many streams.
    #[error("{MOST_STREAMS} streams on one link are the most")]
    Streams,
    /// A local port twice.
    #[error("port {0} is used by another stream of this link")]
    Port(u16),
    /// Longer packets than the interface takes.
    #[error(
        "mtu={mtu} is more than the MTU of {interface}, {most} bytes: mtu={most}, or 'ip link set {interface} mtu {mtu}'"
    )]
    Mtu { mtu: u16, most: usize, interface: String },
    /// The driver does not have it.
    #[error("driver {} has no segmentation offload: offload=0", .0.name())]
    NoOffload(Driver),
    /// The file of frames.
    #[error("{path}: {cause}")]
    File { path: String, cause: String },
}

impl From<MakeError> for RawError {
    fn from(e: MakeError) -> RawError {
        RawError::Stream(e.to_string())
    }
}

/// What a link is like.
#[derive(Debug, Clone, PartialEq)]
pub struct RawSetup {
    /// Interface.
    pub interface: String,
    /// How.
    pub driver: Driver,
    /// Own IP address, not one of the interface.
    pub address: [u8; 4],
    /// Own MAC address; `None`: 02:00 and the IP address, so that no two senders share one.
    pub mac: Option<[u8; 6]>,
    /// Router to all peers; `None`: they are on the link.
    pub gateway: Option<[u8; 4]>,
    /// Several segments in one frame, which the kernel or the card cuts.
    pub offload: bool,
    /// Longest unit of several segments, bytes with headers; shorter where the interface takes less (`gso_ipv4_max_size`), and where frames
    /// go to a file or through faults. What it gains without a limit: docs/results/stcp-sweep-64k.md.
    pub unit: u32,
    /// Send buffers lie on large pages where the system has some.
    pub large_pages: bool,
    /// Secret of the initial sequence numbers.
    pub key: [u64; 2],
    /// Faults on purpose, in both directions.
    pub fault: Spec,
}

impl RawSetup {
    /// Own address on an interface; segmentation offload where the driver has it.
    pub fn new(interface: &str, driver: Driver, address: [u8; 4]) -> RawSetup {
        RawSetup {
            interface: interface.to_owned(),
            driver,
            address,
            mac: None,
            gateway: None,
            offload: driver.can_offload(),
            unit: UNIT,
            large_pages: true,
            key: [0, 0],
            fault: Spec::default(),
        }
    }

    /// A secret of this process.
    pub fn secret() -> [u64; 2] {
        use std::hash::{BuildHasher, RandomState};
        [0u8, 1].map(|salt| RandomState::new().hash_one(salt))
    }
}

/// Frames that were not for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawCounters {
    /// Frames that came.
    pub received: u64,
    /// For other addresses, of other protocols, or ICMP about no stream.
    pub others: u64,
    /// Segments and ICMP messages that went to their stream.
    pub delivered: u64,
    /// Questions and answers of ARP that came.
    pub arp_received: u64,
    /// TCP for our address that belongs to no stream.
    pub strays: u64,
    /// RSTs in answer to these.
    pub stray_resets: u64,
    /// RSTs that the limit a second kept back, or that had no room.
    pub stray_resets_spared: u64,
    /// Not well formed.
    pub malformed: u64,
    /// Packets of IP that were dropped, by [`WireError`]: each is among `others` or `malformed`, too.
    pub dropped: [u64; WireError::COUNT],
    /// Frames sent; with offload of several segments each.
    pub sent: u64,
    /// Calls that sent them.
    pub calls: u64,
    /// Times that the interface took nothing more for now.
    pub blocked: u64,
    /// Frames that it will never take; the streams repeat them.
    pub refused: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// Echo requests that were not: above the limit a second, too long, without room, or from an address that is not one host's.
    pub echoes_spared: u64,
    /// Questions of ARP.
    pub arp_requests: u64,
    /// Answers of ARP.
    pub arp_replies: u64,
    /// Frames that were written to the file of frames.
    pub recorded: u64,
    /// Frames that were not written to the file of frames, because it was full.
    pub not_recorded: u64,
}
