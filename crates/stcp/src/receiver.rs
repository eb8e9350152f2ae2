//! A receiver for simulations: the receiving half of RFC 793 with the habits of Linux. It knows which bytes came, not what they were.
//!
//! It acknowledges what comes in order with every second segment or after a delay, and anything else at once; keeps what
//! comes out of order; offers a window of fixed size less what its reader left; answers probes at once. A RST counts at
//! the exact number only, and draws a challenge elsewhere. Refuses: nothing; what does not fit is dropped and counted.
//! Source: docs/stcp.md, "The receiver of the simulations".

use crate::sender::Outbound;
use crate::seq;
use crate::wire::{Inbound, TcpFlags};

/// What a receiver is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverSetup {
    /// Room for what was not read, bytes.
    pub buffer: u32,
    /// Window scale in its SYN+ACK.
    pub scale: u8,
    /// MSS in its SYN+ACK.
    pub mss: u16,
    /// Its initial sequence number.
    pub iss: u32,
    /// Longest delay of an ACK, ns.
    pub ack_delay_ns: u64,
    /// Reads at once, or with [`ModelReceiver::read`] only.
    pub reads: bool,
}

impl Default for ReceiverSetup {
    fn default() -> ReceiverSetup {
        ReceiverSetup {
            buffer: 4 << 20,
            scale: 10,
            mss: 8960,
            iss: 0x5eed_0000,
            ack_delay_ns: 200_000,
            reads: true,
        }
    }
}

/// One end that receives, with room for `HOLES` gaps.
#[derive(Debug, Clone)]
pub struct ModelReceiver<const HOLES: usize> {
    setup: ReceiverSetup,
    /// The sender's initial number, once its SYN came.
    irs: Option<u32>,
    /// Offset of the next byte in order.
    next: u64,
    /// Read up to here.
    read: u64,
    /// Parts behind a gap, in order, apart from each other.
    parts: [(u64, u64); HOLES],
    parts_len: usize,
    /// Segments in order that are not acknowledged.
    owed: u8,
    ack_at: u64,
    reset: bool,
    /// Segments with nothing new.
    pub duplicates: u64,
    /// Segments that did not fit window or gaps.
    pub dropped: u64,
}

impl<const HOLES: usize> ModelReceiver<HOLES> {
    /// Listens.
    pub fn new(setup: ReceiverSetup) -> ModelReceiver<HOLES> {
        ModelReceiver {
            setup,
            irs: None,
            next: 0,
            read: 0,
            parts: [(0, 0); HOLES],
            parts_len: 0,
            owed: 0,
            ack_at: u64::MAX,
            reset: false,
            duplicates: 0,
            dropped: 0,
        }
    }

    /// Bytes in order so far.
    pub fn in_order(&self) -> u64 {
        self.next
    }

    /// The sender reset the connection.
    pub fn is_reset(&self) -> bool {
        self.reset
    }

    /// When [`ModelReceiver::tick`] has an ACK, ns.
    pub fn deadline(&self) -> Option<u64> {
        (self.ack_at != u64::MAX).then_some(self.ack_at)
    }

    /// Bytes that it takes beyond what is in order.
    pub fn window(&self) -> u64 {
        let read = if self.setup.reads { self.next } else { self.read };
        read + u64::from(self.setup.buffer) - self.next
    }

    /// Reads up to `bytes`; gives the window update if the window grew by two segments or half the buffer.
    pub fn read(&mut self, bytes: u64) -> Option<Inbound> {
        let before = self.window();
        self.read = (self.read + bytes).min(self.next);
        let grown = self.window() - before;
        let worth = u64::from(self.setup.buffer / 2).min(2 * u64::from(self.setup.mss));
        (grown > 0 && (grown >= worth || before < worth) && self.irs.is_some() && !self.reset)
            .then(|| self.ack())
    }

    /// A delayed ACK that is due.
    pub fn tick(&mut self, now_ns: u64) -> Option<Inbound> {
        (self.ack_at <= now_ns).then(|| self.ack())
    }

    fn number(&self, offset: u64) -> u32 {
        self.irs.unwrap_or(0).wrapping_add(1).wrapping_add(offset as u32)
    }

    /// The ACK as of now.
    pub fn ack(&mut self) -> Inbound {
        self.owed = 0;
        self.ack_at = u64::MAX;
        let window = (self.window() >> self.setup.scale).min(65535) as u16;
        Inbound {
            seq: self.setup.iss.wrapping_add(1),
            ack: self.number(self.next),
            flags: TcpFlags::ACK,
            window,
            ..Inbound::default()
        }
    }

    /// A segment came; the answer leaves at once.
    pub fn receive(&mut self, now_ns: u64, s: &Outbound) -> Option<Inbound> {
        if s.flags.has(TcpFlags::RST) {
            self.irs?;
            self.reset |= s.seq == self.number(self.next);
            return match self.reset {
                true => None,
                false => Some(self.ack()),
            };
        }
        if self.reset {
            return Some(Inbound { seq: s.ack, flags: TcpFlags::RST, ..Inbound::default() });
        }
        if s.flags.has(TcpFlags::SYN) {
            return Some(self.syn(s));
        }
        self.irs?;
        if s.length == 0 {
            return None;
        }
        let Some(from) = seq::offset(s.seq, self.next, self.number(self.next)) else {
            // The garbage byte of a keep-alive at the very beginning.
            return Some(self.ack());
        };
        self.data(now_ns, from, from + u64::from(s.length), s.mss)
    }

    fn syn(&mut self, s: &Outbound) -> Inbound {
        if self.irs.is_some_and(|irs| irs != s.seq) {
            return self.ack();
        }
        self.irs = Some(s.seq);
        Inbound {
            seq: self.setup.iss,
            ack: s.seq.wrapping_add(1),
            flags: TcpFlags::SYN.and(TcpFlags::ACK),
            window: self.window().min(65535) as u16,
            length: 0,
            mss: Some(self.setup.mss),
            scale: Some(self.setup.scale),
        }
    }

    fn data(&mut self, now_ns: u64, from: u64, to: u64, mss: u16) -> Option<Inbound> {
        let edge = self.next + self.window();
        if to > edge {
            self.dropped += 1;
        }
        let to = to.min(edge);
        if to <= self.next || from >= edge {
            self.duplicates += u64::from(to <= self.next);
            return Some(self.ack());
        }
        let ordered = from <= self.next && self.parts_len == 0;
        if !self.keep(from.max(self.next), to) {
            self.dropped += 1;
        }
        let short = to - from < u64::from(mss);
        self.owed += 1;
        if !ordered || short || self.owed >= 2 {
            return Some(self.ack());
        }
        if self.ack_at == u64::MAX {
            self.ack_at = now_ns + self.setup.ack_delay_ns;
        }
        None
    }

    /// Keeps a part, joined with those that it touches; false: no place.
    fn keep(&mut self, mut from: u64, mut to: u64) -> bool {
        let parts = &mut self.parts[..self.parts_len];
        let first = parts.partition_point(|p| p.1 < from);
        let last = parts.partition_point(|p| p.0 <= to);
        if first < last {
            from = from.min(parts[first].0);
            to = to.max(parts[last - 1].1);
        }
        if from <= self.next {
            self.next = self.next.max(to);
            self.parts.copy_within(last..self.parts_len, 0);
            self.parts_len -= last;
            return true;
        }
        match first < last {
            true => {
                self.parts[first] = (from, to);
                self.parts.copy_within(last..self.parts_len, first + 1);
                self.parts_len -= last - first - 1;
                true
            }
            false if self.parts_len < HOLES => {
                self.parts.copy_within(first..self.parts_len, first + 1);
                self.parts[first] = (from, to);
                self.parts_len += 1;
                true
            }
            false => false,
        }
    }
}
