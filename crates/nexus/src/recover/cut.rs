//! Makes a file that was not closed readable by every reader, with a number of rows that was stored elsewhere.
//!
//! The consistency flags are cleared ([`clear_flags`]), then each column is cut to its last flush. Repeating it is safe. Refuses a
//! file with fewer rows than its last flush had. Source: `docs/formats/nexus.md` section 4; `docs/decisions`, write journal.

use std::fs;
use std::path::Path;

use hdf5_metno::{Dataset, File, Result};

use crate::error::{NexusError, hdf5_error, io_error};
use crate::file::RowCounts;
use crate::superblock::Superblock;
use crate::sys::{self, FileMode};

/// Makes a file that was not closed readable by everyone, with exactly `rows` in its columns.
///
/// # Errors
/// No HDF5 file of ours, fewer rows than that, or the words of the system or the library.
pub fn cut(path: &Path, rows: &RowCounts) -> std::result::Result<(), NexusError> {
    let file = fs::File::options().read(true).write(true).open(path);
    let file = file.map_err(io_error(path, "open the file"))?;
    let length = file.metadata().map_err(io_error(path, "read the file's size"))?.len();
    let superblock = Superblock::read(&file).map_err(io_error(path, "read the file"))?;
    let superblock = superblock.map_err(|reason| NexusError::Hdf5 {
        path: path.to_owned(),
        doing: "take up the file".into(),
        message: reason.to_string(),
    })?;
    if superblock.unfinished(length) {
        clear_flags(path, &file, superblock, length)?;
    }
    drop(file);
    cut_columns(path, rows).map_err(hdf5_error(path, "cut the file to its last commit"))
}

/// Clears the flags of a file of `length` bytes that was not closed, and extends it to the end address that it holds:
/// after a full disk, or a kill between the library's last metadata write and its truncate, it is too short.
pub(super) fn clear_flags(
    path: &Path,
    file: &fs::File,
    superblock: Superblock,
    length: u64,
) -> std::result::Result<(), NexusError> {
    let length = length.max(superblock.end());
    file.set_len(length).map_err(io_error(path, "extend the file"))?;
    let cleared = superblock.cleared(length).write(file);
    cleared.map_err(io_error(path, "clear the consistency flags"))
}

fn cut_columns(path: &Path, rows: &RowCounts) -> Result<()> {
    let file = sys::open(path, FileMode::Write { cache: 1 << 20 })?;
    let mut columns = Vec::with_capacity(rows.len());
    match shorten(&file, rows, &mut columns) {
        Ok(()) => sys::close(file, columns),
        Err(error) => {
            sys::let_go(file, columns);
            Err(error)
        }
    }
}

fn shorten(file: &File, rows: &RowCounts, columns: &mut Vec<Dataset>) -> Result<()> {
    for (name, &rows) in rows {
        columns.push(file.dataset(name)?);
        let Some(dataset) = columns.last() else { continue };
        let Some(&length) = dataset.shape().first() else { continue };
        let rows = rows as usize;
        if length < rows {
            let words = format!("{name} has {length} rows instead of {rows}: the file is damaged");
            return Err(words.into());
        }
        set_rows(dataset, rows)?;
    }
    Ok(())
}

/// Makes the dataset `rows` long, for rows of any kind, and flushes it if it was not.
pub(super) fn set_rows(dataset: &Dataset, rows: usize) -> Result<()> {
    let mut shape = dataset.shape();
    match shape.first_mut() {
        Some(length) if *length != rows => *length = rows,
        _ => return Ok(()),
    }
    dataset.resize(shape)?;
    sys::flush(dataset)
}
