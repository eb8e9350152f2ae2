//! Golden vectors of Gd-GEM: what `expected.json` says of payloads, sequences of them, times and captures. Source: `vectors/gdgem`.

use crate::gdgem_made;
use std::collections::BTreeMap;

use crate::gdgem_made::answers::{FRAMES, PARSER, compare, online};
use crate::gdgem_made::{capture, count, detector, expected, payload, run, setup};
use fullcount_core::batch::Origin;
use fullcount_detect::detector::{Detector, Setup};
use fullcount_detect::gdgem::Unwatched;
use fullcount_detect::hits::FineHit;
use serde_json::{Value, json};

/// A hit of a list, with the column names of its entry.
fn compare_hit(row: &[i64], names: &[&str], wanted: &Value, what: &str) {
    let column = |name: &str| {
        let ours = match name {
            "ch" => "channel",
            "ovth" => "over_threshold",
            "trig_time" => "trigger_time",
            "trig_count" => "trigger_count",
            name => name,
        };
        row[names.iter().position(|n| *n == ours).unwrap_or_else(|| panic!("{name}"))]
    };
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(column(name), value.as_i64().unwrap_or(0), "{what}: {name}");
    }
}

#[test]
fn every_payload_gives_its_expected_entry() {
    let expected = expected();
    for (name, entry) in expected["payloads"].as_object().unwrap() {
        let packet = payload(name);
        assert_eq!(packet.len() as u64, count(&entry["bytes"]), "{name}");
        assert_eq!(gdgem_made::sha256(&packet), entry["sha256"], "{name}");
        let triggered = entry["data_format"] == "TRG";
        let options =
            if triggered { "df = 'TRG'" } else { "marker_check = true\noffsets = '0..31'" };
        let ran = run(&setup("", options), std::slice::from_ref(&packet), 1, Unwatched);
        compare(&ran, if triggered { &FRAMES } else { &PARSER }, &entry["counters"], name);

        let shown = detector(&setup("", options)).inspector().inspect(&packet, Origin::NONE);
        let hits: Vec<_> = shown.rows.iter().filter(|row| row[0] == 1).collect();
        assert_eq!(hits.len() as u64, count(&entry["hits"]), "{name}");
        let list = entry["hit_list"].as_array().unwrap();
        assert!(list.len() <= hits.len());
        for (row, wanted) in hits.iter().zip(list) {
            compare_hit(row, &shown.columns, wanted, name);
        }
        let mut markers = BTreeMap::new();
        for row in shown.rows.iter().filter(|row| row[0] == 0) {
            markers.insert(format!("{}:{}", row[1], row[2]), row[9]);
        }
        match &entry["markers_after"] {
            Value::Object(wanted) => {
                assert_eq!(markers.len(), wanted.len(), "{name}");
                wanted
                    .iter()
                    .for_each(|(key, time)| assert_eq!(markers[key], time.as_i64().unwrap()));
            }
            Value::Number(n) => assert_eq!(markers.len() as u64, n.as_u64().unwrap(), "{name}"),
            _ => assert!(triggered, "{name}"),
        }
    }
}

#[test]
fn every_sequence_gives_its_counters() {
    for (name, entry) in expected()["sequences"].as_object().unwrap() {
        let packets: Vec<_> = entry["payloads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| payload(p.as_str().unwrap()))
            .collect();
        let capacity = entry["capacity"].as_u64().unwrap_or(1500);
        let options = format!("marker_check = true\noffsets = '0..31'\ncapacity = {capacity}");
        compare(
            &run(&setup("", &options), &packets, 1, Unwatched),
            &PARSER,
            &entry["counters"],
            name,
        );
    }
}

#[test]
fn every_chip_time_is_that_of_the_published_formula() {
    for row in expected()["chiptime"]["rows"].as_array().unwrap() {
        let number = |at: usize| row[at].as_f64().unwrap();
        let mut setup = online(
            "refdata.json",
            &[(
                "time_config",
                json!({
                    "tac_slope": row[1], "bc_clock": row[0], "trigger_resolution": 1, "acquisition_window": 1,
                }),
            )],
        );
        setup.options = "clock = 'published'".to_owned();
        let list = |value: f64| vec![value; 64];
        let calibration = json!({"vmm_calibration": [{
            "fecID": 1, "vmmID": 0, "adc_offsets": list(0.0), "adc_slopes": list(1.0),
            "time_offsets": list(number(4)), "time_slopes": list(number(5)),
        }]});
        setup.calibration = calibration.to_string();
        let words = [
            gdgem_made::marker(0, 1000),
            gdgem_made::hit(0, 5, 0, number(2) as u16, number(3) as u8, 100),
        ];
        let ran = run(&setup, &[gdgem_made::frame(1, 0, &words)], 1, Unwatched);
        let hits: Vec<_> = ran.rows.iter().filter(|r| r.lane < 2).collect();
        let wanted = 25_000.0 + number(6).trunc();
        assert_eq!(hits[0].ns(), wanted, "{row}");
    }
}

/// Plane 0 of even VMMs, plane 1 of odd ones, 64 strips per hybrid: the mapping of the captures' online sums.
fn by_vmm() -> Setup {
    let mappings: Vec<_> = (1..16)
        .flat_map(|fec| (0..16).map(move |vmm| (fec, vmm)))
        .map(|(fec, vmm)| json!({"fecID": fec, "vmmID": vmm, "planeID": vmm % 2, "strip_offset": 64 * (vmm / 2)}))
        .collect();
    online(
        "refdata.json",
        &[
            ("srs_mappings", Value::from(mappings)),
            (
                "time_config",
                json!({"tac_slope": 60, "bc_clock": 40, "trigger_resolution": 1, "acquisition_window": 8191}),
            ),
            ("adc_threshold", json!(0)),
        ],
    )
}

#[test]
fn every_capture_gives_its_frames_hits_and_sums() {
    for (name, entry) in expected()["captures"].as_object().unwrap() {
        let packets = capture(name);
        assert_eq!(packets.len() as u64, count(&entry["frames"]["udp"]), "{name}");
        assert_eq!(gdgem_made::packets(name) as u64, count(&entry["frames"]["packets"]), "{name}");
        let triggers = entry["trigger_markers_per_vmm"].as_object().unwrap();
        assert!(triggers.is_empty() && entry["data_format"] == "SRS", "{name}: compared nowhere");
        for offsets in ["0..31", "-1..15"] {
            let mut setup = by_vmm();
            setup.options = format!("offsets = '{offsets}'\nmarker_check = true");
            let ran = run(&setup, &packets, 3, Unwatched);
            compare(&ran, &FRAMES, &entry["counters"], name);
            // The public parser has one frame counter for all FECs; the numbers here are per FEC.
            compare(&ran, &PARSER, &entry["online"]["parser"], name);
            let sums = &entry["online"][format!("offsets {offsets}")];
            let sum = |lane: u8, of: fn(&FineHit) -> i128| -> i128 {
                ran.rows.iter().filter(|r| r.lane == lane).map(of).sum()
            };
            for (key, wanted) in sums.as_object().unwrap() {
                let seen = match key.as_str() {
                    "hits_x" => sum(0, |_| 1),
                    "hits_y" => sum(1, |_| 1),
                    "sum_coordinate_x" => sum(0, |r| i128::from(r.coordinate)),
                    "sum_coordinate_y" => sum(1, |r| i128::from(r.coordinate)),
                    "sum_time_x" => sum(0, |r| r.ns() as i128),
                    "sum_time_y" => sum(1, |r| r.ns() as i128),
                    "sum_weight" => {
                        sum(0, |r| i128::from(r.weight)) + sum(1, |r| i128::from(r.weight))
                    }
                    counter => i128::from(ran.counters.get(&format!("hits.{counter}"))),
                };
                assert_eq!(seen, i128::from(wanted.as_i64().unwrap()), "{name} {offsets} {key}");
            }
        }
        compare_words(&packets, entry, name);
    }
}

/// What the inspector shows of a capture.
fn compare_words(packets: &[Vec<u8>], entry: &Value, name: &str) {
    let mut inspector = detector(&by_vmm()).inspector();
    let (mut hits, mut markers, mut offsets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut without, mut sums, mut first) = (BTreeMap::new(), [0; 4], Vec::new());
    let mut heard = std::collections::HashSet::new();
    for packet in packets {
        for row in inspector.inspect(packet, Origin::NONE).rows {
            let vmm = format!("{}:{}", row[1], row[2]);
            if row[0] == 0 {
                heard.insert(vmm.clone());
                *markers.entry(vmm).or_insert(0u64) += 1;
                continue;
            }
            let marker = if heard.contains(&vmm) { json!(row[9]) } else { Value::Null };
            if marker.is_null() {
                *without.entry(vmm.clone()).or_insert(0u64) += 1;
            }
            *hits.entry(vmm).or_insert(0u64) += 1;
            *offsets.entry(row[3].to_string()).or_insert(0u64) += 1;
            [7, 6, 5, 4].into_iter().zip(&mut sums).for_each(|(at, sum)| *sum += row[at]);
            // fec, vmm, channel, bcid, tdc, adc, over_threshold, offset, marker
            first.push(json!([
                row[1], row[2], row[4], row[5], row[6], row[7], row[8], row[3], marker
            ]));
        }
    }
    assert_eq!(json!(hits), sorted(&entry["hits_per_vmm"]), "{name}");
    assert_eq!(json!(markers), sorted(&entry["markers_per_vmm"]), "{name}");
    assert_eq!(json!(offsets), sorted(&entry["offsets"]), "{name}");
    assert_eq!(json!(without), sorted(&entry["hits_without_marker"]), "{name}");
    let wanted = ["adc", "tdc", "bcid", "channel"].map(|key| entry["sums"][key].as_i64().unwrap());
    assert_eq!(sums, wanted, "{name}");
    let list = entry["first_hits"].as_array().unwrap();
    assert_eq!(&first[..list.len()], &list[..], "{name}");
}

/// With its keys in order.
fn sorted(value: &Value) -> Value {
    json!(value.as_object().unwrap().iter().collect::<BTreeMap<_, _>>())
}
