//! Follows numbered streams: every number is delivered once, or known to be lost.
//!
//! Refuses datagrams of another kind, and damaged patterns (with `verify`). Of more streams than configured, the one that was silent
//! longest is given up. Copies are never delivered twice. Streams are told apart by [`Key`]. Source: `docs/architecture.md`, contracts "Ledger" and
//! "Duplicates".

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::sequence::{Seen, Start, Totals, Tracker};
use fullcount_core::slots::{Found, Slots};

use super::Options;
use super::announced::{Announcement, Change, Outcome};
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
    /// What of it is booked as announced.
    announced: Announcement,
    ended: bool,
    /// Numbers sent before this receiver listened, and packets refused for their pattern.
    down: u64,
    refused: u64,
    /// Somebody else may have had packets since the last one here.
    anew: bool,
    /// Links that brought it, and whether their end mark has come; only with [`KeyBy::Id`].
    links: Vec<(Origin, bool)>,
}

impl Stream {
    fn outcome(&self) -> Outcome {
        let t = self.tracker.totals();
        let first_copies = t.received.saturating_sub(t.duplicate).saturating_sub(t.late);
        Outcome {
            delivered: first_copies.saturating_sub(self.refused),
            lost: t.lost.saturating_add(self.down),
            rejected: self.refused,
        }
    }

    /// True if numbers were received that a total does not count.
    fn contradicts(&self, total: u64) -> bool {
        self.tracker.totals().received > 0 && !self.anew && total < self.tracker.next()
    }

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
    places: Slots<Key>,
    /// What streams of the train at hand have in common.
    apart: Origin,
    /// Sender of the train being read.
    origin: Origin,
    /// The same until a packet of the train has been booked, with [`KeyBy::Id`].
    link: Option<Origin>,
    /// Stream of the packet before, of the same `apart`: the usual case costs one comparison.
    last: Option<(u32, usize)>,
    streams: Vec<Stream>,
    /// A stream that had come again was given up: one that is new may be that one, so what it sent before is not missing.
    gave_up: bool,
    spread: Option<Spread>,
}

impl SequenceReader {
    pub fn new(options: Options) -> SequenceReader {
        SequenceReader {
            places: Slots::new(options.max_streams as usize),
            options,
            sheet: Sheet::new(Count::catalogue()),
            tally: [0; LINES],
            apart: Origin::NONE,
            origin: Origin::NONE,
            link: None,
            last: None,
            streams: Vec::new(),
            gave_up: false,
            spread: None,
        }
    }

    #[inline]
    fn add(&mut self, line: Count, n: u64) {
        // Wraps where a copy proved to be the first packet of a restart, and where fewer are missing.
        self.tally[line as usize] = self.tally[line as usize].wrapping_add(n);
    }

    #[inline]
    fn find(&mut self, id: u32) -> usize {
        match self.last {
            Some((last, at)) if last == id => at,
            _ => self.find_slowly(id),
        }
    }

    #[cold]
    fn find_slowly(&mut self, id: u32) -> usize {
        let found = self.places.find((self.apart, id));
        let at = found.place();
        // Only one that has come again is kept at hand, so that others are seen to come again.
        self.last = matches!(found, Found::Known(_)).then_some((id, at));
        if let Found::Known(_) = found {
            return at;
        }
        if let Found::Reused(_) = found {
            self.end(at);
            self.gave_up |= self.streams[at].tracker.totals().received > 1;
            self.add(Count::StreamsReused, 1);
        }
        let start = if self.gave_up { Start::AtFirst } else { Start::AtZero };
        let tracker = Tracker::new(64, self.options.window, start);
        let mut announced = Announcement::default();
        if self.gave_up {
            // What it sent before may have been booked already: a total says nothing of the rest.
            announced.share();
        }
        let stream = Stream {
            tracker,
            total: None,
            announced,
            ended: false,
            down: 0,
            refused: 0,
            anew: false,
            links: Vec::new(),
        };
        match self.streams.get_mut(at) {
            Some(old) => *old = stream,
            None => self.streams.push(stream),
        }
        self.add(Count::Streams, 1);
        at
    }

    /// A stream is over: what is missing is lost.
    fn end(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let before = Before::of(&stream.tracker);
        // One mark is better than none: without it, the tail would be missing from the account.
        let closed = stream.ended && self.options.key == KeyBy::Origin;
        let total = stream.total.take().filter(|_| !closed);
        let tail = total.filter(|_| !stream.anew);
        stream.tracker.finish(tail);
        self.settle(at, before);
        self.close(at, total);
    }

    #[inline]
    fn packet(&mut self, chunk: &[u8], time_ns: i64) -> Result<(), Refusal> {
        match packet::parse(chunk)? {
            Payload::Data { stream, number, sent_ns, pattern } => {
                let at = self.find(stream);
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
                    self.restarted(at, before, number);
                }
                let stream = &mut self.streams[at];
                stream.anew = false;
                if stream.ended && self.options.key == KeyBy::Origin {
                    (stream.ended, stream.total) = (false, None);
                    stream.announced.pass();
                }
                if self.options.verify && !packet::pattern_matches(number, pattern) {
                    self.streams[at].refused += 1;
                    return Err(Refusal::Pattern);
                }
                if self.options.latency && time_ns > 0 {
                    self.latency(time_ns as u64, sent_ns);
                }
                self.add(Count::Accepted, 1);
            }
            Payload::End { stream, total } => {
                let at = self.find(stream);
                self.add(Count::EndMarks, 1);
                self.end_mark(at, total);
            }
        }
        Ok(())
    }

    /// The sender began anew: the number before this one was held for a late one, and was the first of the new run.
    #[cold]
    fn restarted(&mut self, at: usize, before: Before, number: u64) {
        self.add(Count::Copies, 1u64.wrapping_neg());
        self.add(Count::Accepted, 1);
        let stream = &mut self.streams[at];
        // What marks of the run before said does not hold for this one.
        stream.total = None;
        let now = stream.outcome();
        let Totals { received, duplicate, late, .. } = before.totals;
        let delivered = received - duplicate - late - stream.refused;
        let change = stream.announced.begin_anew(Outcome { delivered, ..now });
        if number > 1 {
            // Its first packets are missing, and nobody knows how many began it: a total says nothing of these.
            stream.announced.share();
        }
        self.book(change);
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
            if self.options.key == KeyBy::Origin && !stream.anew && !stream.contradicts(total) {
                stream.tracker.finish(Some(total));
                self.settle(at, before);
            }
            self.announce(at, total);
        }
        self.streams[at].total = Some(total);
    }

    /// Books a total that is believed; a later one of the same run replaces it.
    fn announce(&mut self, at: usize, total: u64) {
        let stream = &mut self.streams[at];
        if stream.contradicts(total) {
            return self.contradicted(at);
        }
        let now = stream.outcome();
        let change = stream.announced.say(total, now);
        self.book(change);
    }

    /// A total that cannot be right: the stream is one that announced no end.
    #[cold]
    fn contradicted(&mut self, at: usize) {
        let change = self.streams[at].announced.withdraw();
        self.book(change);
        self.add(Count::Contradicted, 1);
    }

    fn book(&mut self, change: Change) {
        let Outcome { delivered, lost, rejected } = change.of;
        self.add(Count::Announced, change.total);
        self.add(Count::AnnouncedDelivered, delivered);
        self.add(Count::AnnouncedLost, lost);
        self.add(Count::AnnouncedRejected, rejected);
    }

    /// Books what changed in a stream's totals.
    #[cold]
    fn settle(&mut self, at: usize, Before { totals: before, pending }: Before) {
        let tracker = &self.streams[at].tracker;
        let (after, first) = (tracker.totals(), tracker.first());
        let missing = tracker.pending().wrapping_sub(pending);
        if before.received == 0 && after.received == 1 && !self.gave_up {
            self.add(Count::Down, first);
            self.streams[at].down = first;
        }
        self.add(Count::Lost, after.lost.wrapping_sub(before.lost));
        self.add(Count::Missing, missing);
        self.add(Count::Duplicate, after.duplicate.wrapping_sub(before.duplicate));
        self.add(Count::Reordered, after.reordered.wrapping_sub(before.reordered));
        self.add(Count::Late, after.late.wrapping_sub(before.late));
        self.add(Count::Restarts, after.restarted.wrapping_sub(before.restarted));
    }

    /// The run has ended: `total` is what a mark said that is not booked yet, or may have changed.
    fn close(&mut self, at: usize, total: Option<u64>) {
        let stream = &mut self.streams[at];
        let booked = stream.announced.total();
        if let Some(total) = total.filter(|&total| !stream.anew && booked != Some(total)) {
            return self.announce(at, total);
        }
        if booked.is_some_and(|total| stream.contradicts(total)) {
            return self.contradicted(at);
        }
        let now = stream.outcome();
        let change = stream.announced.renew(now);
        self.book(change);
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
            if before.totals.received > 0 {
                stream.announced.share();
                stream.anew = true;
            }
            self.settle(at, before);
        }
        self.flush();
    }

    fn finish(&mut self, _: &mut Products) {
        for at in 0..self.streams.len() {
            self.end(at);
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
