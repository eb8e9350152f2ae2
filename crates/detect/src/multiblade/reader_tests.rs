//! Readouts of packets made by hand: order of the checks, segments, modes, numbering, and any bytes at all.

use fullcount_core::batch::Origin;
use fullcount_core::ledger::{Entries, Ledger};
use proptest::prelude::*;

use super::*;
use crate::detector::Setup;
use crate::multiblade::MultiBladeDetector;

/// A packet with readouts (local time, channel, amplitude), written out by hand.
fn packet(sequence: u32, digitizer: u32, readouts: &[(u32, u16, u16)]) -> Vec<u8> {
    let mut p = vec![0; 16];
    p.extend(digitizer.to_le_bytes());
    p.extend([1, 0]);
    p.extend((readouts.len() as u16).to_le_bytes());
    p.extend([1, 3]);
    p.extend(sequence.to_le_bytes());
    p.extend([0, 0]);
    for (time, channel, adc) in readouts {
        p.extend(time.to_le_bytes());
        p.extend(channel.to_le_bytes());
        p.extend(adc.to_le_bytes());
    }
    p
}

const AMOR: &str = include_str!("../../../../vectors/multiblade/config/AmorB.json");

fn detector(geometry: &str, options: &str) -> MultiBladeDetector {
    let (geometry, options) = (geometry.to_owned(), options.to_owned());
    let setup = Setup { geometry, options, ..Setup::default() };
    MultiBladeDetector::new(&setup).unwrap_or_else(|e| panic!("{e}"))
}

/// Hits that the builder gets, and counters.
fn read(geometry: &str, options: &str, packets: &[Vec<u8>]) -> (Vec<PlaneHit>, Entries) {
    let mut reader = detector(geometry, options).reader();
    let mut hits = Vec::new();
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    reader.read(&batch, &mut hits, &mut Products::default());
    reader.flush(Flush::End);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    (hits, entries)
}

#[track_caller]
fn expect(entries: &Entries, wanted: &[(&str, u64)]) {
    for &(name, value) in wanted {
        assert_eq!(entries.get(name), Some(value), "{name}");
    }
}

#[test]
fn a_step_back_of_43_ms_begins_a_segment_and_a_smaller_one_does_not() {
    // 43 ms are 2,687,500 ticks of 16 ns. Dropped readouts count for the steps as well.
    let p = packet(0, 137, &[(2_687_500, 3, 9), (1, 3, 9), (2_687_501, 99, 9), (1, 3, 9)]);
    let (hits, entries) = read("", "", &[p]);
    let rows: Vec<_> = hits.iter().map(|h| (h.time, h.plane == PlaneHit::BORDER)).collect();
    assert_eq!(rows, [(2_687_500, false), (1, false), (0, true), (1, false), (0, true)]);
    expect(
        &entries,
        &[("readouts.timer_wraps", 1), ("readouts.good", 3), ("readouts.invalid_channel", 1)],
    );
}

#[test]
fn each_packet_ends_with_a_border_and_an_empty_one_leaves_nothing() {
    let (hits, _) = read(
        "",
        "",
        &[packet(0, 137, &[]), packet(1, 7, &[(1, 1, 1)]), packet(2, 137, &[(1, 70, 1)])],
    );
    assert_eq!(hits, []);
    let (hits, entries) = read("", "", &[packet(0, 31, &[(5, 33, 7)])]);
    // MB18 swaps pairs: channel 33 is strip 0; digitiser 31 is cassette 3.
    assert_eq!(hits, [PlaneHit { time: 5, coordinate: 0, weight: 7, module: 3, plane: 0 }, BORDER]);
    expect(&entries, &[("readouts.2d_x", 1), ("readouts.2d_y", 0)]);
}

#[test]
fn the_checks_of_a_readout_come_in_their_order() {
    // 2³² - 1 ns is the limit: tick 268,435,456 of 16 ns is the first behind it.
    let late = 1 << 28;
    let geometry = AMOR.replace("65535", "65000");
    let readouts = [
        (late, 63, 1),
        (late - 1, 63, 65_535),
        (late, 64, 1),
        (1, 64, 65_535),
        (1, 0, 65_001),
        (1, 40, 65_000),
    ];
    let (hits, entries) = read(&geometry, "mode = 'normal'", &[packet(0, 34, &readouts)]);
    assert_eq!(hits.len(), 0);
    expect(
        &entries,
        &[
            ("readouts.tof_large", 2),
            ("readouts.monitor", 1),
            ("readouts.invalid_channel", 1),
            ("readouts.invalid_adc", 1),
            ("readouts.discard_strips", 1),
            ("readouts.timer_wraps", 1),
        ],
    );
    let (hits, entries) =
        read(&geometry, "mode = 'alignment'", &[packet(0, 33, &[(1, 0, 1), (1, 40, 65_001)])]);
    assert_eq!(hits.len(), 0);
    expect(&entries, &[("readouts.discard_1d", 1), ("readouts.invalid_adc", 1)]);
}

#[test]
fn numbers_are_followed_as_published_and_by_the_tracker() {
    let numbers = |list: &[u32]| {
        let packets: Vec<_> = list.iter().map(|&n| packet(n, 137, &[])).collect();
        read("", "", &packets).1
    };
    expect(&numbers(&[0, 1, 2]), &[("readouts.seq_errors", 0), ("packets.lost", 0)]);
    // Joined late: the published decoder counts an error, nothing is missing.
    expect(&numbers(&[7, 8]), &[("readouts.seq_errors", 1), ("packets.lost", 0)]);
    expect(&numbers(&[0, 1, 4]), &[("readouts.seq_errors", 1), ("packets.lost", 2)]);
    let swapped = numbers(&[0, 2, 1, 3]);
    expect(&swapped, &[("readouts.seq_errors", 3), ("packets.lost", 0), ("packets.reordered", 1)]);
    expect(&numbers(&[u32::MAX, 0]), &[("readouts.seq_errors", 1), ("packets.lost", 0)]);
    // A packet that check 5 refuses moves the number on; one that checks 1 to 3 refuse does not.
    let mut damaged = packet(1, 137, &[]);
    damaged.push(0);
    let (_, entries) =
        read("", "", &[packet(0, 137, &[]), damaged, vec![0; 40], packet(2, 137, &[])]);
    expect(
        &entries,
        &[("readouts.seq_errors", 0), ("readouts.error_bytes", 33), ("readouts.error_version", 1)],
    );
}

proptest! {
    /// Any bytes, as they are or with a good header in front: nothing panics, every readout is in one line.
    #[test]
    fn any_bytes_are_survived(
        packets in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200), any::<bool>()), 0..20),
        set_up in 0usize..3,
    ) {
        let packets: Vec<_> = packets.into_iter().map(|(mut bytes, tame)| {
            if tame && bytes.len() >= 32 {
                bytes.truncate(bytes.len() / 8 * 8);
                let n = ((bytes.len() - 32) / 8) as u8;
                bytes[16..26].copy_from_slice(&[34, 0, 0, 0, 1, 0, n, 0, 1, 3]);
                bytes.iter_mut().skip(36).step_by(8).for_each(|channel| *channel &= 127);
                bytes.iter_mut().skip(37).step_by(8).for_each(|channel| *channel = 0);
            }
            bytes
        }).collect();
        let (geometry, options) = [("", ""), (AMOR, "mode = '1d'"), (AMOR, "mode = '2d'\nmonitor = 'pixel'")][set_up];
        let (hits, entries) = read(geometry, options, &packets);
        let rows = hits.iter().filter(|h| h.plane < MONITOR).count() as u64;
        prop_assert_eq!(entries.get("readouts.good"), Some(rows));
        prop_assert!(hits.is_empty() || hits.last() == Some(&BORDER));
    }
}

#[test]
fn the_published_rule_begins_with_0_and_wraps() {
    let new = || Sender::new(&super::super::Options::default().numbering());
    let mut s = new();
    let seen = [5, 6, u32::MAX, 0, 2].map(|n| s.is_unexpected(n));
    assert_eq!(seen, [true, false, true, false, true]);
    assert!(!new().is_unexpected(0));
}
