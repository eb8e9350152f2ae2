//! A capture of a run gives the same events when it is replayed, for every detector.
//!
//! From the committed captures and from a socket; with rotation, faults and workers.
//! Source: `docs/capture.md`.

use crate::service;
use std::path::Path;

use crate::service::{Said, Service, fullcount, say, vector};
use fullcount_io::pcap::Datagrams;

/// (time, pixel) of every event of a file, sorted: a file has its events by pulse.
fn file_events(path: &str, detector: &str) -> Vec<(i64, i64)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let group = format!("entry/instrument/{detector}/{detector}_events");
    let e = f.group(&group).expect("the event group");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let mut events = Vec::with_capacity(ids.len());
    for (at, zero) in zeros.iter().enumerate() {
        let end = index.get(at + 1).map_or(ids.len(), |&n| n as usize);
        for i in index[at] as usize..end {
            events.push((*zero as i64 + i64::from(offsets[i]), i64::from(ids[i])));
        }
    }
    events.sort_unstable();
    events
}

/// A detector as the tests run it.
struct Kind {
    name: &'static str,
    pulse: &'static str,
    vector: &'static str,
    geometry: Option<&'static str>,
}

const KINDS: [Kind; 4] = [
    Kind { name: "sonde", pulse: "none", vector: "sonde/sonde.pcap", geometry: None },
    Kind {
        name: "multigrid",
        pulse: "data",
        vector: "multigrid/multigrid.pcap",
        geometry: Some("multigrid/config/three_modules_mg24.json"),
    },
    Kind {
        name: "multiblade",
        pulse: "none",
        vector: "multiblade/multiblade.pcap",
        geometry: Some("multiblade/config/AmorB.json"),
    },
    Kind {
        name: "gdgem",
        pulse: "none",
        vector: "gdgem/example.pcapng",
        geometry: Some("gdgem/vmm/example_geometry.json"),
    },
];

impl Kind {
    fn run(&self, source: &str, nexus: &str, more: &[&str]) -> Vec<String> {
        let mut all: Vec<String> = ["run", "--source", source, "--detector", self.name]
            .into_iter()
            .chain(["--pulse", self.pulse, "--nexus", nexus, "--web", "off", "--json"])
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect();
        if let Some(geometry) = self.geometry {
            all.extend(["--geometry".to_owned(), vector(geometry)]);
        }
        all
    }
}

fn strs(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// Payload, sender, receiver and time of each datagram.
fn datagrams(path: &Path) -> Vec<(Vec<u8>, String, String, i64)> {
    let file = std::fs::File::open(path).expect("a capture");
    let mut all = Vec::new();
    let mut r = Datagrams::open(file, None).expect("a capture");
    while let Some(d) = r.next().expect("readable") {
        let (from, to) = (d.origin.to_string(), d.destination.to_string());
        all.push((d.payload.to_vec(), from, to, d.time_ns.expect("a time")));
    }
    assert_eq!((r.tally().truncated, r.tally().damaged), (0, 0));
    all
}

#[test]
fn a_replayed_capture_of_a_replay_is_the_same_for_every_detector() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: String| dir.path().join(name).display().to_string();
    for kind in &KINDS {
        let original = vector(kind.vector);
        for (way, threads) in [("flat-out", "1"), ("flat-out&preload", "2")] {
            let first = path(format!("{}-{threads}-a.nxs", kind.name));
            let second = path(format!("{}-{threads}-b.nxs", kind.name));
            let capture = path(format!("{}-{threads}.pcapng", kind.name));
            let more = ["--capture", &capture, "--threads", threads];
            let said = say(&strs(&kind.run(&format!("pcap:{original}?{way}"), &first, &more)));
            // The published Multi-Blade capture has gaps of its own.
            let code = said.code;
            assert!(matches!(code, 0 | 3), "{}: {}", kind.name, said.err);
            let s = said.summary();
            let packets = s["counters"]["receive.packets"].as_u64().expect("a number");
            assert!(packets > 0);
            assert_eq!(s["outputs"]["capture"]["packets"], packets, "{s}");
            assert_eq!(said.counter("sink.capture.stamped"), 0);

            let want = datagrams(Path::new(&original));
            assert_eq!(datagrams(Path::new(&capture)), want, "payload, sender, receiver, time");

            let said = say(&strs(&kind.run(&format!("pcap:{capture}?flat-out"), &second, &[])));
            assert_eq!(said.code, code, "{}: {}", kind.name, said.err);
            let events = file_events(&first, kind.name);
            assert!(!events.is_empty(), "{}", kind.name);
            assert_eq!(file_events(&second, kind.name), events, "{}", kind.name);
            for name in ["readouts.count", "events.count", "packets.lost"] {
                let counters = &said.summary()["counters"];
                assert_eq!(counters[name], s["counters"][name], "{} {name}", kind.name);
            }
        }
    }
}

#[test]
fn a_capture_beside_live_events_replays_to_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: String| dir.path().join(name).display().to_string();
    let cases = [
        ("sonde", "udp://0.0.0.0:0"),
        ("multigrid", "udp://127.0.0.1:0"),
        ("multiblade", "udp://[::]:0"),
        ("gdgem", "udp://127.0.0.1:0"),
    ];
    for (kind, (name, listen)) in KINDS.iter().zip(cases) {
        assert_eq!(kind.name, name);
        // As many modules as a simulated detector has by default.
        let geometry = path(format!("{name}.json"));
        let print = ["send", "--to", "udp://127.0.0.1:9", "--source", name, "--print-geometry"];
        let printed = say(&print);
        assert_eq!(printed.code, 0, "{}", printed.err);
        std::fs::write(&geometry, &printed.out).expect("written");
        let simulated = Kind { geometry: None, ..*kind };
        // A trigger in two packets waits for its second one however late that comes.
        let patient = ["--set", "detector.release_ms=60000"];
        let patient = if name == "multigrid" { &patient[..] } else { &[] };
        let geometry = [&["--geometry", geometry.as_str()], patient].concat();
        let live = |number: usize| {
            let capture = path(format!("{name}-{number}.pcapng"));
            let first = path(format!("{name}-{number}.nxs"));
            let more = [&["--capture", &capture][..], &geometry].concat();
            let mut run = Service::start(&strs(&simulated.run(listen, &first, &more)));
            let to = format!("udp://127.0.0.1:{}", run.udp_port());
            let send =
                ["send", "--to", &to, "--source", name, "--rate", "5kpps", "--count", "1500"];
            let before = std::time::SystemTime::now();
            let sent = say(&[&send[..], &["--json"]].concat());
            assert_eq!(sent.code, 0, "{}", sent.err);
            run.interrupt();
            let said = run.end();
            assert_eq!(said.code, 0, "{}", said.err);
            (said, capture, first, to, before)
        };
        // Live, Gd-GEM clusters once nothing has come for a second: a host that pauses so long has shown nothing about events.
        let idle = |said: &Said| name == "gdgem" && said.counter("cluster.idle") > 0;
        let mut tries = (0..5).map(live);
        let (said, capture, first, to, before) = tries
            .find(|made| !idle(&made.0))
            .expect("one of five runs without a pause of a second");
        let second = path(format!("{name}.nxs"));
        assert_eq!(said.summary()["outputs"]["capture"]["packets"], 1500, "{}", said.err);
        assert!(said.err.contains("capture: 1,500 packets"), "{}", said.err);

        let all = datagrams(Path::new(&capture));
        assert_eq!(all.len(), 1500);
        let start = before.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let end = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let (start, end) = (start.as_nanos() as i64, end.expect("after 1970").as_nanos() as i64);
        let mut last = start;
        for (_, from, destination, time) in &all {
            assert!(from.starts_with("127.0.0.1:"), "{from}");
            assert_eq!(*destination, to.strip_prefix("udp://").expect("a URL"));
            assert!((last..=end).contains(time), "{time} is not in {last} to {end}");
            last = *time;
        }
        let said =
            say(&strs(&simulated.run(&format!("pcap:{capture}?flat-out"), &second, &geometry)));
        assert_eq!(said.code, 0, "{}", said.err);
        let events = file_events(&first, name);
        assert!(events.len() > 1500, "{name}: {}", events.len());
        assert_eq!(file_events(&second, name), events, "{name}");
    }
}

#[test]
fn faults_come_before_the_capture_and_a_series_holds_what_the_detector_saw() {
    let dir = tempfile::tempdir().expect("a folder");
    let capture = dir.path().join("run.pcapng").display().to_string();
    let source = format!("pcap:{}?flat-out&repeat=800", vector("sonde/sonde.pcap"));
    let common = ["--detector", "sonde", "--sink", "null", "--web", "off", "--json"];
    let more = ["--fault", "loss=0.1,duplicate=0.1,seed=3", "--capture", &capture];
    let rotate = ["--rotate-size", "1MiB"];
    let said = say(&[&["run", "--source", &source][..], &common, &more, &rotate].concat());
    assert!(matches!(said.code, 0 | 3), "{}", said.err);
    let s = said.summary();
    let files = s["outputs"]["capture"]["files"].as_u64().expect("a number");
    assert!(files > 1, "{s}");
    let delivered = said.counter("fault.delivered");
    assert_eq!(s["outputs"]["capture"]["packets"], delivered);
    assert_eq!(s["balance"], 0);

    let mut whole = Vec::new();
    for n in 1..=files {
        let name = dir.path().join(format!("run-{n:05}.pcapng"));
        whole.extend(std::fs::read(name).expect("a file of the series"));
    }
    let joined = dir.path().join("all.pcapng");
    std::fs::write(&joined, whole).expect("written");
    let source = format!("pcap:{}?flat-out", joined.display());
    let again = say(&[&["run", "--source", &source][..], &common].concat());
    assert_eq!(again.counter("receive.packets"), delivered);
    for name in ["readouts.count", "events.count", "readouts.seq_errors"] {
        assert_eq!(again.counter(name), said.counter(name), "{name}");
    }
}

#[test]
fn workers_share_a_capture_and_each_is_an_interface() {
    let dir = tempfile::tempdir().expect("a folder");
    let capture = dir.path().join("run.pcapng");
    let shown = capture.display().to_string();
    let mut run = Service::start(&[
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--workers",
        "2",
        "--detector",
        "sequence",
        "--sink",
        "null",
        "--web",
        "off",
        "--senders",
        "4",
        "--capture",
        &shown,
        "--json",
    ]);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", "sequence", "--size", "500", "--count", "2000"];
    let children: Vec<_> = (0..4)
        .map(|_| {
            fullcount(&[&send[..], &["--rate", "20kpps"]].concat())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .expect("starts")
        })
        .collect();
    for mut child in children {
        assert!(child.wait().expect("a child").success());
    }
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let received = said.counter("receive.packets");
    assert_eq!(said.counter("sink.capture.written"), received);
    assert_eq!(datagrams(&capture).len() as u64, received);
    let bytes = std::fs::read(&capture).expect("a file");
    let names = bytes.windows(8).filter(|w| w == b"worker 1" || w == b"worker 2").count();
    assert_eq!(names, 2, "an interface each");
}

#[test]
fn what_a_killed_run_has_captured_can_be_replayed() {
    let dir = tempfile::tempdir().expect("a folder");
    let capture = dir.path().join("run.pcapng");
    let shown = capture.display().to_string();
    let common = ["--detector", "sequence", "--sink", "null", "--web", "off", "--json"];
    // It waits for a second sender, which never comes.
    let run = ["run", "--source", "udp://127.0.0.1:0", "--senders", "2", "--capture", &shown];
    let mut run = Service::start(&[&run[..], &common].concat());
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", "sequence", "--size", "500", "--count", "3000"];
    let sent = say(&[&send[..], &["--rate", "20kpps"]].concat());
    assert_eq!(sent.code, 0, "{}", sent.err);
    // The file is not closed: received packets are still in it, a moment later.
    let begun = std::time::Instant::now();
    let packets = || {
        let file = std::fs::File::open(&capture).ok()?;
        let mut r = Datagrams::open(file, None).ok()?;
        let mut n = 0;
        while r.next().ok()?.is_some() {
            n += 1;
        }
        Some(n)
    };
    // The end mark is sent five times.
    while packets() != Some(3005) {
        assert!(begun.elapsed() < service::PATIENCE, "{:?} packets", packets());
        std::thread::yield_now();
    }
    run.child.kill();
    let source = format!("pcap:{shown}?flat-out");
    let said = say(&[&["run", "--source", &source][..], &common].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let got = ["receive.packets", "packets.lost", "pcap.damaged"].map(|n| said.counter(n));
    assert_eq!(got, [3005, 0, 0]);
}

#[test]
fn what_cannot_be_captured_is_refused_before_anything_is_opened() {
    let dir = tempfile::tempdir().expect("a folder");
    let here = |name: &str| dir.path().join(name).display().to_string();
    let (ng, classic) = (here("a.pcapng"), here("a.pcap"));
    let own = here("own.pcapng");
    std::fs::copy(vector("pcap/pcap_ng.pcapng"), &own).expect("copied");
    let (source, dotted) = (format!("pcap:{own}"), here("./own.pcapng"));
    for (arguments, words) in [
        (vec!["--capture", &classic], "ends in .pcapng"),
        (vec!["--rotate-size", "1GiB"], "file"),
        (vec!["--capture", &ng, "--keep", "3"], "output.capture.keep"),
        (vec!["--capture", &ng, "--rotate-size", "1KiB"], "1MiB or more"),
        (vec!["--capture", &ng, "--rotate-time", "1ms"], "1s or more"),
        (vec!["--capture", &ng, "--rotate-size", "1GiB", "--keep", "0"], "1 to 100000"),
        (vec!["--capture", &ng, "--set", "output.capture.buffer=1MiB"], "8MiB to 16GiB"),
        (vec!["--capture", &own, "--source", &source], "this is the same file as source.url"),
        (vec!["--capture", &dotted, "--source", &source], "this is the same file as source.url"),
    ] {
        let said = say(&[&["run", "--web", "off"][..], &arguments].concat());
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
    }
    assert!(!Path::new(&ng).exists());
    // Found when it is opened: exit 1, and the file is as it was.
    let before = std::fs::read(&own).expect("a file");
    let original = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let said = say(&["run", "--web", "off", "--source", &original, "--capture", &own]);
    assert_eq!((said.code, said.err.contains("exists")), (1, true), "{}", said.err);
    assert_eq!(std::fs::read(&own).expect("a file"), before);
}
