//! What is written of one sender of a simulation: its frames at simulated times, and what it was told and what it sent as a trace for
//! simulators of hardware.
//!
//! A simulation has lengths only, so payload is zeros; checksums are right. Both files have a size limit, and what comes after it is
//! left out. Refuses files that are there. Source: docs/stcp-congestion.md, "Files of one sender".

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use fullcount_io::newfile;
use fullcount_io::raw::FrameFile;
use fullcount_stcp::Outbound;
use fullcount_stcp::sender::Purpose;
use fullcount_stcp::trace::{TRACE_HEADER, TraceKind, TraceLine};
use fullcount_stcp::wire::{Addresses, Inbound, ip};

use crate::error::LabError;

/// Ethernet header of what the sender sends: from 02:00:0a:4d:00:01 to 02:00:0a:4d:00:02, IPv4.
const OUT: [u8; 14] = [2, 0, 10, 77, 0, 2, 2, 0, 10, 77, 0, 1, 8, 0];
/// The same of what it gets.
const BACK: [u8; 14] = [2, 0, 10, 77, 0, 1, 2, 0, 10, 77, 0, 2, 8, 0];
const ENDS: Addresses =
    Addresses { local: [10, 77, 0, 1], remote: [10, 77, 0, 2], local_port: 10, remote_port: 5000 };
const BACK_ENDS: Addresses = Addresses {
    local: ENDS.remote,
    remote: ENDS.local,
    local_port: ENDS.remote_port,
    remote_port: ENDS.local_port,
};

/// Payload.
static ZEROS: [u8; 65_535] = [0; 65_535];

/// What is asked: names of new files, each with its greatest size, bytes.
#[derive(Debug, Clone, Default)]
pub struct WatchFiles {
    /// Frames: pcap; pcapng by its ending.
    pub frames: Option<(PathBuf, u64)>,
    /// A trace: docs/stcp.md, "Test vectors".
    pub trace: Option<(PathBuf, u64)>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatchCounts {
    /// Frames.
    pub frames: u64,
    /// Lines of the trace, without its header.
    pub lines: u64,
}

impl WatchFiles {
    /// True if nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.frames.is_none() && self.trace.is_none()
    }

    /// Makes the files; `None` if nothing is asked.
    ///
    /// # Errors
    /// One is there, or cannot be made.
    pub fn create(&self) -> Result<Option<SimWatch>, LabError> {
        if self.is_empty() {
            return Ok(None);
        }
        let refused = |e: &dyn std::fmt::Display| LabError::Refused(e.to_string());
        let frames = self.frames.as_ref().map(|(path, limit)| FrameFile::create(path, *limit));
        let trace = self.trace.as_ref().map(|(path, limit)| TraceFile::create(path, *limit));
        Ok(Some(SimWatch {
            frames: frames.transpose().map_err(|e| refused(&e))?,
            trace: trace.transpose()?,
            frame: vec![],
            id: 0,
        }))
    }
}

/// A trace that grows up to a size.
#[derive(Debug)]
struct TraceFile {
    out: BufWriter<File>,
    path: PathBuf,
    left: u64,
    lines: u64,
    failed: Option<std::io::Error>,
}

impl TraceFile {
    fn create(path: &Path, limit: u64) -> Result<TraceFile, LabError> {
        let refused = |e: std::io::Error| LabError::Refused(format!("{}: {e}", path.display()));
        let mut out = BufWriter::new(newfile::create(path).map_err(refused)?);
        writeln!(out, "{TRACE_HEADER}").map_err(refused)?;
        Ok(TraceFile { out, path: path.to_owned(), left: limit, lines: 0, failed: None })
    }

    fn put(&mut self, line: &TraceLine) {
        // Nine numbers of fixed width, a blank or an end behind each.
        const LINE: u64 = 16 + 1 + 2 + 8 + 8 + 4 + 8 + 4 + 2 + 9;
        if self.left < LINE {
            self.left = 0;
            return;
        }
        self.left -= LINE;
        match writeln!(self.out, "{line}") {
            Ok(()) => self.lines += 1,
            Err(e) => (self.left, self.failed) = (0, Some(e)),
        }
    }

    fn finish(mut self) -> Result<u64, LabError> {
        let done = self.failed.map_or_else(|| self.out.flush(), Err);
        match done {
            Ok(()) => Ok(self.lines),
            Err(e) => Err(LabError::Failed(anyhow::anyhow!("{}: {e}", self.path.display()))),
        }
    }
}

/// Writes what it is told of one sender.
#[derive(Debug)]
pub struct SimWatch {
    frames: Option<FrameFile>,
    trace: Option<TraceFile>,
    frame: Vec<u8>,
    id: u16,
}

impl SimWatch {
    fn frame(&mut self, now: u64, (ethernet, ends): (&[u8], &Addresses), segment: &Outbound) {
        let Some(file) = &mut self.frames else { return };
        self.id = self.id.wrapping_add(1);
        let payload = &ZEROS[..(segment.length as usize).min(ZEROS.len())];
        let mut headers = [0; ip::HEADERS];
        let length = ip::write(&mut headers, ends, self.id, segment, (payload, &[]), false);
        self.frame.clear();
        self.frame.extend_from_slice(ethernet);
        self.frame.extend_from_slice(&headers[..length]);
        self.frame.extend_from_slice(payload);
        file.put_at(now as i64, &self.frame);
    }

    fn line(&mut self, line: &TraceLine) {
        if let Some(trace) = &mut self.trace {
            trace.put(line);
        }
    }

    /// A segment that left.
    pub(super) fn sent(&mut self, now: u64, segment: &Outbound) {
        self.line(&TraceLine::sent(now, segment));
        self.frame(now, (&OUT, &ENDS), segment);
    }

    /// A segment that came.
    pub(super) fn received(&mut self, now: u64, s: &Inbound) {
        self.line(&TraceLine::received(now, s));
        let segment = Outbound {
            purpose: Purpose::Control,
            seq: s.seq,
            ack: s.ack,
            flags: s.flags,
            window: s.window,
            options: s.mss.zip(s.scale),
            offset: 0,
            length: s.length,
            mss: 0,
        };
        self.frame(now, (&BACK, &BACK_ENDS), &segment);
    }

    /// A call, with its initial number or its bytes.
    pub(super) fn call(&mut self, now: u64, kind: TraceKind, seq: u32, length: u32) {
        self.line(&TraceLine::call(now, kind, seq, length));
    }

    /// Brings everything to the files.
    ///
    /// # Errors
    /// The system's answer.
    pub fn finish(self) -> Result<WatchCounts, LabError> {
        let frames = self.frames.map(FrameFile::finish).transpose();
        let frames = frames.map_err(|e| LabError::Failed(e.into()))?.unwrap_or(0);
        let lines = self.trace.map(TraceFile::finish).transpose()?.unwrap_or(0);
        Ok(WatchCounts { frames, lines })
    }
}
