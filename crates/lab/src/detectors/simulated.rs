//! What `lab::traffic` makes for each detector that is measured.
//!
//! Refuses: a setting that its simulator refuses, which would be a mistake here.

use crate::traffic::Traffic;
use crate::traffic::gdgem::{GdGem, GdGemSetup};
use crate::traffic::multiblade::{MultiBlade, MultiBladeSetup};
use crate::traffic::multigrid::{MultiGrid, MultiGridSetup};
use crate::traffic::noise::{Noise, Pileup};
use crate::traffic::panel::Panel;
use crate::traffic::sonde::{Mode, Sonde, SondeSetup};

use super::input::{Input, PORT, SIMULATED, Stock};
use crate::error::LabError;

/// Simulated packets and the ports by lane that they come from.
pub type Simulated = (Box<dyn Traffic>, Vec<u16>);

/// Inputs of a detector, the one to be measured where one has to do last; empty if nothing simulates it.
pub fn simulated(detector: &str) -> Vec<Input> {
    let input = |name, about: &str, geometry, make| Input {
        detector: detector.to_owned(),
        name,
        about: about.to_owned(),
        geometry,
        settings: vec![],
        reading: false,
        stock: Stock::Traffic(make),
    };
    match detector {
        "sonde" => vec![input(
            SIMULATED,
            "32 modules of one sender, 250 trigger times a packet as in the paper (0xD6)",
            String::new(),
            sonde,
        )],
        "multigrid" => {
            let geometry = || MultiGrid::configuration(GRID_MODULES);
            vec![
                input(
                    "noisy",
                    "3 modules as simulated, with 10 % dark counts, 1 % inconsistent readouts, 1 % chance coincidences, 0.1 % broken \
                     packets, neutrons at random times",
                    geometry(),
                    || multigrid(NOISY),
                ),
                input(
                    SIMULATED,
                    "3 modules with 100,000 neutrons/s each, empty triggers between as recorded, no noise",
                    geometry(),
                    || multigrid(Noise::NONE),
                ),
            ]
        }
        "multiblade" => {
            let geometry = || MultiBlade::configuration(CASSETTES).unwrap_or_default();
            vec![
                input(
                    "dense",
                    "6 cassettes with 100,000 neutrons/s each in packets of 8,976 bytes, no noise",
                    geometry(),
                    || multiblade(Noise::NONE, Some(DENSE)),
                ),
                input(
                    "noisy",
                    "6 cassettes as simulated, with 10 % dark counts, 1 % inconsistent readouts, 1 % chance \
                     coincidences, 0.1 % broken packets, neutrons at random times",
                    geometry(),
                    || multiblade(NOISY, None),
                ),
                input(
                    SIMULATED,
                    "6 cassettes with 100,000 neutrons/s each in packets as recorded, no noise",
                    geometry(),
                    || multiblade(Noise::NONE, None),
                ),
            ]
        }
        "gdgem" => {
            let input = |name, about, make| Input {
                settings: vec!["detector.one_picture=true".to_owned()],
                ..input(name, about, GdGem::configuration(), make)
            };
            vec![
                input(
                    "noisy",
                    "4 sectors with 1,000,000 neutrons/s in all, tracks of any length at random times, 10 % dark counts, 1 % \
                     refused words, 1 % chance coincidences, 0.1 % broken packets",
                    || gdgem(NOISY, None),
                ),
                input(
                    SIMULATED,
                    "4 sectors with 1,000,000 neutrons/s in all, tracks of 10 + 10 hits, full frames of 1492 words, no noise",
                    || gdgem(Noise::NONE, Some(TRACK)),
                ),
            ]
        }
        _ => vec![],
    }
}

/// Modules of the published configuration.
const GRID_MODULES: usize = 3;
/// Cassettes of the prototype.
const CASSETTES: usize = 6;
/// Neutrons a second of each module or cassette: the highest that simulators play in real time.
const NEUTRONS_HZ: f64 = 100e3;
/// Readouts of a dense Multi-Blade packet: 32 + 8 · 1118 = 8976 bytes, a frame of MTU 9000 with its headers.
const DENSE: usize = 1118;
/// Neutrons a second of a Gd-GEM: the most that its simulator plays in real time if they keep apart.
const GEM_HZ: f64 = 1e6;
/// Hits of a Gd-GEM track in each plane.
const TRACK: usize = 10;
/// A detector with everything that is no clean neutron.
const NOISY: Noise = Noise {
    dark: 0.1,
    bad: 0.01,
    coincidence: 0.01,
    packet: 0.001,
    dead: 0.0,
    monitor: 0.0,
    pileup: Pileup::Random,
};

fn multigrid(noise: Noise) -> Result<Simulated, LabError> {
    let neutrons_per_s = NEUTRONS_HZ * GRID_MODULES as f64;
    let setup = MultiGridSetup {
        modules: GRID_MODULES,
        neutrons_per_s,
        noise,
        ..MultiGridSetup::default()
    };
    let traffic = MultiGrid::new(&setup).map_err(anyhow::Error::from)?;
    Ok((Box::new(traffic), vec![PORT]))
}

fn multiblade(noise: Noise, readouts: Option<usize>) -> Result<Simulated, LabError> {
    let neutrons_per_s = NEUTRONS_HZ * CASSETTES as f64;
    let setup = MultiBladeSetup {
        cassettes: CASSETTES,
        neutrons_per_s,
        readouts,
        noise,
        ..MultiBladeSetup::default()
    };
    let traffic = MultiBlade::new(&setup).map_err(anyhow::Error::from)?;
    Ok((Box::new(traffic), vec![PORT]))
}

fn gdgem(noise: Noise, hits: Option<usize>) -> Result<Simulated, LabError> {
    let setup = GdGemSetup { neutrons_per_s: GEM_HZ, hits, noise, ..GdGemSetup::default() };
    let traffic = GdGem::new(&setup).map_err(anyhow::Error::from)?;
    Ok((Box::new(traffic), vec![PORT]))
}

fn sonde() -> Result<Simulated, LabError> {
    let panel = Panel::demo();
    let setup = SondeSetup {
        panel,
        mode: Mode::TriggerTime,
        entries: 250,
        events_per_s: 250e6,
        seed: 1,
        count: None,
    };
    let traffic = Sonde::new(&setup).map_err(anyhow::Error::from)?;
    let ports = (0..panel.lanes()).map(|lane| panel.source_port(lane)).collect();
    Ok((Box::new(traffic), ports))
}
