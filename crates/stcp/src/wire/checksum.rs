//! The Internet checksum (RFC 1071), over parts of any length.

/// A sum that goes on: parts of odd length are followed by the next byte in the same word.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    sum: u64,
    odd: bool,
}

impl Sum {
    /// Adds a part.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Sum {
        let mut sum = 0u64;
        let mut eights = bytes.chunks_exact(8);
        for eight in &mut eights {
            let mut word = [0; 8];
            word.copy_from_slice(eight);
            let word = u64::from_be_bytes(word);
            sum += (word >> 32) + (word & 0xffff_ffff);
            sum = (sum & 0xffff_ffff_ffff) + (sum >> 48);
        }
        let mut twos = eights.remainder().chunks_exact(2);
        for two in &mut twos {
            sum += u64::from(two[0]) << 8 | u64::from(two[1]);
        }
        if let [last] = twos.remainder() {
            sum += u64::from(*last) << 8;
        }
        let folded = fold(sum);
        self.sum += u64::from(if self.odd { folded.swap_bytes() } else { folded });
        self.odd ^= bytes.len() % 2 == 1;
        self
    }

    /// The sum so far, folded to 16 bits and not complemented: what a partial checksum holds.
    pub fn folded(self) -> u16 {
        fold(self.sum)
    }

    /// The checksum.
    pub fn finish(self) -> u16 {
        !self.folded()
    }
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The pseudo header of `length` bytes of `protocol`.
pub fn pseudo(source: [u8; 4], target: [u8; 4], protocol: u8, length: usize) -> Sum {
    // Above 65,535, of a unit that is cut later, the upper half is a word of its own.
    let length = (length as u32).to_be_bytes();
    Sum::default().with(&source).with(&target).with(&[0, protocol]).with(&length)
}
