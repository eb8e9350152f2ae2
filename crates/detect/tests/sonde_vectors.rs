//! Golden vectors of SoNDe: every file's `expected.json` entry, the capture as one stream, the inspector's
//! rows, and the published counters. Source: `vectors/sonde/expected.json`.

use std::path::PathBuf;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::{Products, Want};
use fullcount_core::time::{Nanos, PulseGrid, TickLength};
use fullcount_detect::conformance;
use fullcount_detect::detector::{Detector, Setup, Threads, TimeBase, builtin};
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sonde")
}

fn payload(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn expected() -> Value {
    serde_json::from_slice(&payload("expected.json")).unwrap()
}

fn detector(setup: &Setup) -> Box<dyn Detector> {
    builtin().configure("sonde", setup).unwrap()
}

/// A fresh decoder reads the packets in order.
fn read(setup: &Setup, packets: &[Vec<u8>]) -> (Products, Entries) {
    let want = Want { hits: true, ..Want::default() };
    let mut decoder = detector(setup).decoder(want, &Threads::of(1)).unwrap();
    let mut products = Products { want, ..Products::default() };
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    decoder.decode(Some(&batch), None, &mut products);
    decoder.finish(&mut products);
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    (products, entries)
}

fn events(entry: &Value) -> Vec<(i64, u32, u16)> {
    let number = |v: &Value| v.as_i64().unwrap();
    let row = |e: &Value| (number(&e[0]), number(&e[1]) as u32, number(&e[2]) as u16);
    entry["events"].as_array().unwrap().iter().map(row).collect()
}

fn count(value: &Value) -> Option<u64> {
    Some(value.as_u64().expect("a number"))
}

#[test]
fn every_file_gives_its_expected_entry() {
    let expected = expected();
    let files = expected["files"].as_object().unwrap();
    assert_eq!(files.len(), 21);
    for (name, entry) in files {
        let packet = payload(name);
        assert_eq!(count(&entry["bytes"]), Some(packet.len() as u64), "{name}");
        let (products, entries) = read(&Setup::default(), std::slice::from_ref(&packet));
        let wanted = events(entry);

        let seen: Vec<_> = products.events.absolute().collect();
        let pairs: Vec<_> = wanted.iter().map(|&(t, p, _)| (t, p)).collect();
        assert_eq!(seen, pairs, "{name}: events");
        assert_eq!(entries.get("events.count"), count(&entry["event_count"]), "{name}");
        for (key, counter) in [
            ("samples", "samples"),
            ("geometry_errors", "events.geometry_errors"),
            ("trailing_bytes", "trailing_bytes"),
        ] {
            assert_eq!(entries.get(counter), count(&entry[key]), "{name}: {counter}");
        }

        // Amplitudes: only the modes that have one.
        let packet_type = entry["header"]["type"].as_str().unwrap_or_default();
        let hits: Vec<_> = match packet_type {
            "0xd6" => Vec::new(),
            _ => wanted.clone(),
        };
        let h = &products.hits;
        let seen = h.time_ns.iter().zip(&h.pixel).zip(&h.adc);
        assert_eq!(seen.map(|((&t, &p), &a)| (t, p, a)).collect::<Vec<_>>(), hits, "{name}: hits");

        // One refusal moves exactly its reason and its class.
        let class = entry["error"].as_str();
        let reason = entry["reason"].as_str();
        let accepted = u64::from(class.is_none());
        assert_eq!(entries.get("decode.accepted"), Some(accepted), "{name}");
        let moved: Vec<String> = entries
            .iter()
            .filter(|e| e.value > 0 && e.info.name.starts_with("errors."))
            .map(|e| e.info.name.to_string())
            .collect();
        let mut names: Vec<String> = Vec::new();
        if let (Some(class), Some(reason)) = (class, reason) {
            names.push(format!("errors.{class}.{reason}"));
            if class == "unsupported" {
                assert_eq!(entries.get("ideas.packets.unsupported"), Some(1), "{name}");
            } else {
                names.push(format!("errors.{class}"));
            }
        }
        assert_eq!(moved, names, "{name}");
    }
}

#[test]
fn the_inspector_shows_what_the_vectors_say() {
    let expected = expected();
    for (name, entry) in expected["files"].as_object().unwrap() {
        let mut inspector = detector(&Setup::default()).inspector();
        let shown = inspector.inspect(&payload(name), Origin::NONE);
        let error = shown.error.map(|(class, reason)| (Some(class), Some(reason)));
        let wanted = (entry["error"].as_str(), entry["reason"].as_str());
        assert_eq!(error.unwrap_or((None, None)), wanted, "{name}");
        let rows: Vec<_> = shown
            .rows
            .iter()
            .filter(|row| row[1] != 0)
            .map(|row| (row[0], row[1] as u32, row[2] as u16))
            .collect();
        assert_eq!(rows, events(entry), "{name}");
        let none = shown.rows.iter().filter(|row| row[1] == 0).count() as u64;
        assert_eq!(Some(none), count(&entry["geometry_errors"]), "{name}");
        for part in ["header", "d5", "d4"] {
            for (field, value) in entry[part].as_object().into_iter().flatten() {
                let shown = shown.header.iter().find(|(name, _)| name == field);
                let shown = shown.map(|(_, text)| text.as_str());
                let wanted = value.as_str().map_or(value.to_string(), str::to_owned);
                assert_eq!(shown, Some(wanted.as_str()), "{name}: {field}");
            }
        }
    }
}

#[test]
fn the_capture_is_one_decoder_state() {
    let expected = expected();
    let pcap = &expected["pcap"];
    let order = pcap["order"].as_array().unwrap();
    let packets: Vec<_> = order.iter().map(|name| payload(name.as_str().unwrap())).collect();
    let setup = Setup { options: "sequence_state = 'one'".to_owned(), ..Setup::default() };
    let (products, entries) = read(&setup, &packets);
    for (key, counter) in [
        ("packets", "decode.packets"),
        ("bad_size", "errors.bad_size"),
        ("header_errors", "errors.header"),
        ("unsupported", "ideas.packets.unsupported"),
        ("triggertime", "ideas.packets.triggertime"),
        ("singleevent", "ideas.packets.singleevent"),
        ("multievent", "ideas.packets.multievent"),
        ("samples", "samples"),
        ("events", "events.count"),
        ("geometry_errors", "events.geometry_errors"),
        ("seq_errors", "readouts.seq_errors"),
        ("trailing_bytes", "trailing_bytes"),
    ] {
        assert_eq!(entries.get(counter), count(&pcap["counters"][key]), "{counter}");
    }
    // The events of all files in order, with their own raw times.
    let files = &expected["files"];
    let all = order.iter().flat_map(|name| events(&files[name.as_str().unwrap()]));
    let all: Vec<_> = all.map(|(t, p, _)| (t, p)).collect();
    assert_eq!(products.events.absolute().collect::<Vec<_>>(), all);
}

#[test]
fn the_sequence_rule_of_the_format_on_the_capture() {
    // Section 5 by hand, over the counts that the vectors list.
    let expected = expected();
    let mut state: Option<u64> = None;
    let (mut errors, mut lost, mut disorder) = (0, 0, 0);
    for name in expected["pcap"]["order"].as_array().unwrap() {
        let Some(n) = expected["files"][name.as_str().unwrap()]["header"]["seq_count"].as_u64()
        else {
            continue;
        };
        if let Some(next) = state.filter(|&next| next != n) {
            errors += 1;
            match (n + 16384 - next) % 16384 {
                gap @ ..=8192 => lost += gap,
                _ => disorder += 1,
            }
        }
        state = Some((n + 1) % 16384);
    }
    assert_eq!(errors, 11);
    let order = expected["pcap"]["order"].as_array().unwrap();
    let packets: Vec<_> = order.iter().map(|name| payload(name.as_str().unwrap())).collect();
    let setup = Setup { options: "sequence_state = \"one\"".to_owned(), ..Setup::default() };
    let (_, entries) = read(&setup, &packets);
    assert_eq!(entries.get("readouts.seq_errors"), Some(errors));
    assert_eq!(entries.get("lost_packets"), Some(lost));
    assert_eq!(entries.get("readouts.out_of_order"), Some(disorder));
}

fn all_packets() -> Vec<conformance::SamplePacket> {
    let expected = expected();
    let names = expected["files"].as_object().unwrap().keys();
    let from = |i: usize| Origin { ip: [1; 16], port: 50_011 + (i as u16 % 2) * 10 };
    names.enumerate().map(|(i, name)| (payload(name), from(i))).collect()
}

#[test]
fn conformance_with_reference_blocks() {
    let report = conformance::check(
        &fullcount_detect::sonde::Sonde,
        &Setup::default(),
        &all_packets(),
        100_000,
        1,
    );
    assert_eq!(report.unwrap().events, 467);
}

#[test]
fn conformance_with_pulses_and_another_tick() {
    let grid = PulseGrid::new(1_000_000_000, 14, Nanos(12_345)).unwrap();
    let time = TimeBase {
        epoch: Nanos(1 << 60),
        grid,
        tick: TickLength::new(125, 2),
        ..TimeBase::default()
    };
    let geometry = include_str!("../../../docs/examples/sonde-400-modules.toml");
    let from = |ip: &str| Origin::from(std::net::SocketAddr::new(ip.parse().unwrap(), 50_011));
    let (known, unknown) = (from("10.1.0.7"), from("10.9.0.7"));
    let packets = all_packets();
    let packets: Vec<_> = packets
        .into_iter()
        .enumerate()
        .map(|(i, (bytes, _))| (bytes, if i % 5 == 4 { unknown } else { known }))
        .collect();
    for tick in [TickLength::new(125, 2), None] {
        let time = TimeBase { tick, ..time };
        let setup = Setup { geometry: geometry.to_owned(), time, ..Setup::default() };
        let sonde = &fullcount_detect::sonde::Sonde;
        conformance::check(sonde, &setup, &packets, 20_000, 7).unwrap();
    }
}

#[test]
fn an_unknown_module_makes_geometry_errors_and_says_so() {
    let geometry = "[[modules]]\nsource = '10.1.0.1'".to_owned();
    let setup = Setup { geometry, ..Setup::default() };
    let (products, entries) =
        read(&setup, &[payload("d6_3_events.bin"), payload("d5_1_sample.bin")]);
    assert!(products.events.is_empty());
    assert_eq!(entries.get("geometry.unknown_module"), Some(2));
    assert_eq!(entries.get("events.geometry_errors"), Some(4));
    assert_eq!(entries.get("readouts.count"), Some(4));
}
