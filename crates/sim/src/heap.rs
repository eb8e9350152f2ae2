//! A small array telescope as SPEAD heaps: power over frequency with tones that move, and complex visibilities of all pairs.
//!
//! Descriptors come with the first heap and every 64th, so that who joins later can read. The sky repeats: some heaps are prepared,
//! and only number, time and tones change. Refuses sizes that a packet or a heap cannot have. Source: `docs/formats/spead.md`.

mod kind;
mod packet;

use fullcount_core::simulator::{PreparedPackets, Traffic, TrafficTotals};

use crate::Random;
use packet::{Entry, cut, descriptor, stop};

pub use kind::HeapSimulator;

/// Heaps from one with descriptors to the next.
const REPEAT: u64 = 64;
/// Time from heap to heap, ns, as their items say it.
const PERIOD_NS: u64 = 10_000_000;
/// PreparedPackets noise, elements.
const NOISE: usize = 1 << 14;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeapSetup {
    pub antennas: usize,
    pub channels: usize,
    pub packet: usize,
    pub seed: u64,
}

impl HeapSetup {
    fn pairs(self) -> usize {
        self.antennas * (self.antennas + 1) / 2
    }

    /// Payload bytes of a heap without descriptors.
    pub fn bytes(self) -> usize {
        self.channels * 4 + self.pairs() * self.channels * 8 + 8
    }
}

/// The packets.
#[derive(Debug)]
pub(crate) struct HeapTraffic {
    setup: HeapSetup,
    descriptors: Vec<Vec<u8>>,
    noise: Vec<f32>,
    power: Vec<u8>,
    visibilities: Vec<u8>,
    /// Packets of the heap at hand.
    packets: Vec<u8>,
    sizes: Vec<usize>,
    /// The next of them, and where it begins.
    next: usize,
    at: usize,
    heaps: u64,
    totals: TrafficTotals,
    mean: f64,
}

/// The number of a heap as 40 bits have it.
fn number(heap: u64) -> u64 {
    (heap + 1) & ((1 << 40) - 1)
}

impl HeapTraffic {
    pub fn new(setup: HeapSetup) -> HeapTraffic {
        let (c, p) = (setup.channels, setup.pairs());
        let dict = |descr: &str, shape: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape})}}")
        };
        let descriptors = vec![
            descriptor(0x1000, "timestamp", "ns since the beginning", &dict(">u8", "")),
            descriptor(
                0x1001,
                "power",
                "mean power of all antennas",
                &dict("<f4", &format!("{c},")),
            ),
            descriptor(
                0x1002,
                "visibilities",
                "products of pairs",
                &dict("<c8", &format!("{p}, {c}")),
            ),
        ];
        let mut random = Random::new(setup.seed);
        let noise: Vec<f32> = (0..NOISE).map(|_| random.unit() as f32).collect();
        let complex = (0..2 * p * c).map(|n| noise[n % NOISE] - 0.5);
        let visibilities = complex.flat_map(f32::to_le_bytes).collect();
        let mut traffic = HeapTraffic {
            setup,
            descriptors,
            noise,
            power: vec![0; 4 * c],
            visibilities,
            packets: Vec::new(),
            sizes: Vec::new(),
            next: 0,
            at: 0,
            heaps: 0,
            totals: TrafficTotals::default(),
            mean: 0.0,
        };
        traffic.prepare();
        let (bytes, packets) = (traffic.packets.len() as f64, traffic.sizes.len() as f64);
        traffic.mean = bytes / packets;
        (traffic.heaps, traffic.next, traffic.at) = (0, traffic.sizes.len(), 0);
        traffic
    }

    /// Packets of a heap.
    pub fn packets_per_heap(&self) -> f64 {
        self.sizes.len() as f64
    }

    /// Power of each channel: noise, a band, and two tones that move.
    fn sky(&mut self) {
        let (c, n) = (self.setup.channels, self.heaps);
        let shift = (n as usize).wrapping_mul(97) % NOISE;
        let tones = [(n as usize / 2) % c, c - 1 - (n as usize) % c];
        for (channel, cell) in self.power.chunks_exact_mut(4).enumerate() {
            let x = channel as f32 / c as f32;
            let band = 4.0 * x * (1.0 - x);
            let mut power = band + 0.2 * self.noise[(channel + shift) % NOISE];
            for tone in tones {
                let off = channel.abs_diff(tone) as f32 * 256.0 / c as f32;
                power += 3.0 / (1.0 + off * off);
            }
            cell.copy_from_slice(&power.to_le_bytes());
        }
    }

    fn prepare(&mut self) {
        self.sky();
        let time = (self.heaps * PERIOD_NS).to_be_bytes();
        let first = [
            Entry::Bytes(0x1000, &time),
            Entry::Bytes(0x1001, &self.power),
            Entry::Bytes(0x1002, &self.visibilities),
        ];
        let mut entries: Vec<Entry<'_>> = Vec::new();
        if self.heaps.is_multiple_of(REPEAT) {
            entries.extend(self.descriptors.iter().map(|d| Entry::Bytes(5, d)));
        }
        entries.extend(first);
        // The number again, for readers that see no heap numbers.
        entries.push(Entry::Number(0x1003, number(self.heaps)));
        self.packets.clear();
        self.sizes = cut(&mut self.packets, number(self.heaps), &entries, self.setup.packet);
        (self.next, self.at) = (0, 0);
        self.heaps += 1;
    }
}

impl Traffic for HeapTraffic {
    fn name(&self) -> &'static str {
        "heap"
    }

    fn largest_packet(&self) -> usize {
        self.setup.packet
    }

    fn mean_packet(&self) -> f64 {
        self.mean
    }

    fn next_train(&mut self, packets: usize, _: u64) -> Option<PreparedPackets<'_>> {
        if packets == 0 {
            return None;
        }
        if self.next == self.sizes.len() {
            self.prepare();
        }
        let stride = self.sizes[self.next];
        let same = self.sizes[self.next..].iter().take(packets).take_while(|&&size| size == stride);
        let packets = same.count();
        let bytes = self.at..self.at + packets * stride;
        (self.next, self.at) = (self.next + packets, bytes.end);
        self.totals.packets += packets as u64;
        self.totals.bytes += (packets * stride) as u64;
        self.totals.events += u64::from(self.next == self.sizes.len());
        Some(PreparedPackets { bytes: &self.packets[bytes], stride, packets, lane: 0 })
    }

    fn is_framed(&self) -> bool {
        true
    }

    /// The rest of the heap at hand, so that none is cut.
    fn remainder(&mut self) -> Option<PreparedPackets<'_>> {
        let left = self.sizes.len() - self.next;
        if left == 0 { None } else { self.next_train(left, 0) }
    }

    /// A stop heap: a packet like any other, and counted.
    fn end(&mut self) -> Vec<Vec<u8>> {
        let stop = stop(number(self.heaps));
        self.totals.packets += 1;
        self.totals.bytes += stop.len() as u64;
        vec![stop]
    }

    fn totals(&self) -> TrafficTotals {
        self.totals
    }
}

#[cfg(test)]
#[path = "heap_tests.rs"]
mod tests;
