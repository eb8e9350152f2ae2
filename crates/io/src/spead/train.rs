//! Packets on their way to one system call: headers stand here, payload stays in its heap.
//!
//! The kernel copies each payload from where it lies, so a byte is copied once on its way out and not twice. Pieces below
//! [`SHORT`] are copied behind their header: a piece more costs the kernel a start of its own. Source:
//! `docs/formats/spead.md`, section 9.

use fullcount_spead::send::{HeapSender, HeapTicket, NextPacket, PayloadParts};

/// Payload shorter than this is copied. Copying all of them is 1.27 of gathering over UDP in packets of 560 and 760 B, 1.09 in 1060 B, 1.10 in 1472 B, 0.95 in
/// 8972 B and 0.78 in 65,507 B (Xeon, `lab spead switches`); on an EPYC it was 0.73 in 1472 B, so these are gathered.
const SHORT: usize = 1024;

/// One packet of a train.
#[derive(Debug, Clone, Copy)]
struct Packet {
    /// End of its header, and of its payload where that was copied, in `own`.
    own: usize,
    /// End of its pieces in `parts`.
    parts: usize,
}

/// Packets that leave together, from one substream.
#[derive(Debug)]
pub(super) struct HeapTrain {
    own: Vec<u8>,
    parts: PayloadParts,
    packets: Vec<Packet>,
    tickets: Vec<HeapTicket>,
    /// Bytes of the first packet; only the last may be shorter.
    pub stride: usize,
    /// Where all of them go.
    pub substream: usize,
    /// Payload from this length on stays where it is.
    short: usize,
}

impl HeapTrain {
    /// An empty one; with `gather` long payload is not copied.
    pub fn new(gather: bool) -> HeapTrain {
        HeapTrain {
            own: Vec::with_capacity(128 << 10),
            parts: PayloadParts::default(),
            packets: vec![],
            tickets: vec![],
            stride: 0,
            substream: 0,
            short: if gather { SHORT } else { usize::MAX },
        }
    }

    /// The payload of the first packet is gathered from where it lies.
    pub fn gathers(&self) -> bool {
        self.packets.first().is_some_and(|packet| packet.parts > 0)
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Takes the sender's next packet, if one is due.
    pub fn take_next(&mut self, sender: &mut HeapSender, now_ns: u64) -> NextPacket {
        let before = self.parts.len();
        let next = sender.next_parts(now_ns, &mut self.own, &mut self.parts);
        if let NextPacket::Packet { .. } = next {
            let many = self.parts.len() - before;
            if self.parts.bytes_from(before) < self.short.saturating_mul(many) {
                for part in self.parts.parts(before..self.parts.len()) {
                    self.own.extend_from_slice(part);
                }
                self.parts.truncate(before);
            }
            self.packets.push(Packet { own: self.own.len(), parts: self.parts.len() });
        }
        next
    }

    /// The packet taken last is of this heap.
    pub fn note(&mut self, ticket: Option<HeapTicket>) {
        if let Some(ticket) = ticket.filter(|t| self.tickets.last() != Some(t)) {
            self.tickets.push(ticket);
        }
    }

    /// The pieces of the first `many` packets, in order: a header joins what was copied before it.
    pub fn pieces(&self, many: usize) -> Pieces<'_> {
        Pieces { train: self, many, packet: 0, own: 0, part: 0 }
    }

    /// Packet after packet, each with its pieces.
    pub fn each(&self, many: usize) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
        let mut from = Packet { own: 0, parts: 0 };
        self.packets[..many].iter().map(move |packet| {
            let before = std::mem::replace(&mut from, *packet);
            let own = std::iter::once(&self.own[before.own..packet.own]);
            own.chain(self.parts.parts(before.parts..packet.parts))
        })
    }

    /// The first `many` packets have left or failed; returns the heaps they were of.
    pub fn left(&mut self, many: usize) -> std::vec::Drain<'_, HeapTicket> {
        let Some(last) = many.checked_sub(1).and_then(|last| self.packets.get(last)).copied()
        else {
            return self.tickets.drain(..0);
        };
        self.own.drain(..last.own);
        self.parts.forget(last.parts);
        self.packets.drain(..many);
        for packet in &mut self.packets {
            packet.own -= last.own;
            packet.parts -= last.parts;
        }
        self.tickets.drain(..)
    }
}

/// See [`HeapTrain::pieces`].
#[derive(Clone)]
pub(super) struct Pieces<'a> {
    train: &'a HeapTrain,
    many: usize,
    /// The packet whose header is next, or whose parts are under way.
    packet: usize,
    /// Own bytes before this went.
    own: usize,
    /// Parts before this went.
    part: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let train = self.train;
        // Parts of the packets before `packet`.
        let due = match self.packet.checked_sub(1) {
            Some(before) => train.packets[before].parts,
            None => 0,
        };
        if self.part < due {
            self.part += 1;
            return Some(train.parts.part(self.part - 1));
        }
        if self.packet == self.many {
            return None;
        }
        let from = self.own;
        loop {
            let packet = train.packets[self.packet];
            self.own = packet.own;
            self.packet += 1;
            if packet.parts > self.part || self.packet == self.many {
                return Some(&train.own[from..self.own]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fullcount_spead::Flavour;
    use fullcount_spead::send::{CutRules, GroupMode, OutHeap, SenderConfig};
    use proptest::prelude::*;

    use super::*;

    fn heap(items: &[usize]) -> OutHeap {
        let mut heap = OutHeap::new(Flavour::default());
        for (n, bytes) in items.iter().enumerate() {
            let value: Vec<u8> = (0..*bytes).map(|i| (i * 31 + n) as u8).collect();
            heap.add_item(0x1000 + n as u64, value, false);
        }
        heap
    }

    fn sender(items: &[usize], size: usize) -> HeapSender {
        let cut = CutRules { max_packet_size: size, ..CutRules::default() };
        let mut sender = HeapSender::new(SenderConfig { cut, ..SenderConfig::default() }).unwrap();
        let heaps = vec![(heap(items), Default::default()), (heap(&[700, 3]), Default::default())];
        sender.send_group(heaps, GroupMode::RoundRobin).unwrap();
        sender
    }

    proptest! {
        #[test]
        fn pieces_are_the_packets_whatever_is_gathered_and_wherever_the_train_is_cut(
            items in prop::collection::vec(0usize..3000, 1..6), size in 200usize..2000,
            gather: bool, cut in 1usize..6,
        ) {
            let mut alone = sender(&items, size);
            let mut train = HeapTrain::new(gather);
            let mut other = sender(&items, size);
            let (mut wanted, mut got) = (vec![], vec![]);
            loop {
                let mut packet = vec![];
                let next = alone.next_packet(0, &mut packet);
                prop_assert_eq!(next, train.take_next(&mut other, 0));
                let NextPacket::Packet { ticket, .. } = next else { break };
                train.note(ticket);
                wanted.push(packet);
                if train.len() > cut {
                    got.extend(train.each(cut).map(|packet| packet.collect::<Vec<_>>().concat()));
                    let pieces: Vec<u8> = train.pieces(cut).collect::<Vec<_>>().concat();
                    prop_assert_eq!(pieces, got[got.len() - cut..].concat());
                    prop_assert!(gather || train.pieces(cut).count() == 1);
                    prop_assert_eq!(train.left(cut).count(), 1);
                    train.note(ticket);
                }
            }
            let rest = train.len();
            got.extend(train.each(rest).map(|packet| packet.collect::<Vec<_>>().concat()));
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(train.left(rest).count(), usize::from(rest > 0));
            prop_assert_eq!(train.left(0).count(), 0);
            prop_assert_eq!((train.own.len(), train.parts.len(), train.len()), (0, 0, 0));
        }
    }

    #[test]
    fn long_payload_stays_in_its_heap_and_short_payload_is_copied() {
        let mut train = HeapTrain::new(true);
        assert!(!train.gathers());
        let mut long = sender(&[5000], 1472);
        while let NextPacket::Packet { .. } = train.take_next(&mut long, 0) {}
        assert!(train.gathers());
        // Of both heaps; the second one's only packet has two items, of 700 B and of 3 B, and is copied, as is the short end of the first one.
        assert_eq!(train.len(), 5);
        let lengths: Vec<_> = train.pieces(5).map(<[u8]>::len).collect();
        assert!(lengths.iter().filter(|len| **len > 1000).count() >= 3, "{lengths:?}");
        assert!(train.own.len() < 5 * 80 + 703 + SHORT, "{}", train.own.len());
    }
}
