//! Writes back a file in pieces, so that no large amount of dirty data accumulates.
//!
//! Returns the system's errors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

fn range(at: u64, len: u64) -> io::Result<(i64, i64)> {
    let number =
        |n: u64| i64::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    Ok((number(at)?, number(len)?))
}

/// Begins to write `len` bytes from `at` on back to the disk, without waiting for it.
///
/// # Errors
/// The system's error; a file system without it (`ESPIPE`, `EINVAL`) writes back when it likes.
pub fn begin_writing(file: BorrowedFd<'_>, at: u64, len: u64) -> io::Result<()> {
    let (at, len) = range(at, len)?;
    // SAFETY: numbers only; the descriptor is borrowed across the call.
    let rc =
        unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WRITE) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until `len` bytes from `at` on are written back, and drops them from the cache.
///
/// # Errors
/// What went wrong while they were written: a full or broken disk.
pub fn finish_writing(file: BorrowedFd<'_>, at: u64, len: u64) -> io::Result<()> {
    let (at, len) = range(at, len)?;
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: numbers only; the descriptor is borrowed across the calls.
    let rc = unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, how) };
    if rc != 0 {
        let error = io::Error::last_os_error();
        // No such call on this file system: nothing to wait for.
        return match error.raw_os_error() {
            Some(libc::ESPIPE | libc::EINVAL | libc::ENOSYS) => Ok(()),
            _ => Err(error),
        };
    }
    // SAFETY: as above; the advice changes no content.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), at, len, libc::POSIX_FADV_DONTNEED) };
    Ok(())
}
