//! Clusters of pads: grown from a seed over neighbours in x and y, within the span, of one trigger.
//!
//! Refuses clusters that are too small. One without amplitude has no position. The work grows with the square of a run's hits, which
//! `max_run_hits` bounds. Source: `docs/formats/gdgem.md` section 14.6.

use crate::hits::FineHit;

use super::layout::OVER;
use super::options::Parameters;

/// Hits of pads that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PadCluster {
    /// Number within its detector, from 1.
    pub number: u64,
    /// Centre of mass, columns.
    pub pos0: f64,
    /// Centre of mass, rows.
    pub pos1: f64,
    /// Centre of mass, ns.
    pub time: f64,
    /// Columns from the first to the last.
    pub size0: u32,
    /// Rows from the first to the last.
    pub size1: u32,
    /// Number of hits.
    pub size2: u32,
    /// Sum of the amplitudes.
    pub adc: u64,
    /// First time, ns.
    pub first: f64,
    /// Last time, ns.
    pub last: f64,
}

/// Memory for growing clusters.
#[derive(Debug, Default)]
pub(super) struct Growth {
    left: Vec<FineHit>,
    members: Vec<FineHit>,
}

impl Growth {
    /// Calls `cluster` with the clusters of a run in order of time; the hits of those that are too small are returned.
    pub fn clusters(
        &mut self,
        run: &mut [FineHit],
        parameters: &Parameters,
        mut cluster: impl FnMut(PadCluster),
    ) -> u64 {
        run.sort_by_key(|hit| (hit.time, hit.coordinate));
        let (left, members) = (&mut self.left, &mut self.members);
        left.clear();
        left.extend_from_slice(run);
        let mut small = 0;
        while !left.is_empty() {
            let largest = parameters.algo == 10;
            let seed = match largest {
                true => (0..left.len())
                    .reduce(|a, b| if left[b].weight > left[a].weight { b } else { a }),
                false => Some(left.len() - 1),
            };
            let seed = left.remove(seed.unwrap_or(0));
            members.clear();
            members.push(seed);
            let (mut low, mut high) = (seed.ns(), seed.ns());
            let mut at = 0;
            while at < members.len() {
                let member = members[at];
                at += 1;
                left.retain(|hit| {
                    let time = hit.ns();
                    let near =
                        |a: u16, b: u16, missing: f64| f64::from(a.abs_diff(b)) - 1.0 <= missing;
                    let of_seed = hit.coordinate.abs_diff(seed.coordinate) <= 1
                        && hit.second.abs_diff(seed.second) <= 1;
                    let joins = hit.flags & !OVER == member.flags & !OVER
                        && time - low <= parameters.span
                        && high - time <= parameters.span
                        && near(hit.coordinate, member.coordinate, parameters.missing)
                        && near(hit.second, member.second, parameters.missing_second)
                        && (!largest || of_seed);
                    if joins {
                        low = low.min(time);
                        high = high.max(time);
                        members.push(*hit);
                    }
                    !joins
                });
            }
            let sums = values(members);
            if members.len() as f64 >= parameters.cluster_size {
                cluster(sums);
            } else {
                small += members.len() as u64;
            }
        }
        small
    }
}

fn values(hits: &[FineHit]) -> PadCluster {
    let (mut adc, mut x, mut y, mut time) = (0u64, 0u64, 0u64, 0.0);
    let (mut first, mut last) = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut columns, mut rows) = ((u16::MAX, 0), (u16::MAX, 0));
    for hit in hits {
        let a = u64::from(hit.weight);
        adc += a;
        x += a * u64::from(hit.coordinate);
        y += a * u64::from(hit.second);
        time += a as f64 * hit.ns();
        first = first.min(hit.ns());
        last = last.max(hit.ns());
        columns = (columns.0.min(hit.coordinate), columns.1.max(hit.coordinate));
        rows = (rows.0.min(hit.second), rows.1.max(hit.second));
    }
    let extent = |(low, high): (u16, u16)| u32::from(high.saturating_sub(low)) + 1;
    PadCluster {
        number: 0,
        pos0: x as f64 / adc as f64,
        pos1: y as f64 / adc as f64,
        time: time / adc as f64,
        size0: extent(columns),
        size1: extent(rows),
        size2: hits.len() as u32,
        adc,
        first,
        last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(ns: f64, x: u16, y: u16, weight: u16) -> FineHit {
        let time = FineHit::key(ns);
        FineHit { time, coordinate: x, second: y, weight, ..FineHit::default() }
    }

    fn seen(mut run: Vec<FineHit>, algo: u8) -> Vec<(u32, u32, u32, u64)> {
        let p = Parameters { algo, missing: 0.0, missing_second: 0.0, ..Parameters::default() };
        let mut seen = Vec::new();
        Growth::default().clusters(&mut run, &p, |c| seen.push((c.size0, c.size1, c.size2, c.adc)));
        seen
    }

    #[test]
    fn pads_grow_over_neighbours_and_appear_once() {
        let run =
            vec![hit(0.0, 1, 1, 10), hit(1.0, 2, 2, 20), hit(2.0, 3, 2, 30), hit(3.0, 6, 2, 5)];
        assert_eq!(seen(run.clone(), 0), [(1, 1, 1, 5), (3, 2, 3, 60)]);
        assert_eq!(seen(run, 10), [(2, 1, 2, 50), (1, 1, 1, 10), (1, 1, 1, 5)]);
    }

    #[test]
    fn a_cluster_without_amplitude_is_one_without_a_position() {
        let mut seen = Vec::new();
        let mut run = vec![hit(0.0, 1, 1, 0), hit(1.0, 2, 1, 0)];
        let p = Parameters { missing: 0.0, missing_second: 0.0, ..Parameters::default() };
        let small = Growth::default().clusters(&mut run, &p, |c| seen.push(c));
        let [cluster] = seen[..] else { panic!("{seen:?}") };
        assert_eq!((small, cluster.size2, cluster.adc, cluster.last), (0, 2, 0, 1.0));
        assert!(cluster.pos0.is_nan() && cluster.time.is_nan());
    }

    #[test]
    fn triggers_do_not_mix() {
        let other = FineHit { flags: 2, ..hit(1.0, 2, 1, 20) };
        assert_eq!(seen(vec![hit(0.0, 1, 1, 10), other], 0).len(), 2);
    }
}
