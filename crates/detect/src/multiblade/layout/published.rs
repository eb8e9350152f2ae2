//! The published set-ups: MB16 and MB18 in Estia and Freia orientation, and AMOR B.
//!
//! Refuses what section 7 of the format refuses, and what the public program only trips over later: an index
//! beyond the cassettes, an index or a digitiser listed twice, cassettes without a digitiser. Source:
//! `docs/formats/multiblade.md` sections 3.1, 3.2 and 7.

use super::file::{Digitizer, File};
use super::table::{Part, Table};
use super::{MAX_PIXELS, Refuse, SetUp, Sizes, positive};
use fullcount_core::refusal::Refusal;

/// Where the beam monitor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::multiblade) struct MonitorAt {
    pub digitizer: u32,
    pub channel: u16,
    /// The channel must be in the geometry.
    pub must: bool,
}

/// What a file comes down to before the table is checked.
pub(super) struct Plan {
    pub set_up: SetUp,
    pub sizes: Sizes,
    pub table: Table,
    pub monitor: Option<MonitorAt>,
    pub max_gap: [Option<u32>; 2],
}

/// Most cassettes, wires or strips: coordinates have 16 bits.
pub(super) const MOST: u64 = 4096;

/// Wires of both AMOR B halves share the 64 channels of a digitiser.
const AMOR_WIRES: u64 = 32;

/// Any missing coordinate drops the event.
pub(super) const NO_GAP: Option<u32> = Some(1);

/// Reads a file with the published keys.
pub(super) fn plan(file: &File, refuse: &Refuse<'_>) -> Result<Plan, Refusal> {
    let one_of = |key: &str, value: &Option<String>, known: &[&str]| {
        let allowed = known.iter().map(|k| format!("\"{k}\"")).collect::<Vec<_>>().join(" or ");
        let missing = format!("{allowed}; or give [[mapping]]");
        let Some(text) = value else { return Err(refuse.value(key, "missing", &missing)) };
        let found = known.iter().position(|k| k == text);
        found.ok_or_else(|| refuse.value(key, format!("\"{text}\""), &allowed))
    };
    let swapped = one_of("Detector", &file.detector, &["MB16", "MB18"])? == 1;
    let orientation =
        one_of("InstrumentGeometry", &file.instrument, &["Estia", "Freia", "AMOR B"])?;
    if file.wires_along.is_some() {
        let allowed = "only with [[mapping]]: InstrumentGeometry says it";
        return Err(refuse.value("wires_along", "given", allowed));
    }
    let wires = positive(file.wires, "wires", MOST, refuse)? as u16;
    let strips = positive(file.strips, "strips", MOST, refuse)? as u16;
    let digitizers = digitizers(file, refuse)?;
    if orientation == 2 {
        return amor_b(file, swapped, (wires, strips), digitizers, refuse);
    }
    let cassettes = positive(file.cassettes, "cassettes", MOST, refuse)? as u16;
    let freia = orientation == 1;
    let sizes = Sizes { cassettes, wires, strips, wire_plane: u8::from(freia) };
    bounds(&sizes, refuse)?;
    if swapped && (!wires.is_multiple_of(2) || !strips.is_multiple_of(2)) {
        let (key, value) =
            if !wires.is_multiple_of(2) { ("wires", wires) } else { ("strips", strips) };
        return Err(refuse.value(key, value, "an even number: MB18 swaps even and odd channels"));
    }
    let mut table = Table::new(sizes, "DigitizerConfig");
    for (n, d) in digitizers.iter().enumerate() {
        let Some(cassette) = u16::try_from(d.index).ok().filter(|&c| c < cassettes) else {
            let value = format!("index {} of digitiser {}", d.index, d.id);
            let allowed = format!("0..={}, below cassettes", cassettes - 1);
            return Err(refuse.nth("DigitizerConfig", n, value, &allowed));
        };
        for channel in 0..wires + strips {
            let moved = if swapped { channel ^ 1 } else { channel };
            let part = if moved >= wires {
                Part::Strip(moved - wires)
            } else if freia != swapped {
                // Freia with MB16, Estia with MB18: wires count downwards. Published with the constant 31,
                // which is this for 32 wires.
                Part::Wire(wires - 1 - moved)
            } else {
                Part::Wire(moved)
            };
            table.add(d.id, channel, cassette, part, n, refuse)?;
        }
    }
    // Only where that channel is in plane 0: in Estia orientation it is an ordinary strip.
    let monitor = freia.then_some(MonitorAt { digitizer: 137, channel: 62, must: false });
    Ok(Plan { set_up: SetUp::Stack, sizes, table, monitor, max_gap: [NO_GAP, NO_GAP] })
}

fn amor_b(
    file: &File,
    swapped: bool,
    (wires, strips): (u16, u16),
    digitizers: &[Digitizer],
    refuse: &Refuse<'_>,
) -> Result<Plan, Refusal> {
    if !swapped {
        return Err(refuse.value("Detector", "\"MB16\"", "\"MB18\" with AMOR B"));
    }
    for (key, n) in [("wires", wires), ("strips", strips)] {
        if u64::from(n) != AMOR_WIRES {
            return Err(refuse.value(key, n, "32 with AMOR B: two planes share 64 channels"));
        }
    }
    let required = |key: &str, value: Option<i64>, least: i64| match value {
        Some(n) if n >= least => Ok(n),
        Some(n) => Err(refuse.value(key, n, &format!("{least} or more"))),
        None => Err(refuse.value(key, "missing", "a number, required with AMOR B")),
    };
    let max_gap = required("MaxGapWire", file.max_gap_wire, 1)?;
    // Required in the published file, but no test uses it.
    required("MaxGapStrip", file.max_gap_strip, i64::MIN)?;
    required("MaxValidADC", file.max_valid_adc, 0)?;
    if file.max_tof_ns.is_none() {
        return Err(refuse.value("MaxTofNS", "missing", "a number of ns, required with AMOR B"));
    }
    let count = digitizers.len();
    if count as u64 > MOST / 2 {
        return Err(refuse.value("DigitizerConfig", count, "at most 2048 digitisers"));
    }
    let cassettes = (2 * count - 1) as u16;
    if let Some(said) = file.cassettes.filter(|&said| said != u64::from(cassettes)) {
        let allowed = format!("{cassettes}: two per digitiser, one on the last");
        return Err(refuse.value("cassettes", said, &allowed));
    }
    let sizes = Sizes { cassettes, wires, strips, wire_plane: 1 };
    bounds(&sizes, refuse)?;
    let mut table = Table::new(sizes, "DigitizerConfig");
    let mut monitor = None;
    for (entry, d) in digitizers.iter().enumerate() {
        if d.index as usize >= count {
            let value = format!("index {} of digitiser {}", d.index, d.id);
            let allowed = format!("0..={}", count - 1);
            return Err(refuse.nth("DigitizerConfig", entry, value, &allowed));
        }
        let last = d.index as usize == count - 1;
        let (low, high) = if last {
            monitor = Some(MonitorAt { digitizer: d.id, channel: 2 * wires - 1, must: false });
            (cassettes - 1, cassettes - 1)
        } else {
            (2 * d.index as u16 + 1, 2 * d.index as u16)
        };
        for n in 0..wires {
            table.add(d.id, n, low, Part::Wire(wires - 1 - n), entry, refuse)?;
            let part = if last { Part::Strip(n) } else { Part::Wire(wires - 1 - n) };
            table.add(d.id, wires + n, high, part, entry, refuse)?;
        }
    }
    let max_gap = [None, Some(u32::try_from(max_gap).unwrap_or(u32::MAX))];
    Ok(Plan { set_up: SetUp::AmorB, sizes, table, monitor, max_gap })
}

/// Wires of all cassettes must be numbered in 16 bits; and before the table is made, not too many channels.
pub(super) fn bounds(sizes: &Sizes, refuse: &Refuse<'_>) -> Result<(), Refusal> {
    let wires = u32::from(sizes.cassettes) * u32::from(sizes.wires);
    if wires > 1 << 16 {
        let value = format!("{} of {} wires", sizes.cassettes, sizes.wires);
        return Err(refuse.value("cassettes", value, "at most 65536 wires in all"));
    }
    if u64::from(wires) * u64::from(sizes.strips) > MAX_PIXELS {
        let value = format!("{wires} wires x {} strips", sizes.strips);
        return Err(refuse.value("strips", value, &format!("at most {MAX_PIXELS} pixels")));
    }
    Ok(())
}

/// `DigitizerConfig`, each id and index once.
fn digitizers<'a>(file: &'a File, refuse: &Refuse<'_>) -> Result<&'a [Digitizer], Refusal> {
    let key = "DigitizerConfig";
    let list = match file.digitizers.as_deref() {
        None => return Err(refuse.value(key, "missing", "a list of { index, id }")),
        Some([]) => return Err(refuse.value(key, "empty", "at least one { index, id }")),
        Some(list) => list,
    };
    for (n, d) in list.iter().enumerate() {
        if list[..n].iter().any(|other| other.id == d.id) {
            let value = format!("id {} twice", d.id);
            return Err(refuse.nth(key, n, value, "each digitiser once"));
        }
        if list[..n].iter().any(|other| other.index == d.index) {
            let value = format!("index {} twice", d.index);
            return Err(refuse.nth(key, n, value, "each index once"));
        }
    }
    Ok(list)
}
