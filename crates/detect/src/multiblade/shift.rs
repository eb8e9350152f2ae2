//! Moves a recorded packet on, so that a capture can be sent again and again as one long run.
//!
//! [`Moving`] learns from one pass how far: each sender's sequence number goes on where the pass left it, the
//! global time of all by the length of the pass. Local times stay: the digitiser restarts its clock all the time.
//! Refuses nothing: a packet that the decoder would refuse for its header keeps its bytes, and senders beyond
//! `max_streams`, whose number no reader follows, keep theirs. Source: `docs/formats/multiblade.md` section 2.1.

use fullcount_core::batch::Origin;

use super::packet;
use super::streams::Streams;
use crate::detector::Shifter;

/// Packets at the head of a stream among which the first may have been overtaken: one GRO train.
const HEAD: u32 = 64;

/// Adds `packets` to the sequence number (mod 2³²) and `milliseconds` to the global time (mod 2⁶⁴), where the
/// header can be read and passes checks 1 to 3.
pub fn shift(payload: &mut [u8], packets: u32, milliseconds: u64) {
    let Ok(header) = packet::header(payload) else { return };
    let time = header.global_time.wrapping_add(milliseconds);
    payload[8..16].copy_from_slice(&time.to_le_bytes());
    payload[26..30].copy_from_slice(&header.sequence.wrapping_add(packets).to_le_bytes());
}

/// Where one sequence number began.
#[derive(Debug, Clone, Copy, Default)]
struct Begin {
    first: u32,
    /// How far before `first` a number came that it had overtaken.
    overtaken: u32,
    seen: u32,
}

impl Begin {
    fn see(&mut self, number: u32) {
        if self.seen == 0 {
            self.first = number;
        }
        if self.seen < HEAD {
            self.seen += 1;
            let before = self.first.wrapping_sub(number);
            if before <= HEAD {
                self.overtaken = self.overtaken.max(before);
            }
        }
    }
}

/// The rule of a capture, learnt in one pass.
///
/// *Numbers* move by (number expected after the pass − first number) mod 2³², per sender. *Global times* move
/// by the span from the earliest to the latest plus the mean distance of two packets, at least 1 ms.
pub(super) struct Moving {
    streams: Streams,
    /// By place of the stream.
    begins: Vec<Begin>,
    /// Earliest and latest global time.
    span: Option<(u64, u64)>,
    packets: u64,
}

impl Moving {
    /// `streams`: empty, made as for a reader.
    pub fn new(streams: Streams) -> Moving {
        Moving { streams, begins: Vec::new(), span: None, packets: 0 }
    }

    /// Milliseconds per pass.
    fn milliseconds(&self) -> u64 {
        let Some((earliest, latest)) = self.span else { return 0 };
        let length = latest - earliest;
        length.wrapping_add((length / self.packets.saturating_sub(1).max(1)).max(1))
    }

    /// Numbers per pass of the stream at `place`.
    fn numbers(&self, place: usize) -> u32 {
        let Some(begin) = self.begins.get(place) else { return 0 };
        let next = self.streams.streams[place].tracker.next() as u32;
        next.wrapping_sub(begin.first).wrapping_add(begin.overtaken)
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], origin: Origin) {
        let Ok(header) = packet::header(payload) else { return };
        if let Some(at) = self.streams.join(origin) {
            self.begins.resize(self.streams.streams.len(), Begin::default());
            self.begins[at].see(header.sequence);
            self.streams.streams[at].tracker.observe(u64::from(header.sequence));
        }
        self.packets += 1;
        let time = header.global_time;
        let (earliest, latest) = self.span.unwrap_or((time, time));
        self.span = Some((earliest.min(time), latest.max(time)));
    }

    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        let numbers = self.streams.join(origin).map_or(0, |at| self.numbers(at));
        // 2³² divides 2⁶⁴: what wraps is what the field does not hold.
        let packets = repetition.wrapping_mul(u64::from(numbers)) as u32;
        shift(payload, packets, repetition.wrapping_mul(self.milliseconds()));
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
