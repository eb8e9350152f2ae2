//! The builder on several threads, with the events and counters of one: slices of the stream, cut in silence.
//!
//! Hits wait here by plane. At a border, once enough have come, they are cut at the latest silence
//! ([`Silence`]): what lies before it meets nothing behind it, so any member of the crew may make it into events from an empty
//! state. Without a silence for long the stream is cut at the border itself, and the member that has its state gets
//! what follows, up to the next silence. Events are handed on in the order of the slices. Bounded: hits that wait for the border
//! (as on one thread), slices under way, their hits. Refuses late hits. Source: `docs/gdgem-parallel.md`.

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;

use super::builder::{GemBuilder, Worked};
use super::counters::{BuiltCounts, GdGemBuilt};
use super::cutter::{Held, Latest, Marks, STEP, Silence, split};
use super::lane::stretch;
use super::layout::Layout;
use super::monitor::{Monitor, Shown};
use super::options::{Limits, Options};
use super::tables::Numbers;
use super::watch::ClusterWatch;
use crate::detector::{Threads, TimeBase};
use crate::hits::FineHit;
use crate::oldest::OldestBatch;
use crate::parallel::{Crew, Hand};
use crate::steps::Builder;

/// Hits of a slice: 256 KiB stay in a second-level cache, and are a third of a millisecond of work.
const SLICE: usize = 1 << 14;

/// Slices' worth of hits without a silence after which the stream is cut without one.
const PATIENCE: usize = 8;

/// A slice of fewer hits, as a part of a full one, is not worth waking a thread.
const SMALL: usize = 8;

/// Slices under way up to which small ones are worked on at once.
const SHORT_QUEUE: usize = 16;

/// Live, hits wait so long for a slice to fill up: as long as events wait for company on their way to the outputs.
const WAIT_NS: i64 = 20_000_000;

/// With hits that wait for the border, their number must grow by this part before all are looked at again.
const GROWTH: usize = 32;

/// Where a slice ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// In silence, or where everything that waits is to be decided.
    Silence,
    /// At a border, as a key and in ns: the next slice goes on.
    Border(i64, f64),
}

/// Hits on their way to a thread, and what they became on their way back.
struct Slice {
    lanes: Vec<Vec<FineHit>>,
    hits: usize,
    end: End,
    /// What the page is shown.
    shown: Shown,
    products: Products,
    worked: Worked,
}

impl<W: ClusterWatch> Hand<Slice> for GemBuilder<W> {
    fn work(&mut self, slice: &mut Slice) {
        let border = match slice.end {
            End::Silence => None,
            End::Border(key, ns) => Some((key, ns)),
        };
        slice.products.clear();
        let shown = slice.shown;
        slice.worked = self.slice(&mut slice.lanes, border, shown, &mut slice.products);
    }
}

/// The builder behind the readers; each member of the crew shows clusters to a `W` of its own.
pub(super) struct SlicedBuilder<W: ClusterWatch> {
    sheet: Arc<Sheet>,
    tally: BuiltCounts,
    limits: Limits,
    silence: Silence,
    /// Hits of a slice.
    slice: usize,
    crew: Crew<Slice, GemBuilder<W>>,
    spare: Vec<Slice>,
    /// Memory for the hits of a slice, by plane: what this thread has worked on itself, which is still near it, and what has been with another
    /// thread. The next hits go to the first where there is such, and there to what was used last; else to what has been back for
    /// longest, as it has left the other core's cache by then.
    near: Vec<Vec<Vec<FineHit>>>,
    far: VecDeque<Vec<Vec<FineHit>>>,
    marks: Marks,
    /// Hits that wait, by plane.
    held: Vec<Vec<FineHit>>,
    /// What is known of the first of them, where they come in stretches.
    latest: Vec<Latest>,
    count: usize,
    /// Hits that stayed at the last cut.
    kept: usize,
    /// Hits that must wait before a cut is tried.
    wanted: usize,
    /// Hits that must wait before those behind the border are counted.
    full: usize,
    /// Rows of a lane follow each other, as each FEC has one plane.
    in_stretches: bool,
    /// As a key, and in ns.
    border: (i64, f64),
    /// Who has the state of a slice that did not end in silence.
    open: Option<usize>,
    /// Hits of slices under way.
    away: usize,
    /// Hits that are not decided yet.
    waiting: usize,
    /// Slices that were given away, that came back, and the last given one that ended in silence.
    given: u64,
    taken: u64,
    quiet: u64,
    /// Clusters of slices that came back, up to the last that ended in silence.
    clusters: Numbers,
    leaving: OldestBatch<Moment>,
    /// Amplitudes for the page, and whether it is shown clusters; those are gathered with the slices.
    monitor: Monitor,
    /// Time of the latest call with rows, and of the latest cut.
    heard: Option<Nanos>,
    cut: Nanos,
}

/// Where what waited at a moment is by now.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Here: hits up to this time, a key.
    Held(i64),
    /// In slices up to this one, of which the last may have left something with its member of the crew.
    Given(u64),
    /// In slices up to this one, which ended in silence.
    Under(u64),
}

impl<W: ClusterWatch> SlicedBuilder<W> {
    /// `options` have been checked; `watch` is called for each member of the crew.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        layout: &Arc<Layout>,
        options: &Options,
        time: &TimeBase,
        threads: &Threads,
        watch: impl Fn() -> W,
    ) -> io::Result<SlicedBuilder<W>> {
        let limits = options.limits().unwrap_or_default();
        let silence = Silence::of(layout, &limits);
        SlicedBuilder::with(layout, options, time, threads, watch, SLICE, silence)
    }

    /// With slices of any length, for tests.
    pub fn with(
        layout: &Arc<Layout>,
        options: &Options,
        time: &TimeBase,
        threads: &Threads,
        watch: impl Fn() -> W,
        slice: usize,
        silence: Silence,
    ) -> io::Result<SlicedBuilder<W>> {
        let limits = options.limits().unwrap_or_default();
        let hand = || GemBuilder::new(layout.clone(), options, time, watch());
        Ok(SlicedBuilder {
            sheet: Sheet::new(GdGemBuilt::catalogue()),
            tally: BuiltCounts::default(),
            silence,
            slice,
            crew: Crew::start("build", threads, hand)?,
            spare: Vec::new(),
            near: Vec::new(),
            far: VecDeque::new(),
            marks: Marks::default(),
            held: layout.lanes.iter().map(|_| Vec::new()).collect(),
            latest: vec![Latest::default(); layout.lanes.len()],
            count: 0,
            kept: 0,
            wanted: slice,
            full: limits.waiting,
            limits,
            in_stretches: layout.has_a_plane_per_fec(),
            border: (i64::MIN, f64::NEG_INFINITY),
            open: None,
            away: 0,
            waiting: 0,
            given: 0,
            taken: 0,
            quiet: 0,
            clusters: Numbers::default(),
            leaving: OldestBatch::default(),
            monitor: Monitor::new(layout, time.epoch.0),
            heard: None,
            cut: Nanos(0),
        })
    }

    /// All rows in their order.
    fn rows(&mut self, rows: &[FineHit], products: &mut Products) {
        let mut left = rows;
        while !left.is_empty() {
            // Each row is one more hit that waits at most: the bound cannot be passed before the end of this part.
            let room = self.full.saturating_sub(self.count).max(1);
            let (part, rest) = left.split_at(room.min(left.len()));
            left = rest;
            self.part(part, products);
            if self.count >= self.full {
                self.check_full(products);
            }
        }
    }

    fn part(&mut self, rows: &[FineHit], products: &mut Products) {
        let (mut late, mut others, mut pushed) = (0, 0, 0);
        let mut left = rows;
        while let Some((row, rest)) = left.split_first() {
            if row.time >= self.border.0
                && let Some(lane) = self.held.get_mut(usize::from(row.lane))
            {
                if self.in_stretches {
                    // In steps, so that a cut looks at few hits that lie before it for certain.
                    let (n, most) = stretch(&left[..left.len().min(STEP)], self.border.0);
                    let (hits, rest) = left.split_at(n);
                    lane.extend_from_slice(hits);
                    self.latest[usize::from(row.lane)].came(lane.len(), most);
                    (left, pushed) = (rest, pushed + hits.len());
                } else {
                    lane.push(*row);
                    (left, pushed) = (rest, pushed + 1);
                }
                continue;
            }
            left = rest;
            match row.lane {
                FineHit::BORDER => {
                    others += 1;
                    if row.time > self.border.0 {
                        self.border = (row.time, row.ns());
                        self.came(std::mem::take(&mut pushed));
                        if self.count >= self.wanted {
                            self.cut(false, products);
                        }
                    }
                }
                FineHit::RESTART => {
                    others += 1;
                    self.came(std::mem::take(&mut pushed));
                    self.send_all(products);
                    self.border = (i64::MIN, f64::NEG_INFINITY);
                }
                // Behind the border. A reader of this crate names lanes of its geometry only.
                _ => late += 1,
            }
        }
        self.came(pushed);
        self.tally.add(GdGemBuilt::Hits, rows.len() as u64 - others);
        self.tally.add(GdGemBuilt::Late, late);
    }

    fn came(&mut self, hits: usize) {
        self.waiting += hits;
        self.count += hits;
    }

    /// Everything is decided once so many hits wait for the border, at the same hit as on one thread.
    #[cold]
    fn check_full(&mut self, products: &mut Products) {
        let border = self.border.0;
        let behind = self.held.iter().flatten().filter(|hit| hit.time >= border).count();
        if behind >= self.limits.waiting {
            self.tally.add(GdGemBuilt::Forced, 1);
            return self.send_all(products);
        }
        // A border can only lower it: sooner than after so many hits more it cannot be reached.
        self.full = self.count + (self.limits.waiting - behind);
    }

    /// Gives away what lies before the latest silence, or the border if none came for long, or `now`.
    fn cut(&mut self, now: bool, products: &mut Products) {
        let (key, border) = self.border;
        let nothing = || !self.held.iter().flatten().any(|hit| hit.time < key);
        if now && self.open.is_none() && nothing() {
            return;
        }
        let held = Held { lanes: &self.held, latest: &self.latest, border, key };
        match self.silence.before(held, &mut self.marks) {
            Some(at) => self.send(FineHit::key(at), End::Silence, products),
            None if now || self.count - self.kept >= PATIENCE * self.slice => {
                self.send(key, End::Border(key, border), products);
            }
            None => self.wanted = self.count + self.slice.max(self.count / GROWTH),
        }
    }

    /// Everything that waits goes to be decided.
    fn send_all(&mut self, products: &mut Products) {
        if self.count > 0 || self.open.is_some() {
            self.send(i64::MAX, End::Silence, products);
        }
    }

    /// Gives away the hits before `cut`, a key.
    fn send(&mut self, cut: i64, end: End, products: &mut Products) {
        let mut slice = self.spare.pop().unwrap_or_else(|| Slice {
            lanes: Vec::new(),
            hits: 0,
            end,
            shown: Shown::default(),
            products: Products::default(),
            worked: Worked {
                counts: BuiltCounts::default(),
                decided: 0,
                clusters: Numbers::default(),
            },
        });
        (slice.end, slice.hits) = (end, 0);
        let empty = || self.held.iter().map(|_| Vec::new()).collect();
        slice.lanes = self.near.pop().or_else(|| self.far.pop_front()).unwrap_or_else(empty);
        (slice.shown, slice.products.want) = (self.monitor.shown(), products.want);
        for (at, (held, lane)) in self.held.iter_mut().zip(&mut slice.lanes).enumerate() {
            std::mem::swap(held, lane);
            let latest = &mut self.latest[at];
            latest.clear();
            if cut < i64::MAX
                && let Some(most) = split(lane, held, cut, self.marks.early[at])
            {
                latest.came(held.len(), most);
            }
            slice.hits += lane.len();
        }
        self.count -= slice.hits;
        self.kept = self.count;
        self.wanted = self.count + self.slice.max(self.count / GROWTH);
        self.full = self.limits.waiting;
        let to = match self.open {
            Some(member) => member,
            None if slice.hits < self.slice / SMALL && self.crew.under_way() < SHORT_QUEUE => 0,
            None => self.free(slice.hits, products),
        };
        self.open = match end {
            End::Silence => None,
            End::Border(..) => Some(to),
        };
        self.away += slice.hits;
        self.given += 1;
        if self.open.is_none() {
            self.quiet = self.given;
        }
        let mut worked = None;
        self.crew.give(to, slice, |slice| worked = Some(std::mem::take(&mut slice.lanes)));
        if let Some(mut lanes) = worked {
            self.lower(&mut lanes);
            self.near.push(lanes);
        }
        self.collect(products);
    }

    /// A member of the crew with room for a slice of `hits`.
    fn free(&mut self, hits: usize, products: &mut Products) -> usize {
        loop {
            let room = self.away == 0 || self.away + hits <= self.limits.waiting;
            if let Some(member) = self.crew.free().filter(|_| room) {
                return member;
            }
            if let Some(slice) = self.crew.wait() {
                self.take(slice, products);
            }
        }
    }

    /// Takes what is done.
    fn collect(&mut self, products: &mut Products) {
        while let Some(slice) = self.crew.done() {
            self.take(slice, products);
        }
    }

    fn take(&mut self, mut slice: Slice, products: &mut Products) {
        products.events.append(&slice.products.events);
        products.cluster_sizes.append(&slice.products.cluster_sizes);
        products.tracks.append(&slice.products.tracks);
        self.clusters.follow(&mut slice.products);
        products.plane_clusters.append(&mut slice.products.plane_clusters);
        products.detector_clusters.append(&mut slice.products.detector_clusters);
        if let End::Silence = slice.end {
            self.clusters.add(&slice.worked.clusters);
        }
        self.tally.merge(&slice.worked.counts);
        self.waiting -= slice.worked.decided as usize;
        self.away -= slice.hits;
        self.taken += 1;
        // Empty if this thread has taken it at once.
        let mut lanes = std::mem::take(&mut slice.lanes);
        if !lanes.is_empty() {
            self.lower(&mut lanes);
            self.far.push_back(lanes);
        }
        self.spare.push(slice);
    }

    /// What a burst made large is given back; what is usual is kept.
    fn lower(&self, lanes: &mut [Vec<FineHit>]) {
        let most = PATIENCE * self.slice;
        lanes
            .iter_mut()
            .filter(|lane| lane.capacity() > 2 * most)
            .for_each(|lane| lane.shrink_to(most));
    }

    /// What waits now, if anything does.
    fn moment(&self) -> Option<Moment> {
        let latest = self.held.iter().flatten().map(|hit| hit.time).max();
        let given = (self.taken < self.given || self.open.is_some()).then_some(self.given);
        latest.map(Moment::Held).or(given.map(Moment::Given))
    }

    /// True while anything of that moment waits.
    fn waits(&self, moment: &mut Moment) -> bool {
        loop {
            *moment = match *moment {
                Moment::Held(upto) if self.held.iter().flatten().any(|hit| hit.time <= upto) => {
                    return true;
                }
                Moment::Held(_) => Moment::Given(self.given),
                Moment::Given(last) if self.quiet < last => return true,
                Moment::Given(_) => Moment::Under(self.quiet),
                Moment::Under(last) => return self.taken < last,
            };
        }
    }

    fn settle(&mut self) {
        self.tally.flush(&self.sheet);
        self.sheet.set(GdGemBuilt::Waiting as usize, self.waiting as u64);
    }
}

impl<W: ClusterWatch> Builder for SlicedBuilder<W> {
    type Hit = FineHit;

    fn build(&mut self, rows: &mut Vec<FineHit>, products: &mut Products, now: Option<Nanos>) {
        self.leaving.came(products.batch);
        self.monitor.account(products, rows);
        self.rows(rows, products);
        self.collect(products);
        if let Some(now) = now {
            let heard = *self.heard.get_or_insert(now);
            if !rows.is_empty() {
                self.heard = Some(now);
            }
            let idle = rows.is_empty() && now.0.saturating_sub(heard.0) >= self.limits.idle;
            // Without a silence the last slice's member may hold events back, or rows.
            if idle && (self.waiting > 0 || self.open.is_some()) {
                self.heard = Some(now);
                self.tally.add(GdGemBuilt::Idle, 1);
                self.send_all(products);
            } else if self.waiting > 0 && now.0.saturating_sub(self.cut.0) >= WAIT_NS {
                self.cut = now;
                if self.border.1.is_finite() {
                    self.cut(true, products);
                }
            }
        }
        rows.clear();
        self.settle();
    }

    fn flush(&mut self, reason: Flush, rows: &mut Vec<FineHit>, products: &mut Products) {
        self.build(rows, products, None);
        self.send_all(products);
        while let Some(slice) = self.crew.wait() {
            self.take(slice, products);
        }
        self.leaving.passed();
        if reason == Flush::Taken {
            self.border = (i64::MIN, f64::NEG_INFINITY);
        }
        self.settle();
    }

    fn oldest(&mut self) -> Option<BatchNumber> {
        let mut leaving = std::mem::take(&mut self.leaving);
        let oldest = leaving.oldest(|moment| self.waits(moment), || self.moment());
        self.leaving = leaving;
        oldest
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}
