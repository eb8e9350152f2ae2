//! Multi-Blade (CAEN V1740D digitisers, JADAQ packets): cassettes of wires and strips in coincidence.
//!
//! Readouts become hits of a cassette; hits close in time become events where both planes saw them. Refuses
//! damaged packets (one counter per reason), readouts without a place, candidates without coincidence, and
//! configurations with unknown keys. Entry: [`MultiBlade`], the [`Kind`]. Source:
//! `docs/formats/multiblade.md`; for users: `docs/multiblade.md`.

mod arrival;
mod boxes;
mod builder;
mod counters;
mod fixed_window;
mod inspect;
mod judge;
mod keys;
mod layout;
pub mod packet;
mod place;
mod plots;
mod published;
mod reader;
mod sample;
mod shift;

use fullcount_core::refusal::{Refusal, of_detector as refuse, setting};
use std::io;
use std::sync::Arc;

use fullcount_core::key::KeyRow;
use fullcount_core::ledger::Unit;
use fullcount_core::naming::PublishedNames;
use fullcount_core::products::Want;
use fullcount_core::sequence::numbering::{Limit, Numbering, Per};
use fullcount_core::tables::Table;
use fullcount_core::time::TickLength;
use fullcount_core::view::{PixelMap, Plot};
use serde::Deserialize;

use crate::detector::{
    Clock, Decoder, Detector, Inspector, Kind, ModuleNames, Setup, Sharding, Shifter, Threads,
    TimeBase,
};
use crate::geometry::text;
use crate::hits::PlaneHit;
use crate::listed::joined;
use crate::sample::DetectorSample;
use crate::steps::{Builder, FirstStep};
use layout::{Layout, Mode};

pub use counters::{MultiBladeBuilt, MultiBladeCount};
pub use shift::shift;

/// Senders whose numbering is followed unless configured: a readout computer serves many digitisers.
const DEFAULT_STREAMS: u32 = 4096;

/// How hits become clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Clustering {
    /// Gaps in time and coordinate within a box.
    Gap,
    /// The first generation.
    FixedWindow,
}

/// Which hits share one builder; the events are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Builders {
    /// One for all cassettes: hits are sorted by cassette and time.
    Shared,
    /// One for each.
    PerCassette,
}

/// Where the first generation puts a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Position {
    /// Centre of gravity.
    Weighted,
    /// Channel of the largest amplitude.
    Maximum,
}

/// What becomes of monitor readouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MonitorUse {
    /// They are counted.
    Count,
    /// They are events of a pixel behind all others.
    Pixel,
}

/// `[detector]` keys of Multi-Blade.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    mode: Option<Mode>,
    clustering: Clustering,
    builders: Builders,
    window: u32,
    threshold: u16,
    position: Position,
    max_time_span: Option<u32>,
    max_wires: Option<u32>,
    max_strips: Option<u32>,
    wire_threshold: Option<u32>,
    amplitude_ratio: Option<[f64; 2]>,
    resolve_doubles: bool,
    subpixels: u32,
    drop_late: bool,
    monitor: MonitorUse,
    max_streams: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: None,
            clustering: Clustering::Gap,
            builders: Builders::Shared,
            window: 185,
            threshold: 0,
            position: Position::Weighted,
            max_time_span: None,
            max_wires: None,
            max_strips: None,
            wire_threshold: None,
            amplitude_ratio: None,
            resolve_doubles: false,
            subpixels: 1,
            drop_late: false,
            monitor: MonitorUse::Count,
            max_streams: DEFAULT_STREAMS,
        }
    }
}

impl Options {
    /// Ranges, and what does not go together.
    fn check(&self) -> Result<(), Refusal> {
        range("max_streams", self.max_streams, 1, 1 << 20)?;
        range("subpixels", self.subpixels, 1, 16)?;
        range("window", self.window, 1, u32::MAX)?;
        for (key, limit) in [
            ("max_time_span", self.max_time_span),
            ("max_wires", self.max_wires),
            ("max_strips", self.max_strips),
        ] {
            range(key, limit.unwrap_or(1), 1, u32::MAX)?;
        }
        if let Some([least, most]) = self.amplitude_ratio
            && !(least >= 0.0 && least <= most && most.is_finite())
        {
            let allowed = "[smallest, largest] of strips ÷ wires, 0 or more";
            return Err(refuse("amplitude_ratio", format!("[{least}, {most}]"), allowed));
        }
        if self.clustering == Clustering::FixedWindow {
            let filters = [
                ("max_time_span", self.max_time_span.is_some()),
                ("max_wires", self.max_wires.is_some()),
                ("max_strips", self.max_strips.is_some()),
                ("wire_threshold", self.wire_threshold.is_some()),
                ("amplitude_ratio", self.amplitude_ratio.is_some()),
                ("resolve_doubles", self.resolve_doubles),
            ];
            if let Some((key, _)) = filters.iter().find(|(_, given)| *given) {
                return Err(refuse(key, "given", "only with clustering = \"gap\""));
            }
        } else if self.threshold > 0 {
            let allowed = "only with clustering = \"fixed-window\"";
            return Err(refuse("threshold", self.threshold, allowed));
        }
        Ok(())
    }

    /// What depends on the geometry.
    fn check_with(&self, layout: &Layout) -> Result<(), Refusal> {
        if self.clustering != Clustering::FixedWindow {
            return Ok(());
        }
        if layout.mode == Mode::OneD {
            let allowed = "with mode = \"2d\": single wires are not clustered";
            return Err(refuse("clustering", "\"fixed-window\"", allowed));
        }
        let most = layout.sizes.wires.max(layout.sizes.strips);
        if most > fixed_window::MOST {
            let allowed = "with at most 1024 wires and strips per cassette";
            return Err(refuse("clustering", "\"fixed-window\"", allowed));
        }
        Ok(())
    }

    /// A sender counts its packets over all its digitisers. One turn of 32 bits takes 12 hours at 100,000 packets/s.
    fn numbering(&self) -> Numbering {
        Numbering {
            bits: 32,
            unit: Unit::Packets,
            called: "sequence numbers",
            per: Per::Sender,
            // Packets overtake each other by a GRO train (64 packets) or two: four of them.
            window: Limit::Fixed(256),
            streams: Some(Limit::Set(self.max_streams)),
            drops_copies: false,
        }
    }

    fn per_cassette(&self) -> bool {
        self.builders == Builders::PerCassette
    }

    fn monitor_pixel(&self) -> bool {
        self.monitor == MonitorUse::Pixel
    }
}

fn range(key: &str, value: u32, least: u32, most: u32) -> Result<(), Refusal> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(refuse(key, value, format!("{least}..={most}"))),
    }
}

/// The kind `multiblade`.
#[derive(Debug, Default)]
pub struct MultiBlade;

impl Kind for MultiBlade {
    fn name(&self) -> &'static str {
        "multiblade"
    }

    fn title(&self) -> &'static str {
        "Multi-Blade"
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        packet::looks_right(chunk)
    }

    fn clock(&self) -> Clock {
        Clock::Local
    }

    fn about(&self) -> &'static str {
        "Multi-Blade cassettes (CAEN digitisers over UDP), wires and strips in coincidence"
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
        Ok(Box::new(MultiBladeDetector::new(setup)?))
    }
}

/// A configured Multi-Blade detector.
pub(crate) struct MultiBladeDetector {
    options: Options,
    layout: Arc<Layout>,
    time: TimeBase,
}

impl MultiBladeDetector {
    /// Reads the configuration.
    pub(crate) fn new(setup: &Setup) -> Result<MultiBladeDetector, Refusal> {
        let options: Options = text::options(&setup.options)?;
        setup.time.without_pulses("multiblade")?;
        options.check()?;
        let layout = Layout::read(&setup.geometry, &setup.geometry_path, &options)?;
        options.check_with(&layout)?;
        let own = TickLength::new(layout.tick_ns, 1).unwrap_or(TickLength::NANOSECOND);
        if let Some(tick) = setup.time.tick.filter(|tick| tick.fraction() != own.fraction()) {
            let (num, den) = tick.fraction();
            return Err(setting(
                "time.tick",
                format!("{num}/{den} ns"),
                format!("{} ns: the geometry file's TimeTickNS says it", layout.tick_ns),
            ));
        }
        Ok(MultiBladeDetector { options, layout: Arc::new(layout), time: setup.time })
    }

    fn reader(&self) -> reader::BladeReader {
        let (numbering, layout) = (self.options.numbering(), self.layout.clone());
        let monitor = self.options.monitor_pixel();
        reader::BladeReader::new(numbering, layout, monitor, self.time.now)
    }

    pub(crate) fn builder(&self) -> Box<dyn Builder<Hit = PlaneHit>> {
        let (layout, options, time) = (self.layout.clone(), &self.options, &self.time);
        match options.clustering {
            Clustering::Gap => Box::new(builder::BladeBuilder::new(layout, options, time)),
            Clustering::FixedWindow => {
                Box::new(fixed_window::WindowBuilder::new(layout, options, time))
            }
        }
    }
}

impl Detector for MultiBladeDetector {
    fn name(&self) -> &str {
        "multiblade"
    }

    fn decoder(&self, want: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(joined(self.reader(), self.builder(), (want, self.tick().0)))
    }

    fn first_step(&self) -> Option<Box<dyn Decoder>> {
        Some(Box::new(FirstStep::of(self.reader())))
    }

    /// Nothing is joined across packets, a packet is one digitiser's, and a digitiser sends from one address:
    /// all that a builder keeps between packets, the start of a cassette's box or its open window, stays with
    /// that address. So does the sender's sequence number.
    fn sharding(&self) -> Sharding {
        Sharding::ByKey
    }

    fn tables(&self) -> Vec<Table> {
        vec![Table::ModuleHits]
    }

    fn module_names(&self) -> ModuleNames {
        ModuleNames { called: None, by_port: true }
    }

    fn numbering(&self) -> Option<Numbering> {
        Some(self.options.numbering())
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::new(self.layout.tick_ns, 1).unwrap_or(TickLength::NANOSECOND), false)
    }

    fn pixels(&self) -> PixelMap {
        self.layout.map.clone()
    }

    fn plots(&self) -> Vec<Plot> {
        plots::plots(&self.time, &self.layout)
    }

    fn shifter(&self) -> Option<Box<dyn Shifter>> {
        Some(Box::new(shift::Moving::new(self.options.numbering())))
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(inspect::BladeInspector { layout: self.layout.clone() })
    }
}
