//! `lab spead memory`: heaps from packets in memory, beside spead2's own and copies of the same packets into heaps that take turns.
//!
//! No socket: what is left is finding the heap, its map, and one copy. The copies are the least that any receiver does. Source:
//! `docs/formats/spead.md`, sections 14.3 and annex.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_child::Asked;
use fullcount_spead::receive::{
    HeapReceiver, HeapStore, MemoryPool, PayloadCopy, ReceiverConfig, StreamReceiver,
};
use fullcount_spead::send::{CutRules, HeapSender, NextPacket, OutHeap, SendHow, SenderConfig};
use serde_json::json;

use super::goals;
use super::pm;
use super::reassembly::Spead2Memory;
use crate::error::LabError;
use crate::record::{Figure, Record};

/// Heap, bytes.
pub(super) const HEAP: usize = 4 << 20;
/// Blocks of a memory pool.
pub(super) const BLOCKS: usize = 16;
/// Heaps that copies go to in turn: as many as a window and its ring.
const CYCLE: usize = 8;
/// Passes over the packets in a turn that count, after one that does not: `spead2_bench mem` has a hundred of 1 GiB, and one pass
/// is 20 ms only.
pub(super) const PASSES: usize = 16;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryOrder {
    /// Packet sizes, bytes.
    pub packets: Vec<usize>,
    /// Rounds; the median counts.
    pub rounds: usize,
    /// Heaps of a pass: 257 are 1 GiB and one more, what `spead2_bench mem` has.
    pub heaps: usize,
    /// What of spead2's is measured beside ours.
    pub spead2: Spead2Memory,
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

/// Mean rate of the passes of a turn, the first one left out.
fn turn(mut pass: impl FnMut() -> Result<f64, LabError>) -> Result<f64, LabError> {
    pass()?;
    let mut seconds_per_gigabit = 0.0;
    for _ in 0..PASSES {
        seconds_per_gigabit += 1.0 / pass()?.max(1e-9);
    }
    Ok(PASSES as f64 / seconds_per_gigabit)
}

/// One pass through a receiver.
fn receive(
    stream: &Stream,
    pool: Option<&MemoryPool>,
    copy: PayloadCopy,
) -> Result<(f64, usize), LabError> {
    let config = ReceiverConfig::default();
    let store = HeapStore::new(config.ring_heaps, config.incomplete).copies(copy);
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

/// Heaps of a pass with and without pages that are asked for ahead: 1 GiB, as `spead2_bench mem` has.
const FROM_MEMORY: usize = 257;

/// A turn through a receiver with a pool that copies payloads that way; Gb/s.
pub(super) fn from_memory(packet: usize, copy: PayloadCopy) -> Result<f64, LabError> {
    let stream = stream(packet, FROM_MEMORY)?;
    let pool = blocks()?;
    turn(|| all_of(FROM_MEMORY, receive(&stream, Some(&pool), copy)?))
}

/// A memory pool of [`BLOCKS`] blocks.
fn blocks() -> Result<MemoryPool, LabError> {
    let pool = MemoryPool::new(1, HEAP, BLOCKS, BLOCKS);
    pool.ok_or_else(|| LabError::Failed(anyhow::anyhow!("no memory for a pool of 64 MiB")))
}

/// The rate of a pass in which so many heaps came.
fn all_of(heaps: usize, (rate, came): (f64, usize)) -> Result<f64, LabError> {
    match came == heaps {
        true => Ok(rate),
        false => Err(LabError::Failed(anyhow::anyhow!("{came} of {heaps} heaps"))),
    }
}

/// One pass of copies of packets' size from the same bytes into heaps in turn.
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

/// What was measured.
#[derive(Debug)]
pub struct MemoryFound {
    /// Table in Markdown.
    pub text: String,
    /// What is below its goal.
    pub missed: Vec<String>,
    /// Goals that cannot be judged, with what is missing.
    pub unmeasured: Vec<String>,
}

/// Least share of spead2's rate in the same configuration.
const OF_SPEAD2: f64 = 1.0;
/// Least share of the rate of copies.
const OF_COPIES: f64 = 0.85;

/// What is measured of a packet size, by turns.
const COLUMNS: [&str; 5] = ["plain", "pool", "copies", "spead2-plain", "spead2-pool"];
/// What is divided by what, as places in [`COLUMNS`], and the goal.
const RATIOS: [(usize, usize, f64); 4] =
    [(0, 3, OF_SPEAD2), (1, 4, OF_SPEAD2), (0, 2, OF_COPIES), (1, 2, OF_COPIES)];

/// All columns of one packet size, Gb/s of each round.
fn columns(order: &MemoryOrder, packet: usize, stop: Asked<'_>) -> Result<[Vec<f64>; 5], LabError> {
    let stream = stream(packet, order.heaps)?;
    let pool = blocks()?;
    let mut cycle = vec![vec![0; HEAP]; CYCLE];
    let mut all: [Vec<f64>; 5] = Default::default();
    let once = |pool: Option<&MemoryPool>| {
        all_of(order.heaps, receive(&stream, pool, PayloadCopy::PagesAhead)?)
    };
    // By turns, so that a busy machine is busy for all.
    for _ in 0..order.rounds {
        let plain = turn(|| once(None))?;
        let ours = [plain, turn(|| once(Some(&pool)))?, turn(|| Ok(copies(&stream, &mut cycle)))?];
        all.iter_mut().zip(ours).for_each(|(list, rate)| list.push(rate));
        let theirs = order.spead2.rates(packet, order.heaps, stop);
        let theirs = theirs.map_err(|e| LabError::Failed(e.into()))?;
        for (list, rate) in all[3..].iter_mut().zip(theirs) {
            list.extend(rate);
        }
    }
    Ok(all)
}

/// Goals of which spead2's side is not there, and how it comes.
fn unmeasured(spead2: &Spead2Memory) -> Vec<String> {
    let plain = "plain / spead2-plain: no spead2_bench_plain, which --build-spead2 builds, and no Python with the packages numpy and spead2; pip installs them, FULLCOUNT_PYTHON names the Python";
    let pool =
        "pool / spead2-pool: no spead2_bench; --build-spead2 builds it, --spead2 names its folder";
    let all = [(spead2.plain_peer().is_none(), plain), (spead2.pool_peer().is_none(), pool)];
    all.into_iter().filter(|(missing, _)| *missing).map(|(_, why)| why.to_owned()).collect()
}

/// Who stands in the columns of spead2, in Markdown.
fn peers(spead2: &Spead2Memory) -> String {
    let mut text = String::new();
    if let Some(pool) = spead2.pool_peer() {
        text += &format!("spead2-pool is {pool}, which always has a memory pool. ");
    }
    if let Some(plain) = spead2.plain_peer() {
        text += &format!("spead2-plain is {plain}, without one.");
    }
    format!("{}\n", text.trim_end())
}

/// Measures; the table in Markdown.
///
/// # Errors
/// Heaps that were lost: then the receiver is at fault. A program of spead2's that gives no result.
pub fn run(
    order: &MemoryOrder,
    record: &mut Record,
    stop: Asked<'_>,
) -> Result<MemoryFound, LabError> {
    record
        .parameter("heap_bytes", HEAP)
        .parameter("heaps", order.heaps)
        .parameter("rounds", order.rounds)
        .parameter("passes", PASSES)
        .parameter("spead2_plain", json!(order.spead2.plain_peer()))
        .parameter("spead2_pool", json!(order.spead2.pool_peer()))
        .parameter("goals", json!({"of_spead2": OF_SPEAD2, "of_copies": OF_COPIES}));
    let named = |(a, b, _): &(usize, usize, f64)| format!(" {} / {} |", COLUMNS[*a], COLUMNS[*b]);
    let mut text = "| packet B |".to_owned();
    text += &COLUMNS.map(|name| format!(" {name} Gb/s |")).concat();
    text += &RATIOS.iter().map(named).collect::<String>();
    text += &format!("\n|---|{}\n", "---|".repeat(COLUMNS.len() + RATIOS.len()));
    let mut missed = Vec::new();
    for &packet in &order.packets {
        let all = columns(order, packet, stop)?;
        let figures = all.each_ref().map(|values| Figure::of(values, "Gb/s"));
        let mut row = json!({
            "packet_bytes": packet, "spead2_plain": order.spead2.plain_peer(), "spead2_pool": order.spead2.pool_peer(),
        });
        text += &format!("| {packet} |");
        for ((name, values), figure) in COLUMNS.iter().zip(&all).zip(&figures) {
            row[format!("{}_gbps", name.replace('-', "_"))] = json!(values);
            text += &match figure {
                Some(figure) => {
                    record.figure(&format!("{name}-{packet}"), figure);
                    format!(" {:.1} ({}) |", figure.value, pm(values))
                }
                None => " – |".to_owned(),
            };
        }
        for &(a, b, goal) in &RATIOS {
            let (Some(x), Some(y)) = (&figures[a], &figures[b]) else {
                text += " – |";
                continue;
            };
            let ratio = x.value / y.value.max(1e-9);
            text += &format!(" {ratio:.2} |");
            row[format!("{}_of_{}", COLUMNS[a], COLUMNS[b].replace('-', "_"))] = json!(ratio);
            let (row, names) = (format!("packets of {packet} B"), (COLUMNS[a], COLUMNS[b]));
            missed.extend(goals::below(&row, names, ratio, goal));
        }
        text.push('\n');
        record.row(row);
    }
    text += "\nMedians, with mean ± standard deviation in brackets. ";
    text += &peers(&order.spead2);
    let unmeasured = unmeasured(&order.spead2);
    record.parameter("not_measured", json!(unmeasured));
    text += &goals::said(&missed, &unmeasured);
    Ok(MemoryFound { text, missed, unmeasured })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_without_spead2_s_side_is_named_with_what_to_install() {
        let [plain, pool] = &unmeasured(&Spead2Memory::default())[..] else { panic!("both") };
        assert!(plain.starts_with("plain / spead2-plain: ") && plain.contains("FULLCOUNT_PYTHON"));
        assert!(plain.contains("--build-spead2"), "{plain}");
        assert!(pool.starts_with("pool / spead2-pool: ") && pool.contains("--build-spead2"));
        let bench = Some("/spead2_bench".into());
        let bare = Spead2Memory { bench, ..Spead2Memory::default() };
        let package = Spead2Memory { python: Some("python3".into()), ..bare.clone() };
        let tool = Spead2Memory { plain: Some("/spead2_bench_plain".into()), ..bare.clone() };
        for (all, name) in [(package, "the Python package spead2"), (tool, "spead2_bench_plain")] {
            assert!(unmeasured(&all).is_empty(), "{name}");
            let text = peers(&all);
            assert!(text.contains(&format!("spead2-plain is {name}")), "{text}");
            assert!(text.contains("spead2-pool is spead2_bench mem,"), "{text}");
        }
        assert_eq!(unmeasured(&bare), std::slice::from_ref(plain));
        let text = goals::said(&[], std::slice::from_ref(plain));
        assert!(text.starts_with("\nNot measured: plain / spead2-plain: no "), "{text}");
        assert_eq!(peers(&Spead2Memory::default()), "\n", "nobody");
    }
}
