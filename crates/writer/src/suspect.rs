//! Orders that are being read: noted on the disk before, forgotten after. Reading one that ends the process ends it twice
//! at most.
//!
//! A run start is text of up to 100 MB from whoever may write to a topic. What it may take of memory is bounded, but a
//! host can have less, and a library can have a fault that nobody knows. The broker gives such an order again after each
//! restart, and the journal would begin its job again. So a note is on the disk (synced) before the first look at the
//! order; an order with [`TRIES`] notes that nobody took away is not read again.
//!
//! One file `parsing` of JSON beside the journals, there only while there are notes. Source: `docs/write.md`,
//! "An order that ends the writer".

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fullcount_io::newfile;
use serde::{Deserialize, Serialize};

use super::journal::{JournalError, MessageSpot, io_error};

/// Times that reading an order may end the writer.
const TRIES: u32 = 2;
/// Notes that are kept: those of orders that stay refused among them.
const KEPT: usize = 256;
/// The file's name.
const NAME: &str = "parsing";

/// An order that was begun to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noted {
    spot: MessageSpot,
    /// Of the message: the same place alone may be one of a topic that was made anew.
    digest: u64,
    /// Times that it was begun and not ended.
    times: u32,
    /// Its job, once that was read.
    #[serde(default)]
    pub(super) job_id: Option<String>,
    /// Where it is answered, once that was read.
    #[serde(default)]
    pub(super) control: Option<String>,
}

/// The notes of one writer.
#[derive(Debug)]
pub(super) struct Suspects {
    folder: PathBuf,
    notes: Vec<Noted>,
}

/// What tells one message from another.
pub(super) fn digest(message: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
}

impl Suspects {
    /// The notes that an earlier writer left in `folder`. What is no list of notes is none.
    pub(super) fn open(folder: &Path) -> Result<Suspects, JournalError> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(io_error(&path, "read the file")(e)),
        };
        let notes = serde_json::from_slice(&text).unwrap_or_default();
        Ok(Suspects { folder: folder.to_owned(), notes })
    }

    /// Notes that the order at `spot` is begun; what is known of it if it is not to be read again. `digest`: of its
    /// message, if that is at hand.
    ///
    /// # Errors
    /// It cannot be noted: then it is not to be read either.
    pub(super) fn begin(
        &mut self,
        spot: &MessageSpot,
        digest: Option<u64>,
    ) -> Result<Option<Noted>, JournalError> {
        let same = |note: &Noted| note.spot == *spot && digest.is_none_or(|d| d == note.digest);
        if let Some(note) = self.notes.iter_mut().find(|note| same(note)) {
            if note.times >= TRIES {
                return Ok(Some(note.clone()));
            }
            note.times += 1;
        } else {
            self.notes.retain(|note| note.spot != *spot);
            let digest = digest.unwrap_or_default();
            let (spot, job_id, control) = (spot.clone(), None, None);
            self.notes.push(Noted { spot, digest, times: 1, job_id, control });
            let old = self.notes.len().saturating_sub(KEPT);
            self.notes.drain(..old);
        }
        self.keep(true).map(|()| None)
    }

    /// What was read of the order at `spot`: if it ends the writer, its answer says so much.
    pub(super) fn learn(&mut self, spot: &MessageSpot, job_id: &str, control: &str) {
        if let Some(note) = self.notes.iter_mut().find(|note| note.spot == *spot) {
            note.job_id = Some(job_id.to_owned());
            note.control = Some(control.to_owned());
            // A killed process leaves what is in the page cache: the note itself was synced, and this only helps.
            let _ = self.keep(false);
        }
    }

    /// The order at `spot` was read, whatever came of it.
    pub(super) fn end(&mut self, spot: &MessageSpot) -> Result<(), JournalError> {
        let before = self.notes.len();
        self.notes.retain(|note| note.spot != *spot);
        if self.notes.len() == before { Ok(()) } else { self.keep(false) }
    }

    fn keep(&self, sync: bool) -> Result<(), JournalError> {
        let path = self.folder.join(NAME);
        if self.notes.is_empty() {
            return match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    Err(io_error(&path, "remove the file")(e))
                }
                _ => Ok(()),
            };
        }
        // Text and numbers only: nothing that JSON cannot hold.
        let text = serde_json::to_vec(&self.notes).unwrap_or_default();
        let put = if sync { newfile::replace_for_good } else { newfile::replace_with };
        put(&path, &text).map_err(io_error(&path, "write the file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(offset: i64) -> MessageSpot {
        MessageSpot { topic: "pool".into(), partition: 0, offset }
    }

    #[test]
    fn what_ended_the_writer_twice_is_not_read_a_third_time() {
        let dir = tempfile::tempdir().unwrap();
        let again = || Suspects::open(dir.path()).unwrap();
        let poison = Some(digest(b"poison"));
        let mut first = again();
        assert_eq!(first.begin(&spot(1), poison).unwrap(), None);
        first.learn(&spot(1), "job", "control");
        // Killed here. Another order comes in between, and is fine.
        let mut second = again();
        assert_eq!(second.begin(&spot(2), Some(digest(b"fine"))).unwrap(), None);
        second.end(&spot(2)).unwrap();
        assert_eq!(second.begin(&spot(1), poison).unwrap(), None);
        // Killed again, and again, if it were read.
        for _ in 0..3 {
            let known = again().begin(&spot(1), poison).unwrap().expect("not read again");
            let known = (known.job_id.as_deref(), known.control.as_deref());
            assert_eq!(known, (Some("job"), Some("control")));
        }
        // The journal of its job knows the place alone.
        assert!(again().begin(&spot(1), None).unwrap().is_some());
        // Another message at the same place is one of a topic that was made anew.
        let mut third = again();
        assert_eq!(third.begin(&spot(1), Some(digest(b"fine"))).unwrap(), None);
        third.end(&spot(1)).unwrap();
        assert!(!dir.path().join(NAME).exists(), "no note, no file");
        std::fs::write(dir.path().join(NAME), b"{").unwrap();
        assert!(again().notes.is_empty());
    }

    #[test]
    fn notes_do_not_grow_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let mut suspects = Suspects::open(dir.path()).unwrap();
        for offset in 0..2 * KEPT as i64 {
            suspects.begin(&spot(offset), Some(1)).unwrap();
        }
        assert_eq!(suspects.notes.len(), KEPT);
        assert_eq!(suspects.notes.last().map(|n| n.spot.offset), Some(2 * KEPT as i64 - 1));
    }
}
