//! New files: never created through an existing link, never over an existing file.
//!
//! The only way to build a file and rename it atomically ([`replace`]), to reserve space without a name ([`unnamed`]),
//! to have a private folder ([`Scratch`]), and to open our own file that stays between runs ([`open_own`],
//! [`read_own`]). A user who can write to a folder can plant a link at every predictable name: a plain `create` would
//! then write to the target of the link. So names are random and created with `O_EXCL`, which refuses anything that
//! exists, and files are opened again with `O_NOFOLLOW`.
//!
//! A killed process leaves its file. It blocks nothing, since the next name is a different one, and a [`replace`] in
//! that folder a minute later removes it: it is recognised by its name, its age, its owner, and its lock, which ended
//! with the process. Refuses links, and anything but regular files. Source: `docs/contracts.md`, "Files".

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of files that are being built: this, 16 hexadecimal digits, [`END`].
const BEGIN: &str = ".fullcount-";
const END: &str = ".new";
/// Attempts with new names. A collision has a chance of 2⁻⁶⁴; a file system that reports one each time is wrong.
const TRIES: usize = 8;
/// Files that were changed more recently are not swept: their maker may be between making and locking them. Four
/// threads that swept each other's files there used up all [`TRIES`] once in some hundred test runs.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

/// Builds a file next to `path` and moves it there atomically: a reader finds the complete old or new file. An existing
/// file at `path` is replaced; a link there is itself replaced and not followed. `write` has to sync the file if it
/// must survive a power failure. The file stays open for reading and writing, at the end of the data.
///
/// # Errors
/// The system's words, or those of `write`; nothing has changed then.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<File> {
    let folder = folder(path);
    let (mut file, new) = build(folder)?;
    sweep(folder, &file);
    let made = write(&mut file).and_then(|()| fs::rename(&new, path));
    if let Err(cause) = made {
        // The next one removes it if this cannot.
        let _ = fs::remove_file(&new);
        return Err(cause);
    }
    let _ = file.unlock();
    Ok(file)
}

/// Replaces the file at `path` by one with these bytes, as [`replace`] does. It outlives the process.
///
/// # Errors
/// The system's words; nothing has changed then.
pub fn replace_with(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, |file| io::Write::write_all(file, bytes)).map(drop)
}

/// The same, and it outlives a loss of power as well.
///
/// # Errors
/// The system's words; before the last step, which brings the name to the disk, nothing has changed.
pub fn replace_for_good(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = |file: &mut File| {
        io::Write::write_all(file, bytes)?;
        file.sync_all()
    };
    replace(path, write)?;
    File::open(folder(path))?.sync_all()
}

/// Moves a file in one step, if nothing is at its new path.
///
/// # Errors
/// The system's words, [`ErrorKind::AlreadyExists`] if something is there; then nothing has changed.
pub fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
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
    // Under its old name it blocks nothing, and the next start removes it.
    let _ = fs::remove_file(from);
    Ok(())
}

/// Names that are tried instead of a taken one.
const MOST_BESIDE: u32 = 10_000;

/// Moves a file to `path` atomically; if something exists there, to the next free number (`a.1.json`). Returns its
/// path.
///
/// # Errors
/// The system's words; nothing has changed then.
pub fn move_beside(from: &Path, path: &Path) -> io::Result<PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    let beside = (1..MOST_BESIDE).map(|n| path.with_file_name(format!("{stem}.{n}{end}")));
    for path in std::iter::once(path.to_owned()).chain(beside) {
        match move_to_free(from, &path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Builds a file with these bytes and moves it to `path` atomically; if something exists there, to the next free number
/// ([`move_beside`]). Returns its path.
///
/// # Errors
/// The system's words; nothing has changed then.
pub fn put_beside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let folder = folder(path);
    let (mut file, new) = build(folder)?;
    sweep(folder, &file);
    let placed = io::Write::write_all(&mut file, bytes).and_then(|()| move_beside(&new, path));
    if placed.is_err() {
        // The next one removes it if this cannot.
        let _ = fs::remove_file(&new);
    }
    placed
}

/// A file without a name in this folder, for reading and writing: gone with its last handle, however the process ends.
pub fn unnamed(folder: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        let how =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder);
        match how {
            // File systems without it (NFS, old FUSE) say one of these.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
                ) => {}
            made => return made,
        }
    }
    let (file, path) = build(folder)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// Opens a file that stays between runs, for reading and appending; it is made if it is not there.
///
/// # Errors
/// A link or anything but a regular file is there, or the system's words.
pub fn open_own(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).append(true).create(true);
    regular(path, &mut how)
}

/// Opens a file that an earlier run left, for reading.
///
/// # Errors
/// A link or anything but a regular file is there, or the system's words.
pub fn open_left(path: &Path) -> io::Result<File> {
    regular(path, OpenOptions::new().read(true))
}

/// Reads such a file whole, if it has at most `most` bytes.
///
/// # Errors
/// A link or anything but a regular file is there, it is larger, or the system's words.
pub fn read_own(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_left(path)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(ErrorKind::InvalidData, format!("larger than {most} B"))),
        false => Ok(bytes),
    }
}

/// Creates a file where nothing exists, for reading and writing.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if anything exists, even a dangling link, or the system's error.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// A private folder with an unpredictable name and no access for others; removed with its content when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it in `parent`; its name begins with `stem`.
    pub fn make(parent: &Path, stem: &str) -> io::Result<Scratch> {
        let mut how = fs::DirBuilder::new();
        how.mode(0o700);
        anew(|number| {
            let path = parent.join(format!("{stem}-{number:016x}"));
            how.create(&path).map(|()| Scratch(path))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays; the error cannot be reported any more.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder of `path`; `.` for a bare name.
pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An unpredictable number: a hash with a key from the system.
fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Tries one number after the other until one is free.
fn anew<T>(mut make: impl FnMut(u64) -> io::Result<T>) -> io::Result<T> {
    let mut last = ErrorKind::AlreadyExists.into();
    for _ in 0..TRIES {
        match make(number()) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => last = e,
            made => return made,
        }
    }
    Err(last)
}

/// A new file, locked while it is built, and its name.
fn build(folder: &Path) -> io::Result<(File, PathBuf)> {
    anew(|number| {
        let path = folder.join(format!("{BEGIN}{number:016x}{END}"));
        let file = create(&path)?;
        match file.try_lock() {
            // Another process that swept here just now took it for one that was left.
            Ok(()) if file.metadata()?.nlink() == 0 => Err(ErrorKind::AlreadyExists.into()),
            Err(TryLockError::WouldBlock) => Err(ErrorKind::AlreadyExists.into()),
            // A file system without locks: nothing is swept there either.
            Ok(()) | Err(TryLockError::Error(_)) => Ok((file, path)),
        }
    })
}

/// Removes leftovers of killed processes in this folder. Those that cannot be removed block nothing.
fn sweep(folder: &Path, ours: &File) {
    let (Ok(entries), Ok(ours)) = (fs::read_dir(folder), ours.metadata()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(is_building) {
            continue;
        }
        let path = entry.path();
        // Links are not followed. A file dated in the future waits until the clock has caught up with it.
        let Ok(left) = open_left(&path) else { continue };
        let Ok(about) = left.metadata() else { continue };
        let age = about.modified().ok().and_then(|at| at.elapsed().ok());
        let old = age.is_some_and(|age| age >= SWEPT_AFTER);
        // Another user's file is not ours. A lock that is free: its process has ended.
        if old && about.uid() == ours.uid() && left.try_lock().is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_building(name: &str) -> bool {
    let digits = name.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    digits.is_some_and(|d| d.len() == 16 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Opens without following a link, and without waiting for the other end of a pipe.
fn regular(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) => {
            io::Error::new(ErrorKind::InvalidInput, "a link is there, which is not followed")
        }
        _ => e,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "no regular file is there")),
    }
}

#[cfg(test)]
#[path = "newfile_tests.rs"]
mod tests;
