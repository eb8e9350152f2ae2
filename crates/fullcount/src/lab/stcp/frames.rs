//! The file of frames of a campaign.

use std::path::PathBuf;

use clap::Args;

use super::super::read;
use crate::exit::Failure;

/// Frames go to a file too.
#[derive(Debug, Args)]
pub struct FramesFlags {
    /// Frames go to this new file too (pcap; pcapng by its ending): of all trials one after the other,
    /// of several senders those of the first
    #[arg(long, value_name = "FILE")]
    frames_to: Option<PathBuf>,
    /// Size of that file at most; what comes after is left out
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    frames_limit: String,
}

impl FramesFlags {
    /// File and greatest size, bytes.
    pub fn read(&self) -> Result<Option<(PathBuf, u64)>, Failure> {
        let limit = read::size("frames-limit", &self.frames_limit)?;
        Ok(self.frames_to.clone().map(|path| (path, limit)))
    }
}
