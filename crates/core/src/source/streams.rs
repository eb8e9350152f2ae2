//! Streams that a source reads one by one, and how far each may be read: back-pressure for single streams.
//!
//! A source with connections gives this table ([`super::Source::streams`]) to whoever decodes its bytes
//! ([`crate::detector::Decoder::govern`]). Each stream has a credit in bytes of packets handed on. Without credit the source
//! leaves its bytes in the kernel, whose window closes, and the sender waits. The source says when a peer hangs up; the decoder may
//! refuse a stream. All of it is atomic numbers, looked at once a batch. A batch holds packets of one stream and carries its credit.
//! Source: `docs/fragments.md`, "Back-pressure".

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::sync::{Arc, OnceLock};

use crate::batch::Origin;

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StreamPhase {
    /// Connected.
    Open,
    /// The peer has hung up; bytes may still wait in the kernel.
    HungUp,
    /// Nothing more comes: all its packets have been handed on.
    Closed,
}

/// One stream, seen from both sides.
#[derive(Debug)]
pub struct StreamCredit {
    number: u32,
    origin: Origin,
    /// Bytes of packets up to which it may be read, counted from its beginning.
    allowed: AtomicU64,
    /// The next event waits for what follows so many bytes.
    awaited: AtomicU64,
    phase: AtomicU8,
    refused: AtomicBool,
    /// Why, in words.
    refusal: OnceLock<String>,
    /// Bytes of all its packets, once it is closed.
    total: AtomicU64,
}

impl StreamCredit {
    /// See [`StreamCredit::await_behind`].
    pub const AHEAD: u64 = 0;

    /// Its number, from 1: no two streams of a source ever have the same.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The peer.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// It may be read until `bytes` of packets have been handed on since its beginning. Less than before is possible: what was
    /// read by then still comes.
    pub fn allow(&self, bytes: u64) {
        self.allowed.store(bytes, Release);
    }

    /// See [`StreamCredit::allow`]; a stream that nobody governs may be read without end.
    #[inline]
    pub fn allowed(&self) -> u64 {
        self.allowed.load(Acquire)
    }

    /// The next event waits for what this stream gives behind so many bytes of packets: the source reads it before others.
    /// [`StreamCredit::AHEAD`]: no event waits for it.
    pub fn await_behind(&self, bytes: u64) {
        self.awaited.store(bytes, Relaxed);
    }

    /// True if the next event waits for the stream, of which `handed` bytes have been handed on; also if nobody said so.
    #[inline]
    pub fn is_awaited(&self, handed: u64) -> bool {
        handed <= self.awaited.load(Relaxed)
    }

    /// Nobody wants its bytes: the source closes it and says why. The first reason stands.
    pub fn refuse(&self, why: &str) {
        let _ = self.refusal.set(why.to_owned());
        self.refused.store(true, Release);
    }

    /// See [`StreamCredit::refuse`].
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.refused.load(Acquire)
    }

    /// Why it was refused.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// How far it is.
    #[inline]
    pub fn phase(&self) -> StreamPhase {
        match self.phase.load(Acquire) {
            0 => StreamPhase::Open,
            1 => StreamPhase::HungUp,
            _ => StreamPhase::Closed,
        }
    }

    /// The peer has hung up: the source's word.
    pub fn hung_up(&self) {
        self.phase.fetch_max(StreamPhase::HungUp as u8, Release);
    }

    /// It is closed, and so many bytes of packets were handed on: the source's word.
    pub fn close(&self, total: u64) {
        self.total.store(total, Relaxed);
        self.phase.fetch_max(StreamPhase::Closed as u8, Release);
    }

    /// Bytes of all its packets: known once it is closed. Some of them may still be on their way to the decoder.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }
}

/// What holds for all streams of one source.
#[derive(Debug)]
pub struct StreamTable {
    /// Credit of a stream at its beginning.
    first: AtomicU64,
}

impl Default for StreamTable {
    fn default() -> Self {
        StreamTable { first: AtomicU64::new(u64::MAX) }
    }
}

impl StreamTable {
    /// Streams begin with so many bytes: for a decoder that governs them.
    pub fn begin_with(&self, bytes: u64) {
        self.first.store(bytes, Relaxed);
    }

    /// A stream begins: the source's word. Its batches carry what is returned ([`crate::batch::Batch::stream`]).
    pub fn open(&self, number: u32, origin: Origin) -> Arc<StreamCredit> {
        Arc::new(StreamCredit {
            number,
            origin,
            allowed: AtomicU64::new(self.first.load(Relaxed)),
            awaited: AtomicU64::new(u64::MAX),
            phase: AtomicU8::new(StreamPhase::Open as u8),
            refused: AtomicBool::new(false),
            refusal: OnceLock::new(),
            total: AtomicU64::new(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_seen_alike_from_both_sides() {
        let (table, origin) = (StreamTable::default(), Origin { port: 7, ..Origin::NONE });
        let first = table.open(1, origin);
        assert_eq!((first.allowed(), first.phase()), (u64::MAX, StreamPhase::Open));
        first.close(12);
        first.hung_up();
        assert_eq!((first.phase(), first.total()), (StreamPhase::Closed, 12));
        table.begin_with(10);
        let second = table.open(2, origin);
        assert_eq!((second.number(), second.allowed(), second.is_refused()), (2, 10, false));
        let seen = second.clone();
        second.allow(20);
        second.refuse("source 3 is not known");
        second.refuse("again");
        assert!(seen.is_refused() && seen.allowed() == 20);
        assert!(seen.is_awaited(9));
        second.await_behind(9);
        assert!(seen.is_awaited(9) && !seen.is_awaited(10));
        second.await_behind(StreamCredit::AHEAD);
        assert!(!seen.is_awaited(9));
        assert_eq!(seen.refusal(), Some("source 3 is not known"));
    }
}
