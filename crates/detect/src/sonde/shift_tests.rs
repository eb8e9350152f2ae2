//! Captures made by hand, played several times as one run: nothing at the seams, everything inside.

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Entries, Ledger};
use fullcount_core::products::Products;
use proptest::prelude::*;

use super::*;
use crate::alone::Alone;
use crate::detector::{Detector, Kind, Setup};
use crate::sonde::Sonde;

/// A 0xD6 packet, written out by hand: shares nothing with the decoder.
fn d6(system: u8, count: u16, header: u32, times: &[u32]) -> Vec<u8> {
    let mut p = vec![system, 0xd6];
    p.extend((count & 0x3fff).to_be_bytes());
    p.extend(header.to_be_bytes());
    p.extend((1 + 5 * times.len() as u16).to_be_bytes());
    p.push(times.len() as u8);
    for time in times {
        p.extend(time.to_be_bytes());
        p.push(64);
    }
    p
}

fn origin(port: u16) -> Origin {
    Origin { ip: [7; 16], port }
}

fn detector(options: &str) -> Box<dyn Detector> {
    Sonde.configure(&Setup { options: options.into(), ..Setup::default() }).unwrap()
}

/// Plays `capture` `passes` times through shifter and reader: event times of each pass, counters.
fn play(options: &str, capture: &[(u16, Vec<u8>)], passes: u64) -> (Vec<Vec<i64>>, Entries) {
    let detector = detector(options);
    let (mut reader, mut shifter) = (detector.alone(), detector.shifter().unwrap());
    for (port, packet) in capture {
        shifter.learn(packet, origin(*port));
    }
    let mut times = Vec::new();
    for pass in 0..passes {
        let mut products = Products::default();
        for (port, packet) in capture {
            let mut packet = packet.clone();
            if pass > 0 {
                shifter.shift(&mut packet, origin(*port), pass);
            }
            let batch = Batch::from_datagrams([(&packet[..], origin(*port))]);
            reader.decode(Some(&batch), None, &mut products);
        }
        times.push(products.events.absolute().map(|(time, _)| time).collect());
    }
    reader.finish(&mut Products::default());
    let ledger = Ledger::default();
    ledger.register(reader.sheets().remove(0));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    (times, entries)
}

fn bare(packets: impl IntoIterator<Item = u16>) -> Vec<(u16, Vec<u8>)> {
    packets.into_iter().map(|n| (1, d6(0, n, 100 * u32::from(n), &[]))).collect()
}

#[track_caller]
fn expect(entries: &Entries, wanted: &[(&str, u64)]) {
    for &(name, value) in wanted {
        assert_eq!(entries.get(name), Some(value), "{name}");
    }
}

#[test]
fn counts_and_times_move_and_wrap_and_nothing_else_does() {
    let mut d6 = [
        0x01, 0xd6, 0xff, 0xfe, 0, 0, 0, 1, 0, 0x0b, 2, 0xff, 0xff, 0xff, 0xff, 0x0a, 0, 0, 0, 2,
        0x4a,
    ];
    shift(&mut d6, 3, 2);
    let want = [0x01, 0xd6, 0xc0, 0x01, 0, 0, 0, 3, 0, 0x0b, 2, 0, 0, 0, 1, 0x0a, 0, 0, 0, 4, 0x4a];
    assert_eq!(d6, want);
    let mut d4 = [0x01, 0xd4, 0, 1, 0, 0, 0, 1, 0, 13, 1, 0, 1, 0, 0, 0, 1, 2, 3, 4, 0xaa, 0xaa, 9];
    let before = d4;
    shift(&mut d4, 1, 1);
    let changed: Vec<usize> = (0..d4.len()).filter(|&i| d4[i] != before[i]).collect();
    assert_eq!(changed, [3, 7, 16], "the spare byte stays");
}

#[test]
fn what_cannot_be_read_stays() {
    let mut short = [1, 2, 3];
    shift(&mut short, 1, 1);
    assert_eq!(short, [1, 2, 3]);
    let mut version = [0xff; 40];
    shift(&mut version, 1, 1);
    assert_eq!(version, [0xff; 40]);
}

#[test]
fn a_loss_in_the_capture_is_one_in_each_pass_and_none_at_the_seams() {
    let (_, entries) = play("", &bare([10, 11, 13, 14]), 5);
    expect(&entries, &[("packets.lost", 5), ("readouts.seq_errors", 5), ("packets.duplicate", 0)]);
    let (_, entries) = play("", &bare([10, 11, 11, 12]), 5);
    expect(&entries, &[("packets.lost", 0), ("packets.duplicate", 5)]);
}

#[test]
fn packets_that_changed_places_at_a_seam_stay_reordered() {
    let (_, entries) = play("", &bare([10, 11, 13, 12]), 4);
    expect(&entries, &[("packets.lost", 0), ("packets.reordered", 4), ("packets.duplicate", 0)]);
    let (_, entries) = play("", &bare([11, 10, 12, 13]), 4);
    // In the first pass, nothing says that 10 was overtaken and is not a copy from before.
    let wanted = [("packets.reordered", 3), ("packets.late", 1), ("packets.duplicate", 0)];
    expect(&entries, &wanted);
    expect(&entries, &[("packets.lost", 0)]);
}

#[test]
fn a_restart_within_the_capture_goes_on_from_its_own_end() {
    let (_, entries) = play("", &bare((0..6000).chain([0, 1, 2])), 2);
    expect(&entries, &[("packets.restarts", 2), ("packets.lost", 0)]);
}

#[test]
fn refused_packets_count_where_the_reader_counts_them() {
    // Checks 1 and 2 first, the sequence check next: the short and the foreign one have no count.
    let mut capture = bare([1, 2]);
    capture.push((1, vec![0xff; 40]));
    capture.push((1, vec![0; 10]));
    let mut damaged = d6(0, 3, 1 << 31, &[1]);
    damaged[10] = 9;
    capture.push((1, damaged));
    let (_, entries) = play("", &capture, 3);
    let wanted = [
        ("readouts.seq_errors", 0),
        ("decode.accepted", 6),
        ("errors.header.version", 3),
        ("errors.bad_size.short_packet", 3),
        ("errors.header.entry_count_mismatch", 3),
    ];
    expect(&entries, &wanted);
}

#[test]
fn one_state_for_all_is_moved_as_one() {
    let mut capture = bare([7, 8]);
    capture.push((2, d6(5, 9, 900, &[])));
    let (_, entries) = play("sequence_state = 'one'", &capture, 4);
    expect(&entries, &[("readouts.seq_errors", 0), ("packets.lost", 0)]);
}

#[test]
fn streams_beyond_the_limit_keep_their_count_and_move_in_time() {
    let mut capture = bare([7, 8]);
    capture.push((2, d6(5, 9, 900, &[950])));
    let detector = detector("max_streams = 1");
    let mut shifter = detector.shifter().unwrap();
    capture.iter().for_each(|(port, packet)| shifter.learn(packet, origin(*port)));
    let mut packet = capture[2].1.clone();
    shifter.shift(&mut packet, origin(2), 2);
    // 700 to 950, three packets: 250 + 125 per pass.
    assert_eq!(packet, d6(5, 9, 900 + 750, &[950 + 750]));
}

#[test]
fn passes_follow_each_other_over_the_wrap_and_with_events_before_their_header() {
    let at = |n: u32| (1u32 << 30).wrapping_mul(n);
    let capture: Vec<_> = (0..7)
        .map(|n| (1, d6(0, n as u16, at(n), &[at(n).wrapping_sub(34 * n.min(1)), at(n) + 40])))
        .collect();
    let (times, entries) = play("", &capture, 3);
    let span = 6 * (1i64 << 30) + 40;
    let step = span + span / 6;
    for pass in 1..3 {
        let wanted: Vec<i64> = times[0].iter().map(|t| t + pass as i64 * step).collect();
        assert_eq!(times[pass], wanted);
    }
    expect(&entries, &[("readouts.seq_errors", 0), ("events.count", 42)]);
}

#[test]
fn a_capture_without_any_time_moves_nothing() {
    let mut shifter = detector("").shifter().unwrap();
    let refused = [0u8, 0xd6, 0, 1, 0, 0, 0, 1, 0, 9, 9];
    shifter.learn(&refused, origin(1));
    let mut moved = refused;
    shifter.shift(&mut moved, origin(1), u64::MAX);
    assert_eq!(moved, [0, 0xd6, 0, 0, 0, 0, 0, 1, 0, 9, 9], "1 count, 2⁶⁴ − 1 times");
}

proptest! {
    /// A capture whose counts are continuous is one long run when repeated: no event is lost or made,
    /// no count is wrong, and every pass lies wholly behind the one before.
    #[test]
    fn a_whole_capture_repeats_as_one_run(
        start in any::<u32>(), begin in any::<[u16; 3]>(), passes in 2u64..5, one in any::<bool>(),
        packets in proptest::collection::vec(
            (0usize..3, 0u32..1 << 28, proptest::collection::vec(0u32..1 << 20, 0..6)), 1..40),
    ) {
        // Streams take turns at the head, so that each is known at the start of its clock.
        let (mut now, mut counts, mut events) = (start, begin, 0);
        let options = if one { "sequence_state = 'one'" } else { "" };
        let mut capture = Vec::new();
        for (stream, step, entries) in &packets {
            let (stream, state) = (*stream, if one { 0 } else { *stream });
            now = now.wrapping_add(*step);
            let times: Vec<u32> = entries.iter().map(|e| now.wrapping_add(*e)).collect();
            events += times.len();
            capture.push((stream as u16 / 2, d6(stream as u8, counts[state], now, &times)));
            counts[state] = counts[state].wrapping_add(1);
        }
        // A silence of 2³¹ ticks or more within a stream cannot be told from a shorter one.
        let silent = longest_silence(&packets);
        prop_assume!(silent < 1 << 31);
        let (times, entries) = play(options, &capture, passes);
        prop_assert_eq!(times.iter().map(Vec::len).sum::<usize>(), events * passes as usize);
        for name in ["readouts.seq_errors", "packets.lost", "packets.duplicate", "packets.reordered",
                     "packets.late", "packets.restarts"] {
            prop_assert_eq!(entries.get(name), Some(0), "{}", name);
        }
        for pair in times.windows(2) {
            prop_assert!(pair[0].iter().max() < pair[1].iter().min() || pair[0].is_empty());
        }
    }

    /// Whatever is learnt and moved, nothing panics and no packet changes its verdict or its length.
    #[test]
    fn any_bytes_are_survived(
        packets in proptest::collection::vec((0u16..4, proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..30),
        repetition in any::<u64>(),
    ) {
        let verdict = |p: &[u8]| packet::header(p).and_then(|h| Times::of(&h, p).map(|_| ()));
        let mut shifter = detector("max_streams = 3").shifter().unwrap();
        let packets: Vec<_> = packets.into_iter().map(|(port, mut bytes, tame)| {
            if tame && bytes.len() >= 11 {
                let length = (bytes.len() - 10) as u16;
                bytes[0] &= 1;
                bytes[1] = 0xd4 + bytes[1] % 3;
                bytes[8..10].copy_from_slice(&length.to_be_bytes());
                bytes[10] = length as u8 / 5;
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

/// Longest time between two packets of a stream, the seam of two passes included.
fn longest_silence(packets: &[(usize, u32, Vec<u32>)]) -> u64 {
    let (mut now, mut longest, mut end) = (0u64, 0, 0);
    let (mut first, mut last) = ([None; 3], [None; 3]);
    for (stream, step, entries) in packets {
        now += u64::from(*step);
        end = entries.iter().map(|&e| now + u64::from(e)).fold(end.max(now), u64::max);
        first[*stream] = first[*stream].or(Some(now));
        longest = longest.max(now - last[*stream].unwrap_or(now));
        last[*stream] = Some(now);
    }
    let begin = u64::from(packets[0].1);
    let pass = end - begin + (end - begin) / (packets.len() as u64 - 1).max(1) + 1;
    let seams = first.iter().zip(&last).filter_map(|(f, l)| Some(pass + (*f)? - (*l)?));
    seams.fold(longest, u64::max)
}
