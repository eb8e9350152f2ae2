//! Creation and removal of segments, the mark, and the group commit.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::acknowledged::Mark;
use super::error::{AppendError, SpoolError};
use super::folder;
use super::note;
use super::queue::{Segment, Shared, State, now_ms};
use super::record::Version;
use super::segment::{self, Owner, START};

/// Time between two commits: the most that a power failure can lose, and that `settled` may lag behind.
pub(super) const COMMIT: Duration = Duration::from_millis(100);

impl Shared {
    /// Ends the current segment and begins a new one; removes segments that are confirmed to their end.
    pub(super) fn rotate(&self, state: &mut State) -> Result<Vec<PathBuf>, SpoolError> {
        let owner = Owner {
            spool: self.key.spool,
            start: self.start,
            version: Version::Two,
            first: state.next.next,
            first_id: state.next.next_id,
            before: Some(state.next.events),
        };
        if state.segments.back().is_some_and(|last| last.owner.first == owner.first) {
            return Ok(Vec::new());
        }
        let mut gone = Vec::new();
        let folder = &self.options.folder;
        // Before the segment that holds it may go.
        note::write(folder, &state.note).map_err(SpoolError::io(folder, "write the note"))?;
        let (path, file) = segment::create(folder, owner, &self.key)
            .map_err(SpoolError::io(folder, "begin a segment"))?;
        let (end, file) = (state.next.next, Arc::new(file));
        state.segments.push_back(Segment { owner, path, file, end, bytes: START });
        state.bytes += START;
        state.named = self.options.commit;
        while state.segments.len() > 1 && state.segments[0].end <= state.settled.below {
            let old = state.segments.pop_front().expect("more than one");
            state.bytes -= old.bytes;
            state.uncommitted.retain(|file| !Arc::ptr_eq(file, &old.file));
            gone.push(old.path);
        }
        Ok(gone)
    }

    /// Writes what is confirmed to the file `settled`. An older state never replaces a newer one.
    pub(super) fn write_mark(&self) -> io::Result<()> {
        // Read under the same lock, so that an older one never replaces a newer one.
        let _held = self.marking.lock().expect("no holder panics");
        let mark = {
            let state = self.state();
            let (below, offsets) = (state.settled.below, state.offsets.clone());
            Mark { below, appended: Some(state.next), offsets, written_ms: now_ms() }
        };
        mark.write(&self.options.folder, &self.key)
    }

    /// Removes completely confirmed segments after the mark says so: without that, a missing segment is damage.
    pub(super) fn remove(&self, gone: Vec<PathBuf>) {
        if gone.is_empty() {
            return;
        }
        // On a disk that is full the mark may not be written; the segments must go all the more.
        let _ = self.write_mark();
        for path in gone {
            // If it stays, the next start removes it, because all in it is confirmed.
            let _ = fs::remove_file(path);
        }
    }

    /// On a full disk: if all is confirmed, the segment that is written to is emptied. Its place is needed for the next
    /// one's head; numbers of messages live on there.
    pub(super) fn make_room(&self) -> Result<(), AppendError> {
        let mut state = self.state();
        let last = state.segments.back().expect("never missing");
        if state.settled.below < state.next.next || last.bytes == START {
            return Ok(());
        }
        // May fail for want of room; it is written again when there is some, a moment later.
        let _ = note::write(&self.options.folder, &state.note);
        let empty = last.file.set_len(START);
        empty.map_err(SpoolError::io(&self.options.folder, "make room"))?;
        let gone = self.rotate(&mut state).map_err(disk)?;
        drop(state);
        self.remove(gone);
        Ok(())
    }

    pub(super) fn commit_now(&self) -> Result<(), SpoolError> {
        let (files, named) = {
            let mut state = self.state();
            (std::mem::take(&mut state.uncommitted), std::mem::take(&mut state.named))
        };
        let folder = &self.options.folder;
        for file in files {
            file.sync_data().map_err(SpoolError::io(folder, "commit"))?;
        }
        if named {
            folder::sync(folder).map_err(SpoolError::io(folder, "commit"))?;
        }
        // A hint: see `commit`.
        let _ = self.write_mark();
        Ok(())
    }
}

/// A full disk is no failure: room comes.
pub(super) fn disk(error: SpoolError) -> AppendError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    match error {
        SpoolError::Io { cause, .. } if matches!(cause.kind(), StorageFull | QuotaExceeded) => {
            AppendError::DiskFull(cause)
        }
        other => other.into(),
    }
}

/// The committing thread.
pub(super) fn commit(shared: &Shared) {
    let (mut behind, mut written) = (0, (0, 0));
    let mut state = shared.state();
    loop {
        if state.closed {
            return;
        }
        state = shared.moved.wait_timeout(state, COMMIT).expect("no holder panics").0;
        // Woken by appends as well: the pause is what joins them.
        drop(state);
        std::thread::sleep(COMMIT / 2);
        state = shared.state();
        let (below, next) = (state.settled.below, state.next.next);
        // What was there a round ago and is still not confirmed is worth the disk's time.
        let lingers = shared.options.commit && below < behind && !state.uncommitted.is_empty();
        behind = next;
        if !lingers && written == (below, next) {
            continue;
        }
        let files = if lingers { std::mem::take(&mut state.uncommitted) } else { Vec::new() };
        let named = lingers && std::mem::take(&mut state.named);
        drop(state);
        let mut outcome = Ok(());
        for file in files {
            outcome = outcome.and(file.sync_data());
        }
        if named {
            outcome = outcome.and(folder::sync(&shared.options.folder));
        }
        // A hint: if the disk is full it is not written, and the next start reads more of the topic.
        let _ = shared.write_mark();
        written = (below, next);
        state = shared.state();
        if let Err(cause) = outcome {
            state.failed = Some(cause.kind());
        }
    }
}
