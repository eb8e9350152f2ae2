//! Heaps that a byte stream gives whole: they are counted and kept without a place in the window.
//! Source: `docs/spead.md`, whole heaps over TCP.

use fullcount_core::refusal::Refusal;

use super::super::Heap;
use super::super::config::ReceiverConfig;
use super::super::counters::{Outcome, Refused, SpeadCounter as C};
use super::super::store::{Delivery, HeapStore};
use super::{HeapReceiver, StreamEnd, StreamReceiver};

impl HeapReceiver {
    /// A stream with plain memory.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: ReceiverConfig) -> Result<HeapReceiver, Refusal> {
        let store = HeapStore::new(config.ring_heaps, config.incomplete);
        StreamReceiver::with_store(config, store)
    }

    /// The next finished heap.
    pub fn pop(&mut self) -> Option<Delivery> {
        self.store.pop()
    }

    /// A heap that a byte stream gave whole ([`HeapStream`](crate::framing::HeapStream)): one packet of `bytes` bytes. Take finished heaps out before:
    /// the ring is not looked at.
    pub fn push_heap(&mut self, now_ns: u64, heap: Heap, bytes: u64) -> Outcome {
        self.count_packet(now_ns, bytes);
        if self.ended.is_some() {
            return self.refuse(Refused::Stopped);
        }
        let length = heap.payload().len() as u64;
        match self.recent.ended(heap.cnt, now_ns) {
            Some(true) => return self.refuse(Refused::DuplicateHeap),
            Some(false) => return self.refuse(Refused::Late),
            None => {}
        }
        self.recent.add(heap.cnt, now_ns, true);
        self.losses.came(heap.cnt, heap.flavour, length);
        self.statistics.heaps += 1;
        self.statistics.single_packet_heaps += 1;
        for (line, n) in
            [(C::Accepted, 1), (C::PayloadBytes, length), (C::Heaps, 1), (C::Complete, 1)]
        {
            self.tally.add(line, n);
        }
        self.store.put(heap);
        Outcome::Accepted
    }

    /// A stop heap that a byte stream gave whole, of `bytes` bytes.
    pub fn push_stop(&mut self, now_ns: u64, bytes: u64) {
        self.count_packet(now_ns, bytes);
        if self.ended.is_some() {
            self.refuse(Refused::Stopped);
            return;
        }
        for line in [C::Accepted, C::Heaps, C::Control] {
            self.tally.add(line, 1);
        }
        self.stops += 1;
        if self.stops >= self.config.stops {
            self.end(StreamEnd::StopItem, now_ns);
        }
    }

    fn count_packet(&mut self, now_ns: u64, bytes: u64) {
        self.tally.add(C::Packets, 1);
        if self.ended.is_some() {
            return;
        }
        self.statistics.packets += 1;
        self.batch += 1;
        self.packet_bytes += bytes;
        self.tally.add(C::PacketBytes, bytes);
        self.last_packet_ns = Some(now_ns);
        self.stalled = false;
    }
}
