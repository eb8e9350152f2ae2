//! A segment file: who wrote it, then records, one after the other.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `FCSPOOL1` |
//! | 8..24 | the spool |
//! | 24..32 | start of the process, ns since 1970, u64 |
//! | 32..40 | number of its first record, u64 |
//! | 40..48 | message id of its first record, u64 |
//! | 48..52 | CRC-32 of bytes 0..48 |
//! | 52..56 | zero |
//!
//! A file whose head is damaged is not read (its records cannot be told from others'); it is kept under another name.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::record::{self, HEAD, Head, MAGIC, Stored, half, word};

/// Bytes in front of the first record.
pub(super) const START: u64 = 56;
const SEGMENT: [u8; 8] = *b"FCSPOOL1";
/// A record after damage is believed only if its number is at most so far ahead: a segment of 64 MiB holds fewer.
const FARTHEST: u64 = 1 << 24;

/// Whose records these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub spool: [u8; 16],
    pub start: u64,
    /// Number of the first record.
    pub first: u64,
    /// Message id of the first record.
    pub first_id: u64,
}

impl Owner {
    fn to_bytes(self) -> [u8; START as usize] {
        let mut bytes = [0; START as usize];
        bytes[..8].copy_from_slice(&SEGMENT);
        bytes[8..24].copy_from_slice(&self.spool);
        bytes[24..32].copy_from_slice(&self.start.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_id.to_le_bytes());
        let check = crc32fast::hash(&bytes[..48]);
        bytes[48..52].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Owner> {
        if bytes.get(..8)? != SEGMENT || half(bytes, 48)? != crc32fast::hash(bytes.get(..48)?) {
            return None;
        }
        Some(Owner {
            spool: *bytes.get(8..)?.first_chunk()?,
            start: word(bytes, 24)?,
            first: word(bytes, 32)?,
            first_id: word(bytes, 40)?,
        })
    }
}

/// `00000000000000000042.seg`: sorted by name is sorted by number.
pub(super) fn name(first: u64) -> String {
    format!("{first:020}.seg")
}

/// Makes a segment's file, in place of one of that number, which can only hold no records. It stands behind its head.
pub(super) fn create(folder: &Path, owner: Owner) -> io::Result<(PathBuf, File)> {
    let (new, path) = (folder.join("segment.new"), folder.join(name(owner.first)));
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&new)?;
    file.write_all(&owner.to_bytes())?;
    std::fs::rename(&new, &path)?;
    Ok((path, file))
}

/// What a look through a whole segment found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub owner: Owner,
    /// Number behind its last whole record.
    pub end: u64,
    /// Message id behind its last whole record.
    pub end_id: u64,
    /// Bytes up to the end of its last whole record.
    pub bytes: u64,
    /// Whole records.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Numbers between whole records whose record is damaged.
    pub damaged: u64,
    /// Append time of the first whole record.
    pub oldest_ms: Option<i64>,
    /// The last note.
    pub note: Option<Vec<u8>>,
}

/// Reads a whole segment; `None` if its head is damaged. `settled`: records below this number are not counted as
/// waiting.
pub(super) fn look(file: &File, settled: u64) -> io::Result<Option<Found>> {
    let bytes = file.metadata()?.len();
    let mut head = [0; START as usize];
    if bytes < START {
        return Ok(None);
    }
    file.read_exact_at(&mut head, 0)?;
    let Some(owner) = Owner::from_bytes(&head) else { return Ok(None) };
    let mut found = Found {
        owner,
        end: owner.first,
        end_id: owner.first_id,
        bytes: START,
        messages: 0,
        events: 0,
        damaged: 0,
        oldest_ms: None,
        note: None,
    };
    let mut buffer = Vec::new();
    let mut at = START;
    while let Some((place, stored)) = next(file, at, bytes, owner, found.end, &mut buffer)? {
        let sequence = stored.identity.sequence;
        // Numbers at the front that were settled before are nobody's loss.
        found.damaged += sequence.saturating_sub(found.end.max(settled));
        if sequence >= settled {
            found.messages += 1;
            found.events += u64::from(stored.events);
            found.oldest_ms = found.oldest_ms.or(Some(stored.time_ms));
        }
        if let Some(note) = stored.note() {
            found.note = Some(note.to_vec());
        }
        at = place + stored.bytes as u64;
        (found.end, found.end_id, found.bytes) =
            (sequence + 1, stored.message_id.wrapping_add(1), at);
    }
    Ok(Some(found))
}

/// The next whole record at or behind `at`, with its place; `None` if there is none before `end`. `least` is the
/// smallest number that it may have.
pub(super) fn next<'b>(
    file: &File,
    at: u64,
    end: u64,
    owner: Owner,
    least: u64,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Option<(u64, Stored<'b>)>> {
    let left = end.saturating_sub(at);
    if left < HEAD as u64 {
        return Ok(None);
    }
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, at)?;
    let believed = |head: &Head| (least..least.saturating_add(FARTHEST)).contains(&head.sequence);
    let whole = Head::read(&head).map(|head| head.whole()).filter(|&whole| whole as u64 <= left);
    let mut place = 0;
    let mut found = None;
    if let Some(whole) = whole {
        buffer.resize(whole, 0);
        file.read_exact_at(buffer, at)?;
        found = record::verify(buffer).filter(believed);
    }
    if found.is_none() {
        // Damaged here: the next place that holds a whole record.
        buffer.resize(left as usize, 0);
        file.read_exact_at(buffer, at)?;
        for from in 1..buffer.len().saturating_sub(HEAD - 1) {
            if buffer[from..].starts_with(&MAGIC)
                && let Some(head) = record::verify(&buffer[from..]).filter(believed)
            {
                (place, found) = (from, Some(head));
                break;
            }
        }
    }
    let Some(head) = found else { return Ok(None) };
    let stored = record::fields(&buffer[place..], head, owner.spool, owner.start);
    Ok(stored.map(|stored| (at + place as u64, stored)))
}
