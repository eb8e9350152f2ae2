//! Item pointers, pieces and finished heaps that nobody takes cost no more memory than the receiver is allowed: all that this process
//! allocates is counted, and compared with the receiver's own account.
//!
//! Alone in its binary, because the allocator counts for all threads. Source: `docs/spead.md`, "Memory".

use std::alloc::System;

use fullcount_core::ledger::{Ledger, Sheet};
use fullcount_spead::receive::{OnIncomplete, Outcome, SpeadCounter};
use fullcount_spead::{HeapReceiver, ReceiverConfig};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn held() -> u64 {
    let s = ALLOCATOR.stats();
    s.bytes_allocated.saturating_sub(s.bytes_deallocated) as u64
}

const PLACES: u64 = 256;
const LIVE: u64 = 8 << 20;
/// Beside what is counted: the window's table, numbers that are remembered, and the first 24 pointers and pieces of each heap.
const BESIDE: u64 = 1 << 20;

/// A packet of SPEAD-64-40: number, length and offset, one byte of payload, and these immediate items.
fn packet(cnt: u64, length: u64, offset: u64, items: std::ops::Range<u64>) -> Vec<u8> {
    let standard = [(1, cnt), (2, length), (3, offset), (4, 1)];
    let all = standard.into_iter().chain(items.map(|n| (0x1000 + n, n)));
    let words: Vec<u8> =
        all.flat_map(|(id, value)| (1u64 << 63 | id << 40 | value).to_be_bytes()).collect();
    let count = (words.len() / 8) as u16;
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0];
    bytes.extend(count.to_be_bytes());
    bytes.extend(words);
    bytes.push(7);
    bytes
}

fn receiver(incomplete: OnIncomplete) -> HeapReceiver {
    let config = ReceiverConfig {
        max_heaps: PLACES as usize,
        max_heap_bytes: LIVE,
        max_live_bytes: LIVE,
        ring_heaps: 1 << 20,
        incomplete,
        ..ReceiverConfig::default()
    };
    HeapReceiver::new(config).unwrap()
}

fn balance(stream: &mut HeapReceiver) -> u64 {
    let sheet = Sheet::new(SpeadCounter::catalogue());
    stream.tally().clone().flush(&sheet);
    let ledger = Ledger::default();
    ledger.register(sheet);
    ledger.read().balance()
}

/// Pushes packets that make no heap whole; the most that was allocated, and what was refused for want of memory.
fn most(packets: impl Iterator<Item = Vec<u8>>) -> (u64, u64) {
    let before = held();
    let mut stream = receiver(OnIncomplete::Drop);
    let mut most = 0;
    for packet in packets {
        stream.push(0, &packet);
        drop(packet);
        most = most.max(held() - before);
        assert!(stream.live_bytes() <= LIVE);
    }
    assert_eq!(balance(&mut stream), 0);
    (most, stream.tally().get(SpeadCounter::NoMemory))
}

#[test]
fn pointers_pieces_and_heaps_that_wait_keep_to_the_memory_that_is_allowed() {
    // 8000 pointers in a packet, and 4 packets of each heap: 256 heaps of them would take 200 MB.
    let pointers = (0..4).flat_map(|part| {
        (0..PLACES).map(move |cnt| packet(cnt, 100, 2 * part, 8000 * part..8000 * (part + 1)))
    });
    let (used, refused) = most(pointers);
    println!("pointers: at most {used} B of {} B", LIVE + BESIDE);
    assert!(used <= LIVE + BESIDE && refused > 0, "{used} B, {refused} refused");
    // Every other byte of a heap of 16 KiB: 256 heaps take 4 MiB, and their 8192 pieces would take 34 MB.
    let pieces =
        (0..8192).flat_map(|n| (0..PLACES).map(move |cnt| packet(cnt, 16 << 10, 2 * n, 0..0)));
    let (used, refused) = most(pieces);
    println!("pieces: at most {used} B of {} B", LIVE + BESIDE);
    assert!(used <= LIVE + BESIDE && refused > 0, "{used} B, {refused} refused");
    // Heaps that are pushed out and that nobody takes.
    let before = held();
    let mut stream = receiver(OnIncomplete::Give);
    let (mut full, mut used) = (0, 0);
    for cnt in 0..4 * PLACES {
        let packet = packet(cnt, 30_000, 0, 0..0);
        full += u64::from(stream.push(0, &packet) == Outcome::Full);
        drop(packet);
        used = used.max(held() - before);
        assert!(stream.store().waiting_bytes() <= LIVE + 30_000 + 1000);
    }
    println!("heaps that wait: at most {used} B of {} B", 2 * LIVE + BESIDE);
    assert!(used <= 2 * LIVE + BESIDE && full > 0, "{used} B, {full} times full");
    assert_eq!(stream.statistics().worker_blocked, 1);
    assert_eq!(balance(&mut stream), 0);
}
