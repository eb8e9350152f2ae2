//! What a simulator makes for the detector that is measured: the loads that its kind declares.
//!
//! Refuses: a load that its own simulator refuses, which would be a mistake of the kind.

use fullcount_core::simulator::facts::SimulatedLoad;
use fullcount_core::simulator::{SimulatorPace, Traffic, TrafficError, TrafficOrder};

use super::input::{Input, PORT, Stock};
use crate::error::LabError;

/// Simulated packets and the ports by lane that they come from.
pub type SimulatedTraffic = (Box<dyn Traffic>, Vec<u16>);

/// A load of a simulated detector: makes its packets from the start.
#[derive(Debug, Clone)]
pub struct Loaded {
    detector: String,
    load: SimulatedLoad,
}

impl Loaded {
    /// The packets.
    pub fn make(&self) -> Result<SimulatedTraffic, LabError> {
        let Loaded { detector, load } = self;
        let kind = fullcount_sim::registered().find(detector);
        let kind = kind.ok_or_else(|| LabError::Refused(format!("{detector}: no simulator")))?;
        let made = kind.make(&order(load)).map_err(anyhow::Error::from)?;
        let ports = if made.ports.is_empty() { vec![PORT] } else { made.ports };
        Ok((made.traffic, ports))
    }
}

fn order(load: &SimulatedLoad) -> TrafficOrder<'_> {
    TrafficOrder {
        pace: SimulatorPace::Events(load.events_per_s),
        ..TrafficOrder::of(&load.options, 1)
    }
}

/// Inputs of a detector, the one to be measured where one has to do last; empty if nothing simulates it.
pub fn simulated(detector: &str) -> Vec<Input> {
    let Some(kind) = fullcount_sim::registered().find(detector) else { return vec![] };
    let input = |load: SimulatedLoad| -> Result<Input, TrafficError> {
        let geometry = match load.with_geometry {
            true => kind.geometry(&order(&load))?.unwrap_or_default(),
            false => String::new(),
        };
        Ok(Input {
            detector: detector.to_owned(),
            name: load.name,
            about: load.about.to_owned(),
            geometry,
            settings: load.settings.iter().map(|&set| set.to_owned()).collect(),
            reading: false,
            stock: Stock::Traffic(Loaded { detector: detector.to_owned(), load }),
        })
    };
    kind.loads().into_iter().filter_map(|load| input(load).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_that_a_kind_declares_is_made() {
        for kind in fullcount_sim::registered().kinds() {
            let inputs = simulated(kind.name());
            assert_eq!(inputs.len(), kind.loads().len(), "{}", kind.name());
            for input in inputs {
                let Stock::Traffic(loaded) = &input.stock else { panic!("{}", input.title()) };
                let (mut traffic, ports) = loaded.make().unwrap();
                assert!(traffic.next_train(1, 0).is_some(), "{}", input.title());
                assert_eq!(ports.len(), traffic.lanes(), "{}", input.title());
            }
        }
    }
}
