//! Moves a recorded frame on, so that a capture can be sent again and again as one long run.
//!
//! [`Moving`] learns from one pass how far: each FEC's frame counter goes on where the pass left it; markers of all FECs move by one
//! amount, the span of all markers plus one marker step, so that FECs stay together. Hits say their time relative to a
//! marker and stay as they are, and so do relative trigger times and event counters. A frame that the decoder
//! would refuse keeps its bytes. Source: `docs/formats/gdgem.md` sections 2 and 3.

use fullcount_core::batch::Origin;

use super::layout::{FECS, VMMS};
use super::packet::{self, HEADER_BYTES, RawWord, WORD_BYTES, Word};
use super::state::NUMBERING;
use crate::detector::Shifter;
use crate::repeat::PassNumbers;

/// Bits of a marker.
const MARKER: u64 = (1 << 42) - 1;

/// Clocks between two markers of a VMM, where the capture has only one: sixteen periods of 4096 clocks.
const STEP: u64 = 65_536;

/// Adds `frames` to the frame counter (mod 2³²) and `clocks` to all markers that are absolute times (mod 2⁴²).
pub fn shift(payload: &mut [u8], frames: u32, clocks: u64, triggered: bool) {
    let Ok((header, _)) = packet::frame(payload) else { return };
    payload[..4].copy_from_slice(&header.counter.wrapping_add(frames).to_be_bytes());
    payload[8..12].copy_from_slice(&header.sent.wrapping_add(clocks as u32).to_be_bytes());
    for raw in payload[HEADER_BYTES..].as_chunks_mut::<WORD_BYTES>().0 {
        if is_time(raw, triggered) {
            let time = Word::read(raw).marker_time().wrapping_add(clocks) & MARKER;
            raw[..4].copy_from_slice(&((time >> 10) as u32).to_be_bytes());
            raw[4] = raw[4] & 0xfc | (time >> 8 & 3) as u8;
            raw[5] = time as u8;
        }
    }
}

/// True for a marker that is an absolute time.
fn is_time(raw: &RawWord, triggered: bool) -> bool {
    let word = Word::read(raw);
    match triggered {
        _ if word.is_hit() => false,
        false => word.marker_vmm() < VMMS,
        true => word.marker_vmm() >= VMMS && word.event_counter().is_none(),
    }
}

/// The rule of a capture, learnt in one pass.
pub(super) struct Moving {
    triggered: bool,
    counters: [Option<PassNumbers>; FECS],
    /// Smallest and largest marker.
    span: Option<(u64, u64)>,
    /// Largest step between two markers of a VMM.
    step: u64,
    latest: [[Option<u64>; 2 * VMMS]; FECS],
}

impl Moving {
    pub fn new(triggered: bool) -> Moving {
        Moving {
            triggered,
            counters: Default::default(),
            span: None,
            step: 0,
            latest: [[None; 2 * VMMS]; FECS],
        }
    }

    /// Clocks per pass.
    fn clocks(&self) -> u64 {
        let Some((least, most)) = self.span else { return 0 };
        // A whole number of offset periods, so that a hit lies as far behind its marker as before.
        let step = if self.step == 0 { STEP } else { self.step };
        (most - least + step).next_multiple_of(4096)
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], _: Origin) {
        let Ok((header, words)) = packet::frame(payload) else { return };
        let fec = usize::from(header.fec);
        let counters = self.counters[fec].get_or_insert_with(|| PassNumbers::new(&NUMBERING));
        counters.see(header.counter.into());
        for raw in words.iter().filter(|raw| is_time(raw, self.triggered)) {
            let word = Word::read(raw);
            let time = word.marker_time();
            let (least, most) = self.span.unwrap_or((time, time));
            self.span = Some((least.min(time), most.max(time)));
            if let Some(before) = self.latest[fec][word.marker_vmm()].replace(time) {
                self.step = self.step.max(time.saturating_sub(before).min(1 << 30));
            }
        }
    }

    fn shift(&mut self, payload: &mut [u8], _: Origin, repetition: u64) {
        let Ok((header, _)) = packet::frame(payload) else { return };
        let counters = &self.counters[usize::from(header.fec)];
        let frames = counters.as_ref().map_or(0, PassNumbers::count);
        // 2³² and 2⁴² divide 2⁶⁴: what wraps is what the fields do not hold.
        let frames = repetition.wrapping_mul(frames) as u32;
        shift(payload, frames, repetition.wrapping_mul(self.clocks()), self.triggered);
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
