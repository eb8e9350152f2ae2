//! Tables in an HDF5 file: a group for each, in it a dataset for each column, with `units` and `long_name`.
//!
//! The file is in SWMR mode while it grows: a flush writes all columns, so that a reader of what a killed run left finds every
//! row up to the last flush. Refuses what the library refuses.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use fullcount_core::tables::{ColumnType, Table, Values};
use fullcount_core::wall::WallClock;
use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{Dataset, Extent, File, Group, H5Type, Location, Result};

use super::block::Block;
use super::options::{TableOptions, joined};
use crate::nexus::Compression;
use crate::nexus::sys::{self, Access};

/// Rows of a chunk: 256 KiB of doubles, a quarter of a second-level cache.
pub(super) const CHUNK_ROWS: usize = 1 << 15;

/// Cache of each column, so that a chunk stays until it is full: three of them.
const CACHE_BYTES: usize = 3 * CHUNK_ROWS * size_of::<u64>();

/// A group under way.
#[derive(Debug)]
struct Columns {
    columns: Vec<Dataset>,
    rows: usize,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Hdf5 {
    // Declared in closing order: datasets before the file.
    tables: Vec<Columns>,
    /// `None` once it is closed.
    file: Option<File>,
    wall: Option<Arc<WallClock>>,
}

impl Drop for Hdf5 {
    /// After a failure: closed all the same, lest the library trip over it later.
    fn drop(&mut self) {
        let sound = self.flush().is_ok();
        if let Some(file) = self.file.take() {
            let tables = std::mem::take(&mut self.tables);
            // Who failed has said so. The disk may be another one's.
            let _ =
                if sound { sys::close(file, tables).is_ok() } else { sys::let_go(file, tables) };
        }
    }
}

impl Hdf5 {
    /// Makes the structure at `path` and opens it for growing.
    pub fn create(path: &Path, tables: &[Table], options: &TableOptions) -> Result<Hdf5> {
        build(path, tables, options)?;
        let file = sys::open_for_readers(path, Access::Write { cache: CACHE_BYTES })?;
        sys::or_let_go(file, |file| {
            let open = |table: &Table| -> Result<Columns> {
                let group = file.group(table.name())?;
                let columns = table.columns().iter().map(|column| group.dataset(column.name));
                Ok(Columns { columns: columns.collect::<Result<_>>()?, rows: 0 })
            };
            let tables = tables.iter().map(open).collect::<Result<_>>()?;
            Ok(Hdf5 { tables, file: Some(file), wall: options.wall.clone() })
        })
    }

    /// Rows that a block of table `at` should have, so that chunks are written once.
    pub fn room(&self, at: usize) -> usize {
        CHUNK_ROWS - self.tables[at].rows % CHUNK_ROWS
    }

    /// Appends rows to table `at`.
    pub fn append(&mut self, at: usize, block: &Block) -> Result<()> {
        let table = &mut self.tables[at];
        let (start, end) = (table.rows, table.rows + block.rows());
        for (dataset, values) in table.columns.iter().zip(block.values()) {
            dataset.resize(end)?;
            match values {
                Values::U8(v) => dataset.write_slice(v, start..end)?,
                Values::U16(v) => dataset.write_slice(v, start..end)?,
                Values::U32(v) => dataset.write_slice(v, start..end)?,
                Values::U64(v) => dataset.write_slice(v, start..end)?,
                Values::I64(v) => dataset.write_slice(v, start..end)?,
                Values::F64(v) => dataset.write_slice(v, start..end)?,
            }
        }
        table.rows = end;
        Ok(())
    }

    /// Writes everything that is still in memory.
    pub fn flush(&mut self) -> Result<()> {
        for dataset in self.tables.iter().flat_map(|table| &table.columns) {
            sys::flush(dataset)?;
        }
        self.file.as_ref().map_or(Ok(()), |file| file.flush())
    }

    /// Closes the file.
    pub fn close(mut self) -> Result<()> {
        self.flush()?;
        let Some(file) = self.file.take() else { return Ok(()) };
        if let Some(zero) = joined(self.wall.as_deref()) {
            file.attr("epoch_ns")?.write_scalar(&zero)?;
        }
        sys::close(file, std::mem::take(&mut self.tables))
    }
}

/// Rows of each table of a closed file: of its shortest column.
pub(super) fn rows(path: &Path, tables: &[Table]) -> Result<Vec<u64>> {
    let file = sys::open(path, Access::Read)?;
    let count = |table: &Table| -> Result<u64> {
        let group = file.group(table.name())?;
        let mut least = u64::MAX;
        for column in table.columns() {
            least = least.min(group.dataset(column.name)?.size() as u64);
        }
        Ok(least)
    };
    tables.iter().map(count).collect()
}

fn build(path: &Path, tables: &[Table], options: &TableOptions) -> Result<()> {
    sys::create(path, |file| fill(file, tables, options))
}

fn fill(file: &File, tables: &[Table], options: &TableOptions) -> Result<()> {
    for (name, text) in super::sink::facts(options) {
        text_attribute(file, name, &text)?;
    }
    file.new_attr::<i64>().create("epoch_ns")?.write_scalar(&options.epoch.0)?;
    for table in tables {
        let group = file.create_group(table.name())?;
        for column in table.columns() {
            let of = &options.compression;
            let dataset = match column.kind {
                ColumnType::U8 => dataset::<u8>(&group, column.name, of),
                ColumnType::U16 => dataset::<u16>(&group, column.name, of),
                ColumnType::U32 => dataset::<u32>(&group, column.name, of),
                ColumnType::U64 => dataset::<u64>(&group, column.name, of),
                ColumnType::I64 => dataset::<i64>(&group, column.name, of),
                ColumnType::F64 => dataset::<f64>(&group, column.name, of),
            }?;
            text_attribute(&dataset, "long_name", column.meaning)?;
            if !column.unit.is_empty() {
                text_attribute(&dataset, "units", column.unit)?;
            }
        }
    }
    Ok(())
}

fn dataset<T: H5Type>(group: &Group, name: &str, compression: &Compression) -> Result<Dataset> {
    let mut builder = group.new_dataset::<T>().chunk(CHUNK_ROWS);
    if let Compression::Gzip(level) = *compression {
        builder = builder.shuffle().deflate(level);
    }
    builder.shape((Extent::resizable(0),)).create(name)
}

fn text_attribute(at: &Location, name: &str, value: &str) -> Result<()> {
    // HDF5 text ends at a NUL; one in a configuration file is shown as U+FFFD instead.
    let text = VarLenUnicode::from_str(&value.replace('\0', "\u{fffd}"));
    let text = text.map_err(|e| format!("text of {name}: {e:?}"))?;
    at.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&text)
}
