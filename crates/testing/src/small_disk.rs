//! Small disks that are unmounted at the end, and that can be made to fail.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How a disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFailure {
    /// As after an error of the file system: it can be read, not written (EROFS).
    ReadOnly,
    /// As if it were removed: nothing can be read or written (EIO).
    Gone,
}

impl DiskFailure {
    /// The system's words.
    pub fn words(self) -> &'static str {
        match self {
            DiskFailure::ReadOnly => "Read-only file system",
            DiskFailure::Gone => "Input/output error",
        }
    }
}

/// A mounted disk.
pub struct Disk(pub PathBuf);

/// Failures that can be caused here; prints why if one cannot, which fails the test in CI (`CI=true`).
pub fn failures() -> Vec<DiskFailure> {
    if python().is_some() {
        return vec![DiskFailure::ReadOnly, DiskFailure::Gone];
    }
    skipped("stopping a file system takes Python");
    vec![DiskFailure::ReadOnly]
}

fn python() -> Option<PathBuf> {
    let given = std::env::var_os("FULLCOUNT_PYTHON").map(PathBuf::from);
    let all = given.into_iter().chain([PathBuf::from("python3")]);
    let runs = |p: &PathBuf| Command::new(p).arg("--version").output().is_ok();
    all.into_iter().find(runs)
}

fn skipped(reason: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
    println!("skipped: {reason}");
}

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|said| said.status.success())
}

impl Disk {
    /// 4 MiB of memory at the new folder `at`. `None` after printing why; in CI (`CI=true`) that fails the test.
    pub fn of_memory(at: &Path) -> Option<Disk> {
        std::fs::create_dir(at).unwrap();
        if run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at)) {
            return Some(Disk(at.to_owned()));
        }
        skipped("mounting a tmpfs takes root");
        None
    }

    /// An ext4 of 32 MiB at the new folder `at`, which can fail. `None` as above.
    pub fn of_ext4(at: &Path) -> Option<Disk> {
        std::fs::create_dir(at).unwrap();
        let image = at.with_extension("image");
        std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let made = run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        let disk = Disk(at.to_owned());
        if made && disk.mount() {
            return Some(disk);
        }
        std::mem::forget(disk);
        skipped("mounting an ext4 takes root, mkfs.ext4 and a loop device");
        None
    }

    /// Mounts the ext4 again.
    pub fn mount(&self) -> bool {
        let image = self.0.with_extension("image");
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&self.0))
    }

    /// From here on the ext4 fails.
    pub fn fail(&self, how: DiskFailure) {
        // EXT4_IOC_SHUTDOWN without writing the journal first.
        const STOP: &str = "import fcntl, os, struct, sys; \
             fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
        let done = match how {
            DiskFailure::ReadOnly => {
                run(Command::new("mount").args(["-o", "remount,abort"]).arg(&self.0))
            }
            DiskFailure::Gone => {
                run(Command::new(python().unwrap()).args(["-c", STOP]).arg(&self.0))
            }
        };
        assert!(done, "{how:?}");
    }

    /// Unmounts it, which needs all its files closed. Ending threads may take a moment to close theirs.
    pub fn unmount(&self) -> bool {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !run(Command::new("umount").arg(&self.0)) {
            if std::time::Instant::now() > end {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        true
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
