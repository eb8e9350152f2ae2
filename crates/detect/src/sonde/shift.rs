//! Moves a recorded packet on, so that a capture can be sent again and again as one long run.
//!
//! [`Moving`] learns from one pass how far: each packet count goes on where the pass left it, all times
//! by the length of the pass. A packet that the decoder would refuse keeps the bytes
//! that cannot be understood, and streams beyond `max_streams`, whose count no reader follows, keep
//! their count. Source: `docs/formats/sonde.md` sections 2, 3 and 5.

use fullcount_core::batch::Origin;
use fullcount_core::sequence::numbering::{Numbering, Per};
use fullcount_core::sequence::streams::Streams;

use super::clock::HeaderTime;
use super::packet::{self, Body, ENTRY_BYTES, HEADER_BYTES, SondeHeader, SondeRefusal};
use crate::detector::Shifter;
use crate::repeat::{PassNumbers, PassTimes};

/// Adds `packets` to the packet count (mod 2¹⁴) and `ticks` to every time (mod 2³²) of a packet.
///
/// The header moves wherever it can be read (checks 1 and 2), the times of entries and events where
/// the packet is whole. Length, flags, channels and ADC values stay.
pub fn shift(payload: &mut [u8], packets: u16, ticks: u32) {
    let Ok(header) = packet::header(payload) else { return };
    let times = Times::of(&header, payload);
    let count = header.count.wrapping_add(packets) & 0x3fff | u16::from(header.flag) << 14;
    payload[2..4].copy_from_slice(&count.to_be_bytes());
    add(&mut payload[4..8], ticks);
    if let Ok(Times { first, step, count }) = times {
        for event in payload[first..].chunks_exact_mut(step).take(count) {
            add(&mut event[..4], ticks);
        }
    }
}

fn add(field: &mut [u8], ticks: u32) {
    if let Some(time) = field.first_chunk_mut::<4>() {
        *time = u32::from_be_bytes(*time).wrapping_add(ticks).to_be_bytes();
    }
}

/// Where the times of a packet's body stand.
struct Times {
    first: usize,
    step: usize,
    count: usize,
}

impl Times {
    fn of(header: &SondeHeader, payload: &[u8]) -> Result<Times, SondeRefusal> {
        let mode = packet::mode(header, payload)?;
        Ok(match packet::body(mode, payload)? {
            Body::TriggerTime { entries } => {
                let count = entries.len() / ENTRY_BYTES;
                Times { first: HEADER_BYTES + 1, step: ENTRY_BYTES, count }
            }
            Body::MultiEvent { events, per_event, .. } => {
                let step = packet::event_bytes(per_event);
                Times { first: HEADER_BYTES + 3, step, count: usize::from(events) }
            }
            // Its only time is that of the header.
            Body::SingleEvent { .. } => Times { first: HEADER_BYTES, step: 1, count: 0 },
        })
    }
}

/// The rule of a capture, learnt in one pass.
///
/// *Counts* move by (count expected after the pass − first count) mod 2¹⁴, per stream as the reader
/// tells streams apart: the next pass begins with the count that the last one would have gone on with.
/// The number of packets would be right only for a capture without any loss or duplicate; else every
/// seam would show a gap or a disorder that nobody recorded. What is wrong inside a pass is wrong in
/// each. *Times* of all streams move by the span from the earliest to the latest of the capture,
/// header or event, plus the mean distance of two packets, so that passes do not overlap.
///
/// Two limits: as in a live run, a stream that is silent for 2³¹ ticks or more, a seam included, cannot
/// be unwrapped by any reader of this format; and an event before tick 0 is read as its raw count, in
/// the first pass only.
pub(super) struct Moving {
    numbering: Numbering,
    streams: Streams<Learnt, 32>,
    /// Counts of all streams, where they have one sequence state.
    one: PassNumbers,
    newest: Option<HeaderTime>,
    /// Ticks.
    times: PassTimes,
}

/// One stream of the capture.
#[derive(Debug)]
struct Learnt {
    numbers: PassNumbers,
    /// Header time of its newest packet.
    time: Option<HeaderTime>,
}

impl Moving {
    pub fn new(numbering: Numbering) -> Moving {
        let (streams, one) = (Streams::new(&numbering), PassNumbers::new(&numbering));
        Moving { numbering, streams, one, newest: None, times: PassTimes::default() }
    }

    fn join(&mut self, origin: Origin, system: u8) -> Option<usize> {
        let new = || Learnt { numbers: PassNumbers::new(&self.numbering), time: None };
        self.streams.join(origin, system.into(), new)
    }

    fn numbers(&mut self, at: usize) -> &mut PassNumbers {
        match self.numbering.per {
            Per::Run => &mut self.one,
            _ => &mut self.streams.all[at].numbers,
        }
    }

    /// Header time as a reader unwraps it.
    fn header_time(&mut self, stream: Option<usize>, raw: u32) -> HeaderTime {
        let stream = stream.map(|at| &mut self.streams.all[at]);
        let own = stream.as_ref().and_then(|s| s.time);
        let time = HeaderTime::after(own.or(self.newest), raw);
        if let Some(stream) = stream {
            stream.time = Some(time);
        }
        if self.newest.is_none_or(|newest| time.ticks > newest.ticks) {
            self.newest = Some(time);
        }
        time
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], origin: Origin) {
        let Ok(header) = packet::header(payload) else { return };
        let stream = self.join(origin, header.system);
        if let Some(at) = stream {
            self.numbers(at).see(header.count.into());
        }
        let Ok(Times { first, step, count }) = Times::of(&header, payload) else { return };
        let time = self.header_time(stream, header.timestamp);
        self.times.packet();
        self.times.see(time.ticks);
        for event in payload[first..].chunks_exact(step).take(count) {
            if let Some(raw) = event.first_chunk::<4>() {
                let after = u32::from_be_bytes(*raw).wrapping_sub(time.raw) as i32;
                self.times.see(time.ticks + i64::from(after));
            }
        }
    }

    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        let Ok(header) = packet::header(payload) else { return };
        let stream = self.join(origin, header.system);
        let counts = stream.map_or(0, |at| self.numbers(at).count());
        // 2¹⁴ and 2³² divide 2⁶⁴: what wraps is what the fields do not hold.
        let packets = repetition.wrapping_mul(counts) as u16;
        shift(payload, packets, repetition.wrapping_mul(self.times.step()) as u32);
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
