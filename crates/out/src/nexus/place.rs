//! The file's place on the disk: looked at before anything is written, taken only when all else worked.
//!
//! A file is made beside its path, as `<name>.building`, and moved there in one step (rename), so an
//! existing file is whole until the new one stands in its place, whatever fails before. The lock
//! taken here lasts until the file is closed: two runs with the same path meet here, and the second is
//! refused. Where the path is a link, the place is that of its target ([`landing`]). Refuses paths without a file name, in folders that are missing or not writable, and paths
//! of anything but a regular file. Source: `docs/architecture.md`, "Errors".

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{NexusError, io_error};
use super::lock::{self, Found};

/// Why no file can be made at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathFault {
    /// The folder is not there.
    NoFolder(PathBuf),
    /// What should be the folder is something else.
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

fn fault(path: &Path, fault: PathFault) -> NexusError {
    NexusError::Path { path: path.to_owned(), fault }
}

/// The folder of `path`; `.` for a bare name.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// As many links in a row as Linux follows.
const MOST_LINKS: usize = 40;

/// Where a file at `path` will be: what a link there leads to, be it there or not. Two runs that come by different
/// links meet there, and a link stays one.
pub(crate) fn landing(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&at) else { break };
        at = folder(&at).join(next);
    }
    at
}

/// Moves a file in one step, if nothing is at its new path.
///
/// # Errors
/// The system's words, [`ErrorKind::AlreadyExists`] if something is there; then nothing has changed.
pub(crate) fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => {}
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) => {
            // A file system without hard links (FAT, some network ones): looked at, then moved.
            return match fs::symlink_metadata(to) {
                Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(from, to),
            };
        }
        Err(e) => return Err(e),
    }
    // Under its old name it is in nobody's way but the next start's, which removes it.
    let _ = fs::remove_file(from);
    Ok(())
}

/// Refuses what no file can be made at. Changes nothing; follows symbolic links.
///
/// # Errors
/// [`NexusError::Path`], or what the system says about the path.
pub(crate) fn inspect(path: &Path) -> Result<(), NexusError> {
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

/// Names the folder as the culprit where it is one.
fn in_folder(path: &Path, folder: &Path, doing: &'static str, e: io::Error) -> NexusError {
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

/// A file of ours, locked, at the place where it is now. Dropping it removes it unless it was kept.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// Shared advisory lock: recovering a file under a living writer would damage it. Readers are not
    /// hindered.
    file: File,
    keep: bool,
}

impl Place {
    /// Makes an empty, locked file beside `path`; what a killed start left there is removed.
    ///
    /// # Errors
    /// [`inspect`]'s, or another process is making a file for the same path.
    pub(crate) fn reserve(path: &Path) -> Result<Place, NexusError> {
        inspect(path)?;
        let building = building_path(path);
        let in_use = || NexusError::InUse { path: path.to_owned() };
        match lock::alone(&building) {
            Ok(Found::Nothing) => {}
            Ok(Found::Free(_left)) => {
                fs::remove_file(&building).map_err(io_error(&building, "remove what is left"))?;
            }
            Ok(Found::InUse) => return Err(in_use()),
            Err(e) => return Err(in_folder(&building, folder(path), "open what is left", e)),
        }
        let made = File::options().read(true).write(true).create_new(true).open(&building);
        let file = made.map_err(|e| match e.kind() {
            // Somebody else began between the look and now.
            ErrorKind::AlreadyExists => in_use(),
            _ => in_folder(path, folder(path), "create the file", e),
        })?;
        let place = Place { path: building, file, keep: false };
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
    pub(crate) fn of_existing(path: &Path) -> Result<Place, NexusError> {
        let open = File::options().read(true).write(true).open(path);
        let file = open.map_err(|e| in_folder(path, folder(path), "open the file", e))?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(NexusError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(e)) if e.kind() != ErrorKind::Unsupported => {
                Err(io_error(path, "lock the file")(e))
            }
            _ => Ok(Place { path: path.to_owned(), file, keep: true }),
        }
    }

    /// Where the file is now.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to `path` in one step; what is there is replaced.
    ///
    /// # Errors
    /// The system's words; then nothing has changed.
    pub(crate) fn move_to(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// Moves it to `path` in one step, if nothing is there.
    ///
    /// # Errors
    /// The system's words, [`ErrorKind::AlreadyExists`] if something is there; then nothing has changed.
    pub(crate) fn move_to_free(&mut self, path: &Path) -> io::Result<()> {
        move_to_free(&self.path, path)?;
        self.path = path.to_owned();
        Ok(())
    }

    /// From here on the file holds something: dropping no longer removes it.
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    /// True once [`Place::keep`] was called.
    pub(crate) fn is_kept(&self) -> bool {
        self.keep
    }

    /// True if the file at the path is this one, and not another that someone put there.
    ///
    /// # Errors
    /// The system's words: it was removed or moved away.
    pub(crate) fn is_there(&self) -> io::Result<bool> {
        let (there, ours) = (fs::symlink_metadata(&self.path)?, self.file.metadata()?);
        Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }
}

impl Place {
    /// As [`Place::is_there`], by way of links too.
    ///
    /// # Errors
    /// The system's words: nothing is there.
    pub(crate) fn is_reached(&self) -> io::Result<bool> {
        let (there, ours) = (fs::metadata(&self.path)?, self.file.metadata()?);
        Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep && self.is_there().unwrap_or(false) {
            // Nobody is left to tell; the next start removes it or refuses it as unfinished.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Path of a file while it is made.
fn building_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or(OsStr::new("run.nxs")).to_owned();
    name.push(".building");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &Path) -> String {
        inspect(path).unwrap_err().to_string()
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
                "output.nexus.path: {0}/a.nxs: the folder {0} does not exist; make it, or choose \
                 another path",
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
            let e = e.to_string();
            assert!(e.starts_with("output.nexus.path: /x/a.nxs: no file can be made in"), "{e}");
            assert!(e.contains("the folder /x (") && e.contains("permissions"), "{e}");
        }
        let e =
            in_folder(Path::new("a"), Path::new("."), "create it", ErrorKind::StorageFull.into());
        assert!(e.to_string().starts_with("a: cannot create it: "), "{e}");
    }

    #[test]
    fn a_place_is_exclusive_and_vanishes_unless_it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.nxs");
        let building = dir.path().join("run.nxs.building");
        fs::write(&building, b"left by a kill").unwrap();
        let first = Place::reserve(&path).unwrap();
        assert_eq!(fs::read(&building).unwrap(), b"", "what was left is gone");
        assert!(matches!(Place::reserve(&path), Err(NexusError::InUse { .. })));
        drop(first);
        assert!(!building.exists());
        let mut moved = Place::reserve(&path).unwrap();
        moved.move_to(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"of someone else").unwrap();
        drop(moved);
        assert!(path.exists(), "only our own file is removed");
        let mut kept = Place::reserve(&path).unwrap();
        kept.move_to(&path).unwrap();
        kept.keep();
        drop(kept);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_file_goes_to_a_free_path_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.nxs");
        let mut first = Place::reserve(&path).unwrap();
        first.move_to_free(&path).unwrap();
        first.keep();
        assert!(path.exists() && !building_path(&path).exists());
        // Whoever looked before that, and was slower.
        let mut second = Place::reserve(&path).unwrap();
        assert_eq!(second.move_to_free(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(first.is_there().unwrap());
        drop(second);
        assert!(path.exists() && !building_path(&path).exists());
        // A link to nothing is something too.
        let link = dir.path().join("link.nxs");
        std::os::unix::fs::symlink(dir.path().join("nothing"), &link).unwrap();
        let mut third = Place::reserve(&link).unwrap();
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
