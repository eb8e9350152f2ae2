//! What a source hands to a detector: a batch of trains of chunks.
//!
//! The kernel (UDP GRO) joins datagrams of one sender and of equal length into one *train* with a *stride*;
//! the last may be shorter. A [`Batch`] keeps trains as they came, so that nothing is copied or split before
//! the decoder walks over the chunks. The bytes live either in the batch's own slots (sockets) or in shared
//! memory (a preloaded capture).
//!
//! Lengths are checked by slicing.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::progress::{BatchNumber, Flush};
use crate::source::StreamCredit;

/// What the end of a chunk means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edge {
    /// One datagram: complete, bounded by the network.
    #[default]
    Datagram,
    /// A piece of a byte stream: its ends mean nothing.
    Stream,
    /// A whole heap or record, bounded by its carrier.
    Heap,
}

/// Who sent a chunk: address and port, IPv4 in mapped form. 18 bytes, compares in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Origin {
    /// IPv6 address in network order, or `::ffff:a.b.c.d`.
    pub ip: [u8; 16],
    /// UDP or TCP port, 0 where there is none.
    pub port: u16,
}

impl Origin {
    /// The origin of data that came from no network (a file of payloads, a test).
    pub const NONE: Origin = Origin { ip: [0; 16], port: 0 };

    /// Address in the usual form: IPv4 where it is one.
    pub fn addr(&self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.ip);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// True if the chunk came over IPv6; false for [`Origin::NONE`].
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        let family = &self.ip[..12];
        family != [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] && self.ip != [0; 16]
    }
}

impl From<SocketAddr> for Origin {
    fn from(a: SocketAddr) -> Self {
        let ip = match a.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Origin { ip: ip.octets(), port: a.port() }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        SocketAddr::new(self.addr(), self.port).fmt(f)
    }
}

/// Position of one train in its batch, and what the kernel reported about it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrainMeta {
    /// First byte in the batch's memory.
    pub start: usize,
    /// Bytes in the train.
    pub len: usize,
    /// Bytes per chunk; the last may be shorter. 0: the train is one chunk.
    pub stride: usize,
    /// Sender.
    pub origin: Origin,
    /// Kernel receive time, ns since 1970 UTC (recorded time for a capture); 0 if unknown.
    pub time_ns: i64,
    /// Meaning of a chunk's end.
    pub edge: Edge,
}

/// One train: chunks of one sender that arrived together.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// All chunks, one after the other.
    pub bytes: &'a [u8],
    /// Bytes per chunk, 0 for a single chunk.
    pub stride: usize,
    /// Sender.
    pub origin: Origin,
    /// Receive time, ns since 1970 UTC; 0 if unknown.
    pub time_ns: i64,
    /// Meaning of a chunk's end.
    pub edge: Edge,
}

impl<'a> Train<'a> {
    /// Number of chunks; an empty train is one empty datagram.
    #[inline]
    pub fn count(&self) -> usize {
        if self.stride == 0 || self.bytes.len() <= self.stride {
            1
        } else {
            self.bytes.len().div_ceil(self.stride)
        }
    }

    /// The chunks in order of arrival.
    #[inline]
    pub fn chunks(&self) -> Chunks<'a> {
        let stride = if self.stride == 0 { usize::MAX } else { self.stride };
        Chunks { rest: self.bytes, stride, done: false }
    }
}

/// Iterator over the chunks of a train.
#[derive(Debug, Clone)]
pub struct Chunks<'a> {
    rest: &'a [u8],
    stride: usize,
    done: bool,
}

impl<'a> Chunks<'a> {
    /// Bytes of the chunks that have not been given.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Leaves out the next `count` chunks, which are there and as long as the train's stride.
    #[inline]
    pub fn skip_whole(&mut self, count: usize) {
        let len = count.saturating_mul(self.stride).min(self.rest.len());
        self.rest = &self.rest[len..];
        self.done |= self.rest.is_empty();
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.done {
            return None;
        }
        if self.rest.len() <= self.stride {
            self.done = true;
            return Some(self.rest);
        }
        let (head, tail) = self.rest.split_at(self.stride);
        self.rest = tail;
        Some(head)
    }
}

#[derive(Debug, Clone)]
enum Memory {
    Slots(Box<[u8]>),
    Shared(Arc<[u8]>),
}

/// Trains received together, with the memory they lie in. Reused; never allocates once warm.
#[derive(Debug, Clone)]
pub struct Batch {
    memory: Memory,
    trains: Vec<TrainMeta>,
    /// Receivers of the trains: one each, or none at all.
    to: Vec<Origin>,
    /// Trains that the kernel dropped, and after how many trains of this batch.
    dropped: Vec<Dropped>,
    /// Streams in it may be from quite different times.
    apart: bool,
    number: BatchNumber,
    flush: Option<Flush>,
    /// The stream that all its trains are of.
    stream: Option<Arc<StreamCredit>>,
}

/// Trains that the kernel dropped between two that were received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Place of the next train in the batch.
    pub before: usize,
    /// Trains, above 0; each is 1 to 128 packets, of any sender.
    pub trains: u32,
}

impl Batch {
    /// A batch with `slots` × `slot_bytes` of its own memory. 64 KiB slots hold any GRO train.
    pub fn with_slots(slots: usize, slot_bytes: usize) -> Batch {
        let memory = Memory::Slots(vec![0; slots * slot_bytes].into_boxed_slice());
        let (trains, to, dropped) = (Vec::with_capacity(slots), Vec::new(), Vec::new());
        let number = BatchNumber::default();
        Batch { memory, trains, to, dropped, apart: false, number, flush: None, stream: None }
    }

    /// A batch that copies what is appended to it; for tests and slow sources.
    pub fn from_datagrams<'a>(datagrams: impl IntoIterator<Item = (&'a [u8], Origin)>) -> Batch {
        let mut batch = Batch::with_slots(0, 0);
        for (bytes, origin) in datagrams {
            batch.append(bytes, origin, 0, Edge::Datagram);
        }
        batch
    }

    /// Forgets the trains, keeps the memory and the number.
    pub fn clear(&mut self) {
        self.trains.clear();
        self.to.clear();
        self.dropped.clear();
        self.apart = false;
        self.flush = None;
        self.stream = None;
    }

    /// Gives up its own memory if it has grown above so many bytes, for sources whose chunks differ much in length; the batch must be
    /// empty.
    pub fn release_above(&mut self, bytes: usize) {
        debug_assert!(self.is_empty(), "its trains lie in the memory");
        if let Memory::Slots(slots) = &mut self.memory
            && slots.len() > bytes
        {
            *slots = Box::default();
        }
    }

    /// All its trains are of this stream.
    pub fn set_stream(&mut self, stream: Arc<StreamCredit>) {
        self.stream = Some(stream);
    }

    /// The stream that all its trains are of; `None`: the source has no streams, or they are mixed.
    #[inline]
    pub fn stream(&self) -> Option<&Arc<StreamCredit>> {
        self.stream.as_ref()
    }

    /// Gives it the number that it has if its source fills it: the pipeline's business. It stays when the batch is cleared.
    #[inline]
    pub fn set_number(&mut self, number: BatchNumber) {
        self.number = number;
    }

    /// Its number.
    #[inline]
    pub fn number(&self) -> BatchNumber {
        self.number
    }

    /// Makes it a flush instead of trains: the decoder processes what waits in it.
    pub fn set_flush(&mut self, reason: Flush) {
        self.flush = Some(reason);
    }

    /// See [`Batch::set_flush`].
    #[inline]
    pub fn flush(&self) -> Option<Flush> {
        self.flush
    }

    /// Own memory for a receiver to fill. Empty if the batch looks at shared memory.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Slots(slots) => slots,
            Memory::Shared(_) => &mut [],
        }
    }

    /// Makes the batch refer to shared memory (a preloaded capture); removes its trains.
    pub fn share(&mut self, memory: &Arc<[u8]>) {
        self.clear();
        if !matches!(&self.memory, Memory::Shared(m) if Arc::ptr_eq(m, memory)) {
            self.memory = Memory::Shared(memory.clone());
        }
    }

    /// The shared memory that its trains lie in, for those who keep some of the bytes; `None`: they lie in its own.
    #[inline]
    pub fn shared(&self) -> Option<&Arc<[u8]>> {
        match &self.memory {
            Memory::Slots(_) => None,
            Memory::Shared(memory) => Some(memory),
        }
    }

    /// Adds a train that lies in the memory.
    ///
    /// # Panics
    /// If the range is outside the memory: the caller filled it and knows.
    #[inline]
    pub fn push(&mut self, meta: TrainMeta) {
        assert!(meta.start + meta.len <= self.memory().len(), "train outside the batch");
        self.trains.push(meta);
    }

    /// As [`Batch::push`], with the address and port that the train was sent to: a source that was asked
    /// for them says it of each train of a batch, any other of none.
    ///
    /// # Panics
    /// As there.
    #[inline]
    pub fn push_to(&mut self, meta: TrainMeta, to: Origin) {
        self.push(meta);
        self.to.push(to);
    }

    /// Where the trains were sent to, in the same order; empty unless the source was asked for it.
    #[inline]
    pub fn destinations(&self) -> &[Origin] {
        &self.to
    }

    /// The kernel dropped this many trains before it queued the one that is pushed next. Only sources that
    /// learn this train by train call it, so it proves a loss at this place of the stream.
    pub fn note_dropped(&mut self, trains: u32) {
        if trains > 0 {
            self.dropped.push(Dropped { before: self.trains.len(), trains });
        }
    }

    /// What the kernel dropped between the trains, in the same order.
    #[inline]
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// Recorded streams are read one after the other (the partitions of a topic): the order of the trains says nothing about
    /// which of two senders' packets came first.
    pub fn read_apart(&mut self, apart: bool) {
        self.apart = apart;
    }

    /// See [`Batch::read_apart`].
    pub fn is_apart(&self) -> bool {
        self.apart
    }

    /// Copies one chunk after the last train, growing the memory if needed.
    pub fn append(&mut self, bytes: &[u8], origin: Origin, time_ns: i64, edge: Edge) {
        self.append_joined([bytes, &[]], origin, time_ns, edge);
    }

    /// As [`Batch::append`], one chunk of two parts.
    pub fn append_joined(&mut self, parts: [&[u8]; 2], origin: Origin, time_ns: i64, edge: Edge) {
        let start = self.trains.last().map_or(0, |t| t.start + t.len);
        let middle = start + parts[0].len();
        let end = middle + parts[1].len();
        let mut own = match std::mem::replace(&mut self.memory, Memory::Slots(Box::default())) {
            Memory::Slots(slots) => slots.into_vec(),
            Memory::Shared(m) => m.to_vec(),
        };
        if own.len() < end {
            own.resize(end.next_power_of_two(), 0);
        }
        own[start..middle].copy_from_slice(parts[0]);
        own[middle..end].copy_from_slice(parts[1]);
        self.memory = Memory::Slots(own.into_boxed_slice());
        let len = end - start;
        self.trains.push(TrainMeta { start, len, stride: 0, origin, time_ns, edge });
    }

    fn memory(&self) -> &[u8] {
        match &self.memory {
            Memory::Slots(slots) => slots,
            Memory::Shared(m) => m,
        }
    }

    /// The trains in order of arrival.
    #[inline]
    pub fn trains(&self) -> impl ExactSizeIterator<Item = Train<'_>> + Clone {
        let memory = self.memory();
        self.trains.iter().map(move |t| Train {
            bytes: &memory[t.start..t.start + t.len],
            stride: t.stride,
            origin: t.origin,
            time_ns: t.time_ns,
            edge: t.edge,
        })
    }

    /// Trains of unknown arrival came now, ns since 1970.
    pub fn stamp(&mut self, now_ns: i64) {
        for train in self.trains.iter_mut().filter(|train| train.time_ns == 0) {
            train.time_ns = now_ns;
        }
    }

    /// True if nothing was received.
    pub fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    /// Chunks in all trains.
    pub fn count(&self) -> u64 {
        self.trains().map(|t| t.count() as u64).sum()
    }

    /// Payload bytes in all trains.
    pub fn bytes(&self) -> u64 {
        self.trains.iter().map(|t| t.len as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_was_large_once_gives_its_memory_up() {
        let mut batch = Batch::with_slots(1, 64);
        batch.append_joined([&[1; 100], &[2; 50]], Origin::NONE, 0, Edge::Heap);
        let joined = [[1; 100].as_slice(), &[2; 50]].concat();
        assert!(batch.trains().map(|train| train.bytes).eq([&joined[..]]));
        batch.clear();
        batch.release_above(256);
        assert_eq!(batch.memory_mut().len(), 256);
        batch.release_above(255);
        assert_eq!(batch.memory_mut().len(), 0);
        batch.append(&[3], Origin::NONE, 0, Edge::Heap);
        assert_eq!(batch.bytes(), 1);
    }

    #[test]
    fn a_train_splits_by_stride_with_a_short_last_chunk() {
        let t = Train {
            bytes: &[1, 2, 3, 4, 5],
            stride: 2,
            origin: Origin::NONE,
            time_ns: 0,
            edge: Edge::Datagram,
        };
        let lens: Vec<usize> = t.chunks().map(<[u8]>::len).collect();
        assert_eq!((t.count(), lens), (3, vec![2, 2, 1]));
    }

    #[test]
    fn an_exact_multiple_has_no_empty_tail_and_an_empty_datagram_is_one_chunk() {
        let mut t = Train {
            bytes: &[1, 2, 3, 4],
            stride: 2,
            origin: Origin::NONE,
            time_ns: 0,
            edge: Edge::Datagram,
        };
        assert_eq!((t.count(), t.chunks().count()), (2, 2));
        t.bytes = &[];
        assert_eq!((t.count(), t.chunks().count()), (1, 1));
        t.stride = 0;
        assert_eq!((t.count(), t.chunks().count()), (1, 1));
    }

    #[test]
    fn appended_chunks_keep_their_bytes() {
        let b = Batch::from_datagrams([(&b"abc"[..], Origin::NONE), (&b""[..], Origin::NONE)]);
        let all: Vec<&[u8]> = b.trains().flat_map(|t| t.chunks()).collect();
        assert_eq!(all, vec![&b"abc"[..], &b""[..]]);
        assert_eq!((b.count(), b.bytes()), (2, 3));
    }

    #[test]
    fn destinations_are_told_of_every_train_and_forgotten_with_them() {
        let mut b = Batch::with_slots(2, 4);
        let to = Origin { port: 9000, ..Origin::NONE };
        b.push_to(TrainMeta { len: 4, ..TrainMeta::default() }, to);
        assert_eq!((b.destinations(), b.trains().len()), (&[to][..], 1));
        b.clear();
        b.push(TrainMeta { len: 4, ..TrainMeta::default() });
        assert!(b.destinations().is_empty());
    }

    #[test]
    fn drops_stand_before_the_train_that_came_behind_them() {
        let mut b = Batch::with_slots(2, 4);
        b.note_dropped(0);
        b.push(TrainMeta { len: 4, ..TrainMeta::default() });
        b.note_dropped(7);
        b.push(TrainMeta { len: 4, ..TrainMeta::default() });
        assert_eq!(b.dropped(), [Dropped { before: 1, trains: 7 }]);
        b.clear();
        assert!(b.dropped().is_empty());
    }

    #[test]
    fn origins_print_as_people_write_them() {
        let o = Origin::from("192.0.2.7:9000".parse::<SocketAddr>().unwrap());
        assert_eq!(o.to_string(), "192.0.2.7:9000");
        assert!(!o.is_ipv6() && !Origin::NONE.is_ipv6());
        let o = Origin::from("[2001:db8::1]:1".parse::<SocketAddr>().unwrap());
        assert_eq!(o.to_string(), "[2001:db8::1]:1");
        assert!(o.is_ipv6());
    }
}
