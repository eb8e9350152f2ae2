//! Follows numbered streams: every number is delivered once, or known to be lost.
//!
//! Refuses datagrams of another kind, and damaged patterns (with `verify`). Of more streams than configured, the one that was silent
//! longest is given up. Copies are never delivered twice. Streams are told apart by [`Key`]. Source: `docs/contracts.md`, "Ledger" and
//! "Duplicates".

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::sequence::numbering::{Book, Numbering};
use fullcount_core::sequence::streams::{Series, Streams};
use fullcount_core::sequence::{Seen, Start, Totals};
use fullcount_core::slots::Found;
use fullcount_core::time::Nanos;

use super::Options;
use super::announced::{Announcement, Change, Outcome};
use super::counters::SequenceCount;
use super::key::KeyBy;
use super::packet::{self, SequencePayload, SequenceRefusal};
use crate::detector::{Decoder, SeenModule};

/// Links of one stream that are told apart; a redundant pair has two.
const MOST_LINKS: usize = 16;

/// One stream.
#[derive(Debug)]
struct Stream {
    series: Series,
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
    fn totals(&self) -> Totals {
        self.series.tracker().totals()
    }

    fn outcome(&self) -> Outcome {
        let t = self.totals();
        let first_copies = t.received.saturating_sub(t.duplicate).saturating_sub(t.late);
        Outcome {
            delivered: first_copies.saturating_sub(self.refused),
            lost: t.lost.saturating_add(self.down),
            rejected: self.refused,
        }
    }

    /// True if numbers were received that a total does not count.
    fn contradicts(&self, total: u64) -> bool {
        self.totals().received > 0 && !self.anew && total < self.series.tracker().next()
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
    tally: Tally<{ SequenceCount::LINES }>,
    numbering: Numbering,
    book: Book,
    /// Sender of the train being read.
    origin: Origin,
    /// The same until a packet of the train has been booked, with [`KeyBy::Id`].
    link: Option<Origin>,
    streams: Streams<Stream>,
    /// A stream that had come again was given up: one that is new may be that one, so what it sent before is not missing.
    gave_up: bool,
    spread: Option<Spread>,
}

impl SequenceReader {
    pub fn new(options: Options) -> SequenceReader {
        let (numbering, mut lines) = (options.numbering(), SequenceCount::catalogue());
        let book = Book::new(&numbering, &mut lines);
        SequenceReader {
            options,
            sheet: Sheet::new(lines),
            tally: Tally::default(),
            numbering,
            book,
            origin: Origin::NONE,
            link: None,
            streams: Streams::new(&numbering),
            gave_up: false,
            spread: None,
        }
    }

    #[inline]
    fn add(&mut self, line: SequenceCount, n: u64) {
        // Wraps where a copy proved to be the first packet of a restart.
        self.tally.add(line, n);
    }

    #[inline]
    fn find(&mut self, id: u32) -> usize {
        match self.streams.find(id) {
            Found::Known(at) => at,
            found => self.begin(found),
        }
    }

    #[cold]
    fn begin(&mut self, found: Found) -> usize {
        let at = found.place();
        if let Found::Reused(_) = found {
            self.end(at);
            self.gave_up |= self.streams.all[at].totals().received > 1;
        }
        self.book.found(found);
        let start = if self.gave_up { Start::AtFirst } else { Start::AtZero };
        let mut announced = Announcement::default();
        if self.gave_up {
            // What it sent before may have been booked already: a total says nothing of the rest.
            announced.share();
        }
        let stream = Stream {
            series: Series::starting(&self.numbering, start),
            total: None,
            announced,
            ended: false,
            down: 0,
            refused: 0,
            anew: false,
            links: Vec::new(),
        };
        self.streams.begin(at, stream);
        at
    }

    /// A stream is over: what is missing is lost.
    fn end(&mut self, at: usize) {
        let stream = &mut self.streams.all[at];
        // One mark is better than none: without it, the tail would be missing from the account.
        let closed = stream.ended && self.options.key == KeyBy::Origin;
        let total = stream.total.take().filter(|_| !closed);
        let tail = total.filter(|_| !stream.anew);
        stream.series.finish(tail, &mut self.book);
        self.close(at, total);
    }

    #[inline]
    fn packet(&mut self, chunk: &[u8], time_ns: i64) -> Result<(), SequenceRefusal> {
        match packet::parse(chunk)? {
            SequencePayload::Data { stream, number, sent_ns, pattern } => {
                let at = self.find(stream);
                let stream = &mut self.streams.all[at];
                let seen = stream.series.observe(number, &mut self.book);
                if stream.totals().received == 1 && !self.gave_up {
                    // Its first packet.
                    stream.down = stream.series.tracker().first();
                    self.tally.add(SequenceCount::Down, stream.down);
                }
                if let Some(link) = self.link.take() {
                    self.streams.all[at].came_by(link, false);
                }
                if matches!(seen, Seen::Duplicate | Seen::Late) {
                    self.add(SequenceCount::Copies, 1);
                    return Ok(());
                }
                if seen == Seen::Restarted {
                    self.restarted(at, number);
                }
                let stream = &mut self.streams.all[at];
                stream.anew = false;
                if stream.ended && self.options.key == KeyBy::Origin {
                    (stream.ended, stream.total) = (false, None);
                    stream.announced.pass();
                }
                if self.options.verify && !packet::pattern_matches(number, pattern) {
                    self.streams.all[at].refused += 1;
                    return Err(SequenceRefusal::Pattern);
                }
                if self.options.latency && time_ns > 0 {
                    self.latency(time_ns as u64, sent_ns);
                }
                self.add(SequenceCount::Accepted, 1);
            }
            SequencePayload::End { stream, total } => {
                let at = self.find(stream);
                self.add(SequenceCount::EndMarks, 1);
                self.end_mark(at, total);
            }
        }
        Ok(())
    }

    /// The sender began anew: the number before this one was held for a late one, and was the first of the new run.
    #[cold]
    fn restarted(&mut self, at: usize, number: u64) {
        self.add(SequenceCount::Copies, 1u64.wrapping_neg());
        self.add(SequenceCount::Accepted, 1);
        let stream = &mut self.streams.all[at];
        // What marks of the run before said does not hold for this one.
        stream.total = None;
        let now = stream.outcome();
        // Before this packet and the one before it, which is none of the late ones any more.
        let delivered = now.delivered.saturating_sub(2);
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
        let stream = &mut self.streams.all[at];
        if stream.ended {
            return;
        }
        let tracker = stream.series.tracker();
        let complete = tracker.next() == total && tracker.pending() == 0;
        let agreed = match self.options.key {
            KeyBy::Origin => stream.total == Some(total),
            // A link that still brings packets may fill the gaps of the one that has ended.
            KeyBy::Id => {
                stream.came_by(self.origin, true);
                stream.total == Some(total) && stream.links.iter().all(|(_, marked)| *marked)
            }
        };
        if agreed || (complete && stream.totals().received > 0) {
            stream.ended = true;
            // The other link of a pair may lag behind this one's marks: its packets are copies or fill
            // gaps, so the account is closed when the run ends.
            if self.options.key == KeyBy::Origin && !stream.anew && !stream.contradicts(total) {
                stream.series.finish(Some(total), &mut self.book);
            }
            self.announce(at, total);
        }
        self.streams.all[at].total = Some(total);
    }

    /// Books a total that is believed; a later one of the same run replaces it.
    fn announce(&mut self, at: usize, total: u64) {
        let stream = &mut self.streams.all[at];
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
        let change = self.streams.all[at].announced.withdraw();
        self.book(change);
        self.add(SequenceCount::Contradicted, 1);
    }

    fn book(&mut self, change: Change) {
        let Outcome { delivered, lost, rejected } = change.of;
        self.add(SequenceCount::Announced, change.total);
        self.add(SequenceCount::AnnouncedDelivered, delivered);
        self.add(SequenceCount::AnnouncedLost, lost);
        self.add(SequenceCount::AnnouncedRejected, rejected);
    }

    /// The run has ended: `total` is what a mark said that is not booked yet, or may have changed.
    fn close(&mut self, at: usize, total: Option<u64>) {
        let stream = &mut self.streams.all[at];
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
        self.add(SequenceCount::LatencyCount, 1);
        self.add(SequenceCount::LatencySum, ns);
        let old = self.spread.unwrap_or(Spread { min: ns, max: ns });
        self.spread = Some(Spread { min: old.min.min(ns), max: old.max.max(ns) });
    }

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        self.book.flush(&self.sheet);
        if let Some(spread) = self.spread {
            self.sheet.set(SequenceCount::LatencyMin as usize, spread.min);
            self.sheet.set(SequenceCount::LatencyMax as usize, spread.max);
        }
    }
}

impl SequenceReader {
    /// The run has ended: what is missing is lost.
    fn end_all(&mut self) {
        for at in 0..self.streams.all.len() {
            self.end(at);
        }
        self.publish();
    }

    /// Somebody else may have had packets: what is missing is lost, and each stream begins with whatever comes next.
    fn begin_anew(&mut self) {
        for stream in &mut self.streams.all {
            stream.series.begin_anew(&mut self.book);
            if stream.totals().received > 0 {
                stream.announced.share();
                stream.anew = true;
            }
        }
        self.publish();
    }
}

impl Decoder for SequenceReader {
    fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, _: &mut Products) {
        let Some(batch) = batch else { return };
        let mut packets = 0;
        for train in batch.trains() {
            self.streams.train(self.options.key.apart(train.origin));
            self.origin = train.origin;
            self.link = (self.options.key == KeyBy::Id).then_some(train.origin);
            for chunk in train.chunks() {
                packets += 1;
                if let Err(refusal) = self.packet(chunk, train.time_ns) {
                    self.add(SequenceCount::of(refusal), 1);
                }
            }
        }
        self.add(SequenceCount::Packets, packets);
        self.publish();
    }

    fn flush(&mut self, reason: Flush, _: &mut Products) {
        match reason {
            Flush::Taken => self.begin_anew(),
            Flush::End => self.end_all(),
            Flush::Stalled => {}
        }
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        for ((origin, id), stream) in self.streams.followed() {
            let (packets, lost) = (stream.totals().received, stream.outcome().lost);
            tell(SeenModule { origin, id, packets, lost });
        }
    }

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.sheet.clone()]
    }

    fn ended_streams(&self) -> usize {
        let all = &self.streams.all;
        if all.iter().all(|s| s.ended) { all.len() } else { 0 }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
