//! The file of frames of a campaign: its trials write to it one after the other, up to its size. Frames of Linux sockets are not in
//! it: they never pass here.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fullcount_io::raw::{FrameFile, RawLink};

use crate::error::LabError;
use crate::record::Record;

/// A file that one link at a time writes to.
#[derive(Debug, Default)]
pub struct FrameTape {
    file: Mutex<Option<FrameFile>>,
}

impl FrameTape {
    /// Makes the new file that is asked for, with its greatest size in bytes.
    ///
    /// # Errors
    /// It is there, or cannot be made.
    pub fn create(asked: Option<&(PathBuf, u64)>) -> Result<FrameTape, LabError> {
        let file = asked.map(|(path, limit)| FrameFile::create(path, *limit)).transpose();
        Ok(FrameTape { file: Mutex::new(file.map_err(|e| LabError::Refused(e.to_string()))?) })
    }

    /// From now on the frames of this link are written, if the file is free.
    pub fn lend(&self, link: &mut RawLink) {
        if let Some(file) = self.file.lock().unwrap_or_else(PoisonError::into_inner).take() {
            link.record(file);
        }
    }

    /// The link writes no more.
    pub fn take_back(&self, link: &mut RawLink) {
        if let Some(file) = link.take_file() {
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
    }

    /// Brings everything to the file, and notes how many frames it has.
    ///
    /// # Errors
    /// The system's answer.
    pub fn finish(self, record: &mut Record) -> Result<(), LabError> {
        let file = self.file.into_inner().unwrap_or_else(PoisonError::into_inner);
        let frames = file.map(FrameFile::finish).transpose();
        if let Some(frames) = frames.map_err(|e| LabError::Failed(e.into()))? {
            record.parameter("frames_in_file", frames);
        }
        Ok(())
    }
}
