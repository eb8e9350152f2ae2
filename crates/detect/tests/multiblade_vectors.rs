//! Golden vectors of Multi-Blade: every entry of `expected.json`, the recorded sets in every set-up, and the
//! capture. Source: `vectors/multiblade`; packets are made as section 8 of the format says.

use crate::multiblade_made;
use std::collections::BTreeMap;

use crate::multiblade_made::{
    Counters, config, count, detector, expected, packets, payload, read, rows, setup, table,
};
use fullcount_core::batch::Origin;
use fullcount_detect::conformance;
use fullcount_detect::detector::Setup;
use serde_json::Value;

/// Published names and ours, where both decide on the same.
const PARSER: [(&str, &str); 3] = [
    ("error_version", "readouts.error_version"),
    ("error_bytes", "readouts.error_bytes"),
    ("seq_errors", "readouts.seq_errors"),
];

const PUBLISHED: [(&str, &str); 26] = [
    ("PacketBadDigitizer", "packet.bad_digitizer"),
    ("ReadoutsCount", "readouts.count"),
    ("ReadoutsGood", "readouts.good"),
    ("ReadoutsInvalidAdc", "readouts.invalid_adc"),
    ("ReadoutsInvalidChannel", "readouts.invalid_channel"),
    ("ReadoutsTOFLarge", "readouts.tof_large"),
    ("ReadoutsTimerWraps", "readouts.timer_wraps"),
    ("ReadoutsMonitor", "readouts.monitor"),
    ("MonitorCount", "readouts.monitor"),
    ("Readouts1DY", "readouts.1d_y"),
    ("Readouts2DX", "readouts.2d_x"),
    ("Readouts2DY", "readouts.2d_y"),
    ("ReadoutsDiscardStrips", "readouts.discard_strips"),
    ("ReadoutsDiscard1D", "readouts.discard_1d"),
    ("Events", "events.count"),
    ("Events2D", "events.2d"),
    ("Events1D", "events.1d"),
    ("EventsNoCoincidence", "events.no_coincidence"),
    ("EventsWireMultTwoPlus", "events.wire_mult_two_plus"),
    ("EventsWireMultSingle", "events.wire_mult_single"),
    ("EventsWireGapCount", "events.wire_gap_count"),
    ("EventsMaxTofNS", "events.max_tof"),
    ("GeometryErrors", "events.geometry_errors"),
    ("EventsInvalidStripGap", "events.invalid_strip_gap"),
    ("EventsInvalidWireGap", "events.invalid_wire_gap"),
    ("EventsWireGapInvalid", "events.wire_gap_invalid"),
];

/// Every published counter of an entry; those that this decoder has no way to count must be 0.
fn compare(counters: &Counters, published: &Value, what: &str) {
    let names: BTreeMap<_, _> = PUBLISHED.into_iter().collect();
    for (name, value) in published.as_object().expect("counters") {
        let seen = match (name.as_str(), names.get(name.as_str())) {
            (_, Some(ours)) => counters.get(ours),
            ("EventsMatchedClusters", _) => counters.get("events.matched_clusters"),
            // A table has no plane that does not exist, and no wire that is dropped after it was good.
            ("ReadoutsInvalidPlane" | "Events1DDiscard", _) => 0,
            _ => panic!("{what}: unknown counter {name}"),
        };
        assert_eq!(seen, count(value), "{what}: {name}");
    }
}

fn sums(events: &[(i64, u32)]) -> (u64, u64) {
    (events.iter().map(|e| e.0 as u64).sum(), events.iter().map(|e| u64::from(e.1)).sum())
}

fn compare_events(events: &[(i64, u32)], entry: &Value, what: &str) {
    assert_eq!(events.len() as u64, count(&entry["events"]), "{what}: events");
    let wanted = (count(&entry["sum_time"]), count(&entry["sum_pixel"]));
    assert_eq!(sums(events), wanted, "{what}: sums");
}

/// Configuration of a published pipeline.
fn pipeline(name: &str) -> Setup {
    match name {
        "AmorB_alignment" => setup("AmorB.json", "mode = 'alignment'"),
        "AmorB_1d" => setup("AmorB.json", "mode = 'normal'"),
        stack => setup(&format!("{stack}.json"), ""),
    }
}

#[test]
fn every_file_gives_its_expected_entry() {
    let expected = expected();
    let files = expected["files"].as_object().unwrap();
    assert_eq!(files.len(), 9);
    for (name, entry) in files {
        let packet = payload(name);
        assert_eq!(count(&entry["bytes"]), packet.len() as u64, "{name}");
        let (_, counters) = read(&Setup::default(), std::slice::from_ref(&packet));
        for (published, ours) in PARSER {
            let wanted = count(&entry["counters"][published]);
            assert_eq!(counters.get(ours), wanted, "{name}: {published}");
        }
        assert_eq!(counters.get("readouts.count"), count(&entry["readouts"]), "{name}");
        assert_eq!(counters.get("decode.accepted"), u64::from(entry["result"] == "ok"), "{name}");

        let shown = detector(&Setup::default()).inspector().inspect(&packet, Origin::NONE);
        let error = shown.error.map(|(class, _)| match class {
            "bad_size" => "ESIZE",
            "header" => "EHEADER",
            other => panic!("{other}"),
        });
        assert_eq!(error, entry["error"].as_str(), "{name}");
        for (field, value) in entry["header"].as_object().into_iter().flatten() {
            let text = &shown.header.iter().find(|(name, _)| name == field).unwrap().1;
            let wanted = value.as_str().map_or(value.to_string(), str::to_owned);
            assert_eq!(text, &wanted, "{name}: {field}");
        }
        compare_rows(&shown.rows, entry, name);
    }
}

fn compare_rows(rows: &[Vec<i64>], entry: &Value, name: &str) {
    let raw: Vec<[i64; 3]> = rows.iter().map(|r| [r[0], r[1], r[2]]).collect();
    assert_eq!(raw.len() as u64, count(&entry["readouts"]), "{name}");
    let Some(first) = entry["first"].as_array() else { return };
    let row = |v: &Value| [0, 1, 2].map(|i| v[i].as_i64().unwrap());
    let last = entry["last"].as_array().unwrap();
    assert_eq!(raw[..first.len()], first.iter().map(row).collect::<Vec<_>>()[..], "{name}");
    let end = raw.len() - last.len();
    assert_eq!(raw[end..], last.iter().map(row).collect::<Vec<_>>()[..], "{name}");
    for (i, key) in ["sum_local_time", "sum_channel", "sum_adc"].into_iter().enumerate() {
        assert_eq!(
            raw.iter().map(|r| r[i] as u64).sum::<u64>(),
            count(&entry[key]),
            "{name}: {key}"
        );
    }
    let channels: BTreeMap<String, u64> = raw.iter().fold(BTreeMap::new(), |mut all, r| {
        *all.entry(r[1].to_string()).or_default() += 1;
        all
    });
    match entry["channels"]["different"].as_u64() {
        Some(different) => assert_eq!(channels.len() as u64, different, "{name}"),
        None => {
            let wanted = entry["channels"].as_object().unwrap();
            let wanted = wanted.iter().map(|(k, v)| (k.clone(), count(v))).collect();
            assert_eq!(channels, wanted, "{name}");
        }
    }
}

#[test]
fn every_file_through_a_fresh_amor_b_chain() {
    let expected = expected();
    let files = expected["packet_pipelines"].as_object().unwrap();
    assert_eq!(files.len(), 9);
    for (file, pipelines) in files {
        for (name, entry) in pipelines.as_object().unwrap() {
            let what = format!("{file} {name}");
            let (events, counters) = read(&pipeline(name), &[payload(file)]);
            compare_events(&events, entry, &what);
            // Counters that are 0 are left out there.
            for (published, ours) in PUBLISHED {
                if !matches!(
                    published,
                    "ReadoutsMonitor" | "EventsInvalidStripGap" | "EventsInvalidWireGap"
                ) {
                    let wanted = entry["counters"].get(published).map_or(0, count);
                    assert_eq!(counters.get(ours), wanted, "{what}: {published}");
                }
            }
        }
    }
}

#[test]
fn the_recorded_sets_give_the_stated_events_in_every_set_up() {
    let expected = expected();
    let (mut sets, mut tables) = (0, 0);
    for (set, entry) in expected["readout_sets"].as_object().unwrap() {
        let packets = packets(&rows(set));
        assert_eq!(packets.len() as u64, count(&entry["packets"]), "{set}");
        for (name, entry) in entry["pipelines"].as_object().unwrap() {
            if name == "FixedWindow" {
                continue;
            }
            let what = format!("{set} {name}");
            let (mut events, counters) = read(&pipeline(name), &packets);
            compare_events(&events, entry, &what);
            compare(&counters, &entry["counters"], &what);
            for (published, ours) in PARSER {
                assert_eq!(counters.get(ours), count(&entry["parser"][published]), "{what}");
            }
            sets += 1;
            let Some(file) = entry["file"].as_str() else { continue };
            let mut wanted: Vec<(i64, u32)> = table(file)
                .map(|row| {
                    let pixel = row["pixel"].parse().unwrap();
                    (row["time_ns"].parse().unwrap(), pixel)
                })
                .collect();
            wanted.sort_unstable();
            events.sort_unstable();
            assert_eq!(events, wanted, "{what}");
            tables += 1;
        }
    }
    assert_eq!((sets, tables), (24, 18));
}

#[test]
fn both_sums_of_the_format_hold() {
    let packets = packets(&rows("a01000"));
    for name in ["MB18Freia", "MB16Estia"] {
        let (_, c) = read(&pipeline(name), &packets);
        let sent = c.get("events.count") + c.get("events.geometry_errors");
        assert_eq!(sent, c.get("events.matched_clusters"), "{name}");
    }
    let (_, c) = read(&pipeline("AmorB_1d"), &packets);
    let parts =
        ["good", "invalid_adc", "invalid_channel", "tof_large", "monitor", "discard_strips"];
    let sum: u64 = parts.iter().map(|p| c.get(&format!("readouts.{p}"))).sum();
    assert_eq!(c.get("readouts.count"), sum);
}

#[test]
fn the_first_generation_gives_the_stated_events() {
    // It works on bare channel numbers: MB16 in Estia orientation, without amplitude limit.
    let text = config("MB18Freia.json").replace("MB18", "MB16").replace("Freia", "Estia");
    let text = text.replacen('{', "{ \"MaxValidADC\": 65535,", 1);
    let options = "clustering = 'fixed-window'\nwindow = 185".to_owned();
    let setup = Setup { geometry: text, options, ..Setup::default() };
    let expected = expected();
    for (set, entry) in expected["readout_sets"].as_object().unwrap() {
        let entry = &entry["pipelines"]["FixedWindow"]["counters"];
        let recorded = rows(set);
        let (mut events, c) = read(&setup, &packets(&recorded));
        assert_eq!(events.len() as u64, count(&entry["events"]), "{set}");
        // The published program closes the empty window of a cassette that saw nothing as well.
        let mut seen: Vec<u32> = recorded.iter().map(|r| r.digitizer).collect();
        seen.sort_unstable();
        seen.dedup();
        let closed_empty = 6 - seen.len() as u64;
        let rejected = ["no_coincidence", "gap_plane0", "gap_plane1"];
        let rejected: u64 = rejected.iter().map(|n| c.get(&format!("events.{n}"))).sum();
        assert_eq!(rejected + closed_empty, count(&entry["rejected_adjacency"]), "{set}");
        let mut wanted: Vec<(i64, u32)> = table(&format!("events_{set}_FixedWindow.csv"))
            .map(|row| {
                let number = |key: &str| row[key].parse::<f64>().unwrap();
                let nearest = |v: f64| (v + 0.5).floor() as u32;
                let x = 32 * number("cassette") as u32 + nearest(number("wire"));
                let y = nearest(number("strip")) - 32;
                (number("start_tick") as i64 * 16, y * 192 + x + 1)
            })
            .collect();
        events.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(events, wanted, "{set}");
    }
}

#[test]
fn channels_lead_where_the_vectors_say() {
    let expected = expected();
    let mut rows_seen = 0;
    for (name, entry) in expected["geometry"].as_object().unwrap() {
        let amor = name == "AmorB";
        let file =
            if amor { "AmorB.json".into() } else { format!("{}.json", name.replace(' ', "")) };
        let mode = if amor { "mode = 'normal'" } else { "" };
        let text: Value = serde_json::from_str(&config(&file)).unwrap();
        let id = |index: u64| {
            let all = text["DigitizerConfig"].as_array().unwrap();
            count(&all.iter().find(|d| d["index"] == index).unwrap()["id"]) as u32
        };
        let detector = detector(&setup(&file, mode));
        let map = detector.pixels();
        let size = (count(&entry["nx"]) as u32, count(&entry["ny"]) as u32);
        assert_eq!((map.columns, map.rows), size, "{name}");
        for row in entry["rows"].as_array().unwrap() {
            let packet =
                multiblade_made::packet(0, id(count(&row[0])), 0, &[[7, count(&row[1]) as u32, 9]]);
            let shown = detector.inspector().inspect(&packet, Origin::NONE).rows;
            let wanted: Vec<i64> = if amor {
                let monitor = row[3] == "monitor";
                let place = |i: usize| if monitor { -1 } else { row[i].as_i64().unwrap() };
                vec![row[2].as_i64().unwrap(), place(3), place(4)]
            } else {
                vec![row[0].as_i64().unwrap(), row[2].as_i64().unwrap(), row[3].as_i64().unwrap()]
            };
            // Freia's monitor is a strip of digitiser 137; the table lists the place that it has.
            let monitor = id(count(&row[0])) == 137 && row[1] == 62;
            let freia_monitor = name.ends_with("Freia") && monitor;
            if !freia_monitor {
                assert_eq!(shown[0][3..], wanted[..], "{name}: {row}");
            }
            rows_seen += 1;
        }
        for pixel in entry["pixels"].as_array().into_iter().flatten() {
            let [x, y, number] = [0, 1, 2].map(|i| count(&pixel[i]) as u32);
            let inside = x < map.columns && y < map.rows;
            let cell = (number > 0).then(|| map.cell[number as usize - 1]);
            assert_eq!(cell, inside.then_some(y * map.columns + x), "{name}: {pixel}");
        }
    }
    assert!(rows_seen > 90, "{rows_seen}");
    let digitizers = &expected["digitizer_index"];
    let amor = detector(&setup(digitizers["config"].as_str().unwrap(), ""));
    for (id, index) in digitizers["valid"].as_object().unwrap() {
        let packet = multiblade_made::packet(0, id.parse().unwrap(), 0, &[[7, 0, 9]]);
        let shown = amor.inspector().inspect(&packet, Origin::NONE).rows;
        assert_eq!(shown[0][3], (2 * index.as_i64().unwrap() + 1).min(10), "{id}");
    }
    for id in digitizers["invalid"].as_array().unwrap() {
        let packet = multiblade_made::packet(0, id.as_i64().unwrap() as u32, 0, &[[7, 0, 9]]);
        let (_, c) = read(&setup("AmorB.json", ""), &[packet]);
        assert_eq!(c.get("packet.bad_digitizer"), 1, "{id}");
    }
}

#[test]
fn configuration_files_are_accepted_or_refused_as_stated() {
    let expected = expected();
    for (name, entry) in expected["config_files"].as_object().unwrap() {
        let result = multiblade_made::configure(&setup(name, ""));
        assert_eq!(result.is_ok(), entry["accept"] != false, "{name}: {:?}", result.err());
        // What is complete for one digitiser per cassette is not for AMOR B.
        let amor = ["\"Estia\"", "\"Freia\""]
            .iter()
            .fold(config(name), |text, old| text.replace(old, "\"AMOR B\""));
        let setup = Setup { geometry: amor, ..Setup::default() };
        assert!(multiblade_made::configure(&setup).is_err(), "{name}");
    }
    let tick = |name: &str| detector(&setup(name, "")).tick().0.fraction();
    assert_eq!((tick("test_validconfig.json"), tick("AmorB.json")), ((17, 1), (16, 1)));
}

#[test]
fn the_capture_is_one_chain() {
    let expected = expected();
    let packets = multiblade_made::capture("multiblade.pcap");
    for name in ["AmorB_alignment", "AmorB_1d"] {
        let entry = &expected["pcap"][name];
        assert_eq!(packets.len() as u64, count(&entry["packets"]));
        let (events, counters) = read(&pipeline(name), &packets);
        compare_events(&events, entry, name);
        compare(&counters, &entry["counters"], name);
        for (published, ours) in PARSER {
            assert_eq!(
                counters.get(ours),
                count(&entry["parser"][published]),
                "{name}: {published}"
            );
        }
    }
}

#[test]
fn monitor_readouts_can_have_a_pixel_of_their_own() {
    let expected = expected();
    let entry = &expected["readout_sets"]["a01000"]["pipelines"]["AmorB_alignment"];
    let setup = setup("AmorB.json", "mode = '2d'\nmonitor = 'pixel'");
    let (events, counters) = read(&setup, &packets(&rows("a01000")));
    let (monitor, neutrons): (Vec<_>, Vec<_>) = events.iter().partition(|e| e.1 == 32 * 352 + 1);
    compare_events(&neutrons, entry, "neutrons");
    assert_eq!(sums(&monitor).0, count(&entry["monitor_times_sum"]));
    assert_eq!(counters.get("events.monitor"), count(&entry["counters"]["MonitorCount"]));
}

#[test]
fn one_builder_for_all_cassettes_or_one_for_each_makes_no_difference() {
    let mut all = packets(&rows("a01000"));
    // Two cassettes on one digitiser, so that a packet has several.
    let mixed = "cassettes = 2\nwires = 16\nstrips = 16\nTimeTickNS = 16\n\
        [[mapping]]\ndigitizer = 137\ncassette = 0\nchannels = [0, 15]\nwires = [0, 15]\n\
        [[mapping]]\ndigitizer = 137\ncassette = 1\nchannels = [16, 31]\nwires = [15, 0]\n\
        [[mapping]]\ndigitizer = 137\ncassette = 0\nchannels = [32, 47]\nstrips = [0, 15]\n\
        [[mapping]]\ndigitizer = 137\ncassette = 1\nchannels = [48, 63]\nstrips = [0, 15]\n";
    all.iter_mut().for_each(|p| p[16..20].copy_from_slice(&137u32.to_le_bytes()));
    for geometry in [mixed.to_owned(), config("MB18Freia.json"), config("AmorB.json")] {
        let events = |builders: &str| {
            let options = format!("mode = '2d'\nbuilders = '{builders}'");
            let setup = Setup { geometry: geometry.clone(), options, ..Setup::default() };
            let (mut events, counters) = read(&setup, &all);
            events.sort_unstable();
            (events, counters)
        };
        let (shared, each) = (events("shared"), events("per-cassette"));
        assert_eq!(shared, each);
        assert!(!shared.0.is_empty() || geometry.contains("AMOR"));
    }
}

#[test]
fn the_suite_passes_in_every_set_up_and_with_every_option() {
    let mut given: Vec<conformance::SamplePacket> = Vec::new();
    let from = |i: usize| Origin { ip: [1; 16], port: 9000 + i as u16 % 2 };
    let recorded = packets(&rows("a00100"));
    let files = ["pkt145701.bin", "pkt13.bin", "all_zeroes_32.bin"].map(payload);
    for (i, packet) in recorded.into_iter().chain(files).enumerate() {
        given.push((packet, from(i)));
    }
    for (file, options) in [
        ("MB18Freia.json", ""),
        ("MB16Estia.json", "resolve_doubles = true\nsubpixels = 4\nbuilders = 'per-cassette'"),
        ("AmorB.json", "mode = '1d'\nmonitor = 'pixel'"),
        ("AmorB.json", "mode = '2d'\nmonitor = 'pixel'\ndrop_late = true\nmax_streams = 1"),
        (
            "MB18Freia.json",
            "max_wires = 2\nmax_strips = 4\nmax_time_span = 125\namplitude_ratio = [0.1, 0.6]\nwire_threshold = 3000",
        ),
        ("MB16Estia.json", "clustering = 'fixed-window'\nposition = 'maximum'\nmonitor = 'pixel'"),
    ] {
        let kind = &fullcount_detect::multiblade::MultiBlade;
        let report = conformance::check(kind, &setup(file, options), &given, 8_000, 7);
        assert!(
            report.unwrap_or_else(|e| panic!("{file} {options}: {e}")).events > 0,
            "{file} {options}"
        );
    }
}
