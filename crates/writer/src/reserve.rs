//! Room on the disk that is kept for the end of a file.
//!
//! On a full disk a file that was begun could be neither completed nor cut to its last flush. So before a file is made
//! there must be room for what is known of it, and while it is written a few MiB are kept: given free when the disk is
//! full, they are what cutting the file takes. Refuses a disk without that room.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fullcount_io::newfile;

/// Kept for the library's own structures of the file when it is cut.
const KEPT: u64 = 1 << 20;

/// Room that nobody else can take: a file without a name.
#[derive(Debug)]
pub(super) struct Reserve(
    #[cfg_attr(not(test), expect(dead_code, reason = "open, it holds the room"))] File,
);

impl Reserve {
    /// Room for `bytes` beside `path`, and for the end.
    pub(super) fn new(path: &Path, bytes: u64) -> io::Result<Reserve> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        // Its bytes are there as long as it is open, and gone with the process.
        let mut file = newfile::unnamed(folder.unwrap_or(Path::new(".")))?;
        let block = vec![0_u8; 1 << 20];
        let mut left = KEPT + bytes;
        while left > 0 {
            // Written: a length alone would be a hole.
            let n = left.min(block.len() as u64);
            file.write_all(&block[..n as usize])?;
            left -= n;
        }
        Ok(Reserve(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_no_name_and_takes_none_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: String| dir.path().join(name);
        let (path, victim) = (at("run.nxs".into()), at("victim".into()));
        std::fs::write(&victim, "precious").unwrap();
        let guessed = at(format!("run.nxs.reserve-{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, &guessed).unwrap();
        let reserve = Reserve::new(&path, 1000).unwrap();
        assert_eq!(reserve.0.metadata().unwrap().len(), KEPT + 1000);
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert!(std::fs::symlink_metadata(&guessed).unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
