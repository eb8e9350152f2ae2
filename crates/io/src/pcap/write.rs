//! Writes captures: classic pcap with nanoseconds, or pcapng with nanoseconds, Ethernet.
//!
//! Payloads are wrapped in Ethernet, IPv4 or IPv6, and UDP with right lengths and checksums, split
//! into IP fragments above the MTU if one is given.
//! Refuses: what [`EmitError`] names, times before 1970 or (classic) from 2106 on, frames above
//! 256 KiB. Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

use std::io::{self, Write};

use fullcount_core::frame::emit::{EmitError, Emitter, Route};

/// Longest frame, bytes: the largest snap length that libpcap reads.
pub const LONGEST_FRAME: usize = 262_144;

/// File format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureFormat {
    /// Classic pcap, little-endian, nanoseconds.
    Pcap,
    /// pcapng, little-endian, one interface, nanoseconds.
    PcapNg,
}

impl CaptureFormat {
    /// By the ending of a file name: pcapng for `.pcapng` and `.ntar`, otherwise classic.
    pub fn from_path(path: &std::path::Path) -> CaptureFormat {
        let end = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match end.as_deref() {
            Some("pcapng" | "ntar") => CaptureFormat::PcapNg,
            _ => CaptureFormat::Pcap,
        }
    }
}

/// Why a frame was not written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum CaptureWriteError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Emit(#[from] EmitError),
    #[error("time {time_ns} ns is before 1970 or above the {limit} of the format")]
    Time { time_ns: i64, limit: &'static str },
    #[error("frame of {bytes} B is above the limit of {LONGEST_FRAME} B")]
    TooLong { bytes: usize },
}

/// Writes consecutive frames.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    format: CaptureFormat,
    emitter: Emitter,
    scratch: Vec<u8>,
    frames: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the file's header. `mtu`: longest IP packet in bytes, `None` splits nothing.
    ///
    /// # Errors
    /// The system's answer.
    pub fn new(
        mut out: W,
        format: CaptureFormat,
        mtu: Option<usize>,
    ) -> Result<Writer<W>, CaptureWriteError> {
        match format {
            CaptureFormat::Pcap => {
                let mut h = Vec::with_capacity(24);
                h.extend_from_slice(&0xa1b2_3c4du32.to_le_bytes());
                h.extend_from_slice(&[2, 0, 4, 0]);
                h.extend_from_slice(&[0; 8]);
                h.extend_from_slice(&(LONGEST_FRAME as u32).to_le_bytes());
                h.extend_from_slice(&1u32.to_le_bytes());
                out.write_all(&h)?;
            }
            CaptureFormat::PcapNg => {
                let mut h = Vec::with_capacity(28 + 32);
                h.extend_from_slice(&0x0a0d_0d0au32.to_le_bytes());
                h.extend_from_slice(&28u32.to_le_bytes());
                h.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
                h.extend_from_slice(&[1, 0, 0, 0]);
                h.extend_from_slice(&u64::MAX.to_le_bytes()); // section length not known
                h.extend_from_slice(&28u32.to_le_bytes());
                // Interface: Ethernet, no snap length, if_tsresol = 9 (nanoseconds).
                h.extend_from_slice(&1u32.to_le_bytes());
                h.extend_from_slice(&32u32.to_le_bytes());
                h.extend_from_slice(&[1, 0, 0, 0]);
                h.extend_from_slice(&0u32.to_le_bytes());
                h.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0]);
                h.extend_from_slice(&[0, 0, 0, 0]);
                h.extend_from_slice(&32u32.to_le_bytes());
                out.write_all(&h)?;
            }
        }
        let emitter = Emitter::new(mtu);
        Ok(Writer { out, format, emitter, scratch: Vec::new(), frames: 0 })
    }

    /// Writes one Ethernet frame captured at `time_ns` (ns since 1970 UTC).
    pub fn frame(&mut self, time_ns: i64, frame: &[u8]) -> Result<(), CaptureWriteError> {
        record(&mut self.out, self.format, &mut self.scratch, time_ns, frame)?;
        self.frames += 1;
        Ok(())
    }

    /// Wraps `payload` as a datagram of `route` and writes its frame or frames.
    pub fn udp(
        &mut self,
        time_ns: i64,
        route: &Route,
        payload: &[u8],
    ) -> Result<(), CaptureWriteError> {
        for frame in self.emitter.udp(route, payload)? {
            record(&mut self.out, self.format, &mut self.scratch, time_ns, frame)?;
            self.frames += 1;
        }
        Ok(())
    }

    /// Frames written.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    /// The system's answer.
    pub fn finish(mut self) -> Result<W, CaptureWriteError> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn record(
    out: &mut impl Write,
    format: CaptureFormat,
    scratch: &mut Vec<u8>,
    time_ns: i64,
    frame: &[u8],
) -> Result<(), CaptureWriteError> {
    if frame.len() > LONGEST_FRAME {
        return Err(CaptureWriteError::TooLong { bytes: frame.len() });
    }
    let limit = match format {
        CaptureFormat::Pcap => "year 2106",
        CaptureFormat::PcapNg => "year 2262",
    };
    let outside = || CaptureWriteError::Time { time_ns, limit };
    let ns = u64::try_from(time_ns).map_err(|_| outside())?;
    let len = frame.len() as u32;
    scratch.clear();
    match format {
        CaptureFormat::Pcap => {
            let seconds = u32::try_from(ns / 1_000_000_000).map_err(|_| outside())?;
            scratch.extend_from_slice(&seconds.to_le_bytes());
            scratch.extend_from_slice(&((ns % 1_000_000_000) as u32).to_le_bytes());
            scratch.extend_from_slice(&len.to_le_bytes());
            scratch.extend_from_slice(&len.to_le_bytes());
            scratch.extend_from_slice(frame);
        }
        CaptureFormat::PcapNg => {
            let padded = frame.len().next_multiple_of(4);
            let size = (32 + padded) as u32;
            scratch.extend_from_slice(&6u32.to_le_bytes());
            scratch.extend_from_slice(&size.to_le_bytes());
            scratch.extend_from_slice(&0u32.to_le_bytes());
            scratch.extend_from_slice(&((ns >> 32) as u32).to_le_bytes());
            scratch.extend_from_slice(&(ns as u32).to_le_bytes());
            scratch.extend_from_slice(&len.to_le_bytes());
            scratch.extend_from_slice(&len.to_le_bytes());
            scratch.extend_from_slice(frame);
            scratch.resize(28 + padded, 0);
            scratch.extend_from_slice(&size.to_le_bytes());
        }
    }
    // One write per record: a killed writer leaves at most one record cut.
    out.write_all(scratch)?;
    Ok(())
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
