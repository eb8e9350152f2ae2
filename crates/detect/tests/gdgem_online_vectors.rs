//! Golden vectors of Gd-GEM's online chain: what `expected.json` says of clusters, matching and positions. Source: `vectors/gdgem`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::gdgem_made::answers::{close, gaps, online, relative};
use crate::gdgem_made::{Ran, build, count, expected, table, text};
use fullcount_detect::detector::Setup;
use fullcount_detect::gdgem::{ClusterWatch, OnlineEvent, older_utpc};
use fullcount_detect::hits::FineHit;
use serde_json::{Value, json};

/// Events of the online chain with their hits.
#[derive(Debug, Clone)]
struct Seen {
    hits: [Vec<FineHit>; 2],
    span: (f64, f64),
    at: [f64; 3],
}

#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Seen>>>);

impl ClusterWatch for Events {
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
                compare_2018(config, plane, &rows, large);
            }
            if set == "a00001" {
                // What the unit's own test of 2018 finds in this set with this file.
                let seen = online_events(&online("reference_test_config.json", &[]), rows.clone());
                assert_eq!(seen.len(), 14, "{set} {rule}");
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

/// The configuration of 2018 has the same gaps, said in its way, and leaves the smaller clusters.
fn compare_2018(config: &str, plane: u8, rows: &[FineHit], large: u64) {
    if config != "refdata.json" {
        return;
    }
    let hits: Vec<_> = rows.iter().filter(|r| r.lane == plane).copied().collect();
    let sizes = cluster_sizes(&online("reference_test_config.json", &[]), hits.clone());
    assert_eq!(sizes.len() as u64, large);
    assert!(sizes.iter().all(|&size| size >= 3));
    let ran = build(&online("reference_test_config.json", &[]), hits.clone(), Events::default());
    let left: usize = sizes.iter().sum();
    assert_eq!(ran.counters.get("cluster.small"), (hits.len() - left) as u64);
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
