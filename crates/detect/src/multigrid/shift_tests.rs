//! A capture that is repeated is one long run: numbers without a jump, times that go on.

use super::*;
use crate::detector::{Detector, Setup};
use crate::multigrid::MultigridDetector;
use crate::steps::Reader;
use fullcount_core::batch::Batch;
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use proptest::prelude::*;

fn detector(spoof: bool) -> MultigridDetector {
    let file = include_str!("../../../../vectors/multigrid/config/three_modules_mg24.json");
    let geometry =
        file.replace("\"spoof_high_time\": false", &format!("\"spoof_high_time\": {spoof}"));
    let setup = Setup { geometry, ..Setup::default() };
    MultigridDetector::new(&setup).unwrap()
}

/// A packet with one trigger: its time as high and low part, the high one sent or not.
fn packet(number: u32, high: Option<u16>, low: u32) -> Vec<u8> {
    let mut data = vec![0x4000_0003u32];
    data.extend(high.map(|h| 0x2000_0000 | u32::from(h)));
    data.extend([0x1000_1200, 0xc000_0000 | low]);
    data[0] = 0x4000_0000 | (data.len() as u32 - 1);
    let mut bytes = vec![0x60, 0, 0, 0x58];
    bytes.extend((data.len() as u16 + 3).to_be_bytes());
    bytes.push(0);
    bytes.extend((0xbb00_0000 | number).to_le_bytes());
    bytes.extend(data.iter().flat_map(|w| w.to_le_bytes()));
    bytes.extend([0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    bytes
}

/// Times of each pass, and how often the event number jumps.
fn play(spoof: bool, capture: &[Vec<u8>], passes: u64) -> (Vec<Vec<i64>>, u64) {
    let detector = detector(spoof);
    let (mut shifter, mut reader) = (detector.shifter().unwrap(), detector.reader());
    capture.iter().for_each(|p| shifter.learn(p, Origin::NONE));
    let mut times = Vec::new();
    for pass in 0..passes {
        let mut hits = Vec::new();
        for packet in capture {
            let mut moved = packet.clone();
            if pass > 0 {
                shifter.shift(&mut moved, Origin::NONE, pass);
            }
            let batch = Batch::from_datagrams([(&moved[..], Origin::NONE)]);
            reader.read(&batch, &mut hits, &mut Products::default());
        }
        times.push(hits.iter().map(|hit| hit.time).collect());
    }
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    (times, ledger.read().get("container_seq_errors").unwrap())
}

#[test]
fn times_move_by_span_and_mean_distance_over_the_low_part() {
    let top = (1 << 30) - 10;
    let capture =
        [packet(0xff_ffff, Some(7), top), packet(0, Some(7), top + 4), packet(1, Some(8), 10)];
    let (times, jumps) = play(false, &capture, 4);
    let first = (7i64 << 30) + i64::from(top);
    for (pass, times) in times.iter().enumerate() {
        let begin = first + 30 * pass as i64;
        assert_eq!(*times, [begin, begin + 4, begin + 20]);
    }
    assert_eq!(jumps, 0, "the number goes on over its wrap");
}

#[test]
fn where_a_high_part_is_carried_whole_turns_keep_it_right() {
    let capture = [packet(0, Some(3), 100), packet(1, None, 200), packet(2, Some(4), 5)];
    let (times, _) = play(false, &capture, 3);
    for (pass, times) in times.iter().enumerate() {
        let high = 2 * pass as i64;
        assert_eq!(
            *times,
            [((3 + high) << 30) + 100, ((3 + high) << 30) + 200, ((4 + high) << 30) + 5]
        );
    }
}

#[test]
fn a_made_up_high_part_needs_the_low_part_alone() {
    let top = (1 << 30) - 50;
    let capture = [packet(0, Some(9), top), packet(1, Some(9), 50)];
    let (times, _) = play(true, &capture, 3);
    let first = i64::from(top);
    // 100 ticks, and 100 more to the next packet.
    for (pass, times) in times.iter().enumerate() {
        assert_eq!(*times, [first + 200 * pass as i64, first + 100 + 200 * pass as i64]);
    }
}

#[test]
fn jumps_inside_a_capture_come_again_and_none_at_its_seams() {
    let capture = [5, 6, 9, 10].map(|n| packet(n, Some(1), 10 * n));
    assert_eq!(play(false, &capture, 5).1, 5);
}

#[test]
fn refused_packets_keep_their_bytes() {
    let mut shifter = detector(false).shifter().unwrap();
    shifter.learn(&packet(1, Some(1), 1), Origin::NONE);
    for bytes in [vec![], vec![0x60; 30], vec![1, 2, 3]] {
        let mut moved = bytes.clone();
        shifter.shift(&mut moved, Origin::NONE, 3);
        assert_eq!(moved, bytes);
    }
}

#[test]
fn a_repeated_capture_loses_what_it_lost_once_a_pass_and_no_more() {
    // Two senders. One ends with an event without data; the other with a packet that is refused.
    let empty = |number: u32| {
        let mut bytes = packet(number, Some(1), 5);
        bytes.extend([0x58, 0, 3, 0]);
        bytes.extend((0xbb00_0000 | (number + 1)).to_le_bytes());
        bytes.extend([0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
        bytes
    };
    let mut refused = packet(7, Some(1), 6);
    refused[0] = 0x61;
    let other = Origin { ip: [9; 16], port: 1 };
    let capture = [
        (empty(0xff_fffc), Origin::NONE),
        (packet(5, Some(1), 5), other),
        (packet(6, Some(1), 5), other),
        // 0xff_fffe is lost.
        (empty(0xff_ffff), Origin::NONE),
        (refused, other),
    ];
    let detector = detector(false);
    let (mut shifter, mut reader) = (detector.shifter().unwrap(), detector.reader());
    capture.iter().for_each(|(p, origin)| shifter.learn(p, *origin));
    for pass in 0..4 {
        for (packet, origin) in &capture {
            let mut moved = packet.clone();
            if pass > 0 {
                shifter.shift(&mut moved, *origin, pass);
            }
            let batch = Batch::from_datagrams([(&moved[..], *origin)]);
            reader.read(&batch, &mut Vec::new(), &mut Products::default());
        }
    }
    reader.flush(fullcount_core::progress::Flush::End);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    let got = ["lost", "duplicate", "reordered", "late", "restarts", "count"]
        .map(|what| ledger.read().get(&format!("container_events.{what}")).unwrap());
    assert_eq!(got, [4, 0, 0, 0, 0, 4 * 6]);
}

proptest! {
    /// Random captures with their own high parts: every pass lies behind the one before, alike.
    #[test]
    fn passes_are_alike_and_follow_each_other(
        start in 0u64..1 << 40, steps in proptest::collection::vec(0u64..1 << 29, 1..20), number in 0u32..1 << 24,
    ) {
        let mut time = start;
        let capture: Vec<_> = steps.iter().zip(0..).map(|(step, i)| {
            time += step;
            packet((number + i) & 0xff_ffff, Some((time >> 30) as u16), (time & 0x3fff_ffff) as u32)
        }).collect();
        let (times, jumps) = play(false, &capture, 3);
        prop_assert_eq!(jumps, 0);
        let step = times[1][0] - times[0][0];
        prop_assert!(step > times[0].last().unwrap() - times[0][0]);
        for pass in 1..3 {
            let moved: Vec<i64> = times[0].iter().map(|t| t + pass as i64 * step).collect();
            prop_assert_eq!(&times[pass], &moved);
        }
    }

    #[test]
    fn any_bytes_are_survived(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..90), 1..9), pass: u64, spoof: bool,
    ) {
        let mut shifter = detector(spoof).shifter().unwrap();
        let packets: Vec<Vec<u8>> = packets.into_iter().map(|mut p| {
            if let Some(first) = p.first_mut() {
                *first = 0x60;
            }
            p
        }).collect();
        packets.iter().for_each(|p| shifter.learn(p, Origin::NONE));
        for p in &packets {
            let verdict = |p: &[u8]| container::sub_buffers(p, |_, _| ());
            let mut moved = p.clone();
            shifter.shift(&mut moved, Origin::NONE, pass);
            prop_assert_eq!(verdict(&moved), verdict(p));
            prop_assert_eq!(moved.len(), p.len());
        }
    }
}
