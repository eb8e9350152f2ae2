//! Bad input to Gd-GEM: mutated captures, wrong calibration, a missing FEC, time going backwards, lost markers. All is counted
//! by reason; nothing panics, waits without bound, or gives an event above the newest accepted hit ([`run`] checks).

use crate::gdgem_made::{Ran, capture, detector, marker, payload, run, setup, text};
use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Setup, Threads};
use fullcount_detect::gdgem::Unwatched;
use proptest::prelude::*;

const EXAMPLE: &str = "bc = 44.444\nccs = 3\ndt = 100\nspc = 200\ncrl = 0.2\ncru = 10";

/// The first `frames` frames of a capture, `words` words each.
fn short(name: &str, frames: usize, words: usize) -> Vec<Vec<u8>> {
    let mut packets: Vec<_> = capture(name).into_iter().take(frames).collect();
    packets.iter_mut().for_each(|packet| packet.truncate(16 + 6 * words));
    packets
}

/// Configurations of every kind.
fn setups() -> Vec<Setup> {
    vec![
        setup("vmm/example_geometry_xyu.json", "ccs = 2\nmax_waiting = 1000"),
        setup(
            "vmm/example_geometry_xyu.json",
            "hm = 1\nalgo = 2\nposition = 'algo'\nmax_run_hits = 7",
        ),
        setup(
            "vmm/example_geometry_xyu.json",
            "t0 = [[6, 2, 'run'], [7, 3, 1e12]]\nhorizon_ms = 0.01",
        ),
        setup("vmm/example_geometry_pad.json", "algo = 10\nmax_run_span_us = 0.5"),
        setup("vmm/example_geometry_trigger.json", "df = 'TRG'"),
        setup("config/vmm3.json", "offsets = '0..31'\nmarker_check = true"),
        setup("config/refdata.json", "clock = 'published'\nmatcher = 'end'"),
    ]
}

/// One way to damage a run of frames.
#[derive(Debug, Clone)]
enum Damage {
    /// A byte of a frame becomes another.
    Byte(usize, usize, u8),
    /// A word becomes a marker with any time.
    Marker(usize, usize, u8, u64),
    /// A frame ends early.
    Cut(usize, usize),
    /// A frame is lost.
    Lost(usize),
    /// A frame comes twice.
    Twice(usize, usize),
    /// Two frames change places.
    Swapped(usize, usize),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let at = || any::<usize>();
    let one = prop_oneof![
        (at(), at(), any::<u8>()).prop_map(|(f, b, v)| Damage::Byte(f, b, v)),
        (at(), at(), 0u8..32, 0u64..1 << 42).prop_map(|(f, w, v, t)| Damage::Marker(f, w, v, t)),
        (at(), at()).prop_map(|(f, b)| Damage::Cut(f, b)),
        at().prop_map(Damage::Lost),
        (at(), at()).prop_map(|(f, to)| Damage::Twice(f, to)),
        (at(), at()).prop_map(|(a, b)| Damage::Swapped(a, b)),
    ];
    proptest::collection::vec(one, 0..40)
}

fn apply(packets: &mut Vec<Vec<u8>>, damages: &[Damage]) {
    for damage in damages {
        let n = packets.len().max(1);
        let frame = |at: usize| at % n;
        match *damage {
            _ if packets.is_empty() => return,
            Damage::Byte(f, b, value) => {
                let packet = &mut packets[frame(f)];
                let at = b % packet.len().max(1);
                packet.get_mut(at).into_iter().for_each(|byte| *byte = value);
            }
            Damage::Marker(f, w, vmm, time) => {
                let packet = &mut packets[frame(f)];
                let words = packet.get_mut(16..).map(|words| words.as_chunks_mut::<6>().0);
                if let Some(words) = words.filter(|words| !words.is_empty()) {
                    let at = w % words.len();
                    words[at] = marker(vmm, time);
                }
            }
            Damage::Cut(f, b) => {
                let packet = &mut packets[frame(f)];
                packet.truncate(b % (packet.len() + 1));
            }
            Damage::Lost(f) => drop(packets.remove(frame(f))),
            Damage::Twice(f, to) => {
                let copy = packets[frame(f)].clone();
                packets.insert(to % (n + 1), copy);
            }
            Damage::Swapped(a, b) => packets.swap(frame(a), frame(b)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn frames_that_come_late_give_what_one_pass_gives(
        late in proptest::collection::vec((0usize..50, 1usize..9), 0..30), online in any::<bool>(),
    ) {
        let mut packets = capture("example_xyu.pcapng");
        let mut free: Vec<bool> = vec![true; packets.len()];
        for (at, by) in late {
            let fec = |packet: &[u8]| packet[7] >> 4;
            let this = fec(&packets[at]);
            // Behind the next `by` frames of the same FEC; each frame is moved once.
            let later = (at + 1..packets.len()).filter(|&to| fec(&packets[to]) == this);
            if let Some(to) = later.take(by).last().filter(|&to| free[at..=to].iter().all(|f| *f)) {
                free[at..=to].fill(false);
                packets[at..=to].rotate_left(1);
            }
        }
        let setup = match online {
            true => online_xyu(),
            false => setup("vmm/example_geometry_xyu.json", "ccs = 3\ncrl = 0.2\ncru = 10"),
        };
        prop_assert!(as_in_one_pass(&setup, &packets).events.len() > 1000);
    }

    #[test]
    fn mutated_captures_do_no_harm(damages in damages(), which in 0usize..7, per_batch in 1usize..5) {
        let mut packets = match which {
            0..3 => short("example_xyu.pcapng", 8, 400),
            3 => vec![payload("pad_frame_0.bin"); 3],
            4 => vec![payload("triggered_frame_0.bin"); 3],
            _ => short("example.pcapng", 8, 400),
        };
        apply(&mut packets, &damages);
        // Balance and event times are checked inside.
        let setup = &setups()[which];
        let parts = run(setup, &packets, per_batch, Unwatched);
        let whole = run(setup, &packets, usize::MAX, Unwatched);
        prop_assert_eq!(parts.events, whole.events);
        prop_assert_eq!(parts.counters, whole.counters);
    }

    #[test]
    fn wrong_calibrations_do_no_harm(numbers in proptest::collection::vec(-1e9f32..1e9, 8), small in any::<bool>()) {
        let scale = if small { 1e-7 } else { 1.0 };
        let list = |at: usize| format!("{:?}", vec![numbers[at] * scale; 64]);
        let keys = ["adc_offsets", "adc_slopes", "time_offsets", "time_slopes", "timewalk_a", "timewalk_b", "timewalk_c", "timewalk_d"];
        let lists: Vec<_> = keys.iter().enumerate().map(|(at, key)| format!("\"{key}\": {}", list(at))).collect();
        let vmm = |fec: u8, vmm: u8| format!("{{\"fecID\": {fec}, \"vmmID\": {vmm}, {}}}", lists.join(", "));
        // One of the VMMs is calibrated wrongly, the others not at all.
        for (geometry, name, entry) in [
            ("vmm/example_geometry_xyu.json", "example_xyu.pcapng", vmm(6, 2)),
            ("config/refdata.json", "example.pcapng", vmm(1, 0)),
        ] {
            let calibration = format!("{{\"vmm_calibration\": [{entry}]}}");
            let setup = Setup { calibration, ..setup(geometry, "max_waiting = 5000") };
            let ran = run(&setup, &short(name, 6, 500), 2, Unwatched);
            prop_assert_eq!(ran.counters.get("decode.accepted"), 6);
            prop_assert!(ran.rows.iter().all(|row| row.ns().is_finite()));
        }
    }
}

#[test]
fn a_calibrated_time_that_is_no_number_is_counted() {
    let list = |number: f32| format!("{:?}", [number; 64]);
    // The root of a negative number.
    let walk = format!(
        "\"timewalk_a\": {}, \"timewalk_b\": {}, \"timewalk_c\": {}",
        list(9.0),
        list(0.5),
        list(-3.0)
    );
    let calibration = format!("{{\"vmm_calibration\": [{{\"fecID\": 6, \"vmmID\": 2, {walk}}}]}}");
    let setup = Setup { calibration, ..setup("vmm/example_geometry_xyu.json", "") };
    let ran = run(&setup, &capture("example_xyu.pcapng"), 7, Unwatched);
    // All hits of the VMM, of which none is without a marker.
    let unplaced = 9333 - ran.counters.get("hits.invalid");
    assert!(unplaced <= ran.counters.get("hits.latency_violation"), "{unplaced}");
}

#[test]
fn a_missing_fec_is_seen_in_the_counters_and_does_not_stop_time() {
    let mut packets = capture("example.pcapng");
    packets.retain(|packet| packet[7] >> 4 == 1);
    let options = format!("{EXAMPLE}\nhorizon_ms = 0.5");
    let ran = run(&setup("vmm/example_geometry.json", &options), &packets, 5, Unwatched);
    assert!(ran.events.is_empty());
    assert!(ran.counters.get("cluster.unmatched") > 50_000);
    // The online chain says which plane is alone.
    let mut config: serde_json::Value = serde_json::from_str(&text("config/refdata.json")).unwrap();
    config["srs_mappings"] = serde_json::json!([
        {"fecID": 2, "vmmID": 0, "planeID": 0, "strip_offset": 0},
        {"fecID": 1, "vmmID": 0, "planeID": 1, "strip_offset": 0},
    ]);
    let online = Setup { geometry: config.to_string(), ..Setup::default() };
    let ran = run(&online, &packets, 5, Unwatched);
    assert_eq!(ran.counters.get("events.y_only"), ran.counters.get("events.candidates"));
    assert!(ran.counters.get("events.y_only") > 1000);
}

#[test]
fn a_run_played_backwards_is_counted() {
    let mut packets = capture("example_xyu.pcapng");
    packets.reverse();
    let geometry = "vmm/example_geometry_xyu.json";
    let ran = run(&setup(geometry, "horizon_ms = 0.1"), &packets, 3, Unwatched);
    assert!(ran.counters.get("frames.seq_errors") > 40);
    assert!(ran.counters.get("timestamps.seq_errors") > 300);
    assert!(ran.counters.get("timestamps.restarts") > 10);
    // Within the usual horizon nothing begins anew: hits behind what has been clustered are late.
    let ran = run(&setup(geometry, "late_frames = 0"), &packets, 3, Unwatched);
    assert_eq!(ran.counters.get("timestamps.restarts"), 0);
    assert!(ran.counters.get("cluster.late") > 50_000);
    // All frames may be late.
    let ran = run(&setup(geometry, "late_frames = 64"), &packets, 3, Unwatched);
    assert_eq!(ran.counters.get("cluster.late"), 0);
}

/// Nothing is decided before the end: what all hits give in one order.
const WHOLE: &str = "late_frames = 64\nhorizon_ms = 60000";

/// Ends with the events and clusters of one pass over all hits.
fn as_in_one_pass(setup: &Setup, packets: &[Vec<u8>]) -> Ran {
    let ran = run(setup, packets, 3, Unwatched);
    let options = format!("{}\n{WHOLE}", setup.options);
    let whole = run(&Setup { options, ..setup.clone() }, packets, 3, Unwatched);
    assert_eq!(ran.counters.get("cluster.late"), 0);
    assert!(ran.events == whole.events, "other events than in one pass");
    for name in ["cluster.planes", "events.candidates", "timestamps.restarts"] {
        assert_eq!(ran.counters.get(name), whole.counters.get(name), "{name}");
    }
    ran
}

/// The online chain on x of FEC 6 and u of FEC 7.
fn online_xyu() -> Setup {
    let mut config: serde_json::Value = serde_json::from_str(&text("config/refdata.json")).unwrap();
    let x = [0, 1, 2, 3].map(|vmm| (6, vmm, 0, 64 * vmm));
    let u = [2, 3, 8, 9, 10, 11, 0, 1].into_iter().zip(0..).map(|(vmm, n)| (7, vmm, 1, 64 * n));
    let entry = |(fec, vmm, plane, strip)| serde_json::json!({"fecID": fec, "vmmID": vmm, "planeID": plane, "strip_offset": strip});
    config["srs_mappings"] = x.into_iter().chain(u).map(entry).collect();
    config["time_config"]["bc_clock"] = 40.into();
    (config["geometry_x"], config["geometry_y"]) = (512.into(), 512.into());
    let options = "offsets = '-1..15'".to_owned();
    Setup { geometry: config.to_string(), options, ..Setup::default() }
}

/// A capture in which the clock of one FEC is ahead by so many ticks.
fn ahead(packets: &[Vec<u8>], fec: u8, ticks: u64) -> Vec<Vec<u8>> {
    let mut packets = packets.to_vec();
    for packet in packets.iter_mut().filter(|packet| packet[7] >> 4 == fec) {
        for word in packet[16..].as_chunks_mut::<6>().0 {
            let [a, b, c, d, e, f] = *word;
            let time = u64::from(u32::from_be_bytes([a, b, c, d])) << 10;
            let low = u64::from(u16::from_be_bytes([e, f]));
            if low >> 15 == 0 {
                *word = marker((low >> 10) as u8, (time + (low & 0x3ff) + ticks) & ((1 << 42) - 1));
            }
        }
    }
    packets
}

#[test]
fn clocks_that_differ_by_any_time_cost_nothing() {
    let xyu = capture("example_xyu.pcapng");
    let mut planes: serde_json::Value =
        serde_json::from_str(&text("vmm/example_geometry_xyu.json")).unwrap();
    for entry in planes["vmm_geometry"].as_array_mut().unwrap() {
        entry["detector"] = entry["fec"].clone();
        entry["plane"] = 0.into();
    }
    // Detectors of their own, one for each FEC: what they find is theirs alone.
    let alone = Setup { geometry: planes.to_string(), ..Setup::default() };
    let wanted = run(&alone, &xyu, 3, Unwatched).counters.get("events.candidates");
    assert!(wanted > 10_000);
    for ms in [1, 1000, 2100, 10_000, 1_000_000] {
        let packets = ahead(&xyu, 7, 40_000 * ms);
        let ran = run(&alone, &packets, 3, Unwatched);
        assert_eq!(ran.counters.get("events.candidates"), wanted, "{ms} ms");
        assert_eq!(ran.counters.get("cluster.late"), 0, "{ms} ms");
        // Events from then on are of one plane.
        as_in_one_pass(&setup("vmm/example_geometry_xyu.json", ""), &packets);
    }
}

#[test]
fn one_damaged_marker_costs_none_of_the_others() {
    let geometry = "vmm/example_geometry_xyu.json";
    let xyu = capture("example_xyu.pcapng");
    for bit in [8, 12, 20, 25, 31] {
        let mut packets = xyu.clone();
        let words = packets[10][16..].as_chunks_mut::<6>().0;
        let word = words.iter_mut().find(|word| word[4] >> 7 == 0).expect("a marker");
        word[3 - bit / 8] ^= 1 << (bit % 8);
        let ran = as_in_one_pass(&setup(geometry, ""), &packets);
        assert_eq!(ran.counters.get("timestamps.restarts"), 0, "bit {bit}");
    }
}

#[test]
fn what_waits_stays_bounded_whatever_comes() {
    let options = format!("{EXAMPLE}\nmax_waiting = 2000");
    let detector = detector(&setup("vmm/example_geometry.json", &options));
    let mut decoder = detector.decoder(Want::default(), &Threads::of(1)).unwrap();
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let mut products = Products::default();
    for packet in capture("example.pcapng") {
        let batch = Batch::from_datagrams([(&packet[..], Origin::NONE)]);
        decoder.decode(Some(&batch), None, &mut products);
        let waiting = ledger.read().get("cluster.waiting").expect("a counter");
        assert!(waiting < 2000, "{waiting} hits wait");
    }
    decoder.finish(&mut products);
    let entries = ledger.read();
    assert!(entries.get("cluster.forced").is_some_and(|n| n > 10));
    assert_eq!((entries.balance(), entries.get("cluster.waiting")), (0, Some(0)));
}
