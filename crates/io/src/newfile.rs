//! Files that are made new: never through a link that is there, never over a file that is there.
//!
//! The one way to build a file and give it its name in one step ([`replace`]), to hold room without a name
//! ([`unnamed`]), to have a folder of one's own ([`Scratch`]), and to open a file of one's own that stays between runs
//! ([`open_own`], [`read_own`]). Whoever can write to a folder can plant a link at every name that can be guessed: a plain `create`
//! would then write where the link points. So names are drawn at random and made with `O_EXCL`, which refuses whatever
//! stands there, and what is opened again is opened with `O_NOFOLLOW`.
//!
//! A process that is killed leaves its file behind. It is in nobody's way, since the next name is another one, and a
//! [`replace`] in that folder a minute later removes it: it is known by its name, its age, its owner, and by its lock,
//! which ended with the process. Refuses links, and anything but regular files. Source: `docs/architecture.md`, contract "Files".

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of files that are being built: this, 16 hexadecimal digits, [`END`].
const BEGIN: &str = ".fullcount-";
const END: &str = ".new";
/// Names are drawn anew so often. Two that meet are one case in 2⁶⁴; a file system that says so each time lies.
const TRIES: usize = 8;
/// Files that were changed more recently are not swept: their maker may be between making and locking them. Four
/// threads that swept each other's files there used up all [`TRIES`] once in some hundred test runs.
const SWEPT_AFTER: Duration = Duration::from_secs(60);

/// Builds a file beside `path` and moves it there in one step: a reader finds the old file or the new one, whole. What
/// stands at `path` is replaced, a link there is replaced itself and not followed. `write` has to bring the file to the
/// disk if it has to outlive a loss of power. The file stays open for reading and writing, behind what was written.
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

/// A file without a name in this folder, for reading and writing: gone with its last handle, however the process ends.
///
/// # Errors
/// The system's words.
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

/// Makes a file where nothing is, for reading and writing.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] whatever stands there, a link to nothing included, or the system's words.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// A folder of one's own with a name that nobody can guess, open to nobody else; removed with all in it when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it in `parent`; its name begins with `stem`.
    ///
    /// # Errors
    /// The system's words.
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
        // What cannot be removed stays; nobody is left to be told.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder of `path`; `.` for a bare name.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A number that nobody can guess: a hash whose key the system drew.
fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Tries with one number after the other until nothing is in the way.
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

/// Removes what killed processes left in this folder. What cannot be removed is in nobody's way.
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
