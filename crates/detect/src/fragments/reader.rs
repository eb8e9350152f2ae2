//! The decoder: blocks become fragments, fragments events, and streams get their credit.
//!
//! Hops `decode`, `fragments` and `events`. Nothing is copied where the source's memory is shared; otherwise once a batch. What an event
//! waits for is in the counters, by source.

mod leave;
mod read;
mod told;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::records::{EventRecords, RecordPiece, flags};
use fullcount_core::source::{StreamCredit, StreamTable};
use fullcount_core::time::Nanos;
use fullcount_instructions::Instructions;

use super::assembly::{Assembled, Assembly};
use super::block::FragmentBlock;
use super::counters::{FragmentCounter as C, PerSource, lines};
use super::credit::{CreditRule, FULL, Grant};
use super::fed::{Fed, checksum, ends};
use super::merge::{ArrivedBatch, EventDue, EventFragment, FragmentVerdict, Merger, WholeFragment};
use super::options::Options;
use super::sources::{Owners, Refusal, Slot, UnitStream};
use crate::detector::{CommandError, CommandInfo, Decoder, SeenModule};
use leave::Owed;
use read::From;

/// The stream of all packets that come without one.
const FIELD: usize = 0;

/// The readout unit.
pub(super) struct UnitReader {
    merger: Merger,
    owners: Owners,
    streams: Vec<Option<UnitStream>>,
    free: Vec<usize>,
    /// By the stream's number.
    index: HashMap<u32, usize>,
    rule: CreditRule,
    ids: Vec<u16>,
    crc_every: u32,
    /// Fragments are taken, and events leave, in rows where they are alike.
    rows: bool,
    /// No event has left, and it is known which should be the first.
    goes_on: bool,
    /// For checksums.
    instructions: Instructions,
    wants_records: bool,
    /// Packets came that no stream brought: nobody can be asked to wait.
    ungoverned: bool,
    /// Events that left while blocks were read: they go with the next products.
    early: EventRecords,
    now: Option<Nanos>,
    /// When the next event leaves because of its time.
    due: Option<Nanos>,
    /// When events that have left must be with the outputs, if they are not before.
    given_by: Option<Nanos>,
    batch: BatchNumber,
    /// Memory of fragments that wait for an earlier stream of their source, bytes.
    stashed: u64,
    /// By source: throttling state of its last fragment.
    throttling: Vec<Option<u8>>,
    /// By source: number of the first event that it brought.
    first: Vec<Option<u32>>,
    tally: Tally<{ C::LINES }>,
    sheet: Arc<Sheet>,
}

/// What is looked at in a fragment.
struct Looked {
    event: u32,
    len: u64,
    broken: bool,
    /// Id of its source, and its place.
    id: u16,
    at: usize,
}

impl UnitReader {
    pub fn new(options: &Options, wants_records: bool, instructions: Instructions) -> UnitReader {
        let ids = options.sources.clone();
        UnitReader {
            merger: match options.first_event {
                Some(first) => Merger::from(first, ids.clone(), options.timeout),
                None => Merger::new(ids.clone(), options.timeout),
            },
            goes_on: options.first_event.is_some(),
            owners: Owners::new(&ids),
            streams: vec![Some(UnitStream::default())],
            free: Vec::new(),
            index: HashMap::new(),
            rule: CreditRule::new(options.memory, ids.len()),
            crc_every: options.crc_every,
            rows: options.rows,
            instructions,
            wants_records,
            ungoverned: false,
            early: EventRecords::default(),
            now: None,
            due: None,
            given_by: None,
            batch: BatchNumber::default(),
            stashed: 0,
            throttling: vec![None; ids.len()],
            first: vec![None; ids.len()],
            tally: Tally::default(),
            sheet: Sheet::new(lines(&ids)),
            ids,
        }
    }

    #[inline]
    fn add(&mut self, line: C, n: u64) {
        self.tally.add(line, n);
    }

    /// The place of a stream.
    fn stream(&mut self, credit: Option<&Arc<StreamCredit>>) -> usize {
        let Some(credit) = credit else {
            self.ungoverned = true;
            return FIELD;
        };
        if let Some(&at) = self.index.get(&credit.number()) {
            return at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.streams.len() - 1
        });
        self.streams[at] = Some(UnitStream::of(Some(credit.clone())));
        self.index.insert(credit.number(), at);
        at
    }

    #[inline]
    fn block(&mut self, block: &FragmentBlock, payload: &[u8], start: usize, from: From<'_>) {
        let Some(stream) = self.streams[from.stream].as_mut() else { return };
        let found = stream.find(block.source);
        let slot = match found.map_or_else(|| self.begin(block, from.stream), Ok) {
            Ok(slot) => slot,
            Err(refusal) => {
                let line = match refusal {
                    Refusal::Unknown => C::Unknown,
                    Refusal::Doubled => C::Doubled,
                };
                let ends = u64::from(block.last);
                self.add(C::Count, ends);
                return self.add(line, ends);
            }
        };
        let Some(stream) = self.streams[from.stream].as_mut() else { return };
        let of_slot = &mut stream.slots[slot];
        let (id, at, waits) = (of_slot.id, of_slot.at, of_slot.stash.is_some());
        // Most fragments are one block, and take a third of the time of others: no reference, nothing put together.
        if block.is_whole() && of_slot.assembly.is_idle() && !waits {
            let len = block.len as u32;
            let looked = Looked { event: block.event, len: len.into(), broken: false, id, at };
            let (number, flags) = self.look_at(&looked, std::iter::once(payload));
            let whole = WholeFragment { number, flags, start: start as u32, len };
            let verdict = self.merger.push_whole(at, whole, from.arrival);
            return self.judged(verdict);
        }
        let memory = from.memory.clone();
        let piece = RecordPiece { memory, start: start as u32, len: block.len as u32 };
        let outcome = of_slot.assembly.block(block, piece, self.batch);
        self.add(C::BlockOrder, outcome.out_of_order.into());
        for done in outcome.before.into_iter().chain(outcome.done) {
            self.fragment(done, (from.stream, slot), from.arrival);
        }
    }

    /// A source comes on a stream for the first time.
    #[cold]
    fn begin(&mut self, block: &FragmentBlock, at: usize) -> Result<usize, Refusal> {
        self.reap();
        let streams = &mut self.streams;
        let Some(stream) = streams[at].as_ref() else { return Err(Refusal::Unknown) };
        if let Some(refusal) = stream.refused {
            return Err(refusal);
        }
        let place = self.owners.place(block.source).ok_or(Refusal::Unknown);
        let alone = stream.credit.is_none() || stream.slots.is_empty();
        let place = place.and_then(|place| if alone { Ok(place) } else { Err(Refusal::Doubled) });
        let first = self.owners.streams.iter().all(|(owner, _)| owner.is_none());
        let claimed = place.and_then(|place| {
            // Packets without a stream cannot be made to wait until an earlier stream has been read.
            let open = |other: usize| {
                at == FIELD || streams[other].as_ref().is_some_and(UnitStream::is_open)
            };
            Ok((place, self.owners.claim(place, at, open)?))
        });
        let Some(stream) = streams[at].as_mut() else { return Err(Refusal::Unknown) };
        let (place, waits) = match claimed {
            Ok(claimed) => claimed,
            Err(refusal) => {
                // Of datagrams only these are refused.
                if let Some(credit) = &stream.credit {
                    credit.refuse(&refusal.told(block.source, alone));
                    stream.refused = Some(refusal);
                }
                return Err(refusal);
            }
        };
        let stash = waits.then(VecDeque::new);
        stream.slots.push(Slot {
            id: block.source,
            at: place,
            assembly: Assembly::default(),
            stash,
        });
        stream.recent = stream.slots.len() - 1;
        let slot = stream.recent;
        self.sheet.set(PerSource::Streams.line(place), 1);
        // Behind the last event of the unit before: what lies between is missing.
        let number = *self.first[place].get_or_insert(block.event);
        self.sheet.set(PerSource::First.line(place), number.into());
        if first && self.merger.is_behind(place, block.event) {
            self.begin_anew();
        }
        Ok(slot)
    }

    /// All senders had ended, and the first one of them begins with a number that has left.
    fn begin_anew(&mut self) {
        // What waits has waited for streams that are over.
        let mut early = std::mem::take(&mut self.early);
        while self.leave(EventDue::Ended, &mut early, Owed::Lost).is_some() {}
        self.early = early;
        self.merger.begin_anew();
        self.add(C::Restarts, 1);
    }

    /// A fragment is there: is it what it says? Its event number and its flags.
    #[inline]
    fn look_at<'a>(
        &mut self,
        of: &Looked,
        pieces: impl DoubleEndedIterator<Item = &'a [u8]> + Clone,
    ) -> (u32, u16) {
        let Looked { event, len, broken, id, at } = *of;
        let mut number = event;
        self.add(C::Count, 1);
        self.sheet.add(PerSource::Count.line(at), 1);
        let mut of = if broken { flags::BROKEN } else { 0 };
        let mut bad = |line: C, flag: u16| {
            self.tally.add(line, 1);
            of |= flag;
        };
        match ends(pieces.clone()).and_then(|(header, trailer)| Fed::read(header, trailer)) {
            None => bad(C::WrongFrame, flags::BROKEN),
            Some(fed) => {
                if fed.len != len {
                    bad(C::WrongLength, flags::BROKEN);
                }
                if (fed.event, fed.source) != (event, id) {
                    bad(C::WrongNumber, flags::BROKEN);
                    // A damaged number that jumps ahead would make all later ones of the source repeated.
                    if self.merger.follows(at, fed.event) {
                        number = fed.event;
                    }
                }
                if let Some(line) = C::of_throttling(fed.throttling) {
                    self.tally.add(line, 1);
                    self.sheet.add(PerSource::Throttled.line(at), 1);
                }
                self.throttling[at] = Some(fed.throttling);
                if self.crc_every > 0 && event.is_multiple_of(self.crc_every) {
                    self.tally.add(C::Checked, 1);
                    if checksum(pieces, self.instructions) != fed.crc {
                        self.tally.add(C::WrongCrc, 1);
                        of |= flags::CHECKSUM;
                    }
                } else {
                    of |= flags::UNCHECKED;
                }
            }
        }
        if of & (flags::BROKEN | flags::CHECKSUM) != 0 {
            self.sheet.add(PerSource::Bad.line(at), 1);
        }
        (number, of)
    }

    /// A fragment of several blocks, or one that waits for an earlier stream.
    fn fragment(
        &mut self,
        done: Assembled,
        (stream, slot): (usize, usize),
        arrival: &ArrivedBatch,
    ) {
        let Some(of_stream) = &self.streams[stream] else { return };
        let of_slot = &of_stream.slots[slot];
        let (id, at, waits) = (of_slot.id, of_slot.at, of_slot.stash.is_some());
        let Assembled { event, broken, len, .. } = done;
        let looked = Looked { event, len, broken, id, at };
        let (number, flags) = self.look_at(&looked, done.pieces());
        let (first, more) = match self.wants_records {
            true => (Some(done.first), done.more),
            false => (None, Vec::new()),
        };
        let ArrivedBatch { batch, arrived, time_ns, .. } = *arrival;
        let fragment = EventFragment { number, batch, arrived, time_ns, flags, len, first, more };
        if !waits {
            return self.merge(at, fragment);
        }
        let stream = self.streams[stream].as_mut();
        if let Some(stash) = stream.and_then(|stream| stream.slots[slot].stash.as_mut()) {
            self.stashed += fragment.room();
            stash.push_back(fragment);
        }
    }

    /// What waited for an earlier stream waits for the other sources.
    fn unstash(&mut self, at: usize, stash: Option<VecDeque<EventFragment>>) {
        for fragment in stash.into_iter().flatten() {
            self.stashed -= fragment.room();
            self.merge(at, fragment);
        }
    }

    fn merge(&mut self, at: usize, fragment: EventFragment) {
        let verdict = self.merger.push(at, fragment);
        self.judged(verdict);
    }

    #[inline]
    fn judged(&mut self, verdict: FragmentVerdict) {
        match verdict {
            FragmentVerdict::Taken { gap } => self.add(C::Gaps, u64::from(gap > 0)),
            FragmentVerdict::Repeated => self.add(C::Repeated, 1),
            FragmentVerdict::Late => self.add(C::Late, 1),
        }
    }

    /// Streams that are over give their sources away.
    fn reap(&mut self) {
        for at in 1..self.streams.len() {
            // One that waits for an earlier stream keeps its place until that one is over.
            let gone = |stream: &mut UnitStream| {
                stream.is_over() && stream.slots.iter().all(|slot| slot.stash.is_none())
            };
            let Some(stream) = self.streams[at].take_if(gone) else { continue };
            if let Some(credit) = &stream.credit {
                self.index.remove(&credit.number());
            }
            self.free.push(at);
            for mut slot in stream.slots {
                self.add(C::Unfinished, slot.assembly.give_up().into());
                let heir = self.owners.leave(slot.at, at);
                self.sheet.set(PerSource::Streams.line(slot.at), heir.is_some().into());
                let heir = heir.and_then(|heir| self.streams[heir].as_mut());
                let stash = heir.and_then(|heir| heir.slots.first_mut()?.stash.take());
                self.unstash(slot.at, stash);
            }
        }
    }

    /// Memory of all that waits: for other sources, for an earlier stream, for the rest of its fragment; bytes.
    fn held(&self) -> u64 {
        let slots = self.streams.iter().flatten().flat_map(|stream| &stream.slots);
        let begun: u64 = slots.map(|slot| slot.assembly.room()).sum();
        self.merger.bytes() + self.stashed + begun
    }

    /// Gives each stream its credit.
    fn govern_all(&mut self, held: u64) {
        let (rule, merger) = (self.rule, &self.merger);
        let mut pauses = 0;
        for stream in self.streams[1..].iter_mut().flatten() {
            let Some(credit) = &stream.credit else { continue };
            let (handed, allowed) = (stream.handed, credit.allowed());
            if stream.slots.iter().any(|slot| slot.stash.is_some()) {
                pauses += u64::from(!std::mem::replace(&mut stream.paused, true));
                credit.allow(handed);
                continue;
            }
            let awaited = stream.slots.iter().all(|slot| merger.is_awaited(slot.at));
            credit.await_behind(if awaited { handed } else { StreamCredit::AHEAD });
            match rule.grant(held, awaited, stream.paused) {
                Grant::Bytes(bytes) => {
                    if std::mem::take(&mut stream.paused) {
                        stream.resumed = self.now;
                    }
                    let left = allowed.saturating_sub(handed);
                    if left > bytes || left < bytes / 2 {
                        credit.allow(handed + bytes);
                    }
                }
                Grant::Pause => {
                    stream.paused = true;
                    pauses += 1;
                    credit.allow(handed);
                }
                Grant::Stay => {}
            }
        }
        self.add(C::Pauses, pauses);
    }

    fn publish(&mut self, held: u64) {
        self.tally.flush(&self.sheet);
        let stashed: usize = self.stashed();
        let set = |line: C, n: u64| self.sheet.set(line as usize, n);
        set(C::Waiting, self.merger.waiting() + stashed as u64);
        set(C::Held, held);
        set(C::Awaited, self.merger.awaited() as u64);
    }

    fn stashed(&self) -> usize {
        // Each takes memory, however short.
        if self.stashed == 0 {
            return 0;
        }
        let waiting = self.owners.streams.iter().filter_map(|(_, heir)| *heir);
        let stash = |at: usize| self.streams[at].as_ref()?.slots.first()?.stash.as_ref();
        waiting.filter_map(stash).map(VecDeque::len).sum()
    }

    /// What only time changes.
    fn look(&mut self) {
        self.reap();
        let paused = self.streams.iter().flatten().filter(|stream| stream.paused).count();
        let absent = self.owners.streams.iter().filter(|(owner, _)| owner.is_none()).count();
        let age = self.age().unwrap_or_default();
        for at in 0..self.ids.len() {
            let awaited = self.merger.is_awaited(at).into();
            self.sheet.set(PerSource::Awaited.line(at), awaited);
        }
        let set = |line: C, n: u64| self.sheet.set(line as usize, n);
        set(C::Paused, paused as u64);
        set(C::Absent, absent as u64);
        set(C::OldestMs, (age.0 / 1_000_000) as u64);
    }

    /// Of the oldest fragment that waits.
    fn age(&self) -> Option<Nanos> {
        let (_, arrived) = self.merger.oldest()?;
        self.now.map(|now| Nanos((now.0 - arrived.0).max(0)))
    }
}

impl Decoder for UnitReader {
    fn decode(&mut self, batch: Option<&Batch>, now: Option<Nanos>, products: &mut Products) {
        self.now = now;
        self.batch = products.batch;
        // Who calls at that time hands over.
        self.given_by = self.given_by.filter(|by| now.is_some_and(|now| now < *by));
        match batch {
            Some(batch) => self.read(batch),
            None => self.look(),
        }
        self.give(products);
        let decided = self.merger.decided_until().filter(|_| now.is_some());
        self.given_by = self.given_by.into_iter().chain(decided).min();
        let held = self.held();
        self.govern_all(held);
        self.publish(held);
    }

    fn flush(&mut self, reason: Flush, products: &mut Products) {
        self.give_all(products, reason == Flush::Stalled);
        (self.due, self.given_by) = (None, None);
        self.merger.decided_until();
        if reason == Flush::Taken {
            for slot in self.streams.iter_mut().flatten().flat_map(|stream| &mut stream.slots) {
                slot.assembly.give_up();
            }
            self.merger.forget_numbers();
        }
        if reason == Flush::End {
            let slots = self.streams.iter_mut().flatten().flat_map(|stream| &mut stream.slots);
            let unfinished = slots.filter_map(|slot| slot.assembly.give_up().then_some(1)).sum();
            self.add(C::Unfinished, unfinished);
        } else {
            // What was ahead is awaited now, and no batch comes of streams that are all paused.
            self.govern_all(self.held());
        }
        self.publish(self.held());
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        let slots = || self.streams.iter().flatten().flat_map(|stream| &stream.slots);
        let begun = slots().filter_map(|slot| slot.assembly.oldest());
        let stashed = slots().filter_map(|slot| Some(slot.stash.as_ref()?.front()?.batch));
        let waiting = self.merger.oldest().map(|(batch, _)| batch);
        begun.chain(stashed).chain(waiting).min_by_key(|batch| batch.batch)
    }

    fn due(&self) -> Option<Nanos> {
        self.due.into_iter().chain(self.given_by).min()
    }

    fn govern(&mut self, streams: Arc<StreamTable>) {
        // Enough to tell its source; more follows with the first batch.
        streams.begin_with(FULL);
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        for (at, id) in self.ids.iter().enumerate() {
            let get = |line: PerSource| self.sheet.get(line.line(at));
            let (packets, lost) = (get(PerSource::Count), get(PerSource::Lost));
            if packets + lost > 0 {
                tell(SeenModule { origin: Origin::NONE, id: u32::from(*id), packets, lost });
            }
        }
    }

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.sheet.clone()]
    }

    fn commands(&self) -> Vec<CommandInfo> {
        let help = "a line for each source: its stream, what it waits for, what is lost, its throttling state".to_owned();
        vec![CommandInfo {
            name: "SOURCES".into(),
            arguments: String::new(),
            help,
            count: 0..=0,
            changes: false,
        }]
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        match (name, arguments) {
            ("SOURCES", []) => Ok(self.told()),
            ("SOURCES", _) => Err(CommandError::Arguments("SOURCES takes no arguments".into())),
            _ => Err(CommandError::Unknown(name.to_owned())),
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "reader_leave_tests.rs"]
mod leave_tests;

#[cfg(test)]
#[path = "reader_rows_tests.rs"]
mod rows_tests;
