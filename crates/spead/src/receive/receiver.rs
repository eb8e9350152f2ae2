//! A receive stream: finds the heap of each packet in its window, starts, evicts and finishes heaps.
//!
//! The window is a table of places, whole from the start; a packet costs a comparison with the place used last, and no
//! allocation. Heap numbers are not compared: age is order of first arrival. Time is an argument, in ns from any origin.
//! Source: `docs/formats/spead.md`, sections 8.1 to 8.8.

mod ahead;
mod follow;
mod stops;
mod waiting;
mod whole;

use fullcount_core::ledger::Tally;
use fullcount_core::refusal::Refusal;

pub use ahead::AheadRoom;
use follow::Followed;

use super::config::ReceiverConfig;
use super::counters::{Outcome, Refused, SpeadCounter as C};
use super::live::{Arrival, HeapEnd, LiveHeap};
use super::loss::{LossCount, Losses, SenderTotals};
use super::presence::PresenceMap;
use super::recent::Recent;
use super::statistics::StreamStatistics;
use super::store::{HeapStore, Store};
use crate::wire::{Follower, SpeadPacket, id, size_of};

/// What a place without a heap is called; no heap's number is above 2^56.
const EMPTY: u64 = u64::MAX;

/// Why a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// A stop item, or the last one that was needed.
    StopItem,
    /// All readers have ended.
    Readers,
    /// No packet came for the stall timeout.
    Stalled,
    /// The user.
    User,
}

/// A receive stream whose heaps come with memory of their own.
pub type HeapReceiver = StreamReceiver<HeapStore>;

/// A receive stream over any store.
#[derive(Debug)]
pub struct StreamReceiver<S: Store> {
    config: ReceiverConfig,
    store: S,
    /// Of each substream in turn, `max_heaps` places.
    heaps: Vec<Option<LiveHeap<S::Place>>>,
    /// Numbers of the same places.
    numbers: Vec<u64>,
    /// Newest place of each substream.
    heads: Vec<usize>,
    /// Place used last.
    last: usize,
    /// Of the heap in that place, the packet that is expected next.
    follower: Follower,
    /// Those that came and are not counted yet.
    followed: Followed,
    live: u64,
    live_bytes: u64,
    recent: Recent,
    losses: LossCount,
    sender: Option<SenderTotals>,
    statistics: StreamStatistics,
    tally: Tally<{ C::LINES }>,
    batch: u64,
    blocked: bool,
    stops: u32,
    readers_ended: u32,
    ended: Option<StreamEnd>,
    last_packet_ns: Option<u64>,
    stalled: bool,
    packet_bytes: u64,
    reports: u64,
    mark: u64,
}

impl<S: Store> StreamReceiver<S> {
    /// A stream over `store`.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn with_store(config: ReceiverConfig, store: S) -> Result<StreamReceiver<S>, Refusal> {
        config.check()?;
        let places = config.max_heaps * config.substreams;
        Ok(StreamReceiver {
            store,
            heaps: (0..places).map(|_| None).collect(),
            numbers: vec![EMPTY; places],
            heads: vec![0; config.substreams],
            last: 0,
            follower: Follower::default(),
            followed: Followed::default(),
            live: 0,
            live_bytes: 0,
            recent: Recent::new(
                config.remember_heaps,
                config.remember_ns,
                config.sequence.map_or(1, |sequence| sequence.step),
            ),
            losses: LossCount::new(config.sequence, config.packet_payload),
            sender: None,
            statistics: StreamStatistics::default(),
            tally: Tally::default(),
            batch: 0,
            blocked: false,
            stops: 0,
            readers_ended: 0,
            ended: None,
            last_packet_ns: None,
            stalled: false,
            packet_bytes: 0,
            reports: 0,
            mark: 0,
            config,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    /// Where payload goes.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Where payload goes.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Statistics by spead2's names.
    pub fn statistics(&self) -> StreamStatistics {
        let mut statistics = self.statistics.clone();
        self.followed.count(&mut statistics);
        statistics
    }

    /// The same, for a user's own.
    pub fn statistics_mut(&mut self) -> &mut StreamStatistics {
        self.settle();
        &mut self.statistics
    }

    /// Counts for the ledger since it was flushed.
    pub fn tally(&mut self) -> &mut Tally<{ C::LINES }> {
        self.settle();
        &mut self.tally
    }

    /// Heaps that are not finished.
    pub fn live_heaps(&self) -> u64 {
        self.live
    }

    /// Bytes that live heaps may take, with their pointers and pieces beyond the first 24.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Heaps that begin from here on have this mark: the number of a batch, for example.
    pub fn set_mark(&mut self, mark: u64) {
        self.mark = mark;
    }

    /// The smallest mark of all live heaps.
    pub fn oldest_mark(&self) -> Option<u64> {
        self.heaps.iter().flatten().map(|heap| heap.mark).min()
    }

    /// Why the stream has ended.
    pub fn ended(&self) -> Option<StreamEnd> {
        self.ended
    }

    /// What is known to be lost.
    pub fn losses(&self) -> Losses {
        self.losses.totals(self.sender)
    }

    /// Stores what the sender says that it sent.
    pub fn sender_said(&mut self, totals: SenderTotals) {
        self.sender = Some(totals);
    }

    /// A datagram came.
    #[inline]
    pub fn push(&mut self, now_ns: u64, datagram: &[u8]) -> Outcome {
        if self.is_blocked() {
            return Outcome::Full;
        }
        self.push_packet(now_ns, datagram, true).0
    }

    /// A datagram with more than one packet, or with bytes behind it: then all of it is refused.
    #[cold]
    fn push_merged(&mut self, now_ns: u64, datagram: &[u8]) -> Outcome {
        let mut rest = datagram;
        while !rest.is_empty() {
            let size = size_of(rest).ok().flatten().and_then(|size| usize::try_from(size).ok());
            match size.and_then(|size| rest.get(size..)) {
                Some(next) => rest = next,
                None => {
                    self.tally.add(C::Packets, 1);
                    return self.refuse(Refused::Trailing(rest.len()));
                }
            }
        }
        self.tally.add(C::Merged, 1);
        let (mut rest, mut outcome) = (datagram, Outcome::Accepted);
        while !rest.is_empty() {
            let (next, used) = self.push_packet(now_ns, rest, false);
            if matches!(next, Outcome::Refused(_)) {
                outcome = next;
            }
            let Ok(used) = used else { break };
            rest = &rest[used..];
        }
        outcome
    }

    /// Packets back to back in memory. Returns how many bytes were used: fewer than given if the ring is full, all if the
    /// rest is no packet, which ends the reading.
    pub fn push_buffer(&mut self, now_ns: u64, buffer: &[u8]) -> usize {
        let mut used = 0;
        while used < buffer.len() && self.ended.is_none() {
            if self.is_blocked() {
                return used;
            }
            match self.push_packet(now_ns, &buffer[used..], false).1 {
                Ok(more) => used += more,
                Err(()) => return buffer.len(),
            }
        }
        buffer.len()
    }

    /// The ring is full; counted once until it has room.
    fn is_blocked(&mut self) -> bool {
        let full = self.store.is_full() && self.ended.is_none();
        if full && !self.blocked {
            self.statistics.worker_blocked += 1;
            self.tally.add(C::RingFull, 1);
        }
        self.blocked = full;
        full
    }

    /// A read of the network has ended.
    pub fn end_batch(&mut self) {
        self.settle();
        if self.batch > 0 {
            self.statistics.batches += 1;
            self.statistics.max_batch = self.statistics.max_batch.max(self.batch);
            self.batch = 0;
        }
    }

    /// One packet at the start of `bytes`, and its size.
    #[inline]
    fn push_packet(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        alone: bool,
    ) -> (Outcome, Result<usize, ()>) {
        if let Some(size) = self.take_follower(now_ns, bytes, alone) {
            return (Outcome::Accepted, Ok(size));
        }
        self.push_other(now_ns, bytes, alone)
    }

    /// The same for any packet.
    fn push_other(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        alone: bool,
    ) -> (Outcome, Result<usize, ()>) {
        self.settle();
        self.follower.forget();
        if bytes.is_empty() {
            self.tally.add(C::Empty, 1);
            return (Outcome::Accepted, Err(()));
        }
        self.tally.add(C::Packets, 1);
        if self.ended.is_some() {
            return (self.refuse(Refused::Stopped), Err(()));
        }
        let packet = match SpeadPacket::parse(bytes) {
            Ok(packet) => packet,
            Err(malformed) => return (self.refuse(malformed.into()), Err(())),
        };
        let size = packet.size();
        if alone && size != bytes.len() {
            if self.config.split_merged {
                // Each of them is counted by itself.
                self.tally.add(C::Packets, 1u64.wrapping_neg());
                return (self.push_merged(now_ns, bytes), Err(()));
            }
            return (self.refuse(Refused::Trailing(bytes.len() - size)), Err(()));
        }
        self.statistics.packets += 1;
        self.batch += 1;
        self.packet_bytes += size as u64;
        self.tally.add(C::PacketBytes, size as u64);
        self.last_packet_ns = Some(now_ns);
        self.stalled = false;
        match self.take(now_ns, &packet) {
            Ok(()) => (Outcome::Accepted, Ok(size)),
            Err(refused) => (self.refuse(refused), Ok(size)),
        }
    }

    #[cold]
    fn refuse(&mut self, refused: Refused) -> Outcome {
        self.tally.add(C::from(refused), 1);
        Outcome::Refused(refused)
    }

    /// A packet that is one.
    #[inline]
    fn take(&mut self, now_ns: u64, packet: &SpeadPacket<'_>) -> Result<(), Refused> {
        if packet.heap_length.is_none()
            && !(self.config.allow_unsized_heaps && self.store.allows_unsized())
        {
            return Err(Refused::Unsized);
        }
        let whole = packet.is_whole_heap();
        self.statistics.single_packet_heaps += u64::from(whole);
        // spead2 does not look for the heap of a packet that is one.
        let looks = !whole || self.config.remember_ns > 0;
        let at = match looks.then(|| self.find(packet.heap_cnt)).flatten() {
            Some(at) => at,
            None => self.begin(now_ns, packet)?,
        };
        self.last = at;
        let added = self.add(at, now_ns, packet);
        if added.is_err() && self.heaps[at].as_ref().is_some_and(LiveHeap::is_unused) {
            // Its only packet was refused: no heap has begun.
            self.undo(at);
        }
        added
    }

    #[inline]
    fn add(&mut self, at: usize, now_ns: u64, packet: &SpeadPacket<'_>) -> Result<(), Refused> {
        let Some(heap) = &mut self.heaps[at] else { return Err(Refused::Late) };
        heap.check(packet)?;
        let wanted = match packet.heap_length.or(heap.length()) {
            Some(length) => length,
            None => (packet.offset + packet.payload.len() as u64).max(heap.reserved),
        };
        if wanted > heap.reserved && wanted > self.config.max_heap_bytes {
            return Err(Refused::HeapTooLarge(wanted));
        }
        let reserved = wanted.max(heap.reserved);
        let without = self.live_bytes - heap.bytes();
        let most = reserved + heap.books_with(packet);
        if most > heap.bytes() && without + most > self.config.max_live_bytes {
            return Err(Refused::NoMemory(wanted));
        }
        let fits = heap.add(packet, &self.config, now_ns)?;
        (heap.reserved, heap.books) = (reserved, heap.books_now());
        self.live_bytes = without + heap.bytes();
        let length = heap.length();
        if !self.store.write(&mut heap.place, packet, length) {
            // The map says that bytes are there which are not: the heap is of no use.
            self.drop_heap(at, now_ns);
            return Err(Refused::NoMemory(wanted));
        }
        self.tally.add(C::Accepted, 1);
        self.tally.add(C::PayloadBytes, packet.payload.len() as u64);
        self.tally.add(C::Reordered, u64::from(fits.reordered));
        self.tally.add(C::Discarded, u64::from(self.store.discards(&heap.place)));
        let complete = heap.is_complete();
        let control = packet
            .items()
            .find(|p| p.is_immediate() && packet.flavour.id_of(*p) == id::STREAM_CTRL);
        match control {
            None if complete => self.finish(at, Arrival::Complete, now_ns),
            None => self.expect_follower(at, packet),
            Some(_) => self.controlled(at, now_ns, packet, complete),
        }
        Ok(())
    }

    /// The place of a live heap.
    #[inline]
    fn find(&mut self, cnt: u64) -> Option<usize> {
        if self.numbers[self.last] == cnt {
            self.statistics.search_dist += 1;
            return Some(self.last);
        }
        let window = self.config.max_heaps;
        let substream = (cnt % self.config.substreams as u64) as usize;
        let (base, head) = (substream * window, self.heads[substream]);
        let numbers = &self.numbers[base..base + window];
        // The newest of two with one number, as spead2 finds it.
        let before = numbers[..=head].iter().rposition(|n| *n == cnt);
        let at = before.or_else(|| {
            numbers[head + 1..].iter().rposition(|n| *n == cnt).map(|at| head + 1 + at)
        });
        self.statistics.search_dist += window as u64;
        at.map(|at| base + at)
    }

    /// Starts a heap, and evicts another one if its place is taken.
    fn begin(&mut self, now_ns: u64, packet: &SpeadPacket<'_>) -> Result<usize, Refused> {
        self.look_back(now_ns, packet)?;
        if !self.config.allow_out_of_order && packet.offset != 0 {
            return Err(Refused::NoBeginning);
        }
        let end = packet.offset + packet.payload.len() as u64;
        let wanted = packet.heap_length.unwrap_or(end);
        if wanted > self.config.max_heap_bytes {
            return Err(Refused::HeapTooLarge(wanted));
        }
        if packet.items().count() > self.config.max_items {
            return Err(Refused::TooManyItems);
        }
        let substream = (packet.heap_cnt % self.config.substreams as u64) as usize;
        let head = (self.heads[substream] + 1) % self.config.max_heaps;
        let at = substream * self.config.max_heaps + head;
        let freed = self.heaps[at].as_ref().map_or(0, LiveHeap::bytes);
        if self.live_bytes - freed + wanted > self.config.max_live_bytes {
            return Err(Refused::NoMemory(wanted));
        }
        // The oldest heap goes before the store is asked: its memory is what the new one takes, so that `max_live_bytes` holds at every
        // moment, and memory for no more than the window's heaps is enough. Asked first, such memory would refuse new heaps for
        // ever once the window is full of heaps that never end. If there is none even then, the place is free for the next
        // heap: however many are refused, one has gone.
        if self.heaps[at].is_some() {
            self.finish(at, Arrival::Evicted, now_ns);
        }
        let place = self.store.begin(packet, &mut self.statistics)?;
        self.heads[substream] = head;
        let mut heap = LiveHeap::new(packet, place, now_ns);
        heap.mark = self.mark;
        self.heaps[at] = Some(heap);
        self.numbers[at] = packet.heap_cnt;
        self.live += 1;
        self.tally.add(C::Heaps, 1);
        self.tally.add(C::Live, 1);
        Ok(at)
    }

    fn remove(&mut self, at: usize) -> Option<LiveHeap<S::Place>> {
        let heap = self.heaps[at].take()?;
        self.numbers[at] = EMPTY;
        self.follower.forget();
        self.live -= 1;
        self.live_bytes -= heap.bytes();
        self.tally.add(C::Live, 1u64.wrapping_neg());
        Some(heap)
    }

    /// A heap that began with a packet which was refused then.
    #[cold]
    fn undo(&mut self, at: usize) {
        if let Some(heap) = self.remove(at) {
            self.tally.add(C::Heaps, 1u64.wrapping_neg());
            let (place, end) = heap.end(Arrival::Evicted);
            self.store.discard(place, end);
        }
    }

    /// A heap whose memory is gone.
    #[cold]
    fn drop_heap(&mut self, at: usize, now_ns: u64) {
        if let Some(heap) = self.remove(at) {
            self.tally.add(C::Incomplete, 1);
            let (_, end) = heap.end(Arrival::Evicted);
            self.recent.add(&end, now_ns, false);
            // Nobody gets any of its bytes.
            let end = HeapEnd { received: 0, packets: 0, present: PresenceMap::default(), ..end };
            self.losses.ended(&end);
            let (bytes, packets) = self.losses.incomplete(&end);
            self.tally.add(C::LostBytes, bytes);
            self.tally.add(C::LostPackets, packets);
        }
    }

    /// Hands a heap over.
    fn finish(&mut self, at: usize, arrival: Arrival, now_ns: u64) {
        let Some(heap) = self.remove(at) else { return };
        let (place, end) = heap.end(arrival);
        self.recent.add(&end, now_ns, arrival == Arrival::Complete);
        self.losses.ended(&end);
        let statistics = &mut self.statistics;
        statistics.heaps += 1;
        match arrival {
            Arrival::Complete => {}
            Arrival::Evicted => statistics.incomplete_heaps_evicted += 1,
            Arrival::Flushed => statistics.incomplete_heaps_flushed += 1,
            Arrival::TimedOut => {
                statistics.incomplete_heaps_timed_out += 1;
                self.tally.add(C::TimedOut, 1);
            }
        }
        match (arrival, end.contiguous) {
            (Arrival::Complete, _) => self.tally.add(C::Complete, 1),
            (_, true) => self.tally.add(C::Contiguous, 1),
            (_, false) => {
                let (bytes, packets) = self.losses.incomplete(&end);
                self.tally.add(C::Incomplete, 1);
                self.tally.add(C::LostBytes, bytes);
                self.tally.add(C::LostPackets, packets);
            }
        }
        self.store.finish(place, end, &mut self.statistics);
    }

    /// Hands over all live heaps: per substream, oldest place first.
    fn flush(&mut self, arrival: Arrival, now_ns: u64) {
        let window = self.config.max_heaps;
        for substream in 0..self.config.substreams {
            for n in 1..=window {
                let at = substream * window + (self.heads[substream] + n) % window;
                self.finish(at, arrival, now_ns);
            }
        }
    }

    fn end(&mut self, why: StreamEnd, now_ns: u64) {
        if self.ended.is_none() {
            self.flush(Arrival::Flushed, now_ns);
            self.end_batch();
            self.ended = Some(why);
            self.store.stop(&mut self.statistics);
        }
    }

    /// The user wants no more.
    pub fn stop(&mut self, now_ns: u64) {
        self.end(StreamEnd::User, now_ns);
    }

    /// A reader has come to its end: of a buffer, a file or a connection, or a connection was reset. True: so has the stream.
    pub fn reader_ended(&mut self, now_ns: u64) -> bool {
        self.readers_ended += 1;
        if self.readers_ended >= self.config.readers {
            self.end(StreamEnd::Readers, now_ns);
        }
        self.ended.is_some()
    }
}
