//! Room on the disk of the target directory: how much there is, and what a step leaves behind.
//!
//! Too little room is said before anything is built, for a compiler that meets a full disk half an hour
//! later says neither how much it wanted nor what to do. In CI, which never comes back to a target directory, a step's
//! own folder goes with the step.
//!
//! Source: docs/testing.md, "What it needs of the disk".

use std::fs;
use std::path::Path;

use crate::place;

/// Free room on the disk that holds `folder`, in MB; `None` where `df` does not say.
pub fn free_mb(folder: &Path) -> Option<u64> {
    // Before the first build there is no target directory: ask for the nearest folder that is there.
    let there = folder.ancestors().find(|f| f.is_dir())?;
    available_mb(&place::output_of("df", &["-Pk", &there.to_string_lossy()])?)
}

/// The column before `Capacity`, in MB; names of disks and folders may hold spaces.
fn available_mb(df: &str) -> Option<u64> {
    let words: Vec<&str> = df.lines().nth(1)?.split_whitespace().collect();
    let capacity = words.iter().position(|word| word.ends_with('%'))?;
    let kib: u64 = words[..capacity].last()?.parse().ok()?;
    Some(kib * 1024 / 1_000_000)
}

/// Says it if a build of `wanted_mb` from an empty target directory does not fit.
pub fn warn(wanted_mb: u64) {
    let target = place::target();
    if let Some(free) = free_mb(&target).filter(|free| *free < wanted_mb) {
        println!(
            "{}: {:.1} GB free; from empty this takes up to {:.0} GB: make room, or name a larger disk with \
             CARGO_TARGET_DIR",
            target.display(),
            free as f64 / 1000.0,
            wanted_mb as f64 / 1000.0
        );
    }
}

/// Removes these folders of the target directory, in CI only: by hand the next run uses them again.
pub fn leave(folders: &[&str]) {
    if place::in_ci() {
        for folder in folders {
            // What cannot be removed costs room, not the result.
            let _ = fs::remove_dir_all(place::target().join(folder));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_room_is_read_past_names_with_spaces() {
        let head = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n";
        for line in [
            "/dev/vda         263174212 12582912  83886080      14% /\n",
            "my disk          263174212 12582912  83886080      14% /mnt/a b\n",
        ] {
            assert_eq!(available_mb(&format!("{head}{line}")), Some(85_899), "{line}");
        }
        assert_eq!(available_mb(head), None);
        assert_eq!(available_mb("df: no such file"), None);
    }
}
