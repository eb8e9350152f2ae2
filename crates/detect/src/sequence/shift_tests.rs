//! Captures made by hand, played several times as one run: nothing at the seams, everything inside.

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::Products;
use proptest::prelude::*;

use super::*;
use crate::alone::Alone;
use crate::detector::{Detector, Kind, Setup};
use crate::sequence::Sequence;

/// Written out by hand: shares nothing with the decoder.
fn packet(stream: u32, number: u64, time: u64) -> Vec<u8> {
    let mut p = b"FCSQ".to_vec();
    p.extend(stream.to_le_bytes());
    p.extend(number.to_le_bytes());
    p.extend(time.to_le_bytes());
    p.extend((24..40u8).map(|i| (32 * (number % 8) as u8).wrapping_add(i)));
    p
}

fn data(numbers: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(|n| packet(1, n, 1000 + 10 * n)).collect()
}

fn marks(total: u64) -> Vec<Vec<u8>> {
    vec![packet(1, u64::MAX, total); 5]
}

fn detector(options: &str) -> Box<dyn Detector> {
    Sequence.configure(&Setup { options: options.into(), ..Setup::default() }).unwrap()
}

/// Plays `capture` `passes` times through shifter and reader, which checks every pattern.
fn play(capture: &[Vec<u8>], passes: u64) -> Entries {
    let detector = detector("verify = true");
    let (mut reader, mut shifter) = (detector.alone(), detector.shifter().unwrap());
    capture.iter().for_each(|packet| shifter.learn(packet, Origin::NONE));
    for pass in 0..passes {
        for packet in capture {
            let mut packet = packet.clone();
            if pass > 0 {
                shifter.shift(&mut packet, Origin::NONE, pass);
            }
            let batch = Batch::from_datagrams([(&packet[..], Origin::NONE)]);
            reader.decode(Some(&batch), None, &mut Products::default());
        }
    }
    reader.finish(&mut Products::default());
    let ledger = Ledger::default();
    ledger.register(reader.sheets().remove(0));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    entries
}

/// Accepted, copies, lost, lost before the start, reordered.
fn counts(entries: &Entries) -> [u64; 5] {
    let names = ["accepted", "copies"].map(|n| format!("decode.{n}"));
    let more = ["lost", "lost.down", "reordered"].map(|n| format!("packets.{n}"));
    let mut all = names.iter().chain(&more).map(|n| entries.get(n).unwrap());
    std::array::from_fn(|_| all.next().unwrap())
}

#[test]
fn a_whole_run_repeated_is_a_longer_whole_run_with_and_without_its_end() {
    let mut capture = data(0..100);
    assert_eq!(counts(&play(&capture, 4)), [400, 0, 0, 0, 0]);
    capture.extend(marks(100));
    let entries = play(&capture, 4);
    assert_eq!(counts(&entries), [400, 0, 0, 0, 0]);
    assert_eq!(entries.get("decode.end_marks"), Some(20));
}

#[test]
fn a_part_of_a_run_goes_on_where_it_stopped() {
    assert_eq!(counts(&play(&data(10_000..10_100), 3)), [300, 0, 0, 10_000, 0]);
}

#[test]
fn losses_copies_and_swaps_are_those_of_each_pass() {
    assert_eq!(counts(&play(&data([0, 1, 3, 3, 5, 4, 7, 6]), 4)), [28, 4, 4, 0, 8]);
    assert_eq!(
        counts(&play(&data([1, 0, 2, 3]), 4)),
        [16, 0, 0, 0, 4],
        "the first two changed places"
    );
    let mut lost_tail = data(0..10);
    lost_tail.extend(marks(12));
    assert_eq!(counts(&play(&lost_tail, 4)), [40, 0, 8, 0, 0]);
}

#[test]
fn a_sender_that_began_anew_in_the_capture_goes_on_from_its_second_run() {
    let mut capture = data(0..5000);
    capture.extend(marks(5000));
    capture.extend(data(0..10));
    let entries = play(&capture, 3);
    assert_eq!(counts(&entries), [3 * 5010, 0, 0, 0, 0]);
    assert_eq!(entries.get("packets.restarts"), Some(3));
}

#[test]
fn a_single_end_mark_that_contradicts_is_not_believed() {
    let mut capture = data(0..10);
    capture.push(packet(1, u64::MAX, 1 << 50));
    assert_eq!(counts(&play(&capture, 1))[2], (1 << 50) - 10, "the reader has nothing better");
    let mut shifter = detector("").shifter().unwrap();
    capture.iter().for_each(|packet| shifter.learn(packet, Origin::NONE));
    let mut moved = capture[3].clone();
    shifter.shift(&mut moved, Origin::NONE, 1);
    assert_eq!(moved, packet(1, 13, 1030 + 100), "ten numbers, and 90 ns with a gap of 10");
}

#[test]
fn damaged_bytes_stay_damaged_and_foreign_ones_stay() {
    let mut capture = data(0..3);
    capture[1][30] ^= 1;
    capture.push(b"something else that is long enough".to_vec());
    capture.push(packet(1, 1 << 60, 0));
    let entries = play(&capture, 3);
    assert_eq!(entries.get("errors.payload.pattern"), Some(3));
    assert_eq!(entries.get("errors.header.magic"), Some(3));
    assert_eq!(entries.get("errors.header.number"), Some(3));
    assert_eq!(counts(&entries), [6, 0, 0, 0, 0]);
}

#[test]
fn senders_with_one_stream_id_move_on_by_their_own_count() {
    let origins =
        [7u16, 8].map(|port| Origin::from(std::net::SocketAddr::from(([192, 0, 2, 1], port))));
    let move_on = |options: &str| {
        let mut shifter = detector(options).shifter().unwrap();
        (0..3).for_each(|n| shifter.learn(&packet(1, n, 0), origins[0]));
        (0..5).for_each(|n| shifter.learn(&packet(1, n, 0), origins[1]));
        origins.map(|origin| {
            let mut moved = packet(1, 0, 0);
            shifter.shift(&mut moved, origin, 2);
            moved[8]
        })
    };
    assert_eq!(move_on(""), [6, 10]);
    assert_eq!(move_on("key = \"id\""), [10, 10]);
}

#[test]
fn streams_beyond_the_limit_stay_as_they_are() {
    let mut shifter = detector("max_streams = 1").shifter().unwrap();
    for stream in [1, 2] {
        shifter.learn(&packet(stream, 0, 0), Origin::NONE);
        let mut moved = packet(stream, 0, 0);
        shifter.shift(&mut moved, Origin::NONE, 5);
        let wanted = if stream == 1 { packet(1, 5, 5) } else { packet(2, 0, 0) };
        assert_eq!(moved, wanted);
    }
}

#[test]
fn numbers_stop_at_the_first_that_is_refused() {
    let mut shifter = detector("").shifter().unwrap();
    shifter.learn(&packet(1, 0, 0), Origin::NONE);
    let mut moved = packet(1, 0, 0);
    shifter.shift(&mut moved, Origin::NONE, u64::MAX);
    assert_eq!(packet::parse(&moved), Err(packet::SequenceRefusal::Number));
    let mut moved = packet(1, u64::MAX, 7);
    shifter.shift(&mut moved, Origin::NONE, u64::MAX);
    assert_eq!(packet::parse(&moved), Ok(SequencePayload::End { stream: 1, total: NUMBER_LIMIT }));
}

proptest! {
    /// Streams that are whole stay whole, however they are mixed, wherever they begin, and their
    /// sender times never go back.
    #[test]
    fn whole_streams_repeat_as_one_run(
        begin in any::<[u32; 3]>(), order in proptest::collection::vec(0usize..3, 1..60),
        ended in any::<[bool; 3]>(), passes in 2u64..5,
    ) {
        let mut next = begin.map(u64::from);
        let mut capture = Vec::new();
        for (i, &stream) in order.iter().enumerate() {
            capture.push(packet(stream as u32, next[stream], 500 + 7 * i as u64));
            next[stream] += 1;
        }
        for stream in (0..3).filter(|&s| ended[s] && next[s] > u64::from(begin[s])) {
            capture.extend(vec![packet(stream as u32, u64::MAX, next[stream]); 5]);
        }
        let [accepted, copies, lost, _, reordered] = counts(&play(&capture, passes));
        let head: u64 = (0..3).filter(|s| order.contains(s)).map(|s| u64::from(begin[s]))
            .filter(|b| *b <= 4096).sum();
        prop_assert_eq!([accepted, copies, lost, reordered], [order.len() as u64 * passes, 0, head, 0]);

        let mut shifter = detector("").shifter().unwrap();
        capture.iter().for_each(|packet| shifter.learn(packet, Origin::NONE));
        let mut sent = Vec::new();
        for pass in 0..passes {
            for packet in &mut capture.clone() {
                shifter.shift(packet, Origin::NONE, pass);
                if let Ok(SequencePayload::Data { sent_ns, .. }) = packet::parse(packet) {
                    sent.push(sent_ns);
                }
            }
        }
        prop_assert!(sent.windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// Whatever is learnt and moved, nothing panics and no packet changes its length.
    #[test]
    fn any_bytes_are_survived(
        packets in proptest::collection::vec((0u32..4, any::<u64>(), any::<u64>(), 0u32..60, 0usize..40), 0..30),
        repetition in any::<u64>(),
    ) {
        let mut shifter = detector("max_streams = 3").shifter().unwrap();
        let packets: Vec<Vec<u8>> = packets.into_iter().map(|(stream, number, time, fewer, len)| {
            let number = if number == 0 || fewer % 5 == 0 { u64::MAX } else { number >> fewer };
            packet(stream, number, time >> fewer)[..len].to_vec()
        }).collect();
        packets.iter().for_each(|packet| shifter.learn(packet, Origin::NONE));
        for packet in &packets {
            let mut moved = packet.clone();
            shifter.shift(&mut moved, Origin::NONE, repetition);
            prop_assert_eq!(moved.len(), packet.len());
            prop_assert!(packet::parse(packet).is_ok() || moved == *packet);
        }
    }
}
