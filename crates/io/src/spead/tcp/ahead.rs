//! A read that puts the payloads of the packets that should come next straight into their heap.
//!
//! One `readv` fills, by turns, a header aside and a payload in its place; what stands behind these packets goes into a short tail.
//! Headers are looked at afterwards. From the first one that is another packet's on, all bytes are put together again and go the usual
//! way. A packet of which only a part came stays in its place while its connection is read; before anybody else touches the
//! stream, the part is taken back. Source: `docs/formats/spead.md`, section 9.2.

use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;

use fullcount_core::batch::Origin;
use fullcount_spead::framing::PacketStream;
use fullcount_spead::wire::PREFIX_BYTES;

use super::{Piece, TakesPieces};

/// Shorter payloads are copied from the read buffer: each takes two slices of a call, and reading such ahead was not measured.
const LEAST: usize = 2048;
/// Payload of one read, bytes. With payloads in place a receiver takes 11 % less processor time at 8972 B and 16 % less at 65,483 B than with
/// copies out of the read buffer, which `pool=0` chooses (Xeon, `lab spead switches`): fresh memory has no room ahead.
const MOST: usize = 1 << 20;
/// Packets of one read: with the tail their slices stay below the system's 1024.
const PACKETS: usize = 500;
/// What stands behind the expected packets of a heap and is worth reading with them: its last packet and the first of the next heap,
/// with the pointers of some items.
const TAIL: usize = 1024;

/// Headers and tails of such reads; and the packet of which a part is in its place.
#[derive(Debug, Default)]
pub(super) struct AheadReader {
    heads: Vec<u8>,
    tail: Vec<u8>,
    /// Bytes that are put together again.
    joined: Vec<u8>,
    /// Of the next expected packet, so many bytes are there.
    placed: usize,
}

impl AheadReader {
    /// One read. `None`: it is not known what comes next, or it is too short.
    pub fn read(
        &mut self,
        stream: &mut TcpStream,
        packets: &mut PacketStream,
        origin: Origin,
        to: &mut impl TakesPieces,
    ) -> Option<io::Result<usize>> {
        let partial = packets.partial()?;
        let room = to.receiver().ahead(MOST)?;
        let (step, each) = (room.step, room.step + PREFIX_BYTES);
        if step < LEAST || each > packets.max_packet() || partial.len() >= each {
            return None;
        }
        let expected = (room.payload.len() / step).min(PACKETS);
        self.heads.resize(self.heads.len().max(PACKETS * PREFIX_BYTES), 0);
        self.tail.resize(2 * each + TAIL, 0);
        if !partial.is_empty() {
            let (head, payload) = partial.split_at(partial.len().min(PREFIX_BYTES));
            self.heads[..head.len()].copy_from_slice(head);
            room.payload[..payload.len()].copy_from_slice(payload);
            self.placed = partial.len();
            packets.forget_partial();
        }
        let mut slices: [IoSliceMut<'_>; 2 * PACKETS + 1] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let heads = self.heads.chunks_exact_mut(PREFIX_BYTES);
        let payloads = room.payload.chunks_exact_mut(step).take(expected);
        for (two, (head, payload)) in slices.chunks_exact_mut(2).zip(heads.zip(payloads)) {
            two[0] = IoSliceMut::new(head);
            two[1] = IoSliceMut::new(payload);
        }
        slices[2 * expected] = IoSliceMut::new(&mut self.tail);
        let mut slices = &mut slices[..=2 * expected];
        IoSliceMut::advance_slices(&mut slices, self.placed);
        let many = match stream.read_vectored(slices) {
            Ok(many) => many,
            Err(e) => return Some(Err(e)),
        };
        let there = self.placed + many;
        let whole = (there / each).min(expected);
        for n in 0..whole {
            let head = self.heads[n * PREFIX_BYTES..].first_chunk();
            if head.is_some_and(|head| to.take_ahead(head, origin)) {
                packets.placed();
                continue;
            }
            let packets_there = n..expected;
            self.placed = 0;
            self.join(packets_there, there - n * each, step, to);
            packets.push(&self.joined, |packet| to.take(Piece::Packet(packet, origin)));
            return Some(Ok(many));
        }
        self.placed = there - whole * each;
        if whole == expected {
            let tail = std::mem::take(&mut self.placed);
            packets.push(&self.tail[..tail], |packet| to.take(Piece::Packet(packet, origin)));
        } else {
            // The next read begins with this packet.
            self.heads.copy_within(whole * PREFIX_BYTES..(whole + 1) * PREFIX_BYTES, 0);
        }
        Some(Ok(many))
    }

    /// Puts `bytes` bytes together that came from packet `packets.start` of a read on; the packet's payload is the first that is expected.
    fn join(
        &mut self,
        packets: std::ops::Range<usize>,
        mut bytes: usize,
        step: usize,
        to: &mut impl TakesPieces,
    ) {
        self.joined.clear();
        let room = to.receiver().ahead(packets.len().saturating_mul(step));
        let payloads = room.iter().flat_map(|room| room.payload.chunks_exact(step));
        let heads = self.heads[packets.start * PREFIX_BYTES..].chunks_exact(PREFIX_BYTES);
        let pieces = heads.zip(payloads).take(packets.len()).flat_map(|(h, p)| [h, p]);
        for piece in pieces.chain([&self.tail[..]]) {
            let many = piece.len().min(bytes);
            self.joined.extend_from_slice(&piece[..many]);
            bytes -= many;
        }
        debug_assert_eq!(bytes, 0, "what was placed is still there");
    }

    /// Takes back the part of a packet that is in its place.
    pub fn settle(
        &mut self,
        packets: &mut PacketStream,
        origin: Origin,
        to: &mut impl TakesPieces,
    ) {
        let bytes = std::mem::take(&mut self.placed);
        if bytes == 0 {
            return;
        }
        let step = to.receiver().ahead(MOST).map_or(0, |room| room.step);
        self.join(0..1, bytes, step, to);
        packets.push(&self.joined, |packet| to.take(Piece::Packet(packet, origin)));
    }
}
