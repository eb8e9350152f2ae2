//! Events with a place finer than a pixel beside the truth: which neutron was found, how far from its conversion, and which event is of none.
//!
//! An event is a neutron's if its micro-TPC strips lie within [`NEAR`] of the conversion in both planes and its time in the
//! neutron's drift.

use std::collections::BTreeMap;

use fullcount_sim::made::{Cause, Made, Overlap};

use super::compare::TruthVerdict;

/// Strips between an event's micro-TPC place and the conversion at most: 2 mm.
pub const NEAR: f64 = 5.0;
/// An event's time is so long after the conversion at most, ns: the drift, its spread and the errors of times.
const DRIFT_NS: f64 = 460.0;
/// And so long before it: errors of times.
const BEFORE_NS: f64 = 10.0;

/// Ways to get a place.
pub const WAYS: [&str; 5] =
    ["centre of mass", "charge²", "µTPC", "weighted µTPC", "late end (ours)"];
/// Which of them is the micro-TPC.
const UTPC: usize = 2;
/// Borders between classes of tracks: extent in the plane, strips.
pub const EXTENTS: [f64; 3] = [1.0, 3.0, 6.0];
/// The same for strips that were hit.
pub const STRIPS: [u32; 5] = [3, 4, 5, 6, 10];
/// A track that runs over less than this in a plane is upright there, strips.
pub const UPRIGHT: f64 = 0.5;
/// Share of the clean upright tracks that hit no more strips than an upright track does.
pub const NEARLY_ALL: f64 = 0.99;
/// What is further off than this is an outlier, strips.
pub const FAR: f64 = 1.0;

/// An event, with its place by every way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Place among the detectors.
    pub sector: u16,
    /// ns.
    pub time: f64,
    /// x and y by way, strips.
    pub at: [[f64; 2]; WAYS.len()],
    /// Hits in x and in y.
    pub strips: [u32; 2],
}

/// Distances from the conversions, strips.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// 68.27 % are nearer.
    pub most: f64,
    /// Root of the mean square.
    pub rms: f64,
    /// Mean distance along the track, towards its end.
    pub bias: f64,
    /// Share that is further off than [`FAR`], %.
    pub far: f64,
}

/// Tracks of one class.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TrackGroup {
    /// Planes of events.
    pub number: usize,
    /// Median angle of the track's projection to the drift, degrees.
    pub angle: f64,
    /// By way.
    pub ways: [Spread; WAYS.len()],
}

/// Distances of the neutrons that were found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrackDistances {
    /// By class of extent.
    pub extents: [TrackGroup; EXTENTS.len() + 1],
    /// By strips that were hit.
    pub strips: [TrackGroup; STRIPS.len() + 1],
    /// Strips that an upright track hits at most; 0: there was none.
    pub upright: u32,
    /// Those of more strips.
    pub inclined: TrackGroup,
}

/// Distances of one class of tracks.
#[derive(Debug, Clone, Default)]
struct Distances {
    /// To the drift, degrees.
    angles: Vec<f32>,
    /// Along the track, by way.
    along: [Vec<f32>; WAYS.len()],
}

impl Distances {
    fn more(&mut self, other: &Distances) {
        self.angles.extend_from_slice(&other.angles);
        self.along.iter_mut().zip(&other.along).for_each(|(a, b)| a.extend_from_slice(b));
    }

    fn group(&self) -> TrackGroup {
        let mut angles = self.angles.clone();
        angles.sort_unstable_by(f32::total_cmp);
        let angle = angles.get(angles.len() / 2).map_or(0.0, |&a| f64::from(a));
        let ways = self.along.each_ref().map(|along| spread(along));
        TrackGroup { number: angles.len(), angle, ways }
    }
}

fn spread(along: &[f32]) -> Spread {
    if along.is_empty() {
        return Spread::default();
    }
    let n = along.len();
    let mut far: Vec<f32> = along.iter().map(|d| d.abs()).collect();
    far.sort_unstable_by(f32::total_cmp);
    let mean =
        |of: &dyn Fn(f64) -> f64| along.iter().map(|&d| of(f64::from(d))).sum::<f64>() / n as f64;
    let within = far.partition_point(|&d| f64::from(d) <= FAR);
    Spread {
        most: f64::from(far[((n as f64 * 0.6827) as usize).min(n - 1)]),
        rms: mean(&|d| d * d).sqrt(),
        bias: mean(&|d| d),
        far: 100.0 * (n - within) as f64 / n as f64,
    }
}

/// Class of a track's extent in a plane.
pub fn extent(run: f64) -> usize {
    EXTENTS.iter().filter(|&&border| run.abs() >= border).count()
}

/// Class of a number of strips.
pub fn class(strips: u32) -> usize {
    STRIPS.iter().filter(|&&border| strips >= border).count()
}

/// Angle of a track's projection to the drift, degrees.
fn angle(run: f64, pitch_mm: f64, depth_mm: f64) -> f64 {
    (run.abs() * pitch_mm).atan2(depth_mm).to_degrees()
}

/// Strips that [`NEARLY_ALL`] of the upright tracks hit at most; `number` by strips.
fn usual(number: &BTreeMap<u32, u64>) -> u32 {
    let all: u64 = number.values().sum();
    let enough = |(_, sum): &(u32, u64)| *sum as f64 >= NEARLY_ALL * all as f64;
    let sums = number.iter().scan(0, |sum, (&strips, n)| {
        *sum += n;
        Some((strips, *sum))
    });
    sums.into_iter().find(enough).map_or(0, |(strips, _)| strips)
}

/// Compares all events with all rows of truth.
pub fn compare(
    mut events: Vec<Event>,
    truth: &[Made],
    pitch_mm: f64,
) -> TruthVerdict<TrackDistances> {
    let mut verdict =
        TruthVerdict::<TrackDistances> { events: events.len() as u64, ..TruthVerdict::default() };
    let mut rows: Vec<&Made> = truth.iter().filter(|r| r.spot.is_some()).collect();
    rows.sort_by_key(|r| (r.module, r.time));
    events.sort_by(|a, b| a.sector.cmp(&b.sector).then(a.time.total_cmp(&b.time)));
    let mut done = vec![false; rows.len()];
    let mut by_extent: [Distances; EXTENTS.len() + 1] = Default::default();
    let mut by_strips = BTreeMap::<u32, Distances>::new();
    let mut upright = BTreeMap::<u32, u64>::new();
    for event in &events {
        let from = rows
            .partition_point(|r| (r.module, r.time as f64) < (event.sector, event.time - DRIFT_NS));
        let near = rows[from..].iter().zip(from..).take_while(|(r, _)| {
            r.module == event.sector && r.time as f64 <= event.time + BEFORE_NS
        });
        let far = |row: &Made| {
            let [x, y, ..] = row.spot.unwrap_or_default().strips();
            let [ex, ey] = event.at[UTPC];
            (ex - x).abs().max((ey - y).abs())
        };
        let best = near
            .filter(|(row, at)| !done[*at] && far(row) <= NEAR)
            .min_by(|a, b| far(a.0).total_cmp(&far(b.0)));
        match best {
            None => verdict.extra += 1,
            Some((row, at)) => {
                done[at] = true;
                if row.kind == Cause::Coincidence {
                    verdict.coincidences += 1;
                    continue;
                }
                verdict.class(row.overlap).right += 1;
                let spot = row.spot.unwrap_or_default();
                let [x, y, run_x, run_y] = spot.strips();
                for (plane, (place, run)) in [(x, run_x), (y, run_y)].into_iter().enumerate() {
                    let strips = event.strips[plane];
                    if run.abs() < UPRIGHT && row.overlap == Overlap::None {
                        *upright.entry(strips).or_default() += 1;
                    }
                    let lists = [&mut by_extent[extent(run)], by_strips.entry(strips).or_default()];
                    for list in lists {
                        list.angles.push(angle(run, pitch_mm, spot.depth_mm()) as f32);
                        for (along, at) in list.along.iter_mut().zip(event.at) {
                            along.push(((at[plane] - place) * run.signum()) as f32);
                        }
                    }
                }
            }
        }
    }
    rows.iter().zip(&done).for_each(|(row, done)| verdict.looked(row, *done));
    let upright = usual(&upright);
    let of = |which: &dyn Fn(u32) -> bool| {
        merged(by_strips.iter().filter(|(strips, _)| which(**strips))).group()
    };
    verdict.more = TrackDistances {
        extents: by_extent.each_ref().map(Distances::group),
        strips: std::array::from_fn(|at| of(&|strips| class(strips) == at)),
        upright,
        inclined: of(&|strips| strips > upright),
    };
    verdict
}

fn merged<'a>(lists: impl Iterator<Item = (&'a u32, &'a Distances)>) -> Distances {
    lists.fold(Distances::default(), |mut all, (_, list)| {
        all.more(list);
        all
    })
}

#[cfg(test)]
mod tests {
    use super::super::compare::NeutronClass;
    use super::*;
    use fullcount_sim::made::Spot;

    fn row(module: u16, time: i64, at: [f64; 4], kind: Cause, overlap: Overlap) -> Made {
        Made {
            packet: 0,
            module,
            time,
            pixel: 1,
            kind,
            overlap,
            spot: Some(Spot::of(at).deep(1.6)),
        }
    }

    fn event(sector: u16, time: f64, x: f64, y: f64) -> Event {
        let at = [[x + 2.0, y], [x + 1.0, y], [x, y], [x + 0.5, y], [x - 0.25, y]];
        Event { sector, time, at, strips: [5, 2] }
    }

    #[test]
    fn every_event_and_every_neutron_is_counted_once() {
        let (n, c) = (Cause::Neutron, Cause::Coincidence);
        let truth = [
            row(0, 1000, [10.0, 20.0, 4.0, 0.0], n, Overlap::None),
            row(0, 1100, [200.0, 20.0, -2.0, 7.0], n, Overlap::Neutron),
            row(1, 1000, [10.0, 20.0, 1.0, 1.0], n, Overlap::Noise),
            row(1, 9000, [50.0, 60.0, 0.0, 0.0], c, Overlap::None),
            Made { spot: None, ..row(1, 50, [0.0; 4], Cause::Dark, Overlap::None) },
        ];
        let events = vec![
            event(0, 1300.0, 10.5, 20.0),
            // A second one of the same neutron; one at the right place too late.
            event(0, 1310.0, 10.0, 20.0),
            event(1, 1600.0, 10.0, 20.0),
            event(1, 9100.0, 50.0, 60.0),
        ];
        let v = compare(events, &truth, 0.4);
        assert_eq!(v.clean, NeutronClass { made: 1, right: 1, wrong: 0, missed: 0 });
        assert_eq!(v.neutron, NeutronClass { made: 1, right: 0, wrong: 0, missed: 1 });
        assert_eq!(v.noise, NeutronClass { made: 1, right: 0, wrong: 0, missed: 1 });
        assert_eq!((v.events, v.coincidences, v.extra, v.all().made), (4, 1, 2, 3));
        // x of the found one: 4 strips long.
        let x = v.more.extents[2];
        assert_eq!(
            (x.number, x.ways.map(|s| (s.rms * 100.0).round())),
            (1, [250.0, 150.0, 50.0, 100.0, 25.0])
        );
        assert_eq!(x.ways.map(|s| s.far), [100.0, 100.0, 0.0, 0.0, 0.0]);
        // 1.6 mm beside 1.6 mm of drift.
        assert_eq!(x.angle.round(), 45.0);
        // y is upright, with its two strips; x is not.
        assert_eq!((v.more.extents[0].number, v.more.upright), (1, 2));
        assert_eq!((v.more.inclined, v.more.strips[3]), (x, x));
    }

    #[test]
    fn the_width_that_holds_two_thirds_is_that_of_a_uniform_distribution() {
        let all: Vec<f32> = (-1000..=1000).map(|n| n as f32 / 1000.0).collect();
        let s = spread(&all);
        assert!((s.most - 0.683).abs() < 0.002 && (s.rms - 3f64.sqrt().recip()).abs() < 1e-3);
        assert!(s.bias.abs() < 1e-6);
        assert_eq!([0.0, -0.99, 1.0, -3.0, 6.5].map(extent), [0, 0, 1, 2, 3]);
        assert_eq!([1, 2, 3, 5, 6, 9, 10, 20].map(class), [0, 0, 1, 3, 4, 4, 5, 5]);
        assert_eq!(spread(&[]), Spread::default());
        assert_eq!(spread(&[0.5, -1.0, 1.5, 3.0]).far, 50.0);
    }

    #[test]
    fn what_upright_tracks_hit_is_what_nearly_all_of_them_do_not_exceed() {
        assert_eq!(usual(&BTreeMap::from([(2, 40), (3, 59), (4, 1)])), 3);
        assert_eq!(usual(&BTreeMap::from([(2, 40), (3, 58), (4, 2)])), 4);
        assert_eq!(usual(&BTreeMap::new()), 0);
    }
}
