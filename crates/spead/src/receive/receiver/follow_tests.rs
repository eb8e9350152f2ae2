//! The short way does what the long way does.

use proptest::prelude::*;

use super::super::super::*;
use super::super::HeapReceiver;
use crate::testing::{Raw, adr, heap, imm, pattern};

const HEAPS: u64 = 3;
const LENGTH: usize = 200;

/// Packets of a few heaps: runs of them in order, with copies, other sizes and packets back to back in between.
fn packets(steps: Vec<(u64, usize, u8, usize)>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (cnt, first, kind, run) in steps {
        let each = [8, 16, 40][usize::from(kind % 3)];
        let cut = heap(cnt % HEAPS, &pattern(LENGTH, cnt), each);
        let part = cut.into_iter().skip(first).take(run);
        match kind {
            // A sending host merged them.
            200.. => all.push(part.flatten().collect()),
            // Items in a packet that is not the first.
            190..200 => all.push({
                let mut raw = Raw::new(cnt % HEAPS, LENGTH as u64, 8 * first as u64, &[1; 8]);
                raw.items.extend([imm(0x2000, 7), adr(0x2001, 3)]);
                raw.bytes()
            }),
            180..190 => all.push(Raw::new(cnt % HEAPS, LENGTH as u64 - 1, 8, &[1; 8]).bytes()),
            170..180 => all.push(crate::testing::stop(9)),
            _ => all.extend(part),
        }
    }
    all
}

fn about(delivery: Option<Delivery>) -> String {
    match delivery {
        None => String::new(),
        Some(Delivery::Incomplete(heap)) => format!("{heap:?}"),
        Some(Delivery::Heap(heap)) => format!("{heap:?} {:?}", heap.payload()),
    }
}

fn agrees(config: &ReceiverConfig, packets: &[Vec<u8>], back_to_back: bool) {
    let mut short = HeapReceiver::new(config.clone()).unwrap();
    let mut long = HeapReceiver::new(config.clone()).unwrap();
    for (n, packet) in packets.iter().enumerate() {
        let now_ns = 1000 * n as u64;
        long.follower.forget();
        match back_to_back {
            true => assert_eq!(short.push_buffer(now_ns, packet), {
                // One by one, so that nothing is expected.
                let mut used = 0;
                while used < packet.len() && long.ended.is_none() && !long.is_blocked() {
                    long.follower.forget();
                    match long.push_packet(now_ns, &packet[used..], false).1 {
                        Ok(more) => used += more,
                        Err(()) => used = packet.len(),
                    }
                }
                if long.ended.is_some() { packet.len() } else { used }
            }),
            false => assert_eq!(short.push(now_ns, packet), long.push(now_ns, packet)),
        }
        assert_eq!(short.statistics(), long.statistics());
        assert_eq!(short.next_deadline_ns(), long.next_deadline_ns());
        let missing =
            |stream: &HeapReceiver| format!("{:?}", stream.missing(now_ns).collect::<Vec<_>>());
        assert_eq!(missing(&short), missing(&long));
        if n % 3 == 0 {
            assert_eq!(about(short.pop()), about(long.pop()));
        }
        if n % 7 == 0 {
            assert_eq!(short.report(now_ns), long.report(now_ns));
            short.end_batch();
            long.end_batch();
        }
    }
    short.stop(0);
    long.stop(0);
    while short.store.waiting() > 0 {
        assert_eq!(about(short.pop()), about(long.pop()));
    }
    assert_eq!(long.store.waiting(), 0);
    assert_eq!((short.statistics(), short.live_bytes()), (long.statistics(), long.live_bytes()));
    assert_eq!(format!("{:?}", short.tally()), format!("{:?}", long.tally()));
}

proptest! {
    #[test]
    fn the_short_way_and_the_long_way_agree(
        steps in proptest::collection::vec((0..2 * HEAPS, 0usize..25, any::<u8>(), 1usize..26), 1..40),
        in_order: bool,
        back_to_back: bool,
        ring_heaps in 1usize..6,
    ) {
        let base = if in_order { ReceiverConfig::spead2() } else { ReceiverConfig::default() };
        let config = ReceiverConfig { ring_heaps, max_heaps: 2, incomplete: OnIncomplete::Give, ..base };
        agrees(&config, &packets(steps), back_to_back);
    }
}

#[test]
fn all_but_the_first_two_and_a_short_last_packet_take_the_short_way() {
    let data = pattern(100, 1);
    let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
    let mut short = 0;
    for packet in heap(1, &data, 8) {
        let before = stream.followed.packets;
        assert_eq!(stream.push(0, &packet), Outcome::Accepted);
        short += stream.followed.packets.saturating_sub(before);
    }
    // 13 packets, of which the last has 4 bytes.
    assert_eq!((short, stream.statistics().packets), (10, 13));
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), data);
}
