//! The first 48 bytes of an HDF5 file: the consistency flags that a killed writer leaves set.
//!
//! Layout of superblock version 3 (HDF5 file format specification, II.A; all little-endian): signature
//! 8 bytes, version 8, size of offsets 9, size of lengths 10, flags 11, base address 12, extension
//! address 20, end-of-file address 28, root group address 36, checksum (Jenkins lookup3 of the 44 bytes
//! before it) 44. Flag bit 0: open for writing; bit 2: open for SWMR writing.
//!
//! Does the same as `h5clear -s --increment=0`: flags to 0, and the end-of-file address to the file's length where
//! chunks were written after the last flush (HDF5 would reuse their space). Refuses files with another signature,
//! version, field sizes or checksum.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a superblock of version 2 or 3 with 8-byte offsets.
pub const LENGTH: usize = 48;

const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// A superblock as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    bytes: [u8; LENGTH],
}

/// Why the first bytes are no superblock that this program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Too short, or another signature.
    #[error("no HDF5 signature")]
    Signature,
    /// Not version 3 with 8-byte offsets and lengths, and base address 0.
    #[error("an HDF5 file that cannot have been written with SWMR (superblock version {0})")]
    Version(u8),
    /// The checksum does not fit.
    #[error("the HDF5 superblock is damaged (checksum)")]
    Checksum,
}

impl Superblock {
    /// Reads and verifies the start of `file`.
    pub fn read(file: &File) -> io::Result<Result<Superblock, Unusable>> {
        let mut bytes = [0; LENGTH];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(Superblock::parse(bytes)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(Unusable::Signature)),
            Err(e) => Err(e),
        }
    }

    fn parse(bytes: [u8; LENGTH]) -> Result<Superblock, Unusable> {
        if bytes[..8] != SIGNATURE {
            return Err(Unusable::Signature);
        }
        if bytes[8] != 3 || bytes[9] != 8 || bytes[10] != 8 || bytes[12..20] != [0; 8] {
            return Err(Unusable::Version(bytes[8]));
        }
        if bytes[44..] != lookup3(&bytes[..44]).to_le_bytes() {
            return Err(Unusable::Checksum);
        }
        Ok(Superblock { bytes })
    }

    /// True if the file of `length` bytes was not closed, or is shorter than it says: HDF5 clears the flags
    /// even where a full disk kept it from writing the rest (seen with 1.14.6).
    pub fn unfinished(&self, length: u64) -> bool {
        self.bytes[11] != 0 || self.end() > length
    }

    /// End of the used part of the file, as the library knew it.
    pub fn end(&self) -> u64 {
        u64::from_le_bytes(self.bytes[28..36].try_into().expect("8 bytes"))
    }

    /// The same with all flags cleared and at least `end` bytes in use.
    pub fn cleared(&self, end: u64) -> Superblock {
        let mut bytes = self.bytes;
        bytes[11] = 0;
        bytes[28..36].copy_from_slice(&self.end().max(end).to_le_bytes());
        let sum = lookup3(&bytes[..44]).to_le_bytes();
        bytes[44..].copy_from_slice(&sum);
        Superblock { bytes }
    }

    /// The same with the flags of `other`.
    pub fn flagged(&self, other: Superblock) -> Superblock {
        let mut bytes = self.bytes;
        bytes[11] = other.bytes[11];
        let sum = lookup3(&bytes[..44]).to_le_bytes();
        bytes[44..].copy_from_slice(&sum);
        Superblock { bytes }
    }

    /// Puts it at the start of `file`, in one write.
    pub fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.bytes, 0)
    }
}

/// Bob Jenkins' lookup3 ("hashlittle") with initial value 0, public domain, 2006.
fn lookup3(key: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    // The last block, full or not (here 44 = 3 × 12 + 8), goes through the final mixing instead.
    let tail = if key.is_empty() { 0 } else { (key.len() - 1) / 12 * 12 };
    let word = |block: &[u8], i: usize| {
        let byte = |k: usize| u32::from(block.get(i + k).copied().unwrap_or(0));
        byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
    };
    for block in key[..tail].chunks_exact(12) {
        a = a.wrapping_add(word(block, 0));
        b = b.wrapping_add(word(block, 4));
        c = c.wrapping_add(word(block, 8));
        for (r1, r2, r3) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(r1);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(r2);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(r3);
            b = b.wrapping_add(a);
        }
    }
    let last = &key[tail..];
    if last.is_empty() {
        return c;
    }
    a = a.wrapping_add(word(last, 0));
    b = b.wrapping_add(word(last, 4));
    c = c.wrapping_add(word(last, 8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup3_gives_the_values_of_its_author() {
        // driver5() of lookup3.c.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    fn block(flags: u8, end: u64) -> [u8; LENGTH] {
        let mut b = [0; LENGTH];
        b[..8].copy_from_slice(&SIGNATURE);
        (b[8], b[9], b[10], b[11]) = (3, 8, 8, flags);
        b[28..36].copy_from_slice(&end.to_le_bytes());
        let sum = lookup3(&b[..44]).to_le_bytes();
        b[44..].copy_from_slice(&sum);
        b
    }

    #[test]
    fn clearing_keeps_the_larger_end_and_is_idempotent() {
        let s = Superblock::parse(block(5, 1000)).unwrap();
        assert!(s.unfinished(1000));
        let c = s.cleared(4096);
        assert_eq!((c.unfinished(4096), c.end()), (false, 4096));
        assert!(c.unfinished(4095), "cut short");
        assert_eq!(Superblock::parse(c.bytes), Ok(c), "the new checksum fits");
        assert_eq!(c.cleared(10), c);
    }

    #[test]
    fn damage_is_told_apart() {
        assert_eq!(Superblock::parse([0; LENGTH]), Err(Unusable::Signature));
        let mut b = block(0, 1);
        b[8] = 0;
        assert_eq!(Superblock::parse(b), Err(Unusable::Version(0)));
        let mut b = block(0, 1);
        b[40] ^= 1;
        assert_eq!(Superblock::parse(b), Err(Unusable::Checksum));
    }
}
