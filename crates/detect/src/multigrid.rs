//! Multi-Grid: SIS3153 container with Mesytec VMMR data, coincidences of wires and grids in 3-D.
//!
//! Every module and trigger gives at most one event, at the wire and the grid with the highest amplitude.
//! Refuses damaged packets and triggers (one counter per rule), readouts without place, groups by the rules
//! of coincidence, and configurations that contradict themselves. Entry: [`Multigrid`], the [`Kind`].
//! Source: `docs/formats/multigrid.md`; for users: `docs/multigrid.md`.

mod builder;
mod channels;
pub mod container;
mod counters;
mod file;
mod filter;
mod group;
mod inspect;
mod keys;
mod mapping;
mod numbers;
mod plots;
mod published;
mod reader;
mod records;
mod sample;
mod senders;
mod shift;
mod volume;
mod waiting;
pub mod words;

use fullcount_core::refusal::{Refusal, of_detector, setting};
use std::io;
use std::sync::Arc;

use fullcount_core::key::KeyRow;
use fullcount_core::naming::PublishedNames;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::tables::Table;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use serde::Deserialize;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, ModuleNames, Setup, Sharding, Shifter, Threads,
    TimeBase, TurningClock,
};
use crate::geometry::text;
use crate::hits::PlaneHit;
use crate::listed::joined;
use crate::sample::DetectorSample;
use crate::steps::{Builder, FirstStep, Reader};
use channels::Channels;
use file::MultiGridConfig;

pub use counters::{MultiGridBuilt, MultiGridCount};

/// `[detector]` keys of Multi-Grid.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    glitch_limit: u32,
    release_ms: u32,
    max_waiting: u32,
}

impl Default for Options {
    fn default() -> Self {
        // 40: the published constant. 200 ms: between two looks at the live page. 16,384 entries: 256 KiB,
        // a quarter of a second-level cache, and 5 ms of the published 3 M triggers/s.
        Options { glitch_limit: 40, release_ms: 200, max_waiting: 1 << 14 }
    }
}

impl Options {
    fn check(&self) -> Result<(), Refusal> {
        for (key, value, least, most) in [
            ("glitch_limit", self.glitch_limit, 1, 65_535),
            ("release_ms", self.release_ms, 1, 60_000),
            ("max_waiting", self.max_waiting, 256, 1 << 20),
        ] {
            if !(least..=most).contains(&value) {
                return Err(of_detector(key, value, format!("{least}..={most}")));
            }
        }
        Ok(())
    }
}

/// The kind `multigrid`.
#[derive(Debug, Default)]
pub struct Multigrid;

impl Kind for Multigrid {
    fn name(&self) -> &'static str {
        "multigrid"
    }

    fn title(&self) -> &'static str {
        "Multi-Grid"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        container::looks_right(chunk)
    }

    fn clock(&self) -> Clock {
        Clock::Counting
    }

    fn about(&self) -> &'static str {
        "Multi-Grid (SIS3153 with Mesytec VMMR over UDP), wires and grids in 3-D"
    }

    /// External triggers.
    fn carries_pulses(&self) -> bool {
        true
    }

    fn keys(&self) -> &'static [KeyRow] {
        keys::KEYS
    }

    fn sample(&self) -> DetectorSample {
        sample::SAMPLE
    }

    fn published(&self) -> Option<&'static PublishedNames> {
        Some(&published::PUBLISHED)
    }

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
        Ok(Box::new(MultigridDetector::new(setup)?))
    }
}

/// A configured Multi-Grid detector.
pub struct MultigridDetector {
    options: Options,
    config: Arc<MultiGridConfig>,
    channels: Arc<Channels>,
    map: PixelMap,
    time: TimeBase,
}

impl MultigridDetector {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(setup: &Setup) -> Result<MultigridDetector, Refusal> {
        let options: Options = text::options(&setup.options)?;
        options.check()?;
        if let Some(given) = setup.time.tick.filter(|&t| t != builder::tick()) {
            let (num, den) = given.fraction();
            return Err(setting(
                "time.tick",
                format!("{num}/{den} ns"),
                "125/2ns, which the format states; leave it out",
            ));
        }
        let config = MultiGridConfig::read(&setup.geometry, &setup.geometry_path)?;
        let channels = Arc::new(Channels::new(&config));
        let map = config.volume.map(&config.panel, &config.modules, &setup.geometry);
        let config = Arc::new(config);
        Ok(MultigridDetector { options, config, channels, map, time: setup.time })
    }

    /// The first step.
    pub fn reader(&self) -> impl Reader<Hit = PlaneHit> + use<> {
        let limit = self.options.glitch_limit as usize;
        reader::MultigridReader::new(self.config.clone(), self.channels.clone(), limit)
    }

    /// The second step.
    pub fn builder(&self) -> impl Builder<Hit = PlaneHit> + use<> {
        let release_ns = i64::from(self.options.release_ms) * 1_000_000;
        let most = self.options.max_waiting as usize;
        builder::MultigridBuilder::new(self.config.clone(), &self.time, release_ns, most)
    }
}

impl Detector for MultigridDetector {
    fn name(&self) -> &str {
        "multigrid"
    }

    fn decoder(&self, want: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(joined(self.reader(), self.builder(), (want, self.tick().0)))
    }

    fn first_step(&self) -> Option<Box<dyn Decoder>> {
        Some(Box::new(FirstStep::of(self.reader())))
    }

    fn sharding(&self) -> Sharding {
        // The high part of the time is carried from packet to packet, and one module's group may go on in
        // the next packet.
        Sharding::Serial
    }

    fn tables(&self) -> Vec<Table> {
        vec![Table::ModuleHits]
    }

    fn tick(&self) -> (TickLength, bool) {
        (builder::tick(), false)
    }

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: None, by_port: true }
    }

    fn numbering(&self) -> Option<Numbering> {
        numbers::of(self.config.format)
    }

    fn turning_clock(&self) -> Option<TurningClock> {
        // 2^30 ticks of 62.5 ns. Without it 46 bits are sent, which last 51 days, and a step back is a new beginning.
        let turn_ns = (1 << 30) * 125 / 2;
        self.config.spoof_high_time.then_some(TurningClock { turn_ns, by_times: false })
    }

    fn pixels(&self) -> PixelMap {
        self.map.clone()
    }

    fn plots(&self) -> Vec<Plot> {
        plots::plots(&self.time, self.config.volume.logical())
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(shift::Moving::new(self.config.format, self.config.spoof_high_time)))
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        let limit = self.options.glitch_limit as usize;
        Box::new(inspect::MultigridInspector::new(&self.config, self.channels.clone(), limit))
    }

    fn warnings(&self) -> Vec<String> {
        self.config.warnings.clone()
    }
}
