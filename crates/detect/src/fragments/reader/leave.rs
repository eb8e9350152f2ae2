//! Events leave: those that are decided, those whose time is over, and all at the end; and what their missing fragments are counted as.
//!
//! A source is not blamed for what this unit has left in the kernel: a stream that was paused gets [`RESUMED`] once it is awaited.

use fullcount_core::products::Products;
use fullcount_core::records::{EventRecords, flags};
use fullcount_core::time::Nanos;

use super::super::counters::{FragmentCounter as C, PerSource};
use super::super::merge::{EventDue, NextEvent};
use super::super::sources::UnitStream;
use super::UnitReader;

/// Bytes of events that leave in one call: what waited long leaves in pieces that outputs can queue.
const LEAVE: u64 = 4 << 20;
/// When the run ends, a source that has sent nothing for so long, while something waited for it as long, is stalled: what is missing of it is
/// not on its way.
const STALLED: Nanos = Nanos(1_000_000_000);
/// A paused stream has so long to bring what was sent meanwhile, before events leave without it: the kernel has it, and it is read first.
const RESUMED: Nanos = Nanos(20_000_000);

/// What open streams owe an event that leaves without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
    /// It is lost.
    Lost,
    /// It was on its way.
    OnItsWay,
    /// It was on its way on streams that were paused, or have brought something within [`STALLED`]; of others it is lost.
    OfLively,
}

impl Owed {
    fn is_on_its_way(self, stream: &UnitStream, now: Option<Nanos>) -> bool {
        match self {
            Owed::Lost => false,
            Owed::OnItsWay => stream.is_open(),
            // The kernel still has what a paused stream brought, even if its peer has hung up.
            Owed::OfLively if stream.paused => !stream.is_over(),
            Owed::OfLively => stream.is_open() && within(stream.heard, now, STALLED),
        }
    }
}

/// True if that was less than `time` ago.
fn within(at: Option<Nanos>, now: Option<Nanos>, time: Nanos) -> bool {
    at.zip(now).is_some_and(|(at, now)| now.0 - at.0 < time.0)
}

impl UnitReader {
    /// One event leaves; its bytes.
    pub(super) fn leave(
        &mut self,
        due: EventDue,
        records: &mut EventRecords,
        owed: Owed,
    ) -> Option<u64> {
        let now = self.now;
        let UnitReader { merger, owners, streams, sheet, tally, .. } = self;
        let records = self.wants_records.then_some(records);
        let event = merger.take(due, records, |at, down| {
            let stream = owners.streams[at].0.and_then(|stream| streams[stream].as_ref());
            let there = stream.is_some_and(|stream| owed.is_on_its_way(stream, now));
            tally.add(
                if down && !there {
                    C::LostDown
                } else if there {
                    C::AtEnd
                } else {
                    C::Lost
                },
                1,
            );
            sheet.add(PerSource::Lost.line(at), u64::from(!there));
        })?;
        tally.add(C::Merged, event.parts as u64);
        tally.add(C::Decided, 1);
        tally.add(C::Events, 1);
        tally.add(C::Incomplete, u64::from(event.missing > 0));
        tally.add(C::Expired, u64::from(due == EventDue::Expired));
        tally.add(C::Forced, u64::from(due == EventDue::Forced));
        tally.add(C::Marked, u64::from(event.flags & (flags::BROKEN | flags::CHECKSUM) != 0));
        tally.add(C::Bytes, event.bytes);
        self.skip(event.skipped);
        Some(event.bytes)
    }

    /// So many numbers before the event that leaves, which nobody had, are missing from everybody.
    pub(super) fn skip(&mut self, skipped: u64) {
        let down = std::mem::take(&mut self.goes_on);
        if skipped == 0 {
            return;
        }
        let missing = skipped.saturating_mul(self.ids.len() as u64);
        self.add(if down { C::LostDown } else { C::Lost }, missing);
        self.add(C::Skipped, skipped);
        (0..self.ids.len()).for_each(|at| self.sheet.add(PerSource::Lost.line(at), skipped));
    }

    /// Events that may leave do.
    pub(super) fn give(&mut self, products: &mut Products) {
        products.records.append(&mut self.early);
        let mut bytes = 0;
        while bytes < LEAVE {
            let full = self.ungoverned && self.rule.is_full(self.merger.bytes());
            let due = match self.merger.due(self.now, full) {
                NextEvent::Leaves(_, due) => due,
                NextEvent::Waits(over) => {
                    self.due = over;
                    return;
                }
            };
            let rows = self.rows && due == EventDue::Decided;
            if let Some(left) = rows.then(|| self.leave_rows(LEAVE - bytes, products)).flatten() {
                bytes += left;
                continue;
            }
            if due == EventDue::Expired {
                if let Some(until) = self.waits_for_resumed() {
                    self.due = Some(until);
                    return;
                }
                // The oldest is this event or one that leaves after it.
                let age = self.age().unwrap_or_default().0 / 1_000_000;
                let line = C::ExpiredMs as usize;
                self.sheet.set(line, self.sheet.get(line).max(age as u64));
            }
            let Some(left) = self.leave(due, &mut products.records, Owed::Lost) else { break };
            // An event without bytes takes room as well.
            bytes += left + 64;
        }
        // More may have to leave at once. Without event_timeout the next batch or hand-over takes it, and no clock is read for it.
        self.due = self.now.filter(|_| self.merger.timeout().is_some());
    }

    /// Everything that waits leaves. `lost`: the run goes on, and what is missing will not come any more.
    pub(super) fn give_all(&mut self, products: &mut Products, lost: bool) {
        self.reap();
        for at in 0..self.ids.len() {
            let heir = self.owners.streams[at].1.and_then(|heir| self.streams[heir].as_mut());
            let stash =
                heir.and_then(|heir| heir.slots.first_mut()?.stash.as_mut().map(std::mem::take));
            self.unstash(at, stash);
        }
        products.records.append(&mut self.early);
        while let NextEvent::Leaves(_, due) = self.merger.due(None, true) {
            let due = if due == EventDue::Decided { due } else { EventDue::Ended };
            let stalled = self.age().is_some_and(|age| age >= STALLED);
            let owed = match (lost, stalled) {
                (true, _) => Owed::Lost,
                (_, true) => Owed::OfLively,
                _ => Owed::OnItsWay,
            };
            self.leave(due, &mut products.records, owed);
        }
    }

    /// Until when the next event waits for streams that are paused, or have just been resumed; `None`: for no such stream.
    fn waits_for_resumed(&self) -> Option<Nanos> {
        let now = self.now?;
        let owners = self.owners.streams.iter().enumerate();
        let awaited = owners.filter(|(at, _)| self.merger.is_awaited(*at));
        let streams = awaited.filter_map(|(_, (owner, _))| self.streams[(*owner)?].as_ref());
        // What a peer that has hung up sent before is still read.
        let open = streams.filter(|stream| !stream.is_over());
        // This call resumes one that is paused: it is awaited.
        let resumed = open.filter_map(|s| if s.paused { Some(now) } else { s.resumed });
        let until = resumed.map(|resumed| Nanos(resumed.0 + RESUMED.0)).max()?;
        (now < until).then_some(until)
    }
}
