//! What an earlier process left: which segments, which messages wait in them, and which are damaged.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::acknowledged::{Appended, Left, Mark, Settled};
use super::error::SpoolError;
use super::folder::{self, Key};
use super::note;
use super::options::SpoolStart;
use super::queue::Segment;
use super::running::Running;
use super::scan::{Part, Tail};
use super::segment::{self, Opened};

/// What is in a spool's folder.
#[derive(Debug)]
pub(super) struct Inventory {
    pub start: SpoolStart,
    /// Those in which messages wait, or all if it is not known which.
    pub segments: VecDeque<Segment>,
    /// Those in which none waits.
    pub gone: Vec<PathBuf>,
    pub settled: Settled,
    /// What the next message gets, and whether the events before it are known.
    pub next: Appended,
    pub events_known: bool,
    /// Bytes of the segments that stay.
    pub bytes: u64,
    /// First number and append time of each segment.
    pub ages: VecDeque<(u64, i64)>,
}

impl Inventory {
    /// Looks through the folder, whose lock is held. Files that cannot be read are put aside.
    ///
    /// # Errors
    /// The system's words, or nothing here belongs to this spool.
    pub fn take(folder: &Path, key: &Key) -> Result<Inventory, SpoolError> {
        let mut start =
            SpoolStart { touched: touched(folder), next_id: 1, ..SpoolStart::default() };
        let opened = open_all(folder, key, &mut start)?;
        let mark = match Mark::read(folder, key) {
            Left::Mark(mark) => Some(mark),
            Left::Damaged => {
                start.unreadable += 1;
                start.told.push(format!(
                    "the file {} is damaged: what the broker has is found again by reading the topic",
                    folder.join("settled").display()
                ));
                None
            }
            Left::Nothing => {
                // Segments are removed only after a mark was written.
                if opened.first().is_some_and(|first| first.owner.first > 1) {
                    start.unreadable += 1;
                    let path = folder.join("settled");
                    start.told.push(format!("the file {} is missing", path.display()));
                }
                None
            }
        };
        let mut look = Look::new(start, key, mark.as_ref().map_or(0, |mark| mark.below));
        look.all(&opened, mark.is_some())?;
        let end = look.end;
        if let Some(mark) = mark.as_ref().filter(|mark| mark.below > end) {
            // The mark cannot be right: messages that it calls confirmed may never have been sent. So no message that
            // is still here counts as confirmed; those on the topic are found there.
            let mut start = std::mem::take(&mut look.base);
            start.unreadable += 1;
            start.told.push(format!(
                "the file {} says that all messages below {} are confirmed, and the last one here is {}: it is not \
                 believed, and no segment is removed",
                folder.join("settled").display(),
                mark.below,
                end.saturating_sub(1)
            ));
            look = Look::new(start, key, 0);
            look.doubted = Some(mark.below);
            // Known from the first look: a damaged message in front of the last record that is here is still lost.
            look.end = end;
            look.all(&opened, false)?;
        }
        look.finish(folder, opened, mark)
    }
}

/// Opens our segments in the order of numbers; each number once.
fn open_all(folder: &Path, key: &Key, start: &mut SpoolStart) -> Result<Vec<Opened>, SpoolError> {
    let list = folder::segments(folder).map_err(SpoolError::io(folder, "list it"))?;
    let (mut all, mut strange): (Vec<Opened>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for path in list {
        match segment::open(&path, key).map_err(SpoolError::io(&path, "read it"))? {
            Some(opened) => all.push(opened),
            None => strange.push(path),
        }
    }
    if all.is_empty() && strange.iter().any(|path| segment::is_of_another(path, key)) {
        // Rather the identity is another than every file.
        return Err(SpoolError::Identity { folder: folder.into() });
    }
    let named = |opened: &Opened| {
        opened.path.file_name().is_some_and(|name| *name == *segment::name(opened.owner.first))
    };
    all.sort_by_key(|o| (o.owner.first, o.owner.start, o.mended, !named(o)));
    let mut kept: Vec<Opened> = Vec::new();
    for opened in all {
        let same = |last: &Opened| {
            (last.owner.first, last.owner.start) == (opened.owner.first, opened.owner.start)
        };
        // A segment without a record makes room for the next one of its number.
        if kept.last().is_some_and(same) && opened.bytes > opened.owner.begin() {
            strange.push(opened.path);
        } else {
            kept.push(opened);
        }
    }
    for opened in kept.iter().filter(|opened| opened.mended) {
        start.unreadable += 1;
        start.told.push(format!(
            "the head of {} is damaged: its messages are read by their own checksums",
            opened.path.display()
        ));
    }
    for path in strange {
        let aside = segment::put_aside(&path).map_err(SpoolError::io(&path, "put it aside"))?;
        start.unreadable += 1;
        start.told.push(format!(
            "{} is no segment of this spool, or its head is damaged and no message in it can be read: kept as {}",
            path.display(),
            aside.display()
        ));
    }
    // A wrong name would block the segment to which it belongs.
    for one in kept.iter_mut().filter(|one| !named(one)) {
        let free = segment::free_name(folder, one.owner.first);
        fs::rename(&one.path, &free).map_err(SpoolError::io(&one.path, "give it its name"))?;
        one.path = free;
    }
    Ok(kept)
}

/// One look through all segments.
struct Look<'a> {
    key: &'a Key,
    start: SpoolStart,
    /// What was known before it began.
    base: SpoolStart,
    /// All below is confirmed.
    below: u64,
    /// A mark that is ignored, and calls these confirmed.
    doubted: Option<u64>,
    /// Where the messages of one segment end, and its bytes with whole records; in the order of segments.
    ends: Vec<(u64, u64, Option<i64>)>,
    /// Number of the next message, and the one after the last record that is here.
    next: u64,
    end: u64,
    next_id: u64,
    /// The first number if nothing is known to be confirmed.
    from: u64,
    /// Damage after the last record: messages up to this number at least.
    behind: u64,
    /// An interrupted append is after the last record.
    torn: bool,
    running: Running,
}

impl<'a> Look<'a> {
    fn new(start: SpoolStart, key: &'a Key, below: u64) -> Look<'a> {
        let (running, base, ends) = (Running::default(), start.clone(), Vec::new());
        let (doubted, from, behind, torn) = (None, 1, 0, false);
        Look {
            key,
            start,
            base,
            below,
            doubted,
            ends,
            next: 1,
            end: 1,
            next_id: 1,
            from,
            behind,
            torn,
            running,
        }
    }

    /// The next message is `to`; those before it are lost, unless they were confirmed.
    fn gap(&mut self, to: u64, before: Option<u64>) {
        let events = self.running.between(self.next, before);
        // Messages that an ignored mark calls confirmed, and that are not here, cannot be sent again.
        let doubted = self.doubted.filter(|_| self.next >= self.end).unwrap_or(0);
        let from = self.next.max(self.below).max(doubted);
        if from < to {
            self.start.damaged += to - from;
            self.start.damaged_events += events.filter(|_| from == self.next).unwrap_or(0);
        }
        if self.next < to {
            self.running.stand(to, before);
            self.next_id = self.next_id.wrapping_add(to - self.next);
            self.next = to;
        }
    }

    /// `counted`: a mark says where the messages begin that are not confirmed.
    fn all(&mut self, opened: &[Opened], counted: bool) -> Result<(), SpoolError> {
        let mut buffer = Vec::new();
        for (n, one) in opened.iter().enumerate() {
            let owner = one.owner;
            if n == 0 && !counted {
                // Segments before it were probably removed normally.
                (self.next, self.from) = (owner.first, owner.first);
            }
            self.gap(owner.first, owner.before);
            self.running.enter(self.next, &owner);
            if self.next == owner.first {
                self.next_id = owner.first_id;
            }
            let follows = opened.get(n + 1).map(|next| next.owner.first);
            let io = SpoolError::io(&one.path, "read it");
            self.one(one, follows, &mut buffer).map_err(io)?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        one: &Opened,
        follows: Option<u64>,
        buffer: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let Opened { file, owner, bytes, .. } = one;
        let part = Part { file, owner: *owner, key: self.key, end: *bytes };
        let (mut at, mut oldest, mut least) = (owner.begin(), None, owner.first);
        let tail = loop {
            let (place, head, stored) = match part.next(at, least, buffer)? {
                Ok(found) => found,
                Err(tail) => break tail,
            };
            let sequence = stored.identity.sequence;
            at = place + stored.bytes as u64;
            least = sequence.saturating_add(1);
            if sequence < self.next {
                // A copy of one that is here already.
                continue;
            }
            self.gap(sequence, head.origin.map(|(_, before)| before));
            if sequence >= self.below {
                self.start.messages += 1;
                self.start.events += u64::from(stored.events);
                oldest = oldest.or(Some(stored.time_ms));
            }
            if let Some(note) = stored.note() {
                self.start.note = Some(note.to_vec());
            }
            self.next = least;
            self.next_id = stored.message_id.wrapping_add(1);
            self.running.stand(least, head.upto());
        };
        self.end = self.end.max(least);
        let end = least;
        match tail {
            Tail::Clean => {}
            Tail::Torn => match follows {
                None => self.torn = true,
                // Else the number of the next segment says that it was whole.
                Some(first) => self.start.torn += u64::from(first == least),
            },
            // Where the next segment begins, its number says it better.
            Tail::Damaged(upto) if follows.is_none() => self.behind = upto,
            Tail::Damaged(_) => {}
        }
        self.ends.push((end, at, oldest));
        Ok(())
    }

    fn finish(
        mut self,
        folder: &Path,
        opened: Vec<Opened>,
        mark: Option<Mark>,
    ) -> Result<Inventory, SpoolError> {
        let doubted = self.doubted.is_some();
        // It may name messages that no file holds.
        match mark.as_ref().and_then(|mark| mark.appended) {
            Some(appended) if self.next < appended.next && self.behind <= appended.next => {
                self.gap(appended.next, Some(appended.events));
                self.next_id = appended.next_id;
            }
            _ => {
                self.start.torn += u64::from(self.torn);
                self.gap(self.behind, None);
            }
        }
        let mut made = Inventory {
            segments: VecDeque::new(),
            gone: Vec::new(),
            settled: Settled::default(),
            next: Appended::default(),
            events_known: false,
            bytes: 0,
            ages: VecDeque::new(),
            start: self.start,
        };
        for (one, (end, bytes, oldest)) in opened.into_iter().zip(self.ends) {
            let Opened { path, file, owner, .. } = one;
            if end <= self.below.max(owner.first) {
                // Nothing in it waits. Its numbers live on in the segment that begins next; then it goes.
                made.gone.push(path);
                continue;
            }
            if let Some(ms) = oldest {
                made.start.oldest_ms = made.start.oldest_ms.or(Some(ms));
                made.ages.push_back((owner.first, ms));
            }
            made.bytes += bytes;
            made.segments.push_back(Segment { owner, path, file: Arc::new(file), end, bytes });
        }
        // A mark below the first segment, be it the one begun next, means that a segment is missing: the reader reports
        // its messages as damaged. Segments are removed only after the mark has passed them.
        let first = self.from;
        let known = mark.filter(|_| !doubted);
        made.settled = Settled::new(known.as_ref().map_or(first, |mark| mark.below));
        if let Some(doubted) = self.doubted {
            made.settled.add_range(self.end, doubted.min(self.next));
        }
        let events = self.running.upto(self.next);
        made.events_known = events.is_some();
        let (next, next_id) = (self.next, self.next_id);
        made.next = Appended { next, next_id, events: events.unwrap_or_default() };
        made.start.next_id = next_id;
        made.start.mark = known;
        // What was noted before the oldest segment that is left.
        made.start.note = made.start.note.or_else(|| note::read(folder));
        Ok(made)
    }
}

fn touched(folder: &Path) -> Option<SystemTime> {
    let times = fs::read_dir(folder).ok()?.flatten().filter(|e| {
        let name = e.file_name();
        name == "settled" || name.to_string_lossy().ends_with(".seg")
    });
    times.filter_map(|e| e.metadata().ok()?.modified().ok()).max()
}
