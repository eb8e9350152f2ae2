//! What did not come: missing heaps by their numbers or by the sender's count, missing bytes and packets of incomplete heaps.
//!
//! Bytes of incomplete heaps are exact where the length is known; their packets are said only where the packet size is, and are exact if every
//! packet of a heap between its first and last is full: item pointers in more than one packet make those shorter than the others, and then
//! the number is the least that it can be. With the sender's totals all missing bytes and packets are exact, those of heaps that were lost whole too. Without numbers and without
//! the sender's count, missing heaps are unknown (`None`), not 0. Source: `docs/contracts.md`, "Ledger".

use fullcount_core::sequence::{Start, Tracker};

use super::config::NumberSequence;
use super::live::HeapEnd;
use super::presence::PresenceMap;
use crate::wire::Flavour;

/// How far numbers may be out of order before a missing one is lost.
const WINDOW: u32 = 4096;

/// What a sender says that it sent. Stop heaps and packets that were sent again are not among it.
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
    /// Missing packets of incomplete heaps; `None`: the packet size is not known. The least number if heaps have packets that are not
    /// full between their first and last.
    pub packets: Option<u64>,
    /// Missing payload bytes that are not among `bytes`: of heaps of which no packet came, and of incomplete heaps without a length.
    /// By the sender's totals; without them 0 if there are no such heaps, else `None`: nobody knows.
    pub rest_bytes: Option<u64>,
    /// Missing packets that are not among `packets`, in the same way. Without a packet size all of them are here.
    pub rest_packets: Option<u64>,
    /// Heaps whose number is none of the configured sequence.
    pub off_sequence: u64,
}

impl Losses {
    /// All missing payload bytes; `None`: nobody knows.
    pub fn all_bytes(&self) -> Option<u64> {
        self.rest_bytes.map(|rest| self.bytes.saturating_add(rest))
    }

    /// Above 0 if something is known to be lost beside incomplete heaps: heaps, or the ends of heaps without a length.
    pub fn beside(&self) -> u64 {
        self.heaps.unwrap_or(0).saturating_add(self.rest_bytes.unwrap_or(0))
    }

    /// All missing packets; `None`: nobody knows.
    pub fn all_packets(&self) -> Option<u64> {
        self.rest_packets.map(|rest| self.packets.unwrap_or(0).saturating_add(rest))
    }
}

/// Follows the numbers.
#[derive(Debug)]
pub(super) struct LossCount {
    sequence: Option<(NumberSequence, Tracker)>,
    /// Place in the sequence of the newest heap that ended.
    newest: Option<u64>,
    packet_payload: Option<u64>,
    losses: Losses,
    /// Heaps that ended, stop heaps left out.
    began: u64,
    /// Payload bytes that these should have had, as far as that is known.
    expected_bytes: u64,
    /// Payload bytes that came of them.
    received_bytes: u64,
    /// Packets that these were; `None`: they came as whole heaps.
    received_packets: Option<u64>,
}

/// By the shorter way around.
fn is_before(place: u64, other: u64) -> bool {
    (other.wrapping_sub(place) as i64) > 0
}

impl LossCount {
    pub fn new(sequence: Option<NumberSequence>, packet_payload: Option<u64>) -> LossCount {
        let tracker = Tracker::new(64, WINDOW, Start::AtZero);
        let losses = Losses { packets: packet_payload.map(|_| 0), ..Losses::default() };
        LossCount {
            sequence: sequence.map(|s| (s, tracker)),
            newest: None,
            packet_payload,
            losses,
            began: 0,
            expected_bytes: 0,
            received_bytes: 0,
            received_packets: Some(0),
        }
    }

    /// A heap that is no stop heap has ended.
    pub fn ended(&mut self, end: &HeapEnd) {
        let packets = self.received_packets.map(|sum| sum.saturating_add(end.packets));
        self.came(end.cnt, end.flavour, end.length.unwrap_or(end.received), end.received);
        self.received_packets = packets;
    }

    /// The same of one that is not a stop heap and did not come in packets, by its number, its length and the payload bytes that came.
    pub fn came(&mut self, cnt: u64, flavour: Flavour, length: u64, received: u64) {
        self.began += 1;
        self.received_bytes = self.received_bytes.saturating_add(received);
        self.received_packets = None;
        // What hostile senders announce may go beyond any number.
        self.expected_bytes = self.expected_bytes.saturating_add(length);
        let place = self.place(cnt, flavour);
        if let Some((_, tracker)) = &mut self.sequence {
            let Some(place) = place else {
                self.losses.off_sequence += 1;
                return;
            };
            tracker.observe(place);
            if self.newest.is_none_or(|newest| is_before(newest, place)) {
                self.newest = Some(place);
            }
        }
    }

    /// Which one of the sequence this number is.
    fn place(&self, cnt: u64, flavour: Flavour) -> Option<u64> {
        let (sequence, _) = self.sequence.as_ref()?;
        let wrapped = cnt.wrapping_sub(sequence.first) & flavour.largest_value();
        wrapped.is_multiple_of(sequence.step).then_some(wrapped / sequence.step)
    }

    /// A newer heap of the sequence has ended, so that this live one counts among those of which no packet came.
    pub fn is_overtaken(&self, cnt: u64, flavour: Flavour) -> bool {
        let place = self.place(cnt, flavour);
        self.newest.zip(place).is_some_and(|(newest, place)| is_before(place, newest))
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
        let heaps = by_count.or(by_number);
        let known = self.losses;
        let nothing_else = (heaps == Some(0) && known.unsized_heaps == 0).then_some(0);
        let rest_bytes = sender.map(|sender| {
            sender.payload_bytes.saturating_sub(self.received_bytes).saturating_sub(known.bytes)
        });
        let rest_packets = sender.zip(self.received_packets).map(|(sender, received)| {
            sender.packets.saturating_sub(received).saturating_sub(known.packets.unwrap_or(0))
        });
        Losses {
            heaps,
            rest_bytes: rest_bytes.or(nothing_else),
            rest_packets: rest_packets.or(nothing_else.filter(|_| known.packets.is_some())),
            ..known
        }
    }
}
