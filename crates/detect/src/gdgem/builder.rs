//! Makes events of hits: order in time, clusters per plane, matching, position, pixel.
//!
//! The rows of the readers decide all; where a call ends does not. Bounded: hits that wait, hits and span of a run, hits of
//! an event, clusters that a search looks at, each with a counter. Refuses late hits, clusters without partner, and events
//! outside the picture. Source: `docs/formats/gdgem.md` sections 7 to 11 and 14.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, FineHit, Products};
use fullcount_core::time::Nanos;

use super::chain::{Chain, OnlineEvent};
use super::counters::{BUILT_LINES, Built, Tally};
use super::lane::{LaneHits, Scratch, stretch};
use super::layout::{Algorithm, Layout};
use super::matching::{Matched, Partner, Partners, ROUNDING_NS};
use super::monitor::{Monitor, Shown};
use super::options::{Coin, Limits, Options, Position};
use super::pads::{Growth, PadCluster};
use super::plane::{self, PlaneCluster};
use super::tables::Numbers;
use crate::detector::{Builder, TimeBase};
use crate::pulses::Pulses;

/// Sees clusters on their way to events, for tables and tests. All methods do nothing unless given.
pub trait Watch: Send + 'static {
    /// True if all values of plane clusters are looked at; else those are 0 that events do not need.
    const ALL_VALUES: bool = true;

    /// A cluster of a plane, in the order of being closed.
    fn plane(&mut self, detector: u32, plane: u8, cluster: &PlaneCluster) {
        let _ = (detector, plane, cluster);
    }
    /// A detector cluster: its time in the order of events, ns, and its planes; `best` is false for further pairs of `-hm 1`.
    fn matched(
        &mut self,
        detector: u32,
        order: f64,
        planes: [Option<&PlaneCluster>; 3],
        best: bool,
    ) {
        let _ = (detector, order, planes, best);
    }
    /// A cluster of pads: its time in the order of events, ns.
    fn pads(&mut self, detector: u32, order: f64, cluster: &PadCluster) {
        let _ = (detector, order, cluster);
    }
    /// An event of the online chain, with both planes or one.
    fn online(&mut self, event: &OnlineEvent<'_>) {
        let _ = event;
    }
    /// All has come, ns: clusters of planes that hold a hit before the first, detector clusters of all detectors that stand before
    /// the second in the order of events.
    fn complete(&mut self, planes: f64, detectors: f64) {
        let _ = (planes, detectors);
    }
    /// Times of what is held back until it is complete, ns.
    fn times(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        Box::new(std::iter::empty())
    }
    /// The call that saw all this ends: rows go with the batch.
    fn hand_over(&mut self, products: &mut Products) {
        let _ = products;
    }
    /// How many clusters there were since the state was last empty, after the call; `empty`: nothing waits now.
    fn numbers(&mut self, empty: bool) -> Numbers {
        let _ = empty;
        Numbers::default()
    }
}

/// Sees nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    const ALL_VALUES: bool = false;
}

/// How a detector's runs become events.
enum Way {
    Online(Box<Chain>),
    Strips(Partners),
    Pads(Growth, u64),
}

/// The builder behind the readers.
pub(super) struct GemBuilder<W> {
    sheet: Arc<Sheet>,
    layout: Arc<Layout>,
    limits: Limits,
    lanes: Vec<LaneHits>,
    scratch: Scratch,
    ways: Vec<Way>,
    /// Rows of a lane follow each other, as each FEC has one plane.
    in_stretches: bool,
    /// Border as a key.
    border: i64,
    waiting: usize,
    judge: Judge,
    watch: W,
    monitor: Monitor,
    /// Time of the latest call with rows.
    heard: Option<Nanos>,
    marked: Option<Marked>,
}

/// What came of a slice, beside its products.
pub(super) struct Worked {
    pub counts: Tally<BUILT_LINES>,
    /// Hits that were decided on.
    pub decided: u64,
    /// Clusters since the state was last empty.
    pub clusters: Numbers,
}

/// Where what waited at a mark is by now: hits in their lanes, clusters that wait for others, events that wait for their turn.
#[derive(Debug, Clone, Copy)]
struct Marked {
    stage: Stage,
    /// Latest time of what waited there when the stage before had nothing of it any more, ns.
    upto: f64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Hits,
    Clusters,
    Events,
}

/// Writes events and counts.
struct Judge {
    layout: Arc<Layout>,
    position: Position,
    epoch: i64,
    pulses: Pulses,
    tally: Tally<BUILT_LINES>,
    /// Hits that have been decided on.
    decided: u64,
    /// Events of several detectors on their way into one order.
    found: Option<Vec<Found>>,
}

/// An event that waits for those of other detectors.
struct Found {
    order: f64,
    panel: usize,
    ns: Nanos,
    pixel: u32,
}

impl Judge {
    /// Decides on hits: none of them waits any more.
    #[inline]
    fn decide(&mut self, line: Built, hits: u64) {
        self.tally.note(line, hits);
        self.decided += hits;
    }

    /// An event at (x, y), or the reason why there is none. `order`: time for the order of events, and panel.
    fn event(
        &mut self,
        (order, panel): (f64, usize),
        at: (f64, f64),
        time: f64,
        hits: u64,
        events: &mut EventBatch,
    ) {
        // Rounded down where they become whole numbers: without SSE4.1 `floor` is a call.
        let [x, y] = [at.0, at.1].map(|c| c + 0.5);
        if !(at.0.is_finite() && at.1.is_finite() && time.is_finite()) {
            return self.tally.note(Built::Bad, 1);
        }
        if let Some(online) = &self.layout.online {
            let [least, most] = online.region.map(f64::from);
            if x < least || x >= most + 1.0 {
                self.tally.note(Built::GeomErrors, 1);
                return self.tally.note(Built::OutsideRegion, 1);
            }
        }
        // Parts of one picture count its strips throughout.
        let panel = if self.layout.one_picture { 0 } else { panel };
        let inside = x >= 0.0 && y >= 0.0;
        // A conversion from a float stays within the type.
        let pixel =
            inside.then(|| self.layout.grid.pixel(x as u32, y as u32, 0, panel as u32)).flatten();
        let Some(pixel) = pixel else {
            self.tally.note(Built::GeomErrors, 1);
            return self.tally.note(Built::GeometryErrors, 1);
        };
        let ns = Nanos(self.epoch.saturating_add(whole_ns(time)));
        match &mut self.found {
            None => self.pulses.event(ns, pixel, events),
            Some(found) => found.push(Found { order, panel, ns, pixel }),
        }
        self.tally.note(Built::Events, 1);
        self.tally.note(Built::GoodHits, hits);
    }

    /// Hands on the events of several detectors up to a time, in one order that depends on the hits only.
    fn emit(&mut self, before: f64, events: &mut EventBatch) {
        let Some(found) = &mut self.found else { return };
        // Stable: equal ones of a detector stay as they came.
        found.sort_by(|a, b| a.order.total_cmp(&b.order).then(a.panel.cmp(&b.panel)));
        let n = match before == f64::INFINITY {
            true => found.len(),
            false => found.partition_point(|event| event.order < before),
        };
        found.drain(..n).for_each(|event| self.pulses.event(event.ns, event.pixel, events));
    }

    /// An event of the online chain (section 11).
    fn online(&mut self, event: &OnlineEvent<'_>, events: &mut EventBatch) {
        self.tally.note(Built::Candidates, 1);
        let [x, y] = &event.planes;
        let hits = u64::from(x.hits) + u64::from(y.hits);
        if x.hits == 0 || y.hits == 0 {
            self.decide(Built::Unmatched, hits);
            let line = if y.hits == 0 { Built::XOnly } else { Built::YOnly };
            return self.tally.note(line, 1);
        }
        self.decide(Built::Used, hits);
        self.tally.note(Built::Both, 1);
        let mut time = x.time.min(y.time);
        if let Some(online) = self.layout.online {
            let filters = online.filters;
            let few = |p: &super::chain::PlaneView| p.hits < filters.minimum_hits;
            if filters.enforce_minimum_hits && (few(x) || few(y)) {
                return self.tally.note(Built::FilterHits, 1);
            }
            let allowed = filters.plane_0_vs_1_ratio_min..=filters.plane_0_vs_1_ratio_max;
            if filters.enforce_charge_ratio && !allowed.contains(&(x.weight / y.weight)) {
                return self.tally.note(Built::FilterRatio, 1);
            }
            if let Algorithm::Older { .. } = online.algorithm {
                let uncertain = x.lower.max(y.lower) >= filters.lower_uncertainty_limit;
                if filters.enforce_lower_uncertainty_limit && uncertain {
                    return self.tally.note(Built::FilterUncertainty, 1);
                }
                time = x.last.max(y.last);
            }
        }
        self.event((time, 0), (x.coordinate, y.coordinate), time, hits, events);
    }
}

/// Rounded down; times that no 64 bits hold become the nearest that they do.
#[inline]
fn whole_ns(time: f64) -> i64 {
    let whole = time as i64;
    whole.saturating_sub(i64::from(whole as f64 > time))
}

/// Receives what [`Partners`] decides for one detector.
struct Session<'a, W> {
    judge: &'a mut Judge,
    watch: &'a mut W,
    monitor: &'a mut Monitor,
    events: &'a mut EventBatch,
    panel: usize,
    id: u32,
}

impl<W: Watch> Session<'_, W> {
    /// Shows a detector cluster to who looks at all.
    fn show(&mut self, planes: [Option<Partner<'_>>; 3], best: bool) {
        let order = planes[0].map_or(f64::NEG_INFINITY, |c| c.coin);
        let planes = planes.map(|plane| plane.map(|partner| partner.cluster()));
        let planes = planes.each_ref().map(Option::as_ref);
        self.watch.matched(self.id, order, planes, best);
        self.monitor.matched(self.panel, planes);
    }
}

impl<W: Watch> Matched for Session<'_, W> {
    #[inline]
    fn matched(&mut self, planes: [Option<Partner<'_>>; 3], best: bool) {
        if W::ALL_VALUES || self.monitor.looks_for_partners() {
            self.show(planes, best);
        }
        let position = self.judge.position;
        let tally = &mut self.judge.tally;
        tally.note(Built::Candidates, 1);
        let [x, y, u] = planes.map(|plane| plane.map(|c| c.at(position)));
        tally.note(Built::Both, u64::from(y.is_some()));
        let Some((at_x, time)) = x else { return tally.note(Built::Bad, 1) };
        let times = [y, u].into_iter().flatten().map(|(_, t)| t);
        let time = times.fold(time, f64::min);
        let hits = planes.iter().flatten().map(|c| u64::from(c.centre.size)).sum();
        let at_y = y.map_or(0.0, |(pos, _)| pos);
        let order = planes[0].map_or(time, |c| c.coin);
        self.judge.event((order, self.panel), (at_x, at_y), time, hits, self.events);
    }

    #[inline]
    fn gone(&mut self, used: u64, unmatched: u64) {
        self.judge.decide(Built::Used, used);
        self.judge.decide(Built::Unmatched, unmatched);
    }

    fn cut(&mut self) {
        self.judge.tally.note(Built::CutSearch, 1);
    }

    fn left_out(&mut self, pairs: u64) {
        self.judge.tally.note(Built::CutPairs, pairs);
    }
}

impl<W: Watch> GemBuilder<W> {
    /// `options` have been checked.
    pub fn new(layout: Arc<Layout>, options: &Options, time: &TimeBase, watch: W) -> GemBuilder<W> {
        let way = |detector: &super::layout::Panel| match layout.online {
            Some(online) => Way::Online(Box::new(Chain::new(online))),
            None if detector.pads => Way::Pads(Growth::default(), 0),
            None => Way::Strips(Partners::new(detector.parameters, detector.lanes.len())),
        };
        let ways = layout.detectors.iter().map(way).collect();
        GemBuilder {
            sheet: Sheet::new(Built::catalogue()),
            limits: options.limits().unwrap_or_default(),
            lanes: layout.lanes.iter().map(|lane| LaneHits::new(layout.time_gap(*lane))).collect(),
            scratch: Scratch::default(),
            ways,
            in_stretches: layout.has_a_plane_per_fec(),
            border: i64::MIN,
            waiting: 0,
            judge: Judge {
                layout: layout.clone(),
                position: options.position().unwrap_or_default(),
                epoch: time.epoch.0,
                pulses: Pulses::new(time),
                tally: Tally::new(),
                decided: 0,
                found: (layout.detectors.len() > 1).then(Vec::new),
            },
            monitor: Monitor::new(&layout, time.epoch.0),
            layout,
            watch,
            heard: None,
            marked: None,
        }
    }

    /// Times of what waits, ns.
    fn times(&self, stage: Stage) -> Box<dyn Iterator<Item = f64> + '_> {
        match stage {
            Stage::Hits => Box::new(self.lanes.iter().flat_map(LaneHits::times)),
            Stage::Clusters => Box::new(self.ways.iter().flat_map(|way| {
                let (mut chain, mut partners) = (None, None);
                match way {
                    Way::Online(online) => chain = Some(online.times()),
                    Way::Strips(strips) => partners = Some(strips.times()),
                    Way::Pads(..) => {}
                }
                chain.into_iter().flatten().chain(partners.into_iter().flatten())
            })),
            Stage::Events => {
                let found = self.judge.found.iter().flatten().map(|event| event.order);
                Box::new(found.chain(self.watch.times()))
            }
        }
    }

    /// Hits, or what was made of them and waits for its place in the order.
    fn something_waits(&self) -> bool {
        self.waiting > 0 || self.times(Stage::Events).next().is_some()
    }

    fn stage(&self, stage: Stage) -> Marked {
        Marked { stage, upto: self.times(stage).fold(f64::NEG_INFINITY, f64::max) }
    }

    /// All rows in their order.
    fn rows(&mut self, rows: &[FineHit], events: &mut EventBatch) {
        let mut left = rows;
        while !left.is_empty() {
            // Each row is one more hit that waits at most: the bound cannot be passed before the end of this part.
            let room = self.limits.waiting.saturating_sub(self.fresh()).max(1);
            let (part, rest) = left.split_at(room.min(left.len()));
            left = rest;
            self.part(part, events);
            if self.fresh() >= self.limits.waiting {
                self.judge.tally.note(Built::Forced, 1);
                self.flush(events);
            }
        }
    }

    fn part(&mut self, rows: &[FineHit], events: &mut EventBatch) {
        let (mut late, mut others, mut pushed) = (0, 0, 0);
        let mut left = rows;
        while let Some((row, rest)) = left.split_first() {
            if row.time >= self.border
                && let Some(lane) = self.lanes.get_mut(usize::from(row.lane))
            {
                if self.in_stretches {
                    let (hits, rest) = left.split_at(stretch(left, self.border).0);
                    lane.extend(hits);
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
                    if row.time > self.border {
                        self.waiting += std::mem::take(&mut pushed);
                        self.border = row.time;
                        self.release(row.time, row.ns(), events);
                    }
                }
                FineHit::RESTART => {
                    others += 1;
                    self.waiting += std::mem::take(&mut pushed);
                    self.flush(events);
                    self.border = i64::MIN;
                }
                // Behind the border. A reader of this crate names lanes of its geometry only.
                _ => late += 1,
            }
        }
        self.waiting += pushed;
        self.judge.tally.note(Built::Hits, rows.len() as u64 - others);
        self.judge.tally.note(Built::Late, late);
    }

    /// Hits that wait for the border.
    fn fresh(&self) -> usize {
        self.lanes.iter().map(LaneHits::fresh).sum()
    }

    /// Everything that waits is decided.
    fn flush(&mut self, events: &mut EventBatch) {
        self.release(i64::MAX, f64::INFINITY, events);
        self.marked = None;
    }

    /// Works on the hits before `border` (as a key, and in ns).
    fn release(&mut self, key: i64, border: f64, events: &mut EventBatch) {
        let (judge, watch, limits) = (&mut self.judge, &mut self.watch, &self.limits);
        let monitor = &mut self.monitor;
        monitor.release();
        let decided = judge.decided;
        // Time, as events are ordered, before which no event of any detector can come any more.
        let mut all = f64::INFINITY;
        // The same for clusters of planes, by their first hit.
        let mut all_planes = f64::INFINITY;
        for (panel, (detector, way)) in self.layout.detectors.iter().zip(&mut self.ways).enumerate()
        {
            let id = detector.id;
            let centre = judge.position == Position::CenterOfMass
                && detector.parameters.coin == Coin::CenterOfMass;
            let few = centre && !W::ALL_VALUES && !monitor.looks_for_hits(border);
            let mut known = [f64::INFINITY; 3];
            for (place, &lane) in detector.lanes.iter().enumerate() {
                let plane = self.layout.lanes[lane].plane;
                let hits = &mut self.lanes[lane];
                let (mut planes, mut small) = (0, 0);
                let before = (key, border);
                let cuts = hits.runs(before, limits, &mut self.scratch, |run, span| match way {
                    Way::Online(chain) => chain.run(run, plane, |hits| {
                        if W::ALL_VALUES {
                            watch.plane(id, plane, &plane::values(hits, plane, 0));
                        }
                    }),
                    Way::Strips(partners) if few => {
                        let parameters = &detector.parameters;
                        small += plane::centres(run, span, plane, parameters, |centre| {
                            planes += 1;
                            monitor.centre(plane, &centre);
                            partners.push_centre(place, centre);
                        });
                    }
                    Way::Strips(partners) => {
                        let parameters = &detector.parameters;
                        small += plane::clusters(run, plane, parameters, |cluster, hits| {
                            planes += 1;
                            watch.plane(id, plane, &cluster);
                            monitor.plane(panel, plane, &cluster, hits);
                            partners.push(place, cluster);
                        });
                    }
                    Way::Pads(growth, number) => {
                        let times = run.iter().map(FineHit::ns);
                        let order = times.fold(f64::INFINITY, f64::min);
                        small += growth.clusters(run, &detector.parameters, |mut cluster| {
                            *number += 1;
                            cluster.number = *number;
                            watch.pads(id, order, &cluster);
                            monitor.pads(&cluster);
                            planes += 1;
                            judge.tally.note(Built::Candidates, 1);
                            let hits = u64::from(cluster.size2);
                            judge.decide(Built::Used, hits);
                            let time = cluster.time.min(cluster.last);
                            let at = (cluster.pos0, cluster.pos1);
                            judge.event((order, panel), at, time, hits, events);
                        });
                    }
                });
                judge.tally.note(Built::Planes, planes);
                judge.decide(Built::Small, small);
                judge.tally.note(Built::CutHits, cuts.hits);
                judge.tally.note(Built::CutSpan, cuts.span);
                // The time up to which all clusters of the plane have come.
                known[place] = hits.open_since().unwrap_or(border) - ROUNDING_NS;
            }
            all_planes = known.into_iter().fold(all_planes, f64::min);
            match way {
                Way::Online(chain) => {
                    let mut event = |event: &OnlineEvent<'_>| {
                        watch.online(event);
                        monitor.online(event);
                        judge.online(event, events);
                    };
                    chain.release(known[0].min(known[1]), &mut event);
                    if border == f64::INFINITY {
                        chain.finish(&mut event);
                    }
                    let cuts = std::mem::take(&mut chain.cuts);
                    judge.tally.note(Built::CutHits, cuts);
                }
                Way::Strips(partners) => {
                    let session = &mut Session { judge, watch, monitor, events, panel, id };
                    all = all.min(partners.release(&known, session));
                }
                Way::Pads(..) => all = all.min(known[0]),
            }
        }
        self.judge.emit(all, events);
        self.watch.complete(all_planes, all);
        self.waiting -= (self.judge.decided - decided) as usize;
    }

    /// Works on the hits of a slice, by plane, which then are empty: up to a border (as a key, and in ns), which they all lie
    /// before; without one nothing is left to wait.
    pub fn slice(
        &mut self,
        hits: &mut [Vec<FineHit>],
        border: Option<(i64, f64)>,
        shown: Shown,
        products: &mut Products,
    ) -> Worked {
        self.monitor.begin_slice(products, shown);
        let decided = self.judge.decided;
        for (lane, hits) in self.lanes.iter_mut().zip(&mut *hits) {
            self.waiting += hits.len();
            lane.exchange(hits);
        }
        let (key, ns) = border.unwrap_or((i64::MAX, f64::INFINITY));
        self.release(key, ns, &mut products.events);
        self.monitor.end(products);
        // All are taken: the memory goes back.
        self.lanes.iter_mut().zip(hits).for_each(|(lane, hits)| lane.exchange(hits));
        self.watch.hand_over(products);
        Worked {
            counts: std::mem::replace(&mut self.judge.tally, Tally::new()),
            decided: self.judge.decided - decided,
            clusters: self.watch.numbers(border.is_none()),
        }
    }

    fn settle(&mut self) {
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(Built::Waiting as usize, self.waiting as u64);
    }
}

impl<W: Watch> Builder for GemBuilder<W> {
    fn build(&mut self, products: &mut Products, now: Option<Nanos>) {
        let mut rows = std::mem::take(&mut products.fine_hits);
        self.monitor.begin(products, &rows);
        self.rows(&rows, &mut products.events);
        if let Some(now) = now {
            let heard = *self.heard.get_or_insert(now);
            if !rows.is_empty() {
                self.heard = Some(now);
            } else if now.0.saturating_sub(heard.0) >= self.limits.idle && self.something_waits() {
                self.heard = Some(now);
                self.judge.tally.note(Built::Idle, 1);
                self.flush(&mut products.events);
            }
        }
        rows.clear();
        self.monitor.end(products);
        products.fine_hits = rows;
        self.watch.hand_over(products);
        self.settle();
    }

    fn finish(&mut self, products: &mut Products) {
        self.build(products, None);
        self.let_go(products);
    }

    fn mark(&mut self) {
        self.marked = Some(self.stage(Stage::Hits));
    }

    fn passed(&mut self) -> bool {
        while let Some(marked) = self.marked {
            if self.times(marked.stage).any(|time| time <= marked.upto) {
                return false;
            }
            self.marked = match marked.stage {
                Stage::Hits => Some(self.stage(Stage::Clusters)),
                Stage::Clusters => Some(self.stage(Stage::Events)),
                Stage::Events => None,
            };
        }
        true
    }

    fn let_go(&mut self, products: &mut Products) {
        self.monitor.begin(products, &[]);
        self.flush(&mut products.events);
        self.monitor.end(products);
        self.watch.hand_over(products);
        self.settle();
    }

    fn sheet(&self) -> Option<Arc<Sheet>> {
        Some(self.sheet.clone())
    }
}
