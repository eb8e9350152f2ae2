//! Ctrl-C while the broker is down: a doubled signal is one request, the wait is reported, and a later one ends it with
//! the ledger.
#![cfg(target_os = "linux")]

use crate::service;
use std::time::{Duration, Instant};

use crate::service::{Service, vector};

/// Two wishes are at least 1 s apart, by the clock of the process that is told: it may hear of the first one later than this one says it.
const ANOTHER_WISH: Duration = Duration::from_secs(4);

/// A run without a broker, after it has spooled its events; it would wait ten minutes for the broker.
fn waiting(folder: &std::path::Path, source: &str) -> Service {
    let spool = folder.join("spool").display().to_string();
    let run = ["run", "--source", source, "--detector", "sonde", "--json", "--web", "off"];
    // No broker listens on port 1.
    let kafka = ["--kafka", "kafka://127.0.0.1:1/nobody_detector", "--spool", &spool];
    let more = ["--set", "output.kafka.drain=10min", "--set", "output.kafka.flush=10ms"];
    Service::start(&[&run[..], &kafka, &more].concat())
}

fn told(run: &mut Service) -> String {
    run.wait_for("the word about the wait", |l| {
        l.contains("waiting up to 600 s for the broker at 127.0.0.1:1").then(|| l.to_owned())
    })
}

#[test]
fn a_doubled_ctrl_c_does_not_cut_the_drain_and_a_later_one_leaves_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = waiting(folder.path(), "udp://127.0.0.1:0");
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", "sonde", "--count", "200", "--rate", "20kpps"];
    assert_eq!(service::say(&send).code, 0);
    run.wait_for("the broker's absence", |l| l.contains("can be reached").then_some(()));
    // As a terminal gives it to the group, its leader once more, and a nervous hand: all within a second.
    (0..3).for_each(|_| run.interrupt());
    let begun = Instant::now();
    let word = told(&mut run);
    assert!(word.contains("messages in the spool; Ctrl-C again to stop now"), "{word}");
    // Three signals so far, one wish: it waits on. The pause only makes the next one another wish.
    std::thread::sleep(ANOTHER_WISH);
    assert!(!run.has_ended(), "cut short");
    run.interrupt();
    let said = run.end();
    assert!(begun.elapsed() < Duration::from_secs(300), "it waited for the broker");
    assert_eq!(said.code, 0, "nothing is lost: {}", said.err);
    let s = said.summary();
    let spool = &s["outputs"]["kafka"]["spool"];
    assert!(spool["messages"].as_u64() > Some(0), "{spool}");
    assert_eq!(spool["events"].as_u64().unwrap(), 50_000, "{spool}");
    assert_eq!(s["balance"], 0);
    for words in ["with 50,000 events wait in", "the next start sends them"] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
}

#[test]
fn a_run_that_ended_by_itself_is_told_to_stop_waiting_with_one_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let mut run = waiting(folder.path(), &source);
    let word = told(&mut run);
    assert!(word.contains("; Ctrl-C to stop now"), "{word}");
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.summary()["outputs"]["kafka"]["spool"]["events"], 467);
}
