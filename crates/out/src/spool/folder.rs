//! The folder of a spool: its lock, its identity, its segment files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::SpoolError;

/// Takes the folder, which is made if it is not there. The lock is held as long as the file is open, and ends with the
/// process however that ends.
pub(super) fn lock(folder: &Path) -> Result<File, SpoolError> {
    fs::create_dir_all(folder).map_err(SpoolError::io(folder, "make the folder"))?;
    let path = folder.join("lock");
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = open.map_err(SpoolError::io(&path, "open the lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(SpoolError::InUse { folder: folder.into() }),
        Err(fs::TryLockError::Error(cause)) => Err(SpoolError::io(&path, "lock it")(cause)),
    }
}

/// The spool's own 16 bytes, drawn when it is made; with them the stream that it belongs to.
pub(super) fn identity(folder: &Path, stream: &str) -> Result<[u8; 16], SpoolError> {
    let path = folder.join("identity");
    let damaged = || SpoolError::Identity { folder: folder.into() };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let (id, there) = text.trim_end().split_once(' ').ok_or_else(damaged)?;
            let id = u128::from_str_radix(id, 16).map_err(|_| damaged())?;
            if there != stream {
                let (there, wanted) = (there.to_owned(), stream.to_owned());
                return Err(SpoolError::OtherStream { folder: folder.into(), there, wanted });
            }
            Ok(id.to_be_bytes())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let id =
                random().map_err(SpoolError::io(Path::new("/dev/urandom"), "draw an identity"))?;
            let text = format!("{:032x} {stream}\n", u128::from_be_bytes(id));
            let new = folder.join("identity.new");
            let write = || {
                fs::write(&new, text)?;
                File::open(&new)?.sync_all()?;
                fs::rename(&new, &path)?;
                sync(folder)
            };
            write().map_err(SpoolError::io(&path, "write the identity"))?;
            Ok(id)
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Err(damaged()),
        Err(e) => Err(SpoolError::io(&path, "read the identity")(e)),
    }
}

/// Segment files by number.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "seg") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Makes new and removed names of a folder last.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
