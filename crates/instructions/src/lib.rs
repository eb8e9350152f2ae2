//! Instruction sets: which ones this processor has, and [`Work`] that is compiled for each of them.
//!
//! One portable binary holds a loop several times, for the instructions that every processor of its target has and for
//! two larger sets. The set is chosen once, when a run begins ([`Instructions`]); a call then costs one comparison.
//! Results are the same to the last bit: the compiler neither reorders sums of floating-point numbers nor joins a
//! product and a sum unless the source says so, with any set.
//!
//! [`PagesAhead`] asks for memory ahead, for who copies a long row; [`stream_into`] copies past the cache. Refuses the name of a set that this
//! processor does not have. `unsafe` is used in `sets`, `ahead` and `streaming` only. The crate
//! `multiversion` is not used: it chooses at the first call, so its choice can neither be switched off nor tested set
//! by set, and its macro writes `unsafe` into the caller. Source: x86-64 psABI, "Micro-Architecture Levels";
//! `docs/decisions/0016-instruction-sets.md`.
#![deny(unsafe_code)]

mod ahead;
mod carryless;
mod sets;
mod streaming;

pub use ahead::{PagesAhead, next_page_ahead};
pub use carryless::{FOLD_ROW, FoldKeys};
use sets::CarrylessProduct;
pub use sets::{Portable, Set};
pub use streaming::{stream_into, stream_onto};

use std::fmt;

/// A computation that gains from a larger set of instructions.
///
/// `run` and what it calls in its inner loop must be `#[inline(always)]`: a function that is called, and not
/// inlined, is compiled for the smallest set.
pub trait Work {
    /// What comes of it.
    type Output;

    /// Does it with the instructions of `set`, from which its constants may be asked.
    fn run<S: Set>(self, set: S) -> Self::Output;
}

/// One of the sets that this processor has; [`Default`] is the largest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Instructions(Any, Option<CarrylessProduct>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Any {
    Portable(Portable),
    #[cfg(target_arch = "x86_64")]
    V3(sets::V3),
    #[cfg(target_arch = "x86_64")]
    V4(sets::V4),
}

/// What was asked for is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("auto, or one that this processor has: {}", available().map(Instructions::name).collect::<Vec<_>>().join(", "))]
pub struct NotThere;

/// Every set that this processor has, from the smallest to the largest.
pub fn available() -> impl Iterator<Item = Instructions> {
    let portable = Some(Any::Portable(Portable));
    #[cfg(target_arch = "x86_64")]
    let all = [portable, sets::V3::new().map(Any::V3), sets::V4::new().map(Any::V4)];
    #[cfg(not(target_arch = "x86_64"))]
    let all = [portable];
    all.into_iter().flatten().map(|set| match set {
        Any::Portable(_) => Instructions::PORTABLE,
        #[cfg(target_arch = "x86_64")]
        larger => Instructions(larger, CarrylessProduct::new()),
    })
}

impl Instructions {
    /// What the binary was compiled for: every processor of its target has it.
    pub const PORTABLE: Instructions = Instructions(Any::Portable(Portable), None);

    /// `auto` for the largest, or a name of [`Instructions::name`].
    ///
    /// # Errors
    /// No such set, or none that this processor has; the sentence says which there are.
    pub fn named(name: &str) -> Result<Instructions, NotThere> {
        match name {
            "auto" => Ok(Instructions::default()),
            _ => available().find(|set| set.name() == name).ok_or(NotThere),
        }
    }

    /// `portable`, `x86-64-v3` or `x86-64-v4-vbmi`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Any::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Any::V3(_) => "x86-64-v3",
            #[cfg(target_arch = "x86_64")]
            Any::V4(_) => "x86-64-v4-vbmi",
        }
    }

    /// True if [`Instructions::fold`] is quicker than tables.
    #[inline]
    pub fn multiplies_carryless(self) -> bool {
        self.1.is_some()
    }

    /// Folds rows for a checksum ([`FoldKeys`]): 16 bytes that have their remainder, as two words, the first with the higher powers.
    /// `state` is added to the first word. `None` without rows.
    #[inline]
    pub fn fold(self, state: u64, rows: &[[u8; FOLD_ROW]], keys: &FoldKeys) -> Option<[u64; 2]> {
        match self.1 {
            #[cfg(target_arch = "x86_64")]
            Some(product) => product.fold(state, rows, keys),
            _ => carryless::fold_plain(state, rows, keys),
        }
    }

    /// Does `work` with these instructions.
    #[inline]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Any::Portable(set) => set.call(work),
            #[cfg(target_arch = "x86_64")]
            Any::V3(set) => set.call(work),
            #[cfg(target_arch = "x86_64")]
            Any::V4(set) => set.call(work),
        }
    }
}

impl Default for Instructions {
    fn default() -> Self {
        available().last().unwrap_or(Instructions::PORTABLE)
    }
}

impl fmt::Debug for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u32]);

    impl Work for Sum<'_> {
        type Output = (u32, bool);

        #[inline(always)]
        fn run<S: Set>(self, _: S) -> (u32, bool) {
            let sum = self.0.iter().fold(0u32, |sum, n| sum.wrapping_add(n.wrapping_mul(3)));
            (sum, S::SHUFFLES_BYTES)
        }
    }

    #[test]
    fn every_set_that_is_there_does_the_same_work() {
        let numbers: Vec<u32> = (0..1003u32).map(|n| n.wrapping_mul(2_654_435_769)).collect();
        let plain = numbers.iter().fold(0u32, |sum, n| sum.wrapping_add(n.wrapping_mul(3)));
        for set in available() {
            let (sum, shuffles) = set.run(Sum(&numbers));
            assert_eq!(sum, plain, "{set}");
            assert!(shuffles || !set.name().contains("vbmi"), "{set}");
        }
    }

    #[test]
    fn names_are_read_and_others_refused_with_what_there_is() {
        for set in available() {
            assert_eq!(Instructions::named(set.name()), Ok(set));
        }
        assert_eq!(Instructions::named("auto"), Ok(Instructions::default()));
        assert_eq!(Instructions::named("portable"), Ok(Instructions::PORTABLE));
        for wrong in ["", "Portable", "avx2", "x86-64-v9"] {
            let said = Instructions::named(wrong).unwrap_err().to_string();
            let known = "auto, or one that this processor has: portable";
            assert!(said.starts_with(known), "{said}");
        }
    }

    #[test]
    fn sets_rise_from_the_portable_one_and_the_largest_is_the_default() {
        let all: Vec<Instructions> = available().collect();
        let names: Vec<&str> = all.iter().map(|set| set.name()).collect();
        let known = ["portable", "x86-64-v3", "x86-64-v4-vbmi"];
        assert_eq!(names, known[..names.len()], "a larger one holds the smaller ones");
        assert_eq!(all.last(), Some(&Instructions::default()));
    }
}
