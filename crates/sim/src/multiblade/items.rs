//! Neutrons and noise of one cassette: how many readouts, on which channels, how large.
//!
//! A neutron fires one or two wires and one to four strips, neighbours in each plane, with amplitudes that share one
//! charge; the centre of charge of both planes lies in the neutron's pixel. Source: `docs/formats/multiblade.md`,
//! sections 0, 2, 5 and 6.

use super::wiring::{MONITOR_CHANNEL, WIRES, Wiring};
use crate::Random;
use crate::made::Cause;
use crate::noise::Noise;

/// Readouts of one item at most.
pub(super) const MOST: usize = 6;
/// Mean readouts of a neutron: 1.3 wires and 2.35 strips.
pub(super) const MEAN: f64 = 3.65;
/// Time from the first to the last readout of an item at most, ticks of 16 ns: 1280 ns. Half of the items then
/// span more than 46 ticks; half of the recorded ones (`vectors/multiblade/readouts_a01000.csv`) more than 41.
pub(super) const SPREAD: u32 = 80;
/// Charge on the strips over that on the wires: the recorded median.
const STRIPS_OVER_WIRES: f64 = 0.57;

/// One readout, its time counted from the item's first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Readout {
    pub later: u8,
    pub channel: u16,
    pub adc: u16,
}

/// Neutron or noise before it has a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub kind: Cause,
    pub pixel: u32,
    readouts: [Readout; MOST],
    len: u8,
    /// Comes within the resolution after the item before it.
    pub follows: bool,
}

impl Item {
    fn new(kind: Cause) -> Item {
        let readouts = [Readout::default(); MOST];
        Item { kind, pixel: 0, readouts, len: 0, follows: false }
    }

    fn push(&mut self, channel: u16, adc: u16) {
        self.readouts[usize::from(self.len)] = Readout { later: 0, channel, adc };
        self.len += 1;
    }

    pub fn readouts(&self) -> &[Readout] {
        &self.readouts[..usize::from(self.len)]
    }

    /// Ticks from the first to the last readout.
    pub fn spread(&self) -> u32 {
        self.readouts().iter().map(|r| u32::from(r.later)).max().unwrap_or(0)
    }

    /// The channels' buffers are read in no order; one readout is the first.
    fn scatter(&mut self, random: &mut Random) {
        let own = &mut self.readouts[..usize::from(self.len)];
        for i in (1..own.len()).rev() {
            own.swap(i, random.below(i as u32 + 1) as usize);
        }
        for r in own.iter_mut() {
            r.later = random.below(SPREAD + 1) as u8;
        }
        let first = own.iter().map(|r| r.later).min().unwrap_or(0);
        own.iter_mut().for_each(|r| r.later -= first);
    }
}

/// Centre of charge, rounded to the nearest channel, .5 upwards.
fn centre(first: u16, adc: &[u16]) -> u16 {
    let (mut sum, mut weighted) = (0u64, 0u64);
    for (i, &a) in adc.iter().enumerate() {
        sum += u64::from(a);
        weighted += u64::from(a) * i as u64;
    }
    first + ((2 * weighted + sum) / (2 * sum).max(1)) as u16
}

/// `n` neighbours below `limit` around `at`, with `charge` in all and their centre in `at`.
fn share(at: u16, n: u16, limit: u16, charge: f64, random: &mut Random) -> (u16, [u16; 4]) {
    let lowest = at.saturating_sub(n - 1);
    let highest = at.min(limit - n);
    let mut adc = [0; 4];
    let used = usize::from(n);
    // A free division first; where the centre keeps missing, one with most of the charge in `at`.
    for attempt in 0..200 {
        let first = lowest + random.below(u32::from(highest - lowest) + 1) as u16;
        let mut shares = [0.0; 4];
        for (i, share) in shares[..used].iter_mut().enumerate() {
            let own = first + i as u16 == at;
            *share = match (own, attempt < 100) {
                (true, false) => 20.0,
                _ => 0.1 + random.unit(),
            };
        }
        let sum: f64 = shares.iter().sum();
        for (a, share) in adc.iter_mut().zip(&shares[..used]) {
            *a = (charge * share / sum).round().clamp(1.0, 65_534.0) as u16;
        }
        if centre(first, &adc[..used]) == at {
            return (first, adc);
        }
    }
    unreachable!("20 parts of 23 in one channel put the centre there")
}

/// (wires, strips) of a neutron: one wire sometimes two (recorded: 70 and 30 %), typically two strips.
fn multiplicity(random: &mut Random) -> (u16, u16) {
    let wires = if random.below(100) < 70 { 1 } else { 2 };
    let strips = match random.below(100) {
        0..10 => 1,
        10..65 => 2,
        65..90 => 3,
        _ => 4,
    };
    (wires, strips)
}

/// Charge on the wires: median 14,000 (recorded 13,400).
fn charge(random: &mut Random) -> f64 {
    2000.0 + 12_000.0 * (random.unit() + random.unit())
}

/// About normal, within ±3.5.
fn normal(random: &mut Random) -> f64 {
    let sum: f64 = (0..4).map(|_| random.unit()).sum();
    (sum - 2.0) * 3f64.sqrt()
}

/// Makes items of one cassette after the other.
pub(super) struct Maker {
    wiring: Wiring,
    noise: Noise,
    random: Random,
    /// Kinds that did not fit when they were drawn.
    waiting: Vec<Cause>,
}

impl Maker {
    pub fn new(wiring: Wiring, noise: Noise, random: Random) -> Maker {
        Maker { wiring, noise, random, waiting: Vec::new() }
    }

    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Where a neutron converts: a reflected line on a flat background.
    fn place(&mut self, cassette: u16) -> (u16, u16) {
        let strips = self.wiring.usable_strips(cassette);
        let wire = self.random.below(u32::from(WIRES)) as u16;
        if self.random.below(10) < 4 {
            return (wire, self.random.below(u32::from(strips)) as u16);
        }
        let y = f64::from(cassette * WIRES + wire) / f64::from(self.wiring.cassettes * WIRES);
        let middle = f64::from(self.wiring.strips) * (0.3 + 0.4 * y);
        let x = middle + normal(&mut self.random) * f64::from(self.wiring.strips) / 16.0;
        (wire, (x.max(0.0) as u16).min(strips - 1))
    }

    fn neutron(&mut self, cassette: u16, wires: u16, strips: u16) -> Item {
        let mut item = Item::new(Cause::Neutron);
        let (wire, strip) = self.place(cassette);
        let on_wires = charge(&mut self.random);
        // Both planes see one charge, to 6 %.
        let on_strips = on_wires * STRIPS_OVER_WIRES * (1.0 + 0.06 * normal(&mut self.random));
        let (first, adc) = share(wire, wires, WIRES, on_wires, &mut self.random);
        for i in 0..wires {
            item.push(self.wiring.wire_channel(first + i), adc[usize::from(i)]);
        }
        let limit = self.wiring.usable_strips(cassette);
        let (first, adc) = share(strip, strips, limit, on_strips, &mut self.random);
        for i in 0..strips {
            item.push(self.wiring.strip_channel(first + i), adc[usize::from(i)]);
        }
        item.pixel = self.wiring.pixel(cassette, wire, strip);
        item
    }

    fn dark(&mut self, cassette: u16) -> Item {
        let mut item = Item::new(Cause::Dark);
        let charge = charge(&mut self.random) / 10.0;
        let n = 1 + self.random.below(2) as u16;
        let wires = self.random.below(2) == 0;
        let limit = if wires { WIRES } else { self.wiring.usable_strips(cassette) };
        let at = self.random.below(u32::from(limit)) as u16;
        let (first, adc) = share(at, n, limit, charge, &mut self.random);
        for i in 0..n {
            let channel = match wires {
                true => self.wiring.wire_channel(first + i),
                false => self.wiring.strip_channel(first + i),
            };
            item.push(channel, adc[usize::from(i)]);
        }
        item
    }

    /// Both planes at once, with amplitudes that know nothing of each other.
    fn coincidence(&mut self, cassette: u16) -> Item {
        let mut item = Item::new(Cause::Coincidence);
        let wire = self.random.below(u32::from(WIRES)) as u16;
        let strip = self.random.below(u32::from(self.wiring.usable_strips(cassette))) as u16;
        let channels = [self.wiring.wire_channel(wire), self.wiring.strip_channel(strip)];
        for channel in channels {
            let adc = charge(&mut self.random) / 5.0;
            item.push(channel, adc as u16);
        }
        item.pixel = self.wiring.pixel(cassette, wire, strip);
        item
    }

    /// A channel that does not exist, or an amplitude that ran over.
    fn bad(&mut self) -> Item {
        let mut item = Item::new(Cause::Bad);
        let channels = u32::from(self.wiring.channels());
        match self.random.below(2) {
            0 => item.push((channels + self.random.below(64)) as u16, 1000),
            _ => item.push(self.random.below(u32::from(WIRES)) as u16, 65_535),
        }
        item
    }

    /// A count of the beam monitor, on whose amplitude nothing depends: the integrator may run over.
    fn monitor(&mut self) -> Item {
        let mut item = Item::new(Cause::Monitor);
        item.push(MONITOR_CHANNEL, self.random.below(1 << 16) as u16);
        item
    }

    /// Share of the monitor's counts in a cassette.
    fn monitor_share(&self, cassette: u16) -> f64 {
        if self.wiring.monitor() == Some(cassette) { self.noise.monitor } else { 0.0 }
    }

    /// The next kind: one that waited, or a new one.
    fn kind(&mut self, cassette: u16, left: usize) -> Cause {
        let monitor = self.monitor_share(cassette);
        // The monitor's counts wait for its cassette.
        let now = |kind| possible(kind, left) && (kind != Cause::Monitor || monitor > 0.0);
        if let Some(at) = self.waiting.iter().position(|&kind| now(kind)) {
            return self.waiting.swap_remove(at);
        }
        let Noise { dark, bad, coincidence, .. } = self.noise;
        let kinds = [
            (dark, Cause::Dark),
            (bad, Cause::Bad),
            (coincidence, Cause::Coincidence),
            (monitor, Cause::Monitor),
        ];
        loop {
            let mut at = self.random.unit() * (1.0 + dark + bad + coincidence + monitor);
            let noise = kinds.iter().find(|(share, _)| (at < *share, at -= share).0);
            let kind = noise.map_or(Cause::Neutron, |(_, kind)| *kind);
            if possible(kind, left) {
                return kind;
            }
            // Postponed, not dropped: the shares must stay right.
            self.waiting.push(kind);
        }
    }

    fn item(&mut self, kind: Cause, cassette: u16) -> Item {
        match kind {
            Cause::Dark => self.dark(cassette),
            Cause::Bad => self.bad(),
            Cause::Coincidence => self.coincidence(cassette),
            Cause::Monitor => self.monitor(),
            Cause::Neutron | Cause::Packet | Cause::Pulse => {
                let (wires, strips) = multiplicity(&mut self.random);
                self.neutron(cassette, wires, strips)
            }
        }
    }

    /// Adds an item of this kind that leaves a packet with `left` readouts free no single one.
    fn add(
        &mut self,
        kind: Cause,
        cassette: u16,
        follows: bool,
        left: &mut usize,
        items: &mut Vec<Item>,
    ) {
        let mut item = self.item(kind, cassette);
        while !fits(usize::from(item.len), *left) {
            item = self.item(kind, cassette);
        }
        item.scatter(&mut self.random);
        item.follows = follows;
        *left -= usize::from(item.len);
        items.push(item);
    }

    /// Items with exactly `readouts` readouts in all, at least 2: a packet cuts nothing in two.
    pub fn packet(&mut self, cassette: u16, readouts: usize, items: &mut Vec<Item>) {
        let mut left = readouts;
        while left > 0 {
            let kind = self.kind(cassette, left);
            self.add(kind, cassette, false, &mut left, items);
            let second = kind == Cause::Neutron && left > 0;
            if second && self.random.unit() < self.noise.pileup.forced() {
                self.add(Cause::Neutron, cassette, true, &mut left, items);
            }
        }
    }
}

/// True if `len` readouts go into `left` places and leave no single one.
fn fits(len: usize, left: usize) -> bool {
    len <= left && left - len != 1
}

/// True if some item of this kind fits.
fn possible(kind: Cause, left: usize) -> bool {
    match kind {
        Cause::Bad | Cause::Monitor => fits(1, left),
        Cause::Coincidence => fits(2, left),
        // Of one or two readouts, of two to six: one of them fits from 2 on, and 1 is never left.
        Cause::Dark | Cause::Neutron | Cause::Packet | Cause::Pulse => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_multiplicities() {
        let mut random = Random::new(3);
        let n = 100_000;
        let sum: u32 = (0..n)
            .map(|_| {
                let (wires, strips) = multiplicity(&mut random);
                u32::from(wires + strips)
            })
            .sum();
        let mean = f64::from(sum) / f64::from(n);
        assert!((mean - MEAN).abs() < 0.02, "{mean}");
    }

    #[test]
    fn the_centre_of_charge_is_where_it_was_wanted_at_both_ends_too() {
        let mut random = Random::new(5);
        for limit in [31u16, 32, 64] {
            for at in 0..limit {
                for n in 1..=4u16 {
                    let (first, adc) = share(at, n, limit, 9000.0, &mut random);
                    assert!(first <= at && at < first + n && first + n <= limit);
                    let sum: f64 = adc.iter().map(|&a| f64::from(a)).sum();
                    let weighted: f64 =
                        (0..4).map(|i| f64::from(adc[i]) * f64::from(first + i as u16)).sum();
                    assert_eq!((weighted / sum + 0.5).floor() as u16, at);
                    assert!((sum - 9000.0).abs() <= 2.0);
                }
            }
        }
    }
}
