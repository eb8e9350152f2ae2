//! The files of a result: looked at before anything is measured, put in their place in one step at the end.
//!
//! A file that is there is replaced only if that was asked for, and a result is never thrown away: where a file came to
//! stand while it was measured, the new one goes beside it under the next free number. Refuses at the start: a file that is
//! there, a folder in which no file can be made.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use fullcount_io::newfile;

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
    newfile::unnamed(directory).map(drop).map_err(refuse)
}

/// Writes `<directory>/<file>` in one step; gives the path where it is now: beside what stands there, unless `overwrite`.
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
    let placed = match overwrite {
        true => newfile::replace_with(&path, text).map(|()| path.clone()),
        false => newfile::put_beside(&path, text),
    };
    placed.map_err(refuse(&path))
}

/// Moves `part` to `path`; if something is there that stays, to the next free number beside it (`a.1.json`). Gives the
/// path where it is.
pub fn place(part: &Path, path: &Path, overwrite: bool) -> io::Result<PathBuf> {
    if overwrite {
        fs::rename(part, path)?;
        return Ok(path.to_owned());
    }
    newfile::move_beside(part, path)
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
