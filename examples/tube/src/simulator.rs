//! The simulator of tubes: packets of one pulse each, at random tubes and positions, 14 pulses a second.
//!
//! Shares no code with the decoder. Refuses tubes outside 1 to 256 and rates outside 14 to 10⁷ events/s.

use fullcount_core::simulator::facts::{Declared, Demonstration, SimulatedLoad};
use fullcount_core::simulator::{
    PreparedPackets, Simulator, SimulatorOption, SimulatorPace, Traffic, TrafficError, TrafficMade,
    TrafficOptions, TrafficOrder, TrafficTotals,
};

/// From pulse to pulse, ns.
const PERIOD_NS: u64 = 71_428_571;
/// Events of a packet, so that it fits a frame of 1500 bytes.
const EVENTS: usize = 180;
const BYTES: usize = 12 + 8 * EVENTS;
const USUAL_TUBES: usize = 8;
const USUAL_RATE: f64 = 100e3;

/// The kind for the registry.
pub struct TubeSimulator;

const OPTIONS: [SimulatorOption; 1] =
    [SimulatorOption::new("tubes", "N", "tubes", "1 to 256", "8")];

fn tubes(order: &TrafficOrder<'_>) -> Result<usize, TrafficError> {
    let tubes = order.options.whole("tubes", "1 to 256")?.unwrap_or(USUAL_TUBES);
    match (1..=256).contains(&tubes) {
        true => Ok(tubes),
        false => Err(TrafficError::value("tubes", tubes, "1 to 256")),
    }
}

const DECLARED: Declared = Declared {
    options: &OPTIONS,
    usual_rate: Some("100kev/s"),
    demonstration: Some(Demonstration {
        extent: "8 tubes",
        rate: "100kev/s",
        title: "tubes",
        geometry_file: "geometry.toml",
        pulse: "data",
        tick: None,
        options: &[],
        settings: &[],
    }),
    ..Declared::new("tube", "position-sensitive tubes (an example)")
};

impl Simulator for TubeSimulator {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let tubes = tubes(order)?;
        let packets_per_s = match order.pace {
            SimulatorPace::Usual => USUAL_RATE / EVENTS as f64,
            SimulatorPace::Events(rate) if (14.0..=1e7).contains(&rate) => rate / EVENTS as f64,
            SimulatorPace::Events(rate) => {
                let rate = format!("{rate} events/s");
                return Err(TrafficError::value("rate", rate, "14 to 1e7"));
            }
            SimulatorPace::Link(packets_per_s) => packets_per_s(BYTES as f64),
        };
        let traffic = Tubes {
            tubes,
            per_pulse: (packets_per_s * PERIOD_NS as f64 / 1e9).max(1.0) as u64,
            random: order.seed | 1,
            packet: vec![0; BYTES],
            packets: 0,
            truth: vec![0; 64 * tubes],
        };
        let (traffic, packets_per_s) = (Box::new(traffic), Some(packets_per_s));
        Ok(TrafficMade { traffic, packets_per_s, ports: Vec::new(), faster: false, turn: None })
    }

    fn geometry(&self, order: &TrafficOrder<'_>) -> Result<Option<String>, TrafficError> {
        Ok(Some(format!("tubes = {}\n", tubes(order)?)))
    }

    fn loads(&self) -> Vec<SimulatedLoad> {
        vec![SimulatedLoad {
            name: "simulated",
            about: "8 tubes, 180 events a packet",
            options: TrafficOptions::default(),
            events_per_s: USUAL_RATE,
            with_geometry: true,
            settings: &[],
        }]
    }
}

struct Tubes {
    tubes: usize,
    /// Packets of a pulse.
    per_pulse: u64,
    random: u64,
    packet: Vec<u8>,
    packets: u64,
    truth: Vec<u64>,
}

impl Tubes {
    /// 0..n; xorshift64*.
    fn below(&mut self, n: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % n
    }
}

impl Traffic for Tubes {
    fn name(&self) -> &'static str {
        "tube"
    }

    fn largest_packet(&self) -> usize {
        BYTES
    }

    fn mean_packet(&self) -> f64 {
        BYTES as f64
    }

    fn next_train(&mut self, packets: usize, _: u64) -> Option<PreparedPackets<'_>> {
        if packets == 0 {
            return None;
        }
        let pulse = 1 + self.packets / self.per_pulse;
        self.packet[..4].copy_from_slice(b"TUBE");
        self.packet[4..12].copy_from_slice(&(pulse * PERIOD_NS).to_le_bytes());
        for n in 0..EVENTS {
            let tube = self.below(self.tubes as u64);
            let position = self.below(64);
            let time = self.below(PERIOD_NS) as u32;
            self.truth[(64 * tube + position) as usize] += 1;
            let readout = &mut self.packet[12 + 8 * n..20 + 8 * n];
            readout[..2].copy_from_slice(&(tube as u16).to_le_bytes());
            readout[2..4].copy_from_slice(&(position as u16).to_le_bytes());
            readout[4..].copy_from_slice(&time.to_le_bytes());
        }
        self.packets += 1;
        Some(PreparedPackets { bytes: &self.packet, stride: BYTES, packets: 1, lane: 0 })
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn totals(&self) -> TrafficTotals {
        let packets = self.packets;
        TrafficTotals { packets, bytes: packets * BYTES as u64, events: packets * EVENTS as u64 }
    }

    fn truth(&self) -> Option<Vec<u64>> {
        Some(self.truth.clone())
    }
}
