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
mod mapping;
mod numbers;
mod plots;
mod reader;
mod records;
mod senders;
mod shift;
mod volume;
mod waiting;
pub mod words;

use std::io;
use std::sync::Arc;

use fullcount_core::products::Want;
use fullcount_core::tables::Table;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use serde::Deserialize;

use crate::detector::{
    Builder, Clock, Detector, Inspector, Kind, Reader, Setup, SetupError, Sharding, Shifter,
    TimeBase, TurningClock,
};
use crate::geometry::text;
use crate::listed::Listed;
use crate::parallel::Threads;
use channels::Channels;
use file::Config;

pub use counters::{Built, Count};

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
    fn check(&self) -> Result<(), SetupError> {
        for (key, value, least, most) in [
            ("glitch_limit", self.glitch_limit, 1, 65_535),
            ("release_ms", self.release_ms, 1, 60_000),
            ("max_waiting", self.max_waiting, 256, 1 << 20),
        ] {
            if !(least..=most).contains(&value) {
                return Err(SetupError::Value {
                    key: format!("detector.{key}"),
                    value: value.to_string(),
                    allowed: format!("{least}..={most}"),
                });
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

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, SetupError> {
        let options: Options = text::options(&setup.options)?;
        options.check()?;
        if let Some(given) = setup.time.tick.filter(|&t| t != builder::tick()) {
            let (num, den) = given.fraction();
            return Err(SetupError::Value {
                key: "time.tick".to_owned(),
                value: format!("{num}/{den} ns"),
                allowed: "125/2ns, which the format states; leave it out".to_owned(),
            });
        }
        let config = Config::read(&setup.geometry, &setup.geometry_path)?;
        let channels = Arc::new(Channels::new(&config));
        let map = config.volume.map(&config.panel, &config.modules, &setup.geometry);
        let config = Arc::new(config);
        Ok(Box::new(MultigridDetector { options, config, channels, map, time: setup.time }))
    }
}

/// A configured Multi-Grid detector.
struct MultigridDetector {
    options: Options,
    config: Arc<Config>,
    channels: Arc<Channels>,
    map: PixelMap,
    time: TimeBase,
}

impl Detector for MultigridDetector {
    fn name(&self) -> &str {
        "multigrid"
    }

    fn reader(&self) -> Box<dyn Reader> {
        let limit = self.options.glitch_limit as usize;
        Box::new(reader::MultigridReader::new(self.config.clone(), self.channels.clone(), limit))
    }

    fn builder(&self) -> Box<dyn Builder> {
        let release_ns = i64::from(self.options.release_ms) * 1_000_000;
        let most = self.options.max_waiting as usize;
        let (config, time) = (self.config.clone(), &self.time);
        Box::new(builder::MultigridBuilder::new(config, time, release_ns, most))
    }

    fn sharding(&self) -> Sharding {
        // The high part of the time is carried from packet to packet, and one module's group may go on in
        // the next packet.
        Sharding::Serial
    }

    fn builder_on(&self, want: Want, _: &Threads) -> io::Result<Box<dyn Builder>> {
        if want.module_hits {
            return Ok(Box::new(Listed::new(self.builder(), self.tick().0)));
        }
        Ok(self.builder())
    }

    fn tables(&self) -> Vec<Table> {
        vec![Table::ModuleHits]
    }

    fn tick(&self) -> (TickLength, bool) {
        (builder::tick(), false)
    }

    fn short_numbers(&self) -> Option<u32> {
        // Replay records carry no numbers.
        matches!(self.config.format, file::Format::Mesytec).then_some(numbers::BITS)
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
