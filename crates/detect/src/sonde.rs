//! SoNDe (IDEAS/ROSMAP-MP over UDP): trigger times and pulse heights of 8 × 8 pixel modules.
//!
//! No clustering: every readout with a pixel is an event. Refuses damaged packets (one counter per
//! reason), readouts without a pixel, and configurations with unknown keys. Entry: [`Sonde`], the
//! [`Kind`]. Source: `docs/formats/sonde.md`; for users: `docs/sonde.md`.

mod arrival;
mod clock;
mod counters;
mod entries;
mod inspect;
mod keys;
mod layout;
pub mod packet;
pub mod pixel;
mod plots;
mod published;
mod reader;
mod sample;
mod shared;
mod shift;
mod streams;

use fullcount_core::refusal::{Refusal, setting};
use std::io;
use std::sync::Arc;

use fullcount_core::key::KeyRow;
use fullcount_core::naming::PublishedNames;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::{Numbering, Per};
use fullcount_core::tables::Table;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use fullcount_instructions::Instructions;
use serde::Deserialize;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, ModuleNames, Setup, Sharding, Shifter, Threads,
    TimeBase, TurningClock, TurnsFrom,
};
use crate::geometry::text;
use crate::sample::DetectorSample;
use arrival::Point;
use layout::Layout;

pub use counters::SondeCount;
pub use shift::shift;

/// Ten times the 400 modules of the planned instrument; up to 450 bytes of state each.
const DEFAULT_STREAMS: u32 = 4096;

/// `[detector]` keys of SoNDe.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    sequence_state: SequenceState,
    max_streams: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { sequence_state: SequenceState::PerStream, max_streams: DEFAULT_STREAMS }
    }
}

impl Options {
    fn numbering(&self) -> Numbering {
        let usual = streams::numbering(self.max_streams);
        match self.sequence_state {
            SequenceState::PerStream => usual,
            SequenceState::One => Numbering { per: Per::Run, ..usual },
        }
    }
}

/// Which packets share one packet count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SequenceState {
    /// Those of one origin and system number.
    PerStream,
    /// All: for files that say so.
    One,
}

/// The kind `sonde`.
#[derive(Debug, Default)]
pub struct Sonde;

impl Kind for Sonde {
    fn name(&self) -> &'static str {
        "sonde"
    }

    fn title(&self) -> &'static str {
        "SoNDe"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        packet::looks_right(chunk)
    }

    fn clock(&self) -> Clock {
        Clock::Counting
    }

    fn about(&self) -> &'static str {
        "SoNDe modules (IDEAS/ROSMAP-MP over UDP), 8 x 8 pixels each"
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
        let options: Options = text::options(&setup.options)?;
        setup.time.without_pulses("sonde")?;
        if !(1..=1 << 20).contains(&options.max_streams) {
            return Err(setting("detector.max_streams", options.max_streams, "1..=1048576"));
        }
        let layout = Arc::new(Layout::read(&setup.geometry, &setup.geometry_path)?);
        let shared = Arc::new(shared::Shared::new());
        let (time, instructions) = (setup.time, setup.instructions);
        Ok(Box::new(SondeDetector { options, layout, time, shared, instructions }))
    }
}

/// A configured SoNDe detector.
struct SondeDetector {
    options: Options,
    layout: Arc<Layout>,
    time: TimeBase,
    shared: Arc<shared::Shared>,
    instructions: Instructions,
}

impl Detector for SondeDetector {
    fn name(&self) -> &str {
        "sonde"
    }

    fn decoder(&self, _: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        let clock = clock::Clock::new(&self.time, self.tick().0);
        let (layout, shared) = (self.layout.clone(), self.shared.clone());
        let reader = reader::SondeReader::new(self.options.numbering(), layout, clock, shared);
        Ok(Box::new(reader.with(self.instructions)))
    }

    fn sharding(&self) -> Sharding {
        Sharding::ByKey
    }

    fn tables(&self) -> Vec<Table> {
        vec![Table::Amplitudes]
    }

    fn tick(&self) -> (TickLength, bool) {
        // The public sources do not state the length of a tick.
        (self.time.tick.unwrap_or(TickLength::NANOSECOND), self.time.tick.is_none())
    }

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: Some("module"), by_port: false }
    }

    fn numbering(&self) -> Option<Numbering> {
        Some(self.options.numbering())
    }

    fn turning_clock(&self) -> Option<TurningClock> {
        let (num, den) = self.tick().0.fraction();
        let turn_ns = (u64::from(num) << 32) / u64::from(den);
        Some(TurningClock { turn_ns, by_times: true })
    }

    fn turns_from(&self, packet: &[u8], time_ns: i64) -> Option<TurnsFrom> {
        let header = packet::header(packet).ok();
        let good = |header: &packet::SondeHeader| {
            let mode = packet::mode(header, packet);
            mode.and_then(|mode| packet::body(mode, packet)).is_ok()
        };
        let ticks = header.filter(good)?.timestamp.into();
        Some(TurnsFrom { time_ns, ticks })
    }

    fn count_turns(&self, from: TurnsFrom) {
        self.shared.count_turns(Point { time_ns: from.time_ns, ticks: from.ticks });
    }

    fn pixels(&self) -> PixelMap {
        self.layout.map.clone()
    }

    fn plots(&self) -> Vec<Plot> {
        plots::plots(&self.time, self.layout.map.pixels())
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(shift::Moving::new(self.options.numbering())))
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(inspect::SondeInspector { layout: self.layout.clone() })
    }
}
