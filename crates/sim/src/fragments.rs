//! `fragments` traffic: N sources that have a fragment of every event, each on a lane of its own.
//!
//! A packet is a fragment: header and trailer words with a correct checksum around a fixed pattern, in blocks of at most 4096 bytes. Packets
//! are prepared once for each source; of each only the event number and the checksum change, and how the checksum follows
//! from the number is worked out before: it is linear. Faults on wish: a source that is silent, one that two lanes claim,
//! wrong checksums. Shares no code with the decoder. Source: `docs/formats/simplified-tcp.md`, section 26.1.

mod kind;
mod summed;

use fullcount_core::destination::PacketNumbers;
use fullcount_core::simulator::{PreparedPackets, Traffic, TrafficTotals};

use super::Random;
use summed::Summed;

pub use kind::FragmentsKind;

/// Bytes of a block at most, and of its header.
const BLOCK: usize = 4096;
const HEADER: usize = 16;
/// PreparedPackets fragments of a source: so many bytes, near a quarter of a second-level cache for 16 sources.
const RING_BYTES: usize = 64 << 10;
/// Events that a lane gets in a row at most.
const MOST_IN_A_ROW: u64 = 32;
/// Event numbers have 24 bits.
const NUMBERS: u64 = 1 << 24;

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentsSetup {
    /// Id of each lane.
    pub sources: Vec<u16>,
    /// Bytes of a fragment, header and trailer included; a multiple of 8.
    pub size: usize,
    /// Number of the first event.
    pub first: u64,
    /// Every so many fragments of a source have a wrong checksum; 0: none.
    pub wrong_crc: u64,
    /// Throttling state of every fragment, 4 bits.
    pub throttling: u8,
    /// Decides the pattern.
    pub seed: u64,
}

/// The fragments of one source.
#[derive(Debug)]
struct Lane {
    bytes: Vec<u8>,
    summed: Summed,
    /// First event of the run in progress that it has not had.
    next: u64,
}

/// Fragments of all sources.
#[derive(Debug)]
pub struct FragmentTraffic {
    lanes: Vec<Lane>,
    at: usize,
    /// The run of events that all lanes have before the next begins.
    run: std::ops::Range<u64>,
    size: usize,
    stride: usize,
    slots: u64,
    wrong_crc: u64,
    first: u64,
    packets: u64,
}

impl FragmentTraffic {
    /// Prepares the packets. The setup is in range.
    pub fn new(setup: &FragmentsSetup) -> FragmentTraffic {
        let payload = BLOCK - HEADER;
        let stride = setup.size + HEADER * setup.size.div_ceil(payload);
        let slots = (RING_BYTES / stride).max(1) as u64;
        let mut random = Random::new(setup.seed);
        let lane = |&source: &u16| {
            let fragment = fragment(source, setup, &mut random);
            let summed = Summed::new(&fragment);
            let packet = blocks(source, &fragment);
            Lane { bytes: packet.repeat(slots as usize), summed, next: setup.first }
        };
        FragmentTraffic {
            lanes: setup.sources.iter().map(lane).collect(),
            at: 0,
            run: setup.first..setup.first,
            size: setup.size,
            stride,
            slots,
            wrong_crc: setup.wrong_crc,
            first: setup.first,
            packets: 0,
        }
    }
}

/// The words of a fragment of event 0, without its checksum.
fn fragment(source: u16, setup: &FragmentsSetup, random: &mut Random) -> Vec<u64> {
    let count = setup.size / 8;
    let mut words = vec![5 << 60 | 1 << 56 | u64::from(source) << 8];
    words.extend((2..count).map(|_| random.bits()));
    words.push(0xa << 60 | (count as u64) << 32 | u64::from(setup.throttling) << 4);
    words
}

/// The same in blocks.
fn blocks(source: u16, words: &[u64]) -> Vec<u8> {
    let mut all = Vec::new();
    let parts: Vec<&[u64]> = words.chunks((BLOCK - HEADER) / 8).collect();
    for (n, part) in parts.iter().enumerate() {
        let edges = u64::from(n == 0) << 31 | u64::from(n + 1 == parts.len()) << 30;
        let first = 0x475a_u64 << 48 | (n as u64) << 32 | edges | part.len() as u64;
        all.extend(first.to_be_bytes());
        all.extend((u64::from(source) << 32).to_be_bytes());
        part.iter().for_each(|word| all.extend(word.to_le_bytes()));
    }
    all
}

/// Gives a prepared fragment its event number and its checksum.
fn number(packet: &mut [u8], event: u64, crc: u16) {
    let event = (event % NUMBERS) as u32;
    for block in packet.chunks_mut(BLOCK) {
        block[12..16].copy_from_slice(&event.to_be_bytes());
    }
    // Bits 55 to 32 of the header word, which lies with its last byte first.
    packet[HEADER + 4..HEADER + 7].copy_from_slice(&event.to_le_bytes()[..3]);
    let end = packet.len();
    packet[end - 6..end - 4].copy_from_slice(&crc.to_le_bytes());
}

impl Traffic for FragmentTraffic {
    fn name(&self) -> &'static str {
        "fragments"
    }

    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn largest_packet(&self) -> usize {
        self.stride
    }

    fn mean_packet(&self) -> f64 {
        self.stride as f64
    }

    fn next_train(&mut self, packets: usize, _: u64) -> Option<PreparedPackets<'_>> {
        if packets == 0 {
            return None;
        }
        if self.lanes[self.at].next == self.run.end {
            self.at = (self.at + 1) % self.lanes.len();
            if self.at == 0 || self.run.is_empty() {
                self.at = 0;
                // No more than all lanes can have of these packets: a count that is a multiple of the lanes ends with a whole event.
                let each = packets as u64 / self.lanes.len() as u64;
                let long = each.clamp(1, MOST_IN_A_ROW).min(self.slots);
                self.run = self.run.end..self.run.end + long;
            }
        }
        let lane = &mut self.lanes[self.at];
        let first = lane.next;
        let slot = first % self.slots;
        let n = (packets as u64).min(self.run.end - first).min(self.slots - slot);
        let place = slot as usize * self.stride..(slot + n) as usize * self.stride;
        let bytes = &mut lane.bytes[place];
        for (packet, event) in bytes.chunks_exact_mut(self.stride).zip(first..) {
            let wrong = self.wrong_crc > 0 && (event + 1).is_multiple_of(self.wrong_crc);
            number(packet, event, lane.summed.of(event % NUMBERS) ^ u16::from(wrong));
        }
        lane.next += n;
        self.packets += n;
        Some(PreparedPackets { bytes, stride: self.stride, packets: n as usize, lane: self.at })
    }

    /// What other sources still have of the last events, so that a count or a time leaves no event in pieces.
    fn remainder(&mut self) -> Option<PreparedPackets<'_>> {
        // Lanes have the run in turn: the last one ends it.
        let whole = self.lanes.last().is_none_or(|lane| lane.next == self.run.end);
        if whole { None } else { self.next_train(MOST_IN_A_ROW as usize, 0) }
    }

    fn end(&mut self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn is_framed(&self) -> bool {
        true
    }

    fn numbers(&self) -> Option<PacketNumbers> {
        Some(PacketNumbers { what: "events", first: self.first, wraps: NUMBERS })
    }

    fn totals(&self) -> TrafficTotals {
        let complete = self.lanes.iter().map(|lane| lane.next).min().unwrap_or(self.first);
        let bytes = self.packets * self.stride as u64;
        debug_assert!(self.size <= self.stride);
        TrafficTotals { packets: self.packets, bytes, events: complete - self.first }
    }
}

#[cfg(test)]
#[path = "fragments_tests.rs"]
mod tests;
