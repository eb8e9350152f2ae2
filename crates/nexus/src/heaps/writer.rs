//! The file: groups, datasets that grow by rows, flush and close.

use std::ops::Range;
use std::path::{Path, PathBuf};

use fullcount_core::heaps::ItemProduct;
use fullcount_core::number::NumberType;
use fullcount_io::building::{Building, Leftover, landing};
use fullcount_io::heaps::{HeapRow, HeapWriter};
use fullcount_spead::describe::NumpyHeader;
use hdf5_metno::{Dataset, Extent, File, Group};

use super::types::descriptor;
use crate::Compression;
use crate::layout::text_attribute;
use crate::spec::ColumnSpec;
use crate::sys::{self, FileMode};

/// Bytes of a chunk of an array, about.
const CHUNK: usize = 1 << 20;
/// Rows of a chunk of a table.
const TABLE_ROWS: usize = 1 << 12;
/// Rows of tables that wait in memory.
const WAITING: usize = 1 << 12;

/// A table's column, and values that wait.
#[derive(Debug)]
struct Column {
    dataset: Dataset,
    rows: usize,
    waiting: Vec<i64>,
}

impl Column {
    fn make(
        group: &Group,
        name: &str,
        meaning: &str,
        compression: Compression,
    ) -> hdf5_metno::Result<Column> {
        let spec = ColumnSpec::new(name, NumberType::I64, TABLE_ROWS).with("long_name", meaning);
        spec.create(group, compression)?;
        Ok(Column { dataset: group.dataset(name)?, rows: 0, waiting: Vec::new() })
    }

    fn push(&mut self, value: i64) -> hdf5_metno::Result<()> {
        self.waiting.push(value);
        if self.waiting.len() >= WAITING { self.empty() } else { Ok(()) }
    }

    fn empty(&mut self) -> hdf5_metno::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (start, end) = (self.rows, self.rows + self.waiting.len());
        self.dataset.resize(end)?;
        self.dataset.write_slice(&self.waiting, start..end)?;
        self.rows = end;
        self.waiting.clear();
        Ok(())
    }
}

/// An array.
#[derive(Debug)]
struct Array {
    values: Dataset,
    rows: usize,
    heap: Column,
    /// Rows have no bytes: only their number grows.
    empty: bool,
}

/// An open file of heaps.
#[derive(Debug)]
pub(super) struct HdfHeaps {
    // Declared in closing order: datasets before the file.
    arrays: Vec<Array>,
    heaps: Vec<Column>,
    missing: Vec<Column>,
    items: Option<Group>,
    file: Option<File>,
    building: Building,
    path: PathBuf,
    replace: bool,
    compression: Compression,
    table_rows: i64,
}

const HEAP_COLUMNS: [(&str, &str); 6] = [
    ("number", "number of the heap, as its sender gave it"),
    ("time_ns", "when its first packet came, ns since 1970; 0: unknown"),
    ("length", "bytes of its payload; -1: unknown"),
    ("received", "bytes of payload that are there"),
    ("missing", "bytes of payload that are missing"),
    ("complete", "1: nothing is missing"),
];
const MISSING_COLUMNS: [(&str, &str); 3] = [
    ("heap", "row of /heaps"),
    ("start", "first missing byte of the payload"),
    ("end", "first byte behind the missing ones"),
];

impl HdfHeaps {
    pub fn create(
        path: &Path,
        replace: bool,
        compression: Compression,
        facts: &[(&'static str, String)],
    ) -> Result<HdfHeaps, String> {
        let path = landing(path);
        let shown = path.display().to_string();
        let left = if replace { Leftover::Removed } else { Leftover::Kept };
        if !replace && path.symlink_metadata().is_ok() {
            return Err(format!(
                "{shown}: the file exists; replace it with overwrite = true, or choose another path"
            ));
        }
        let building = Building::reserve(&path, ".part", left).map_err(|e| said(&shown, &e))?;
        let words = |e: hdf5_metno::Error| format!("{}: {e}", building.path().display());
        let file = sys::open(building.path(), FileMode::Create).map_err(words)?;
        let make = || -> hdf5_metno::Result<(Vec<Column>, Vec<Column>, Group)> {
            for (name, text) in facts {
                text_attribute(&file, name, text)?;
            }
            let columns = |name: &str, all: &[(&str, &str)]| {
                let group = file.create_group(name)?;
                all.iter().map(|(n, about)| Column::make(&group, n, about, compression)).collect()
            };
            let heaps: hdf5_metno::Result<Vec<Column>> = columns("heaps", &HEAP_COLUMNS);
            let missing: hdf5_metno::Result<Vec<Column>> = columns("missing", &MISSING_COLUMNS);
            Ok((heaps?, missing?, file.create_group("items")?))
        };
        let (heaps, missing, items) = make().map_err(words)?;
        Ok(HdfHeaps {
            arrays: Vec::new(),
            heaps,
            missing,
            items: Some(items),
            file: Some(file),
            building,
            path,
            replace,
            compression,
            table_rows: 0,
        })
    }

    fn words(&self, e: &hdf5_metno::Error) -> String {
        format!("{}: {e}", self.building.path().display())
    }

    fn array(&self, name: &str, item: &ItemProduct, of: &NumpyHeader) -> hdf5_metno::Result<Array> {
        let items = self.items.as_ref().ok_or("the file is closed")?;
        let group = items.create_group(name)?;
        text_attribute(&group, "name", &item.name)?;
        text_attribute(&group, "description", &item.description)?;
        text_attribute(&group, "numpy", &item.header)?;
        group.new_attr::<u64>().create("id")?.write_scalar(&item.id)?;
        let ty = descriptor(&of.of).ok_or("a type that HDF5 does not have")?;
        let bytes = of.bytes().map_err(|e| e.to_string())?;
        let row: Vec<usize> = of.shape.iter().map(|&n| n.max(1)).collect();
        let rows = (CHUNK / bytes.max(1)).clamp(1, 1 << 12);
        // A chunk has less than 4 GiB; of larger rows the first dimension is divided.
        let mut chunk: Vec<usize> = [rows].into_iter().chain(row).collect();
        let each = of.of.size().map_err(|e| e.to_string())?;
        for dimension in 0..chunk.len() {
            while chunk.iter().product::<usize>() * each > 1 << 28 && chunk[dimension] > 1 {
                chunk[dimension] = chunk[dimension].div_ceil(2);
            }
        }
        let shape: Vec<Extent> = [Extent::resizable(0)]
            .into_iter()
            .chain(of.shape.iter().map(|&n| Extent::fixed(n.max(1))))
            .collect();
        let mut builder = group.new_dataset_builder().chunk(chunk);
        if let Compression::Gzip(level) = self.compression {
            builder = builder.shuffle().deflate(level);
        }
        let values = builder.empty_as(&ty).shape(shape).create("values")?;
        let heap = Column::make(&group, "heap", "row of /heaps", self.compression)?;
        Ok(Array { values, rows: 0, heap, empty: bytes == 0 })
    }

    fn rows(&mut self) -> hdf5_metno::Result<()> {
        for array in &mut self.arrays {
            array.heap.empty()?;
        }
        self.missing.iter_mut().chain(&mut self.heaps).try_for_each(Column::empty)
    }
}

fn said(path: &str, e: &fullcount_io::building::BuildingError) -> String {
    use fullcount_io::building::BuildingError as E;
    match e {
        E::Path { fault, .. } => format!("{path}: {fault}"),
        E::InUse { .. } => format!("{path}: another run is writing it"),
        E::Left { path } => format!(
            "{}: left by a run that did not end; move it away, or replace it with overwrite = true",
            path.display()
        ),
        E::Io { doing, source, .. } => format!("{path}: cannot {doing}: {source}"),
    }
}

impl HeapWriter for HdfHeaps {
    fn begin(&mut self, name: &str, item: &ItemProduct, of: &NumpyHeader) -> Result<(), String> {
        let made = self.array(name, item, of).map_err(|e| self.words(&e))?;
        self.arrays.push(made);
        Ok(())
    }

    fn append(
        &mut self,
        array: usize,
        heap: u64,
        of: &NumpyHeader,
        bytes: &[u8],
    ) -> Result<u64, String> {
        self.building.keep();
        let little = of.little_endian(bytes).ok_or_else(|| "an array that is cut".to_owned())?;
        let append = |array: &mut Array| -> hdf5_metno::Result<()> {
            let mut shape = array.values.shape();
            shape[0] = array.rows + 1;
            array.values.resize(shape)?;
            if !array.empty {
                sys::write_row_bytes(&array.values, array.rows, &little)?;
            }
            array.rows += 1;
            array.heap.push(heap as i64)
        };
        let Some(array) = self.arrays.get_mut(array) else {
            return Err("an array that is none".to_owned());
        };
        match append(array) {
            Ok(()) => Ok(little.len() as u64 + 8),
            Err(e) => Err(self.words(&e)),
        }
    }

    fn heap(&mut self, row: HeapRow, missing: &[Range<u64>]) -> Result<(), String> {
        self.building.keep();
        let at = self.table_rows;
        let mut push = || -> hdf5_metno::Result<()> {
            for gap in missing {
                let values = [at, gap.start as i64, gap.end as i64];
                self.missing.iter_mut().zip(values).try_for_each(|(c, value)| c.push(value))?;
            }
            let values = [
                row.number as i64,
                row.time_ns,
                row.length,
                row.received as i64,
                row.missing as i64,
                i64::from(row.complete),
            ];
            self.heaps.iter_mut().zip(values).try_for_each(|(c, value)| c.push(value))
        };
        push().map_err(|e| format!("{}: {e}", self.building.path().display()))?;
        self.table_rows += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.rows().map_err(|e| self.words(&e))?;
        let flushed = self.file.as_ref().map_or(Ok(()), |file| file.flush());
        flushed.map_err(|e| self.words(&e))
    }

    fn close(&mut self) -> Result<(String, u64), String> {
        self.building.keep();
        self.flush()?;
        self.arrays.clear();
        self.heaps.clear();
        self.missing.clear();
        self.items = None;
        if let Some(file) = self.file.take() {
            file.close().map_err(|e| self.words(&e))?;
        }
        let part = self.building.path().display().to_string();
        let moved = match self.replace {
            true => self.building.move_to(&self.path),
            false => self.building.move_to_free(&self.path),
        };
        moved.map_err(|e| format!("{part}: cannot give the finished file its name: {e}"))?;
        let bytes = self.path.metadata().map_or(0, |about| about.len());
        Ok((self.path.display().to_string(), bytes))
    }
}
