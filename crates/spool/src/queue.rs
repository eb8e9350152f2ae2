//! The spool: appends, confirmations, segments, and the group commit.
//!
//! An append is one `write`: it survives a kill of the process as soon as it returns. A separate thread makes it
//! survive a power failure as well: one commit for all appends, at most [`COMMIT`] later, and only for messages that
//! are not confirmed by then. So while the broker keeps up, nothing is written to disk that would be deleted a moment
//! later.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, IoSlice, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::acknowledged::{Appended, Mark, Settled};
use super::error::{AppendError, SpoolError};
use super::folder::{self, Key};
use super::inventory::Inventory;
use super::keep::{COMMIT, commit, disk};
use super::note;
use super::options::{Depth, SpoolOptions, SpoolStart};
use super::reader::SpoolReader;
use super::record::{self, LARGEST, NOTE, Outgoing, Slot, Version};
use super::segment::{self, Owner, START};

/// Least bound of a spool: one message of Kafka's usual 10 MB, and some.
const LEAST: u64 = 16 << 20;
/// Age is known to this many milliseconds.
const AGE_STEP_MS: i64 = 100;

/// A write-ahead log of messages; see the [module](super). Cloned, it is the same spool.
#[derive(Debug, Clone)]
pub struct Spool(Arc<Shared>);

/// Shared by appender, reader and committer.
#[derive(Debug)]
pub(super) struct Shared {
    pub options: SpoolOptions,
    pub key: Key,
    pub start: u64,
    state: Mutex<State>,
    /// Something was appended or confirmed, or the spool is closed.
    pub moved: Condvar,
    writer: Mutex<Vec<u8>>,
    /// Held while the file `settled` is written.
    pub marking: Mutex<()>,
    committer: Mutex<Option<JoinHandle<()>>>,
    _lock: File,
}

/// A segment in the row.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub owner: Owner,
    pub path: PathBuf,
    pub file: Arc<File>,
    /// Number after its last record.
    pub end: u64,
    /// Bytes with whole records.
    pub bytes: u64,
}

#[derive(Debug)]
pub(super) struct State {
    /// Oldest first; the last one is being written and is never missing.
    pub segments: VecDeque<Segment>,
    pub settled: Settled,
    pub offsets: BTreeMap<i32, i64>,
    /// What the next message gets, and the events before it.
    pub next: Appended,
    pub bytes: u64,
    messages: u64,
    events: u64,
    /// Events that were given up.
    damaged_events: u64,
    /// Number and append time, one each 100 ms, of what is not confirmed.
    ages: VecDeque<(u64, i64)>,
    /// Files with appends that are not committed.
    pub uncommitted: Vec<Arc<File>>,
    /// A file was begun whose name is not committed.
    pub named: bool,
    /// The last note; empty if there is none.
    pub note: Vec<u8>,
    pub failed: Option<io::ErrorKind>,
    pub closed: bool,
}

impl State {
    fn wait_less(&mut self, messages: u64, events: u64) {
        self.messages = self.messages.saturating_sub(messages);
        self.events = self.events.saturating_sub(events);
        if self.messages == 0 {
            // Of damaged messages it may not have been known how many events they have. Now it is.
            self.damaged_events += std::mem::take(&mut self.events);
        }
    }

    /// Takes the segments out in which all is confirmed.
    fn pop_settled(&mut self) -> Vec<PathBuf> {
        let (mut gone, below) = (Vec::new(), self.settled.below);
        while self.ages.get(1).is_some_and(|&(first, _)| first <= below) {
            self.ages.pop_front();
        }
        if below == self.next.next {
            self.ages.clear();
        }
        while self.segments.len() > 1 && self.segments[0].end <= below {
            let Some(old) = self.segments.pop_front() else { break };
            self.bytes -= old.bytes;
            self.uncommitted.retain(|file| !Arc::ptr_eq(file, &old.file));
            gone.push(old.path);
        }
        gone
    }
}

impl Spool {
    /// Opens the folder, reads what is there, and begins a new segment.
    ///
    /// # Errors
    /// In use, another stream's, out of range, or the system's words.
    pub fn open(options: SpoolOptions) -> Result<(Spool, SpoolStart), SpoolError> {
        if options.limit < LEAST {
            return Err(SpoolError::Size { bytes: options.limit, least: LEAST });
        }
        let folder = options.folder.clone();
        let lock = folder::lock(&folder)?;
        let key = folder::identity(&folder, &options.stream)?;
        let mut found = Inventory::take(&folder, &key)?;
        note::write(&folder, found.start.note.as_deref().unwrap_or_default())
            .map_err(SpoolError::io(&folder, "write the note"))?;
        let start = now_ns();
        let Appended { next, next_id, events } = found.next;
        let before = found.events_known.then_some(events);
        let (version, spool) = (Version::Two, key.spool);
        let owner = Owner { version, spool, start, first: next, first_id: next_id, before };
        let begin = || SpoolError::io(&folder, "begin a segment");
        let (path, file) = segment::create(&folder, owner, &key).map_err(begin())?;
        file.sync_data().and_then(|()| folder::sync(&folder)).map_err(begin())?;
        for old in found.gone.into_iter().filter(|old| *old != path) {
            fs::remove_file(&old).map_err(SpoolError::io(&old, "remove it"))?;
        }
        let fresh = Segment { owner, path, file: Arc::new(file), end: next, bytes: START };
        found.segments.push_back(fresh);
        let known = found.start;
        let state = State {
            segments: found.segments,
            settled: found.settled,
            offsets: known.mark.as_ref().map(|m| m.offsets.clone()).unwrap_or_default(),
            next: found.next,
            bytes: found.bytes + START,
            messages: known.messages.saturating_add(known.damaged),
            events: known.events.saturating_add(known.damaged_events),
            damaged_events: 0,
            ages: found.ages,
            uncommitted: Vec::new(),
            named: false,
            note: known.note.clone().unwrap_or_default(),
            failed: None,
            closed: false,
        };
        let shared = Arc::new(Shared {
            options,
            key,
            start,
            state: Mutex::new(state),
            moved: Condvar::new(),
            writer: Mutex::default(),
            marking: Mutex::default(),
            committer: Mutex::default(),
            _lock: lock,
        });
        let committing = shared.clone();
        let thread = std::thread::Builder::new()
            .name("spool-commit".into())
            .spawn(move || commit(&committing))
            .map_err(SpoolError::io(&folder, "start its thread"))?;
        *shared.committer.lock().expect("no holder panics") = Some(thread);
        Ok((Spool(shared), known))
    }

    /// Appends a message and says its number. When this returns, the message outlives the process; [`COMMIT`] later
    /// it outlives a loss of power.
    ///
    /// # Errors
    /// Full, or the disk failed; nothing was appended then.
    pub fn append(&self, message: &Outgoing<'_>) -> Result<u64, AppendError> {
        let shared = &*self.0;
        let size = record::size(message);
        let most = LARGEST.min(usize::try_from(shared.options.limit / 2).unwrap_or(LARGEST));
        let fits = |len: usize, most: usize| len <= most;
        if size > most
            || !fits(message.headers.len(), u16::MAX.into())
            || !message.headers.iter().all(|(name, _)| fits(name.len(), u16::MAX.into()))
        {
            return Err(AppendError::TooLarge { bytes: size, most });
        }
        let mut writer = shared.writer.lock().expect("no holder panics");
        let mut gone = Vec::new();
        let (Appended { next: sequence, events: before, .. }, file, at) = {
            let mut state = shared.state();
            if let Some(kind) = state.failed {
                return Err(SpoolError::io(&shared.options.folder, "commit")(kind.into()).into());
            }
            let limit = shared.options.limit;
            if state.bytes + size as u64 > limit && state.settled.below == state.next.next {
                gone.extend(shared.rotate(&mut state).map_err(disk)?);
            }
            if state.bytes + size as u64 > limit {
                return Err(AppendError::Full { bytes: state.bytes, limit });
            }
            let last = state.segments.back().expect("never missing");
            if last.bytes >= shared.options.segment.min(limit / 8) {
                gone.extend(shared.rotate(&mut state).map_err(disk)?);
            }
            let last = state.segments.back().expect("never missing");
            (state.next, last.file.clone(), last.bytes)
        };
        shared.remove(gone);
        let now = now_ms();
        let start = shared.start;
        let slot = Slot { place: at, sequence, start, before, time_ms: now };
        record::lay_front(&mut writer, &shared.key, slot, message);
        if let Err(cause) = write_both(&file, &writer, message.payload) {
            // What was written of it has no valid checksum; the next append overwrites it.
            let _ = file.set_len(at).and_then(|()| (&*file).seek(SeekFrom::Start(at)));
            let error = disk(SpoolError::io(&shared.options.folder, "append")(cause));
            if matches!(error, AppendError::DiskFull(_)) {
                shared.make_room()?;
            }
            return Err(error);
        }
        let mut state = shared.state();
        let last = state.segments.back_mut().expect("never missing");
        last.bytes += size as u64;
        last.end = sequence + 1;
        let events = before.saturating_add(message.events.into());
        let next_id = message.message_id.wrapping_add(1);
        state.next = Appended { next: sequence + 1, next_id, events };
        state.bytes += size as u64;
        state.messages += 1;
        state.events += u64::from(message.events);
        if let Some((_, note)) = message.headers.iter().find(|(name, _)| *name == NOTE) {
            state.note.clear();
            state.note.extend_from_slice(note);
        }
        if state.ages.back().is_none_or(|&(_, ms)| now - ms >= AGE_STEP_MS) {
            state.ages.push_back((sequence, now));
        }
        if shared.options.commit
            && state.uncommitted.last().is_none_or(|last| !Arc::ptr_eq(last, &file))
        {
            state.uncommitted.push(file);
        }
        drop(state);
        shared.moved.notify_all();
        Ok(sequence)
    }

    /// The broker has confirmed a message (or it is given up for good); `at`: partition and offset, where known.
    /// False if that was known before.
    pub fn settle(&self, sequence: u64, events: u32, at: Option<(i32, i64)>) -> bool {
        self.settle_one(sequence, at, (1, events.into()))
    }

    /// Damaged messages, as the reader reported them, are given up.
    pub fn give_up(&self, from: u64, to: u64, events: Option<u64>) {
        let events = self.pass_over(from, to, events);
        self.0.state().damaged_events += events;
    }

    /// Damaged messages, as the reader reported them, were found on the topic; events that no longer wait.
    pub fn pass_over(&self, from: u64, to: u64, events: Option<u64>) -> u64 {
        let mut state = self.0.state();
        state.settled.add_range(from, to);
        let events = events.unwrap_or(0).min(state.events);
        state.wait_less(to.saturating_sub(from), events);
        let gone = state.pop_settled();
        drop(state);
        self.0.remove(gone);
        self.0.moved.notify_all();
        events
    }

    /// `waited`: messages and events that no longer wait.
    fn settle_one(&self, sequence: u64, at: Option<(i32, i64)>, waited: (u64, u64)) -> bool {
        let mut gone = Vec::new();
        let mut state = self.0.state();
        if let Some((partition, offset)) = at {
            let last = state.offsets.entry(partition).or_insert(offset);
            *last = offset.max(*last);
        }
        let new = state.settled.add(sequence);
        if new {
            state.wait_less(waited.0, waited.1);
            gone = state.pop_settled();
        }
        drop(state);
        self.0.remove(gone);
        if new {
            self.0.moved.notify_all();
        }
        new
    }

    /// A reader at the oldest message that is not confirmed.
    pub fn reader(&self) -> SpoolReader {
        SpoolReader::new(self.0.clone())
    }

    /// What waits.
    pub fn depth(&self) -> Depth {
        let state = self.0.state();
        let oldest = state.ages.front().filter(|_| state.messages > 0);
        Depth {
            messages: state.messages,
            events: state.events,
            bytes: state.bytes,
            limit: self.0.options.limit,
            damaged_events: state.damaged_events,
            age_ms: oldest.map_or(0, |&(_, ms)| (now_ms() - ms).max(0).unsigned_abs()),
        }
    }

    /// The spool's own 16 bytes.
    pub fn identity(&self) -> [u8; 16] {
        self.0.key.spool
    }

    /// Running number that follows the last one appended.
    pub fn next_id(&self) -> u64 {
        self.0.state().next.next_id
    }

    /// Waits until something is appended or confirmed, at most so long. Returns at once if the spool is closed.
    pub fn wait(&self, time: Duration) {
        let state = self.0.state();
        if !state.closed {
            drop(self.0.moved.wait_timeout(state, time).expect("no holder panics"));
        }
    }

    /// Waits until something is appended after `expected`, or for [`wake`](Self::wake); at most 100 ms.
    pub fn wait_for_news(&self, expected: u64) {
        let state = self.0.state();
        if !state.closed && state.next.next <= expected {
            drop(self.0.moved.wait_timeout(state, COMMIT).expect("no holder panics"));
        }
    }

    /// Wakes all waiting threads.
    pub fn wake(&self) {
        self.0.moved.notify_all();
    }

    /// What is confirmed now, and the append time of the oldest message that is not, ms since 1970.
    pub fn mark(&self) -> (Mark, i64) {
        let state = self.0.state();
        let (below, offsets) = (state.settled.below, state.offsets.clone());
        let now = now_ms();
        let oldest = state.ages.front().map_or(now, |&(_, ms)| ms);
        (Mark { below, appended: Some(state.next), offsets, written_ms: now }, oldest)
    }

    /// Wakes all waiting threads for good: [`Self::wait`] no longer waits.
    pub fn close(&self) {
        self.0.state().closed = true;
        self.0.moved.notify_all();
    }

    /// Commits all, writes what is confirmed to `settled`, ends the committing thread. Waiting messages stay for the
    /// next start.
    ///
    /// # Errors
    /// The disk failed.
    pub fn finish(&self) -> Result<(), SpoolError> {
        self.close();
        let thread = self.0.committer.lock().expect("no holder panics").take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        self.0.commit_now()
    }
}

/// Writes both at the file's position: after its last record, because only appends move it (reading is by offset).
fn write_both(mut file: &File, front: &[u8], payload: &[u8]) -> io::Result<()> {
    let mut both = [IoSlice::new(front), IoSlice::new(payload)];
    let mut left = &mut both[..];
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut left, n),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

/// ms since 1970.
pub fn now_ms() -> i64 {
    (now_ns() / 1_000_000).cast_signed()
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
