//! Files that are read completely: configuration, geometry, calibration, tokens, templates.
//!
//! Each is read up to a limit, even an endless device (`/dev/zero` once took 22 GB) or a capture named by mistake.
//! Pipes are read as well, so that `--geometry <(make-geometry)` and `/dev/stdin` work, but a silent one is given up: a
//! named pipe without a writer would block a service for ever at its start. Refuses larger files, directories, sockets,
//! silence, and text that is not UTF-8.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// Largest configuration, geometry, calibration, mapping, structure or template, bytes. The largest known are calibrations
/// of 15 FECs with 1,024 channels each, 2 MB as JSON.
pub const LARGEST_INPUT: u64 = 64 << 20;

/// Largest file with a token or a password, bytes.
pub const LARGEST_SECRET: u64 = 64 << 10;

/// Longest wait for a writer of a named pipe: `mkfifo p; make > p & fullcount …` takes milliseconds.
const ALONE: Duration = Duration::from_secs(5);
/// Longest wait for the next byte of a pipe with a writer, or of a device: a geometry may come over ssh.
const SILENCE: Duration = Duration::from_secs(60);
/// Between two looks at a pipe that has nothing.
const LOOK: Duration = Duration::from_millis(5);

/// A file that cannot be read. The caller names it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum InputError {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error("it has {bytes} bytes, and at most {limit} ({limit_mib}) are read", limit_mib = crate::quantity::size_text(*limit))]
    TooLarge { bytes: u64, limit: u64 },
    #[error("it goes on behind {limit} bytes ({limit_mib}), which is the most that is read", limit_mib = crate::quantity::size_text(*limit))]
    Endless { limit: u64 },
    #[error("it is a {0}, and a file or a pipe is needed")]
    NoFile(&'static str),
    #[error("it is a pipe or a device that gave nothing for {0:?}")]
    Silent(Duration),
    #[error("it is no text: byte {0} is not UTF-8")]
    NoText(usize),
}

impl InputError {
    /// True if there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, InputError::System(e) if e.kind() == ErrorKind::NotFound)
    }
}

impl From<InputError> for io::Error {
    fn from(e: InputError) -> io::Error {
        match e {
            InputError::System(e) => e,
            other => io::Error::new(ErrorKind::InvalidData, other),
        }
    }
}

/// The text of the file at `path`, of at most `limit` bytes.
pub fn text(path: &Path, limit: u64) -> Result<String, InputError> {
    let bytes = bytes(path, limit)?;
    String::from_utf8(bytes).map_err(|e| InputError::NoText(e.utf8_error().valid_up_to()))
}

/// The file at `path`, of at most `limit` bytes.
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let file = open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(InputError::NoFile("directory"));
    }
    if !about.is_file() {
        return patiently(&file, limit, (ALONE, SILENCE));
    }
    // Files below /proc and /sys say 0 and have more.
    if about.len() > limit {
        return Err(InputError::TooLarge { bytes: about.len(), limit });
    }
    let mut all = Vec::new();
    file.take(limit + 1).read_to_end(&mut all)?;
    if all.len() as u64 > limit {
        return Err(InputError::Endless { limit });
    }
    Ok(all)
}

/// Opens without waiting: a named pipe would wait for its other end.
#[cfg(unix)]
fn open(path: &Path) -> Result<File, InputError> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    opened.map_err(|e| match std::fs::metadata(path) {
        Ok(about) if about.file_type().is_socket() => InputError::NoFile("socket"),
        _ => e.into(),
    })
}

#[cfg(not(unix))]
fn open(path: &Path) -> Result<File, InputError> {
    Ok(OpenOptions::new().read(true).open(path)?)
}

/// True for a pipe, whose end may be yet to come.
#[cfg(unix)]
fn is_pipe(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    Ok(file.metadata()?.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Reads what may have no end, or nothing to give. Waits for a writer, and for its next byte, so long.
fn patiently(
    mut file: &File,
    limit: u64,
    (alone, silence): (Duration, Duration),
) -> Result<Vec<u8>, InputError> {
    let (mut all, mut part, pipe) = (Vec::new(), vec![0; 64 << 10], is_pipe(file)?);
    let mut heard = Instant::now();
    loop {
        let patience = match file.read(&mut part) {
            // Nothing was written yet: the writer may still come.
            Ok(0) if all.is_empty() && pipe => alone,
            Ok(0) => return Ok(all),
            Ok(n) => {
                heard = Instant::now();
                all.extend_from_slice(&part[..n]);
                if all.len() as u64 > limit {
                    return Err(InputError::Endless { limit });
                }
                continue;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == ErrorKind::WouldBlock => silence,
            Err(e) => return Err(e.into()),
        };
        if heard.elapsed() >= patience {
            return Err(InputError::Silent(patience));
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(all(test, unix))]
#[path = "input_file_tests.rs"]
mod tests;
