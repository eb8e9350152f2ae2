//! Datagrams to heaps to products.
//!
//! All datagrams of a run are one stream: several senders may build it together. Time moves the receiver's timeouts only in a live
//! run; in a replay the packets alone decide. Sources: `docs/heap.md`, `docs/formats/spead.md`, section 8.

use std::sync::Arc;

use fullcount_core::batch::Batch;
use fullcount_core::heaps::HeapProduct;
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;
use fullcount_spead::Heap;
use fullcount_spead::receive::{
    Delivery, HeapReceiver, IncompleteHeap, Outcome, ReceiverConfig, Refused, SpeadCounter,
    StreamStatistics,
};
use fullcount_spead::wire::SpeadPacket;

use super::counters::HeapCount as C;
use super::items::{Items, Owner, Place, Taken};
use super::options::HeapOptions;
use super::senders::Senders;
use crate::detector::{CommandError, CommandInfo, Decoder, SeenModule};

/// Arrays of an incomplete heap take at most this many times the bytes that came, so that a packet cannot announce memory.
const MOST_FILLED: u64 = 16;
/// And this more.
const ALWAYS_FILLED: u64 = 1 << 16;

/// Command that gives all of spead2's statistics.
const STATISTICS: &str = "HEAP_STATISTICS";

/// A heap whose payload others refer to.
struct Held(Heap);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.payload()
    }
}

/// The reader of one worker.
pub(super) struct HeapReader {
    config: ReceiverConfig,
    receiver: HeapReceiver,
    items: Items,
    sheet: Arc<Sheet>,
    tally: Tally<{ C::LINES }>,
    /// What receivers before this one have counted.
    before: Tally<{ SpeadCounter::LINES }>,
    statistics: StreamStatistics,
    lost: [u64; 2],
    /// The receiver's clock, ns: receive times, or the time of the run.
    clock_ns: u64,
    /// From the run's clock to the receiver's, ns.
    ahead_ns: u64,
    /// Packets have receive times.
    timed: bool,
    senders: Senders,
    pipeline: u32,
}

/// The receiver of checked settings.
fn receiver(config: &ReceiverConfig) -> HeapReceiver {
    HeapReceiver::new(config.clone()).expect("the settings were checked")
}

impl HeapReader {
    pub fn new(options: &HeapOptions) -> HeapReader {
        let config = options.receiver.clone();
        HeapReader {
            receiver: receiver(&config),
            items: Items::new(options.compat, options.max_items, options.items.clone()),
            config,
            sheet: Sheet::new(C::catalogue()),
            tally: Tally::default(),
            before: Tally::default(),
            statistics: StreamStatistics::default(),
            lost: [0; 2],
            clock_ns: 0,
            ahead_ns: 0,
            timed: false,
            senders: Senders::default(),
            pipeline: 0,
        }
    }

    /// One datagram; which counter it went to.
    pub fn datagram(&mut self, bytes: &[u8], products: &mut Products) -> C {
        self.tally.add(C::Packets, 1);
        let line = match bytes.is_empty() {
            true => C::Empty,
            false => match self.receiver.push(self.clock_ns, bytes) {
                Outcome::Accepted => C::Accepted,
                Outcome::Refused(refused) => {
                    let thrown = is_limit(refused) && begins_a_heap(bytes);
                    self.tally.add(C::Thrown, u64::from(thrown));
                    C::of(refused)
                }
                Outcome::Full => C::Full,
            },
        };
        self.tally.add(line, 1);
        self.hand_over(products);
        line
    }

    /// Items that were described.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// Takes what is finished.
    #[inline]
    fn hand_over(&mut self, products: &mut Products) {
        while let Some(delivery) = self.receiver.pop() {
            let product = match delivery {
                Delivery::Heap(heap) => self.whole(heap, products.want.heaps),
                Delivery::Incomplete(heap) => products.want.heaps.then(|| self.incomplete(&heap)),
            };
            products.heaps.extend(product.map(Arc::new));
        }
    }

    fn time(&self, first_ns: u64) -> i64 {
        if self.timed { first_ns as i64 } else { 0 }
    }

    fn whole(&mut self, heap: Heap, wanted: bool) -> Option<HeapProduct> {
        let changed = self.items.describe(&heap) as u64;
        self.tally.add(C::Descriptors, changed);
        let array = |(id, _): (u64, Place)| id > fullcount_spead::wire::id::STREAM_CTRL;
        self.tally.add(C::WithArrays, u64::from(heap.places().any(array)));
        if !wanted {
            return None;
        }
        let mut product = HeapProduct {
            number: heap.cnt,
            time_ns: self.time(heap.first_ns),
            address_bits: heap.flavour.address_bits(),
            length: Some(heap.payload().len() as u64),
            received: heap.payload().len() as u64,
            complete: true,
            ..HeapProduct::default()
        };
        let (flavour, held) = (heap.flavour, Arc::new(Held(heap)));
        let owner: Owner = held.clone();
        for (id, place) in held.0.places() {
            self.item(&owner, flavour, id, &place, &mut product);
        }
        (!product.items.is_empty()).then_some(product)
    }

    fn item(
        &mut self,
        owner: &Owner,
        flavour: fullcount_spead::Flavour,
        id: u64,
        place: &Place,
        product: &mut HeapProduct,
    ) {
        if id <= fullcount_spead::wire::id::STREAM_CTRL {
            return;
        }
        self.tally.add(C::Items, 1);
        let (line, item) = match self.items.take(owner, flavour, id, place) {
            Taken::Value(item) => (C::Values, Some(item)),
            Taken::Undescribed(item) => (C::Undescribed, Some(item)),
            Taken::Unwanted => (C::Unwanted, None),
            Taken::Bad => (C::Undecodable, None),
        };
        self.tally.add(line, 1);
        product.items.extend(item);
    }

    /// What came of a heap: its arrays as far as their places are known, with 0 for what is missing.
    fn incomplete(&mut self, heap: &IncompleteHeap) -> HeapProduct {
        let end = heap.pieces().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(0);
        let total = heap.heap_length.unwrap_or(end);
        let mut product = HeapProduct {
            number: heap.cnt,
            time_ns: self.time(heap.first_ns),
            address_bits: heap.flavour.address_bits(),
            length: heap.heap_length,
            received: heap.received_length,
            missing: heap.gaps().collect(),
            complete: false,
            items: Vec::new(),
        };
        let fits = total <= MOST_FILLED * heap.received_length + ALWAYS_FILLED;
        let mut payload = vec![0; if fits { total as usize } else { 0 }];
        if fits {
            for (at, bytes) in heap.pieces() {
                payload[at as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        let owner: Owner = Arc::new(payload);
        let addresses: Vec<(u64, u64)> = heap.addresses().collect();
        for (n, &(id, address)) in addresses.iter().enumerate().filter(|_| fits) {
            let next = addresses.get(n + 1).map_or(total, |&(_, next)| next);
            let range = address.min(total) as usize..next.min(total) as usize;
            if !range.is_empty() && id != fullcount_spead::wire::id::NULL {
                self.item(&owner, heap.flavour, id, &Ok(range), &mut product);
            }
        }
        let immediates: Vec<(u64, u64)> =
            heap.immediates().filter_map(|item| Some((item.id, item.immediate()?))).collect();
        for (id, value) in immediates {
            self.item(&owner, heap.flavour, id, &Err(value), &mut product);
        }
        product
    }

    /// Writes all counts to the sheet.
    fn tell(&mut self) {
        let mut spead = self.before.clone();
        spead.merge(self.receiver.tally());
        let mut statistics = self.statistics.clone();
        statistics.merge(&self.receiver.statistics());
        let losses = self.receiver.losses();
        let [heaps, off] = self.lost;
        let lines = [
            (C::Heaps, spead.get(SpeadCounter::Heaps)),
            (C::Complete, spead.get(SpeadCounter::Complete)),
            (C::Contiguous, spead.get(SpeadCounter::Contiguous)),
            (C::Stop, spead.get(SpeadCounter::Control)),
            (C::Incomplete, spead.get(SpeadCounter::Incomplete)),
            (C::Live, spead.get(SpeadCounter::Live)),
            (C::TimedOut, spead.get(SpeadCounter::TimedOut)),
            (C::Stalls, spead.get(SpeadCounter::Stalls)),
            (C::LostHeaps, heaps + losses.heaps.unwrap_or(0)),
            (C::LostBytes, spead.get(SpeadCounter::LostBytes)),
            (C::LostPackets, spead.get(SpeadCounter::LostPackets)),
            (C::OffSequence, off + losses.off_sequence),
            (C::Reordered, spead.get(SpeadCounter::Reordered)),
            (C::Merged, spead.get(SpeadCounter::Merged)),
            (C::PayloadBytes, spead.get(SpeadCounter::PayloadBytes)),
            (C::TooMany, self.items.refused()),
            (C::TheirHeaps, statistics.heaps),
            (C::TheirEvicted, statistics.incomplete_heaps_evicted),
            (C::TheirFlushed, statistics.incomplete_heaps_flushed),
            (C::TheirPackets, statistics.packets),
            (C::TheirSingle, statistics.single_packet_heaps),
            (C::TheirSearch, statistics.search_dist),
        ];
        self.tally.flush(&self.sheet);
        lines.into_iter().for_each(|(line, value)| self.sheet.set(line as usize, value));
    }

    /// What comes from here on meets nothing that was before.
    fn begin_anew(&mut self) {
        self.before.merge(self.receiver.tally());
        self.statistics.merge(&self.receiver.statistics());
        let losses = self.receiver.losses();
        self.lost[0] += losses.heaps.unwrap_or(0);
        self.lost[1] += losses.off_sequence;
        // Somebody else may have had the numbers before the next one: they are not missing here.
        self.config.sequence = None;
        self.receiver = receiver(&self.config);
    }

    /// Moves the receiver's clock to that of a train.
    #[inline]
    fn clock(&mut self, time_ns: i64, now: Option<Nanos>) {
        self.timed = time_ns > 0;
        let now_ns = now.map_or(0, |now| now.0.max(0) as u64);
        if self.timed {
            self.clock_ns = self.clock_ns.max(time_ns as u64);
            self.ahead_ns = self.clock_ns.saturating_sub(now_ns);
        } else if now.is_some() {
            self.clock_ns = self.clock_ns.max(now_ns + self.ahead_ns);
        }
    }
}

impl Decoder for HeapReader {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        if let Some(batch) = batch {
            self.pipeline = products.batch.pipeline;
            self.receiver.set_mark(products.batch.batch);
            for train in batch.trains() {
                self.clock(train.time_ns, now);
                let mut accepted = 0;
                for chunk in train.chunks() {
                    accepted += u64::from(self.datagram(chunk, products) == C::Accepted);
                }
                self.senders.add(train.origin, accepted);
            }
            self.receiver.end_batch();
        }
        if let Some(now) = now {
            let at = (now.0.max(0) as u64).saturating_add(self.ahead_ns);
            self.clock_ns = self.clock_ns.max(at);
            self.receiver.expire(self.clock_ns);
            self.hand_over(products);
        }
        self.tell();
    }

    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.receiver.flush_live(self.clock_ns);
        self.hand_over(products);
        if reason == Flush::Taken {
            self.begin_anew();
        }
        self.tell();
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        let batch = self.receiver.oldest_mark()?;
        Some(BatchNumber { pipeline: self.pipeline, batch })
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        self.senders.tell(tell);
    }

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.sheet.clone()]
    }

    fn commands(&self) -> Vec<CommandInfo> {
        let help = "all statistics of the stream by spead2's names, as NAME VALUE".to_owned();
        vec![CommandInfo {
            name: STATISTICS.to_owned(),
            arguments: String::new(),
            help,
            count: 0..=0,
            changes: false,
        }]
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        match (name, arguments) {
            (STATISTICS, []) => {
                let mut all = self.statistics.clone();
                all.merge(&self.receiver.statistics());
                let lines = all.entries().map(|(name, _, value)| format!("{name} {value}"));
                Ok(lines.collect::<Vec<_>>().join(", "))
            }
            (STATISTICS, _) => Err(CommandError::Arguments("no arguments".to_owned())),
            _ => Err(CommandError::Unknown(name.to_owned())),
        }
    }

    fn ended_streams(&self) -> usize {
        usize::from(self.receiver.ended().is_some())
    }
}

/// A limit of ours, and not the sender's fault.
fn is_limit(refused: Refused) -> bool {
    matches!(refused, Refused::HeapTooLarge(_) | Refused::NoMemory(_) | Refused::TooManyItems)
}

/// Not looked at of good packets.
#[cold]
fn begins_a_heap(bytes: &[u8]) -> bool {
    SpeadPacket::parse_head(bytes).is_ok_and(|(packet, _)| packet.offset == 0)
}
