//! Clusters, matching and positions of the online chain.
//!
//! Clusters of both planes wait in one list, sorted by the matcher's key, until no cluster can come any more that would stand before
//! them; so the events are those of one pass over the whole run. Events with one plane are given on as
//! well. Source: `docs/formats/gdgem.md` sections 8 to 10.

use crate::hits::FineHit;

use super::layout::{Algorithm, Matcher, Online};
use super::plane::latest;

/// Hits that one event may have: far above physics, so that clusters without end cannot fill the memory.
const MOST_HITS: usize = 1 << 16;

/// What one plane of an event says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlaneView {
    /// Number of hits.
    pub hits: u32,
    /// Sum of the weights.
    pub weight: f64,
    /// Position by the algorithm, strips.
    pub coordinate: f64,
    /// Time by the algorithm, ns.
    pub time: f64,
    /// Last time, ns.
    pub last: f64,
    /// Lower uncertainty of the micro-TPC of 2018, strips; 0 for other algorithms.
    pub lower: u32,
}

/// An event of the online chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnlineEvent<'a> {
    /// Hits of planes 0 and 1, in the order of joining.
    pub hits: [&'a [FineHit]; 2],
    /// First and last time, ns.
    pub span: (f64, f64),
    /// Values of planes 0 and 1; 0 where there are no hits.
    pub planes: [PlaneView; 2],
}

/// A cluster that waits.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    key: f64,
    plane: u8,
    /// Order of being closed within its plane.
    number: u64,
    first: f64,
    last: f64,
    /// Its hits, counted from the first ever.
    start: u64,
    len: u32,
}

/// An event under way.
#[derive(Debug, Default)]
struct Open {
    hits: [Vec<FineHit>; 2],
    /// First and last of the hits with the latest time in the first cluster of each plane.
    latest: [(usize, usize); 2],
    first: f64,
    last: f64,
    any: bool,
}

/// Clusters of the detector, and the event under way.
#[derive(Debug)]
pub(super) struct Chain {
    online: Online,
    clusters: Vec<Cluster>,
    hits: Vec<FineHit>,
    /// Hits forgotten before `hits`.
    base: u64,
    closed: u64,
    open: Open,
    /// Events that were cut.
    pub cuts: u64,
}

impl Chain {
    pub fn new(online: Online) -> Chain {
        let (clusters, hits) = (Vec::new(), Vec::new());
        Chain { online, clusters, hits, base: 0, closed: 0, open: Open::default(), cuts: 0 }
    }

    /// A run of one plane, equal times in order of arrival: clusters by strip, each of which is shown to `closed`. How many hits are in
    /// clusters with too few of them, which end here.
    pub fn run(
        &mut self,
        run: &mut [FineHit],
        plane: u8,
        mut closed: impl FnMut(&[FineHit]),
    ) -> u64 {
        run.sort_by_key(|hit| (hit.coordinate, hit.time));
        let gap = self.online.strip_gap[usize::from(plane)];
        let least = self.online.least_hits[usize::from(plane)] as usize;
        let mut small = 0;
        let near = |a: &FineHit, b: &FineHit| u32::from(b.coordinate - a.coordinate) <= gap;
        for hits in run.chunk_by(near) {
            if hits.len() < least {
                small += hits.len() as u64;
                continue;
            }
            let times = hits.iter().map(FineHit::ns);
            let (first, last) =
                times.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), t| (a.min(t), b.max(t)));
            let key = match (self.online.matcher, self.online.algorithm) {
                (Matcher::Gap | Matcher::Overlap, _) => first,
                (Matcher::Center, Algorithm::CenterOfMass) => moments(hits, plain).time(),
                (Matcher::Center, Algorithm::Charge2) => moments(hits, square).time(),
                (Matcher::End | Matcher::Center, _) => last,
            };
            self.clusters.push(Cluster {
                key,
                plane,
                number: self.closed,
                first,
                last,
                start: self.base + self.hits.len() as u64,
                len: hits.len() as u32,
            });
            self.closed += 1;
            self.hits.extend_from_slice(hits);
            closed(hits);
        }
        small
    }

    /// Joins the clusters whose key is below `known`, ns, to events.
    pub fn release(&mut self, known: f64, mut event: impl FnMut(&OnlineEvent<'_>)) {
        self.clusters.sort_unstable_by(|a, b| {
            a.key.total_cmp(&b.key).then((a.plane, a.number).cmp(&(b.plane, b.number)))
        });
        let ready = match known == f64::INFINITY {
            true => self.clusters.len(),
            false => self.clusters.partition_point(|c| c.key < known),
        };
        for i in 0..ready {
            let cluster = self.clusters[i];
            if self.begins(&cluster) {
                self.finish(&mut event);
            }
            let from = (cluster.start - self.base) as usize;
            self.open.join(&cluster, &self.hits[from..from + cluster.len as usize]);
        }
        self.clusters.drain(..ready);
        let oldest = self.clusters.iter().map(|c| c.start).min();
        let old = oldest.map_or(self.hits.len(), |start| (start - self.base) as usize);
        if old > self.hits.len() / 2 {
            self.hits.drain(..old);
            self.base += old as u64;
        }
    }

    /// True if a cluster does not join the event under way.
    fn begins(&mut self, cluster: &Cluster) -> bool {
        let open = &self.open;
        if !open.any {
            return false;
        }
        let gap = (cluster.first - open.last).max(open.first - cluster.last).max(0.0);
        let has = |plane: usize| !open.hits[plane].is_empty();
        let ends = match self.online.matcher {
            Matcher::Gap => gap > self.online.max_delta,
            Matcher::Overlap => gap > 0.0,
            Matcher::End => (open.last - cluster.last).abs() > self.online.max_delta,
            Matcher::Center => {
                (has(0) && has(1)) || gap > self.online.max_delta || has(usize::from(cluster.plane))
            }
        };
        // An event that ends here anyway is not cut.
        let cut = !ends && open.hits[0].len() + open.hits[1].len() >= MOST_HITS;
        self.cuts += u64::from(cut);
        ends || cut
    }

    /// Times of what waits, ns: keys of clusters, and the span of the event under way.
    pub fn times(&self) -> impl Iterator<Item = f64> {
        let open = self.open.any.then_some([self.open.first, self.open.last]);
        self.clusters.iter().map(|c| c.key).chain(open.into_iter().flatten())
    }

    /// The event under way has ended.
    pub fn finish(&mut self, event: &mut impl FnMut(&OnlineEvent<'_>)) {
        let open = &mut self.open;
        if open.any {
            let algorithm = self.online.algorithm;
            let planes = [0, 1].map(|p| view(&open.hits[p], open.latest[p], algorithm));
            let hits = [&open.hits[0][..], &open.hits[1][..]];
            event(&OnlineEvent { hits, span: (open.first, open.last), planes });
        }
        open.any = false;
        open.hits.iter_mut().for_each(Vec::clear);
    }
}

impl Open {
    fn join(&mut self, cluster: &Cluster, hits: &[FineHit]) {
        if !self.any {
            (self.any, self.first, self.last) = (true, cluster.first, cluster.last);
        }
        self.first = self.first.min(cluster.first);
        self.last = self.last.max(cluster.last);
        let plane = usize::from(cluster.plane);
        if self.hits[plane].is_empty() {
            let of = |hit: &FineHit| hit.ns() == cluster.last;
            let left = hits.iter().position(of).unwrap_or(0);
            self.latest[plane] = (left, hits.iter().rposition(of).unwrap_or(left));
        }
        self.hits[plane].extend_from_slice(hits);
    }
}

/// Sums over hits, in their order.
struct Moments {
    weight: f64,
    strip: f64,
    ns: f64,
}

impl Moments {
    fn time(&self) -> f64 {
        self.ns / self.weight
    }
}

fn plain(hit: &FineHit) -> f64 {
    f64::from(hit.weight)
}

fn square(hit: &FineHit) -> f64 {
    f64::from(hit.weight) * f64::from(hit.weight)
}

fn moments(hits: &[FineHit], weight: impl Fn(&FineHit) -> f64) -> Moments {
    let mut sums = Moments { weight: 0.0, strip: 0.0, ns: 0.0 };
    for hit in hits {
        let w = weight(hit);
        sums.weight += w;
        sums.strip += w * f64::from(hit.coordinate);
        sums.ns += w * hit.ns();
    }
    sums
}

/// Position and time of a plane (section 10).
fn view(hits: &[FineHit], (left, right): (usize, usize), algorithm: Algorithm) -> PlaneView {
    if hits.is_empty() {
        return PlaneView::default();
    }
    let last = hits.iter().map(FineHit::ns).fold(f64::NEG_INFINITY, f64::max);
    let weight = hits.iter().map(plain).sum();
    let k = latest(left, right, hits.len(), |i| hits[i].weight);
    let mut lower = 0;
    let (coordinate, time) = match algorithm {
        Algorithm::CenterOfMass => {
            let m = moments(hits, plain);
            (m.strip / m.weight, m.time().trunc())
        }
        Algorithm::Charge2 => {
            let m = moments(hits, square);
            (m.strip / m.weight, m.time().trunc())
        }
        Algorithm::Utpc => (f64::from(hits[k].coordinate), last),
        Algorithm::UtpcWeighted => {
            let m = moments(&hits[k.saturating_sub(1)..(k + 2).min(hits.len())], square);
            (m.strip / m.weight, last)
        }
        Algorithm::Older { weighted, bins, span } => {
            let older = older_utpc(hits, weighted, bins as usize, f64::from(span));
            lower = older.map_or(0, |o| o.lower);
            (older.map_or(f64::NAN, |o| o.position), last)
        }
    };
    PlaneView { hits: hits.len() as u32, weight, coordinate, time: time.min(last), last, lower }
}

/// The micro-TPC of 2018 with its uncertainties (section 10.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OlderUtpc {
    /// Mean strip of the hits with the latest time.
    pub position: f64,
    /// Their span, strips.
    pub lower: u32,
    /// Span of the strips of the last time bins.
    pub upper: u32,
}

/// The micro-TPC of 2018 over the hits of a plane; `None` without hits or weight.
pub fn older_utpc(
    hits: &[FineHit],
    weighted: bool,
    time_bins: usize,
    time_span: f64,
) -> Option<OlderUtpc> {
    let mut sorted = hits.to_vec();
    sorted.sort_by_key(|hit| std::cmp::Reverse(hit.time));
    let (first, last) = (sorted.last()?.ns(), sorted.first()?.ns());
    let span = |hits: &[FineHit]| {
        let strips = || hits.iter().map(|hit| u32::from(hit.coordinate));
        strips().max().unwrap_or(0) - strips().min().unwrap_or(0) + 1
    };
    let newest = sorted.iter().take_while(|hit| hit.ns() == last).count();
    let one = |_: &FineHit| 1.0;
    let m =
        if weighted { moments(&sorted[..newest], plain) } else { moments(&sorted[..newest], one) };
    let (mut bins, mut end) = (Vec::new(), 0);
    for hit in &sorted {
        let known = bins.contains(&hit.time);
        if (!known && bins.len() >= time_bins) || hit.ns() < first.min(last - time_span) {
            break;
        }
        if !known {
            bins.push(hit.time);
        }
        end += 1;
    }
    (m.weight > 0.0).then(|| OlderUtpc {
        position: m.strip / m.weight,
        lower: span(&sorted[..newest]),
        upper: span(&sorted[..end]),
    })
}
