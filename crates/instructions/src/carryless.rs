//! Long rows of bytes folded by carry-less products: the quick part of a checksum that is a remainder of polynomials.
//!
//! A row of 64 bytes is four lanes of two 64-bit words, little-endian; the first word of a lane has the higher powers. Folding moves what is there over
//! the next row: each word is multiplied by what its power leaves, so that 16 bytes with the same remainder are left of any
//! number of rows. Knows no polynomial: the caller gives the keys. Panics on no bytes. Source: Gopal et al., "Fast CRC Computation
//! for Generic Polynomials Using PCLMULQDQ", Intel 2009.

/// Bytes of a row that is folded.
pub const FOLD_ROW: usize = 64;

/// What powers of x leave, in the polynomial's remainders. Below 2³², so that no product is longer than a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldKeys {
    /// Of x⁵⁷⁶ and x⁵¹²: over a row.
    pub row: [u32; 2],
    /// Of x¹⁹² and x¹²⁸: over a lane.
    pub lane: [u32; 2],
}

/// Folds `rows`, the first word of which has `state` added (exclusive or); `None` without rows. Two words, the first with the
/// higher powers. With plain instructions: how sets without a carry-less product do it, and what the others are compared with.
pub(crate) fn fold_plain(state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]> {
    let product = |a: u64, key: u32| {
        let bits = (0..32).filter(|bit| key >> bit & 1 == 1);
        bits.fold(0, |sum, bit| sum ^ (u128::from(a) << bit))
    };
    fold(state, rows, keys, |lane, [high, low]| {
        product((lane >> 64) as u64, high) ^ product(lane as u64, low)
    })
}

/// The order of the work; `step` multiplies both words of a lane and adds the products.
#[inline(always)]
fn fold(
    state: u64,
    rows: &[[u8; FOLD_ROW]],
    keys: &FoldKeys,
    step: impl Fn(u128, [u32; 2]) -> u128,
) -> Option<[u64; 2]> {
    let read = |row: &[u8; FOLD_ROW]| -> [u128; 4] {
        let (lanes, _) = row.as_chunks::<16>();
        // The first word is the higher half, and each word is little-endian.
        std::array::from_fn(|n| u128::from_le_bytes(lanes[n]).rotate_left(64))
    };
    let (first, rest) = rows.split_first()?;
    let mut lanes = read(first);
    lanes[0] ^= u128::from(state) << 64;
    for row in rest {
        let next = read(row);
        for (lane, next) in lanes.iter_mut().zip(next) {
            *lane = step(*lane, keys.row) ^ next;
        }
    }
    let [first, others @ ..] = lanes;
    let all = others.into_iter().fold(first, |all, lane| step(all, keys.lane) ^ lane);
    Some([(all >> 64) as u64, all as u64])
}

/// The same with the processor's product.
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpackhi_epi64,
        _mm_xor_si128,
    };

    use super::{FOLD_ROW, FoldKeys};

    /// Both words of a lane are multiplied, and the products added.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse2")]
    fn step(lane: __m128i, keys: __m128i) -> __m128i {
        let high = _mm_clmulepi64_si128::<0x11>(lane, keys);
        _mm_xor_si128(high, _mm_clmulepi64_si128::<0x00>(lane, keys))
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq,sse2")]
    fn read(row: &[u8; FOLD_ROW]) -> [__m128i; 4] {
        let (words, _) = row.as_chunks::<8>();
        let word = |n: usize| u64::from_le_bytes(words[n]).cast_signed();
        // The first word of a lane is its higher half.
        [0, 2, 4, 6].map(|n| _mm_set_epi64x(word(n), word(n + 1)))
    }

    /// As [`super::fold_plain`]. Safe to call where the processor has the product.
    #[target_feature(enable = "pclmulqdq,sse2")]
    pub(crate) fn fold(state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]> {
        let pair = |[high, low]: [u32; 2]| _mm_set_epi64x(high.into(), low.into());
        let (row_keys, lane_keys) = (pair(keys.row), pair(keys.lane));
        let (first, rest) = rows.split_first()?;
        let mut lanes = read(first);
        lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(state.cast_signed(), 0));
        for row in rest {
            let next = read(row);
            for n in 0..4 {
                lanes[n] = _mm_xor_si128(step(lanes[n], row_keys), next[n]);
            }
        }
        let mut all = lanes[0];
        for &lane in &lanes[1..] {
            all = _mm_xor_si128(step(all, lane_keys), lane);
        }
        let high = _mm_cvtsi128_si64(_mm_unpackhi_epi64(all, all));
        Some([high.cast_unsigned(), _mm_cvtsi128_si64(all).cast_unsigned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::available;

    /// x³² + … of Ethernet, bit by bit: the remainder of the words times 1, as numbers without carries.
    const POLYNOMIAL: u64 = 0x1_04c1_1db7;

    fn power(n: u32) -> u32 {
        (0..n).fold(1u64, |rest, _| {
            let rest = rest << 1;
            if rest >> 32 == 0 { rest } else { rest ^ POLYNOMIAL }
        }) as u32
    }

    fn remainder(words: impl Iterator<Item = u64>) -> u64 {
        words.fold(0, |rest, word| {
            (0..64).rev().fold(rest, |rest, bit| {
                let rest = rest << 1 | word >> bit & 1;
                if rest >> 32 == 0 { rest } else { rest ^ POLYNOMIAL }
            })
        })
    }

    #[test]
    fn what_is_left_of_rows_has_their_remainder_with_every_set() {
        let keys = FoldKeys { row: [power(576), power(512)], lane: [power(192), power(128)] };
        let mut seed = 1u64;
        let mut rows: Vec<[u8; FOLD_ROW]> = Vec::new();
        for count in 0..40 {
            let state = seed.rotate_left(7);
            let words = rows.iter().flat_map(|row| row.as_chunks::<8>().0);
            let mut words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
            if let Some(first) = words.first_mut() {
                *first ^= state;
            }
            let plain = fold_plain(state, &rows, &keys);
            assert_eq!(plain.is_some(), count > 0);
            if let Some(plain) = plain {
                assert_eq!(remainder(plain.into_iter()), remainder(words.into_iter()), "{count}");
            }
            for set in available() {
                assert_eq!(set.fold(state, &rows, &keys), plain, "{set} {count}");
            }
            rows.push(std::array::from_fn(|_| {
                seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed >> 29;
                (seed >> 32) as u8
            }));
        }
    }
}
