//! AF_XDP: datagrams from the driver, bypassing the kernel's sockets, as a [`Source`] like any other.
//!
//! [`filter`] is the program that selects our datagrams, made with [`assemble`]; `rings` holds the memory shared with
//! the kernel; [`XdpSource`] opens, receives and cleans up. The program is tied to the interface by a link that the
//! kernel removes when this process ends, however it ends. Fails with [`XdpError`], whose message names the endpoint
//! and what to do. Sources: kernel `Documentation/networking/af_xdp.rst`, `bpf(2)`, `docs/engines.md`.
//!
//! [`Source`]: crate::source::Source

pub mod assemble;
mod error;
pub mod filter;
#[cfg(target_os = "linux")]
mod open;
#[cfg(target_os = "linux")]
mod receive;
#[cfg(target_os = "linux")]
pub mod rings;
pub(crate) mod url;

use fullcount_core::ledger::Info;
use fullcount_core::source::FrameCounters;

use crate::interface::InterfaceSource;
use crate::interface::counters::frame_counters;
use crate::interface::kind::{InterfaceEngine, InterfaceScheme};
use url::{XdpKeys, XdpUrl};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::Queues;
pub use error::XdpError;
#[cfg(target_os = "linux")]
pub use receive::Queues;

/// Receives the datagrams of one port from an interface's driver.
pub type XdpSource = InterfaceSource<Queues>;
/// The source `xdp`.
pub type XdpKind = InterfaceScheme<XdpKeys>;

impl InterfaceEngine for XdpKeys {
    const ABOUT: &'static str =
        "datagrams of a port taken from an interface's driver, past the sockets (AF_XDP)";
    const EXAMPLE: &'static str = "xdp://eth0:9000";
    const HEADING: &'static str = "receiving: xdp";
    const FRAMES: FrameCounters = FrameCounters {
        damaged: &["xdp.checksum_errors", "xdp.truncated", "xdp.lengths"],
        uncut: &["xdp.uncut_trains"],
        fragments: &["xdp.fragments", "xdp.fragments_passed"],
    };
    type Rings = Queues;
    type Error = XdpError;

    fn catalogue() -> Vec<Info> {
        Xdp::catalogue()
    }

    fn open(url: &XdpUrl, buffer: u64, timestamps: bool) -> Result<XdpSource, XdpError> {
        XdpSource::open(url, buffer, timestamps)
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{XdpError, XdpSource};
    use crate::endpoint::XdpUrl;
    use crate::interface::elsewhere::only_on_linux;

    /// The sockets on an interface's receive queues.
    #[derive(Debug)]
    pub struct Queues;

    impl XdpSource {
        /// Not here.
        ///
        /// # Errors
        /// Always [`XdpError::Unsupported`].
        pub fn open(url: &XdpUrl, _: u64, _: bool) -> Result<XdpSource, XdpError> {
            Err(XdpError::Unsupported { endpoint: url.to_string(), cause: only_on_linux() })
        }
    }
}

frame_counters! {
    /// What an AF_XDP receiver counts.
    pub enum Xdp of "xdp"
    fragments: "IP fragments that the filter let through" "report this: filter and receiver disagree",
    partial: "datagrams from a sender on this host, whose checksum nobody completed (1 in 65,536 others looks the same)",
    kernel_drops: "frames for us that the kernel dropped for want of packet memory (xdp.rx_dropped + xdp.rx_ring_full)",
    system_calls: "system calls to wait for packets and to wake the driver",
    own: {
        Uncut "xdp.uncut_trains" Packets Sum "receive" Note
            "trains of datagrams that came uncut, longer than the MTU (generic mode)"
            "on the sending side: ethtool -K PEER tx-udp-segmentation off; or receive with mode=native";
        Dropped "xdp.rx_dropped" Packets Sum "receive" Note
            "frames dropped because no chunk of packet memory was free, or they were too long for one"
            "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
        RingFull "xdp.rx_ring_full" Packets Sum "receive" Note
            "frames dropped because the receive ring was full"
            "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
        FillEmpty "xdp.fill_ring_empty" Times Sum "receive" Note
            "times that the kernel found no free chunk"
            "raise receive_buffer: the receiver was away for longer than it lasts";
        Invalid "xdp.invalid_descriptors" Times Sum "receive" Note
            "chunks that the kernel refused to take back"
            "report this with the kernel's version and the driver";
        Passed "xdp.passed" Packets Sum "receive" Note
            "frames that were not for us and went on to the kernel" "";
        FragmentsPassed "xdp.fragments_passed" Packets Sum "receive" Note
            "IP fragments of UDP datagrams that went on to the kernel, since only the first holds a port"
            "if they are for us: let the sender send datagrams that fit the MTU, or receive with udp://";
        OtherQueue "xdp.other_queue" Packets Sum "receive" Note
            "datagrams for us on receive queues without a socket; they went on to the kernel"
            "leave queue=N out, or steer the flow to that queue: ethtool -N IF flow-type udp4 dst-port PORT action N";
        WaitingPeak "xdp.waiting_peak" Packets Max "receive" Note
            "most pieces of frames seen waiting in one queue" "";
    }
}

/// With root: `Some`. Without: says so and skips, which fails in CI.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn tests_need_root() -> Option<()> {
    match rings::socket() {
        Ok(_) => Some(()),
        Err(e) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs root: {e}");
            println!("skipped: AF_XDP needs root: {e}");
            None
        }
    }
}
