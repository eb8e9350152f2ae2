//! The `sequence` instrument: numbered packets that carry nothing but their number.
//!
//! What `fullcount send` makes and `fullcount receive` counts: a full account of loss, duplication and order, without
//! the cost of decoding. Refuses other datagrams and unknown keys. Entry: [`Sequence`], the [`Kind`].
//! Source: `docs/contracts.md`, "`sequence` payload" (Christensen et al. 2018, "UDP instrument").

mod announced;
mod counters;
mod inspect;
mod key;
mod keys;
pub mod packet;
mod published;
mod reader;
mod sample;
mod shift;

use fullcount_core::refusal::{Refusal, setting};
use std::io;

use fullcount_core::key::KeyRow;
use fullcount_core::ledger::Unit;
use fullcount_core::naming::PublishedNames;
use fullcount_core::products::Want;
use fullcount_core::sequence::DEFAULT_WINDOW;
use fullcount_core::sequence::numbering::{Limit, Numbering, Per};
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use serde::Deserialize;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, ModuleNames, Setup, Sharding, Shifter, Threads,
};
use crate::geometry::text;
use crate::sample::DetectorSample;

pub use counters::SequenceCount;
use key::KeyBy;

/// `[detector]` keys of `sequence`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    /// Numbers waited for before one counts as lost; a power of two.
    window: u32,
    /// Compare every byte of the pattern.
    verify: bool,
    /// Measure kernel receive time − sender time.
    latency: bool,
    /// Streams followed at most.
    max_streams: u32,
    /// What makes a stream: `origin` (sender's address and port, and stream id; the default) or `id`.
    key: KeyBy,
}

impl Default for Options {
    fn default() -> Self {
        let (window, key) = (DEFAULT_WINDOW, KeyBy::Origin);
        Options { window, verify: false, latency: false, max_streams: 4096, key }
    }
}

impl Options {
    fn numbering(&self) -> Numbering {
        Numbering {
            bits: 64,
            unit: Unit::Packets,
            called: "numbers",
            per: match self.key {
                KeyBy::Origin => Per::SenderAnd("stream id"),
                KeyBy::Id => Per::Field("stream id"),
            },
            window: Limit::Set(self.window),
            streams: Some(Limit::Set(self.max_streams)),
            drops_copies: true,
        }
    }
}

/// The kind `sequence`.
#[derive(Debug, Default)]
pub struct Sequence;

impl Kind for Sequence {
    fn name(&self) -> &'static str {
        "sequence"
    }

    fn title(&self) -> &'static str {
        "numbered test"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        packet::looks_right(chunk)
    }

    fn clock(&self) -> Clock {
        Clock::Absolute
    }

    fn about(&self) -> &'static str {
        "numbered packets of `fullcount send`: loss, duplicates, order, latency"
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
        let value = |key: &str, value: String, allowed: &str| setting(key, value, allowed);
        if !setup.geometry.trim().is_empty() {
            let path = setup.geometry_path.clone();
            return Err(value(
                "detector.geometry",
                path,
                "`sequence` has no geometry: leave it out",
            ));
        }
        let options: Options = text::options(&setup.options)?;
        setup.time.without_pulses("sequence")?;
        // 64 numbers is one word; 1 Mi numbers is how far a tracker believes a jump at once.
        if !options.window.is_power_of_two() || !(64..=1 << 20).contains(&options.window) {
            let allowed = "a power of two, 64..=1048576";
            return Err(value("detector.window", options.window.to_string(), allowed));
        }
        if !(1..=1 << 16).contains(&options.max_streams) {
            let allowed = "1..=65536";
            return Err(value("detector.max_streams", options.max_streams.to_string(), allowed));
        }
        Ok(Box::new(SequenceDetector { options }))
    }
}

struct SequenceDetector {
    options: Options,
}

impl Detector for SequenceDetector {
    fn name(&self) -> &str {
        "sequence"
    }

    fn decoder(&self, _: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(Box::new(reader::SequenceReader::new(self.options)))
    }

    fn sharding(&self) -> Sharding {
        match self.options.key {
            KeyBy::Origin => Sharding::ByKey,
            // One stream may come from several addresses.
            KeyBy::Id => Sharding::Serial,
        }
    }

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: Some("stream"), by_port: true }
    }

    fn numbering(&self) -> Option<Numbering> {
        Some(self.options.numbering())
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::NANOSECOND, false)
    }

    fn pixels(&self) -> PixelMap {
        PixelMap::default()
    }

    fn plots(&self) -> Vec<Plot> {
        Vec::new()
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(shift::Moving::new(self.options)))
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(inspect::SequenceInspector { verify: self.options.verify })
    }
}
