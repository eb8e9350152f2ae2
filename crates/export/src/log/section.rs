//! The keys of `[log]`: read, checked, and explained. Refuses addresses, sizes and levels that cannot be.
//!
//! Source: `docs/configuration.md`.

use std::path::{Path, PathBuf};

use fullcount_core::key::Key;
use fullcount_core::key::Takes::{Path as File, Text, Value};
use fullcount_core::quantity;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_io::section as reading;
use fullcount_log::LogFilter;
use serde::{Deserialize, Serialize};

use super::file::FileTarget;
use super::gelf::Smaller;
use super::journal;
use super::target::LogTarget;
use crate::peer::Peer;

/// Port of GELF.
const GELF: u16 = 12201;
/// Port of syslog.
const SYSLOG: u16 = 514;

/// `[log]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSection {
    /// Graylog server, or `off`.
    gelf: String,
    /// How its datagrams are made smaller.
    compression: String,
    /// syslog server, the socket of this host's, or `off`.
    syslog: String,
    /// `on`: the journal's socket; another socket, or `off`.
    journald: String,
    /// A file of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// How it looks.
    file_format: String,
    /// Where the next file begins.
    #[serde(deserialize_with = "reading::text")]
    max_size: String,
    /// Files that are kept beside it.
    keep: u32,
    /// What is told at least.
    level: String,
}

impl Default for LogSection {
    fn default() -> Self {
        LogSection {
            gelf: "off".into(),
            compression: "gzip".into(),
            syslog: "off".into(),
            journald: "off".into(),
            file: None,
            file_format: "text".into(),
            max_size: "16MiB".into(),
            keep: 5,
            level: "info".into(),
        }
    }
}

/// `tcp://HOST:PORT`, `udp://HOST:PORT`; without a scheme the usual one.
fn peer(
    key: &'static str,
    text: &str,
    (port, usual_udp): (u16, bool),
) -> Result<Option<(Peer, bool)>, Refusal> {
    let (datagrams, rest) = match (text.strip_prefix("udp://"), text.strip_prefix("tcp://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => (usual_udp, text),
    };
    let wrong = |_| {
        let why = format!(
            "HOST, HOST:PORT or [IPv6]:PORT (usual port: {port}), with udp:// or tcp:// before it, or off"
        );
        refuse(key, text, why)
    };
    let peer = Peer::read(key, rest, port).map_err(wrong)?;
    Ok(peer.map(|peer| (peer, datagrams)))
}

impl LogSection {
    /// All that messages go to.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn targets(&self) -> Result<Vec<LogTarget>, Refusal> {
        let compression = Smaller::read(&self.compression)
            .ok_or_else(|| refuse("log.compression", &self.compression, "gzip, zlib or off"))?;
        let gelf = peer("log.gelf", &self.gelf, (GELF, false))?;
        let gelf = gelf.map(|(peer, udp)| LogTarget::Gelf(peer, udp.then_some(compression)));
        let syslog = match Path::new(&self.syslog).is_absolute() {
            true => Some(LogTarget::LocalSyslog(self.syslog.clone().into())),
            false => peer("log.syslog", &self.syslog, (SYSLOG, true))?
                .map(|(peer, udp)| LogTarget::Syslog(peer, udp)),
        };
        let journal = match self.journald.as_str() {
            "off" => None,
            "on" => Some(LogTarget::Journal(journal::SOCKET.into())),
            path if path.starts_with('/') => Some(LogTarget::Journal(path.into())),
            other => return Err(refuse("log.journald", other, "on, off, or the path of a socket")),
        };
        Ok([self.file()?, journal, syslog, gelf].into_iter().flatten().collect())
    }

    fn file(&self) -> Result<Option<LogTarget>, Refusal> {
        let json = match self.file_format.as_str() {
            "text" => false,
            "json" => true,
            other => return Err(refuse("log.file_format", other, "text or json")),
        };
        let sizes = 64 << 10..=1 << 40;
        let max_size = quantity::size(&self.max_size).ok().filter(|size| sizes.contains(size));
        let max_size =
            max_size.ok_or_else(|| refuse("log.max_size", &self.max_size, "64KiB to 1TiB"))?;
        if !(1..=99).contains(&self.keep) {
            return Err(refuse("log.keep", self.keep, "1 to 99"));
        }
        let Some(path) = self.file.clone() else { return Ok(None) };
        if path.file_name().is_none() {
            return Err(refuse("log.file", path.display(), "the path of a file"));
        }
        Ok(Some(LogTarget::File(FileTarget { path, json, max_size, keep: self.keep })))
    }

    /// What is told.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn level(&self) -> Result<LogFilter, Refusal> {
        let filter = LogFilter::read(&self.level);
        filter.ok_or_else(|| refuse("log.level", &self.level, LogFilter::ALLOWED))
    }
}

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new(
        Text,
        "log.level",
        "`\"info\"`",
        "`emergency`, `alert`, `critical`, `error`, `warning`, `notice`, `info`, `debug`; also `ORIGIN=LEVEL` or `ORIGIN=off` behind a comma, such as `info,kafka=debug`",
        "messages of this severity and worse are told, on the terminal and to all below; the flag is `--log`",
    ),
    Key::new(
        File,
        "log.file",
        "–",
        "a path; no link",
        "file that gets all messages, a line each; locked, so that each process needs its own ([rotation](operations.md#messages))",
    ),
    Key::new(
        Text,
        "log.file_format",
        "`\"text\"`",
        "`text`, `json`",
        "lines for people, or an object a line",
    ),
    Key::new(
        Text,
        "log.max_size",
        "`\"16MiB\"`",
        "64KiB to 1TiB",
        "a line that would make the file larger begins the next; the old one becomes `NAME.1`, and so on",
    ),
    Key::new(Value, "log.keep", "`5`", "1 to 99", "files that are kept beside it"),
    Key::new(
        Text,
        "log.journald",
        "`\"off\"`",
        "`on`, the path of a socket, or `off`",
        "the journal of systemd gets all messages with their fields, in its own protocol",
    ),
    Key::new(
        Text,
        "log.syslog",
        "`\"off\"`",
        "`HOST:PORT` (port 514 unless given), `tcp://HOST:PORT`, the path of this host's socket (`/dev/log`), or `off`",
        "syslog server that gets the same as RFC 5424: in datagrams; or over TCP, each with its length before it",
    ),
    Key::new(
        Text,
        "log.gelf",
        "`\"off\"`",
        "`HOST:PORT` (port 12201 unless given), `udp://HOST:PORT`, or `off`",
        "Graylog server that gets messages ([which](operations.md#messages)): over TCP, each with a NUL behind it; or in datagrams, compressed and in chunks",
    ),
    Key::new(
        Text,
        "log.compression",
        "`\"gzip\"`",
        "`gzip`, `zlib`, `off`",
        "how datagrams to Graylog are compressed",
    ),
];
