//! Whole heaps on a byte stream: each is one SPEAD packet of any length, and its payload is read into the heap's memory.
//!
//! Nothing is cut, nothing is copied but by the kernel. The form is SPEAD's own: a packet says its size, so a spead2 receiver
//! whose largest packet is set high enough takes the same bytes. A heap has at most 65,531 items that way. The driver asks [`HeapStream::want`] for memory, fills some of it and says how much.
//!
//! A length alone costs no memory beyond 32 MiB or a block of the pool: a longer heap's memory grows as its bytes come, so that many
//! connections which announce heaps of the largest size take what they send, not what they say. All of them together take no more
//! than their [`LiveMemory`].
//!
//! A damaged stream is found again as spead2 finds packets: 8 bytes on, try again. Refuses heaps above the limit: they are
//! skipped. A heap that the connection's end cuts is handed on as an incomplete one, and so is one with an item beyond its end. Source: `docs/formats/spead.md`, sections 3, 9.2 and 18 (5, 6).

use std::collections::HashSet;
use std::sync::Arc;

use super::live_memory::{LiveMemory, LiveShare};
use super::resync::ResyncWork;
use crate::receive::{
    Arrival, Delivery, Heap, HeapBytes, HeapEnd, HeapMemory, IncompleteHeap, PlainMemory,
    PresenceMap,
};
use crate::wire::{HEADER_BYTES, SpeadPacket, control, id, prefix_of};

/// What was read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeapStreamCounts {
    /// Heaps whose bytes all came.
    pub heaps: u64,
    /// Payload of these.
    pub payload_bytes: u64,
    /// Bytes of the stream that were used.
    pub stream_bytes: u64,
    /// Bytes that belonged to no heap.
    pub junk_bytes: u64,
    /// Heaps above the limit.
    pub too_large: u64,
    /// Heaps for which there was no memory, by the system or by [`LiveMemory`].
    pub no_memory: u64,
    /// Bytes of both that were skipped.
    pub skipped_bytes: u64,
    /// Packets that were no whole heap.
    pub not_whole: u64,
    /// Heaps that the connection's end cut.
    pub cut: u64,
}

#[derive(Debug)]
enum Reading {
    /// Header and pointers: so many bytes are wanted.
    Prefix(usize),
    /// Payload of `length` bytes, into the heap's memory, which may be shorter and grows.
    Payload { memory: HeapBytes, have: usize, length: usize },
    /// Bytes that nobody wants.
    Skip(u64),
}

/// Takes whole heaps from a byte stream.
#[derive(Debug)]
pub struct HeapStream {
    max_heap: u64,
    memory: Box<dyn HeapMemory>,
    live: LiveShare,
    /// Header and pointers as far as they came, and room for the rest.
    prefix: Vec<u8>,
    have: usize,
    work: ResyncWork,
    reading: Reading,
    began_ns: u64,
    last_ns: u64,
    counts: HeapStreamCounts,
    stopped: bool,
    stop_on_stop_item: bool,
}

/// So many bytes of a heap have memory before any of its payload came.
const FIRST: usize = 32 << 20;

/// Bytes that are skipped at a time.
const SKIP_AT_A_TIME: usize = 1 << 16;

impl HeapStream {
    /// Heaps up to `max_heap` bytes, in memory from there.
    pub fn new(max_heap: u64, memory: impl HeapMemory + 'static) -> HeapStream {
        HeapStream {
            max_heap,
            memory: Box::new(memory),
            live: LiveShare::default(),
            prefix: vec![0; HEADER_BYTES],
            have: 0,
            work: ResyncWork::default(),
            reading: Reading::Prefix(HEADER_BYTES),
            began_ns: 0,
            last_ns: 0,
            counts: HeapStreamCounts::default(),
            stopped: false,
            stop_on_stop_item: true,
        }
    }

    /// In plain memory.
    pub fn plain(max_heap: u64) -> HeapStream {
        HeapStream::new(max_heap, PlainMemory)
    }

    /// Stop heaps are handed on like any other.
    pub fn without_stop(self) -> HeapStream {
        HeapStream { stop_on_stop_item: false, ..self }
    }

    /// Memory of unfinished heaps is a part of `live`.
    pub fn within(self, live: &Arc<LiveMemory>) -> HeapStream {
        HeapStream { live: LiveShare { all: live.clone(), bytes: 0 }, ..self }
    }

    /// What was read so far.
    pub fn counts(&self) -> HeapStreamCounts {
        self.counts
    }

    /// In the middle of a heap, since its last byte came, ns: a driver may give the connection up that stays silent.
    pub fn waits_since_ns(&self) -> Option<u64> {
        let middle = self.have > 0 || !matches!(self.reading, Reading::Prefix(_));
        middle.then_some(self.last_ns)
    }

    /// A heap has come, or a valid header: whoever is at the other end speaks SPEAD.
    pub fn is_spead(&self) -> bool {
        let counts = self.counts;
        let waits_for_header = matches!(self.reading, Reading::Prefix(HEADER_BYTES));
        counts.heaps + counts.too_large + counts.no_memory + counts.not_whole > 0
            || !waits_for_header
    }

    /// A stop heap came.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Memory for the next bytes of the stream; never empty.
    pub fn want(&mut self) -> &mut [u8] {
        match &mut self.reading {
            Reading::Prefix(wanted) => &mut self.prefix[self.have..*wanted],
            Reading::Payload { memory, have, .. } => &mut memory.as_mut_slice()[*have..],
            Reading::Skip(left) => {
                let many = (*left).min(SKIP_AT_A_TIME as u64) as usize;
                if self.prefix.len() < many {
                    self.prefix.resize(many, 0);
                }
                &mut self.prefix[..many]
            }
        }
    }

    /// The first `bytes` of what [`HeapStream::want`] gave are there now. Returns a heap if one is there with all its bytes: as an
    /// incomplete one if an item lies beyond them, which no byte can mend.
    pub fn filled(&mut self, bytes: usize, now_ns: u64) -> Option<Delivery> {
        self.counts.stream_bytes += bytes as u64;
        self.work.came(bytes);
        self.last_ns = now_ns;
        match &mut self.reading {
            Reading::Prefix(wanted) => {
                if self.have == 0 {
                    self.began_ns = now_ns;
                }
                self.have += bytes;
                match self.have == *wanted {
                    true => self.prefix_is_there(now_ns),
                    false => None,
                }
            }
            Reading::Payload { memory, have, length } => {
                *have += bytes;
                if *have == *length {
                    return self.whole(now_ns);
                }
                let full = *have == memory.as_slice().len();
                if full && !(self.live.reach(*have, *length) && memory.stretch_on(*length)) {
                    let (have, left) = (*have as u64, (*length - *have) as u64);
                    self.counts.no_memory += 1;
                    self.skip(have, left);
                }
                None
            }
            Reading::Skip(left) => {
                self.counts.skipped_bytes += bytes as u64;
                *left -= bytes as u64;
                if *left == 0 {
                    self.begin();
                }
                None
            }
        }
    }

    /// For bytes that are in memory already: uses all of them.
    pub fn push(&mut self, mut bytes: &[u8], now_ns: u64, mut heap: impl FnMut(Delivery)) {
        while !bytes.is_empty() && !self.stopped {
            let room = self.want();
            let many = room.len().min(bytes.len());
            room[..many].copy_from_slice(&bytes[..many]);
            bytes = &bytes[many..];
            if let Some(whole) = self.filled(many, now_ns) {
                heap(whole);
            }
        }
    }

    /// The connection has ended, or is given up ([`Arrival::TimedOut`]). In the middle of a heap's payload: what is there of it.
    pub fn finish(&mut self, arrival: Arrival) -> Option<IncompleteHeap> {
        let cut = self.have > 0 || !matches!(self.reading, Reading::Prefix(_));
        self.counts.cut += u64::from(cut);
        let part = self.taken(arrival, self.last_ns);
        self.begin();
        part.map(|(end, memory)| IncompleteHeap::new(end, memory))
    }

    fn begin(&mut self) {
        self.have = 0;
        self.reading = Reading::Prefix(HEADER_BYTES);
    }

    /// The first bytes of the prefix are junk; what stands behind them is its beginning.
    fn drop_junk(&mut self, junk: usize) {
        self.counts.junk_bytes += junk as u64;
        self.prefix.copy_within(junk..self.have, 0);
        self.have -= junk;
    }

    fn prefix_is_there(&mut self, now_ns: u64) -> Option<Delivery> {
        let mut junk = 0;
        loop {
            let there = &self.prefix[junk..self.have];
            let wanted = match prefix_of(there) {
                Ok(Some(wanted)) => wanted,
                Ok(None) => HEADER_BYTES,
                Err(_) => {
                    junk += 8;
                    continue;
                }
            };
            if there.len() < wanted {
                self.drop_junk(junk);
                if self.prefix.len() < wanted {
                    self.prefix.resize(wanted, 0);
                }
                self.reading = Reading::Prefix(wanted);
                return None;
            }
            // Junk before it may have brought bytes from behind this prefix.
            let extra = there.len() - wanted;
            if let Ok((head, length)) = SpeadPacket::parse_head(&there[..wanted]) {
                let whole = head.offset == 0 && head.heap_length.is_none_or(|heap| heap == length);
                if whole && extra as u64 <= length {
                    self.drop_junk(junk);
                    return self.payload(wanted, length, now_ns);
                }
                self.counts.not_whole += 1;
            }
            junk += self.work.junk(wanted);
        }
    }

    fn payload(&mut self, prefix: usize, length: u64, now_ns: u64) -> Option<Delivery> {
        let extra = self.have - prefix;
        let bytes = match usize::try_from(length) {
            Ok(bytes) if length <= self.max_heap => bytes,
            _ => {
                self.counts.too_large += 1;
                self.skip(extra as u64, length - extra as u64);
                return None;
            }
        };
        let Some(mut memory) = self.first_memory(prefix, bytes) else {
            self.counts.no_memory += 1;
            self.skip(extra as u64, length - extra as u64);
            return None;
        };
        memory.as_mut_slice()[..extra].copy_from_slice(&self.prefix[prefix..prefix + extra]);
        self.have = prefix;
        self.reading = Reading::Payload { memory, have: extra, length: bytes };
        match extra == bytes {
            true => self.whole(now_ns),
            false => None,
        }
    }

    /// Memory for the first bytes of a heap of `bytes`; the pool is asked by what the heap's prefix says.
    fn first_memory(&mut self, prefix: usize, bytes: usize) -> Option<HeapBytes> {
        let first = bytes.min(FIRST);
        let (hint, _) = SpeadPacket::parse_head(&self.prefix[..prefix]).ok()?;
        if !self.live.grow(first as u64) {
            return None;
        }
        // Bytes from behind junk are fewer than the first ones.
        let memory = self.memory.take_first(bytes, FIRST, &hint);
        memory.and_then(|mut memory| memory.stretch(first).then_some(memory))
    }

    /// Nobody gets the heap that is being read: so many bytes of it came, so many are skipped.
    fn skip(&mut self, came: u64, left: u64) {
        self.live.clear();
        self.counts.skipped_bytes += came;
        match left {
            0 => self.begin(),
            left => self.reading = Reading::Skip(left),
        }
    }

    /// What is there of the heap that is being read; the next one begins.
    fn taken(&mut self, arrival: Arrival, now_ns: u64) -> Option<(HeapEnd, HeapBytes)> {
        self.live.clear();
        let reading = std::mem::replace(&mut self.reading, Reading::Prefix(HEADER_BYTES));
        let Reading::Payload { memory, have, length } = reading else { return None };
        let prefix = std::mem::take(&mut self.have);
        let (packet, _) = SpeadPacket::parse_head(&self.prefix[..prefix]).ok()?;
        let (length, received) = (length as u64, have as u64);
        let mut present = PresenceMap::default();
        present.add(0..received, 1);
        // Equal pointers count once, as in a heap of several packets.
        let mut seen = HashSet::new();
        let pointers: Vec<_> = packet.items().filter(|p| seen.insert(p.0)).collect();
        let mut addressed = pointers.iter().filter(|p| !p.is_immediate());
        let inside = addressed.all(|p| packet.flavour.value_of(*p) <= length);
        let end = HeapEnd {
            cnt: packet.heap_cnt,
            flavour: packet.flavour,
            length: Some(length),
            received,
            present,
            pointers,
            arrival,
            contiguous: received == length && inside,
            packets: 1,
            first_ns: self.began_ns,
            last_ns: now_ns,
        };
        Some((end, memory))
    }

    fn whole(&mut self, now_ns: u64) -> Option<Delivery> {
        let (mut end, memory) = self.taken(Arrival::Complete, now_ns)?;
        self.counts.heaps += 1;
        self.counts.payload_bytes += end.received;
        let stop = end.flavour.immediate(id::STREAM_CTRL, control::STOP);
        if self.stop_on_stop_item && end.pointers.contains(&stop) {
            self.stopped = true;
            return None;
        }
        if !end.contiguous {
            end.arrival = Arrival::Flushed;
            return Some(Delivery::Incomplete(IncompleteHeap::new(end, memory)));
        }
        Some(Delivery::Heap(Heap::new(end, memory)))
    }
}

#[cfg(test)]
#[path = "heaps_tests.rs"]
mod tests;
