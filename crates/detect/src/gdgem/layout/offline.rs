//! The geometry file of vmm-sdat: `vmm_geometry`, a list of VMMs with the strip or pad of each channel.
//!
//! Refuses entries outside the electronics, lists of another length than 64, planes above 2, detectors above 15, and
//! detectors whose planes are not 0; 0 and 1; or 0, 1 and 2. Source: `docs/formats/gdgem.md` sections 6 and 14.

use fullcount_core::refusal::Refusal;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{CHANNELS, ClockRules, Fec, FileText, Lane, Layout, Panel, Place, VMMS, picture};
use crate::gdgem::clock::TimeTables;
use crate::gdgem::options::Options;
use crate::geometry::text;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    vmm_geometry: Vec<Entry>,
    /// May stand in the same file; read by [`calibration`](super::calibration).
    #[serde(default)]
    #[allow(dead_code, reason = "read elsewhere")]
    vmm_calibration: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    detector: u32,
    plane: u8,
    fec: usize,
    vmm: usize,
    id0: Vec<i32>,
    #[serde(default)]
    id1: Vec<i32>,
    /// Direction of the strips of a third plane, degrees; in the published file, not used here or there.
    #[serde(default)]
    #[allow(dead_code, reason = "checked for its type")]
    angle: Option<f64>,
}

impl Entry {
    fn check(&self, at: usize, file: FileText<'_>) -> Result<(), Refusal> {
        let no = |key: &str, value: i64, allowed: &str| {
            Err(file.refuse(&format!("vmm_geometry[{at}].{key}"), value, allowed))
        };
        if self.detector > 15 {
            return no("detector", self.detector.into(), "0 to 15");
        }
        if self.plane > 2 {
            return no("plane", self.plane.into(), "0 (x), 1 (y) or 2 (u)");
        }
        if !(1..super::FECS).contains(&self.fec) {
            return no("fec", self.fec as i64, "1 to 15");
        }
        if self.vmm >= VMMS {
            return no("vmm", self.vmm as i64, "0 to 15");
        }
        if self.id0.len() != CHANNELS {
            return no("id0", self.id0.len() as i64, "a list of 64 numbers, one per channel");
        }
        if !self.id1.is_empty() && self.id1.len() != CHANNELS {
            return no("id1", self.id1.len() as i64, "a list of 64 numbers, or none");
        }
        for (key, ids) in [("id0", &self.id0), ("id1", &self.id1)] {
            if let Some(channel) = ids.iter().position(|id| !(-1..=65_534).contains(id)) {
                let allowed = "0 to 65534, or -1 for a channel that is not connected";
                return no(&format!("{key}[{channel}]"), ids[channel].into(), allowed);
            }
        }
        Ok(())
    }
}

pub(super) fn read(text: &str, path: &str, options: &Options) -> Result<Layout, Refusal> {
    let file: File = text::parse(text, path)?;
    options.for_offline()?;
    let place = FileText { path, text };
    for (at, entry) in file.vmm_geometry.iter().enumerate() {
        entry.check(at, place)?;
    }
    let (lanes, mut detectors) = lanes(&file.vmm_geometry, place)?;
    let count = detectors.len();
    for (index, detector) in detectors.iter_mut().enumerate() {
        detector.parameters = options.parameters(index, count)?;
    }
    let mut fecs: [Option<Box<Fec>>; super::FECS] = Default::default();
    let mut taken = [[false; VMMS]; super::FECS];
    let (mut nx, mut ny) = (1, 1);
    for entry in &file.vmm_geometry {
        // A second entry only adds its detector and plane.
        if std::mem::replace(&mut taken[entry.fec][entry.vmm], true) {
            continue;
        }
        let Some(detector) = detectors.iter().position(|d| d.id == entry.detector) else {
            continue;
        };
        let panel = &detectors[detector];
        let lane = panel.lanes.iter().position(|&l| panel.pads || lanes[l].plane == entry.plane);
        let Some(lane) = lane.map(|at| panel.lanes[at]) else { continue };
        let threshold = panel.parameters.threshold;
        let fec = fecs[entry.fec].get_or_insert_with(Fec::new);
        for channel in 0..CHANNELS {
            let second = entry.id1.get(channel).copied().unwrap_or(0);
            let (Ok(coordinate), Ok(second)) =
                (u16::try_from(entry.id0[channel]), u16::try_from(second))
            else {
                continue;
            };
            let (x, y) = match (panel.pads, entry.plane) {
                (true, _) => (coordinate, second),
                (false, 0) => (coordinate, 0),
                (false, 1) => (0, coordinate),
                _ => (0, 0),
            };
            let (x, y) =
                if panel.lanes.len() == 1 && !panel.pads { (coordinate, 0) } else { (x, y) };
            nx = nx.max(u32::from(x) + 1);
            ny = ny.max(u32::from(y) + 1);
            fec.places[entry.vmm * CHANNELS + channel] =
                Place { coordinate, second, threshold, lane: lane as u8 };
        }
    }
    let nx = options.geometry_x.unwrap_or(nx);
    let ny = options.geometry_y.unwrap_or(ny);
    let one_picture = options.one_picture();
    let (grid, map) =
        picture(nx, ny, if one_picture { 1 } else { detectors.len() as u32 }, options)?;
    Ok(Layout {
        rules: ClockRules::Offline,
        clock: TimeTables::offline(options.bc(), options.tac()),
        fecs,
        lanes,
        detectors,
        one_picture,
        online: None,
        grid,
        map,
        warnings: Vec::new(),
        earliest: 0.0,
    })
}

/// Detectors in order of appearance, and their planes in ascending order.
fn lanes(entries: &[Entry], file: FileText<'_>) -> Result<(Vec<Lane>, Vec<Panel>), Refusal> {
    let (mut lanes, mut detectors) = (Vec::new(), Vec::<Panel>::new());
    for entry in entries {
        if detectors.iter().all(|d| d.id != entry.detector) {
            detectors.push(Panel {
                id: entry.detector,
                lanes: Vec::new(),
                pads: false,
                parameters: Default::default(),
            });
        }
    }
    if detectors.is_empty() {
        return Err(file.refuse("vmm_geometry", "[]", "at least one VMM"));
    }
    for (index, detector) in detectors.iter_mut().enumerate() {
        let mine = || entries.iter().filter(|e| e.detector == detector.id);
        detector.pads = mine().any(|e| !e.id1.is_empty());
        let mut planes: Vec<u8> = mine().map(|e| e.plane).collect();
        planes.sort_unstable();
        planes.dedup();
        if detector.pads {
            planes.truncate(1);
        }
        if planes.len() > 1 && planes[..] != [0, 1] && planes[..] != [0, 1, 2] {
            let allowed = "planes 0; 0 and 1; or 0, 1 and 2";
            let value = format!("planes {planes:?} of detector {}", detector.id);
            // The entry of the plane that does not belong there: the first that none before it leads up to.
            let odd = planes.iter().enumerate().find(|(n, plane)| *n != usize::from(**plane));
            let is_odd = |e: &Entry| {
                e.detector == detector.id && odd.is_none_or(|(_, plane)| *plane == e.plane)
            };
            let at = entries.iter().position(is_odd).unwrap_or(0);
            return Err(file.refuse(&format!("vmm_geometry[{at}].plane"), value, allowed));
        }
        for plane in planes {
            detector.lanes.push(lanes.len());
            lanes.push(Lane { detector: index, plane });
        }
    }
    Ok((lanes, detectors))
}
