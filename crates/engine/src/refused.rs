//! Packets that are refused, and fragments put together of them: how large a part of the run they are, and what they look like instead.
//!
//! A run on the wrong port, or with the wrong detector, refuses everything and loses nothing by its own count. So a run of
//! which more than a limit is refused ends as one that lost something, and some of the refused packets are kept and shown
//! to the header tests of all detectors ([`Kind::looks_right`](fullcount_detect::detector::Kind::looks_right)).
//!
//! Nothing here is paid for by good packets: [`Sampler`] looks at a batch at most every 20 ms, and only after the counters
//! of refused packets have moved. Kept are the newest [`KEPT`] packets, [`LONGEST`] bytes of each, 576 KiB in all.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Entry, Role, Sheet, Unit};
use fullcount_detect::detector::{Kind, Registry, registered};

use crate::summary::grouped;

/// Refused packets that are kept.
pub const KEPT: usize = 64;
/// Bytes of each: a jumbo frame has 9,000.
pub const LONGEST: usize = 9216;
/// Packets of a batch that are looked at.
const LOOKED_AT: usize = 64;
/// Batches at the beginning that are looked at whatever the clock says: a short run has no more.
const FIRST_BATCHES: u32 = 64;
/// Shortest time over which a part is worked out for those who watch.
const WATCHED: Duration = Duration::from_secs(1);
/// First bytes that a message shows.
const SHOWN: usize = 16;

/// A packet that was refused.
#[derive(Debug, Clone)]
struct Sample {
    bytes: Vec<u8>,
    /// Its length, however much was kept.
    length: usize,
    origin: Origin,
}

/// What is known of a run's refused packets.
pub struct Refusals {
    /// Name of the detector that refuses.
    detector: String,
    /// Percent of the packets received, as bits of an f64.
    limit: AtomicU64,
    registry: &'static Registry,
    kept: Mutex<VecDeque<Sample>>,
    recent: Mutex<Recent>,
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusals").field("detector", &self.detector).finish_non_exhaustive()
    }
}

/// The last second or so.
#[derive(Debug, Default)]
struct Recent {
    since: Option<Instant>,
    counted: [Counted; JUDGED.len()],
    mostly: [bool; JUDGED.len()],
}

/// What is judged: the hop that refuses, its unit, and the counter of what came to it.
struct Judged {
    hop: &'static str,
    unit: Unit,
    came: &'static str,
}

/// Packets that the detector cannot read, and fragments of a source that is not configured, is there twice, counts backwards, or comes too late.
const JUDGED: [Judged; 2] = [
    Judged { hop: "decode", unit: Unit::Packets, came: "receive.packets" },
    Judged { hop: "fragments", unit: Unit::Fragments, came: "fragments.count" },
];

impl Judged {
    fn refused<'a>(&self, entries: &'a Entries) -> impl Iterator<Item = &'a Entry> {
        let (hop, unit) = (self.hop, self.unit);
        entries.iter().filter(move |e| {
            e.info.hop == hop && e.info.unit == unit && e.info.role == Role::Rejected
        })
    }

    fn counted(&self, entries: &Entries) -> Counted {
        Counted {
            received: entries.get(self.came).unwrap_or(0),
            refused: self.refused(entries).fold(0, |sum, e| sum.saturating_add(e.value)),
        }
    }
}

/// Packets or fragments received, and of them refused by the detector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Received.
    pub received: u64,
    /// Refused.
    pub refused: u64,
}

impl Counted {
    fn since(self, before: Counted) -> Counted {
        Counted {
            received: self.received.saturating_sub(before.received),
            refused: self.refused.saturating_sub(before.refused),
        }
    }

    /// Refused packets in percent of those received; 0 of none.
    pub fn percent(self) -> f64 {
        if self.received == 0 { 0.0 } else { 100.0 * self.refused as f64 / self.received as f64 }
    }
}

/// Too many packets were, or are, refused.
#[derive(Debug, Clone, PartialEq)]
pub struct MostlyRefused {
    /// Of the whole run.
    pub counted: Counted,
    /// What is allowed, percent.
    pub limit: f64,
    /// Name of the detector whose packets they seem to be.
    pub looks_like: Option<&'static str>,
    /// The whole in words.
    pub message: String,
}

impl Refusals {
    /// Percent of the packets received that may be refused, from now on.
    pub fn set_limit(&self, percent: f64) {
        self.limit.store(percent.to_bits(), Relaxed);
    }

    fn limit(&self) -> f64 {
        f64::from_bits(self.limit.load(Relaxed))
    }

    /// For a run with this detector; `limit` in percent.
    pub fn new(detector: &str, limit: f64) -> Refusals {
        Refusals {
            detector: detector.to_owned(),
            limit: AtomicU64::new(limit.to_bits()),
            registry: registered(),
            kept: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    /// What to say of the whole run; `None` if no more is refused than allowed.
    pub fn of_run(&self, entries: &Entries) -> Option<MostlyRefused> {
        self.found(entries, [false; JUDGED.len()])
    }

    /// The same while it goes on: also if so many were refused in the last second or so.
    pub fn at(&self, now: Instant, entries: &Entries) -> Option<MostlyRefused> {
        let mostly = {
            let mut recent = self.recent.lock().expect("no holder panics");
            let since = *recent.since.get_or_insert(now);
            if now.saturating_duration_since(since) >= WATCHED {
                for (n, judged) in JUDGED.iter().enumerate() {
                    let counted = judged.counted(entries);
                    let lately = counted.since(recent.counted[n]);
                    // Where nothing came nothing has changed.
                    if lately.received > 0 {
                        recent.mostly[n] = lately.percent() > self.limit();
                        (recent.since, recent.counted[n]) = (Some(now), counted);
                    }
                }
            }
            recent.mostly
        };
        self.found(entries, mostly)
    }

    /// The first of which more is refused than allowed, in the whole run or `mostly` lately.
    fn found(&self, entries: &Entries, mostly: [bool; JUDGED.len()]) -> Option<MostlyRefused> {
        let judged =
            JUDGED.iter().zip(mostly).map(|(judged, m)| (judged, judged.counted(entries), m));
        let mut bad = judged.filter(|(_, counted, m)| *m || counted.percent() > self.limit());
        bad.next().map(|(judged, counted, _)| self.told(entries, judged, counted))
    }

    fn keep(&self, packet: &[u8], origin: Origin) {
        let mut kept = self.kept.lock().expect("no holder panics");
        // The memory of the oldest goes to the newest.
        let oldest = if kept.len() >= KEPT { kept.pop_front() } else { None };
        let mut bytes = oldest.map_or_else(Vec::new, |sample| sample.bytes);
        bytes.clear();
        bytes.extend_from_slice(&packet[..packet.len().min(LONGEST)]);
        kept.push_back(Sample { bytes, length: packet.len(), origin });
    }

    /// The kind whose header test most of the kept packets pass.
    fn fits(&self, kept: &VecDeque<Sample>) -> Option<&dyn Kind> {
        // What was cut proves nothing: the tests look at lengths.
        let whole = || kept.iter().filter(|s| s.length == s.bytes.len());
        let passes = |kind: &dyn Kind| whole().filter(|s| kind.looks_right(&s.bytes)).count();
        let others = self.registry.kinds().filter(|kind| kind.name() != self.detector);
        let best = others.map(|kind| (passes(kind), kind)).max_by_key(|(n, _)| *n);
        best.filter(|(n, _)| 2 * n > kept.len()).map(|(_, kind)| kind)
    }

    fn told(&self, entries: &Entries, judged: &Judged, counted: Counted) -> MostlyRefused {
        let most = judged.refused(entries).filter(|e| e.value > 0).max_by_key(|e| e.value);
        let most = most.map(|e| format!("{} ({})", e.info.meaning, e.info.name));
        let (looks_like, why) = match judged.unit {
            Unit::Packets => {
                let kept = self.kept.lock().expect("no holder panics");
                let found = self.fits(&kept);
                let what = match (found, kept.back()) {
                    (Some(kind), _) => {
                        format!(
                            "these look like {} packets: --detector {}",
                            kind.title(),
                            kind.name()
                        )
                    }
                    (None, Some(_)) => unknown(&kept),
                    (None, None) => format!("they have the form of {} packets", self.detector),
                };
                let most = most.map_or(String::new(), |most| format!("; most of them: {most}"));
                (found.map(Kind::name), what + &most)
            }
            _ => (None, most.map_or(String::new(), |most| format!("most of them are {most}"))),
        };
        let (percent, limit) = (counted.percent(), self.limit());
        let message = format!(
            "{} of {} {} ({percent:.1} %) were refused, more than engine.max_refused = {limit}%: {why}",
            grouped(counted.refused),
            grouped(counted.received),
            judged.unit.name(),
        );
        MostlyRefused { counted, limit, looks_like, message }
    }
}

/// Facts about packets that no header test knows.
fn unknown(kept: &VecDeque<Sample>) -> String {
    let lengths = || kept.iter().map(|s| s.length);
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let mut text =
        "no detector of this version knows them, so check the port; they have ".to_owned();
    // Writing into a String cannot fail.
    let _ = match least == most {
        true => write!(text, "{least} bytes"),
        false => write!(text, "{least} to {most} bytes"),
    };
    if let Some(last) = kept.back() {
        text += ", the last of them";
        if last.origin != Origin::NONE {
            let _ = write!(text, " from {}", last.origin);
        }
        let first: Vec<String> =
            last.bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
        let _ = match first.is_empty() {
            true => write!(text, " is empty"),
            false => write!(text, " begins with {}", first.join(" ")),
        };
    }
    text
}

/// One worker's look at its batches.
pub struct Sampler {
    refusals: Arc<Refusals>,
    sheet: Arc<Sheet>,
    /// Lines of refused packets.
    lines: Vec<usize>,
    seen: u64,
    first: u32,
}

impl Sampler {
    /// For the worker whose reader counts on this sheet.
    pub fn new(refusals: Arc<Refusals>, sheet: Arc<Sheet>) -> Sampler {
        let refused = |(_, line): &(usize, &fullcount_core::ledger::Info)| {
            line.unit == Unit::Packets && line.role == Role::Rejected
        };
        let lines = sheet.lines().iter().enumerate().filter(refused).map(|(at, _)| at).collect();
        Sampler { refusals, sheet, lines, seen: 0, first: FIRST_BATCHES }
    }

    /// True for the first batches of a run.
    #[inline]
    pub fn is_eager(&self) -> bool {
        self.first > 0
    }

    /// Keeps refused packets of a batch that was just decoded, if there are new ones.
    #[cold]
    pub fn look(&mut self, batch: &Batch) {
        self.first = self.first.saturating_sub(1);
        let refused = self.lines.iter().fold(0u64, |sum, &at| sum.wrapping_add(self.sheet.get(at)));
        if refused == self.seen {
            return;
        }
        self.seen = refused;
        let all = batch.trains().flat_map(|train| train.chunks().map(move |c| (c, train.origin)));
        let own = self.refusals.registry.kinds().find(|k| k.name() == self.refusals.detector);
        let good = |chunk: &[u8]| own.is_some_and(|kind| kind.looks_right(chunk));
        for (chunk, origin) in all.take(LOOKED_AT).filter(|(chunk, _)| !good(chunk)) {
            self.refusals.keep(chunk, origin);
        }
    }
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
