//! Declaration of numbered packets as a simulated detector.

use fullcount_core::simulator::facts::Declared;
use fullcount_core::simulator::{
    OptionUnit, Simulator, SimulatorOption, SimulatorPace, Traffic, TrafficError, TrafficMade,
    TrafficOrder,
};

use super::{NumberedPackets, SequenceSetup};

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct SequenceKind;

/// Payload bytes unless given: a full frame of MTU 1500.
const SIZE: &str = "1472";

const OPTIONS: [SimulatorOption; 1] = [SimulatorOption {
    key: "size",
    value: "BYTES",
    about: "payload bytes of a packet; several: 64,128,1472",
    range: "24 to 65507",
    default: SIZE,
    unit: OptionUnit::Bytes,
}];

const DECLARED: Declared = Declared {
    options: &OPTIONS,
    examples: &[
        "send --to udp://127.0.0.1:9000 --source sequence --size 64 --rate 10Gbps --duration 10s",
        "send --to udp://10.0.0.2:9000 --source sequence --count 1M --fault loss=1e-4,seed=7",
    ],
    ..Declared::new("sequence", "numbered packets of set sizes")
};

impl Simulator for SequenceKind {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let wrong = |text: &str| TrafficError::value("size", text, "24 to 65507 bytes each");
        let text = order.options.get("size").unwrap_or(SIZE);
        let size = |t: &str| t.trim().parse::<usize>().map_err(|_| wrong(t));
        let sizes = text.split(',').map(size).collect::<Result<Vec<usize>, _>>()?;
        let traffic =
            NumberedPackets::new(&SequenceSetup { sizes, seed: order.seed, count: None })?;
        let packets_per_s = match order.pace {
            SimulatorPace::Usual => None,
            SimulatorPace::Link(pps) => Some(pps(traffic.mean_packet())),
            SimulatorPace::Events(n) => {
                let why = "sequence packets hold no events";
                return Err(TrafficError::value("rate", format!("{n} events/s"), why));
            }
        };
        let (traffic, ports) = (Box::new(traffic), Vec::new());
        Ok(TrafficMade { traffic, packets_per_s, ports, faster: false, turn: None })
    }
}
