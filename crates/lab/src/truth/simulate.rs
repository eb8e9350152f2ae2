//! Packets and truth of one simulated turn, decoded in memory by the real reader and builder.
//!
//! Refuses: what the simulators and detectors refuse.

use std::sync::{Arc, Mutex};

use crate::traffic::Traffic;
use crate::traffic::made::Made;
use crate::traffic::multiblade::{MultiBlade, MultiBladeSetup, TICK_NS};
use crate::traffic::multigrid::{MultiGrid, MultiGridSetup};
use crate::traffic::noise::Noise;
use anyhow::Context;
use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::ledger::{Role, Sheet};
use fullcount_core::products::Products;
use fullcount_detect::detector::{Detector, Registry, Setup};

use super::compare::{Mark, Verdict, compare};
use crate::error::LabError;

/// Bytes that a neutron takes in a turn, about.
const BYTES_PER_NEUTRON: usize = 80;
/// Multi-Blade: an event's time may be that of a readout before the neutron in the same box of 2010 ns.
const BOX_NS: i64 = 2010;

/// Which detector is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simulated {
    /// With so many modules.
    MultiGrid(usize),
    /// With so many cassettes.
    MultiBlade(usize),
}

/// One point of the campaign.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// Neutrons per second and module.
    pub rate_hz: f64,
    /// Everything else.
    pub noise: Noise,
    /// Neutrons wanted, about.
    pub neutrons: usize,
    /// Decides everything random.
    pub seed: u64,
}

/// What came of a point.
#[derive(Debug)]
pub struct Outcome {
    /// The comparison.
    pub verdict: Verdict,
    /// Simulated seconds.
    pub seconds: f64,
    /// What the decoder refused: counter and number, zeros left out.
    pub rejected: Vec<(String, u64)>,
}

impl Simulated {
    /// Name as in `detector.kind`.
    pub fn name(self) -> &'static str {
        match self {
            Simulated::MultiGrid(_) => "multigrid",
            Simulated::MultiBlade(_) => "multiblade",
        }
    }

    /// Modules or cassettes.
    pub fn modules(self) -> usize {
        match self {
            Simulated::MultiGrid(n) | Simulated::MultiBlade(n) => n,
        }
    }

    /// The text of its geometry file.
    ///
    /// # Errors
    /// A number of cassettes of which no set-up is known.
    pub fn geometry(self) -> Result<String, LabError> {
        match self {
            Simulated::MultiGrid(modules) => Ok(MultiGrid::configuration(modules)),
            Simulated::MultiBlade(cassettes) => {
                MultiBlade::configuration(cassettes).map_err(|e| LabError::Refused(e.to_string()))
            }
        }
    }

    /// Module of a pixel.
    fn module(self, pixel: u32) -> u16 {
        let at = pixel.saturating_sub(1) as usize;
        let module = match self {
            Simulated::MultiGrid(modules) => at % (4 * modules) / 4,
            Simulated::MultiBlade(6) => at / 32 / 32,
            Simulated::MultiBlade(_) => at / 64 / 32,
        };
        module as u16
    }

    fn traffic(self, point: &Point) -> Result<(Box<dyn Traffic>, u64, f64), LabError> {
        let prepared_bytes = point.neutrons * BYTES_PER_NEUTRON;
        let Point { noise, seed, .. } = *point;
        let neutrons_per_s = point.rate_hz * self.modules() as f64;
        let wrong = |e: crate::traffic::TrafficError| LabError::Refused(e.to_string());
        Ok(match self {
            Simulated::MultiGrid(modules) => {
                let base = MultiGridSetup::default();
                let setup =
                    MultiGridSetup { modules, neutrons_per_s, noise, seed, prepared_bytes, ..base };
                let made = MultiGrid::new(&setup).map_err(wrong)?;
                let (packets, seconds) = (made.turn().0, made.turn_s());
                (Box::new(made), packets, seconds)
            }
            Simulated::MultiBlade(cassettes) => {
                // A neutron takes less than half as much as with empty triggers around it.
                let prepared_bytes = prepared_bytes / 2;
                let base = MultiBladeSetup::default();
                let setup = MultiBladeSetup {
                    cassettes,
                    neutrons_per_s,
                    noise,
                    seed,
                    prepared_bytes,
                    ..base
                };
                let made = MultiBlade::new(&setup).map_err(wrong)?;
                let (packets, seconds) = (made.turn().0, made.turn_s());
                (Box::new(made), packets, seconds)
            }
        })
    }

    /// A row of truth as the decoder's time counts.
    fn mark(self, made: &Made) -> Mark {
        let (module, pixel) = (made.module, made.pixel);
        match self {
            Simulated::MultiGrid(_) => {
                // 62.5 ns a tick, rounded down.
                let time_ns = (made.time * 125).div_euclid(2);
                Mark { group: time_ns, module, time_ns, pixel }
            }
            Simulated::MultiBlade(_) => {
                let time_ns = made.time * i64::from(TICK_NS);
                Mark { group: made.packet as i64, module, time_ns, pixel }
            }
        }
    }

    /// The decoder that fits, with these keys of `[detector]` as TOML.
    ///
    /// # Errors
    /// Options that it refuses.
    pub fn detector(self, options: String) -> Result<Box<dyn Detector>, LabError> {
        let geometry = self.geometry()?;
        let geometry_path = "the simulator's geometry".to_owned();
        let setup = Setup { geometry, geometry_path, options, ..Setup::default() };
        let made = Registry::builtin().configure(self.name(), &setup);
        made.map_err(|e| LabError::Refused(e.to_string()))
    }

    /// Simulates, decodes and compares one turn.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn run(self, detector: &dyn Detector, point: &Point) -> Result<Outcome, LabError> {
        let (mut traffic, packets, seconds) = self.traffic(point)?;
        let rows = Arc::new(Mutex::new(Vec::new()));
        let into = rows.clone();
        traffic.watch(Box::new(move |made| {
            if let Ok(mut rows) = into.lock() {
                rows.push(*made);
            }
        }));
        let (events, sheets) = self.decode(detector, &mut *traffic, packets);
        drop(traffic);
        let rows = Arc::into_inner(rows).and_then(|rows| rows.into_inner().ok());
        let rows = rows.context("the simulator kept its rows")?;
        let truth = rows.iter().map(|made| (self.mark(made), *made)).collect();
        let verdict = compare(events, truth, BOX_NS);
        Ok(Outcome { verdict, seconds, rejected: rejected(&sheets) })
    }

    /// Decodes `packets` packets, one after the other, as a replay.
    fn decode(
        self,
        detector: &dyn Detector,
        traffic: &mut dyn Traffic,
        packets: u64,
    ) -> (Vec<Mark>, Vec<Arc<Sheet>>) {
        let (mut reader, mut builder) = (detector.reader(), detector.builder());
        let mut products = Products::default();
        let mut events = Vec::new();
        let mut number = 0i64;
        let mut keep = |products: &mut Products, packet: i64| {
            events.extend(products.events.absolute().map(|(time_ns, pixel)| {
                let group = match self {
                    Simulated::MultiGrid(_) => time_ns,
                    Simulated::MultiBlade(_) => packet,
                };
                Mark { group, module: self.module(pixel), time_ns, pixel }
            }));
            products.clear();
        };
        let mut batch = Batch::with_slots(0, 0);
        while (number as u64) < packets {
            let Some(train) = traffic.next_train(1, 0) else { break };
            batch.clear();
            batch.append(train.bytes, Origin::NONE, 0, Edge::Datagram);
            reader.read(&batch, &mut products);
            builder.build(&mut products, None);
            // Multi-Blade makes all events of a packet at once; Multi-Grid's carry their time.
            keep(&mut products, number);
            number += 1;
        }
        reader.finish(&mut products);
        builder.build(&mut products, None);
        builder.finish(&mut products);
        keep(&mut products, number);
        (events, [Some(reader.sheet()), builder.sheet()].into_iter().flatten().collect())
    }
}

/// Everything that was refused, by counter.
pub fn rejected(sheets: &[Arc<Sheet>]) -> Vec<(String, u64)> {
    let lines = sheets.iter().flat_map(|sheet| {
        let refused =
            |(_, info): &(usize, &fullcount_core::ledger::Info)| info.role == Role::Rejected;
        let all = sheet.lines().iter().enumerate().filter(refused);
        all.map(|(at, info)| (info.name.to_string(), sheet.get(at)))
    });
    lines.filter(|&(_, n)| n > 0).collect()
}
