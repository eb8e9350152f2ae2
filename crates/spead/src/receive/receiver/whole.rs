//! Heaps that a byte stream gives whole, or cut by its end: they are counted and kept without a place in the window.
//! Source: `docs/spead.md`, whole heaps over TCP.

use fullcount_core::refusal::Refusal;

use super::super::config::ReceiverConfig;
use super::super::counters::{Outcome, Refused, SpeadCounter as C};
use super::super::heap::IncompleteHeap;
use super::super::live::Arrival;
use super::super::recent::PastHeap;
use super::super::store::{Delivery, HeapStore};
use super::{HeapReceiver, StreamEnd, StreamReceiver};
use crate::wire::{control, id};

impl HeapReceiver {
    /// A stream with plain memory.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: ReceiverConfig) -> Result<HeapReceiver, Refusal> {
        let store = HeapStore::new(config.ring_heaps, config.incomplete)
            .with_ring_bytes(config.max_live_bytes);
        StreamReceiver::with_store(config, store)
    }

    /// The next finished heap.
    pub fn pop(&mut self) -> Option<Delivery> {
        self.store.pop()
    }

    /// A heap that a byte stream gave ([`HeapStream`](crate::framing::HeapStream)): one packet of `bytes` bytes, of which the end may be missing. Take
    /// finished heaps out before: the ring is not looked at.
    pub fn push_heap(&mut self, now_ns: u64, heap: Delivery, bytes: u64) -> Outcome {
        self.count_packet(now_ns, bytes);
        if self.ended.is_some() {
            return self.refuse(Refused::Stopped);
        }
        let controls = controls_stream(&heap);
        if controls {
            // A sender begins, or has stopped and may begin again, perhaps with numbers that were used. No connection brings a copy
            // of what came before.
            self.recent.clear();
        }
        let (cnt, flavour, past) = match &heap {
            Delivery::Heap(heap) => (heap.cnt, heap.flavour, PastHeap::Whole),
            Delivery::Incomplete(part) => (part.cnt, part.flavour, PastHeap::GivenUp),
        };
        match self.recent.ended(cnt, flavour, now_ns) {
            Some(PastHeap::Whole) => return self.refuse(Refused::DuplicateHeap),
            Some(PastHeap::GivenUp) => return self.refuse(Refused::Late),
            Some(PastHeap::Stop) | None => {}
        }
        if !controls {
            self.recent.add_as(cnt, now_ns, past);
        }
        self.statistics.heaps += 1;
        self.statistics.single_packet_heaps += 1;
        self.tally.add(C::Accepted, 1);
        self.tally.add(C::Heaps, 1);
        match &heap {
            Delivery::Heap(heap) => {
                let length = heap.payload().len() as u64;
                self.losses.came(heap.cnt, heap.flavour, length, length);
                self.tally.add(C::PayloadBytes, length);
                self.tally.add(C::Complete, 1);
            }
            Delivery::Incomplete(part) => self.came_in_part(part),
        }
        self.store.put(heap);
        Outcome::Accepted
    }

    fn came_in_part(&mut self, part: &IncompleteHeap) {
        let received = part.received_length;
        self.losses.came(part.cnt, part.flavour, part.heap_length.unwrap_or(received), received);
        let (bytes, packets) = self.losses.missing(part.heap_length, received, &part.present);
        match part.arrival {
            Arrival::TimedOut => {
                self.statistics.incomplete_heaps_timed_out += 1;
                self.tally.add(C::TimedOut, 1);
            }
            Arrival::Evicted => self.statistics.incomplete_heaps_evicted += 1,
            Arrival::Complete | Arrival::Flushed => self.statistics.incomplete_heaps_flushed += 1,
        }
        self.tally.add(C::PayloadBytes, received);
        self.tally.add(C::Incomplete, 1);
        self.tally.add(C::LostBytes, bytes);
        self.tally.add(C::LostPackets, packets);
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
        // As if it were a heap like any other.
        self.recent.clear();
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

/// One of its immediate items says that the stream begins or ends.
fn controls_stream(heap: &Delivery) -> bool {
    let controls = |id: u64, value: Option<u64>| {
        id == id::STREAM_CTRL && matches!(value, Some(control::START | control::STOP))
    };
    match heap {
        Delivery::Heap(heap) => heap.all_items().any(|i| controls(i.id, i.immediate())),
        Delivery::Incomplete(heap) => heap.immediates().any(|i| controls(i.id, i.immediate())),
    }
}
