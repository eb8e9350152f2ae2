//! Gd-GEM (RD51 SRS frames with VMM3 and VMM3a hits): strips of two or three planes, or pads, in coincidence.
//!
//! Hits with calibrated times finer than a nanosecond are put in order over all FECs, clustered per plane and matched: as the
//! online chain of the detector does it, or as vmm-sdat does, by the geometry file. Refuses damaged frames and words (one counter
//! per reason) and configurations with unknown keys. Entry: [`GdGem`], the [`Kind`]. Source: `docs/formats/gdgem.md`; for users:
//! `docs/gdgem.md`.

mod asked;
mod builder;
mod chain;
mod clock;
mod correction;
mod counters;
mod cutter;
mod inspect;
mod judge;
mod keys;
mod lane;
mod late_end;
mod layout;
mod matching;
mod monitor;
mod options;
pub mod packet;
mod pads;
mod parameters;
mod plane;
mod plots;
mod progress;
mod published;
mod reader;
mod sample;
mod shift;
mod slices;
mod state;
mod tables;
mod watch;
mod zeros;

use fullcount_core::refusal::{Refusal, setting};
use std::io;
use std::sync::Arc;

use fullcount_core::key::KeyRow;
use fullcount_core::naming::PublishedNames;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::tables::Table;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use fullcount_instructions::Instructions;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, MOST_THREADS, ModuleNames, Setup, Sharding, Shifter,
    Threads, TimeBase,
};
use crate::hits::FineHit;
use crate::sample::DetectorSample;
use crate::steps::{Builder, FirstStep, ReadThenBuild, Reader};
use layout::Layout;
use options::Options;
use slices::SlicedBuilder;
use tables::ClusterRows;

pub use chain::{OlderUtpc, OnlineEvent, PlaneView, older_utpc};
pub use counters::{GdGemBuilt, GdGemCount};
pub use pads::PadCluster;
pub use plane::PlaneCluster;
pub use shift::shift;
pub use watch::{ClusterWatch, Unwatched};

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
    pub fn new(setup: &Setup) -> Result<GdGemDetector, Refusal> {
        let options = Options::read(&setup.options)?;
        setup.time.without_pulses("gdgem")?;
        let calibration = (&setup.calibration[..], &setup.calibration_path[..]);
        let layout = Layout::read(&setup.geometry, &setup.geometry_path, calibration, &options)?;
        if let Some(tick) = setup.time.tick.filter(|tick| !tick.is_nanosecond()) {
            let (num, den) = tick.fraction();
            return Err(setting(
                "time.tick",
                format!("{num}/{den} ns"),
                "1/1 ns: the clock is detector.bc, or bc_clock in the geometry",
            ));
        }
        let (time, instructions) = (setup.time, setup.instructions);
        Ok(GdGemDetector { options, layout: Arc::new(layout), time, instructions })
    }

    /// The first step.
    pub fn reader(&self) -> impl Reader<Hit = FineHit> + use<> {
        let reader = reader::GemReader::new(self.layout.clone(), &self.options);
        reader.with(self.instructions)
    }

    /// The second step, with somebody who sees clusters on their way to events.
    pub fn watched(&self, watch: impl ClusterWatch) -> Box<dyn Builder<Hit = FineHit>> {
        let layout = self.layout.clone();
        Box::new(builder::GemBuilder::new(layout, &self.options, &self.time, watch))
    }

    /// The second step on so many threads.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn builder(
        &self,
        want: Want,
        threads: &Threads,
    ) -> io::Result<Box<dyn Builder<Hit = FineHit>>> {
        match want.clusters {
            true => self.builder_with(threads, || ClusterRows::of(&self.layout)),
            false => self.builder_with(threads, || Unwatched),
        }
    }

    fn builder_with<W: ClusterWatch>(
        &self,
        threads: &Threads,
        watch: impl Fn() -> W,
    ) -> io::Result<Box<dyn Builder<Hit = FineHit>>> {
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

    fn decoder(&self, want: Want, threads: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(Box::new(ReadThenBuild::new(self.reader(), self.builder(want, threads)?)))
    }

    fn first_step(&self) -> Option<Box<dyn Decoder>> {
        Some(Box::new(FirstStep::of(self.reader())))
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

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: Some("fec"), by_port: false }
    }

    fn numbering(&self) -> Option<Numbering> {
        Some(state::NUMBERING)
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
