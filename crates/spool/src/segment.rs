//! A segment file: a head that identifies its writer, then records.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `FCSPOOL2` |
//! | 8..24 | the spool |
//! | 24..32 | start of the process, ns since 1970, u64 |
//! | 32..40 | number of its first record, u64 |
//! | 40..48 | message id of its first record, u64 |
//! | 48..56 | events in all messages of the spool before it, u64 |
//! | 56..60 | 1 if that number is known, 0 if messages with an unknown number of events were lost before it, u32 |
//! | 60..64 | CRC-32 of the spool's salt and bytes 0..60 |
//!
//! The previous version (`FCSPOOL1`) has the same up to byte 48, then the CRC-32 of bytes 0..48 and 4 zeros; it is
//! read.
//!
//! A file with a damaged head is still read: each record identifies its writer. Records of version 1 do not; there a
//! head with one flipped bit is repaired, and with more damage the file is kept under another name.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fullcount_io::newfile;

use super::folder::Key;
use super::record::{Version, half, word};
use super::scan;

/// Bytes before the first record in the present version.
pub(super) const START: u64 = 64;
/// The same of version 1.
const START_ONE: u64 = 56;
/// Most bytes of a segment that are read: it ends after the record that crosses 64 MiB, and a record has at most
/// 1 GiB.
pub(super) const LONGEST: u64 = 2 << 30;

/// Whose records these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub version: Version,
    pub spool: [u8; 16],
    pub start: u64,
    /// Number of the first record.
    pub first: u64,
    /// Message id of the first record.
    pub first_id: u64,
    /// Events in all messages before it; `None` if that is not known.
    pub before: Option<u64>,
}

impl Owner {
    /// Where its first record is.
    pub fn begin(&self) -> u64 {
        match self.version {
            Version::One => START_ONE,
            Version::Two => START,
        }
    }

    fn to_bytes(self, salt: [u8; 8]) -> [u8; START as usize] {
        let mut bytes = [0; START as usize];
        bytes[..8].copy_from_slice(b"FCSPOOL2");
        bytes[8..24].copy_from_slice(&self.spool);
        bytes[24..32].copy_from_slice(&self.start.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_id.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.before.unwrap_or_default().to_le_bytes());
        bytes[56..60].copy_from_slice(&u32::from(self.before.is_some()).to_le_bytes());
        let check = sum(salt, &bytes[..60]);
        bytes[60..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], salt: [u8; 8]) -> Option<Owner> {
        let version = match bytes.get(..8)? {
            b"FCSPOOL1" => Version::One,
            b"FCSPOOL2" => Version::Two,
            _ => return None,
        };
        let (right, before) = match version {
            Version::One => (half(bytes, 48)? == crc32fast::hash(bytes.get(..48)?), None),
            Version::Two => {
                let known = (half(bytes, 56)? == 1).then_some(word(bytes, 48)?);
                (half(bytes, 60)? == sum(salt, bytes.get(..60)?), known)
            }
        };
        let spool = *bytes.get(8..)?.first_chunk()?;
        let (start, first, first_id) = (word(bytes, 24)?, word(bytes, 32)?, word(bytes, 40)?);
        right.then_some(Owner { version, spool, start, first, first_id, before })
    }
}

fn sum(salt: [u8; 8], bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&salt);
    sum.update(bytes);
    sum.finalize()
}

/// `00000000000000000042.seg`: sorted by name is sorted by number.
pub(super) fn name(first: u64) -> String {
    format!("{first:020}.seg")
}

/// The number in such a name.
fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".seg")?.get(..20)?.parse().ok()
}

/// Makes a segment's file, in place of one of that number, which cannot hold records. Its position is after the head.
pub(super) fn create(folder: &Path, owner: Owner, key: &Key) -> io::Result<(PathBuf, File)> {
    let path = folder.join(name(owner.first));
    let file = newfile::replace(&path, |file| file.write_all(&owner.to_bytes(key.salt)))?;
    Ok((path, file))
}

/// A segment file as it was found.
#[derive(Debug)]
pub(super) struct Opened {
    pub path: PathBuf,
    pub file: File,
    pub owner: Owner,
    /// Bytes of it.
    pub bytes: u64,
    /// Its head was damaged.
    pub mended: bool,
}

/// Opens a segment; `None` if it is no segment of this spool or nothing of it can be read.
pub(super) fn open(path: &Path, key: &Key) -> io::Result<Option<Opened>> {
    let file = match newfile::open_left(path) {
        Ok(file) => file,
        // A link, a pipe: not followed, not read, and renamed.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => return Ok(None),
        Err(e) => return Err(e),
    };
    let bytes = file.metadata()?.len().min(LONGEST);
    let mut head = vec![0; bytes.min(START) as usize];
    file.read_exact_at(&mut head, 0)?;
    let path = path.to_owned();
    if let Some(owner) = Owner::from_bytes(&head, key.salt) {
        let ours = owner.spool == key.spool;
        return Ok(ours.then_some(Opened { path, file, owner, bytes, mended: false }));
    }
    let mended = match by_records(&path, &file, bytes, key)? {
        None => mended_bit(&head, key),
        found => found,
    };
    Ok(mended.map(|owner| Opened { path, file, owner, bytes, mended: true }))
}

/// The owner of records, from the first that is whole: each says itself who it is.
fn by_records(path: &Path, file: &File, bytes: u64, key: &Key) -> io::Result<Option<Owner>> {
    let Some((id, head)) = scan::first(file, START, bytes, key)? else { return Ok(None) };
    let (start, _) = head.origin.unwrap_or_default();
    // What the file is called says whether records in front of this one are damaged too.
    let named =
        number(path).filter(|n| (*n..n.saturating_add(scan::FARTHEST)).contains(&head.sequence));
    let first = named.unwrap_or(head.sequence);
    let first_id = id.wrapping_sub(head.sequence - first);
    let (version, spool) = (Version::Two, key.spool);
    Ok(Some(Owner { version, spool, start, first, first_id, before: None }))
}

/// The head of version 1 that this would be but for one bit.
fn mended_bit(head: &[u8], key: &Key) -> Option<Owner> {
    let mut bytes: [u8; START_ONE as usize] = *head.first_chunk()?;
    (0..8 * bytes.len()).find_map(|bit| {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let owner = Owner::from_bytes(&bytes, key.salt).filter(|owner| owner.spool == key.spool);
        bytes[bit / 8] ^= 1 << (bit % 8);
        owner.filter(|owner| owner.version == Version::One)
    })
}

/// True if this is a whole segment of version 1 that belongs to another spool.
pub(super) fn is_of_another(path: &Path, key: &Key) -> bool {
    let mut head = [0; START_ONE as usize];
    let read = newfile::open_left(path).and_then(|file| file.read_exact_at(&mut head, 0));
    let owner = read.ok().and_then(|()| Owner::from_bytes(&head, key.salt));
    owner.is_some_and(|owner| owner.version == Version::One && owner.spool != key.spool)
}

/// A name for a segment of this number that no file has.
pub(super) fn free_name(folder: &Path, first: u64) -> PathBuf {
    let mut path = folder.join(name(first));
    let mut n = 0;
    while fs::symlink_metadata(&path).is_ok() {
        n += 1;
        path = folder.join(format!("{first:020}-{n}.seg"));
    }
    path
}

/// Puts a file out of the way of the next start, for a person to look at: `*.damaged`, and never over another.
pub(super) fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut aside = path.with_extension("damaged");
    for n in 1.. {
        if fs::symlink_metadata(&aside).is_err() {
            break;
        }
        aside = path.with_extension(format!("{n}.damaged"));
    }
    fs::rename(path, &aside)?;
    Ok(aside)
}
