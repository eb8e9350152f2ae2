//! Times of live runs are those of this host's clock, continue over a restart of the sender, and are the same in a
//! replay of a capture.
//!
//! Source: `docs/time.md`.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::service::{Said, Service, say, vector};
use fullcount_core::wall::ClockRecord;

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64
}

/// (time, pixel) of every event of a file, in the file's order.
fn events(path: &str, detector: &str) -> Vec<(i64, i32)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let e = f.group(&format!("entry/instrument/{detector}/{detector}_events")).expect("events");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let mut all = Vec::with_capacity(ids.len());
    for (at, zero) in zeros.iter().enumerate() {
        let end = index.get(at + 1).map_or(ids.len(), |&n| n as usize);
        all.extend(
            (index[at] as usize..end).map(|i| (*zero as i64 + i64::from(offsets[i]), ids[i])),
        );
    }
    all
}

fn sorted(mut all: Vec<(i64, i32)>) -> Vec<(i64, i32)> {
    all.sort_unstable();
    all
}

/// Compares, and shows the first difference: both have hundreds of thousands.
#[track_caller]
fn same(a: &[(i64, i32)], b: &[(i64, i32)]) {
    let differ = a.iter().zip(b).position(|(a, b)| a != b);
    assert_eq!((differ.map(|at| (at, a[at], b[at])), a.len()), (None, b.len()));
}

/// A run of SoNDe with a capture to which each of `sends` is sent, one after the other.
fn live(folder: &Path, more: &[&str], sends: &[&[&str]]) -> (Said, String, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let (nexus, capture) = (path("live.nxs"), path("live.pcapng"));
    let mut all = vec![
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--detector",
        "sonde",
        "--web",
        "off",
        "--json",
    ];
    all.extend(["--nexus", &nexus, "--capture", &capture]);
    all.extend(more);
    let mut run = Service::start(&all);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    for send in sends {
        let mut all = vec!["send", "--to", &to, "--source", "sonde"];
        all.extend(*send);
        let sent = say(&all);
        assert_eq!(sent.code, 0, "{}", sent.err);
    }
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    (said, nexus, capture)
}

fn replay(folder: &Path, capture: &str, more: &[&str]) -> Vec<(i64, i32)> {
    let nexus = folder.join("replay.nxs").display().to_string();
    let source = format!("pcap:{capture}?flat-out");
    let mut all =
        vec!["run", "--source", &source, "--detector", "sonde", "--web", "off", "--nexus", &nexus];
    all.extend(["--set", "output.nexus.overwrite=true"]);
    all.extend(more);
    let said = say(&all);
    assert_eq!(said.code, 0, "{}", said.err);
    events(&nexus, "sonde")
}

const SEND: &[&str] = &["--rate", "100kev/s", "--duration", "1500ms"];

#[test]
fn live_times_are_the_hosts_and_a_capture_has_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let before = now_ns();
    let (said, nexus, capture) = live(folder.path(), &[], &[SEND, SEND]);
    let after = now_ns();
    let all = events(&nexus, "sonde");
    assert!(all.len() > 200_000, "{}", all.len());
    // 1 ms is the allowed error; no packet is received before it is sent.
    let (first, last) = (all.iter().min().unwrap().0, all.iter().max().unwrap().0);
    assert!(first > before && last < after + 1_000_000, "{first} {last}, {before} to {after}");
    // The second sender's clock restarts; its events come after all of the first.
    let half = all.len() / 2;
    let (early, late) = (&all[..half - 20_000], &all[half + 20_000..]);
    assert!(early.iter().max().unwrap().0 < late.iter().min().unwrap().0, "times never go back");

    let clock = &said.summary()["clock"];
    assert!(clock["anchor_host_ns"].as_i64().unwrap() > before, "{clock}");
    assert!(clock["drift_ppb"].as_i64().unwrap().abs() <= 200_000, "{clock}");
    assert!(said.err.contains("clocks joined at"), "{}", said.err);
    let file = hdf5_metno::File::open(&nexus).unwrap();
    let anchor = file.dataset("entry/fullcount/clock/anchor_host").unwrap();
    assert_eq!(anchor.read_scalar::<i64>().unwrap(), clock["anchor_host_ns"].as_i64().unwrap());
    drop(file);

    let all = sorted(all);
    same(&sorted(replay(folder.path(), &capture, &[])), &all);
    same(&sorted(replay(folder.path(), &capture, &["--threads", "2"])), &all);
    // Without the captured clock records, they are the detector's.
    let own = replay(folder.path(), &capture, &["--epoch", "1970-01-01T00:00:00Z"]);
    assert!(own.iter().max().unwrap().0 < 100_000_000_000);
}

#[test]
fn a_capture_that_was_cut_off_and_one_of_several_files_have_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let (_, nexus, capture) = live(folder.path(), &[], &[SEND]);
    let all = sorted(events(&nexus, "sonde"));
    // The end, with what all files have there, and some packets are missing.
    let bytes = std::fs::read(&capture).unwrap();
    let cut = folder.path().join("cut.pcapng");
    std::fs::write(&cut, &bytes[..bytes.len() - 100_000]).unwrap();
    let records =
        fullcount_io::pcap::clock::records(&cut).unwrap().expect("found among the packets");
    assert!(matches!(records[0], ClockRecord::Era { .. }), "{records:?}");
    let some = sorted(replay(folder.path(), &cut.display().to_string(), &[]));
    assert!(some.len() > 10_000 && some.len() < all.len());
    assert!(some.iter().all(|event| all.binary_search(event).is_ok()));

    let series = tempfile::tempdir().unwrap();
    let size = ["--set", "output.capture.rotate_size=1MiB"];
    // No packet of a file is needed for the times of the next.
    let (_, nexus, _) =
        live(series.path(), &size, &[&["--rate", "400kev/s", "--duration", "1500ms"]]);
    let all = sorted(events(&nexus, "sonde"));
    let second = series.path().join("live-00002.pcapng");
    let some = replay(series.path(), &second.display().to_string(), &[]);
    assert!(some.len() > 10_000 && some.len() < all.len());
    assert!(some.iter().all(|event| all.binary_search(event).is_ok()));
}

#[test]
fn an_epoch_that_is_set_is_kept_and_now_is_for_live_sources() {
    let folder = tempfile::tempdir().unwrap();
    let (said, nexus, capture) = live(folder.path(), &["--epoch", "2001-09-09T01:46:40Z"], &[SEND]);
    assert!(said.summary().get("clock").is_none());
    let all = events(&nexus, "sonde");
    let billion = 1_000_000_000_000_000_000;
    assert!(all.iter().all(|event| (billion..billion + 100_000_000_000).contains(&event.0)));
    assert_eq!(fullcount_io::pcap::clock::records(Path::new(&capture)).unwrap(), None);

    let source = format!("pcap:{}", vector("sonde/sonde.pcap"));
    let live = "udp://127.0.0.1:0";
    for (source, detector) in [(source.as_str(), "sonde"), (live, "sequence")] {
        let said = say(&[
            "run",
            "--source",
            source,
            "--detector",
            detector,
            "--epoch",
            "now",
            "--web",
            "off",
        ]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("time.epoch = now: "), "{}", said.err);
    }
}
