//! Columns whose type the structure gives, and numbers on their way to them.
//!
//! A column is [`fullcount_nexus::column::GrowingColumn`]; here its type is chosen. Numbers are converted and never cut. Refuses
//! numbers that the type cannot hold.

use std::fmt::Debug;
use std::str::FromStr;

use hdf5_metno::{Group, H5Type, Result};

use super::structure::NumberType;
pub(super) use fullcount_nexus::column::{FlushPhase, GrowingColumn, StoredColumn};
pub(super) use fullcount_nexus::spec::{CellType, ColumnSpec, ShortText, TEXT_BYTES};

/// The words, cut at a character's end to what a [`ShortText`] holds; NUL, where HDF5 text ends, is left out.
pub(super) fn short(words: &str) -> ShortText {
    let clean: String = words.chars().filter(|&c| c != '\0').collect();
    let end = (0..=clean.len().min(TEXT_BYTES)).rev().find(|&i| clean.is_char_boundary(i));
    ShortText::from_str(&clean[..end.unwrap_or(0)]).unwrap_or_default()
}

/// A number on its way from a message to a dataset of some type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Whole(i128),
    Real(f64),
}

/// Number types of datasets.
pub(super) trait Element: H5Type + Copy + Debug {
    /// The number as this type, if it can hold it: whole numbers exactly, floats rounded to the nearest.
    fn of(number: Number) -> Option<Self>;
    /// From as many little-endian bytes as the type has.
    fn of_bytes(bytes: &[u8]) -> Self;
    /// Itself.
    fn number(self) -> Number;
}

macro_rules! whole {
    ($($t:ty)+) => {$(
        impl Element for $t {
            fn of(number: Number) -> Option<$t> {
                match number {
                    Number::Whole(n) => <$t>::try_from(n).ok(),
                    Number::Real(x) => (x.fract() == 0.0 && x.abs() < 1e38)
                        .then(|| <$t>::try_from(x as i128).ok())
                        .flatten(),
                }
            }
            fn of_bytes(bytes: &[u8]) -> $t {
                <$t>::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
            fn number(self) -> Number {
                Number::Whole(self.into())
            }
        }
    )+};
}
whole! { i8 u8 i16 u16 i32 u32 i64 u64 }

macro_rules! real {
    ($($t:ty)+) => {$(
        impl Element for $t {
            fn of(number: Number) -> Option<$t> {
                match number {
                    // Only those that it has: above 2^53 (f32: 2^24) it passes over most of them.
                    Number::Whole(n) => (n as $t as i128 == n).then_some(n as $t),
                    // A finite number beyond the type would become infinite.
                    Number::Real(x) => (!x.is_finite() || (x as $t).is_finite()).then_some(x as $t),
                }
            }
            fn of_bytes(bytes: &[u8]) -> $t {
                <$t>::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
            fn number(self) -> Number {
                Number::Real(self.into())
            }
        }
    )+};
}
real! { f32 f64 }

macro_rules! any {
    ($($member:ident $t:ty;)+) => {
        /// A column of numbers whose type the structure gives.
        #[derive(Debug)]
        pub(super) enum AnyColumn { $($member(GrowingColumn<$t>),)+ }

        impl AnyColumn {
            /// Opens the dataset `name`.
            pub(super) fn open(group: &Group, name: &str, dtype: NumberType, phase: FlushPhase) -> Result<AnyColumn> {
                Ok(match dtype { $(NumberType::$member => AnyColumn::$member(GrowingColumn::open(group, name, phase)?),)+ })
            }

            /// Its type.
            pub(super) fn dtype(&self) -> NumberType {
                match self { $(AnyColumn::$member(_) => NumberType::$member,)+ }
            }

            /// Values of a row.
            pub(super) fn each(&self) -> usize {
                match self { $(AnyColumn::$member(column) => column.each(),)+ }
            }

            /// Rows so far.
            pub(super) fn rows(&self) -> usize {
                match self { $(AnyColumn::$member(column) => column.rows(),)+ }
            }

            /// Whole rows of little-endian values of exactly the column's type.
            pub(super) fn extend_bytes(&mut self, bytes: &[u8]) -> Result<()> {
                match self { $(AnyColumn::$member(column) => {
                    column.extend(bytes.chunks_exact(size_of::<$t>()).map(<$t>::of_bytes))
                })+ }
            }

            /// True if the type can hold all of these numbers.
            pub(super) fn holds(&self, mut numbers: impl Iterator<Item = Number>) -> bool {
                match self { $(AnyColumn::$member(_) => numbers.all(|n| <$t>::of(n).is_some()),)+ }
            }

            /// Whole rows of numbers of another type; false, and nothing taken, if one does not fit.
            pub(super) fn extend_numbers(
                &mut self,
                numbers: impl Iterator<Item = Number>,
            ) -> Result<bool> {
                match self { $(AnyColumn::$member(column) => {
                    let Some(all) = numbers.map(<$t>::of).collect::<Option<Vec<_>>>()
                        else { return Ok(false) };
                    column.extend(all).map(|()| true)
                })+ }
            }

            /// For the commit.
            pub(super) fn stored(&mut self) -> &mut dyn StoredColumn {
                match self { $(AnyColumn::$member(column) => column,)+ }
            }
        }
    };
}
any! {
    I8 i8; U8 u8; I16 i16; U16 u16; I32 i32; U32 u32; I64 i64; U64 u64; F32 f32; F64 f64;
}

/// Rows of a chunk of about 1 MiB, or fewer if `wanted` says so: a chunk is a write.
pub(super) fn chunk_rows(dtype: NumberType, row: &[usize], wanted: Option<usize>) -> usize {
    let bytes = dtype.bytes() * row.iter().product::<usize>().max(1);
    let fitting = ((1 << 20) / bytes).max(1);
    wanted.map_or(fitting, |wanted| wanted.min(fitting.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_type_or_are_refused() {
        assert_eq!(i8::of(Number::Whole(-128)), Some(-128));
        assert_eq!(i8::of(Number::Whole(128)), None);
        assert_eq!(u64::of(Number::Whole(u64::MAX.into())), Some(u64::MAX));
        assert_eq!(i32::of(Number::Real(2.5)), None);
        assert_eq!(i32::of(Number::Real(-3.0)), Some(-3));
        assert_eq!(i32::of(Number::Real(f64::NAN)), None);
        assert_eq!(f32::of(Number::Real(1e39)), None, "would become infinite");
        assert_eq!(f32::of(Number::Real(f64::INFINITY)), Some(f32::INFINITY));
        assert_eq!(f64::of(Number::Whole(7)), Some(7.0));
        // Whole numbers that a double, or a float, does not have: never rounded to a neighbour.
        let most = 1_i128 << 53;
        for (n, held) in [(most, true), (most + 1, false), (most + 2, true), (1 << 60, true)] {
            assert_eq!(f64::of(Number::Whole(n)).is_some(), held, "{n}");
            assert_eq!(f64::of(Number::Whole(-n)).is_some(), held, "-{n}");
        }
        assert_eq!(f64::of(Number::Whole(i64::MAX.into())), None);
        assert_eq!(f64::of(Number::Whole(u64::MAX.into())), None);
        assert_eq!(f64::of(Number::Whole(i64::MIN.into())), Some(-9_223_372_036_854_775_808.0));
        assert_eq!(f32::of(Number::Whole((1 << 24) + 1)), None);
        assert_eq!(f32::of(Number::Whole(1 << 24)), Some(16_777_216.0));
        assert_eq!(f32::of(Number::Real(0.1)), Some(0.1), "what is no whole number is rounded");
    }

    #[test]
    fn words_are_cut_at_a_character() {
        assert_eq!(short("a\0b").as_str(), "ab");
        let long = "µ".repeat(150);
        assert_eq!(short(&long).as_str(), "µ".repeat(100));
        assert_eq!(short("").as_str(), "");
    }

    #[test]
    fn a_chunk_is_about_a_mebibyte() {
        assert_eq!(chunk_rows(NumberType::F64, &[], None), 131_072);
        assert_eq!(chunk_rows(NumberType::U16, &[1024, 1024], None), 1);
        assert_eq!(chunk_rows(NumberType::F64, &[], Some(1024)), 1024);
        assert_eq!(chunk_rows(NumberType::F64, &[1000], Some(1024)), 131);
    }
}
