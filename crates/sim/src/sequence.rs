//! `sequence` traffic: numbered packets of set sizes, the simplest payload that can be checked completely.
//!
//! Payload, little-endian: magic `FCSQ`, stream id u32, number u64, sender time ns u64, then byte
//! `i ≥ 24` = (32 × number + i) mod 256. The end is sent five times: number = 2⁶⁴ − 1, total in the
//! time field. Packets are prepared in rings whose length is a multiple of 8, so that slot k always
//! holds a number ≡ k mod 8 and the pattern never changes: 16 bytes per packet are patched per use.
//! Refuses: sizes outside 24..=65507. Source: `docs/contracts.md`, "`sequence` payload".

mod kind;

use super::{PreparedPackets, Random, Traffic, TrafficError, TrafficTotals};

pub use kind::SequenceKind;

fn no_size() -> TrafficError {
    TrafficError::value("size", "an empty list", "give at least one of 24 to 65507 B")
}

fn many_sizes(n: usize) -> TrafficError {
    TrafficError::value("size", format!("{n} sizes in the list"), "at most 65536")
}

fn size_refused(bytes: usize) -> TrafficError {
    TrafficError::value("size", format!("{bytes} B"), "sequence packets have 24 to 65507 B")
}

/// First four bytes on the wire.
pub const MAGIC: [u8; 4] = *b"FCSQ";
/// Bytes before the pattern; the smallest packet.
pub const HEADER: usize = 24;
/// Largest UDP payload over IPv4.
pub const LARGEST: usize = 65_507;
/// Number of an end mark.
pub const END: u64 = u64::MAX;
/// Times the end mark is sent.
pub const END_MARKS: usize = 5;

/// A ring's bytes are kept near this: a quarter of a usual second-level cache, so that the packets
/// are still there when the kernel copies them. Packets above 32 KiB exceed it (8 × size).
const RING_BYTES: usize = 256 << 10;

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceSetup {
    /// Payload sizes, bytes, used in turn packet by packet; one entry for a fixed size. Trains are
    /// runs of equal sizes, so list a size several times to keep trains long.
    pub sizes: Vec<usize>,
    /// Decides the stream id.
    pub seed: u64,
    /// Packets in all; `None`: as many as are asked for.
    pub count: Option<u64>,
}

#[derive(Debug)]
struct Ring {
    size: usize,
    slots: usize,
    bytes: Vec<u8>,
}

impl Ring {
    fn new(size: usize, stream: u32) -> Ring {
        let slots = (RING_BYTES / size / 8).max(1) * 8;
        let mut bytes = vec![0; slots * size];
        for (k, packet) in bytes.chunks_exact_mut(size).enumerate() {
            packet[..4].copy_from_slice(&MAGIC);
            packet[4..8].copy_from_slice(&stream.to_le_bytes());
            pattern(packet, k as u64);
        }
        Ring { size, slots, bytes }
    }
}

fn pattern(packet: &mut [u8], number: u64) {
    for (i, byte) in packet.iter_mut().enumerate().skip(HEADER) {
        *byte = (number as u8).wrapping_mul(32).wrapping_add(i as u8);
    }
}

/// Consecutive packets of the size cycle that have one size.
#[derive(Debug, Clone, Copy)]
struct Run {
    ring: usize,
    packets: u64,
}

/// Numbered packets.
#[derive(Debug)]
pub struct NumberedPackets {
    stream: u32,
    rings: Vec<Ring>,
    runs: Vec<Run>,
    run: usize,
    left_in_run: u64,
    number: u64,
    left: u64,
    bytes: u64,
    mean: f64,
}

impl NumberedPackets {
    /// Prepares the packets.
    ///
    /// # Errors
    /// No size, more than 65,536 sizes, or one outside 24..=65507.
    pub fn new(setup: &SequenceSetup) -> Result<NumberedPackets, TrafficError> {
        let sizes = &setup.sizes;
        if sizes.is_empty() {
            return Err(no_size());
        }
        if sizes.len() > 65_536 {
            return Err(many_sizes(sizes.len()));
        }
        if let Some(&bad) = sizes.iter().find(|s| !(HEADER..=LARGEST).contains(s)) {
            return Err(size_refused(bad));
        }
        let stream = (Random::new(setup.seed).bits() >> 32) as u32;
        let mut rings: Vec<Ring> = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        for &size in sizes {
            let ring = rings.iter().position(|r| r.size == size).unwrap_or_else(|| {
                rings.push(Ring::new(size, stream));
                rings.len() - 1
            });
            match runs.last_mut() {
                Some(run) if run.ring == ring => run.packets += 1,
                _ => runs.push(Run { ring, packets: 1 }),
            }
        }
        if let [only] = &mut runs[..] {
            only.packets = u64::MAX;
        }
        Ok(NumberedPackets {
            stream,
            left_in_run: runs[0].packets,
            rings,
            runs,
            run: 0,
            number: 0,
            // Number 2⁶⁴ − 1 is the end mark's, so that is also the longest stream.
            left: setup.count.unwrap_or(END),
            bytes: 0,
            mean: sizes.iter().sum::<usize>() as f64 / sizes.len() as f64,
        })
    }

    /// Stream id in every packet.
    pub fn stream(&self) -> u32 {
        self.stream
    }
}

impl Traffic for NumberedPackets {
    fn name(&self) -> &'static str {
        "sequence"
    }

    fn largest_packet(&self) -> usize {
        self.rings.iter().map(|r| r.size).max().unwrap_or(HEADER)
    }

    fn mean_packet(&self) -> f64 {
        self.mean
    }

    #[inline]
    fn next_train(&mut self, packets: usize, now_ns: u64) -> Option<PreparedPackets<'_>> {
        if self.left_in_run == 0 {
            self.run = (self.run + 1) % self.runs.len();
            self.left_in_run = self.runs[self.run].packets;
        }
        let ring = &mut self.rings[self.runs[self.run].ring];
        let slot = (self.number % ring.slots as u64) as usize;
        let n = (packets as u64).min(self.left).min(self.left_in_run);
        let n = n.min((ring.slots - slot) as u64) as usize;
        if n == 0 {
            return None;
        }
        let bytes = &mut ring.bytes[slot * ring.size..(slot + n) * ring.size];
        let time = now_ns.to_le_bytes();
        for (packet, number) in bytes.chunks_exact_mut(ring.size).zip(self.number..) {
            packet[8..16].copy_from_slice(&number.to_le_bytes());
            packet[16..24].copy_from_slice(&time);
        }
        self.number += n as u64;
        self.left -= n as u64;
        self.left_in_run -= n as u64;
        self.bytes += (n * ring.size) as u64;
        Some(PreparedPackets { bytes, stride: ring.size, packets: n, lane: 0 })
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        let mut mark = vec![0; self.rings[self.runs[0].ring].size];
        mark[..4].copy_from_slice(&MAGIC);
        mark[4..8].copy_from_slice(&self.stream.to_le_bytes());
        mark[8..16].copy_from_slice(&END.to_le_bytes());
        mark[16..24].copy_from_slice(&self.number.to_le_bytes());
        pattern(&mut mark, END);
        vec![mark; END_MARKS]
    }

    fn totals(&self) -> TrafficTotals {
        TrafficTotals { packets: self.number, bytes: self.bytes, events: 0 }
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
