//! One experiment: what is asked ([`ScanCell`]) and what came of it ([`ScanOutcome`]).

use fullcount_core::sim::Spec;

use super::network::{Bin, Course, Network};
use super::variant::Variant;
use super::watch::SimWatch;

const MB: u64 = 1_000_000;
const GB_S: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Width of a bin: a recovery is known to it.
const BIN_NS: u64 = 20_000_000;

/// Why an experiment cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// A number out of range.
    #[error("{key}: {value} is not {allowed}")]
    Range {
        /// Which.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        allowed: &'static str,
    },
    /// A fault that cannot be.
    #[error("fault: {0}")]
    Fault(String),
}

/// One experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanCell {
    /// How they send.
    pub variant: Variant,
    /// Senders, each with a link and a receiver of its own, behind one port.
    pub senders: usize,
    /// The last sender is there from and until, ns; `None`: always.
    pub guest_ns: Option<(u64, u64)>,
    /// Fragment, bytes.
    pub fragment_bytes: u32,
    /// Fragments a second of each source; 0: as fast as they are taken.
    pub rate_hz: u64,
    /// Send buffer, a power of two.
    pub buffer_bytes: u32,
    /// Rate of the senders' links, bit/s.
    pub emit_bps: u64,
    /// Rate of the port, bit/s.
    pub port_bps: u64,
    /// Queue of the port, bytes.
    pub queue_bytes: u64,
    /// Window of each receiver, bytes.
    pub window_bytes: u32,
    /// Least, or fixed, retransmission time, µs.
    pub rto_us: u32,
    /// Faults of the port.
    pub fault: Spec,
    /// Decides everything random.
    pub seed: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Width of a bin, ns.
    pub bin_ns: u64,
}

impl ScanCell {
    /// The reference: figure 4 of the paper, `scale_ns` being the length of each of its three parts (10 s there).
    pub fn reference(variant: Variant, scale_ns: u64) -> ScanCell {
        ScanCell {
            variant,
            senders: 5,
            guest_ns: Some((scale_ns, 2 * scale_ns)),
            fragment_bytes: 2048,
            rate_hz: 125_000,
            buffer_bytes: 8 << 20,
            emit_bps: 5 * GB_S,
            port_bps: 10 * GB_S,
            queue_bytes: MB,
            window_bytes: 4 << 20,
            rto_us: 2000,
            fault: Spec::default(),
            seed: 1,
            end_ns: 3 * scale_ns,
            bin_ns: BIN_NS.min(scale_ns / 10),
        }
    }

    /// All values are possible.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), CellError> {
        let range =
            |key, value: u64, from: u64, to: u64, allowed| match (from..=to).contains(&value) {
                true => Ok(()),
                false => Err(CellError::Range { key, value, allowed }),
            };
        range("senders", self.senders as u64, 1, 1000, "1 to 1000")?;
        range("fragment", u64::from(self.fragment_bytes), 1, 65536, "1 to 65536 bytes")?;
        range("rate", self.rate_hz, 0, 100_000_000, "0 to 100 MHz")?;
        range("emit", self.emit_bps, MB, 1000 * GB_S, "1 Mb/s to 1000 Gb/s")?;
        range("port", self.port_bps, MB, 1000 * GB_S, "1 Mb/s to 1000 Gb/s")?;
        range("queue", self.queue_bytes, 10_000, 1 << 30, "10 kB to 1 GiB")?;
        range("window", u64::from(self.window_bytes), 65536, 4 << 20, "64 KiB to 4 MiB")?;
        range("rto", u64::from(self.rto_us), 100, 60_000_000, "100 µs to 60 s")?;
        range("seconds", self.end_ns, 1, 3600 * SECOND_NS, "at most an hour")?;
        range("bin", self.bin_ns, 1_000_000, self.end_ns, "1 ms to the whole")?;
        if !self.buffer_bytes.is_power_of_two() || self.buffer_bytes < 65536 {
            let (key, value) = ("buffer", u64::from(self.buffer_bytes));
            return Err(CellError::Range {
                key,
                value,
                allowed: "a power of two, at least 64 KiB",
            });
        }
        let fault = fullcount_core::sim::Fault::new(self.fault);
        fault.map(|_| ()).map_err(|e| CellError::Fault(e.to_string()))
    }

    /// From when until when sender `i` is there, ns.
    pub(super) fn times(&self, i: usize) -> (u64, u64) {
        match self.guest_ns {
            Some((from, until)) if i + 1 == self.senders => (from, until),
            _ => (0, u64::MAX),
        }
    }

    /// Senders that stay.
    pub fn permanent(&self) -> usize {
        self.senders - usize::from(self.guest_ns.is_some())
    }

    /// bit/s that each source makes; `None`: as many as there is room for.
    pub fn offered_bps(&self) -> Option<f64> {
        (self.rate_hz > 0).then(|| (self.rate_hz * u64::from(self.fragment_bytes) * 8) as f64)
    }

    /// While the guest is there, more is offered than the port takes, headers counted.
    pub fn overloaded(&self) -> bool {
        let wire = 9038.0 / 8960.0;
        self.offered_bps().is_none_or(|bps| bps * wire * self.senders as f64 > self.port_bps as f64)
    }

    /// Senders without control collapse here for good: more is offered than the port takes, and the windows of those that stay are at
    /// least twice the queue, so that what they have under way can overflow it for ever.
    pub fn must_collapse(&self) -> bool {
        let windows = self.permanent() as u64 * u64::from(self.window_bytes);
        self.variant == Variant::None
            && self.guest_ns.is_some()
            && self.overloaded()
            && windows >= 2 * self.queue_bytes
    }

    /// Runs it.
    ///
    /// # Errors
    /// See [`ScanCell::check`].
    pub fn run(&self) -> Result<ScanOutcome, CellError> {
        self.run_watched(None).map(|(outcome, _)| outcome)
    }

    /// Runs it, and what the first sender does is written; the watch comes back.
    ///
    /// # Errors
    /// See [`ScanCell::check`].
    pub fn run_watched(
        &self,
        watch: Option<SimWatch>,
    ) -> Result<(ScanOutcome, Option<SimWatch>), CellError> {
        self.check()?;
        let (course, watch) = Network::new(self).watched(watch).run();
        Ok((ScanOutcome::of(self, course), watch))
    }
}

/// Useful and total rate of a permanent sender in one part of the experiment, mean over senders and time, bit/s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SenderRates {
    /// In order at the receiver.
    pub useful: f64,
    /// On the link.
    pub wire: f64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanOutcome {
    /// Before the guest came; the whole time where there is none.
    pub before: SenderRates,
    /// While it was there.
    pub during: SenderRates,
    /// Afterwards.
    pub after: SenderRates,
    /// From the guest's end to the beginning of the first bin in which every permanent sender has 95 % of what its source makes, and
    /// has them on average from then on, s.
    pub recovery_s: Option<f64>,
    /// Share of frames that the port dropped.
    pub drop_share: f64,
    /// Everything else.
    pub course: Course,
}

impl ScanOutcome {
    fn of(cell: &ScanCell, course: Course) -> ScanOutcome {
        let n = cell.permanent();
        let bins = course.bins.first().map_or(0, Vec::len);
        let at = |ns: u64| ((ns / cell.bin_ns) as usize).min(bins);
        // The first tenth of a part belongs to its beginning.
        let settled = |from: u64, to: u64| at(from + (to - from) / 10)..at(to);
        let mean = |range: std::ops::Range<usize>| {
            let seconds = range.len() as f64 * cell.bin_ns as f64 / 1e9 * n as f64;
            let sum = |f: fn(&Bin) -> u64| {
                let all = course.bins.iter().take(n).flat_map(|b| &b[range.clone()]);
                all.map(f).sum::<u64>() as f64
            };
            match seconds > 0.0 {
                true => SenderRates {
                    useful: sum(|b| b.useful_bytes) * 8.0 / seconds,
                    wire: sum(|b| b.wire_bits) / seconds,
                },
                false => SenderRates::default(),
            }
        };
        let (before, during, after) = match cell.guest_ns {
            Some((from, until)) => (
                mean(settled(0, from)),
                mean(settled(from, until)),
                mean(settled(until, cell.end_ns)),
            ),
            None => {
                let whole = mean(settled(0, cell.end_ns));
                (whole, whole, whole)
            }
        };
        let recovery_s = cell.guest_ns.zip(cell.offered_bps()).and_then(|((_, until), offered)| {
            let least = 0.95 * offered / 8.0 * cell.bin_ns as f64 / 1e9;
            let from = at(until);
            let enough = |lane: &Vec<Bin>, first: usize, to: usize| {
                let sum: u64 = lane[first..to].iter().map(|b| b.useful_bytes).sum();
                sum as f64 >= least * (to - first) as f64
            };
            let first = (from..bins).find(|&b| {
                course.bins.iter().take(n).all(|l| enough(l, b, b + 1) && enough(l, b, bins))
            })?;
            Some((first - from) as f64 * cell.bin_ns as f64 / 1e9)
        });
        let drop_share = course.dropped as f64 / course.frames.max(1) as f64;
        ScanOutcome { before, during, after, recovery_s, drop_share, course }
    }
}
