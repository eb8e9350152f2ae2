//! The files of a result: looked at before anything is measured, put in their place in one step at the end.
//!
//! A file that is there is replaced only if that was asked for, and a result is never thrown away: where a file came to
//! stand while it was measured, the new one goes beside it under the next free number. Refuses at the start: a file that is
//! there, a folder in which no file can be made.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::RecordError;

/// Looks whether `files` can be put into `directory`, which is made. `overwrite`: those that are there may be replaced.
///
/// # Errors
/// The first that is there and stays, or what the file system says.
pub fn ready(directory: &Path, files: &[String], overwrite: bool) -> Result<(), RecordError> {
    for file in files {
        let path = directory.join(file);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => {
                let cause = io::Error::from(ErrorKind::IsADirectory);
                return Err(RecordError::Write { path, cause });
            }
            Ok(_) if !overwrite => return Err(RecordError::Exists { path }),
            _ => {}
        }
    }
    let refuse = |cause| RecordError::Write { path: directory.to_owned(), cause };
    fs::create_dir_all(directory).map_err(refuse)?;
    // Whether a file can be made is known when one was.
    let (part, file) = part(directory, "fullcount-result").map_err(refuse)?;
    drop(file);
    fs::remove_file(part).map_err(refuse)
}

/// Writes `<directory>/<file>` in one step; gives the path where it is now: beside what stands there, unless `overwrite`.
///
/// # Errors
/// What the file system says.
pub fn put(
    directory: &Path,
    file: &str,
    text: &[u8],
    overwrite: bool,
) -> Result<PathBuf, RecordError> {
    let path = directory.join(file);
    let refuse = |path: &Path| {
        let path = path.to_owned();
        move |cause| RecordError::Write { path, cause }
    };
    fs::create_dir_all(directory).map_err(refuse(directory))?;
    let (part, mut open) = part(directory, file).map_err(refuse(directory))?;
    let written = open.write_all(text).map_err(refuse(&part));
    let placed = written.and_then(|()| place(&part, &path, overwrite).map_err(refuse(&path)));
    if placed.is_err() {
        let _ = fs::remove_file(&part);
    }
    placed
}

/// A new file in `directory` for what will be called `file`.
///
/// # Errors
/// What the file system says.
pub fn part(directory: &Path, file: &str) -> io::Result<(PathBuf, File)> {
    let own = std::process::id();
    for n in 0..1000 {
        let path = directory.join(format!(".{own}-{n}.part.{file}"));
        match File::options().write(true).create_new(true).open(&path) {
            Ok(open) => return Ok((path, open)),
            // Of a killed process with the same number.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Moves `part` to `path`; if something is there that stays, to the next free number beside it (`a.1.json`). Gives the
/// path where it is.
///
/// # Errors
/// What the file system says.
pub fn place(part: &Path, path: &Path, overwrite: bool) -> io::Result<PathBuf> {
    if overwrite {
        fs::rename(part, path)?;
        return Ok(path.to_owned());
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    let beside = (1..10_000).map(|n| path.with_file_name(format!("{stem}.{n}{end}")));
    for path in std::iter::once(path.to_owned()).chain(beside) {
        match move_to_free(part, &path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Moves a file in one step, if nothing is at its new path.
fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(e),
        // A file system without hard links: looked at, then moved.
        Err(_) => match fs::symlink_metadata(to) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &Path) -> Vec<String> {
        let all = fs::read_dir(of).unwrap();
        let mut names: Vec<_> =
            all.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_there_is_refused_before_anything_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("new/results");
        let files = ["a.json".to_owned(), "a.md".to_owned()];
        ready(&folder, &files, false).unwrap();
        assert!(names(&folder).is_empty(), "nothing is left");
        fs::write(folder.join("a.md"), "committed").unwrap();
        let e = ready(&folder, &files, false).unwrap_err().to_string();
        assert!(e.contains("a.md") && e.contains("--overwrite"), "{e}");
        ready(&folder, &files, true).unwrap();
        assert_eq!(fs::read(folder.join("a.md")).unwrap(), b"committed");
        // A link to nothing is something too.
        std::os::unix::fs::symlink("gone", folder.join("a.json")).unwrap();
        assert!(matches!(ready(&folder, &files[..1], false), Err(RecordError::Exists { .. })));
        let file = tempfile::NamedTempFile::new().unwrap();
        for bad in [file.path(), Path::new("/proc/fullcount")] {
            let e = ready(bad, &files, true).unwrap_err();
            assert!(matches!(e, RecordError::Write { .. }), "{e}");
        }
    }

    #[test]
    fn a_result_goes_beside_what_came_to_stand_there() {
        let dir = tempfile::tempdir().unwrap();
        let put =
            |text: &str, overwrite| put(dir.path(), "a.json", text.as_bytes(), overwrite).unwrap();
        assert_eq!(put("first", false), dir.path().join("a.json"));
        assert_eq!(put("second", false), dir.path().join("a.1.json"));
        assert_eq!(put("third", false), dir.path().join("a.2.json"));
        assert_eq!(put("fourth", true), dir.path().join("a.json"));
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(["a.json", "a.1.json", "a.2.json"].map(text), ["fourth", "second", "third"]);
        assert_eq!(names(dir.path()), ["a.1.json", "a.2.json", "a.json"]);
    }
}
