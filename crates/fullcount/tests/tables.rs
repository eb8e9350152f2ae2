//! Tables of hits and clusters through the binary: complete at the end of the capture, the same on any number of
//! threads, in both formats, refused before anything is opened if they make no sense. Source: `docs/tables.md`.

use crate::service;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::pages::{document, quoted, rows};
use crate::service::{Said, Service, get, say, vector};
use serde_json::Value;

const CAPTURE: &str = "gdgem/example_xyu.pcapng";

fn run(more: &[&str]) -> Said {
    let source = format!("pcap:{}?flat-out", vector(CAPTURE));
    let geometry = vector("gdgem/vmm/example_geometry_xyu.json");
    let mut arguments =
        vec!["run", "--source", &source, "--detector", "gdgem", "--geometry", &geometry];
    arguments.extend(["--set", "detector.ccs=3", "--set", "detector.crl=0.2"]);
    arguments.extend(["--set", "detector.cru=10", "--web", "off", "--json"]);
    arguments.extend(more);
    say(&arguments)
}

/// Every column of every table as bytes.
fn columns(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = hdf5_metno::File::open(path).expect("complete");
    let mut all = BTreeMap::new();
    for group in file.groups().expect("readable") {
        for dataset in group.datasets().expect("readable") {
            let kind = dataset.dtype().expect("a type");
            let bytes = match kind.size() {
                1 => dataset.read_raw::<u8>().expect("values"),
                2 => flat(dataset.read_raw::<u16>().expect("values"), u16::to_le_bytes),
                4 => flat(dataset.read_raw::<u32>().expect("values"), u32::to_le_bytes),
                _ if kind.is::<i64>() => {
                    flat(dataset.read_raw::<i64>().expect("values"), i64::to_le_bytes)
                }
                _ if kind.is::<u64>() => {
                    flat(dataset.read_raw::<u64>().expect("values"), u64::to_le_bytes)
                }
                _ => flat(dataset.read_raw::<f64>().expect("values"), f64::to_le_bytes),
            };
            all.insert(dataset.name(), bytes);
        }
    }
    all
}

fn flat<T, const N: usize>(values: Vec<T>, bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    values.into_iter().flat_map(bytes).collect()
}

#[test]
fn the_capture_gives_its_rows_on_any_number_of_threads() {
    let text = std::fs::read_to_string(vector("gdgem/expected.json")).expect("committed");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let wanted = &expected["conversions"]["xyu"]["canonical"];
    let count = |value: &Value| value.as_u64().expect("a number");
    let planes: u64 =
        wanted["plane_clusters"].as_object().expect("a table").values().map(count).sum();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut seen = Vec::new();
    for (threads, build) in [("1", "1"), ("2", "1"), ("1", "2"), ("2", "3")] {
        let path = |kind: &str| path(&format!("{kind}{threads}{build}.h5"));
        let (hits, clusters) = (path("h"), path("c"));
        let threads = ["--threads", threads, "--build-threads", build];
        let said = run(&[&["--hits", &hits, "--clusters", &clusters], &threads[..]].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let summary = said.summary();
        assert_eq!(summary["balance"], 0);
        let outputs = &summary["outputs"];
        assert_eq!(outputs["hits"]["path"], hits);
        assert_eq!(outputs["hits"]["rows"]["hits"], wanted["hits_accepted"]);
        assert_eq!(outputs["clusters"]["rows"]["clusters_plane"], planes);
        let detectors = &outputs["clusters"]["rows"]["clusters_detector"];
        assert_eq!(*detectors, wanted["detector_clusters"]["0"]);
        assert!(count(&outputs["clusters"]["bytes"]) > 1000 && outputs["hits"]["events"].is_null());
        assert_eq!(said.counter("sink.hits.rows"), count(&wanted["hits_accepted"]));
        assert_eq!(said.counter("queue.clusters.taken"), planes + count(detectors));
        assert!(said.err.contains(&format!("output hits {hits}")), "{}", said.err);
        seen.push((columns(Path::new(&hits)), columns(Path::new(&clusters))));
    }
    assert_eq!(seen[0].0.len(), 14);
    assert!(seen.iter().all(|s| *s == seen[0]), "the rows are the same on all of them");

    // The same run in Parquet says the same numbers.
    let (hits, clusters) = (path("h.parquet"), path("c.parquet"));
    let said = run(&["--hits", &hits, "--clusters", &clusters]);
    assert_eq!(said.code, 0, "{}", said.err);
    let outputs = &said.summary()["outputs"];
    assert_eq!(outputs["clusters"]["rows"]["clusters_plane"], planes);
    let both = format!("{}, {clusters}", path("c.planes.parquet"));
    assert_eq!(outputs["clusters"]["path"], both);
    assert!(both.split(", ").chain([&hits[..]]).all(|file| Path::new(file).exists()));
}

#[test]
fn a_live_run_that_is_stopped_closes_its_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["h.h5", "h.parquet"] {
        let hits = folder.path().join(name).display().to_string();
        let geometry = vector("gdgem/vmm/example_geometry_xyu.json");
        let mut arguments = vec!["run", "--source", "udp://127.0.0.1:0", "--detector", "gdgem"];
        arguments.extend(["--geometry", &geometry, "--hits", &hits]);
        arguments.extend(["--web", "127.0.0.1:0", "--json"]);
        let mut run = Service::start(&arguments);
        let (to, page) = (format!("udp://127.0.0.1:{}", run.udp_port()), run.page());
        let source = format!("pcap:{}", vector(CAPTURE));
        let sent = say(&["send", "--to", &to, "--source", &source, "--json"]);
        assert_eq!(sent.code, 0, "{}", sent.err);
        let end = std::time::Instant::now() + service::PATIENCE;
        loop {
            let state: Value = serde_json::from_str(&get(&page, "/api/state")).expect("JSON");
            let lines = state["ledger"].as_array().expect("ledger lines").iter();
            let of =
                |name: &str| lines.clone().find(|l| l["name"] == name).map(|l| l["value"].clone());
            if of("decode.packets") == Some(50.into()) {
                break;
            }
            assert!(std::time::Instant::now() < end, "{state}");
        }
        assert!(!Path::new(&hits).exists(), "it gets its name when it is complete");
        run.interrupt();
        let said = run.end();
        assert_eq!(said.code, 0, "{}", said.err);
        let rows = said.summary()["outputs"]["hits"]["rows"]["hits"].as_u64();
        assert_eq!(rows, Some(said.counter("hits.good")));
        assert!(rows > Some(60_000) && Path::new(&hits).exists());
    }
}

#[test]
fn tables_stand_beside_a_nexus_file_and_change_no_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let plain = run(&["--sink", "null"]);
    let said = run(&["--hits", &path("h.h5"), "--nexus", &path("run.nxs")]);
    assert_eq!(said.code, 0, "{}", said.err);
    let (events, outputs) = (plain.summary()["events"].clone(), &said.summary()["outputs"]);
    assert_eq!(outputs["nexus"]["events"], events);
    // A second run finds files and leaves them; with --overwrite it replaces both.
    let again = |more: &[&str]| {
        let (hits, nexus) = (path("h.h5"), path("run.nxs"));
        let mut arguments = vec!["--hits", &hits, "--nexus", &nexus];
        arguments.extend(more);
        run(&arguments)
    };
    let said = again(&[]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("the file exists"), "{}", said.err);
    assert_eq!(again(&["--overwrite"]).code, 0);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (csv, h5, nexus) = (path("h.csv"), path("h.h5"), path("run.nxs"));
    let (parquet, planes) = (path("c.parquet"), path("c.planes.parquet"));
    for (detector, arguments, words) in [
        ("gdgem", vec!["--hits", &csv], ["output.hits.file", ".h5 or .hdf5 (HDF5), .parquet"]),
        (
            "gdgem",
            vec!["--hits", &h5, "--clusters", &h5],
            ["output.clusters.file", "this is the same file as output.hits.file"],
        ),
        (
            "gdgem",
            vec!["--hits", &planes, "--clusters", &parquet],
            ["output.clusters.file", "this is the same file as output.hits.file"],
        ),
        ("multigrid", vec!["--clusters", &h5], ["output.clusters.file", "those that do: gdgem"]),
        (
            "multiblade",
            vec!["--clusters", &h5],
            ["multiblade gives no tables of clusters", "gdgem"],
        ),
        ("sequence", vec!["--hits", &h5], ["sequence gives no tables of hits", "gdgem"]),
        ("gdgem", vec!["--hits", &h5, "--sink", "null"], ["output.sink", "beside output.hits"]),
        (
            "gdgem",
            vec!["--hits", &h5, "--set", "output.hits.compression=zip"],
            ["output.hits.compression", "gzip:1 to gzip:9"],
        ),
        ("gdgem", vec!["--hits", &h5, "--set", "output.hits.path=x"], ["unknown field", "path"]),
    ] {
        let mut all = vec!["run", "--source", "pcap:no-such-file.pcapng", "--detector", detector];
        all.extend(["--nexus", &nexus, "--web", "off"]);
        // These two refuse a NeXus file as well.
        if arguments.contains(&"--sink") || detector == "sequence" {
            all.retain(|a| *a != "--nexus" && *a != nexus);
        }
        all.extend(arguments);
        let said = say(&all);
        assert_eq!(said.code, 2, "{all:?}: {}", said.err);
        assert!(words.iter().all(|word| said.err.contains(word)), "{words:?}: {}", said.err);
    }
    let said =
        say(&["run", "--source", "pcap:no-such.pcapng", "--detector", "gdgem", "--hits", &h5]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn sonde_gives_its_amplitudes() {
    let folder = tempfile::tempdir().expect("a folder");
    let hits = folder.path().join("h.h5");
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let file = hits.display().to_string();
    let said = say(&["run", "--source", &source, "--hits", &file, "--web", "off", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = said.summary()["outputs"]["hits"]["rows"]["hits"].as_u64().expect("a number");
    let all = columns(&hits);
    assert_eq!(all.keys().collect::<Vec<_>>(), ["/hits/adc", "/hits/pixel", "/hits/time_ns"]);
    assert!(rows > 0);
    assert_eq!(all["/hits/adc"].len() as u64, 2 * rows);
}

/// The hits of the Multi-Grid capture.
fn multigrid_run(file: &str) -> Said {
    let source = format!("pcap:{}?flat-out", vector("multigrid/multigrid.pcap"));
    let geometry = vector("multigrid/config/three_modules_mg24.json");
    let arguments =
        ["run", "--source", &source, "--detector", "multigrid", "--geometry", &geometry];
    say(&[&arguments[..], &["--hits", file, "--web", "off", "--json"]].concat())
}

#[test]
fn multigrid_gives_every_hit_that_it_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let hits = folder.path().join("h.h5");
    let said = multigrid_run(&hits.display().to_string());
    assert_eq!(said.code, 0, "{}", said.err);
    let rows = &said.summary()["outputs"]["hits"]["rows"]["hits"];
    // External triggers are pulses and no hits.
    let wanted = said.counter("hits.count") - said.counter("pulses");
    assert_eq!(rows.as_u64(), Some(wanted));
    assert_eq!(columns(&hits)["/hits/module"].len() as u64, 2 * wanted);
}

#[test]
fn a_full_disk_ends_a_run_from_a_file_with_every_row_in_a_counter() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["h.h5", "h.parquet"] {
        let hits = folder.path().join(name);
        let source = format!("pcap:{}?flat-out", vector(CAPTURE));
        let geometry = vector("gdgem/vmm/example_geometry_xyu.json");
        // A file size limit (blocks of 512 or 1024 bytes) is seen as a full disk.
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_fullcount"))
            .args(["run", "--source", &source, "--detector", "gdgem", "--geometry", &geometry])
            .args(["--set", "output.hits.compression=none", "--web", "off", "--json", "--hits"])
            .arg(&hits)
            .output()
            .expect("a shell");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {errors}");
        assert!(errors.contains(&format!("{name}.part: cannot ")), "{errors}");
        let text = String::from_utf8_lossy(&output.stdout);
        let summary: Value =
            serde_json::from_str(text.lines().last().unwrap_or_default()).expect("JSON");
        assert_eq!(summary["balance"], 0, "{name}");
        assert!(summary["outputs"]["hits"]["failure"].is_string());
        assert!(summary["counters"]["sink.hits.unwritten"].as_u64() > Some(0));
        assert!(!hits.exists(), "only a whole file has its name");
    }
}

/// Type and unit of each column of a table, by name.
fn described(path: &Path, table: &str) -> Vec<(String, String, String)> {
    let file = hdf5_metno::File::open(path).expect("complete");
    let group = file.group(table).expect("a table");
    let mut all: Vec<_> = group
        .datasets()
        .expect("readable")
        .iter()
        .map(|dataset| {
            let kind = dataset.dtype().and_then(|t| t.to_descriptor()).expect("a type").to_string();
            let unit = dataset.attr("units").and_then(|a| a.read_scalar()).ok();
            let unit =
                unit.map_or("–".to_owned(), |u: hdf5_metno::types::VarLenUnicode| u.to_string());
            (dataset.name().rsplit('/').next().expect("a name").to_owned(), kind, unit)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn the_document_has_every_column_with_type_and_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (hits, clusters) = (path("h.h5"), path("c.h5"));
    let (sonde, multigrid) = (path("s.h5"), path("m.h5"));
    let text = |path: &Path| path.display().to_string();
    let said = run(&["--hits", &text(&hits), "--clusters", &text(&clusters)]);
    assert_eq!(said.code, 0, "{}", said.err);
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    say(&["run", "--source", &source, "--hits", &text(&sonde), "--web", "off"]);
    multigrid_run(&text(&multigrid));
    let page = document("tables.md");
    for (heading, file, table) in [
        ("## `hits` of Gd-GEM", &hits, "hits"),
        ("## `clusters_plane`", &clusters, "clusters_plane"),
        ("## `clusters_detector`", &clusters, "clusters_detector"),
        ("## `hits` of Multi-Grid and Multi-Blade", &multigrid, "hits"),
        ("## `hits` of SoNDe", &sonde, "hits"),
    ] {
        let chapter = page.split_once(heading).expect("a chapter").1;
        let chapter = chapter.split_once("\n## ").map_or(chapter, |(c, _)| c);
        let mut listed: Vec<_> = rows(chapter, "column")
            .into_iter()
            .map(|row| (quoted(&row[0])[0].to_owned(), row[1].clone(), row[2].clone()))
            .collect();
        listed.sort();
        assert_eq!(listed, described(file, table), "{heading}");
    }
}
