//! Messages of the back-channel, each one datagram.
//!
//! Big-endian: magic `FCSB`, version 1, kind (1 report, 2 request, 3 totals), number of ranges (16 bits), then 64-bit fields. A report
//! has eight: number, time ns, packets, packet bytes, ended heaps, their payload bytes, missing bytes, lost heaps (2^64 − 1:
//! unknown). A request has the heap's number and start and end of each range. Totals are heaps,
//! packets and payload bytes. Refuses other lengths and values.

use std::ops::Range;

use fullcount_core::bytes::Bytes;

use crate::receive::SenderTotals;

const MAGIC: [u8; 4] = *b"FCSB";
const VERSION: u8 = 1;
/// Ranges of one request: the message stays below 1100 B.
const MOST_RANGES: usize = 64;

/// What a receiver has seen since its stream began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverReport {
    /// From 1.
    pub number: u64,
    /// By the receiver's clock; only differences count.
    pub time_ns: u64,
    /// Packets that passed decoding.
    pub packets: u64,
    /// SPEAD bytes of these.
    pub packet_bytes: u64,
    /// Heaps that ended, whole or not.
    pub ended_heaps: u64,
    /// Payload bytes that these should have had.
    pub expected_bytes: u64,
    /// Payload bytes missing in them, and in heaps that a newer one of the sequence has overtaken.
    pub missing_bytes: u64,
    /// Heaps of which no packet came; `None`: nobody knows.
    pub lost_heaps: Option<u64>,
}

/// Packets that are wanted again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResendRequest {
    /// Heap.
    pub cnt: u64,
    /// Missing payload, at most 64 ranges.
    pub ranges: Vec<Range<u64>>,
}

impl ResendRequest {
    /// Requests for what is missing of a heap, as many as it takes.
    pub fn of(cnt: u64, gaps: impl Iterator<Item = Range<u64>>) -> Vec<ResendRequest> {
        let gaps: Vec<Range<u64>> = gaps.collect();
        gaps.chunks(MOST_RANGES)
            .map(|ranges| ResendRequest { cnt, ranges: ranges.to_vec() })
            .collect()
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackMessage {
    /// How much arrived.
    Report(ReceiverReport),
    /// What is to be sent again.
    Resend(ResendRequest),
    /// From the sender: all that it sent.
    Totals(SenderTotals),
}

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FeedbackError {
    /// Neither magic nor version are ours.
    #[error("no feedback message of version 1")]
    Foreign,
    /// An unknown kind.
    #[error("kind {0}: 1 (report), 2 (request) or 3 (totals)")]
    Kind(u8),
    /// Too short or too long.
    #[error("{0} B are not the length of such a message")]
    Length(usize),
    /// Ranges that are none, or too many.
    #[error("ranges: 1 to 64, each with its start before its end")]
    Ranges,
}

impl FeedbackMessage {
    /// The datagram.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let mut put = |kind: u8, ranges: u16, fields: &mut dyn Iterator<Item = u64>| {
            out.extend([VERSION, kind]);
            out.extend(ranges.to_be_bytes());
            fields.for_each(|field| out.extend(field.to_be_bytes()));
        };
        match self {
            FeedbackMessage::Report(r) => {
                let lost = r.lost_heaps.unwrap_or(u64::MAX);
                let first = [r.number, r.time_ns, r.packets, r.packet_bytes];
                let last = [r.ended_heaps, r.expected_bytes, r.missing_bytes, lost];
                put(1, 0, &mut first.into_iter().chain(last));
            }
            FeedbackMessage::Resend(r) => {
                let ranges = r.ranges.iter().take(MOST_RANGES);
                let fields = ranges.clone().flat_map(|range| [range.start, range.end]);
                put(2, ranges.len() as u16, &mut [r.cnt].into_iter().chain(fields));
            }
            FeedbackMessage::Totals(t) => {
                put(3, 0, &mut [t.heaps, t.packets, t.payload_bytes].into_iter());
            }
        }
        out
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// See [`FeedbackError`].
    pub fn parse(datagram: &[u8]) -> Result<FeedbackMessage, FeedbackError> {
        let mut bytes = Bytes::new(datagram);
        let head: Option<[u8; 8]> = bytes.array();
        let [a, b, c, d, version, kind, high, low] =
            head.ok_or(FeedbackError::Length(datagram.len()))?;
        if [a, b, c, d] != MAGIC || version != VERSION {
            return Err(FeedbackError::Foreign);
        }
        let (fields, rest) = bytes.rest().as_chunks::<8>();
        let fields: Vec<u64> =
            fields.iter().take(2 * MOST_RANGES + 2).map(|f| u64::from_be_bytes(*f)).collect();
        let ranges = usize::from(u16::from_be_bytes([high, low]));
        let wanted = match kind {
            1 => 8,
            2 => 1 + 2 * ranges,
            3 => 3,
            kind => return Err(FeedbackError::Kind(kind)),
        };
        if kind == 2 && !(1..=MOST_RANGES).contains(&ranges) {
            return Err(FeedbackError::Ranges);
        }
        if fields.len() != wanted || !rest.is_empty() {
            return Err(FeedbackError::Length(datagram.len()));
        }
        if kind == 2 {
            let ranges: Vec<Range<u64>> = fields[1..].chunks_exact(2).map(|r| r[0]..r[1]).collect();
            return match ranges.iter().all(|r| r.start < r.end) {
                true => Ok(FeedbackMessage::Resend(ResendRequest { cnt: fields[0], ranges })),
                false => Err(FeedbackError::Ranges),
            };
        }
        if kind == 3 {
            let (heaps, packets, payload_bytes) = (fields[0], fields[1], fields[2]);
            return Ok(FeedbackMessage::Totals(SenderTotals { heaps, packets, payload_bytes }));
        }
        Ok(FeedbackMessage::Report(ReceiverReport {
            number: fields[0],
            time_ns: fields[1],
            packets: fields[2],
            packet_bytes: fields[3],
            ended_heaps: fields[4],
            expected_bytes: fields[5],
            missing_bytes: fields[6],
            lost_heaps: (fields[7] != u64::MAX).then_some(fields[7]),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), ours: bool) {
            if ours {
                bytes.splice(..bytes.len().min(5), *b"FCSB\x01");
            }
            if let Ok(message) = FeedbackMessage::parse(&bytes) {
                // Of a report the number of ranges is not looked at.
                prop_assert_eq!(FeedbackMessage::parse(&message.emit()), Ok(message));
            }
        }

        #[test]
        fn parse_inverts_emit(
            (number, time_ns, packets, packet_bytes) in any::<(u64, u64, u64, u64)>(),
            (ended_heaps, expected_bytes, missing_bytes, lost) in (any::<u64>(), any::<u64>(), any::<u64>(), proptest::option::of(0u64..99)),
            gaps in proptest::collection::vec((0u64..1 << 40, 1u64..1 << 20), 1..200),
        ) {
            let lost_heaps = lost;
            let report = ReceiverReport { number, time_ns, packets, packet_bytes, ended_heaps, expected_bytes, missing_bytes, lost_heaps };
            let requests = ResendRequest::of(number, gaps.iter().map(|(start, length)| *start..start + length));
            prop_assert_eq!(requests.iter().map(|r| r.ranges.len()).sum::<usize>(), gaps.len());
            for message in requests.into_iter().map(FeedbackMessage::Resend).chain([FeedbackMessage::Report(report), FeedbackMessage::Totals(SenderTotals { heaps: number, packets, payload_bytes: packet_bytes })]) {
                let bytes = message.emit();
                prop_assert!(bytes.len() < 1100);
                prop_assert_eq!(FeedbackMessage::parse(&bytes[..bytes.len() - 1]).is_err(), true);
                prop_assert_eq!(FeedbackMessage::parse(&bytes), Ok(message));
            }
        }
    }
}
