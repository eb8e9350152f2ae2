//! Programs that send and receive SPEAD with spead2's options: ours and spead2's own; their command lines and their lines of output.
//!
//! Refuses output that is none of theirs. Source: `docs/formats/spead.md`, section 14.

use std::path::PathBuf;

/// Whose programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpeadPeer {
    /// `fullcount spead2 send` and `recv`.
    Ours {
        /// The `fullcount` binary.
        program: PathBuf,
    },
    /// spead2's C++ tools.
    Spead2 {
        /// Folder with `spead2_send` and `spead2_recv`.
        folder: PathBuf,
    },
    /// The scripts of the PyPI package spead2.
    Pypi {
        /// Folder with `spead2_send.py` and `spead2_recv.py`.
        folder: PathBuf,
    },
    /// One sends to another.
    Pair {
        /// As in tables: `SENDER-RECEIVER`.
        name: &'static str,
        /// Who sends.
        sender: Box<SpeadPeer>,
        /// Who receives.
        receiver: Box<SpeadPeer>,
    },
}

impl SpeadPeer {
    /// Name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            SpeadPeer::Ours { .. } => "fullcount",
            SpeadPeer::Spead2 { .. } => "spead2",
            SpeadPeer::Pypi { .. } => "pypi",
            SpeadPeer::Pair { name, .. } => name,
        }
    }

    /// Who receives.
    fn receiver(&self) -> &SpeadPeer {
        match self {
            SpeadPeer::Pair { receiver, .. } => receiver,
            alone => alone,
        }
    }

    /// Program and first words of the sender, or the receiver.
    pub fn program(&self, sends: bool) -> (PathBuf, Vec<String>) {
        match self {
            SpeadPeer::Ours { program } => {
                let verb = if sends { "send" } else { "recv" };
                (program.clone(), vec!["spead2".to_owned(), verb.to_owned()])
            }
            SpeadPeer::Spead2 { folder } => {
                let name = if sends { "spead2_send" } else { "spead2_recv" };
                (folder.join(name), Vec::new())
            }
            SpeadPeer::Pypi { folder } => {
                let name = if sends { "spead2_send.py" } else { "spead2_recv.py" };
                (folder.join(name), Vec::new())
            }
            SpeadPeer::Pair { sender, receiver, .. } => {
                if sends {
                    sender.program(true)
                } else {
                    receiver.program(false)
                }
            }
        }
    }
}

/// What is sent, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeadWish {
    /// Over TCP.
    pub tcp: bool,
    /// Payload of a heap, bytes.
    pub heap_bytes: u64,
    /// Heaps of each stream.
    pub heaps: u64,
    /// Largest packet, bytes.
    pub packet: usize,
    /// Socket buffers of both ends; `None`: the tool's own.
    pub buffer: Option<u64>,
    /// Gb/s of SPEAD bytes of each stream; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// The receiver has a memory pool.
    pub pool: bool,
    /// Sockets of our receiver; spead2's has one.
    pub sockets: u32,
}

impl SpeadWish {
    /// Words of the sender behind its first ones.
    pub fn sender(&self, to: &str) -> Vec<String> {
        let mut words = vec![
            "--heap-size".to_owned(),
            self.heap_bytes.to_string(),
            "--heaps".to_owned(),
            self.heaps.to_string(),
            "--packet".to_owned(),
            self.packet.to_string(),
        ];
        if let Some(bytes) = self.buffer {
            words.extend(["--buffer".to_owned(), bytes.to_string()]);
        }
        if let Some(rate) = self.rate {
            words.extend(["--rate".to_owned(), format!("{rate:.6}")]);
        }
        if self.tcp {
            words.push("--tcp".to_owned());
        }
        words.push(to.to_owned());
        words
    }

    /// Words of a receiver behind its first ones.
    pub fn receiver(&self, at: &str, peer: &SpeadPeer) -> Vec<String> {
        let peer = peer.receiver();
        let mut words = vec![];
        // PyPI's prints a line for each heap in any case.
        if !matches!(peer, SpeadPeer::Pypi { .. }) {
            words.push("--quiet".to_owned());
        }
        if !self.tcp && matches!(peer, SpeadPeer::Ours { .. }) {
            words.extend(["--sockets".to_owned(), self.sockets.to_string()]);
        }
        // spead2 refuses packets above its own limits.
        let most = if self.tcp { 65_536 } else { 9200 };
        if self.packet > most {
            words.extend(["--packet".to_owned(), self.packet.to_string()]);
        }
        if let Some(bytes) = self.buffer {
            words.extend(["--buffer".to_owned(), bytes.to_string()]);
        }
        if self.pool {
            let size = self.heap_bytes.to_string();
            words.push("--mem-pool".to_owned());
            words.extend(["--mem-upper".to_owned(), size]);
            words.extend(["--mem-max-free", "16", "--mem-initial", "16"].map(str::to_owned));
        }
        if self.tcp {
            words.push("--tcp".to_owned());
        }
        words.push(at.to_owned());
        words
    }
}

/// What a sender says at its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SenderEnd {
    /// Bytes of SPEAD packets.
    pub bytes: u64,
    /// Its run time, s.
    pub seconds: f64,
}

/// Reads `Sent 8426481 bytes in 0.345169 seconds, 0.195301 Gb/s`, also without ` seconds`.
pub fn sent(output: &str) -> Option<SenderEnd> {
    let line = output.lines().rev().find(|line| line.starts_with("Sent "))?;
    let mut words = line.split_whitespace();
    let bytes = words.nth(1)?.parse().ok()?;
    let seconds = words.nth(2)?.trim_end_matches([',', 's']).parse().ok()?;
    Some(SenderEnd { bytes, seconds })
}

/// What a receiver says at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeapsHeard {
    /// Heaps with every byte, the stop heap left out.
    pub heaps: u64,
    /// Its statistics in their order.
    pub statistics: Vec<(String, u64)>,
}

/// Reads `Received 3 heaps`, of PyPI's `Shutting down stream 0 after 3 heaps`, and the lines `NAME: VALUE` behind it.
pub fn heard(output: &str) -> Option<HeapsHeard> {
    let mut lines = output.lines().skip_while(|line| total(line).is_none());
    let heaps = total(lines.next()?)?;
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    Some(HeapsHeard { heaps, statistics: lines.map_while(pair).collect() })
}

fn total(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["Received", n, "heaps" | "heap"] => n.parse().ok(),
        ["Shutting", "down", "stream", _, "after", n, "heaps"] => n.parse().ok(),
        _ => None,
    }
}
