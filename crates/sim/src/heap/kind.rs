//! Declaration of an array telescope as a simulated detector: its events are heaps.

use fullcount_core::simulator::facts::{Declared, Demonstration, SimulatedLoad};
use fullcount_core::simulator::{
    OptionUnit, Simulator, SimulatorOption, SimulatorPace, TrafficError, TrafficMade,
    TrafficOptions, TrafficOrder,
};

use super::{HeapSetup, HeapTraffic};

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct HeapSimulator;

/// Heaps a second unless a rate is given.
const USUAL: f64 = 100.0;
/// Largest heap, bytes.
const LARGEST: usize = 256 << 20;

const OPTIONS: [SimulatorOption; 3] = [
    SimulatorOption {
        key: "antennas",
        value: "N",
        about: "antennas; a heap has a row of visibilities for each pair of them",
        range: "1 to 256",
        default: "4",
        unit: OptionUnit::None,
    },
    SimulatorOption {
        key: "channels",
        value: "N",
        about: "frequency channels",
        range: "16 to 1048576",
        default: "1024",
        unit: OptionUnit::None,
    },
    SimulatorOption {
        key: "packet",
        value: "BYTES",
        about: "largest SPEAD packet, as spead2 counts it",
        range: "56 to 65507",
        default: "1472",
        unit: OptionUnit::Bytes,
    },
];

const DECLARED: Declared = Declared {
    title: "SPEAD heaps",
    options: &OPTIONS,
    usual_rate: Some("100ev/s"),
    examples: &[
        "send --to udp://127.0.0.1:7148 --source heap --rate 100ev/s --duration 60s",
        "send --to udp://127.0.0.1:7148 --source heap --channels 65536 --packet 8972 --rate 2Gbps",
        "run --source udp://0.0.0.0:7148 --detector heap --heaps run42.h5",
        "run --source udp://0.0.0.0:7148 --detector heap --npy run42",
        "inspect pcap:heaps.pcap --detector heap --count 3",
    ],
    demonstration: Some(Demonstration {
        extent: "4 antennas, 1024 channels",
        rate: "100ev/s",
        title: "array telescope",
        geometry_file: "",
        pulse: "none",
        tick: None,
        options: &[],
        settings: &["detector.waterfall=power"],
    }),
    ..Declared::new("heap", "array telescope with moving tones, as SPEAD heaps with descriptors")
};

fn setup(order: &TrafficOrder<'_>) -> Result<HeapSetup, TrafficError> {
    let whole =
        |key, allowed: &'static str, usual: usize, range: std::ops::RangeInclusive<usize>| {
            let value = order.options.whole(key, allowed)?.unwrap_or(usual);
            match range.contains(&value) {
                true => Ok(value),
                false => Err(TrafficError::value(key, value, allowed)),
            }
        };
    let setup = HeapSetup {
        antennas: whole("antennas", "1 to 256", 4, 1..=256)?,
        channels: whole("channels", "16 to 1048576", 1024, 16..=1 << 20)?,
        packet: whole("packet", "56 to 65507", 1472, 56..=65_507)?,
        seed: order.seed,
    };
    if setup.bytes() > LARGEST {
        let value = format!("{} with {} antennas", setup.channels, setup.antennas);
        return Err(TrafficError::value("channels", value, "heaps of 256 MiB at most"));
    }
    Ok(setup)
}

impl Simulator for HeapSimulator {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let traffic = HeapTraffic::new(setup(order)?);
        let per_heap = traffic.packets_per_heap();
        let packets_per_s = match order.pace {
            SimulatorPace::Usual => USUAL * per_heap,
            SimulatorPace::Events(rate) if (1e-3..=1e7).contains(&rate) => rate * per_heap,
            SimulatorPace::Events(rate) => {
                let rate = format!("{rate} heaps/s");
                return Err(TrafficError::value(
                    "rate",
                    rate,
                    "0.001 to 1e7 events (heaps) a second",
                ));
            }
            SimulatorPace::Link(packets_per_s) => {
                packets_per_s(fullcount_core::simulator::Traffic::mean_packet(&traffic))
            }
        };
        let (traffic, packets_per_s) = (Box::new(traffic), Some(packets_per_s));
        Ok(TrafficMade { traffic, packets_per_s, ports: Vec::new(), faster: false, turn: None })
    }

    fn loads(&self) -> Vec<SimulatedLoad> {
        vec![SimulatedLoad {
            name: "simulated",
            about: "heaps of 4 antennas and 65,536 channels in packets of 8972 B",
            options: TrafficOptions::of(&[("channels", "65536"), ("packet", "8972")]),
            events_per_s: 250.0,
            with_geometry: false,
            settings: &[],
        }]
    }
}
