//! The calls of the HDF5 library that its Rust interface does not have: opening without HDF5's own file
//! lock, start of SWMR writing, flush of one dataset, rows of any number of dimensions out of a slice, chunks that are
//! compressed already, and large rows whose bytes the caller brings to the file itself ([`lay_rows`]).
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

pub(crate) use divert::{close, create, let_go, open_for_readers, or_let_go};
pub(crate) use driver::Part;
pub use environment::ignore_environment;

use std::ffi::CString;
use std::path::Path;

use hdf5_metno::plist::file_access::FileAccess;
use hdf5_metno::{Dataset, Datatype, Error, File, H5Type, Result};
use hdf5_metno_sys::h5d::{H5Dflush, H5Dget_space, H5Dwrite, H5Dwrite_chunk};
use hdf5_metno_sys::h5f::{
    H5F_ACC_RDONLY, H5F_ACC_RDWR, H5F_ACC_TRUNC, H5Fcreate, H5Fopen, H5Fstart_swmr_write,
};
use hdf5_metno_sys::h5p::{H5P_DEFAULT, H5Pset_alignment, H5Pset_driver, H5Pset_file_locking};
use hdf5_metno_sys::h5s::{H5S_SELECT_SET, H5Sclose, H5Screate_simple, H5Sselect_hyperslab};

use super::cells::ALIGNED;

/// What is at least as long begins at a boundary that a disk knows, in a file that is [`Access::Apart`].
const ALIGNED_FROM: u64 = 64 << 10;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
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
    /// Created anew, replacing what is there.
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
pub(crate) fn open(path: &Path, access: Access) -> Result<File> {
    let name = path.to_str().and_then(|p| CString::new(p).ok());
    let name = name.ok_or("the path is not UTF-8 without NUL")?;
    let mut builder = FileAccess::build();
    // Named, for else HDF5_DRIVER decides.
    builder.libver_v110().sec2();
    if let Access::Write { cache } | Access::Apart { cache } = access {
        builder.chunk_cache(521, cache, 1.0);
    }
    let fapl = builder.finish()?;
    hdf5_metno::sync::sync(|| {
        // SAFETY: `fapl` is an open file access list; 0 and 1 are the library's false and true.
        status(unsafe { H5Pset_file_locking(fapl.id(), 0, 1) })?;
        if let Access::Apart { .. } = access {
            let driver =
                driver::driver().ok_or("HDF5's own driver is not the one that is known")?;
            let aligned = ALIGNED as u64;
            // SAFETY: the list is open; the driver has a number and no settings of its own.
            status(unsafe { H5Pset_driver(fapl.id(), driver, std::ptr::null()) })?;
            // SAFETY: the list is open.
            status(unsafe { H5Pset_alignment(fapl.id(), ALIGNED_FROM, aligned) })?;
        }
        // SAFETY: `name` ends with NUL and lives beyond the calls; the lists are valid; the lock is held.
        let id = unsafe {
            match access {
                Access::Read => H5Fopen(name.as_ptr(), H5F_ACC_RDONLY, fapl.id()),
                Access::Write { .. } | Access::Apart { .. } => {
                    H5Fopen(name.as_ptr(), H5F_ACC_RDWR, fapl.id())
                }
                Access::Create => H5Fcreate(name.as_ptr(), H5F_ACC_TRUNC, H5P_DEFAULT, fapl.id()),
            }
        };
        if id < 0 {
            return Err(Error::query().unwrap_or_else(|e| e));
        }
        // SAFETY: a fresh file id that nobody else holds.
        unsafe { hdf5_metno::from_id(id) }
    })
}

/// True if files can be opened [`Access::Apart`].
pub(crate) fn can_lay_rows() -> bool {
    hdf5_metno::sync::sync(|| driver::driver().is_some())
}

/// The values as they lie in memory.
pub(crate) fn bytes(values: &[i32]) -> &[u8] {
    // SAFETY: the same memory, borrowed as long; a byte has no alignment and no forbidden value.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// As [`write_rows`] for single values, but gives what is left to be written by the caller: the parts of the values'
/// [`bytes`] and their places in the file. None of a file that was not opened [`Access::Apart`], and none where HDF5 has to
/// convert, compress or collect. Nothing of it may be read through HDF5 before it is there.
///
/// # Errors
/// Those of [`write_rows`]; then nothing is left to be written.
pub(crate) fn lay_rows(dataset: &Dataset, first: usize, values: &[i32]) -> Result<Vec<Part>> {
    driver::lay(bytes(values), || write_rows(dataset, first, &[], values))
}

/// Switches `file` (open for reading and writing) to SWMR writing: readers may open it from here on.
///
/// # Errors
/// The library's words: a superblock older than version 3, open attributes, a file that cannot be written.
pub(crate) fn start_swmr_write(file: &File) -> Result<()> {
    // SAFETY: the id belongs to an open file for as long as `file` is borrowed; the lock is held.
    hdf5_metno::sync::sync(|| status(unsafe { H5Fstart_swmr_write(file.id()) }))
}

/// Writes everything of `dataset` that is still in memory to the file: data first, then its length.
///
/// # Errors
/// The library's words, for example a full disk.
pub(crate) fn flush(dataset: &Dataset) -> Result<()> {
    // SAFETY: the id belongs to an open dataset for as long as `dataset` is borrowed; the lock is held.
    hdf5_metno::sync::sync(|| status(unsafe { H5Dflush(dataset.id()) }))
}

/// Writes the chunk of a one-dimensional `dataset` that begins at row `first`, as its filters would have made it: HDF5 looks at
/// none of it. The dataset is long enough already.
///
/// # Errors
/// The library's words: a row at which no chunk begins, a full disk.
pub(crate) fn write_chunk(dataset: &Dataset, first: usize, filtered: &[u8]) -> Result<()> {
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

/// Writes `values`, whole rows of the shape `row`, at row `first` of `dataset`, which is long enough already.
///
/// # Errors
/// The library's words: values that are no whole rows, another shape, a full disk.
pub(crate) fn write_rows<T: H5Type>(
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
        // SAFETY: the dataset is open; the space that comes back is closed below.
        let file = unsafe { H5Dget_space(dataset.id()) };
        // SAFETY: `count` has as many entries as the rank says; no maximum is given.
        let memory =
            unsafe { H5Screate_simple(count.len() as i32, count.as_ptr(), std::ptr::null()) };
        let written = if file < 0 || memory < 0 {
            -1
        } else {
            // SAFETY: start and count have the rank of the dataset, which was compared above; the memory space
            // holds exactly `values.len()` values of the type that `kind` describes, and `values` outlives the call.
            unsafe {
                let null = std::ptr::null();
                match H5Sselect_hyperslab(
                    file,
                    H5S_SELECT_SET,
                    start.as_ptr(),
                    null,
                    count.as_ptr(),
                    null,
                ) {
                    0.. => H5Dwrite(
                        dataset.id(),
                        kind.id(),
                        memory,
                        file,
                        H5P_DEFAULT,
                        values.as_ptr().cast(),
                    ),
                    failed => failed,
                }
            }
        };
        // The words belong to the failure above, so they are taken before anything else is called.
        let outcome = status(written);
        for space in [file, memory] {
            if space >= 0 {
                // SAFETY: opened above and not yet closed.
                unsafe { H5Sclose(space) };
            }
        }
        outcome
    })
}
