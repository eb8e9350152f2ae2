//! Files of a run are exclusive: no two outputs share one, no second process writes one, and no existing file is
//! replaced without a request.
//!
//! Source: `docs/files.md`, "Whose file it is".

use crate::service;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::service::{Service, say, vector};

/// A run of the committed SoNDe capture with these options.
fn replay(options: &[&str]) -> service::Said {
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let always = ["run", "--source", &source, "--detector", "sonde", "--web", "off", "--json"];
    say(&[&always[..], options].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        all.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn two_outputs_of_a_run_to_one_file_are_refused_before_anything_opens() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::create_dir(at("real")).expect("made");
    symlink(at("real"), at("link")).expect("made");
    fs::write(at("real/old"), b"old").expect("written");
    fs::hard_link(at("real/old"), at("hard")).expect("made");
    let config = at("run.toml");
    fs::write(&config, "[detector]\nkind = \"sonde\"\n").expect("written");
    let before = names(dir.path());
    let spool = at("spool");
    let series = ["--capture", &at("d.nxs"), "--rotate-size", "1MiB"];
    let (key_n, key_c) = ("output.nexus.path", "output.capture.file");
    let both = |capture: &str, nexus: &str| {
        vec!["--capture".to_owned(), at(capture), "--nexus".to_owned(), at(nexus)]
    };
    let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let cases: Vec<(Vec<String>, [&str; 2])> = vec![
        (both("real/d.nxs", "real/d.nxs"), [key_n, key_c]),
        (both("real/../real/./d.nxs", "link/d.nxs"), [key_n, key_c]),
        ([both("hard", "real/old"), owned(&["--overwrite"])].concat(), [key_n, key_c]),
        ([owned(&series), owned(&["--nexus", &at("d-00001.nxs")])].concat(), [key_n, key_c]),
        (both("d.nxs.building", "d.nxs"), [key_n, key_c]),
        (
            owned(&[
                "--kafka",
                "kafka://127.0.0.1:9",
                "--spool",
                &spool,
                "--nexus",
                &at("spool/a.nxs"),
            ]),
            ["output.kafka.spool", key_n],
        ),
        (owned(&["--capture", &vector("sonde/../sonde/sonde.pcap")]), [key_c, "pcapng is written"]),
    ];
    for (options, words) in cases {
        let said = replay(&options.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(said.code, 2, "{options:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{options:?}: {}", said.err);
        }
        assert_eq!(names(dir.path()), before, "{options:?}: nothing was made");
        assert_eq!(fs::read(at("real/old")).expect("there"), b"old");
    }
    // What is read: the capture that is replayed, by a link, and the configuration.
    let source = at("a.pcapng");
    fs::copy(vector("gdgem/example.pcapng"), &source).expect("copied");
    symlink(&source, at("b.pcapng")).expect("made");
    let bytes = fs::read(&source).expect("there");
    let url = format!("pcap:{source}?flat-out");
    for output in ["--capture", "--nexus"] {
        let b = at("b.pcapng");
        let words =
            ["run", &config, "--source", &url, "--detector", "gdgem", output, &b, "--overwrite"];
        let said =
            say(&[&words[..], &["--web", "off", "--set", "output.capture.overwrite=true"]]
                .concat()[..]);
        // Without a capture there is nothing to overwrite, which is refused too.
        assert_eq!(said.code, 2, "{}", said.err);
        let said = say(&["run", &config, "--source", &url, output, &config, "--web", "off"]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("CONFIG = "), "{}", said.err);
    }
    assert_eq!(fs::read(&source).expect("there"), bytes);
}

#[test]
fn a_second_process_on_a_file_is_refused_and_a_kill_frees_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (nexus, capture, series) = (at("d.nxs"), at("d.pcapng"), at("s.pcapng"));
    let overwrite = ["--set", "output.capture.overwrite=true"];
    let start = |options: &[&str]| {
        let always = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde"];
        let mut run = Service::start(&[&always[..], &["--web", "off"], options].concat());
        run.udp_port();
        run
    };
    let single = start(&["--nexus", &nexus, "--capture", &capture]);
    let rotating = start(&["--capture", &series, "--rotate-size", "1MiB", "--keep", "1"]);
    symlink("d.pcapng", at("link.pcapng")).expect("made");
    fs::hard_link(&capture, at("hard.pcapng")).expect("made");
    let others: [(&[&str], &str); 6] = [
        (&["--capture", &capture, overwrite[0], overwrite[1]], "d.pcapng"),
        (&["--capture", &at("link.pcapng"), overwrite[0], overwrite[1]], "link.pcapng"),
        (&["--nexus", &at("hard.pcapng"), "--overwrite"], "hard.pcapng"),
        (&["--nexus", &nexus, "--overwrite"], "d.nxs"),
        (&["--capture", &nexus, overwrite[0], overwrite[1]], "d.nxs"),
        (&["--capture", &series, "--rotate-size", "1MiB", "--keep", "1"], "s-00001.pcapng"),
    ];
    let before = names(dir.path());
    for (options, file) in others {
        let said = replay(options);
        assert_eq!(said.code, 1, "{options:?}: {}", said.err);
        assert!(said.err.contains(file) && said.err.contains("another process"), "{}", said.err);
    }
    let said = say(&["recover", &nexus]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("another process has the file open"), "{}", said.err);
    assert_eq!(names(dir.path()), before);
    // Killed: dropping a service kills it with SIGKILL.
    drop((single, rotating));
    for options in [others[0].0, others[5].0] {
        let said = replay(options);
        assert_eq!(said.code, 0, "{options:?}: {}", said.err);
    }
    let said = say(&["recover", &nexus]);
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn an_output_that_is_refused_leaves_the_others_as_they_were() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (nexus, capture) = (at("d.nxs"), at("d.pcapng"));
    for file in [&nexus, &capture] {
        fs::write(file, b"of yesterday").expect("written");
    }
    symlink("gone/h.h5", at("h.h5")).expect("made");
    let hits = at("h.h5");
    let source = format!("pcap:{}?flat-out", vector("gdgem/example.pcapng"));
    let words = ["run", "--source", &source, "--detector", "gdgem", "--web", "off"];
    let files = ["--nexus", &nexus, "--capture", &capture, "--hits", &hits, "--overwrite"];
    let over = ["--set", "output.capture.overwrite=true"];
    let said = say(&[&words[..], &files, &over].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("output.hits.file: "), "{}", said.err);
    assert!(said.err.contains("gone does not exist"), "{}", said.err);
    for file in [&nexus, &capture] {
        assert_eq!(fs::read(file).expect("there"), b"of yesterday");
    }
    assert_eq!(names(dir.path()), ["d.nxs", "d.pcapng", "h.h5"]);
    // Where the link leads to a folder that is there, the table is made.
    fs::create_dir(at("gone")).expect("made");
    let said = say(&[&words[..], &["--hits", &hits]].concat());
    assert!(matches!(said.code, 0 | 3), "{}", said.err);
    assert!(dir.path().join("gone/h.h5").metadata().is_ok_and(|m| m.len() > 1000));
}

#[test]
fn results_truth_and_demonstration_replace_nothing_unasked() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let out = at("");
    let start = std::time::Instant::now();
    let committed = |name: &str| fs::write(at(name), b"committed").expect("written");
    for (name, words) in [
        ("udp-offered.md", &["lab", "udp"][..]),
        ("udp-offered-speed.svg", &["lab", "udp"]),
        ("udp-offered.state.jsonl", &["lab", "udp"]),
        ("detectors-memory.json", &["lab", "detectors"]),
        ("detectors-pipelines.svg", &["lab", "detectors", "--pipelines", "1"]),
        ("truth-multigrid.json", &["lab", "truth", "--detector", "multigrid"]),
        ("truth-gdgem.md", &["lab", "truth", "--detector", "gdgem"]),
        ("probes.json", &["lab", "bench", "probes", "--readings", "1000000"]),
        ("lossless-loopback.md", &["lab", "lossless"]),
        ("capacity.json", &["lab", "capacity"]),
    ] {
        committed(name);
        let said = say(&[words, &["--out", &out]].concat());
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(said.err.contains(name), "{words:?}: {}", said.err);
        assert!(said.err.contains("--overwrite"), "{words:?}: {}", said.err);
        assert_eq!(names(dir.path()), [name]);
        assert_eq!(fs::read(at(name)).expect("there"), b"committed");
        fs::remove_file(at(name)).expect("removed");
    }
    // Each of them measures for minutes.
    assert!(start.elapsed().as_secs() < 60);

    let truth = at("truth.csv");
    committed("truth.csv");
    let send = ["send", "--to", "udp://127.0.0.1:9", "--source", "multigrid", "--count", "10"];
    let send = [&send[..], &["--rate", "1kpps", "--truth", &truth]].concat();
    let said = say(&send);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("truth.csv") && said.err.contains("--overwrite"), "{}", said.err);
    assert_eq!(fs::read(&truth).expect("there"), b"committed");
    assert_eq!(say(&[&send[..], &["--overwrite"]].concat()).code, 0);
    assert!(fs::read_to_string(&truth).expect("there").starts_with("number,"));

    let demo = at("demo");
    fs::create_dir(&demo).expect("made");
    let words = ["demo", "--dir", &demo, "--duration", "100ms", "--web", "off"];
    let words = [&words[..], &["--detector", "multigrid", "--rate", "10kev/s"]].concat();
    for name in ["run.toml", "geometry.json", "demo.nxs"] {
        let file = Path::new(&demo).join(name);
        fs::write(&file, b"edited").expect("written");
        let said = say(&words);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(name) && said.err.contains("--overwrite"), "{}", said.err);
        assert_eq!(names(Path::new(&demo)), [name]);
        assert_eq!(fs::read(&file).expect("there"), b"edited");
        fs::remove_file(&file).expect("removed");
    }
    assert!(matches!(say(&words).code, 0 | 3));
    assert_eq!(say(&words).code, 2);
    assert!(matches!(say(&[&words[..], &["--overwrite"]].concat()).code, 0 | 3));
}
