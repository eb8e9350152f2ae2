//! Packets and truth of one simulated turn, decoded in memory by the real reader and builder.
//!
//! Refuses: what the simulators and detectors refuse.

use std::sync::{Arc, Mutex};

use anyhow::Context;
use fullcount_core::batch::{Batch, Edge, Origin};
use fullcount_core::ledger::{Role, Sheet};
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::Flush;
use fullcount_core::simulator::facts::{TruthGroup, TruthRules};
use fullcount_core::simulator::made::Made;
use fullcount_core::simulator::{
    Simulator, SimulatorPace, Traffic, TrafficError, TrafficMade, TrafficOptions, TrafficOrder,
};
use fullcount_detect::detector::{Decoder, Detector, Setup, Threads, registered};
use fullcount_engine::config::Overlay;
use fullcount_sim::noise::Noise;

use serde_json::{Value, json};

use super::compare::{TruthMark, TruthVerdict, compare};
use crate::error::LabError;

/// A simulated detector whose truth is compared.
#[derive(Clone)]
pub struct SimulatedDetector {
    /// Its kind.
    pub kind: &'static dyn Simulator,
    /// How it is compared.
    pub rules: TruthRules,
    /// Modules; `None`: they cannot be set.
    pub modules: Option<usize>,
}

/// One point of the campaign.
#[derive(Debug, Clone, Copy)]
pub struct TruthPoint {
    /// Neutrons per second and module, or over the detector.
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
pub struct PointOutcome<T = ()> {
    /// The comparison.
    pub verdict: TruthVerdict<T>,
    /// Simulated seconds.
    pub seconds: f64,
    /// What the decoder refused: counter and number, zeros left out.
    pub rejected: Vec<(String, u64)>,
}

impl<T> PointOutcome<T> {
    /// What the decoder refused, for a results file.
    pub fn refused(&self) -> Value {
        self.rejected.iter().map(|(name, n)| (name.clone(), json!(n))).collect()
    }
}

fn wrong(e: TrafficError) -> LabError {
    LabError::Refused(e.to_string())
}

impl SimulatedDetector {
    fn options(&self) -> TrafficOptions {
        let mut options = TrafficOptions::default();
        if let Some(modules) = self.modules {
            options.set("modules", modules);
        }
        options
    }

    /// The text of its geometry file.
    ///
    /// # Errors
    /// A number of modules of which no set-up is known.
    pub fn geometry(&self) -> Result<String, LabError> {
        let options = self.options();
        let geometry = self.kind.geometry(&TrafficOrder::of(&options, 1)).map_err(wrong)?;
        Ok(geometry.unwrap_or_default())
    }

    /// Modules, 1 where they cannot be set.
    fn number(&self) -> usize {
        self.modules.unwrap_or(1)
    }

    /// The packets of a point, and their truth as they are handed out.
    pub fn traffic(&self, point: &TruthPoint) -> Result<(TrafficMade, ToldRows), LabError> {
        let mut options = self.options();
        options.set("noise", point.noise);
        let order = TrafficOrder {
            pace: SimulatorPace::Events(point.rate_hz * self.number() as f64),
            prepared_bytes: Some(point.neutrons * self.rules.bytes_per_neutron),
            ..TrafficOrder::of(&options, point.seed)
        };
        let mut made = self.kind.make(&order).map_err(wrong)?;
        let rows = ToldRows::default();
        let into = rows.0.clone();
        made.traffic.watch(Box::new(move |made| {
            if let Ok(mut rows) = into.lock() {
                rows.push(*made);
            }
        }));
        Ok((made, rows))
    }

    /// The decoder that fits, with the keys of the rules and then these, as `detector.KEY=VALUE`.
    ///
    /// # Errors
    /// Options that it refuses.
    pub fn decoder(&self, set: &[String]) -> Result<Box<dyn Detector>, LabError> {
        let mut o = Overlay::default();
        let own: Vec<String> = self.rules.settings.iter().map(|&s| s.to_owned()).collect();
        o.put("detector.kind", Some(self.kind.name())).set(&own)?;
        o.set(set)?;
        let options = o.read(None)?.detector.options;
        let setup = Setup {
            geometry: self.geometry()?,
            geometry_path: "the simulator's geometry".to_owned(),
            options: toml::to_string(&options).unwrap_or_default(),
            ..Setup::default()
        };
        let made = registered().configure(self.kind.name(), &setup);
        made.map_err(|e| LabError::Refused(e.to_string()))
    }

    /// Simulates, decodes and compares one turn.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn run(
        &self,
        detector: &dyn Detector,
        point: &TruthPoint,
        by: &ByPixels,
    ) -> Result<PointOutcome, LabError> {
        let (TrafficMade { mut traffic, turn, .. }, rows) = self.traffic(point)?;
        let (packets, seconds) = turn.unwrap_or_default();
        let mut chain = Chain::new(detector, Want::default())?;
        let mut events = Vec::new();
        let mut keep = |products: &mut Products, packet: i64| {
            events.extend(products.events.absolute().map(|(time_ns, pixel)| {
                let group = by.group(time_ns, packet);
                let module = (by.module)(pixel, self.number());
                TruthMark { group, module, time_ns, pixel }
            }));
            products.clear();
        };
        let last = chain.take_turn(&mut *traffic, packets, &mut keep);
        chain.finish(|products| keep(products, last));
        let truth = rows.taken(traffic)?;
        let tick = self.kind.declared().truth_columns.map_or((1, 1), |columns| columns.tick);
        let mark = |made: &Made| {
            let time_ns = (made.time * i64::from(tick.0)).div_euclid(i64::from(tick.1));
            let group = by.group(time_ns, made.packet as i64);
            TruthMark { group, module: made.module, time_ns, pixel: made.pixel }
        };
        let truth = truth.into_iter().map(|made| (mark(&made), made)).collect();
        let verdict = compare(events, truth, by.reach_ns);
        Ok(PointOutcome { verdict, seconds, rejected: rejected(&chain.sheets()) })
    }
}

/// How events and neutrons meet by pixel and time.
#[derive(Debug, Clone, Copy)]
pub struct ByPixels {
    pub group: TruthGroup,
    pub reach_ns: i64,
    pub module: fn(u32, usize) -> u16,
}

impl ByPixels {
    fn group(&self, time_ns: i64, packet: i64) -> i64 {
        match self.group {
            TruthGroup::Time => time_ns,
            TruthGroup::Packet => packet,
        }
    }
}

/// Rows of truth, as they are told.
#[derive(Default)]
pub struct ToldRows(Arc<Mutex<Vec<Made>>>);

impl ToldRows {
    /// All of them, once the simulator is gone.
    ///
    /// # Errors
    /// It keeps them.
    pub fn taken(self, traffic: Box<dyn Traffic>) -> Result<Vec<Made>, LabError> {
        drop(traffic);
        let rows = Arc::into_inner(self.0).and_then(|rows| rows.into_inner().ok());
        Ok(rows.context("the simulator kept its rows")?)
    }
}

/// A decoder, one packet at a time, as a replay.
pub struct Chain {
    decoder: Box<dyn Decoder>,
    products: Products,
}

impl Chain {
    /// From an empty state; `want` as an output would ask for it.
    pub fn new(detector: &dyn Detector, want: Want) -> Result<Chain, LabError> {
        let decoder = detector.decoder(want, &Threads::of(1)).map_err(anyhow::Error::from)?;
        let products = Products { want, ..Products::default() };
        Ok(Chain { decoder, products })
    }

    /// Decodes one batch; what came of it goes to `keep`.
    pub fn take(&mut self, batch: &Batch, keep: impl FnOnce(&mut Products)) {
        self.decoder.decode(Some(batch), None, &mut self.products);
        keep(&mut self.products);
        self.products.clear();
    }

    /// Decodes `packets` packets one by one; how many there were.
    fn take_turn(
        &mut self,
        traffic: &mut dyn Traffic,
        packets: u64,
        keep: &mut impl FnMut(&mut Products, i64),
    ) -> i64 {
        let mut batch = Batch::with_slots(0, 0);
        for number in 0..packets as i64 {
            let Some(train) = traffic.next_train(1, 0) else { return number };
            batch.clear();
            batch.append(train.bytes, Origin::NONE, 0, Edge::Datagram);
            // Where events meet neutrons by packet, a packet's events come at once.
            self.take(&batch, |products| keep(products, number));
        }
        packets as i64
    }

    /// Decides on what waits.
    pub fn finish(&mut self, keep: impl FnOnce(&mut Products)) {
        self.decoder.flush(Flush::End, &mut self.products);
        keep(&mut self.products);
        self.products.clear();
    }

    /// What was counted.
    pub fn sheets(&self) -> Vec<Arc<Sheet>> {
        self.decoder.sheets()
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
