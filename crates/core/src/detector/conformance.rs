//! The suite that every detector must pass, inside this crate or outside.
//!
//! [`check`] takes a kind, its configuration and packets that it should understand, and says in one
//! sentence what is wrong: a result that depends on how packets are batched or on the number of threads, a panic (by
//! panicking), one that depends on the instructions of the processor, a hop
//! that does not balance, a loss of packets that somebody else has had, an answer about waiting batches that is early or does not catch up,
//! a time of its own that it does not keep,
//! an inspector of another opinion than the decoder, a counter without meaning, columns that break their invariants. [`numbered`] takes
//! the kind's own sample and compares the ledger with what was done to its numbers. Deterministic: randomness comes from the given seed.

mod numbered;

use std::collections::HashSet;

use fullcount_instructions::available;

use crate::batch::{Batch, Edge, TrainMeta};
use crate::detector::{Decoder, Detector, Kind, Setup, Sharding, Threads};
use crate::ledger::{Entries, Ledger, Role, Unit};
use crate::products::{Products, Want};
use crate::progress::Flush;
use crate::tables::Table;

pub use crate::detector::sample::SamplePacket;
pub use numbered::{Deeds, numbered};

/// A detector that breaks the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BrokenContract(String);

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConformanceReport {
    /// Events of the given packets.
    pub events: usize,
    /// Random and damaged packets.
    pub damaged: usize,
}

/// How packets are put into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// So many trains of one chunk per batch.
    Singles(usize),
    /// Neighbours of one sender and equal length as trains, all in one batch.
    Trains,
}

/// Ends with a failure unless so.
macro_rules! ensure {
    ($ok:expr, $($why:tt)+) => { if !$ok { return Err(BrokenContract(format!($($why)+))); } };
}
use ensure;

mod due;
mod progress;

/// Runs the whole suite: `packets` in order, then `damaged` damaged or random ones from `seed`.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(
    kind: &dyn Kind,
    setup: &Setup,
    packets: &[SamplePacket],
    damaged: usize,
    seed: u64,
) -> Result<ConformanceReport, BrokenContract> {
    let (reference, entries) = run(kind, setup, packets, Split::Singles(usize::MAX), 1)?;
    catalogue(&entries)?;
    pixels(&*configure(kind, setup)?)?;
    for split in [Split::Singles(1), Split::Singles(7), Split::Trains] {
        let (products, again) = run(kind, setup, packets, split, 1)?;
        ensure!(rows(&products) == rows(&reference), "{split:?}: other events than in one batch");
        ensure!(same_tables(&products, &reference), "{split:?}: other tables than in one batch");
        ensure!(products.heaps == reference.heaps, "{split:?}: other heaps than in one batch");
        ensure!(again == entries, "{split:?}: other counters than in one batch");
    }
    other_instructions(kind, setup, packets, "the packets given")?;
    let threads: &[usize] = match configure(kind, setup)?.sharding() {
        Sharding::Exact(most) => &[2, 3][..most.clamp(1, 3) - 1],
        Sharding::Serial | Sharding::ByKey => &[],
    };
    for &threads in threads {
        let (products, again) = run(kind, setup, packets, Split::Singles(7), threads)?;
        let same = products.events.absolute().eq(reference.events.absolute());
        ensure!(same, "{threads} threads: other events, or another order, than on one");
        ensure!(again == entries, "{threads} threads: other counters than on one");
    }
    moved(kind, setup, packets)?;
    progress::check(kind, setup, packets)?;
    due::check(kind, setup, packets)?;
    for packet in packets {
        inspect(kind, setup, packet)?;
    }
    let hostile = hostile(packets, damaged, seed);
    let (one, one_entries) = run(kind, setup, &hostile, Split::Singles(usize::MAX), 1)?;
    let (many, many_entries) = run(kind, setup, &hostile, Split::Singles(3), 1)?;
    ensure!(rows(&one) == rows(&many), "damaged packets: events depend on the batches");
    ensure!(same_tables(&one, &many), "damaged packets: tables depend on the batches");
    ensure!(one.heaps == many.heaps, "damaged packets: heaps depend on the batches");
    ensure!(one_entries == many_entries, "damaged packets: counters depend on the batches");
    other_instructions(kind, setup, &hostile, "damaged packets")?;
    for &threads in threads {
        let (products, again) = run(kind, setup, &hostile, Split::Singles(3), threads)?;
        let same = products.events.absolute().eq(one.events.absolute());
        ensure!(
            same && again == one_entries,
            "damaged packets: {threads} threads give another result"
        );
    }
    for packet in hostile.iter().take(2000) {
        inspect(kind, setup, packet)?;
    }
    Ok(ConformanceReport { events: reference.events.len(), damaged })
}

fn configure(kind: &dyn Kind, setup: &Setup) -> Result<Box<dyn Detector>, BrokenContract> {
    kind.configure(setup).map_err(|e| BrokenContract(format!("configuration refused: {e}")))
}

fn decoder(
    detector: &dyn Detector,
    want: Want,
    threads: usize,
) -> Result<Box<dyn Decoder>, BrokenContract> {
    let decoder = detector.decoder(want, &Threads::of(threads));
    decoder.map_err(|e| BrokenContract(format!("no decoder on {threads} threads: {e}")))
}

fn ledger_of(decoder: &dyn Decoder) -> Ledger {
    let ledger = Ledger::default();
    decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    ledger
}

/// Reads `packets` with a fresh detector to the end; checks balance and columns after every batch.
fn run(
    kind: &dyn Kind,
    setup: &Setup,
    packets: &[SamplePacket],
    split: Split,
    threads: usize,
) -> Result<(Products, Entries), BrokenContract> {
    let detector = configure(kind, setup)?;
    let mut decoder = decoder(&*detector, Want::ALL, threads)?;
    let ledger = ledger_of(&*decoder);
    let mut products = Products { want: Want::ALL, ..Products::default() };
    let last_pixel = detector.pixels().pixels();
    for batch in batches(packets, split) {
        decoder.decode(Some(&batch), None, &mut products);
        let entries = ledger.read();
        ensure!(entries.balance() == 0, "{split:?}: unbalanced: {:?}", entries.hops());
    }
    decoder.finish(&mut products);
    let entries = ledger.read();
    ensure!(entries.balance() == 0, "unbalanced at the end: {:?}", entries.hops());
    decoder.finish(&mut products);
    ensure!(ledger.read() == entries, "a second finish() changes the counters");
    columns(&products, last_pixel)?;
    tables(&products, &detector.tables())?;
    let packets_in = entries.iter().filter(|e| {
        e.info.hop == "decode" && e.info.unit == Unit::Packets && e.info.role == Role::In
    });
    let packets_in: u64 = packets_in.map(|e| e.value).sum();
    ensure!(packets_in == packets.len() as u64, "hop decode saw {packets_in} of {}", packets.len());
    Ok((products, entries))
}

/// Whatever instructions are used, the result is that of those in `setup`.
fn other_instructions(
    kind: &dyn Kind,
    setup: &Setup,
    packets: &[SamplePacket],
    which: &str,
) -> Result<(), BrokenContract> {
    let whole = Split::Singles(usize::MAX);
    let (reference, entries) = run(kind, setup, packets, whole, 1)?;
    for instructions in available().filter(|&set| set != setup.instructions) {
        let setup = Setup { instructions, ..setup.clone() };
        let (products, again) = run(kind, &setup, packets, whole, 1)?;
        let same = products.events == reference.events && same_tables(&products, &reference);
        ensure!(same && again == entries, "{which}: another result with {instructions}");
    }
    Ok(())
}

/// Somebody else has the middle third of the packets: that is no loss of the one that has the others.
fn moved(kind: &dyn Kind, setup: &Setup, packets: &[SamplePacket]) -> Result<(), BrokenContract> {
    let third = packets.len() / 3;
    let (first, last) = (&packets[..third], &packets[2 * third..]);
    let missing = |entries: &Entries| -> u64 {
        let missing = entries.iter().filter(|e| matches!(e.info.role, Role::Missing(_)));
        missing.map(|e| e.value).sum()
    };
    let whole = Split::Singles(usize::MAX);
    let alone = [first, last].map(|part| run(kind, setup, part, whole, 1));
    let [first_alone, last_alone] = alone;
    let alone = missing(&first_alone?.1) + missing(&last_alone?.1);
    let mut decoder = decoder(&*configure(kind, setup)?, Want::default(), 1)?;
    let mut products = Products::default();
    let ledger = ledger_of(&*decoder);
    for part in [first, last] {
        decoder.flush(Flush::Taken, &mut products);
        let decode = |batch| decoder.decode(Some(batch), None, &mut products);
        batches(part, whole).iter().for_each(decode);
    }
    decoder.finish(&mut products);
    let found = missing(&ledger.read());
    ensure!(
        found <= alone,
        "packets that somebody else has had count as {found} lost, not {alone}"
    );
    Ok(())
}

fn batches(packets: &[SamplePacket], split: Split) -> Vec<Batch> {
    let single = |part: &[SamplePacket]| {
        Batch::from_datagrams(part.iter().map(|(bytes, origin)| (&bytes[..], *origin)))
    };
    match split {
        Split::Singles(n) => packets.chunks(n.clamp(1, packets.len().max(1))).map(single).collect(),
        Split::Trains => vec![trains(packets)],
    }
}

/// One batch in which neighbours of one sender and equal length travel as a train.
fn trains(packets: &[SamplePacket]) -> Batch {
    let memory: Vec<u8> = packets.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let mut batch = Batch::with_slots(0, 0);
    batch.share(&memory.into());
    let same = |a: &SamplePacket, b: &SamplePacket| {
        a.0.len() == b.0.len() && a.1 == b.1 && !a.0.is_empty()
    };
    let mut start = 0;
    for train in packets.chunk_by(same) {
        let (stride, origin) = (train[0].0.len(), train[0].1);
        let len = stride * train.len();
        batch.push(TrainMeta { start, len, stride, origin, time_ns: 0, edge: Edge::Datagram });
        start += len;
    }
    batch
}

/// Tables whose rows come in one order, whatever the batches.
const TABLES: [Table; 4] =
    [Table::StripHits, Table::ModuleHits, Table::PlaneClusters, Table::DetectorClusters];

fn same_tables(a: &Products, b: &Products) -> bool {
    TABLES.iter().all(|table| table.values(a) == table.values(b))
}

/// Only tables that the detector names have rows, and their columns are equally long.
fn tables(products: &Products, named: &[Table]) -> Result<(), BrokenContract> {
    for table in TABLES {
        let rows = table.rows(products);
        let name = table.name();
        ensure!(rows == 0 || named.contains(&table), "{table:?} has rows and is not in tables()");
        let equal = table.values(products).iter().all(|column| column.len() == rows);
        ensure!(equal, "columns of {name} are not equally long");
    }
    Ok(())
}

/// Events and hits without regard to their order at equal times.
type Rows = (Vec<(i64, u32)>, Vec<(i64, u32, u16)>);

fn rows(products: &Products) -> Rows {
    let mut events: Vec<_> = products.events.absolute().collect();
    events.sort_unstable();
    let h = &products.hits;
    let times = h.time_ns.iter().zip(&h.pixel).zip(&h.adc);
    let mut hits: Vec<_> = times.map(|((&t, &p), &a)| (t, p, a)).collect();
    hits.sort_unstable();
    (events, hits)
}

fn columns(products: &Products, last_pixel: u32) -> Result<(), BrokenContract> {
    let e = &products.events;
    let n = e.len();
    ensure!(e.offset_ns.len() == n, "{} offsets for {n} pixels", e.offset_ns.len());
    ensure!(e.pulse_ns.len() == e.pulse_first.len(), "pulse columns of different length");
    ensure!(e.pulse_first.is_sorted(), "pulse_first is not sorted");
    ensure!(e.pulse_first.iter().all(|&first| first as usize <= n), "a pulse behind the events");
    ensure!(n == 0 || e.pulse_first.first() == Some(&0), "events before the first pulse");
    ensure!(e.offset_ns.iter().all(|&offset| offset < 1 << 31), "an offset above 31 bits");
    let known = |&p: &u32| (1..=last_pixel).contains(&p);
    ensure!(e.pixel.iter().all(known), "an event outside pixels 1..={last_pixel}");
    let h = &products.hits;
    let long = h.time_ns.len() == h.pixel.len() && h.pixel.len() == h.adc.len();
    ensure!(long, "hit columns of different length");
    ensure!(h.pixel.iter().all(known), "a hit outside pixels 1..={last_pixel}");
    Ok(())
}

fn catalogue(entries: &Entries) -> Result<(), BrokenContract> {
    let mut names = HashSet::new();
    for entry in entries.iter() {
        let info = &entry.info;
        ensure!(names.insert(info.name.clone()), "two counters called {}", info.name);
        ensure!(!info.meaning.is_empty(), "{} has no meaning", info.name);
        let matters = matches!(info.role, Role::Missing(_) | Role::Dropped(_) | Role::Rejected);
        ensure!(!matters || !info.todo.is_empty(), "{} does not say what to do", info.name);
    }
    Ok(())
}

fn pixels(detector: &dyn Detector) -> Result<(), BrokenContract> {
    let map = detector.pixels();
    let n = map.cell.len();
    ensure!(map.x_m.len() == n && map.y_m.len() == n, "positions for some pixels only");
    let cells = u64::from(map.columns) * u64::from(map.rows);
    ensure!(map.cell.iter().all(|&c| u64::from(c) < cells), "a pixel outside the picture");
    let unique: HashSet<_> = map.cell.iter().collect();
    ensure!(unique.len() == n, "two pixels in one cell of the picture");
    for plot in detector.plots() {
        ensure!(!plot.id.is_empty() && !plot.title.is_empty(), "a plot without id or title");
    }
    Ok(())
}

/// A fresh reader and the inspector must refuse the same packets and see the same events.
fn inspect(kind: &dyn Kind, setup: &Setup, packet: &SamplePacket) -> Result<(), BrokenContract> {
    let shown = configure(kind, setup)?.inspector().inspect(&packet.0, packet.1);
    let (_, entries) = run(kind, setup, std::slice::from_ref(packet), Split::Singles(1), 1)?;
    let refused = entries.sum(Unit::Packets, Role::Rejected) > 0;
    ensure!(
        refused == shown.error.is_some(),
        "reader {}, inspector {:?}: {:02x?}",
        if refused { "refuses" } else { "accepts" },
        shown.error,
        packet.0
    );
    let wide = |row: &Vec<i64>| row.len() == shown.columns.len();
    ensure!(shown.rows.iter().all(wide), "rows wider or narrower than their columns");
    let readouts = entries.iter().find(|e| {
        e.info.hop == "geometry" && e.info.unit == Unit::Readouts && e.info.role == Role::In
    });
    if let Some(readouts) = readouts {
        let seen = shown.rows.len() as u64;
        ensure!(seen == readouts.value, "{} readouts, {seen} rows shown", readouts.value);
    }
    Ok(())
}

/// Random bytes, and given packets with bits flipped, bytes replaced, cut, padded or glued together.
pub fn hostile(packets: &[SamplePacket], n: usize, seed: u64) -> Vec<SamplePacket> {
    let mut random = Random(seed | 1);
    let mut made = Vec::with_capacity(n);
    for _ in 0..n {
        let model = (!packets.is_empty()).then(|| &packets[random.below(packets.len())]);
        let (mut bytes, origin) = model.cloned().unwrap_or_default();
        match random.below(7) {
            0 => {
                bytes = vec![0; random.below(1500)];
                bytes.iter_mut().for_each(|b| *b = random.next() as u8);
            }
            1 => bytes.truncate(random.below(bytes.len() + 1)),
            2 => bytes.resize(bytes.len() + random.below(40), random.next() as u8),
            3 => bytes.extend_from_within(..bytes.len() / 2),
            _ => {}
        }
        for _ in 0..random.below(4) {
            // Mostly in front, where headers are.
            let end = if random.below(3) == 0 { bytes.len() } else { bytes.len().min(24) };
            if end > 0 {
                let at = random.below(end);
                let flip = 1 << random.below(8);
                bytes[at] =
                    if random.below(2) == 0 { bytes[at] ^ flip } else { random.next() as u8 };
            }
        }
        made.push((bytes, origin));
    }
    made
}

/// xorshift64*: small, fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// 0..n; `n` above 0.
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
}
