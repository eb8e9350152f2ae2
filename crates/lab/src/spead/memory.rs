//! `lab spead memory`: heaps from packets in memory, beside copies of the same packets into heaps that take turns.
//!
//! No socket: what is left is finding the heap, its map, and one copy. The copies are the least that any receiver does. Source:
//! `docs/formats/spead.md`, annex.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_spead::receive::{
    HeapReceiver, HeapStore, MemoryPool, ReceiverConfig, StreamReceiver,
};
use fullcount_spead::send::{CutRules, HeapSender, NextPacket, OutHeap, SendHow, SenderConfig};
use serde_json::json;

use super::pm;
use crate::error::LabError;
use crate::record::{Figure, Record};

/// Heap, bytes.
const HEAP: usize = 4 << 20;
/// Heaps that copies go to in turn: as many as a window and its ring.
const CYCLE: usize = 8;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryOrder {
    /// Packet sizes, bytes.
    pub packets: Vec<usize>,
    /// Rounds; the median counts.
    pub rounds: usize,
    /// Heaps of a round.
    pub heaps: usize,
}

/// Packets of some heaps, one behind the other.
struct Stream {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

fn stream(packet: usize, heaps: usize) -> Result<Stream, LabError> {
    let words = |e: String| LabError::Failed(anyhow::anyhow!(e));
    let cut = CutRules { max_packet_size: packet, ..CutRules::default() };
    let config = SenderConfig { cut, max_heaps: heaps, ..SenderConfig::default() };
    let mut sender = HeapSender::new(config).map_err(|e| words(e.to_string()))?;
    let data: Arc<[u8]> = (0..HEAP).map(|n| n as u8).collect();
    for _ in 0..heaps {
        let mut heap = OutHeap::default();
        heap.add_item(0x1000, data.clone(), false);
        sender.send(heap, SendHow::default()).map_err(|e| words(format!("{e:?}")))?;
    }
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    while let NextPacket::Packet { .. } = sender.next_packet(0, &mut bytes) {
        ends.push(bytes.len());
    }
    Ok(Stream { bytes, ends })
}

fn gbps(bytes: usize, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9) / 1e9
}

/// One round through a receiver.
fn receive(stream: &Stream, pool: Option<&MemoryPool>) -> Result<(f64, usize), LabError> {
    let config = ReceiverConfig::default();
    let store = HeapStore::new(config.ring_heaps, config.incomplete);
    let store = match pool {
        Some(pool) => store.with_memory(pool.clone()),
        None => store,
    };
    let made = StreamReceiver::with_store(config, store);
    let mut receiver: HeapReceiver = made.map_err(|e| LabError::Failed(anyhow::anyhow!("{e}")))?;
    let (begun, mut at, mut heaps) = (Instant::now(), 0, 0);
    for &end in &stream.ends {
        receiver.push(0, &stream.bytes[at..end]);
        at = end;
        while receiver.pop().is_some() {
            heaps += 1;
        }
    }
    Ok((gbps(stream.bytes.len(), begun.elapsed()), heaps))
}

/// One round of copies of packets' size from the same bytes into heaps in turn.
fn copies(stream: &Stream, heaps: &mut [Vec<u8>]) -> f64 {
    let (begun, mut at, mut heap, mut place) = (Instant::now(), 0, 0, 0);
    for &end in &stream.ends {
        let piece = &stream.bytes[at..end];
        at = end;
        let room = heaps[heap].len() - place;
        let piece = &piece[..piece.len().min(room)];
        heaps[heap][place..place + piece.len()].copy_from_slice(piece);
        place += piece.len();
        if place == heaps[heap].len() {
            black_box(&mut heaps[heap]);
            (heap, place) = ((heap + 1) % heaps.len(), 0);
        }
    }
    black_box(heaps);
    gbps(stream.bytes.len(), begun.elapsed())
}

/// Gb/s at which one thread copies packets of this size: a measure of this machine's memory.
pub(super) fn copy_gbps(packet: usize) -> f64 {
    let stream =
        Stream { bytes: vec![1; 64 * packet], ends: (1..=64).map(|n| n * packet).collect() };
    let mut heaps = vec![vec![0; HEAP]; CYCLE];
    let rounds: Vec<f64> = (0..200).map(|_| copies(&stream, &mut heaps)).collect();
    rounds.iter().copied().fold(0.0, f64::max)
}

/// Measures; the table in Markdown.
///
/// # Errors
/// Heaps that were lost: then the receiver is at fault.
pub fn run(order: &MemoryOrder, record: &mut Record) -> Result<String, LabError> {
    record
        .parameter("heap_bytes", HEAP)
        .parameter("heaps", order.heaps)
        .parameter("rounds", order.rounds);
    let mut text =
        "| packet B | plain Gb/s | pool Gb/s | copies Gb/s | plain / copies | pool / copies |\n\
                    |---|---|---|---|---|---|\n"
            .to_owned();
    for &packet in &order.packets {
        let stream = stream(packet, order.heaps)?;
        let pool = MemoryPool::new(1, HEAP, 16, 16);
        let pool = pool
            .ok_or_else(|| LabError::Failed(anyhow::anyhow!("no memory for a pool of 64 MiB")))?;
        let mut cycle = vec![vec![0; HEAP]; CYCLE];
        let [mut plain, mut pooled, mut bare] = [const { Vec::new() }; 3];
        // One round of each that does not count; then by turns, so that a busy machine is busy for all.
        for round in 0..=order.rounds {
            let once = |pool: Option<&MemoryPool>| {
                let (rate, heaps) = receive(&stream, pool)?;
                match heaps == order.heaps {
                    true => Ok(rate),
                    false => {
                        Err(LabError::Failed(anyhow::anyhow!("{heaps} of {} heaps", order.heaps)))
                    }
                }
            };
            let rates = [once(None)?, once(Some(&pool))?, copies(&stream, &mut cycle)];
            if round > 0 {
                for (list, rate) in [&mut plain, &mut pooled, &mut bare].into_iter().zip(rates) {
                    list.push(rate);
                }
            }
        }
        let figure = |values: &[f64]| Figure::of(values, "Gb/s");
        let (Some(p), Some(q), Some(c)) = (figure(&plain), figure(&pooled), figure(&bare)) else {
            continue;
        };
        for (name, figure) in [("plain", &p), ("pool", &q), ("copies", &c)] {
            record.figure(&format!("{name}-{packet}"), figure);
        }
        record.row(json!({"packet_bytes": packet, "plain_gbps": plain, "pool_gbps": pooled, "copies_gbps": bare}));
        text += &format!(
            "| {packet} | {:.1} ({}) | {:.1} ({}) | {:.1} ({}) | {:.2} | {:.2} |\n",
            p.value,
            pm(&plain),
            q.value,
            pm(&pooled),
            c.value,
            pm(&bare),
            p.value / c.value,
            q.value / c.value
        );
    }
    Ok(text + "\nMedians, with mean ± standard deviation in brackets.\n")
}
