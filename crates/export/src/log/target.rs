//! Where messages go, and how they are written there.

use std::fmt;
use std::path::PathBuf;

use fullcount_log::LogLine;

use super::file::FileTarget;
use super::gelf::{self, Sender, Smaller};
use super::{journal, syslog};
use crate::peer::Peer;

/// One receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// A file of ours.
    File(FileTarget),
    /// The journal's socket.
    Journal(PathBuf),
    /// The socket of this host's syslog.
    LocalSyslog(PathBuf),
    /// A syslog server; in datagrams, not over a connection.
    Syslog(Peer, bool),
    /// Graylog; in datagrams, made smaller so, not over a connection.
    Gelf(Peer, Option<Smaller>),
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = |datagrams: bool| if datagrams { "udp" } else { "tcp" };
        match self {
            LogTarget::File(file) => write!(f, "file {}", file.path.display()),
            LogTarget::Journal(path) => write!(f, "journal {}", path.display()),
            LogTarget::LocalSyslog(path) => write!(f, "syslog {}", path.display()),
            LogTarget::Syslog(peer, udp) => write!(f, "syslog {}://{peer}", over(*udp)),
            LogTarget::Gelf(peer, udp) => write!(f, "Graylog {}://{peer}", over(udp.is_some())),
        }
    }
}

impl LogTarget {
    /// True for files at one path.
    pub fn is_at(&self, other: &LogTarget) -> bool {
        match (self, other) {
            (LogTarget::File(one), LogTarget::File(other)) => one.path == other.path,
            _ => false,
        }
    }

    /// Its key.
    pub fn key(&self) -> &'static str {
        match self {
            LogTarget::File(_) => "log.file",
            LogTarget::Journal(_) => "log.journald",
            LogTarget::LocalSyslog(_) | LogTarget::Syslog(..) => "log.syslog",
            LogTarget::Gelf(..) => "log.gelf",
        }
    }

    /// A line as it waits: over TCP with its frame, in datagrams without.
    pub fn written(&self, line: &LogLine, sender: &Sender) -> Vec<u8> {
        match self {
            LogTarget::File(file) if file.json => (line.json() + "\n").into_bytes(),
            LogTarget::File(_) => (line.long() + "\n").into_bytes(),
            LogTarget::Journal(_) => journal::datagram(line, sender),
            LogTarget::LocalSyslog(_) => syslog::local(line),
            LogTarget::Syslog(_, true) => syslog::line(line, sender),
            LogTarget::Syslog(_, false) => syslog::counted(&syslog::line(line, sender)),
            LogTarget::Gelf(_, Some(_)) => gelf::object(line, sender),
            LogTarget::Gelf(_, None) => [&gelf::object(line, sender)[..], &[0]].concat(),
        }
    }
}
