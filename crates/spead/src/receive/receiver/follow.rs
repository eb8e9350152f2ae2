//! The short way of a packet that follows the last one of its heap: no search, no map, no items.
//!
//! Its effects are those of the long way, which says what is expected next. An expected packet belongs to the live heap in
//! the place used last, whose length is known and whose last range ends where the packet begins. So whatever takes a heap
//! out of its place forgets what is expected. Source: `docs/formats/spead.md`, sections 8.1 to 8.4.

use super::super::counters::SpeadCounter as C;
use super::super::live::Arrival;
use super::super::statistics::StreamStatistics;
use super::super::store::Store;
use super::StreamReceiver;
use crate::wire::{PREFIX_BYTES, SpeadPacket};

/// Packets of one size that took the short way and are in no count yet.
#[derive(Debug, Default)]
pub(super) struct Followed {
    packets: u64,
    /// Bytes of each.
    size: u64,
}

impl Followed {
    /// Adds them to statistics.
    pub fn count(&self, statistics: &mut StreamStatistics) {
        statistics.packets += self.packets;
        statistics.search_dist += self.packets;
    }
}

impl<S: Store> StreamReceiver<S> {
    /// Says what packet should come after an accepted one of the heap at `at`.
    #[inline]
    pub(super) fn expect_follower(&mut self, at: usize, packet: &SpeadPacket<'_>) {
        let end = packet.offset + packet.payload.len() as u64;
        if self.heaps[at].as_ref().is_some_and(|heap| heap.ends_with(end)) {
            self.follower.expect_after(packet);
            self.followed.size = packet.size() as u64;
        }
    }

    /// Takes the expected packet, if `bytes` begin with it; its size. A packet that is alone must be all of `bytes`.
    #[inline]
    pub(super) fn take_follower(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        alone: bool,
    ) -> Option<usize> {
        let packet = self.follower.take(bytes)?;
        let (at, size) = (self.last, packet.size());
        if alone && size != bytes.len() {
            return None;
        }
        let heap = self.heaps[at].as_mut()?;
        let length = packet.heap_length;
        if !self.store.write(&mut heap.place, &packet, length) {
            // The long way counts it.
            return None;
        }
        self.has_followed(at, packet.payload.len() as u64, now_ns);
        Some(size)
    }

    /// The expected packet came, with so many bytes of payload, which are in the memory of the heap at `at`.
    #[inline]
    pub(super) fn has_followed(&mut self, at: usize, bytes: u64, now_ns: u64) {
        let Some(heap) = self.heaps[at].as_mut() else { return };
        heap.follow(bytes, now_ns);
        self.follower.advance();
        self.followed.packets += 1;
        self.last_packet_ns = Some(now_ns);
        if self.store.discards(&heap.place) {
            self.tally.add(C::Discarded, 1);
        }
        if heap.is_complete() {
            self.finish(at, Arrival::Complete, now_ns);
        }
    }

    /// Counts those that came.
    #[inline]
    pub(super) fn settle(&mut self) {
        let Followed { packets, size } = self.followed;
        if packets == 0 {
            return;
        }
        self.followed.count(&mut self.statistics);
        self.followed.packets = 0;
        self.batch += packets;
        self.packet_bytes += packets * size;
        self.tally.add(C::Packets, packets);
        self.tally.add(C::Accepted, packets);
        self.tally.add(C::PacketBytes, packets * size);
        self.tally.add(C::PayloadBytes, packets * (size - PREFIX_BYTES as u64));
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
