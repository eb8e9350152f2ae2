//! `sonde` traffic: the readout of a panel of SoNDe modules at a 14 Hz pulsed source.
//!
//! Events follow [`Scattering`]; 1 tick = 1 ns since the stream's start, so that with `[time] pulse = grid` of 1/14 s
//! and phase 0 the offset is the time of flight, and 32-bit times wrap every 4.29 s as on the device. Up to
//! [`FRESH_LIMIT`] events/s every packet holds new random events; above it one pulse is prepared and repeated with its
//! numbers and times shifted in place. In both cases simulated time advances by exactly 1 s per `events_per_s` events
//! on average. Packets are always full (equal sizes); incomplete ones are not sent at the end. Refuses:
//! entry counts outside 1..=255, rates outside 1..=10¹¹ events/s, and rates so low that a module would go silent for
//! longer than 32-bit times can bridge. Source: `docs/formats/sonde.md`, sections 2, 3 and 6.

mod cycle;
mod fresh;
mod kind;
mod packet;
pub mod panel;

use super::scattering::Scattering;
use super::{PreparedPackets, ReadyPackets, Traffic, TrafficError, TrafficTotals};
use cycle::Cycle;
use fresh::Fresh;
use packet::Shape;
use panel::{MODULE_PIXELS, SimulatedPanel};

pub use kind::SondeKind;
pub use packet::DeviceMode;

/// Up to this rate events are made while sending (15 to 23 ns each, so a third of a core here).
pub const FRESH_LIMIT: f64 = 20e6;

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct SondeSetup {
    /// Modules, their places and how they are numbered.
    pub panel: SimulatedPanel,
    /// Data mode.
    pub mode: DeviceMode,
    /// Readouts per packet: 0xD6 entries or 0xD4 events, 1 to 255 (usual 250 and 150). A 0xD5 packet
    /// always holds one trigger with 64 samples.
    pub entries: usize,
    /// Events per simulated second, 1 to 10¹¹. Packets per second = this / events per packet.
    pub events_per_s: f64,
    /// Decides everything random.
    pub seed: u64,
    /// Packets in all; `None`: as many as are asked for.
    pub count: Option<u64>,
}

impl Default for SondeSetup {
    /// The demo's panel, 250 entries of 0xD6, 1 M events/s.
    fn default() -> Self {
        SondeSetup {
            panel: SimulatedPanel::demo(),
            mode: DeviceMode::TriggerTime,
            entries: 250,
            events_per_s: 1e6,
            seed: 1,
            count: None,
        }
    }
}

#[derive(Debug)]
enum Engine {
    Fresh(Box<Fresh>),
    Cycle(Box<Cycle>),
}

/// The simulated panel.
#[derive(Debug)]
pub struct SimulatedSonde {
    panel: SimulatedPanel,
    shape: Shape,
    engine: Engine,
    left: u64,
    packets: u64,
}

impl SimulatedSonde {
    /// Computes the picture and prepares the first packets. Above [`FRESH_LIMIT`] this takes about
    /// 0.1 s for 32 modules, 0.7 s for 400, and 16 MiB.
    ///
    /// # Errors
    /// An entry count or a rate out of range, or a rate too low for the panel.
    pub fn new(setup: &SondeSetup) -> Result<SimulatedSonde, TrafficError> {
        let shape = Shape::new(setup.mode, setup.entries)?;
        let rate = setup.events_per_s;
        if !(1.0..=1e11).contains(&rate) {
            return Err(TrafficError::rate(rate));
        }
        let scattering = Scattering::new(&setup.panel, setup.seed);
        // A 0xD5 packet makes 64 events of one trigger.
        let hits_per_s = rate * shape.hits() as f64 / shape.events() as f64;
        check_slowest(setup, shape, &scattering, hits_per_s)?;
        let engine = if hits_per_s <= FRESH_LIMIT {
            let fresh = Fresh::new(setup.panel, shape, &scattering, hits_per_s, setup.seed);
            Engine::Fresh(Box::new(fresh))
        } else {
            let cycle = Cycle::new(setup.panel, shape, &scattering, hits_per_s, setup.seed);
            Engine::Cycle(Box::new(cycle))
        };
        let left = setup.count.unwrap_or(u64::MAX);
        Ok(SimulatedSonde { panel: setup.panel, shape, engine, left, packets: 0 })
    }

    /// Payload bytes of every packet.
    pub fn packet_bytes(&self) -> usize {
        self.shape.bytes()
    }

    /// Packets per simulated second: a prepared pulse has a whole number of them, so that above [`FRESH_LIMIT`] this is
    /// the rate that was asked for to 1 in 10⁴.
    pub fn packets_per_s(&self) -> f64 {
        match &self.engine {
            Engine::Fresh(fresh) => fresh.packets_per_s(),
            Engine::Cycle(cycle) => cycle.packets_per_s(),
        }
    }

    /// Events in every packet.
    pub fn events_per_packet(&self) -> usize {
        self.shape.events()
    }

    /// (payload bytes, events) of every packet, without preparing any: what turns bit and packet
    /// rates into [`SondeSetup::events_per_s`].
    ///
    /// # Errors
    /// An entry count out of range.
    pub fn packet(mode: DeviceMode, entries: usize) -> Result<(usize, usize), TrafficError> {
        let shape = Shape::new(mode, entries)?;
        Ok((shape.bytes(), shape.events()))
    }

    /// The panel.
    pub fn panel(&self) -> &SimulatedPanel {
        &self.panel
    }
}

/// Packets of a module must not be 2³¹ ns apart, or a receiver cannot know to which turn of the 32-bit counter they
/// belong.
const LONGEST_GAP_S: f64 = 2.1;

/// Hits expected within the longest gap so that a packet of `n` is full by then: 6 standard deviations
/// of a Poisson count, and 20 for the exponential tail of small ones (less than 1 in 10⁸ packets late).
fn hits_wanted(n: usize) -> f64 {
    n as f64 + 6.0 * (n as f64).sqrt() + 20.0
}

fn check_slowest(
    setup: &SondeSetup,
    shape: Shape,
    scattering: &Scattering,
    hits_per_s: f64,
) -> Result<(), TrafficError> {
    let modules = scattering.of_modules();
    let all: f64 = modules.iter().sum();
    let least = modules.into_iter().fold(f64::INFINITY, f64::min) / all;
    let expected = hits_per_s * least * LONGEST_GAP_S;
    if expected >= hits_wanted(shape.hits()) {
        return Ok(());
    }
    let most = (1..shape.hits()).rev().find(|&n| expected >= hits_wanted(n));
    let rate = setup.events_per_s;
    Err(TrafficError::Slow {
        rate,
        entries: shape.hits(),
        // Rounded up, so that the rate that is named passes.
        lowest: (rate * hits_wanted(shape.hits()) / expected).ceil(),
        fewer: most.map_or(String::new(), |n| format!(", or at most {n} entries")),
    })
}

impl Traffic for SimulatedSonde {
    fn name(&self) -> &'static str {
        "sonde"
    }

    fn lanes(&self) -> usize {
        self.panel.lanes()
    }

    fn largest_packet(&self) -> usize {
        self.shape.bytes()
    }

    fn mean_packet(&self) -> f64 {
        self.shape.bytes() as f64
    }

    #[inline]
    fn next_train(&mut self, packets: usize, _now_ns: u64) -> Option<PreparedPackets<'_>> {
        let packets = (packets as u64).min(self.left) as usize;
        if packets == 0 {
            return None;
        }
        let train = match &mut self.engine {
            Engine::Fresh(fresh) => fresh.next_train(packets),
            Engine::Cycle(cycle) => cycle.next_train(packets),
        };
        self.left -= train.packets as u64;
        self.packets += train.packets as u64;
        Some(train)
    }

    fn ready(&mut self, at_ns: u64, most: usize) -> Option<ReadyPackets> {
        let Engine::Fresh(fresh) = &mut self.engine else { return None };
        if self.left == 0 {
            // Asked for, they are not there: that is how the stream ends.
            return Some(ReadyPackets { packets: 1, next_ns: at_ns });
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(most);
        Some(fresh.ready(at_ns, most))
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn totals(&self) -> TrafficTotals {
        TrafficTotals {
            packets: self.packets,
            bytes: self.packets * self.shape.bytes() as u64,
            events: self.packets * self.shape.events() as u64,
        }
    }

    fn truth(&self) -> Option<Vec<u64>> {
        let mut counts = vec![0; self.panel.modules() * MODULE_PIXELS];
        match &self.engine {
            Engine::Fresh(fresh) => fresh.truth(&mut counts),
            Engine::Cycle(cycle) => cycle.truth(&mut counts),
        }
        Some(counts)
    }
}

#[cfg(test)]
#[path = "sonde_tests.rs"]
mod tests;
