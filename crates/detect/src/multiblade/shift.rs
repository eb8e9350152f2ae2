//! Moves a recorded packet on, so that a capture can be sent again and again as one long run.
//!
//! [`Moving`] learns from one pass how far: each sender's sequence number goes on where the pass left it, the
//! global time of all by the length of the pass. Local times stay: the digitiser restarts its clock all the time.
//! A packet that the decoder would refuse for its header keeps its bytes, and senders beyond
//! `max_streams`, whose number no reader follows, keep theirs. Source: `docs/formats/multiblade.md` section 2.1.

use fullcount_core::batch::Origin;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::sequence::streams::Streams;

use super::packet;
use crate::detector::Shifter;
use crate::repeat::{PassNumbers, PassTimes};

/// Adds `packets` to the sequence number (mod 2³²) and `milliseconds` to the global time (mod 2⁶⁴), where the
/// header can be read and passes checks 1 to 3.
pub fn shift(payload: &mut [u8], packets: u32, milliseconds: u64) {
    let Ok(header) = packet::header(payload) else { return };
    let time = header.global_time.wrapping_add(milliseconds);
    payload[8..16].copy_from_slice(&time.to_le_bytes());
    payload[26..30].copy_from_slice(&header.sequence.wrapping_add(packets).to_le_bytes());
}

/// The rule of a capture, learnt in one pass.
///
/// *Numbers* move by (number expected after the pass − first number) mod 2³², per sender. *Global times* move
/// by the span from the earliest to the latest plus the mean distance of two packets, at least 1 ms.
pub(super) struct Moving {
    numbering: Numbering,
    senders: Streams<PassNumbers>,
    /// Global times, ms.
    times: PassTimes,
}

impl Moving {
    pub fn new(numbering: Numbering) -> Moving {
        Moving { numbering, senders: Streams::new(&numbering), times: PassTimes::default() }
    }

    fn join(&mut self, origin: Origin) -> Option<&mut PassNumbers> {
        let at = self.senders.join(origin, 0, || PassNumbers::new(&self.numbering))?;
        Some(&mut self.senders.all[at])
    }
}

impl Shifter for Moving {
    fn learn(&mut self, payload: &[u8], origin: Origin) {
        let Ok(header) = packet::header(payload) else { return };
        if let Some(numbers) = self.join(origin) {
            numbers.see(header.sequence.into());
        }
        self.times.packet();
        self.times.see(header.global_time);
    }

    fn shift(&mut self, payload: &mut [u8], origin: Origin, repetition: u64) {
        let numbers = self.join(origin).map_or(0, |numbers| numbers.count());
        // 2³² divides 2⁶⁴: what wraps is what the field does not hold.
        let packets = repetition.wrapping_mul(numbers) as u32;
        shift(payload, packets, repetition.wrapping_mul(self.times.step()));
    }
}

#[cfg(test)]
#[path = "shift_tests.rs"]
mod tests;
