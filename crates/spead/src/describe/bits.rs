//! Fields that are not whole bytes: bit after bit, most significant bit first.
//!
//! Source: `docs/formats/spead.md`, section 5.

/// Takes fields from bytes.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: u64,
}

impl<'a> BitReader<'a> {
    /// From the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, at: 0 }
    }

    /// The next `bits` (at most 64) as an unsigned number; `None` beyond the end.
    pub fn take(&mut self, bits: u32) -> Option<u64> {
        let end = self.at + u64::from(bits);
        if bits > 64 || end > self.bytes.len() as u64 * 8 {
            return None;
        }
        let mut value = 0u128;
        let (first, last) = ((self.at / 8) as usize, end.div_ceil(8) as usize);
        for byte in &self.bytes[first..last] {
            value = value << 8 | u128::from(*byte);
        }
        value >>= last as u64 * 8 - end;
        self.at = end;
        Some((value & ((1u128 << bits) - 1)) as u64)
    }

    /// The next `bits` as bytes, the first of them filled up with zero bits at its high end; `None` beyond the end.
    pub fn take_wide(&mut self, bits: u64) -> Option<Vec<u8>> {
        if self.at.checked_add(bits)? > self.bytes.len() as u64 * 8 {
            return None;
        }
        let mut out = Vec::with_capacity(bits.div_ceil(8) as usize);
        if !bits.is_multiple_of(8) {
            out.push(self.take((bits % 8) as u32)? as u8);
        }
        for _ in 0..bits / 8 {
            out.push(self.take(8)? as u8);
        }
        Some(out)
    }
}

/// Puts fields into bytes.
#[derive(Debug, Clone, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are used; 0: all.
    used: u32,
}

impl BitWriter {
    /// Appends the low `bits` (at most 64) of `value`.
    pub fn put(&mut self, value: u64, bits: u32) {
        for bit in (0..bits.min(64)).rev() {
            if self.used == 0 {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> bit & 1) as u8) << (7 - self.used);
            self.used = (self.used + 1) % 8;
        }
    }

    /// Appends `bits` of big-endian bytes, their lowest ones.
    pub fn put_wide(&mut self, bytes: &[u8], bits: u64) {
        let have = bytes.len() as u64 * 8;
        for _ in have..bits {
            self.put(0, 1);
        }
        for bit in have.saturating_sub(bits)..have {
            self.put(u64::from(bytes[(bit / 8) as usize] >> (7 - bit % 8) & 1), 1);
        }
    }

    /// The bytes; the last one is filled up with zero bits.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn twelve_bits_of_the_document() {
        let mut writer = BitWriter::default();
        [0x123, 0x456, 0xfff].iter().for_each(|v| writer.put(*v, 12));
        assert_eq!(writer.finish(), [0x12, 0x34, 0x56, 0xff, 0xf0]);
    }

    proptest! {
        #[test]
        fn what_is_put_is_taken(fields in proptest::collection::vec((any::<u64>(), 1u32..65), 0..40)) {
            let mut writer = BitWriter::default();
            fields.iter().for_each(|(value, bits)| writer.put(*value, *bits));
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for (value, bits) in &fields {
                let mask = if *bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                prop_assert_eq!(reader.take(*bits), Some(value & mask));
            }
            let total: u64 = fields.iter().map(|f| u64::from(f.1)).sum();
            let spare = bytes.len() as u64 * 8 - total;
            prop_assert!(spare < 8 && reader.take(spare as u32) == Some(0) && reader.take(1).is_none());
        }
    }
}
