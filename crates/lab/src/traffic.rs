//! The seam between simulated detectors and the sender: trains of equal packets, prepared ahead.
//!
//! A [`Traffic`] owns its packets in memory and patches only numbers and times in place, so that
//! preparing costs far less than sending. What it hands out stays addressable packet by packet:
//! faults (loss, duplication, reordering) are applied by the sender before segmentation.
//!
//! Refuses: sizes, rates and panels outside their range, see [`TrafficError`].

pub mod gdgem;
pub mod made;
pub mod multiblade;
pub mod multigrid;
pub mod noise;
pub mod panel;
pub(crate) mod random;
#[cfg(test)]
mod real_time_tests;
pub mod scattering;
pub mod sequence;
pub mod sonde;
mod tape;

pub use random::Random;

/// Packets of one source port, equally long, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared<'a> {
    /// All packets; `packets × stride` bytes.
    pub bytes: &'a [u8],
    /// Bytes per packet, 1 to 65,507.
    pub stride: usize,
    /// Number of packets, at least 1.
    pub packets: usize,
    /// Which of the source ports ([`Traffic::lanes`]) has to send them, counted from 0.
    pub lane: usize,
}

impl<'a> Prepared<'a> {
    /// The packets one by one, for faults and for transports without segmentation.
    pub fn each(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks_exact(self.stride)
    }
}

/// What has been handed out so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Packets, without end marks.
    pub packets: u64,
    /// Payload bytes of these packets.
    pub bytes: u64,
    /// Events that a decoder makes of them (readouts that have a pixel; of coincidence detectors the
    /// events that nothing overlaps); 0 for `sequence`.
    pub events: u64,
}

/// What a detector that keeps its own clock has ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Complete packets.
    pub packets: usize,
    /// When the next one may be complete, ns on the same clock: a good time to ask again. Not later than what was asked for
    /// if there are more by then.
    pub next_ns: u64,
}

/// A readout system's stand-in.
pub trait Traffic: Send {
    /// Name as in `send --source`.
    fn name(&self) -> &'static str;

    /// Source ports it needs: 1, or more where one port cannot number all modules.
    fn lanes(&self) -> usize {
        1
    }

    /// Longest packet, payload bytes: what a slot of the sender must hold.
    fn largest_packet(&self) -> usize;

    /// Mean payload bytes per packet over a whole cycle; turns bit rates into packet rates.
    fn mean_packet(&self) -> f64;

    /// The next 1 to `packets` packets (fewer where the cycle or the lane ends); `None` when a
    /// count limit is reached or `packets` is 0. A sender may ask for more than one kernel train
    /// and split what it gets at any multiple of the stride. `now_ns` is the sender's clock, ns
    /// since 1970 UTC, for formats that carry it.
    fn next_train(&mut self, packets: usize, now_ns: u64) -> Option<Prepared<'_>>;

    /// Of a detector whose clock goes as fast as real time: how many packets, at most `most`, are complete `at_ns`
    /// after it began, that is, their last readout has been made. `None`: its packets are spaced by a rate alone, and
    /// its clock goes as fast as they do.
    fn ready(&mut self, at_ns: u64, most: usize) -> Option<Ready> {
        let _ = (at_ns, most);
        None
    }

    /// Packets that tell the receiver the total, to be sent on lane 0 after the last train; not
    /// part of [`Traffic::totals`]. Empty for formats without such a mark.
    fn end(&mut self) -> Vec<Vec<u8>>;

    /// Amounts handed out so far.
    fn totals(&self) -> Totals;

    /// Events handed out per pixel, index = pixel − 1; `None` for traffic without pixels.
    fn truth(&self) -> Option<Vec<u64>> {
        None
    }

    /// From now on every row of truth goes to `witness` when its packet is handed out. False if this
    /// traffic has no rows; the witness is dropped then.
    fn watch(&mut self, witness: made::Witness) -> bool {
        let _ = witness;
        false
    }
}

/// Traffic that cannot be made as asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// A packet size that `sequence` cannot have.
    #[error("size: {0} B is not possible: sequence packets have 24 to 65507 B")]
    Size(usize),
    /// No size at all.
    #[error("size: the list is empty: give at least one of 24 to 65507 B")]
    NoSize,
    /// More sizes than a cycle may have.
    #[error("size: {0} sizes in the list: at most 65536 are possible")]
    ManySizes(usize),
    /// An entry count that the format cannot carry.
    #[error("entries: {0} per packet is not possible: 1 to 255")]
    Entries(usize),
    /// An event rate outside what 32-bit times can show.
    #[error("rate: {0} events/s is not possible: 1 to 1e11")]
    Rate(f64),
    /// A rate at which a module's packets come too seldom for 32-bit times.
    #[error(
        "rate: {rate} events/s is too low for {entries} readouts per packet on this panel: its \
         dimmest module would go silent for longer than the 2.1 s after which 32-bit times are \
         ambiguous; give at least {lowest:.0} events/s{fewer}"
    )]
    Slow {
        /// As asked.
        rate: f64,
        /// Readouts per packet as asked.
        entries: usize,
        /// Lowest rate for these, events/s.
        lowest: f64,
        /// `, or at most N entries` where that helps, else empty.
        fewer: String,
    },
    /// A panel that cannot be numbered.
    #[error("modules: {columns} x {rows} is not possible: 1 to 2048 modules in all")]
    Modules {
        /// Modules side by side.
        columns: usize,
        /// Modules one above the other.
        rows: usize,
    },
    /// Groups of 2 × 2 need an even number of modules each way.
    #[error("modules: groups of 2 x 2 do not fit {columns} x {rows}: both must be even")]
    Groups {
        /// Modules side by side.
        columns: usize,
        /// Modules one above the other.
        rows: usize,
    },
    /// Modules of a Multi-Grid that one readout cannot have.
    #[error("modules: {0} is not possible: a Multi-Grid readout has 1 to 16")]
    GridModules(usize),
    /// Cassettes of a Multi-Blade of which no set-up is known.
    #[error("modules: {0} is not possible: a Multi-Blade has 6 cassettes or 50")]
    Cassettes(usize),
    /// Counts of a beam monitor where there is none.
    #[error("noise: monitor is not possible: only a Multi-Blade of 6 cassettes has a beam monitor")]
    NoMonitor,
    /// A pulse rate out of range.
    #[error("pulse rate: {0} Hz is not possible: 1 to 1000 Hz")]
    Pulses(f64),
    /// Readouts per Multi-Blade packet that the format cannot carry.
    #[error("entries: {0} per packet is not possible: 2 to 1121")]
    Readouts(usize),
    /// Words of a Gd-GEM frame that it cannot have.
    #[error("entries: {0} words per frame is not possible: 50 to 1492")]
    Words(usize),
    /// Hits of a Gd-GEM track in each plane.
    #[error("hits: {0} in each plane is not possible: 1 to 20")]
    Hits(usize),
    /// A first port that leaves no room for the others.
    #[error(
        "port: {lanes} source ports in steps of 10 from {first} pass 65535: at most {allowed} possible"
    )]
    Ports {
        /// First source port.
        first: u16,
        /// Ports needed.
        lanes: usize,
        /// Highest first port that fits.
        allowed: u16,
    },
}
