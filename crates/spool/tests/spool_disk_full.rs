//! A full disk: nothing fails, nothing is lost, and appending continues when messages are confirmed.
//!
//! The disk is a tmpfs of 4 MiB, which needs root.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use fullcount_spool::{AppendError, Next, Outgoing, Spool, SpoolOptions};

/// A small disk, unmounted at the end.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` after printing why; in CI (`CI=true`) that fails the test.
    fn new() -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder.path());
        if mount.output().is_ok_and(|said| said.status.success()) {
            return Some(Disk(folder));
        }
        let reason = "mounting a tmpfs takes root";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
        println!("skipped: {reason}");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn fill(spool: &Spool, payload: &[u8]) -> u64 {
    let mut n = 0;
    loop {
        let message = Outgoing { payload, events: 1, message_id: n, ..Outgoing::default() };
        match spool.append(&message) {
            Ok(_) => n += 1,
            Err(AppendError::DiskFull(_)) => return n,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost() {
    let Some(disk) = Disk::new() else { return };
    // The bound is far above what the disk holds.
    let (spool, _) = Spool::open(SpoolOptions::new(disk.path(), "stream")).unwrap();
    let payload = vec![7; 100_000];
    let first = fill(&spool, &payload);
    assert!((30..=41).contains(&first), "{first} messages of 100 kB on 4 MiB");
    assert_eq!(spool.depth().messages, first);
    for n in 1..first {
        spool.settle(n, 1, None);
    }
    assert_eq!(fill(&spool, &payload), 0, "one is not confirmed, so its file stays");
    spool.settle(first, 1, None);
    // All confirmed: the attempt that finds the disk full makes room for the next.
    assert_eq!(fill(&spool, &payload), 0);
    let second = fill(&spool, &payload);
    assert!((30..=41).contains(&second), "{second}");
    drop(spool);

    // As a process that was killed on a full disk leaves it: the next start needs a few bytes more.
    let _ = std::fs::remove_file(disk.path().join("settled"));
    let _ = std::fs::remove_file(disk.path().join("lock"));
    let (spool, start) = Spool::open(SpoolOptions::new(disk.path(), "stream")).unwrap();
    assert_eq!((start.messages, start.damaged), (second, 0));
    let mut reader = spool.reader();
    for n in 0..second {
        let Next::Message(m) = reader.next().unwrap() else { panic!("message {n}") };
        assert_eq!((m.identity.sequence, m.payload.len()), (first + n + 1, payload.len()));
    }
    assert_eq!(reader.next().unwrap(), Next::Nothing);
}
