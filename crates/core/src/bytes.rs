//! Checked reading of big- and little-endian fields from a borrowed slice.
//!
//! A [`Bytes`] walks forward over the slice; a read past the end is `None` and moves nothing, so a parser
//! reports what was missing. No field needs alignment.

/// Forward reader over borrowed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

macro_rules! read {
    ($($name:ident $ty:ty, $from:ident, $n:literal, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[inline]
        pub fn $name(&mut self) -> Option<$ty> {
            self.array::<$n>().map(<$ty>::$from)
        }
    )*};
}

impl<'a> Bytes<'a> {
    /// Starts at the first byte of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Bytes { rest: bytes }
    }

    /// Bytes not yet read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    /// Takes the next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    read! {
        u8 u8, from_be_bytes, 1, "Next byte.";
        be16 u16, from_be_bytes, 2, "Next 2 bytes, big-endian.";
        be32 u32, from_be_bytes, 4, "Next 4 bytes, big-endian.";
        be64 u64, from_be_bytes, 8, "Next 8 bytes, big-endian.";
        le16 u16, from_le_bytes, 2, "Next 2 bytes, little-endian.";
        le32 u32, from_le_bytes, 4, "Next 4 bytes, little-endian.";
        le64 u64, from_le_bytes, 8, "Next 8 bytes, little-endian.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_in_both_orders_and_stops_at_the_end() {
        let mut b = Bytes::new(&[0x12, 0x34, 0x12, 0x34, 0xff]);
        assert_eq!(b.be16(), Some(0x1234));
        assert_eq!(b.le16(), Some(0x3412));
        assert_eq!(b.be16(), None);
        assert_eq!(b.rest(), &[0xff], "a failed read moves nothing");
        assert_eq!(b.u8(), Some(0xff));
        assert_eq!(b.u8(), None);
    }

    proptest! {
        #[test]
        fn never_reads_outside(data in proptest::collection::vec(any::<u8>(), 0..40),
                               steps in proptest::collection::vec(0usize..12, 0..20)) {
            let mut b = Bytes::new(&data);
            let mut read = 0;
            for n in steps {
                let before = b.rest().len();
                match b.take(n) {
                    Some(got) => { prop_assert_eq!(got.len(), n); read += n; }
                    None => prop_assert!(n > before),
                }
                prop_assert_eq!(read + b.rest().len(), data.len());
            }
        }
    }
}
