//! Room on the disk that is kept for the end of a file.
//!
//! On a full disk a file that was begun could be neither completed nor cut to its last flush. So before a file is made
//! there must be room for what is known of it, and while it is written a few MiB are kept: given free when the disk is
//! full, they are what cutting the file takes. Refuses a disk without that room.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Kept for the library's own structures of the file when it is cut.
const KEPT: u64 = 1 << 20;

/// Room that nobody else can take: a file without a name.
#[derive(Debug)]
pub(super) struct Reserve(#[expect(dead_code, reason = "open, it holds the room")] File);

impl Reserve {
    /// Room for `bytes` beside `path`, and for the end.
    pub(super) fn new(path: &Path, bytes: u64) -> io::Result<Reserve> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".reserve-{}", std::process::id()));
        let name = path.with_file_name(name);
        let mut file = File::create(&name)?;
        // Its bytes are there as long as it is open, and gone with the process.
        fs::remove_file(&name)?;
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
