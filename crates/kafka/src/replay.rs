//! Continues a replay after a kill: every event is on the topic once.
//!
//! Replays give the same events in the same order each time. So each message is appended together with a note: how many
//! events of the replay are in messages up to this one, and which pulses were still filling. After a kill the same
//! source is replayed from its beginning; the events counted in the note are skipped, and the next event goes into the
//! next message. Two things identify a replay: a text that names everything that determines its events (in the file
//! `run` of the spool's folder until the replay is complete), and a checksum of the events in the note.
//!
//! Refuses a replay whose events differ from those that were sent before. Source: `docs/decisions/0013-replays.md`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fullcount_core::products::{EventBatch, Phase, Products};
use fullcount_io::newfile;

use fullcount_core::output::Replay;
use fullcount_core::sink::SinkError;
use fullcount_messages::{EventStream, Standing};

/// The current replay, JSON.
const RUN: &str = "run";
/// Most bytes of it: two texts, and some 30 for each partition.
const LONGEST: u64 = 16 << 20;
/// In which order a source of several partitions was read; the source writes it.
const ORDER: &str = "order";
/// Bytes of a note in front of its open pulses.
const FIXED: usize = 24;

/// The replay that a spool's folder knows to be unfinished.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unfinished {
    /// Everything that its events follow from.
    pub identity: String,
    /// For people: what is replayed.
    pub title: String,
    /// Who it is: its start, ns since 1970.
    pub id: u64,
    /// First offset of each partition.
    pub starts: BTreeMap<i32, i64>,
}

impl Unfinished {
    /// The one in this spool's folder; `None` if there is none.
    ///
    /// # Errors
    /// The disk fails, or the file is damaged.
    pub fn read(folder: &Path) -> io::Result<Option<Unfinished>> {
        match newfile::read_own(&folder.join(RUN), LONGEST) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// File in which a source may keep the order of its partitions; it goes with the replay.
    pub fn order_file(folder: &Path) -> PathBuf {
        folder.join(ORDER)
    }

    /// In one step, and for good: what is appended next counts from its beginning.
    fn write(&self, folder: &Path) -> io::Result<()> {
        newfile::replace_for_good(&folder.join(RUN), &serde_json::to_vec(self)?)
    }

    fn forget(folder: &Path) -> io::Result<()> {
        for name in [RUN, ORDER] {
            match fs::remove_file(folder.join(name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        File::open(folder)?.sync_all()
    }
}

/// What a note says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    /// The replay that it is of.
    id: u64,
    /// Events that the stream had taken.
    taken: u64,
    /// Checksum of these.
    check: u64,
    /// Pulses that were filling: time, number of the first event that waited.
    open: Vec<(i64, u64)>,
}

impl Note {
    fn lay(out: &mut Vec<u8>, id: u64, check: u64, standing: Standing<'_>) {
        out.clear();
        for word in [id, standing.taken, check] {
            out.extend(word.to_le_bytes());
        }
        for (pulse, first) in standing.open() {
            out.extend(pulse.to_le_bytes());
            out.extend(first.to_le_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Option<Note> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (rows, rest) = bytes.get(FIXED..)?.as_chunks::<16>();
        if !rest.is_empty() {
            return None;
        }
        let row =
            |at: usize| Some((word(FIXED + 16 * at)?.cast_signed(), word(FIXED + 16 * at + 8)?));
        let open = (0..rows.len()).map(row).collect::<Option<_>>()?;
        Some(Note { id: word(0)?, taken: word(8)?, check: word(16)?, open })
    }
}

/// Order does not matter: events at one time may come in any.
fn checksum(offset_ns: &[u32], pixel: &[u32]) -> u64 {
    let mix = |(&offset, &pixel): (&u32, &u32)| {
        let x = (u64::from(offset) << 32 | u64::from(pixel)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    offset_ns.iter().zip(pixel).map(mix).fold(0, u64::wrapping_add)
}

/// Events of a pulse that was filling.
struct Held {
    pulse: i64,
    first: u64,
    offset_ns: Vec<u32>,
    pixel: Vec<u32>,
}

/// What is passed over.
struct Known {
    taken: u64,
    check: u64,
    held: Vec<Held>,
}

/// Position of a sink in a replay.
pub(super) struct Follower {
    replay: Replay,
    folder: PathBuf,
    id: u64,
    /// Events of the replay seen so far.
    seen: u64,
    /// Their checksum.
    check: u64,
    known: Option<Known>,
    /// The end of the replay was seen.
    complete: bool,
    /// Events of no use came: the replay was cut short.
    cut_short: bool,
    note: Vec<u8>,
}

/// How a replay begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// At its first event.
    Fresh,
    /// An earlier process had this many of its events in messages: they are skipped.
    Resumed(u64),
    /// At its first event; another one that was not finished is given up.
    Instead(String),
}

/// What became of a batch's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// In messages of an earlier process.
    pub known: u64,
    /// Of no use, the next process makes them again.
    pub later: u64,
}

impl Follower {
    /// Continues the replay in this spool's folder if it is the same, otherwise begins one. The spool's lock is held.
    pub fn begin(
        replay: Replay,
        folder: &Path,
        note: Option<&[u8]>,
    ) -> io::Result<(Follower, Beginning)> {
        let earlier = Unfinished::read(folder)?;
        let same = earlier.as_ref().filter(|e| e.identity == replay.identity && !replay.restart);
        let id = same.map(|e| e.id);
        let note = note.and_then(Note::read).filter(|note| Some(note.id) == id);
        let known = note.filter(|note| note.taken > 0).map(|note| {
            let one = |(pulse, first)| Held { pulse, first, offset_ns: vec![], pixel: vec![] };
            let held = note.open.into_iter().map(one).collect();
            Known { taken: note.taken, check: note.check, held }
        });
        let beginning = match (&known, same, &earlier) {
            (Some(known), ..) => Beginning::Resumed(known.taken),
            (None, None, Some(other)) if other.identity != replay.identity => {
                Beginning::Instead(other.title.clone())
            }
            _ => Beginning::Fresh,
        };
        let id = match id {
            Some(id) => id,
            None => {
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                let id = now.unwrap_or_default().as_nanos() as u64;
                Unfinished::forget(folder)?;
                let Replay { identity, title, starts, .. } = replay.clone();
                Unfinished { identity, title, id, starts }.write(folder)?;
                id
            }
        };
        let (seen, check, complete, cut_short) = (0, 0, false, false);
        let (folder, note) = (folder.to_owned(), Vec::new());
        let made = Follower { replay, folder, id, seen, check, known, complete, cut_short, note };
        Ok((made, beginning))
    }

    /// Events that wait here for the position of the earlier process.
    pub fn held(&self) -> u64 {
        let held = self.known.iter().flat_map(|known| &known.held);
        held.map(|held| held.pixel.len() as u64).sum()
    }

    /// True if not all of its events go into messages: it has not reached the position of the earlier process, or was
    /// interrupted.
    pub fn is_behind(&self) -> bool {
        self.known.is_some() || self.cut_short
    }

    /// Takes a batch: calls `say` with each message of the stream and its note.
    pub fn push(
        &mut self,
        stream: &mut EventStream,
        products: &Products,
        mut say: impl FnMut(fullcount_messages::Said<'_>, &[u8]),
    ) -> Result<Passed, SinkError> {
        let events = &products.events;
        let count = events.pixel.len() as u64;
        match products.phase {
            Phase::Underway => {}
            Phase::CutShort => self.cut_short = true,
            Phase::Complete => self.complete = true,
        }
        if self.cut_short {
            return Ok(Passed { known: 0, later: count });
        }
        let Some(known) = &self.known else {
            self.hand(stream, events, say);
            return Ok(Passed::default());
        };
        let before = (known.taken - self.seen).min(count);
        let kept = self.pass_over(events, before as usize);
        if self.known.as_ref().is_some_and(|known| known.taken == self.seen) {
            self.settle(stream)?;
            if before < count {
                self.hand(stream, &behind(events, before as usize), &mut say);
            }
        } else if self.complete {
            return Err(self.other(format!("it has only {} events", self.seen)));
        }
        Ok(Passed { known: before - kept, later: 0 })
    }

    /// The first `count` of these events are in messages already, but for those of pulses that were filling. Says how
    /// many these are.
    fn pass_over(&mut self, events: &EventBatch, count: usize) -> u64 {
        let Some(known) = &mut self.known else { return 0 };
        let mut kept = 0;
        let firsts = || events.pulse_first.iter().map(|&first| first as usize);
        let ends = firsts().skip(1).chain([events.pixel.len()]);
        for ((&pulse, first), end) in events.pulse_ns.iter().zip(firsts()).zip(ends) {
            let Some(held) = known.held.iter_mut().find(|held| held.pulse == pulse) else {
                continue;
            };
            let from = first.max(held.first.saturating_sub(self.seen).min(count as u64) as usize);
            let rows = from..end.min(count).max(from);
            let columns = (events.offset_ns.get(rows.clone()), events.pixel.get(rows.clone()));
            let (Some(offset_ns), Some(pixel)) = columns else { continue };
            held.offset_ns.extend_from_slice(offset_ns);
            held.pixel.extend_from_slice(pixel);
            kept += rows.len() as u64;
        }
        let sum =
            checksum(events.offset_ns.get(..count).unwrap_or_default(), &events.pixel[..count]);
        self.check = self.check.wrapping_add(sum);
        self.seen += count as u64;
        kept
    }

    /// The position of the earlier process is reached.
    fn settle(&mut self, stream: &mut EventStream) -> Result<(), SinkError> {
        let Some(known) = self.known.take() else { return Ok(()) };
        if known.check != self.check {
            return Err(self.other("its events are others".into()));
        }
        stream.begin_at(known.taken);
        for held in known.held.iter().filter(|held| !held.pixel.is_empty()) {
            stream.restore(known.taken, held.pulse, held.first, (&held.offset_ns, &held.pixel));
        }
        Ok(())
    }

    fn other(&self, how: String) -> SinkError {
        let message = format!(
            "{}: this is not the replay that was interrupted before: {how}. Nothing of it was sent; \
             --replay restart sends all of it, from the beginning",
            self.replay.title
        );
        SinkError { sink: super::sink::NAME, message }
    }

    fn hand(
        &mut self,
        stream: &mut EventStream,
        events: &EventBatch,
        mut say: impl FnMut(fullcount_messages::Said<'_>, &[u8]),
    ) {
        let Follower { id, seen, check, note, .. } = self;
        let (begun, mut done) = (*seen, 0);
        let mut upto = |taken: u64| {
            let end = (taken - begun) as usize;
            let columns = (events.offset_ns.get(done..end), events.pixel.get(done..end));
            let sum = checksum(columns.0.unwrap_or_default(), columns.1.unwrap_or_default());
            done = end;
            *check = check.wrapping_add(sum);
            *check
        };
        stream.push(events, |said| {
            if let fullcount_messages::Said::Message(ready) = &said {
                Note::lay(note, *id, upto(ready.standing.taken), ready.standing);
            }
            say(said, &note[..]);
        });
        *seen += events.pixel.len() as u64;
        upto(*seen);
    }

    /// The note for messages of the stream between batches.
    pub fn note(&mut self, said: &fullcount_messages::Said<'_>) -> &[u8] {
        if let fullcount_messages::Said::Message(ready) = said {
            Note::lay(&mut self.note, self.id, self.check, ready.standing);
        }
        &self.note
    }

    /// The sink has ended and all that it took is appended (`all`) or not. Returns a message for users if the replay is
    /// to continue; events that wait here no longer belong to this process.
    pub fn end(&mut self, all: bool) -> io::Result<(u64, Option<String>)> {
        let later = self.held();
        if self.complete && !self.cut_short && all {
            Unfinished::forget(&self.folder)?;
            return Ok((later, None));
        }
        let upto = self.known.as_ref().map_or(self.seen, |known| known.taken);
        self.known = None;
        let said = format!(
            "{} was interrupted behind {upto} events: the next start with it goes on there, with \
             --replay restart it begins anew",
            self.replay.title
        );
        Ok((later, Some(said)))
    }
}

/// The events from this one on.
fn behind(events: &EventBatch, from: usize) -> EventBatch {
    let mut rest = EventBatch::default();
    let firsts = || events.pulse_first.iter().map(|&first| first as usize);
    let ends = firsts().skip(1).chain([events.pixel.len()]);
    for ((&pulse, first), end) in events.pulse_ns.iter().zip(firsts()).zip(ends) {
        let rows = first.max(from)..end.max(from);
        if rows.is_empty() {
            continue;
        }
        rest.open_pulse(fullcount_core::time::PulseTime(pulse));
        rest.offset_ns.extend_from_slice(&events.offset_ns[rows.clone()]);
        rest.pixel.extend_from_slice(&events.pixel[rows]);
    }
    rest
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
