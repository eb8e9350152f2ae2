//! The hits of one neutron on the strips of a sector: the track of its conversion electron.
//!
//! The neutron converts in the cathode; the electron flies into the drift gap at any angle and leaves charges on its
//! way. Each drifts to the strips, spreads, and is seen by both planes. So the strip that is hit last is at the
//! conversion. Tracks that leave the sector or no whole cluster in each plane are drawn again. The numbers are chosen
//! to look like a gas detector of this kind; they describe no measured one. Source:
//! `docs/formats/gdgem.md`, sections 0, 8 and 14.

use super::wiring::STRIPS;
use crate::Random;
use crate::made::Spot;

/// Distance of neighbouring strips, mm.
pub const PITCH_MM: f64 = 0.4;
/// Drift gap, mm.
const GAP_MM: f64 = 10.0;
/// Drift velocity, mm/ns: the whole gap takes 400 ns.
const DRIFT_MM_PER_NS: f64 = 0.025;
/// Time from the conversion to the end of its drift, ns.
pub const DRIFT_NS: f64 = GAP_MM / DRIFT_MM_PER_NS;
/// Range of the electron in the gas, mm.
const RANGE_MM: std::ops::Range<f64> = 4.0..14.0;
/// Charges per mm of track that drift and spread on their own: 29 keV over 10 mm of argon are a thousand electrons, so the
/// track is dense.
const CHARGES_PER_MM: f64 = 20.0;
/// Spread of the charge across the strips after the whole gap, and at once, strips (standard deviations).
const SPREAD_DRIFT: f64 = 0.30;
const SPREAD_ALWAYS: f64 = 0.25;
/// Spread along the drift after the whole gap, ns.
const SPREAD_NS: f64 = 2.0;
/// Error of a strip's time, ns.
const JITTER_NS: f64 = 1.0;
/// Amplitude of a mean charge, ADC counts.
const GAIN: f64 = 7.0;
/// Smallest amplitude that a VMM sends, ADC counts; below 16 a decoder refuses it.
const THRESHOLD: u16 = 18;
/// Strips of a plane at most.
pub(super) const MOST: usize = 20;
/// Strips next to the conversion that are considered, each way.
const REACH: usize = 22;

/// A readout before it has a time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Hit {
    /// After the conversion, ns.
    pub later: f32,
    pub plane: u8,
    /// From the sector's edge.
    pub strip: u16,
    pub adc: u16,
}

/// Where a neutron converts and what it leaves. Hits are those of plane x, then those of plane y.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    pub hits: Vec<Hit>,
    /// In the sector's strips.
    pub spot: Spot,
}

/// About normal: within ±3, of one draw.
pub(super) fn normal(random: &mut Random) -> f64 {
    let bits = random.bits();
    let part = |shift: u32| ((bits >> shift) & 0x1f_ffff) as f64 / f64::from(1 << 21);
    2.0 * (part(0) + part(21) + part(42) - 1.5)
}

/// Sums over one strip.
#[derive(Clone, Copy, Default)]
struct Strip {
    charge: f64,
    moment: f64,
}

/// The hits of one plane that are whole as section 14 counts with its usual parameters, with room to spare: no two
/// strips missing side by side, close in time.
fn whole(hits: &[Hit]) -> bool {
    if hits.is_empty() || hits.len() > MOST {
        return false;
    }
    let mut times: Vec<f32> = hits.iter().map(|h| h.later).collect();
    times.sort_unstable_by(f32::total_cmp);
    hits.windows(2).all(|w| w[1].strip - w[0].strip <= 2)
        && times.windows(2).all(|w| w[1] - w[0] <= 150.0)
        && times[times.len() - 1] - times[0] <= 450.0
}

/// Sum of the amplitudes, and the centre of mass of the times.
fn sums(hits: &[Hit]) -> (f64, f64) {
    let sum: f64 = hits.iter().map(|h| f64::from(h.adc)).sum();
    let time: f64 = hits.iter().map(|h| f64::from(h.adc) * f64::from(h.later)).sum();
    (sum, time / sum)
}

impl Track {
    fn plane(&self, plane: u8) -> &[Hit] {
        let border = self.hits.partition_point(|h| h.plane < 1);
        if plane == 0 { &self.hits[..border] } else { &self.hits[border..] }
    }

    /// True if every rule that is usual makes one event of it.
    fn is_event(&self) -> bool {
        let (x, y) = (self.plane(0), self.plane(1));
        if !whole(x) || !whole(y) {
            return false;
        }
        let ((charge_x, time_x), (charge_y, time_y)) = (sums(x), sums(y));
        (0.6..=1.7).contains(&(charge_x / charge_y)) && (time_x - time_y).abs() <= 100.0
    }

    /// A neutron that converts at (x, y), in strips of the sector.
    pub fn neutron(x: f64, y: f64, random: &mut Random, out: &mut Track) {
        loop {
            out.hits.clear();
            if out.draw(x, y, random) && out.is_event() {
                return;
            }
        }
    }

    /// One try; false if it leaves the sector or is too long.
    fn draw(&mut self, x: f64, y: f64, random: &mut Random) -> bool {
        // Isotropic into the gas, but for tracks so flat that they would be longer than 20 strips.
        let cos = 0.3 + 0.7 * random.unit();
        let range = RANGE_MM.start + (RANGE_MM.end - RANGE_MM.start) * random.unit();
        let length = range.min(GAP_MM / cos);
        let sin = (1.0 - cos * cos).sqrt();
        let turn = std::f64::consts::TAU * random.unit();
        let run = [turn.cos(), turn.sin()].map(|part| length * sin * part / PITCH_MM);
        let at = [x, y];
        let most = MOST as f64 - 3.0;
        let inside = |c: f64| (2.0..f64::from(STRIPS) - 3.0).contains(&c);
        if run.iter().any(|r| r.abs() > most) || (0..2).any(|p| !inside(at[p] + run[p])) {
            return false;
        }
        self.spot = Spot::of([x, y, run[0], run[1]]).deep(length * cos);
        let mut strips = [[Strip::default(); 2 * REACH]; 2];
        let base = at.map(|c| (c + 0.5).floor() as i64 - REACH as i64);
        let charges = (CHARGES_PER_MM * length) as usize + 3;
        // Both planes see one charge, to 4 %.
        let gains = [GAIN, GAIN * (1.0 + 0.04 * normal(random))];
        for n in 0..charges {
            // Spread over the length, each within its own part.
            let along = (n as f64 + random.unit()) / charges as f64;
            let height = GAP_MM - along * length * cos;
            let drifted = height / GAP_MM;
            let charge = (-(1.0 - random.unit()).ln()).clamp(0.15, 4.0);
            let spread = SPREAD_ALWAYS.hypot(SPREAD_DRIFT * drifted.max(0.0).sqrt());
            let time = height / DRIFT_MM_PER_NS + SPREAD_NS * drifted * normal(random);
            for plane in 0..2 {
                let place = at[plane] + along * run[plane] + spread * normal(random);
                let strip = (place + 0.5).floor() as i64 - base[plane];
                if let Some(s) = usize::try_from(strip).ok().and_then(|s| strips[plane].get_mut(s))
                {
                    s.charge += charge;
                    s.moment += charge * time;
                }
            }
        }
        for plane in 0..2 {
            for (n, s) in strips[plane].iter().enumerate() {
                let adc = (gains[plane] * s.charge).round().min(1023.0) as u16;
                let strip = base[plane] + n as i64;
                if adc < THRESHOLD || !(0..i64::from(STRIPS)).contains(&strip) {
                    continue;
                }
                let later = (s.moment / s.charge + JITTER_NS * normal(random)).max(0.0) as f32;
                self.hits.push(Hit { later, plane: plane as u8, strip: strip as u16, adc });
            }
        }
        true
    }

    /// A neutron that leaves exactly `n` hits in each plane, 20 ns from strip to strip.
    pub fn fixed(x: f64, y: f64, n: usize, random: &mut Random, out: &mut Track) {
        out.hits.clear();
        let steps = (n - 1) as f64;
        // Towards the middle of the sector.
        let way = [x, y].map(|c| if c < f64::from(STRIPS) / 2.0 { 1.0 } else { -1.0 });
        let depth = 20.0 * steps * DRIFT_MM_PER_NS;
        out.spot = Spot::of([x, y, way[0] * steps, way[1] * steps]).deep(depth);
        for plane in 0..2u8 {
            let first = ([x, y][usize::from(plane)] + 0.5).floor();
            for i in 0..n {
                let strip = (first + way[usize::from(plane)] * i as f64) as u16;
                let later = (20 * (n - 1 - i)) as f32 + 2.0 * random.unit() as f32;
                let adc = 300 + random.below(200) as u16;
                out.hits.push(Hit { later, plane, strip, adc });
            }
        }
    }

    /// Two strips of each plane at once, with one charge and without a track.
    pub fn coincidence(random: &mut Random, out: &mut Track) {
        out.hits.clear();
        let places = [0, 1].map(|_| 3 + random.below(u32::from(STRIPS) - 6) as u16);
        let [x, y] = places.map(f64::from);
        out.spot = Spot::of([x + 0.25, y + 0.25, 0.0, 0.0]);
        let adc = 60 + random.below(200) as u16;
        for plane in 0..2u8 {
            for i in 0..2 {
                let strip = places[usize::from(plane)] + i;
                // Three quarters of it on the first strip.
                let adc = adc * if i == 0 { 3 } else { 1 };
                out.hits.push(Hit { later: 100.0, plane, strip, adc });
            }
        }
    }

    /// One strip above threshold for no reason.
    pub fn dark(random: &mut Random, out: &mut Track) {
        out.hits.clear();
        out.spot = Spot::default();
        let plane = random.below(2) as u8;
        let strip = random.below(u32::from(STRIPS)) as u16;
        let adc = THRESHOLD + random.below(120) as u16;
        out.hits.push(Hit { later: 0.0, plane, strip, adc });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(n: usize) -> Vec<Track> {
        let mut random = Random::new(11);
        let one = |_| {
            let mut track = Track::default();
            let [x, y] = [0, 1].map(|_| 30.0 + 580.0 * random.unit());
            Track::neutron(x, y, &mut random, &mut track);
            track
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn tracks_have_up_to_twenty_hits_a_plane_and_one_charge() {
        let tracks = some(5000);
        let mut most = 0;
        let mut sum = 0;
        for track in &tracks {
            let planes = [track.plane(0), track.plane(1)];
            most = most.max(planes[0].len()).max(planes[1].len());
            sum += track.hits.len();
            let [x, y] = planes.map(|hits| sums(hits).0);
            assert!((0.6..=1.7).contains(&(x / y)), "{x} {y}");
            assert!(
                track.hits.iter().all(|h| h.later <= DRIFT_NS as f32 + 60.0 && h.strip < STRIPS)
            );
        }
        let mean = sum as f64 / tracks.len() as f64;
        assert!((15..=MOST).contains(&most), "{most}");
        assert!((8.0..20.0).contains(&mean), "{mean}");
    }

    #[test]
    fn the_latest_strip_of_an_inclined_track_is_that_of_the_conversion() {
        let (mut last, mut first, mut n) = (0.0, 0.0, 0.0);
        for track in some(5000) {
            let [x, _, run, _] = track.spot.strips();
            if run.abs() < 4.0 {
                continue;
            }
            let by = |a: &&Hit, b: &&Hit| a.later.total_cmp(&b.later);
            let far = |h: Option<&Hit>| (f64::from(h.unwrap().strip) - x).powi(2);
            last += far(track.plane(0).iter().max_by(by));
            first += far(track.plane(0).iter().min_by(by));
            n += 1.0;
        }
        let [last, first] = [last, first].map(|sum: f64| (sum / n).sqrt());
        assert!(last < 0.5 && first > 4.0, "{last} {first}");
    }

    #[test]
    fn fixed_tracks_have_the_hits_that_were_asked_for() {
        let mut random = Random::new(1);
        let mut track = Track::default();
        for n in [1, 10, 20] {
            for at in [0.0, 320.0, 639.0] {
                Track::fixed(at, 639.0 - at, n, &mut random, &mut track);
                assert_eq!((track.plane(0).len(), track.plane(1).len()), (n, n));
                assert!(track.hits.iter().all(|h| h.strip < STRIPS));
                let latest = track.hits.iter().max_by(|a, b| a.later.total_cmp(&b.later)).unwrap();
                assert_eq!(f64::from(latest.strip), [at, 639.0 - at][usize::from(latest.plane)]);
            }
        }
    }

    #[test]
    fn normal_numbers_are_about_normal() {
        let mut random = Random::new(2);
        let all: Vec<f64> = (0..100_000).map(|_| normal(&mut random)).collect();
        let mean = all.iter().sum::<f64>() / 1e5;
        let variance = all.iter().map(|v| v * v).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
