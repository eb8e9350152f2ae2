//! One connection: reads into shared memory, cuts, and keeps the beginning of a packet for the next read.
//!
//! Only that beginning is copied, at most half a read. A packet longer than that is gathered by itself first. Where a read
//! brings less than half of its memory, the bytes move into a smaller piece, so that a builder that keeps them keeps little more.

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
        let mut slab = memory.take(reading.read);
        let Some(bytes) = Arc::get_mut(&mut slab) else { return Got::Nothing };
        let begun = self.tail.len();
        bytes[..begun].copy_from_slice(&self.tail);
        let came = match self.fill(&mut bytes[begun..reading.read]) {
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
        self.hand_on(batch, memory, reading, time_ns, slab, begun + came)
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
