//! Fragments of several sources become events, in the order of their numbers.
//!
//! Each source has a queue, and its numbers only rise. An event is complete when every source either has it or has gone past it: so
//! the lowest number at the heads of the queues is the next event as soon as no queue is empty, and a source whose queue is empty
//! is the one that is waited for. No clock, no socket: time is an argument. An event leaves early only when its time, or that of a
//! later one, is over
//! or the caller has no room. Keeps nothing of what has left. Source: `docs/formats/simplified-tcp.md`, section 26.2.

mod rows;

use std::collections::VecDeque;
use std::sync::Arc;

use fullcount_core::progress::BatchNumber;
use fullcount_core::records::{EventRecords, RecordPart, RecordPiece, RecordRow, flags};
use fullcount_core::time::Nanos;

use super::block::NUMBER_BITS;
pub use rows::{EventsLeft, WholeRow};

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
        room(self.len, &self.more)
    }
}

/// Counted are the bytes of an [`EventFragment`]: no more is taken, even where a batch brings one fragment of a source.
fn room(len: u64, more: &[RecordPiece]) -> u64 {
    len + (size_of::<EventFragment>() + size_of_val(more)) as u64
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

/// What the next event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextEvent {
    /// It may leave: its number, and why.
    Leaves(u64, EventDue),
    /// It waits, or there is none; its time is over then, if it has one.
    Waits(Option<Nanos>),
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

/// What fragments of one batch have in common: noted once, so that a fragment has no reference
/// of its own.
#[derive(Debug, Clone)]
pub struct ArrivedBatch {
    /// The batch with which they were complete.
    pub batch: BatchNumber,
    /// When, on the decoder's clock.
    pub arrived: Nanos,
    /// When they were received, ns since 1970; 0 if unknown.
    pub time_ns: i64,
    /// Where their first pieces are; `None`: nobody wants them.
    pub memory: Option<Arc<[u8]>>,
}

impl ArrivedBatch {
    #[inline]
    fn is(&self, other: &ArrivedBatch) -> bool {
        let same = match (&self.memory, &other.memory) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same && (self.arrived, self.time_ns) == (other.arrived, other.time_ns)
            && self.batch == other.batch
    }
}

/// A fragment that is one piece of the memory of its [`ArrivedBatch`].
#[derive(Debug, Clone, Copy)]
pub struct WholeFragment {
    /// Event number as sent, 24 bits.
    pub number: u32,
    /// [`flags`].
    pub flags: u16,
    /// First byte in the memory.
    pub start: u32,
    /// Number of bytes.
    pub len: u32,
}

/// What is noted of fragments that wait: of those of one arrival that follow each other in number and memory and are alike,
/// once. Of 2 KiB fragments a read brings 127, so the beginnings of all queues stay in the first-level cache.
#[derive(Debug)]
struct Noted {
    /// Of the first; the others have the next numbers.
    number: i64,
    count: u32,
    /// First byte of the first, and from one to the next; 0 if there is no next one.
    start: u32,
    stride: u32,
    /// Bytes of the first piece, and of all pieces.
    first: u32,
    len: u32,
    flags: u16,
    /// More pieces are in [`Waiting::further`]: it is alone.
    further: bool,
}

impl Noted {
    fn one(number: i64, fragment: WholeFragment) -> Noted {
        let WholeFragment { flags, start, len, .. } = fragment;
        Noted { number, count: 1, start, stride: 0, first: len, len, flags, further: false }
    }

    /// Takes the next ones of the same arrival, if they are alike.
    #[inline]
    fn extend(&mut self, next: &Noted) -> bool {
        let alike = (self.len, self.flags) == (next.len, next.flags);
        let alone = self.further | next.further;
        // Before the first one lies nothing that follows it.
        let Some(step) = next.start.checked_sub(self.start) else { return false };
        let stride = if self.count == 1 { step } else { self.stride };
        let follows = next.number == self.number + i64::from(self.count)
            && u64::from(step) == u64::from(self.count) * u64::from(stride)
            && (next.count == 1 || next.stride == stride);
        if !alike || alone || !follows {
            return false;
        }
        (self.stride, self.count) = (stride, self.count + next.count);
        true
    }
}

/// An arrival that something waits of.
#[derive(Debug)]
struct Arrived {
    of: ArrivedBatch,
    fragments: u32,
    /// Its memory's place in the records that took of it last.
    known: u32,
}

/// The queue of a source. Its three rows are in the same order.
#[derive(Debug, Default)]
struct Waiting {
    fragments: VecDeque<Noted>,
    arrivals: VecDeque<Arrived>,
    further: VecDeque<Vec<RecordPiece>>,
    /// First and last number that it gave.
    seen: Option<(i64, i64)>,
}

impl Waiting {
    #[inline]
    fn add(&mut self, noted: Noted, arrival: &ArrivedBatch) {
        match self.arrivals.back_mut() {
            Some(last) if last.of.is(arrival) => {
                last.fragments += noted.count;
                if self.fragments.back_mut().is_some_and(|last| last.extend(&noted)) {
                    return;
                }
            }
            _ => {
                let of = arrival.clone();
                self.arrivals.push_back(Arrived { of, fragments: noted.count, known: u32::MAX });
            }
        }
        self.fragments.push_back(noted);
    }

    /// Takes the first one; with the number of the next, or [`NOBODY`].
    #[inline]
    fn take(&mut self) -> Option<(Noted, i64)> {
        let noted = self.fragments.front_mut()?;
        let first = Noted { count: 1, ..*noted };
        if noted.count > 1 {
            noted.number += 1;
            noted.start += noted.stride;
            noted.count -= 1;
            return Some((first, noted.number));
        }
        self.fragments.pop_front();
        Some((first, self.fragments.front().map_or(NOBODY, |next| next.number)))
    }

    /// The arrival of the fragments that were just taken has so many less.
    #[inline]
    fn count_down(&mut self, taken: u32) {
        let Some(first) = self.arrivals.front_mut() else { return };
        first.fragments -= taken;
        if first.fragments == 0 {
            self.arrivals.pop_front();
        }
    }
}

/// A queue without fragments, where the number of its first one stands.
const NOBODY: i64 = i64::MAX;

/// The queues.
#[derive(Debug)]
pub struct Merger {
    sources: Vec<Waiting>,
    /// Number of the first fragment of each queue, side by side: they are looked at for every event.
    heads: Vec<i64>,
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
    /// When the oldest fragment arrived of the events that were decided and left since somebody asked; `Nanos(i64::MAX)`: none left.
    decided: Nanos,
    /// What leaves in rows; kept for its memory.
    rows: Vec<RecordRow>,
}

impl Merger {
    /// For sources with these ids; events wait for `timeout` at most, or for ever.
    pub fn new(ids: Vec<u16>, timeout: Option<Nanos>) -> Merger {
        let sources: Vec<Waiting> = ids.iter().map(|_| Waiting::default()).collect();
        let (empty, heads) = (sources.len(), vec![NOBODY; sources.len()]);
        let (waiting, bytes, left, near, turn) = (0, 0, None, None, 0);
        let (decided, rows) = (Nanos(i64::MAX), Vec::with_capacity(ids.len()));
        Merger {
            sources,
            heads,
            ids,
            empty,
            waiting,
            bytes,
            left,
            near,
            turn,
            timeout,
            decided,
            rows,
        }
    }

    /// The same; the first event should be this one, and numbers before the first that comes are skipped ones.
    pub fn from(first: u32, ids: Vec<u16>, timeout: Option<Nanos>) -> Merger {
        Merger { left: Some(i64::from(first) - 1), ..Merger::new(ids, timeout) }
    }

    /// How long events wait at most.
    pub fn timeout(&self) -> Option<Nanos> {
        self.timeout
    }

    /// When the time is over of the oldest event that was decided and left since the last call.
    pub fn decided_until(&mut self) -> Option<Nanos> {
        let decided = std::mem::replace(&mut self.decided, Nanos(i64::MAX));
        self.timeout.filter(|_| decided.0 < i64::MAX).map(|time| Nanos(decided.0 + time.0))
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
        self.heads[source] == NOBODY
    }

    /// Number of sources that the next event waits for.
    pub fn awaited(&self) -> usize {
        self.empty
    }

    /// The oldest batch that something waits of, and when the oldest fragment arrived.
    pub fn oldest(&self) -> Option<(BatchNumber, Nanos)> {
        let heads = self.sources.iter().filter_map(|source| source.arrivals.front());
        heads.map(|f| (f.of.batch, f.of.arrived)).min_by_key(|(batch, _)| batch.batch)
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
        let EventFragment { number, batch, arrived, time_ns, flags, len, first, more } = fragment;
        let (start, first, memory) = match first {
            Some(first) => (first.start, first.len, Some(first.memory)),
            None => (0, 0, None),
        };
        let (arrival, further) =
            (ArrivedBatch { batch, arrived, time_ns, memory }, !more.is_empty());
        let (number, gap) = match self.follow(source, number) {
            Ok(follows) => follows,
            Err(refused) => return refused,
        };
        self.bytes += room(len, &more);
        let whole = WholeFragment { number: 0, flags, start, len: len as u32 };
        let noted = Noted { first, further, ..Noted::one(number, whole) };
        let of = &mut self.sources[source];
        of.add(noted, &arrival);
        if further {
            of.further.push_back(more);
        }
        FragmentVerdict::Taken { gap }
    }

    /// The same for a fragment that is one piece.
    #[inline]
    pub fn push_whole(
        &mut self,
        source: usize,
        fragment: WholeFragment,
        arrival: &ArrivedBatch,
    ) -> FragmentVerdict {
        let (number, gap) = match self.follow(source, fragment.number) {
            Ok(follows) => follows,
            Err(refused) => return refused,
        };
        self.bytes += room(fragment.len.into(), &[]);
        self.sources[source].add(Noted::one(number, fragment), arrival);
        FragmentVerdict::Taken { gap }
    }

    /// True if the number is the next one of a source that has given some.
    pub fn follows(&self, source: usize, number: u32) -> bool {
        let last = self.sources[source].seen.map(|(_, last)| last);
        last.is_some_and(|last| self.unwrap(source, number) == last + 1)
    }

    /// The next number of a source, unwrapped, and how many are missing before it.
    #[inline]
    fn follow(&mut self, source: usize, sent: u32) -> Result<(i64, u64), FragmentVerdict> {
        let number = self.unwrap(source, sent);
        let of = &mut self.sources[source];
        // Asked first, so that the answer does not depend on when events leave.
        if of.seen.is_some_and(|(_, last)| number <= last) {
            return Err(FragmentVerdict::Repeated);
        }
        if number < 0 || self.left.is_some_and(|left| number <= left) {
            return Err(FragmentVerdict::Late);
        }
        let gap = match &mut of.seen {
            Some((_, last)) => (number - std::mem::replace(last, number) - 1) as u64,
            seen => {
                *seen = Some((number, number));
                0
            }
        };
        self.near.get_or_insert(number);
        let head = &mut self.heads[source];
        if *head == NOBODY {
            *head = number;
            self.empty -= 1;
        }
        self.waiting += 1;
        Ok((number, gap))
    }

    #[inline]
    fn lowest(&self) -> Option<i64> {
        let lowest = self.heads.iter().fold(NOBODY, |least, &head| least.min(head));
        (lowest != NOBODY).then_some(lowest)
    }

    /// Whether an event may leave. `now`: `None` if no time may decide. `full`: there is no room to wait.
    pub fn due(&self, now: Option<Nanos>, full: bool) -> NextEvent {
        let waits = NextEvent::Waits(None);
        if self.waiting == 0 {
            return waits;
        }
        let due = if self.empty == 0 {
            EventDue::Decided
        } else if full {
            EventDue::Forced
        } else {
            let Some((now, timeout)) = now.zip(self.timeout) else { return waits };
            // Of all heads: an event may be older than one with a lower number, which then leaves before it.
            let heads = self.sources.iter().filter_map(|source| source.arrivals.front());
            let Some(arrived) = heads.map(|f| f.of.arrived.0).min() else { return waits };
            let over = Nanos(arrived.saturating_add(timeout.0));
            if now < over {
                return NextEvent::Waits(Some(over));
            }
            EventDue::Expired
        };
        self.lowest().map_or(waits, |number| NextEvent::Leaves(number as u64, due))
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
        let mut room_left = 0;
        for (at, (source, head)) in self.sources.iter_mut().zip(&mut self.heads).enumerate() {
            if *head != number {
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
            }
            let Some((fragment, next)) = source.take() else { continue };
            *head = next;
            self.empty += usize::from(next == NOBODY);
            event.parts += 1;
            event.bytes += u64::from(fragment.len);
            of_event |= fragment.flags;
            room_left += room(fragment.len.into(), &[]);
            let further = if fragment.further { source.further.pop_front() } else { None };
            let Some(Arrived { of, known, .. }) = source.arrivals.front_mut() else { continue };
            if due == EventDue::Decided {
                self.decided = self.decided.min(of.arrived);
            }
            if time_ns == 0 || (of.time_ns > 0 && of.time_ns < time_ns) {
                time_ns = of.time_ns;
            }
            if let Some(records) = &mut records {
                records.part(RecordPart { source: self.ids[at].into(), flags: fragment.flags });
                if let Some(memory) = &of.memory {
                    *known = records.piece_in(memory, *known, fragment.start, fragment.first);
                }
                further.iter().flatten().for_each(|piece| records.piece(piece));
            }
            room_left += further.map_or(0, |pieces| size_of_val(&pieces[..]) as u64);
            source.count_down(1);
        }
        self.waiting -= event.parts as u64;
        self.bytes -= room_left;
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
