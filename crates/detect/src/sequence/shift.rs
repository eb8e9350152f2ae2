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
//! What the reader would refuse stays as it is, also packets of streams beyond
//! `max_streams`. Source: `docs/contracts.md`, "`sequence` payload" and "pcap:".

use fullcount_core::batch::Origin;
use fullcount_core::sequence::Seen;
use fullcount_core::sequence::streams::Streams;

use super::Options;
use super::packet::{self, HEADER_BYTES, NUMBER_LIMIT, SequencePayload};
use crate::detector::Shifter;
use crate::repeat::{PassNumbers, PassTimes};

/// One stream of the capture.
#[derive(Debug)]
struct Stream {
    numbers: PassNumbers,
    /// Total of the newest end mark, and whether the one before said the same.
    total: Option<(u64, bool)>,
}

impl Stream {
    fn data(&mut self, number: u64) {
        let seen = self.numbers.see(number);
        // As for the reader, packets behind end marks reopen a stream; a late one does not.
        if matches!(seen, Seen::New | Seen::Restarted) {
            self.total = None;
        }
    }

    fn end(&mut self, total: u64) {
        let again = self.total.is_some_and(|(before, _)| before == total);
        self.total = Some((total, again));
    }

    /// Numbers per pass.
    fn numbers(&self) -> u64 {
        let next = self.numbers.next();
        let total = self.total.filter(|&(_, agreed)| agreed).map_or(next, |(total, _)| total);
        total.max(next).saturating_sub(self.numbers.begin())
    }
}

/// The rule of a capture, learnt in one pass.
pub(super) struct Moving {
    options: Options,
    streams: Streams<Stream>,
    /// Sender times, ns.
    times: PassTimes,
}

impl Moving {
    pub fn new(options: Options) -> Moving {
        let streams = Streams::new(&options.numbering());
        Moving { options, streams, times: PassTimes::default() }
    }

    fn join(&mut self, apart: Origin, id: u32) -> Option<&mut Stream> {
        let numbering = self.options.numbering();
        let new = || Stream { numbers: PassNumbers::new(&numbering), total: None };
        let at = self.streams.join(apart, id, new)?;
        Some(&mut self.streams.all[at])
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], origin: Origin) {
        let apart = self.options.key.apart(origin);
        match packet::parse(payload) {
            Ok(SequencePayload::Data { stream, number, sent_ns, .. }) => {
                let Some(stream) = self.join(apart, stream) else { return };
                stream.data(number);
                self.times.packet();
                self.times.see(sent_ns);
            }
            Ok(SequencePayload::End { stream, total }) => {
                if let Some(stream) = self.join(apart, stream) {
                    stream.end(total);
                }
            }
            Err(_) => {}
        }
    }

    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        let Ok(said) = packet::parse(payload) else { return };
        let (SequencePayload::Data { stream, .. } | SequencePayload::End { stream, .. }) = said;
        let apart = self.options.key.apart(origin);
        let Some(stream) = self.join(apart, stream) else { return };
        let by = repetition.saturating_mul(stream.numbers());
        match said {
            SequencePayload::Data { number, sent_ns, .. } => {
                let moved = number.saturating_add(by).min(NUMBER_LIMIT);
                let time = sent_ns.wrapping_add(repetition.wrapping_mul(self.times.step()));
                payload[8..16].copy_from_slice(&moved.to_le_bytes());
                payload[16..24].copy_from_slice(&time.to_le_bytes());
                // The pattern's first byte is 32 times the number.
                let step = (moved.wrapping_sub(number) as u8).wrapping_mul(32);
                payload[HEADER_BYTES..].iter_mut().for_each(|b| *b = b.wrapping_add(step));
            }
            SequencePayload::End { total, .. } => {
                let moved = total.saturating_add(by).min(NUMBER_LIMIT);
                payload[16..24].copy_from_slice(&moved.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
