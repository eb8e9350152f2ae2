//! Every stream of the vectors, damaged in seeded ways: bounded memory, each packet in one place, values that encode again.

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_spead::framing::{HeapStream, PacketStream};
use fullcount_spead::receive::{
    Arrival, Delivery, HeapReceiver, OnIncomplete, ReceiverConfig, SpeadCounter,
};
use fullcount_spead::{BugCompat, ItemGroup};

use crate::facts::{cases, file};

const LIVE: u64 = 1 << 20;

/// The next of a sequence (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn damage(bytes: &[u8], state: &mut u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random(state) % 8 {
        if bytes.is_empty() {
            break;
        }
        let at = random(state) as usize % bytes.len();
        match random(state) % 6 {
            0 => bytes[at] ^= 1 << (random(state) % 8),
            1 => bytes[at] = random(state) as u8,
            2 => bytes.truncate(at),
            3 => {
                bytes.drain(at..(at + 1 + random(state) as usize % 64).min(bytes.len()));
            }
            4 => {
                let end = (at + random(state) as usize % 200).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random(state) as usize % bytes.len();
                bytes.splice(to..to, part);
            }
            _ => bytes[at] = 0xff,
        }
    }
    bytes
}

fn run(bytes: &[u8], config: ReceiverConfig, choice: u64) {
    let mut stream = HeapReceiver::new(config).unwrap();
    let compat = BugCompat::from_bits((choice % 8) as u32).unwrap();
    let mut group = ItemGroup::new(compat).with_limit(50);
    let mut packets = PacketStream::new(3000);
    let mut time = 0;
    for piece in bytes.chunks(1 + (choice % 1000) as usize) {
        packets.push(piece, |packet| {
            time += 200_000_000;
            stream.expire(time);
            stream.push(time, packet);
        });
        assert!(stream.live_bytes() <= LIVE);
    }
    packets.finish();
    stream.stop(time);
    while let Some(delivery) = stream.pop() {
        match delivery {
            Delivery::Heap(heap) => {
                for id in group.update(&heap).values {
                    let item = group.get(id).unwrap();
                    let (layout, value) = (item.layout().unwrap(), item.value.as_ref().unwrap());
                    value.check().unwrap();
                    layout.encode(value, compat).unwrap();
                }
            }
            Delivery::Incomplete(heap) => {
                let pieces: usize = heap.pieces().map(|(_, piece)| piece.len()).sum();
                assert_eq!(pieces as u64, heap.received_length);
            }
        }
    }
    assert!(group.items().count() <= 50);
    let sheet = Sheet::new(SpeadCounter::catalogue());
    stream.tally().flush(&sheet);
    let ledger = Ledger::default();
    ledger.register(sheet);
    assert_eq!(ledger.read().balance(), 0);
    let mut heaps = HeapStream::plain(1 << 16);
    heaps.push(bytes, 0, |heap| {
        if let Some(heap) = heap.heap() {
            group.update(&heap);
        }
    });
    heaps.finish(Arrival::Flushed);
}

#[test]
fn damaged_streams_do_no_harm() {
    let limits = |base: ReceiverConfig| ReceiverConfig {
        incomplete: OnIncomplete::Give,
        max_heap_bytes: 1 << 19,
        max_live_bytes: LIVE,
        max_items: 200,
        max_ranges: 50,
        ring_heaps: 1 << 20,
        ..base
    };
    let mut state = 1;
    for case in cases() {
        let name = case["file"].as_str().unwrap();
        // Captures as they are: packets among other things.
        let bytes = file(name);
        let rounds = if bytes.len() > 20_000 { 20 } else { 300 };
        for _ in 0..rounds {
            let damaged = damage(&bytes, &mut state);
            run(&damaged, limits(ReceiverConfig::default()), random(&mut state));
            run(&damaged, limits(ReceiverConfig::spead2()), random(&mut state));
        }
    }
}
