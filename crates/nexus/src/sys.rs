//! The calls of the HDF5 library that its Rust interface does not have: opening without HDF5's own file
//! lock, start of SWMR writing, flush of one dataset, rows of any number of dimensions out of a slice, chunks that are
//! compressed already, and large rows whose bytes the caller writes itself ([`lay_rows`]).
//!
//! HDF5's lock sits on a descriptor that every child process inherits, so a child started at the wrong
//! moment keeps a file locked for its whole life (seen). This module opens without it; the writer and
//! recovery hold the same kind of lock (flock) on a descriptor that children do not inherit, and other
//! HDF5 programs respect that one.
//!
//! Both run under the interface's global lock, which every other HDF5 call of the process takes too:
//! the library is built without its own threads support. Source: HDF5 1.14 reference manual, H5F and H5D.
#![allow(unsafe_code)]

mod divert;
mod driver;
mod environment;

pub use divert::{close, create, let_go, open_for_readers, or_let_go};
pub use driver::DivertedWrite;
pub use environment::ignore_environment;

use std::ffi::CString;
use std::path::Path;

use hdf5_metno::plist::file_access::FileAccess;
use hdf5_metno::{Dataset, Datatype, Error, File, H5Type, Result};
use hdf5_metno_sys::h5d::{
    H5Dflush, H5Dget_chunk_info_by_coord, H5Dget_space, H5Dwrite, H5Dwrite_chunk,
};
use hdf5_metno_sys::h5f::{
    H5F_ACC_RDONLY, H5F_ACC_RDWR, H5F_ACC_TRUNC, H5Fcreate, H5Fopen, H5Fstart_swmr_write,
};
use hdf5_metno_sys::h5p::{H5P_DEFAULT, H5Pset_alignment, H5Pset_driver, H5Pset_file_locking};
use hdf5_metno_sys::h5s::{H5S_SELECT_SET, H5Sclose, H5Screate_simple, H5Sselect_hyperslab};

use fullcount_io::disk::ALIGNED;

/// Boundary at which each object of a new file begins, bytes. Object headers have up to 268 bytes; see [`align`].
const ALIGNED_NEW: u64 = 512;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// For reading.
    Read,
    /// For reading and writing.
    Write {
        /// Chunk cache of each dataset, bytes.
        cache: usize,
    },
    /// For reading and writing; [`lay_rows`] leaves large rows to its caller.
    Apart {
        /// Chunk cache of each dataset, bytes.
        cache: usize,
    },
    /// Created, replacing an existing one.
    Create,
}

/// Result of a call: negative is a failure whose words are on the library's error stack.
fn status(code: i32) -> Result<()> {
    if code < 0 { Err(Error::query().unwrap_or_else(|e| e)) } else { Ok(()) }
}

/// Opens the file at `path` in the format of HDF5 1.10, the oldest that can do SWMR, without a lock.
///
/// # Errors
/// The library's words: no such file, no HDF5 file, not closed by its writer, no space.
pub fn open(path: &Path, access: FileMode) -> Result<File> {
    let name = path.to_str().and_then(|p| CString::new(p).ok());
    let name = name.ok_or("the path is not UTF-8 without NUL")?;
    let mut builder = FileAccess::build();
    // Named, because otherwise HDF5_DRIVER decides.
    builder.libver_v110().sec2();
    if let FileMode::Write { cache } | FileMode::Apart { cache } = access {
        builder.chunk_cache(521, cache, 1.0);
    }
    let fapl = builder.finish()?;
    hdf5_metno::sync::sync(|| {
        // SAFETY: `fapl` is an open file access list; 0 and 1 are the library's false and true.
        status(unsafe { H5Pset_file_locking(fapl.id(), 0, 1) })?;
        if let FileMode::Apart { .. } = access {
            let driver =
                driver::driver().ok_or("HDF5's own driver is not the one that is known")?;
            // SAFETY: the list is open; the driver has a number and no settings of its own.
            status(unsafe { H5Pset_driver(fapl.id(), driver, std::ptr::null()) })?;
        }
        align(&fapl, access)?;
        // SAFETY: `name` ends with NUL and lives beyond the calls; the lists are valid; the lock is held.
        let id = unsafe {
            match access {
                FileMode::Read => H5Fopen(name.as_ptr(), H5F_ACC_RDONLY, fapl.id()),
                FileMode::Write { .. } | FileMode::Apart { .. } => {
                    H5Fopen(name.as_ptr(), H5F_ACC_RDWR, fapl.id())
                }
                FileMode::Create => H5Fcreate(name.as_ptr(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl.id()),
            }
        };
        if id < 0 {
            return Err(Error::query().unwrap_or_else(|e| e));
        }
        // SAFETY: a fresh file id that nobody else holds.
        unsafe { hdf5_metno::from_id(id) }
    })
}

/// Sets where objects of a file begin, so that none that is up to 4 KiB long lies across a boundary of 4 KiB.
///
/// Linux checks for SIGKILL between the pages of a write. Of a header across two pages a killed writer may have left one
/// page new and one old; its checksum is wrong then, and HDF5 does not open the dataset (seen in `nexus_kill`). What begins while
/// the file grows begins at a page. The blocks of a dataset's index of chunks get longer as it grows, and pass 4 KiB after
/// 8,176 chunks, compressed after 2,032: by default these are 8.6 and 2.1 billion events.
fn align(fapl: &FileAccess, access: FileMode) -> Result<()> {
    let boundary = match access {
        FileMode::Read => return Ok(()),
        FileMode::Create => ALIGNED_NEW,
        // Where a disk that is written past the page cache wants it, too.
        FileMode::Write { .. } | FileMode::Apart { .. } => ALIGNED as u64,
    };
    // SAFETY: the list is open; whatever has a byte is aligned.
    status(unsafe { H5Pset_alignment(fapl.id(), 1, boundary) })
}

/// True if files can be opened [`FileMode::Apart`].
pub fn can_lay_rows() -> bool {
    hdf5_metno::sync::sync(|| driver::driver().is_some())
}

/// The values as they lie in memory.
pub fn bytes(values: &[i32]) -> &[u8] {
    // SAFETY: the same memory, borrowed as long; a byte has no alignment and no forbidden value.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// As [`write_rows`] for single values, but returns what the caller has to write: parts of the values' [`bytes`] and
/// their places in the file. There are none for a file that was not opened [`FileMode::Apart`], and none if HDF5 has to
/// convert, compress or collect. They must be written before they are read through HDF5.
///
/// # Errors
/// Those of [`write_rows`]; then nothing is left to be written.
pub fn lay_rows(dataset: &Dataset, first: usize, values: &[i32]) -> Result<Vec<DivertedWrite>> {
    driver::lay(bytes(values), || write_rows(dataset, first, &[], values))
}

/// Switches `file` (open for reading and writing) to SWMR writing: readers may open it from here on.
///
/// # Errors
/// The library's words: a superblock older than version 3, open attributes, a file that cannot be written.
pub fn start_swmr_write(file: &File) -> Result<()> {
    // SAFETY: the id belongs to an open file for as long as `file` is borrowed; the lock is held.
    hdf5_metno::sync::sync(|| status(unsafe { H5Fstart_swmr_write(file.id()) }))
}

/// Writes everything of `dataset` that is still in memory to the file: data first, then its length.
///
/// # Errors
/// The library's words, for example a full disk.
pub fn flush(dataset: &Dataset) -> Result<()> {
    // SAFETY: the id belongs to an open dataset for as long as `dataset` is borrowed; the lock is held.
    hdf5_metno::sync::sync(|| status(unsafe { H5Dflush(dataset.id()) }))
}

/// Writes the chunk of a one-dimensional `dataset` that begins at row `first`, as its filters would have made it: HDF5 looks at
/// none of it. The dataset is long enough already.
///
/// # Errors
/// The library's words: a row at which no chunk begins, a full disk.
pub fn write_chunk(dataset: &Dataset, first: usize, filtered: &[u8]) -> Result<()> {
    let first = first as u64;
    // One place for one dimension: the library reads as many as the dataset has.
    if dataset.ndim() != 1 || filtered.is_empty() {
        return Err("no chunk of a dataset of one dimension".into());
    }
    let (length, bytes) = (filtered.len(), filtered.as_ptr().cast());
    hdf5_metno::sync::sync(|| {
        // SAFETY: the dataset is open and has one dimension, for which `first` is one place; `bytes` are `length` bytes
        // that outlive the call; the lock is held. 0: none of the filters is left out.
        let code = unsafe {
            H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, &raw const first, length, bytes)
        };
        status(code)
    })
}

/// Bytes that the chunk of a one-dimensional `dataset` which begins at row `first` has in the file, as its filters made it.
///
/// # Errors
/// The library's words: a row at which no chunk begins.
pub fn chunk_bytes(dataset: &Dataset, first: usize) -> Result<usize> {
    let first = first as u64;
    if dataset.ndim() != 1 {
        return Err("no chunk of a dataset of one dimension".into());
    }
    let (mut mask, mut at, mut bytes) = (0, 0, 0);
    hdf5_metno::sync::sync(|| {
        // SAFETY: the dataset is open and has one dimension, for which `first` is one place; three numbers are filled; the
        // lock is held.
        let code = unsafe {
            H5Dget_chunk_info_by_coord(
                dataset.id(),
                &raw const first,
                &mut mask,
                &mut at,
                &mut bytes,
            )
        };
        status(code)
    })?;
    usize::try_from(bytes).map_err(|e| e.to_string().into())
}

/// Writes a block of elements of the memory type `kind` from `from`.
///
/// # Safety
/// The library's lock is held; `kind` is an open type; `start` and `count` have the rank of the dataset; at `from` are as many elements of
/// that type as the block has.
unsafe fn write_block(
    dataset: &Dataset,
    kind: i64,
    start: &[u64],
    count: &[u64],
    from: *const std::ffi::c_void,
) -> Result<()> {
    // SAFETY: the dataset is open; the space that comes back is closed below.
    let file = unsafe { H5Dget_space(dataset.id()) };
    // SAFETY: `count` has as many entries as the rank says; no maximum is given.
    let memory = unsafe { H5Screate_simple(count.len() as i32, count.as_ptr(), std::ptr::null()) };
    let written = if file < 0 || memory < 0 {
        -1
    } else {
        // SAFETY: start and count have the rank of the dataset, by this function's contract, and so has what is behind `from`.
        unsafe {
            let (null, s, n) = (std::ptr::null(), start.as_ptr(), count.as_ptr());
            match H5Sselect_hyperslab(file, H5S_SELECT_SET, s, null, n, null) {
                0.. => H5Dwrite(dataset.id(), kind, memory, file, H5P_DEFAULT, from),
                failed => failed,
            }
        }
    };
    // The message belongs to the failure above, so it is read before any other call.
    let outcome = status(written);
    for space in [file, memory] {
        if space >= 0 {
            // SAFETY: opened above and not yet closed.
            unsafe { H5Sclose(space) };
        }
    }
    outcome
}

/// Writes `values`, whole rows of the shape `row`, at row `first` of `dataset`, which is long enough already.
///
/// # Errors
/// The library's words: values that are no whole rows, another shape, a full disk.
pub fn write_rows<T: H5Type>(
    dataset: &Dataset,
    first: usize,
    row: &[usize],
    values: &[T],
) -> Result<()> {
    let each: usize = row.iter().product();
    if each == 0 || !values.len().is_multiple_of(each) || dataset.ndim() != row.len() + 1 {
        return Err("the values are no whole rows of the dataset".into());
    }
    let mut start = vec![0_u64; row.len() + 1];
    start[0] = first as u64;
    let count: Vec<u64> =
        [values.len() / each].iter().chain(row).map(|&length| length as u64).collect();
    let kind = Datatype::from_type::<T>()?;
    hdf5_metno::sync::sync(|| {
        // SAFETY: the dataset is open; start and count have its rank, which was compared above; `values` holds exactly as many values
        // of the type that `kind` describes as the block has, and outlives the call.
        unsafe { write_block(dataset, kind.id(), &start, &count, values.as_ptr().cast()) }
    })
}

/// Writes `bytes` as row `row` of `dataset`, in the form that its type has in the file: one element after the other.
///
/// # Errors
/// The library's words: bytes that are no whole row, a full disk.
pub fn write_row_bytes(dataset: &Dataset, row: usize, bytes: &[u8]) -> Result<()> {
    let (shape, kind) = (dataset.shape(), dataset.dtype()?);
    let each: usize = shape.iter().skip(1).product::<usize>() * kind.size();
    if shape.is_empty() || row >= shape[0] || each != bytes.len() || each == 0 {
        return Err("the bytes are no whole row of the dataset".into());
    }
    let mut start = vec![0_u64; shape.len()];
    start[0] = row as u64;
    let count: Vec<u64> = [1].iter().chain(&shape[1..]).map(|&length| length as u64).collect();
    hdf5_metno::sync::sync(|| {
        // SAFETY: the dataset is open; the space that comes back is closed in `write_block`. `bytes` holds exactly one row of
        // elements of the type that `kind` describes, which is the dataset's own, without pointers of variable length.
        unsafe { write_block(dataset, kind.id(), &start, &count, bytes.as_ptr().cast()) }
    })
}
