//! Makes new random events while sending: a Poisson process over pulses, bins and pixels, in time order.
//!
//! Per event: one step of the generator, a table look-up for the exponential gap, a step through the
//! cumulated intensity, and one look-up in the slice's alias table (Walker 1977) for the pixel.
//! [`super::SimulatedSonde::new`] has checked the numbers.

use super::packet::{Hit, Shape};
use crate::panel::{MODULE_PIXELS, SimulatedPanel};
use crate::scattering::{BINS, BINS_PER_SLICE, PULSES_PER_S, Scattering, bin_ns, pulse_ns};
use crate::{PreparedPackets, Random, ReadyPackets};

/// Longest train handed out: five kernel trains of 51 packets of 250 entries, and one more.
const LONGEST: usize = 256;

/// Entries of the table of exponential gaps; its index is the generator's upper 12 bits.
const GAPS: usize = 1 << 12;

/// A hit that has its time, and is in no packet yet.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    /// ns since the stream's start.
    at_ns: u64,
    module: usize,
    hit: Hit,
}

#[derive(Debug, Clone, Copy)]
struct Alias {
    cut: u32,
    other: u32,
}

/// Alias table of one slice: an index drawn evenly stays if its fraction is below `cut`.
fn alias_table(weights: &[f32]) -> Vec<Alias> {
    let n = weights.len();
    let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let mut scaled: Vec<f64> =
        weights.iter().map(|&w| f64::from(w) * n as f64 / sum.max(f64::MIN_POSITIVE)).collect();
    let mut table: Vec<Alias> = (0..n).map(|i| Alias { cut: u32::MAX, other: i as u32 }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| scaled[i] < 1.0);
    while let (Some(s), Some(&l)) = (small.pop(), large.last()) {
        table[s] = Alias { cut: (scaled[s] * 4_294_967_296.0) as u32, other: l as u32 };
        scaled[l] -= 1.0 - scaled[s];
        if scaled[l] < 1.0 {
            large.pop();
            small.push(l);
        }
    }
    table
}

/// Finished packets of one source port that wait to be sent.
#[derive(Debug)]
struct Lane {
    bytes: Vec<u8>,
    head: usize,
    tail: usize,
}

impl Lane {
    fn waiting(&self) -> usize {
        self.tail - self.head
    }
}

/// Generator and open packets.
#[derive(Debug)]
pub(super) struct Fresh {
    panel: SimulatedPanel,
    shape: Shape,
    random: Random,
    gaps: Vec<f64>,
    /// Expected hits from the pulse to the start of each bin; one more for the end.
    cumulated: Vec<f64>,
    /// Nanoseconds per expected hit within each bin.
    ns_per_hit: Vec<f64>,
    alias: Vec<Vec<Alias>>,
    bytes: [u8; MODULE_PIXELS],
    /// Place in the present pulse, in expected hits.
    at: f64,
    bin: usize,
    pulse: u64,
    /// ns since the stream's start.
    pulse_start: u64,
    /// The next hit, if its time is known already.
    drawn: Option<Drawn>,
    hits_per_s: f64,
    open: Vec<u8>,
    filled: Vec<u16>,
    next_count: Vec<u16>,
    lanes: Vec<Lane>,
    waiting: usize,
    truth: Vec<u64>,
    pixel_of_byte: [Option<u8>; 256],
}

impl Fresh {
    pub(super) fn new(
        panel: SimulatedPanel,
        shape: Shape,
        scattering: &Scattering,
        hits_per_s: f64,
        seed: u64,
    ) -> Fresh {
        let sum: f64 = scattering.bins.iter().sum();
        let scale = hits_per_s / PULSES_PER_S as f64 / sum;
        let mut cumulated = vec![0.0; BINS + 1];
        let mut ns_per_hit = vec![0.0; BINS];
        for b in 0..BINS {
            let expected = scattering.bins[b] * scale;
            cumulated[b + 1] = cumulated[b] + expected;
            let width = f64::from(bin_ns(b + 1) - bin_ns(b));
            ns_per_hit[b] = width / expected.max(f64::MIN_POSITIVE);
        }
        // Quantile middles of the exponential distribution, scaled to a mean of exactly 1 so that
        // simulated time does not drift against the rate.
        let mut gaps: Vec<f64> =
            (0..GAPS).map(|i| -(1.0 - (i as f64 + 0.5) / GAPS as f64).ln()).collect();
        let mean = gaps.iter().sum::<f64>() / GAPS as f64;
        gaps.iter_mut().for_each(|g| *g /= mean);

        let modules = panel.modules();
        let size = shape.bytes();
        let mut open = vec![0; modules * size];
        for (module, packet) in open.chunks_exact_mut(size).enumerate() {
            shape.blank(panel.system(module), packet);
        }
        let lane = |_| Lane { bytes: vec![0; LONGEST * size], head: 0, tail: 0 };
        Fresh {
            panel,
            shape,
            random: Random::new(seed),
            gaps,
            cumulated,
            ns_per_hit,
            alias: scattering.pixels.iter().map(|p| alias_table(p)).collect(),
            bytes: SimulatedPanel::bytes(),
            at: 0.0,
            bin: 0,
            pulse: 0,
            pulse_start: 0,
            drawn: None,
            hits_per_s,
            open,
            filled: vec![0; modules],
            next_count: vec![0; modules],
            lanes: (0..panel.lanes()).map(lane).collect(),
            waiting: 0,
            truth: vec![0; panel.pixels()],
            pixel_of_byte: SimulatedPanel::pixel_of_byte(),
        }
    }

    /// The next hit.
    #[inline]
    fn draw(&mut self) -> Drawn {
        let r = self.random.bits();
        self.at += self.gaps[(r >> 52) as usize];
        while self.at >= self.cumulated[self.bin + 1] {
            self.bin += 1;
            if self.bin == BINS {
                self.at -= self.cumulated[BINS];
                self.bin = 0;
                self.pulse += 1;
                self.pulse_start = pulse_ns(self.pulse);
            }
        }
        let inside = (self.at - self.cumulated[self.bin]) * self.ns_per_hit[self.bin];
        // Rounding may reach the next bin's first nanosecond; the last bin must not.
        let tof = (bin_ns(self.bin) + inside as u32).min(bin_ns(self.bin + 1) - 1);
        let table = &self.alias[self.bin / BINS_PER_SLICE];
        let drawn = (r & 0xffff_ffff) * table.len() as u64;
        let (index, fraction) = ((drawn >> 32) as usize, drawn as u32);
        let entry = table[index];
        let index = if fraction < entry.cut { index } else { entry.other as usize };
        let (module, pixel) = (index / MODULE_PIXELS, (index % MODULE_PIXELS) as u8);
        let at_ns = self.pulse_start + u64::from(tof);
        Drawn { at_ns, module, hit: Hit { time: at_ns as u32, pixel } }
    }

    /// Makes one hit and puts it into its module's packet.
    #[inline]
    fn step(&mut self) {
        let Drawn { module, hit, .. } = match self.drawn.take() {
            Some(drawn) => drawn,
            None => self.draw(),
        };
        let size = self.shape.bytes();
        let packet = &mut self.open[module * size..(module + 1) * size];
        let i = usize::from(self.filled[module]);
        self.shape.put(packet, i, hit, &self.bytes, &mut self.random);
        if i + 1 < self.shape.hits() {
            self.filled[module] += 1;
            return;
        }
        self.filled[module] = 0;
        Shape::number(packet, self.next_count[module]);
        self.next_count[module] = self.next_count[module].wrapping_add(1);
        let lane = &mut self.lanes[self.panel.lane(module)];
        if lane.tail == LONGEST {
            lane.bytes.copy_within(lane.head * size.., 0);
            (lane.head, lane.tail) = (0, lane.tail - lane.head);
        }
        lane.bytes[lane.tail * size..(lane.tail + 1) * size].copy_from_slice(packet);
        lane.tail += 1;
        self.waiting += 1;
    }

    /// Packets per simulated second, on average.
    pub(super) fn packets_per_s(&self) -> f64 {
        self.hits_per_s / self.shape.hits() as f64
    }

    /// Makes the hits up to `at_ns`, ns since the stream's start; at most as many packets as lanes hold.
    pub(super) fn ready(&mut self, at_ns: u64, most: usize) -> ReadyPackets {
        let most = most.min(LONGEST);
        while self.waiting < most {
            let drawn = match self.drawn {
                Some(drawn) => drawn,
                None => self.draw(),
            };
            self.drawn = Some(drawn);
            if drawn.at_ns > at_ns {
                return ReadyPackets { packets: self.waiting, next_ns: drawn.at_ns };
            }
            self.step();
        }
        ReadyPackets { packets: most, next_ns: at_ns }
    }

    /// 1 to `packets` packets of the lane in which most wait.
    pub(super) fn next_train(&mut self, packets: usize) -> PreparedPackets<'_> {
        // All lanes together never hold more than the longest train, so none runs over.
        let wanted = packets.min(LONGEST);
        while self.waiting < wanted {
            self.step();
        }
        let size = self.shape.bytes();
        let most = (0..self.lanes.len()).max_by_key(|&l| self.lanes[l].waiting()).unwrap_or(0);
        let n = self.lanes[most].waiting().min(wanted);
        let first = self.lanes[most].head;
        self.lanes[most].head += n;
        self.waiting -= n;
        let lane = &self.lanes[most];
        let bytes = &lane.bytes[first * size..(first + n) * size];
        for packet in bytes.chunks_exact(size) {
            let system = usize::from(packet[0] & 31);
            let module = most * crate::panel::SYSTEMS + system;
            let counts = &mut self.truth[module * MODULE_PIXELS..(module + 1) * MODULE_PIXELS];
            self.shape.count(packet, &self.pixel_of_byte, 1, counts);
        }
        PreparedPackets { bytes, stride: size, packets: n, lane: most }
    }

    pub(super) fn truth(&self, counts: &mut [u64]) {
        counts.copy_from_slice(&self.truth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_table_gives_back_its_weights() {
        let weights = [0.0f32, 1.0, 2.5, 0.25, 6.25];
        let table = alias_table(&weights);
        let mut p = [0.0; 5];
        for (i, a) in table.iter().enumerate() {
            let keep = f64::from(a.cut) / 4_294_967_296.0;
            p[i] += keep / 5.0;
            p[a.other as usize] += (1.0 - keep) / 5.0;
        }
        for (got, want) in p.iter().zip(weights) {
            assert!((got - f64::from(want) / 10.0).abs() < 1e-8, "{p:?}");
        }
    }
}
