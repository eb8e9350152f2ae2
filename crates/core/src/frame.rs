//! Checked views of frames: Ethernet, Linux cooked, loopback and raw IP; IPv4 and IPv6; UDP.
//!
//! A frame goes through [`LinkLayer::ip`] to a [`IpPacket`], if need be through the
//! [`Reassembler`](reassembly::Reassembler), and through [`IpPacket::udp`] to a [`Udp`] view. Nothing is copied
//! and nothing panics; each reason to refuse a frame is a [`FrameRefusal`]. [`emit`] goes the other way. Used by
//! captures now, by `xdp` and `raw` later. Sources: RFC 791, 768, 8200, 6946, IEEE 802.1Q, and the link types
//! of tcpdump.org.

pub mod emit;
pub mod ip;
pub mod link;
pub mod reassembly;
pub mod udp;

pub use ip::{Fragment, IpPacket, Ipv4, Ipv6};
pub use link::{Ethernet, LinkLayer};
pub use udp::{Checksum, Udp};

/// Why a frame is no UDP datagram for us. One variant, one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FrameRefusal {
    /// The frame ends before what its headers announce.
    #[error("the frame ends before its packet does")]
    Cut,
    /// Neither IPv4 nor IPv6.
    #[error("neither IPv4 nor IPv6")]
    NotIp,
    /// The version field contradicts the link header, or is neither 4 nor 6.
    #[error("IP version contradicts the link header")]
    Version,
    /// IPv4 header length below 20 bytes, or a total length below the header length (also the 0 of
    /// oversized offloaded packets and jumbograms, which carry no UDP length to check against).
    #[error("IP header or total length out of range")]
    IpLength,
    /// An IPv6 extension header exceeds the end of the packet or is in a wrong place.
    #[error("IPv6 extension header out of range")]
    Extension,
    /// Another protocol than UDP.
    #[error("not UDP")]
    NotUdp,
    /// Part of a datagram: needs the reassembler.
    #[error("IP fragment")]
    Fragment,
    /// The IP payload is below the 8 bytes of a UDP header, or the UDP length field is below 8 or
    /// above the IP payload.
    #[error("UDP length out of range")]
    UdpLength,
}

#[cfg(test)]
#[path = "frame/frame_tests.rs"]
mod tests;
