//! Datasets that only grow: one row is a value, an image or an array; written in whole chunks.
//!
//! A [`GrowingColumn`] buffers values until a chunk is full, or until the file is flushed; a chunk is then one write
//! that bypasses HDF5's cache. Large columns of events come in blocks instead, without that buffer: by HDF5, through a
//! [`RowDisk`], or as compressed chunks. Columns are flushed in the order of their [`FlushPhase`], because a reader may
//! see any mixture of flushed datasets (`docs/formats/nexus.md` section 4). Values and shapes were checked before.
//! Source: HDF5 1.14 reference manual, H5D.

use std::fmt::Debug;
use std::ops::Range;

use hdf5_metno::filters::Filter;
use hdf5_metno::{Dataset, Group, H5Type, Result};

use super::cells::Cells;
use super::disk::RowDisk;
use super::sys;

/// When a column is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlushPhase {
    /// First: what other columns point to.
    Bulk,
    /// Positions within the bulk.
    Index,
    /// Times, by which readers count rows.
    Time,
    /// Tables of contents.
    Cue,
}

impl FlushPhase {
    /// In the order of a flush.
    pub const ALL: [FlushPhase; 4] =
        [FlushPhase::Bulk, FlushPhase::Index, FlushPhase::Time, FlushPhase::Cue];
}

/// What a flush needs of a column of any type.
pub trait StoredColumn: Debug {
    /// When it is flushed.
    fn phase(&self) -> FlushPhase;
    /// Its absolute path and the rows in it, those in memory too.
    fn extent(&self) -> (String, u64);
    /// Writes what is in memory and flushes, if there was anything.
    fn commit(&mut self) -> Result<()>;
}

/// A dataset that grows.
#[derive(Debug)]
pub struct GrowingColumn<T> {
    dataset: Dataset,
    phase: FlushPhase,
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
    /// First row and length in bytes of the chunk that was placed last.
    placed: Option<(usize, usize)>,
}

impl<T: H5Type> GrowingColumn<T> {
    /// Opens the dataset `name`, to append to it.
    ///
    /// # Errors
    /// The library's message; a single value, which cannot grow.
    pub fn open(group: &Group, name: &str, phase: FlushPhase) -> Result<GrowingColumn<T>> {
        let dataset = group.dataset(name)?;
        let shape = dataset.shape();
        let (&written, row) = shape.split_first().ok_or("a scalar cannot grow")?;
        let row = row.to_vec();
        let each: usize = row.iter().product();
        let chunk = dataset.chunk().map_or(1, |chunk| chunk[0]) * each;
        let (buffer, dirty, placed) = (Vec::new(), false, None);
        Ok(GrowingColumn { dataset, phase, row, each, chunk, written, buffer, dirty, placed })
    }

    /// Rows so far, those in memory too.
    pub fn rows(&self) -> usize {
        self.written + self.buffer.len() / self.each
    }

    /// Rows in the file.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Values of a row.
    pub fn each(&self) -> usize {
        self.each
    }

    /// Bytes that wait in memory.
    pub fn waiting(&self) -> usize {
        self.buffer.len() * size_of::<T>()
    }

    /// One value of a column of single values.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<()> {
        self.buffer.push(value);
        self.write_whole()
    }

    /// Whole rows. Those of later phases stay in memory until the flush: what they point to comes first.
    pub fn extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<()> {
        self.buffer.extend(values);
        self.write_whole()
    }

    fn write_whole(&mut self) -> Result<()> {
        if self.phase != FlushPhase::Bulk {
            return Ok(());
        }
        let begun = self.written * self.each % self.chunk;
        let whole = (begun + self.buffer.len()) / self.chunk * self.chunk;
        match whole.checked_sub(begun) {
            Some(n @ 1..) => self.put(n),
            _ => Ok(()),
        }
    }

    /// Writes the first `n` values in memory.
    fn put(&mut self, n: usize) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.append(&buffer[..n]);
        if written.is_ok() {
            buffer.drain(..n);
        }
        self.buffer = buffer;
        written
    }

    /// Writes whole rows past the memory of this column, which is empty or begins with them.
    pub fn append(&mut self, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let begin = self.written;
        self.grow(begin + values.len() / self.each)?;
        sys::write_rows(&self.dataset, begin, &self.row, values)
    }

    /// Makes the dataset `rows` long, if it is shorter.
    fn grow(&mut self, rows: usize) -> Result<()> {
        if rows > self.written {
            let shape: Vec<usize> = [rows].into_iter().chain(self.row.iter().copied()).collect();
            self.dataset.resize(shape)?;
            self.written = rows;
        }
        self.dirty = true;
        Ok(())
    }

    /// Rows in the file, of a column of single values.
    pub fn read(&self, rows: Range<usize>) -> Result<Vec<T>> {
        Ok(self.dataset.read_slice_1d::<T, _>(rows)?.into_iter().collect())
    }

    /// The last value in the file, if there is one.
    pub fn last(&self) -> Result<Option<T>> {
        match self.written {
            0 => Ok(None),
            n => Ok(self.read(n - 1..n)?.into_iter().next()),
        }
    }
}

impl GrowingColumn<i32> {
    /// As [`GrowingColumn::append`]; `values` can be filled again. Large amounts go to `disk`, and are in the file when
    /// it has settled.
    ///
    /// # Errors
    /// The library's words, or those of the disk.
    pub(super) fn lay(&mut self, values: &mut Cells, disk: &RowDisk) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let begin = self.written;
        self.grow(begin + values.len())?;
        let parts = sys::lay_rows(&self.dataset, begin, values)?;
        let laid: usize = parts.iter().map(|part| part.bytes).sum();
        disk.written(values.bytes().len() - laid);
        if !parts.is_empty() {
            let next = disk.write(std::mem::take(values), parts);
            *values = next.map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// True if its chunks have the filters of [`GrowingColumn::place`]: a file that is gone on with may have been made without.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.dataset.filters()[..], [Filter::Shuffle, Filter::Deflate(_)])
    }

    /// The values of the chunk that is begun, to be put into its place again with more ([`GrowingColumn::place`]).
    pub(super) fn begun(&mut self) -> Result<Vec<i32>> {
        let first = self.written - self.written % self.chunk;
        if first == self.written {
            return Ok(Vec::new());
        }
        self.placed = Some((first, sys::chunk_bytes(&self.dataset, first)?));
        self.read(first..self.written)
    }

    /// Puts the finished chunk that begins at row `first` into the file, also in place of an earlier one that had fewer
    /// values; the dataset has `end` values then. `packed`: a zlib stream.
    pub(super) fn place(&mut self, first: usize, end: usize, packed: &mut Vec<u8>) -> Result<()> {
        if self.placed == Some((first, packed.len())) {
            // HDF5 would write over a chunk of the same length where it is, and a kill in the middle of that would cost
            // events that were flushed. With another length it gets a new place. Inflate ends before this byte.
            packed.push(0);
        }
        self.grow(end)?;
        sys::write_chunk(&self.dataset, first, packed)?;
        self.placed = Some((first, packed.len()));
        Ok(())
    }
}

impl<T: H5Type + Debug> StoredColumn for GrowingColumn<T> {
    fn phase(&self) -> FlushPhase {
        self.phase
    }

    fn extent(&self) -> (String, u64) {
        (self.dataset.name(), self.rows() as u64)
    }

    fn commit(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.put(self.buffer.len())?;
        }
        if self.dirty {
            sys::flush(&self.dataset)?;
            self.dirty = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::deflate::{Deflater, shuffle};
    use super::super::sys::FileMode;
    use super::*;

    /// What HDF5 reads of chunks that it did not compress, the last one three times with increasing numbers of values,
    /// and once more after the file was reopened.
    #[test]
    fn a_chunk_that_comes_again_is_read_whole_and_goes_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.h5");
        let chunk = 1024;
        let values: Vec<i32> = (0..2500).map(|i| i * 77 % 5000).collect();
        sys::create(&path, |file| {
            let made = file.new_dataset::<i32>().chunk(chunk).shuffle().deflate(1);
            made.shape((hdf5_metno::Extent::resizable(0),)).create("d").map(drop)
        })
        .unwrap();
        let mut deflater = Deflater::new(1);
        let mut pack = |first: usize, end: usize| {
            let mut planes = vec![9; 4 * chunk];
            shuffle(&values[first..end], &mut planes, 0, chunk);
            let mut packed = Vec::new();
            deflater.pack(&planes, end - first, &mut packed);
            packed
        };
        let mut lengths = Vec::new();
        for again in [false, true] {
            let file = sys::open_for_readers(&path, FileMode::Write { cache: 0 }).unwrap();
            let mut column = GrowingColumn::open(&file, "d", FlushPhase::Bulk).unwrap();
            let all = [(0, 1024), (1024, 2048), (2048, 2300), (2048, 2500), (2048, 2500)];
            let rest = if again { &all[4..] } else { &all[..] };
            let begun = column.begun().unwrap();
            assert_eq!(begun, if again { &values[2048..] } else { &[] });
            for &(first, end) in rest {
                let mut packed = pack(first, end);
                column.place(first, end, &mut packed).unwrap();
                column.commit().unwrap();
                assert_eq!((column.rows(), column.written()), (end, end));
                lengths.push(packed.len());
                let read = file.dataset("d").unwrap().read_raw::<i32>().unwrap();
                assert_eq!(read, &values[..end], "the planes behind the values count as zeros");
            }
            drop(column);
            sys::close(file, ()).unwrap();
        }
        assert_eq!(lengths[4], lengths[3] + 1, "the same again is not written over the same");
        assert_eq!(lengths[5], lengths[3], "nor after a restart: that one has another length");
        let file = sys::open(&path, FileMode::Read).unwrap();
        assert_eq!(file.dataset("d").unwrap().read_raw::<i32>().unwrap(), values);
    }
}
