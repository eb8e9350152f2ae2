//! What was sent, to the byte; and why something was not.
//!
//! SPEAD bytes are those of packets. Bytes on the link are those of Ethernet frames with IP and UDP headers, fragments
//! included, where the link is known, and nobody's guess where it is not (`None`); on TCP the kernel cuts segments, and only it
//! knows those.

use fullcount_core::link::{Cost, Wire};

use super::out_heap::OutHeap;
use super::packetise::PacketError;

/// Why heaps were not taken; they come back.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct SendError {
    /// The reason.
    pub why: SendRefusal,
    /// What was to be sent.
    pub heaps: Vec<OutHeap>,
}

/// The reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendRefusal {
    /// As many heaps as the queue holds: spead2's "would block".
    #[error("the queue holds {0} heaps, and has no room for {1} more")]
    Full(usize, usize),
    /// The heap cannot be cut.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// There is no such substream.
    #[error("substream {0}: 0 to {1}")]
    Substream(usize, usize),
    /// A group without heaps.
    #[error("a group of 0 heaps")]
    Nothing,
    /// A rate that is none.
    #[error("heap rate: 0 (no limit) to 1e13 B/s")]
    Rate,
}

/// Counts of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendCounts {
    /// Heaps whose last packet has left.
    pub heaps: u64,
    /// Heaps that were cancelled, before or in their middle.
    pub unfinished_heaps: u64,
    /// Stop heaps, and heaps that were cancelled before their first packet: a receiver does not miss them.
    pub stop_heaps: u64,
    /// Packets, those sent again included.
    pub packets: u64,
    /// Payload of packets.
    pub payload_bytes: u64,
    /// Packets with their headers and pointers.
    pub packet_bytes: u64,
    /// Ethernet frames with their headers and check sequence; `None`: the link is not known.
    pub frame_bytes: Option<u64>,
    /// Link time in bytes: with preamble and gap.
    pub link_bytes: Option<u64>,
    /// Packets sent again.
    pub resent_packets: u64,
    /// Bytes of these.
    pub resent_bytes: u64,
    /// Packets whose sending failed.
    pub failed_packets: u64,
    /// Heaps that the queue refused.
    pub refused_heaps: u64,
}

/// Counts packets of a link; equal sizes in a row cost one comparison.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkCount {
    wire: Option<Wire>,
    last: (usize, u64, u64),
}

impl LinkCount {
    pub fn new(wire: Option<Wire>) -> LinkCount {
        LinkCount { wire, last: (usize::MAX, 0, 0) }
    }

    /// Frame bytes and link bytes of one datagram.
    pub fn of(&mut self, bytes: usize) -> Option<(u64, u64)> {
        let wire = self.wire?;
        if self.last.0 != bytes {
            let cost = Cost::of(bytes, wire.ipv6, wire.mtu, 0);
            self.last = (bytes, cost.frame_bytes(), cost.bytes());
        }
        Some((self.last.1, self.last.2))
    }
}
