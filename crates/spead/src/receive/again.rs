//! What came of a heap, as packets again: for a reader of packets behind a stream that was put together here.
//!
//! A whole heap is one packet, however long; of an incomplete one each piece is a packet, and the first has the item pointers. Where a
//! heap's padding followed an item, a pointer of id 0 ends that item. Refuses heaps that no packet can say: see [`Unfit`].
//! Source: `docs/formats/spead.md`, section 3.

use super::heap::{Heap, IncompleteHeap};
use crate::wire::{Flavour, HEADER_BYTES, ItemPointer, POINTER_BYTES, header, id};

/// Why a heap fits into no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A header counts to 65,535, the four standard ones included.
    #[error("{0} item pointers do not fit into one packet, which has 65535")]
    Pointers(usize),
    /// The length of the heap, or of a piece, is above what a pointer of its flavour holds.
    #[error("{0} B are more than a pointer of this heap can say")]
    Long(u64),
}

/// The heap that packets are of.
#[derive(Debug, Clone, Copy)]
struct Whose {
    flavour: Flavour,
    cnt: u64,
    /// `None`: it is not known, and not said.
    length: Option<u64>,
}

impl Whose {
    /// Puts header and pointers of a packet with `bytes` of payload at `offset` into `head`.
    fn head(
        self,
        (offset, bytes): (u64, usize),
        items: impl IntoIterator<Item = ItemPointer>,
        head: &mut Vec<u8>,
    ) -> Result<(), Unfit> {
        let Whose { flavour, cnt, length } = self;
        head.clear();
        let most = length.unwrap_or(0).max(offset).max(bytes as u64);
        if most > flavour.largest_value() {
            return Err(Unfit::Long(most));
        }
        let said = length.map(|length| (id::HEAP_LENGTH, length));
        let place = [(id::PAYLOAD_OFFSET, offset), (id::PAYLOAD_LENGTH, bytes as u64)];
        let standard = [(id::HEAP_CNT, cnt)].into_iter().chain(said).chain(place);
        let standard = standard.map(|(id, value)| flavour.immediate(id, value));
        // Their number is known behind the last one.
        head.extend([0; HEADER_BYTES]);
        head.extend(standard.chain(items).flat_map(|pointer| pointer.to_bytes()));
        let pointers = (head.len() - HEADER_BYTES) / POINTER_BYTES;
        let Ok(count) = u16::try_from(pointers) else {
            head.clear();
            return Err(Unfit::Pointers(pointers));
        };
        head[..HEADER_BYTES].copy_from_slice(&header(flavour, count));
        Ok(())
    }
}

impl Heap {
    /// Puts header and item pointers of a packet into `head`; [`Heap::payload`] is what follows them.
    ///
    /// # Errors
    /// No packet can say this heap; `head` is empty then.
    pub fn packet_head(&self, head: &mut Vec<u8>) -> Result<(), Unfit> {
        let (flavour, bytes) = (self.flavour, self.payload().len());
        // Where the last addressed item ends, and payload that belongs to no item follows.
        let mut end = None;
        let gap = |end: Option<usize>, upto: usize| {
            let end = end.filter(|end| *end < upto)?;
            Some(flavour.addressed(id::NULL, end as u64))
        };
        let pointers = self.all_places().flat_map(|(id, place)| match place {
            Ok(range) => {
                let before = gap(end, range.start);
                end = Some(range.end);
                [before, Some(flavour.addressed(id, range.start as u64))]
            }
            Err(value) => {
                // Addressed items come first: this gap is behind the last one.
                let before = gap(end.take(), bytes);
                [before, Some(flavour.immediate(id, value))]
            }
        });
        let last = self.all_places().last().and_then(|(_, place)| place.ok());
        let last = gap(last.map(|range| range.end), bytes);
        let whose = Whose { flavour, cnt: self.cnt, length: Some(bytes as u64) };
        whose.head((0, bytes), pointers.flatten().chain(last), head)
    }
}

impl IncompleteHeap {
    /// Gives header with pointers, and payload, of a packet for each piece that is there; of one without payload where none is.
    ///
    /// # Errors
    /// No packet can say this heap; some may have been given.
    pub fn packets(&self, mut give: impl FnMut(&[u8], &[u8])) -> Result<(), Unfit> {
        let whose = Whose { flavour: self.flavour, cnt: self.cnt, length: self.heap_length };
        let (mut head, mut items) = (Vec::new(), self.pointers());
        let none = self.received_length == 0;
        for (offset, bytes) in self.pieces().chain(none.then_some((0, &[][..]))) {
            whose.head((offset, bytes.len()), items.iter().copied(), &mut head)?;
            give(&head, bytes);
            items = &[];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::receive::{
        Delivery, HeapReceiver, ItemValue, OnIncomplete, Outcome, ReceiverConfig,
    };
    use crate::testing::{Raw, Wanted, adr, imm};

    fn receiver() -> HeapReceiver {
        let config = ReceiverConfig {
            incomplete: OnIncomplete::Give,
            stop_on_stop_item: false,
            ..ReceiverConfig::default()
        };
        HeapReceiver::new(config).unwrap()
    }

    /// What comes of packets, the unfinished heaps flushed.
    fn received(packets: &[Vec<u8>]) -> Vec<Delivery> {
        let mut receiver = receiver();
        let mut all = Vec::new();
        for packet in packets {
            assert_eq!(receiver.push(0, packet), Outcome::Accepted);
            all.extend(std::iter::from_fn(|| receiver.pop()));
        }
        receiver.flush_live(0);
        all.extend(std::iter::from_fn(|| receiver.pop()));
        all
    }

    /// Id, value, and the payload's bytes of each item.
    fn items(heap: &Heap) -> Vec<(u64, Result<Vec<u8>, u64>)> {
        let value = |value| match value {
            ItemValue::Bytes(bytes) => Ok(bytes.to_vec()),
            ItemValue::Immediate(value) => Err(value),
        };
        heap.all_items().map(|item| (item.id, value(item.value))).collect()
    }

    fn wanted() -> impl Strategy<Value = Wanted> {
        let ids = prop_oneof![Just(0u64), Just(5), Just(6), 7u64..40, 0x1000u64..0x1004];
        (any::<bool>(), ids, 0u64..=120).prop_map(|(immediate, id, value)| match immediate {
            true => imm(id, value),
            false => adr(id, value),
        })
    }

    proptest! {
        #[test]
        fn a_whole_heap_is_the_same_again(
            bits in prop::sample::select(vec![16u32, 40, 48]),
            payload in prop::collection::vec(any::<u8>(), 120..200),
            wanted in prop::collection::vec(wanted(), 0..20),
        ) {
            let mut packet = Raw::new(7, payload.len() as u64, 0, &payload);
            (packet.bits, packet.items) = (bits, wanted);
            let came = received(&[packet.bytes()]);
            let [Delivery::Heap(heap)] = &came[..] else { panic!("{came:?}") };
            let mut head = Vec::new();
            heap.packet_head(&mut head).unwrap();
            let again = received(&[[&head, heap.payload()].concat()]);
            let [Delivery::Heap(again)] = &again[..] else { panic!("{again:?}") };
            prop_assert_eq!(items(again), items(heap));
            prop_assert_eq!((again.cnt, again.flavour, again.payload()), (7, heap.flavour, &payload[..]));
        }

        #[test]
        fn an_incomplete_heap_lacks_the_same_again(
            known in any::<bool>(),
            there in prop::collection::vec(any::<bool>(), 2..12),
            wanted in prop::collection::vec(wanted(), 0..5),
        ) {
            // One piece of 100 B behind all others never comes.
            let length = 100 * (there.len() as u64 + 1);
            let mut packets = Vec::new();
            for (n, _) in there.iter().enumerate().filter(|(_, there)| **there) {
                let mut packet = Raw::new(7, length, 100 * n as u64, &[n as u8; 100]);
                if !known {
                    packet.heap_length = None;
                }
                packet.items = wanted.clone();
                packets.push(packet.bytes());
            }
            for delivery in received(&packets) {
                let Delivery::Incomplete(heap) = delivery else { continue };
                let mut again = Vec::new();
                heap.packets(|head, payload| again.push([head, payload].concat())).unwrap();
                let again = received(&again);
                let [Delivery::Incomplete(again)] = &again[..] else { panic!("{again:?}") };
                prop_assert!(again.pieces().eq(heap.pieces()));
                prop_assert_eq!((again.cnt, again.heap_length), (7, heap.heap_length));
                prop_assert_eq!(again.received_length, heap.received_length);
                prop_assert!(again.addresses().eq(heap.addresses()));
                prop_assert!(again.immediates().eq(heap.immediates()));
            }
        }
    }

    #[test]
    fn what_no_packet_can_say_is_refused() {
        let mut packets = Vec::new();
        for part in 0..3u64 {
            let mut packet = Raw::new(7, 30, 10 * part, &[0; 10]);
            packet.items = (0..21_844).map(|n| imm(0x1000 + part, n)).collect();
            packets.push(packet.bytes());
        }
        let came = received(&packets);
        let [Delivery::Heap(heap)] = &came[..] else { panic!("{came:?}") };
        let mut head = vec![1];
        assert_eq!(heap.packet_head(&mut head), Err(Unfit::Pointers(65_536)));
        assert!(head.is_empty());
        // Two packets of a heap whose addresses have 8 bits.
        let packets = [(0, 200), (200, 100)].map(|(at, bytes)| {
            let mut packet = Raw::new(7, 0, at, &vec![0; bytes]);
            (packet.bits, packet.heap_length) = (8, None);
            packet.bytes()
        });
        let came = received(&packets);
        let [Delivery::Heap(heap)] = &came[..] else { panic!("{came:?}") };
        assert_eq!(heap.packet_head(&mut head), Err(Unfit::Long(300)));
    }
}
