//! What a sender was told and what it sent, one line each, in a text format that hardware simulators read.
//!
//! A line has nine numbers in hexadecimal, of fixed width and with one blank between: time in ns (16 digits), kind (1),
//! flags (2), sequence number (8), ACK field (8), window field (4), bytes (8), MSS option (4, 0: none), window scale option (2, ff: none).
//! `$sscanf("%h %h %h %h %h %h %h %h %h")` of Verilog reads it. A line that begins with `#` is a comment.
//! Refuses: see [`TraceError`]. Source: docs/stcp.md, "Test vectors".

use core::fmt;

use crate::sender::Outbound;
use crate::wire::{Inbound, TcpFlags};

/// First line of a file.
pub const TRACE_HEADER: &str =
    "# fullcount/stcp-trace/1: time_ns kind flags seq ack window bytes mss scale";

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceKind {
    /// A segment that left.
    Sent = 0,
    /// A segment that came.
    Received = 1,
    /// The application opened; the sequence number is the initial one.
    Opened = 2,
    /// The application submitted so many bytes.
    Submitted = 3,
    /// The application flushed.
    Flushed = 4,
    /// The application aborted.
    Aborted = 5,
    /// A deadline passed.
    Waited = 6,
}

const KINDS: [TraceKind; 7] = [
    TraceKind::Sent,
    TraceKind::Received,
    TraceKind::Opened,
    TraceKind::Submitted,
    TraceKind::Flushed,
    TraceKind::Aborted,
    TraceKind::Waited,
];

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLine {
    /// Time, ns.
    pub at_ns: u64,
    /// What happened.
    pub kind: TraceKind,
    /// The segment, or the numbers of the call.
    pub segment: Inbound,
}

/// Why a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceError {
    /// Not nine numbers of these widths.
    Form,
    /// No such kind.
    Kind,
}

impl fmt::Display for TraceError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            TraceError::Form => {
                "a line has nine hexadecimal numbers of 16, 1, 2, 8, 8, 4, 8, 4 and 2 digits"
            }
            TraceError::Kind => "a kind is 0 to 6",
        })
    }
}

impl core::error::Error for TraceError {}

impl TraceLine {
    /// A segment that left.
    pub fn sent(at_ns: u64, s: &Outbound) -> TraceLine {
        let segment = Inbound {
            seq: s.seq,
            ack: s.ack,
            flags: s.flags,
            window: s.window,
            length: s.length,
            mss: s.options.map(|o| o.0),
            scale: s.options.map(|o| o.1),
        };
        TraceLine { at_ns, kind: TraceKind::Sent, segment }
    }

    /// A segment that came.
    pub fn received(at_ns: u64, segment: &Inbound) -> TraceLine {
        TraceLine { at_ns, kind: TraceKind::Received, segment: *segment }
    }

    /// A call, with its initial number or its bytes.
    pub fn call(at_ns: u64, kind: TraceKind, seq: u32, length: u32) -> TraceLine {
        TraceLine { at_ns, kind, segment: Inbound { seq, length, ..Inbound::default() } }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Its form or kind.
    pub fn read(line: &str) -> Result<TraceLine, TraceError> {
        const WIDTHS: [usize; 9] = [16, 1, 2, 8, 8, 4, 8, 4, 2];
        let mut numbers = [0u64; 9];
        let mut words = line.trim_end().split(' ');
        for (number, width) in numbers.iter_mut().zip(WIDTHS) {
            let word = words.next().filter(|w| w.len() == width && !w.starts_with('+'));
            let word = word.ok_or(TraceError::Form)?;
            *number = u64::from_str_radix(word, 16).map_err(|_| TraceError::Form)?;
        }
        if words.next().is_some() {
            return Err(TraceError::Form);
        }
        let [at_ns, kind, flags, seq, ack, window, length, mss, scale] = numbers;
        let kind = *KINDS.get(kind as usize).ok_or(TraceError::Kind)?;
        let segment = Inbound {
            seq: seq as u32,
            ack: ack as u32,
            flags: TcpFlags(flags as u8),
            window: window as u16,
            length: length as u32,
            mss: (mss != 0).then_some(mss as u16),
            scale: (scale != 0xff).then_some(scale as u8),
        };
        Ok(TraceLine { at_ns, kind, segment })
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = &self.segment;
        write!(
            to,
            "{:016x} {:x} {:02x} {:08x} {:08x} {:04x} {:08x} {:04x} {:02x}",
            self.at_ns,
            self.kind as u8,
            s.flags.0,
            s.seq,
            s.ack,
            s.window,
            s.length,
            s.mss.unwrap_or(0),
            s.scale.unwrap_or(0xff)
        )
    }
}
