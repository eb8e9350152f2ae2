//! Results of one receive call on frames, counted once at its end: shared by `xdp://` and `packet://`.
//!
//! A refused frame does not count as received. The kernel's sockets do not show a damaged datagram either, and its
//! number is already missing, at the place that the counter names: as rejected it would be counted twice. Source:
//! `docs/losses.md`.

use fullcount_core::ledger::Sheet;

use super::datagram::{DatagramRefusal, Judgement};

/// Counts of one call.
#[derive(Debug, Default)]
pub struct Judged {
    refused: [u64; DatagramRefusal::ALL.len()],
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
    /// Checksums that were never completed.
    pub partial: usize,
    /// Datagrams without a checksum.
    pub absent: usize,
    /// One line for each reason to refuse, in the order of [`DatagramRefusal::ALL`].
    pub refused: [usize; DatagramRefusal::ALL.len()],
}

impl Judged {
    /// One frame is not delivered.
    #[inline]
    pub fn refuse(&mut self, why: DatagramRefusal) {
        self.refused[why as usize] += 1;
    }

    /// `count` datagrams of one frame were judged: true if they are delivered.
    #[inline]
    pub fn delivers(&mut self, judgement: Judgement, count: u64) -> bool {
        match judgement {
            Judgement::Good => {}
            Judgement::Partial => self.partial += count,
            Judgement::Absent => self.absent += count,
            Judgement::Wrong => self.refused[DatagramRefusal::Checksum as usize] += count,
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
        if self.refused != [0; DatagramRefusal::ALL.len()] {
            for (line, n) in lines.refused.iter().zip(self.refused) {
                sheet.add(*line, n);
            }
        }
    }
}
