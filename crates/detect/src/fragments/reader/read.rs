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
use super::super::fed::{Fed, checksum};
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

/// What the next blocks of a row say, as words: each is loaded and compared once.
struct AlikeBlock {
    /// First word of the block: signature, edges, length.
    edges: u64,
    /// Source and event of the block; header and trailer of its fragment. Of the first; the event rises.
    names: u64,
    header: u64,
    trailer: u64,
    throttling: u8,
}

/// Bits of these words that a fragment without a fault determines.
const NAMES: u64 = 0xfff << 32 | EVENT;
const HEADER_BITS: u64 = 0xf << 60 | EVENT << 32 | 0xfff << 8;
const TRAILER_BITS: u64 = 0xf << 60 | 0x00ff_ffff << 32 | 0xf << 4;
const EVENT: u64 = (1 << NUMBER_BITS) - 1;

impl AlikeBlock {
    /// `None`: it is not a whole fragment in one block. The payload has two words or more.
    fn of(block: &FragmentBlock, chunk: &[u8]) -> Option<AlikeBlock> {
        let fed = Fed::read(0x5 << 60, u64::from_le_bytes(*chunk.last_chunk()?))?;
        let (event, source) = (u64::from(block.event), u64::from(block.source));
        block.is_whole().then_some(AlikeBlock {
            edges: u64::from_be_bytes(*chunk.first_chunk()?),
            names: source << 32 | event,
            header: 0x5 << 60 | event << 32 | source << 8,
            trailer: 0xa << 60 | (block.len as u64 / 8) << 32 | u64::from(fed.throttling) << 4,
            throttling: fed.throttling,
        })
    }

    /// The checksum that the `n`-th block tells, if it is alike.
    #[inline]
    fn sum(&self, chunk: &[u8], n: u32) -> Option<u16> {
        let (head, payload) = chunk.split_first_chunk::<HEADER>()?;
        let (edges, names) = head.split_first_chunk::<8>()?;
        let header = u64::from_le_bytes(*payload.first_chunk()?);
        let trailer = u64::from_le_bytes(*payload.last_chunk()?);
        let names = u64::from_be_bytes(*names.first_chunk()?);
        let n = u64::from(n);
        let other = (u64::from_be_bytes(*edges) ^ self.edges)
            | ((names ^ (self.names + n)) & NAMES)
            | ((header ^ (self.header + (n << 32))) & HEADER_BITS)
            | ((trailer ^ self.trailer) & TRAILER_BITS);
        (other == 0).then_some((trailer >> 16) as u16)
    }
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
            stream.heard = self.now;
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
        let every = self.crc_every;
        let behind = block.event.checked_rem(every);
        let checks = behind == Some(0);
        // Up to the next event that is checked, or the next that is not; and to the end of the turn.
        let most = match behind {
            None => u32::MAX,
            Some(0) => {
                if every == 1 {
                    u32::MAX
                } else {
                    1
                }
            }
            Some(behind) => every - behind,
        };
        let most = most.min((1 << NUMBER_BITS) - block.event);
        let first = AlikeBlock::of(&block, &bytes[..stride])?;
        let mut count = 0;
        for chunk in bytes.chunks_exact(stride).take(most as usize) {
            let Some(sum) = first.sum(chunk, count) else { break };
            let payload = std::iter::once(&chunk[HEADER..]);
            if checks && checksum(payload, self.instructions) != sum {
                break;
            }
            count += 1;
        }
        let flags = if checks { 0 } else { flags::UNCHECKED };
        let checked = if checks { u64::from(count) } else { 0 };
        let throttling = first.throttling;
        (count > 0).then_some(Alike { block, count, checked, flags, throttling })
    }

    /// Events that are alike leave together, none begins after `most` bytes; their bytes, an event 64 B more.
    pub(super) fn leave_rows(&mut self, most: u64, products: &mut Products) -> Option<u64> {
        let records = self.wants_records.then_some(&mut products.records);
        let left = self.merger.take_rows(most, records)?;
        let (count, each) = (u64::from(left.count), left.each);
        self.skip(each.skipped);
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
