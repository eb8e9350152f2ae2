//! The sets, each a value that exists only if the processor has it, and the `unsafe` calls.
//!
//! There are two sets besides the portable one. `x86-64-v3` (AVX2, BMI: Haswell, Zen and later; with the carry-less product, which all of
//! them have). `x86-64-v4-vbmi`
//! (AVX-512 with byte shuffles over whole registers: Ice Lake, Zen 4 and later). AVX-512 without VBMI is not a set: the
//! gain here comes from those shuffles, and such processors use `x86-64-v3`. A missing set gives `None`.
#![allow(unsafe_code)]

use crate::Work;
use crate::carryless::{self, FOLD_ROW, FoldKeys};

mod sealed {
    pub trait Sealed {}
}

/// A set of instructions. A value of it exists only on a processor that has them.
pub trait Set: Copy + sealed::Sealed {
    /// Bytes can be shuffled over a whole register in one instruction (AVX-512 VBMI).
    const SHUFFLES_BYTES: bool;

    /// Folds rows for a checksum ([`FoldKeys`]): 16 bytes that have their remainder, as two words, the first with the higher powers.
    /// `state` is added to the first word. `None` without rows.
    fn fold(self, state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]>;

    /// Runs `work` in a separate function, compiled for this set and never inlined into the caller.
    fn call<W: Work>(self, work: W) -> W::Output;
}

/// What the binary was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portable;

impl sealed::Sealed for Portable {}

impl Set for Portable {
    const SHUFFLES_BYTES: bool = cfg!(target_feature = "avx512vbmi");

    fn fold(self, state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]> {
        carryless::fold_plain(state, rows, keys)
    }

    #[inline(never)]
    fn call<W: Work>(self, work: W) -> W::Output {
        work.run(self)
    }
}

/// Defines a set by its doc, its name, whether it has byte shuffles, and the processor's features. Each is written
/// once, so the detected features are those that are used.
#[cfg(target_arch = "x86_64")]
macro_rules! set {
    ($(#[$doc:meta])* $name:ident, $shuffles:expr, $($feature:tt),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(());

        impl $name {
            /// The proof that this processor and its system have it.
            pub fn new() -> Option<$name> {
                ($(std::arch::is_x86_feature_detected!($feature))&&+).then_some($name(()))
            }
        }

        impl sealed::Sealed for $name {}

        impl Set for $name {
            const SHUFFLES_BYTES: bool = $shuffles;

            #[inline]
            fn fold(self, state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]> {
                // SAFETY: the processor has the product, which is among the features that were detected when `self` was made.
                unsafe { carryless::x86::fold(state, rows, keys) }
            }

            #[inline]
            fn call<W: Work>(self, work: W) -> W::Output {
                #[inline(never)]
                $(#[target_feature(enable = $feature)])+
                fn compiled_for_it<W: Work>(set: $name, work: W) -> W::Output {
                    work.run(set)
                }
                // SAFETY: a function with target features is safe to call where the processor has all of them. `self`
                // is made by `new` only (its field is private to this module), and only if each was detected.
                unsafe { compiled_for_it(self, work) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
set!(
    /// x86-64-v3.
    V3,
    cfg!(target_feature = "avx512vbmi"),
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma",
    "lzcnt", "movbe", "pclmulqdq"
);

#[cfg(target_arch = "x86_64")]
set!(
    /// x86-64-v4 and AVX-512 VBMI.
    V4,
    true,
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma",
    "lzcnt", "movbe", "pclmulqdq", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi"
);
