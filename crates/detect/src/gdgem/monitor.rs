//! What the live page is shown beside events: amplitudes by channel, clusters of planes and pads, and single events hit by
//! hit.
//!
//! Filled only where somebody subscribed, and no more than a display can use: beyond [`MOST_PER_S`] hits a second of data
//! whole calls are left out, and one event in [`EVERY_NS`] is shown hit by hit. Events never depend on any of it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hits::FineHit;
use fullcount_core::products::{ClusterBatch, HitBatch, Products, TrackBatch, Want};

use super::chain::OnlineEvent;
use super::layout::{CHANNELS, Layout, Place};
use super::pads::PadCluster;
use super::plane::{Centre, PlaneCluster};

/// Hits a second of data that are shown; a display needs no more, and copying all costs a tenth of the decoding.
const MOST_PER_S: f64 = 2e6;
/// Hits that are shown however short the time is.
const AT_ONCE: f64 = 100_000.0;
/// One event in so much time of data is shown hit by hit, ns.
const EVERY_NS: f64 = 50e6;
/// Hits of each plane that an event must have to be shown, where the geometry does not say it.
const LEAST_HITS: u32 = 2;
/// Clusters of each plane of a detector that wait for their partner while an event is looked for: the first ones of a
/// release, so that those of all planes are of the same time.
const MOST_WAITING: u16 = 256;
/// Hits of all of them.
const MOST_HITS: usize = 1 << 16;

/// What stands for the plane in the sizes of clusters of pads: behind all planes, so that strips on the same readout have
/// plots of their own.
pub(super) const PADS: u16 = 3;

/// A cluster with its hits, which may become part of the next event that is shown.
struct Waiting {
    panel: usize,
    plane: u8,
    cluster: PlaneCluster,
    first: usize,
    len: usize,
}

/// What one call is to show, for those who work on its slices.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shown {
    clusters: bool,
    /// How often time has begun anew.
    restarts: u64,
}

/// Columns for the page, on their way to the products.
pub(super) struct Monitor {
    want: Want,
    epoch: i64,
    /// By lane.
    channels: Vec<Channels>,
    clusters: ClusterBatch,
    tracks: TrackBatch,
    /// Hits shown, and the border where counting began, ns.
    shown: f64,
    began: Option<f64>,
    /// This call is shown.
    open: bool,
    /// Clusters of this call are looked at.
    clusters_open: bool,
    /// Time of data from which on an event is looked for, ns.
    due: f64,
    waiting: Vec<Waiting>,
    hits: Vec<FineHit>,
    /// Clusters that wait, by detector and plane.
    counts: Vec<[u16; 3]>,
    /// Releases so far, and the one in which the first of those that wait came.
    releases: u64,
    /// How often time has begun anew.
    restarts: u64,
    since: u64,
    /// Hits of each plane that an event of the online chain must have to be shown; `None`: none is shown.
    least: Option<u32>,
}

/// Numbers of the channels of a plane, from 1.
enum Channels {
    /// By strip; 0 where there is none.
    Strips(Vec<u32>),
    /// By column and row, of which a file may name any.
    Pads(HashMap<(u16, u16), u32>),
}

impl Channels {
    fn set(&mut self, place: Place, number: u32) {
        match self {
            Channels::Strips(strips) => {
                let strip = usize::from(place.coordinate);
                strips.resize(strips.len().max(strip + 1), 0);
                strips[strip] = number;
            }
            Channels::Pads(pads) => {
                pads.insert((place.coordinate, place.second), number);
            }
        }
    }

    /// The channel that a hit came from; 0 if there is none.
    #[inline]
    fn of(&self, hit: &FineHit) -> u32 {
        let number = match self {
            Channels::Strips(strips) => strips.get(usize::from(hit.coordinate)),
            Channels::Pads(pads) => pads.get(&(hit.coordinate, hit.second)),
        };
        number.copied().unwrap_or(0)
    }
}

/// Numbers of the channels by lane: 64 for each mapped VMM, in ascending order of FEC and VMM.
fn channels(layout: &Layout) -> Vec<Channels> {
    let empty = |lane: &super::layout::Lane| match layout.detectors[lane.detector].pads {
        true => Channels::Pads(HashMap::new()),
        false => Channels::Strips(Vec::new()),
    };
    let mut all: Vec<Channels> = layout.lanes.iter().map(empty).collect();
    for (at, (fec, vmm)) in layout.inputs().into_iter().enumerate() {
        let Some(fec) = &layout.fecs[fec] else { continue };
        for (channel, place) in fec.places[vmm * CHANNELS..][..CHANNELS].iter().enumerate() {
            if place.is_used() {
                let number = (at * CHANNELS + channel) as u32 + 1;
                all[usize::from(place.lane)].set(*place, number);
            }
        }
    }
    all
}

impl Monitor {
    pub fn new(layout: &Arc<Layout>, epoch: i64) -> Monitor {
        Monitor {
            want: Want::default(),
            epoch,
            channels: channels(layout),
            clusters: ClusterBatch::default(),
            tracks: TrackBatch::default(),
            shown: 0.0,
            began: None,
            open: false,
            clusters_open: false,
            due: f64::NEG_INFINITY,
            waiting: Vec::new(),
            hits: Vec::new(),
            counts: vec![[0; 3]; layout.detectors.len()],
            releases: 0,
            restarts: 0,
            since: 0,
            least: layout.online.map_or(Some(LEAST_HITS), |online| online.track_hits),
        }
    }

    /// A call begins with these rows.
    pub fn begin(&mut self, products: &mut Products, rows: &[FineHit]) {
        self.account(products, rows);
        self.take_columns(products);
    }

    /// A slice of another monitor's call begins, which said what is shown.
    pub fn begin_slice(&mut self, products: &mut Products, shown: Shown) {
        (self.want, self.clusters_open) = (products.want, shown.clusters);
        if self.restarts != shown.restarts {
            (self.restarts, self.due) = (shown.restarts, f64::NEG_INFINITY);
        }
        self.take_columns(products);
    }

    /// What is shown of this call.
    pub fn shown(&self) -> Shown {
        Shown { clusters: self.clusters_open, restarts: self.restarts }
    }

    fn take_columns(&mut self, products: &mut Products) {
        std::mem::swap(&mut self.clusters, &mut products.cluster_sizes);
        std::mem::swap(&mut self.tracks, &mut products.tracks);
    }

    /// Decides what is shown of a call with these rows, and shows their amplitudes.
    pub fn account(&mut self, products: &mut Products, rows: &[FineHit]) {
        self.want = products.want;
        if self.want.hits || self.want.cluster_sizes {
            self.judge(rows);
        }
        if self.want.hits && self.open {
            self.amplitudes(rows, &mut products.hits);
        }
        self.clusters_open = self.want.cluster_sizes && self.open;
    }

    /// A call ends.
    pub fn end(&mut self, products: &mut Products) {
        self.take_columns(products);
    }

    /// Decides whether the call is shown.
    fn judge(&mut self, rows: &[FineHit]) {
        let borders = rows.iter().filter(|row| row.lane >= FineHit::BORDER);
        for row in borders {
            // Time began anew: so does counting.
            let anew =
                row.lane == FineHit::RESTART || self.began.is_some_and(|began| row.ns() < began);
            if anew {
                (self.began, self.shown) = (None, 0.0);
                self.due = f64::NEG_INFINITY;
                self.restarts += 1;
            } else {
                let began = *self.began.get_or_insert(row.ns());
                let allowed = AT_ONCE + MOST_PER_S * 1e-9 * (row.ns() - began);
                self.open = self.shown <= allowed;
            }
        }
        if self.began.is_none() {
            self.open = self.shown <= AT_ONCE;
        }
        if self.open {
            self.shown += rows.len() as f64;
        }
    }

    /// Amplitudes with the channels that they came from.
    fn amplitudes(&self, rows: &[FineHit], hits: &mut HitBatch) {
        for row in rows {
            let channel = self.channels.get(usize::from(row.lane)).map_or(0, |c| c.of(row));
            if channel > 0 {
                hits.time_ns.push(self.epoch.saturating_add(row.ns().floor() as i64));
                hits.pixel.push(channel);
                hits.adc.push(row.weight);
            }
        }
    }

    /// A release begins: what has found no partner in two of them never will.
    pub fn release(&mut self) {
        self.releases += 1;
        if !self.waiting.is_empty() && self.releases > self.since + 1 {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.waiting.clear();
        self.hits.clear();
        self.counts.fill([0; 3]);
    }

    /// True if an event to be shown may come of the hits before `border`, ns.
    pub fn looks_for_hits(&self, border: f64) -> bool {
        self.want.tracks && border >= self.due
    }

    /// A cluster of a plane without its hits.
    #[inline]
    pub fn centre(&mut self, plane: u8, cluster: &Centre) {
        let Centre { size, adc, first, last, .. } = *cluster;
        self.cluster(plane.into(), size, (first, last), adc);
    }

    /// A cluster of pads.
    pub fn pads(&mut self, cluster: &PadCluster) {
        self.cluster(PADS, cluster.size2, (cluster.first, cluster.last), cluster.adc);
    }

    /// Hits, first and last time, and amplitude of a cluster.
    #[inline]
    fn cluster(&mut self, plane: u16, size: u32, (first, last): (f64, f64), adc: u64) {
        if self.clusters_open {
            let adc = u32::try_from(adc).unwrap_or(u32::MAX);
            self.clusters.push(plane, size, (last - first) as u32, adc);
        }
    }

    /// A cluster of a plane and its hits; none of them unless [`Monitor::looks_for_hits`].
    #[inline]
    pub fn plane(&mut self, panel: usize, plane: u8, cluster: &PlaneCluster, hits: &[FineHit]) {
        self.centre(plane, &cluster.centre());
        if !hits.is_empty()
            && self.want.tracks
            && cluster.last >= self.due
            && cluster.size >= LEAST_HITS
        {
            self.keep(panel, plane, cluster, hits);
        }
    }

    #[cold]
    fn keep(&mut self, panel: usize, plane: u8, cluster: &PlaneCluster, hits: &[FineHit]) {
        let Some(count) = self.counts.get_mut(panel).and_then(|p| p.get_mut(usize::from(plane)))
        else {
            return;
        };
        if *count >= MOST_WAITING || self.hits.len() + hits.len() > MOST_HITS {
            return;
        }
        *count += 1;
        if self.waiting.is_empty() {
            self.since = self.releases;
        }
        let first = self.hits.len();
        self.hits.extend_from_slice(hits);
        self.waiting.push(Waiting { panel, plane, cluster: *cluster, first, len: hits.len() });
    }

    /// True if a cluster waits for its partner to be shown.
    #[inline]
    pub fn looks_for_partners(&self) -> bool {
        self.want.tracks && !self.waiting.is_empty()
    }

    /// An event of these clusters.
    #[inline]
    pub fn matched(&mut self, panel: usize, planes: [Option<&PlaneCluster>; 3]) {
        if self.looks_for_partners() {
            self.show(panel, planes);
        }
    }

    #[cold]
    fn show(&mut self, panel: usize, planes: [Option<&PlaneCluster>; 3]) {
        let find = |c: &PlaneCluster| {
            self.waiting.iter().find(|w| {
                let w = (w.panel == panel).then_some(&w.cluster);
                // The number is given behind this; no two clusters of a panel agree in all of these.
                w.is_some_and(|w| {
                    (w.first, w.last, w.pos, w.adc) == (c.first, c.last, c.pos, c.adc)
                })
            })
        };
        let found: Vec<&Waiting> = planes.iter().flatten().filter_map(|c| find(c)).collect();
        if found.len() < 2 || found.len() < planes.iter().flatten().count() {
            return;
        }
        let first = found.iter().map(|w| w.cluster.first).fold(f64::INFINITY, f64::min);
        self.tracks.begin(self.epoch.saturating_add(first.floor() as i64));
        for w in &found {
            for hit in &self.hits[w.first..w.first + w.len] {
                self.tracks.push(
                    w.plane.into(),
                    hit.coordinate,
                    (hit.ns() - first) as u32,
                    hit.weight,
                );
            }
        }
        self.shown_at(first);
    }

    /// An event of the online chain.
    pub fn online(&mut self, event: &OnlineEvent<'_>) {
        if self.clusters_open {
            for (plane, hits) in event.hits.iter().enumerate().filter(|(_, hits)| !hits.is_empty())
            {
                let times = hits.iter().map(FineHit::ns);
                let (first, last) = times
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), t| (a.min(t), b.max(t)));
                let adc = hits.iter().map(|hit| u32::from(hit.weight)).sum();
                self.clusters.push(plane as u16, hits.len() as u32, (last - first) as u32, adc);
            }
        }
        let Some(least) = self.least else { return };
        // Both planes, whatever the file says.
        let enough = event.planes.iter().all(|plane| plane.hits >= least.max(1));
        if self.want.tracks && enough && event.span.1 >= self.due {
            let first = event.span.0;
            self.tracks.begin(self.epoch.saturating_add(first.floor() as i64));
            for (plane, hits) in event.hits.iter().enumerate() {
                for hit in *hits {
                    let later = (hit.ns() - first) as u32;
                    self.tracks.push(plane as u16, hit.coordinate, later, hit.weight);
                }
            }
            self.shown_at(first);
        }
    }

    /// An event was shown: the next one later.
    fn shown_at(&mut self, ns: f64) {
        self.due = ns + EVERY_NS;
        self.forget();
    }
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
