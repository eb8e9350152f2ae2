//! Clusters as rows of the tables, and hits with the electronics that they came from.
//!
//! Refuses nothing: what the builder closes and matches stands in the tables, in that order. Source: `docs/formats/gdgem.md`
//! section 14; for users: `docs/tables.md`.

use fullcount_core::products::{FineHit, Products};
use fullcount_core::tables::{
    DetectorClusters, DetectorRow, PlaneClusters, PlaneRow, StripHit, ps,
};

use super::builder::Watch;
use super::chain::OnlineEvent;
use super::layout::Lane;
use super::packet::Word;
use super::pads::PadCluster;
use super::plane::PlaneCluster;
use super::reader::OVER;

/// Detectors that a geometry can have, and planes of each.
const DETECTORS: usize = 16;
const PLANES: usize = 3;

/// Collects clusters as rows until the batch takes them.
#[derive(Debug, Default)]
pub(super) struct ClusterRows {
    planes: PlaneClusters,
    detectors: DetectorClusters,
    /// Plane clusters closed so far.
    closed: [[u64; PLANES]; DETECTORS],
    /// Detector clusters so far.
    matched: [u64; DETECTORS],
}

/// Adds one and gives the new number.
fn next(number: Option<&mut u64>) -> u64 {
    // The geometry has no other detectors and planes.
    number.map_or(0, |n| {
        *n += 1;
        *n
    })
}

impl Watch for ClusterRows {
    fn plane(&mut self, detector: u32, plane: u8, c: &PlaneCluster) {
        let of = self.closed.get_mut(detector as usize);
        let id = next(of.and_then(|planes| planes.get_mut(usize::from(plane))));
        self.planes.push(PlaneRow {
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
        });
    }

    fn matched(&mut self, detector: u32, planes: [Option<&PlaneCluster>; 3], best: bool) {
        let id = next(self.matched.get_mut(detector as usize));
        let bits = (0..PLANES).filter(|&p| planes[p].is_some()).map(|p| 1 << p).sum();
        let [a, b, c] = planes.map(|plane| plane.copied().unwrap_or_default());
        self.detectors.push(DetectorRow {
            id,
            detector,
            planes: bits,
            best: u8::from(best),
            id0: a.number,
            id1: b.number,
            id2: c.number,
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
        });
    }

    fn pads(&mut self, detector: u32, c: &PadCluster) {
        let id = next(self.matched.get_mut(detector as usize));
        self.detectors.push(DetectorRow {
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
        });
    }

    fn online(&mut self, event: &OnlineEvent<'_>) {
        let id = next(self.matched.first_mut());
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

    fn hand_over(&mut self, products: &mut Products) {
        products.plane_clusters.append(&mut self.planes);
        products.detector_clusters.append(&mut self.detectors);
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
