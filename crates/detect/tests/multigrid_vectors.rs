//! Golden vectors of Multi-Grid: every file's `expected.json` entry (container, triggers, readouts, hits,
//! counters, pulses, events), the capture as one run, and the inspector's rows. Source:
//! `vectors/multigrid/expected.json`.

use std::path::PathBuf;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::time::{TickLength, Ticks};
use fullcount_detect::conformance;
use fullcount_detect::detector::{Detector, Setup, TimeBase};
use fullcount_detect::hits::PlaneHit;
use fullcount_detect::multigrid::MultigridDetector;
use fullcount_detect::steps::{Builder, Reader};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/multigrid")
}

fn payload(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn expected() -> Value {
    serde_json::from_slice(&payload("expected.json")).unwrap()
}

fn setup(config: &str) -> Setup {
    let geometry = String::from_utf8(payload(&format!("config/{config}"))).unwrap();
    let time = TimeBase { pulses_in_data: true, ..TimeBase::default() };
    Setup { geometry, geometry_path: config.to_owned(), time, ..Setup::default() }
}

fn detector(setup: &Setup) -> MultigridDetector {
    MultigridDetector::new(setup).unwrap()
}

fn ns(ticks: &Value) -> i64 {
    TickLength::new(125, 2).unwrap().to_nanos(Ticks(ticks.as_i64().unwrap())).0
}

/// What one fresh decoder and builder make of packets, `split` of them a batch.
struct Run {
    hits: Vec<PlaneHit>,
    products: Products,
    entries: Entries,
}

fn read(setup: &Setup, packets: &[Vec<u8>], split: usize) -> Run {
    let detector = detector(setup);
    let (mut reader, mut builder) = (detector.reader(), detector.builder());
    let (mut products, mut hits, mut some) = (Products::default(), Vec::new(), Vec::new());
    for part in packets.chunks(split) {
        let batch = Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE)));
        reader.read(&batch, &mut some, &mut products);
        hits.extend_from_slice(&some);
        builder.build(&mut some, &mut products, None);
    }
    reader.flush(Flush::End);
    builder.flush(Flush::End, &mut some, &mut products);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    ledger.register(builder.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    Run { hits, products, entries }
}

/// Published counters by the keys of `expected.json`.
const COUNTERS: [(&str, &str); 19] = [
    ("rx_packets", "rx_packets"),
    ("rx_bytes", "rx_bytes"),
    ("readouts_total", "readouts_total"),
    ("discarded_bytes", "rx_discarded_bytes"),
    ("triggers", "parser_triggers"),
    ("glitch_rejects", "builder_glitch_rejects"),
    ("filter_rejects", "builder_filter_rejects"),
    ("geometry_errors", "builder_geometry_errors"),
    ("hits_total", "hits_total"),
    ("pulses", "pulses"),
    ("hits_time_seq_err", "hits_time_seq_err"),
    ("wire_clusters", "wire_clusters"),
    ("grid_clusters", "grid_clusters"),
    ("events_total", "events_total"),
    ("events_multiplicity_rejects", "events_multiplicity_rejects"),
    ("hits_used", "hits_used"),
    ("events_bad", "events_bad"),
    ("events_geometry_err", "events_geometry_err"),
    ("tx_events", "tx_events"),
];

fn counters(name: &str, entries: &Entries, wanted: &Value) {
    assert_eq!(wanted.as_object().unwrap().len(), COUNTERS.len(), "{name}");
    for (key, counter) in COUNTERS {
        assert_eq!(entries.get(counter), wanted[key].as_u64(), "{name}: {counter}");
    }
}

fn events(wanted: &Value) -> Vec<(i64, u32)> {
    let row = |e: &Value| (ns(&e[0]), e[1].as_u64().unwrap() as u32);
    wanted.as_array().unwrap().iter().map(row).collect()
}

fn sorted(products: &Products) -> Vec<(i64, u32)> {
    let mut events: Vec<_> = products.events.absolute().collect();
    events.sort_unstable();
    events
}

#[test]
fn every_file_gives_its_expected_entry() {
    let expected = expected();
    let files = expected["files"].as_object().unwrap();
    assert_eq!(files.len(), 28);
    for (name, entry) in files {
        let packet = payload(name);
        assert_eq!(entry["bytes"].as_u64(), Some(packet.len() as u64), "{name}");
        let setup = setup(entry["config"].as_str().unwrap());
        let Run { hits, products, entries } = read(&setup, &[packet], 1);
        counters(name, &entries, &entry["counters"]);

        let seen: Vec<Value> = hits
            .iter()
            .map(|h| {
                let plane = match h.plane {
                    PlaneHit::PULSE => 254,
                    plane => 2 * h.module + u16::from(plane),
                };
                json!([h.time, plane, h.coordinate, h.weight])
            })
            .collect();
        assert_eq!(Value::from(seen), entry["hits"], "{name}: hits");

        assert_eq!(sorted(&products), events(&entry["events"]), "{name}: events");
        assert_eq!(Some(products.events.len() as u64), entry["event_count"].as_u64(), "{name}");
        pulses(name, &products, &entry["pulses"]);
        container(name, &entries, entry);
        // Without a step back, what leaves leaves in rising time.
        let order: Vec<_> = products.events.absolute().map(|e| e.0).collect();
        assert!(order.is_sorted(), "{name}");
    }
}

/// Every pulse of the list is a row, once for each time; other rows are references that hold events.
fn pulses(name: &str, products: &Products, wanted: &Value) {
    let mut wanted: Vec<i64> = wanted.as_array().unwrap().iter().map(ns).collect();
    wanted.dedup();
    let rows = &products.events.pulse_ns;
    let own: Vec<i64> = rows.iter().copied().filter(|t| wanted.contains(t)).collect();
    assert_eq!(own, wanted, "{name}: pulses");
}

fn container(name: &str, entries: &Entries, entry: &Value) {
    let wanted = &entry["container"];
    let moved = |class: &str| -> Vec<(String, u64)> {
        let of = entries.iter().filter(|e| e.value > 0);
        let named = of.filter_map(|e| Some((e.info.name.strip_prefix(class)?.to_owned(), e.value)));
        named.collect()
    };
    if wanted.is_null() {
        assert!(moved("errors.").is_empty(), "{name}");
        return;
    }
    let reason = wanted["error"].as_str();
    let errors: Vec<_> = reason.iter().map(|r| ((*r).to_owned(), 1)).collect();
    assert_eq!(moved("errors.container."), errors, "{name}");
    assert_eq!(entries.get("decode.accepted"), Some(u64::from(reason.is_none())), "{name}");
    let tail = wanted["ignored_tail_bytes"].as_u64();
    assert_eq!(entries.get("ignored_tail_bytes"), tail, "{name}");
    assert_eq!(entries.get("triggers.count"), wanted["sub_buffers"].as_u64(), "{name}");
    for error in ["header_words", "word_type", "no_timestamp"] {
        let triggers = entry["triggers"].as_array().unwrap();
        let n = triggers.iter().filter(|t| t["error"] == error).count() as u64;
        assert_eq!(entries.get(&format!("errors.words.{error}")), Some(n), "{name}: {error}");
    }
    let words = entry["triggers"].as_array().unwrap();
    let in_triggers: u64 = words.iter().map(|t| t["discarded_bytes"].as_u64().unwrap()).sum();
    let discarded = wanted["discarded_bytes"].as_u64().unwrap() + in_triggers;
    assert_eq!(entries.get("rx_discarded_bytes"), Some(discarded), "{name}");
}

#[test]
fn the_inspector_shows_triggers_and_readouts_of_the_vectors() {
    let expected = expected();
    for (name, entry) in expected["files"].as_object().unwrap() {
        let mut inspector = detector(&setup(entry["config"].as_str().unwrap())).inspector();
        let shown = inspector.inspect(&payload(name), Origin::NONE);
        let reason = entry["container"]["error"].as_str();
        assert_eq!(shown.error, reason.map(|r| ("container", r)), "{name}");
        let column = |name: &str| shown.columns.iter().position(|&c| c == name).unwrap();
        let [trigger, time, hit] = ["trigger", "time", "hit"].map(column);
        let field = |key: &str| shown.header.iter().find(|h| h.0 == key).map(|h| h.1.as_str());
        for (i, wanted) in entry["triggers"].as_array().unwrap().iter().enumerate() {
            let rows: Vec<_> = shown.rows.iter().filter(|r| r[trigger] == i as i64 + 1).collect();
            assert!(rows.iter().all(|r| Some(r[time]) == wanted["time"].as_i64()), "{name} {i}");
            let pulses = rows.iter().filter(|r| r[column("plane")] == 254).count();
            assert_eq!(pulses as u64, wanted["pulses"].as_u64().unwrap(), "{name} {i}");
            let readouts: Vec<Value> = rows
                .iter()
                .filter(|r| r[column("plane")] != 254)
                .map(|r| ["bus", "channel", "adc", "time_diff"].map(|c| r[column(c)]))
                .map(|r| json!(r))
                .collect();
            assert_eq!(Value::from(readouts), wanted["readouts"], "{name} {i}");
            if let Some(error) = wanted["error"].as_str() {
                let text = format!("{} ({error})", i + 1);
                assert!(field("refused_triggers").unwrap().contains(&text), "{name}: {text}");
            }
        }
        let hits = shown
            .rows
            .iter()
            .filter(|r| r[hit] == 1)
            .map(|r| json!([r[time], r[column("plane")], r[column("coordinate")]]));
        let wanted = entry["hits"].as_array().unwrap().iter().map(|h| json!([h[0], h[1], h[2]]));
        assert!(hits.eq(wanted), "{name}: hits");
    }
}

fn all_packets(expected: &Value) -> Vec<Vec<u8>> {
    let order = expected["pcap"]["order"].as_array().unwrap();
    order.iter().map(|name| payload(name.as_str().unwrap())).collect()
}

#[test]
fn the_capture_is_one_run_however_it_is_batched() {
    let expected = expected();
    let pcap = &expected["pcap"];
    let packets = all_packets(&expected);
    let setup = setup(pcap["config"].as_str().unwrap());
    let mut first = None;
    for split in [1, 2, 5, 27] {
        let Run { products, entries, .. } = read(&setup, &packets, split);
        counters("pcap", &entries, &pcap["counters"]);
        assert_eq!(sorted(&products), events(&pcap["events_sorted"]));
        assert_eq!(entries.get("pulses.given"), pcap["pulse_count"].as_u64());
        let order: Vec<_> = products.events.absolute().collect();
        assert_eq!(*first.get_or_insert_with(|| order.clone()), order, "the order is the same too");
    }
}

fn conform(
    options: &str,
    time: TimeBase,
    damaged: usize,
    seed: u64,
) -> conformance::ConformanceReport {
    let expected = expected();
    let base = setup("three_modules_mg24.json");
    let setup = Setup { options: options.to_owned(), time, ..base };
    let packets: Vec<_> =
        all_packets(&expected).into_iter().map(|bytes| (bytes, Origin::NONE)).collect();
    let kind = &fullcount_detect::multigrid::Multigrid;
    conformance::check(kind, &setup, &packets, damaged, seed).unwrap()
}

#[test]
fn conformance_with_reference_blocks_and_with_pulses() {
    assert_eq!(conform("", TimeBase::default(), 20_000, 1).events, 105);
    let time = TimeBase { pulses_in_data: true, ..TimeBase::default() };
    assert_eq!(conform("max_waiting = 256\nglitch_limit = 200", time, 20_000, 2).events, 105);
}

#[test]
fn conformance_with_a_spoofed_time_filters_and_replay_records() {
    let kind = &fullcount_detect::multigrid::Multigrid;
    let expected = expected();
    let packets: Vec<_> =
        all_packets(&expected).into_iter().map(|bytes| (bytes, Origin::NONE)).collect();
    let mut spoofed = setup("one_module_filters.json");
    spoofed.geometry =
        spoofed.geometry.replace("\"spoof_high_time\": false", "\"spoof_high_time\": true");
    assert!(spoofed.geometry.contains("true"));
    assert!(conformance::check(kind, &spoofed, &packets, 10_000, 3).unwrap().events > 0);
    let replay = setup("three_modules_replay.json");
    let one = payload("syn_replay_5_records.bin");
    let mut shifter = detector(&replay).shifter().unwrap();
    shifter.learn(&one, Origin::NONE);
    let moved = |pass| {
        let mut packet = one.clone();
        shifter.shift(&mut packet, Origin::NONE, pass);
        (packet, Origin::NONE)
    };
    let records: Vec<_> = (0..40).map(moved).collect();
    assert_eq!(conformance::check(kind, &replay, &records, 10_000, 4).unwrap().events, 40);
}
