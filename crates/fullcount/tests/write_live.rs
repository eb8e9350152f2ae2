//! Live detectors whose packets have no absolute time, at a million events a second into a real Kafka, and a run of the
//! file writer by the recipe of `docs/write.md`: every event between start and stop is in the file, with a time within
//! 1 ms of the host's clock.
//!
//! The expected events are read from the topic by a separate consumer. The expected times come from a capture of the
//! run: the kernel's receive time of the packet that brought the event, which the simulated detector sends when its
//! last readout has been made (`docs/simulators.md`). The packet of an event is found from the simulator's rows of
//! truth, or for SoNDe from the packet's entries, read here.
//!
//! Needs Java and the jars that `cargo xtask test` has fetched; without them it is skipped with a message, and fails
//! with CI=true.

use crate::recipe;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::recipe::{Facility, Taken, json_in, wait_for};
use crate::service::{Said, Service, say};
use fullcount_io::pcap::Datagrams;
use fullcount_sim::Traffic;
use fullcount_sim::multiblade::{MultiBladeSetup, SimulatedMultiBlade};
use fullcount_sim::multigrid::{MultiGrid, MultiGridSetup};
use hdf5_metno::File;
use serde_json::Value;

/// Events per second.
const RATE: f64 = 1e6;
/// The run of the file writer.
const SECONDS: i64 = 5;
/// How far a time may be from the host's clock, ns.
const NEAR_NS: i64 = 1_000_000;
/// A host that shares its CPUs sends late now and then; within this time it has sent at once, ns.
const WINDOW_NS: i64 = 250_000_000;
/// The longest pulse, ns: Multi-Grid sends 14 of them each second. Without known pulses, events belong to blocks of 2²⁶ ns, which are
/// 67 ms.
const PULSE_NS: i64 = 71_428_572;
/// Tries of a detector: a host that is too busy to receive everything has shown nothing about times.
const TRIES: usize = 3;

/// Which packet brought each event, by pixel in the order of time; or, where a packet's events are all in order, how many
/// events each packet has.
enum Brought {
    ByPixel(HashMap<i32, Vec<u32>>),
    InOrder(Vec<u32>),
}

/// The rows of truth of the first `packets` packets of the detector that `send` simulates.
fn simulated(mut traffic: impl Traffic, packets: usize) -> Brought {
    let rows: Arc<Mutex<HashMap<i32, Vec<u32>>>> = Arc::default();
    let into = rows.clone();
    assert!(traffic.watch(Box::new(move |row| {
        if row.expected() {
            into.lock().unwrap().entry(row.pixel as i32).or_default().push(row.packet as u32);
        }
    })));
    while (traffic.totals().packets as usize) < packets {
        let left = packets - traffic.totals().packets as usize;
        traffic.next_train(left, 0).expect("it has no end");
    }
    drop(traffic);
    Brought::ByPixel(Arc::into_inner(rows).expect("the only one").into_inner().unwrap())
}

fn brought(detector: &str, packets: &[(i64, Vec<u8>)]) -> Brought {
    let neutrons_per_s = RATE;
    match detector {
        "multiblade" => {
            let setup = MultiBladeSetup { neutrons_per_s, ..MultiBladeSetup::default() };
            simulated(SimulatedMultiBlade::new(&setup).unwrap(), packets.len())
        }
        "multigrid" => {
            let setup = MultiGridSetup { neutrons_per_s, ..MultiGridSetup::default() };
            simulated(MultiGrid::new(&setup).unwrap(), packets.len())
        }
        // One module: entries and packets are in the order of time. Entry count after type, number, time and length.
        _ => Brought::InOrder(packets.iter().map(|(_, p)| u32::from(p[10])).collect()),
    }
}

/// Kernel's receive time and payload of each captured packet.
fn captured(path: &str) -> Vec<(i64, Vec<u8>)> {
    let mut all = Vec::new();
    let file = std::fs::File::open(path).expect("a capture");
    let mut datagrams = Datagrams::open(file, None).expect("a capture");
    while let Some(d) = datagrams.next().expect("readable") {
        all.push((d.time_ns.expect("a time"), d.payload.to_vec()));
    }
    all
}

/// Time of the newest event of each packet, ns since 1970; `None` of a packet without one.
fn newest(topic: &[Taken], brought: Brought, packets: usize) -> Vec<Option<i64>> {
    let mut newest: Vec<Option<i64>> = vec![None; packets];
    let mut add = |packet: u32, time: i64| {
        let newest = &mut newest[packet as usize];
        *newest = (*newest).max(Some(time));
    };
    let events = topic.iter().flat_map(|message| message.events.iter().copied());
    match brought {
        Brought::InOrder(counts) => {
            let mut times: Vec<i64> = events.map(|(time, _)| time).collect();
            times.sort_unstable();
            let wanted: usize = counts.iter().map(|&n| n as usize).sum();
            assert_eq!(times.len(), wanted, "every entry is an event");
            let mut end = 0;
            for (packet, n) in counts.into_iter().enumerate() {
                end += n as usize;
                add(packet as u32, times[end - 1]);
            }
        }
        Brought::ByPixel(made) => {
            let mut found: HashMap<i32, Vec<i64>> = HashMap::new();
            for (time, pixel) in events {
                found.entry(pixel).or_default().push(time);
            }
            let found_in_all: usize = found.values().map(Vec::len).sum();
            let wanted: usize = made.values().map(Vec::len).sum();
            assert_eq!(found_in_all, wanted, "every neutron is an event");
            for (pixel, packets) in made {
                let mut times = found.remove(&pixel).unwrap_or_default();
                assert_eq!(times.len(), packets.len(), "pixel {pixel}");
                times.sort_unstable();
                packets.into_iter().zip(times).for_each(|(packet, time)| add(packet, time));
            }
        }
    }
    newest
}

/// The newest event of a packet was made just before the packet came.
fn assert_host_clock(detector: &str, packets: &[(i64, Vec<u8>)], newest: &[Option<i64>]) {
    let first = packets.first().expect("packets").0;
    // Receive time less event time: the least of each window, and of all.
    let mut windows: HashMap<i64, i64> = HashMap::new();
    let mut delays = Vec::with_capacity(packets.len());
    for ((received, _), newest) in packets.iter().zip(newest) {
        let Some(newest) = newest else { continue };
        let delay = received - newest;
        delays.push(delay);
        let least = windows.entry((received - first) / WINDOW_NS).or_insert(delay);
        *least = delay.min(*least);
    }
    delays.sort_unstable();
    let part = |of: usize| delays[(delays.len() - 1) * of / 100];
    let worst = windows.values().max().expect("packets with events");
    println!(
        "{detector}: receive time less event time of {} packets, µs: least {}, 1 % {}, median {}, 99 % {}, most {}; the \
         least of {} ms is at most {}",
        delays.len(),
        part(0) / 1000,
        part(1) / 1000,
        part(50) / 1000,
        part(99) / 1000,
        part(100) / 1000,
        WINDOW_NS / 1_000_000,
        worst / 1000
    );
    assert!(part(0) >= -NEAR_NS, "{detector}: an event {} ns after its packet came", -part(0));
    assert!(*worst <= NEAR_NS, "{detector}: events are {worst} ns before their packets");
}

/// (Time of its pulse, its own) of each event of a file, ns since 1970.
fn in_file(path: &Path, bank: &str) -> Vec<(i64, i64)> {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let group = file.group(&format!("/entry/instrument/{bank}/{bank}_events")).unwrap();
    let offsets = group.dataset("event_time_offset").unwrap().read_raw::<i32>().unwrap();
    let index = group.dataset("event_index").unwrap().read_raw::<u64>().unwrap();
    let zeros = group.dataset("event_time_zero").unwrap().read_raw::<u64>().unwrap();
    let ends = index.iter().skip(1).copied().chain([offsets.len() as u64]);
    let mut times = Vec::with_capacity(offsets.len());
    for ((&zero, &first), end) in zeros.iter().zip(&index).zip(ends) {
        let own = &offsets[first as usize..end as usize];
        times.extend(own.iter().map(|&offset| (zero as i64, zero as i64 + i64::from(offset))));
    }
    assert_eq!(times.len(), offsets.len(), "every event belongs to a pulse");
    times
}

/// The results of a live run and of the simultaneous run of the file writer.
struct Live {
    run: Said,
    sent: Said,
    capture: String,
    wrdn: Value,
    writer: (Option<i32>, String, Value),
}

/// `run` from a socket, `send` to it, and the writer's run in the middle of it.
fn live(facility: &Facility, detector: &str, name: &str) -> Live {
    let topic = format!("{name}_detector");
    facility.topic(&topic);
    let geometry = facility.path(&format!("{name}-geometry"));
    let print = ["send", "--to", "udp://127.0.0.1:9", "--source", detector, "--print-geometry"];
    let printed = say(&print);
    assert_eq!(printed.code, 0, "{}", printed.err);
    // A single SoNDe module needs none.
    let file = ["--geometry", geometry.as_str()];
    let file = if detector == "sonde" { &[][..] } else { &file[..] };
    std::fs::write(&geometry, &printed.out).unwrap();
    let structure = facility.structure(name, &[&["--detector", detector], file].concat());
    let control = facility.control();
    let writer = facility.writer(&["--files", "1"]);

    let (to, spool) = (facility.url(&topic), facility.path(&format!("{name}-spool")));
    let capture = facility.path(&format!("{name}.pcapng"));
    let named = format!("output.kafka.source_name={name}");
    let mut all = vec!["run", "--source", "udp://127.0.0.1:0", "--detector", detector];
    all.extend(file);
    all.extend(["--kafka", &to, "--spool", &spool, "--set", &named, "--capture", &capture]);
    all.extend(["--set", "output.kafka.drain=50s", "--idle-exit", "2s", "--web", "off", "--json"]);
    let mut run = Service::start(&all);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", detector, "--rate", "1Mev/s", "--json"];
    let send = Service::start(&send);
    // Events come before the run starts, and after its stop.
    facility.wait_for_events(&topic, 0);
    let length = format!("{SECONDS}s");
    let order = facility.run(name, &structure, &["--duration", &length]).end();
    assert_eq!(order.code, 0, "{}", order.err);
    // The order ends when its stop is over and confirmed.
    facility.wait_for_events(&topic, recipe::now_ns());
    send.interrupt();
    let sent = send.end();
    let run = run.end();
    let of_run = |message: &Value| message["job_id"] == name;
    let wrdn = wait_for(&control, "wrdn", of_run);
    let output = writer.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Live { run, sent, capture, wrdn, writer: (output.status.code(), errors, summary) }
}

fn check(facility: &Facility, detector: &str, name: &str, live: Live) {
    assert_eq!(live.run.code, 0, "{}", live.run.err);
    let Live { wrdn, capture, writer: (code, errors, summary), .. } = live;
    assert_eq!(wrdn["error_encountered"], false, "{wrdn}");
    let metadata = json_in(&wrdn, "metadata");
    assert_eq!(metadata["streams_outside"], 0, "{metadata}");
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(summary["balance_difference"], 0);
    let ms = |key: &str| metadata[key].as_i64().expect("ms since 1970") * 1_000_000;
    let (start, stop) = (ms("start_time"), ms("stop_time"));
    assert!((stop - start - SECONDS * 1_000_000_000).abs() < 2_000_000_000, "{start} to {stop}");

    let topic = facility.taken(&format!("{name}_detector"));
    let all: usize = topic.iter().map(|message| message.events.len()).sum();
    let published = live.run.summary()["outputs"]["kafka"]["events"].as_u64();
    assert_eq!(published, Some(all as u64), "the topic has all that the run published");

    // By pulse, as the writer selects.
    let file = in_file(&facility.data().join(format!("{name}.nxs")), detector);
    let taken = topic.iter().filter(|message| (start..=stop).contains(&message.time));
    let taken: usize = taken.map(|message| message.events.len()).sum();
    println!("{detector}: {taken} of {all} events are of pulses between start and stop");
    // The stop is a separate order: events of the ms until the writer had it stay in the file, as its answer says.
    let behind = file.iter().filter(|event| event.0 > stop).count();
    println!("{detector}: {behind} events behind the stop were in the file when it came");
    assert!(file.iter().all(|event| event.0 >= start), "{detector}: nothing of before the start");
    let wanted = "all events between start and stop are in the file";
    assert_eq!(file.len() - behind, taken, "{detector}: {wanted}");
    // By event: at the start some may be of a pulse or block that began before it, which ends with the first one of the run.
    let first = topic.iter().map(|message| message.time).filter(|time| *time >= start).min();
    let first = first.expect("a pulse of the run");
    assert!(first - start <= PULSE_NS + NEAR_NS, "{detector}: {first} ns, {start} ns");
    let within = |from: i64, time: &i64| (from..=stop).contains(time);
    for (from, what) in [(start, "start"), (first, "the first pulse")] {
        let on_topic = topic.iter().flat_map(|m| m.events.iter().map(|e| e.0));
        let on_topic = on_topic.filter(|time| within(from, time)).count();
        let written = file.iter().filter(|event| within(from, &event.1)).count();
        println!(
            "{detector}: {written} of {on_topic} events between {what} and stop are in the file"
        );
        assert!(from == start || written == on_topic, "{detector}: {written} of {on_topic}");
    }
    let least = (SECONDS - 2) as f64 * RATE;
    assert!(file.len() as f64 > least, "{detector}: {} events in {SECONDS} s", file.len());

    let packets = captured(&capture);
    let brought = brought(detector, &packets);
    let newest = newest(&topic, brought, packets.len());
    assert_host_clock(detector, &packets, &newest);
}

fn scenario(detector: &str) {
    let topics = ["pool", "control", "logs"];
    let Some(facility) = Facility::new(&topics) else { return };
    for number in 1..=TRIES {
        let name = format!("{detector}-{number}");
        let live = live(&facility, detector, &name);
        assert!(live.sent.code == 0, "{}", live.sent.err);
        let sent = live.sent.summary()["packets"]["sent"].as_u64();
        let received = live.run.summary()["outputs"]["capture"]["packets"].as_u64();
        if sent == received {
            return check(&facility, detector, &name, live);
        }
        println!("{name}: {received:?} of {sent:?} packets came; once more");
    }
    panic!("{detector}: this host did not receive all packets in any of {TRIES} tries");
}

#[test]
fn live_multiblade_is_in_the_file_with_the_hosts_time() {
    scenario("multiblade");
}

#[test]
fn live_multigrid_is_in_the_file_with_the_hosts_time() {
    scenario("multigrid");
}

#[test]
fn live_sonde_is_in_the_file_with_the_hosts_time() {
    scenario("sonde");
}
