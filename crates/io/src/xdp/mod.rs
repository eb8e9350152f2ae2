//! AF_XDP: datagrams taken from the driver, past the kernel's sockets, as a [`Source`] like any other.
//!
//! [`filter`] is the program that picks our datagrams, made with [`assemble`]; `rings` holds the memory
//! shared with the kernel; [`XdpSource`] opens, receives and cleans up. The program is tied to the
//! interface by a link that the kernel removes when this process ends, however it ends. Refuses: with
//! [`XdpError`], a sentence that names the endpoint and what to do.
//! Sources: kernel `Documentation/networking/af_xdp.rst`, `bpf(2)`, `docs/engines.md`.
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

#[cfg(not(target_os = "linux"))]
mod elsewhere;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::XdpSource;
pub use error::XdpError;
#[cfg(target_os = "linux")]
pub use receive::XdpSource;

fullcount_core::counters! {
    /// What an AF_XDP receiver counts.
    pub enum Xdp {
        Packets "receive.packets" Packets Sum "receive" In
            "datagrams received" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted
            "datagrams handed on to the decoder" "";
        Truncated "xdp.truncated" Packets Sum "receive" Note
            "frames that end before the datagram in them does"
            "look at the sender's card and its offloads: ethtool -S, ethtool -k";
        Lengths "xdp.lengths" Packets Sum "receive" Note
            "frames whose IP and UDP lengths contradict each other"
            "look at the sender: its packets are malformed";
        NotOurs "xdp.not_ours" Packets Sum "receive" Note
            "frames that the filter let through although they are not for this endpoint"
            "report this: filter and receiver disagree";
        Fragment "xdp.fragments" Packets Sum "receive" Note
            "IP fragments that the filter let through"
            "report this: filter and receiver disagree";
        Checksum "xdp.checksum_errors" Packets Sum "receive" Note
            "datagrams whose UDP checksum is wrong: their bytes are not those that were sent"
            "look for damage on the link: ethtool -S (rx_crc_errors), cables, memory of the sender";
        Uncut "xdp.uncut_trains" Packets Sum "receive" Note
            "trains of datagrams that came uncut, longer than the MTU (generic mode)"
            "on the sending side: ethtool -K PEER tx-udp-segmentation off; or receive with mode=native";
        Partial "xdp.checksum_partial" Packets Sum "receive" Note
            "datagrams from a sender on this host, whose checksum nobody completed (1 in 65,536 others looks the same)"
            "";
        Absent "xdp.checksum_absent" Packets Sum "receive" Note
            "datagrams sent without a checksum (IPv4)" "";
        Bytes "receive.bytes" Bytes Sum "receive" Note
            "UDP payload bytes received" "";
        KernelDrops "receive.kernel_drops" Times Sum "receive" Note
            "frames for us that the kernel dropped for want of packet memory (xdp.rx_dropped + xdp.rx_ring_full)"
            "raise receive_buffer, pin the receiver to a core of its own, or lower the rate";
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
        Idle "thread.input_idle" Times Sum "receive" Note
            "receive calls that timed out" "";
        Calls "receive.calls" Times Sum "receive" Note
            "receive calls that brought at least one datagram" "";
        SystemCalls "receive.system_calls" Times Sum "receive" Note
            "system calls to wait for packets and to wake the driver" "";
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
