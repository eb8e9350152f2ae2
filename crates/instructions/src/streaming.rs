//! Copies whose bytes go past the cache into memory: for who will not look at them soon.
//!
//! What is in the cache stays there, and the line that is written is not read first. Whoever reads the bytes next waits for memory.
//! On other processors than x86-64 it is a plain copy. Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Nontemporal
//! Store Instructions".
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Bytes of a line of the cache: a whole one is written at once, in parts of [`PART`].
const LINE: usize = 64;
#[cfg(all(target_arch = "x86_64", not(miri)))]
const PART: usize = 16;

/// Copies `from` to `to`.
///
/// # Panics
/// If their lengths differ.
#[inline]
pub fn stream_into(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "as many bytes there as here");
    // SAFETY: initialised bytes are valid as such that may be uninitialised, and `stream` writes nothing but bytes of `from` there.
    stream(unsafe { &mut *(std::ptr::from_mut(to) as *mut [MaybeUninit<u8>]) }, from);
}

/// Adds `from` at the end of `to`.
#[inline]
pub fn stream_onto(to: &mut Vec<u8>, from: &[u8]) {
    to.reserve(from.len());
    stream(&mut to.spare_capacity_mut()[..from.len()], from);
    // SAFETY: room for them was reserved, and `stream` has written each of them.
    unsafe { to.set_len(to.len() + from.len()) };
}

/// Writes every byte of `to`, which is as long as `from`.
fn stream(to: &mut [MaybeUninit<u8>], from: &[u8]) {
    let begin = (to.as_ptr().addr().next_multiple_of(LINE) - to.as_ptr().addr()).min(from.len());
    let lines = (from.len() - begin) / LINE * LINE;
    let (first, rest) = from.split_at(begin);
    let (middle, last) = rest.split_at(lines);
    let (to_first, to_rest) = to.split_at_mut(begin);
    let (to_middle, to_last) = to_rest.split_at_mut(lines);
    to_first.write_copy_of_slice(first);
    stream_lines(to_middle, middle);
    to_last.write_copy_of_slice(last);
}

/// Whole lines; `to` begins with one.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stream_lines(to: &mut [MaybeUninit<u8>], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    for (to, from) in to.chunks_exact_mut(LINE).zip(from.chunks_exact(LINE)) {
        let (to, from) = (to.as_mut_ptr(), from.as_ptr());
        for at in (0..LINE).step_by(PART) {
            // SAFETY: both are `LINE` bytes long, so that `PART` bytes from `at` on lie in them; `to` is at a multiple of 64, as the
            // store asks of its address (16), and the load asks for none. Every x86-64 processor has both (SSE2).
            unsafe {
                let part = _mm_loadu_si128(from.add(at).cast::<__m128i>());
                _mm_stream_si128(to.add(at).cast::<__m128i>(), part);
            }
        }
    }
    // SAFETY: every x86-64 processor has it. These stores are not ordered with later ones: without the fence another thread could be
    // told of the bytes before they are there.
    unsafe { _mm_sfence() };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream_lines(to: &mut [MaybeUninit<u8>], from: &[u8]) {
    to.write_copy_of_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_place_gives_the_same_bytes_and_touches_no_others() {
        let all: Vec<u8> = (0..600u32).map(|n| (n ^ (n >> 3)) as u8 | 1).collect();
        for length in (0..200).chain([255, 256, 257, 500]) {
            for place in [0, 1, 15, 16, 63, 64] {
                let from = &all[place % 7..][..length];
                let mut there = vec![0; 800];
                stream_into(&mut there[place..place + length], from);
                assert_eq!(&there[place..place + length], from, "{length} B at {place}");
                let others = there[..place].iter().chain(&there[place + length..]);
                assert!(others.into_iter().all(|byte| *byte == 0), "{length} B at {place}");
                let mut grown = all[..place].to_vec();
                stream_onto(&mut grown, from);
                assert_eq!(grown, [&all[..place], from].concat(), "{length} B behind {place}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "as many bytes there as here")]
    fn other_lengths_are_refused() {
        stream_into(&mut [0; 4], &[0; 5]);
    }
}
