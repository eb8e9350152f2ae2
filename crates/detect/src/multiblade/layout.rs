//! Geometry of Multi-Blade: (digitiser, channel) → (cassette, plane, coordinate), pixels and their places.
//!
//! A [`File`] is one of the published set-ups (JSON or TOML with the published keys) or a list of
//! `[[mapping]]`; both become the same table. Refuses unknown keys, missing ones, values out of range,
//! digitisers listed twice, channels mapped twice, coordinates mapped twice or not at all, and planes of one
//! cassette on different digitisers, which could never meet in time. Source: `docs/formats/multiblade.md`
//! sections 3 to 7, `docs/multiblade.md`.

mod file;
mod mapping;
mod published;
mod table;

use fullcount_core::refusal::{Refusal, setting};
use fullcount_core::view::PixelMap;

use super::Options;
use super::place;
use crate::geometry::line::place_of;
use crate::geometry::logical::Logical;
use crate::geometry::text;

pub(super) use file::{File, Mode};
pub(super) use table::{Boards, Channel, Use};

/// Text of the geometry that is used without a file: the set-up of the public recordings.
pub(super) const DEFAULT: &str = include_str!("mb18_freia.toml");

/// Largest number of nanoseconds of a tick: 32-bit ticks then fit 63 bits twice.
const MAX_TICK_NS: u64 = 1_000_000_000;

/// Most pixels: positions and picture need 28 bytes each. Fifty cassettes of 32 wires and 64 strips with 16 parts
/// per strip have 1.6 million.
const MAX_PIXELS: u64 = 1 << 22;

/// Readouts that step back by this are behind a restart of the digitiser's clock.
pub(super) const WRAP_NS: u64 = 43_000_000;

/// The plane that wires lie in: 0 (x) or 1 (y).
pub(super) type Plane = u8;

/// What kind of set-up a file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetUp {
    /// One digitiser per cassette, or a mapping.
    Stack,
    /// AMOR B.
    AmorB,
}

/// Sizes in the detector's own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub cassettes: u16,
    pub wires: u16,
    pub strips: u16,
    pub wire_plane: Plane,
}

impl Sizes {
    /// Columns and rows of the pixel grid, `parts` pixels per strip.
    pub fn grid(&self, parts: u32) -> (u32, u32) {
        let across = u32::from(self.cassettes) * u32::from(self.wires);
        let along = u32::from(self.strips) * parts;
        if self.wire_plane == 0 { (across, along) } else { (along, across) }
    }
}

/// Limits of the event building, in ticks where they are times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    /// Smallest distance from the first hit that opens a new box.
    pub box_ticks: u64,
    /// Largest time gap.
    pub time_gap: i64,
    /// Largest step in coordinate.
    pub coordinate_gap: u16,
    /// Largest gap between clusters of one event.
    pub matching_gap: i64,
}

/// The geometry as readers and builders use it.
#[derive(Debug)]
pub(super) struct Layout {
    pub set_up: SetUp,
    pub mode: Mode,
    pub sizes: Sizes,
    pub tick_ns: u32,
    pub steps: Steps,
    /// Largest amplitude that is read.
    pub max_adc: u16,
    /// First tick that is refused.
    pub time_limit: u64,
    /// Smallest step back of a restart, ticks.
    pub wrap_ticks: u32,
    /// Missing coordinates at which a plane's events are dropped.
    pub max_gap: [Option<u32>; 2],
    /// Time above which events are late, ns.
    pub max_tof_ns: Option<u64>,
    /// Smallest amplitude sum by wire, over all cassettes; empty: none.
    pub wire_thresholds: Vec<u32>,
    pub boards: Boards,
    pub grid: Logical,
    pub map: PixelMap,
}

/// Refuses `key` of a geometry file.
pub(super) struct Refuse<'a> {
    place: &'a str,
    text: &'a str,
}

impl Refuse<'_> {
    /// Key, value and what is allowed, with the line on which the key stands, or its `nth` entry (from 0) if it is a list.
    pub fn nth(&self, key: &str, nth: usize, value: impl ToString, allowed: &str) -> Refusal {
        let allowed = allowed.to_owned();
        let said = |line: &str| {
            setting(format!("{}: {line}{key}", self.place), value.to_string(), allowed.clone())
        };
        let place = place_of(self.text, &format!("{key}[{nth}]"));
        if !place.is_empty() {
            return said(&place);
        }
        // A key of nothing that is there by its whole path: the last part is the word in the file.
        let word = key.rsplit('.').next().unwrap_or(key);
        let word = word.split('[').next().unwrap_or(word);
        let has = |line: &&str| {
            line.match_indices(word).any(|(at, _)| {
                let end = line[at + word.len()..].chars().next();
                let begin = line[..at].chars().next_back();
                let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                !inside(begin) && !inside(end)
            })
        };
        let mut lines = self.text.lines().enumerate().filter(|(_, line)| has(line));
        let line = lines.nth(nth).map_or(String::new(), |(at, _)| format!("line {}: ", at + 1));
        said(&line)
    }

    /// As [`Refuse::nth`], for a key that stands once.
    pub fn value(&self, key: &str, value: impl ToString, allowed: &str) -> Refusal {
        self.nth(key, 0, value, allowed)
    }
}

impl Layout {
    /// Reads `text`; empty means the set-up of the public recordings.
    ///
    /// # Errors
    /// Syntax, range, holes or overlap, with file, line, key and value.
    pub fn read(text: &str, path: &str, options: &Options) -> Result<Layout, Refusal> {
        let given = !text.trim().is_empty();
        let (text, place) = match (given, path) {
            (false, _) => (DEFAULT, "built-in geometry"),
            (true, "") => (text, "detector.geometry"),
            (true, path) => (text, path),
        };
        let file: File = text::parse(text, place)?;
        let refuse = Refuse { place, text };
        let plan = match &file.mapping {
            Some(list) => mapping::plan(&file, list, &refuse)?,
            None => published::plan(&file, &refuse)?,
        };
        let sizes = plan.sizes;
        let (nx, ny) = sizes.grid(options.subpixels);
        let grid = Logical::new(nx, ny, 1, 1).filter(|g| u64::from(g.pixels()) <= MAX_PIXELS);
        let grid = grid.ok_or_else(|| {
            let value = format!("{nx} x {ny} pixels");
            let allowed = format!("at most {MAX_PIXELS} pixels: lower detector.subpixels");
            refuse.value("strips", value, &allowed)
        })?;
        let tick = positive(file.tick_ns, "TimeTickNS", MAX_TICK_NS, &refuse)?;
        let set_up = plan.set_up;
        let mode = options.mode.unwrap_or(match set_up {
            SetUp::Stack => Mode::TwoD,
            SetUp::AmorB => Mode::OneD,
        });
        let default_adc = 65_534;
        let max_adc = file.max_valid_adc.unwrap_or(default_adc);
        let Ok(max_adc) = u16::try_from(max_adc) else {
            return Err(refuse.value("MaxValidADC", max_adc, "0..=65535"));
        };
        let default_limit = (set_up == SetUp::AmorB).then_some(u64::from(u32::MAX));
        let limit_ns = file.time_limit_ns.or(default_limit);
        let max_gap = plan.max_gap;
        let wire_thresholds = file.thresholds(&sizes, options.wire_threshold, &refuse)?;
        let boards = plan.table.finish(mode, file.monitor(&plan.monitor, &refuse)?, &refuse)?;
        let mut map = place::pixels(&file, &sizes, options, &refuse)?;
        if given {
            text.clone_into(&mut map.source_text);
        }
        Ok(Layout {
            set_up,
            mode,
            sizes,
            tick_ns: tick as u32,
            steps: file.steps(tick, &refuse)?,
            max_adc,
            time_limit: limit_ns.map_or(u64::MAX, |ns| ns.div_ceil(tick)),
            // At most 43,000,000.
            wrap_ticks: WRAP_NS.div_ceil(tick) as u32,
            max_gap,
            max_tof_ns: file.max_tof_ns,
            wire_thresholds,
            boards,
            grid,
            map,
        })
    }

    /// Nanoseconds of `ticks` after the digitiser's restart.
    #[inline]
    pub fn nanos(&self, ticks: i64) -> i64 {
        // Ticks have 32 bits, a tick 30.
        ticks * i64::from(self.tick_ns)
    }
}

/// A required number from 1 to `most`.
fn positive(value: Option<u64>, key: &str, most: u64, refuse: &Refuse<'_>) -> Result<u64, Refusal> {
    let allowed = format!("1..={most}");
    match value {
        None => Err(refuse.value(key, "missing", &allowed)),
        Some(n) if (1..=most).contains(&n) => Ok(n),
        Some(n) => Err(refuse.value(key, n, &allowed)),
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
