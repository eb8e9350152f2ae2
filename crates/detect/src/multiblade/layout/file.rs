//! The geometry file of Multi-Blade as text: the published keys, those of a free mapping, and places.
//!
//! Refuses unknown keys with line and column; published keys that the public program does not read are
//! accepted and not read either. Source: `docs/formats/multiblade.md` section 7.

use fullcount_core::refusal::Refusal;
use serde::Deserialize;

use super::published::MonitorAt;
use super::{Refuse, Sizes, Steps};

/// What makes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(in crate::multiblade) enum Mode {
    /// Each wire is an event; strips are dropped.
    #[serde(rename = "1d", alias = "normal")]
    OneD,
    /// Wires and strips in coincidence; cassettes without strips are dropped.
    #[serde(rename = "2d", alias = "alignment")]
    TwoD,
}

/// A geometry file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::multiblade) struct File {
    #[serde(rename = "Detector")]
    pub detector: Option<String>,
    #[serde(rename = "InstrumentGeometry")]
    pub instrument: Option<String>,
    #[serde(rename = "DigitizerConfig")]
    pub digitizers: Option<Vec<Digitizer>>,
    pub cassettes: Option<u64>,
    pub wires: Option<u64>,
    pub strips: Option<u64>,
    #[serde(rename = "TimeTickNS")]
    pub tick_ns: Option<u64>,
    #[serde(rename = "MaxGapWire")]
    pub max_gap_wire: Option<i64>,
    #[serde(rename = "MaxGapStrip")]
    pub max_gap_strip: Option<i64>,
    #[serde(rename = "MaxValidADC")]
    pub max_valid_adc: Option<i64>,
    #[serde(rename = "MaxTofNS")]
    pub max_tof_ns: Option<u64>,
    /// In the published AMOR B file, and wrong there: not read.
    #[serde(rename = "MonitorCassette")]
    _monitor_cassette: Option<i64>,
    /// In the published AMOR B file: not read.
    #[serde(rename = "MonitorChannel")]
    _monitor_channel: Option<i64>,

    /// Where the beam monitor is; without it, where the public program has it.
    monitor: Option<Monitor>,
    /// Readouts from this time on are dropped.
    pub time_limit_ns: Option<u64>,
    /// Direction in which wires count.
    pub wires_along: Option<Along>,
    /// Free mapping.
    pub mapping: Option<Vec<Mapping>>,
    /// Event building.
    #[serde(default)]
    builder: Builder,
    /// Smallest amplitude sum per wire, one list per cassette.
    wire_thresholds: Option<Vec<Vec<u32>>>,
    /// Places.
    #[serde(default)]
    pub panel: Panel,
}

/// One of `DigitizerConfig`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::multiblade) struct Digitizer {
    pub index: u32,
    pub id: u32,
}

/// x or y.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::multiblade) enum Along {
    X,
    Y,
}

/// `monitor = { digitizer, channel }` or `{ none = true }`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Monitor {
    digitizer: Option<u32>,
    channel: Option<u16>,
    #[serde(default)]
    none: bool,
}

/// `[builder]`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Builder {
    box_ns: u64,
    time_gap_ns: u64,
    coordinate_gap: u16,
    matching_gap_ns: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Builder { box_ns: 2010, time_gap_ns: 2000, coordinate_gap: 1, matching_gap_ns: 2000 }
    }
}

/// One of `[[mapping]]`: channels of a digitiser that are wires or strips of a cassette, in a row.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::multiblade) struct Mapping {
    pub digitizer: u32,
    pub cassette: u16,
    /// First and last channel.
    pub channels: [u16; 2],
    /// Wires of the first and last channel; downwards is allowed.
    pub wires: Option<[u16; 2]>,
    /// Strips of the first and last channel; downwards is allowed.
    pub strips: Option<[u16; 2]>,
    /// Even and odd channels change places first (MB18).
    #[serde(default)]
    pub swap_pairs: bool,
    /// How often, with the next digitiser and cassette each time.
    #[serde(default = "one")]
    pub repeat: u16,
    #[serde(default = "next")]
    pub digitizer_step: u32,
    #[serde(default = "one")]
    pub cassette_step: u16,
}

fn one() -> u16 {
    1
}

fn next() -> u32 {
    1
}

/// `[panel]`: where pixels are.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::multiblade) struct Panel {
    pub name: String,
    /// Distance of wires along the blade.
    pub wire_pitch_mm: f64,
    /// Distance of strips.
    pub strip_pitch_mm: f64,
    /// Angle between beam and blade.
    pub blade_angle_deg: f64,
    /// Distance of cassettes as the sample sees them; without it they touch.
    pub cassette_pitch_mm: Option<f64>,
    pub distance_m: f64,
}

impl Default for Panel {
    fn default() -> Self {
        Panel {
            name: "multiblade".to_owned(),
            // Christensen et al. 2018: wires 4 mm apart on blades at 5 degrees (0.35 mm as seen by the
            // beam), strips 4 mm apart.
            wire_pitch_mm: 4.0,
            strip_pitch_mm: 4.0,
            blade_angle_deg: 5.0,
            cassette_pitch_mm: None,
            distance_m: 0.0,
        }
    }
}

impl File {
    /// `[builder]` in ticks.
    pub fn steps(&self, tick: u64, refuse: &Refuse<'_>) -> Result<Steps, Refusal> {
        let b = &self.builder;
        // 2³⁰ ns: a reference block. Longer ones would join readouts of different restarts.
        for (key, ns, least) in [
            ("builder.box_ns", b.box_ns, 1),
            ("builder.time_gap_ns", b.time_gap_ns, 0),
            ("builder.matching_gap_ns", b.matching_gap_ns, 0),
        ] {
            if !(least..=1 << 30).contains(&ns) {
                return Err(refuse.value(key, ns, &format!("{least}..=1073741824 ns")));
            }
        }
        // A distance of d ticks is d·tick ns: at least the box if d ≥ box/tick rounded up, at most a gap if
        // d ≤ gap/tick rounded down.
        Ok(Steps {
            box_ticks: b.box_ns.div_ceil(tick),
            time_gap: (b.time_gap_ns / tick) as i64,
            coordinate_gap: b.coordinate_gap,
            matching_gap: (b.matching_gap_ns / tick) as i64,
        })
    }

    /// Where the monitor is: as the file says, else `usual`.
    pub fn monitor(
        &self,
        usual: &Option<MonitorAt>,
        refuse: &Refuse<'_>,
    ) -> Result<Option<MonitorAt>, Refusal> {
        let allowed = "{ digitizer = ID, channel = N } or { none = true }";
        match self.monitor {
            None => Ok(*usual),
            Some(Monitor { digitizer: None, channel: None, none: true }) => Ok(None),
            Some(Monitor { digitizer: Some(digitizer), channel: Some(channel), none: false }) => {
                Ok(Some(MonitorAt { digitizer, channel, must: true }))
            }
            Some(other) => Err(refuse.value("monitor", format!("{other:?}"), allowed)),
        }
    }

    /// One threshold per wire of all cassettes; empty if there is none.
    pub fn thresholds(
        &self,
        sizes: &Sizes,
        all: Option<u32>,
        refuse: &Refuse<'_>,
    ) -> Result<Vec<u32>, Refusal> {
        let (cassettes, wires) = (usize::from(sizes.cassettes), usize::from(sizes.wires));
        let Some(lists) = &self.wire_thresholds else {
            return Ok(all.map_or(Vec::new(), |least| vec![least; cassettes * wires]));
        };
        if lists.len() != cassettes {
            let allowed = format!("one list per cassette, {cassettes}");
            return Err(refuse.value("wire_thresholds", lists.len(), &allowed));
        }
        if let Some(list) = lists.iter().find(|list| list.len() != wires) {
            let allowed = format!("one number per wire, {wires}");
            return Err(refuse.value(
                "wire_thresholds",
                format!("{} numbers", list.len()),
                &allowed,
            ));
        }
        Ok(lists.concat())
    }
}
