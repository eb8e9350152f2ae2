//! The configuration file of the online chain: clock, mappings, clusterer, matcher, analysis, filters.
//!
//! A file of 2018 is known by keys of its clusterers and read with the meaning that it had ([`state`]). Refuses missing and wrongly typed
//! required fields, unknown ones, and what this decoder does not do: rows instead of frames (`builder_type`), and the Multi-Grid
//! analyser. Mapping entries outside the electronics are ignored, as published. Source: `docs/formats/gdgem.md` sections 6 to 12.

mod state;

use fullcount_core::refusal::Refusal;
use serde::Deserialize;
use serde::de::IgnoredAny;

use self::state::State;
use super::{CHANNELS, ClockRules, FECS, Fec, FileText, Lane, Layout, Panel, Place, VMMS, picture};
use crate::gdgem::clock::TimeTables;
use crate::gdgem::options::{Options, Parameters};
use crate::geometry::text;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "fields that are checked for their type and not used further")]
struct File {
    builder_type: String,
    time_config: TimeConfig,
    #[serde(default)]
    srs_mappings: Vec<Mapping>,
    #[serde(default)]
    granular_mappings: Vec<Granular>,
    /// These three are required, but in files of 2018.
    adc_threshold: Option<u32>,
    perform_clustering: Option<bool>,
    send_raw_hits: Option<bool>,
    hit_histograms: bool,
    enable_data_processing: Option<bool>,
    time_algorithm: Option<String>,
    clusterer: Option<String>,
    #[serde(rename = "clusterer x")]
    clusterer_x: Option<Clusterer>,
    #[serde(rename = "clusterer y")]
    clusterer_y: Option<Clusterer>,
    matcher: Option<String>,
    matcher_max_delta_time: f64,
    #[serde(default = "event_analyzer")]
    analyzer: String,
    /// These three belong to 2018.
    dump_csv: Option<bool>,
    dump_h5: Option<bool>,
    dump_directory: Option<String>,
    /// These three belong to the micro-TPC of 2018.
    analyze_weighted: Option<bool>,
    analyze_max_timebins: Option<u32>,
    analyze_max_timedif: Option<u32>,
    /// Required for the analyser that this decoder has.
    geometry_x: Option<u32>,
    geometry_y: Option<u32>,
    #[serde(default)]
    filters: Filters,
    track_sample_minhits: u32,
    cluster_adc_downshift: u32,
    send_tracks: bool,
    /// May stand in the same file; read by [`calibration`](super::calibration).
    vmm_calibration: Option<IgnoredAny>,
}

fn event_analyzer() -> String {
    "EventAnalyzer".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "fields that are checked for their type and not used further")]
struct TimeConfig {
    tac_slope: i32,
    bc_clock: f64,
    trigger_resolution: f64,
    target_resolution: Option<f64>,
    acquisition_window: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapping {
    #[serde(rename = "fecID")]
    fec: usize,
    #[serde(rename = "vmmID")]
    vmm: usize,
    #[serde(rename = "planeID")]
    plane: u32,
    strip_offset: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Granular {
    #[serde(rename = "fecID")]
    fec: usize,
    #[serde(rename = "vmmID")]
    vmm: usize,
    #[serde(rename = "planeID")]
    plane: u32,
    channels: Vec<Channel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    channel: usize,
    coord: u32,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clusterer {
    max_strip_gap: u32,
    max_time_gap: f64,
    /// These two belong to 2018.
    hit_adc_threshold: Option<u32>,
    min_cluster_size: Option<u32>,
}

/// Section 11.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::gdgem) struct Filters {
    pub enforce_minimum_hits: bool,
    pub minimum_hits: u32,
    pub enforce_charge_ratio: bool,
    pub plane_0_vs_1_ratio_min: f64,
    pub plane_0_vs_1_ratio_max: f64,
    /// Acts with [`Algorithm::Older`], as others have no uncertainty.
    pub enforce_lower_uncertainty_limit: bool,
    pub lower_uncertainty_limit: u32,
}

/// How clusters of both planes become events (section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gdgem) enum Matcher {
    Gap,
    Overlap,
    End,
    Center,
}

/// What position and time of an event are (section 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gdgem) enum Algorithm {
    CenterOfMass,
    Charge2,
    Utpc,
    UtpcWeighted,
    /// The micro-TPC of 2018 (section 10.1); span in ns.
    Older {
        weighted: bool,
        bins: u32,
        span: u32,
    },
}

impl Algorithm {
    /// By the published name; any other is `utpc-weighted`.
    pub fn of(name: &str) -> Algorithm {
        match name {
            "center-of-mass" => Algorithm::CenterOfMass,
            "charge2" => Algorithm::Charge2,
            "utpc" => Algorithm::Utpc,
            _ => Algorithm::UtpcWeighted,
        }
    }
}

/// What the online chain does with hits.
#[derive(Debug, Clone, Copy)]
pub(in crate::gdgem) struct Online {
    /// Largest difference of strips in a cluster, by plane.
    pub strip_gap: [u32; 2],
    /// Smallest number of hits of a cluster, by plane.
    pub least_hits: [u32; 2],
    pub matcher: Matcher,
    /// ns.
    pub max_delta: f64,
    pub algorithm: Algorithm,
    pub filters: Filters,
    /// Smallest and largest x of the events of this process.
    pub region: [u16; 2],
    /// Hits of each plane that an event must have to be shown hit by hit (`track_sample_minhits`); `None`: none is
    /// (`send_tracks`).
    pub track_hits: Option<u32>,
}

pub(super) fn read(text: &str, path: &str, options: &Options) -> Result<Layout, Refusal> {
    let file: File = text::parse(text, path)?;
    options.for_online()?;
    let refuse = |key: &str, value: String, allowed: &str| {
        FileText { path, text }.refuse(key, value, allowed)
    };
    file.suits(&refuse)?;
    let state = State::of(&file, &refuse)?;
    let pixels = |key: &str, given: Option<u32>| {
        let allowed = "a number of pixels, which the EventAnalyzer needs";
        given.ok_or_else(|| FileText { path, text }.refuse(key, "missing", allowed))
    };
    let nx = pixels("geometry_x", file.geometry_x)?;
    let ny = pixels("geometry_y", file.geometry_y)?;
    let (Some(x), Some(y)) = (file.clusterer_x, file.clusterer_y) else {
        let allowed = "both, with max_strip_gap and max_time_gap";
        return Err(refuse("clusterer x, clusterer y", "missing".to_owned(), allowed));
    };
    for (key, gap) in [
        ("clusterer x.max_time_gap", x.max_time_gap),
        ("clusterer y.max_time_gap", y.max_time_gap),
        ("matcher_max_delta_time", file.matcher_max_delta_time),
    ] {
        if !(0.0..=1e9).contains(&gap) {
            return Err(refuse(key, gap.to_string(), "0 to 1e9 ns"));
        }
    }
    let region = options.region()?;
    let (grid, map) = picture(nx, ny, 1, options)?;
    let online = Online {
        strip_gap: [x, y].map(|c| c.max_strip_gap.saturating_add(state.missing_strips)),
        least_hits: state.least_hits,
        region: region.events,
        ..file.chain(&state, options)?
    };
    let detector = |gaps: [f64; 2]| Panel {
        id: 0,
        lanes: vec![0, 1],
        pads: false,
        parameters: Parameters { time_gap: gaps, ..Parameters::default() },
    };
    Ok(Layout {
        rules: ClockRules::Online,
        clock: TimeTables::online(
            file.time_config.bc_clock,
            f64::from(file.time_config.tac_slope),
            options.published_clock(),
        ),
        fecs: file.places(state.thresholds, |coordinate| region.hits.contains(&coordinate)),
        lanes: vec![Lane { detector: 0, plane: 0 }, Lane { detector: 0, plane: 1 }],
        detectors: vec![detector([x.max_time_gap.trunc(), y.max_time_gap.trunc()])],
        one_picture: false,
        online: Some(online),
        grid,
        map,
        warnings: file.warnings(&state, path),
        earliest: 0.0,
    })
}

impl File {
    /// First of all: what else its file says is not for this decoder.
    fn suits(&self, refuse: Refuse<'_>) -> Result<(), Refusal> {
        if self.analyzer != "EventAnalyzer" {
            return Err(refuse(
                "analyzer",
                self.analyzer.clone(),
                "\"EventAnalyzer\"; for Multi-Grid see detector.kind = \"multigrid\"",
            ));
        }
        if self.builder_type != "VMM3" {
            return Err(refuse(
                "builder_type",
                self.builder_type.clone(),
                "\"VMM3\": frames of the readout; stored rows are no network format",
            ));
        }
        if !(self.time_config.bc_clock > 0.0 && self.time_config.bc_clock <= 1000.0) {
            return Err(refuse(
                "time_config.bc_clock",
                self.time_config.bc_clock.to_string(),
                "above 0, up to 1000 MHz",
            ));
        }
        if self.perform_clustering == Some(false) || self.enable_data_processing == Some(false) {
            return Err(refuse(
                "perform_clustering, enable_data_processing",
                "false".to_owned(),
                "true: without it there are no events; `fullcount run --capture` stores frames",
            ));
        }
        Ok(())
    }

    /// Where each channel is; `thresholds`: smallest amplitude without the flag, by plane; `wanted`: strips of the first plane whose
    /// hits are taken.
    fn places(
        &self,
        thresholds: [u16; 2],
        wanted: impl Fn(u16) -> bool,
    ) -> [Option<Box<Fec>>; FECS] {
        let mut fecs: [Option<Box<Fec>>; FECS] = Default::default();
        let mut set = |fec: usize, vmm: usize, channel: usize, plane: u32, strip: u32| {
            // Entries outside the electronics are ignored; FEC 0 sends no good frame.
            if !(1..FECS).contains(&fec) || vmm >= VMMS || channel >= CHANNELS {
                return;
            }
            let coordinate = u16::try_from(strip).ok().filter(|&strip| strip < u16::MAX);
            let outside = plane == 0 && coordinate.is_some_and(|c| !wanted(c));
            let lane = match (plane, coordinate) {
                (0 | 1, None) => Place::NO_STRIP,
                (0, _) if outside => Place::OUTSIDE,
                (0 | 1, _) => plane as u8,
                _ => Place::UNMAPPED,
            };
            let fec = fecs[fec].get_or_insert_with(Fec::new);
            let coordinate = coordinate.unwrap_or(0);
            let threshold = thresholds[plane.min(1) as usize];
            fec.places[vmm * CHANNELS + channel] = Place { coordinate, second: 0, threshold, lane };
        };
        for m in &self.srs_mappings {
            for channel in 0..CHANNELS {
                set(m.fec, m.vmm, channel, m.plane, m.strip_offset.saturating_add(channel as u32));
            }
        }
        for m in &self.granular_mappings {
            for c in &m.channels {
                set(m.fec, m.vmm, c.channel, m.plane, c.coord);
            }
        }
        fecs
    }

    /// How clusters meet and what is made of them.
    fn chain(&self, state: &State, options: &Options) -> Result<Online, Refusal> {
        let algorithm = match options.older() || (state.of_2018 && self.time_algorithm.is_none()) {
            true => Algorithm::Older {
                weighted: self.analyze_weighted.unwrap_or(true),
                bins: self.analyze_max_timebins.unwrap_or(3),
                span: self.analyze_max_timedif.unwrap_or(7),
            },
            false => Algorithm::of(self.time_algorithm.as_deref().unwrap_or("center-of-mass")),
        };
        let matcher = options.matcher()?.unwrap_or(match self.matcher.as_deref() {
            None if state.of_2018 => Matcher::End,
            None | Some("CenterMatcher") => Matcher::Center,
            Some(_) => Matcher::Gap,
        });
        Ok(Online {
            strip_gap: Default::default(),
            least_hits: Default::default(),
            matcher,
            max_delta: self.matcher_max_delta_time.trunc(),
            algorithm,
            filters: self.filters,
            region: Default::default(),
            track_hits: self.send_tracks.then_some(self.track_sample_minhits),
        })
    }

    /// Valid, but without the effect that its name promises.
    fn warnings(&self, state: &State, path: &str) -> Vec<String> {
        let raw = "send_raw_hits: hits are not sent anywhere; `--hits FILE` writes them as a table";
        let csv = "dump_csv: nothing is dumped; `--hits FILE` writes hits as a table";
        let h5 = "dump_h5: nothing is dumped; `--hits FILE` writes hits as a table, `--capture FILE` all packets";
        let all = [
            (state.send_raw_hits, raw),
            (self.dump_csv == Some(true), csv),
            (self.dump_h5 == Some(true), h5),
        ];
        let given = all.into_iter().filter(|(given, _)| *given);
        given.map(|(_, what)| format!("{path}: {what}")).collect()
    }
}

/// Refuses a value of a key with what is allowed.
type Refuse<'a> = &'a dyn Fn(&str, String, &str) -> Refusal;
