//! A file that is built next to its path and moved there atomically, for every file that takes longer than one write.
//!
//! It is made as `<name>.building` or `<name>.part`, locked, and gets its own name only when it can be read; so an
//! existing file is complete until the new one replaces it, even if a step fails. The name is predictable, because a
//! user looks for the file of a killed run; files that are written at once have a random name ([`super::newfile`]). The
//! lock lasts until the file is closed: of two runs with the same path the second is refused. If the path is a link,
//! its target is used ([`landing`]). Refuses paths without a file name, in folders that are missing or not writable,
//! and paths of anything but a regular file. Source: `docs/contracts.md`, "Files".

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lock::{self, LockFound};
use super::newfile::{folder, move_to_free};

/// Why no file can be made at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathFault {
    /// The folder is not there.
    NoFolder(PathBuf),
    /// The folder's path is something else.
    NotFolder(PathBuf),
    /// No file may be made in the folder.
    NotWritable {
        /// The folder.
        folder: PathBuf,
        /// The system's words.
        words: String,
    },
    /// The path itself is a folder, or ends like one.
    IsFolder,
    /// Something that is neither file nor folder: a device, a pipe, a socket.
    NotFile,
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathFault::NoFolder(folder) => {
                let folder = folder.display();
                write!(f, "the folder {folder} does not exist; make it, or choose another path")
            }
            PathFault::NotFolder(folder) => {
                write!(f, "{} is not a folder; choose another path", folder.display())
            }
            PathFault::NotWritable { folder, words } => write!(
                f,
                "no file can be made in the folder {} ({words}); choose another folder, or change \
                 its permissions",
                folder.display()
            ),
            PathFault::IsFolder => {
                f.write_str("this is a folder; add a file name, for example run.nxs")
            }
            PathFault::NotFile => {
                f.write_str("this is a device, pipe or socket; choose the path of a file")
            }
        }
    }
}

/// A file that cannot be built. Each user has its own message for this.
#[derive(Debug)]
pub enum BuildingError {
    /// No file can be made at the path.
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        fault: PathFault,
    },
    /// Another process is building a file for the path, or writing the existing one.
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// A killed run left its file, which is to stay.
    Left {
        /// What was left.
        path: PathBuf,
    },
    /// The system refused.
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The system's words.
        source: io::Error,
    },
}

fn fault(path: &Path, fault: PathFault) -> BuildingError {
    BuildingError::Path { path: path.to_owned(), fault }
}

fn io_error<'a>(
    path: &'a Path,
    doing: &'static str,
) -> impl FnOnce(io::Error) -> BuildingError + 'a {
    move |source| BuildingError::Io { path: path.to_owned(), doing, source }
}

/// What becomes of a file that a killed run left while it built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// It goes.
    Removed,
    /// It stays, and no new one is begun.
    Kept,
}

/// As many links in a row as Linux follows.
const MOST_LINKS: usize = 40;

/// Where a file at `path` will be: the target of a link, whether it exists or not. Two runs with different links get
/// the same place, and a link stays a link.
pub fn landing(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&at) else { break };
        at = folder(&at).join(next);
    }
    at
}

/// Refuses paths at which no file can be made. Changes nothing; follows symbolic links.
///
/// # Errors
/// [`BuildingError::Path`], or what the system says about the path.
pub fn inspect(path: &Path) -> Result<(), BuildingError> {
    let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if slash || path.file_name().is_none() {
        return Err(fault(path, PathFault::IsFolder));
    }
    let folder = folder(path);
    match fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(fault(path, PathFault::NotFolder(folder.to_owned()))),
        Err(e) => return Err(in_folder(path, folder, "look at the folder", e)),
    }
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(fault(path, PathFault::IsFolder)),
        Ok(meta) if !meta.is_file() => Err(fault(path, PathFault::NotFile)),
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(in_folder(path, folder, "look at the existing file", e)),
    }
}

/// Names the folder if it is the cause.
fn in_folder(path: &Path, folder: &Path, doing: &'static str, e: io::Error) -> BuildingError {
    let folder = folder.to_owned();
    match e.kind() {
        ErrorKind::NotFound => fault(path, PathFault::NoFolder(folder)),
        ErrorKind::NotADirectory => fault(path, PathFault::NotFolder(folder)),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            fault(path, PathFault::NotWritable { folder, words: e.to_string() })
        }
        _ => io_error(path, doing)(e),
    }
}

/// Our locked file at its present path. Dropping it removes it unless it was kept.
#[derive(Debug)]
pub struct Building {
    path: PathBuf,
    /// Shared advisory lock: recovering a file under a living writer would damage it. Readers are not
    /// hindered.
    file: File,
    keep: bool,
}

impl Building {
    /// Makes an empty, locked file next to `path`, named like `path` with `ending`.
    ///
    /// # Errors
    /// Those of [`inspect`]; another process is making a file for the same path; a leftover of a killed run must be
    /// kept.
    pub fn reserve(path: &Path, ending: &str, left: Leftover) -> Result<Building, BuildingError> {
        inspect(path)?;
        let building = beside(path, ending);
        let in_use = || BuildingError::InUse { path: path.to_owned() };
        match lock::alone(&building) {
            Ok(LockFound::Nothing) => {}
            Ok(LockFound::Free(_)) if left == Leftover::Kept => {
                return Err(BuildingError::Left { path: building });
            }
            Ok(LockFound::Free(_left)) => {
                fs::remove_file(&building).map_err(io_error(&building, "remove what is left"))?;
            }
            Ok(LockFound::InUse) => return Err(in_use()),
            Err(e) => return Err(in_folder(&building, folder(path), "open what is left", e)),
        }
        let made = File::options().read(true).write(true).create_new(true).open(&building);
        let file = made.map_err(|e| match e.kind() {
            // Another process began after the check.
            ErrorKind::AlreadyExists => in_use(),
            _ => in_folder(path, folder(path), "create the file", e),
        })?;
        let place = Building { path: building, file, keep: false };
        match place.file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            // A file system without locks: nothing keeps two writers apart, as with HDF5 itself.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(io_error(path, "lock the file")(e)),
        }
        // Before it was locked it looked like one that was left, and may have been removed as such.
        if place.is_there().unwrap_or(false) { Ok(place) } else { Err(in_use()) }
    }

    /// The file at `path`, locked, as a killed run left it; it stays when the place is dropped.
    ///
    /// # Errors
    /// No such file, or another process is writing it.
    pub fn of_existing(path: &Path) -> Result<Building, BuildingError> {
        let open = File::options().read(true).write(true).open(path);
        let file = open.map_err(|e| in_folder(path, folder(path), "open the file", e))?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(BuildingError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(e)) if e.kind() != ErrorKind::Unsupported => {
                Err(io_error(path, "lock the file")(e))
            }
            _ => Ok(Building { path: path.to_owned(), file, keep: true }),
        }
    }

    /// Where the file is now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A second handle on the file, for reading and writing.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Moves it to `path` atomically, replacing an existing file.
    ///
    /// # Errors
    /// The system's words; then nothing has changed.
    pub fn move_to(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// Moves it to `path` in one step, if nothing is there.
    ///
    /// # Errors
    /// The system's words, [`ErrorKind::AlreadyExists`] if something is there; then nothing has changed.
    pub fn move_to_free(&mut self, path: &Path) -> io::Result<()> {
        move_to_free(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// From here on the file holds something: dropping no longer removes it.
    #[inline]
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// True once [`Building::keep`] was called.
    pub fn is_kept(&self) -> bool {
        self.keep
    }

    /// True if the file at the path is this one, and not another that was put there.
    ///
    /// # Errors
    /// The system's words: it was removed or moved away.
    pub fn is_there(&self) -> io::Result<bool> {
        let (there, ours) = (fs::symlink_metadata(&self.path)?, self.file.metadata()?);
        Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }

    /// As [`Building::is_there`], by way of links too.
    ///
    /// # Errors
    /// The system's words: nothing is there.
    pub fn is_reached(&self) -> io::Result<bool> {
        let (there, ours) = (fs::metadata(&self.path)?, self.file.metadata()?);
        Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.keep && self.is_there().unwrap_or(false) {
            // The error cannot be reported any more; the next start removes the file or refuses it as unfinished.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Path of a file while it is made.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = ".building";

    fn reserve(path: &Path) -> Result<Building, BuildingError> {
        Building::reserve(path, END, Leftover::Removed)
    }

    /// Why no file can be made there.
    fn words(path: &Path) -> String {
        said(inspect(path).unwrap_err())
    }

    fn said(e: BuildingError) -> String {
        match e {
            BuildingError::Path { fault, .. } => fault.to_string(),
            BuildingError::Io { doing, source, .. } => format!("cannot {doing}: {source}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_path_that_cannot_hold_a_file_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("plain"), b"x").unwrap();
        let (missing, plain) = (at("missing"), at("plain"));
        assert_eq!(
            words(&missing.join("a.nxs")),
            format!(
                "the folder {} does not exist; make it, or choose another path",
                missing.display()
            )
        );
        for below in ["a.nxs", "b/a.nxs"] {
            let e = words(&plain.join(below));
            assert!(e.contains("plain") && e.contains("is not a folder"), "{e}");
        }
        for folder in [dir.path(), &at("new/"), Path::new(".."), Path::new("/"), Path::new("")] {
            assert!(words(folder).contains("this is a folder"), "{}", folder.display());
        }
        assert!(words(Path::new("/dev/null")).contains("device"));
        assert!(inspect(&plain).is_ok() && inspect(&at("new.nxs")).is_ok());
        assert!(inspect(Path::new("a-name-that-is-not-there.nxs")).is_ok(), "a bare name");
    }

    #[test]
    fn a_folder_that_refuses_files_is_named_with_the_systems_words() {
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            let e = in_folder(Path::new("/x/a.nxs"), Path::new("/x"), "create", kind.into());
            assert!(
                matches!(&e, BuildingError::Path { path, .. } if path == Path::new("/x/a.nxs"))
            );
            let e = said(e);
            assert!(e.starts_with("no file can be made in the folder /x ("), "{e}");
            assert!(e.contains("permissions"), "{e}");
        }
        let full = ErrorKind::StorageFull.into();
        let e = said(in_folder(Path::new("a"), Path::new("."), "create it", full));
        assert!(e.starts_with("cannot create it: "), "{e}");
    }

    #[test]
    fn a_place_is_exclusive_and_vanishes_unless_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.nxs");
        let building = dir.path().join("run.nxs.building");
        fs::write(&building, b"left by a kill").unwrap();
        let first = reserve(&path).unwrap();
        assert_eq!(fs::read(&building).unwrap(), b"", "what was left is gone");
        assert!(matches!(reserve(&path), Err(BuildingError::InUse { .. })));
        drop(first);
        assert!(!building.exists());
        fs::write(&building, b"left by a kill").unwrap();
        let kept = Building::reserve(&path, END, Leftover::Kept);
        assert!(matches!(kept, Err(BuildingError::Left { path }) if path == building));
        assert_eq!(fs::read(&building).unwrap(), b"left by a kill");
        let mut moved = reserve(&path).unwrap();
        moved.move_to(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"of someone else").unwrap();
        drop(moved);
        assert!(path.exists(), "only our own file is removed");
        let mut kept = reserve(&path).unwrap();
        kept.move_to(&path).unwrap();
        kept.keep();
        drop(kept);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_file_goes_to_a_free_path_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.nxs");
        let mut first = reserve(&path).unwrap();
        first.move_to_free(&path).unwrap();
        first.keep();
        assert!(path.exists() && !beside(&path, END).exists());
        // A process that checked before that and was slower.
        let mut second = reserve(&path).unwrap();
        assert_eq!(second.move_to_free(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(first.is_there().unwrap());
        drop(second);
        assert!(path.exists() && !beside(&path, END).exists());
        // A link to nothing is something too.
        let link = dir.path().join("link.nxs");
        std::os::unix::fs::symlink(dir.path().join("nothing"), &link).unwrap();
        let mut third = reserve(&link).unwrap();
        assert_eq!(third.move_to_free(&link).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_link_leads_to_where_the_file_will_be() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        fs::create_dir(at("below")).unwrap();
        for (to, name) in [("below/new", "a"), ("a", "b"), ("gone/new", "c"), ("round", "round")] {
            link(to, name);
        }
        link(at("below/new").to_str().unwrap(), "d");
        for name in ["a", "b", "d"] {
            assert_eq!(landing(&at(name)), at("below/new"), "{name}");
            assert!(inspect(&landing(&at(name))).is_ok(), "{name}");
        }
        assert_eq!(landing(&at("plain")), at("plain"));
        assert!(words(&landing(&at("c"))).contains("gone does not exist"));
        // Of the system, and at once.
        assert!(words(&landing(&at("round"))).contains("cannot look at the existing file"));
    }
}
