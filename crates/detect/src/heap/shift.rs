//! Moves heaps on, so that a capture can be sent again and again as one long run.
//!
//! Learnt in one pass: the lowest and the highest heap number, and the step in which numbers follow each other (the greatest common divisor
//! of their distances: senders that share a stream count in steps). Each repetition adds the span and one step, so that no seam
//! misses or repeats a heap. Times in items are arrays like any other, and stay. What is no SPEAD packet stays as it is.
//!
//! Source: `docs/heap.md`, "Repeating a capture"; `docs/formats/spead.md`.

use fullcount_core::batch::Origin;
use fullcount_spead::SpeadPacket;
use fullcount_spead::wire::{HEADER_BYTES, POINTER_BYTES, id};

use crate::detector::Shifter;

/// The rule of a capture, learnt in one pass.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// Lowest and highest number.
    span: Option<(u64, u64)>,
    /// Greatest common divisor of the distances; 0: there was one number.
    step: u64,
}

/// The greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], _: Origin) {
        let Ok(packet) = SpeadPacket::parse(payload) else { return };
        let cnt = packet.heap_cnt;
        let (low, high) = self.span.unwrap_or((cnt, cnt));
        self.step = divisor(self.step, cnt.abs_diff(low));
        self.span = Some((low.min(cnt), high.max(cnt)));
    }

    fn shift(&mut self, payload: &mut [u8], _: Origin, repetition: u64) {
        let Some((low, high)) = self.span else { return };
        let Ok(packet) = SpeadPacket::parse(payload) else { return };
        let flavour = packet.flavour;
        let by = (high - low).wrapping_add(self.step.max(1)).wrapping_mul(repetition);
        // Numbers begin anew behind the largest that their bits hold.
        let moved = packet.heap_cnt.wrapping_add(by) & flavour.largest_value();
        // The last of several counts, as for the reader.
        let numbers = packet.pointers().enumerate();
        let numbers =
            numbers.filter(|(_, p)| p.is_immediate() && flavour.id_of(*p) == id::HEAP_CNT);
        let Some((at, _)) = numbers.last() else { return };
        let at = HEADER_BYTES + at * POINTER_BYTES;
        let pointer = flavour.immediate(id::HEAP_CNT, moved).to_bytes();
        payload[at..at + POINTER_BYTES].copy_from_slice(&pointer);
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
