//! Golden vectors of Gd-GEM as vmm-sdat sees it: conversions of captures, calibrations and geometries of `expected.json`, and what the page
//! says of the differences. Source: `vectors/gdgem`.

use crate::gdgem_made;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::gdgem_made::answers::{close, relative};
use crate::gdgem_made::{
    capture, configure, conversion, count, detector, expected, run, setup, table, text,
};
use fullcount_detect::detector::Setup;
use fullcount_detect::gdgem::{ClusterWatch, PlaneCluster, Unwatched};
use serde_json::{Value, json};

/// Clusters by detector and plane, and detector clusters.
#[derive(Clone, Default)]
struct Clusters(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    planes: BTreeMap<(u32, u8), Vec<PlaneCluster>>,
    detectors: BTreeMap<u32, Vec<[Option<PlaneCluster>; 3]>>,
}

impl ClusterWatch for Clusters {
    fn plane(&mut self, detector: u32, plane: u8, cluster: &PlaneCluster) {
        self.0.lock().unwrap().planes.entry((detector, plane)).or_default().push(*cluster);
    }
    fn matched(&mut self, detector: u32, _: f64, planes: [Option<&PlaneCluster>; 3], _: bool) {
        let row = planes.map(|p| p.copied());
        self.0.lock().unwrap().detectors.entry(detector).or_default().push(row);
    }
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
    for name in ["vmm3.json", "refdata.json", "test_mapping.json", "reference_test_config.json"] {
        detector(&setup(&format!("config/{name}"), ""));
    }
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
