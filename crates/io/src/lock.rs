//! Checks whether another process uses a file: its writer, a recovery, or another program that locks like HDF5.
//!
//! A lock (flock) belongs to the file, not to its name: it stays when the file is renamed, holds for all names and
//! links of the file, and ends with the process in any case. Writers hold a shared lock, so that readers are not
//! blocked; a process that replaces, removes or recovers a file needs an exclusive one. Over NFS the server holds the
//! lock (NFSv4, or v3 with its lock service) and grants an exclusive one only on a file that is open for writing. A
//! file system without locks gives no protection, as with HDF5 itself. Refuses everything but files, because opening it
//! could block for ever.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// What was found at a path.
#[derive(Debug)]
pub enum LockFound {
    /// Nothing.
    Nothing,
    /// A file without a writer; no process can begin to write it while this is held.
    Free(File),
    /// A file that another process uses.
    InUse,
}

/// Takes the file at `path` for itself, if there is one. Changes nothing.
///
/// # Errors
/// The system's words; something that is no file.
pub fn alone(path: &Path) -> io::Result<LockFound> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("it is no file")),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(LockFound::Nothing),
        Err(e) => return Err(e),
    }
    // NFS grants an exclusive lock only on a file that is open for writing.
    let (file, writable) = match File::options().read(true).write(true).open(path) {
        Ok(file) => (file, true),
        Err(e)
            if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            (File::open(path)?, false)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(LockFound::Nothing),
        Err(e) => return Err(e),
    };
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(LockFound::InUse),
        Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(_)) if !writable => {}
        Err(TryLockError::Error(e)) => return Err(e),
    }
    // Another process was faster and has put another file there.
    Ok(if is_at(&file, path)? { LockFound::Free(file) } else { LockFound::InUse })
}

/// A process that is just being started has copies of all open files until its program begins, and with them their
/// locks: so a lock in use is tried again for a tenth of a second.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..10 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    file.try_lock()
}

/// True if `path` leads to `file`, and not to another one that was put there.
///
/// # Errors
/// The system's error, except that nothing is there.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_by_whatever_name_and_free_again_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert!(matches!(alone(&at("a")).unwrap(), LockFound::Nothing));
        fs::write(at("a"), b"x").unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        std::os::unix::fs::symlink("a", at("soft")).unwrap();
        let LockFound::Free(taken) = alone(&at("a")).unwrap() else { panic!("nobody has it") };
        for name in ["a", "hard", "soft"] {
            assert!(matches!(alone(&at(name)).unwrap(), LockFound::InUse), "{name}");
        }
        fs::rename(at("a"), at("b")).unwrap();
        assert!(matches!(alone(&at("b")).unwrap(), LockFound::InUse), "it goes along");
        assert!(!is_at(&taken, &at("a")).unwrap() && is_at(&taken, &at("b")).unwrap());
        drop(taken);
        assert!(matches!(alone(&at("b")).unwrap(), LockFound::Free(_)));
        // A writer's own lock, which readers may have too.
        let writer = File::options().write(true).open(at("b")).unwrap();
        writer.try_lock_shared().unwrap();
        assert!(matches!(alone(&at("hard")).unwrap(), LockFound::InUse));
    }

    #[test]
    fn a_file_that_may_not_be_written_can_be_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, b"x").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(matches!(alone(&path).unwrap(), LockFound::Free(_)));
        assert!(alone(dir.path()).unwrap_err().to_string().contains("no file"));
    }
}
