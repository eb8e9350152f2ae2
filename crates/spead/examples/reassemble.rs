//! How fast heaps are put together from packets in memory: `cargo run --release -p fullcount-spead --example reassemble`.
//!
//! Arguments: packet size in bytes (8972), `pool` for a memory pool, `spead2` for spead2's settings. 64 heaps of 4 MiB, each
//! packet copied once into its heap; prints Gb/s of SPEAD bytes, the median of nine rounds.

use std::time::Instant;

use fullcount_spead::receive::{
    HeapReceiver, HeapStore, MemoryPool, ReceiverConfig, StreamReceiver,
};
use fullcount_spead::send::{CutRules, HeapSender, NextPacket, OutHeap, SendHow, SenderConfig};

const HEAPS: usize = 64;
const HEAP_BYTES: usize = 4 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let size = words.iter().find_map(|word| word.parse().ok()).unwrap_or(8972);
    let has = |word: &str| words.iter().any(|w| w == word);
    let cut = CutRules { max_packet_size: size, ..CutRules::default() };
    let mut sender = HeapSender::new(SenderConfig { cut, max_heaps: HEAPS, ..Default::default() })?;
    let data: std::sync::Arc<[u8]> = (0..HEAP_BYTES).map(|n| n as u8).collect();
    for _ in 0..HEAPS {
        let mut heap = OutHeap::default();
        heap.add_item(0x1000, data.clone(), false);
        sender.send(heap, SendHow::default())?;
    }
    let (mut stream, mut ends) = (Vec::new(), Vec::new());
    while let NextPacket::Packet { .. } = sender.next_packet(0, &mut stream) {
        ends.push(stream.len());
    }
    let base = if has("spead2") { ReceiverConfig::spead2() } else { ReceiverConfig::default() };
    let pool = MemoryPool::new(1, HEAP_BYTES, 16, 16).ok_or("no memory")?;
    let mut rates = Vec::new();
    for _ in 0..9 {
        let mut store = HeapStore::new(base.ring_heaps, base.incomplete);
        if has("pool") {
            store = store.with_memory(pool.clone());
        }
        let mut receiver: HeapReceiver = StreamReceiver::with_store(base.clone(), store)?;
        let (began, mut at, mut heaps) = (Instant::now(), 0, 0);
        for end in &ends {
            receiver.push(0, &stream[at..*end]);
            at = *end;
            while receiver.pop().is_some() {
                heaps += 1;
            }
        }
        rates.push(stream.len() as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e9);
        assert_eq!(heaps, HEAPS);
    }
    rates.sort_by(f64::total_cmp);
    println!("{size} B: {:.1} Gb/s ({:.1} to {:.1})", rates[4], rates[0], rates[8]);
    Ok(())
}
