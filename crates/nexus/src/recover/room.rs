//! Space on the disk for a repair, reserved before anything in the file changes.
//!
//! HDF5 puts new blocks after the end of the file, and may write into zeros that were appended to a short one: both
//! ranges get their blocks on the disk here, the length stays. If a file system cannot reserve (NFS before 4.2, FAT),
//! its free space is checked, which another process can use meanwhile. Refuses a disk with less space,
//! [`io::ErrorKind::StorageFull`].

use std::fs::File;
use std::io;

/// Most zeros after a short file that get blocks: only its last chunks are written to, of at most this many bytes.
const MOST_ZEROS: u64 = 64 << 20;

/// Reserves `bytes` after the end of `file`, and the zeros after `short`, its previous length.
///
/// # Errors
/// [`io::ErrorKind::StorageFull`], or the system's words.
pub(super) fn reserve(file: &File, short: Option<u64>, bytes: u64) -> io::Result<()> {
    let end = file.metadata()?.len();
    let zeros = short.map_or(0, |length| end.saturating_sub(length).min(MOST_ZEROS));
    let mut taken = take(file, end, bytes);
    if taken.is_ok() && zeros > 0 {
        taken = take(file, end - zeros, zeros);
    }
    match taken {
        Err(e) if e.kind() == io::ErrorKind::Unsupported => has(file, bytes + zeros),
        other => other,
    }
}

/// Frees what was not used.
pub(super) fn release(file: &File) {
    // Setting the length, even to the same value, frees blocks after the end. Blocks that stay use space until the file
    // is removed.
    let _ = file.metadata().and_then(|meta| file.set_len(meta.len()));
}

#[cfg(target_os = "linux")]
fn take(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, at, bytes) {
            Err(rustix::io::Errno::INTR) => {}
            taken => return taken.map_err(io::Error::from),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn take(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Looks at the free space.
fn has(file: &File, bytes: u64) -> io::Result<()> {
    let disk = rustix::fs::fstatvfs(file)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < bytes { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_without_a_longer_file_and_given_back() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("a")).unwrap();
        file.set_len(1 << 20).unwrap();
        reserve(&file, Some(10), 3 << 20).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), 1 << 20);
        assert!(512 * meta.blocks() >= 4 << 20 || meta.blocks() == 0, "{}", meta.blocks());
        release(&file);
        assert!(512 * file.metadata().unwrap().blocks() < 2 << 20);
        assert_eq!(has(&file, u64::MAX).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(has(&file, 0).is_ok());
    }
}
