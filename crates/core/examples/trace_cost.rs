//! What a trace costs where it is not built in: `cargo xtask test trace` compares the instructions of [`steps`] with the trace, without it
//! (`--cfg no_trace`), and with the feature.
#![allow(unexpected_cfgs, reason = "given by `cargo xtask test trace` alone")]

/// A loop as it is on the path of a packet.
#[inline(never)]
fn steps(values: &[u64]) -> u64 {
    let mut sum = 0u64;
    for (at, value) in values.iter().enumerate() {
        #[cfg(not(no_trace))]
        fullcount_core::trace!(Data, Debug, "value {at} is {}", value.leading_zeros());
        sum = sum.rotate_left(3) ^ value.wrapping_mul(at as u64 | 1);
    }
    sum
}

fn main() {
    std::hint::black_box(steps(&std::hint::black_box([1, 2, 3])));
}
