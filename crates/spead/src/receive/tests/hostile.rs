//! Whoever may send packets can cost packets, not memory and not time. Heap numbers without end: `tests/heap_ids.rs`.

use proptest::prelude::*;

use super::*;
use crate::testing::{Raw, Wanted, adr, heap, imm, pattern};
use crate::wire::SpeadPacket;

#[test]
fn items_and_pieces_of_a_heap_are_bounded() {
    let config = ReceiverConfig { max_items: 100, max_ranges: 10, ..ours() };
    let mut stream = HeapReceiver::new(config).unwrap();
    for n in 0..50u64 {
        let items: Vec<Wanted> = (0..10).map(|i| imm(0x1000 + 10 * n + i, n)).collect();
        stream.push(0, &Raw { items, ..Raw::new(1, 100_000, n * 8, &[0; 8]) }.bytes());
    }
    assert_eq!(count(&mut stream, SpeadCounter::TooManyItems), 40);
    for n in 0..50u64 {
        stream.push(0, &Raw::new(2, 100_000, n * 16, &[0; 8]).bytes());
    }
    assert_eq!(count(&mut stream, SpeadCounter::TooManyRanges), 40);
    // Repeated pointers cost nothing.
    let items: Vec<Wanted> = (0..60).map(|i| adr(0x1000 + i, 0)).collect();
    for n in 0..10u64 {
        stream.push(0, &Raw { items: items.clone(), ..Raw::new(3, 80, n * 8, &[0; 8]) }.bytes());
    }
    assert_eq!(drain(&mut stream).len(), 1);
    assert_eq!(ledger(&mut stream).balance(), 0);
}

/// Memory for so many heaps.
#[derive(Debug)]
struct Scarce(usize);

impl HeapMemory for Scarce {
    fn take(&mut self, bytes: usize, _: &SpeadPacket<'_>) -> Option<HeapBytes> {
        self.0 = self.0.checked_sub(1)?;
        HeapBytes::fresh(bytes)
    }
}

#[test]
fn packets_without_memory_cost_one_heap_of_the_window_however_many_they_are() {
    let store = HeapStore::new(64, OnIncomplete::Drop).with_memory(Scarce(4));
    let mut stream = StreamReceiver::with_store(ours(), store).unwrap();
    let heaps: Vec<_> = (0..4).map(|cnt| heap(cnt, &pattern(200, cnt), 100)).collect();
    heaps.iter().for_each(|packets| assert_eq!(stream.push(0, &packets[0]), Outcome::Accepted));
    for cnt in 4..20 {
        let refused = stream.push(0, &heap(cnt, &[1; 200], 100)[0]);
        assert_eq!(refused, Outcome::Refused(Refused::NoMemory(200)));
    }
    heaps.iter().for_each(|packets| {
        stream.push(0, &packets[1]);
    });
    let whole: Vec<u64> = drain(&mut stream).iter().map(Delivery::cnt).collect();
    assert_eq!(whole, [1, 2, 3]);
    assert_eq!(stream.statistics().incomplete_heaps_evicted, 1);
    assert_eq!(ledger(&mut stream).balance(), 0);
}

#[test]
fn every_setting_says_what_it_takes() {
    let bad = |config: ReceiverConfig| HeapReceiver::new(config).unwrap_err().to_string();
    let d = ReceiverConfig::default;
    assert_eq!(bad(ReceiverConfig { max_heaps: 0, ..d() }), "max_heaps = 0: 1 to 4096");
    assert_eq!(bad(ReceiverConfig { substreams: 5000, ..d() }), "substreams = 5000: 1 to 4096");
    let small = bad(ReceiverConfig { max_live_bytes: 5, ..d() });
    assert_eq!(small, "max_live_bytes = 5: at least max_heap_bytes, 1073741824 B");
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (any::<bool>(), 0u64..9, 0u64..40).prop_map(|(immediate, id, value)| match immediate {
        true => imm(id, value),
        false => adr(id, value),
    })
}

proptest! {
    #[test]
    fn any_packets_in_any_order_balance(
        packets in proptest::collection::vec(
            (
                (0u64..6, proptest::option::of(0u64..40), 0u64..40, 0usize..20, 1u32..8),
                proptest::collection::vec(wanted(), 0..4),
                (0u64..1000, 0usize..100),
            ),
            0..60,
        ),
        (heaps, substreams, out_of_order, compat) in (1usize..4, 1usize..3, any::<bool>(), any::<bool>()),
        merge: bool,
    ) {
        let config = if compat { ReceiverConfig::spead2() } else { ours() };
        let config = ReceiverConfig {
            max_heaps: heaps, substreams, allow_out_of_order: out_of_order, incomplete: OnIncomplete::Give,
            heap_timeout_ns: 300, stall_timeout_ns: 500, max_live_bytes: 60, max_heap_bytes: 35,
            max_items: 5, max_ranges: 3, ring_heaps: 1 << 20, ..config
        };
        let mut stream = HeapReceiver::new(config).unwrap();
        let (mut time, mut previous) = (0, vec![]);
        for ((cnt, heap_length, offset, payload, width), items, (wait, cut)) in packets {
            let bits = if width == 1 { 48 } else { 40 };
            let raw = Raw { bits, heap_length, items, ..Raw::new(cnt, 0, offset, &vec![7; payload]) };
            let mut bytes = raw.bytes();
            if cut < 5 {
                bytes.truncate(bytes.len() * cut / 5);
            }
            if merge {
                bytes = [std::mem::take(&mut previous), bytes].concat();
                previous = raw.bytes();
            }
            time += wait;
            stream.expire(time);
            stream.push(time, &bytes);
            prop_assert!(stream.live_bytes() <= 60 && stream.live_heaps() <= (heaps * substreams) as u64);
            prop_assert_eq!(ledger(&mut stream).balance(), 0);
        }
        stream.stop(time);
        prop_assert_eq!((stream.live_heaps(), stream.live_bytes()), (0, 0));
        prop_assert_eq!(ledger(&mut stream).balance(), 0);
        for delivery in drain(&mut stream) {
            match delivery {
                Delivery::Heap(heap) => {
                    let all: usize = heap.all_items().filter_map(|i| i.bytes()).map(<[u8]>::len).sum();
                    prop_assert!(all <= heap.payload().len());
                }
                Delivery::Incomplete(heap) => {
                    let pieces: usize = heap.pieces().map(|(_, p)| p.len()).sum();
                    prop_assert_eq!(pieces as u64, heap.received_length);
                }
            }
        }
    }

    #[test]
    fn any_bytes_as_datagrams_and_as_a_buffer(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut stream = HeapReceiver::new(ours()).unwrap();
        stream.push(0, &bytes);
        stream.push_buffer(0, &bytes);
        prop_assert_eq!(ledger(&mut stream).balance(), 0);
    }
}
