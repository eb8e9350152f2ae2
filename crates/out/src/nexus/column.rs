//! A one-dimensional dataset that only grows: by values, which HDF5 takes and compresses, or by whole chunks that are
//! compressed already.
//!
//! Refuses nothing: its values were checked before. Source: HDF5 1.14 reference manual, H5D.

use hdf5_metno::{Dataset, Group, H5Type, Result};

use super::sys;

/// A dataset and its length.
#[derive(Debug)]
pub(super) struct Column {
    dataset: Dataset,
    /// Values of the dataset in the file; of one with [`Column::place`] fewer than were taken.
    len: usize,
    /// First row and length in bytes of the chunk that was placed last.
    placed: Option<(usize, usize)>,
}

impl Column {
    pub(super) fn open(group: &Group, name: &str) -> Result<Column> {
        let dataset = group.dataset(name)?;
        let len = dataset.size();
        Ok(Column { dataset, len, placed: None })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds values behind the last one.
    pub(super) fn append<T: H5Type>(&mut self, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let end = self.len + values.len();
        self.dataset.resize(end)?;
        self.dataset.write_slice(values, self.len..end)?;
        self.len = end;
        Ok(())
    }

    /// Puts the finished chunk that begins at row `first` into the file, also in place of an earlier one that had fewer
    /// values; the dataset has `end` values then. `packed`: a zlib stream.
    pub(super) fn place(&mut self, first: usize, end: usize, packed: &mut Vec<u8>) -> Result<()> {
        if self.placed == Some((first, packed.len())) {
            // HDF5 would write over a chunk of the same length where it is, and a kill in the middle of that would cost
            // events that were flushed. Of another length it goes to a place of its own. Inflate ends before this byte.
            packed.push(0);
        }
        if end > self.len {
            self.dataset.resize(end)?;
            self.len = end;
        }
        sys::write_chunk(&self.dataset, first, packed)?;
        self.placed = Some((first, packed.len()));
        Ok(())
    }

    pub(super) fn flush(&self) -> Result<()> {
        sys::flush(&self.dataset)
    }
}

#[cfg(test)]
mod tests {
    use super::super::deflate::{Deflater, shuffle};
    use super::super::sys::Access;
    use super::*;

    /// What HDF5 reads of chunks that it did not compress, the last one three times with more and more values.
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
        let file = sys::open_for_readers(&path, Access::Write { cache: 0 }).unwrap();
        let mut column = Column::open(&file, "d").unwrap();
        let mut deflater = Deflater::new(1);
        let mut lengths = Vec::new();
        for (first, end) in [(0, 1024), (1024, 2048), (2048, 2300), (2048, 2500), (2048, 2500)] {
            let mut planes = vec![9; 4 * chunk];
            shuffle(&values[first..end], &mut planes, 0, chunk);
            let mut packed = Vec::new();
            deflater.pack(&planes, end - first, &mut packed);
            column.place(first, end, &mut packed).unwrap();
            column.flush().unwrap();
            assert_eq!(column.len(), end);
            lengths.push(packed.len());
            let read = file.dataset("d").unwrap().read_raw::<i32>().unwrap();
            assert_eq!(read, &values[..end], "the planes behind the values count as zeros");
        }
        assert_eq!(lengths[4], lengths[3] + 1, "the same again is not written over the same");
        drop(column);
        sys::close(file, ()).unwrap();
        let file = sys::open(&path, Access::Read).unwrap();
        assert_eq!(file.dataset("d").unwrap().read_raw::<i32>().unwrap(), values);
    }
}
