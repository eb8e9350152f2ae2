//! Whether somebody else has a file: its writer, a recovery, or another program that locks as HDF5 does.
//!
//! A lock (flock) belongs to the file, not to its name: it goes along when the file is renamed, is met by whoever comes by
//! another name or link, and vanishes with the process however that ends. Writers hold a shared one, so that readers are not
//! hindered; who means to replace, remove or recover a file asks for it alone. Over NFS the server holds the lock (NFSv4,
//! or v3 with its lock service) and grants it alone only to who may write the file. A file system without locks keeps
//! nobody apart, as with HDF5 itself. Refuses: what is no file, which to open could wait for ever.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// What was found at a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A file that nobody writes; nobody can begin to while this is held.
    Free(File),
    /// A file that somebody else has.
    InUse,
}

/// Takes the file at `path` for itself, if there is one. Changes nothing.
///
/// # Errors
/// The system's words; something that is no file.
pub(crate) fn alone(path: &Path) -> io::Result<Found> {
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("it is no file")),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(e),
    }
    // NFS grants a lock alone only on what is open for writing.
    let (file, writable) = match File::options().read(true).write(true).open(path) {
        Ok(file) => (file, true),
        Err(e)
            if matches!(e.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
        {
            (File::open(path)?, false)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(e) => return Err(e),
    };
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Found::InUse),
        Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
        Err(TryLockError::Error(_)) if !writable => {}
        Err(TryLockError::Error(e)) => return Err(e),
    }
    // Whoever was faster has put another one there.
    Ok(if is_at(&file, path)? { Found::Free(file) } else { Found::InUse })
}

/// A process that is just being started has copies of all open files until its program begins, and with them their locks: what is
/// in use is asked for again, for a tenth of a second.
fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..10 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    file.try_lock()
}

/// True if what `path` leads to is `file`, and not another that somebody put there.
///
/// # Errors
/// The system's words, but that nothing is there.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
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
        assert!(matches!(alone(&at("a")).unwrap(), Found::Nothing));
        fs::write(at("a"), b"x").unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        std::os::unix::fs::symlink("a", at("soft")).unwrap();
        let Found::Free(taken) = alone(&at("a")).unwrap() else { panic!("nobody has it") };
        for name in ["a", "hard", "soft"] {
            assert!(matches!(alone(&at(name)).unwrap(), Found::InUse), "{name}");
        }
        fs::rename(at("a"), at("b")).unwrap();
        assert!(matches!(alone(&at("b")).unwrap(), Found::InUse), "it goes along");
        assert!(!is_at(&taken, &at("a")).unwrap() && is_at(&taken, &at("b")).unwrap());
        drop(taken);
        assert!(matches!(alone(&at("b")).unwrap(), Found::Free(_)));
        // A writer's own lock, which readers may have too.
        let writer = File::options().write(true).open(at("b")).unwrap();
        writer.try_lock_shared().unwrap();
        assert!(matches!(alone(&at("hard")).unwrap(), Found::InUse));
    }

    #[test]
    fn a_file_that_may_not_be_written_can_be_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, b"x").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(matches!(alone(&path).unwrap(), Found::Free(_)));
        assert!(alone(dir.path()).unwrap_err().to_string().contains("no file"));
    }
}
