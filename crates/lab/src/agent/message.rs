//! The line between a campaign and a far agent: one JSON object a line, at most 4 MiB, one answer a request.
//!
//! The campaign speaks first, with the token; the agent answers [`AgentAnswer::Welcome`] or [`AgentAnswer::Refused`] and
//! closes. The token keeps passers-by out; it crosses the line as it is, so a network that others read wants a
//! tunnel. Refuses: lines that are too long, no UTF-8 or no known message.

use std::io::{self, BufRead, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ChildReport;
use super::order::Order;
use super::sample::Sampling;

/// Version of this conversation.
pub const SCHEMA: &str = "fullcount/agent/1";
/// Longest line, bytes. A report of 10,000 intervals is below it by half.
pub const LONGEST: u64 = 4 << 20;
/// Longest line that a stranger may send, bytes.
pub const LONGEST_HELLO: u64 = 4096;

/// What a campaign asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum AgentRequest {
    /// First of all.
    Hello {
        /// [`SCHEMA`].
        schema: String,
        /// The shared token.
        token: String,
    },
    /// Start a child; one at a time.
    Start {
        /// What it does.
        order: Order,
    },
    /// Take CPU intervals.
    Sample {
        /// Which.
        sampling: Sampling,
    },
    /// Has it ended?
    Poll,
    /// End it, as Ctrl-C.
    Interrupt,
    /// Kill it.
    Drop,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum AgentAnswer {
    /// The token was right.
    Welcome {
        /// Version of the binary.
        version: String,
        /// What the host is.
        host: Value,
        /// `rmem_default` and `wmem_default`.
        buffers: (Option<u64>, Option<u64>),
    },
    /// It was not, or somebody else is measuring.
    Refused {
        /// Why.
        reason: String,
    },
    /// The child runs.
    Started {
        /// Port that a receiver listens on.
        port: Option<u16>,
    },
    /// It has not ended.
    Running,
    /// It has ended.
    Ended {
        /// What it left.
        report: ChildReport,
    },
    /// Done as asked.
    Done,
    /// It failed, or the request made no sense.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Writes one message.
pub fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads one line of at most `longest` bytes into `kept`, which holds what came before a timeout; `None` at the
/// end of the conversation.
///
/// # Errors
/// `InvalidData` for a line that is too long or no message, or the system's error (`WouldBlock` and `TimedOut` keep
/// what came).
pub fn read<T: DeserializeOwned>(
    from: &mut impl BufRead,
    kept: &mut Vec<u8>,
    longest: u64,
) -> io::Result<Option<T>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let room = (longest + 1).saturating_sub(kept.len() as u64);
    let n = from.by_ref().take(room).read_until(b'\n', kept)?;
    if kept.last() != Some(&b'\n') {
        if kept.len() as u64 > longest {
            return Err(bad(format!("a line is longer than {longest} bytes")));
        }
        return match (n, kept.is_empty()) {
            (0, true) => Ok(None),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        };
    }
    let line = std::mem::take(kept);
    serde_json::from_slice(&line).map(Some).map_err(|e| {
        let shown: String = String::from_utf8_lossy(&line).trim().chars().take(200).collect();
        bad(format!("{shown}: {e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8], longest: u64) -> io::Result<Option<AgentRequest>> {
        read(&mut io::BufReader::new(bytes), &mut Vec::new(), longest)
    }

    #[test]
    fn messages_cross_and_long_lines_do_not() {
        let hello = AgentRequest::Hello { schema: SCHEMA.into(), token: "x".into() };
        let mut line = Vec::new();
        write(&mut line, &hello).unwrap();
        assert_eq!(read_all(&line, LONGEST_HELLO).unwrap(), Some(hello));
        assert_eq!(read_all(b"", 100).unwrap(), None);
        let e = read_all(&vec![b' '; 1000], 100).unwrap_err();
        assert!(e.to_string().contains("longer than 100 bytes"), "{e}");
        let e = read_all(b"{\"ask\":\"poll\"", 100).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof, "cut in the middle");
        for nonsense in ["{}\n", "\n", "{\"ask\":\"format the disk\"}\n", "\u{FF}\n"] {
            let e = read_all(nonsense.as_bytes(), 100).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData, "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic_or_read_too_much(bytes: Vec<u8>, longest in 0u64..64) {
            let mut from = io::BufReader::new(&bytes[..]);
            let mut kept = Vec::new();
            while let Ok(Some(_)) = read::<AgentRequest>(&mut from, &mut kept, longest) {}
            prop_assert!(kept.len() as u64 <= longest + 1);
        }
    }
}
