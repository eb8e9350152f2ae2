//! The readout unit with streams that begin, hang up, end, come back and repeat a source, and blocks of any content, each stream read
//! as far as its credit lets it. No panic; every block, fragment and event is accounted for; events rise; memory is
//! bounded; a stream that the next event waits for can be read, and none gets more credit than twice the longest fragment.
//!
//! The first byte chooses options; then come steps: what, and four bytes of it.
#![no_main]

use std::sync::Arc;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::detector::{Decoder, Setup, Threads};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::source::{StreamCredit, StreamTable};
use fullcount_core::time::Nanos;
use fullcount_detect::detector::builtin;
use libfuzzer_sys::fuzz_target;

/// Configured sources; one id more is sent.
const SOURCES: usize = 3;
const PLACES: usize = 6;
const MEMORY: u64 = 1 << 20;
/// Twice the longest fragment with the headers of its blocks.
const MOST_CREDIT: u64 = 2 * 2048 * 4096;
/// Bytes of a batch at most.
const MOST_BATCH: usize = 16 << 10;
/// Events of a call that are written.
const WRITTEN: usize = 4;
/// Calls between looks at the counters: what is wrong there stays wrong, and a look costs more than a call.
const LOOKS: u64 = 4;
/// What is noted of a fragment beside its bytes, at most.
const NOTED: u64 = 160;

/// A block of `words` words of payload; a whole fragment if it is first and last. Written by docs/fragments.md.
fn block(source: u64, event: u64, number: u64, edges: u64, words: u64) -> Vec<u8> {
    let (event, end) = (event & 0x00ff_ffff, 16 + 8 * words as usize);
    // Word by word it would cost more than all that is tested: each comparison is noted.
    let mut bytes = vec![0x5a; end];
    let mut put = |at: usize, word: [u8; 8]| {
        if let Some(place) = bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&word);
        }
    };
    put(end - 8, (0xa << 60 | words << 32).to_le_bytes());
    put(16, (5 << 60 | event << 32 | source << 8).to_le_bytes());
    put(0, (0x475a << 48 | number << 32 | edges << 30 | words).to_be_bytes());
    put(8, (source << 32 | event).to_be_bytes());
    bytes
}

/// A stream as its source sees it.
struct Stream {
    credit: Arc<StreamCredit>,
    handed: u64,
    /// The longest batch that it brought.
    longest: u64,
}

/// The unit, what its source holds, and what has left.
struct Unit {
    decoder: Box<dyn Decoder>,
    ledger: Ledger,
    table: Arc<StreamTable>,
    places: [Option<Stream>; PLACES],
    opened: u32,
    batches: u64,
    now: i64,
    products: Products,
    last: Option<u64>,
    /// The next number of each source, so that most fragments follow each other.
    next: [u64; SOURCES + 1],
    /// Memory that may wait, bytes: what is configured, and of each stream what it brought before it was ahead.
    bound: u64,
}

impl Unit {
    fn new(choice: u8) -> Option<Unit> {
        let timeout = if choice & 1 == 0 { "off" } else { "10ms" };
        let (rows, crc) = (choice & 2 == 0, [1, 0, 7][usize::from(choice >> 2) % 3]);
        let first = if choice & 0x40 == 0 { "" } else { "first_event = 5" };
        let options = format!(
            "sources = {SOURCES}\nmemory = \"1MiB\"\nevent_timeout = \"{timeout}\"\nrows = {rows}\ncrc_every = {crc}\n{first}"
        );
        let kinds = builtin();
        let kind = kinds.find("fragments")?;
        let detector = kind.configure(&Setup { options, ..Setup::default() }).ok()?;
        let mut decoder = detector.decoder(Want::ALL, &Threads::of(1)).ok()?;
        let table = Arc::new(StreamTable::default());
        decoder.govern(table.clone());
        let ledger = Ledger::default();
        decoder.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
        Some(Unit {
            decoder,
            ledger,
            table,
            places: Default::default(),
            opened: 0,
            batches: 0,
            now: 0,
            products: Products { want: Want::ALL, ..Products::default() },
            last: None,
            next: [if choice & 0x80 == 0 { 0 } else { 0x00ff_ff00 }; SOURCES + 1],
            bound: MEMORY,
        })
    }

    /// A stream ends, as all do before their place is another's.
    fn close(&mut self, at: usize) {
        if let Some(stream) = self.places[at].take() {
            stream.credit.close(stream.handed);
        }
    }

    fn open(&mut self, at: usize) {
        self.close(at);
        self.opened += 1;
        let credit = self.table.open(self.opened, Origin { port: at as u16, ..Origin::NONE });
        assert_eq!(credit.allowed(), MOST_CREDIT);
        self.places[at] = Some(Stream { credit, handed: 0, longest: 0 });
    }

    /// Blocks come on a stream, if it has credit; without a stream, if `at` names none. `begun`: of fragments that need more.
    fn bring(&mut self, at: usize, blocks: &[Vec<u8>], (shared, begun): (bool, bool)) {
        let mut batch = Batch::with_slots(0, 0);
        let (mut memory, mut metas) = (Vec::new(), Vec::<TrainMeta>::new());
        for bytes in blocks {
            let (start, len) = (memory.len(), bytes.len());
            if start + len > MOST_BATCH {
                break;
            }
            memory.extend(bytes);
            // As a source does: equal neighbours are one train.
            match metas.last_mut().filter(|train| train.stride == len) {
                Some(train) => train.len += len,
                None => {
                    let edge = Edge::Heap;
                    metas.push(TrainMeta { start, len, stride: len, edge, ..TrainMeta::default() });
                }
            }
        }
        if memory.is_empty() {
            return;
        }
        let room = memory.len() as u64 + NOTED * blocks.len() as u64;
        let mut credit = None;
        if at == PLACES && begun {
            self.bound += room;
        }
        if let Some(stream) = self.places.get_mut(at) {
            let Some(stream) = stream.as_mut().filter(|s| s.handed < s.credit.allowed()) else {
                return;
            };
            stream.handed += memory.len() as u64;
            // While it is awaited it brings more for what it has begun.
            let before = if begun { 0 } else { stream.longest };
            stream.longest = room.max(before);
            self.bound += room.saturating_sub(before);
            credit = Some(stream.credit.clone());
        }
        if shared || at < PLACES {
            batch.share(&memory.into());
            metas.into_iter().for_each(|meta| batch.push(meta));
        } else {
            blocks.iter().for_each(|bytes| batch.append(bytes, Origin::NONE, 0, Edge::Heap));
        }
        // Memory that is shared begins a batch anew.
        credit.into_iter().for_each(|credit| batch.set_stream(credit));
        self.decode(Some(&batch));
    }

    fn decode(&mut self, batch: Option<&Batch>) {
        self.batches += 1;
        self.products.batch = BatchNumber { batch: self.batches, ..BatchNumber::default() };
        self.decoder.decode(batch, Some(Nanos(self.now)), &mut self.products);
        self.check();
        for at in 0..PLACES {
            let stream = self.places[at].as_ref();
            if stream.is_some_and(|stream| stream.credit.is_refused()) {
                self.close(at);
            }
        }
    }

    fn flush(&mut self, reason: Flush) {
        self.decoder.flush(reason, &mut self.products);
        self.records();
        if reason != Flush::End {
            self.look();
        }
        if reason == Flush::Taken {
            // Sources begin with whatever number comes next.
            self.last = None;
        }
    }

    /// What must hold after each call.
    fn check(&mut self) {
        self.records();
        if self.batches.is_multiple_of(LOOKS) {
            self.look();
        }
    }

    fn records(&mut self) {
        let records = &self.products.records;
        for (event, &number) in records.number.iter().enumerate() {
            assert!(self.last.is_none_or(|last| last < number), "{:?} {number}", self.last);
            self.last = Some(number);
            if event < WRITTEN {
                let mut record = Vec::new();
                records.write(event, &mut record);
                assert_eq!(record.len(), records.size(event));
            }
        }
        self.products.records = Default::default();
    }

    fn look(&mut self) {
        let entries = self.ledger.read();
        assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
        let held = entries.get("merge.held").unwrap_or(0);
        assert!(held <= self.bound, "{held} of {}", self.bound);
        let waiting = entries.get("fragments.waiting").unwrap_or(0);
        assert!(held >= waiting && waiting <= self.bound / 16);
        for stream in self.places.iter().flatten() {
            let left = stream.credit.allowed().saturating_sub(stream.handed);
            assert!(left <= MOST_CREDIT, "{left}");
        }
        let told = self.decoder.command("SOURCES", &[]).expect("it is known");
        for line in told.lines().filter(|line| line.contains(", awaited, ")) {
            let Some((_, rest)) = line.split_once(": stream ") else { continue };
            let number: u32 = rest.split(' ').next().and_then(|n| n.parse().ok()).expect("number");
            let mut streams = self.places.iter().flatten();
            if let Some(stream) = streams.find(|stream| stream.credit.number() == number) {
                assert!(stream.handed < stream.credit.allowed(), "{line}: it is never read");
            }
        }
    }

    /// The run ends: nothing waits any more, and nothing is unaccounted for.
    fn end(&mut self) {
        (0..PLACES).for_each(|at| self.close(at));
        self.decode(None);
        self.look();
        self.flush(Flush::End);
        self.look();
        let entries = self.ledger.read();
        assert_eq!(
            (entries.get("fragments.waiting"), entries.get("merge.held")),
            (Some(0), Some(0))
        );
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, mut rest)) = input.split_first() else { return };
    let Some(mut unit) = Unit::new(choice) else { return };
    while let Some((step, behind)) = rest.split_first_chunk::<5>() {
        let &[what, w @ ..] = step;
        rest = behind;
        // One place more: packets without a stream.
        let place = usize::from(w[0] & 0xf) % (PLACES + usize::from(choice & 0x20 != 0));
        let at = place % PLACES;
        match what % 16 {
            0 | 1 => unit.open(at),
            2 => unit.places[at].iter().for_each(|stream| stream.credit.hung_up()),
            3 => unit.close(at),
            4 => unit.now += i64::from(u16::from_be_bytes([w[0], w[1]])) * 1000,
            5 => unit.decode(None),
            6 if w[0] > 200 => unit.flush([Flush::Taken, Flush::Stalled][usize::from(w[1] & 1)]),
            6 | 7 => {
                // Any bytes as one block.
                let (bytes, behind) = rest.split_at(usize::from(w[1]).min(rest.len()));
                rest = behind;
                unit.bring(place, &[bytes.to_vec()], (w[2] & 1 == 0, true));
            }
            what => {
                let source = usize::from(w[0] >> 4) % (SOURCES + 1);
                let step = if what == 8 { u64::from(w[3]) << (w[1] % 20) } else { 0 };
                let first = unit.next[source].wrapping_add(step);
                let count = if what == 9 { 1 } else { 1 + u64::from(w[1]) };
                let words = if what == 10 { 2 * u64::from(w[2]) } else { u64::from(w[2] & 31) };
                // Several blocks of one event, or fragments of one.
                let row = |n: u64| match what {
                    11 => block(
                        source as u64,
                        first,
                        n,
                        u64::from(n == 0) << 1 | u64::from(n + 1 == count),
                        words,
                    ),
                    12 => block(source as u64, first, u64::from(w[3]), u64::from(w[3] & 3), words),
                    _ => block(source as u64, first + n, 0, 3, words),
                };
                let mut blocks: Vec<Vec<u8>> = (0..count).map(row).collect();
                if what == 13 {
                    let bytes = &mut blocks[usize::from(w[3]) % count as usize];
                    let at = usize::from(w[3]) % bytes.len();
                    bytes[at] ^= w[1] | 1;
                }
                unit.next[source] =
                    first.wrapping_add(if matches!(what, 11 | 12) { 1 } else { count });
                unit.bring(place, &blocks, (w[3] & 1 == 0, matches!(what, 11..14)));
            }
        }
    }
    unit.end();
});
