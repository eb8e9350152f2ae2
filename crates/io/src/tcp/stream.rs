//! One connection: reads into shared memory, cuts, and keeps the beginning of a packet for the next read.
//!
//! Only that beginning is copied, at most half a read. A packet longer than that is gathered by itself first. Where a read
//! brings less than half of its memory, the bytes move into a smaller piece, so that a builder that keeps them keeps little more.
//! Reads double up to `read` while they are full: the kernel then answers the sender less often, and the bytes are longer out of a
//! cache. With reads of 512 KiB the readout unit of 16 streams has 0.94 (bbr) and 0.84 (cubic) of the fastest discarding reader
//! (docs/results/stcp-readout.md, stcp-readout-cubic-512k.md); `lab stcp readout --read` measures other sizes.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use fullcount_core::batch::{Batch, Origin, TrainMeta};
use fullcount_core::source::{FrameFault, FrameRule, StreamCredit};

use super::cut::{CutReport, cut};
use super::memory::Memory;

/// How streams are read; the same for all of a source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub rule: FrameRule,
    /// Longest frame, bytes.
    pub most: usize,
    /// Longest read, bytes; a power of two.
    pub read: usize,
    /// Longest read now, bytes; a power of two. See [`Reading::shared_by`].
    pub share: usize,
}

/// A first read, and what each may always have, bytes.
const FIRST_READ: usize = 256 << 10;
/// What reads of all streams have together, bytes, unless each is of [`FIRST_READ`]: half of a third-level cache.
const ALL_READS: usize = 16 << 20;

impl Reading {
    /// While `streams` are open.
    pub fn shared_by(&mut self, streams: usize) {
        let share = ALL_READS / streams.max(1);
        self.share = (1 << share.max(FIRST_READ).ilog2()).min(self.read);
    }
}

/// Why a stream is over.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// The peer said so.
    Orderly,
    /// The system's words.
    Broken(std::io::Error),
    /// What came is no packet.
    Fault(FrameFault),
    /// The decoder does not want it.
    Unwanted,
}

/// What a call brought.
#[derive(Debug)]
pub(super) enum Got {
    /// Packets, in the batch.
    Data(CutReport),
    /// No whole packet.
    Nothing,
    /// It is over; nothing of it is in the batch.
    End(StreamEnd),
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing to read: the kernel will tell.
    Quiet,
    /// In the queue of those that have something.
    Queued,
    /// Has something and no credit, since then.
    Paused(Instant),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub socket: TcpStream,
    pub credit: Arc<StreamCredit>,
    pub origin: Origin,
    pub standing: Standing,
    /// The peer sends no more: reads go on until the end is seen.
    pub hung_up: bool,
    /// Bytes of packets handed on.
    pub handed: u64,
    /// Bytes read.
    pub received: u64,
    /// When bytes last came.
    pub heard: Instant,
    pub stalled: bool,
    /// Beginning of the next packet.
    tail: Vec<u8>,
    /// Length of that packet, if it is a long one.
    long: Option<usize>,
    /// Bytes of the next read and of `tail`; a power of two.
    next_read: usize,
    /// What ends it once its good packets have gone.
    fault: Option<FrameFault>,
    /// Nothing more was there at the last read.
    pub drained: bool,
}

impl Connection {
    pub fn new(socket: TcpStream, credit: Arc<StreamCredit>, now: Instant) -> Connection {
        Connection {
            socket,
            origin: credit.origin(),
            credit,
            standing: Standing::Quiet,
            hung_up: false,
            handed: 0,
            received: 0,
            heard: now,
            stalled: false,
            tail: Vec::new(),
            long: None,
            next_read: FIRST_READ,
            fault: None,
            drained: true,
        }
    }

    /// Bytes of a packet that is not whole.
    pub fn begun(&self) -> usize {
        self.tail.len()
    }

    /// True if it needs no turn until the kernel tells of it.
    pub fn is_quiet(&self) -> bool {
        self.drained && self.fault.is_none()
    }

    /// True if it may be read now.
    pub fn has_credit(&self) -> bool {
        self.handed < self.credit.allowed() || self.credit.is_refused()
    }

    /// True if it is read before those that are ahead.
    pub fn is_first(&self) -> bool {
        self.credit.is_awaited(self.handed) || self.credit.is_refused()
    }

    /// Reads once into `into`; `None` with nothing there.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize, StreamEnd> {
        loop {
            match self.socket.read(into) {
                Ok(0) => return Err(StreamEnd::Orderly),
                Ok(n) => {
                    // Told of once: less than asked for means that no more was there, unless an end waits behind it.
                    self.drained = n < into.len() && !self.hung_up;
                    self.received += n as u64;
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.drained = true;
                    return Ok(0);
                }
                Err(e) => return Err(StreamEnd::Broken(e)),
            }
        }
    }

    /// Reads once; packets go into the batch.
    pub fn read(
        &mut self,
        batch: &mut Batch,
        memory: &mut Memory,
        reading: &Reading,
        time_ns: i64,
    ) -> Got {
        if self.credit.is_refused() {
            return Got::End(StreamEnd::Unwanted);
        }
        if let Some(fault) = self.fault {
            return Got::End(StreamEnd::Fault(fault));
        }
        if let Some(whole) = self.long {
            return self.read_long(whole, batch, memory, reading, time_ns);
        }
        let begun = self.tail.len();
        let size = self.read_size(reading);
        let mut slab = memory.take(size);
        let Some(bytes) = Arc::get_mut(&mut slab) else { return Got::Nothing };
        bytes[..begun].copy_from_slice(&self.tail);
        let came = match self.fill(&mut bytes[begun..size]) {
            Ok(0) => {
                memory.give_back(slab);
                return Got::Nothing;
            }
            Ok(came) => came,
            Err(end) => {
                memory.give_back(slab);
                return Got::End(end);
            }
        };
        let filled = begun + came;
        // A full read is followed by a longer one; one that brought little by one that it would have filled.
        self.next_read = if filled == size { 2 * size } else { filled.next_power_of_two() };
        self.hand_on(batch, memory, reading, time_ns, slab, filled)
    }

    /// Bytes of memory for the next read: it has room for `tail` twice, and goes beyond the credit by [`FIRST_READ`] at most.
    fn read_size(&self, reading: &Reading) -> usize {
        let credit = self.credit.allowed().saturating_sub(self.handed);
        let credit = usize::try_from(credit).unwrap_or(usize::MAX).max(FIRST_READ);
        let most = reading.share.min(1 << credit.ilog2());
        let least = FIRST_READ.max(2 * self.tail.len().next_power_of_two());
        self.next_read.min(most).max(least).min(reading.read)
    }

    /// Cuts the first `filled` bytes of `slab`.
    fn hand_on(
        &mut self,
        batch: &mut Batch,
        memory: &mut Memory,
        reading: &Reading,
        time_ns: i64,
        slab: Arc<[u8]>,
        filled: usize,
    ) -> Got {
        // The trains go into the batch when it has its memory.
        memory.trains.clear();
        let push = |train: TrainMeta| memory.trains.push(train);
        let of = (self.origin, time_ns);
        let looked = cut(&slab[..filled], &reading.rule, reading.most, of, push);
        self.tail.clear();
        self.fault = looked.fault;
        if looked.fault.is_none() {
            self.tail.extend_from_slice(&slab[looked.used..filled]);
            self.long = looked.next.filter(|&next| next > reading.read / 2);
        }
        if looked.packets == 0 {
            memory.give_back(slab);
            return match looked.fault {
                Some(fault) => Got::End(StreamEnd::Fault(fault)),
                None => Got::Nothing,
            };
        }
        let slab = smaller(slab, looked.used, memory);
        batch.share(&slab);
        batch.set_stream(self.credit.clone());
        memory.trains.iter().for_each(|train| batch.push(*train));
        memory.give(slab);
        self.handed += looked.handed;
        Got::Data(looked)
    }

    /// A long packet is gathered as it comes, so that a length alone costs no memory.
    fn read_long(
        &mut self,
        whole: usize,
        batch: &mut Batch,
        memory: &mut Memory,
        reading: &Reading,
        time_ns: i64,
    ) -> Got {
        let mut tail = std::mem::take(&mut self.tail);
        let begun = tail.len();
        tail.resize(whole.min(begun + reading.read), 0);
        let came = self.fill(&mut tail[begun..]);
        tail.truncate(begun + came.as_ref().copied().unwrap_or(0));
        self.tail = tail;
        if let Err(end) = came {
            return Got::End(end);
        }
        if self.tail.len() < whole {
            return Got::Nothing;
        }
        let mut slab = memory.take(whole);
        let Some(bytes) = Arc::get_mut(&mut slab) else { return Got::Nothing };
        bytes[..whole].copy_from_slice(&self.tail);
        // One long packet may be followed by short ones: its memory is not kept.
        (self.tail, self.long) = (Vec::new(), None);
        self.hand_on(batch, memory, reading, time_ns, slab, whole)
    }
}

/// The first `used` bytes in memory that is at least half full.
fn smaller(slab: Arc<[u8]>, used: usize, memory: &mut Memory) -> Arc<[u8]> {
    if 2 * used > slab.len() {
        return slab;
    }
    let mut small = memory.take(used);
    let Some(bytes) = Arc::get_mut(&mut small).filter(|small| small.len() < slab.len()) else {
        memory.give_back(small);
        return slab;
    };
    bytes[..used].copy_from_slice(&slab[..used]);
    memory.give_back(slab);
    small
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use fullcount_core::source::StreamTable;

    use super::*;

    /// A connection of a table that allows so many bytes, and how it is read.
    fn connection(read: usize, allowed: u64) -> (Connection, Reading) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let credit = StreamTable::default().open(1, Origin::NONE);
        credit.allow(allowed);
        let rule = FrameRule::PREFIXES[2];
        let mut reading = Reading { rule, most: 1 << 20, read, share: 0 };
        reading.shared_by(1);
        (Connection::new(socket, credit, Instant::now()), reading)
    }

    #[test]
    fn full_reads_double_up_to_what_is_allowed() {
        let (mut stream, mut reading) = connection(4 << 20, u64::MAX);
        assert_eq!(stream.read_size(&reading), 256 << 10);
        (stream.next_read, stream.handed) = (8 << 20, 10 << 20);
        assert_eq!(stream.read_size(&reading), 4 << 20);
        // 20 streams share 16 MiB, 1,000 have 256 KiB each.
        reading.shared_by(20);
        assert_eq!(stream.read_size(&reading), 512 << 10);
        reading.shared_by(1000);
        assert_eq!(stream.read_size(&reading), 256 << 10);
        reading.shared_by(0);
        assert_eq!(stream.read_size(&reading), 4 << 20);
        // The credit has room for 1.5 MiB, then for 1 B.
        stream.credit.allow(stream.handed + (3 << 19));
        assert_eq!(stream.read_size(&reading), 1 << 20);
        stream.credit.allow(stream.handed + 1);
        assert_eq!(stream.read_size(&reading), 256 << 10);
    }

    #[test]
    fn a_read_has_room_for_what_has_begun_and_never_more_than_was_asked_for() {
        let (mut stream, mut reading) = connection(1 << 20, 1);
        reading.shared_by(1000);
        stream.tail = vec![0; 300 << 10];
        assert_eq!(stream.read_size(&reading), 1 << 20);
        let (mut stream, reading) = connection(16 << 10, u64::MAX);
        (stream.tail, stream.next_read) = (vec![0; 8 << 10], 1 << 20);
        assert_eq!(stream.read_size(&reading), 16 << 10);
    }

    #[test]
    fn a_read_that_brought_little_is_followed_by_a_short_one() {
        let (mut stream, reading) = connection(1 << 20, u64::MAX);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.socket = listener.accept().unwrap().0;
        stream.next_read = 1 << 20;
        std::io::Write::write_all(&mut peer, &[0, 0, 0, 1, 7]).unwrap();
        let (mut batch, mut memory) = (Batch::with_slots(0, 0), Memory::default());
        let got = stream.read(&mut batch, &mut memory, &reading, 0);
        assert!(matches!(got, Got::Data(CutReport { packets: 1, .. })), "{got:?}");
        assert_eq!((stream.next_read, stream.read_size(&reading)), (8, 256 << 10));
    }
}
