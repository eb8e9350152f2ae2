//! Hits to events: groups of one module and one time, and all modules and pulses as one stream of rising time.
//!
//! Refuses groups by the rules of the format, one counter each. An entry leaves when the stream has gone on
//! by the latency window, when it has waited long enough (live only), or when too many wait; never does a
//! module, plane or pulse input that is silent hold it up. A step back by more than the window finishes
//! everything before it. Source: `docs/formats/multigrid.md` section 6.

use std::collections::VecDeque;
use std::sync::Arc;

use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::{Nanos, TickLength, Ticks};

use super::counters::MultiGridBuilt;
use super::file::MultiGridConfig;
use super::group::{Group, PlaneHits};
use super::mapping::Plane;
use super::volume::Sums;
use super::waiting::{EntryState, Waiting, WaitingEntry};
use crate::detector::TimeBase;
use crate::hits::PlaneHit;
use crate::oldest::OldestBatch;
use crate::pulses::Pulses;
use crate::steps::Builder;

/// 62.5 ns.
pub(super) fn tick() -> TickLength {
    TickLength::new(125, 2).expect("both are in range")
}

/// Ticks to ns since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    epoch: i64,
}

impl Clock {
    pub fn new(time: &TimeBase) -> Clock {
        Clock { epoch: time.epoch.0 }
    }

    #[inline]
    pub fn absolute(self, ticks: i64) -> Nanos {
        // 46-bit times need no 128-bit division. Shifting right rounds down.
        let ns = match ticks.checked_mul(125) {
            Some(twice) => twice >> 1,
            None => tick().to_nanos(Ticks(ticks)).0,
        };
        Nanos(ns.saturating_add(self.epoch))
    }
}

/// Why a closed group is no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Multiplicity,
    NoCoincidence,
    Outside,
}

impl Refusal {
    /// The one counter of a refusal.
    fn line(self) -> MultiGridBuilt {
        match self {
            Refusal::Multiplicity => MultiGridBuilt::Multiplicity,
            Refusal::NoCoincidence => MultiGridBuilt::Bad,
            Refusal::Outside => MultiGridBuilt::Outside,
        }
    }
}

/// Everything up to a place was there at a time.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: i64,
    upto: u64,
}

/// Marks within the time that an entry may wait: it leaves an eighth of it early at most.
const MARKS: i64 = 8;

/// The one builder behind the reader.
pub(super) struct MultigridBuilder {
    sheet: Arc<Sheet>,
    tally: Tally<{ MultiGridBuilt::LINES }>,
    config: Arc<MultiGridConfig>,
    clock: Clock,
    pulses: Pulses,
    groups: Vec<Group>,
    waiting: Waiting,
    /// Events and pulses in `waiting`.
    ready: u64,
    pulses_ready: u64,
    /// Time of the last hit or pulse.
    last: Option<i64>,
    /// Latest time since the last step back.
    newest: i64,
    release_ns: i64,
    marks: VecDeque<Mark>,
    /// When the first entry behind the last mark came.
    since: Option<i64>,
    marked: u64,
    /// Latest time of what waited at a moment.
    leaving: OldestBatch<i64>,
}

impl MultigridBuilder {
    pub fn new(
        config: Arc<MultiGridConfig>,
        time: &TimeBase,
        release_ns: i64,
        most: usize,
    ) -> Self {
        let group = |module: usize| {
            let mapping = config.mappings.get(module);
            let numbers = |plane| mapping.map_or(0, |m| m.numbers(plane));
            let planes = [Plane::Wires, Plane::Grids].map(|p| PlaneHits::new(numbers(p)));
            Group { planes, ..Group::default() }
        };
        MultigridBuilder {
            sheet: Sheet::new(MultiGridBuilt::catalogue()),
            tally: Tally::default(),
            clock: Clock::new(time),
            pulses: Pulses::new(time),
            groups: (0..config.modules.len()).map(group).collect(),
            waiting: Waiting::new(most),
            ready: 0,
            pulses_ready: 0,
            last: None,
            newest: 0,
            release_ns,
            marks: VecDeque::with_capacity(2 * MARKS as usize),
            since: None,
            marked: 0,
            leaving: OldestBatch::default(),
            config,
        }
    }

    #[inline]
    fn count(&mut self, line: MultiGridBuilt, n: u64) {
        self.tally.add(line, n);
    }

    /// Takes hits in the order of the stream.
    fn take(&mut self, hits: &[PlaneHit], products: &mut Products) {
        self.count(MultiGridBuilt::Hits, hits.len() as u64);
        for hit in hits {
            if self.last != Some(hit.time) {
                self.advance(hit.time, products);
            }
            let module = usize::from(hit.module);
            if hit.plane > 1 || module >= self.groups.len() {
                self.no_hit(hit, products);
                continue;
            }
            let group = &self.groups[module];
            if !group.open || group.time != hit.time {
                self.begin(module, hit.time, products);
            }
            let volume = &self.config.volume;
            let [wires, grids] = &mut self.groups[module].planes;
            if hit.plane == Plane::Wires as u8 {
                wires.add(hit.coordinate, hit.weight, |wire| volume.wire(module, wire));
            } else {
                grids.add(hit.coordinate, hit.weight, |grid| (volume.grid(module, grid), 0));
            }
        }
    }

    /// The stream goes on to `time`, or back.
    #[inline]
    fn advance(&mut self, time: i64, products: &mut Products) {
        if time < self.newest.saturating_sub(self.config.latency) {
            self.count(MultiGridBuilt::StepsBack, 1);
            self.release_all(products);
            self.newest = time;
        }
        self.newest = self.newest.max(time);
        self.last = Some(time);
    }

    /// A pulse, or what is no hit at all.
    #[cold]
    fn no_hit(&mut self, hit: &PlaneHit, products: &mut Products) {
        if hit.plane != PlaneHit::PULSE {
            self.count(MultiGridBuilt::BadPlane, 1);
            return;
        }
        self.count(MultiGridBuilt::PulseHits, 1);
        self.count(MultiGridBuilt::PulsesIn, 1);
        self.pulses_ready += 1;
        self.append(WaitingEntry::pulse(hit.time), products);
    }

    /// A module's group of another time begins.
    #[inline]
    fn begin(&mut self, module: usize, time: i64, products: &mut Products) {
        if self.groups[module].open {
            self.close(module);
        }
        if time < self.groups[module].time {
            self.count(MultiGridBuilt::TimeSeqErr, 1);
        }
        let slot = self.append(WaitingEntry::open(time, module as u8), products);
        let group = &mut self.groups[module];
        (group.time, group.slot, group.open) = (time, slot, true);
    }

    #[inline]
    fn append(&mut self, entry: WaitingEntry, products: &mut Products) -> u64 {
        if self.waiting.is_full() {
            self.make_room(products);
        }
        let groups = &mut self.groups;
        self.waiting.push(entry, |module, slot| groups[module].slot = slot)
    }

    /// Decides a group.
    #[inline]
    fn close(&mut self, module: usize) {
        let verdict = self.decide(module);
        let group = &mut self.groups[module];
        group.open = false;
        let [wires, grids] = &mut group.planes;
        let n = u64::from(wires.hits) + u64::from(grids.hits);
        let runs = [u64::from(wires.runs), u64::from(grids.runs)];
        wires.clear();
        grids.clear();
        let entry = self.waiting.at(group.slot);
        match verdict {
            Ok((pixel, adc)) => {
                entry.is_event(pixel, adc);
                self.ready += 1;
            }
            Err(refusal) => {
                entry.is_nothing();
                self.count(refusal.line(), 1);
            }
        }
        self.count(MultiGridBuilt::Grouped, n);
        self.count(MultiGridBuilt::WireClusters, runs[0]);
        self.count(MultiGridBuilt::GridClusters, runs[1]);
        self.count(MultiGridBuilt::Groups, 1);
    }

    /// Rules 3 to 7 of the format: pixel, and amplitude of the strongest wire.
    #[inline]
    fn decide(&mut self, module: usize) -> Result<(u32, u16), Refusal> {
        let [wires, grids] = &self.groups[module].planes;
        let [most_wires, most_grids] = self.config.multiplicity;
        if wires.hits > most_wires || grids.hits > most_grids {
            return Err(Refusal::Multiplicity);
        }
        self.tally.add(MultiGridBuilt::Used, u64::from(wires.chosen) + u64::from(grids.chosen));
        let weightless = self.config.weighted[module] && (wires.best == 0 || grids.best == 0);
        if wires.hits == 0 || grids.hits == 0 || weightless {
            return Err(Refusal::NoCoincidence);
        }
        let volume = &self.config.volume;
        let pixel = if wires.chosen == 1 && grids.chosen == 1 {
            volume.pixel(module, wires.at, grids.at)
        } else {
            let (x, z) = match wires.chosen {
                1 => place(volume.wire(module, wires.at)),
                _ => wires.sums,
            };
            let y = match grids.chosen {
                1 => volume.grid(module, grids.at).into(),
                _ => grids.sums.0,
            };
            let (wires, grids) = (wires.chosen.into(), grids.chosen.into());
            volume.mean(Sums { x, z, wires, y, grids })
        };
        pixel.map(|pixel| (pixel, wires.best)).ok_or(Refusal::Outside)
    }

    /// Gives out entries while `due` says so of the first one's place and time.
    #[inline]
    fn release(&mut self, products: &mut Products, due: impl Fn(u64, i64) -> bool) -> u64 {
        let groups = &mut self.groups;
        self.waiting.sort(|module, slot| groups[module].slot = slot);
        let mut n = 0;
        while let Some((slot, mut entry)) = self.waiting.first() {
            if !due(slot, entry.time) {
                break;
            }
            if let Some(module) = entry.open_module() {
                self.close(module);
                entry = *self.waiting.at(slot);
            }
            self.waiting.pop();
            self.give(entry, products);
            n += 1;
        }
        n
    }

    #[inline]
    fn give(&mut self, entry: WaitingEntry, products: &mut Products) {
        match entry.state() {
            EntryState::Event => {
                let at = self.clock.absolute(entry.time);
                self.pulses.event(at, entry.pixel(), &mut products.events);
                if products.want.hits {
                    products.hits.time_ns.push(at.0);
                    products.hits.pixel.push(entry.pixel());
                    products.hits.adc.push(entry.adc());
                }
                self.ready -= 1;
                self.count(MultiGridBuilt::Events, 1);
            }
            EntryState::Pulse => {
                self.pulses.pulse(self.clock.absolute(entry.time), &mut products.events);
                self.pulses_ready -= 1;
                self.count(MultiGridBuilt::PulsesOut, 1);
            }
            EntryState::Nothing | EntryState::Open => {}
        }
    }

    /// Entries that nothing can come before any more: that would be a step back.
    fn release_due(&mut self, products: &mut Products) -> u64 {
        let horizon = self.newest.saturating_sub(self.config.latency);
        self.release(products, |_, time| time < horizon)
    }

    #[cold]
    fn release_all(&mut self, products: &mut Products) {
        self.release(products, |_, _| true);
        self.leaving.passed();
    }

    /// As if it had just been made: what comes meets nothing that was before.
    fn begin_anew(&mut self) {
        (self.last, self.newest) = (None, 0);
        self.groups.iter_mut().for_each(|group| group.time = 0);
        self.pulses.forget();
        self.marks.clear();
        (self.since, self.marked) = (None, self.waiting.tail());
    }

    /// What the latency window lets go; if that is nothing, too many wait, and the older half goes.
    #[cold]
    fn make_room(&mut self, products: &mut Products) {
        if self.release_due(products) > 0 {
            return;
        }
        let upto = self.waiting.tail() - self.waiting.len() / 2;
        let n = self.release(products, |slot, _| slot < upto);
        self.count(MultiGridBuilt::ByNumber, n);
    }

    /// Gives out what has waited long enough.
    fn release_by_time(&mut self, now: i64, products: &mut Products) {
        let tail = self.waiting.tail();
        if self.since.is_none() && tail > self.marked {
            self.since = Some(now);
        }
        if let Some(at) = self.since.filter(|since| now - since >= self.release_ns / MARKS) {
            self.marks.push_back(Mark { at, upto: tail });
            (self.since, self.marked) = (None, tail);
        }
        while let Some(mark) = self.marks.front().filter(|m| now - m.at >= self.release_ns) {
            let upto = mark.upto;
            self.marks.pop_front();
            let n = self.release(products, |slot, _| slot < upto);
            self.count(MultiGridBuilt::ByTime, n);
        }
    }

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        let planes = self.groups.iter().flat_map(|group| &group.planes);
        let hits = planes.map(|plane| u64::from(plane.hits)).sum();
        for (line, value) in [
            (MultiGridBuilt::Open, hits),
            (MultiGridBuilt::Ready, self.ready),
            (MultiGridBuilt::PulsesReady, self.pulses_ready),
        ] {
            self.sheet.set(line as usize, value);
        }
        for (published, ours) in [
            (MultiGridBuilt::EventsTotal, MultiGridBuilt::Groups),
            (MultiGridBuilt::TxEvents, MultiGridBuilt::Events),
            (MultiGridBuilt::MultiplicityRejects, MultiGridBuilt::Multiplicity),
            (MultiGridBuilt::EventsBad, MultiGridBuilt::Bad),
            (MultiGridBuilt::EventsGeometryErr, MultiGridBuilt::Outside),
        ] {
            self.sheet.set(published as usize, self.sheet.get(ours as usize));
        }
    }
}

fn place((x, z): (i32, i32)) -> (i64, i64) {
    (x.into(), z.into())
}

impl Builder for MultigridBuilder {
    type Hit = PlaneHit;

    fn build(&mut self, hits: &mut Vec<PlaneHit>, products: &mut Products, now: Option<Nanos>) {
        self.leaving.came(products.batch);
        self.take(hits, products);
        hits.clear();
        self.release_due(products);
        if let Some(now) = now {
            self.release_by_time(now.0, products);
        }
        self.publish();
    }

    fn flush(&mut self, reason: Flush, hits: &mut Vec<PlaneHit>, products: &mut Products) {
        self.build(hits, products, None);
        match (reason, self.leaving.moment()) {
            (Flush::Stalled, Some(&last)) => {
                self.release(products, |_, time| time <= last);
            }
            (Flush::Stalled, None) => {}
            (Flush::Taken | Flush::End, _) => self.release_all(products),
        }
        if reason == Flush::Taken {
            self.begin_anew();
        }
        self.publish();
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        let span = self.waiting.span();
        self.leaving.oldest(
            |last| span.is_some_and(|(first, _)| first <= *last),
            || span.map(|(_, last)| last),
        )
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
