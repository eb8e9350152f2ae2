//! Frames of a link written to a file, up to a size: what left and what came for us, with complete checksums.
//!
//! With segmentation offload a frame is the unit before it is cut. Refuses a file that is there. Source: `pcap-savefile(5)`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::frame::complete;
use super::setup::RawError;
use crate::frames::NOTE;
use crate::newfile;
use crate::pcap::write::{CaptureFormat, Writer};
use crate::wall::wall_ns;

/// Of each record beside its frame, bytes: pcapng's, the larger of the two.
const RECORD: u64 = 32;
/// The same in front of all records.
const HEADER: u64 = 60;

/// A file of frames.
#[derive(Debug)]
pub struct FrameFile {
    writer: Writer<BufWriter<File>>,
    path: PathBuf,
    left: u64,
    scratch: Vec<u8>,
    failed: Option<String>,
}

impl FrameFile {
    /// A new file for at most `limit` bytes; pcapng if its name ends so.
    ///
    /// # Errors
    /// It is there, or cannot be made.
    pub fn create(path: &Path, limit: u64) -> Result<FrameFile, RawError> {
        let wrong = |cause: String| RawError::File { path: path.display().to_string(), cause };
        let file = newfile::create(path).map_err(|e| wrong(e.to_string()))?;
        let writer = Writer::new(BufWriter::new(file), CaptureFormat::from_path(path), None)
            .map_err(|e| wrong(e.to_string()))?;
        let (path, left) = (path.to_owned(), limit.saturating_sub(HEADER));
        Ok(FrameFile { writer, path, left, scratch: vec![], failed: None })
    }

    /// Writes a noted frame, given in parts; false: there is no room for it, and for none after it. A file that fails gets
    /// no more and says so at its end: the streams go on.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        if !self.has_room(length) {
            return false;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        parts.iter().for_each(|part| scratch.extend_from_slice(part));
        complete(&mut scratch);
        let put = self.write(wall_ns(), scratch.get(NOTE..).unwrap_or_default());
        self.scratch = scratch;
        put
    }

    /// Writes an Ethernet frame with complete checksums at a time of its own, ns since 1970; false: there is no room for it, and for
    /// none after it.
    pub fn put_at(&mut self, time_ns: i64, frame: &[u8]) -> bool {
        self.has_room(frame.len()) && self.write(time_ns, frame)
    }

    fn has_room(&mut self, frame: usize) -> bool {
        // pcapng fills up to a multiple of four.
        let need = frame.next_multiple_of(4) as u64 + RECORD;
        let room = need <= self.left;
        self.left = if room { self.left - need } else { 0 };
        room
    }

    fn write(&mut self, time_ns: i64, frame: &[u8]) -> bool {
        match self.writer.frame(time_ns, frame) {
            Ok(()) => true,
            Err(e) => {
                (self.left, self.failed) = (0, Some(e.to_string()));
                false
            }
        }
    }

    /// Brings everything to the file; how many frames it has.
    ///
    /// # Errors
    /// The system's answer.
    pub fn finish(self) -> Result<u64, RawError> {
        let frames = self.writer.frames();
        let path = self.path.display().to_string();
        let finished = self.writer.finish().map_err(|e| e.to_string());
        match self.failed.map_or(finished.map(drop), Err) {
            Ok(()) => Ok(frames),
            Err(cause) => Err(RawError::File { path, cause }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of odd lengths, in both formats: the file is never longer than asked for, and not much shorter.
    #[test]
    fn a_file_is_no_longer_than_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.pcap", "a.pcapng"] {
            for length in [61, 62, 63, 64] {
                let path = folder.path().join(format!("{length}{name}"));
                let mut file = FrameFile::create(&path, 10_000).unwrap();
                while file.put_at(1, &vec![0; length]) {}
                assert!(!file.put_at(1, &[0; 14]), "none after one that had no room");
                let frames = file.finish().unwrap();
                let size = std::fs::metadata(&path).unwrap().len();
                assert!(size <= 10_000 && frames >= 100, "{name}: {frames} frames, {size} B");
            }
        }
    }
}
