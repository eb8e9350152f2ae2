//! The memo's own figures, to stand beside ours. Source: `docs/formats/spead.md`, section 20.

/// Mean and standard deviation of the memo's runs; `None`: not measured there.
pub type Memo = Option<(f64, f64)>;

/// Columns of tables 2 to 4.
pub const COLUMNS: [&str; 4] = ["default", "mtu", "buffers", "mtu-buffers"];

/// A line of table 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoLink {
    /// Link and transport.
    pub name: &'static str,
    /// Gb/s, mean and standard deviation.
    pub gbps: (f64, f64),
    /// Datagrams lost, %; TCP has none.
    pub lost: Memo,
}

const fn link(name: &'static str, gbps: (f64, f64), lost: Memo) -> MemoLink {
    MemoLink { name, gbps, lost }
}

/// Table 1: iperf. It sent without a limit, so nearly all datagrams are lost on the link of 1 Gb/s.
pub const TABLE1: [MemoLink; 4] = [
    link("loopback udp", (56.7, 0.46), Some((0.26, 0.22))),
    link("loopback tcp", (51.82, 1.01), None),
    link("1G udp", (0.8102, 0.0004), Some((99.94, 0.00))),
    link("1G tcp", (0.935, 0.0), None),
];

/// Table 2, light receiver on loopback, Gb/s: UDP, TCP.
#[expect(clippy::approx_constant, reason = "a measured rate that looks like pi")]
pub const TABLE2: [[Memo; 4]; 2] = [
    [Some((2.28, 0.02)), Some((43.13, 0.26)), Some((2.19, 0.08)), Some((42.83, 0.90))],
    [Some((3.09, 0.06)), Some((27.91, 0.55)), Some((3.14, 0.04)), Some((25.96, 1.62))],
];

/// Table 3, `spead2_recv` on loopback: UDP Gb/s, UDP heap loss %, TCP Gb/s.
pub const TABLE3: [[Memo; 4]; 3] = [
    [Some((2.61, 0.12)), Some((37.10, 0.23)), Some((2.51, 0.11)), Some((24.55, 0.22))],
    [Some((2.73, 0.87)), Some((99.38, 0.28)), Some((0.00, 0.00)), Some((99.80, 0.18))],
    [Some((3.50, 0.05)), Some((28.82, 0.21)), Some((3.58, 0.03)), Some((15.10, 0.06))],
];

/// Table 4, `spead2_recv` over 1G: UDP Gb/s, UDP heap loss %, TCP Gb/s.
pub const TABLE4: [[Memo; 4]; 3] = [
    [Some((0.95, 0.00)), None, Some((0.95, 0.00)), None],
    [Some((1.60, 0.65)), None, Some((0.00, 0.00)), None],
    [Some((0.93, 0.00)), None, Some((0.93, 0.00)), None],
];

/// Largest packet of its links, bytes.
pub const PACKET: usize = 8950;
/// Heap, bytes: what it calls 4 MB.
pub const HEAP: u64 = 4 << 20;
/// Socket buffers of its tables and of its long link, bytes.
pub const TABLE_BUFFER: u64 = 16 << 20;
/// The same of the long link.
pub const LINK_BUFFER: u64 = 12 << 20;
/// Heaps of each stream on the long link.
pub const HEAPS: u64 = 50_000;
/// Runs of each point.
pub const RUNS: usize = 5;
/// Length of a run of iperf, s.
pub const IPERF_SECONDS: u64 = 20;
/// Round trip of the long link, ms.
pub const ROUND_TRIP_MS: f64 = 8.77;

/// A point of the memo's figures: rate of each stream, sum, both Gb/s, and heap loss, %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoPoint {
    /// Rate that each sender was given, Gb/s.
    pub target: f64,
    /// Sum of all streams, Gb/s.
    pub sum: Option<f64>,
    /// Heaps lost, %.
    pub loss: Option<f64>,
}

const fn point(target: f64, sum: Option<f64>, loss: Option<f64>) -> MemoPoint {
    MemoPoint { target, sum, loss }
}

/// MRO10 over UDP.
pub const MRO10: &[MemoPoint] = &[
    point(9.5, Some(28.3), Some(0.4)),
    point(9.6, Some(28.7), Some(1.75)),
    point(9.7, None, Some(38.3)),
];
/// MRO40 over UDP: flattens there.
pub const MRO40: &[MemoPoint] = &[point(8.0, Some(32.0), Some(1.0)), point(9.5, Some(32.0), None)];
/// MRO90 over UDP.
pub const MRO90: &[MemoPoint] = &[
    point(6.5, Some(56.0), Some(0.0)),
    point(6.75, None, Some(10.0)),
    point(9.5, Some(63.0), None),
];
/// Senders by number on the interface of 40 Gb/s, over UDP: one reaches about 17, four at 9 or 10 about 32. Loss and effective speed of
/// this figure are not given in numbers.
pub const SCALING: [(usize, &[MemoPoint]); 2] = [
    (1, &[point(20.0, Some(17.0), None)]),
    (4, &[point(9.0, Some(32.0), None), point(10.0, Some(32.0), None)]),
];

/// Speed of all TCP streams together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoTcp {
    /// Gb/s.
    Sum(f64),
    /// As UDP at the highest rate without loss, Gb/s, in words of the memo and not in a number.
    AsLossless(f64),
}

/// TCP on the long link. Of MRO90 the memo has no number: it "equals lossless UDP", whose loss starts at 56 Gb/s.
pub const TCP_SUM: [(&str, MemoTcp); 3] = [
    ("mro10", MemoTcp::Sum(26.9)),
    ("mro40", MemoTcp::Sum(31.0)),
    ("mro90", MemoTcp::AsLossless(56.0)),
];

/// TCP of an experiment.
pub fn tcp_sum(name: &str) -> Option<MemoTcp> {
    TCP_SUM.iter().find(|(n, _)| *n == name).map(|(_, sum)| *sum)
}
