//! What readers give to a stream: datagrams of trains, pieces of connections; and the heaps that are ready then.
//!
//! Refuses datagrams above `max_packet`, counted by the caller. Source: `docs/formats/spead.md`, section 8.

use std::time::Instant;

use fullcount_core::batch::{Batch, Origin, Train};
use fullcount_spead::HeapReceiver;
use fullcount_spead::receive::{Delivery, Outcome};
use fullcount_spead::wire::PREFIX_BYTES;

use super::intake::Arrived;
use super::tcp::{Piece, TakesPieces};

/// Datagrams of a batch; how many were above the limit.
pub(super) fn take_batch(
    stream: &mut HeapReceiver,
    batch: &Batch,
    now: u64,
    most: usize,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) -> u64 {
    let mut over = 0;
    for train in batch.trains() {
        over += take_train(stream, &train, now, most, deliver);
    }
    stream.end_batch();
    over
}

/// The same of one train.
pub(super) fn take_train(
    stream: &mut HeapReceiver,
    train: &Train<'_>,
    now: u64,
    most: usize,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) -> u64 {
    let mut over = 0;
    let arrived = Arrived { origin: train.origin, time_ns: train.time_ns };
    for datagram in train.chunks() {
        if most > 0 && datagram.len() > most {
            over += 1;
            continue;
        }
        while stream.push(now, datagram) == Outcome::Full {
            hand_over(stream, arrived, deliver);
        }
        if stream.store().waiting() > 0 {
            hand_over(stream, arrived, deliver);
        }
    }
    over
}

/// The stream as connections see it.
pub(super) struct Taking<'a> {
    pub stream: &'a mut HeapReceiver,
    pub began: Instant,
    pub deliver: &'a mut dyn FnMut(Delivery, Arrived),
}

impl TakesPieces for Taking<'_> {
    fn take(&mut self, piece: Piece<'_>) {
        take(self.stream, piece, self.now_ns(), self.deliver);
    }

    fn receiver(&mut self) -> &mut HeapReceiver {
        self.stream
    }

    fn take_ahead(&mut self, head: &[u8; PREFIX_BYTES], origin: Origin) -> bool {
        let taken = self.stream.take_ahead(self.now_ns(), head);
        if self.stream.store().waiting() > 0 {
            hand_over(self.stream, Arrived { origin, time_ns: 0 }, self.deliver);
        }
        taken
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

fn take(
    stream: &mut HeapReceiver,
    piece: Piece<'_>,
    now: u64,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) {
    let origin = match piece {
        Piece::Packet(packet, origin) => {
            let arrived = Arrived { origin, time_ns: 0 };
            while stream.push(now, packet) == Outcome::Full {
                hand_over(stream, arrived, deliver);
            }
            origin
        }
        Piece::Heap(heap, bytes, origin) => {
            stream.push_heap(now, heap, bytes);
            origin
        }
        Piece::Stop(bytes) => {
            stream.push_stop(now, bytes);
            Origin::NONE
        }
        Piece::Ended => {
            stream.reader_ended(now);
            Origin::NONE
        }
    };
    if stream.store().waiting() > 0 {
        hand_over(stream, Arrived { origin, time_ns: 0 }, deliver);
    }
}

pub(super) fn hand_over(
    stream: &mut HeapReceiver,
    arrived: Arrived,
    deliver: &mut dyn FnMut(Delivery, Arrived),
) {
    while let Some(delivery) = stream.pop() {
        deliver(delivery, arrived);
    }
}
