//! Tests of the text format, read back by a strict, independent reader.

use super::*;
use crate::SinkFacts;
use fullcount_core::ledger::{Ledger, Sheet, Unit};
use std::collections::BTreeMap;

fullcount_core::counters! {
    /// Every sort of line.
    enum T {
        In "receive.packets" Packets Sum "receive" In "datagrams received" "";
        Ok "receive.accepted" Packets Sum "receive" Accepted "handed on" "";
        Lost "receive.lost" Packets Sum "receive" Missing(Socket) "missing" "enlarge the buffer";
        Queue "queue.depth" Messages Sum "queue" Queued "waiting" "";
        High "queue.high-water" Messages Max "queue" Note "most that waited" "";
        Twin "queue.high_water" Messages Sum "queue" Note "a name that collides" "";
        Twin2 "queue.high.water" Messages Sum "queue" Note "the same again" "";
        Spool "spool.messages" Messages Present "sink" Note "messages in the spool" "";
    }
}

fn rendered(values: &[(usize, u64)]) -> String {
    let ledger = Ledger::default();
    let sheet = Sheet::new(T::catalogue());
    values.iter().for_each(|&(line, n)| sheet.add(line, n));
    ledger.register(sheet);
    let sink = SinkFacts { name: "a\"b\\c".into(), capacity: 8, ..SinkFacts::default() };
    let facts = Facts {
        sinks: vec![sink],
        kind: "tube".into(),
        started: 1_500_000_000_007,
        ..Facts::default()
    };
    render(&ledger.read(), &facts)
}

/// Reads the format as its description says: each family once, HELP and TYPE first, samples unique.
fn read(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut done) = (BTreeMap::new(), Vec::<String>::new());
    let (mut help, mut family) = (String::new(), String::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split(' ').next().unwrap().to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, help, "HELP stands before TYPE");
            assert!(["counter", "gauge"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(!done.contains(&name.to_owned()), "{name} twice");
            done.push(name.to_owned());
            family = name.to_owned();
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let name = key.split('{').next().unwrap();
            assert_eq!(name, family, "samples stand with their family");
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'), "{name}");
            let old = samples.insert(key.to_owned(), value.parse().unwrap());
            assert_eq!(old, None, "{key} twice");
        }
    }
    samples
}

#[test]
fn an_output_that_has_failed_is_1_and_one_that_works_0() {
    let state = |name: &str, failure: Option<&str>| crate::OutputState {
        name: name.into(),
        required: true,
        failure: failure.map(Into::into),
    };
    let states = vec![state("nexus", Some("no space")), state("live", None)];
    let text = render(&Ledger::default().read(), &Facts { states, ..Facts::default() });
    let all = read(&text);
    assert_eq!(all["fullcount_output_failed{output=\"nexus\"}"], 1.0);
    assert_eq!(all["fullcount_output_failed{output=\"live\"}"], 0.0);
    assert_eq!(all["fullcount_mostly_refused"], 0.0);
    let facts = Facts { refused: Some("20 of 20".into()), ..Facts::default() };
    assert_eq!(read(&render(&Ledger::default().read(), &facts))["fullcount_mostly_refused"], 1.0);
}

#[test]
fn a_spool_that_is_nearly_full_is_1() {
    let spool = |output: &str, percent| {
        let (output, nearly_full) = (output.to_owned(), percent >= 80);
        crate::SpoolFacts { output, percent, nearly_full }
    };
    let spools = vec![spool("kafka", 80), spool("raw", 79)];
    let text = render(&Ledger::default().read(), &Facts { spools, ..Facts::default() });
    let all = read(&text);
    assert_eq!(all["fullcount_spool_nearly_full{output=\"kafka\"}"], 1.0);
    assert_eq!(all["fullcount_spool_nearly_full{output=\"raw\"}"], 0.0);
}

#[test]
fn every_counter_is_there_before_anything_happens() {
    let samples = read(&rendered(&[]));
    for info in T::catalogue() {
        let part = format!("name=\"{}\"", info.name);
        let found: Vec<_> = samples.iter().filter(|(k, _)| k.contains(&part)).collect();
        assert_eq!(found.len(), 1, "{part}");
        assert_eq!(*found[0].1, 0.0);
    }
}

#[test]
fn values_places_and_kinds_are_right() {
    let text = rendered(&[(T::In as usize, 12), (T::Ok as usize, 9), (T::Lost as usize, 3)]);
    let samples = read(&text);
    let key = "fullcount_receive_lost_total{name=\"receive.lost\",hop=\"receive\",unit=\"packets\",role=\"missing\",place=\"socket\"}";
    assert_eq!(samples[key], 3.0);
    assert_eq!(samples["fullcount_balance"], 3.0, "12 in, 9 accepted");
    assert_eq!(samples["fullcount_hop_difference{hop=\"receive\",unit=\"packets\"}"], 3.0);
    assert_eq!(samples["fullcount_running"], 0.0);
    assert!(text.contains("# TYPE fullcount_queue_depth gauge\n"));
    assert!(text.contains("# TYPE fullcount_spool_messages gauge\n"));
    assert_eq!(samples["fullcount_detector_info{detector=\"tube\"}"], 1.0);
    assert!(
        text.contains("# HELP fullcount_receive_lost_total missing. Above 0: enlarge the buffer\n")
    );
    assert!(text.contains("\nfullcount_start_time_seconds 1500000000.007\n"));
}

#[test]
fn names_that_become_equal_stay_apart() {
    let samples = read(&rendered(&[(T::Twin as usize, 1), (T::Twin2 as usize, 2)]));
    let twins: Vec<f64> = samples
        .iter()
        .filter(|(k, _)| k.starts_with("fullcount_queue_high_water_total{"))
        .map(|(_, v)| *v)
        .collect();
    assert_eq!(twins.iter().sum::<f64>(), 3.0);
    assert_eq!(twins.len(), 2);
}

#[test]
fn labels_are_escaped() {
    let text = rendered(&[]);
    assert!(text.contains(r#"output="a\"b\\c""#), "{text}");
    let mut info = T::catalogue().remove(0);
    info.name = "plugin.\"x\"\n\\y".into();
    info.meaning = "two\nlines".into();
    assert_eq!(info.unit, Unit::Packets);
    let ledger = Ledger::default();
    ledger.register(Sheet::new(vec![info]));
    let text = render(&ledger.read(), &Facts::default());
    assert!(text.contains("# HELP fullcount_plugin__x___y_total two\\nlines\n"), "{text}");
    assert!(text.contains(r#"name="plugin.\"x\"\n\\y""#), "{text}");
    read(&text);
}

#[test]
fn times_are_seconds_and_words_of_prometheus_are_others() {
    let mut lines = T::catalogue();
    lines.truncate(3);
    for (line, name) in
        lines.iter_mut().zip(["spool.age_ms", "probe_ns", "frames.counter_overflows"])
    {
        line.name = name.into();
    }
    let (ledger, sheet) = (Ledger::default(), Sheet::new(lines));
    sheet.add(0, 1500);
    sheet.add(1, 7);
    ledger.register(sheet);
    let text = render(&ledger.read(), &Facts::default());
    let value = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(&format!("fullcount_{name}{{"))).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    assert_eq!(value("spool_age_seconds_total"), "1.5");
    assert_eq!(value("probe_seconds_total"), "0.000000007");
    assert_eq!(value("frames_number_overflows_total"), "0");
    read(&text);
}

#[test]
fn the_process_says_what_it_is_and_uses() {
    let all = read(&render_process());
    let build = all.keys().find(|k| k.starts_with("fullcount_build_info{")).unwrap();
    assert!(build.contains(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))), "{build}");
    assert!(all["process_cpu_seconds_total"] >= 0.0);
    assert!(all["process_resident_memory_bytes"] > 1e6 && all["process_open_fds"] > 2.0);
}
