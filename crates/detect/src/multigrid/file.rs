//! The geometry file: the published JSON configuration, or the same keys as TOML.
//!
//! Refuses unknown keys and types, values out of range, and modules that contradict each other, with line,
//! key, value and rule. What is odd but may be meant, `mum_wires` among it, is a warning. Source:
//! `docs/formats/multigrid.md` section 7, `docs/multigrid.md`.

use fullcount_core::refusal::{Refusal, setting};
use serde::Deserialize;

use super::mapping::{Mapping, Plane};
use super::volume::Volume;
use crate::geometry::text;

/// Planes are numbered in 8 bits, two to a bus, and two numbers are taken.
const MOST_BUSES: usize = 126;
/// A high part of 16 bits and a low one of 30.
const MOST_LATENCY: u64 = 1 << 46;

/// What is used when no file is given: one module on bus 0, channels in order.
const BUILT_IN: &str = r#"{"mappings": [{"type": "MGSeq", "max_channel": 120, "max_wire": 80}],
 "builder": {"type": "mesytec", "spoof_high_time": false},
 "pipeline_config": {"maximum_latency": 300000, "max_wire_multiplicity": 1, "max_grid_multiplicity": 5,
  "modules": [{"digital_geometry": {}, "analysis_weighted": true}]}}"#;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mappings: Vec<Mapping>,
    builder: Builder,
    pipeline_config: Pipeline,
    #[serde(default)]
    panel: PanelSection,
}

/// `builder`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Builder {
    r#type: DatagramFormat,
    #[serde(default)]
    spoof_high_time: bool,
}

/// What datagrams hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum DatagramFormat {
    /// SIS3153 packets with Mesytec words.
    #[serde(rename = "mesytec")]
    Mesytec,
    /// Replay records.
    #[serde(rename = "readouts")]
    Records,
}

/// `pipeline_config`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pipeline {
    maximum_latency: Latency,
    max_wire_multiplicity: u32,
    max_grid_multiplicity: u32,
    modules: Vec<ModuleText>,
}

/// One of `pipeline_config.modules`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleText {
    digital_geometry: DigitalGeometry,
    analysis_weighted: bool,
}

/// `digital_geometry`, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DigitalText {
    num_wires: Option<u16>,
    /// A typing error in published files.
    mum_wires: Option<u16>,
    num_grids: u16,
    z_range: u16,
    flipped_x: bool,
    flipped_z: bool,
    x_offset: u16,
    y_offset: u16,
    z_offset: u16,
    centre_mm: Option<[f64; 3]>,
}

impl Default for DigitalText {
    fn default() -> Self {
        DigitalText {
            num_wires: None,
            mum_wires: None,
            num_grids: 40,
            z_range: 20,
            flipped_x: false,
            flipped_z: false,
            x_offset: 0,
            y_offset: 0,
            z_offset: 0,
            centre_mm: None,
        }
    }
}

/// A module's wires and grids as a field of pixels.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "DigitalText")]
pub struct DigitalGeometry {
    /// Wires: X rows of Z.
    pub num_wires: u16,
    /// Grids along y.
    pub num_grids: u16,
    /// Layers in depth.
    pub z_range: u16,
    flipped_x: bool,
    flipped_z: bool,
    /// First column of the module in the detector.
    pub x_offset: u16,
    /// First row.
    pub y_offset: u16,
    /// First layer.
    pub z_offset: u16,
    /// Surveyed centre: x to the left along the beam, y up, z along the beam behind the panel's origin.
    pub centre_mm: Option<[f64; 3]>,
    misspelt: bool,
}

impl TryFrom<DigitalText> for DigitalGeometry {
    type Error = String;

    fn try_from(t: DigitalText) -> Result<DigitalGeometry, String> {
        if t.num_wires.is_some() && t.mum_wires.is_some() {
            return Err("mum_wires: give num_wires alone".to_owned());
        }
        let num_wires = t.num_wires.or(t.mum_wires).unwrap_or(80);
        if t.z_range == 0 {
            return Err("z_range: 0 is not allowed: 1..=65535".to_owned());
        }
        if num_wires < t.z_range {
            let z = t.z_range;
            return Err(format!(
                "num_wires: {num_wires} is not allowed: at least z_range, which is {z}"
            ));
        }
        if t.num_grids == 0 {
            return Err("num_grids: 0 is not allowed: 1..=65535".to_owned());
        }
        let far = |c: &[f64; 3]| !c.iter().all(|v| (-1e6..=1e6).contains(v));
        if let Some(c) = t.centre_mm.as_ref().filter(|c| far(c)) {
            return Err(format!("centre_mm: {c:?} is not allowed: each within ±1000000"));
        }
        Ok(DigitalGeometry {
            num_wires,
            num_grids: t.num_grids,
            z_range: t.z_range,
            flipped_x: t.flipped_x,
            flipped_z: t.flipped_z,
            x_offset: t.x_offset,
            y_offset: t.y_offset,
            z_offset: t.z_offset,
            centre_mm: t.centre_mm,
            misspelt: t.mum_wires.is_some(),
        })
    }
}

impl DigitalGeometry {
    /// x and z of a wire in the detector. Signed: beyond the last row a flip goes below 0.
    pub fn wire(&self, wire: u32) -> (i32, i32) {
        let depth = i32::from(self.z_range);
        let rows = i32::from(self.num_wires) / depth;
        let (x, z) = (wire as i32 / depth, wire as i32 % depth);
        let x = if self.flipped_x { rows - 1 - x } else { x };
        let z = if self.flipped_z { depth - 1 - z } else { z };
        (i32::from(self.x_offset) + x, i32::from(self.z_offset) + z)
    }
}

/// `[panel]`: ours, not in published files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PanelSection {
    /// Name in files and on the page.
    pub name: String,
    /// Size of a voxel in x, y, z.
    pub cell_mm: [Size; 3],
    /// From the sample along the beam to the first layer.
    pub distance_m: Distance,
    /// Columns, grids and layers of the whole detector, of which the modules of this file are a part.
    pub size: Option<[u16; 3]>,
}

impl Default for PanelSection {
    fn default() -> Self {
        // Christensen et al. and the Multi-Grid papers: 22.5 mm across and high, 10 mm deep.
        let cell_mm = [22.5, 22.5, 10.0].map(Size);
        PanelSection { name: "multigrid".into(), cell_mm, distance_m: Distance(0.0), size: None }
    }
}

/// Declares a number that is checked while serde reads it, so that the message has line and column.
macro_rules! checked {
    ($(#[doc = $doc:literal])* $name:ident($ty:ty), $ok:expr, $allowed:literal) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
        #[serde(try_from = "Number")]
        pub struct $name(pub $ty);

        impl TryFrom<Number> for $name {
            type Error = String;

            fn try_from(number: Number) -> Result<Self, String> {
                let convert: fn(Number) -> Option<$ty> = $ok;
                let refused = || format!("{} is not allowed: {}", number.0, $allowed);
                convert(number).map($name).ok_or_else(refused)
            }
        }
    };
}

/// Any number.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Number(f64);

checked!(
    /// A length above 0, mm.
    Size(f64), |n| Some(n.0).filter(|&v| v > 0.0 && v <= 1000.0), "above 0, up to 1000"
);
checked!(
    /// A length that may be 0, m.
    Distance(f64), |n| Some(n.0).filter(|v| (0.0..=1000.0).contains(v)), "0..=1000"
);
checked!(
    /// Ticks of 62.5 ns.
    Latency(i64),
    |n| (n.0.fract() == 0.0 && (0.0..=MOST_LATENCY as f64).contains(&n.0)).then_some(n.0 as i64),
    "0..=70368744177664 ticks of 62.5 ns"
);

/// A configuration that can be used.
#[derive(Debug, Clone)]
pub struct MultiGridConfig {
    /// What datagrams hold.
    pub format: DatagramFormat,
    /// The high part of the time is made up.
    pub spoof_high_time: bool,
    /// By bus; as many as `modules`.
    pub mappings: Vec<Mapping>,
    /// By bus; as many as `mappings`.
    pub modules: Vec<DigitalGeometry>,
    /// By bus: a plane whose highest weight is 0 has no mean.
    pub weighted: Vec<bool>,
    /// Latency window, ticks.
    pub latency: i64,
    /// Hits that an event may have on wires and on grids.
    pub multiplicity: [u32; 2],
    /// Places and pixels of all modules.
    pub volume: Volume,
    /// Name, sizes and distance.
    pub panel: PanelSection,
    /// What is odd.
    pub warnings: Vec<String>,
}

impl MultiGridConfig {
    /// Reads `text`; empty means the built-in module.
    ///
    /// # Errors
    /// Syntax, range or contradiction, with its line.
    pub fn read(text: &str, path: &str) -> Result<MultiGridConfig, Refusal> {
        let place = if path.is_empty() { "detector.geometry" } else { path };
        let text = if text.trim().is_empty() { BUILT_IN } else { text };
        let file: File = text::parse(text, place)?;
        let refuse = |line: Option<usize>, key: &str, value: &str, allowed: &str| {
            let line = line.map_or(String::new(), |n| format!("line {n}: "));
            setting(format!("{place}: {line}{key}"), value, allowed)
        };
        let Pipeline { maximum_latency, max_wire_multiplicity, max_grid_multiplicity, modules } =
            file.pipeline_config;
        for (key, n) in
            [("mappings", file.mappings.len()), ("pipeline_config.modules", modules.len())]
        {
            if !(1..=MOST_BUSES).contains(&n) {
                let line = line_of(text, key.rsplit('.').next().unwrap_or(key), 0, None);
                return Err(refuse(line, key, &format!("{n} entries"), "1 to 126, one per bus"));
            }
        }
        let (weighted, geometries): (Vec<bool>, Vec<DigitalGeometry>) =
            modules.into_iter().map(|m| (m.analysis_weighted, m.digital_geometry)).unzip();
        let wires: Vec<u32> = file.mappings.iter().map(|m| m.numbers(Plane::Wires)).collect();
        // A module without a mapping has places all the same: it must not overlap either.
        let known = |i: usize| wires.get(i).copied().unwrap_or(0);
        let wires: Vec<u32> = (0..geometries.len()).map(known).collect();
        let whole = file.panel.size.map(|sizes| sizes.map(u32::from));
        let volume = Volume::new(&geometries, &wires, whole).map_err(|c| {
            let line = line_of(text, "digital_geometry", c.module, Some(geometries.len()));
            let key = format!("pipeline_config.modules[{}].{}", c.module, c.key);
            refuse(line, &key, &c.value, &c.allowed)
        })?;
        let warnings = warnings(&file.mappings, &geometries, &volume, whole.is_some());
        Ok(MultiGridConfig {
            format: file.builder.r#type,
            spoof_high_time: file.builder.spoof_high_time,
            mappings: file.mappings,
            modules: geometries,
            weighted,
            latency: maximum_latency.0,
            multiplicity: [max_wire_multiplicity, max_grid_multiplicity],
            volume,
            panel: file.panel,
            warnings,
        })
    }
}

/// Line of the `n`-th time that `key` stands in `text`, if it stands there `times` times (or whatever
/// often, without): the parsers' own places end where the file is well-formed.
fn line_of(text: &str, key: &str, n: usize, times: Option<usize>) -> Option<usize> {
    let json = text.trim_start().starts_with('{');
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = if json { line } else { line.split('#').next().unwrap_or_default() };
        let word = |c: char| c.is_alphanumeric() || c == '_';
        lines.extend(line.match_indices(key).filter_map(|(i, _)| {
            let before = line[..i].chars().next_back();
            let after = line[i + key.len()..].chars().next();
            (!before.is_some_and(word) && !after.is_some_and(word)).then_some(at + 1)
        }));
    }
    lines.get(n).copied().filter(|_| times.is_none_or(|times| times == lines.len()))
}

/// What is allowed but rarely meant.
fn warnings(
    mappings: &[Mapping],
    modules: &[DigitalGeometry],
    volume: &Volume,
    part: bool,
) -> Vec<String> {
    let mut all = Vec::new();
    for (i, m) in modules.iter().enumerate() {
        let at = format!("pipeline_config.modules[{i}].digital_geometry");
        if m.misspelt {
            all.push(format!("{at}: mum_wires is read as num_wires"));
        }
        if m.num_wires % m.z_range != 0 {
            let (w, z) = (m.num_wires, m.z_range);
            all.push(format!("{at}: num_wires = {w} is no multiple of z_range = {z}: the last {} wires have no pixel", w % z));
        }
    }
    for (i, mapping) in mappings.iter().enumerate() {
        let Some(m) = modules.get(i) else {
            all.push(format!("mappings[{i}]: no module: readouts of bus {i} are geometry errors"));
            continue;
        };
        for (plane, what, size) in
            [(Plane::Wires, "wires", m.num_wires), (Plane::Grids, "grids", m.num_grids)]
        {
            let mapped = mapping.numbers(plane);
            if mapped > u32::from(size) {
                all.push(format!(
                    "mappings[{i}]: {mapped} {what}, but module {i} has num_{what} = {size}"
                ));
            } else if mapped < u32::from(size) {
                all.push(format!(
                    "mappings[{i}]: {what} {mapped}..={} of module {i} have no channel",
                    size - 1
                ));
            }
        }
    }
    for i in mappings.len()..modules.len() {
        all.push(format!("pipeline_config.modules[{i}]: no mapping: nothing is read from bus {i}"));
    }
    let unowned = volume.unowned(modules);
    // A part of a detector leaves the rest to others.
    if unowned > 0 && !part {
        let of = volume.logical().pixels();
        all.push(format!("pipeline_config.modules: {unowned} of {of} pixels lie in no module"));
    }
    all
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
