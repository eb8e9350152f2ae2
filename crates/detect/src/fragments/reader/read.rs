//! Blocks of a batch: in rows where whole fragments of a source follow each other and are alike, else one by one.
//!
//! Most fragments are like the one before but for their number. Such a row is looked at block by block and then counted, noted and merged
//! at once. A block that is anything else ends its row and is read alone. Source: `docs/fragments.md`, "Rows".

use std::sync::Arc;

use fullcount_core::batch::Batch;
use fullcount_core::products::Products;
use fullcount_core::records::flags;
use fullcount_core::time::Nanos;

use super::super::block::{FragmentBlock, HEADER, NUMBER_BITS};
use super::super::counters::{FragmentCounter as C, PerSource};
use super::super::fed::{Fed, checksum, ends};
use super::super::merge::{ArrivedBatch, FragmentVerdict, WholeFragment, WholeRow};
use super::UnitReader;

/// What holds for all blocks of a train.
#[derive(Clone, Copy)]
pub(super) struct From<'a> {
    pub stream: usize,
    pub memory: &'a Arc<[u8]>,
    pub arrival: &'a ArrivedBatch,
}

/// What blocks of a row have in common, and how many they are.
struct Alike {
    /// The first.
    block: FragmentBlock,
    count: u32,
    checked: u64,
    flags: u16,
    throttling: u8,
}

impl UnitReader {
    pub(super) fn read(&mut self, batch: &Batch) {
        let stream = self.stream(batch.stream());
        let own;
        let (memory, shared) = match batch.shared() {
            Some(memory) => (memory, true),
            None => {
                own = batch.trains().flat_map(|t| t.bytes.iter().copied()).collect::<Arc<[u8]>>();
                (&own, false)
            }
        };
        let (mut behind, base) = (0, memory.as_ptr().addr());
        let (mut packets, mut accepted, mut bytes) = (0, 0, 0);
        let mut arrival = ArrivedBatch {
            batch: self.batch,
            arrived: self.now.unwrap_or(Nanos(0)),
            time_ns: 0,
            memory: self.wants_records.then(|| memory.clone()),
        };
        for train in batch.trains() {
            let mut start = if shared { train.bytes.as_ptr().addr() - base } else { behind };
            behind += train.bytes.len();
            bytes += train.bytes.len() as u64;
            arrival.time_ns = train.time_ns;
            let from = From { stream, memory, arrival: &arrival };
            let mut chunks = train.chunks();
            loop {
                let row = self.row(chunks.rest(), train.stride, start, from);
                if row > 0 {
                    packets += row as u64;
                    accepted += row as u64;
                    start += row * train.stride;
                    chunks.skip_whole(row);
                }
                let Some(chunk) = chunks.next() else { break };
                packets += 1;
                match FragmentBlock::parse(chunk) {
                    Ok(block) => {
                        accepted += 1;
                        self.block(&block, &chunk[HEADER..], start + HEADER, from);
                    }
                    Err(refusal) => self.add(C::of(refusal), 1),
                }
                start += chunk.len();
            }
        }
        self.add(C::Packets, packets);
        self.add(C::Accepted, accepted);
        if let Some(stream) = &mut self.streams[stream] {
            stream.handed += bytes;
        }
    }

    /// Reads a row from the beginning of `bytes` on, whose blocks have `stride` bytes; how many blocks it had. 0: the first is
    /// read alone.
    fn row(&mut self, bytes: &[u8], stride: usize, start: usize, from: From<'_>) -> usize {
        // Two words for the fragment's header and trailer.
        if !self.rows || stride < HEADER + 16 || bytes.len() < stride {
            return 0;
        }
        let Ok(block) = FragmentBlock::parse(&bytes[..stride]) else { return 0 };
        let Some(stream) = self.streams[from.stream].as_mut() else { return 0 };
        let Some(slot) = stream.find(block.source) else { return 0 };
        let slot = &stream.slots[slot];
        let at = slot.at;
        let alone = slot.stash.is_some() || !slot.assembly.is_idle();
        if alone || !self.merger.takes(at, block.event) {
            return 0;
        }
        let Some(alike) = self.alike(block, bytes, stride) else { return 0 };
        let (number, len) = (alike.block.event, alike.block.len as u32);
        let first =
            WholeFragment { number, flags: alike.flags, start: (start + HEADER) as u32, len };
        let row = WholeRow { first, count: alike.count, stride: stride as u32 };
        let verdict = self.merger.push_row(at, &row, from.arrival);
        debug_assert!(matches!(verdict, FragmentVerdict::Taken { .. }), "asked before");
        self.judged(verdict);
        let count = u64::from(alike.count);
        self.add(C::Count, count);
        self.add(C::Checked, alike.checked);
        self.sheet.add(PerSource::Count.line(at), count);
        if let Some(line) = C::of_throttling(alike.throttling) {
            self.add(line, count);
            self.sheet.add(PerSource::Throttled.line(at), count);
        }
        self.throttling[at] = Some(alike.throttling);
        alike.count as usize
    }

    /// How many blocks are like the first, which is `block`; `None` if not even that one is a whole fragment without a fault.
    fn alike(&self, block: FragmentBlock, bytes: &[u8], stride: usize) -> Option<Alike> {
        let mut row = Alike { block, count: 0, checked: 0, flags: 0, throttling: 0 };
        for chunk in bytes.chunks_exact(stride) {
            let Ok(next) = FragmentBlock::parse(chunk) else { break };
            // Behind the last number of a turn another row begins.
            let event = block.event + row.count;
            if !next.is_whole() || (next.source, next.event) != (block.source, event) {
                break;
            }
            let payload = std::iter::once(&chunk[HEADER..]);
            let Some((header, trailer)) = ends(payload.clone()) else { break };
            let Some(fed) = Fed::read(header, trailer) else { break };
            let says = (fed.event, fed.source, fed.len);
            if says != (event, block.source, block.len as u64) {
                break;
            }
            let is_checked = self.crc_every > 0 && event.is_multiple_of(self.crc_every);
            if is_checked && checksum(payload, self.instructions) != fed.crc {
                break;
            }
            let flags = if is_checked { 0 } else { flags::UNCHECKED };
            if row.count == 0 {
                (row.flags, row.throttling) = (flags, fed.throttling);
            } else if (row.flags, row.throttling) != (flags, fed.throttling) {
                break;
            }
            row.count += 1;
            row.checked += u64::from(is_checked);
        }
        debug_assert!(row.count == 0 || (block.event + row.count - 1) >> NUMBER_BITS == 0);
        (row.count > 0).then_some(row)
    }

    /// Events that are alike leave together, none after `most` bytes; their bytes, an event 64 B more.
    pub(super) fn leave_rows(&mut self, most: u64, products: &mut Products) -> Option<u64> {
        let records = self.wants_records.then_some(&mut products.records);
        let left = self.merger.take_rows(most, records)?;
        let (count, each) = (u64::from(left.count), left.each);
        // Numbers that nobody had are missing from everybody.
        let missing = each.skipped.saturating_mul(self.ids.len() as u64);
        self.add(C::Lost, missing);
        self.add(C::Skipped, each.skipped);
        self.add(C::Merged, count * each.parts as u64);
        self.add(C::Decided, count);
        self.add(C::Events, count);
        self.add(
            C::Marked,
            if each.flags & (flags::BROKEN | flags::CHECKSUM) != 0 { count } else { 0 },
        );
        self.add(C::Bytes, count * each.bytes);
        Some(count * (each.bytes + 64))
    }
}
