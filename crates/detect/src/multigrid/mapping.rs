//! Which wire or grid a channel is: the published tables, or one in the file.
//!
//! Refuses bounds that contradict each other, a pair swap that would leave its range, channels or numbers
//! given twice, and holes in a table. Source: `docs/formats/multigrid.md` section 4.1,
//! `docs/multigrid.md`.

use serde::Deserialize;

use super::filter::{Filters, FiltersText};

/// Plane of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plane {
    /// Wires: x and z.
    Wires = 0,
    /// Grids: y.
    Grids = 1,
}

impl Plane {
    fn name(self) -> &'static str {
        match self {
            Plane::Wires => "wire",
            Plane::Grids => "grid",
        }
    }
}

/// Highest number of a channel, exclusive: the replay records have 16 bits, the Mesytec words 12.
const CHANNELS: u32 = 1 << 16;

/// How channels are wired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Wiring {
    /// In order.
    #[serde(rename = "MGSeq")]
    Sequential,
    /// MG.24: 16 and 4 wires of each row of 20 on separate connectors.
    #[serde(rename = "MG24A", alias = "MG24")]
    Mg24A,
    /// The same, under the name of its own that it has in published files.
    #[serde(rename = "MG24B")]
    Mg24B,
    /// As listed.
    #[serde(rename = "table")]
    Table,
}

/// One of `mappings`, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MappingText {
    r#type: Wiring,
    max_channel: Option<u32>,
    max_wire: Option<u32>,
    #[serde(default)]
    swap_wires: bool,
    #[serde(default)]
    swap_grids: bool,
    #[serde(default)]
    wires: Vec<Run>,
    #[serde(default)]
    grids: Vec<Run>,
    wire_filters: Option<FiltersText>,
    grid_filters: Option<FiltersText>,
}

/// Neighbouring channels of a table: `channel`, `channel + 1`, … are `number`, `number + step`, ….
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    channel: u32,
    number: u32,
    #[serde(default = "one")]
    count: u32,
    #[serde(default = "one")]
    step: i64,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// One bus: what its channels are, and what passes.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "MappingText")]
pub struct Mapping {
    /// By channel: the plane and the number in it, `None` for channels that are neither.
    pub channels: Vec<Option<(Plane, u16)>>,
    /// Of the wires and of the grids.
    pub filters: [Filters; 2],
}

impl Mapping {
    /// Numbers of a plane, exclusive upper bound.
    pub fn numbers(&self, plane: Plane) -> u32 {
        let of_plane = self.channels.iter().flatten().filter(|(p, _)| *p == plane);
        of_plane.map(|&(_, n)| u32::from(n) + 1).max().unwrap_or(0)
    }
}

impl TryFrom<MappingText> for Mapping {
    type Error = String;

    fn try_from(text: MappingText) -> Result<Mapping, String> {
        let channels = match text.r#type {
            Wiring::Table => table(&text)?,
            wiring => published(&text, wiring)?,
        };
        let filters = [text.wire_filters, text.grid_filters];
        Ok(Mapping {
            channels,
            filters: filters.map(|f| f.map_or_else(Filters::default, Filters::from)),
        })
    }
}

/// Channels by one of the published rules.
fn published(text: &MappingText, wiring: Wiring) -> Result<Vec<Option<(Plane, u16)>>, String> {
    if !text.wires.is_empty() || !text.grids.is_empty() {
        return Err("wires and grids are allowed with type = \"table\" only".to_owned());
    }
    let bound = |key: &str, value: Option<u32>| match value {
        None => Err(format!("missing field `{key}`")),
        Some(v) if v > CHANNELS => Err(format!("{key}: {v} is not allowed: 0..={CHANNELS}")),
        Some(v) => Ok(v),
    };
    let max_channel = bound("max_channel", text.max_channel)?;
    let max_wire = bound("max_wire", text.max_wire)?;
    if max_wire > max_channel {
        return Err(format!(
            "max_wire: {max_wire} is not allowed: 0..={max_channel}, which is max_channel"
        ));
    }
    let swap = text.swap_wires || text.swap_grids;
    if swap && max_wire % 2 == 1 {
        return Err(format!(
            "max_wire: {max_wire} is not allowed: even with swap_wires or swap_grids, or the pair at the border would leave its plane"
        ));
    }
    if text.swap_grids && max_channel % 2 == 1 {
        return Err(format!(
            "max_channel: {max_channel} is not allowed: even with swap_grids, or the last pair would leave its plane"
        ));
    }
    let place = |channel: u32| {
        if channel >= max_wire {
            let channel = if text.swap_grids { channel ^ 1 } else { channel };
            return (Plane::Grids, channel - max_wire);
        }
        let wire = match wiring {
            Wiring::Mg24A | Wiring::Mg24B => mg24(channel),
            Wiring::Sequential | Wiring::Table => channel,
        };
        (Plane::Wires, if text.swap_wires { wire ^ 1 } else { wire })
    };
    let number = |(plane, n)| u16::try_from(n).ok().map(|n| (plane, n));
    Ok((0..max_channel).map(|channel| number(place(channel))).collect())
}

/// Wire of a channel of MG.24: 16 wires of each row of 20 first, then 4 of each.
fn mg24(channel: u32) -> u32 {
    match channel {
        0..64 => channel + 4 * (channel / 16),
        64..76 => 16 + 20 * ((channel - 64) / 4) + (channel - 64) % 4,
        _ => channel,
    }
}

/// Channels as listed.
fn table(text: &MappingText) -> Result<Vec<Option<(Plane, u16)>>, String> {
    if text.max_channel.is_some() || text.max_wire.is_some() {
        let why = "the lists say which channels there are";
        return Err(format!(
            "max_channel and max_wire are not allowed with type = \"table\": {why}"
        ));
    }
    if text.swap_wires || text.swap_grids {
        let why = "the lists say which channel is which";
        return Err(format!(
            "swap_wires and swap_grids are not allowed with type = \"table\": {why}"
        ));
    }
    let mut channels: Vec<Option<(Plane, u16)>> = Vec::new();
    for (plane, runs) in [(Plane::Wires, &text.wires), (Plane::Grids, &text.grids)] {
        let name = plane.name();
        let mut taken: Vec<Option<u32>> = Vec::new();
        for run in runs {
            if run.count > CHANNELS {
                return Err(format!("count: {} is not allowed: 0..={CHANNELS}", run.count));
            }
            for i in 0..run.count {
                let channel = run.channel.saturating_add(i);
                let number =
                    i64::from(run.number).saturating_add(run.step.saturating_mul(i.into()));
                let Some(number) = u16::try_from(number).ok().filter(|_| channel < CHANNELS) else {
                    return Err(format!(
                        "{name} {number} for channel {channel} is not allowed: both are 0..=65535"
                    ));
                };
                let (at, of) = (channel as usize, usize::from(number));
                channels.resize(channels.len().max(at + 1), None);
                taken.resize(taken.len().max(of + 1), None);
                if let Some((plane, other)) = channels[at].replace((plane, number)) {
                    let other = format!("{} {other}", plane.name());
                    return Err(format!("channel {channel} is {other} and {name} {number}"));
                }
                if let Some(other) = taken[of].replace(channel) {
                    return Err(format!(
                        "{name} {number} is given to channel {other} and to channel {channel}"
                    ));
                }
            }
        }
        if taken.is_empty() {
            return Err(format!("{name}s: none listed; a module needs wires and grids"));
        }
        if let Some(hole) = taken.iter().position(Option::is_none) {
            let last = taken.len() - 1;
            return Err(format!("{name} {hole} has no channel, but {name} {last} has one"));
        }
    }
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Mapping, String> {
        toml::from_str(text).map_err(|e: toml::de::Error| e.message().to_owned())
    }

    fn named(kind: &str, more: &str) -> Mapping {
        read(&format!("type = '{kind}'\nmax_channel = 120\nmax_wire = 80\n{more}")).unwrap()
    }

    #[test]
    fn the_table_of_the_format() {
        let a = named("MG24A", "");
        let wire = |channel: usize| a.channels[channel];
        for (channels, first) in [
            (0..16, 0),
            (16..32, 20),
            (32..48, 40),
            (48..64, 60),
            (64..68, 16),
            (68..72, 36),
            (72..76, 56),
            (76..80, 76),
        ] {
            for (i, channel) in channels.enumerate() {
                assert_eq!(wire(channel), Some((Plane::Wires, first + i as u16)));
            }
        }
        assert_eq!((wire(80), wire(119)), (Some((Plane::Grids, 0)), Some((Plane::Grids, 39))));
        assert_eq!(
            (a.channels.len(), a.numbers(Plane::Wires), a.numbers(Plane::Grids)),
            (120, 80, 40)
        );
        for name in ["MG24", "MG24B"] {
            assert_eq!(named(name, "").channels, a.channels);
        }
    }

    #[test]
    fn pairs_are_swapped_behind_the_table_and_on_the_channel() {
        let m = named("MG24A", "swap_wires = true\nswap_grids = true");
        assert_eq!(m.channels[1], Some((Plane::Wires, 0)));
        assert_eq!(m.channels[56], Some((Plane::Wires, 69)));
        assert_eq!(m.channels[80], Some((Plane::Grids, 1)));
        assert_eq!(m.channels[119], Some((Plane::Grids, 38)));
        assert_eq!(named("MGSeq", "").channels[17], Some((Plane::Wires, 17)));
    }

    #[test]
    fn a_table_gives_what_the_rule_gives() {
        let table = read(
            "type = 'table'
            wires = [{channel = 0, number = 0, count = 16}, {channel = 16, number = 20, count = 16},
                     {channel = 32, number = 40, count = 16}, {channel = 48, number = 60, count = 16},
                     {channel = 64, number = 16, count = 4}, {channel = 68, number = 36, count = 4},
                     {channel = 72, number = 56, count = 4}, {channel = 76, number = 76, count = 4}]
            grids = [{channel = 119, number = 39}, {channel = 80, number = 38, count = 39, step = -1}]",
        );
        let table = table.unwrap();
        assert_eq!(table.channels[..80], named("MG24A", "").channels[..80]);
        assert_eq!(table.channels[80], Some((Plane::Grids, 38)));
        assert_eq!(table.channels[119], Some((Plane::Grids, 39)));
    }

    #[test]
    fn refusals_say_what_contradicts_what() {
        let grids = "grids = [{channel = 9, number = 0}]";
        for (text, wanted) in [
            ("type = 'MGX'", "unknown variant `MGX`, expected"),
            ("type = 'MGSeq'\nmax_wire = 1", "missing field `max_channel`"),
            ("type = 'MGSeq'\nmax_channel = 1\nmax_wire = 2", "max_wire: 2 is not allowed: 0..=1"),
            (
                "type = 'MGSeq'\nmax_channel = 70000\nmax_wire = 2",
                "70000 is not allowed: 0..=65536",
            ),
            (
                "type = 'MGSeq'\nmax_channel = 4\nmax_wire = 3\nswap_grids = true",
                "max_wire: 3 is not allowed: even",
            ),
            (
                "type = 'MGSeq'\nmax_channel = 5\nmax_wire = 2\nswap_grids = true",
                "max_channel: 5 is not allowed: even",
            ),
            (
                "type = 'MGSeq'\nmax_channel = 4\nmax_wire = 2\nwires = [{channel = 0, number = 0}]",
                "type = \"table\" only",
            ),
            ("type = 'MGSeq'\nmax_channel = 4\nmax_wire = 2\nswap = true", "unknown field `swap`"),
            ("type = 'table'\nmax_wire = 2", "max_channel and max_wire are not allowed"),
            ("type = 'table'\nswap_wires = true", "swap_wires and swap_grids are not allowed"),
            ("type = 'table'", "wires: none listed"),
            (
                &format!("type = 'table'\nwires = [{{channel = 9, number = 0}}]\n{grids}"),
                "channel 9 is wire 0 and grid 0",
            ),
            (
                &format!(
                    "type = 'table'\nwires = [{{channel = 0, number = 0, count = 2, step = 0}}]\n{grids}"
                ),
                "wire 0 is given to channel 0 and to channel 1",
            ),
            (
                &format!(
                    "type = 'table'\nwires = [{{channel = 0, number = 0, count = 2, step = 2}}]\n{grids}"
                ),
                "wire 1 has no channel, but wire 2 has one",
            ),
            (
                &format!("type = 'table'\nwires = [{{channel = 65536, number = 0}}]\n{grids}"),
                "both are 0..=65535",
            ),
            (
                &format!(
                    "type = 'table'\nwires = [{{channel = 0, number = 1, count = 3, step = -1}}]\n{grids}"
                ),
                "wire -1 for channel 2 is not allowed",
            ),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(wanted), "{text}\n  says: {said}\n  wanted: {wanted}");
        }
    }
}
