//! Heap numbers without end cost the memory of the window only: all that this process allocates is counted.
//!
//! 4 million distinct numbers, or `FULLCOUNT_HEAP_IDS` of them: `cargo xtask prove heap-ids` sends a billion. Alone in its binary,
//! because the allocator counts for all threads.

use std::alloc::System;

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_spead::receive::{OnIncomplete, SpeadCounter};
use fullcount_spead::{HeapReceiver, ReceiverConfig};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
fn held() -> usize {
    let s = ALLOCATOR.stats();
    s.bytes_allocated.saturating_sub(s.bytes_deallocated)
}

const WINDOW: usize = 16;
const SUBSTREAMS: usize = 4;
/// What most of the heaps announce, of which 8 B come.
const LENGTH: u64 = 1 << 16;
/// Beside the payload of live heaps: their pointers and maps, the table of the window, numbers that are remembered, heaps that wait.
const BESIDE: usize = 512 << 10;

/// A packet of SPEAD-64-40 with 8 B of payload at the beginning of a heap of so many bytes.
fn packet(length: u64) -> Vec<u8> {
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0, 0, 5];
    for (id, value) in [(1, 0), (2, length), (3, 0), (4, 8)] {
        bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
    }
    bytes.extend((0x1000u64 << 40).to_be_bytes());
    bytes.extend([7; 8]);
    bytes
}

/// The `n`-th of 2^40 numbers, each once, without a pattern that a table could like.
fn number(n: u64) -> u64 {
    (n ^ n >> 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << 40) - 1)
}

fn wanted() -> u64 {
    std::env::var("FULLCOUNT_HEAP_IDS").map_or(4_000_000, |text| text.parse().expect("a number"))
}

#[test]
fn heap_numbers_without_end_cost_the_window_only() {
    for incomplete in [OnIncomplete::Drop, OnIncomplete::Give] {
        let before = held();
        let config = ReceiverConfig {
            max_heaps: WINDOW,
            substreams: SUBSTREAMS,
            incomplete,
            ..ReceiverConfig::default()
        };
        let mut stream = HeapReceiver::new(config).unwrap();
        let live = (WINDOW * SUBSTREAMS) as u64;
        // Of four heaps three never end, and one is this packet.
        let (mut part, mut whole) = (packet(LENGTH), packet(8));
        let (mut most, mut given, all) = (0, 0u64, wanted());
        for n in 0..all {
            let packet = if n % 4 == 3 { &mut whole } else { &mut part };
            packet[11..16].copy_from_slice(&number(n).to_be_bytes()[3..]);
            // 100 ns each: of the numbers that are remembered for a second there are more than the table keeps.
            stream.push(100 * n, packet);
            while let Some(delivery) = stream.pop() {
                given += 1;
                drop(delivery);
            }
            if n % 16 == 0 {
                most = most.max(held().saturating_sub(before));
                assert!(stream.live_heaps() <= live && stream.live_bytes() <= live * LENGTH);
            }
        }
        let bound = live as usize * LENGTH as usize + BESIDE;
        println!("{all} numbers, {incomplete:?}: at most {most} B of {bound} B allocated");
        assert!((1..=bound).contains(&most), "{most} B, not {bound} B");
        let statistics = stream.statistics();
        let evicted = statistics.incomplete_heaps_evicted;
        assert_eq!(statistics.packets, all);
        assert_eq!(evicted + stream.live_heaps() + all / 4, all, "each number is another heap");
        assert_eq!(
            evicted + stream.live_heaps() + all / 4,
            stream.tally().get(SpeadCounter::Heaps)
        );
        assert_eq!(given, all / 4 + if incomplete == OnIncomplete::Give { evicted } else { 0 });
        let sheet = Sheet::new(SpeadCounter::catalogue());
        stream.tally().clone().flush(&sheet);
        let ledger = Ledger::default();
        ledger.register(sheet);
        assert_eq!(ledger.read().balance(), 0);
    }
}
