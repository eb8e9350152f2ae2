//! The sets, each a value that exists only if the processor has it, and the `unsafe` calls.
//!
//! There are two sets besides the portable one. `x86-64-v3` (AVX2, BMI: Haswell, Zen and later). `x86-64-v4-vbmi`
//! (AVX-512 with byte shuffles over whole registers: Ice Lake, Zen 4 and later). AVX-512 without VBMI is not a set: the
//! gain here comes from those shuffles, and such processors use `x86-64-v3`. A missing set gives `None`.
#![allow(unsafe_code)]

use crate::Work;
#[cfg(target_arch = "x86_64")]
use crate::carryless::{self, FOLD_ROW, FoldKeys};

mod sealed {
    pub trait Sealed {}
}

/// A set of instructions. A value of it exists only on a processor that has them.
pub trait Set: Copy + sealed::Sealed {
    /// Bytes can be shuffled over a whole register in one instruction (AVX-512 VBMI).
    const SHUFFLES_BYTES: bool;

    /// Runs `work` in a separate function, compiled for this set and never inlined into the caller.
    fn call<W: Work>(self, work: W) -> W::Output;
}

/// What the binary was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portable;

impl sealed::Sealed for Portable {}

impl Set for Portable {
    const SHUFFLES_BYTES: bool = cfg!(target_feature = "avx512vbmi");

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
    "lzcnt", "movbe"
);

#[cfg(target_arch = "x86_64")]
set!(
    /// x86-64-v4 and AVX-512 VBMI.
    V4,
    true,
    "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma",
    "lzcnt", "movbe", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vbmi"
);

/// The carry-less product, which belongs to no level: every processor with AVX2 has it, but a virtual machine may hide it. A value of it
/// exists only where it is there.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CarrylessProduct(());

#[cfg(target_arch = "x86_64")]
impl CarrylessProduct {
    /// The proof that this processor and its system have it.
    pub fn new() -> Option<CarrylessProduct> {
        std::arch::is_x86_feature_detected!("pclmulqdq").then_some(CarrylessProduct(()))
    }

    /// As [`carryless::fold_plain`].
    #[inline]
    pub fn fold(self, state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]> {
        // SAFETY: `self` is made by `new` only (its field is private to this module), and only if the product was detected; the
        // function's other feature, SSE2, is in every x86-64.
        unsafe { carryless::x86::fold(state, rows, keys) }
    }
}

/// Other processors: there is none.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use std::convert::Infallible as CarrylessProduct;
