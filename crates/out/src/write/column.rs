//! Datasets that only grow: one row a value, an image or an array; whole chunks at a time.
//!
//! A [`Column`] keeps what it is given until a chunk is full, or until the file is committed; a chunk is then one
//! write past HDF5's cache. Columns are flushed in the order of their [`Phase`], because a reader may see any mixture
//! of flushed datasets (`docs/formats/nexus.md` section 4). Refuses nothing: shapes were checked before.

use std::fmt::Debug;
use std::str::FromStr;

use hdf5_metno::plist::dataset_create::FillTime;
use hdf5_metno::types::FixedUnicode;
use hdf5_metno::{Dataset, Extent, Group, H5Type, Result};

use super::structure::Dtype;
use crate::nexus::Compression;
use crate::nexus::cells::Cells;
use crate::nexus::disk::Disk;
use crate::nexus::layout::text_attribute;
use crate::nexus::sys;

/// Bytes of an alarm's words.
pub(super) const TEXT_BYTES: usize = 200;

/// Text of fixed length: the only kind that may be appended while others read.
pub(super) type ShortText = FixedUnicode<TEXT_BYTES>;

/// When a column is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// First: what other columns point to.
    Bulk,
    /// Positions within the bulk.
    Index,
    /// Times, by which readers count rows.
    Time,
    /// Tables of contents.
    Cue,
}

impl Phase {
    /// In the order of a flush.
    pub(super) const ALL: [Phase; 4] = [Phase::Bulk, Phase::Index, Phase::Time, Phase::Cue];
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number(Dtype),
    Text,
}

/// A column to make.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Shape of a row; empty for a single value.
    pub(super) row: Vec<usize>,
    /// Rows of a chunk.
    pub(super) chunk: usize,
    pub(super) attributes: Vec<(&'static str, String)>,
    /// Chunks are beyond the library's cache if nothing compresses them.
    pub(super) large: bool,
}

impl Spec {
    /// A column of numbers without attributes.
    pub(super) fn new(name: &str, dtype: Dtype, chunk: usize) -> Spec {
        let kind = Kind::Number(dtype);
        let name = name.to_owned();
        Spec { name, kind, row: Vec::new(), chunk, attributes: Vec::new(), large: false }
    }

    /// The same with rows of this shape.
    pub(super) fn rows(mut self, row: &[usize]) -> Spec {
        self.row = row.to_vec();
        self
    }

    /// The same of events: chunks are beyond the library's cache if nothing compresses them.
    pub(super) fn large(mut self) -> Spec {
        self.large = true;
        self
    }

    /// The same with an attribute.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Spec {
        self.attributes.push((name, value.into()));
        self
    }

    /// The same as times: ns since 1970, which the attribute `epoch` says.
    pub(super) fn times(self, epoch: &'static str) -> Spec {
        self.with("units", "ns").with(epoch, crate::nexus::layout::EPOCH)
    }

    /// Bytes of a chunk.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let each = match self.kind {
            Kind::Number(dtype) => dtype.bytes(),
            Kind::Text => TEXT_BYTES,
        };
        let lengths = self.row.iter().map(|&n| n as u64);
        lengths.chain([self.chunk as u64]).fold(each as u64, u64::saturating_mul)
    }

    /// Makes the dataset, empty.
    pub(super) fn create(&self, group: &Group, compression: Compression) -> Result<()> {
        macro_rules! make {
            ($type:ty) => {{
                let chunk: Vec<usize> =
                    [self.chunk].into_iter().chain(self.row.iter().copied()).collect();
                let mut builder = group.new_dataset::<$type>().chunk(chunk);
                if let Compression::Gzip(level) = compression {
                    builder = builder.shuffle().deflate(level);
                } else if self.large {
                    // Each row is written before it counts. A chunk that the library would have to fill first it copies
                    // to its cache, whatever the size.
                    builder = builder.fill_time(FillTime::Never);
                }
                let shape: Vec<Extent> = [Extent::resizable(0)]
                    .into_iter()
                    .chain(self.row.iter().map(|&length| Extent::fixed(length)))
                    .collect();
                builder.shape(shape).create(self.name.as_str())?
            }};
        }
        let dataset: Dataset = match self.kind {
            Kind::Text => make!(ShortText),
            Kind::Number(Dtype::I8) => make!(i8),
            Kind::Number(Dtype::U8) => make!(u8),
            Kind::Number(Dtype::I16) => make!(i16),
            Kind::Number(Dtype::U16) => make!(u16),
            Kind::Number(Dtype::I32) => make!(i32),
            Kind::Number(Dtype::U32) => make!(u32),
            Kind::Number(Dtype::I64) => make!(i64),
            Kind::Number(Dtype::U64) => make!(u64),
            Kind::Number(Dtype::F32) => make!(f32),
            Kind::Number(Dtype::F64) => make!(f64),
        };
        for (name, value) in &self.attributes {
            text_attribute(&dataset, name, value)?;
        }
        Ok(())
    }
}

/// What a commit needs of a column, whatever its type.
pub(super) trait Stored: Debug {
    /// When it is flushed.
    fn phase(&self) -> Phase;
    /// Its absolute path and the rows in it, those in memory too.
    fn extent(&self) -> (String, u64);
    /// Writes what is in memory and flushes, if there was anything.
    fn commit(&mut self) -> Result<()>;
}

/// A dataset that grows.
#[derive(Debug)]
pub(super) struct Column<T> {
    dataset: Dataset,
    phase: Phase,
    row: Vec<usize>,
    /// Values of a row.
    each: usize,
    /// Values of a chunk.
    chunk: usize,
    /// Rows in the file.
    written: usize,
    /// Values that are not.
    buffer: Vec<T>,
    dirty: bool,
}

impl<T: H5Type> Column<T> {
    /// Opens the dataset `name`; it goes on behind what is there.
    pub(super) fn open(group: &Group, name: &str, phase: Phase) -> Result<Column<T>> {
        let dataset = group.dataset(name)?;
        let shape = dataset.shape();
        let (&written, row) = shape.split_first().ok_or("a scalar cannot grow")?;
        let row = row.to_vec();
        let each: usize = row.iter().product();
        let chunk = dataset.chunk().map_or(1, |chunk| chunk[0]) * each;
        Ok(Column { dataset, phase, row, each, chunk, written, buffer: Vec::new(), dirty: false })
    }

    /// Rows so far, those in memory too.
    pub(super) fn rows(&self) -> usize {
        self.written + self.buffer.len() / self.each
    }

    /// Values of a row.
    pub(super) fn each(&self) -> usize {
        self.each
    }

    /// Bytes that wait in memory.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len() * size_of::<T>()
    }

    /// One value of a column of single values.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> Result<()> {
        self.buffer.push(value);
        self.write_whole()
    }

    /// Whole rows. Those of later phases stay in memory until the commit: what they point to comes first.
    pub(super) fn extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<()> {
        self.buffer.extend(values);
        self.write_whole()
    }

    fn write_whole(&mut self) -> Result<()> {
        if self.phase != Phase::Bulk {
            return Ok(());
        }
        let begun = self.written * self.each % self.chunk;
        let whole = (begun + self.buffer.len()) / self.chunk * self.chunk;
        match whole.checked_sub(begun) {
            Some(n @ 1..) => {
                self.put(n)?;
                self.buffer.drain(..n);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes the first `n` values in memory.
    fn put(&mut self, n: usize) -> Result<()> {
        let end = self.written + n / self.each;
        let shape: Vec<usize> = [end].into_iter().chain(self.row.iter().copied()).collect();
        self.dataset.resize(shape)?;
        sys::write_rows(&self.dataset, self.written, &self.row, &self.buffer[..n])?;
        self.written = end;
        self.dirty = true;
        Ok(())
    }

    /// Writes values past the memory of this column, which is empty.
    pub(super) fn write_now(&mut self, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let end = self.written + values.len() / self.each;
        let shape: Vec<usize> = [end].into_iter().chain(self.row.iter().copied()).collect();
        self.dataset.resize(shape)?;
        sys::write_rows(&self.dataset, self.written, &self.row, values)?;
        self.written = end;
        self.dirty = true;
        Ok(())
    }

    /// Rows in the file.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Rows in the file, of a column of single values.
    pub(super) fn read(&self, rows: std::ops::Range<usize>) -> Result<Vec<T>> {
        Ok(self.dataset.read_slice_1d::<T, _>(rows)?.into_iter().collect())
    }

    /// The last value in the file, if there is one.
    pub(super) fn last(&self) -> Result<Option<T>> {
        match self.written {
            0 => Ok(None),
            n => Ok(self.dataset.read_slice_1d::<T, _>(n - 1..n)?.into_iter().next()),
        }
    }
}

impl Column<i32> {
    /// As [`Column::write_now`]; `values` are to be begun anew. With a `disk`, the bytes of many are on their way to it, and in the
    /// file once it has settled.
    pub(super) fn write_cells(&mut self, values: &mut Cells, disk: Option<&Disk>) -> Result<()> {
        let Some(disk) = disk else { return self.write_now(values) };
        if values.is_empty() {
            return Ok(());
        }
        let end = self.written + values.len();
        self.dataset.resize(end)?;
        let parts = sys::lay_rows(&self.dataset, self.written, values)?;
        if !parts.is_empty() {
            let next = disk.write(std::mem::take(values), parts);
            *values = next.map_err(|e| e.to_string())?;
        }
        self.written = end;
        self.dirty = true;
        Ok(())
    }
}

impl<T: H5Type + Debug> Stored for Column<T> {
    fn phase(&self) -> Phase {
        self.phase
    }

    fn extent(&self) -> (String, u64) {
        (self.dataset.name(), self.rows() as u64)
    }

    fn commit(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.put(self.buffer.len())?;
            self.buffer.clear();
        }
        if self.dirty {
            sys::flush(&self.dataset)?;
            self.dirty = false;
        }
        Ok(())
    }
}

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
        }
    )+};
}
real! { f32 f64 }

macro_rules! any {
    ($($member:ident $t:ty;)+) => {
        /// A column of numbers whose type the structure gives.
        #[derive(Debug)]
        pub(super) enum AnyColumn { $($member(Column<$t>),)+ }

        impl AnyColumn {
            /// Opens the dataset `name`.
            pub(super) fn open(group: &Group, name: &str, dtype: Dtype, phase: Phase) -> Result<AnyColumn> {
                Ok(match dtype { $(Dtype::$member => AnyColumn::$member(Column::open(group, name, phase)?),)+ })
            }

            /// Its type.
            pub(super) fn dtype(&self) -> Dtype {
                match self { $(AnyColumn::$member(_) => Dtype::$member,)+ }
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
            pub(super) fn stored(&mut self) -> &mut dyn Stored {
                match self { $(AnyColumn::$member(column) => column,)+ }
            }
        }
    };
}
any! {
    I8 i8; U8 u8; I16 i16; U16 u16; I32 i32; U32 u32; I64 i64; U64 u64; F32 f32; F64 f64;
}

/// Rows of a chunk of about 1 MiB, or fewer if `wanted` says so: a chunk is a write.
pub(super) fn chunk_rows(dtype: Dtype, row: &[usize], wanted: Option<usize>) -> usize {
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
        assert_eq!(chunk_rows(Dtype::F64, &[], None), 131_072);
        assert_eq!(chunk_rows(Dtype::U16, &[1024, 1024], None), 1);
        assert_eq!(chunk_rows(Dtype::F64, &[], Some(1024)), 1024);
        assert_eq!(chunk_rows(Dtype::F64, &[1000], Some(1024)), 131);
    }
}
