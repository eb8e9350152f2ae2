//! Simulated Multi-Grid, Multi-Blade and Gd-GEM from end to end: truth file, service, demonstration, campaign.
//!
//! Source: `docs/simulators.md`.

use crate::pages;
use std::collections::BTreeMap;
use std::path::Path;

use crate::pages::{document, quoted};
use crate::service::{Said, Service, say};
use serde_json::Value;

const DETECTORS: [&str; 3] = ["multigrid", "multiblade", "gdgem"];

/// Modules of each unless a test says otherwise; a Gd-GEM has none to choose.
fn modules(source: &str) -> &'static str {
    match source {
        "multigrid" => "3",
        "multiblade" => "6",
        _ => "",
    }
}

/// The geometry file that `send` prints, as a file.
fn geometry(source: &str, modules: &str, folder: &Path) -> String {
    let mut words =
        vec!["send", "--to", "udp://127.0.0.1:9", "--source", source, "--print-geometry"];
    if !modules.is_empty() {
        words.extend(["--modules", modules]);
    }
    let said = say(&words);
    assert_eq!(said.code, 0, "{}", said.err);
    let path = folder.join(format!("{source}-{modules}.json"));
    std::fs::write(&path, &said.out).expect("written");
    path.display().to_string()
}

/// Sends packets to a service of this detector; gives what both said. Live, Gd-GEM clusters hits once nothing has come for a
/// second: a host that pauses so long between two packets has shown nothing about events, and it is tried again.
fn sent_and_received(source: &str, geometry: &str, send: &[&str]) -> (Said, Said) {
    let mut tries = (0..5).map(|_| once_sent_and_received(source, geometry, send));
    let idle = |run: &Said| source == "gdgem" && run.counter("cluster.idle") > 0;
    tries.find(|(_, run)| !idle(run)).expect("one of five runs without a pause of a second")
}

fn once_sent_and_received(source: &str, geometry: &str, send: &[&str]) -> (Said, Said) {
    let pulse = if source == "multigrid" { "data" } else { "none" };
    let more: &[&str] = match source {
        "gdgem" => &["--set", "detector.one_picture=true"],
        // A trigger in two packets waits for its second one however late that comes.
        "multigrid" => &["--set", "detector.release_ms=60000"],
        _ => &[],
    };
    let words = [
        "run",
        "--source",
        "udp://127.0.0.1:0?receive_buffer=64MiB",
        "--detector",
        source,
        "--geometry",
        geometry,
        "--pulse",
        pulse,
        "--sink",
        "null",
        "--web",
        "off",
        "--json",
    ];
    let mut run = Service::start(&[&words[..], more].concat());
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let mut arguments = vec!["send", "--to", &to, "--source", source, "--json"];
    arguments.extend(send);
    let sent = say(&arguments);
    assert_eq!(sent.code, 0, "{}", sent.err);
    // A loopback socket keeps what it accepted: the drain at the end reads it all.
    run.interrupt();
    (sent, run.end())
}

/// Rows of a truth file by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).expect("a truth file");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), names.len(), "{line}");
        names.iter().zip(cells).map(|(n, c)| ((*n).to_owned(), c.to_owned())).collect()
    };
    lines.map(row).collect()
}

#[test]
fn a_service_makes_the_events_of_the_truth_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("multigrid", "3", 9600),
        ("multiblade", "6", 6144),
        ("multiblade", "50", 102_400),
        ("gdgem", "", 1280 * 1280),
    ];
    for (source, modules, most) in cases {
        let geometry = geometry(source, modules, folder.path());
        let truth = folder.path().join(format!("{source}-{modules}.csv"));
        let file = truth.display().to_string();
        let mut words = vec!["--rate", "5kpps", "--count", "1500", "--truth", &file];
        if !modules.is_empty() {
            words.extend(["--modules", modules]);
        }
        let (sent, got) = sent_and_received(source, &geometry, &words);
        assert_eq!(sent.summary()["packets"]["sent"], 1500);
        let s = got.summary();
        assert_eq!(s["packets"]["accepted"], 1500, "{}", got.err);
        assert_eq!(s["balance"], 0);
        let rows = rows(&truth);
        let neutrons: Vec<_> = rows.iter().filter(|r| r["kind"] == "neutron").collect();
        assert!(neutrons.len() > 10_000 && neutrons.iter().all(|r| r["clean"] == "yes"));
        // Made, in the file, and decoded: the same number.
        assert_eq!(sent.summary()["events"], neutrons.len(), "{source} {modules}");
        assert_eq!(s["events"], neutrons.len(), "{source} {modules}: {}", got.err);
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(row["number"], at.to_string());
        }
        let last = rows.iter().filter_map(|r| r["packet"].parse::<u64>().ok()).max();
        assert!(last.is_some_and(|n| (1490..1500).contains(&n)), "{last:?}");
        let pixels = neutrons.iter().map(|r| r["pixel"].parse::<u64>().expect("a number"));
        let outside = pixels.clone().filter(|p| !(1..=most).contains(p)).count();
        assert_eq!(outside, 0);
        assert!(pixels.max() > Some(most / 2));
    }
}

#[test]
fn noise_is_in_the_truth_file_and_in_the_counters() {
    let folder = tempfile::tempdir().expect("a folder");
    let noise = "dark=10%,bad=6%,coincidence=2%,packet=5%";
    for source in DETECTORS {
        let geometry = geometry(source, modules(source), folder.path());
        let truth = folder.path().join(format!("{source}.csv"));
        let file = truth.display().to_string();
        let (sent, got) = sent_and_received(
            source,
            &geometry,
            &["--noise", noise, "--rate", "5kpps", "--count", "2000", "--truth", &file],
        );
        let rows = rows(&truth);
        let count = |kind: &str| rows.iter().filter(|r| r["kind"] == kind).count() as f64;
        let neutrons = count("neutron");
        for (kind, share) in [("dark", 0.10), ("bad", 0.06), ("coincidence", 0.02)] {
            let part = count(kind) / neutrons;
            let tolerance = 5.0 / count(kind).sqrt();
            assert!((part / share - 1.0).abs() < tolerance, "{source} {kind}: {part}");
        }
        let broken = count("packet");
        assert!((broken / 2000.0 - 0.05 / 1.05).abs() < 0.025, "{source}: {broken}");
        let s = got.summary();
        assert_eq!(s["balance"], 0, "{}", got.err);
        assert_eq!(s["packets"]["received"], 2000);
        // Every neutron without overlap is an event; overlapped ones may be.
        let sure = sent.summary()["events"].as_u64().expect("a number");
        let most = sure + rows.iter().filter(|r| r["overlap"] != "none").count() as u64;
        let events = s["events"].as_u64().expect("a number");
        assert!((sure..=most).contains(&events), "{source}: {events} of {sure} to {most}");
    }
}

#[test]
fn the_beam_monitor_is_counted_and_is_no_event_of_a_neutron() {
    let folder = tempfile::tempdir().expect("a folder");
    let geometry = geometry("multiblade", "6", folder.path());
    let truth = folder.path().join("truth.csv");
    let file = truth.display().to_string();
    let options =
        ["--noise", "monitor=20%", "--rate", "5kpps", "--count", "1500", "--truth", &file];
    let (sent, got) = sent_and_received("multiblade", &geometry, &options);
    let rows = rows(&truth);
    let counts = rows.iter().filter(|r| r["kind"] == "monitor").count() as u64;
    let neutrons = rows.len() as u64 - counts;
    assert!(counts > 500 && rows.iter().all(|r| (r["kind"] == "monitor") == (r["pixel"] == "0")));
    assert_eq!(got.counter("readouts.monitor"), counts);
    assert_eq!(got.counter("readouts.invalid_adc"), 0, "whatever its amplitude");
    assert_eq!(
        (&sent.summary()["events"], &got.summary()["events"]),
        (&neutrons.into(), &neutrons.into())
    );
    assert_eq!(got.summary()["balance"], 0);
}

#[test]
fn the_demonstration_of_each_detector_ends_with_four_equal_numbers() {
    for detector in DETECTORS {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().display().to_string();
        let said = say(&[
            "demo",
            "--detector",
            detector,
            "--duration",
            "2s",
            "--dir",
            &folder,
            "--web",
            "127.0.0.1:0",
            "--json",
        ]);
        assert_eq!(said.code, 0, "{}", said.err);
        let s = said.summary();
        let four = &s["demo"];
        assert_eq!(four["packets_sent"], four["packets_delivered"], "{detector}");
        assert_eq!(four["events_made"], four["events_in_file"], "{detector}");
        assert!(four["events_made"].as_u64() > Some(1000), "{detector}: {four}");
        assert_eq!((s["balance"].as_u64(), s["per"].as_f64()), (Some(0), Some(0.0)));
        // Simulating is no cost of the service.
        let of = |cpu: &Value| {
            let time = |what: &str| cpu[what].as_f64().expect("a time");
            time("user") + time("system")
        };
        let (simulator, service) = (of(&s["cpu"]["simulator"]), of(&s["cpu"]));
        assert!(simulator > 0.0 && service > 0.0, "{detector}: {}", s["cpu"]);
        assert!(said.err.contains("CPU of the simulated detector"), "{}", said.err);
        // What it wrote serves for the next time.
        let by_hand = dir.path().join("run.toml").display().to_string();
        let said = say(&["run", &by_hand, "--print-config"]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains(&format!("kind = \"{detector}\"")), "{}", said.out);
        assert!(dir.path().join("geometry.json").exists() && dir.path().join("demo.nxs").exists());
    }
}

#[test]
fn clean_neutrons_are_found_in_their_pixel_at_every_rate() {
    for detector in ["multigrid", "multiblade"] {
        let dir = tempfile::tempdir().expect("a folder");
        let out = dir.path().display().to_string();
        let said = say(&[
            "lab",
            "truth",
            "--detector",
            detector,
            "--neutrons",
            "30k",
            "--require",
            "99.9%",
            "--out",
            &out,
            "--json",
        ]);
        assert_eq!(said.code, 0, "{}", said.err);
        let record = said.summary();
        let table: Vec<&Value> = record["rows"].as_array().expect("rows").iter().collect();
        assert_eq!(table.len(), 6, "three rates, two noise settings");
        for row in &table {
            assert!(row["clean"]["right_percent"].as_f64() >= Some(99.9), "{row}");
            assert!(row["neutrons"].as_u64() > Some(20_000), "{row}");
            let classes = ["clean", "overlapped_by_noise", "overlapped_by_neutron"];
            let made: u64 = classes.iter().filter_map(|c| row[c]["neutrons"].as_u64()).sum();
            assert_eq!(Some(made), row["neutrons"].as_u64());
        }
        // Random coincidences are wrong events: a thousandth of the neutrons with noise.
        let quiet = table[0]["extra_events_per_neutron"].as_f64().expect("a number");
        let noisy = table[3]["extra_events_per_neutron"].as_f64().expect("a number");
        assert!(quiet < 1e-4 && (5e-4..3e-3).contains(&noisy), "{quiet} {noisy}");
        let name = format!("truth-{detector}");
        let text = std::fs::read_to_string(dir.path().join(format!("{name}.md"))).expect("a table");
        assert!(text.starts_with(&format!("# {name}\n")) && text.contains("| 100 kHz |"), "{text}");
        assert!(dir.path().join(format!("{name}.json")).exists());
    }
}

#[test]
fn clean_tracks_are_found_and_the_micro_tpc_comes_nearest_to_the_conversion() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().display().to_string();
    let said = say(&[
        "lab",
        "truth",
        "--detector",
        "gdgem",
        "--neutrons",
        "10k",
        "--rates",
        "100kHz,1MHz",
        "--noise",
        "none",
        "--noise",
        "dark=1%,bad=1%,coincidence=0.1%,dead=0.5%",
        "--require",
        "99.9%",
        "--out",
        &out,
        "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let record = said.summary();
    let table = record["rows"].as_array().expect("rows");
    assert_eq!(table.len(), 4, "two rates, two noise settings");
    for row in table {
        assert!(row["clean"]["found_percent"].as_f64() >= Some(99.9), "{row}");
        assert!(row["neutrons"].as_u64() > Some(8000), "{row}");
        // Tracks of three strips and more: well below half a strip, where the centre is strips away.
        for class in &row["places"].as_array().expect("places")[2..] {
            let rms = |way: &str| class[way]["rms_strips"].as_f64().expect("a number");
            assert!(rms("utpc") < 0.6 && rms("centre_of_mass") > 1.5, "{class}");
            assert!(class["utpc"]["two_thirds_strips"].as_f64() < Some(0.5), "{class}");
        }
        // The late end: below half a strip for all that lean, and nearer than the published way.
        for class in &row["places"].as_array().expect("places")[1..] {
            assert!(class["late_end"]["rms_strips"].as_f64() < Some(0.5), "{class}");
        }
        let inclined = |way: &str| row["inclined"][way]["rms_strips"].as_f64().expect("a number");
        assert!(inclined("late_end") < 0.5 && inclined("late_end") < inclined("utpc"), "{row}");
        assert_eq!(row["upright_strips_hit_at_most"], 3, "{row}");
    }
    let of = |row: usize, key: &str| table[row][key].as_f64().expect("a number");
    assert!(of(0, "ghosts_per_neutron") < 2e-3 && of(1, "ghosts_per_neutron") < 2e-2);
    assert!(table[0]["refused_by_decoder"].as_object().expect("counters").len() <= 1);
    assert!(table[2]["refused_by_decoder"].as_object().expect("counters").len() >= 4);
    let text = std::fs::read_to_string(dir.path().join("truth-gdgem.md")).expect("a table");
    assert!(
        text.starts_with("# truth-gdgem\n") && text.contains("| 1 MHz | 6 and more |"),
        "{text}"
    );
}

#[test]
fn tracks_of_ten_hits_in_each_plane_give_twenty_hits_an_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let geometry = geometry("gdgem", "", folder.path());
    let (sent, got) = sent_and_received(
        "gdgem",
        &geometry,
        &["--hits", "10", "--rate", "2kpps", "--count", "500", "--entries", "500"],
    );
    let s = got.summary();
    assert_eq!(s["packets"]["accepted"], 500, "{}", got.err);
    assert_eq!((&s["balance"], &s["events"]), (&0.into(), &sent.summary()["events"]));
    let counter = |name: &str| s["counters"][name].as_u64().unwrap_or(0);
    assert_eq!(counter("cluster.used"), 20 * s["events"].as_u64().expect("a number"));
    // Frames of 500 words: 16 + 3000 bytes.
    assert_eq!(sent.summary()["bytes"]["sent"], 500 * 3016);
}

#[test]
fn wrong_options_name_key_value_and_range() {
    let to = ["send", "--to", "udp://127.0.0.1:9", "--source"];
    let cases: [(&[&str], &[&str]); 19] = [
        (&["multigrid", "--noise", "monitor=1%"], &["noise", "monitor", "no beam monitor"]),
        (&["multiblade", "--modules", "50", "--noise", "monitor=1%"], &["monitor", "6 cassettes"]),
        (&["multigrid", "--noise", "dark=200%"], &["noise", "dark=200%", "0 to 100%"]),
        (&["multigrid", "--noise", "glow=1%"], &["noise", "glow", "coincidence"]),
        (&["multiblade", "--noise", "dark"], &["noise", "KEY=SHARE"]),
        (&["multigrid", "--modules", "17"], &["modules", "17", "1 to 16"]),
        (&["multigrid", "--modules", "many"], &["modules", "many", "1 to 16"]),
        (&["multiblade", "--modules", "7"], &["modules", "7", "6 cassettes or 50"]),
        (&["multiblade", "--entries", "1"], &["--entries: 1 ", "2 to 1121"]),
        (&["multigrid", "--entries", "70"], &["entries", "70"]),
        (&["multigrid", "--pulse-rate", "14"], &["pulse-rate", "14", "1Hz to 1000Hz"]),
        (&["sonde", "--noise", "dark=1%"], &["noise", "multigrid, multiblade and gdgem"]),
        (&["sequence", "--truth", "t.csv"], &["truth", "t.csv", "multigrid, multiblade and gdgem"]),
        (&["gdgem", "--modules", "4"], &["modules", "4", "sonde, multigrid and multiblade"]),
        (&["gdgem", "--hits", "21"], &["--hits: 21 ", "1 to 20"]),
        (&["gdgem", "--entries", "49"], &["--entries: 49 ", "50 to 1492"]),
        (&["multiblade", "--hits", "10"], &["hits", "10", "gdgem"]),
        (&["multigrid", "--noise", "dead=1%"], &["noise", "dead", "no dead strips"]),
        (&["multigrid", "--rate", "0ev/s"], &["rate", "0ev/s"]),
    ];
    for (arguments, words) in cases {
        let said = say(&[&to[..], arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{arguments:?} must say {word}: {}", said.err);
        }
    }
    let truth = ["lab", "truth", "--detector"];
    let cases: [(&[&str], &[&str]); 12] = [
        (&["multiblade", "--set", "detector.egg=1"], &["egg"]),
        (&["sonde"], &["detector", "sonde", "multigrid, multiblade or gdgem"]),
        (&["gdgem", "--modules", "4"], &["modules", "4", "four sectors"]),
        (&["gdgem", "--rates", "21MHz"], &["rates", "21MHz", "20MHz"]),
        (&["gdgem", "--set", "detector.egg=1"], &["egg"]),
        (&["multiblade", "--noise", "dead=1%"], &["noise", "dead", "no dead strips"]),
        (&["multigrid", "--rates", "1kHz,200kHz"], &["rates", "200kHz", "1Hz to 100kHz"]),
        (&["multigrid", "--rates", "10"], &["rates", "10", "for example 10kHz"]),
        (&["multigrid", "--noise", "bad=x"], &["noise", "bad=x"]),
        (&["multiblade", "--modules", "3"], &["modules", "3", "6 or 50"]),
        (&["multigrid", "--require", "101%"], &["require", "101%", "0% to 100%"]),
        (&["multigrid", "--neutrons", "10"], &["neutrons", "10", "1k to 100M"]),
    ];
    for (arguments, words) in cases {
        let said = say(&[&truth[..], arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{arguments:?} must say {word}: {}", said.err);
        }
    }
    let said = say(&["demo", "--detector", "egg"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("egg") && said.err.contains("multiblade"), "{}", said.err);
    let said = say(&[&to[..], &["multigrid", "--truth", "/no/such/folder/t.csv"]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("/no/such/folder/t.csv"), "{}", said.err);
}

#[test]
fn the_same_seed_makes_the_same_truth() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = |seed: &str, name: &str| {
        let path = folder.path().join(name);
        let file = path.display().to_string();
        let said = say(&[
            "send",
            "--to",
            "udp://127.0.0.1:9",
            "--source",
            "multiblade",
            "--count",
            "300",
            "--rate",
            "10kpps",
            "--seed",
            seed,
            "--noise",
            "dark=1%,pileup=random",
            "--truth",
            &file,
        ]);
        assert_eq!(said.code, 0, "{}", said.err);
        std::fs::read_to_string(path).expect("a truth file")
    };
    let first = made("4", "a.csv");
    assert!(first == made("4", "b.csv") && first != made("5", "c.csv"));
    assert!(first.lines().any(|l| l.ends_with(",neutron,no,neutron")), "some overlap");
}

#[test]
fn the_document_has_the_columns_the_noise_and_the_kinds_of_the_program() {
    let page = document("simulators.md");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("truth.csv");
    let send = |source: &str, noise: &str| {
        let file = path.display().to_string();
        let to = "udp://127.0.0.1:9";
        let source = ["send", "--to", to, "--source", source, "--rate", "5kpps", "--count", "300"];
        say(&[&source[..], &["--noise", noise, "--truth", &file, "--overwrite"]].concat())
    };
    let keys = pages::rows(&page, "key");
    let keys: Vec<&str> = keys.iter().flat_map(|r| quoted(&r[0])).collect();
    assert_eq!(keys.len(), 7, "{keys:?}");
    // Gd-GEM has all columns; what one of the others has, both together have.
    let table = pages::rows(&page, "column");
    let listed: Vec<&str> = table.iter().flat_map(|r| quoted(&r[0])).collect();
    let kinds = |except: &[&str], source: &str, columns: usize| {
        let all = keys.iter().filter(|key| !except.contains(key));
        let all: Vec<String> = all.map(|key| format!("{key}=20%")).collect();
        let said = send(source, &all.join(","));
        assert_eq!(said.code, 0, "{}", said.err);
        let made = std::fs::read_to_string(&path).expect("a truth file");
        let names: Vec<&str> = made.lines().next().expect("a header").split(',').collect();
        assert_eq!(names, listed[..columns]);
        rows(&path).into_iter().collect::<Vec<_>>()
    };
    let few = listed.len() - 5;
    let mut both = kinds(&["dead"], "multiblade", few);
    both.extend(kinds(&["dead", "monitor"], "multigrid", few));
    both.extend(kinds(&["monitor"], "gdgem", listed.len()));
    for (column, wanted) in [("kind", 7), ("overlap", 3)] {
        let row = table.iter().find(|r| quoted(&r[0]) == [column]).expect("a row");
        let mut words = quoted(&row[1]);
        words.sort();
        let found: std::collections::BTreeSet<String> =
            both.iter().map(|r| r[column].clone()).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), words);
        assert_eq!(words.len(), wanted);
    }
    let help = say(&["lab", "truth", "--help"]);
    assert!(help.code == 0 && help.out.contains("Examples:"), "{}", help.out);
}

#[test]
fn a_decoder_that_misses_neutrons_fails_what_is_required() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().display().to_string();
    // The strips have 0.57 of the wires' charge: this filter drops them all.
    let filter = "detector.amplitude_ratio=[1.0,2.0]";
    let campaign =
        ["lab", "truth", "--detector", "multiblade", "--rates", "1kHz", "--noise", "none"];
    let rest = ["--neutrons", "5k", "--set", filter, "--out", &out, "--json"];
    let short = say(&[&campaign[..], &rest, &["--require", "99.9%"]].concat());
    assert_eq!(short.code, 1, "{}", short.err);
    assert!(short.err.contains("99.9 % were required"), "{}", short.err);
    let row = short.summary()["rows"][0].clone();
    assert_eq!(row["clean"]["right"], 0, "{row}");
    assert_eq!(row["clean"]["missed"], row["clean"]["neutrons"]);
    // The reason has its own counter.
    let refused = &row["refused_by_decoder"]["events.filter.amplitude_ratio"];
    assert!(refused.as_u64() > row["clean"]["neutrons"].as_u64().map(|n| n * 9 / 10), "{row}");
    let again = say(&[&campaign[..], &rest, &["--overwrite"]].concat());
    assert_eq!(again.code, 0, "without --require it is a result");
}
