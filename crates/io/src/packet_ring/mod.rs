//! AF_PACKET: copies of an interface's datagrams from a ring shared with the kernel, as a [`Source`]
//! like any other.
//!
//! The kernel goes on with each packet as if nobody listened. Nobody does, on our port, so it would
//! answer each one with "port unreachable"; a socket that takes everything and keeps nothing stands
//! there instead. Refuses: with [`PacketError`], a sentence that names the endpoint and what to do.
//! Sources: `packet(7)`, `docs/engines.md`.
//!
//! [`Source`]: crate::source::Source

#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod error;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod receive;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::PacketSource;
pub use error::PacketError;
#[cfg(target_os = "linux")]
pub use receive::PacketSource;

fullcount_core::counters! {
    /// What an AF_PACKET receiver counts.
    pub enum Ring {
        Packets "receive.packets" Packets Sum "receive" In
            "datagrams received" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted
            "datagrams handed on to the decoder" "";
        Truncated "packet.truncated" Packets Sum "receive" Note
            "frames that end before the datagram in them does"
            "look at the sender's card and its offloads: ethtool -S, ethtool -k";
        Lengths "packet.lengths" Packets Sum "receive" Note
            "frames whose IP and UDP lengths contradict each other"
            "look at the sender: its packets are malformed";
        NotOurs "packet.not_ours" Packets Sum "receive" Note
            "frames that the filter let through although they are not for this endpoint"
            "report this: filter and receiver disagree";
        Checksum "packet.checksum_errors" Packets Sum "receive" Note
            "datagrams whose UDP checksum is wrong: their bytes are not those that were sent"
            "look for damage on the link: ethtool -S (rx_crc_errors), cables, memory of the sender";
        Fragments "packet.fragments" Packets Sum "receive" Note
            "IP fragments of UDP datagrams to any port, not put together"
            "if they are for us: let the sender send datagrams that fit the MTU, or receive with udp://";
        Partial "packet.checksum_partial" Packets Sum "receive" Note
            "datagrams from a sender on this host, whose checksum nobody completed" "";
        Absent "packet.checksum_absent" Packets Sum "receive" Note
            "datagrams sent without a checksum (IPv4)" "";
        Bytes "receive.bytes" Bytes Sum "receive" Note
            "UDP payload bytes received" "";
        KernelDrops "receive.kernel_drops" Times Sum "receive" Note
            "times that the ring had no free block for a packet (a train of many datagrams counts once)"
            "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
        Freezes "packet.ring_full" Times Sum "receive" Note
            "times that the ring became full"
            "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
        Idle "thread.input_idle" Times Sum "receive" Note
            "receive calls that timed out" "";
        Calls "receive.calls" Times Sum "receive" Note
            "receive calls that brought at least one datagram" "";
        SystemCalls "receive.system_calls" Times Sum "receive" Note
            "system calls to wait for packets" "";
    }
}
