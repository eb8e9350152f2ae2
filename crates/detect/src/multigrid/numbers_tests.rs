//! Event numbers of packets made by hand: damaged at every word, cut, padded, and single numbers that damage made.

use super::super::container;
use super::*;

/// A packet of events with these numbers and as many data words.
fn packet(events: &[(u32, usize)]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0];
    for &(number, words) in events {
        bytes.push(0x58);
        bytes.extend((words as u16 + 3).to_be_bytes());
        bytes.push(0);
        bytes.extend((0xbb00_0000 | number).to_le_bytes());
        bytes.extend([0u8; 4].repeat(words));
        bytes.extend([0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    }
    bytes
}

/// Whole events, and the numbers read behind them.
fn read(packet: &[u8]) -> (Vec<u32>, Option<(u32, u32)>) {
    let mut whole = vec![];
    let rest = container::sub_buffers(packet, |_, number| whole.push(number));
    if rest.refusal.is_none() {
        return (whole, None);
    }
    let run = of_refused(packet, rest.whole, whole.last().copied());
    (whole, run.map(|run| (run.first, run.count)))
}

#[test]
fn damage_anywhere_leaves_all_numbers_readable() {
    let good = packet(&[(0xff_fffe, 2), (0xff_ffff, 0), (0, 1), (1, 3)]);
    // Words: 0..6, 6..10, 10..15, 15..22. Each word that the container looks at, damaged in turn.
    let events = [(0, 6), (6, 4), (10, 5), (15, 7)];
    for (n, (start, words)) in events.into_iter().enumerate() {
        for (word, byte) in
            [(start, 0), (start + 1, 3), (start + words - 2, 1), (start + words - 1, 3)]
        {
            let mut bad = good.clone();
            bad[3 + 4 * word + byte] ^= 0x10;
            let (whole, run) = read(&bad);
            assert_eq!(whole.len(), n, "word {word}");
            let first = (0xff_fffe + n as u32) & MASK;
            assert_eq!(run, Some((first, 4 - n as u32)), "word {word}");
        }
    }
}

#[test]
fn a_length_beyond_the_packet_hides_no_number_behind_it() {
    let mut bad = packet(&[(7, 2), (8, 2), (9, 2)]);
    bad[3 + 4 * 6 + 1] = 0xff;
    assert_eq!(read(&bad), (vec![7], Some((8, 2))));
}

#[test]
fn other_types_are_read_where_they_look_like_events() {
    let mut bad = packet(&[(7, 2), (8, 2)]);
    bad[0] = 0x61;
    assert_eq!(read(&bad), (vec![], Some((7, 2))));
    // A packet of one event: its begin word comes first.
    let single = [0x58, 0, 0, 5, 0, 0, 0xbb, 1, 2, 3, 4];
    assert_eq!(read(&single), (vec![], Some((5, 1))));
    for junk in [&[][..], &[0x61], &[0x60; 10], &[0x50; 40], &[0xff; 60], b"FCSQ and nothing more"]
    {
        assert_eq!(read(junk), (vec![], None));
    }
}

#[test]
fn what_is_cut_off_and_padding_have_no_number() {
    let good = packet(&[(7, 2), (8, 6), (9, 6)]);
    // Words: 0..6, 6..16, 16..26. Cut in the second event's data; so early in it that the packet counts as whole,
    // whose event did not come; and in the third's.
    for (words, before, count) in [(12, vec![7], 1), (10, vec![7], 0), (22, vec![7, 8], 1)] {
        let (whole, run) = read(&good[..3 + 4 * words]);
        assert_eq!((whole, run.map_or(0, |r| r.1)), (before, count), "{words}");
    }
    let mut padded = packet(&[(7, 2), (8, 2), (9, 2)]);
    padded.extend([0x11; 40]);
    assert_eq!(read(&padded), (vec![7, 8, 9], None));
}

#[test]
fn an_empty_event_at_the_end_has_a_number() {
    let p = packet(&[(7, 2), (8, 0)]);
    let rest = container::sub_buffers(&p, |_, _| ());
    assert_eq!((rest.ignored, empty_last(&p, rest.ignored)), (16, Some(8)));
    let longer = [&p[..], &[1, 2, 3]].concat();
    assert_eq!(empty_last(&longer, 19), Some(8));
    for at in 27..43 {
        let mut bad = p.clone();
        bad[at] ^= 0x40;
        let ignored = container::sub_buffers(&bad, |_, _| ()).ignored;
        // Status, number and the count of bus errors may be anything.
        let free = matches!(at, 30..=33 | 39..=41);
        assert_eq!(empty_last(&bad, ignored).is_some(), free, "{at}");
    }
}

#[test]
fn a_single_number_that_damage_made_is_put_right_and_a_gap_stays() {
    let runs = |all: &[(u32, u32)]| -> Vec<EventRun> {
        all.iter().map(|&(first, count)| EventRun { first, count }).collect()
    };
    for (given, expected, healed) in [
        (&[(5, 3), (900_000, 1), (9, 2)][..], None, &[(5, 6)][..]),
        (&[(900_000, 1), (6, 2)], Some(5), &[(5, 3)]),
        (&[(5, 3), (900_000, 1)], None, &[(5, 4)]),
        (&[(5, 1), (900_000, 1)], Some(5), &[(5, 2)]),
        // Nobody can tell which of the two is right; a gap of 4; one far away, but not single.
        (&[(5, 1), (900_000, 1)], None, &[(5, 1), (900_000, 1)]),
        (&[(5, 3), (12, 1)], Some(5), &[(5, 3), (12, 1)]),
        (&[(5, 3), (900_000, 2)], Some(5), &[(5, 3), (900_000, 2)]),
        (&[(MASK, 1), (77, 1), (1, 1), (77, 1), (3, 2)], None, &[(MASK, 6)]),
    ] {
        let mut all = runs(given);
        heal(&mut all, expected, 1 << 14);
        assert_eq!(all, runs(healed), "{given:?}");
    }
}
