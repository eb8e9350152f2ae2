//! Digital geometry of Gd-GEM: FEC, VMM and channel to plane and strip, with the calibration of each channel.
//!
//! Two published files are read, as JSON or TOML: that of vmm-sdat (`vmm_geometry`) and that of the online chain
//! (`srs_mappings`). Refuses what they refuse, entries outside the electronics, and more than 253 planes. Source:
//! `docs/formats/gdgem.md` sections 5, 6 and 12.

mod calibration;
mod offline;
mod online;
#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;

use fullcount_core::refusal::{Refusal, setting};
use fullcount_core::view::PixelMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::clock::{Calibration, ClockRules, TimeTables};
use super::correction::Corrections;
use super::options::{Options, Parameters};
use crate::geometry::line::place_of;
use crate::geometry::logical::Logical;
use crate::geometry::text;

pub(super) use online::{Algorithm, Matcher, Online};

/// FEC numbers are 4 bits, 0 is none.
pub(super) const FECS: usize = 16;
/// Valid VMMs of a FEC.
pub(super) const VMMS: usize = 16;
/// Channels of a VMM.
pub(super) const CHANNELS: usize = 64;
/// Pixels that a picture may have: 4096 × 4096.
const MOST_PIXELS: u32 = 1 << 24;

/// Used where no file is given: the set-up of the public capture.
const EXAMPLE: &str = include_str!("../../../../docs/examples/gdgem.toml");

/// The same for keys of the online chain: the published configuration.
const ONLINE_EXAMPLE: &str = include_str!("../../../../docs/examples/gdgem-online.json");

/// Offline, smallest amplitude with the over-threshold flag.
pub(super) const OVER_LEAST: u16 = 16;

/// [`FineHit::flags`](crate::hits::FineHit): the strip itself was above threshold.
pub(super) const OVER: u8 = 1;

/// Where a channel's hits go. 8 bytes, so that a FEC's channels are 8 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Strip, or column of a pad.
    pub coordinate: u16,
    /// Row of a pad.
    pub second: u16,
    /// Smallest amplitude without the over-threshold flag.
    pub threshold: u16,
    /// Plane of a detector, or one of the constants.
    pub lane: u8,
}

impl Place {
    /// Lane of a channel that is listed, but outside the region or the sectors of this process.
    pub const OUTSIDE: u8 = 251;
    /// Lane of a channel that is listed, but has no strip.
    pub const NO_STRIP: u8 = 252;
    /// Lane of a channel that is not listed.
    pub const UNMAPPED: u8 = 253;

    const NOWHERE: Place = Place { coordinate: 0, second: 0, threshold: 0, lane: Place::UNMAPPED };

    /// All that a hit needs in one load, from the lowest bit on: strip, row and smallest amplitude, 16 bits each, lane, and the flags of
    /// its row. Amplitudes below that are looked at more closely, so for channels that are not used it is one that none has.
    fn end(self, over: bool) -> u64 {
        let least = match over {
            _ if !self.is_used() => u16::MAX,
            true => OVER_LEAST,
            // Without an amplitude the time within the clock decides.
            false => self.threshold.max(1),
        };
        let [strip, row, least] = [self.coordinate, self.second, least].map(u64::from);
        let flags = if over { u64::from(OVER) } else { 0 };
        flags << 56 | u64::from(self.lane) << 48 | least << 32 | row << 16 | strip
    }

    /// True if the hits of the channel are used.
    #[inline]
    pub fn is_used(self) -> bool {
        self.lane < Place::OUTSIDE
    }
}

/// Channels of one FEC, `vmm * 64 + channel`.
#[derive(Debug, Clone)]
pub(super) struct Fec {
    pub places: [Place; VMMS * CHANNELS],
    /// Where hits end up, `(vmm * 2 + over threshold) * 64 + channel`, filled when the file has been read. Strip, row, smallest amplitude that
    /// needs no closer look, lane and flags of the row, from the lowest bit on: 16, 16, 16, 8 and 8 bits. VMMs above 15 are not used.
    pub ends: [u64; 4 * VMMS * CHANNELS],
    pub calibrations: Option<Box<[Calibration; VMMS * CHANNELS]>>,
    /// The same for the offline chain, filled when all files have been read.
    pub corrections: Option<Box<Corrections>>,
}

impl Fec {
    pub fn new() -> Box<Fec> {
        let places = [Place::NOWHERE; VMMS * CHANNELS];
        let ends = [Place::NOWHERE.end(false); 4 * VMMS * CHANNELS];
        let mut fec = Box::new(Fec { places, ends, calibrations: None, corrections: None });
        fec.fill();
        fec
    }

    /// Fills what the reader's loops use from the rest.
    fn fill(&mut self) {
        self.corrections = self.calibrations.as_deref().map(Corrections::of);
        let (ends, _) = self.ends.as_chunks_mut::<CHANNELS>();
        let (places, _) = self.places.as_chunks::<CHANNELS>();
        for (vmm, pair) in ends.chunks_exact_mut(2).enumerate() {
            let places = places.get(vmm).unwrap_or(&[Place::NOWHERE; CHANNELS]);
            pair[0] = places.map(|place| place.end(false));
            pair[1] = places.map(|place| place.end(true));
        }
    }
}

/// A plane of a detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lane {
    /// Place in [`Layout::detectors`].
    pub detector: usize,
    /// 0, 1 or 2.
    pub plane: u8,
}

/// A detector on the readout.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    /// Number in the file.
    pub id: u32,
    /// Its planes in ascending order, as places in [`Layout::lanes`].
    pub lanes: Vec<usize>,
    /// True for pads, which have one lane.
    pub pads: bool,
    /// How its hits become events.
    pub parameters: Parameters,
}

/// All that the configuration says.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub rules: ClockRules,
    pub clock: TimeTables,
    /// By FEC number.
    pub fecs: [Option<Box<Fec>>; FECS],
    pub lanes: Vec<Lane>,
    pub detectors: Vec<Panel>,
    /// True if the detectors are parts of one picture.
    pub one_picture: bool,
    /// What the online chain says beyond the mapping.
    pub online: Option<Online>,
    pub grid: Logical,
    pub map: PixelMap,
    /// What the file asks for and is not done.
    pub warnings: Vec<String>,
    /// How far before marker and offset a hit can lie, ns.
    pub earliest: f64,
}

#[derive(Deserialize)]
struct Probe {
    vmm_geometry: Option<IgnoredAny>,
    vmm_calibration: Option<IgnoredAny>,
}

impl Layout {
    /// From here on no amplitude without the over-threshold flag is smaller, on any channel, whatever was configured.
    pub fn set_threshold(&mut self, least: u16) {
        for fec in self.fecs.iter_mut().flatten() {
            fec.places.iter_mut().for_each(|place| place.threshold = least);
            fec.fill();
        }
    }

    /// Reads geometry and calibration.
    pub fn read(
        geometry: &str,
        path: &str,
        calibration: (&str, &str),
        options: &Options,
    ) -> Result<Layout, Refusal> {
        let example = if options.wants_online() { ONLINE_EXAMPLE } else { EXAMPLE };
        let none = geometry.trim().is_empty();
        let (geometry, path) = if none { (example, "built-in geometry") } else { (geometry, path) };
        let probe: Probe = text::parse(geometry, path)?;
        let mut layout = match probe.vmm_geometry {
            Some(_) => offline::read(geometry, path, options)?,
            None => online::read(geometry, path, options)?,
        };
        layout.take_sectors(options)?;
        if probe.vmm_calibration.is_some() {
            calibration::apply(&mut layout, geometry, path)?;
        }
        // A file that is named but empty is a mistake.
        if !(calibration.0.is_empty() && calibration.1.is_empty()) {
            calibration::apply(&mut layout, calibration.0, calibration.1)?;
        }
        let calibrations =
            layout.fecs.iter().flatten().filter_map(|f| f.calibrations.as_deref()).flatten();
        layout.earliest = calibrations
            .chain([&Calibration::NONE])
            .map(|c| layout.clock.earliest(c))
            .fold(0.0, f64::max);
        layout.fecs.iter_mut().flatten().for_each(|fec| fec.fill());
        layout.map.source_text = geometry.to_owned();
        Ok(layout)
    }

    /// Leaves the channels of sectors that are another process's. Pixels, picture and detectors stay those of the whole
    /// geometry; nobody waits for VMMs that do not send here.
    fn take_sectors(&mut self, options: &Options) -> Result<(), Refusal> {
        let known: Vec<u32> = self.detectors.iter().map(|d| d.id).collect();
        let Some(taken) = options.sectors(&known)? else { return Ok(()) };
        let (lanes, detectors) = (&self.lanes, &self.detectors);
        for place in self.fecs.iter_mut().flatten().flat_map(|fec| &mut fec.places) {
            let theirs = place.is_used()
                && !taken.contains(&detectors[lanes[usize::from(place.lane)].detector].id);
            if theirs {
                place.lane = Place::OUTSIDE;
            }
        }
        Ok(())
    }

    /// (FEC, VMM) whose hits are used, ascending.
    pub fn inputs(&self) -> Vec<(usize, usize)> {
        let mapped = |fec: usize, vmm: usize| {
            let channels = vmm * CHANNELS..(vmm + 1) * CHANNELS;
            let places = self.fecs[fec].as_ref().map(|f| &f.places[channels]);
            places.is_some_and(|places| places.iter().any(|p| p.is_used()))
        };
        let all = (0..FECS).flat_map(|fec| (0..VMMS).map(move |vmm| (fec, vmm)));
        all.filter(|&(fec, vmm)| mapped(fec, vmm)).collect()
    }

    /// Largest distance between hits of a run of a plane, ns.
    pub fn time_gap(&self, lane: Lane) -> f64 {
        self.detectors[lane.detector].parameters.time_gap(lane.plane)
    }

    /// True if each FEC reads one plane of one detector at most.
    pub fn has_a_plane_per_fec(&self) -> bool {
        self.fecs.iter().flatten().all(|fec| {
            let mut lanes = fec.places.iter().filter(|place| place.is_used()).map(|p| p.lane);
            let first = lanes.next();
            lanes.all(|lane| Some(lane) == first)
        })
    }
}

/// A file, for messages about what stands in it.
#[derive(Debug, Clone, Copy)]
struct FileText<'a> {
    path: &'a str,
    text: &'a str,
}

impl FileText<'_> {
    /// A value that cannot be used, with file, line, key and what is allowed. `key` is a path from the root of the file, of which
    /// only the first of several keys is looked for.
    fn refuse(self, key: &str, value: impl ToString, allowed: &str) -> Refusal {
        let line = place_of(self.text, key.split(", ").next().unwrap_or(key));
        let key = format!("{}: {line}{key}", self.path);
        setting(key, value, allowed)
    }
}

/// Pixel numbers and picture of `panels` detectors of `nx × ny` pixels, one below the other.
fn picture(
    nx: u32,
    ny: u32,
    panels: u32,
    options: &Options,
) -> Result<(Logical, PixelMap), Refusal> {
    let grid = Logical::new(nx, ny, 1, panels).filter(|g| g.pixels() <= MOST_PIXELS);
    let Some(grid) = grid else {
        return Err(setting(
            "geometry_x × geometry_y × detectors",
            format!("{nx} × {ny} × {panels}"),
            "1 to 16,777,216 pixels",
        ));
    };
    let rows = ny * panels;
    let [pitch_x, pitch_y] = options.pitch_mm().map(|mm| mm / 1000.0);
    let x = |i: u32| (f64::from(nx - 1) / 2.0 - f64::from(i % nx)) * pitch_x;
    let y = |i: u32| (f64::from(rows - 1) / 2.0 - f64::from(i / nx)) * pitch_y;
    let map = PixelMap {
        name: "gdgem".to_owned(),
        columns: nx,
        rows,
        cell: (0..grid.pixels()).collect(),
        x_m: (0..grid.pixels()).map(x).collect(),
        y_m: (0..grid.pixels()).map(y).collect(),
        distance_m: options.distance_m(),
        ..PixelMap::default()
    };
    Ok((grid, map))
}
