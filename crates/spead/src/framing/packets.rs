//! Packets back to back on a byte stream, and how to find them again behind junk.
//!
//! A header that is none, or has no payload length, costs 8 bytes, and the next 8 are tried; a packet above the limit is
//! skipped whole; where a buffer of 64 packets gives no packet's size, it is discarded. Nothing is copied that arrives whole: a
//! packet is handed on from the bytes that came, unless it lies in two reads. Source: `docs/formats/spead.md`, section 9.2.

use super::resync::ResyncWork;
use crate::wire::{HEADER_BYTES, prefix_of, size_of};

/// What was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketStreamCounts {
    /// Packets handed on.
    pub packets: u64,
    /// Bytes that belonged to no packet.
    pub junk_bytes: u64,
    /// Packets above the limit.
    pub too_large: u64,
    /// Bytes of these.
    pub too_large_bytes: u64,
    /// Buffers given up because no size was found.
    pub discarded: u64,
    /// Bytes behind the last whole packet when the connection ended.
    pub cut_bytes: u64,
}

/// Takes a byte stream apart.
#[derive(Debug)]
pub struct PacketStream {
    max_packet: usize,
    /// The beginning of a packet whose end has not come.
    partial: Vec<u8>,
    /// Bytes of a packet above the limit that are still to come.
    skip: u64,
    work: ResyncWork,
    counts: PacketStreamCounts,
}

enum Step {
    /// So many bytes are a packet.
    Packet(usize),
    /// So many bytes are junk.
    Junk(usize),
    /// A packet of so many bytes is above the limit.
    TooLarge(u64),
    /// So many bytes are needed at least.
    More(usize),
}

impl PacketStream {
    /// Packets up to `max_packet` bytes; spead2's default is 65,536.
    pub fn new(max_packet: usize) -> PacketStream {
        let counts = PacketStreamCounts::default();
        PacketStream { max_packet, partial: vec![], skip: 0, work: ResyncWork::default(), counts }
    }

    /// What was skipped so far.
    pub fn counts(&self) -> PacketStreamCounts {
        self.counts
    }

    /// Largest packet, bytes.
    pub fn max_packet(&self) -> usize {
        self.max_packet
    }

    /// A packet has come, or a valid header: whoever is at the other end speaks SPEAD.
    pub fn is_spead(&self) -> bool {
        let counts = self.counts;
        counts.packets + counts.too_large + counts.discarded > 0
            || self.partial.len() >= HEADER_BYTES && size_of(&self.partial).is_ok()
    }

    /// The beginning of a packet whose end has not come, if the bytes that come next are its next ones. See
    /// [`PacketStream::forget_partial`].
    pub fn partial(&self) -> Option<&[u8]> {
        (self.skip == 0).then_some(&self.partial)
    }

    /// The beginning of that packet is elsewhere now. It is pushed again, or [`PacketStream::placed`] counts the packet.
    pub fn forget_partial(&mut self) {
        self.partial.clear();
    }

    /// A whole packet was taken from the stream without being pushed.
    pub fn placed(&mut self) {
        self.counts.packets += 1;
    }

    /// Most bytes that wait for the rest of their packet.
    fn room(&self) -> usize {
        self.max_packet.saturating_mul(64).clamp(HEADER_BYTES, 1 << 30)
    }

    fn step(&mut self, bytes: &[u8]) -> Step {
        match size_of(bytes) {
            Err(_) => {
                let prefix = prefix_of(bytes).ok().flatten().unwrap_or(HEADER_BYTES);
                Step::Junk(self.work.junk(prefix).min(bytes.len()))
            }
            Ok(None) => {
                let n =
                    bytes.get(6..8).map_or(0, |n| usize::from(u16::from_be_bytes([n[0], n[1]])));
                Step::More(HEADER_BYTES + 8 * n)
            }
            Ok(Some(size)) if size > self.max_packet as u64 => Step::TooLarge(size),
            Ok(Some(size)) if size <= bytes.len() as u64 => Step::Packet(size as usize),
            Ok(Some(size)) => Step::More(size as usize),
        }
    }

    /// Bytes came; `packet` gets each whole one.
    pub fn push(&mut self, mut bytes: &[u8], mut packet: impl FnMut(&[u8])) {
        self.work.came(bytes.len());
        loop {
            let skipped = (bytes.len() as u64).min(self.skip);
            self.skip -= skipped;
            bytes = &bytes[skipped as usize..];
            if bytes.is_empty() {
                return;
            }
            if self.partial.is_empty() {
                bytes = self.whole(bytes, &mut packet);
                if self.skip == 0 {
                    self.partial.extend_from_slice(bytes);
                    return;
                }
            } else {
                bytes = self.joined(bytes, &mut packet);
            }
        }
    }

    /// Packets that lie whole in what came; the rest.
    fn whole<'a>(&mut self, mut bytes: &'a [u8], packet: &mut impl FnMut(&[u8])) -> &'a [u8] {
        while !bytes.is_empty() {
            match self.step(bytes) {
                Step::Packet(size) => {
                    self.counts.packets += 1;
                    packet(&bytes[..size]);
                    bytes = &bytes[size..];
                }
                Step::Junk(junk) => {
                    self.counts.junk_bytes += junk as u64;
                    bytes = &bytes[junk..];
                }
                Step::TooLarge(size) => {
                    self.counts.too_large += 1;
                    self.counts.too_large_bytes += size;
                    self.skip = size;
                    return bytes;
                }
                Step::More(wanted) if wanted > self.room() && bytes.len() >= self.room() => {
                    // No packet is so long: a full buffer without a size is given up.
                    self.counts.discarded += 1;
                    self.counts.junk_bytes += self.room() as u64;
                    bytes = &bytes[self.room()..];
                }
                Step::More(_) => return bytes,
            }
        }
        bytes
    }

    /// Fills up the packet that began in an earlier read; the rest.
    fn joined<'a>(&mut self, bytes: &'a [u8], packet: &mut impl FnMut(&[u8])) -> &'a [u8] {
        let had = self.partial.len();
        let partial = std::mem::take(&mut self.partial);
        let step = self.step(&partial);
        self.partial = partial;
        let (taken, rest) = match step {
            Step::More(_) if had >= self.room() => {
                self.counts.discarded += 1;
                self.counts.junk_bytes += had as u64;
                self.partial.clear();
                return bytes;
            }
            Step::More(wanted) => {
                let more = wanted.min(self.room()) - had;
                bytes.split_at(bytes.len().min(more.max(1)))
            }
            Step::Packet(size) => {
                self.counts.packets += 1;
                packet(&self.partial[..size]);
                self.partial.drain(..size);
                return bytes;
            }
            Step::Junk(junk) => {
                self.counts.junk_bytes += junk as u64;
                // All that is there is looked at: moved once, not for every 8 bytes.
                self.look_again(junk, packet);
                return bytes;
            }
            Step::TooLarge(size) => {
                self.counts.too_large += 1;
                self.counts.too_large_bytes += size;
                self.skip = size - had as u64;
                self.partial.clear();
                return bytes;
            }
        };
        self.partial.extend_from_slice(taken);
        if rest.is_empty() {
            // The packet may be whole with the last byte.
            self.look_again(0, packet);
        }
        rest
    }

    /// Takes what is whole of the bytes that wait, the first `junk` of which are passed over.
    fn look_again(&mut self, junk: usize, packet: &mut impl FnMut(&[u8])) {
        let partial = std::mem::take(&mut self.partial);
        let left = self.whole(&partial[junk..], packet).len();
        if self.skip > 0 {
            self.skip -= left as u64;
        } else {
            self.partial = partial;
            self.partial.drain(..self.partial.len() - left);
        }
    }

    /// The connection has ended, whole or not. Returns the bytes of a packet that did not come to its end.
    pub fn finish(&mut self) -> usize {
        let cut = self.partial.len();
        self.counts.cut_bytes += cut as u64;
        self.partial.clear();
        self.skip = 0;
        cut
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
