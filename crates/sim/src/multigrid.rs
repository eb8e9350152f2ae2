//! `multigrid` traffic: a Multi-Grid detector behind a Mesytec VMMR and an SIS3153.
//!
//! One stream for all modules, up to 16 of them with 80 wires and 40 grids. One turn of whole pulses is prepared and
//! repeated with numbers and times shifted in place. Up to [`REAL_TIME_HZ`] per module simulated time is real time; a
//! higher rate plays a detector of [`PLAYED_HZ`] faster. All readouts of a module in one trigger window of 1 µs have
//! one time. Refuses: rates, module numbers and pulse rates outside their ranges. Source: `docs/formats/multigrid.md`.

mod kind;
mod packet;
mod triggers;
mod wiring;

use std::ops::Range;

use super::made::Witness;
use super::noise::Noise;
use super::orders::no_monitor;
use super::tape::{Tape, as_on_tape};
use super::{PreparedPackets, ReadyPackets, Traffic, TrafficError, TrafficTotals};
use packet::Stamp;
use triggers::{Plan, Turn};

pub use kind::MultiGridKind;
pub use triggers::WINDOW;

fn modules_refused(modules: usize) -> TrafficError {
    TrafficError::value("modules", modules, "a Multi-Grid readout has 1 to 16")
}

fn pulses_refused(hz: f64) -> TrafficError {
    TrafficError::value("pulse-rate", format!("{hz} Hz"), "1 to 1000 Hz")
}

/// Modules at most: the bus has 4 bits.
pub const MOST_MODULES: usize = 16;
/// Ticks per second: 62.5 ns each.
pub const TICKS_PER_S: u64 = 16_000_000;
/// Neutrons per second and module up to which simulated time is real time: at the densest place a window of 1 µs has
/// 0.7 of them.
pub const REAL_TIME_HZ: f64 = 400e3;
/// Neutrons per second and module of a detector that is played faster than the clock.
pub const PLAYED_HZ: f64 = 100e3;
/// Time of the first pulse, ticks: 1 s.
const START: i64 = TICKS_PER_S as i64;
/// Bytes that a neutron takes with the empty triggers around it, for sizing a turn.
const BYTES_PER_NEUTRON: f64 = 80.0;
/// Bytes of a turn that is to be handed out faster than real time: it then stays in a second-level cache.
/// On a busy machine 16 MiB gave 7 Gb/s where 1 MiB gave 14.
pub const FAST_BYTES: usize = 1 << 20;
/// Seconds of a turn at most.
const LONGEST_S: f64 = 60.0;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiGridSetup {
    /// Modules, 1 to 16.
    pub modules: usize,
    /// Neutrons per second in all modules, 1 to 10¹¹.
    pub neutrons_per_s: f64,
    /// Everything else.
    pub noise: Noise,
    /// External triggers per second, 1 to 1000.
    pub pulse_hz: f64,
    /// Decides everything random.
    pub seed: u64,
    /// Bytes of a turn, about; at most [`FAST_BYTES`] above real time; more if one pulse needs more.
    pub prepared_bytes: usize,
    /// Packets in all; `None`: as many as are asked for.
    pub count: Option<u64>,
}

impl Default for MultiGridSetup {
    /// Three modules at 10 kHz each, 14 pulses per second, 16 MiB prepared.
    fn default() -> Self {
        MultiGridSetup {
            modules: 3,
            neutrons_per_s: 30e3,
            noise: Noise::NONE,
            pulse_hz: 14.0,
            seed: 1,
            prepared_bytes: 16 << 20,
            count: None,
        }
    }
}

/// Time of pulse `k` in ticks from the first one, rounded down; `millihertz` pulses per 1000 s.
fn pulse_tick(k: u64, millihertz: u64) -> i64 {
    (u128::from(k) * u128::from(TICKS_PER_S) * 1000 / u128::from(millihertz)) as i64
}

/// ns of ticks, rounded up.
fn tick_ns(ticks: i64) -> u64 {
    (ticks.unsigned_abs() * 125).div_ceil(2)
}

/// The simulated detector.
#[derive(Debug)]
pub struct MultiGrid {
    modules: usize,
    millihertz: u64,
    pulses: u64,
    speed: f64,
    tape: Tape,
    stamps: Vec<Stamp>,
    first: Vec<u32>,
    number: u32,
}

impl MultiGrid {
    /// Lays out one turn: about 0.2 s for 16 MiB.
    ///
    /// # Errors
    /// Modules, rates out of range.
    pub fn new(setup: &MultiGridSetup) -> Result<MultiGrid, TrafficError> {
        let MultiGridSetup { modules, neutrons_per_s: rate, pulse_hz, .. } = *setup;
        if !(1..=MOST_MODULES).contains(&modules) {
            return Err(modules_refused(modules));
        }
        if !(1.0..=1e11).contains(&rate) {
            return Err(TrafficError::rate(rate));
        }
        if !(1.0..=1000.0).contains(&pulse_hz) {
            return Err(pulses_refused(pulse_hz));
        }
        if setup.noise.monitor > 0.0 {
            return Err(no_monitor());
        }
        let millihertz = (pulse_hz * 1000.0).round() as u64;
        let real_time = rate <= REAL_TIME_HZ * modules as f64;
        let simulated = if real_time { rate } else { PLAYED_HZ * modules as f64 };
        let per_pulse = simulated / pulse_hz;
        let prepared = match real_time {
            true => setup.prepared_bytes,
            false => setup.prepared_bytes.min(FAST_BYTES),
        };
        let fit = prepared as f64 / (per_pulse * BYTES_PER_NEUTRON).max(1.0);
        let pulses = fit.clamp(1.0, (LONGEST_S * pulse_hz).ceil()) as u64;
        let plan = Plan {
            modules,
            neutrons: (per_pulse * pulses as f64).round().max(1.0) as usize,
            pulses: (0..=pulses).map(|k| pulse_tick(k, millihertz)).collect(),
            noise: setup.noise,
        };
        let turn = Turn::new(&plan, setup.seed);
        let packed = packet::pack(&plan, &turn, setup.seed);
        drop(turn);
        let mut tape = Tape::new(packed.bytes, packet::BYTES, packed.rows, setup.count);
        if real_time {
            tape.keep_time(packed.first.windows(2).map(|own| {
                let stamps = &packed.stamps[own[0] as usize..own[1] as usize];
                stamps.last().map_or(0, |stamp| tick_ns(stamp.time()))
            }));
        }
        let (stamps, first, number) = (packed.stamps, packed.first, 0);
        let speed = rate / simulated;
        Ok(MultiGrid { modules, millihertz, pulses, speed, tape, stamps, first, number })
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
        self.pulses as f64 * 1000.0 / self.millihertz as f64
    }

    /// The configuration file of `modules` modules, for a receiver.
    pub fn configuration(modules: usize) -> String {
        format!("{:#}\n", wiring::configuration(modules))
    }

    fn patch(&mut self, packets: Range<usize>, start: i64) {
        for packet in packets {
            let own = self.first[packet] as usize..self.first[packet + 1] as usize;
            let at = packet * self.tape.stride;
            let bytes = &mut self.tape.bytes[at..at + self.tape.stride];
            for stamp in &self.stamps[own] {
                stamp.put(bytes, self.number, start);
                self.number = self.number.wrapping_add(1);
            }
        }
    }
}

impl Traffic for MultiGrid {
    fn name(&self) -> &'static str {
        "multigrid"
    }

    as_on_tape!();

    fn next_train(&mut self, packets: usize, _now_ns: u64) -> Option<PreparedPackets<'_>> {
        let piece = self.tape.take(packets)?;
        let start = START + pulse_tick(piece.turn * self.pulses, self.millihertz);
        self.patch(piece.packets.clone(), start);
        self.tape.tell(&piece, start);
        Some(self.tape.packets_of(&piece))
    }

    fn ready(&mut self, at_ns: u64, most: usize) -> Option<ReadyPackets> {
        let (pulses, millihertz) = (self.pulses, self.millihertz);
        self.tape.ready(at_ns, most, |turn| tick_ns(pulse_tick(turn * pulses, millihertz)))
    }

    fn truth(&self) -> Option<Vec<u64>> {
        Some(self.tape.truth(wiring::pixels(self.modules)))
    }
}

#[cfg(test)]
#[path = "multigrid_tests.rs"]
mod tests;
