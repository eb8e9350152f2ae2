//! Follows numbered streams: every number is delivered once, or known to be lost.
//!
//! Refuses datagrams of another kind, damaged patterns (with `verify`), and more streams than
//! configured. Copies are never delivered twice. Streams are told apart by [`Key`]. Source: `docs/architecture.md`, contracts "Ledger" and
//! "Duplicates".

use std::collections::HashMap;
use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::sequence::{Seen, Start, Totals, Tracker};

use super::Options;
use super::counters::{Count, LINES};
use super::key::{Key, KeyBy};
use super::packet::{self, Payload, Refusal};
use crate::detector::Reader;

/// Links of one stream that are told apart; a redundant pair has two.
const MOST_LINKS: usize = 16;

/// One stream.
#[derive(Debug)]
struct Stream {
    tracker: Tracker,
    /// Total of an end mark that is not believed yet.
    total: Option<u64>,
    /// Total of this run of the sender that is in `packets.announced` already.
    announced: u64,
    ended: bool,
    /// Links that brought it, and whether their end mark has come; only with [`KeyBy::Id`].
    links: Vec<(Origin, bool)>,
}

impl Stream {
    /// Notes that a packet or end mark came by `link`.
    fn came_by(&mut self, link: Origin, end_mark: bool) {
        if let Some((_, marked)) = self.links.iter_mut().find(|(known, _)| *known == link) {
            *marked |= end_mark;
        } else if self.links.len() < MOST_LINKS {
            self.links.push((link, end_mark));
        }
    }
}

/// What a tracker said before something happened to it.
#[derive(Debug, Clone, Copy)]
struct Before {
    totals: Totals,
    pending: u64,
}

impl Before {
    #[inline]
    fn of(tracker: &Tracker) -> Before {
        Before { totals: tracker.totals(), pending: tracker.pending() }
    }

    /// False after a number in order that closed, opened and gave up nothing.
    #[inline]
    fn differs(&self, tracker: &Tracker) -> bool {
        tracker.pending() != self.pending || tracker.totals().lost != self.totals.lost
    }
}

/// Smallest and largest latency so far, ns.
#[derive(Debug, Clone, Copy)]
struct Spread {
    min: u64,
    max: u64,
}

/// The reader of one worker.
pub(super) struct SequenceReader {
    options: Options,
    sheet: Arc<Sheet>,
    tally: [u64; LINES],
    places: HashMap<Key, usize>,
    /// What streams of the train at hand have in common.
    apart: Origin,
    /// Sender of the train being read.
    origin: Origin,
    /// The same until a packet of the train has been booked, with [`KeyBy::Id`].
    link: Option<Origin>,
    /// Stream of the packet before, of the same `apart`: the usual case costs one comparison.
    last: Option<(u32, usize)>,
    streams: Vec<Stream>,
    spread: Option<Spread>,
}

impl SequenceReader {
    pub fn new(options: Options) -> SequenceReader {
        SequenceReader {
            options,
            sheet: Sheet::new(Count::catalogue()),
            tally: [0; LINES],
            places: HashMap::new(),
            apart: Origin::NONE,
            origin: Origin::NONE,
            link: None,
            last: None,
            streams: Vec::new(),
            spread: None,
        }
    }

    #[inline]
    fn add(&mut self, line: Count, n: u64) {
        // Wraps where a copy proved to be the first packet of a restart, and where fewer are missing.
        self.tally[line as usize] = self.tally[line as usize].wrapping_add(n);
    }

    #[inline]
    fn find(&mut self, id: u32) -> Result<usize, Refusal> {
        match self.last {
            Some((last, at)) if last == id => Ok(at),
            _ => self.find_slowly(id),
        }
    }

    #[cold]
    fn find_slowly(&mut self, id: u32) -> Result<usize, Refusal> {
        let key = (self.apart, id);
        let at = match self.places.get(&key) {
            Some(&at) => at,
            None if self.streams.len() >= self.options.max_streams as usize => {
                return Err(Refusal::TooManyStreams);
            }
            None => {
                let tracker = Tracker::new(64, self.options.window, Start::AtZero);
                self.streams.push(Stream {
                    tracker,
                    total: None,
                    announced: 0,
                    ended: false,
                    links: Vec::new(),
                });
                self.places.insert(key, self.streams.len() - 1);
                self.add(Count::Streams, 1);
                self.streams.len() - 1
            }
        };
        self.last = Some((id, at));
        Ok(at)
    }

    #[inline]
    fn packet(&mut self, chunk: &[u8], time_ns: i64) -> Result<(), Refusal> {
        match packet::parse(chunk)? {
            Payload::Data { stream, number, sent_ns, pattern } => {
                let at = self.find(stream)?;
                let stream = &mut self.streams[at];
                let before = Before::of(&stream.tracker);
                let seen = stream.tracker.observe(number);
                let first = before.totals.received == 0;
                if seen != Seen::New || first || before.differs(&stream.tracker) {
                    self.settle(at, before);
                }
                if let Some(link) = self.link.take() {
                    self.streams[at].came_by(link, false);
                }
                if matches!(seen, Seen::Duplicate | Seen::Late) {
                    self.add(Count::Copies, 1);
                    return Ok(());
                }
                if seen == Seen::Restarted {
                    // The number before it was held for a late one, and was the first of the new run.
                    self.add(Count::Copies, 1u64.wrapping_neg());
                    self.add(Count::Accepted, 1);
                }
                if seen == Seen::Restarted {
                    // What marks of the run before said does not hold for this one.
                    (self.streams[at].total, self.streams[at].announced) = (None, 0);
                }
                if self.streams[at].ended && self.options.key == KeyBy::Origin {
                    (self.streams[at].ended, self.streams[at].total) = (false, None);
                }
                if self.options.verify && !packet::pattern_matches(number, pattern) {
                    return Err(Refusal::Pattern);
                }
                if self.options.latency && time_ns > 0 {
                    self.latency(time_ns as u64, sent_ns);
                }
                self.add(Count::Accepted, 1);
            }
            Payload::End { stream, total } => {
                let at = self.find(stream)?;
                self.add(Count::EndMarks, 1);
                self.end_mark(at, total);
            }
        }
        Ok(())
    }

    /// A stream has ended once it is complete, or once two marks agree: packets that overtook each other
    /// at the very end must not be given up because of the first mark.
    #[cold]
    fn end_mark(&mut self, at: usize, total: u64) {
        let stream = &mut self.streams[at];
        if stream.ended {
            return;
        }
        let complete = stream.tracker.next() == total && stream.tracker.pending() == 0;
        let before = Before::of(&stream.tracker);
        let agreed = match self.options.key {
            KeyBy::Origin => stream.total == Some(total),
            // A link that still brings packets may fill the gaps of the one that has ended.
            KeyBy::Id => {
                stream.came_by(self.origin, true);
                stream.total == Some(total) && stream.links.iter().all(|(_, marked)| *marked)
            }
        };
        if agreed || (complete && before.totals.received > 0) {
            stream.ended = true;
            // The other link of a pair may lag behind this one's marks: its packets are copies or fill
            // gaps, so the account is closed when the run ends.
            if self.options.key == KeyBy::Origin {
                stream.tracker.finish(Some(total));
                self.settle(at, before);
            }
            self.announce(at, total);
        }
        self.streams[at].total = Some(total);
    }

    /// Books a total that is believed; a later one of the same run replaces it.
    fn announce(&mut self, at: usize, total: u64) {
        let before = std::mem::replace(&mut self.streams[at].announced, total);
        self.add(Count::Announced, total.wrapping_sub(before));
    }

    /// Books what changed in a stream's totals.
    #[cold]
    fn settle(&mut self, at: usize, Before { totals: before, pending }: Before) {
        let tracker = &self.streams[at].tracker;
        let (after, first) = (tracker.totals(), tracker.first());
        let missing = tracker.pending().wrapping_sub(pending);
        if before.received == 0 && after.received == 1 {
            self.add(Count::Down, first);
        }
        self.add(Count::Lost, after.lost.wrapping_sub(before.lost));
        self.add(Count::Missing, missing);
        self.add(Count::Duplicate, after.duplicate.wrapping_sub(before.duplicate));
        self.add(Count::Reordered, after.reordered.wrapping_sub(before.reordered));
        self.add(Count::Late, after.late.wrapping_sub(before.late));
        self.add(Count::Restarts, after.restarted.wrapping_sub(before.restarted));
    }

    fn latency(&mut self, received_ns: u64, sent_ns: u64) {
        // Two clocks may disagree; a packet is never counted as received before it was sent.
        let ns = received_ns.saturating_sub(sent_ns);
        self.add(Count::LatencyCount, 1);
        self.add(Count::LatencySum, ns);
        let old = self.spread.unwrap_or(Spread { min: ns, max: ns });
        self.spread = Some(Spread { min: old.min.min(ns), max: old.max.max(ns) });
    }

    fn flush(&mut self) {
        for (line, n) in self.tally.iter_mut().enumerate() {
            if *n != 0 {
                self.sheet.add(line, *n);
                *n = 0;
            }
        }
        if let Some(spread) = self.spread {
            self.sheet.set(Count::LatencyMin as usize, spread.min);
            self.sheet.set(Count::LatencyMax as usize, spread.max);
        }
    }
}

impl Reader for SequenceReader {
    fn read(&mut self, batch: &Batch, _: &mut Products) {
        let mut packets = 0;
        for train in batch.trains() {
            let apart = self.options.key.apart(train.origin);
            if apart != self.apart {
                (self.apart, self.last) = (apart, None);
            }
            self.origin = train.origin;
            self.link = (self.options.key == KeyBy::Id).then_some(train.origin);
            for chunk in train.chunks() {
                packets += 1;
                if let Err(refusal) = self.packet(chunk, train.time_ns) {
                    self.add(Count::of(refusal), 1);
                }
            }
        }
        self.add(Count::Packets, packets);
        self.flush();
    }

    fn begin_anew(&mut self) {
        for at in 0..self.streams.len() {
            let stream = &mut self.streams[at];
            let before = Before::of(&stream.tracker);
            stream.tracker.forget();
            self.settle(at, before);
        }
        self.flush();
    }

    fn finish(&mut self, _: &mut Products) {
        for at in 0..self.streams.len() {
            let stream = &mut self.streams[at];
            let before = Before::of(&stream.tracker);
            // One mark is better than none: without it, the tail would be missing from the account.
            let closed = stream.ended && self.options.key == KeyBy::Origin;
            let total = stream.total.filter(|_| !closed);
            stream.tracker.finish(total);
            self.settle(at, before);
            if let Some(total) = total {
                self.announce(at, total);
            }
        }
        self.flush();
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn ended_streams(&self) -> usize {
        if self.streams.iter().all(|s| s.ended) { self.streams.len() } else { 0 }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
