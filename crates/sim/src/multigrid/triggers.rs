//! Neutrons, noise and pulses of one turn, grouped into triggers of the electronics.
//!
//! A trigger opens a window of [`WINDOW`] ticks; everything in it has the trigger's time. Neutrons follow the pulses
//! with a bump in time of flight over a flat part, are denser in the front layers and around two bands of grids. One
//! wire and 1 to 4 grids share the charge. Source: `docs/formats/multigrid.md`, sections 0, 3 and 6.

use super::wiring::{GRIDS, LAYERS, ROWS, WIRES, grid_channel, pixel, wire_channel};
use crate::Random;
use crate::made::{Cause, Made, Overlap};
use crate::noise::{Noise, Pileup};

/// Length of a trigger's window, ticks of 62.5 ns: 1 µs. What falls into one has one time: the resolution.
pub const WINDOW: i64 = 16;
/// Readouts in a trigger at most: above 40 the decoder's glitch filter drops all.
const MOST_READOUTS: usize = 36;
/// Share of triggers without any readout; gives 37 B a trigger, as recorded.
const EMPTY: f64 = 0.5;

/// One readout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Readout {
    pub bus: u8,
    pub channel: u16,
    pub adc: u16,
}

/// What is wrong with a bad trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bad {
    /// A channel that is neither wire nor grid.
    Channel,
    /// A bus without a module.
    Bus,
    /// A word of an unknown type.
    Word,
    /// A block that says that it is longer than its trigger.
    Length,
    /// No end of event, so no time.
    NoEnd,
    /// All 128 channels at once.
    Glitch,
}

const BADS: [Bad; 6] = [Bad::Channel, Bad::Bus, Bad::Word, Bad::Length, Bad::NoEnd, Bad::Glitch];

/// What a trigger holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// Readouts first..last of the pool.
    Readouts(std::ops::Range<usize>),
    Pulse,
    Empty,
    Bad(Bad),
}

/// One sub-buffer to be.
#[derive(Debug, Clone)]
pub(super) struct Trigger {
    pub time: i64,
    pub content: Content,
    /// Rows of truth first..last.
    pub rows: std::ops::Range<usize>,
}

/// One turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub triggers: Vec<Trigger>,
    pub readouts: Vec<Readout>,
    pub rows: Vec<Made>,
}

/// What a turn is made of.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub modules: usize,
    pub neutrons: usize,
    /// Start of each pulse, ticks from the turn's start, and the turn's end.
    pub pulses: Vec<i64>,
    pub noise: Noise,
}

/// Something that fires, before triggers are formed.
struct Item {
    time: i64,
    module: u16,
    kind: Cause,
    pixel: u32,
    first: usize,
    len: usize,
}

struct Maker<'a> {
    plan: &'a Plan,
    random: Random,
    pool: Vec<Readout>,
    items: Vec<Item>,
}

/// A value from 0 to 1 around 1/2: the mean of two.
fn bump(random: &mut Random) -> f64 {
    (random.unit() + random.unit()) / 2.0
}

/// About normal, mean 0 and variance 1, within ±3.5: the sum of four uniform values.
fn normal(random: &mut Random) -> f64 {
    let sum: f64 = (0..4).map(|_| random.unit()).sum();
    (sum - 2.0) * 3f64.sqrt()
}

fn grids_hit(random: &mut Random) -> u16 {
    match random.below(100) {
        0..30 => 1,
        30..75 => 2,
        75..93 => 3,
        _ => 4,
    }
}

impl Maker<'_> {
    fn module(&mut self) -> u16 {
        self.random.below(self.plan.modules as u32) as u16
    }

    /// A time between two pulses: half flat, half a bump between 10 and 90 % of the period.
    fn time(&mut self) -> i64 {
        let periods = self.plan.pulses.len() - 1;
        let k = self.random.below(periods as u32) as usize;
        let (from, to) = (self.plan.pulses[k], self.plan.pulses[k + 1]);
        let part = match self.random.below(2) {
            0 => self.random.unit(),
            _ => 0.1 + 0.8 * bump(&mut self.random),
        };
        from + (part * (to - from) as f64) as i64
    }

    fn adc(&mut self) -> f64 {
        400.0 + 1200.0 * (bump(&mut self.random) + bump(&mut self.random))
    }

    fn push(&mut self, module: u16, channel: u16, adc: f64) {
        let adc = (adc.round() as u16).clamp(20, 4095);
        self.pool.push(Readout { bus: module as u8, channel, adc });
    }

    /// `n` neighbouring grids of which `main` is by far the strongest, `charge` in all.
    fn grids(&mut self, module: u16, main: u16, n: u16, charge: f64) {
        let lowest = main.saturating_sub(n - 1).max(main.saturating_sub(2));
        let highest = main.min(GRIDS - n);
        let first = lowest.min(highest)
            + self.random.below(u32::from(highest.saturating_sub(lowest)) + 1) as u16;
        let mut shares = [0.0; 4];
        for (i, share) in shares.iter_mut().enumerate().take(usize::from(n)) {
            let distance = (first + i as u16).abs_diff(main);
            let weaker = 0.7 + 0.3 * self.random.unit();
            *share = if distance == 0 { 1.0 } else { weaker * 0.45f64.powi(i32::from(distance)) };
        }
        let sum: f64 = shares.iter().sum();
        for i in 0..n {
            let adc = charge * shares[usize::from(i)] / sum;
            self.push(module, grid_channel(first + i), adc);
        }
    }

    /// Where a neutron converts: front layers and two bands of grids are brighter.
    fn place(&mut self) -> (u16, u16, u16) {
        let x = self.random.below(u32::from(ROWS)) as u16;
        let depth = -(1.0 - self.random.unit() * 0.95).ln() / 3.0;
        let z = ((depth * f64::from(LAYERS)) as u16).min(LAYERS - 1);
        let height = f64::from(GRIDS);
        let centre = match self.random.below(10) {
            0..4 => 0.62,
            4..6 => 0.25,
            _ => {
                return (x, self.random.below(u32::from(GRIDS)) as u16, z);
            }
        };
        let y = (centre * height + normal(&mut self.random) * 2.5).clamp(0.0, height - 1.0);
        (x, y as u16, z)
    }

    fn neutron(&mut self, module: u16, time: i64) {
        let (x, y, z) = self.place();
        let first = self.pool.len();
        let charge = self.adc();
        self.push(module, wire_channel(x, z), charge);
        // Both planes see the same charge, the grids nine tenths of it, to 5 %.
        let on_grids = charge * 0.9 * (1.0 + 0.05 * normal(&mut self.random));
        let n = grids_hit(&mut self.random);
        self.grids(module, y, n, on_grids);
        let pixel = pixel(self.plan.modules, module, x, y, z);
        let len = self.pool.len() - first;
        self.items.push(Item { time, module, kind: Cause::Neutron, pixel, first, len });
    }

    fn neutrons(&mut self) {
        let (modules, neutrons) = (self.plan.modules, self.plan.neutrons);
        for module in 0..modules {
            let n = neutrons / modules + usize::from(module < neutrons % modules);
            let mut times: Vec<i64> = (0..n).map(|_| self.time()).collect();
            times.sort_unstable();
            if self.plan.noise.pileup == Pileup::Never {
                let mut free = 0;
                for time in &mut times {
                    *time = (*time).max(free);
                    free = *time + WINDOW;
                }
            }
            for time in times {
                self.neutron(module as u16, time);
                if self.random.unit() < self.plan.noise.pileup.forced() {
                    let later = i64::from(self.random.below(WINDOW as u32));
                    self.neutron(module as u16, time + later);
                }
            }
        }
    }

    fn count(&self, share: f64) -> usize {
        (share * self.plan.neutrons as f64).round() as usize
    }

    fn dark(&mut self) {
        for _ in 0..self.count(self.plan.noise.dark) {
            let (module, time) = (self.module(), self.time());
            let (first, charge) = (self.pool.len(), self.adc() / 4.0);
            if self.random.below(2) == 0 {
                let (x, z) =
                    (self.random.below(u32::from(ROWS)), self.random.below(u32::from(LAYERS)));
                self.push(module, wire_channel(x as u16, z as u16), charge);
            } else {
                let (y, n) = (self.random.below(u32::from(GRIDS)), 1 + self.random.below(2));
                self.grids(module, y as u16, n as u16, charge);
            }
            let len = self.pool.len() - first;
            self.items.push(Item { time, module, kind: Cause::Dark, pixel: 0, first, len });
        }
    }

    fn coincidences(&mut self) {
        for _ in 0..self.count(self.plan.noise.coincidence) {
            let (module, time, first) = (self.module(), self.time(), self.pool.len());
            let x = self.random.below(u32::from(ROWS)) as u16;
            let y = self.random.below(u32::from(GRIDS)) as u16;
            let z = self.random.below(u32::from(LAYERS)) as u16;
            // Two amplitudes that know nothing of each other.
            let (wire, grid) = (self.adc() / 2.0, self.adc() / 2.0);
            self.push(module, wire_channel(x, z), wire);
            self.push(module, grid_channel(y), grid);
            let pixel = pixel(self.plan.modules, module, x, y, z);
            let kind = Cause::Coincidence;
            self.items.push(Item { time, module, kind, pixel, first, len: 2 });
        }
    }

    /// Items that share a window become one trigger; two of one module overlap there.
    fn gather(&mut self) -> Turn {
        self.items.sort_by_key(|i| i.time);
        let mut turn = Turn::default();
        let mut from = 0;
        let mut after = i64::MIN;
        while from < self.items.len() {
            let opened = self.items[from].time;
            let time = opened.max(after);
            let (mut to, mut readouts) = (from, 0);
            while let Some(item) = self.items.get(to) {
                let outside = item.time >= opened + WINDOW;
                if to > from && (outside || readouts + item.len > MOST_READOUTS) {
                    break;
                }
                readouts += item.len;
                to += 1;
            }
            let (first, first_row) = (turn.readouts.len(), turn.rows.len());
            let together = &self.items[from..to];
            for (i, item) in together.iter().enumerate() {
                turn.readouts.extend_from_slice(&self.pool[item.first..item.first + item.len]);
                let others = together.iter().enumerate();
                let others = others.filter(|&(j, o)| j != i && o.module == item.module);
                let overlap = others
                    .map(|(_, o)| match o.kind {
                        Cause::Neutron => Overlap::Neutron,
                        _ => Overlap::Noise,
                    })
                    .max()
                    .unwrap_or_default();
                let (module, pixel, kind) = (item.module, item.pixel, item.kind);
                turn.rows.push(Made { packet: 0, module, time, pixel, kind, overlap, spot: None });
            }
            // As the electronics sends them: by bus, pairs of channels turned round.
            turn.readouts[first..].sort_by_key(|r| (r.bus, r.channel ^ 1));
            let content = Content::Readouts(first..turn.readouts.len());
            turn.triggers.push(Trigger { time, content, rows: first_row..turn.rows.len() });
            after = time + 1;
            from = to;
        }
        turn
    }

    /// Triggers without neutrons: pulses, bad ones, empty ones.
    fn alone(&mut self, turn: &mut Turn) {
        let mut add = |time, content, kind: Option<Cause>| {
            let first = turn.rows.len();
            if let Some(kind) = kind {
                let (module, pixel, overlap) = (0, 0, Overlap::None);
                turn.rows.push(Made { packet: 0, module, time, pixel, kind, overlap, spot: None });
            }
            turn.triggers.push(Trigger { time, content, rows: first..turn.rows.len() });
        };
        for k in 0..self.plan.pulses.len() - 1 {
            add(self.plan.pulses[k], Content::Pulse, Some(Cause::Pulse));
        }
        for i in 0..self.count(self.plan.noise.bad) {
            let mut bad = BADS[i % BADS.len()];
            // With 16 modules every bus has one.
            if bad == Bad::Bus && self.plan.modules == super::MOST_MODULES {
                bad = Bad::Channel;
            }
            add(self.time(), Content::Bad(bad), Some(Cause::Bad));
        }
        let full = self.items.len() as f64;
        for _ in 0..(full * EMPTY / (1.0 - EMPTY)) as usize {
            add(self.time(), Content::Empty, None);
        }
    }
}

impl Turn {
    /// Makes one turn in time order.
    pub fn new(plan: &Plan, seed: u64) -> Turn {
        let items = Vec::with_capacity(plan.neutrons + plan.neutrons / 16);
        let mut maker = Maker { plan, random: Random::new(seed), pool: vec![], items };
        maker.neutrons();
        maker.dark();
        maker.coincidences();
        let mut turn = maker.gather();
        maker.alone(&mut turn);
        // Pulses before anything of the same time.
        turn.triggers.sort_by_key(|t| (t.time, t.content != Content::Pulse));
        turn
    }
}

/// Every channel of a module's electronics, for glitches.
pub(super) const ALL_CHANNELS: u16 = 128;
const _: () = assert!(WIRES + GRIDS < ALL_CHANNELS);
