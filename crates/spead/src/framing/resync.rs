//! How much is spent on finding the next packet behind junk.
//!
//! A header that turns out to be none costs a look at all the pointers that it announces, up to 65,535, and is tried again 8 bytes
//! further. Bytes that are a header everywhere would cost their square. So beyond a multiple of what came, all pointers of such a header are
//! junk at once. Source: `docs/formats/spead.md`, section 9.2.

/// Bytes that are looked at for nothing, for each byte that came.
const EACH: u64 = 64;
/// The same before any came: two of the longest headers.
const FREE: u64 = 1 << 20;

/// What was looked at, and what came.
#[derive(Debug, Default)]
pub(super) struct ResyncWork {
    came: u64,
    wasted: u64,
}

impl ResyncWork {
    /// Bytes came.
    pub fn came(&mut self, bytes: usize) {
        self.came += bytes as u64;
    }

    /// A header with its pointers, so many bytes, was none: how many of them are junk.
    pub fn junk(&mut self, prefix: usize) -> usize {
        self.wasted += prefix as u64;
        if self.wasted > FREE + EACH * self.came { prefix } else { 8 }
    }
}
