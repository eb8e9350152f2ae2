//! The coincidence detectors make the same events from the same packets in every case: from a capture or over UDP, on
//! one thread or two, and Multi-Blade on one worker or several; and SoNDe with any instruction set.
//!
//! The packets are simulated, with noise and pile-up; batches differ from case to case. Batch sizes one
//! by one are tried by `fullcount_detect::conformance`.

use std::net::UdpSocket;
use std::path::Path;

use crate::service::{Said, Service, capture, say, vector};
use fullcount_sim::Traffic;
use fullcount_sim::gdgem::{GdGemSetup, SimulatedGdGem};
use fullcount_sim::multiblade::{MultiBladeSetup, SimulatedMultiBlade};
use fullcount_sim::multigrid::{MultiGrid, MultiGridSetup};
use serde_json::Value;

/// Everything that a simulator can add.
const NOISE: &str = "dark=10%,bad=5%,coincidence=2%,packet=3%,pileup=random";

fn packets(traffic: &mut dyn Traffic, count: usize) -> Vec<Vec<u8>> {
    let mut all = vec![];
    while all.len() < count {
        let train = traffic.next_train(count - all.len(), 1_700_000_000_000_000_000);
        all.extend(train.expect("no end was set").each().map(<[u8]>::to_vec));
    }
    all
}

fn multiblade(noise: &str, count: usize) -> (String, Vec<Vec<u8>>) {
    let noise = noise.parse().expect("noise");
    let setup = MultiBladeSetup { noise, prepared_bytes: 1 << 20, ..MultiBladeSetup::default() };
    let mut traffic = SimulatedMultiBlade::new(&setup).expect("the prototype");
    let geometry = SimulatedMultiBlade::configuration(setup.cassettes).expect("the prototype");
    (geometry, packets(&mut traffic, count))
}

fn multigrid(count: usize) -> (String, Vec<Vec<u8>>) {
    let noise = NOISE.parse().expect("noise");
    let setup = MultiGridSetup { noise, prepared_bytes: 1 << 20, ..MultiGridSetup::default() };
    let mut traffic = MultiGrid::new(&setup).expect("three modules");
    (MultiGrid::configuration(setup.modules), packets(&mut traffic, count))
}

fn gdgem(count: usize) -> (String, Vec<Vec<u8>>) {
    let noise = NOISE.parse().expect("noise");
    let setup = GdGemSetup { noise, prepared_bytes: 1 << 20, ..GdGemSetup::default() };
    let mut traffic = SimulatedGdGem::new(&setup).expect("four sectors");
    (SimulatedGdGem::configuration(), packets(&mut traffic, count))
}

/// (time, pixel) of every event of a file, sorted.
fn events(detector: &str, path: &str) -> Vec<(i64, i64)> {
    let f = hdf5_metno::File::open(path).expect("opens after a proper close");
    let group = format!("entry/instrument/{detector}/{detector}_events");
    let e = f.group(&group).expect("the event group");
    let ids = e.dataset("event_id").unwrap().read_raw::<i32>().unwrap();
    let offsets = e.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let zeros = e.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let index = e.dataset("event_index").unwrap().read_raw::<i64>().unwrap();
    let pulse_of = |i: usize| index.partition_point(|&first| first as usize <= i) - 1;
    let event = |i: usize| (zeros[pulse_of(i)] as i64 + i64::from(offsets[i]), i64::from(ids[i]));
    let mut all: Vec<_> = (0..ids.len()).map(event).collect();
    all.sort_unstable();
    all
}

/// What reader and builder of a detector counted: the counters of its section of `docs/counters.md`.
fn counted(detector: &str, said: &Said) -> Vec<(String, Value)> {
    let summary = said.summary();
    assert_eq!(summary["balance"], 0, "{}", said.err);
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
    let text = std::fs::read_to_string(document).expect("the document");
    let section = text.split("\n## ").find_map(|s| s.strip_prefix(detector)).expect("a section");
    let names = section.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next());
    let value = |name: &str| summary["counters"][name].clone();
    let all: Vec<_> = names.map(|name| (name.to_owned(), value(name))).collect();
    assert!(all.iter().filter(|(_, v)| v.as_u64() > Some(0)).count() > 10, "{all:?}");
    all
}

/// Events, and counters by name.
type Made = (Vec<(i64, i64)>, Vec<(String, Value)>);

/// How a run is made: its options, and its sender; a run from a file has none.
type Feed<'a> = &'a dyn Fn(u16);

/// Events and counters of one run.
fn made(folder: &Path, detector: &str, options: &[&str], feed: Option<Feed<'_>>) -> Made {
    let file = folder.join("events.nxs").display().to_string();
    let _ = std::fs::remove_file(&file);
    let geometry = folder.join(format!("{detector}.json")).display().to_string();
    let head = ["run", "--detector", detector, "--geometry", &geometry, "--nexus", &file];
    // The detector's own times, live as well.
    let words = [&head[..], &["--epoch", "0", "--web", "off", "--json"], options].concat();
    let said = match feed {
        None => say(&words),
        Some(feed) => {
            let mut run = Service::start(&words);
            feed(run.udp_port());
            // A loopback socket keeps what it accepted: the drain at the end reads it all.
            run.interrupt();
            run.end()
        }
    };
    // Broken packets are refused, and their events are missing.
    assert!(matches!(said.code, 0 | 3), "{}", said.err);
    (events(detector, &file), counted(detector, &said))
}

#[test]
fn a_capture_and_udp_give_the_same_with_one_thread_and_two() {
    for (detector, (geometry, packets)) in
        [("multigrid", multigrid(1500)), ("multiblade", multiblade(NOISE, 1500))]
    {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join(format!("{detector}.json")), geometry).expect("written");
        let capture = capture(dir.path(), detector, &packets);
        let (source, file) = (format!("pcap:{capture}"), format!("pcap:{capture}?flat-out"));
        let send = |port: u16| {
            let to = format!("udp://127.0.0.1:{port}");
            let said = say(&["send", "--to", &to, "--source", &source, "--json"]);
            assert_eq!((said.code, said.summary()["packets"]["sent"].as_u64()), (0, Some(1500)));
        };
        // A Multi-Grid trigger may come in two packets: no pause on this host may part them.
        let more: &[&str] = match detector {
            "multigrid" => &["--pulse", "data", "--set", "detector.release_ms=60000"],
            _ => &[],
        };
        let mut ways = vec![];
        for threads in ["1", "2"] {
            let options = [more, &["--threads", threads, "--source"]].concat();
            let from_file = [&options[..], &[&file]].concat();
            ways.push(made(dir.path(), detector, &from_file, None));
            let live = "udp://127.0.0.1:0?receive_buffer=64MiB";
            let over_udp = [&options[..], &[live]].concat();
            ways.push(made(dir.path(), detector, &over_udp, Some(&send)));
        }
        let (first, others) = ways.split_first().expect("four ways");
        assert!(first.0.len() > 5000, "{detector}: {} events", first.0.len());
        for way in others {
            assert_eq!(first.1, way.1, "{detector}");
            assert!(first.0 == way.0, "{detector}: other events");
        }
    }
}

/// A track's hits come from several FECs, and clustering looks across packets: the whole run decides, not the way it came.
#[test]
fn gdgem_from_a_capture_and_over_udp_is_the_same_on_any_threads() {
    let (geometry, packets) = gdgem(300);
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("gdgem.json"), geometry).expect("written");
    let capture = capture(dir.path(), "gdgem", &packets);
    let (source, file) = (format!("pcap:{capture}"), format!("pcap:{capture}?flat-out"));
    let send = |port: u16| {
        let to = format!("udp://127.0.0.1:{port}");
        let said = say(&["send", "--to", &to, "--source", &source, "--json"]);
        assert_eq!((said.code, said.summary()["packets"]["sent"].as_u64()), (0, Some(300)));
    };
    let idle =
        |way: &Made| way.1.iter().any(|(name, n)| name == "cluster.idle" && n.as_u64() > Some(0));
    let mut first: Option<Made> = None;
    for (threads, build_threads) in [("1", "1"), ("2", "1"), ("1", "2"), ("2", "2")] {
        let options = ["--threads", threads, "--build-threads", build_threads];
        let options = [&options[..], &["--set", "detector.one_picture=true", "--source"]].concat();
        let from_file = made(dir.path(), "gdgem", &[&options[..], &[&file]].concat(), None);
        let live = [&options[..], &["udp://127.0.0.1:0?receive_buffer=64MiB"]].concat();
        // Live, hits are clustered once nothing has come for a second. A host that pauses so long between two packets has shown
        // nothing about events: then it is tried again.
        let over_udp = (0..5)
            .map(|_| made(dir.path(), "gdgem", &live, Some(&send)))
            .find(|way| !idle(way))
            .expect("one of five runs without a pause of a second");
        for way in [from_file, over_udp] {
            let first = first.get_or_insert_with(|| way.clone());
            assert!(first.0.len() > 1000, "{} events", first.0.len());
            assert_eq!(first.1, way.1, "{threads} threads, {build_threads} build threads");
            assert!(first.0 == way.0, "{threads}, {build_threads}: other events");
        }
    }
}

/// Sockets with neighbouring addresses and one port: neighbours go to different workers.
fn neighbours(count: u8) -> Vec<UdpSocket> {
    for _ in 0..100 {
        let first = UdpSocket::bind(("127.0.0.11", 0)).expect("a port");
        let port = first.local_addr().expect("bound").port();
        let others =
            (1..count).map(|i| UdpSocket::bind((std::net::Ipv4Addr::new(127, 0, 0, 11 + i), port)));
        if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
            return [first].into_iter().chain(others).collect();
        }
    }
    panic!("no port that is free at {count} addresses");
}

#[test]
fn multiblade_on_several_workers_is_multiblade_on_one() {
    let (geometry, mut packets) = multiblade("dark=10%,bad=5%,coincidence=2%,pileup=random", 1500);
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("multiblade.json"), geometry).expect("written");
    // Each digitiser sends separately, with its own numbering.
    let digitiser = |p: &[u8]| u32::from_le_bytes([p[16], p[17], p[18], p[19]]);
    let mut numbers: Vec<(u32, u32)> = vec![];
    for packet in &mut packets {
        let id = digitiser(packet);
        let at = numbers.iter().position(|n| n.0 == id).unwrap_or_else(|| {
            numbers.push((id, 0));
            numbers.len() - 1
        });
        packet[26..30].copy_from_slice(&numbers[at].1.to_le_bytes());
        numbers[at].1 += 1;
    }
    assert_eq!(numbers.len(), 6, "the prototype's digitisers");
    let sockets = neighbours(6);
    let send = |port: u16| {
        for packet in &packets {
            let of = numbers.iter().position(|n| n.0 == digitiser(packet)).expect("known");
            sockets[of].send_to(packet, ("127.0.0.1", port)).expect("sent");
        }
    };
    let mut first = None;
    for (workers, threads) in
        [("1", "1"), ("2", "1"), ("3", "1"), ("6", "1"), ("1", "2"), ("3", "2")]
    {
        let source = "udp://127.0.0.1:0?receive_buffer=64MiB";
        let options = ["--source", source, "--workers", workers, "--threads", threads];
        let way = made(dir.path(), "multiblade", &options, Some(&send));
        let count = |name: &str| way.1.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
        assert_eq!(count("readouts.seq_errors"), Some(0.into()), "{workers} workers");
        assert!(way.0.len() > 5000, "{} events", way.0.len());
        let first = first.get_or_insert_with(|| way.clone());
        assert_eq!(first.1, way.1, "{workers} workers, {threads} threads");
        assert!(first.0 == way.0, "{workers} workers, {threads} threads: other events");
    }
}

/// SoNDe's capture through each transport of SPEAD: what carries a datagram changes nothing that it holds.
#[test]
fn sonde_over_spead_makes_the_same_events_as_over_udp() {
    let dir = tempfile::tempdir().unwrap();
    let capture = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let mut first = None;
    // The name of the item, and none: the first item of a heap.
    for (number, (scheme, keys)) in [
        ("udp", "?receive_buffer=64MiB"),
        ("spead+udp", ""),
        ("spead+udp", "?item=readout"),
        ("spead+tcp", ""),
        ("spead+tcp", "?framing=heap&item=0x2000"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = dir.path().join(format!("{number}.nxs")).display().to_string();
        let source = format!("{scheme}://127.0.0.1:0{keys}");
        let head = ["run", "--source", &source, "--detector", "sonde", "--nexus", &file];
        let mut run =
            Service::start(&[&head[..], &["--epoch", "0", "--web", "off", "--json"]].concat());
        let to = match scheme {
            "udp" => format!("udp://127.0.0.1:{}", run.udp_port()),
            _ => format!("{scheme}://127.0.0.1:{}{keys}", run.udp_port()),
        };
        let sent = say(&["send", "--source", &capture, "--to", &to, "--json"]);
        assert_eq!(sent.code, 0, "{to}: {}", sent.err);
        if scheme == "udp" {
            // A loopback socket keeps what it accepted: the drain at the end reads it all. Heaps end by their stop.
            run.interrupt();
        }
        let ran = run.end();
        assert_eq!(ran.code, 0, "{source}: {}", ran.err);
        assert_eq!(ran.counter("receive.packets"), 21, "{source}");
        let packets = ran.summary()["packets"]["accepted"].clone();
        let way = (events("sonde", &file), counted("sonde", &ran), packets);
        assert!(way.0.len() > 400, "{source}: {} events", way.0.len());
        let first = first.get_or_insert_with(|| way.clone());
        assert_eq!((&first.1, &first.2), (&way.1, &way.2), "{source}");
        assert!(first.0 == way.0, "{source}: other events");
    }
}

/// The sets that this processor has, as the program says.
fn instructions() -> Vec<String> {
    let told = say(&["--version", "--verbose"]);
    assert_eq!(told.code, 0, "{}", told.err);
    let line = told.out.lines().find_map(|l| l.strip_prefix("instructions: ")).expect("a line");
    let (used, list) = line.split_once(" (this processor has ").expect("what there is");
    let all: Vec<String> = list.split(';').next().unwrap().split(", ").map(str::to_owned).collect();
    assert_eq!(all.last().map(String::as_str), Some(used), "the largest: {line}");
    assert_eq!(all[0], "portable", "{line}");
    all
}

#[test]
fn sonde_makes_the_same_events_with_whatever_instructions() {
    let dir = tempfile::tempdir().unwrap();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let run = |name: &str| {
        let file = dir.path().join(format!("{name}.nxs")).display().to_string();
        let set = format!("engine.instructions={name}");
        let flags = ["--detector", "sonde", "--nexus", &file, "--web", "off", "--json"];
        let said = say(&[&["run", "--source", &source, "--set", &set][..], &flags].concat());
        assert_eq!(said.code, 0, "{name}: {}", said.err);
        (events("sonde", &file), counted("sonde", &said), said.err)
    };
    let names = instructions();
    let largest = names.last().expect("portable at least");
    let (reference, counters, told) = run("auto");
    assert!(!reference.is_empty());
    let says = |told: &str, name: &str| told.lines().any(|l| l == format!("instructions {name}"));
    assert!(says(&told, largest), "{told}");
    for name in &names {
        let (events, counted, told) = run(name);
        assert!(events == reference && counted == counters, "{name}");
        assert!(says(&told, name), "{told}");
    }
}

#[test]
fn instructions_that_are_not_there_are_refused_with_those_that_are() {
    let there = instructions().join(", ");
    for wrong in ["x86-64-v9", "AVX2", "native"] {
        let set = format!("engine.instructions={wrong}");
        let said = say(&["run", "--print-config", "--set", &set]);
        let sentence =
            format!("engine.instructions = {wrong}: auto, or one that this processor has: {there}");
        assert!(said.code == 2 && said.err.contains(&sentence), "{}", said.err);
    }
    let said = say(&["lab", "detectors", "--instructions", "x86-64-v9"]);
    assert!(said.code == 2 && said.err.contains("instructions = x86-64-v9"), "{}", said.err);
    assert_eq!(say(&["--verbose"]).code, 2, "only with --version");
}
