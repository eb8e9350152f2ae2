//! Captures made by hand, played several times as one run: nothing at the seams, everything inside.

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::Products;
use proptest::prelude::*;

use super::*;
use crate::detector::{Detector, Kind, Setup};
use crate::multiblade::MultiBlade;

/// A packet of digitiser 137 with one readout, written out by hand: shares nothing with the decoder.
fn packet(sequence: u32, global_time: u64) -> Vec<u8> {
    let mut p = vec![7; 8];
    p.extend(global_time.to_le_bytes());
    p.extend([137, 0, 0, 0, 1, 0, 1, 0, 1, 3]);
    p.extend(sequence.to_le_bytes());
    p.extend([0xaa, 0xbb]);
    p.extend([1, 2, 3, 4, 5, 0, 7, 8]);
    p
}

fn origin(port: u16) -> Origin {
    Origin { ip: [7; 16], port }
}

fn detector(options: &str) -> Box<dyn Detector> {
    MultiBlade.configure(&Setup { options: options.into(), ..Setup::default() }).unwrap()
}

/// Plays `capture` `passes` times through shifter and reader: global times of each pass, counters.
fn play(options: &str, capture: &[(u16, Vec<u8>)], passes: u64) -> (Vec<Vec<u64>>, Entries) {
    let detector = detector(options);
    let (mut reader, mut shifter) = (detector.first_step().unwrap(), detector.shifter().unwrap());
    for (port, packet) in capture {
        shifter.learn(packet, origin(*port));
    }
    let mut times = Vec::new();
    for pass in 0..passes {
        times.push(Vec::new());
        for (port, packet) in capture {
            let mut packet = packet.clone();
            if pass > 0 {
                shifter.shift(&mut packet, origin(*port), pass);
            }
            reader.decode(
                Some(&Batch::from_datagrams([(&packet[..], origin(*port))])),
                None,
                &mut Products::default(),
            );
            if let Ok(header) = packet::header(&packet) {
                times[pass as usize].push(header.global_time);
            }
        }
    }
    reader.finish(&mut Products::default());
    let ledger = Ledger::default();
    ledger.register(reader.sheets().remove(0));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    (times, entries)
}

#[track_caller]
fn expect(entries: &Entries, wanted: &[(&str, u64)]) {
    for &(name, value) in wanted {
        assert_eq!(entries.get(name), Some(value), "{name}");
    }
}

fn numbered(numbers: impl IntoIterator<Item = u32>) -> Vec<(u16, Vec<u8>)> {
    numbers.into_iter().map(|n| (1, packet(n, 1000 + 20 * u64::from(n)))).collect()
}

#[test]
fn number_and_global_time_move_and_wrap_and_nothing_else_does() {
    let before = packet(u32::MAX, u64::MAX - 1);
    let mut moved = before.clone();
    shift(&mut moved, 3, 5);
    assert_eq!((&moved[8..16], &moved[26..30]), (&3u64.to_le_bytes()[..], &2u32.to_le_bytes()[..]));
    moved[8..16].copy_from_slice(&before[8..16]);
    moved[26..30].copy_from_slice(&before[26..30]);
    assert_eq!(moved, before);
    for damaged in [vec![1; 31], vec![9; 60]] {
        let mut moved = damaged.clone();
        shift(&mut moved, 1, 1);
        assert_eq!(moved, damaged, "what cannot be read stays");
    }
}

#[test]
fn a_loss_in_the_capture_is_one_in_each_pass_and_none_at_the_seams() {
    let (times, entries) = play("", &numbered([0, 1, 3, 4]), 5);
    expect(&entries, &[("packets.lost", 5), ("readouts.seq_errors", 5), ("packets.duplicate", 0)]);
    // 80 ms and the mean distance of two packets, 26.
    assert_eq!(times[1], times[0].iter().map(|t| t + 106).collect::<Vec<_>>());
    let (_, entries) = play("", &numbered([0, 1, 1, 2]), 5);
    expect(&entries, &[("packets.lost", 0), ("packets.duplicate", 5)]);
    let (_, entries) = play("", &numbered([0, 1, 3, 2]), 4);
    expect(&entries, &[("packets.lost", 0), ("packets.reordered", 4), ("packets.duplicate", 0)]);
}

#[test]
fn senders_beyond_the_limit_keep_their_number() {
    let detector = detector("max_streams = 1");
    let mut shifter = detector.shifter().unwrap();
    let capture = [(1, packet(5, 10)), (1, packet(6, 20)), (2, packet(70, 30))];
    capture.iter().for_each(|(port, p)| shifter.learn(p, origin(*port)));
    let moved = |at: usize| {
        let (port, mut p) = capture[at].clone();
        shifter.shift(&mut p, origin(port), 2);
        p
    };
    let mut moved = moved;
    // Three packets in 20 ms: 30 ms a pass.
    assert_eq!(moved(2), packet(70, 90));
    assert_eq!(moved(0), packet(9, 70));
}

proptest! {
    /// A capture whose numbers are continuous is one long run when repeated.
    #[test]
    fn a_whole_capture_repeats_as_one_run(
        begin in any::<[u32; 3]>(), passes in 2u64..5,
        packets in proptest::collection::vec((0usize..3, 0u64..1000), 1..40),
    ) {
        let (mut now, mut numbers) = (1u64 << 40, begin);
        let mut capture = Vec::new();
        for (stream, step) in packets {
            now += step;
            capture.push((stream as u16, packet(numbers[stream], now)));
            numbers[stream] = numbers[stream].wrapping_add(1);
        }
        let (times, entries) = play("", &capture, passes);
        for name in ["packets.lost", "packets.duplicate", "packets.reordered", "packets.late", "packets.restarts"] {
            prop_assert_eq!(entries.get(name), Some(0), "{}", name);
        }
        for pair in times.windows(2) {
            prop_assert!(pair[0].iter().max() < pair[1].iter().min());
        }
    }

    /// Whatever is learnt and moved, nothing panics and no packet changes its verdict or its length.
    #[test]
    fn any_bytes_are_survived(
        packets in proptest::collection::vec((0u16..4, proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..30),
        repetition in any::<u64>(),
    ) {
        let verdict = |p: &[u8]| packet::header(p).and_then(|h| packet::elements(&h, p).map(<[_]>::len));
        let mut shifter = detector("max_streams = 3").shifter().unwrap();
        let packets: Vec<_> = packets.into_iter().map(|(port, mut bytes, tame)| {
            if tame && bytes.len() >= 32 {
                let n = ((bytes.len() - 32) / 8) as u8;
                bytes[20..26].copy_from_slice(&[1, 0, n, 0, 1, 3]);
            }
            (port, bytes)
        }).collect();
        packets.iter().for_each(|(port, bytes)| shifter.learn(bytes, origin(*port)));
        for (port, bytes) in &packets {
            let mut moved = bytes.clone();
            shifter.shift(&mut moved, origin(*port), repetition);
            prop_assert_eq!(verdict(&moved), verdict(bytes));
            prop_assert_eq!(moved.len(), bytes.len());
        }
    }
}
