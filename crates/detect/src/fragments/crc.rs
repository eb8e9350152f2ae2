//! The checksum of a fragment: 16 bits, polynomial 0x8005, initial value 0xFFFF, not reflected, no final XOR ("CRC-16/CMS").
//!
//! Words of 64 bits go in with their most significant byte first, and lie in memory with the least significant first. Long rows are
//! folded by carry-less products where the chosen instructions have them; else, and at the end, 16 bytes are
//! taken at a time from tables of 8 KiB, which stay in the first-level cache. Source: `docs/formats/simplified-tcp.md`, section 26.1.

use fullcount_instructions::{FOLD_ROW, FoldKeys, Instructions};

const POLYNOMIAL: u16 = 0x8005;

/// Fewest bytes that are folded: for one row it is not worth it. 2 KiB in the first-level cache take 15 GB/s so, and 4.7 with the tables
/// (`cargo bench -p fullcount-detect --bench fragments`, Xeon with AVX-512); `engine.instructions = portable` switches it off.
const LEAST: usize = 2 * FOLD_ROW;

const KEYS: FoldKeys = FoldKeys { row: [power(576), power(512)], lane: [power(192), power(128)] };

/// What xⁿ leaves.
const fn power(n: u32) -> u32 {
    let (mut rest, mut k) = (1u16, 0);
    while k < n {
        let over = rest & 0x8000 != 0;
        rest <<= 1;
        if over {
            rest ^= POLYNOMIAL;
        }
        k += 1;
    }
    rest as u32
}

/// `TABLES[k][b]`: what byte `b` leaves after `k` further bytes of 0.
static TABLES: [[u16; 256]; 16] = tables();

const fn tables() -> [[u16; 256]; 16] {
    let mut all = [[0u16; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        all[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 16 {
        let mut byte = 0;
        while byte < 256 {
            let before = all[k - 1][byte];
            all[k][byte] = (before << 8) ^ all[0][(before >> 8) as usize];
            byte += 1;
        }
        k += 1;
    }
    all
}

/// A checksum under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc16(u16);

impl Default for Crc16 {
    fn default() -> Self {
        Crc16(0xffff)
    }
}

impl Crc16 {
    /// The value so far.
    pub fn value(self) -> u16 {
        self.0
    }

    #[inline]
    fn eight(value: u64, tables: &[[u16; 256]; 16], behind: usize) -> u16 {
        let mut crc = 0;
        let mut k = 0;
        while k < 8 {
            crc ^= tables[behind + k][(value >> (8 * k)) as u8 as usize];
            k += 1;
        }
        crc
    }

    /// Takes one word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = Crc16::eight(word ^ (u64::from(self.0) << 48), &TABLES, 0);
    }

    /// Takes whole words as they lie in memory; what is left behind the last whole one is not looked at.
    pub fn words(&mut self, mut bytes: &[u8], with: Instructions) {
        if bytes.len() >= LEAST && with.multiplies_carryless() {
            let (rows, rest) = bytes.as_chunks();
            if let Some(left) = with.fold(u64::from(self.0) << 48, rows, &KEYS) {
                self.0 = 0;
                left.into_iter().for_each(|word| self.word(word));
                bytes = rest;
            }
        }
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            let both = u128::from_le_bytes(*pair);
            let (first, second) = (both as u64, (both >> 64) as u64);
            // What does not depend on the pair before is looked up while that one is still under way.
            let mut rest = Crc16::eight(second, &TABLES, 0);
            for k in 0..6 {
                rest ^= TABLES[8 + k][(first >> (8 * k)) as u8 as usize];
            }
            let [low, high] = (self.0 ^ (first >> 48) as u16).to_le_bytes();
            let late = TABLES[14][usize::from(low)] ^ TABLES[15][usize::from(high)];
            self.0 = rest ^ late;
        }
        if let Some(word) = rest.first_chunk() {
            self.word(u64::from_le_bytes(*word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_instructions::available;
    use proptest::prelude::*;

    /// Bit by bit, as the definition says.
    fn plain(bytes: impl Iterator<Item = u8>) -> u16 {
        bytes.fold(0xffff, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x8005 }
            })
        })
    }

    #[test]
    fn the_check_value_and_the_vector_of_the_format_are_met() {
        assert_eq!(plain(b"123456789".iter().copied()), 0xaee7);
        let mut crc = Crc16::default();
        for word in [0x5112_3456_3e72_0000u64, 0x0123_4567_89ab_cdef, 0xa000_0003_0000_0000] {
            crc.word(word);
        }
        assert_eq!(crc.value(), 0x5f67);
    }

    proptest! {
        #[test]
        fn every_set_gives_what_bits_give(words in prop::collection::vec(any::<u64>(), 0..90), cut in 0usize..90) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let at = 8 * cut.min(words.len());
            let expected = plain(words.iter().flat_map(|word| word.to_be_bytes()));
            for set in available() {
                let mut crc = Crc16::default();
                crc.words(&bytes[..at], set);
                crc.words(&bytes[at..], set);
                prop_assert_eq!(crc.value(), expected, "{}", set);
            }
        }
    }
}
