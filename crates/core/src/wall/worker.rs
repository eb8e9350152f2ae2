//! One worker's view of both clocks: what its packets show, and the host's time for its events.
//!
//! The era of an event follows from its time: the last one so far.
//! Source: `docs/time.md`.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use fullcount_instructions::Instructions;

use super::line::{ClockLine, Era};
use super::readings::{ClockReading, Readings};
use super::rows::{Extent, Stretch, over_a_border};
use super::{ACQUIRE_NS, ANEW_NS, BETTER_NS, CORRECT_NS, Odd, STEP_NS, WallClock};
use crate::products::{EventBatch, HitBatch, Products};

/// Packets, and time in ns, after which a constant delay means a separate clock.
const OWN_CLOCK: (u32, i64) = (8, 1_000_000_000);
/// Then others came in their time so recently, ns.
const OTHERS_NS: i64 = 500_000_000;
/// After such a silence of the last era's clock, ns, an earlier one that is active becomes the last.
const RESUME_NS: i64 = 1_000_000_000;
/// An era that begins this close to another one continues it, ns.
const CONTINUES_NS: i64 = 1_000_000;
/// An era's first packet may hold events that are so much earlier than the latest one in it, ns.
const BEFORE_NS: i64 = 5_000_000;
/// Events further ahead of all packets are odd, ns: a builder's pulse is at most 2.1 s long.
const FAR_NS: i64 = 1 << 32;
/// An era as this worker knows it.
#[derive(Debug, Clone)]
struct Known {
    era: Era,
    /// Latest time that this worker's packets showed.
    newest: i64,
    /// When the packet came that showed it, ns since 1970.
    heard: i64,
    /// A packet that came with it or later has been read.
    begun: bool,
    /// Events of it have been placed, up to this time.
    entered: bool,
    placed: i64,
}

impl Known {
    /// How far it began ahead of the host's clock, where that was the only way not to go back.
    fn lead(&self) -> i64 {
        self.era.anchor.wall.saturating_sub(self.era.received).max(0)
    }

    /// True if a packet came when this era says that its time was; at most so much earlier.
    fn fits(&self, reading: ClockReading, allowed: i64) -> bool {
        let fits = |wall: i64| {
            let difference = reading.received_ns.saturating_sub(wall);
            difference <= STEP_NS && difference >= -STEP_NS.saturating_add(allowed)
        };
        fits(self.era.at(reading.detector_ns)) || fits(self.era.last().at(reading.detector_ns))
    }
}

/// The host's time for one worker's events.
#[derive(Debug)]
pub struct WorkerClock {
    shared: Arc<WallClock>,
    version: u64,
    eras: Vec<Known>,
    /// Least difference since `since` (host's time), and the reading that showed it last.
    least: Option<i64>,
    since: i64,
    /// Packets that came long after their time: the last delay, since when it has been the same, and how many.
    late: (i64, i64, u32),
    /// When a packet last came in its time.
    fitted: i64,
    /// When the last batch came.
    latest: i64,
    /// Era of the last row.
    current: usize,
    /// How far the last era was settled when it was taken over.
    settled: i64,
    scratch: EventBatch,
    instructions: Instructions,
}

impl WorkerClock {
    /// Of a run's clock.
    pub fn new(shared: Arc<WallClock>) -> WorkerClock {
        let (eras, scratch) = (Vec::new(), EventBatch::default());
        let mut worker = WorkerClock {
            shared,
            version: 0,
            eras,
            least: None,
            since: 0,
            late: (0, 0, 0),
            fitted: i64::MIN,
            latest: i64::MIN,
            current: 0,
            settled: i64::MIN,
            scratch,
            instructions: Instructions::default(),
        };
        worker.refresh();
        worker
    }

    /// With this set of instructions.
    pub fn with(mut self, instructions: Instructions) -> WorkerClock {
        self.instructions = instructions;
        self
    }

    /// Takes over what others have found.
    fn refresh(&mut self) {
        let version = self.shared.version.load(Acquire);
        if version == self.version {
            return;
        }
        let state = self.shared.state();
        self.version = self.shared.version.load(Relaxed);
        self.settled = self.shared.settled.load(Relaxed);
        let same = |a: &Era, b: &Era| a.received == b.received && a.anchor.from == b.anchor.from;
        let known = std::mem::take(&mut self.eras);
        for era in &state.eras {
            let old = known.iter().find(|known| same(&known.era, era));
            let fresh = Known {
                era: era.clone(),
                newest: i64::MIN,
                heard: era.received,
                begun: false,
                entered: false,
                placed: i64::MIN,
            };
            self.eras.push(Known { era: era.clone(), ..old.cloned().unwrap_or(fresh) });
        }
        let current = known.get(self.current).map(|known| known.era.clone());
        let found =
            current.and_then(|era| self.eras.iter().position(|known| same(&known.era, &era)));
        self.current = found.unwrap_or(0);
    }

    /// True once both clocks are joined.
    pub fn is_joined(&self) -> bool {
        !self.eras.is_empty()
    }

    /// Looks at the readings of a batch.
    #[inline]
    pub fn observe(&mut self, readings: &Readings) {
        let (Some(first), Some(newest), Some(least)) =
            (readings.first(), readings.newest(), readings.least())
        else {
            return;
        };
        self.refresh();
        if self.eras.is_empty() && self.shared.live {
            self.shared.anchor(first);
            self.refresh();
            self.since = first.received_ns;
        }
        let back = least.received_ns < self.latest;
        self.latest = readings.latest();
        if self.shared.live {
            // A packet cannot come before its time, and a stream that is new says what its clock is at once. One that is late
            // may have been held up.
            let early = Some(least).filter(|least| self.difference(*least) < -STEP_NS);
            let anew = readings.anew().filter(|anew| self.difference(*anew) > ANEW_NS);
            let late = readings.most().filter(|most| self.is_own_clock(*most));
            let beginning =
                |known: &Known| least.received_ns.saturating_sub(known.era.received) < ACQUIRE_NS;
            let soon = !back && self.eras.last().is_some_and(beginning);
            let soon = soon && self.shared.allowed.load(Relaxed) == 0 && self.goes_on(least);
            let better = if self.shared.unused.load(Relaxed) { 1 } else { BETTER_NS };
            if soon && (-ACQUIRE_NS..=-better).contains(&self.difference(least)) {
                self.shared.acquire(least, self.version);
                self.refresh();
            }
            let early = early.filter(|early| self.difference(*early) < -STEP_NS);
            let early = early.map(|early| (early, Odd::Early { back }));
            let other = anew.or(late).map(|other| (other, Odd::Other));
            if let Some((at, odd)) = early.or(other).filter(|(at, _)| !self.fits(*at)) {
                self.shared.step(at, odd, self.version);
                self.refresh();
            }
            self.follow(newest, least);
            self.refresh();
        }
        self.begin();
        for reading in [Some(first), Some(newest), readings.anew(), readings.since_anew()]
            .into_iter()
            .flatten()
        {
            // Times that are ahead of the host's clock fit none.
            let goes_on = |known: &&mut Known| {
                let ahead = known.newest.saturating_add(FAR_NS);
                known.begun && (known.newest..ahead).contains(&reading.detector_ns)
            };
            let found = |known: &Known| known.begun && known.fits(reading, known.lead());
            let found = self.eras.iter().rposition(found);
            let known = match found {
                Some(at) => self.eras.get_mut(at),
                None => self.eras.iter_mut().rev().find(goes_on),
            };
            if let Some(known) = known.filter(|known| reading.detector_ns >= known.newest) {
                (known.newest, known.heard) = (reading.detector_ns, reading.received_ns);
            }
        }
        if self.shared.live {
            self.resume(newest);
        }
    }

    /// Goes on with an earlier clock where the last one has fallen silent.
    fn resume(&mut self, newest: ClockReading) {
        let silent = |known: &Known| newest.received_ns.saturating_sub(known.heard) > RESUME_NS;
        if !self.eras.last().is_some_and(silent) {
            return;
        }
        let heard = |known: &Known| known.heard == newest.received_ns && known.fits(newest, 0);
        if let Some(at) = self.eras.iter().rposition(heard) {
            self.shared.resume(newest, at, self.version);
            self.refresh();
            self.begin();
        }
    }

    /// What has come so far begins the eras up to here.
    fn begin(&mut self) {
        for known in &mut self.eras {
            known.begun |= known.era.received <= self.latest;
        }
    }

    /// True if the last era's clock has not leapt ahead for this packet.
    fn goes_on(&self, reading: ClockReading) -> bool {
        let Some(last) = self.eras.last().filter(|last| last.newest != i64::MIN) else {
            return true;
        };
        let gone = reading.received_ns.saturating_sub(last.heard).max(0);
        reading.detector_ns.saturating_sub(last.newest) <= gone.saturating_add(STEP_NS)
    }

    /// True once a delay has stayed the same for so long that it is no matter of packets that were held up.
    fn is_own_clock(&mut self, most: ClockReading) -> bool {
        if self.difference(most) <= STEP_NS || self.fits(most) {
            self.fitted = most.received_ns;
            return false;
        }
        // Where all are late, the host's clock was set.
        if most.received_ns.saturating_sub(self.fitted) > OTHERS_NS {
            return false;
        }
        let delay = most.received_ns.saturating_sub(most.detector_ns);
        let (last, since, packets) = &mut self.late;
        if delay.saturating_sub(*last).saturating_abs() > STEP_NS {
            (*since, *packets) = (most.received_ns, 0);
        }
        (*last, *packets) = (delay, packets.saturating_add(1));
        let long = most.received_ns.saturating_sub(*since) >= OWN_CLOCK.1;
        long && *packets >= OWN_CLOCK.0
    }

    /// Host less the last line, which may begin a little later: a correction in progress is not counted
    /// again.
    fn difference(&self, reading: ClockReading) -> i64 {
        let line = |known: &Known| known.era.last().at(reading.detector_ns);
        let at = |known: &Known| reading.received_ns.saturating_sub(line(known));
        self.eras.last().map_or(0, at)
    }

    fn fits(&self, reading: ClockReading) -> bool {
        let allowed = self.shared.allowed.load(Relaxed);
        let last = self.eras.len().saturating_sub(1);
        let fits = |(at, known): (usize, &Known)| {
            known.fits(reading, if at == last { allowed } else { 0 })
        };
        self.eras.iter().enumerate().any(fits)
    }

    /// Least differences go to the loop that corrects the rate, one in a second.
    fn follow(&mut self, newest: ClockReading, least: ClockReading) {
        let difference = self.difference(least);
        let Some(last) = self.eras.last() else { return };
        let allowed = self.shared.allowed.load(Relaxed);
        if last.fits(newest, allowed) {
            self.shared.newest.fetch_max(newest.detector_ns, Relaxed);
        }
        if !last.fits(least, allowed) && self.fits(least) {
            // Another clock's, which continues.
            return;
        }
        self.least = Some(self.least.map_or(difference, |known| known.min(difference)));
        if newest.received_ns.saturating_sub(self.since) >= CORRECT_NS {
            self.since = newest.received_ns;
            if let Some(difference) = self.least.take() {
                self.shared.saw(difference, least, self.version);
            }
        }
    }

    /// Makes the detector's times those of the host.
    pub fn place(&mut self, products: &mut Products) {
        if products.events.pulse_ns.is_empty() && products.hits.time_ns.is_empty() {
            return;
        }
        self.refresh();
        if self.eras.is_empty() {
            return;
        }
        self.events(&mut products.events);
        self.hits(&mut products.hits);
    }

    /// The lines of the last era up to this time are in use: they must not change.
    #[inline]
    fn settle(&mut self, detector_ns: i64) {
        if detector_ns >= self.settled {
            self.settle_behind(detector_ns);
        }
    }

    #[cold]
    fn settle_behind(&mut self, detector_ns: i64) {
        // A time that is far from all packets fixes nothing, because no line could come after it.
        let most = self.eras.last().map_or(i64::MIN, |known| known.newest.saturating_add(FAR_NS));
        let first = self.settled == i64::MIN;
        if detector_ns <= most || first {
            self.shared.settle(detector_ns.min(most));
            // Lines that were added before, and how far they are settled now.
            self.version = 0;
            self.refresh();
        }
    }

    /// The era that begins with this event: events come in the order of their packets, so that the next era is entered by the first
    /// one that is nearer to its anchor than to those before.
    fn entered_by(&self, detector_ns: i64, before: i64) -> Option<usize> {
        let away = |from: i64| detector_ns.saturating_sub(from).saturating_abs();
        let newest = self.eras.get(self.current).map_or(i64::MIN, |known| known.newest);
        self.eras.iter().position(|known| {
            let anchor = known.era.anchor;
            if !known.begun || known.entered {
                return false;
            }
            if self.continues_in(anchor) {
                return (0..FAR_NS).contains(&detector_ns.saturating_sub(anchor.from));
            }
            detector_ns >= anchor.from.saturating_sub(BEFORE_NS)
                && (before == i64::MIN || away(anchor.from) < away(before))
                // A clock that was there already: then time falls.
                && (anchor.from > newest || detector_ns < before.saturating_sub(STEP_NS))
        })
    }

    /// True if the clock of the last row is the same as that of an era with this anchor, which continues it.
    fn continues_in(&self, anchor: ClockLine) -> bool {
        let apart = |current: &Known| current.era.at(anchor.from).saturating_sub(anchor.wall);
        let current = self.eras.get(self.current);
        current.is_some_and(|c| c.entered && apart(c).saturating_abs() <= CONTINUES_NS)
    }

    /// False if no event of a row with times from `first` to `last` can begin an era, as [`WorkerClock::entered_by`] sees it. An era
    /// that packets began and no event ever enters, as after a loss, would else be asked for with every event: 12 times
    /// what decoding takes.
    fn may_be_entered(&self, (first, last): (i64, i64), before: i64) -> bool {
        let newest = self.eras.get(self.current).map_or(i64::MIN, |known| known.newest);
        let apart = |a: i64, b: i64| a.saturating_sub(b).saturating_abs();
        let latest = before.max(last);
        self.eras.iter().any(|known| {
            let anchor = known.era.anchor;
            if !known.begun || known.entered {
                return false;
            }
            if self.continues_in(anchor) {
                return last >= anchor.from && first < anchor.from.saturating_add(FAR_NS);
            }
            let within = (first..=last).contains(&anchor.from);
            let nearest = apart(first, anchor.from).min(apart(last, anchor.from));
            let nearest = if within { 0 } else { nearest };
            let ends = [(first, before), (last, before), (first, latest)];
            let farthest = ends.into_iter().map(|(a, b)| apart(a, b)).max().unwrap_or(0);
            last >= anchor.from.saturating_sub(BEFORE_NS)
                && (before == i64::MIN || nearest < farthest)
                && (anchor.from > newest || first < latest.saturating_sub(STEP_NS))
        })
    }

    /// Number of the era that a row of events is of, by the times of its first and its latest event.
    fn enter(&mut self, first: i64, last: i64) -> usize {
        let before = self.eras.get(self.current).map_or(i64::MIN, |known| known.placed);
        let new = self.entered_by(first, before);
        let at = new.unwrap_or_else(|| self.era(last));
        self.current = at;
        if let Some(known) = self.eras.get_mut(at) {
            known.placed = if new.is_some() { last } else { known.placed.max(last) };
            known.entered = true;
        }
        at
    }

    /// Cuts a row into two where an era begins within it.
    #[cold]
    fn cut_rows(&self, events: &mut EventBatch) {
        let mut before = self.eras.get(self.current).map_or(i64::MIN, |known| known.placed);
        let mut row = 0;
        while row < events.pulse_ns.len() {
            let from = events.pulse_first[row] as usize;
            let upto = events.pulse_first.get(row + 1).map_or(events.len(), |&next| next as usize);
            let pulse = events.pulse_ns[row];
            let offsets = &events.offset_ns[from..upto];
            let (least, most) = self.instructions.run(Extent(offsets));
            let times = [least, most].map(|offset| pulse.saturating_add(offset.into()));
            if !self.may_be_entered(times.into(), before) {
                before = if upto > from { before.max(times[1]) } else { before };
                row += 1;
                continue;
            }
            for at in from..upto {
                let time = pulse.saturating_add(events.offset_ns[at].into());
                if self.entered_by(time, before).is_some() {
                    if at > from {
                        events.pulse_ns.insert(row + 1, pulse);
                        events.pulse_first.insert(row + 1, at as u32);
                    }
                    return;
                }
                before = before.max(time);
            }
            row += 1;
        }
    }

    /// Number of the era of a time, among those that were entered: the one whose clock shows the nearest time now. So
    /// different clocks are never mixed, for any times that they have shown.
    fn era(&self, detector_ns: i64) -> usize {
        let away = |known: &Known| {
            let (newest, heard) = match known.newest {
                i64::MIN => (known.era.anchor.from, known.era.received),
                newest => (newest, known.heard),
            };
            let now = newest.saturating_add(self.latest.saturating_sub(heard));
            detector_ns.saturating_sub(now).saturating_abs()
        };
        let entered = self.eras.iter().enumerate().filter(|(_, known)| known.entered);
        entered.min_by_key(|(at, known)| (away(known), usize::MAX - at)).map_or(0, |(at, _)| at)
    }

    fn events(&mut self, events: &mut EventBatch) {
        if self.eras.iter().any(|known| known.begun && !known.entered) {
            self.cut_rows(events);
        }
        let mut placed = std::mem::take(&mut self.scratch);
        placed.clear();
        for row in 0..events.pulse_ns.len() {
            let from = events.pulse_first[row] as usize;
            let upto = events.pulse_first.get(row + 1).map_or(events.len(), |&next| next as usize);
            let (pulse, offsets) = (events.pulse_ns[row], &mut events.offset_ns[from..upto]);
            let (least, longest) = self.instructions.run(Extent(offsets));
            let first = offsets.first().copied().unwrap_or(0);
            let last = pulse.saturating_add(longest.into());
            let mut number = self.enter(pulse.saturating_add(first.into()), last);
            if number + 1 == self.eras.len() {
                self.settle(last);
                number = self.current;
            }
            let era = &self.eras[number].era;
            let at = era.line(pulse);
            let line = &era.lines[at];
            placed.pulse_first.push(from as u32);
            if pulse < era.anchor.from && !offsets.is_empty() {
                // Before an anchor was another time.
                let begun = pulse.saturating_add(least.into()).min(era.anchor.from);
                placed.pulse_ns.push(over_a_border(
                    self.instructions,
                    era,
                    (pulse, begun),
                    (least, longest),
                    offsets,
                ));
                continue;
            }
            placed.pulse_ns.push(line.at(pulse));
            if era.line(last) != at {
                let ends = (least, longest);
                over_a_border(self.instructions, era, (pulse, pulse), ends, offsets);
            } else if line.rate != 0 {
                self.instructions.run(Stretch { line, pulse, shift: 0, offsets });
            }
        }
        std::mem::swap(&mut events.pulse_ns, &mut placed.pulse_ns);
        self.scratch = placed;
    }

    fn hits(&mut self, hits: &mut HitBatch) {
        for time in &mut hits.time_ns {
            let number = self.era(*time);
            if number + 1 == self.eras.len() {
                self.settle(*time);
            }
            *time = self.eras[self.era(*time)].era.at(*time);
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
