//! The file of frames of a campaign: its trials write to it one after the other, up to its size. Frames of Linux sockets are not in
//! it: they never pass here. A campaign with a destination tells it the file by its URL ([`keys`]).

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

/// Keys of the URL of a destination `stcp://` that makes the new file itself, each with `&` in front.
///
/// # Errors
/// It is there, its folder is not, or its name cannot stand in a URL.
pub fn keys(asked: Option<&(PathBuf, u64)>) -> Result<String, LabError> {
    let Some((path, limit)) = asked else { return Ok(String::new()) };
    let refused = |why: &str| Err(LabError::Refused(format!("{}: {why}", path.display())));
    let Some(name) = path.to_str().filter(|name| !name.contains(['&', '?', '#'])) else {
        return refused("a file of frames has a name without &, ? and # here");
    };
    if path.symlink_metadata().is_ok() {
        return refused("there is a file with this name already");
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return refused("its folder is not there");
    }
    Ok(format!("&frames_to={name}&frames_limit={limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_made_is_refused_before_anything_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let asked = |name: &str| keys(Some(&(folder.path().join(name), 5000)));
        assert_eq!(keys(None).unwrap(), "");
        assert!(asked("a.pcap").unwrap().ends_with("a.pcap&frames_limit=5000"));
        std::fs::write(folder.path().join("b.pcap"), "").unwrap();
        for (name, why) in
            [("b.pcap", "already"), ("none/c.pcap", "folder"), ("a&port=1", "without &")]
        {
            match asked(name) {
                Err(LabError::Refused(said)) => assert!(said.contains(why), "{said}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
