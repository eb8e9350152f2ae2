//! `gdgem` traffic: a Gd-GEM detector of four sectors behind RD51 SRS electronics with VMM3a chips.
//!
//! 1280 × 1280 strips, eight FECs, eighty VMMs. Every neutron leaves the track of its conversion electron on both
//! planes of a sector. One turn of whole marker periods is prepared and repeated with new markers, frame counters and
//! time stamps. Refuses: rates, words per frame and hits per plane outside their ranges. Source:
//! `docs/formats/gdgem.md`.

mod frames;
mod items;
mod kind;
mod tracks;
mod wiring;

use super::made::Witness;
use super::multigrid::FAST_BYTES;
use super::noise::{Noise, Pileup};
use super::orders::no_monitor;
use super::tape::{Tape, as_on_tape};
use super::{PreparedPackets, ReadyPackets, Traffic, TrafficError, TrafficTotals};
use frames::{HEADER, Packed, WORD};
use items::Wanted;
use wiring::{FECS, VMMS};

pub use kind::GdGemKind;
pub use tracks::PITCH_MM;
pub use wiring::{SECTORS, SIDE};

fn words_refused(words: usize) -> TrafficError {
    TrafficError::value("entries", format!("{words} words per frame"), "50 to 1492")
}

fn hits_refused(hits: usize) -> TrafficError {
    TrafficError::value("hits", format!("{hits} in each plane"), "1 to 20")
}

/// A bunch-crossing clock, ns.
const CLOCK_NS: f64 = 25.0;
/// Clocks from marker to marker.
const PERIOD_CLOCKS: u64 = 65_536;
/// The same in ns.
const PERIOD_NS: f64 = PERIOD_CLOCKS as f64 * CLOCK_NS;
/// Period of the first marker: the electronics has run for a second.
const START_PERIODS: u64 = 610;
/// Hits of two neutrons of a sector that lie so far apart never meet: neither `-dt` nor `-dp` of 200 ns reaches over it.
pub const GUARD_NS: f64 = 300.0;
/// Neutrons per second over the detector up to which time goes as fast as the clock, if they keep apart.
pub const REAL_TIME_HZ: f64 = 1e6;
/// The same for neutrons that pile up.
const REAL_TIME_PILED_HZ: f64 = 20e6;
/// Words of a full frame, as recorded.
pub const FULL_FRAME: usize = 1492;
/// Words that leave room for a neutron and a set of markers.
const LEAST_WORDS: usize = 50;
/// Hits of a neutron in both planes, on average.
const MEAN_HITS: f64 = 17.0;
/// Periods of a turn at most: 60 s.
const LONGEST: f64 = 36_621.0;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct GdGemSetup {
    /// Neutrons per second over the detector, 1 to 10¹¹.
    pub neutrons_per_s: f64,
    /// Hits of each neutron in each plane, 1 to 20; `None`: as its track goes.
    pub hits: Option<usize>,
    /// Words per frame, 50 to 1492; `None`: 1492, as recorded.
    pub words: Option<usize>,
    /// Everything else.
    pub noise: Noise,
    /// Decides everything random.
    pub seed: u64,
    /// Bytes of a turn, about; at most [`FAST_BYTES`] above real time; more if one period needs more.
    pub prepared_bytes: usize,
    /// Packets in all; `None`: as many as are asked for.
    pub count: Option<u64>,
}

impl Default for GdGemSetup {
    /// 100 kHz of neutrons, 16 MiB prepared.
    fn default() -> Self {
        GdGemSetup {
            neutrons_per_s: 100e3,
            hits: None,
            words: None,
            noise: Noise::NONE,
            seed: 1,
            prepared_bytes: 16 << 20,
            count: None,
        }
    }
}

/// The simulated detector.
#[derive(Debug)]
pub struct SimulatedGdGem {
    periods: u64,
    speed: f64,
    tape: Tape,
    packed: Packed,
}

impl SimulatedGdGem {
    /// Lays out one turn: about 0.2 s for 16 MiB.
    ///
    /// # Errors
    /// Rates, words and hits out of range.
    pub fn new(setup: &GdGemSetup) -> Result<SimulatedGdGem, TrafficError> {
        let rate = setup.neutrons_per_s;
        if !(1.0..=1e11).contains(&rate) {
            return Err(TrafficError::rate(rate));
        }
        if setup.noise.monitor > 0.0 {
            return Err(no_monitor());
        }
        let words = setup.words.unwrap_or(FULL_FRAME);
        if !(LEAST_WORDS..=FULL_FRAME).contains(&words) {
            return Err(words_refused(words));
        }
        if let Some(hits) = setup.hits.filter(|hits| !(1..=tracks::MOST).contains(hits)) {
            return Err(hits_refused(hits));
        }
        let top =
            if setup.noise.pileup == Pileup::Never { REAL_TIME_HZ } else { REAL_TIME_PILED_HZ };
        let simulated = rate.min(top);
        let hits = setup.hits.map_or(MEAN_HITS, |n| 2.0 * n as f64);
        let per_period = simulated * PERIOD_NS * 1e-9;
        let markers = f64::from(VMMS) * FECS as f64;
        let bytes_per_period = WORD as f64 * (per_period * hits + markers);
        let prepared = match rate > simulated {
            true => setup.prepared_bytes.min(FAST_BYTES),
            false => setup.prepared_bytes,
        };
        let periods = (prepared as f64 / bytes_per_period).clamp(1.0, LONGEST) as u64;
        let turn_ns = periods as f64 * PERIOD_NS;
        let neutrons = (simulated * turn_ns * 1e-9).round().max(1.0) as usize;
        let wanted = Wanted { neutrons, turn_ns, hits: setup.hits, noise: setup.noise };
        let scene = items::scene(&wanted, setup.seed);
        let mut packed = frames::pack(&scene, periods, words, setup.noise.packet, setup.seed);
        let (bytes, rows) = (std::mem::take(&mut packed.bytes), std::mem::take(&mut packed.rows));
        let mut tape = Tape::new(bytes, HEADER + WORD * words, rows, setup.count);
        let speed = match rate <= top {
            true => {
                tape.keep_time(packed.stamps.iter().map(|s| (s.clocks as f64 * CLOCK_NS) as u64));
                1.0
            }
            // What a turn holds decides the speed.
            false => rate / (neutrons as f64 / (turn_ns * 1e-9)),
        };
        Ok(SimulatedGdGem { periods, speed, tape, packed })
    }

    /// Packets per second at which the rate is the one that was asked for.
    pub fn packets_per_s(&self) -> f64 {
        self.tape.packets() as f64 / self.turn_s() * self.speed
    }

    /// Packets and expected events of one turn, before any repeats.
    pub fn turn(&self) -> (u64, u64) {
        (self.tape.packets() as u64, self.tape.events())
    }

    /// Simulated seconds of one turn.
    pub fn turn_s(&self) -> f64 {
        self.periods as f64 * PERIOD_NS * 1e-9
    }

    /// The geometry file for a receiver: that of vmm-sdat, a detector per sector.
    pub fn configuration() -> String {
        wiring::configuration()
    }
}

impl Traffic for SimulatedGdGem {
    fn name(&self) -> &'static str {
        "gdgem"
    }

    as_on_tape!();

    fn next_train(&mut self, packets: usize, _: u64) -> Option<PreparedPackets<'_>> {
        let piece = self.tape.take(packets)?;
        let before = START_PERIODS + piece.turn * self.periods;
        let stride = self.tape.stride;
        for packet in piece.packets.clone() {
            let bytes = &mut self.tape.bytes[packet * stride..(packet + 1) * stride];
            let stamp = self.packed.stamps[packet];
            if let Some(fec) = stamp.fec {
                let frames = u64::from(self.packed.frames[usize::from(fec)]);
                let counter = (piece.turn * frames + u64::from(stamp.number)) as u32;
                bytes[..4].copy_from_slice(&counter.to_be_bytes());
            }
            let clocks = (before * PERIOD_CLOCKS + stamp.clocks) as u32;
            bytes[8..12].copy_from_slice(&clocks.to_be_bytes());
            let markers =
                self.packed.first[packet] as usize..self.packed.first[packet + 1] as usize;
            for &(at, period) in &self.packed.markers[markers] {
                // 42 bits of clocks, of which the lower 16 are 0: the upper 32 bits of the time stamp.
                let upper = ((before + u64::from(period)) * (PERIOD_CLOCKS / 1024)) as u32;
                bytes[at as usize..at as usize + 4].copy_from_slice(&upper.to_be_bytes());
            }
        }
        self.tape.tell(&piece, (before as f64 * PERIOD_NS) as i64);
        Some(self.tape.packets_of(&piece))
    }

    fn ready(&mut self, at_ns: u64, most: usize) -> Option<ReadyPackets> {
        let turn_ns = self.periods * (PERIOD_NS as u64);
        self.tape.ready(at_ns, most, |turn| turn * turn_ns)
    }

    fn truth(&self) -> Option<Vec<u64>> {
        Some(self.tape.truth(usize::from(SIDE) * usize::from(SIDE)))
    }
}

#[cfg(test)]
#[path = "gdgem_tests.rs"]
mod tests;
