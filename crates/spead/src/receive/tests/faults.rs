//! A million packets with seeded loss, copies and disorder: every heap is whole, incomplete with the right map, or lost.

use std::collections::BTreeMap;

use fullcount_core::sim::{Amount, Fault, Spec};

use super::*;
use crate::feedback::FeedbackMessage;
use crate::send::{CutRules, HeapSender, NextPacket, OutHeap, PayloadSize, SendHow, SenderConfig};
use crate::testing::{Raw, adr, pattern};

const PACKETS: u64 = 16;
const EACH: u64 = 24;
const LENGTH: u64 = PACKETS * EACH;

fn packet(number: u64) -> Vec<u8> {
    let (cnt, n) = (number / PACKETS + 1, number % PACKETS);
    let data = pattern(LENGTH as usize, cnt);
    let mut raw = Raw::new(cnt, LENGTH, n * EACH, &data[(n * EACH) as usize..][..EACH as usize]);
    if n == 0 {
        raw.items.push(adr(0x1000, 0));
    }
    raw.bytes()
}

/// Puts these packets through the fault and into a stream, which is stopped then.
fn through(
    packets: impl Iterator<Item = u64>,
    spec: Spec,
    config: ReceiverConfig,
) -> (HeapReceiver, BTreeMap<u64, Vec<bool>>) {
    let fault = Fault::new(spec).unwrap();
    let mut stream = HeapReceiver::new(config).unwrap();
    // What came of each heap, and what came in time.
    let mut came: BTreeMap<u64, Vec<bool>> = BTreeMap::new();
    let mut finished = BTreeMap::new();
    let window = stream.config().max_heaps as u64;
    for (time, number) in fault.apply(packets).enumerate() {
        let outcome = stream.push(time as u64 * 1000, &packet(number));
        let flags =
            came.entry(number / PACKETS + 1).or_insert_with(|| vec![false; PACKETS as usize]);
        let flag = &mut flags[(number % PACKETS) as usize];
        match outcome {
            Outcome::Accepted => {
                assert!(!*flag);
                *flag = true;
            }
            Outcome::Refused(Refused::Duplicate | Refused::DuplicateHeap) => assert!(*flag),
            Outcome::Refused(Refused::Late) => {}
            other => panic!("{other:?}"),
        }
        assert!(stream.live_heaps() <= window && stream.live_bytes() <= window * LENGTH);
        for delivery in drain(&mut stream) {
            assert!(finished.insert(delivery.cnt(), ()).is_none(), "each heap once");
            check(delivery, &came);
        }
    }
    stream.stop(0);
    for delivery in drain(&mut stream) {
        assert!(finished.insert(delivery.cnt(), ()).is_none(), "each heap once");
        check(delivery, &came);
    }
    assert_eq!(finished.len(), came.len());
    (stream, came)
}

fn check(delivery: Delivery, came: &BTreeMap<u64, Vec<bool>>) {
    let flags = &came[&delivery.cnt()];
    let data = pattern(LENGTH as usize, delivery.cnt());
    match delivery {
        Delivery::Heap(heap) => {
            assert_eq!(heap.payload(), data);
            assert!(flags.iter().all(|f| *f));
            assert_eq!(heap.item(0x1000).unwrap().bytes().unwrap(), data);
        }
        Delivery::Incomplete(heap) => {
            let mut map = vec![false; PACKETS as usize];
            for (at, piece) in heap.pieces() {
                assert_eq!(piece, &data[at as usize..][..piece.len()]);
                let first = (at / EACH) as usize;
                map[first..first + piece.len() / EACH as usize].fill(true);
            }
            assert_eq!(&map, flags);
            assert!(map.iter().any(|f| !f));
        }
    }
}

const MILLION: u64 = 1_000_000;
const HEAPS: u64 = MILLION / PACKETS;

fn million() -> Spec {
    let share = |p| Amount::Share(p);
    Spec {
        drop: share(0.02),
        duplicate: share(0.01),
        swap: share(0.01),
        delay: share(0.005),
        by: 200,
        seed: 7,
        of: Some(MILLION),
    }
}

/// The fault drops single packets. Of these heaps all are lost: of one in 400, and of the last three, whose numbers nobody misses.
fn vanishes(cnt: u64) -> bool {
    cnt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < (1 << 32) / 400 || cnt + 3 > HEAPS
}

fn those_that_set_out() -> impl Iterator<Item = u64> {
    (0..MILLION).filter(|number| !vanishes(number / PACKETS + 1))
}

/// A million packets with loss, copies and disorder, and heaps that vanish; checked but for the heaps that are lost.
fn a_million(sequence: Option<NumberSequence>) -> (HeapReceiver, BTreeMap<u64, Vec<bool>>) {
    let config = ReceiverConfig { max_heaps: 8, sequence, packet_payload: Some(EACH), ..ours() };
    let (mut stream, came) = through(those_that_set_out(), million(), config);
    let entries = ledger(&mut stream);
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    let missing: u64 = came.values().map(|f| f.iter().filter(|f| !**f).count() as u64).sum();
    let losses = stream.losses();
    assert_eq!(
        (losses.bytes, losses.packets, losses.off_sequence),
        (missing * EACH, Some(missing), 0)
    );
    // Some heaps are lost whole, and their lengths are not known.
    assert_eq!((losses.all_bytes(), losses.all_packets()), (None, None));
    assert!((15_000..30_000).contains(&missing), "{missing}");
    assert!(
        count(&mut stream, SpeadCounter::Late) > 0
            && count(&mut stream, SpeadCounter::Reordered) > 1000
    );
    (stream, came)
}

#[test]
fn of_a_million_packets_lost_heaps_are_counted_by_their_numbers() {
    let (stream, came) = a_million(Some(NumberSequence { first: 1, step: 1 }));
    let newest = came.keys().next_back().unwrap();
    let lost = newest - came.len() as u64;
    assert!((100..200).contains(&lost), "{lost}");
    assert_eq!(stream.losses().heaps, Some(lost));
}

#[test]
fn of_a_million_packets_lost_heaps_are_unknown_until_the_sender_says_what_it_sent() {
    let (mut stream, came) = a_million(None);
    assert_eq!((stream.losses().heaps, stream.report(0).lost_heaps), (None, None));
    // The last message of the back-channel.
    let mut message = b"FCSB\x01\x03\0\0".to_vec();
    for field in [HEAPS, MILLION, MILLION * EACH] {
        message.extend(field.to_be_bytes());
    }
    let Ok(FeedbackMessage::Totals(totals)) = FeedbackMessage::parse(&message) else { panic!() };
    stream.sender_said(totals);
    let lost = HEAPS - came.len() as u64;
    assert!((100..200).contains(&lost), "{lost}");
    let arrived: u64 = came.values().flatten().map(|came| u64::from(*came)).sum();
    let losses = stream.losses();
    assert_eq!(losses.all_packets(), Some(MILLION - arrived));
    assert_eq!(losses.all_bytes(), Some((MILLION - arrived) * EACH));
    // The last three are among them.
    assert_eq!((stream.losses().heaps, stream.report(0).lost_heaps), (Some(lost), Some(lost)));
}

#[test]
fn heaps_that_did_not_come_at_all_are_lost_by_number_or_by_the_senders_count_else_unknown() {
    let mut stream = HeapReceiver::new(ours()).unwrap();
    let sequence = Some(NumberSequence { first: 5, step: 3 });
    let mut numbered = HeapReceiver::new(ReceiverConfig { sequence, ..ours() }).unwrap();
    for cnt in [5, 8, 17, 14, 6] {
        for stream in [&mut stream, &mut numbered] {
            stream.push(0, &Raw::new(cnt, 8, 0, &[0; 8]).bytes());
        }
    }
    assert_eq!(stream.losses().heaps, None);
    stream.sender_said(SenderTotals { heaps: 7, packets: 7, payload_bytes: 56 });
    assert_eq!(stream.losses().heaps, Some(2));
    let losses = numbered.losses();
    assert_eq!((losses.heaps, losses.off_sequence), (Some(1), 1));
}

/// A heap of 3000 B with so many immediates, cut like this; its packets.
fn cut(immediates: u64, payload: PayloadSize) -> Vec<Vec<u8>> {
    let cut = CutRules { max_packet_size: 1472, payload };
    let mut sender = HeapSender::new(SenderConfig { cut, ..SenderConfig::default() }).unwrap();
    let mut heap = OutHeap::default();
    (0..immediates).for_each(|n| heap.add_inline(0x2000 + n, n));
    heap.add_item(0x1000, vec![7; 3000], false);
    sender.send(heap, SendHow::default()).unwrap();
    let (mut packets, mut now) = (vec![], 0);
    loop {
        let mut packet = vec![];
        match sender.next_packet(now, &mut packet) {
            NextPacket::Packet { .. } => packets.push(packet),
            NextPacket::Wait(until) => now = until,
            NextPacket::Idle => return packets,
        }
    }
}

/// What is said to be lost of that heap: by the size of its packets, and with the sender's totals.
fn said(packets: &[Vec<u8>], lost: impl Fn(usize) -> bool, size: u64) -> [Option<u64>; 2] {
    let packet_payload = Some(size);
    let mut stream = HeapReceiver::new(ReceiverConfig { packet_payload, ..ours() }).unwrap();
    for (_, packet) in packets.iter().enumerate().filter(|(n, _)| !lost(*n)) {
        stream.push(0, packet);
    }
    stream.stop(0);
    let by_size = stream.losses().packets;
    let totals = SenderTotals { heaps: 1, packets: packets.len() as u64, payload_bytes: 3000 };
    stream.sender_said(totals);
    [by_size, stream.losses().all_packets()]
}

#[test]
fn lost_packets_are_exact_if_pointers_fit_into_the_first_or_the_payload_is_fixed() {
    // 178 pointers fit into a packet of 1472 B, and then it has 8 B of payload.
    for (immediates, payload, size) in [
        (0, PayloadSize::Fill, 1432),
        (177, PayloadSize::Fill, 1432),
        (177, PayloadSize::Fixed(512), 512),
        (400, PayloadSize::Fixed(512), 512),
    ] {
        let packets = cut(immediates, payload);
        for lost in 0..(1u32 << packets.len()) - 1 {
            let all = Some(u64::from(lost.count_ones()));
            let found = said(&packets, |n| lost >> n & 1 == 1, size);
            assert_eq!(found, [all; 2], "{immediates} {payload:?} {lost:b}");
        }
    }
}

/// Who knows the full packets' size cannot know that these had 8 B each.
#[test]
fn packets_full_of_pointers_lost_in_a_row_are_one_at_least() {
    let packets = cut(400, PayloadSize::Fill);
    let lost = |many| said(&packets, |n| n < many, 1432);
    assert_eq!(lost(1), [Some(1), Some(1)]);
    assert_eq!(lost(2), [Some(1), Some(2)], "16 B are less than a full packet");
    assert_eq!(lost(3), [Some(1), Some(3)]);
    assert_eq!(lost(4), [Some(2), Some(4)]);
}

/// Of a live heap that a newer one has overtaken a report tells what is missing, and not that all of it is lost.
#[test]
fn a_report_tells_what_is_missing_of_heaps_that_newer_ones_have_overtaken() {
    let sequence = Some(NumberSequence { first: 1, step: 1 });
    let mut stream = HeapReceiver::new(ReceiverConfig { sequence, ..ours() }).unwrap();
    let mut told = |cnt, from: usize, to: usize| {
        stream.push(0, &Raw::new(cnt, 300, from as u64, &[0; 300][from..to]).bytes());
        let report = stream.report(0);
        (report.ended_heaps, report.missing_bytes, report.lost_heaps)
    };
    assert_eq!(told(1, 0, 100), (0, 0, Some(0)));
    assert_eq!(told(3, 0, 100), (0, 0, Some(0)));
    // The third ends: of the first 200 B are missing, and of the second nothing came.
    assert_eq!(told(3, 100, 300), (1, 200, Some(1)));
    // It came after all.
    assert_eq!(told(1, 100, 300), (2, 0, Some(1)));
    assert_eq!(told(2, 0, 300), (3, 0, Some(0)));
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        #[test]
        fn any_fault_in_any_window(
            (drop, duplicate, swap, delay) in (0u32..20, 0u32..20, 0u32..20, 0u32..20),
            (by, seed, heaps) in (1u32..200, any::<u64>(), 1usize..10),
        ) {
            let share = |percent: u32| Amount::Share(f64::from(percent) / 100.0);
            let spec = Spec {
                drop: share(drop), duplicate: share(duplicate), swap: share(swap), delay: share(delay),
                by, seed, of: Some(2000),
            };
            let (mut stream, _) = through(0..2000, spec, ReceiverConfig { max_heaps: heaps, ..ours() });
            prop_assert_eq!(ledger(&mut stream).balance(), 0);
        }
    }
}
