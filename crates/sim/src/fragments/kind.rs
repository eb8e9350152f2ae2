//! Declaration of a readout system of many sources as a simulated detector.

use fullcount_core::simulator::facts::Declared;
use fullcount_core::simulator::{
    OptionUnit, Simulator, SimulatorOption, SimulatorPace, Traffic, TrafficError, TrafficMade,
    TrafficOrder,
};

use super::{FragmentTraffic, FragmentsSetup};

/// The kind for the registry.
#[derive(Debug, Clone, Copy)]
pub struct FragmentsKind;

const fn option(
    key: &'static str,
    value: &'static str,
    about: &'static str,
    range: &'static str,
    default: &'static str,
) -> SimulatorOption {
    SimulatorOption { key, value, about, range, default, unit: OptionUnit::None }
}

const OPTIONS: [SimulatorOption; 8] = [
    option("sources", "N", "sources, each on a stream of its own", "1 to 4096", "16"),
    option("first-source", "ID", "id of the first source; the others follow", "0 to 4095", "0"),
    SimulatorOption {
        unit: OptionUnit::Bytes,
        ..option(
            "fragment-size",
            "BYTES",
            "bytes of a fragment, header and trailer included; above 4080 in several blocks, for byte streams only",
            "24 to 65000, a multiple of 8",
            "2048",
        )
    },
    option("first-event", "N", "number of the first event", "0 to 16777215", "0"),
    option(
        "wrong-crc",
        "N",
        "every N-th fragment of a source has a wrong checksum; 0: none",
        "0 to 16777215",
        "0",
    ),
    option("missing-source", "ID", "this source sends nothing", "0 to 4095", ""),
    option("doubled-source", "ID", "one more stream has this source's id", "0 to 4095", ""),
    option(
        "throttling",
        "STATE",
        "throttling state of every fragment: 1 warning, 2 out of synchronisation, 4 busy, 8 ready, 12 error, 15 disconnected",
        "0 to 15",
        "8",
    ),
];

const DECLARED: Declared = Declared {
    title: "readout-system",
    options: &OPTIONS,
    examples: &[
        "send --to tcp://127.0.0.1:9000 --source fragments --rate 100kev/s --duration 10s",
        "send --to tcp://127.0.0.1:9000 --source fragments --sources 4 --wrong-crc 1000",
    ],
    ..Declared::new("fragments", "N sources with a fragment of every event, for the readout unit")
};

/// A number within a range, or what holds without one.
fn within(
    order: &TrafficOrder<'_>,
    at: usize,
    (least, most, usual): (u64, u64, u64),
) -> Result<u64, TrafficError> {
    let SimulatorOption { key, range, .. } = OPTIONS[at];
    let given = order.options.number::<u64>(key, range)?.unwrap_or(usual);
    match (least..=most).contains(&given) {
        true => Ok(given),
        false => Err(TrafficError::value(key, given, range)),
    }
}

/// An id that may be given.
fn id(order: &TrafficOrder<'_>, at: usize) -> Result<Option<u16>, TrafficError> {
    match order.options.get(OPTIONS[at].key) {
        None => Ok(None),
        Some(_) => within(order, at, (0, 4095, 0)).map(|id| Some(id as u16)),
    }
}

impl FragmentsSetup {
    /// Of an order.
    ///
    /// # Errors
    /// A value out of range, with it.
    pub fn of(order: &TrafficOrder<'_>) -> Result<FragmentsSetup, TrafficError> {
        let count = within(order, 0, (1, 4096, 16))?;
        let first_id = within(order, 1, (0, 4095, 0))?;
        let size = within(order, 2, (24, 65_000, 2048))?;
        let first = within(order, 3, (0, 0x00ff_ffff, 0))?;
        let wrong_crc = within(order, 4, (0, 0x00ff_ffff, 0))?;
        let (missing, doubled) = (id(order, 5)?, id(order, 6)?);
        let throttling = within(order, 7, (0, 15, 8))? as u8;
        if size % 8 != 0 {
            return Err(TrafficError::value(OPTIONS[2].key, size, OPTIONS[2].range));
        }
        if first_id + count > 4096 {
            let allowed =
                format!("ids go to 4095: at most {} sources from {first_id} on", 4096 - first_id);
            return Err(TrafficError::value(OPTIONS[0].key, count, allowed));
        }
        let mut sources: Vec<u16> = (first_id as u16..).take(count as usize).collect();
        for (at, id) in [(5, missing), (6, doubled)] {
            if let Some(id) = id.filter(|id| !sources.contains(id)) {
                return Err(TrafficError::value(OPTIONS[at].key, id, "one of the sources"));
            }
        }
        sources.retain(|source| Some(*source) != missing);
        sources.extend(doubled);
        if sources.is_empty() {
            return Err(TrafficError::value(OPTIONS[5].key, first_id, "not the only source"));
        }
        let (size, seed) = (size as usize, order.seed);
        Ok(FragmentsSetup { sources, size, first, wrong_crc, throttling, seed })
    }
}

impl Simulator for FragmentsKind {
    fn declared(&self) -> &'static Declared {
        &DECLARED
    }

    fn make(&self, order: &TrafficOrder<'_>) -> Result<TrafficMade, TrafficError> {
        let setup = FragmentsSetup::of(order)?;
        let traffic = FragmentTraffic::new(&setup);
        let lanes = traffic.lanes();
        let packets_per_s = match order.pace {
            SimulatorPace::Usual => None,
            SimulatorPace::Link(pps) => Some(pps(traffic.mean_packet())),
            SimulatorPace::Events(n) if (1.0..=1e11).contains(&n) => Some(n * lanes as f64),
            SimulatorPace::Events(n) => return Err(TrafficError::rate(n)),
        };
        let traffic = Box::new(traffic);
        Ok(TrafficMade { traffic, packets_per_s, ports: any(lanes), faster: false, turn: None })
    }

    fn ports(&self, order: &TrafficOrder<'_>) -> Result<Vec<u16>, TrafficError> {
        Ok(any(FragmentsSetup::of(order)?.sources.len()))
    }
}

/// A stream for each lane, from any port.
fn any(lanes: usize) -> Vec<u16> {
    vec![0; lanes]
}
