//! Events of a Gd-GEM beside the truth: which neutron was found, how far from its conversion, and which event is of none.
//!
//! An event is a neutron's if its micro-TPC strips lie within [`NEAR`] of the conversion in both planes and its time in the
//! neutron's drift. Refuses: nothing.

use fullcount_lab::traffic::made::{Kind, Made, Overlap};

use super::compare::Class;

/// Strips between an event's micro-TPC place and the conversion at most: 2 mm.
pub const NEAR: f64 = 5.0;
/// An event's time is so long after the conversion at most, ns: the drift, its spread and the errors of times.
const DRIFT_NS: f64 = 460.0;
/// And so long before it: errors of times.
const BEFORE_NS: f64 = 10.0;

/// Ways to get a place.
pub const WAYS: [&str; 4] = ["centre of mass", "charge²", "µTPC", "weighted µTPC"];
/// Which of them is the micro-TPC.
const UTPC: usize = 2;
/// Borders between classes of tracks: extent in the plane, strips.
pub const EXTENTS: [f64; 3] = [1.0, 3.0, 6.0];

/// An event, with its place by every way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Place among the detectors.
    pub sector: u16,
    /// ns.
    pub time: f64,
    /// x and y by way, strips.
    pub at: [[f64; 2]; WAYS.len()],
}

/// Distances from the conversions, strips.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spread {
    /// Planes of events.
    pub number: usize,
    /// 68.27 % are nearer.
    pub most: f64,
    /// Root of the mean square.
    pub rms: f64,
    /// Mean distance along the track, towards its end.
    pub bias: f64,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdict {
    /// Neutrons with nothing in the way.
    pub clean: Class,
    /// Neutrons with noise in the way, or that hit a dead strip.
    pub noise: Class,
    /// Neutrons with another one in the way.
    pub neutron: Class,
    /// Events.
    pub events: u64,
    /// Events of a random coincidence.
    pub coincidences: u64,
    /// Events of nothing: halves of tracks, planes of two neutrons, noise.
    pub ghosts: u64,
    /// By class of extent and way.
    pub spreads: [[Spread; WAYS.len()]; EXTENTS.len() + 1],
}

impl Verdict {
    /// All neutrons.
    pub fn all(&self) -> Class {
        [&self.clean, &self.noise, &self.neutron]
            .into_iter()
            .fold(Class::default(), |a, b| a.with(b))
    }

    fn class(&mut self, overlap: Overlap) -> &mut Class {
        match overlap {
            Overlap::None => &mut self.clean,
            Overlap::Noise => &mut self.noise,
            Overlap::Neutron => &mut self.neutron,
        }
    }
}

/// Distances of one class of tracks: along the track, by way.
type Distances = [Vec<f32>; WAYS.len()];

fn spread(along: &[f32]) -> Spread {
    if along.is_empty() {
        return Spread::default();
    }
    let n = along.len();
    let mut far: Vec<f32> = along.iter().map(|d| d.abs()).collect();
    far.sort_unstable_by(f32::total_cmp);
    let mean =
        |of: &dyn Fn(f64) -> f64| along.iter().map(|&d| of(f64::from(d))).sum::<f64>() / n as f64;
    Spread {
        number: n,
        most: f64::from(far[((n as f64 * 0.6827) as usize).min(n - 1)]),
        rms: mean(&|d| d * d).sqrt(),
        bias: mean(&|d| d),
    }
}

/// Class of a track's extent in a plane.
pub fn extent(run: f64) -> usize {
    EXTENTS.iter().filter(|&&border| run.abs() >= border).count()
}

/// Compares all events with all rows of truth.
pub fn compare(mut events: Vec<Event>, truth: &[Made]) -> Verdict {
    let mut verdict = Verdict { events: events.len() as u64, ..Verdict::default() };
    let mut rows: Vec<&Made> = truth.iter().filter(|r| r.spot.is_some()).collect();
    rows.sort_by_key(|r| (r.module, r.time));
    events.sort_by(|a, b| a.sector.cmp(&b.sector).then(a.time.total_cmp(&b.time)));
    let mut done = vec![false; rows.len()];
    let mut distances: [Distances; EXTENTS.len() + 1] = Default::default();
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
            None => verdict.ghosts += 1,
            Some((row, at)) => {
                done[at] = true;
                if row.kind == Kind::Coincidence {
                    verdict.coincidences += 1;
                    continue;
                }
                verdict.class(row.overlap).right += 1;
                let [x, y, run_x, run_y] = row.spot.unwrap_or_default().strips();
                for (plane, (place, run)) in [(x, run_x), (y, run_y)].into_iter().enumerate() {
                    for (way, list) in distances[extent(run)].iter_mut().enumerate() {
                        list.push(((event.at[way][plane] - place) * run.signum()) as f32);
                    }
                }
            }
        }
    }
    for (row, done) in rows.iter().zip(&done).filter(|(r, _)| r.kind == Kind::Neutron) {
        let class = verdict.class(row.overlap);
        class.made += 1;
        class.missed += u64::from(!done);
    }
    for (class, ways) in distances.iter().enumerate() {
        for (way, list) in ways.iter().enumerate() {
            verdict.spreads[class][way] = spread(list);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_lab::traffic::made::Spot;

    fn row(module: u16, time: i64, at: [f64; 4], kind: Kind, overlap: Overlap) -> Made {
        Made { packet: 0, module, time, pixel: 1, kind, overlap, spot: Some(Spot::of(at)) }
    }

    fn event(sector: u16, time: f64, x: f64, y: f64) -> Event {
        Event { sector, time, at: [[x + 2.0, y], [x + 1.0, y], [x, y], [x + 0.5, y]] }
    }

    #[test]
    fn every_event_and_every_neutron_is_counted_once() {
        let (n, c) = (Kind::Neutron, Kind::Coincidence);
        let truth = [
            row(0, 1000, [10.0, 20.0, 4.0, 0.0], n, Overlap::None),
            row(0, 1100, [200.0, 20.0, -2.0, 7.0], n, Overlap::Neutron),
            row(1, 1000, [10.0, 20.0, 1.0, 1.0], n, Overlap::Noise),
            row(1, 9000, [50.0, 60.0, 0.0, 0.0], c, Overlap::None),
            Made { spot: None, ..row(1, 50, [0.0; 4], Kind::Dark, Overlap::None) },
        ];
        let events = vec![
            event(0, 1300.0, 10.5, 20.0),
            // A second one of the same neutron; one at the right place too late.
            event(0, 1310.0, 10.0, 20.0),
            event(1, 1600.0, 10.0, 20.0),
            event(1, 9100.0, 50.0, 60.0),
        ];
        let v = compare(events, &truth);
        assert_eq!(v.clean, Class { made: 1, right: 1, wrong: 0, missed: 0 });
        assert_eq!(v.neutron, Class { made: 1, right: 0, wrong: 0, missed: 1 });
        assert_eq!(v.noise, Class { made: 1, right: 0, wrong: 0, missed: 1 });
        assert_eq!((v.events, v.coincidences, v.ghosts, v.all().made), (4, 1, 2, 3));
        // x of the found one: 4 strips long.
        let x = v.spreads[2];
        assert_eq!(x.map(|s| s.number), [1; 4]);
        assert_eq!(x.map(|s| (s.rms * 10.0).round()), [25.0, 15.0, 5.0, 10.0]);
        assert_eq!(v.spreads[0][0].number, 1);
    }

    #[test]
    fn the_width_that_holds_two_thirds_is_that_of_a_uniform_distribution() {
        let all: Vec<f32> = (-1000..=1000).map(|n| n as f32 / 1000.0).collect();
        let s = spread(&all);
        assert!((s.most - 0.683).abs() < 0.002 && (s.rms - 3f64.sqrt().recip()).abs() < 1e-3);
        assert!(s.bias.abs() < 1e-6);
        assert_eq!([0.0, -0.99, 1.0, -3.0, 6.5].map(extent), [0, 0, 1, 2, 3]);
        assert_eq!(spread(&[]), Spread::default());
    }
}
