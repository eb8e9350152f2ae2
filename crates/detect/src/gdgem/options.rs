//! `[detector]` keys of Gd-GEM: our own, and the parameters of vmm-sdat by their names.
//!
//! A vmm-sdat parameter is one number for all detectors or a list with one per detector, is read as a 32-bit float, and means
//! exactly what it means there. Refuses values outside their range, lists of another length than the number of detectors,
//! and keys of one chain with the geometry of the other. Source: `docs/formats/gdgem.md` sections 4 and 14.1.

use fullcount_core::refusal::{Refusal, of_detector as refuse};
use serde::Deserialize;

use super::clock::{ClockRules, Offsets};
use super::late_end::ALGO;
use super::layout::Matcher;
pub(super) use super::parameters::{Coin, IDLE_NS, Limits, Parameters, Position, Region};
use crate::geometry::text;

/// One number for all, or one per detector.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a number, or a list with one number for each detector")]
enum Each {
    One(f32),
    List(Vec<f32>),
}

/// Numbers of detectors in the geometry: one, or a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "the number of a detector, or a list of them in square brackets")]
enum Sectors {
    One(u32),
    List(Vec<u32>),
}

/// `-t0`: FEC, VMM and what is subtracted.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(expecting = "[FEC, VMM, ns or \"run\"]")]
pub(super) struct Zero(pub usize, pub usize, pub ZeroAt);

/// What is subtracted from the times of a VMM.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a number of ns, or \"run\"")]
pub(super) enum ZeroAt {
    /// ns.
    Ns(f64),
    /// "run": the first time of the run, of whatever VMM.
    Word(String),
}

/// `[detector]` keys.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    offsets: Option<String>,
    clock: Option<String>,
    capacity: Option<u32>,
    horizon_ms: Option<f64>,
    late_frames: Option<u32>,
    max_waiting: Option<u32>,
    max_run_hits: Option<u32>,
    max_run_span_us: Option<f64>,
    marker_check: Option<bool>,
    region: Option<[u16; 3]>,
    position: Option<String>,
    matcher: Option<String>,
    one_picture: Option<bool>,
    sectors: Option<Sectors>,
    pub geometry_x: Option<u32>,
    pub geometry_y: Option<u32>,
    pitch_mm: Option<[f64; 2]>,
    distance_m: Option<f64>,
    bc: Option<f32>,
    tac: Option<f32>,
    th: Option<Each>,
    cs: Option<Each>,
    ccs: Option<Each>,
    dt: Option<Each>,
    mst: Option<Each>,
    mp0: Option<Each>,
    mp1: Option<Each>,
    spc: Option<Each>,
    dp: Option<Each>,
    coin: Option<String>,
    crl: Option<Each>,
    cru: Option<Each>,
    algo: Option<u8>,
    hm: Option<u8>,
    df: Option<String>,
    t0: Option<Vec<Zero>>,
    n: Option<u64>,
}

fn pick(
    key: &str,
    each: &Option<Each>,
    index: usize,
    of: usize,
    default: f64,
) -> Result<f64, Refusal> {
    let value = match each {
        None => return Ok(default),
        Some(Each::One(value)) => *value,
        Some(Each::List(list)) if list.len() == 1 => list[0],
        Some(Each::List(list)) => match list.get(index) {
            Some(value) if list.len() == of => *value,
            _ => {
                let allowed =
                    format!("one number, or a list of {of}: one per detector of the geometry");
                return Err(refuse(key, format!("{list:?}"), &allowed));
            }
        },
    };
    match value.is_finite() {
        true => Ok(f64::from(value)),
        false => Err(refuse(key, value, "a finite number")),
    }
}

/// A time that something waits for: at most a second, so that it bounds what waits.
fn wait(key: &str, value: f64) -> Result<f64, Refusal> {
    match (0.0..=1e9).contains(&value) {
        true => Ok(value),
        false => Err(refuse(key, value, "0 to 1e9 ns")),
    }
}

fn not_negative(key: &str, value: f64) -> Result<f64, Refusal> {
    match value >= 0.0 {
        true => Ok(value),
        false => Err(refuse(key, value, "0 or more")),
    }
}

/// Parameters of vmm-sdat that say what to read and write and not what events are, and what says it here.
const REPLACED: [(&str, &str); 7] = [
    ("f", "in [detector]: the file to read is --source pcap:FILE, or source.url"),
    ("save", "in [detector]: --hits FILE, --clusters FILE and --nexus FILE say what is written"),
    ("json", "in [detector]: --nexus FILE has the image, and the live page (--web) shows it"),
    ("log", "in [detector]: leave it out; progress and what is wrong are told on stderr"),
    (
        "info",
        "in [detector]: leave it out; output.nexus.title names a run, and files are named by --hits, --clusters and --nexus",
    ),
    ("stats", "in [detector]: leave it out; --json and the summary at the end give all counters"),
    ("cahi", "in [detector]: leave it out; --hits FILE writes calibrated hits for histograms"),
];

impl Options {
    /// Reads the keys; a hyphen in front of one, as on the command line of vmm-sdat, is left out.
    pub fn read(text: &str) -> Result<Options, Refusal> {
        let plain = |line: &str| {
            let bare = line
                .strip_prefix('-')
                .filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
            format!("{}\n", bare.unwrap_or(line))
        };
        let mut lines: Vec<String> = text.lines().map(plain).collect();
        let key_of = |line: &String| line.split('=').next().unwrap_or_default().trim().to_owned();
        for (key, instead) in REPLACED {
            if let Some(line) = lines.iter().find(|line| key_of(line) == key) {
                let value = line.split_once('=').map_or("given", |(_, value)| value.trim());
                return Err(refuse(key, value, instead));
            }
        }
        // The same parameter: as on the command line, the last one wins.
        let same: Vec<usize> = (0..lines.len())
            .filter(|&at| ["mst", "mp0"].contains(&&key_of(&lines[at])[..]))
            .collect();
        if let [first, last] = same[..]
            && key_of(&lines[first]) != key_of(&lines[last])
        {
            lines.remove(first);
        }
        let options: Options = text::options(&lines.concat())?;
        options.check()?;
        Ok(options)
    }

    /// True if a key of the online chain is given.
    pub fn wants_online(&self) -> bool {
        self.clock.is_some() || self.region.is_some() || self.matcher.is_some() || self.older()
    }

    /// Ranges that depend on nothing else.
    fn check(&self) -> Result<(), Refusal> {
        self.convention()?;
        self.triggered()?;
        self.limits()?;
        self.position()?;
        self.zeros()?;
        self.matcher()?;
        if !(0.001..=60_000.0).contains(&self.horizon_ms.unwrap_or(1.0)) {
            return Err(refuse("horizon_ms", self.horizon_ms.unwrap_or(0.0), "0.001 to 60000"));
        }
        if self.late_frames.is_some_and(|late| late > 64) {
            return Err(refuse("late_frames", self.late_frames.unwrap_or(0), "0 to 64 frames"));
        }
        if self.capacity == Some(0) {
            return Err(refuse("capacity", 0, "1 or more"));
        }
        let [x, y] = self.pitch_mm();
        if !((0.001..=1000.0).contains(&x) && (0.001..=1000.0).contains(&y)) {
            return Err(refuse(
                "pitch_mm",
                format!("[{x}, {y}]"),
                "0.001 to 1000 mm, in x and in y",
            ));
        }
        if !(0.0..=1000.0).contains(&self.distance_m()) {
            return Err(refuse("distance_m", self.distance_m(), "0 to 1000 m"));
        }
        let bc = self.bc();
        if !(1.0..=1000.0).contains(&bc) {
            return Err(refuse("bc", bc, "1 to 1000 MHz"));
        }
        if !(0.0..=100_000.0).contains(&self.tac()) {
            return Err(refuse("tac", self.tac(), "0 to 100000 ns"));
        }
        if self.algo.is_some_and(|algo| algo > 7 && ![10, ALGO].contains(&algo)) {
            return Err(refuse(
                "algo",
                self.algo.unwrap_or(0),
                "0 to 7, 10 for pads, and 100 for the late end",
            ));
        }
        if self.hm.is_some_and(|hm| hm > 1) {
            return Err(refuse("hm", self.hm.unwrap_or(0), "0 or 1"));
        }
        let clock = self.clock.as_deref().unwrap_or("exact");
        if clock != "exact" && clock != "published" {
            return Err(refuse(
                "clock",
                clock,
                "\"exact\", or \"published\" for 1000 div bc_clock and 25 ns per marker count",
            ));
        }
        Ok(())
    }

    /// Keys that have no meaning with the geometry of vmm-sdat.
    pub fn for_offline(&self) -> Result<(), Refusal> {
        let online = [
            ("clock", self.clock.is_some()),
            ("region", self.region.is_some()),
            ("matcher", self.matcher.is_some()),
            ("position", self.older()),
        ];
        match online.iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(refuse(
                key,
                "given",
                "only with the configuration of the online chain (srs_mappings) as geometry",
            )),
            None => Ok(()),
        }
    }

    /// The matcher, where the geometry's is not meant.
    pub fn matcher(&self) -> Result<Option<Matcher>, Refusal> {
        match self.matcher.as_deref() {
            None => Ok(None),
            Some("gap") => Ok(Some(Matcher::Gap)),
            Some("overlap") => Ok(Some(Matcher::Overlap)),
            Some("end") => Ok(Some(Matcher::End)),
            Some("center") => Ok(Some(Matcher::Center)),
            Some(other) => {
                Err(refuse("matcher", other, "\"gap\", \"overlap\", \"end\" or \"center\""))
            }
        }
    }

    /// Keys that have no meaning with the configuration of the online chain.
    pub fn for_online(&self) -> Result<(), Refusal> {
        let offline = [
            ("bc", self.bc.is_some()),
            ("tac", self.tac.is_some()),
            ("th", self.th.is_some()),
            ("cs", self.cs.is_some()),
            ("ccs", self.ccs.is_some()),
            ("dt", self.dt.is_some()),
            ("mst", self.mst.is_some()),
            ("mp0", self.mp0.is_some()),
            ("mp1", self.mp1.is_some()),
            ("spc", self.spc.is_some()),
            ("dp", self.dp.is_some()),
            ("coin", self.coin.is_some()),
            ("crl", self.crl.is_some()),
            ("cru", self.cru.is_some()),
            ("algo", self.algo.is_some()),
            ("hm", self.hm.is_some()),
            ("df", self.df.is_some()),
            ("t0", self.t0.is_some()),
            ("position", self.position.is_some() && !self.older()),
            ("one_picture", self.one_picture.is_some()),
            ("sectors", self.sectors.is_some()),
            ("geometry_x", self.geometry_x.is_some()),
            ("geometry_y", self.geometry_y.is_some()),
        ];
        match offline.iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(refuse(
                key,
                "given",
                "only with the geometry of vmm-sdat (vmm_geometry); the online configuration has keys of its own",
            )),
            None => Ok(()),
        }
    }

    /// From strip to strip, or pad to pad, in x and in y; strips of the Gd-GEM detector are 0.4 mm apart.
    pub fn pitch_mm(&self) -> [f64; 2] {
        self.pitch_mm.unwrap_or([0.4; 2])
    }

    /// From the sample to the strips.
    pub fn distance_m(&self) -> f64 {
        self.distance_m.unwrap_or(0.0)
    }

    /// `-bc`, MHz, through a 32-bit float.
    pub fn bc(&self) -> f64 {
        f64::from(self.bc.unwrap_or(40.0))
    }

    /// `-tac`, ns.
    pub fn tac(&self) -> f64 {
        f64::from(self.tac.unwrap_or(60.0))
    }

    /// Parameters of detector `index` of `of`.
    pub fn parameters(&self, index: usize, of: usize) -> Result<Parameters, Refusal> {
        let d = Parameters::default();
        let get = |key, each, default| pick(key, each, index, of, default);
        let threshold = get("th", &self.th, 0.0)?;
        let dt = wait("dt", get("dt", &self.dt, d.time_gap[0])?)?;
        Ok(Parameters {
            time_gap: [dt; 2],
            // An amplitude is at most 1023. It is at least 16.5 if it is at least 17.
            threshold: if threshold < 0.0 {
                u16::MAX
            } else {
                threshold.ceil().min(65_535.0) as u16
            },
            cluster_size: get("cs", &self.cs, d.cluster_size)?,
            coincident_size: get("ccs", &self.ccs, d.coincident_size)?,
            missing: get("mst", self.mst.as_ref().map_or(&self.mp0, |_| &self.mst), d.missing)?,
            missing_second: get("mp1", &self.mp1, d.missing_second)?,
            span: not_negative("spc", get("spc", &self.spc, d.span)?)?,
            plane_gap: wait("dp", get("dp", &self.dp, d.plane_gap)?)?,
            ratio: (get("crl", &self.crl, d.ratio.0)?, get("cru", &self.cru, d.ratio.1)?),
            coin: match self.coin.as_deref() {
                Some("utpc") => Coin::Utpc,
                Some("charge2") => Coin::Charge2,
                _ => Coin::CenterOfMass,
            },
            algo: self.algo.unwrap_or(0),
            multiplicity: self.hm == Some(1),
        })
    }

    /// True if the detectors are parts of one picture and their strips are numbered throughout.
    pub fn one_picture(&self) -> bool {
        self.one_picture.unwrap_or(false)
    }

    /// Detectors of the geometry, of which `known` are there, that this process takes; `None`: all.
    pub fn sectors(&self, known: &[u32]) -> Result<Option<&[u32]>, Refusal> {
        let wanted = match &self.sectors {
            None => return Ok(None),
            Some(Sectors::One(one)) => std::slice::from_ref(one),
            Some(Sectors::List(list)) => list,
        };
        if wanted.is_empty() || wanted.iter().any(|id| !known.contains(id)) {
            let allowed = format!("one or several of the detectors of the geometry, {known:?}");
            return Err(refuse("sectors", format!("{wanted:?}"), &allowed));
        }
        Ok(Some(wanted))
    }

    /// Meaning of the offset, if it is given. Each chain has its own otherwise: section 4.2.
    pub fn convention(&self) -> Result<Option<Offsets>, Refusal> {
        match self.offsets.as_deref() {
            None => Ok(None),
            Some("-1..15") => Ok(Some(Offsets::Signed)),
            Some("0..31") => Ok(Some(Offsets::Unsigned)),
            Some(other) => {
                Err(refuse("offsets", other, "\"-1..15\" (firmware since 2020) or \"0..31\""))
            }
        }
    }

    /// True for triggered firmware.
    pub fn triggered(&self) -> Result<bool, Refusal> {
        match self.df.as_deref() {
            None | Some("SRS") => Ok(false),
            Some("TRG") => Ok(true),
            Some(other) => Err(refuse("df", other, "\"SRS\" or \"TRG\"")),
        }
    }

    /// True for the micro-TPC of 2018 in place of the algorithm of the online configuration.
    pub fn older(&self) -> bool {
        self.position.as_deref() == Some("utpc-2018")
    }

    /// What the event's place is made of.
    pub fn position(&self) -> Result<Position, Refusal> {
        match self.position.as_deref() {
            None | Some("center-of-mass") => Ok(Position::CenterOfMass),
            Some("utpc") => Ok(Position::Utpc),
            Some("charge2") => Ok(Position::Charge2),
            Some("algo") => Ok(Position::Algo),
            Some(_) if self.older() => Ok(Position::CenterOfMass),
            Some(other) => Err(refuse(
                "position",
                other,
                "\"center-of-mass\", \"charge2\", \"utpc\" or \"algo\"; online \"utpc-2018\"",
            )),
        }
    }

    /// `-t0` by FEC and VMM: `Some(ns)`, or `None` for "run".
    pub fn zeros(&self) -> Result<Vec<(usize, usize, Option<f64>)>, Refusal> {
        let allowed = "[FEC 1 to 15, VMM 0 to 15, up to 1e15 ns or \"run\"]";
        let one = |Zero(fec, vmm, at): &Zero| {
            let no = |at: String| Err(refuse("t0", format!("[{fec}, {vmm}, {at}]"), allowed));
            let at = match at {
                ZeroAt::Ns(ns) if ns.abs() <= 1e15 => Some(*ns),
                ZeroAt::Ns(ns) => return no(format!("{ns:?}")),
                ZeroAt::Word(word) if word == "run" => None,
                ZeroAt::Word(word) => return no(format!("{word:?}")),
            };
            match (1..16).contains(fec) && *vmm < 16 {
                true => Ok((*fec, *vmm, at)),
                false => no("…".to_owned()),
            }
        };
        self.t0.iter().flatten().map(one).collect()
    }

    /// Part of plane 0.
    pub fn region(&self) -> Result<Region, Refusal> {
        let [least, most, width] = self.region.unwrap_or([0, 1279, 0]);
        if least > most {
            return Err(refuse(
                "region",
                format!("[{least}, {most}, {width}]"),
                "[smallest strip, largest strip, overlap]",
            ));
        }
        let hits = least.saturating_sub(width)..=most.saturating_add(width).min(1279);
        Ok(Region { hits, events: [least, most] })
    }

    /// Bounds.
    pub fn limits(&self) -> Result<Limits, Refusal> {
        let usual = Limits::default();
        let waiting = self.max_waiting.unwrap_or(usual.waiting as u32);
        let run_hits = self.max_run_hits.unwrap_or(usual.run_hits as u32);
        let span = self.max_run_span_us.unwrap_or(usual.run_span / 1000.0);
        if !(1000..=1 << 30).contains(&waiting) {
            return Err(refuse("max_waiting", waiting, "1000 to 1073741824 hits"));
        }
        if !(2..=1 << 16).contains(&run_hits) {
            return Err(refuse("max_run_hits", run_hits, "2 to 65536 hits"));
        }
        if !(0.001..=1e6).contains(&span) {
            return Err(refuse("max_run_span_us", span, "0.001 to 1000000"));
        }
        let (waiting, run_hits) = (waiting as usize, run_hits as usize);
        // Frames of a quiet detector are a second apart and more: who is waited for must have come by then.
        let idle = IDLE_NS + self.horizon() as i64;
        Ok(Limits { waiting, run_hits, run_span: 1000.0 * span, idle })
    }

    /// True for the formulas of the published online chain.
    pub fn published_clock(&self) -> bool {
        self.clock.as_deref() == Some("published")
    }

    /// ns after which an input is not waited for.
    pub fn horizon(&self) -> f64 {
        1e6 * self.horizon_ms.unwrap_or(2000.0)
    }

    /// Places that a frame may come late without loss.
    pub fn late_frames(&self) -> usize {
        self.late_frames.unwrap_or(8) as usize
    }

    /// Hits of a frame that have room in the buffer, which only the online chain has.
    pub fn capacity(&self, rules: ClockRules) -> usize {
        match (self.capacity, rules) {
            (Some(capacity), _) => capacity as usize,
            (None, ClockRules::Online) => 1500,
            (None, ClockRules::Offline) => usize::MAX,
        }
    }

    /// Hits after which reading ends.
    pub fn most_hits(&self) -> Option<u64> {
        self.n.filter(|&n| n > 0)
    }

    /// The lost-marker check of the old firmware.
    pub fn marker_check(&self) -> bool {
        self.marker_check.unwrap_or(false)
    }
}
