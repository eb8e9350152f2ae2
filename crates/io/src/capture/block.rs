//! A block of trains that the receiving thread passes to the writing one.
//!
//! Allocated once, of fixed size, with its memory touched: filling it neither allocates nor faults. [`Block::put`]
//! returns how much it took.

use fullcount_core::batch::{Edge, Origin, Train};

/// Bytes of a block: two of them stay in a core's second-level cache, and 1,000 a second are handed over at
/// 10 Gb/s.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Trains of a block: datagrams of 64 B that come alone leave three quarters of the bytes unused.
const MOST_TRAINS: usize = 4096;

/// One train in a block.
#[derive(Debug, Clone, Copy)]
struct Car {
    start: usize,
    len: usize,
    stride: usize,
    origin: Origin,
    to: Origin,
    time_ns: i64,
}

/// Trains of one worker, in order of arrival.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Box<[u8]>,
    used: usize,
    cars: Vec<Car>,
    packets: u64,
    /// Packets of this worker that were not captured, since its last block.
    pub(super) dropped: u64,
}

impl Block {
    /// An empty one.
    pub(super) fn new() -> Block {
        let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
        crate::sys::prefer_large_pages(&mut bytes);
        // Memory that was never written is given at the first write: not on the receiving thread.
        bytes.fill(0xff);
        Block { bytes, used: 0, cars: Vec::with_capacity(MOST_TRAINS), packets: 0, dropped: 0 }
    }

    pub(super) fn clear(&mut self) {
        (self.used, self.packets, self.dropped) = (0, 0, 0);
        self.cars.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cars.is_empty()
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Copies the train, or as many of its datagrams as fit. Returns the rest.
    #[inline]
    pub(super) fn put<'a>(
        &mut self,
        train: Train<'a>,
        to: Origin,
        time_ns: i64,
    ) -> Option<Train<'a>> {
        let room = self.bytes.len() - self.used;
        let whole = train.bytes.len() <= room;
        let len = match (whole, train.stride) {
            _ if self.cars.len() == MOST_TRAINS => return Some(train),
            (true, _) => train.bytes.len(),
            (false, 0) => return Some(train),
            (false, stride) => room / stride * stride,
        };
        if len == 0 && !whole {
            return Some(train);
        }
        let (now, later) = train.bytes.split_at(len);
        self.bytes[self.used..self.used + len].copy_from_slice(now);
        let Train { stride, origin, .. } = train;
        self.cars.push(Car { start: self.used, len, stride, origin, to, time_ns });
        self.used += len;
        self.packets += Train { bytes: now, ..train }.count() as u64;
        if whole { None } else { Some(Train { bytes: later, ..train }) }
    }

    /// The trains with their destinations.
    pub(super) fn trains(&self) -> impl Iterator<Item = (Train<'_>, Origin)> {
        self.cars.iter().map(|c| {
            let bytes = &self.bytes[c.start..c.start + c.len];
            let edge = Edge::Datagram;
            let train =
                Train { bytes, stride: c.stride, origin: c.origin, time_ns: c.time_ns, edge };
            (train, c.to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(bytes: &[u8], stride: usize) -> Train<'_> {
        Train { bytes, stride, origin: Origin::NONE, time_ns: 1, edge: Edge::Datagram }
    }

    #[test]
    fn a_train_is_cut_between_datagrams_where_a_block_ends() {
        let mut block = Block::new();
        let first = vec![1; BLOCK_BYTES - 25];
        assert!(block.put(train(&first, 0), Origin::NONE, 1).is_none());
        let second: Vec<u8> = (0..35).collect();
        let rest = block.put(train(&second, 10), Origin::NONE, 2).unwrap();
        assert_eq!((rest.bytes, rest.stride), (&second[20..], 10));
        assert!(block.put(rest, Origin::NONE, 2).is_some_and(|same| same.bytes.len() == 15));
        assert_eq!(block.packets(), 3);
        let lens: Vec<_> =
            block.trains().map(|(t, _)| (t.bytes.len(), t.stride, t.time_ns)).collect();
        assert_eq!(lens, [(first.len(), 0, 1), (20, 10, 2)]);
        block.clear();
        assert!(block.is_empty() && block.put(rest, Origin::NONE, 2).is_none());
        let (got, _) = block.trains().next().unwrap();
        assert_eq!((got.bytes, got.count()), (&second[20..], 2));
    }

    #[test]
    fn trains_have_an_end_as_bytes_do_and_an_empty_datagram_is_one() {
        let mut block = Block::new();
        for _ in 0..MOST_TRAINS {
            assert!(block.put(train(&[], 0), Origin::NONE, 1).is_none());
        }
        assert!(block.put(train(&[], 0), Origin::NONE, 1).is_some());
        assert_eq!(block.packets(), MOST_TRAINS as u64);
        let too_long = vec![0; BLOCK_BYTES + 1];
        assert!(Block::new().put(train(&too_long, 0), Origin::NONE, 1).is_some());
    }
}
