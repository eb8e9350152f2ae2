//! One lane of a destination `stcp`: packets from its ring go to its streams in turn, and its source holds while these are busy.
//!
//! A stream is busy from the call that passes its high mark until its low mark. A busy one is passed over; when all that are left are
//! busy, [`Hold`] is up before that call returns, and the source gives nothing more until one of them is ready. What it gave before stays in
//! the ring, so nothing is lost. Source: docs/stcp.md, "`send --to stcp://`".

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

use fullcount_core::ledger::Sheet;
use fullcount_stcp::{Pressure, SubmitError};
use rtrb::Consumer;

use super::RawLink;
use super::counters::StcpSending;

/// Bytes that a lane hands over before the link has its turn.
const PORTION: usize = 256 << 10;
/// Bytes in front of each packet in a ring.
pub(super) const LENGTH: usize = 4;

/// What the source of a lane sees of its streams.
#[derive(Debug)]
pub(super) struct Hold {
    begun: Instant,
    /// While it is up: when it was raised, ns from `begun`, no two times alike; 0 while it is down. One word, so that the source never
    /// takes the time of another hold for that of the one it sees.
    raised_ns: AtomicU64,
    /// Acknowledged so far while it is up: the other side is slow and not dead.
    moved: AtomicU64,
}

impl Hold {
    pub fn new() -> Hold {
        Hold { begun: Instant::now(), raised_ns: AtomicU64::new(0), moved: AtomicU64::new(0) }
    }

    /// While the source is to give nothing: since when, on the clock of [`Hold::now_ns`]. Each hold has another time.
    pub fn raised_ns(&self) -> Option<u64> {
        Some(self.raised_ns.load(Acquire)).filter(|&ns| ns > 0)
    }

    /// Time of its own clock, ns: that of the link is looked at too seldom to measure how soon the source sees something.
    pub fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Changes while the streams still get rid of something.
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }
}

/// One lane: its packets with their lengths in front, and the streams that they go to in turn.
pub(super) struct Lane {
    ring: Consumer<u8>,
    streams: Vec<usize>,
    turn: usize,
    scratch: Vec<u8>,
    hold: Arc<Hold>,
    /// Since when it is up, ns of the link.
    since: Option<u64>,
    /// When it was raised last, ns of its own clock.
    raised_ns: u64,
}

/// What became of a packet.
enum Given {
    /// The call that took it passed the high mark of its stream, or it did not.
    Taken { busy: bool },
    /// All streams that are left are busy.
    Full,
    /// All its streams have ended.
    Nobody,
}

/// Gives a packet to the next stream that takes it: one that is busy is passed over, and so is one that has ended.
fn give(
    link: &mut RawLink,
    streams: &[usize],
    turn: &mut usize,
    packet: &[u8],
) -> Result<Given, SubmitError> {
    let mut given = Given::Nobody;
    for _ in streams {
        let at = streams[*turn];
        *turn = (*turn + 1) % streams.len();
        if link.stream(at).sender().pressure() == Pressure::Busy {
            given = Given::Full;
            continue;
        }
        match link.submit(at, packet) {
            Ok(accepted) => return Ok(Given::Taken { busy: accepted.pressure == Pressure::Busy }),
            Err(SubmitError::WouldBlock) => given = Given::Full,
            Err(SubmitError::NotConnected) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(given)
}

impl Lane {
    pub fn new(ring: Consumer<u8>, streams: Vec<usize>, hold: Arc<Hold>) -> Lane {
        Lane { ring, streams, turn: 0, scratch: vec![], hold, since: None, raised_ns: 0 }
    }

    /// Nothing waits in its ring.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Hands packets over, up to a portion; true: the ring may hold more.
    pub fn hand_over(&mut self, link: &mut RawLink, sheet: &Sheet) -> Result<bool, SubmitError> {
        if self.holds(link, sheet) {
            return Ok(false);
        }
        let mut left = PORTION;
        loop {
            let waiting = self.ring.slots();
            let Ok(head) = self.ring.read_chunk(LENGTH) else { return Ok(false) };
            let length = four(head.as_slices());
            // A packet comes with its length in one piece, or not at all.
            if waiting < LENGTH + length {
                return Ok(false);
            }
            // One that is longer than a portion leaves alone.
            if length > left && left < PORTION {
                return Ok(true);
            }
            let Ok(chunk) = self.ring.read_chunk(LENGTH + length) else { return Ok(false) };
            let (first, second) = chunk.as_slices();
            let taken = match first.get(LENGTH..).filter(|_| second.is_empty()) {
                Some(whole) => give(link, &self.streams, &mut self.turn, whole),
                None => {
                    self.scratch.clear();
                    self.scratch.extend_from_slice(first);
                    self.scratch.extend_from_slice(second);
                    give(link, &self.streams, &mut self.turn, &self.scratch[LENGTH..])
                }
            };
            let (line, busy) = match taken? {
                Given::Taken { busy } => (StcpSending::Packets, busy),
                Given::Nobody => (StcpSending::Lost, false),
                Given::Full => {
                    // Longer than the room of streams that are not busy: they are now.
                    sheet.add(StcpSending::Waited as usize, 1);
                    self.raise(link.clock, sheet);
                    return Ok(false);
                }
            };
            chunk.commit_all();
            sheet.add(line as usize, 1);
            if busy && self.all_busy(link) {
                self.raise(link.clock, sheet);
                return Ok(false);
            }
            left -= length.min(left);
        }
    }

    /// Streams are left, and each of them is busy.
    fn all_busy(&self, link: &RawLink) -> bool {
        let mut busy = false;
        for &at in &self.streams {
            match link.stream(at).sender().pressure() {
                Pressure::Busy => busy = true,
                Pressure::Error => {}
                Pressure::Ready | Pressure::Warning => return false,
            }
        }
        busy
    }

    /// Still held? If its streams are ready again, it is not any more.
    fn holds(&mut self, link: &RawLink, sheet: &Sheet) -> bool {
        if self.since.is_none() {
            return false;
        }
        if self.all_busy(link) {
            let gone = self.streams.iter().map(|&at| link.stream(at).sender().snapshot().una).sum();
            self.hold.moved.store(gone, Relaxed);
            return true;
        }
        self.release(link.clock, sheet);
        false
    }

    /// The source is to hold.
    pub fn raise(&mut self, now_ns: u64, sheet: &Sheet) {
        if self.since.is_none() {
            self.since = Some(now_ns);
            // Counted first: the source must not have seen more of them than there were.
            sheet.add(StcpSending::Held as usize, 1);
            self.raised_ns = self.hold.now_ns().max(self.raised_ns + 1);
            self.hold.raised_ns.store(self.raised_ns, Release);
        }
    }

    /// The source may go on.
    pub fn release(&mut self, now_ns: u64, sheet: &Sheet) {
        if let Some(since) = self.since.take() {
            sheet.add(StcpSending::HeldTime as usize, now_ns.saturating_sub(since));
            self.hold.raised_ns.store(0, Release);
        }
    }

    /// What nobody takes any more, because the link has ended: so many packets.
    pub fn discard(&mut self) -> u64 {
        let mut packets = 0;
        loop {
            let waiting = self.ring.slots();
            let Ok(head) = self.ring.read_chunk(LENGTH) else { return packets };
            let length = LENGTH + four(head.as_slices());
            match self.ring.read_chunk(length) {
                Ok(chunk) if waiting >= length => chunk.commit_all(),
                _ => return packets,
            }
            packets += 1;
        }
    }
}

fn four((first, second): (&[u8], &[u8])) -> usize {
    let mut bytes = [0; LENGTH];
    let both = first.iter().chain(second);
    bytes.iter_mut().zip(both).for_each(|(to, from)| *to = *from);
    u32::from_le_bytes(bytes) as usize
}
