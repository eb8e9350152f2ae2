//! What of a heap goes to the decoder: the datagram in one of its items, or the heap itself, as packets for a decoder of heaps.
//!
//! A decoder of heaps gets each heap as one packet of any length, put together, and an incomplete one as a packet for each piece.
//! Source: `docs/formats/spead.md`, section 3.

use std::sync::Arc;

use fullcount_core::batch::{Batch, Edge};
use fullcount_core::ledger::Sheet;
use fullcount_spead::receive::{Delivery, Heap, ItemValue};
use fullcount_spead::{BugCompat, Descriptor};

use super::carrier::CarrierCounter as C;
use super::intake::Arrived;
use super::url::{ItemChoice, SpeadInput};

/// Descriptors of one heap that are read.
const MOST_DESCRIPTORS: usize = 64;

/// What goes to the decoder.
enum Wanted {
    /// This item; its id, once it is known.
    Item { item: ItemChoice, id: Option<u64> },
    /// Heaps; memory for the head of one.
    Heaps { head: Vec<u8> },
}

/// Hands on what comes of each heap, and counts it.
pub(super) struct Handed {
    wanted: Wanted,
    compat: BugCompat,
    sheet: Arc<Sheet>,
    /// Where the lines of [`C`] begin.
    own: usize,
}

impl Handed {
    /// The item that the URL says.
    pub fn items(told: &SpeadInput, (sheet, own): (Arc<Sheet>, usize)) -> Handed {
        let item = told.item.clone().unwrap_or_default();
        let id = match item {
            ItemChoice::Id(id) => Some(id),
            ItemChoice::Name(_) => None,
        };
        Handed { wanted: Wanted::Item { item, id }, compat: told.compat, sheet, own }
    }

    /// Heaps as packets.
    pub fn heaps(told: &SpeadInput, (sheet, own): (Arc<Sheet>, usize)) -> Handed {
        Handed { wanted: Wanted::Heaps { head: Vec::new() }, compat: told.compat, sheet, own }
    }

    /// True if the decoder gets heaps.
    pub fn is_heaps(&self) -> bool {
        matches!(self.wanted, Wanted::Heaps { .. })
    }

    /// Where its lines begin on the sheet.
    pub fn own(&self) -> usize {
        self.own
    }

    /// What came of one heap.
    pub fn take(&mut self, delivery: &Delivery, arrived: Arrived, batch: &mut Batch) {
        let (sheet, own) = (&self.sheet, self.own);
        let count = |line: C, n: u64| sheet.add(own + line as usize, n);
        let mut put = |parts: [&[u8]; 2]| {
            count(C::Packets, 1);
            count(C::Accepted, 1);
            count(C::Bytes, parts.iter().map(|part| part.len() as u64).sum());
            batch.append_joined(parts, arrived.origin, arrived.time_ns, Edge::Heap);
        };
        let line = match (&mut self.wanted, delivery) {
            (Wanted::Item { .. }, Delivery::Incomplete(_)) => return,
            (Wanted::Item { item, id }, Delivery::Heap(heap)) => {
                if let ItemChoice::Name(name) = item
                    && let Some(known) = learn(heap, name, self.compat)
                {
                    *id = Some(known);
                }
                match id.and_then(|id| heap.item(id)) {
                    Some(found) => {
                        match found.value {
                            ItemValue::Bytes(bytes) => put([bytes, &[]]),
                            // A short datagram that the sender put into the pointer: its length is not known, so it has all the pointer's
                            // bytes.
                            ItemValue::Immediate(value) => {
                                let from = 8 - heap.flavour.address_bytes();
                                put([&value.to_be_bytes()[from..], &[]]);
                            }
                        }
                        C::Datagrams
                    }
                    None => C::NoItem,
                }
            }
            (Wanted::Heaps { head }, Delivery::Heap(heap)) => match heap.packet_head(head) {
                Ok(()) => {
                    put([head, heap.payload()]);
                    C::HandedOn
                }
                Err(_) => C::Unfit,
            },
            (Wanted::Heaps { .. }, Delivery::Incomplete(heap)) => {
                match heap.packets(|head, payload| put([head, payload])) {
                    Ok(()) => C::HandedOn,
                    Err(_) => C::Unfit,
                }
            }
        };
        count(C::Heaps, 1);
        count(line, 1);
    }
}

/// Learns the item's id from descriptors.
fn learn(heap: &Heap, name: &str, compat: BugCompat) -> Option<u64> {
    let all = heap.descriptor_bytes().take(MOST_DESCRIPTORS);
    let described = |bytes: &[u8]| Descriptor::parse(bytes, compat, 1);
    all.flat_map(described).find(|d| d.name == name).map(|d| d.id)
}

#[cfg(test)]
mod tests {
    use fullcount_core::batch::Origin;
    use fullcount_spead::HeapReceiver;
    use fullcount_spead::receive::ReceiverConfig;

    use super::*;

    /// A packet of SPEAD-64-40 with 8 B of payload at `offset` of a heap of 24 B, and so many immediates of `item`.
    fn packet(offset: u64, item: u64, immediates: u64) -> Vec<u8> {
        let mut bytes = vec![0x53, 4, 3, 5, 0, 0];
        bytes.extend((4 + immediates as u16).to_be_bytes());
        let standard = [(1, 9), (2, 24), (3, offset), (4, 8)];
        for (id, value) in standard.into_iter().chain((0..immediates).map(|n| (item, n))) {
            bytes.extend((1u64 << 63 | id << 40 | value).to_be_bytes());
        }
        bytes.extend([7; 8]);
        bytes
    }

    #[test]
    fn a_heap_that_fits_into_no_packet_is_counted_as_lost() {
        for (immediates, fits) in [(10, true), (21_844, false)] {
            let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
            for n in 0..3 {
                stream.push(0, &packet(8 * n, 0x1000 + n, immediates));
            }
            let heap = stream.pop().unwrap();
            let sheet = Sheet::new(C::catalogue());
            let mut handed = Handed::heaps(&SpeadInput::default(), (sheet.clone(), 0));
            let mut batch = Batch::with_slots(0, 0);
            handed.take(&heap, Arrived { origin: Origin::NONE, time_ns: 0 }, &mut batch);
            let get = |line: C| sheet.get(line as usize);
            let came = u64::from(fits);
            assert_eq!((get(C::Heaps), get(C::HandedOn), get(C::Unfit)), (1, came, 1 - came));
            assert_eq!((batch.count(), get(C::Packets)), (came, came));
            let ledger = fullcount_core::ledger::Ledger::default();
            ledger.register(sheet);
            assert_eq!((ledger.read().anything_lost(), ledger.read().balance()), (!fits, 0));
        }
    }
}
