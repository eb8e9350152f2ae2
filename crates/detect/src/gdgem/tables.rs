//! Clusters as rows of the tables, and hits with the electronics that they came from.
//!
//! Rows stand in an order that the hits decide, and have the same numbers whatever the number of threads. Source:
//! `docs/formats/gdgem.md` section 14; for users: `docs/tables.md`, `docs/gdgem-parallel.md`.

use crate::hits::FineHit;
use fullcount_core::products::Products;
use fullcount_core::tables::{
    DetectorClusters, DetectorRow, PlaneClusters, PlaneRow, StripHit, ps,
};

use super::chain::OnlineEvent;
use super::layout::OVER;
use super::layout::{Lane, Layout};
use super::packet::Word;
use super::pads::PadCluster;
use super::plane::PlaneCluster;
use super::watch::ClusterWatch;

/// Detectors that a geometry can have, and planes of each.
const DETECTORS: usize = 16;
const PLANES: usize = 3;

/// How many clusters there were, by detector and plane, and by detector.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers {
    planes: [[u64; PLANES]; DETECTORS],
    detectors: [u64; DETECTORS],
}

impl Numbers {
    /// Rows that were numbered from an empty state on get the numbers that follow these.
    pub(super) fn follow(&self, products: &mut Products) {
        let rows = &mut products.plane_clusters;
        for ((id, &detector), &plane) in rows.id.iter_mut().zip(&rows.detector).zip(&rows.plane) {
            *id += self.before(detector, usize::from(plane));
        }
        let rows = &mut products.detector_clusters;
        for (n, &detector) in rows.detector.iter().enumerate() {
            rows.id[n] += self.detectors.get(detector as usize).copied().unwrap_or(0);
            let ids = [&mut rows.id0[n], &mut rows.id1[n], &mut rows.id2[n]];
            for (plane, id) in ids.into_iter().enumerate().filter(|(_, id)| **id > 0) {
                *id += self.before(detector, plane);
            }
        }
    }

    fn before(&self, detector: u32, plane: usize) -> u64 {
        let of = self.planes.get(detector as usize);
        of.and_then(|planes| planes.get(plane)).copied().unwrap_or(0)
    }

    /// So many more.
    pub(super) fn add(&mut self, more: &Numbers) {
        let all = self.planes.iter_mut().flatten().chain(&mut self.detectors);
        all.zip(more.all()).for_each(|(n, more)| *n += more);
    }

    /// Those since `before`.
    fn since(mut self, before: &Numbers) -> Numbers {
        let all = self.planes.iter_mut().flatten().chain(&mut self.detectors);
        all.zip(before.all()).for_each(|(n, before)| *n -= before);
        self
    }

    fn all(&self) -> impl Iterator<Item = &u64> {
        self.planes.iter().flatten().chain(&self.detectors)
    }
}

/// A row that waits for its place in the order.
#[derive(Debug)]
struct Waiting<R> {
    /// Time that it stands at, ns.
    at: f64,
    row: R,
}

/// Collects clusters as rows until the batch takes them. Their order and numbers depend on the hits only, neither on where
/// borders lie nor on how many threads there are: clusters of planes stand in the order of their first hits, or behind those of their
/// plane that were closed before them; detector clusters in the order of their events, at equal times by number of the detector.
#[derive(Debug)]
pub(super) struct ClusterRows {
    planes: PlaneClusters,
    detectors: DetectorClusters,
    planes_waiting: Vec<Waiting<PlaneRow>>,
    detectors_waiting: Vec<Waiting<DetectorRow>>,
    /// The first plane of each detector, 0 to 2.
    first: [u8; DETECTORS],
    /// Latest time at which a cluster of each plane stands, ns.
    latest: [[Option<f64>; PLANES]; DETECTORS],
    /// So far.
    numbers: Numbers,
    /// When the state was last empty.
    before: Numbers,
}

/// Puts what waits in order and takes what stands before `all`, or everything.
fn take<R>(
    waiting: &mut Vec<Waiting<R>>,
    all: f64,
    key: impl Fn(&R) -> (u32, u8),
    mut push: impl FnMut(R),
) {
    // Stable: those of a plane stay as they came.
    waiting.sort_by(|a, b| a.at.total_cmp(&b.at).then_with(|| key(&a.row).cmp(&key(&b.row))));
    let n = match all == f64::INFINITY {
        true => waiting.len(),
        false => waiting.partition_point(|row| row.at < all),
    };
    waiting.drain(..n).for_each(|waiting| push(waiting.row));
}

/// Adds one and gives the new number.
fn next(number: Option<&mut u64>) -> u64 {
    // The geometry has no other detectors and planes.
    number.map_or(0, |n| {
        *n += 1;
        *n
    })
}

impl ClusterWatch for ClusterRows {
    fn plane(&mut self, detector: u32, plane: u8, c: &PlaneCluster) {
        let of = self.numbers.planes.get_mut(detector as usize);
        let id = next(of.and_then(|planes| planes.get_mut(usize::from(plane))))
            - self.before.before(detector, usize::from(plane));
        let of = self.latest.get_mut(detector as usize);
        let latest = of.and_then(|planes| planes.get_mut(usize::from(plane)));
        let at = latest.map_or(c.first, |latest| {
            *latest.insert(latest.map_or(c.first, |latest| latest.max(c.first)))
        });
        let row = PlaneRow {
            id,
            detector,
            plane,
            size: c.size,
            adc: c.adc,
            pos: c.pos,
            time_ps: ps(c.time),
            pos_utpc: c.pos_utpc,
            time_utpc_ps: ps(c.time_utpc),
            pos_charge2: c.pos_charge2,
            time_charge2_ps: ps(c.time_charge2),
            pos_algo: c.pos_algo,
            time_algo_ns: c.time_algo,
            first_ps: ps(c.first),
            last_ps: ps(c.last),
        };
        self.planes_waiting.push(Waiting { at, row });
    }

    fn matched(
        &mut self,
        detector: u32,
        order: f64,
        planes: [Option<&PlaneCluster>; 3],
        best: bool,
    ) {
        let id = self.next(detector);
        // By number of the plane: a single one may be any.
        let mut planes = planes;
        planes.rotate_right(self.first.get(detector as usize).copied().map_or(0, usize::from));
        let bits = (0..PLANES).filter(|&p| planes[p].is_some()).map(|p| 1 << p).sum();
        let [a, b, c] = planes.map(|plane| plane.copied().unwrap_or_default());
        let [id0, id1, id2] = [a, b, c].map(|c| c.number);
        let numbered =
            |plane: usize, number: u64| number.saturating_sub(self.before.before(detector, plane));
        let row = DetectorRow {
            id,
            detector,
            planes: bits,
            best: u8::from(best),
            id0: numbered(0, id0),
            id1: numbered(1, id1),
            id2: numbered(2, id2),
            size0: a.size,
            size1: b.size,
            size2: c.size,
            adc0: a.adc,
            adc1: b.adc,
            adc2: c.adc,
            pos0: a.pos,
            pos1: b.pos,
            pos2: c.pos,
            time0_ps: ps(a.time),
            time1_ps: ps(b.time),
            time2_ps: ps(c.time),
            pos0_utpc: a.pos_utpc,
            pos1_utpc: b.pos_utpc,
            pos2_utpc: c.pos_utpc,
            time0_utpc_ps: ps(a.time_utpc),
            time1_utpc_ps: ps(b.time_utpc),
            time2_utpc_ps: ps(c.time_utpc),
            pos0_charge2: a.pos_charge2,
            pos1_charge2: b.pos_charge2,
            pos2_charge2: c.pos_charge2,
            time0_charge2_ps: ps(a.time_charge2),
            time1_charge2_ps: ps(b.time_charge2),
            time2_charge2_ps: ps(c.time_charge2),
            pos0_algo: a.pos_algo,
            pos1_algo: b.pos_algo,
            pos2_algo: c.pos_algo,
            time0_algo_ns: a.time_algo,
            time1_algo_ns: b.time_algo,
            time2_algo_ns: c.time_algo,
        };
        self.detectors_waiting.push(Waiting { at: order, row });
    }

    fn pads(&mut self, detector: u32, order: f64, c: &PadCluster) {
        let id = self.next(detector);
        let row = DetectorRow {
            id,
            detector,
            planes: 0b11,
            best: 1,
            size0: c.size0,
            size1: c.size1,
            size2: c.size2,
            adc0: c.adc,
            adc1: c.adc,
            pos0: c.pos0,
            pos1: c.pos1,
            time0_ps: ps(c.time),
            time1_ps: ps(c.time),
            ..DetectorRow::default()
        };
        self.detectors_waiting.push(Waiting { at: order, row });
    }

    fn online(&mut self, event: &OnlineEvent<'_>) {
        // The one detector of the online chain makes its events in their order.
        let id = self.next(0);
        let [x, y] = event.planes;
        self.detectors.push(DetectorRow {
            id,
            planes: u8::from(x.hits > 0) | u8::from(y.hits > 0) << 1,
            best: 1,
            size0: x.hits,
            size1: y.hits,
            // Sums of whole numbers.
            adc0: x.weight as u64,
            adc1: y.weight as u64,
            pos0: x.coordinate,
            pos1: y.coordinate,
            time0_ps: ps(x.time),
            time1_ps: ps(y.time),
            ..DetectorRow::default()
        });
    }

    fn complete(&mut self, planes: f64, detectors: f64) {
        let (rows, key) = (&mut self.planes, |row: &PlaneRow| (row.detector, row.plane));
        take(&mut self.planes_waiting, planes, key, |row| rows.push(row));
        if planes == f64::INFINITY {
            // What comes next may be of a clock that began anew.
            self.latest = Default::default();
        }
        let (rows, key) = (&mut self.detectors, |row: &DetectorRow| (row.detector, 0));
        take(&mut self.detectors_waiting, detectors, key, |row| rows.push(row));
    }

    fn any_time(&self, found: &mut dyn FnMut(f64) -> bool) -> bool {
        let mut planes = self.planes_waiting.iter().map(|row| row.at);
        planes.any(&mut *found) || self.detectors_waiting.iter().map(|row| row.at).any(found)
    }

    fn hand_over(&mut self, products: &mut Products) {
        products.plane_clusters.append(&mut self.planes);
        products.detector_clusters.append(&mut self.detectors);
    }

    fn numbers(&mut self, empty: bool) -> Numbers {
        let numbers = self.numbers.since(&self.before);
        if empty {
            self.before = self.numbers;
        }
        numbers
    }
}

impl ClusterRows {
    pub fn of(layout: &Layout) -> ClusterRows {
        let mut firsts = [0; DETECTORS];
        for panel in &layout.detectors {
            let plane = panel.lanes.first().map(|&lane| layout.lanes[lane].plane);
            if let Some((first, plane)) = firsts.get_mut(panel.id as usize).zip(plane) {
                *first = plane;
            }
        }
        ClusterRows {
            first: firsts,
            planes: PlaneClusters::default(),
            detectors: DetectorClusters::default(),
            planes_waiting: Vec::new(),
            detectors_waiting: Vec::new(),
            latest: Default::default(),
            numbers: Numbers::default(),
            before: Numbers::default(),
        }
    }

    /// Number of the next detector cluster.
    fn next(&mut self, detector: u32) -> u64 {
        let at = detector as usize;
        let before = self.before.detectors.get(at).copied().unwrap_or(0);
        next(self.numbers.detectors.get_mut(at)) - before
    }
}

/// The row of a hit that was accepted as `hit`.
pub(super) fn strip_hit(
    hit: &FineHit,
    (word, fec): (Word, u8),
    lane: Lane,
    detector: u32,
    trigger: u32,
) -> StripHit {
    StripHit {
        time_ps: ps(hit.ns()),
        detector,
        plane: lane.plane,
        strip: hit.coordinate,
        row: hit.second,
        adc: hit.weight,
        over_threshold: hit.flags & OVER,
        fec,
        // Fields of 5, 6 and 5 bits.
        vmm: word.vmm() as u8,
        channel: word.channel() as u8,
        offset: word.offset() as u8,
        bcid: word.bcid(),
        tdc: word.tdc(),
        trigger,
    }
}
