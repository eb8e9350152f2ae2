//! How fast the readout unit merges fragments on one core: 16 sources, fragments of 2 KiB in trains of 127, records wanted, through
//! the public decoder, with and without checksums, in rows and one by one, with the processor's instructions and without.
//!
//! `cargo bench -p fullcount-detect --bench fragments [-- --json]`. Median of five repeats after a warm-up. The input (67 MB) is
//! read once per repeat.

use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Edge, TrainMeta};
use fullcount_core::products::{Products, Want};
use fullcount_core::time::Nanos;
use fullcount_detect::detector::{Setup, Threads, builtin};
use fullcount_detect::fragments::crc::Crc16;
use fullcount_detect::instructions::Instructions;

const SOURCES: u64 = 16;
/// Words of a fragment.
const WORDS: u64 = 254;
/// Bytes of a block.
const BLOCK: usize = 16 + 8 * WORDS as usize;
/// Blocks that a read brings.
const TRAIN: u64 = 127;
/// Reads of each source.
const READS: u64 = 16;
const REPEATS: usize = 5;

/// A read of a source, with right checksums.
fn read(source: u64, first: u64) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(TRAIN as usize * BLOCK);
    for event in first..first + TRAIN {
        bytes.extend((0x475a << 48 | 3 << 30 | WORDS).to_be_bytes());
        bytes.extend((source << 32 | event).to_be_bytes());
        let mut words = vec![5 << 60 | event << 32 | source << 8];
        words.extend((2..WORDS).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ event));
        words.push(0xa << 60 | WORDS << 32);
        let sum = words.iter().flat_map(|word| word.to_be_bytes()).fold(0xffff_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x8005 }
            })
        });
        words[WORDS as usize - 1] |= u64::from(sum) << 16;
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes.into()
}

/// Bytes a second.
fn once(reads: &[Arc<[u8]>], options: &str, instructions: Instructions) -> f64 {
    let options = format!("sources = {SOURCES}\n{options}");
    let setup = Setup { options, instructions, ..Setup::default() };
    let want = Want { records: true, ..Want::default() };
    let kinds = builtin();
    let kind = kinds.find("fragments").expect("it is registered");
    let unit = kind.configure(&setup).expect("the options are right");
    let mut decoder = unit.decoder(want, &Threads::of(1)).expect("a decoder");
    let mut products = Products { want, ..Products::default() };
    let mut batch = Batch::with_slots(0, 0);
    let (mut events, mut bytes, began) = (0, 0, Instant::now());
    for memory in reads {
        batch.clear();
        batch.share(memory);
        let (len, edge) = (memory.len(), Edge::Heap);
        batch.push(TrainMeta { start: 0, len, stride: BLOCK, edge, ..TrainMeta::default() });
        decoder.decode(Some(&batch), Some(Nanos(0)), &mut products);
        bytes += len;
        if products.table_bytes() > 1 << 20 {
            events += products.records.len() as u64;
            products.clear();
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    events += products.records.len() as u64;
    assert_eq!(events, READS * TRAIN, "every event has left");
    bytes as f64 / seconds
}

/// Bytes a second of the checksum alone, of 2 KiB in the first-level cache.
fn summed(instructions: Instructions) -> f64 {
    let bytes = read(0, 0);
    let (words, count, began) = (&bytes[16..BLOCK], 200_000, Instant::now());
    let mut all = 0;
    for _ in 0..count {
        let mut crc = Crc16::default();
        crc.words(std::hint::black_box(words), instructions);
        all ^= crc.value();
    }
    std::hint::black_box(all);
    (count * words.len()) as f64 / began.elapsed().as_secs_f64()
}

/// The median of repeats, GB/s.
fn tell(name: &str, rate: impl Fn() -> f64) {
    let mut rates: Vec<f64> = (0..=REPEATS).map(|_| rate()).skip(1).collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates[REPEATS / 2] * 1e-9;
    if std::env::args().any(|a| a == "--json") {
        println!("{{\"bench\": \"fragments\", \"row\": \"{name}\", \"gb_per_s\": {rate:.2}}}");
    } else {
        println!("fragments, {}: {rate:.2} GB/s", name.replace('_', " "));
    }
}

fn main() {
    let one = |n: u64| read(n % SOURCES, n / SOURCES * TRAIN);
    let reads: Vec<Arc<[u8]>> = (0..READS * SOURCES).map(one).collect();
    let (auto, portable) = (Instructions::default(), Instructions::PORTABLE);
    for (name, options, instructions) in [
        ("no_checksums", "crc_every = 0", auto),
        ("no_checksums_one_by_one", "crc_every = 0\nrows = false", auto),
        ("all_checksums", "", auto),
        ("all_checksums_one_by_one", "rows = false", auto),
        ("all_checksums_portable", "", portable),
        ("all_checksums_portable_one_by_one", "rows = false", portable),
    ] {
        tell(name, || once(&reads, options, instructions));
    }
    tell("checksum_alone", || summed(auto));
    tell("checksum_alone_portable", || summed(portable));
}
