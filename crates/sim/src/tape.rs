//! Packets of one length that are repeated, with the truth of each.
//!
//! The simulators prepare one turn and patch numbers and times in place from turn to turn.

use std::ops::Range;

use super::made::{Made, Witness};
use super::{PreparedPackets, ReadyPackets, TrafficTotals};

/// One turn of packets.
pub(super) struct Tape {
    pub bytes: Vec<u8>,
    pub stride: usize,
    /// Rows in the order of packets; `packet` counts from the turn's start, `time` too.
    rows: Vec<Made>,
    /// First row of each packet, and the number of rows.
    first: Vec<u32>,
    /// Events to be expected before each packet, and in all.
    expected: Vec<u64>,
    sent: Vec<u64>,
    /// When each packet is complete, ns from the turn's start, ascending; empty: paced by a rate.
    ready: Vec<u64>,
    next: usize,
    turn: u64,
    left: u64,
    totals: TrafficTotals,
    witness: Option<Witness>,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (packets, stride) = (self.packets(), self.stride);
        write!(f, "Tape({packets} packets of {stride} B, turn {})", self.turn)
    }
}

/// What simulators that have a `tape` do alike as [`Traffic`](super::Traffic).
macro_rules! as_on_tape {
    () => {
        fn largest_packet(&self) -> usize {
            self.tape.stride
        }

        fn mean_packet(&self) -> f64 {
            self.tape.stride as f64
        }

        fn end(&mut self) -> Vec<Vec<u8>> {
            Vec::new()
        }

        fn totals(&self) -> TrafficTotals {
            self.tape.totals()
        }

        fn watch(&mut self, witness: Witness) -> bool {
            self.tape.watch(witness);
            true
        }
    };
}
pub(super) use as_on_tape;

/// What is to be handed out now.
pub(super) struct Piece {
    /// Packets of the tape.
    pub packets: Range<usize>,
    /// Turn they belong to, from 0.
    pub turn: u64,
}

impl Tape {
    /// A tape of `bytes.len() / stride` packets; `rows` must be in the order of packets.
    pub fn new(bytes: Vec<u8>, stride: usize, rows: Vec<Made>, count: Option<u64>) -> Tape {
        let packets = bytes.len() / stride;
        let mut first = Vec::with_capacity(packets + 1);
        let mut expected = Vec::with_capacity(packets + 1);
        let (mut at, mut events) = (0, 0);
        for packet in 0..=packets as u64 {
            while let Some(row) = rows.get(at).filter(|r| r.packet < packet) {
                events += u64::from(row.expected());
                at += 1;
            }
            first.push(at as u32);
            expected.push(events);
        }
        let left = count.unwrap_or(u64::MAX);
        let (sent, ready, totals) = (vec![0; packets], Vec::new(), TrafficTotals::default());
        let (next, turn, witness) = (0, 0, None);
        Tape {
            bytes,
            stride,
            rows,
            first,
            expected,
            sent,
            ready,
            next,
            turn,
            left,
            totals,
            witness,
        }
    }

    /// Packets are handed out by the detector's own clock: when each is complete, ns from the turn's start. One that
    /// is complete before its forerunner waits for it.
    pub fn keep_time(&mut self, complete_ns: impl Iterator<Item = u64>) {
        let mut latest = 0;
        let later = complete_ns.map(|ns| {
            latest = ns.max(latest);
            latest
        });
        self.ready = later.collect();
    }

    /// Packets of this turn that are complete at `at_ns`; `start_ns` says when a turn starts. `None` without a clock.
    pub fn ready(
        &self,
        at_ns: u64,
        most: usize,
        start_ns: impl Fn(u64) -> u64,
    ) -> Option<ReadyPackets> {
        let first = *self.ready.first()?;
        if self.left == 0 {
            // Asked for, they are not there: that is how the stream ends.
            return Some(ReadyPackets { packets: 1, next_ns: at_ns });
        }
        let (next, turn) = match self.next == self.packets() {
            true => (0, self.turn + 1),
            false => (self.next, self.turn),
        };
        let start = start_ns(turn);
        let within = at_ns.checked_sub(start);
        let end = within.map_or(next, |at| self.ready.partition_point(|&ready| ready <= at));
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(most);
        let packets = end.saturating_sub(next).min(most);
        let next_ns = match self.ready.get(next + packets) {
            Some(ready) => start + ready,
            None => start_ns(turn + 1) + first,
        };
        Some(ReadyPackets { packets, next_ns })
    }

    pub fn packets(&self) -> usize {
        self.sent.len()
    }

    /// Events to be expected of a whole turn.
    pub fn events(&self) -> u64 {
        self.expected.last().copied().unwrap_or(0)
    }

    pub fn totals(&self) -> TrafficTotals {
        self.totals
    }

    pub fn watch(&mut self, witness: Witness) {
        self.witness = Some(witness);
    }

    /// The next 1 to `packets` packets; `None` at the end of the count.
    pub fn take(&mut self, packets: usize) -> Option<Piece> {
        let packets = (packets as u64).min(self.left) as usize;
        if packets == 0 || self.packets() == 0 {
            return None;
        }
        if self.next == self.packets() {
            (self.next, self.turn) = (0, self.turn + 1);
        }
        let range = self.next..(self.next + packets).min(self.packets());
        self.next = range.end;
        self.left -= range.len() as u64;
        self.sent[range.clone()].iter_mut().for_each(|n| *n += 1);
        self.totals.packets += range.len() as u64;
        self.totals.bytes += (range.len() * self.stride) as u64;
        self.totals.events += self.expected[range.end] - self.expected[range.start];
        Some(Piece { packets: range, turn: self.turn })
    }

    /// The packets of a piece.
    pub fn packets_of(&self, piece: &Piece) -> PreparedPackets<'_> {
        let (Range { start, end }, stride) = (piece.packets.clone(), self.stride);
        let bytes = &self.bytes[start * stride..end * stride];
        PreparedPackets { bytes, stride, packets: end - start, lane: 0 }
    }

    /// Shows the rows of a piece to the witness; `later` is added to their times.
    pub fn tell(&mut self, piece: &Piece, later: i64) {
        let Some(witness) = &mut self.witness else { return };
        let first_packet = piece.turn * self.sent.len() as u64;
        let rows = self.first[piece.packets.start] as usize..self.first[piece.packets.end] as usize;
        for row in &self.rows[rows] {
            witness(&Made { packet: first_packet + row.packet, time: row.time + later, ..*row });
        }
    }

    /// Expected events per pixel of everything handed out.
    pub fn truth(&self, pixels: usize) -> Vec<u64> {
        let mut counts = vec![0; pixels];
        for row in self.rows.iter().filter(|r| r.expected()) {
            counts[row.pixel as usize - 1] += self.sent[row.packet as usize];
        }
        counts
    }
}
