//! `[[mapping]]`: any arrangement of digitisers, as rows of channels that are wires or strips.
//!
//! Refuses keys of the published set-ups beside it, rows of unequal length, and what the table refuses.
//! Source: `docs/multiblade.md`, "A mapping of your own".

use super::file::{Along, File, Mapping};
use super::published::{MOST, NO_GAP, Plan, bounds};
use super::table::{Part, Table};
use super::{Refuse, SetUp, Sizes, positive};
use fullcount_core::refusal::Refusal;

/// Reads a file with `[[mapping]]`.
pub(super) fn plan(file: &File, list: &[Mapping], refuse: &Refuse<'_>) -> Result<Plan, Refusal> {
    let published = [
        ("Detector", file.detector.is_some()),
        ("InstrumentGeometry", file.instrument.is_some()),
        ("DigitizerConfig", file.digitizers.is_some()),
    ];
    if let Some((key, _)) = published.iter().find(|(_, given)| *given) {
        return Err(refuse.value(key, "beside [[mapping]]", "give one of the two"));
    }
    let sizes = Sizes {
        cassettes: positive(file.cassettes, "cassettes", MOST, refuse)? as u16,
        wires: positive(file.wires, "wires", MOST, refuse)? as u16,
        strips: positive(file.strips, "strips", MOST, refuse)? as u16,
        wire_plane: match file.wires_along {
            Some(Along::X) => 0,
            Some(Along::Y) | None => 1,
        },
    };
    bounds(&sizes, refuse)?;
    let mut table = Table::new(sizes, "mapping");
    for (entry, row) in list.iter().enumerate() {
        add(&mut table, row, entry, refuse)?;
    }
    let gap = |key: &str, value: Option<i64>| match value {
        None => Ok(NO_GAP),
        Some(n) => match u32::try_from(n).ok().filter(|&n| n > 0) {
            Some(n) => Ok(Some(n)),
            None => Err(refuse.value(key, n, "1 or more missing coordinates")),
        },
    };
    let wire = gap("MaxGapWire", file.max_gap_wire)?;
    let strip = gap("MaxGapStrip", file.max_gap_strip)?;
    let max_gap = if sizes.wire_plane == 0 { [wire, strip] } else { [strip, wire] };
    Ok(Plan { set_up: SetUp::Stack, sizes, table, monitor: None, max_gap })
}

fn add(table: &mut Table, row: &Mapping, entry: usize, refuse: &Refuse<'_>) -> Result<(), Refusal> {
    let say = |value: String, allowed: &str| Err(refuse.nth("mapping", entry, value, allowed));
    let [first, last] = row.channels;
    if first > last {
        return say(format!("channels {first} to {last}"), "channels = [first, last], upwards");
    }
    let (from, to) = match (row.wires, row.strips) {
        (Some([a, b]), None) | (None, Some([a, b])) => (a, b),
        (Some(_), Some(_)) => return say("wires and strips".to_owned(), "one of the two"),
        (None, None) => return say("neither wires nor strips".to_owned(), "one of the two"),
    };
    let count = u32::from(last - first) + 1;
    if u32::from(from.abs_diff(to)) + 1 != count {
        let value = format!("{count} channels for {} to {}", from, to);
        return say(value, "as many coordinates as channels");
    }
    if row.swap_pairs && (!first.is_multiple_of(2) || !count.is_multiple_of(2)) {
        let value = format!("channels {first} to {last}");
        return say(value, "swap_pairs needs an even first channel and an even number of them");
    }
    if row.repeat == 0 {
        return say("repeat 0".to_owned(), "1 or more");
    }
    for n in 0..row.repeat {
        let digitizer = u32::from(n).checked_mul(row.digitizer_step);
        let digitizer = digitizer.and_then(|step| row.digitizer.checked_add(step));
        let cassette = n.checked_mul(row.cassette_step);
        let cassette = cassette.and_then(|step| row.cassette.checked_add(step));
        let (Some(digitizer), Some(cassette)) = (digitizer, cassette) else {
            return say(
                format!("repeat {}", row.repeat),
                "digitiser and cassette numbers run over",
            );
        };
        for k in 0..count as u16 {
            let at = if row.swap_pairs { k ^ 1 } else { k };
            let place = if from <= to { from + at } else { from - at };
            let part = if row.wires.is_some() { Part::Wire(place) } else { Part::Strip(place) };
            table.add(digitizer, first + k, cassette, part, entry, refuse)?;
        }
    }
    Ok(())
}
