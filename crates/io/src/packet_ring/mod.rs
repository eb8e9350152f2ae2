//! AF_PACKET: copies of an interface's datagrams from a ring shared with the kernel, as a [`Source`]
//! like any other.
//!
//! The kernel also processes each packet itself. Without a socket on our port it would answer each one with "port
//! unreachable", so a socket there accepts everything and keeps nothing. Fails with [`InterfaceError`], whose message
//! names the endpoint and what to do. Sources: `packet(7)`, `docs/engines.md`.
//!
//! [`Source`]: crate::source::Source

#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod receive;
pub(crate) mod url;

use fullcount_core::ledger::Info;
use fullcount_core::source::FrameCounters;

pub use crate::interface::InterfaceError;
use crate::interface::InterfaceSource;
use crate::interface::counters::frame_counters;
use crate::interface::kind::{InterfaceEngine, InterfaceScheme};
use url::{PacketKeys, PacketUrl};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Copies;
#[cfg(target_os = "linux")]
pub use receive::Copies;

/// Receives the datagrams of one port from an interface's copies.
pub type PacketSource = InterfaceSource<Copies>;
/// The source `packet`.
pub type PacketKind = InterfaceScheme<PacketKeys>;

impl InterfaceEngine for PacketKeys {
    const ABOUT: &'static str = "copies of an interface's datagrams to a port (AF_PACKET)";
    const EXAMPLE: &'static str = "packet://eth0:9000";
    const HEADING: &'static str = "receiving: packet";
    const FRAMES: FrameCounters = FrameCounters {
        damaged: &["packet.checksum_errors", "packet.truncated", "packet.lengths"],
        uncut: &[],
        fragments: &["packet.fragments"],
    };
    type Rings = Copies;
    type Error = InterfaceError;

    fn catalogue() -> Vec<Info> {
        Ring::catalogue()
    }

    fn open(
        url: &PacketUrl,
        buffer: u64,
        timestamps: bool,
    ) -> Result<PacketSource, InterfaceError> {
        PacketSource::open(url, buffer, timestamps)
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{InterfaceError, PacketSource};
    use crate::endpoint::PacketUrl;
    use crate::interface::elsewhere::only_on_linux;

    /// An interface's copies.
    #[derive(Debug)]
    pub struct Copies;

    impl PacketSource {
        /// Not here.
        ///
        /// # Errors
        /// Always.
        pub fn open(url: &PacketUrl, _: u64, _: bool) -> Result<PacketSource, InterfaceError> {
            let (endpoint, cause) = (url.to_string(), only_on_linux());
            Err(InterfaceError::System { endpoint, what: "open a packet ring", cause })
        }
    }
}

frame_counters! {
    /// What an AF_PACKET receiver counts.
    pub enum Ring of "packet"
    fragments: "IP fragments of UDP datagrams to any port, not put together"
        "if they are for us: let the sender send datagrams that fit the MTU, or receive with udp://",
    partial: "datagrams from a sender on this host, whose checksum nobody completed",
    kernel_drops: "times that the ring had no free block for a packet (a train of many datagrams counts once)",
    system_calls: "system calls to wait for packets",
    own: {
        Freezes "packet.ring_full" Times Sum "receive" Note
            "times that the ring became full"
            "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
    }
}
