//! The readout unit: fragments of many sources are merged into events, which leave in order of their numbers.
//!
//! Each source sends blocks of fragments, usually over its own `tcp://` stream; by default an event waits for all its fragments, and
//! streams that are ahead are paused when memory is full, so nothing is lost. Events leave as records
//! ([`fullcount_core::records`]). Entry: [`Fragments`], the [`Kind`]. Refuses blocks with a wrong header, and sources that are not
//! configured or doubled. Source: `docs/formats/simplified-tcp.md`, section 26; `docs/fragments.md`.

mod assembly;
pub mod block;
mod counters;
pub mod crc;
mod credit;
pub mod fed;
mod inspect;
mod keys;
pub mod merge;
mod options;
mod plots;
mod reader;
mod sample;
mod sources;

use fullcount_core::refusal::{Refusal, setting};
use std::io;

use fullcount_core::key::KeyRow;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::source::FrameRule;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use fullcount_instructions::Instructions;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, ModuleNames, Setup, Sharding, Threads,
};
use crate::sample::DetectorSample;

pub use counters::FragmentCounter;

/// The kind `fragments`.
#[derive(Debug, Default)]
pub struct Fragments;

impl Kind for Fragments {
    fn name(&self) -> &'static str {
        "fragments"
    }

    fn title(&self) -> &'static str {
        "readout-unit"
    }

    fn about(&self) -> &'static str {
        "fragments of many sources (FEROL blocks), merged into events in order"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        block::FragmentBlock::parse(chunk).is_ok()
    }

    fn clock(&self) -> Clock {
        Clock::Absolute
    }

    fn keys(&self) -> &'static [KeyRow] {
        keys::KEYS
    }

    fn sample(&self) -> DetectorSample {
        sample::SAMPLE
    }

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
        if !setup.geometry.trim().is_empty() {
            return Err(setting(
                "detector.geometry",
                setup.geometry_path.clone(),
                "`fragments` has no geometry: leave it out",
            ));
        }
        setup.time.without_pulses("fragments")?;
        let options = options::Options::read(&setup.options)?;
        Ok(Box::new(Unit { options, instructions: setup.instructions }))
    }
}

struct Unit {
    options: options::Options,
    instructions: Instructions,
}

impl Detector for Unit {
    fn name(&self) -> &str {
        "fragments"
    }

    fn decoder(&self, want: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(Box::new(reader::UnitReader::new(&self.options, want.records, self.instructions)))
    }

    fn gives_records(&self) -> bool {
        true
    }

    fn sharding(&self) -> Sharding {
        // All fragments of an event must meet.
        Sharding::Serial
    }

    fn framing(&self) -> Option<FrameRule> {
        Some(block::FRAMING)
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::NANOSECOND, false)
    }

    fn numbering(&self) -> Option<Numbering> {
        None
    }

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: Some("source"), by_port: false }
    }

    fn follows_numbers(&self) -> bool {
        // The merger knows of each source what is missing.
        true
    }

    fn pixels(&self) -> PixelMap {
        PixelMap::default()
    }

    fn plots(&self) -> Vec<Plot> {
        plots::plots()
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(inspect::BlockInspector)
    }
}
