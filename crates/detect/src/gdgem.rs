//! Gd-GEM (RD51 SRS frames with VMM3 and VMM3a hits): strips of two or three planes, or pads, in coincidence.
//!
//! Hits with calibrated times finer than a nanosecond are put in order over all FECs, clustered per plane and matched: as the
//! online chain of the detector does it, or as vmm-sdat does, by the geometry file. Refuses damaged frames and words (one counter
//! per reason) and configurations with unknown keys. Entry: [`GdGem`], the [`Kind`]. Source: `docs/formats/gdgem.md`; for users:
//! `docs/gdgem.md`.

mod builder;
mod chain;
mod clock;
mod correction;
mod counters;
mod cutter;
mod inspect;
mod lane;
mod late_end;
mod layout;
mod matching;
mod monitor;
mod options;
pub mod packet;
mod pads;
mod plane;
mod plots;
mod progress;
mod reader;
mod shift;
mod slices;
mod state;
mod tables;
mod zeros;

use std::io;
use std::sync::Arc;

use fullcount_core::products::Want;
use fullcount_core::tables::Table;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use fullcount_instructions::Instructions;

use crate::detector::{
    Builder, Clock, Detector, Inspector, Kind, Reader, Setup, SetupError, Sharding, Shifter,
    TimeBase,
};
use crate::parallel::{MOST_THREADS, Threads};
use layout::Layout;
use options::Options;
use slices::SlicedBuilder;
use tables::ClusterRows;

pub use builder::{Unwatched, Watch};
pub use chain::{OlderUtpc, OnlineEvent, PlaneView, older_utpc};
pub use counters::{Built, Count};
pub use pads::PadCluster;
pub use plane::PlaneCluster;
pub use shift::shift;

/// The kind `gdgem`.
#[derive(Debug, Default)]
pub struct GdGem;

impl Kind for GdGem {
    fn name(&self) -> &'static str {
        "gdgem"
    }

    fn title(&self) -> &'static str {
        "Gd-GEM"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        packet::looks_right(chunk)
    }

    fn clock(&self) -> Clock {
        Clock::Counting
    }

    fn about(&self) -> &'static str {
        "Gd-GEM and other SRS/VMM3a detectors (UDP), strips or pads in coincidence"
    }

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, SetupError> {
        Ok(Box::new(GdGemDetector::new(setup)?))
    }

    fn takes_calibration(&self) -> bool {
        true
    }
}

/// A configured Gd-GEM detector.
#[derive(Debug)]
pub struct GdGemDetector {
    options: Options,
    layout: Arc<Layout>,
    time: TimeBase,
    instructions: Instructions,
}

impl GdGemDetector {
    /// Reads the configuration.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn new(setup: &Setup) -> Result<GdGemDetector, SetupError> {
        let options = Options::read(&setup.options)?;
        setup.time.without_pulses("gdgem")?;
        let calibration = (&setup.calibration[..], &setup.calibration_path[..]);
        let layout = Layout::read(&setup.geometry, &setup.geometry_path, calibration, &options)?;
        if let Some(tick) = setup.time.tick.filter(|tick| !tick.is_nanosecond()) {
            let (num, den) = tick.fraction();
            return Err(SetupError::Value {
                key: "time.tick".to_owned(),
                value: format!("{num}/{den} ns"),
                allowed: "1/1 ns: the clock is detector.bc, or bc_clock in the geometry".to_owned(),
            });
        }
        let (time, instructions) = (setup.time, setup.instructions);
        Ok(GdGemDetector { options, layout: Arc::new(layout), time, instructions })
    }

    /// The builder, with somebody who sees clusters on their way to events.
    pub fn watched(&self, watch: impl Watch) -> Box<dyn Builder> {
        let layout = self.layout.clone();
        Box::new(builder::GemBuilder::new(layout, &self.options, &self.time, watch))
    }

    fn builder_with<W: Watch>(
        &self,
        threads: &Threads,
        watch: impl Fn() -> W,
    ) -> io::Result<Box<dyn Builder>> {
        if threads.count < 2 {
            return Ok(self.watched(watch()));
        }
        let (layout, options) = (&self.layout, &self.options);
        Ok(Box::new(SlicedBuilder::start(layout, options, &self.time, threads, watch)?))
    }

    fn triggered(&self) -> bool {
        self.options.triggered() == Ok(true)
    }
}

impl Detector for GdGemDetector {
    fn name(&self) -> &str {
        "gdgem"
    }

    fn reader(&self) -> Box<dyn Reader> {
        let reader = reader::GemReader::new(self.layout.clone(), &self.options);
        Box::new(reader.with(self.instructions))
    }

    fn builder(&self) -> Box<dyn Builder> {
        self.watched(Unwatched)
    }

    fn builder_on(&self, want: Want, threads: &Threads) -> io::Result<Box<dyn Builder>> {
        match want.clusters {
            true => self.builder_with(threads, || ClusterRows::of(&self.layout)),
            false => self.builder_with(threads, || Unwatched),
        }
    }

    /// Pads have no planes.
    fn tables(&self) -> Vec<Table> {
        let strips = self.layout.detectors.iter().any(|detector| !detector.pads);
        match strips {
            true => vec![Table::StripHits, Table::PlaneClusters, Table::DetectorClusters],
            false => vec![Table::StripHits, Table::DetectorClusters],
        }
    }

    /// A track's hits come from several FECs, and a FEC's markers hold for all its frames: one reader and one builder, which
    /// shares out the work itself.
    fn sharding(&self) -> Sharding {
        Sharding::Exact(MOST_THREADS)
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::NANOSECOND, false)
    }

    fn pixels(&self) -> PixelMap {
        self.layout.map.clone()
    }

    fn plots(&self) -> Vec<Plot> {
        plots::plots(&self.time, &self.layout)
    }

    /// Captures of SRS also hold IPv6 and mDNS (section 16).
    fn is_whole_ipv4(&self) -> bool {
        true
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(shift::Moving::new(self.triggered())))
    }

    fn warnings(&self) -> Vec<String> {
        self.layout.warnings.clone()
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(inspect::GemInspector::new(self.layout.clone(), &self.options))
    }
}
