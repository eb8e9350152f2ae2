//! What is read into its place is what pushed packets give.

use proptest::prelude::*;

use super::super::super::*;
use super::HeapReceiver;
use crate::testing::{Raw, heap, pattern};
use crate::wire::PREFIX_BYTES;

const LENGTH: usize = 200;

fn stream(ring_heaps: usize) -> HeapReceiver {
    let config = ReceiverConfig {
        ring_heaps,
        max_heaps: 2,
        incomplete: OnIncomplete::Give,
        ..ReceiverConfig::default()
    };
    let pool = MemoryPool::new(1, LENGTH, 8, 8).unwrap();
    // Bytes of earlier heaps, which nobody must see.
    let hint = heap(1, &[0; 8], 8).concat();
    let hint = crate::wire::SpeadPacket::parse(&hint).unwrap();
    let mut blocks: Vec<HeapBytes> =
        (0..8).map(|_| pool.clone().take(LENGTH, &hint).unwrap()).collect();
    blocks.iter_mut().for_each(|block| assert!(block.write(0, &[0xEE; LENGTH], Some(LENGTH))));
    drop(blocks);
    let store = HeapStore::new(config.ring_heaps, config.incomplete).with_memory(pool);
    StreamReceiver::with_store(config, store).unwrap()
}

fn about(delivery: Option<Delivery>) -> String {
    match delivery {
        None => String::new(),
        Some(Delivery::Incomplete(heap)) => format!("{heap:?}"),
        Some(Delivery::Heap(heap)) => format!("{heap:?} {:?}", heap.payload()),
    }
}

/// The packet's payload is put where the next one is expected, as far as there is room, then its first bytes are shown.
fn read_there(stream: &mut HeapReceiver, packet: &[u8], most: usize, now_ns: u64) -> bool {
    let Some((head, payload)) = packet.split_first_chunk::<PREFIX_BYTES>() else { return false };
    let Some(room) = stream.ahead(most) else { return false };
    assert!(room.payload.len() % room.step == 0 && room.payload.len() <= most);
    let many = payload.len().min(room.payload.len());
    room.payload[..many].copy_from_slice(&payload[..many]);
    stream.take_ahead(now_ns, head)
}

proptest! {
    #[test]
    fn read_into_place_or_pushed_is_the_same(
        steps in proptest::collection::vec((0u64..4, 0usize..25, any::<u8>(), 1usize..26), 1..40),
        ring_heaps in 1usize..4,
        most in 8usize..64,
    ) {
        let (mut placed, mut pushed) = (stream(ring_heaps), stream(ring_heaps));
        let mut now_ns = 0;
        for (cnt, first, kind, run) in steps {
            let each = [8, 16, 40][usize::from(kind % 3)];
            let mut part: Vec<_> =
                heap(cnt, &pattern(LENGTH, cnt), each).into_iter().skip(first).take(run).collect();
            if kind > 230 {
                part.push(Raw::new(cnt, LENGTH as u64 - 1, 8, &[1; 8]).bytes());
            }
            for packet in part {
                now_ns += 1000;
                if !read_there(&mut placed, &packet, most, now_ns) {
                    while placed.push(now_ns, &packet) == Outcome::Full {
                        about(placed.pop());
                    }
                }
                while pushed.push(now_ns, &packet) == Outcome::Full {
                    about(pushed.pop());
                }
                prop_assert_eq!(placed.statistics().packets, pushed.statistics().packets);
                while pushed.store.waiting() > 0 {
                    prop_assert_eq!(about(placed.pop()), about(pushed.pop()));
                }
            }
        }
        placed.stop(0);
        pushed.stop(0);
        while pushed.store.waiting() > 0 {
            prop_assert_eq!(about(placed.pop()), about(pushed.pop()));
        }
        prop_assert_eq!(placed.statistics(), pushed.statistics());
        prop_assert_eq!(format!("{:?}", placed.tally()), format!("{:?}", pushed.tally()));
    }
}

#[test]
fn all_but_the_first_two_packets_are_read_into_place() {
    let data = pattern(96, 1);
    let mut stream = stream(4);
    let packets = heap(1, &data, 8);
    let in_place = packets.iter().filter(|packet| {
        let there = read_there(&mut stream, packet, 1 << 20, 0);
        there || stream.push(0, packet) != Outcome::Accepted
    });
    assert_eq!(in_place.count(), 10);
    assert_eq!(stream.pop().unwrap().heap().unwrap().payload(), data);
}

#[test]
fn fresh_memory_has_no_room_ahead() {
    let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
    for packet in &heap(1, &pattern(96, 1), 8)[..3] {
        assert_eq!(stream.push(0, packet), Outcome::Accepted);
        assert!(stream.ahead(1 << 20).is_none());
    }
}
