//! Neutrons and noise of the whole detector, with their times: what is read out when, and which items interfere.
//!
//! Times are ns since the turn's start. Source: `docs/formats/gdgem.md`, sections 8, 9 and 14.

use super::GUARD_NS;
use super::tracks::{DRIFT_NS, Hit, Track, normal};
use super::wiring::{self, SECTORS, STRIPS};
use crate::Random;
use crate::made::{Cause, Overlap, Spot};
use crate::noise::{Noise, Pileup};

/// A channel that has just been hit sees nothing for so long, ns.
const DEAD_TIME_NS: f64 = 250.0;
/// Nothing happens so shortly after the turn's start or before its end, ns.
const MARGIN_NS: f64 = 6000.0;
/// Longest track, ns: drift and its spread.
const LONGEST_NS: f64 = DRIFT_NS + 60.0;
/// Bragg spots on the detector, and their width in strips.
const SPOTS: usize = 160;
const SPOT_STRIPS: f64 = 5.0;
/// Share of the neutrons that lie in spots.
const IN_SPOTS: f64 = 0.7;

/// A neutron or something else, in one sector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub kind: Cause,
    pub sector: u8,
    pub overlap: Overlap,
    /// Conversion, ns.
    pub time: f64,
    /// In strips of the whole detector.
    pub spot: Spot,
    first: u32,
    len: u16,
    /// Comes within the resolution after the one before it.
    follows: bool,
}

/// Items in the order of their times within each sector, and their hits.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub items: Vec<Item>,
    hits: Vec<Hit>,
}

impl Scene {
    pub fn hits(&self, item: &Item) -> &[Hit] {
        &self.hits[item.first as usize..][..usize::from(item.len)]
    }

    /// First and last time at which an item is seen, ns.
    fn span(&self, item: &Item) -> (f64, f64) {
        let times = self.hits(item).iter().map(|h| f64::from(h.later));
        let ends = times.fold((f64::MAX, 0.0f64), |(a, b), t| (a.min(t), b.max(t)));
        (item.time + ends.0.min(ends.1), item.time + ends.1)
    }
}

impl Item {
    /// Pixel of the event that should come of it; 0: none.
    pub fn pixel(&self) -> u32 {
        let strip = |thousandths: i32| (thousandths + 500).div_euclid(1000) as u16;
        match self.kind {
            Cause::Neutron | Cause::Coincidence => {
                wiring::pixel(strip(self.spot.x), strip(self.spot.y))
            }
            Cause::Dark | Cause::Bad | Cause::Packet | Cause::Pulse | Cause::Monitor => 0,
        }
    }
}

/// What is to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub neutrons: usize,
    pub turn_ns: f64,
    /// Hits of a plane of a neutron; `None`: as the track goes.
    pub hits: Option<usize>,
    pub noise: Noise,
}

/// Where neutrons arrive: Bragg spots on a flat background, as of a crystal.
struct Picture {
    spots: Vec<[f64; 2]>,
}

impl Picture {
    fn new(random: &mut Random) -> Picture {
        let side = f64::from(2 * STRIPS);
        let spots = (0..SPOTS).map(|_| [side * random.unit(), side * random.unit()]).collect();
        Picture { spots }
    }

    /// Sector and place within it, in strips; not on its edge.
    fn place(&self, random: &mut Random) -> (usize, [f64; 2]) {
        let side = f64::from(2 * STRIPS);
        loop {
            let at = match random.unit() < IN_SPOTS {
                true => {
                    let spot = self.spots[random.below(SPOTS as u32) as usize];
                    spot.map(|c| c + SPOT_STRIPS * normal(random))
                }
                false => [side * random.unit(), side * random.unit()],
            };
            let half = f64::from(STRIPS);
            let right = at.map(|c| usize::from(c >= half - 0.5));
            let within = [at[0] - half * right[0] as f64, at[1] - half * right[1] as f64];
            if within.iter().all(|c| (3.0..half - 4.0).contains(c)) {
                return (right[0] + 2 * right[1], within);
            }
        }
    }
}

/// Makes items of all sectors.
pub(super) fn scene(wanted: &Wanted, seed: u64) -> Scene {
    let mut random = Random::new(seed);
    let picture = Picture::new(&mut random);
    let mut maker =
        Maker { wanted, random, picture, scene: Scene::default(), track: Track::default() };
    maker.draw();
    let Maker { mut random, mut scene, .. } = maker;
    let all = std::mem::take(&mut scene.items);
    for sector in 0..SECTORS {
        let own = all.iter().filter(|i| usize::from(i.sector) == sector).copied();
        let mut own: Vec<Item> = own.collect();
        place(&mut own, wanted, &mut random);
        scene.items.extend(own);
    }
    lose(&mut scene, wanted.noise.dead, &mut random);
    overlaps(&mut scene);
    scene
}

struct Maker<'a> {
    wanted: &'a Wanted,
    random: Random,
    picture: Picture,
    scene: Scene,
    track: Track,
}

impl Maker<'_> {
    fn draw(&mut self) {
        let Noise { dark, bad, coincidence, pileup, .. } = self.wanted.noise;
        let share = |of: f64| (self.wanted.neutrons as f64 * of).round() as usize;
        let [darks, bads, coincidences] = [dark, bad, coincidence].map(share);
        for _ in 0..self.wanted.neutrons {
            let (sector, at) = self.picture.place(&mut self.random);
            self.neutron(sector, at, false);
            if self.random.unit() < pileup.forced() {
                // Somewhere else in the same sector.
                let [x, y] = [0, 1].map(|_| 3.0 + f64::from(STRIPS - 7) * self.random.unit());
                self.neutron(sector, [x, y], true);
            }
        }
        for _ in 0..coincidences {
            Track::coincidence(&mut self.random, &mut self.track);
            self.push(Cause::Coincidence, false);
        }
        for _ in 0..darks {
            Track::dark(&mut self.random, &mut self.track);
            self.push(Cause::Dark, false);
        }
        for _ in 0..bads {
            self.track.hits.clear();
            self.track.spot = Spot::default();
            self.push(Cause::Bad, false);
        }
    }

    fn neutron(&mut self, sector: usize, [x, y]: [f64; 2], follows: bool) {
        match self.wanted.hits {
            Some(n) => Track::fixed(x, y, n, &mut self.random, &mut self.track),
            None => Track::neutron(x, y, &mut self.random, &mut self.track),
        }
        self.add(Cause::Neutron, sector, follows);
    }

    fn push(&mut self, kind: Cause, follows: bool) {
        let sector = self.random.below(SECTORS as u32) as usize;
        self.add(kind, sector, follows);
    }

    fn add(&mut self, kind: Cause, sector: usize, follows: bool) {
        let Track { hits, spot } = &self.track;
        let corner = wiring::corner(sector).map(|c| 1000 * i32::from(c));
        self.scene.items.push(Item {
            kind,
            sector: sector as u8,
            overlap: Overlap::None,
            time: 0.0,
            spot: Spot { x: spot.x + corner[0], y: spot.y + corner[1], ..*spot },
            first: self.scene.hits.len() as u32,
            len: hits.len() as u16,
            follows,
        });
        self.scene.hits.extend_from_slice(hits);
    }
}

/// Gives the items of a sector their times, ascending.
fn place(items: &mut [Item], wanted: &Wanted, random: &mut Random) {
    let apart = wanted.noise.pileup == Pileup::Never;
    let end = wanted.turn_ns - MARGIN_NS - LONGEST_NS;
    let mut time = 0.0;
    for item in items.iter_mut() {
        // A second one comes while the first one drifts.
        time = match item.follows {
            true => (time + 0.7 * DRIFT_NS * random.unit()).min(end),
            false => MARGIN_NS + (end - MARGIN_NS) * random.unit(),
        };
        item.time = time;
    }
    items.sort_by(|a, b| a.time.total_cmp(&b.time));
    if !apart {
        return;
    }
    let distance = LONGEST_NS + GUARD_NS;
    let mut free = 0.0f64;
    for item in items.iter_mut().filter(|i| i.kind == Cause::Neutron) {
        item.time = item.time.max(free);
        free = item.time + distance;
    }
    // What was pushed beyond the end goes back in front of it.
    let mut last = end;
    for item in items.iter_mut().rev().filter(|i| i.kind == Cause::Neutron) {
        item.time = item.time.min(last);
        last = item.time - distance;
    }
    items.sort_by(|a, b| a.time.total_cmp(&b.time));
}

/// Dead strips see nothing, and no strip sees two charges within its dead time.
fn lose(scene: &mut Scene, dead: f64, random: &mut Random) {
    let strips = SECTORS * 2 * usize::from(STRIPS);
    let gone: Vec<bool> = (0..strips).map(|_| random.unit() < dead).collect();
    let mut busy = vec![f64::MIN; strips];
    let Scene { items, hits } = scene;
    for item in items.iter_mut() {
        let own = &mut hits[item.first as usize..][..usize::from(item.len)];
        let at = |h: &Hit| {
            let plane = wiring::fec(usize::from(item.sector), usize::from(h.plane));
            plane * usize::from(STRIPS) + usize::from(h.strip)
        };
        if own.iter().any(|h| gone[at(h)]) {
            item.overlap = Overlap::Noise;
        }
        let mut kept = 0;
        for i in 0..own.len() {
            let (strip, time) = (at(&own[i]), item.time + f64::from(own[i].later));
            // Items come in the order of their conversions, so a time may lie before the one that holds the strip.
            if gone[strip] || (time - busy[strip]).abs() < DEAD_TIME_NS {
                continue;
            }
            busy[strip] = busy[strip].max(time);
            own[kept] = own[i];
            kept += 1;
        }
        item.len = kept as u16;
    }
}

/// Marks items with other hits of their sector within the guard, before or after.
fn overlaps(scene: &mut Scene) {
    let counts = |kind: Cause| match kind {
        Cause::Neutron => Overlap::Neutron,
        Cause::Dark | Cause::Coincidence => Overlap::Noise,
        // Refused before anything is built.
        Cause::Bad | Cause::Packet | Cause::Pulse | Cause::Monitor => Overlap::None,
    };
    let spans: Vec<(f64, f64)> = scene.items.iter().map(|i| scene.span(i)).collect();
    let reach = GUARD_NS + LONGEST_NS;
    for i in 0..scene.items.len() {
        let mine = scene.items[i];
        if counts(mine.kind) == Overlap::None {
            continue;
        }
        for j in i + 1..scene.items.len() {
            let theirs = scene.items[j];
            if theirs.sector != mine.sector || theirs.time > mine.time + reach {
                break;
            }
            let near = spans[j].0 - spans[i].1 < GUARD_NS && spans[i].0 - spans[j].1 < GUARD_NS;
            if near && counts(theirs.kind) != Overlap::None {
                scene.items[i].overlap = scene.items[i].overlap.max(counts(theirs.kind));
                scene.items[j].overlap = scene.items[j].overlap.max(counts(mine.kind));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(noise: &str) -> Wanted {
        // 1 MHz over the detector.
        Wanted { neutrons: 4000, turn_ns: 4e6, hits: None, noise: noise.parse().unwrap() }
    }

    #[test]
    fn neutrons_without_pileup_keep_the_guard_between_their_hits() {
        let scene = scene(&wanted("none"), 3);
        assert_eq!(scene.items.len(), 4000);
        for w in scene.items.windows(2).filter(|w| w[0].sector == w[1].sector) {
            assert!(scene.span(&w[1]).0 - scene.span(&w[0]).1 >= GUARD_NS);
        }
        let inside = |i: &Item| i.time >= 0.0 && scene.span(i).1 < 4e6 - 5000.0;
        assert!(scene.items.iter().all(|i| i.overlap == Overlap::None && inside(i)));
        assert!(scene.items.iter().all(|i| (1..=1280 * 1280).contains(&i.pixel())));
    }

    #[test]
    fn overlaps_are_what_they_should_be_at_random_times() {
        let scene = scene(&wanted("pileup=random"), 3);
        let alone = scene.items.iter().filter(|i| i.overlap == Overlap::None).count() as f64;
        // 250 kHz a sector; a neutron interferes from 300 ns and a track before to 300 ns and a track after.
        let share = alone / 4000.0;
        assert!((0.72..0.90).contains(&share), "{share}");
    }

    #[test]
    fn dead_strips_take_their_share_of_the_hits() {
        let count = |noise: &str| {
            let s = scene(&wanted(noise), 3);
            let hits: usize = s.items.iter().map(|i| usize::from(i.len)).sum();
            (hits as f64, s.items.iter().filter(|i| i.overlap == Overlap::Noise).count() as f64)
        };
        let (all, none) = count("none");
        let (left, touched) = count("dead=5%");
        assert_eq!(none, 0.0);
        assert!((left / all - 0.95).abs() < 0.02, "{}", left / all);
        assert!(touched / 4000.0 > 0.3, "{touched}");
    }
}
