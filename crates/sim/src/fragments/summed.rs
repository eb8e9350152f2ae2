//! The checksum of a fragment as a function of its event number.
//!
//! It is a remainder, so what a bit of the number changes does not depend on the other bits: 24 values, in three tables of 256.

/// One step of the division: polynomial 0x8005, most significant bit first.
fn step(crc: u16, bit: bool) -> u16 {
    let out = (crc >> 15 == 1) != bit;
    if out { (crc << 1) ^ 0x8005 } else { crc << 1 }
}

fn of_words(start: u16, words: &[u64]) -> u16 {
    words.iter().fold(start, |crc, word| {
        (0..64).rev().fold(crc, |crc, bit| step(crc, word >> bit & 1 == 1))
    })
}

/// The function.
#[derive(Debug)]
pub(super) struct Summed {
    zero: u16,
    changes: Box<[[u16; 256]; 3]>,
}

impl Summed {
    /// Of a fragment of event 0 whose checksum field is 0. Bits 0xC004 of the trailer do not count.
    pub fn new(words: &[u64]) -> Summed {
        let mut words = words.to_vec();
        if let Some(trailer) = words.last_mut() {
            *trailer &= !0xc004;
        }
        let zero = of_words(0xffff, &words);
        // What each bit of the number alone leaves at the end, from a start of 0.
        let mut bits = [0u16; 24];
        for (n, bit) in bits.iter_mut().enumerate() {
            let mut only = vec![0; words.len()];
            only[0] = 1 << (32 + n);
            *bit = of_words(0, &only);
        }
        let mut changes = Box::new([[0u16; 256]; 3]);
        for (k, table) in changes.iter_mut().enumerate() {
            for (byte, change) in table.iter_mut().enumerate() {
                let set = (0..8).filter(|bit| byte >> bit & 1 == 1);
                *change = set.fold(0, |all, bit| all ^ bits[8 * k + bit]);
            }
        }
        Summed { zero, changes }
    }

    /// The checksum of event `number`, 24 bits.
    pub fn of(&self, number: u64) -> u16 {
        let part = |k: usize| self.changes[k][(number >> (8 * k)) as u8 as usize];
        self.zero ^ part(0) ^ part(1) ^ part(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_format_is_met() {
        let words = [0x5100_0000_3e72_0000, 0x0123_4567_89ab_cdef, 0xa000_0003_0000_0000];
        assert_eq!(Summed::new(&words).of(0x12_3456), 0x5f67);
        let bytes = u64::from_be_bytes(*b"12345678");
        let last = (0..8)
            .rev()
            .fold(of_words(0xffff, &[bytes]), |crc, bit| step(crc, b'9' >> bit & 1 == 1));
        assert_eq!(last, 0xaee7);
    }
}
