//! What did not come: missing heaps by their numbers or by the sender's count, missing bytes and packets of incomplete heaps.
//!
//! Bytes are exact where the length is known; packets are said only where the packet size is. Without numbers and without
//! the sender's count, missing heaps are unknown (`None`), not 0. Source: `docs/contracts.md`, "Ledger".

use fullcount_core::sequence::{Start, Tracker};

use super::config::NumberSequence;
use super::live::HeapEnd;
use super::presence::PresenceMap;
use crate::wire::Flavour;

/// How far numbers may be out of order before a missing one is lost.
const WINDOW: u32 = 4096;

/// What a sender says that it sent. Stop heaps are no heaps here; their packets and bytes are among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderTotals {
    /// Heaps.
    pub heaps: u64,
    /// SPEAD packets.
    pub packets: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
}

/// What is known to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Heaps of which no packet came; `None`: nobody knows.
    pub heaps: Option<u64>,
    /// Missing payload bytes of incomplete heaps whose length is known.
    pub bytes: u64,
    /// Incomplete heaps whose length nobody said.
    pub unsized_heaps: u64,
    /// Missing packets of incomplete heaps; `None`: the packet size is not known.
    pub packets: Option<u64>,
    /// Heaps whose number is none of the configured sequence.
    pub off_sequence: u64,
}

/// Follows the numbers.
#[derive(Debug)]
pub(super) struct LossCount {
    sequence: Option<(NumberSequence, Tracker)>,
    packet_payload: Option<u64>,
    losses: Losses,
    /// Heaps that ended, stop heaps left out.
    began: u64,
    /// Payload bytes that these should have had, as far as that is known.
    expected_bytes: u64,
}

impl LossCount {
    pub fn new(sequence: Option<NumberSequence>, packet_payload: Option<u64>) -> LossCount {
        let tracker = Tracker::new(64, WINDOW, Start::AtZero);
        let losses = Losses { packets: packet_payload.map(|_| 0), ..Losses::default() };
        LossCount {
            sequence: sequence.map(|s| (s, tracker)),
            packet_payload,
            losses,
            began: 0,
            expected_bytes: 0,
        }
    }

    /// A heap that is no stop heap has ended.
    pub fn ended(&mut self, end: &HeapEnd) {
        self.came(end.cnt, end.flavour, end.length.unwrap_or(end.received));
    }

    /// The same of one that is not a stop heap, by its number and length.
    pub fn came(&mut self, cnt: u64, flavour: Flavour, length: u64) {
        self.began += 1;
        // What hostile senders announce may go beyond any number.
        self.expected_bytes = self.expected_bytes.saturating_add(length);
        if let Some((sequence, tracker)) = &mut self.sequence {
            let wrapped = cnt.wrapping_sub(sequence.first) & flavour.largest_value();
            match wrapped % sequence.step {
                0 => {
                    tracker.observe(wrapped / sequence.step);
                }
                _ => self.losses.off_sequence += 1,
            }
        }
    }

    /// A heap was given up: what of it is missing, in bytes and packets.
    pub fn incomplete(&mut self, end: &HeapEnd) -> (u64, u64) {
        self.missing(end.length, end.received, &end.present)
    }

    /// The same of one by its length, the bytes that came, and which these are.
    pub fn missing(
        &mut self,
        length: Option<u64>,
        received: u64,
        present: &PresenceMap,
    ) -> (u64, u64) {
        let Some(length) = length else {
            self.losses.unsized_heaps += 1;
            return (0, 0);
        };
        let missing = length - received.min(length);
        self.losses.bytes = self.losses.bytes.saturating_add(missing);
        let mut packets = 0;
        if let (Some(each), Some(sum)) = (self.packet_payload, &mut self.losses.packets) {
            packets = present.gaps(length).map(|g| (g.end - g.start).div_ceil(each)).sum();
            *sum += packets;
        }
        (missing, packets)
    }

    /// Heaps that ended, and the payload bytes that they should have had.
    pub fn ended_so_far(&self) -> (u64, u64) {
        (self.began, self.expected_bytes)
    }

    /// What is lost; with the sender's totals once they are known.
    pub fn totals(&self, sender: Option<SenderTotals>) -> Losses {
        let by_number = self.sequence.as_ref().map(|(_, tracker)| {
            let totals = tracker.totals();
            totals.lost + tracker.pending()
        });
        let by_count = sender.map(|sender| sender.heaps.saturating_sub(self.began));
        Losses { heaps: by_count.or(by_number), ..self.losses }
    }
}
