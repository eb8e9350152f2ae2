//! The latest time that a run has given, beside its spools: the next run with one of them gives none before it.
//!
//! A file `last-time` in the folder of each spool, written four times a second while times advance, and at the end. Matters where the
//! host's clock was set back between two runs: the topic's times would go back. A kill costs the last quarter of a second. Refuses
//! nothing: a file that cannot be read is none. Source: `docs/time.md`, "Steps".

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_core::wall::WallClock;
use fullcount_io::newfile;
use fullcount_log::warning;

use crate::pipeline::processing::unix_ns;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(250);
/// Times that are further ahead of the host's clock would stay so for days, ns: 60 s take 83 hours.
const MOST_AHEAD: i64 = 60_000_000_000;
/// Less than this is not said, ns.
const NEAR: i64 = 5_000_000;
/// Longest text that is one: 20 characters and a newline.
const LONGEST: u64 = 64;

fn file(spool: &Path) -> PathBuf {
    spool.join("last-time")
}

/// Live times are not before those that earlier runs gave with these spools.
pub(super) fn go_on(wall: Option<&WallClock>, spools: &[(&'static str, PathBuf)]) {
    let earlier = read(spools.iter().map(|(_, spool)| spool.as_path()));
    let (Some(wall), Some(earlier)) = (wall.filter(|wall| wall.is_live()), earlier) else { return };
    let ahead = earlier.saturating_sub(unix_ns());
    let seconds = ahead as f64 / 1e9;
    if ahead > MOST_AHEAD {
        return warning!(
            "an earlier run has given times that are {seconds:.0} s ahead of this host's clock: its clock was wrong, \
             or this one is; times go back to this host's"
        );
    }
    // Less is from delays of packets and the like.
    if ahead > NEAR {
        warning!(
            "an earlier run has given times that are {seconds:.3} s ahead of this host's clock: times begin behind \
             them, and go 200 ppm slower until the host has caught up"
        );
    }
    wall.not_before(earlier);
}

/// The latest time that earlier runs gave with these spools, ns since 1970.
fn read<'a>(spools: impl Iterator<Item = &'a Path>) -> Option<i64> {
    let one = |spool: &Path| {
        let bytes = newfile::read_own(&file(spool), LONGEST).ok()?;
        std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
    };
    spools.filter_map(one).max()
}

/// Writes until it is dropped.
pub(super) struct LastTime {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LastTime {
    /// Begins; `None` without spools, or where times are not those of the host.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn begin(
        wall: Option<&Arc<WallClock>>,
        spools: &[(&'static str, PathBuf)],
    ) -> std::io::Result<Option<LastTime>> {
        let Some(wall) = wall.filter(|wall| wall.is_live() && !spools.is_empty()) else {
            return Ok(None);
        };
        let (wall, files) = (wall.clone(), spools.iter().map(|(_, spool)| file(spool)).collect());
        let (over, told) = channel();
        let thread = std::thread::Builder::new().name("last-time".into());
        let thread = thread.spawn(move || write(&wall, files, &told))?;
        Ok(Some(LastTime { over: Some(over), thread: Some(thread) }))
    }
}

impl Drop for LastTime {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to write.
            let _ = thread.join();
        }
    }
}

fn write(wall: &WallClock, files: Vec<PathBuf>, told: &Receiver<()>) {
    // Not fatal: it is as good with the usual priority.
    let _ = fullcount_io::sys::be_nice();
    let mut written = i64::MIN;
    loop {
        let last = told.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
        if let Some(given) = wall.given().filter(|given| *given > written) {
            written = given;
            let text = format!("{given}\n");
            // A full disk is told by the spool itself.
            files.iter().for_each(|file| drop(newfile::replace_with(file, text.as_bytes())));
        }
        if last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_of_all_spools_counts_and_rubbish_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let spool = |name: &str| {
            let spool = folder.path().join(name);
            std::fs::create_dir(&spool).unwrap();
            spool
        };
        let all = ["a", "b", "c", "d"].map(spool);
        let of = || read(all.iter().map(PathBuf::as_path));
        assert_eq!(of(), None);
        std::fs::write(file(&all[0]), "17\n").unwrap();
        std::fs::write(file(&all[1]), "1795392000000000000\n").unwrap();
        std::fs::write(file(&all[2]), "9".repeat(1000)).unwrap();
        std::os::unix::fs::symlink(file(&all[1]), file(&all[3])).unwrap();
        assert_eq!(of(), Some(1_795_392_000_000_000_000));
        std::fs::write(file(&all[1]), b"\xff\n").unwrap();
        assert_eq!(of(), Some(17));
    }
}
