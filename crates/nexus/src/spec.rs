//! Specification of a growing dataset: name, type, chunk and attributes.
//! Source: `docs/formats/nexus.md` sections 1 to 3.

use fullcount_core::number::NumberType;
use fullcount_core::with_number;
use hdf5_metno::plist::dataset_create::FillTime;
use hdf5_metno::types::FixedUnicode;
use hdf5_metno::{Dataset, Extent, Group, Result};

use super::layout::{EPOCH, text_attribute};
use fullcount_io::compression::Compression;

/// Bytes of a [`ShortText`].
pub const TEXT_BYTES: usize = 200;

/// Text of fixed length: the only kind that may be appended while others read.
pub type ShortText = FixedUnicode<TEXT_BYTES>;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    /// Numbers.
    Number(NumberType),
    /// A [`ShortText`].
    Text,
}

impl CellType {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            CellType::Number(number) => number.bytes(),
            CellType::Text => TEXT_BYTES,
        }
    }
}

impl From<NumberType> for CellType {
    fn from(number: NumberType) -> CellType {
        CellType::Number(number)
    }
}

/// A column to make.
#[derive(Debug, Clone)]
pub struct ColumnSpec {
    name: String,
    cell: CellType,
    /// Shape of a row; empty for a single value.
    row: Vec<usize>,
    /// Rows of a chunk.
    chunk: usize,
    attributes: Vec<(&'static str, String)>,
    /// Chunks are beyond the library's cache if nothing compresses them.
    large: bool,
}

impl ColumnSpec {
    /// A column of single values without attributes, `chunk` of them in a chunk.
    pub fn new(name: &str, cell: impl Into<CellType>, chunk: usize) -> ColumnSpec {
        let (name, cell) = (name.to_owned(), cell.into());
        ColumnSpec { name, cell, row: Vec::new(), chunk, attributes: Vec::new(), large: false }
    }

    /// The same with rows of this shape.
    #[must_use]
    pub fn rows(mut self, row: &[usize]) -> ColumnSpec {
        self.row = row.to_vec();
        self
    }

    /// The same of events: chunks are beyond the library's cache if nothing compresses them.
    #[must_use]
    pub fn large(mut self) -> ColumnSpec {
        self.large = true;
        self
    }

    /// The same with an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> ColumnSpec {
        self.attributes.push((name, value.into()));
        self
    }

    /// The same as times: ns since 1970, which the attribute `epoch` says. Exactly one ISO date: with two, scippnexus leaves
    /// bare integers.
    #[must_use]
    pub fn times(self, epoch: &'static str) -> ColumnSpec {
        self.with("units", "ns").with(epoch, EPOCH)
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        let lengths = self.row.iter().map(|&n| n as u64);
        lengths.chain([self.chunk as u64]).fold(self.cell.bytes() as u64, u64::saturating_mul)
    }

    /// Makes the dataset, empty.
    pub fn create(&self, group: &Group, compression: Compression) -> Result<()> {
        macro_rules! make {
            ($type:ty) => {{
                let chunk: Vec<usize> =
                    [self.chunk].into_iter().chain(self.row.iter().copied()).collect();
                let mut builder = group.new_dataset::<$type>().chunk(chunk);
                if let Compression::Gzip(level) = compression {
                    builder = builder.shuffle().deflate(level);
                } else if self.large {
                    // Each row is written before it counts. The library copies a chunk that it has to fill first to its
                    // cache, at any size.
                    builder = builder.fill_time(FillTime::Never);
                }
                let shape: Vec<Extent> = [Extent::resizable(0)]
                    .into_iter()
                    .chain(self.row.iter().map(|&length| Extent::fixed(length)))
                    .collect();
                builder.shape(shape).create(self.name.as_str())?
            }};
        }
        let dataset: Dataset = match self.cell {
            CellType::Text => make!(ShortText),
            CellType::Number(number) => with_number!(number, T => make!(T)),
        };
        for (name, value) in &self.attributes {
            text_attribute(&dataset, name, value)?;
        }
        Ok(())
    }
}
