//! GELF: one JSON object a message; over TCP with a NUL behind it, over UDP compressed and in chunks.
//!
//! Refuses a message that 128 chunks do not hold. Source: `control-and-monitoring.md` section 5.3; Graylog's GELF 1.1.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use fullcount_log::LogLine;
use fullcount_log::filter::origin;
use serde_json::json;

/// What every message says of its sender.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Name of the host.
    pub host: String,
    /// Name of the detector.
    pub detector: String,
}

/// Payload of a datagram that no usual network has to cut.
const DATAGRAM: usize = 1420;
/// Head of a chunk: magic, id, its number, how many there are.
const HEAD: usize = 12;
/// Chunks of a message at most.
const CHUNKS: usize = 128;

/// How the object of a datagram is made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smaller {
    /// As RFC 1952 has it.
    Gzip,
    /// As RFC 1950 has it.
    Zlib,
    /// Not at all.
    Off,
}

impl Smaller {
    /// Reads `log.compression`.
    pub fn read(text: &str) -> Option<Smaller> {
        match text {
            "gzip" => Some(Smaller::Gzip),
            "zlib" => Some(Smaller::Zlib),
            "off" => Some(Smaller::Off),
            _ => None,
        }
    }
}

/// The object, without what frames it.
pub fn object(line: &LogLine, sender: &Sender) -> Vec<u8> {
    let text = line.told();
    let (short, full) = match text.split_once('\n') {
        Some((first, _)) => (first, Some(&text)),
        None => (text.as_str(), None),
    };
    let mut object = json!({
        "version": "1.1",
        "host": sender.host,
        "short_message": short,
        "timestamp": line.unix_ms as f64 / 1e3,
        "level": line.level as u8,
        "_process_id": std::process::id(),
        "_process": "fullcount",
        "_process_name": sender.detector,
        "_thread_id": line.thread,
        "_file": line.place.0,
        "_line": line.place.1,
        "_target": origin(line.target),
    });
    if let Some(full) = full {
        object["full_message"] = full.as_str().into();
    }
    for (name, value) in &line.fields {
        // Text and numbers are all that Graylog takes.
        let value = if value.is_boolean() { value.to_string().into() } else { value.clone() };
        let of_ours = object.get(format!("_{name}")).is_some() || *name == "id";
        if !of_ours {
            object[format!("_{name}")] = value;
        }
    }
    object.to_string().into_bytes()
}

fn smaller(object: &[u8], how: Smaller) -> Vec<u8> {
    // Writing into a vector cannot fail.
    match how {
        Smaller::Off => object.to_vec(),
        Smaller::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            let _ = gzip.write_all(object);
            gzip.finish().unwrap_or_default()
        }
        Smaller::Zlib => {
            let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
            let _ = zlib.write_all(object);
            zlib.finish().unwrap_or_default()
        }
    }
}

/// Datagrams of an object: compressed, in chunks where one does not hold it. Empty: not even 128 do.
pub fn datagrams(object: &[u8], how: Smaller, id: u64) -> Vec<Vec<u8>> {
    let whole = smaller(object, how);
    if whole.len() <= DATAGRAM {
        return vec![whole];
    }
    let parts: Vec<&[u8]> = whole.chunks(DATAGRAM - HEAD).collect();
    if parts.len() > CHUNKS {
        return Vec::new();
    }
    let count = parts.len() as u8;
    let chunk = |(number, part): (usize, &&[u8])| {
        let mut chunk = vec![0x1e, 0x0f];
        chunk.extend(id.to_be_bytes());
        chunk.extend([number as u8, count]);
        chunk.extend_from_slice(part);
        chunk
    };
    parts.iter().enumerate().map(chunk).collect()
}

#[cfg(test)]
#[path = "gelf_tests.rs"]
mod tests;
