//! Diverts the writes of a file whose disk fails to memory, so that HDF5 can close it.
//!
//! A dataset or a file that HDF5 cannot flush when it is closed stays in the library's lists although its memory is
//! freed, and the next flush of any other file uses it (seen: SIGSEGV with HDF5 1.14). So closing must never fail. The
//! descriptor under the file is replaced by one of memory: closing writes there, and the file on the disk stays as its
//! last write left it, as after a kill. Refuses systems without the memory for it.
//!
//! Source: HDF5 1.14 reference manual, H5F; `dup2`, `memfd_create` of Linux.

use std::ffi::c_void;
use std::fs::File as SystemFile;
use std::io::{self, Seek as _};
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use hdf5_metno::{Error, File, Result};
use hdf5_metno_sys::h5f::H5Fget_vfd_handle;
use hdf5_metno_sys::h5p::H5P_DEFAULT;

use super::{FileMode, open, start_swmr_write};

/// Makes the file at `path`, replacing what is there, and closes it. `fill` writes to memory, which is written to disk
/// when it is complete: so a failing disk affects only system calls, not HDF5.
///
/// # Errors
/// The library's words or the system's.
pub fn create(path: &Path, fill: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let file = open(path, FileMode::Create)?;
    let Diverted { mut before, mut memory } = divert(&file).map_err(in_words)?;
    fill(&file)?;
    file.close()?;
    let copied = memory.rewind().and_then(|()| std::io::copy(&mut memory, &mut before));
    copied.map(drop).map_err(in_words)
}

/// Closes `file` and `parts`, its other open handles. Datasets must be flushed before, one by one: a failed flush of
/// the whole file leaves the library's cache so that it cannot be flushed again ("slist already enabled"), nor closed.
///
/// # Errors
/// What is in memory cannot be written; then it is closed as [`let_go`] does, if that can be done.
pub fn close<T>(file: File, parts: T) -> Result<()> {
    match file.flush() {
        Ok(()) => {
            drop(parts);
            file.close()
        }
        Err(error) => {
            let_go(file, parts);
            Err(error)
        }
    }
}

/// Closes `file` and `parts`, its other open handles, although its disk may refuse every write: data that is not on
/// disk yet is dropped. Returns false if that cannot be done; then all of it stays open as long as the process lives.
pub fn let_go<T>(file: File, parts: T) -> bool {
    let diverted = divert(&file);
    let closed = diverted.is_ok() && file.flush().is_ok();
    if closed {
        // Nothing is left to be written that could fail.
        drop((parts, file));
    } else {
        // The library keeps the number of the file on its disk, which must not become another file's.
        std::mem::forget((parts, file, diverted));
    }
    closed
}

/// Opens the finished file at `path` for writing while others read it.
///
/// # Errors
/// The library's message. The file is closed.
pub fn open_for_readers(path: &Path, access: FileMode) -> Result<File> {
    or_let_go(open(path, access)?, |file| start_swmr_write(&file).map(|()| file))
}

/// The first use of an open file: if it fails, the file is closed, as its disk may fail from then on.
///
/// # Errors
/// Those of `first`.
pub fn or_let_go<T, E>(
    file: File,
    first: impl FnOnce(File) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    let held = file.clone();
    let used = first(file);
    match &used {
        // What `first` has opened of the file is closed by now; `held` alone keeps it open.
        Err(_) => drop(let_go(held, ())),
        Ok(_) => drop(held),
    }
    used
}

/// Where the writes of a file go now, and where they went before.
struct Diverted {
    before: SystemFile,
    memory: SystemFile,
}

/// What HDF5 writes into `file` from here on is kept in memory.
fn divert(file: &File) -> io::Result<Diverted> {
    let memory = memory()?;
    hdf5_metno::sync::sync(|| {
        let mut handle: *mut c_void = std::ptr::null_mut();
        // SAFETY: `file` is open for as long as it is borrowed; the library writes one pointer.
        let code = unsafe { H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &raw mut handle) };
        if code < 0 || handle.is_null() {
            return Err(io::Error::other("HDF5 gives no descriptor of the file"));
        }
        // SAFETY: the drivers that `open` uses have an `int` there, alive as long as the file.
        let number = unsafe { *handle.cast::<i32>() };
        if number < 0 {
            return Err(io::Error::other("HDF5 gives no descriptor of the file"));
        }
        // SAFETY: open, since HDF5 has not closed the file; borrowed for this call.
        let before = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        // SAFETY: as above; it is never dropped here, so HDF5 alone closes it.
        let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
        rustix::io::dup2(&memory, &mut target)?;
        Ok(Diverted { before: before.into(), memory })
    })
}

fn in_words(error: io::Error) -> Error {
    error.to_string().into()
}

/// A file in memory, without a name.
#[cfg(target_os = "linux")]
fn memory() -> io::Result<SystemFile> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("fullcount-closing", MemfdFlags::CLOEXEC)?.into())
}

/// A file without a name where the system keeps what need not last.
#[cfg(not(target_os = "linux"))]
fn memory() -> io::Result<SystemFile> {
    fullcount_io::newfile::unnamed(&std::env::temp_dir())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn descriptors(of: &Path) -> usize {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == of)).count()
    }

    /// A plain close would write the flags of a closed file: on a disk that fails the library trips over that later.
    #[test]
    fn a_file_whose_first_use_fails_is_closed_without_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("x.h5");
        create(&path, |file| file.new_dataset::<u8>().shape(4).create("d").map(drop)).unwrap();
        let file = open_for_readers(&path, FileMode::Write { cache: 0 }).unwrap();
        let (before, opened) = (std::fs::read(&path).unwrap(), descriptors(&path));
        assert!(opened > 0);
        let used = or_let_go(file, |file| {
            let (here, gone) = (file.dataset("d")?, file.dataset("none")?);
            Ok::<_, Error>((file, here, gone))
        });
        assert!(used.is_err());
        assert_eq!(descriptors(&path), 0);
        assert!(std::fs::read(&path).unwrap() == before, "nothing was written");
        // As after a kill.
        assert!(open(&path, FileMode::Write { cache: 0 }).is_err());
    }
}
