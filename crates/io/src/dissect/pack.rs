//! Writes payloads contiguously to a batch's memory and joins equal ones of a sender into trains.
//!
//! The next stage sees the same trains as from a socket with UDP GRO: one entry for many datagrams. A
//! datagram with a receive time of its own stays alone. [`Packer::fits`] says how much space is left.

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};

/// Fills one batch.
#[derive(Debug)]
pub struct Packer<'a> {
    batch: &'a mut Batch,
    /// Bytes of the batch that hold payload.
    end: usize,
    room: usize,
    open: Option<TrainMeta>,
    /// Destinations of the next datagram and of the open train; `None` if they are not needed.
    to: Option<Origin>,
    open_to: Option<Origin>,
    /// No other datagram joins the open train: its last was shorter, or it is empty.
    closed: bool,
    /// Datagrams with different times never share a train.
    join: bool,
    packets: u64,
    bytes: u64,
}

impl<'a> Packer<'a> {
    /// Starts on a cleared batch. `join`: equal datagrams become trains.
    pub fn new(batch: &'a mut Batch, join: bool) -> Packer<'a> {
        let room = batch.memory_mut().len();
        let (open, to, open_to) = (None, None, None);
        Packer { batch, end: 0, room, open, to, open_to, closed: true, join, packets: 0, bytes: 0 }
    }

    /// True if `len` more bytes fit.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        len <= self.room - self.end
    }

    /// Where the next payload goes; write it there, then [`Packer::keep`] it or not.
    ///
    /// # Panics
    /// If it does not fit.
    #[inline]
    pub fn place(&mut self, len: usize) -> &mut [u8] {
        &mut self.batch.memory_mut()[self.end..self.end + len]
    }

    /// Says where the next datagram was sent to; said of all of a batch, or of none.
    #[inline]
    pub fn sent_to(&mut self, to: Origin) {
        self.to = Some(to);
    }

    /// Accepts the data written to [`Packer::place`].
    #[inline]
    pub fn keep(&mut self, len: usize, origin: Origin, time_ns: i64) {
        self.packets += 1;
        self.bytes += len as u64;
        let start = self.end;
        self.end += len;
        if let Some(open) = &mut self.open
            && !self.closed
            && open.origin == origin
            && self.open_to == self.to
            && (1..=first_of(open)).contains(&len)
        {
            let each = first_of(open);
            open.stride = each;
            open.len += len;
            self.closed = len < each;
            return;
        }
        self.flush();
        self.closed = !self.join || len == 0;
        let edge = Edge::Datagram;
        self.open = Some(TrainMeta { start, len, stride: 0, origin, time_ns, edge });
        self.open_to = self.to;
    }

    /// Keeps a train that came as one: datagrams of `stride` bytes, the last may be shorter.
    pub fn keep_train(&mut self, len: usize, stride: usize, origin: Origin, time_ns: i64) {
        self.flush();
        self.packets += len.div_ceil(stride.max(1)).max(1) as u64;
        self.bytes += len as u64;
        let start = self.end;
        self.end += len;
        let edge = Edge::Datagram;
        self.push(TrainMeta { start, len, stride, origin, time_ns, edge }, self.to);
    }

    fn flush(&mut self) {
        if let Some(train) = self.open.take() {
            self.push(train, self.open_to);
        }
    }

    fn push(&mut self, train: TrainMeta, to: Option<Origin>) {
        match to {
            None => self.batch.push(train),
            Some(to) => self.batch.push_to(train, to),
        }
    }

    /// Ends the last train; datagrams and bytes kept.
    pub fn finish(mut self) -> (u64, u64) {
        self.flush();
        (self.packets, self.bytes)
    }
}

/// Bytes of a train's first datagram.
#[inline]
fn first_of(train: &TrainMeta) -> usize {
    if train.stride == 0 { train.len } else { train.stride }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn origin(port: u16) -> Origin {
        Origin { port, ..Origin::NONE }
    }

    fn packed(all: &[(Vec<u8>, u16)], join: bool) -> Batch {
        let room: usize = all.iter().map(|(b, _)| b.len()).sum();
        let mut batch = Batch::with_slots(all.len().max(1), room.div_ceil(all.len().max(1)));
        let mut p = Packer::new(&mut batch, join);
        for (bytes, port) in all {
            assert!(p.fits(bytes.len()));
            p.place(bytes.len()).copy_from_slice(bytes);
            p.keep(bytes.len(), origin(*port), 0);
        }
        assert_eq!(p.finish(), (all.len() as u64, room as u64));
        batch
    }

    fn shape(sizes: &[(usize, u16)], join: bool) -> Vec<(usize, usize)> {
        let all: Vec<_> = sizes.iter().map(|(n, port)| (vec![0; *n], *port)).collect();
        packed(&all, join).trains().map(|t| (t.bytes.len(), t.stride)).collect()
    }

    #[test]
    fn equal_datagrams_of_a_sender_become_one_train_with_a_short_end() {
        assert_eq!(shape(&[(64, 1), (64, 1), (64, 1)], true), [(192, 64)]);
        assert_eq!(shape(&[(64, 1), (64, 1), (3, 1), (64, 1)], true), [(131, 64), (64, 0)]);
        assert_eq!(shape(&[(64, 1), (65, 1)], true), [(64, 0), (65, 0)]);
        assert_eq!(shape(&[(64, 1), (64, 2), (64, 1)], true), [(64, 0); 3]);
        assert_eq!(shape(&[(64, 1), (0, 1), (64, 1)], true), [(64, 0), (0, 0), (64, 0)]);
        assert_eq!(shape(&[(64, 1), (64, 1)], false), [(64, 0); 2]);
    }

    #[test]
    fn datagrams_to_different_addresses_share_no_train() {
        let mut batch = Batch::with_slots(1, 8);
        let mut p = Packer::new(&mut batch, true);
        for to in [1, 1, 2, 2] {
            p.sent_to(origin(to));
            p.keep(2, origin(9), 0);
        }
        p.finish();
        let got: Vec<_> = batch.trains().map(|t| t.count()).collect();
        assert_eq!((got, batch.destinations()), (vec![2, 2], &[origin(1), origin(2)][..]));
    }

    #[test]
    fn a_train_that_came_as_one_stands_between_the_others() {
        let mut batch = Batch::with_slots(4, 100);
        let mut p = Packer::new(&mut batch, true);
        p.keep(10, origin(1), 0);
        p.keep_train(25, 10, origin(1), 0);
        p.keep(10, origin(1), 0);
        assert!(p.fits(355) && !p.fits(356));
        assert_eq!(p.finish(), (5, 45));
        let got: Vec<_> = batch.trains().map(|t| (t.bytes.len(), t.stride)).collect();
        assert_eq!(got, [(10, 0), (25, 10), (10, 0)]);
    }

    proptest! {
        #[test]
        fn every_datagram_comes_out_once_in_order_with_its_sender(
            sizes in prop::collection::vec((prop::sample::select(vec![0usize, 1, 7, 7, 7, 8]), 1u16..3), 0..60),
            join in any::<bool>(),
        ) {
            let all: Vec<(Vec<u8>, u16)> = sizes
                .iter()
                .enumerate()
                .map(|(i, (n, port))| (vec![i as u8; *n], *port))
                .collect();
            let batch = packed(&all, join);
            let got: Vec<(Vec<u8>, u16)> = batch
                .trains()
                .flat_map(|t| t.chunks().map(move |c| (c.to_vec(), t.origin.port)))
                .collect();
            prop_assert_eq!(got, all);
        }
    }
}
