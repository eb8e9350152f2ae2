//! `multiblade` traffic: a Multi-Blade detector behind CAEN digitisers.
//!
//! Six cassettes of 32 wires and 32 strips, or fifty of 32 and 64, one digitiser each. The digitisers' clocks restart
//! every 20 ms; one turn of whole restarts is prepared and repeated with new packet numbers and computer times. Up to
//! [`REAL_TIME_HZ`] per cassette simulated time is real time; a higher rate plays a detector of [`PLAYED_HZ`] faster.
//! Packets hold equal numbers of readouts and split no neutron. The prototype's beam monitor counts if `noise` says so.
//! Refuses: rates, cassettes and readouts per packet outside their ranges, and a monitor for the fifty cassettes, which
//! have none. Source: `docs/formats/multiblade.md`.

mod items;
mod kind;
mod packet;
mod recorded;
mod wiring;

use super::made::Witness;
use super::multigrid::FAST_BYTES;
use super::noise::Noise;
use super::tape::{Tape, as_on_tape};
use super::{PreparedPackets, ReadyPackets, Traffic, TrafficError, TrafficTotals};
use items::MEAN;
use packet::{ELEMENT, HEADER, Plan};
use wiring::Wiring;

pub use kind::MultiBladeKind;

fn no_monitor() -> TrafficError {
    let why = "only a Multi-Blade of 6 cassettes has a beam monitor";
    TrafficError::value("noise", "monitor", why)
}

fn readouts_refused(readouts: usize) -> TrafficError {
    TrafficError::value("entries", format!("{readouts} per packet"), "2 to 1121")
}

/// Length of a tick, ns.
pub const TICK_NS: u32 = 16;
/// Ticks after which the digitisers restart: 20 ms.
pub const RESTART_TICKS: u32 = 1_250_000;
/// Ticks between the readouts of two neutrons of a cassette from which on they never share the builder's
/// box of 2010 ns: the resolution.
pub const BOX_TICKS: u32 = 2010u32.div_ceil(TICK_NS);
/// Neutrons per second and cassette up to which time goes as fast as the clock: at 3.3 µs that each needs for itself, 66 %
/// of the time.
pub const REAL_TIME_HZ: f64 = 200e3;
/// Neutrons per second and cassette of a detector that is played faster than the clock.
pub const PLAYED_HZ: f64 = 100e3;
/// From restart to restart, ns.
const RESTART_NS: u64 = RESTART_TICKS as u64 * TICK_NS as u64;
/// Readouts per packet unless set: at most as many as recorded, fewer where a restart brings fewer.
const MOST_USUAL: f64 = 70.0;
const LEAST_USUAL: f64 = 8.0;
/// Readouts that a datagram of 9000 bytes holds.
const MOST_READOUTS: usize = (9000 - HEADER) / ELEMENT;
/// Restarts per second.
const RESTARTS_PER_S: f64 = 50.0;
/// Restarts of a turn at most: 60 s.
const LONGEST: f64 = 3000.0;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiBladeSetup {
    /// Cassettes: 6 or 50.
    pub cassettes: usize,
    /// Neutrons per second in all cassettes, 1 to 10¹¹.
    pub neutrons_per_s: f64,
    /// Readouts per packet, 2 to 1121; `None`: as recorded, 8 to 70 by rate.
    pub readouts: Option<usize>,
    /// Everything else.
    pub noise: Noise,
    /// Decides everything random.
    pub seed: u64,
    /// Bytes of a turn, about; at most [`FAST_BYTES`] above real time; more if one restart needs more.
    pub prepared_bytes: usize,
    /// Packets in all; `None`: as many as are asked for.
    pub count: Option<u64>,
}

impl Default for MultiBladeSetup {
    /// Six cassettes at 10 kHz each, 16 MiB prepared.
    fn default() -> Self {
        MultiBladeSetup {
            cassettes: 6,
            neutrons_per_s: 60e3,
            readouts: None,
            noise: Noise::NONE,
            seed: 1,
            prepared_bytes: 16 << 20,
            count: None,
        }
    }
}

/// The simulated detector.
#[derive(Debug)]
pub struct SimulatedMultiBlade {
    wiring: Wiring,
    restarts: usize,
    speed: f64,
    tape: Tape,
    restart: Vec<u32>,
    number: u32,
    /// Computer time at the start, ms since 1970; set by the first train.
    began_ms: Option<u64>,
}

impl SimulatedMultiBlade {
    /// Lays out one turn: about 0.2 s for 16 MiB.
    ///
    /// # Errors
    /// Cassettes, rates, readouts per packet out of range.
    pub fn new(setup: &MultiBladeSetup) -> Result<SimulatedMultiBlade, TrafficError> {
        let wiring = Wiring::new(setup.cassettes)?;
        if setup.noise.monitor > 0.0 && wiring.monitor().is_none() {
            return Err(no_monitor());
        }
        let rate = setup.neutrons_per_s;
        if !(1.0..=1e11).contains(&rate) {
            return Err(TrafficError::rate(rate));
        }
        let cassettes = f64::from(wiring.cassettes);
        let real_time = rate <= REAL_TIME_HZ * cassettes;
        let simulated = if real_time { rate } else { PLAYED_HZ * cassettes };
        let per_restart = simulated / cassettes / RESTARTS_PER_S;
        let usual = (per_restart * MEAN).clamp(LEAST_USUAL, MOST_USUAL) as usize;
        let readouts = setup.readouts.unwrap_or(usual);
        if !(2..=MOST_READOUTS).contains(&readouts) {
            return Err(readouts_refused(readouts));
        }
        let size = HEADER + ELEMENT * readouts;
        let in_packet = packet::neutrons_per_packet(wiring, setup.noise, readouts);
        let packets_per_restart = per_restart / in_packet;
        let bytes_per_restart = packets_per_restart * cassettes * size as f64;
        let prepared = match real_time {
            true => setup.prepared_bytes,
            false => setup.prepared_bytes.min(FAST_BYTES),
        };
        let fit = prepared as f64 / bytes_per_restart.max(1.0);
        let restarts = fit.clamp(1.0, LONGEST) as usize;
        let packets = (packets_per_restart * restarts as f64).round().max(1.0) as usize;
        // At rates below one packet a turn the turn is longer instead.
        let restarts = match packets {
            1 => ((1.0 / packets_per_restart).round() as usize).max(1),
            _ => restarts,
        };
        let plan = Plan { wiring, noise: setup.noise, readouts, restarts, packets };
        let packed = packet::pack(&plan, setup.seed);
        let mut tape = Tape::new(packed.bytes, size, packed.rows, setup.count);
        if real_time {
            let restarts = packed.restart.iter().map(|&restart| u64::from(restart) * RESTART_NS);
            let last = packed.last.iter().map(|&ticks| u64::from(ticks) * u64::from(TICK_NS));
            tape.keep_time(restarts.zip(last).map(|(start, last)| start + last));
        }
        let (restart, speed) = (packed.restart, rate / simulated);
        Ok(SimulatedMultiBlade {
            wiring,
            restarts,
            speed,
            tape,
            restart,
            number: 0,
            began_ms: None,
        })
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
        self.restarts as f64 / RESTARTS_PER_S
    }

    /// The configuration file for a receiver of `cassettes` cassettes.
    ///
    /// # Errors
    /// A number of cassettes of which no set-up is known.
    pub fn configuration(cassettes: usize) -> Result<String, TrafficError> {
        Ok(format!("{:#}\n", Wiring::new(cassettes)?.configuration()))
    }
}

impl Traffic for SimulatedMultiBlade {
    fn name(&self) -> &'static str {
        "multiblade"
    }

    as_on_tape!();

    fn next_train(&mut self, packets: usize, now_ns: u64) -> Option<PreparedPackets<'_>> {
        let piece = self.tape.take(packets)?;
        let began = *self.began_ms.get_or_insert(now_ns / 1_000_000);
        let stride = self.tape.stride;
        for packet in piece.packets.clone() {
            // Fetched when its restart is over.
            let restarts = piece.turn * self.restarts as u64 + u64::from(self.restart[packet]) + 1;
            let bytes = &mut self.tape.bytes[packet * stride..(packet + 1) * stride];
            packet::number(bytes, self.number, began + 20 * restarts);
            self.number = self.number.wrapping_add(1);
        }
        self.tape.tell(&piece, 0);
        Some(self.tape.packets_of(&piece))
    }

    fn ready(&mut self, at_ns: u64, most: usize) -> Option<ReadyPackets> {
        let turn_ns = self.restarts as u64 * RESTART_NS;
        self.tape.ready(at_ns, most, |turn| turn * turn_ns)
    }

    fn truth(&self) -> Option<Vec<u64>> {
        Some(self.tape.truth(self.wiring.pixels()))
    }
}

#[cfg(test)]
#[path = "multiblade_tests.rs"]
mod tests;
