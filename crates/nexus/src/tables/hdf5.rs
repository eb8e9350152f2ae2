//! Tables in an HDF5 file: a group for each, in it a dataset for each column, with `units` and `long_name`.
//!
//! The file is in SWMR mode while it grows: a flush writes all columns, so that after a kill a reader finds every row
//! up to the last flush. Refuses what the library refuses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fullcount_core::tables::{Table, Values};
use fullcount_core::wall::WallClock;
use hdf5_metno::{Dataset, File, Result};

use super::block::Block;
use super::error::{TableError, library_error};
use super::options::{TableOptions, joined};
use crate::column::{FlushPhase, StoredColumn};
use crate::file::{FileContents, FileStream, OpenFile};
use crate::layout::text_attribute;
use crate::spec::ColumnSpec;
use crate::sys::{self, FileMode};

/// Rows of a chunk: 256 KiB of doubles, a quarter of a second-level cache.
pub(super) const CHUNK_ROWS: usize = 1 << 15;

/// Cache of each column, so that a chunk stays until it is full: three of them.
const CACHE_BYTES: usize = 3 * CHUNK_ROWS * size_of::<u64>();

/// A dataset whose rows wait in HDF5's cache until the flush.
#[derive(Debug)]
struct CachedColumn(Dataset);

impl StoredColumn for CachedColumn {
    fn phase(&self) -> FlushPhase {
        FlushPhase::Bulk
    }

    fn extent(&self) -> (String, u64) {
        (self.0.name(), self.0.size() as u64)
    }

    fn commit(&mut self) -> Result<()> {
        sys::flush(&self.0)
    }
}

/// An open group.
#[derive(Debug)]
struct TableGroup {
    columns: Vec<CachedColumn>,
    rows: usize,
}

impl FileStream for TableGroup {
    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        self.columns.iter_mut().map(|column| column as &mut dyn StoredColumn).collect()
    }
}

/// The groups of a file, and its own handle for the attribute that is written last.
#[derive(Debug)]
struct TableGroups {
    groups: Vec<TableGroup>,
    file: File,
}

impl FileContents for TableGroups {
    fn streams(&mut self) -> Vec<&mut dyn FileStream> {
        self.groups.iter_mut().map(|group| group as &mut dyn FileStream).collect()
    }
}

/// An open file, whose place the sink holds.
#[derive(Debug)]
pub(super) struct Hdf5 {
    /// `None` once it is closed.
    open: Option<OpenFile<TableGroups, PathBuf>>,
    wall: Option<Arc<WallClock>>,
}

impl Drop for Hdf5 {
    /// After a failure: closed as well, because the library would fail on it later.
    fn drop(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        // Who failed has said so. The disk may be another one's.
        match open.flush() {
            Ok(()) => open.leave(),
            Err(_) => drop(open.let_go()),
        }
    }
}

impl Hdf5 {
    /// Makes the structure at `path` and opens it for growing.
    pub fn create(
        path: &Path,
        tables: &[Table],
        options: &TableOptions,
    ) -> std::result::Result<Hdf5, TableError> {
        let made = sys::create(path, |file| fill(file, tables, options));
        made.map_err(library_error(path, "create the file"))?;
        let group = |file: &File, table: &Table| -> Result<TableGroup> {
            let group = file.group(table.name())?;
            let column = |name| group.dataset(name).map(CachedColumn);
            let columns = table.columns().iter().map(|c| column(c.name)).collect::<Result<_>>()?;
            Ok(TableGroup { columns, rows: 0 })
        };
        let with = |file: &File| {
            let groups = tables.iter().map(|table| group(file, table)).collect::<Result<_>>()?;
            Ok(TableGroups { groups, file: file.clone() })
        };
        let refused = |doing, e| library_error(path, doing)(e);
        let open = OpenFile::open(path.to_owned(), CACHE_BYTES, None, with, refused)?;
        Ok(Hdf5 { open: Some(open), wall: options.wall.clone() })
    }

    /// Rows that a block of table `at` should have, so that chunks are written once.
    pub fn room(&self, at: usize) -> usize {
        let rows = self.open.as_ref().map_or(0, |open| open.contents().groups[at].rows);
        CHUNK_ROWS - rows % CHUNK_ROWS
    }

    /// Appends rows to table `at`.
    pub fn append(&mut self, at: usize, block: &Block) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let table = &mut open.contents_mut().groups[at];
        let (start, end) = (table.rows, table.rows + block.rows());
        for (CachedColumn(dataset), values) in table.columns.iter().zip(block.values()) {
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
        self.open.as_mut().map_or(Ok(()), OpenFile::flush)
    }

    /// Closes the file.
    pub fn close(mut self) -> Result<()> {
        self.flush()?;
        let Some(open) = self.open.take() else { return Ok(()) };
        let zero = joined(self.wall.as_deref());
        let attribute = open.contents().file.attr("epoch_ns");
        let written = zero.map_or(Ok(()), |zero| attribute?.write_scalar(&zero));
        match written.and_then(|()| open.flush_rest()) {
            Ok(()) => open.close().map(drop),
            Err(e) => {
                open.let_go();
                Err(e)
            }
        }
    }
}

/// Rows of each table of a closed file: of its shortest column.
pub(super) fn rows(path: &Path, tables: &[Table]) -> Result<Vec<u64>> {
    let file = sys::open(path, FileMode::Read)?;
    let count = |table: &Table| -> Result<u64> {
        let group = file.group(table.name())?;
        let rows = |name| group.dataset(name).map(|column| column.size() as u64);
        table.columns().iter().try_fold(u64::MAX, |least, c| Ok(least.min(rows(c.name)?)))
    };
    tables.iter().map(count).collect()
}

fn fill(file: &File, tables: &[Table], options: &TableOptions) -> Result<()> {
    for (name, text) in super::sink::facts(options) {
        text_attribute(file, name, &text)?;
    }
    file.new_attr::<i64>().create("epoch_ns")?.write_scalar(&options.epoch.0)?;
    for table in tables {
        let group = file.create_group(table.name())?;
        for column in table.columns() {
            let spec = ColumnSpec::new(column.name, column.kind, CHUNK_ROWS);
            let spec = spec.with("long_name", column.meaning);
            let spec = if column.unit.is_empty() { spec } else { spec.with("units", column.unit) };
            spec.create(&group, options.compression)?;
        }
    }
    Ok(())
}
