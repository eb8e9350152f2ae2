//! Makes events of hits: order in time, clusters per plane, matching, position, pixel.
//!
//! The rows of the readers decide all; where a call ends does not. Bounded: hits that wait, hits and span of a run, hits of
//! an event, clusters that a search looks at, each with a counter. Refuses late hits, clusters without partner, and events
//! outside the picture. Source: `docs/formats/gdgem.md` sections 7 to 11 and 14.

use std::sync::Arc;

use fullcount_core::ledger::Sheet;
use fullcount_core::products::{EventBatch, Products};
use fullcount_core::progress::{BatchNumber, Flush};
use fullcount_core::time::Nanos;

use super::chain::{Chain, OnlineEvent};
use super::counters::{BuiltCounts, GdGemBuilt};
use super::judge::Judge;
use super::lane::{LaneHits, Scratch, stretch};
use super::layout::Layout;
use super::matching::{Matched, Partner, Partners, ROUNDING_NS};
use super::monitor::{Monitor, Shown};
use super::options::{Coin, Limits, Options, Position};
use super::pads::Growth;
use super::plane;
use super::tables::Numbers;
use super::watch::ClusterWatch;
use crate::detector::TimeBase;
use crate::hits::FineHit;
use crate::oldest::OldestBatch;
use crate::pulses::Pulses;
use crate::steps::Builder;

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
    leaving: OldestBatch<Moment>,
}

/// What came of a slice, beside its products.
pub(super) struct Worked {
    pub counts: BuiltCounts,
    /// Hits that were decided on.
    pub decided: u64,
    /// Clusters since the state was last empty.
    pub clusters: Numbers,
}

/// Where what waited at a moment is by now: hits in their lanes, clusters that wait for others, events that wait for their turn.
#[derive(Debug, Clone, Copy)]
struct Moment {
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

/// Receives what [`Partners`] and [`Chain`] decide for one detector.
struct Session<'a, W> {
    judge: &'a mut Judge,
    watch: &'a mut W,
    monitor: &'a mut Monitor,
    events: &'a mut EventBatch,
    panel: usize,
    id: u32,
}

impl<W: ClusterWatch> Session<'_, W> {
    /// Events of the online chain, up to a time; `all`: nothing is left to wait.
    fn chain(&mut self, chain: &mut Chain, upto: f64, all: bool) {
        let mut event = |event: &OnlineEvent<'_>| {
            self.watch.online(event);
            self.monitor.online(event);
            self.judge.online(event, self.events);
        };
        chain.release(upto, &mut event);
        if all {
            chain.finish(&mut event);
        }
        let cuts = std::mem::take(&mut chain.cuts);
        self.judge.tally.add(GdGemBuilt::CutHits, cuts);
    }

    /// Shows a detector cluster to who looks at all.
    fn show(&mut self, planes: [Option<Partner<'_>>; 3], best: bool) {
        let order = planes[0].map_or(f64::NEG_INFINITY, |c| c.coin);
        let planes = planes.map(|plane| plane.map(|partner| partner.cluster()));
        let planes = planes.each_ref().map(Option::as_ref);
        self.watch.matched(self.id, order, planes, best);
        self.monitor.matched(self.panel, planes);
    }
}

impl<W: ClusterWatch> Matched for Session<'_, W> {
    #[inline]
    fn matched(&mut self, planes: [Option<Partner<'_>>; 3], best: bool) {
        if W::ALL_VALUES || self.monitor.looks_for_partners() {
            self.show(planes, best);
        }
        let position = self.judge.position;
        let tally = &mut self.judge.tally;
        tally.add(GdGemBuilt::Candidates, 1);
        let [x, y, u] = planes.map(|plane| plane.map(|c| c.at(position)));
        tally.add(GdGemBuilt::Both, u64::from(y.is_some()));
        let Some((at_x, time)) = x else { return tally.add(GdGemBuilt::Bad, 1) };
        let times = [y, u].into_iter().flatten().map(|(_, t)| t);
        let time = times.fold(time, f64::min);
        let hits = planes.iter().flatten().map(|c| u64::from(c.centre.size)).sum();
        let at_y = y.map_or(0.0, |(pos, _)| pos);
        let order = planes[0].map_or(time, |c| c.coin);
        self.judge.event((order, self.panel), (at_x, at_y), time, hits, self.events);
    }

    #[inline]
    fn gone(&mut self, used: u64, unmatched: u64) {
        self.judge.decide(GdGemBuilt::Used, used);
        self.judge.decide(GdGemBuilt::Unmatched, unmatched);
    }

    fn cut(&mut self) {
        self.judge.tally.add(GdGemBuilt::CutSearch, 1);
    }

    fn left_out(&mut self, pairs: u64) {
        self.judge.tally.add(GdGemBuilt::CutPairs, pairs);
    }
}

impl<W: ClusterWatch> GemBuilder<W> {
    /// `options` have been checked.
    pub fn new(layout: Arc<Layout>, options: &Options, time: &TimeBase, watch: W) -> GemBuilder<W> {
        let way = |detector: &super::layout::Panel| match layout.online {
            Some(online) => Way::Online(Box::new(Chain::new(online))),
            None if detector.pads => Way::Pads(Growth::default(), 0),
            None => Way::Strips(Partners::new(detector.parameters, detector.lanes.len())),
        };
        let ways = layout.detectors.iter().map(way).collect();
        GemBuilder {
            sheet: Sheet::new(GdGemBuilt::catalogue()),
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
                tally: BuiltCounts::default(),
                decided: 0,
                found: (layout.detectors.len() > 1).then(Vec::new),
            },
            monitor: Monitor::new(&layout, time.epoch.0),
            layout,
            watch,
            heard: None,
            leaving: OldestBatch::default(),
        }
    }

    /// Gives the times of what waits, ns; true once `found` says so of one.
    fn any_time(&self, stage: Stage, mut found: impl FnMut(f64) -> bool) -> bool {
        match stage {
            Stage::Hits => self.lanes.iter().flat_map(LaneHits::times).any(found),
            Stage::Clusters => self.ways.iter().any(|way| match way {
                Way::Online(chain) => chain.times().any(&mut found),
                Way::Strips(partners) => partners.times().any(&mut found),
                Way::Pads(..) => false,
            }),
            Stage::Events => {
                let mut events = self.judge.found.iter().flatten().map(|event| event.order);
                events.any(&mut found) || self.watch.any_time(&mut found)
            }
        }
    }

    /// Hits, or what was made of them and waits for its place in the order.
    fn something_waits(&self) -> bool {
        self.waiting > 0 || self.any_time(Stage::Events, |_| true)
    }

    /// What waits at this stage now.
    fn stage(&self, stage: Stage) -> Moment {
        let mut upto = f64::NEG_INFINITY;
        self.any_time(stage, |time| {
            upto = upto.max(time);
            false
        });
        Moment { stage, upto }
    }

    /// What waits now, if anything does.
    fn moment(&self) -> Option<Moment> {
        let any = |stage| self.any_time(stage, |_| true);
        let waits = any(Stage::Hits) || any(Stage::Clusters) || any(Stage::Events);
        waits.then(|| self.stage(Stage::Hits))
    }

    /// True while anything of that moment waits.
    fn waits(&self, moment: &mut Moment) -> bool {
        loop {
            if self.any_time(moment.stage, |time| time <= moment.upto) {
                return true;
            }
            *moment = match moment.stage {
                Stage::Hits => self.stage(Stage::Clusters),
                Stage::Clusters => self.stage(Stage::Events),
                Stage::Events => return false,
            };
        }
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
                self.judge.tally.add(GdGemBuilt::Forced, 1);
                self.decide_all(events);
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
                    self.decide_all(events);
                    self.border = i64::MIN;
                }
                // Behind the border. A reader of this crate names lanes of its geometry only.
                _ => late += 1,
            }
        }
        self.waiting += pushed;
        self.judge.tally.add(GdGemBuilt::Hits, rows.len() as u64 - others);
        self.judge.tally.add(GdGemBuilt::Late, late);
    }

    /// Hits that wait for the border.
    fn fresh(&self) -> usize {
        self.lanes.iter().map(LaneHits::fresh).sum()
    }

    /// Everything that waits is decided.
    fn decide_all(&mut self, events: &mut EventBatch) {
        self.release(i64::MAX, f64::INFINITY, events);
        self.leaving.passed();
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
                    Way::Online(chain) => {
                        small += chain.run(run, plane, |hits| {
                            if W::ALL_VALUES {
                                watch.plane(id, plane, &plane::values(hits, plane, 0));
                            }
                        });
                    }
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
                            judge.grown((order, panel), &cluster, events);
                        });
                    }
                });
                judge.tally.add(GdGemBuilt::Planes, planes);
                judge.decide(GdGemBuilt::Small, small);
                judge.tally.add(GdGemBuilt::CutHits, cuts.hits);
                judge.tally.add(GdGemBuilt::CutSpan, cuts.span);
                // The time up to which all clusters of the plane have come.
                known[place] = hits.open_since().unwrap_or(border) - ROUNDING_NS;
            }
            all_planes = known.into_iter().fold(all_planes, f64::min);
            match way {
                Way::Online(chain) => {
                    let session = &mut Session { judge, watch, monitor, events, panel, id };
                    session.chain(chain, known[0].min(known[1]), border == f64::INFINITY);
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
            counts: std::mem::take(&mut self.judge.tally),
            decided: self.judge.decided - decided,
            clusters: self.watch.numbers(border.is_none()),
        }
    }

    fn settle(&mut self) {
        self.judge.tally.flush(&self.sheet);
        self.sheet.set(GdGemBuilt::Waiting as usize, self.waiting as u64);
    }
}

impl<W: ClusterWatch> Builder for GemBuilder<W> {
    type Hit = FineHit;

    fn build(&mut self, rows: &mut Vec<FineHit>, products: &mut Products, now: Option<Nanos>) {
        self.leaving.came(products.batch);
        self.monitor.begin(products, rows);
        self.rows(rows, &mut products.events);
        if let Some(now) = now {
            let heard = *self.heard.get_or_insert(now);
            if !rows.is_empty() {
                self.heard = Some(now);
            } else if now.0.saturating_sub(heard.0) >= self.limits.idle && self.something_waits() {
                self.heard = Some(now);
                self.judge.tally.add(GdGemBuilt::Idle, 1);
                self.decide_all(&mut products.events);
            }
        }
        rows.clear();
        self.monitor.end(products);
        self.watch.hand_over(products);
        self.settle();
    }

    fn flush(&mut self, reason: Flush, rows: &mut Vec<FineHit>, products: &mut Products) {
        self.build(rows, products, None);
        self.monitor.begin(products, &[]);
        self.decide_all(&mut products.events);
        self.monitor.end(products);
        self.watch.hand_over(products);
        if reason == Flush::Taken {
            self.border = i64::MIN;
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
