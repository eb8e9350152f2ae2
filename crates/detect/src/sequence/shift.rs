//! Moves numbered packets on, so that a capture can be sent again and again as one long run.
//!
//! Learnt in one pass: per stream (as the reader tells them apart), *numbers* and totals of end marks move by what the stream went on
//! to (its total, if two end marks agree, else the number expected next) minus its first number; the
//! *sender times* of all streams by the span of the capture plus the mean distance of two packets. So
//! no seam adds a loss or a copy, and what is wrong inside a pass is wrong in each. End marks stay and
//! their totals grow: each is true when it comes, and the packets behind it reopen the stream. A number
//! never goes back, and stops at the first one that the reader refuses. The pattern goes on with the
//! number, damaged bytes stay damaged.
//!
//! Refuses nothing: what the reader would refuse stays as it is, also packets of streams beyond
//! `max_streams`. Source: `docs/architecture.md`, contracts "`sequence` payload" and "pcap:".

use std::collections::HashMap;

use fullcount_core::batch::Origin;
use fullcount_core::sequence::{Seen, Start, Tracker};

use super::Options;
use super::key::Key;
use super::packet::{self, HEADER_BYTES, NUMBER_LIMIT, Payload};
use crate::detector::Shifter;

/// Packets at the head of a stream among which the first may have been overtaken: one GRO train.
const HEAD: u64 = 64;

/// One stream of the capture.
#[derive(Debug)]
struct Stream {
    tracker: Tracker,
    /// Lowest number at its head.
    begin: Option<u64>,
    /// Total of the newest end mark, and whether the one before said the same.
    total: Option<(u64, bool)>,
}

impl Stream {
    fn data(&mut self, number: u64) {
        let seen = self.tracker.observe(number);
        // As for the reader, packets behind end marks reopen a stream; a late one does not.
        if matches!(seen, Seen::New | Seen::Restarted) {
            self.total = None;
        }
        let begin = *self.begin.get_or_insert(number);
        if number < begin && begin - number <= HEAD && self.tracker.totals().received <= HEAD {
            self.begin = Some(number);
        }
    }

    fn end(&mut self, total: u64) {
        let again = self.total.is_some_and(|(before, _)| before == total);
        self.total = Some((total, again));
    }

    /// Numbers per pass.
    fn numbers(&self) -> u64 {
        let next = self.tracker.next();
        let total = self.total.filter(|&(_, agreed)| agreed).map_or(next, |(total, _)| total);
        total.max(next).saturating_sub(self.begin.unwrap_or(0))
    }
}

/// The rule of a capture, learnt in one pass.
pub(super) struct Moving {
    options: Options,
    streams: HashMap<Key, Stream>,
    /// Earliest and latest sender time, ns.
    span: Option<(u64, u64)>,
    /// Numbered packets.
    packets: u64,
}

impl Moving {
    pub fn new(options: Options) -> Moving {
        Moving { options, streams: HashMap::new(), span: None, packets: 0 }
    }

    fn find(&mut self, key: Key) -> Option<&mut Stream> {
        if !self.streams.contains_key(&key) {
            if self.streams.len() >= self.options.max_streams as usize {
                return None;
            }
            let tracker = Tracker::new(64, self.options.window, Start::AtFirst);
            self.streams.insert(key, Stream { tracker, begin: None, total: None });
        }
        self.streams.get_mut(&key)
    }

    /// Nanoseconds per pass.
    fn nanoseconds(&self) -> u64 {
        let Some((earliest, latest)) = self.span else { return 0 };
        let length = latest - earliest;
        length.wrapping_add((length / self.packets.saturating_sub(1).max(1)).max(1))
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], origin: Origin) {
        let apart = self.options.key.apart(origin);
        match packet::parse(payload) {
            Ok(Payload::Data { stream, number, sent_ns, .. }) => {
                let Some(stream) = self.find((apart, stream)) else { return };
                stream.data(number);
                self.packets += 1;
                let (earliest, latest) = self.span.unwrap_or((sent_ns, sent_ns));
                self.span = Some((earliest.min(sent_ns), latest.max(sent_ns)));
            }
            Ok(Payload::End { stream, total }) => {
                if let Some(stream) = self.find((apart, stream)) {
                    stream.end(total);
                }
            }
            Err(_) => {}
        }
    }

    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        let Ok(said) = packet::parse(payload) else { return };
        let (Payload::Data { stream, .. } | Payload::End { stream, .. }) = said;
        let key = (self.options.key.apart(origin), stream);
        let Some(stream) = self.streams.get(&key) else { return };
        let by = repetition.saturating_mul(stream.numbers());
        match said {
            Payload::Data { number, sent_ns, .. } => {
                let moved = number.saturating_add(by).min(NUMBER_LIMIT);
                let time = sent_ns.wrapping_add(repetition.wrapping_mul(self.nanoseconds()));
                payload[8..16].copy_from_slice(&moved.to_le_bytes());
                payload[16..24].copy_from_slice(&time.to_le_bytes());
                // The pattern's first byte is 32 times the number.
                let step = (moved.wrapping_sub(number) as u8).wrapping_mul(32);
                payload[HEADER_BYTES..].iter_mut().for_each(|b| *b = b.wrapping_add(step));
            }
            Payload::End { total, .. } => {
                let moved = total.saturating_add(by).min(NUMBER_LIMIT);
                payload[16..24].copy_from_slice(&moved.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
