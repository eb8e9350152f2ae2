//! The file `note`: the last note of removed segments.
//!
//! Notes live in the records of their messages, so that they are appended in one step. Segments are removed when the
//! broker has confirmed all in them, but the last note must be kept. So it is written here before a new segment is
//! begun, and read only if no segment holds a newer one. A damaged file counts as missing.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fullcount_io::newfile;

const FILE: &str = "note";
/// Most bytes of it: one for a replay has some 16 for each pulse that fills.
const LONGEST: u64 = 16 << 20;

/// `None` if there is none, or it is damaged.
pub(super) fn read(folder: &Path) -> Option<Vec<u8>> {
    let bytes = newfile::read_own(&folder.join(FILE), LONGEST).ok()?;
    let (check, note) = bytes.split_first_chunk()?;
    (crc32fast::hash(note) == u32::from_le_bytes(*check)).then(|| note.to_vec())
}

/// In one step, and for good: the segment that held it goes next. Nothing is written for no note.
pub(super) fn write(folder: &Path, note: &[u8]) -> io::Result<()> {
    if note.is_empty() {
        return Ok(());
    }
    let write = |file: &mut File| {
        file.write_all(&crc32fast::hash(note).to_le_bytes())?;
        file.write_all(note)?;
        file.sync_data()
    };
    newfile::replace(&folder.join(FILE), write).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{NOTE, Outgoing, Spool, SpoolOptions};
    use super::*;

    /// Appends messages until three segments have been begun; the last note.
    fn fill(spool: &Spool, first: u64, settle: bool) -> Vec<u8> {
        let payload = vec![0; 1 << 20];
        for n in first..first + 7 {
            let note = n.to_le_bytes();
            let headers = [("other", &b"x"[..]), (NOTE, &note[..])];
            let headers = if n == first + 6 { &headers[..1] } else { &headers[..] };
            let message = Outgoing { headers, payload: &payload, ..Outgoing::default() };
            let sequence = spool.append(&message).unwrap();
            if settle {
                assert!(spool.settle(sequence, 0, None));
            }
        }
        (first + 5).to_le_bytes().to_vec()
    }

    #[test]
    fn it_outlives_its_message_its_segment_and_any_number_of_starts() {
        let folder = tempfile::tempdir().unwrap();
        let options = || SpoolOptions {
            limit: 16 << 20,
            segment: 2 << 20,
            ..SpoolOptions::new(folder.path(), "topic")
        };
        let (spool, start) = Spool::open(options()).unwrap();
        assert_eq!(start.note, None);
        // As after a kill: nothing is closed, and only the disk counts. The lock ends with the value.
        let wanted = fill(&spool, 1, true);
        drop((spool.finish(), spool));
        for _ in 0..3 {
            let (spool, start) = Spool::open(options()).unwrap();
            assert_eq!((start.messages, start.note), (0, Some(wanted.clone())));
            drop((spool.finish(), spool));
        }
        // Newer ones win over those of segments that are gone, settled or not.
        let (spool, _) = Spool::open(options()).unwrap();
        let wanted = fill(&spool, 100, false);
        drop((spool.finish(), spool));
        let (spool, start) = Spool::open(options()).unwrap();
        assert_eq!((start.messages, start.note), (7, Some(wanted)));
        let mut reader = spool.reader();
        let super::super::Next::Message(stored) = reader.next().unwrap() else { panic!("one") };
        assert_eq!(stored.headers().map(|h| h.0).collect::<Vec<_>>(), ["other"], "it is not sent");
        assert_eq!(stored.note(), Some(&100_u64.to_le_bytes()[..]));
    }

    #[test]
    fn the_last_one_is_read_back_and_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), b"").unwrap();
        assert_eq!(read(folder.path()), None);
        write(folder.path(), b"one").unwrap();
        write(folder.path(), b"another").unwrap();
        assert_eq!(read(folder.path()).as_deref(), Some(&b"another"[..]));
        let mut bytes = fs::read(folder.path().join(FILE)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(folder.path().join(FILE), bytes).unwrap();
        assert_eq!(read(folder.path()), None);
    }
}
