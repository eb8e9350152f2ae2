//! One prepared pulse of packets, repeated with counts and times shifted in place.
//!
//! For rates at which even 15 ns per event are too much. The pulse is prepared once: each module gets
//! a whole number of packets, its times follow its share of the spectrum evenly, its pixels follow the
//! slice's picture by a Weyl sequence, so that the repeated picture carries hardly any frozen noise.
//! At most 16 MiB are prepared. Denser pulses send each block of about 320 KiB several times (it then
//! stays in the second-level cache), each time some nanoseconds later. Pulse k starts at k/14 s rounded
//! down, so times of flight stay exact over all cycles and 32-bit wraps.
//! [`super::SimulatedSonde::new`] has checked the numbers.

use super::packet::{Hit, Shape};
use crate::panel::{MODULE_PIXELS, SimulatedPanel};
use crate::scattering::{BINS, BINS_PER_SLICE, PULSES_PER_S, SLICES, Scattering, bin_ns, pulse_ns};
use crate::{PreparedPackets, Random};

/// Bytes prepared at most: with 250 entries 13,305 packets or 3.3 M events.
const PREPARED_BYTES: usize = 16 << 20;
/// Kernel trains in a block.
const TRAINS_PER_BLOCK: usize = 5;
/// Repeats of a block are spread over at most this, less than the 1.57 µs left free before the pulse.
const SPREAD_NS: f64 = 1000.0;

#[derive(Debug, Clone, Copy)]
struct Slot {
    module: usize,
    /// What has been added to the times as they lie in memory.
    applied: u32,
    sent: u64,
}

#[derive(Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    /// First packet of the block that comes next in this pulse.
    next: usize,
}

/// Where the sender is.
#[derive(Debug, Clone, Copy)]
struct Place {
    lane: usize,
    first: usize,
    end: usize,
    next: usize,
    repeat: u32,
}

/// The prepared pulse.
#[derive(Debug)]
pub(super) struct Cycle {
    shape: Shape,
    lanes: Vec<Lane>,
    next_count: Vec<u16>,
    repeats: u32,
    step_ns: u32,
    block: usize,
    pulse: u64,
    place: Place,
}

/// `total` shared out in proportion to `weights`, in whole numbers, by largest remainder.
fn share_out(total: usize, weights: &[f64]) -> Vec<usize> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|w| w / sum * total as f64).collect();
    let mut shares: Vec<usize> = exact.iter().map(|&x| x as usize).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
    let missing = total - shares.iter().sum::<usize>().min(total);
    order.iter().cycle().take(missing).for_each(|&i| shares[i] += 1);
    shares
}

/// The hits of one module over one pulse, in time order.
fn module_hits(s: &Scattering, module: usize, n: usize, random: &mut Random) -> Vec<Hit> {
    let range = module * MODULE_PIXELS..(module + 1) * MODULE_PIXELS;
    let sum = |p: &[f32]| p.iter().map(|&w| f64::from(w)).sum::<f64>();
    // Cumulated pixel weights within the module, and the module's part of the slice.
    let mut parts = Vec::with_capacity(SLICES);
    let mut ladders = Vec::with_capacity(SLICES);
    for picture in &s.pixels {
        let own = &picture[range.clone()];
        parts.push(sum(own) / sum(picture).max(f64::MIN_POSITIVE));
        let mut at = 0.0;
        ladders.push(
            own.iter().map(|&w| (at, at += f64::from(w)).0 + f64::from(w)).collect::<Vec<f64>>(),
        );
    }
    let mut weyl: Vec<u64> = (0..SLICES).map(|_| random.bits()).collect();
    let total: f64 = (0..BINS).map(|b| s.bins[b] * parts[b / BINS_PER_SLICE]).sum();
    let phase = random.unit();
    let (mut bin, mut before, mut inside) = (0, 0.0, s.bins[0] * parts[0]);
    (0..n)
        .map(|i| {
            let at = (i as f64 + phase) / n as f64 * total;
            while at >= before + inside && bin + 1 < BINS {
                before += inside;
                bin += 1;
                inside = s.bins[bin] * parts[bin / BINS_PER_SLICE];
            }
            let width = f64::from(bin_ns(bin + 1) - bin_ns(bin));
            let fraction = ((at - before) / inside.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
            let time = (bin_ns(bin) + (fraction * width) as u32).min(bin_ns(bin + 1) - 1);
            let slice = bin / BINS_PER_SLICE;
            // 2⁶⁴ divided by the golden ratio: the most even of all Weyl sequences.
            weyl[slice] = weyl[slice].wrapping_add(0x9e37_79b9_7f4a_7c15);
            let ladder = &ladders[slice];
            let level = weyl[slice] as f64 / 18_446_744_073_709_551_616.0 * ladder[63];
            let pixel = ladder.partition_point(|&c| c <= level).min(MODULE_PIXELS - 1);
            Hit { time, pixel: pixel as u8 }
        })
        .collect()
}

impl Cycle {
    pub(super) fn new(
        panel: SimulatedPanel,
        shape: Shape,
        scattering: &Scattering,
        hits_per_s: f64,
        seed: u64,
    ) -> Cycle {
        let size = shape.bytes();
        let per_pulse = hits_per_s / PULSES_PER_S as f64 / shape.hits() as f64;
        let most = (PREPARED_BYTES / size) as f64;
        let repeats = (per_pulse / most).ceil().max(1.0);
        let packets = (per_pulse / repeats).round() as usize;
        let mut random = Random::new(seed);
        let shares = share_out(packets, &scattering.of_modules());

        // (time of the last hit, module, its hits), ordered as a device would send them.
        let mut finished: Vec<Vec<(u32, usize, Vec<Hit>)>> = vec![Vec::new(); panel.lanes()];
        for (module, &share) in shares.iter().enumerate() {
            let hits = module_hits(scattering, module, share * shape.hits(), &mut random);
            for part in hits.chunks_exact(shape.hits()) {
                let last = part.last().map_or(0, |h| h.time);
                finished[panel.lane(module)].push((last, module, part.to_vec()));
            }
        }
        let bytes_of_pixel = SimulatedPanel::bytes();
        let lanes = finished
            .into_iter()
            .map(|mut packets| {
                packets.sort_by_key(|&(last, module, _)| (last, module));
                let mut lane = Lane { bytes: vec![0; packets.len() * size], ..Lane::default() };
                for (packet, (_, module, hits)) in lane.bytes.chunks_exact_mut(size).zip(packets) {
                    shape.blank(panel.system(module), packet);
                    for (i, hit) in hits.into_iter().enumerate() {
                        shape.put(packet, i, hit, &bytes_of_pixel, &mut random);
                    }
                    lane.slots.push(Slot { module, applied: 0, sent: 0 });
                }
                lane
            })
            .collect();
        // Repeats fill the mean gap between two hits of a module, as far as there is room.
        let gap_ns = 1e9 / PULSES_PER_S as f64 * panel.modules() as f64
            / (packets * shape.hits()).max(1) as f64;
        let mut cycle = Cycle {
            shape,
            lanes,
            next_count: vec![0; panel.modules()],
            repeats: repeats as u32,
            step_ns: (gap_ns.min(SPREAD_NS) / repeats) as u32,
            block: TRAINS_PER_BLOCK * (65_507 / size).clamp(1, 64),
            pulse: 0,
            place: Place { lane: 0, first: 0, end: 0, next: 0, repeat: 0 },
        };
        cycle.place = cycle.next_block();
        cycle
    }

    /// The block of the slowest lane; begins the next pulse when all are through.
    fn next_block(&mut self) -> Place {
        let behind = |lanes: &[Lane]| {
            let open = (0..lanes.len()).filter(|&l| lanes[l].next < lanes[l].slots.len());
            let part = |l: usize| lanes[l].next as f64 / lanes[l].slots.len() as f64;
            open.min_by(|&a, &b| part(a).total_cmp(&part(b)))
        };
        let lane = behind(&self.lanes).unwrap_or_else(|| {
            self.pulse += 1;
            self.lanes.iter_mut().for_each(|l| l.next = 0);
            behind(&self.lanes).unwrap_or(0)
        });
        let first = self.lanes[lane].next;
        let end = (first + self.block).min(self.lanes[lane].slots.len());
        self.lanes[lane].next = end;
        Place { lane, first, end, next: first, repeat: 0 }
    }

    /// Packets per simulated second.
    pub(super) fn packets_per_s(&self) -> f64 {
        let pulse: usize = self.lanes.iter().map(|lane| lane.slots.len()).sum();
        pulse as f64 * f64::from(self.repeats) * PULSES_PER_S as f64
    }

    /// 1 to `packets` packets.
    #[inline]
    pub(super) fn next_train(&mut self, packets: usize) -> PreparedPackets<'_> {
        if self.place.next == self.place.end {
            self.place.next = self.place.first;
            self.place.repeat += 1;
            if self.place.repeat >= self.repeats {
                self.place = self.next_block();
            }
        }
        let Place { lane, next, end, repeat, .. } = self.place;
        let n = packets.min(end - next);
        self.place.next += n;
        let size = self.shape.bytes();
        let target = (pulse_ns(self.pulse) as u32).wrapping_add(repeat * self.step_ns);
        let chosen = &mut self.lanes[lane];
        let bytes = &mut chosen.bytes[next * size..(next + n) * size];
        for (packet, slot) in bytes.chunks_exact_mut(size).zip(&mut chosen.slots[next..next + n]) {
            let count = &mut self.next_count[slot.module];
            Shape::number(packet, *count);
            *count = count.wrapping_add(1);
            self.shape.shift(packet, target.wrapping_sub(slot.applied));
            slot.applied = target;
            slot.sent += 1;
        }
        PreparedPackets { bytes, stride: size, packets: n, lane }
    }

    pub(super) fn truth(&self, counts: &mut [u64]) {
        let table = SimulatedPanel::pixel_of_byte();
        let size = self.shape.bytes();
        for lane in &self.lanes {
            for (packet, slot) in lane.bytes.chunks_exact(size).zip(&lane.slots) {
                let own = slot.module * MODULE_PIXELS..(slot.module + 1) * MODULE_PIXELS;
                self.shape.count(packet, &table, slot.sent, &mut counts[own]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_follow_the_weights() {
        assert_eq!(share_out(10, &[1.0, 1.0, 2.0]), [3, 2, 5]);
        assert_eq!(share_out(7, &[0.0, 1.0]), [0, 7]);
        let many = share_out(1000, &[0.3, 0.1, 0.25, 0.35]);
        assert_eq!((many.iter().sum::<usize>(), many), (1000, vec![300, 100, 250, 350]));
    }
}
