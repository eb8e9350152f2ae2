//! Brings what is written to the disk while more of it comes; else the whole of a long run would wait for its end.
//!
//! A thread for each file syncs it each time some more of it was written. What the disk says then it says once, so it
//! is kept for whoever completes the file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Bytes after which the disk is asked again.
const STEP: usize = 64 << 20;

/// One file's way to the disk.
#[derive(Debug)]
pub(super) struct Writeback {
    ask: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
    /// Bytes since the disk was asked last.
    since: usize,
}

impl Writeback {
    /// # Errors
    /// The file cannot be opened, or no thread be made.
    pub(super) fn start(path: &Path) -> io::Result<Writeback> {
        let file = File::open(path)?;
        let (ask, asked) = sync_channel(1);
        let thread = Builder::new()
            .name("write-disk".into())
            .spawn(move || asked.into_iter().try_for_each(|()| file.sync_data()))?;
        Ok(Writeback { ask, thread, since: 0 })
    }

    /// So many more bytes are written. Does not wait: a disk that is still busy takes this step with its next.
    pub(super) fn written(&mut self, bytes: usize) {
        self.since += bytes;
        if self.since >= STEP {
            self.since = 0;
            let _ = self.ask.try_send(());
        }
    }

    /// True if the disk has refused something.
    pub(super) fn refused(&self) -> bool {
        self.thread.is_finished()
    }

    /// What the disk said on the way.
    ///
    /// # Errors
    /// The first that it refused.
    pub(super) fn end(self) -> io::Result<()> {
        drop(self.ask);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_the_end_do_not_fail_on_a_sound_disk() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut way = Writeback::start(file.path()).unwrap();
        for _ in 0..5 {
            way.written(STEP / 2);
        }
        assert_eq!(way.since, STEP / 2);
        way.end().unwrap();
    }

    #[test]
    fn what_the_disk_refused_is_said_at_the_end() {
        // A device without a disk behind it cannot be synced: EINVAL.
        let mut way = Writeback::start(Path::new("/dev/null")).unwrap();
        assert!(!way.refused());
        way.written(STEP);
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !way.refused() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(way.refused() && way.end().is_err());
    }

    #[test]
    fn a_file_that_is_not_there_is_refused() {
        assert!(Writeback::start(Path::new("no/such/file")).is_err());
    }
}
