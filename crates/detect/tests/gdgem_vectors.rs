//! Golden vectors of Gd-GEM: every entry of `expected.json`. Source: `vectors/gdgem`.

mod gdgem_made;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use fullcount_core::batch::Origin;
use fullcount_core::products::FineHit;
use fullcount_detect::detector::{Detector, Setup};
use fullcount_detect::gdgem::{OnlineEvent, PlaneCluster, Unwatched, Watch, older_utpc};
use gdgem_made::{
    Ran, build, capture, configure, count, detector, expected, payload, run, setup, table, text,
};
use serde_json::{Value, json};

/// Published names and ours.
const PARSER: [(&str, &[&str]); 13] = [
    ("FrameSeqErrors", &["frames.seq_errors"]),
    ("FrameMissingErrors", &["frames.missing_errors"]),
    ("FramecounterOverflows", &["frames.counter_overflows"]),
    ("TimestampLostErrors", &["timestamps.lost_errors"]),
    ("TimestampSeqErrors", &["timestamps.seq_errors"]),
    ("TimestampOverflows", &["timestamps.overflows"]),
    ("BadFrames", &["frames.bad"]),
    ("GoodFrames", &["decode.accepted"]),
    ("ErrorBytes", &["frames.error_bytes"]),
    ("Markers", &["readouts.all_markers"]),
    ("Data", &["readouts.data"]),
    ("Readouts", &["readouts.count"]),
    ("OverThreshold", &["readouts.over_threshold"]),
];

/// The same under the names of vmm-sdat.
const FRAMES: [(&str, &[&str]); 9] = [
    ("good_frames", &["decode.accepted"]),
    ("readouts", &["readouts.count"]),
    ("markers", &["readouts.all_markers"]),
    ("trigger_time_markers", &["readouts.trigger_time_markers"]),
    ("trigger_counter_markers", &["readouts.trigger_counter_markers"]),
    ("hits", &["readouts.data"]),
    ("over_threshold", &["readouts.over_threshold"]),
    ("frames_missing", &["frames.missing_errors"]),
    ("error_bytes", &["frames.error_bytes"]),
];

fn compare(ran: &Ran, names: &[(&str, &[&str])], wanted: &Value, what: &str) {
    for (name, value) in wanted.as_object().expect("counters") {
        let ours =
            names.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{what}: {name}")).1;
        let seen: u64 = ours.iter().map(|n| ran.counters.get(n)).sum();
        assert_eq!(seen, count(value), "{what}: {name}");
    }
}

fn close(seen: f64, wanted: f64, tolerance: f64, what: &str) {
    let off = (seen - wanted).abs();
    assert!(off <= tolerance || seen == wanted, "{what}: {seen} is not {wanted}");
}

fn relative(seen: f64, wanted: &Value, what: &str) {
    let wanted = wanted.as_f64().unwrap();
    close(seen, wanted, 1e-12 * wanted.abs(), what);
}

/// A hit of a list, with the column names of its entry.
fn compare_hit(row: &[i64], names: &[&str], wanted: &Value, what: &str) {
    let column = |name: &str| {
        let ours = match name {
            "ch" => "channel",
            "ovth" => "over_threshold",
            "trig_time" => "trigger_time",
            "trig_count" => "trigger_count",
            name => name,
        };
        row[names.iter().position(|n| *n == ours).unwrap_or_else(|| panic!("{name}"))]
    };
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(column(name), value.as_i64().unwrap_or(0), "{what}: {name}");
    }
}

#[test]
fn every_payload_gives_its_expected_entry() {
    let expected = expected();
    for (name, entry) in expected["payloads"].as_object().unwrap() {
        let packet = payload(name);
        assert_eq!(packet.len() as u64, count(&entry["bytes"]), "{name}");
        assert_eq!(gdgem_made::sha256(&packet), entry["sha256"], "{name}");
        let triggered = entry["data_format"] == "TRG";
        let options =
            if triggered { "df = 'TRG'" } else { "marker_check = true\noffsets = '0..31'" };
        let ran = run(&setup("", options), std::slice::from_ref(&packet), 1, Unwatched);
        compare(&ran, if triggered { &FRAMES } else { &PARSER }, &entry["counters"], name);

        let shown = detector(&setup("", options)).inspector().inspect(&packet, Origin::NONE);
        let hits: Vec<_> = shown.rows.iter().filter(|row| row[0] == 1).collect();
        assert_eq!(hits.len() as u64, count(&entry["hits"]), "{name}");
        let list = entry["hit_list"].as_array().unwrap();
        assert!(list.len() <= hits.len());
        for (row, wanted) in hits.iter().zip(list) {
            compare_hit(row, &shown.columns, wanted, name);
        }
        let mut markers = BTreeMap::new();
        for row in shown.rows.iter().filter(|row| row[0] == 0) {
            markers.insert(format!("{}:{}", row[1], row[2]), row[9]);
        }
        match &entry["markers_after"] {
            Value::Object(wanted) => {
                assert_eq!(markers.len(), wanted.len(), "{name}");
                wanted
                    .iter()
                    .for_each(|(key, time)| assert_eq!(markers[key], time.as_i64().unwrap()));
            }
            Value::Number(n) => assert_eq!(markers.len() as u64, n.as_u64().unwrap(), "{name}"),
            _ => assert!(triggered, "{name}"),
        }
    }
}

#[test]
fn every_sequence_gives_its_counters() {
    for (name, entry) in expected()["sequences"].as_object().unwrap() {
        let packets: Vec<_> = entry["payloads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| payload(p.as_str().unwrap()))
            .collect();
        let capacity = entry["capacity"].as_u64().unwrap_or(1500);
        let options = format!("marker_check = true\noffsets = '0..31'\ncapacity = {capacity}");
        compare(
            &run(&setup("", &options), &packets, 1, Unwatched),
            &PARSER,
            &entry["counters"],
            name,
        );
    }
}

/// A configuration of the online chain with other gaps, matcher and algorithm.
fn online(file: &str, changes: &[(&str, Value)]) -> Setup {
    let mut config: Value = serde_json::from_str(&text(&format!("config/{file}"))).unwrap();
    changes.iter().for_each(|(key, value)| config[*key] = value.clone());
    Setup { geometry: config.to_string(), geometry_path: file.to_owned(), ..Setup::default() }
}

fn gaps(time: &Value, strip: &Value) -> Value {
    json!({"max_time_gap": time, "max_strip_gap": strip})
}

#[test]
fn every_chip_time_is_that_of_the_published_formula() {
    for row in expected()["chiptime"]["rows"].as_array().unwrap() {
        let number = |at: usize| row[at].as_f64().unwrap();
        let mut setup = online(
            "refdata.json",
            &[(
                "time_config",
                json!({
                    "tac_slope": row[1], "bc_clock": row[0], "trigger_resolution": 1, "acquisition_window": 1,
                }),
            )],
        );
        setup.options = "clock = 'published'".to_owned();
        let list = |value: f64| vec![value; 64];
        let calibration = json!({"vmm_calibration": [{
            "fecID": 1, "vmmID": 0, "adc_offsets": list(0.0), "adc_slopes": list(1.0),
            "time_offsets": list(number(4)), "time_slopes": list(number(5)),
        }]});
        setup.calibration = calibration.to_string();
        let words = [
            gdgem_made::marker(0, 1000),
            gdgem_made::hit(0, 5, 0, number(2) as u16, number(3) as u8, 100),
        ];
        let ran = run(&setup, &[gdgem_made::frame(1, 0, &words)], 1, Unwatched);
        let hits: Vec<_> = ran.rows.iter().filter(|r| r.lane < 2).collect();
        let wanted = 25_000.0 + number(6).trunc();
        assert_eq!(hits[0].ns(), wanted, "{row}");
    }
}

/// Events of the online chain with their hits.
#[derive(Debug, Clone)]
struct Seen {
    hits: [Vec<FineHit>; 2],
    span: (f64, f64),
    at: [f64; 3],
}

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Seen>>>);

impl Watch for Events {
    fn online(&mut self, e: &OnlineEvent<'_>) {
        let [x, y] = e.planes;
        let at = [x.coordinate, y.coordinate, x.time.min(y.time)];
        let hits = e.hits.map(<[FineHit]>::to_vec);
        self.0.lock().unwrap().push(Seen { hits, span: e.span, at });
    }
}

fn online_events(setup: &Setup, rows: Vec<FineHit>) -> Vec<Seen> {
    let events = Events::default();
    build(setup, rows, events.clone());
    let seen = events.0.lock().unwrap();
    seen.clone()
}

fn row(time: f64, strip: f64, weight: f64, plane: u8) -> FineHit {
    FineHit {
        time: FineHit::key(time),
        coordinate: strip as u16,
        weight: weight as u16,
        lane: plane,
        ..FineHit::default()
    }
}

/// Matcher and algorithm of a name like `Center_utpc` or `Center 50 utpc`.
fn named(name: &str) -> (String, Option<String>) {
    let mut words = name.split([' ', '_']);
    let matcher = words.next().unwrap().to_lowercase();
    (matcher, words.next_back().filter(|w| w.parse::<f64>().is_err()).map(str::to_owned))
}

const ALGORITHMS: [&str; 4] = ["center-of-mass", "charge2", "utpc", "utpc-weighted"];

#[test]
fn every_case_gives_its_clusters_and_events() {
    for (name, case) in expected()["cases"].as_object().unwrap() {
        let list = |plane: &str, lane| {
            let hits = case[plane].as_array().unwrap();
            let number = |h: &Value, at: usize| h[at].as_f64().unwrap();
            hits.iter()
                .map(|h| row(number(h, 0), number(h, 1), number(h, 2), lane))
                .collect::<Vec<_>>()
        };
        let rows = [list("x", 0), list("y", 1)].concat();
        let gap = gaps(&case["max_time_gap"], &case["max_coord_gap"]);
        let make = |matcher: &str, delta: &Value, algorithm: &str| {
            let mut setup = online(
                "refdata.json",
                &[
                    ("clusterer x", gap.clone()),
                    ("clusterer y", gap.clone()),
                    ("matcher_max_delta_time", delta.clone()),
                    ("time_algorithm", json!(algorithm)),
                ],
            );
            setup.options = format!("matcher = '{matcher}'");
            setup
        };
        // Clusters: as events of one plane each, with nothing to match with.
        for (plane, key) in [(0, "clusters_x"), (1, "clusters_y")] {
            let wanted = case[key].as_array().unwrap();
            for algorithm in ALGORITHMS {
                let mine: Vec<_> = rows.iter().filter(|r| r.lane == plane).copied().collect();
                let mut seen = online_events(&make("center", &json!(0), algorithm), mine);
                assert_eq!(seen.len(), wanted.len(), "{name} {key}");
                let p = usize::from(plane);
                let strips = |s: &Seen| s.hits[p].iter().map(|h| (h.time, h.coordinate)).min();
                seen.sort_by_key(strips);
                let mut wanted: Vec<_> = wanted.iter().collect();
                let place = |w: &&Value| {
                    let hits = w["hits"].as_array().unwrap().iter();
                    hits.map(|h| (h[0].as_i64().unwrap(), h[1].as_i64().unwrap())).min()
                };
                wanted.sort_by_key(place);
                for (s, w) in seen.iter().zip(wanted) {
                    let hits: Vec<_> = s.hits[p]
                        .iter()
                        .map(|h| json!([h.ns() as i64, h.coordinate, h.weight]))
                        .collect();
                    assert_eq!(Value::from(hits), w["hits"], "{name} {key}");
                    let field = match algorithm {
                        "center-of-mass" => "center",
                        "charge2" => "center2",
                        "utpc" => "utpc",
                        _ => "utpc_weighted",
                    };
                    close(
                        s.at[p],
                        w[field].as_f64().unwrap(),
                        1e-9,
                        &format!("{name} {key} {field}"),
                    );
                }
            }
        }
        for (matcher, wanted) in case["events"].as_object().unwrap() {
            let delta = json!(matcher.split(' ').nth(1).unwrap().parse::<f64>().unwrap());
            let (kind, own) = named(matcher);
            for algorithm in ALGORITHMS {
                // Where the matcher has an algorithm, the list of its events is for that one.
                let sorted_by = own.as_deref().unwrap_or(algorithm);
                if sorted_by != algorithm {
                    continue;
                }
                let seen = online_events(&make(&kind, &delta, algorithm), rows.clone());
                let what = format!("{name} {matcher} {algorithm}");
                compare_events(&seen, wanted.as_array().unwrap(), algorithm, &what);
            }
        }
    }
}

fn compare_events(seen: &[Seen], wanted: &[Value], algorithm: &str, what: &str) {
    assert_eq!(seen.len(), wanted.len(), "{what}");
    for (s, w) in seen.iter().zip(wanted) {
        assert_eq!(
            (s.hits[0].len() as u64, s.hits[1].len() as u64),
            (count(&w["x"]), count(&w["y"])),
            "{what}"
        );
        let span = (w["time"][0].as_f64().unwrap(), w["time"][1].as_f64().unwrap());
        assert_eq!(s.span, span, "{what}");
        if let Some(at) = w["analysis"].get(algorithm).filter(|at| !at.is_null()) {
            for (i, seen) in s.at.iter().enumerate() {
                close(*seen, at[i].as_f64().unwrap(), 1e-9, what);
            }
        }
    }
}

#[test]
fn the_synthetic_tracks_give_their_sums() {
    let rows: Vec<_> = table("synthetic_hits.csv")
        .map(|r| row(r["time"], r["coordinate"], r["weight"], r["plane"] as u8))
        .collect();
    let entry = &expected()["synthetic"];
    let truth: Vec<_> = table("synthetic_truth.csv").collect();
    assert_eq!(json!(truth.len()), entry["tracks"]);
    let made: f64 = truth.iter().map(|track| track["hits"]).sum();
    let x = rows.iter().filter(|r| r.lane == 0).count();
    assert_eq!(x as f64, made, "hits of all tracks in plane 0");
    for plane in 0..2u8 {
        let hits: Vec<_> = rows.iter().filter(|r| r.lane == plane).copied().collect();
        let at = usize::from(plane);
        assert_eq!(json!(hits.len()), entry["hits"][at]);
        let gap = gaps(&entry["max_time_gap"], &entry["max_coord_gap"]);
        let changes = [("clusterer x", gap.clone()), ("clusterer y", gap)];
        let sizes = cluster_sizes(&online("refdata.json", &changes), hits);
        assert_eq!(json!(sizes.len()), entry["clusters"][at]);
    }
    for (name, wanted) in entry["matchers"].as_object().unwrap() {
        let (matcher, own) = named(name);
        let gap = gaps(&entry["max_time_gap"], &entry["max_coord_gap"]);
        for (algorithm, sums) in wanted["sums"].as_object().unwrap() {
            if own.as_ref().is_some_and(|own| own != algorithm) {
                continue;
            }
            let mut setup = online(
                "refdata.json",
                &[
                    ("clusterer x", gap.clone()),
                    ("clusterer y", gap.clone()),
                    ("matcher_max_delta_time", wanted["max_delta_time"].clone()),
                    ("time_algorithm", json!(algorithm)),
                ],
            );
            setup.options = format!("matcher = '{matcher}'");
            let seen = online_events(&setup, rows.clone());
            assert_eq!(seen.len() as u64, count(&wanted["events"]), "{name}");
            let both: Vec<_> =
                seen.iter().filter(|s| s.hits.iter().all(|h| !h.is_empty())).collect();
            assert_eq!(both.len() as u64, count(&wanted["both_planes"]), "{name}");
            for i in 0..3 {
                relative(
                    both.iter().map(|s| s.at[i]).sum(),
                    &sums[i],
                    &format!("{name} {algorithm} {i}"),
                );
            }
        }
    }
}

/// Recorded rows as hits (section 7): time of the row, strip by the mapping.
fn recorded(set: &str, config: &str, zero_as_one: bool) -> Vec<FineHit> {
    let config: Value = serde_json::from_str(&text(&format!("config/{config}"))).unwrap();
    let mut places = BTreeMap::new();
    for m in config["srs_mappings"].as_array().unwrap() {
        let key = (count(&m["fecID"]), count(&m["vmmID"]));
        places.insert(key, (count(&m["planeID"]) as u8, m["strip_offset"].as_f64().unwrap()));
    }
    let mut rows = Vec::new();
    for r in table(&format!("readouts_{set}.csv.gz")) {
        let Some(&(plane, offset)) = places.get(&(r["fec"] as u64, r["vmm"] as u64)) else {
            continue;
        };
        let chip = f64::from(r["chiptime"] as f32);
        let time = r["srs_timestamp"] + chip.trunc();
        let weight = if zero_as_one { r["adc"].max(1.0) } else { r["adc"] };
        rows.push(row(time, offset + r["channel"], weight, plane));
    }
    rows
}

/// Sizes of the clusters of one plane: as events of their own, with nothing to match with.
fn cluster_sizes(setup: &Setup, hits: Vec<FineHit>) -> Vec<usize> {
    let mut setup = setup.clone();
    setup.options = "matcher = 'center'".to_owned();
    let seen = online_events(&setup, hits);
    seen.iter().map(|s| s.hits.iter().map(Vec::len).sum()).collect()
}

/// What is said of the rows of a recorded set themselves.
fn compare_rows(set: &str, entry: &Value) {
    let rows: Vec<_> = table(&format!("readouts_{set}.csv.gz")).collect();
    let number = |of: &dyn Fn(&HashMap<String, f64>) -> bool| {
        json!(rows.iter().filter(|row| of(row)).count())
    };
    assert_eq!(json!(rows.len()), entry["rows"], "{set}");
    assert_eq!(number(&|row| row["adc"] == 0.0), entry["zero_adc"], "{set}");
    assert_eq!(number(&|row| row["chiptime"] < 0.0), entry["negative_chiptime"], "{set}");
    let steps = rows.windows(2).filter(|w| w[1]["srs_timestamp"] < w[0]["srs_timestamp"]).count();
    assert_eq!(json!(steps), entry["srs_timestamp_steps_back"], "{set}");
}

#[test]
fn every_recorded_set_gives_its_events() {
    for (set, entry) in expected()["readout_sets"].as_object().unwrap() {
        let config = entry["config"].as_str().unwrap();
        compare_rows(set, entry);
        for rule in ["zero_weight_kept", "zero_weight_as_one"] {
            let rows = recorded(set, config, rule == "zero_weight_as_one");
            let wanted = &entry[rule];
            for plane in 0..2u8 {
                let hits: Vec<_> = rows.iter().filter(|r| r.lane == plane).copied().collect();
                let at = usize::from(plane);
                assert_eq!(hits.len() as u64, count(&wanted["hits"][at]), "{set} {rule}");
                let sizes = cluster_sizes(&online(config, &[]), hits);
                let what = format!("{set} {rule} plane {plane}");
                assert_eq!(sizes.len() as u64, count(&wanted["clusters"][at]), "{what}");
                let large = sizes.iter().filter(|&&size| size >= 3).count() as u64;
                assert_eq!(large, count(&wanted["clusters_of_3_or_more_hits"][at]), "{what}");
            }
            for (name, wanted) in wanted["matchers"].as_object().unwrap() {
                let (matcher, own) = named(name);
                let none = json!({"": {}});
                let analysis = wanted.get("analysis").unwrap_or(&none);
                for (algorithm, sums) in analysis.as_object().unwrap() {
                    let algorithm = own.as_deref().unwrap_or(algorithm);
                    let mut setup = online(
                        config,
                        &[
                            ("matcher_max_delta_time", wanted["max_delta_time"].clone()),
                            ("time_algorithm", json!(algorithm)),
                        ],
                    );
                    setup.options = format!("matcher = '{matcher}'");
                    let events = Events::default();
                    let ran = build(&setup, rows.clone(), events.clone());
                    let seen = events.0.lock().unwrap();
                    let what = format!("{set} {rule} {name} {algorithm}");
                    compare_set(&seen, &ran, wanted, sums, &what);
                    if rule == "zero_weight_as_one"
                        && own.as_deref().is_none_or(|o| o == "center-of-mass")
                    {
                        let file = wanted["file"].as_str();
                        file.inspect(|file| compare_table(&seen, file, algorithm));
                    }
                }
            }
        }
    }
}

fn compare_set(seen: &[Seen], ran: &Ran, wanted: &Value, sums: &Value, what: &str) {
    assert_eq!(seen.len() as u64, count(&wanted["events"]), "{what}");
    let both = || seen.iter().filter(|s| s.hits.iter().all(|h| !h.is_empty()));
    let only = |plane: usize| seen.iter().filter(|s| s.hits[1 - plane].is_empty()).count() as u64;
    assert_eq!(both().count() as u64, count(&wanted["both_planes"]), "{what}");
    assert_eq!([only(0), only(1)], [count(&wanted["x_only"]), count(&wanted["y_only"])], "{what}");
    assert_eq!(ran.counters.get("events.x_only"), only(0));
    assert_eq!(ran.counters.get("events.y_only"), only(1));
    let starts: i128 = seen.iter().map(|s| s.span.0 as i128).sum();
    assert_eq!(starts, i128::from(count(&wanted["sum_time_start"])), "{what}");
    let hits: usize = both().map(|s| s.hits[0].len() + s.hits[1].len()).sum();
    assert_eq!(hits as u64, count(&wanted["hits_in_both"]), "{what}");
    if let Some(good) = sums.get("good") {
        assert_eq!(ran.events.len() as u64, count(good), "{what}");
        let pixels: u64 = ran.events.iter().map(|e| u64::from(e.1)).sum();
        assert_eq!(pixels, count(&sums["sum_pixel"]), "{what}: pixels");
        let times: i128 = ran.events.iter().map(|e| i128::from(e.0)).sum();
        assert_eq!(times, i128::from(count(&sums["sum_time"])), "{what}: times");
    }
}

fn compare_table(seen: &[Seen], file: &str, algorithm: &str) {
    let both: Vec<_> = seen.iter().filter(|s| s.hits.iter().all(|h| !h.is_empty())).collect();
    let rows: Vec<_> = table(file).collect();
    assert_eq!(both.len(), rows.len(), "{file}");
    let short = match algorithm {
        "center-of-mass" => "com",
        "charge2" => "charge2",
        "utpc" => "utpc",
        _ => "utpcw",
    };
    for (s, row) in both.iter().zip(&rows) {
        assert_eq!(
            (s.hits[0].len() as f64, s.hits[1].len() as f64),
            (row["nx"], row["ny"]),
            "{file}"
        );
        assert_eq!(s.span, (row["time_start"], row["time_end"]), "{file}");
        for (i, axis) in ["x", "y", "t"].into_iter().enumerate() {
            close(s.at[i], row[&format!("{axis}_{short}")], 1e-9, file);
        }
        for (plane, axis) in ["x", "y"].into_iter().enumerate() {
            let old = older_utpc(&s.hits[plane], true, 3, 7.0).unwrap();
            close(old.position, row[&format!("pos_old_utpc_{axis}")], 1e-9, file);
            assert_eq!(f64::from(old.lower), row[&format!("lower_old_utpc_{axis}")], "{file}");
            assert_eq!(f64::from(old.upper), row[&format!("upper_old_utpc_{axis}")], "{file}");
        }
    }
}

#[test]
fn the_micro_tpc_of_2018_can_be_chosen() {
    let entry = &expected()["readout_sets"]["a00010"];
    let config = entry["config"].as_str().unwrap();
    let wanted = &entry["zero_weight_as_one"]["matchers"]["Gap"];
    let rows = recorded("a00010", config, true);
    let run = |changes: &[(&str, Value)]| {
        let delta = ("matcher_max_delta_time", wanted["max_delta_time"].clone());
        let mut setup = online(config, &[&[delta], changes].concat());
        setup.options = "matcher = 'gap'\nposition = 'utpc-2018'".to_owned();
        let events = Events::default();
        let ran = build(&setup, rows.clone(), events.clone());
        let seen = events.0.lock().unwrap().clone();
        (ran, seen)
    };
    let (ran, seen) = run(&[]);
    let file = table(wanted["file"].as_str().unwrap());
    let both = seen.iter().filter(|s| s.hits.iter().all(|h| !h.is_empty()));
    let mut certain = 0;
    for (s, row) in both.zip(file) {
        close(s.at[0], row["pos_old_utpc_x"], 1e-9, "x");
        close(s.at[1], row["pos_old_utpc_y"], 1e-9, "y");
        certain += u64::from(row["lower_old_utpc_x"].max(row["lower_old_utpc_y"]) < 2.0);
    }
    // The time of an event is the later of both planes' last times.
    let lasts = seen.iter().filter(|s| s.hits.iter().all(|h| !h.is_empty())).map(|s| s.span.1);
    assert!(ran.events.iter().map(|e| e.0 as f64).eq(lasts), "times");
    let filters = json!({"enforce_lower_uncertainty_limit": true, "lower_uncertainty_limit": 2});
    let (ran, _) = run(&[("filters", filters)]);
    assert_eq!(ran.events.len() as u64, certain);
    let rejected = ran.counters.get("events.filter.lower_uncertainty");
    assert_eq!(rejected, ran.counters.get("events.x_and_y") - certain);
    assert!(certain > 0 && rejected > 0);
}

/// Plane 0 of even VMMs, plane 1 of odd ones, 64 strips per hybrid: the mapping of the captures' online sums.
fn by_vmm() -> Setup {
    let mappings: Vec<_> = (1..16)
        .flat_map(|fec| (0..16).map(move |vmm| (fec, vmm)))
        .map(|(fec, vmm)| json!({"fecID": fec, "vmmID": vmm, "planeID": vmm % 2, "strip_offset": 64 * (vmm / 2)}))
        .collect();
    online(
        "refdata.json",
        &[
            ("srs_mappings", Value::from(mappings)),
            (
                "time_config",
                json!({"tac_slope": 60, "bc_clock": 40, "trigger_resolution": 1, "acquisition_window": 8191}),
            ),
            ("adc_threshold", json!(0)),
        ],
    )
}

#[test]
fn every_capture_gives_its_frames_hits_and_sums() {
    for (name, entry) in expected()["captures"].as_object().unwrap() {
        let packets = capture(name);
        assert_eq!(packets.len() as u64, count(&entry["frames"]["udp"]), "{name}");
        assert_eq!(gdgem_made::packets(name) as u64, count(&entry["frames"]["packets"]), "{name}");
        let triggers = entry["trigger_markers_per_vmm"].as_object().unwrap();
        assert!(triggers.is_empty() && entry["data_format"] == "SRS", "{name}: compared nowhere");
        for offsets in ["0..31", "-1..15"] {
            let mut setup = by_vmm();
            setup.options = format!("offsets = '{offsets}'\nmarker_check = true");
            let ran = run(&setup, &packets, 3, Unwatched);
            compare(&ran, &FRAMES, &entry["counters"], name);
            // The public parser has one frame counter for all FECs; the numbers here are per FEC.
            compare(&ran, &PARSER, &entry["online"]["parser"], name);
            let sums = &entry["online"][format!("offsets {offsets}")];
            let sum = |lane: u8, of: fn(&FineHit) -> i128| -> i128 {
                ran.rows.iter().filter(|r| r.lane == lane).map(of).sum()
            };
            for (key, wanted) in sums.as_object().unwrap() {
                let seen = match key.as_str() {
                    "hits_x" => sum(0, |_| 1),
                    "hits_y" => sum(1, |_| 1),
                    "sum_coordinate_x" => sum(0, |r| i128::from(r.coordinate)),
                    "sum_coordinate_y" => sum(1, |r| i128::from(r.coordinate)),
                    "sum_time_x" => sum(0, |r| r.ns() as i128),
                    "sum_time_y" => sum(1, |r| r.ns() as i128),
                    "sum_weight" => {
                        sum(0, |r| i128::from(r.weight)) + sum(1, |r| i128::from(r.weight))
                    }
                    counter => i128::from(ran.counters.get(&format!("hits.{counter}"))),
                };
                assert_eq!(seen, i128::from(wanted.as_i64().unwrap()), "{name} {offsets} {key}");
            }
        }
        compare_words(&packets, entry, name);
    }
}

/// What the inspector shows of a capture.
fn compare_words(packets: &[Vec<u8>], entry: &Value, name: &str) {
    let mut inspector = detector(&by_vmm()).inspector();
    let (mut hits, mut markers, mut offsets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut without, mut sums, mut first) = (BTreeMap::new(), [0; 4], Vec::new());
    let mut heard = std::collections::HashSet::new();
    for packet in packets {
        for row in inspector.inspect(packet, Origin::NONE).rows {
            let vmm = format!("{}:{}", row[1], row[2]);
            if row[0] == 0 {
                heard.insert(vmm.clone());
                *markers.entry(vmm).or_insert(0u64) += 1;
                continue;
            }
            let marker = if heard.contains(&vmm) { json!(row[9]) } else { Value::Null };
            if marker.is_null() {
                *without.entry(vmm.clone()).or_insert(0u64) += 1;
            }
            *hits.entry(vmm).or_insert(0u64) += 1;
            *offsets.entry(row[3].to_string()).or_insert(0u64) += 1;
            [7, 6, 5, 4].into_iter().zip(&mut sums).for_each(|(at, sum)| *sum += row[at]);
            // fec, vmm, channel, bcid, tdc, adc, over_threshold, offset, marker
            first.push(json!([
                row[1], row[2], row[4], row[5], row[6], row[7], row[8], row[3], marker
            ]));
        }
    }
    assert_eq!(json!(hits), sorted(&entry["hits_per_vmm"]), "{name}");
    assert_eq!(json!(markers), sorted(&entry["markers_per_vmm"]), "{name}");
    assert_eq!(json!(offsets), sorted(&entry["offsets"]), "{name}");
    assert_eq!(json!(without), sorted(&entry["hits_without_marker"]), "{name}");
    let wanted = ["adc", "tdc", "bcid", "channel"].map(|key| entry["sums"][key].as_i64().unwrap());
    assert_eq!(sums, wanted, "{name}");
    let list = entry["first_hits"].as_array().unwrap();
    assert_eq!(&first[..list.len()], &list[..], "{name}");
}

/// With its keys in order.
fn sorted(value: &Value) -> Value {
    json!(value.as_object().unwrap().iter().collect::<BTreeMap<_, _>>())
}

/// Clusters by detector and plane, and detector clusters.
#[derive(Clone, Default)]
struct Clusters(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    planes: BTreeMap<(u32, u8), Vec<PlaneCluster>>,
    detectors: BTreeMap<u32, Vec<[Option<PlaneCluster>; 3]>>,
}

impl Watch for Clusters {
    fn plane(&mut self, detector: u32, plane: u8, cluster: &PlaneCluster) {
        self.0.lock().unwrap().planes.entry((detector, plane)).or_default().push(*cluster);
    }
    fn matched(&mut self, detector: u32, planes: [Option<&PlaneCluster>; 3], _: bool) {
        let row = planes.map(|p| p.copied());
        self.0.lock().unwrap().detectors.entry(detector).or_default().push(row);
    }
}

/// The set-up of a conversion: its settings are options of the same names.
fn conversion(entry: &Value) -> Setup {
    let mut options = String::new();
    for (key, value) in entry["settings"].as_object().unwrap() {
        if key != "cal" {
            options += &format!("{key} = {value}\n");
        }
    }
    let mut setup = setup(&format!("vmm/{}", entry["geometry"].as_str().unwrap()), &options);
    if let Some(file) = entry["settings"]["cal"].as_str() {
        setup.calibration = text(&format!("calibration/{file}"));
    }
    setup
}

#[test]
fn every_conversion_gives_its_canonical_clusters() {
    for (name, entry) in expected()["conversions"].as_object().unwrap() {
        let (setup, wanted) = (conversion(entry), &entry["canonical"]);
        let packets = capture(entry["capture"].as_str().unwrap());
        let clusters = Clusters::default();
        let ran = run(&setup, &packets, 7, clusters.clone());
        let counter = |key: &str| match key {
            "below_threshold" => "hits.bad_adc".to_owned(),
            "unmapped" => "hits.bad_plane".to_owned(),
            key => format!("hits.{key}"),
        };
        for key in [
            "below_threshold",
            "unmapped",
            "invalid",
            "no_marker",
            "latency_violation",
            "bad_offset",
        ] {
            let n = wanted["hit_counters"][key].as_u64().unwrap_or(0);
            assert_eq!(ran.counters.get(&counter(key)), n, "{name} {key}");
        }
        let accepted = ran.counters.get("hits.good") + ran.counters.get("hits.bad_adc");
        assert_eq!(accepted, count(&wanted["hits_accepted"]), "{name}");
        let tables = clusters.0.lock().unwrap();
        for (key, n) in wanted["plane_clusters"].as_object().unwrap() {
            let (detector, plane) = key.split_once(':').unwrap();
            let key = (detector.parse().unwrap(), plane.parse().unwrap());
            assert_eq!(tables.planes[&key].len() as u64, count(n), "{name} {key:?}");
        }
        for (key, n) in wanted["detector_clusters"].as_object().unwrap() {
            assert_eq!(
                tables.detectors[&key.parse().unwrap()].len() as u64,
                count(n),
                "{name} {key}"
            );
        }
        compare_sums(&tables, wanted, name);
        entry["detector_file"].as_str().inspect(|file| compare_detectors(&tables, file));
        entry["plane_file"].as_str().inspect(|file| compare_planes(&tables, file));
        assert!(ran.events.len() as u64 <= ran.counters.get("events.candidates"));
        assert!(!ran.events.is_empty(), "{name}");
    }
}

fn compare_sums(tables: &Tables, wanted: &Value, name: &str) {
    let planes = || tables.planes.values().flatten();
    let sums = &wanted["plane_cluster_sums"];
    let adc: u64 = planes().map(|c| c.adc).sum();
    let size: u64 = planes().map(|c| u64::from(c.size)).sum();
    assert_eq!((size, adc), (count(&sums["size"]), count(&sums["adc"])), "{name}");
    relative(planes().map(|c| c.pos).sum(), &sums["pos"], name);
    relative(planes().map(|c| c.time).sum(), &sums["time"], name);
    relative(planes().map(|c| c.pos_utpc).sum(), &sums["pos_utpc"], name);
    let rows = || tables.detectors.values().flatten();
    let sums = &wanted["detector_cluster_sums"];
    // The size of a detector cluster is that of planes 0 and 1.
    let all =
        rows().flat_map(|row| row[..2].iter().flatten()).map(|c| u64::from(c.size)).sum::<u64>();
    assert_eq!(all, count(&sums["size"]), "{name}");
    let sum = |plane: usize, of: fn(&PlaneCluster) -> f64| -> f64 {
        rows().filter_map(|row| row[plane].as_ref()).map(of).sum()
    };
    relative(sum(0, |c| c.pos), &sums["pos0"], name);
    relative(sum(1, |c| c.pos), &sums["pos1"], name);
    relative(sum(0, |c| c.time), &sums["time0"], name);
}

/// Values of a cluster under the names of the tables.
fn values(c: &PlaneCluster) -> [(&'static str, f64, f64); 10] {
    [
        ("size", f64::from(c.size), 0.0),
        ("adc", c.adc as f64, 0.0),
        ("pos", c.pos, 1e-9),
        ("time", c.time, 1e-3),
        ("pos_utpc", c.pos_utpc, 1e-9),
        ("time_utpc", c.time_utpc, 1e-3),
        ("pos_charge2", c.pos_charge2, 1e-9),
        ("time_charge2", c.time_charge2, 1e-3),
        ("pos_algo", c.pos_algo, 1e-9),
        ("time_algo", c.time_algo, 1e-3),
    ]
}

fn compare_detectors(tables: &Tables, file: &str) {
    let seen: Vec<_> = tables.detectors.values().flatten().collect();
    let rows: Vec<_> = table(file).collect();
    assert_eq!(seen.len(), rows.len(), "{file}");
    for (planes, row) in seen.iter().zip(&rows) {
        for (plane, cluster) in planes.iter().enumerate() {
            let Some(cluster) = cluster else { continue };
            for (name, value, tolerance) in values(cluster) {
                let mut words = name.splitn(2, '_');
                let (head, tail) = (words.next().unwrap(), words.next());
                let column =
                    tail.map_or(format!("{head}{plane}"), |tail| format!("{head}{plane}_{tail}"));
                // The tables have the further values for planes 0 and 1 only.
                if let Some(wanted) = row.get(&column) {
                    close(value, *wanted, tolerance, &format!("{file} {} {column}", row["id"]));
                }
            }
        }
    }
}

fn compare_planes(tables: &Tables, file: &str) {
    let mut seen: BTreeMap<_, _> =
        tables.planes.iter().map(|(key, all)| (*key, all.iter())).collect();
    for row in table(file) {
        let key = (row["det"] as u32, row["plane"] as u8);
        let cluster = seen.get_mut(&key).and_then(Iterator::next);
        let cluster = cluster.unwrap_or_else(|| panic!("{file}: too few of {key:?}"));
        for (name, value, tolerance) in values(cluster) {
            close(value, row[name], tolerance, &format!("{file} {} {name}", row["id"]));
        }
    }
    assert!(seen.values_mut().all(|rest| rest.next().is_none()), "{file}");
}

#[test]
fn calibration_files_are_accepted_or_refused() {
    for (name, entry) in expected()["calibration_files"].as_object().unwrap() {
        let file = text(&format!("calibration/{name}"));
        let setup = |geometry: &str| Setup {
            calibration: file.clone(),
            calibration_path: name.clone(),
            ..setup(geometry, "")
        };
        let accepted = configure(&setup("config/vmm3.json"));
        assert_eq!(accepted.is_ok(), entry["accept"] == true, "{name}: {:?}", accepted.err());
        for sample in entry["samples"].as_array().into_iter().flatten() {
            compare_sample(&setup("config/vmm3.json"), sample, name);
        }
        if let Some(reason) = entry["reason"].as_str() {
            assert_eq!(reason, "arrays shorter than 64");
            let said = configure(&setup("config/vmm3.json")).unwrap_err().to_string();
            assert!(said.contains("64 numbers, one per channel"), "{said}");
        }
    }
}

/// A channel of a calibration, by what it does to a hit.
fn compare_sample(setup: &Setup, sample: &Value, name: &str) {
    let number = |key: &str| sample[key].as_f64();
    let (fec, vmm) = (count(&sample["fec"]) as u8, count(&sample["vmm"]) as u8);
    let channel = count(&sample["channel"]) as u8;
    let mut config: Value = serde_json::from_str(&setup.geometry).unwrap();
    config["srs_mappings"] = json!([{"fecID": fec, "vmmID": vmm, "planeID": 0, "strip_offset": 0}]);
    let setup = Setup { geometry: config.to_string(), ..setup.clone() };
    let (bcid, tdc, adc) = (100, 80, 300);
    let words = [gdgem_made::marker(vmm, 1000), gdgem_made::hit(vmm, channel, 0, bcid, tdc, adc)];
    let ran = run(&setup, &[gdgem_made::frame(fec, 0, &words)], 1, Unwatched);
    let hit = ran.rows.iter().find(|row| row.lane == 0).unwrap_or_else(|| panic!("{name}"));
    if let (Some(offset), Some(slope)) = (number("adc_offset"), number("adc_slope")) {
        let wanted = ((f64::from(adc) - offset) * slope).clamp(0.0, 65_535.0).trunc();
        assert_eq!(f64::from(hit.weight), wanted, "{name} {sample}");
    }
    if let (Some(offset), Some(slope)) = (number("time_offset"), number("time_slope")) {
        let time = &config["time_config"];
        let period = 1000.0 / time["bc_clock"].as_f64().unwrap();
        let tac = time["tac_slope"].as_f64().unwrap();
        let within = period - f64::from(tdc) * tac / 255.0 - offset;
        let wanted = 1000.0 * period + (f64::from(bcid) * period + within * slope).trunc();
        close(hit.ns(), wanted, 1.0, &format!("{name} {sample}"));
    }
}

#[test]
fn published_geometries_are_read() {
    for file in std::fs::read_dir(gdgem_made::folder().join("vmm")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.contains("geometry") {
            detector(&setup(&format!("vmm/{name}"), ""));
        }
    }
    for name in ["vmm3.json", "refdata.json", "test_mapping.json"] {
        detector(&setup(&format!("config/{name}"), ""));
    }
    let old = configure(&setup("config/reference_test_config.json", "")).unwrap_err().to_string();
    assert!(old.contains("config/reference_test_config.json: line"), "{old}");
}

/// 12345 as 12,345.
fn thousands(n: u64) -> String {
    let (high, low) = (n / 1000, n % 1000);
    if high == 0 { low.to_string() } else { format!("{},{low:03}", thousands(high)) }
}

#[test]
fn the_page_says_how_vmm_sdat_differs() {
    let page = include_str!("../../../docs/gdgem.md");
    for (name, entry) in expected()["conversions"].as_object().unwrap() {
        let mut row = format!("| `{name}` |");
        for key in ["hits_accepted", "plane_clusters", "detector_clusters"] {
            for program in ["canonical", "reference"] {
                let cell = match &entry[program][key] {
                    Value::Object(planes) => {
                        let cells: Vec<_> = planes.values().map(|n| thousands(count(n))).collect();
                        cells.join(" + ")
                    }
                    number => thousands(count(number)),
                };
                row += &format!(" {cell} |");
            }
        }
        assert!(page.contains(&row), "docs/gdgem.md has no line {row}");
    }
}
