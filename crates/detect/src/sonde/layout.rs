//! Logical geometry of SoNDe: which (source address, system number) is which module, and where it is.
//!
//! A geometry file lists `modules`, or describes `groups` (the planned instrument: 400 modules in 100
//! groups of 2 × 2); without one, a single 8 × 8 module takes every sender. Refuses unknown keys,
//! values out of range (with line and column), senders listed twice, and modules that overlap in
//! pixel numbers or in place. The pixel pitch is no part of the readout format: 6 mm, as of the usual
//! 8 × 8 multi-anode photomultiplier, unless the file says otherwise. Source: `docs/formats/sonde.md`
//! section 6, `docs/sonde.md`.

use fullcount_core::refusal::{Refusal, setting};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fullcount_core::batch::Origin;
use fullcount_core::view::PixelMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::pixel::{MODULE_PIXELS, MODULE_SIDE};
use crate::geometry::panel::{self, Module, Pitch, QuarterTurn};
use crate::geometry::text;

/// Ten times the planned instrument.
const MAX_MODULES: u32 = 4000;

/// Modules across or down the picture: 2048 pixels.
const MAX_CELL: u32 = 255;

/// A geometry file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    panel: PanelText,
    #[serde(default)]
    modules: Vec<ModuleText>,
    groups: Option<Groups>,
}

/// `[panel]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PanelText {
    name: String,
    pixel_mm: Size,
    module_gap_mm: Gap,
    distance_m: Gap,
}

impl Default for PanelText {
    fn default() -> Self {
        let (gap, pixel_mm) = (Gap(0.0), Size(6.0));
        PanelText { name: "sonde".into(), pixel_mm, module_gap_mm: gap, distance_m: gap }
    }
}

/// One of `[[modules]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleText {
    #[serde(default)]
    source: Source,
    system: Option<System>,
    #[serde(default)]
    pixel_offset: u32,
    #[serde(default)]
    cell: [Cell; 2],
    #[serde(default)]
    rotation: Rotation,
    centre_mm: Option<[f64; 2]>,
}

/// `[groups]`: one source address per group, one system number per module of the group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Groups {
    columns: Few,
    rows: Few,
    modules: [Few; 2],
    first_source: Source,
    #[serde(default)]
    first_system: System,
    #[serde(default)]
    group_gap_mm: Gap,
    #[serde(default)]
    rotation: Rotation,
}

/// Whose packets a module takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
enum Source {
    #[default]
    Any,
    Address([u8; 16]),
    Port(Origin),
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Source, String> {
        if text == "*" {
            Ok(Source::Any)
        } else if let Ok(ip) = text.parse::<IpAddr>() {
            Ok(Source::Address(Origin::from(SocketAddr::new(ip, 0)).ip))
        } else if let Ok(address) = text.parse::<SocketAddr>() {
            Ok(Source::Port(address.into()))
        } else {
            let form = "an address, \"address:port\", \"[IPv6 address]:port\" or \"*\"";
            Err(format!("source \"{text}\" is not allowed: {form}"))
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Any => f.write_str("any source"),
            Source::Address(ip) => Origin { ip: *ip, port: 0 }.addr().fmt(f),
            Source::Port(origin) => origin.fmt(f),
        }
    }
}

/// Declares a number that is checked while serde reads it, so that the message has line and column.
macro_rules! checked {
    ($(#[doc = $doc:literal])* $name:ident($ty:ty), $raw:ty, $ok:expr, $allowed:literal) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        struct $name($ty);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value = <$raw>::deserialize(from)?;
                let convert: fn($raw) -> Option<$ty> = $ok;
                convert(value).map($name).ok_or_else(|| {
                    D::Error::custom(format!("{value} is not allowed: {}", $allowed))
                })
            }
        }
    };
}

checked!(
    /// Degrees.
    Rotation(QuarterTurn), u16, QuarterTurn::from_degrees, "0, 90, 180 or 270 degrees"
);
checked!(
    /// System number.
    System(u8), i64, |v| u8::try_from(v).ok().filter(|&v| v < 32), "system numbers are 0..=31"
);
checked!(
    /// Column or row of a module.
    Cell(u32), i64, |v| u32::try_from(v).ok().filter(|&v| v <= MAX_CELL), "columns and rows are 0..=255"
);
checked!(
    /// Number of groups or modules in one direction.
    Few(u32), i64, |v| u32::try_from(v).ok().filter(|v| (1..=100).contains(v)), "1..=100"
);
checked!(
    /// A length above 0.
    Size(f64), f64, |v| (v > 0.0 && v <= 1000.0).then_some(v), "above 0, up to 1000"
);
checked!(
    /// A length that may be 0.
    Gap(f64), f64, |v| (0.0..=1000.0).contains(&v).then_some(v), "0..=1000"
);

/// The geometry as readers use it.
#[derive(Debug)]
pub(super) struct Layout {
    /// Pixel offset by sender.
    offsets: HashMap<(Source, Option<u8>), u32>,
    /// Positions and picture.
    pub map: PixelMap,
}

/// One module with its sender, as listed or as made from groups.
struct Entry {
    source: Source,
    system: Option<u8>,
    label: String,
    pixel_offset: u32,
    cell: [u32; 2],
    turn: QuarterTurn,
    centre_mm: Option<[f64; 2]>,
}

/// How far apart module centres are, millimetres.
struct Steps {
    module: f64,
    /// Modules of a group, across and down.
    group: [u32; 2],
    group_gap: f64,
}

impl Steps {
    /// Centre of a column or row, counted from the centre of number 0.
    fn at(&self, axis: usize, n: u32) -> f64 {
        f64::from(n) * self.module + f64::from(n / self.group[axis]) * self.group_gap
    }
}

impl Layout {
    /// Reads `text`; empty means one module that takes every sender.
    ///
    /// # Errors
    /// Syntax, range or overlap, named.
    pub fn read(text: &str, path: &str) -> Result<Layout, Refusal> {
        let place = if path.is_empty() { "detector.geometry" } else { path };
        let file: File = text::parse(text, place)?;
        let refuse = |key: &str, value: &str, allowed: &str| {
            setting(format!("{place}: {key}"), value, allowed)
        };
        let panel = &file.panel;
        let module = panel.pixel_mm.0 * f64::from(MODULE_SIDE) + panel.module_gap_mm.0;
        let mut steps = Steps { module, group: [1, 1], group_gap: 0.0 };
        let entries = match file.groups {
            Some(_) if !file.modules.is_empty() => {
                return Err(refuse("modules", "beside [groups]", "give one of the two"));
            }
            Some(groups) => {
                steps.group = groups.modules.map(|n| n.0);
                steps.group_gap = groups.group_gap_mm.0;
                groups.entries(&refuse)?
            }
            None if file.modules.is_empty() => vec![Entry::anyone()],
            None => file.modules.into_iter().enumerate().map(ModuleText::entry).collect(),
        };
        if entries.len() > MAX_MODULES as usize {
            return Err(refuse("modules", &entries.len().to_string(), "at most 4000 modules"));
        }
        let offsets = senders(&entries, &refuse)?;
        let pitch = Pitch { side: MODULE_SIDE, pixel_m: panel.pixel_mm.0 / 1000.0 };
        let mut map = panel::place(place, &panel.name, &modules(entries, &steps), pitch)?;
        map.distance_m = panel.distance_m.0;
        text.clone_into(&mut map.source_text);
        Ok(Layout { offsets, map })
    }

    /// What is added to the pixels of a sender's module; the most exact entry wins.
    pub fn offset(&self, origin: Origin, system: u8) -> Option<u32> {
        let sources = [Source::Port(origin), Source::Address(origin.ip), Source::Any];
        let mut senders = sources.into_iter().flat_map(|s| [(s, Some(system)), (s, None)]);
        senders.find_map(|sender| self.offsets.get(&sender).copied())
    }
}

type Refuse<'a> = &'a dyn Fn(&str, &str, &str) -> Refusal;

/// Pixel offset by sender.
fn senders(
    entries: &[Entry],
    refuse: Refuse,
) -> Result<HashMap<(Source, Option<u8>), u32>, Refusal> {
    let mut seen: HashMap<(Source, Option<u8>), &Entry> = HashMap::new();
    for entry in entries {
        if let Some(other) = seen.insert((entry.source, entry.system), entry) {
            let both = format!("{} and {}", other.label, entry.label);
            return Err(refuse("source", &both, "each module needs its own source and system"));
        }
    }
    Ok(seen.into_iter().map(|(sender, entry)| (sender, entry.pixel_offset)).collect())
}

/// Modules with their centres: as given, or from the picture cell, the whole grid around (0, 0).
fn modules(entries: Vec<Entry>, steps: &Steps) -> Vec<Module> {
    let middle = [0, 1].map(|axis| {
        let first = entries.iter().map(|e| e.cell[axis]).min().unwrap_or(0);
        let last = entries.iter().map(|e| e.cell[axis]).max().unwrap_or(0);
        (steps.at(axis, first) + steps.at(axis, last)) / 2.0
    });
    let place = |e: Entry| {
        let [column, row] = e.cell;
        // Columns count to the right as the sample sees the panel, x to the left; rows down, y up.
        let grid = [middle[0] - steps.at(0, column), middle[1] - steps.at(1, row)];
        let [x, y] = e.centre_mm.unwrap_or(grid);
        let (label, pixel_offset, turn) = (e.label, e.pixel_offset, e.turn);
        Module { label, pixel_offset, column, row, turn, centre_m: (x / 1000.0, y / 1000.0) }
    };
    entries.into_iter().map(place).collect()
}

fn label(key: String, source: Source, system: Option<u8>) -> String {
    match system {
        Some(system) => format!("{key} ({source}, system {system})"),
        None => format!("{key} ({source}, any system)"),
    }
}

impl Entry {
    /// The module of a geometry that lists none: it takes every sender.
    fn anyone() -> Entry {
        let label = "the built-in module".to_owned();
        let (source, system, turn) = (Source::Any, None, QuarterTurn::None);
        Entry { source, system, label, pixel_offset: 0, cell: [0, 0], turn, centre_mm: None }
    }
}

impl ModuleText {
    fn entry((i, text): (usize, ModuleText)) -> Entry {
        let system = text.system.map(|s| s.0);
        Entry {
            source: text.source,
            system,
            label: label(format!("modules[{i}]"), text.source, system),
            pixel_offset: text.pixel_offset,
            cell: text.cell.map(|c| c.0),
            turn: text.rotation.0,
            centre_mm: text.centre_mm,
        }
    }
}

impl Groups {
    /// All modules: groups row by row, in each the modules row by row; 64 pixels each.
    fn entries(&self, refuse: Refuse) -> Result<Vec<Entry>, Refusal> {
        let [across, down] = self.modules.map(|n| n.0);
        let per_group = across * down;
        let first_system = u32::from(self.first_system.0);
        if first_system + per_group > 32 {
            let value = format!("{per_group} from system {first_system} on");
            return Err(refuse("groups.modules", &value, "system numbers end at 31"));
        }
        let groups = self.columns.0 * self.rows.0;
        if groups * per_group > MAX_MODULES
            || across * self.columns.0 > MAX_CELL + 1
            || down * self.rows.0 > MAX_CELL + 1
        {
            let value = format!("{groups} groups of {per_group}");
            return Err(refuse("groups", &value, "at most 4000 modules, 256 across and 256 down"));
        }
        let mut entries = Vec::with_capacity((groups * per_group) as usize);
        for group in 0..groups {
            let source = self.first_source.after(group).ok_or_else(|| {
                let value = self.first_source.to_string();
                let allowed = "an address with room for one more per group behind it";
                refuse("groups.first_source", &value, allowed)
            })?;
            for k in 0..per_group {
                let system = Some((first_system + k) as u8);
                let column = group % self.columns.0 * across + k % across;
                let row = group / self.columns.0 * down + k / across;
                entries.push(Entry {
                    source,
                    system,
                    label: label(format!("group {group}"), source, system),
                    pixel_offset: (group * per_group + k) * MODULE_PIXELS,
                    cell: [column, row],
                    turn: self.rotation.0,
                    centre_mm: None,
                });
            }
        }
        Ok(entries)
    }
}

impl Source {
    /// The address `n` behind this one, of the same family and port; `None` past the end, or if this is
    /// no address.
    fn after(self, n: u32) -> Option<Source> {
        let step = |ip: [u8; 16]| {
            let ip = match (Origin { ip, port: 0 }).addr() {
                IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4).checked_add(n)?).into(),
                IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6).checked_add(n.into())?)),
            };
            Some(Origin::from(SocketAddr::new(ip, 0)).ip)
        };
        match self {
            Source::Any => None,
            Source::Address(ip) => step(ip).map(Source::Address),
            Source::Port(o) => step(o.ip).map(|ip| Source::Port(Origin { ip, port: o.port })),
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
