//! Joins consecutive datagrams into trains, as the kernel does for a socket (UDP GRO).
//!
//! Datagrams are joined if they have the same sender and receiver, are contiguous in memory, are as long as the first
//! one (the last may be shorter) and came within a given time of it. At most 64 and 65,535 bytes, the kernel's limits.
//! The order never changes; an empty datagram stands alone.

use std::net::SocketAddr;

use fullcount_core::batch::{Edge, Origin, TrainMeta};

/// Datagrams in a train at most (UDP_GRO_CNT_MAX).
const MOST: usize = 64;
/// Bytes in a train at most.
const LONGEST: usize = 65_535;

/// Builds trains.
#[derive(Debug)]
pub(crate) struct Trains {
    span_ns: u64,
    /// Set if the newest train may still grow: its receiver, bytes per datagram, datagrams.
    open: Option<(Option<SocketAddr>, usize, usize)>,
}

impl Trains {
    /// Joins datagrams that came at most `span_ns` after the first one.
    pub(crate) fn new(span_ns: u64) -> Trains {
        Trains { span_ns, open: None }
    }

    /// The next datagram starts a new train.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Adds a datagram at `start`: true if it joined `last`, the newest train.
    pub(crate) fn join(
        &mut self,
        last: Option<&mut TrainMeta>,
        start: usize,
        len: usize,
        origin: Origin,
        destination: Option<SocketAddr>,
        time_ns: i64,
    ) -> bool {
        let Some((to, stride, count)) = self.open else { return self.begin(destination, len) };
        let fits = |t: &&mut TrainMeta| {
            let after = i128::from(time_ns) - i128::from(t.time_ns);
            t.start + t.len == start
                && t.origin == origin
                && to == destination
                && (1..=stride).contains(&len)
                && count < MOST
                && t.len + len <= LONGEST
                && (0..=i128::from(self.span_ns)).contains(&after)
        };
        let Some(train) = last.filter(fits) else { return self.begin(destination, len) };
        train.len += len;
        train.stride = stride;
        // A shorter one is the last.
        self.open = (len == stride).then_some((to, stride, count + 1));
        true
    }

    fn begin(&mut self, destination: Option<SocketAddr>, len: usize) -> bool {
        self.open = (len > 0).then_some((destination, len, 1));
        false
    }
}

/// A train of one datagram.
pub(crate) fn single(start: usize, len: usize, origin: Origin, time_ns: i64) -> TrainMeta {
    TrainMeta { start, len, stride: 0, origin, time_ns, edge: Edge::Datagram }
}
