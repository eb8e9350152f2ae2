//! The spool itself: appends, confirmations, segments that come and go, and the group commit.
//!
//! An append is one `write`: it outlives the process as soon as it returns. A thread of the spool's own makes it
//! outlive the power as well, for all appends together, at most [`COMMIT`] later, and only for what is not confirmed by
//! then: while the broker keeps up, nothing is written to the disk that would be deleted a moment later.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, IoSlice, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::acknowledged::{Mark, Settled};
use super::error::{AppendError, SpoolError};
use super::folder;
use super::note;
use super::reader::SpoolReader;
use super::record::{self, LARGEST, NOTE, Outgoing};
use super::segment::{self, Owner, START};

/// Time between two commits: what a loss of power can cost, and what `settled` may lag behind.
pub(super) const COMMIT: Duration = Duration::from_millis(100);
/// A new file begins behind so many bytes: deleting one frees that much at once.
const SEGMENT: u64 = 64 << 20;
/// Least bound of a spool: one message of Kafka's usual 10 MB, and some.
const LEAST: u64 = 16 << 20;
/// Age is known to this many milliseconds.
const AGE_STEP_MS: i64 = 100;

/// What a spool is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolOptions {
    /// Where its files are; made if it is not there.
    pub folder: PathBuf,
    /// Whose messages these are, for example topic and source name, one line. A folder with another stream's messages
    /// is refused.
    pub stream: String,
    /// Most bytes on disk, 16 MiB or more.
    pub limit: u64,
    /// A new file begins behind so many bytes; default 64 MiB, and at most an eighth of the bound.
    pub segment: u64,
    /// Make appends outlive a loss of power as well; default. Without it they outlive a killed process.
    pub commit: bool,
}

impl SpoolOptions {
    /// Defaults, with a bound of 4 GiB.
    pub fn new(folder: impl Into<PathBuf>, stream: impl Into<String>) -> SpoolOptions {
        SpoolOptions {
            folder: folder.into(),
            stream: stream.into(),
            limit: 4 << 30,
            segment: SEGMENT,
            commit: true,
        }
    }
}

/// What was found when a spool was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Messages that an earlier process appended and that are not known to be confirmed.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Messages that are damaged and lost.
    pub damaged: u64,
    /// Segment files whose head is damaged, kept as `*.damaged`.
    pub unreadable: u64,
    /// Running number that follows the last one.
    pub next_id: u64,
    /// What an earlier process knew to be confirmed.
    pub mark: Option<Mark>,
    /// Append time of the oldest message that waits, ms since 1970.
    pub oldest_ms: Option<i64>,
    /// When an earlier process last wrote here.
    pub touched: Option<SystemTime>,
    /// The last [note](record::NOTE) that was appended with a message.
    pub note: Option<Vec<u8>>,
}

/// What waits in a spool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages appended and not confirmed.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bound of these.
    pub limit: u64,
    /// Time since the oldest of them was appended, ms; 0 if none waits. Known to 100 ms.
    pub age_ms: u64,
}

/// A write-ahead log of messages; see the [module](super). Cloned, it is the same spool.
#[derive(Debug, Clone)]
pub struct Spool(Arc<Shared>);

/// Shared by appender, reader and committer.
#[derive(Debug)]
pub(super) struct Shared {
    options: SpoolOptions,
    identity: [u8; 16],
    start: u64,
    state: Mutex<State>,
    /// Something was appended or confirmed, or the spool is closed.
    moved: Condvar,
    writer: Mutex<Vec<u8>>,
    /// Held while the file `settled` is written.
    marking: Mutex<()>,
    committer: Mutex<Option<JoinHandle<()>>>,
    _lock: File,
}

/// A segment in the row.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub owner: Owner,
    pub path: PathBuf,
    pub file: Arc<File>,
    /// Number behind its last record.
    pub end: u64,
    /// Bytes with whole records.
    pub bytes: u64,
}

#[derive(Debug)]
pub(super) struct State {
    /// Oldest first; the last one is being written and is never missing.
    pub segments: VecDeque<Segment>,
    pub settled: Settled,
    offsets: BTreeMap<i32, i64>,
    next: u64,
    next_id: u64,
    bytes: u64,
    messages: u64,
    events: u64,
    /// Number and append time, one each 100 ms, of what is not confirmed.
    ages: VecDeque<(u64, i64)>,
    /// Files with appends that are not committed.
    uncommitted: Vec<Arc<File>>,
    /// A file was begun whose name is not committed.
    named: bool,
    /// The last note; empty if there is none.
    note: Vec<u8>,
    failed: Option<io::ErrorKind>,
    closed: bool,
}

impl Spool {
    /// Opens the folder, reads what is there, and begins a segment of its own.
    ///
    /// # Errors
    /// In use, another stream's, out of range, or the system's words.
    pub fn open(options: SpoolOptions) -> Result<(Spool, Start), SpoolError> {
        if options.limit < LEAST {
            return Err(SpoolError::Size { bytes: options.limit, least: LEAST });
        }
        let folder = options.folder.clone();
        let lock = folder::lock(&folder)?;
        let identity = folder::identity(&folder, &options.stream)?;
        let touched = touched(&folder);
        let mark = Mark::read(&folder);
        let below = mark.as_ref().map_or(0, |m| m.below);
        let mut found = Start { mark: mark.clone(), touched, next_id: 1, ..Start::default() };
        let (mut segments, mut gone) = (VecDeque::new(), Vec::new());
        let (mut next, mut bytes, mut ages) = (1, 0, VecDeque::new());
        let list = folder::segments(&folder).map_err(SpoolError::io(&folder, "list it"))?;
        for path in list {
            let open = fs::OpenOptions::new().read(true).write(true).open(&path);
            let file = open.map_err(SpoolError::io(&path, "open it"))?;
            let look = segment::look(&file, below).map_err(SpoolError::io(&path, "read it"))?;
            let Some(look) = look.filter(|l| l.owner.spool == identity) else {
                let aside = path.with_extension("damaged");
                fs::rename(&path, &aside).map_err(SpoolError::io(&path, "put it aside"))?;
                found.unreadable += 1;
                continue;
            };
            // Numbers missing between two files were in damaged records at the end of the first.
            let first = look.owner.first;
            if !segments.is_empty() || mark.is_some() {
                found.damaged += first.saturating_sub(next.max(below));
            }
            (next, found.next_id) = (look.end, look.end_id);
            found.note = look.note.or(found.note);
            found.damaged += look.damaged;
            if look.end <= below.max(first) {
                // Nothing in it waits. Its numbers live on in the segment that begins below; then it goes.
                gone.push(path);
                continue;
            }
            found.messages += look.messages;
            found.events += look.events;
            if let Some(ms) = look.oldest_ms {
                found.oldest_ms = found.oldest_ms.or(Some(ms));
                ages.push_back((first, ms));
            }
            bytes += look.bytes;
            let (owner, end, bytes) = (look.owner, look.end, look.bytes);
            segments.push_back(Segment { owner, path, file: Arc::new(file), end, bytes });
        }
        if below > next {
            found.next_id = found.next_id.wrapping_add(below - next);
            next = below;
        }
        // A mark below the first segment, be it the one begun below, means that a segment is missing: the reader tells
        // its messages as damaged. Segments go only after the mark has passed them.
        let below = match (&mark, segments.front()) {
            (Some(mark), _) => mark.below,
            (None, Some(segment)) => segment.owner.first,
            (None, None) => next,
        };
        // What was noted before the oldest segment that is left.
        found.note = found.note.or_else(|| note::read(&folder));
        note::write(&folder, found.note.as_deref().unwrap_or_default())
            .map_err(SpoolError::io(&folder, "write the note"))?;
        let start = now_ns();
        let owner = Owner { spool: identity, start, first: next, first_id: found.next_id };
        let (path, file) =
            segment::create(&folder, owner).map_err(SpoolError::io(&folder, "begin a segment"))?;
        let last = || {
            file.sync_data()?;
            folder::sync(&folder)
        };
        last().map_err(SpoolError::io(&folder, "begin a segment"))?;
        for old in gone.into_iter().filter(|old| *old != path) {
            fs::remove_file(&old).map_err(SpoolError::io(&old, "remove it"))?;
        }
        let fresh = Segment { owner, path, file: Arc::new(file), end: next, bytes: START };
        segments.push_back(fresh);
        let state = State {
            segments,
            settled: Settled::new(below),
            offsets: mark.map(|m| m.offsets).unwrap_or_default(),
            next,
            next_id: found.next_id,
            bytes: bytes + START,
            messages: found.messages,
            events: found.events,
            ages,
            uncommitted: Vec::new(),
            named: false,
            note: found.note.clone().unwrap_or_default(),
            failed: None,
            closed: false,
        };
        let shared = Arc::new(Shared {
            options,
            identity,
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
        Ok((Spool(shared), found))
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
        let (sequence, file, at) = {
            let mut state = shared.state();
            if let Some(kind) = state.failed {
                return Err(SpoolError::io(&shared.options.folder, "commit")(kind.into()).into());
            }
            let limit = shared.options.limit;
            if state.bytes + size as u64 > limit && state.settled.below == state.next {
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
        record::lay_front(&mut writer, sequence, now, message);
        if let Err(cause) = write_both(&file, &writer, message.payload) {
            // What is there of it has no valid checksum behind it; the next append writes over it.
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
        state.next = sequence + 1;
        state.next_id = message.message_id.wrapping_add(1);
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

    /// Damaged messages, as the reader told them, are given up.
    pub fn give_up(&self, from: u64, to: u64) {
        for sequence in from..to {
            self.settle_one(sequence, None, (0, 0));
        }
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
            state.messages = state.messages.saturating_sub(waited.0);
            state.events = state.events.saturating_sub(waited.1);
            let below = state.settled.below;
            while state.ages.get(1).is_some_and(|&(first, _)| first <= below) {
                state.ages.pop_front();
            }
            if below == state.next {
                state.ages.clear();
            }
            while state.segments.len() > 1 && state.segments[0].end <= below {
                let old = state.segments.pop_front().expect("more than one");
                state.bytes -= old.bytes;
                state.uncommitted.retain(|file| !Arc::ptr_eq(file, &old.file));
                gone.push(old.path);
            }
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
            age_ms: oldest.map_or(0, |&(_, ms)| (now_ms() - ms).max(0).unsigned_abs()),
        }
    }

    /// The spool's own 16 bytes.
    pub fn identity(&self) -> [u8; 16] {
        self.0.identity
    }

    /// Running number that follows the last one appended.
    pub fn next_id(&self) -> u64 {
        self.0.state().next_id
    }

    /// Waits until something is appended or confirmed, at most so long. Returns at once if the spool is closed.
    pub fn wait(&self, time: Duration) {
        let state = self.0.state();
        if !state.closed {
            drop(self.0.moved.wait_timeout(state, time).expect("no holder panics"));
        }
    }

    /// Waits until something is appended behind `expected`, or somebody [wakes](Self::wake) it; at most 100 ms.
    pub fn wait_for_news(&self, expected: u64) {
        let state = self.0.state();
        if !state.closed && state.next <= expected {
            drop(self.0.moved.wait_timeout(state, COMMIT).expect("no holder panics"));
        }
    }

    /// Wakes everybody who waits.
    pub fn wake(&self) {
        self.0.moved.notify_all();
    }

    /// What is confirmed now, and the append time of the oldest message that is not, ms since 1970.
    pub fn mark(&self) -> (Mark, i64) {
        let state = self.0.state();
        let (below, offsets) = (state.settled.below, state.offsets.clone());
        let now = now_ms();
        let oldest = state.ages.front().map_or(now, |&(_, ms)| ms);
        (Mark { below, offsets, written_ms: now }, oldest)
    }

    /// Wakes everybody who waits, for good: [`Self::wait`] no longer waits.
    pub fn close(&self) {
        self.0.state().closed = true;
        self.0.moved.notify_all();
    }

    /// Commits all, writes down what is confirmed, ends the committing thread. What waits stays for the next start.
    ///
    /// # Errors
    /// The disk said no.
    pub fn finish(&self) -> Result<(), SpoolError> {
        self.close();
        let thread = self.0.committer.lock().expect("no holder panics").take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        self.0.commit_now()
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Ends the segment that is written to and begins one; what is settled to its end goes.
    fn rotate(&self, state: &mut State) -> Result<Vec<PathBuf>, SpoolError> {
        let owner = Owner {
            spool: self.identity,
            start: self.start,
            first: state.next,
            first_id: state.next_id,
        };
        if state.segments.back().is_some_and(|last| last.owner.first == owner.first) {
            return Ok(Vec::new());
        }
        let mut gone = Vec::new();
        let folder = &self.options.folder;
        // Before the segment that holds it may go.
        note::write(folder, &state.note).map_err(SpoolError::io(folder, "write the note"))?;
        let (path, file) =
            segment::create(folder, owner).map_err(SpoolError::io(folder, "begin a segment"))?;
        let (end, file) = (state.next, Arc::new(file));
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

    /// Writes down what is confirmed. What was known earlier never replaces what is known now.
    fn write_mark(&self) -> io::Result<()> {
        // Read under the same lock, so that an older one never replaces a newer one.
        let _held = self.marking.lock().expect("no holder panics");
        let mark = {
            let state = self.state();
            let (below, offsets) = (state.settled.below, state.offsets.clone());
            Mark { below, offsets, written_ms: now_ms() }
        };
        mark.write(&self.options.folder)
    }

    /// Removes segments in which all is confirmed, after the mark says so: what is missing below a mark is damage.
    fn remove(&self, gone: Vec<PathBuf>) {
        if gone.is_empty() {
            return;
        }
        // On a disk that is full the mark may not be written; the segments must go all the more.
        let _ = self.write_mark();
        for path in gone {
            // Left behind it is removed by the next start, which finds all in it confirmed.
            let _ = fs::remove_file(path);
        }
    }

    /// On a full disk: if all is confirmed, the segment that is written to is emptied. Its place is needed for the next
    /// one's head; numbers of messages live on there.
    fn make_room(&self) -> Result<(), AppendError> {
        let mut state = self.state();
        let last = state.segments.back().expect("never missing");
        if state.settled.below < state.next || last.bytes == START {
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

    fn commit_now(&self) -> Result<(), SpoolError> {
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

/// Writes both where the file stands: behind its last record, for only appends move that (reading is by position).
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

/// A full disk is no failure: room comes.
fn disk(error: SpoolError) -> AppendError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    match error {
        SpoolError::Io { cause, .. } if matches!(cause.kind(), StorageFull | QuotaExceeded) => {
            AppendError::DiskFull(cause)
        }
        other => other.into(),
    }
}

/// The committing thread.
fn commit(shared: &Shared) {
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
        let (below, next) = (state.settled.below, state.next);
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

fn touched(folder: &Path) -> Option<SystemTime> {
    let times = fs::read_dir(folder).ok()?.flatten().filter(|e| {
        let name = e.file_name();
        name == "settled" || name.to_string_lossy().ends_with(".seg")
    });
    times.filter_map(|e| e.metadata().ok()?.modified().ok()).max()
}

/// ms since 1970.
pub(crate) fn now_ms() -> i64 {
    (now_ns() / 1_000_000).cast_signed()
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
