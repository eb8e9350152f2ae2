//! Gd-GEM's builder threads through the binary: the same events and counters, and what is refused.
//!
//! Source: `docs/gdgem-parallel.md`.

use crate::service::{say, vector};
use serde_json::Value;

/// A capture played three times through the service.
fn run(capture: &str, settings: &[&str], threads: &[&str]) -> Value {
    let source = format!("pcap:{}?flat-out&repeat=3&shift", vector(&format!("gdgem/{capture}")));
    let mut arguments =
        vec!["run", "--source", &source, "--sink", "null", "--web", "off", "--json"];
    settings.iter().for_each(|set| arguments.extend(["--set", *set]));
    arguments.extend(threads);
    let said = say(&arguments);
    let summary = said.summary();
    assert_eq!(summary["balance"], 0, "{}", said.err);
    assert!(summary["events"].as_u64().expect("a number") > 10_000, "{}", said.err);
    summary
}

/// Counters of decoder and builder; those of rings and polls depend on the speed of the run.
fn counters(summary: &Value) -> Vec<(String, Value)> {
    let ours = [
        "decode.",
        "errors.",
        "frames.",
        "packets.",
        "readouts.",
        "hits.",
        "timestamps.",
        "cluster.",
        "match.",
        "events.",
    ];
    let all = summary["counters"].as_object().expect("counters").iter();
    let chosen = all.filter(|(name, _)| ours.iter().any(|start| name.starts_with(start)));
    chosen.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[test]
fn the_service_makes_the_same_events_with_any_number_of_threads() {
    let example = format!("detector.geometry={}", vector("gdgem/vmm/example_geometry.json"));
    let settings = [
        "detector.kind=gdgem",
        &example,
        "detector.bc=44.444",
        "detector.ccs=3",
        "detector.cru=10",
        "detector.crl=0.2",
    ];
    let wanted = run("example.pcapng", &settings, &[]);
    assert!(counters(&wanted).len() > 50);
    for threads in [&["--build-threads", "2"][..], &["--build-threads", "3", "--threads", "2"]] {
        let seen = run("example.pcapng", &settings, threads);
        assert_eq!(seen["events"], wanted["events"], "{threads:?}");
        assert_eq!(counters(&seen), counters(&wanted), "{threads:?}");
    }
}

#[test]
fn threads_that_cannot_be_used_are_refused() {
    let refused = |flags: &[&str], words: &str| {
        let said = say(&[&["run", "--print-config"], flags].concat());
        assert_eq!(said.code, 2, "{flags:?}: {}", said.err);
        assert!(said.err.contains(words), "{flags:?}: {}", said.err);
    };
    let gdgem = ["--detector", "gdgem"];
    refused(&["--build-threads", "2"], "engine.build_threads = 2: 1 with detector.kind = sonde");
    refused(
        &[&gdgem[..], &["--build-threads", "65"]].concat(),
        "engine.build_threads = 65: 1 to 64",
    );
    refused(&[&gdgem[..], &["--build-threads", "0"]].concat(), "1 to 64");
    refused(&["--build-core", "0"], "engine.build_core = 0: one CPU for each of the 0 threads");
    let two = ["--build-threads", "3", "--build-core", "0"];
    refused(&[&gdgem[..], &two].concat(), "each of the 2 threads");
    let far = ["--build-threads", "2", "--build-core", "4000"];
    refused(&[&gdgem[..], &far].concat(), "engine.build_core = 4000: 0 to");
    refused(&[&gdgem[..], &["--workers", "2"]].concat(), "source.workers = 2: 1 with");
}
