//! What one receive call found in frames, counted once at its end: shared by `xdp://` and `packet://`.
//!
//! A frame that is refused is none of the packets received. The kernel's sockets do not show a damaged
//! datagram either, and its number is missing already, at the place that the counter names: counted as
//! rejected as well it would be there twice. Refuses: nothing. Source: `docs/losses.md`.

use fullcount_core::ledger::Sheet;

use super::datagram::{Judgement, Refusal};

/// Counts of one call.
#[derive(Debug, Default)]
pub struct Judged {
    refused: [u64; Refusal::ALL.len()],
    partial: u64,
    absent: u64,
}

/// Lines of a receiver's catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    /// `receive.calls`.
    pub calls: usize,
    /// `receive.packets`.
    pub packets: usize,
    /// `receive.accepted`.
    pub accepted: usize,
    /// `receive.bytes`.
    pub bytes: usize,
    /// Checksums that nobody completed.
    pub partial: usize,
    /// Datagrams without a checksum.
    pub absent: usize,
    /// One line for each reason to refuse, in the order of [`Refusal::ALL`].
    pub refused: [usize; Refusal::ALL.len()],
}

impl Judged {
    /// One frame is not delivered.
    #[inline]
    pub fn refuse(&mut self, why: Refusal) {
        self.refused[why as usize] += 1;
    }

    /// `count` datagrams of one frame were judged: true if they are delivered.
    #[inline]
    pub fn delivers(&mut self, judgement: Judgement, count: u64) -> bool {
        match judgement {
            Judgement::Good => {}
            Judgement::Partial => self.partial += count,
            Judgement::Absent => self.absent += count,
            Judgement::Wrong => self.refused[Refusal::Checksum as usize] += count,
        }
        judgement != Judgement::Wrong
    }

    /// Adds a call that saw at least one frame, and delivered `accepted` datagrams of `bytes` in all.
    pub fn add(&self, sheet: &Sheet, lines: &Lines, accepted: u64, bytes: u64) {
        sheet.add(lines.calls, 1);
        sheet.add(lines.packets, accepted);
        sheet.add(lines.accepted, accepted);
        sheet.add(lines.bytes, bytes);
        sheet.add(lines.partial, self.partial);
        sheet.add(lines.absent, self.absent);
        if self.refused != [0; Refusal::ALL.len()] {
            for (line, n) in lines.refused.iter().zip(self.refused) {
                sheet.add(*line, n);
            }
        }
    }
}
