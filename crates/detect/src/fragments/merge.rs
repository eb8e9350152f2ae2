//! Fragments of several sources become events, in the order of their numbers.
//!
//! Each source has a queue, and its numbers only rise. An event is complete when every source either has it or has gone past it: so
//! the lowest number at the heads of the queues is the next event as soon as no queue is empty, and a source whose queue is empty
//! is the one that is waited for. No clock, no socket: time is an argument. An event leaves early only when its time, or that of a
//! later one, is over
//! or the caller has no room. Keeps nothing of what has left. Source: `docs/formats/simplified-tcp.md`, section 26.2.

use std::collections::VecDeque;

use fullcount_core::progress::BatchNumber;
use fullcount_core::records::{EventRecords, RecordPart, RecordPiece, flags};
use fullcount_core::time::Nanos;

use super::block::NUMBER_BITS;

/// Numbers repeat after so many.
const TURN: i64 = 1 << NUMBER_BITS;

/// What one source has of one event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventFragment {
    /// Event number as sent, 24 bits.
    pub number: u32,
    /// The batch with which it was complete.
    pub batch: BatchNumber,
    /// When it was complete, on the decoder's clock.
    pub arrived: Nanos,
    /// When it was received, ns since 1970; 0 if unknown.
    pub time_ns: i64,
    /// [`flags`].
    pub flags: u16,
    /// Its bytes.
    pub len: u64,
    /// The first of them; `None`: nobody wants them.
    pub first: Option<RecordPiece>,
    /// The others.
    pub more: Vec<RecordPiece>,
}

impl EventFragment {
    /// Memory that it takes while it waits, bytes: its own and what is noted of it, so that one without bytes takes some too.
    pub fn room(&self) -> u64 {
        self.len + (size_of::<EventFragment>() + size_of_val(&self.more[..])) as u64
    }
}

/// What became of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentVerdict {
    /// It waits for the others; so many numbers are missing before it.
    Taken {
        /// Numbers that its source left out.
        gap: u64,
    },
    /// Its source has had this number, or a later one.
    Repeated,
    /// Its event has left.
    Late,
}

/// Why the next event may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventDue {
    /// Nothing more can come for it.
    Decided,
    /// Its time is over, or that of an event behind it.
    Expired,
    /// There is no room to wait.
    Forced,
    /// Nobody waits any longer: the run, or all its senders, have ended.
    Ended,
}

/// An event that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventLeft {
    /// Its number, unwrapped.
    pub number: u64,
    /// Sources that had it.
    pub parts: usize,
    /// Sources that had it not.
    pub missing: usize,
    /// Of these: sources that began with a later number.
    pub down: usize,
    /// [`flags`] of the event.
    pub flags: u16,
    /// Numbers between the last event and this one, which no source had.
    pub skipped: u64,
    /// Bytes of its fragments.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    fragments: VecDeque<(i64, EventFragment)>,
    /// First and last number that it gave.
    seen: Option<(i64, i64)>,
}

/// The queues.
#[derive(Debug)]
pub struct Merger {
    sources: Vec<Waiting>,
    ids: Vec<u16>,
    /// Sources whose queue is empty.
    empty: usize,
    waiting: u64,
    bytes: u64,
    /// Number of the last event that left.
    left: Option<i64>,
    /// A number that was seen: unwraps the first of each source.
    near: Option<i64>,
    /// What is added to numbers as sent at a new beginning.
    turn: i64,
    timeout: Option<Nanos>,
}

impl Merger {
    /// For sources with these ids; events wait for `timeout` at most, or for ever.
    pub fn new(ids: Vec<u16>, timeout: Option<Nanos>) -> Merger {
        let sources: Vec<Waiting> = ids.iter().map(|_| Waiting::default()).collect();
        let empty = sources.len();
        let (waiting, bytes, left, near, turn) = (0, 0, None, None, 0);
        Merger { sources, ids, empty, waiting, bytes, left, near, turn, timeout }
    }

    /// Fragments that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Their memory ([`EventFragment::room`]), bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if the next event waits for this source.
    #[inline]
    pub fn is_awaited(&self, source: usize) -> bool {
        self.sources[source].fragments.is_empty()
    }

    /// Number of sources that the next event waits for.
    pub fn awaited(&self) -> usize {
        self.empty
    }

    /// The oldest batch that something waits of, and when the oldest fragment arrived.
    pub fn oldest(&self) -> Option<(BatchNumber, Nanos)> {
        let heads = self.sources.iter().filter_map(|source| source.fragments.front());
        heads.map(|(_, f)| (f.batch, f.arrived)).min_by_key(|(batch, _)| batch.batch)
    }

    /// The number that is nearest to what is known.
    fn unwrap(&self, source: usize, number: u32) -> i64 {
        let near = self.sources[source].seen.map(|(_, last)| last).or(self.left).or(self.near);
        let Some(near) = near else { return self.turn + i64::from(number) };
        let ahead = (i64::from(number) - near).rem_euclid(TURN);
        near + if ahead < TURN / 2 { ahead } else { ahead - TURN }
    }

    /// True if this number, as the first of a stream, is one that has left: a beginning anew rather than a continuation.
    pub fn is_behind(&self, source: usize, number: u32) -> bool {
        let number = self.unwrap(source, number);
        self.left.is_some_and(|left| number <= left)
    }

    /// All senders have begun anew: numbers go on in the next turn. Nothing may wait.
    pub fn begin_anew(&mut self) {
        let left = self.left.unwrap_or(0);
        self.turn = (left / TURN + 1) * TURN;
        self.left = None;
        self.near = None;
        self.sources.iter_mut().for_each(|source| source.seen = None);
    }

    /// Sources begin with whatever number comes next; nothing before it is missing. Nothing may wait.
    pub fn forget_numbers(&mut self) {
        self.near = self.left;
        self.left = None;
        self.sources.iter_mut().for_each(|source| source.seen = None);
    }

    /// Takes a fragment of a source.
    pub fn push(&mut self, source: usize, fragment: EventFragment) -> FragmentVerdict {
        let number = self.unwrap(source, fragment.number);
        let of = &mut self.sources[source];
        // Asked first, so that the answer does not depend on when events leave.
        if of.seen.is_some_and(|(_, last)| number <= last) {
            return FragmentVerdict::Repeated;
        }
        if number < 0 || self.left.is_some_and(|left| number <= left) {
            return FragmentVerdict::Late;
        }
        let gap = match &mut of.seen {
            Some((_, last)) => (number - std::mem::replace(last, number) - 1) as u64,
            seen => {
                *seen = Some((number, number));
                0
            }
        };
        self.near.get_or_insert(number);
        self.empty -= usize::from(of.fragments.is_empty());
        self.waiting += 1;
        self.bytes += fragment.room();
        of.fragments.push_back((number, fragment));
        FragmentVerdict::Taken { gap }
    }

    fn lowest(&self) -> Option<i64> {
        let heads = self.sources.iter().filter_map(|source| source.fragments.front());
        heads.map(|(number, _)| *number).min()
    }

    /// Whether an event may leave. `now`: `None` if no time may decide. `full`: there is no room to wait.
    pub fn due(&self, now: Option<Nanos>, full: bool) -> Option<(u64, EventDue)> {
        if self.waiting == 0 {
            return None;
        }
        let expires = now.zip(self.timeout);
        if self.empty > 0 && expires.is_none() && !full {
            return None;
        }
        let number = self.lowest()?;
        let due = if self.empty == 0 {
            EventDue::Decided
        } else if full {
            EventDue::Forced
        } else {
            let (now, timeout) = expires?;
            // Of all heads: an event may be older than one with a lower number, which then leaves before it.
            let heads = self.sources.iter().filter_map(|source| source.fragments.front());
            let arrived = heads.map(|(_, f)| f.arrived.0).min()?;
            if now.0.saturating_sub(arrived) < timeout.0 {
                return None;
            }
            EventDue::Expired
        };
        Some((number as u64, due))
    }

    /// The event with the lowest number leaves. `told` hears of each source that has it not, with whether it began later.
    pub fn take(
        &mut self,
        due: EventDue,
        mut records: Option<&mut EventRecords>,
        mut told: impl FnMut(usize, bool),
    ) -> Option<EventLeft> {
        let number = self.lowest()?;
        let skipped = self.left.map_or(0, |left| (number - left - 1) as u64);
        let mut event = EventLeft { number: number as u64, skipped, ..EventLeft::default() };
        let mut of_event = if due == EventDue::Decided { 0 } else { flags::GIVEN_UP };
        let mut time_ns = 0;
        if let Some(records) = &mut records {
            records.begin(event.number);
        }
        for (at, source) in self.sources.iter_mut().enumerate() {
            let has = source.fragments.front().is_some_and(|(n, _)| *n == number);
            let Some((_, fragment)) = has.then(|| source.fragments.pop_front()).flatten() else {
                let down = source.seen.is_some_and(|(first, _)| first > number);
                event.missing += 1;
                event.down += usize::from(down);
                of_event |= flags::MISSING;
                told(at, down);
                if let Some(records) = &mut records {
                    let source = self.ids[at].into();
                    records.part(RecordPart { source, flags: flags::MISSING });
                }
                continue;
            };
            self.empty += usize::from(source.fragments.is_empty());
            self.waiting -= 1;
            self.bytes -= fragment.room();
            event.parts += 1;
            event.bytes += fragment.len;
            of_event |= fragment.flags;
            if time_ns == 0 || (fragment.time_ns > 0 && fragment.time_ns < time_ns) {
                time_ns = fragment.time_ns;
            }
            if let Some(records) = &mut records {
                let (source, flags) = (self.ids[at].into(), fragment.flags);
                records.part(RecordPart { source, flags });
                fragment
                    .first
                    .into_iter()
                    .chain(fragment.more)
                    .for_each(|piece| records.piece(piece));
            }
        }
        event.flags = of_event;
        if let Some(records) = records {
            records.end(time_ns, of_event);
        }
        self.left = Some(number);
        Some(event)
    }
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
