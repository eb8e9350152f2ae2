//! The ledger: every counter with its meaning and what to do about it, and the sum that must be 0.
//!
//! A component declares its counters once with [`counters!`](crate::counters) and owns one [`Sheet`]
//! per thread. Only the owner writes, once per batch, with plain stores; anyone reads. [`Ledger`]
//! merges sheets by name (sum, present sum or maximum) and balances each hop in its own unit:
//! `in − accepted − rejected − queued = 0`.
//! *Amounts of lost packets come from sequence gaps or the sender's count, never from kernel counters*
//! (with GRO those count trains: 62,848 missing packets showed as 982); kernel counters name the place.
//! Source: `docs/contracts.md`, "Ledger".

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Text that is usually static but may come from a plugin.
pub type Text = Cow<'static, str>;

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Datagrams or records.
    Packets,
    /// Payload bytes.
    Bytes,
    /// Events of a container that a packet carries several of, each with a number of its own.
    ContainerEvents,
    /// Fragments of events: what one source has of one.
    Fragments,
    /// Readouts.
    Readouts,
    /// Hits.
    Hits,
    /// Events.
    Events,
    /// Rows of tables.
    Rows,
    /// Messages or pulses.
    Messages,
    /// System calls, polls, changes: anything that just happens.
    Times,
}

impl Unit {
    /// What senders number instead of their packets; their losses are listed in addition to those of packets.
    pub const NUMBERED: [Unit; 2] = [Unit::ContainerEvents, Unit::Fragments];

    /// Key of the unit in the summary.
    pub fn key(self) -> &'static str {
        match self {
            Unit::ContainerEvents => "container_events",
            other => other.name(),
        }
    }

    /// Name for people and for metric labels.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
            Unit::ContainerEvents => "container events",
            Unit::Fragments => "fragments",
            Unit::Readouts => "readouts",
            Unit::Hits => "hits",
            Unit::Events => "events",
            Unit::Rows => "rows",
            Unit::Messages => "messages",
            Unit::Times => "times",
        }
    }
}

/// How the same counter of several threads becomes one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Added up; only grows.
    Sum,
    /// Added up as well, of present values: they fall again (open streams, messages in a spool, its bound).
    Present,
    /// The largest.
    Max,
}

/// Where a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Between the hosts.
    Link,
    /// In the network card.
    Nic,
    /// In the kernel's per-core backlog.
    Backlog,
    /// In the socket's receive buffer.
    Socket,
    /// While putting IP fragments together.
    Reassembly,
    /// In our own queue between two threads.
    Queue,
    /// While the receiver was not running.
    Down,
    /// Missing, and no probe says where.
    Unknown,
}

impl Place {
    /// All places, in the order of the summary.
    pub const ALL: [Place; 8] = [
        Place::Link,
        Place::Nic,
        Place::Backlog,
        Place::Socket,
        Place::Reassembly,
        Place::Queue,
        Place::Down,
        Place::Unknown,
    ];

    /// Key in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Place::Link => "link",
            Place::Nic => "nic",
            Place::Backlog => "backlog",
            Place::Socket => "socket",
            Place::Reassembly => "reassembly",
            Place::Queue => "queue",
            Place::Down => "down",
            Place::Unknown => "unknown",
        }
    }
}

/// Part that a counter plays in its hop's balance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Came in.
    In,
    /// Went on, or was used up as intended.
    Accepted,
    /// Refused for one reason; not a loss.
    Rejected,
    /// Still waiting (a gauge).
    Queued,
    /// Came in and was lost here by overload (events of a full sink, packets of a full queue):
    /// balances like a rejection, and makes exit code 3.
    Dropped(Place),
    /// Missing before it came in, known from the numbering: exit code 3, no part of the hop's sum.
    Missing(Place),
    /// Copies received more than once; not a loss.
    Duplicate,
    /// Arrived out of order but in time.
    Reordered,
    /// Arrived after it was given up.
    Late,
    /// The sender restarted.
    Restarts,
    /// Information only.
    Note,
}

/// One line of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Info {
    /// Published dotted name.
    pub name: Text,
    /// Unit of the value.
    pub unit: Unit,
    /// Merge of several threads.
    pub merge: Merge,
    /// Hop to whose balance it belongs: `receive`, `decode`, `geometry`, `events`, `sink.nexus`, …
    pub hop: Text,
    /// Part in that balance.
    pub role: Role,
    /// What it counts, one sentence.
    pub meaning: Text,
    /// What a value above 0 asks the user to do; empty: nothing.
    pub todo: Text,
}

impl Info {
    /// True for values that can fall: a queue's length, a present value, an extreme.
    pub fn can_fall(&self) -> bool {
        self.role == Role::Queued || self.merge != Merge::Sum
    }
}

/// Declares a component's counters: an enum whose variants index a [`Sheet`], with the catalogue lines.
///
/// ```
/// use fullcount_core::ledger::{Sheet, Role, Unit};
/// fullcount_core::counters! {
///     /// What a toaster counts.
///     pub enum Toast {
///         In "toast.in" Packets Sum "toast" In "slices put in" "";
///         Burnt "toast.burnt" Packets Sum "toast" Rejected "slices that burnt" "turn the knob down";
///     }
/// }
/// let sheet = Sheet::new(Toast::catalogue());
/// sheet.add(Toast::Burnt as usize, 2);
/// assert_eq!(sheet.get(Toast::Burnt as usize), 2);
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$doc:meta])* $vis:vis enum $name:ident {
        $($variant:ident $($text:literal)+ $unit:ident $merge:ident $hop:literal
          $role:ident $(($place:ident))? $meaning:literal $todo:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $name { $(#[doc = $meaning] $variant),+ }

        impl From<$name> for usize {
            #[inline]
            fn from(line: $name) -> usize {
                line as usize
            }
        }

        impl $name {
            /// Number of lines.
            #[allow(dead_code, reason = "some sheets are written without a tally")]
            pub const LINES: usize = [$($name::$variant),+].len();

            /// Catalogue lines, in the order of the variants.
            pub fn catalogue() -> Vec<$crate::ledger::Info> {
                vec![$($crate::ledger::Info {
                    name: concat!($($text),+).into(),
                    unit: $crate::ledger::Unit::$unit,
                    merge: $crate::ledger::Merge::$merge,
                    hop: $hop.into(),
                    role: $crate::ledger::Role::$role $(($crate::ledger::Place::$place))?,
                    meaning: $meaning.into(),
                    todo: $todo.into(),
                }),+]
            }
        }
    };
}

/// One thread's counters. Written by its owner only, read by anyone, at any time.
#[derive(Debug)]
pub struct Sheet {
    lines: Vec<Info>,
    cells: Vec<AtomicU64>,
}

impl Sheet {
    /// All lines at 0.
    pub fn new(lines: Vec<Info>) -> Arc<Sheet> {
        let cells = lines.iter().map(|_| AtomicU64::new(0)).collect();
        Arc::new(Sheet { lines, cells })
    }

    /// Adds `n`. Owner only: a plain load and store, no locked instruction.
    #[inline]
    pub fn add(&self, line: usize, n: u64) {
        let cell = &self.cells[line];
        cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets a gauge or a total that is counted elsewhere.
    #[inline]
    pub fn set(&self, line: usize, n: u64) {
        self.cells[line].store(n, Relaxed);
    }

    /// Present value.
    pub fn get(&self, line: usize) -> u64 {
        self.cells[line].load(Relaxed)
    }

    /// Catalogue lines.
    pub fn lines(&self) -> &[Info] {
        &self.lines
    }
}

/// Counts of one batch, written to a [`Sheet`] at its end: on the hot path a count is one plain addition.
#[derive(Debug, Clone)]
pub struct Tally<const N: usize>([u64; N]);

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Tally([0; N])
    }
}

impl<const N: usize> Tally<N> {
    /// Adds `n`; wraps where something is taken back.
    #[inline]
    pub fn add(&mut self, line: impl Into<usize>, n: u64) {
        let cell = &mut self.0[line.into()];
        *cell = cell.wrapping_add(n);
    }

    /// What was counted since the last [`Tally::flush`].
    #[inline]
    pub fn get(&self, line: impl Into<usize>) -> u64 {
        self.0[line.into()]
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(line, n)| *line = line.wrapping_add(*n));
    }

    /// Adds all to the first lines of `sheet` and begins at 0.
    pub fn flush(&mut self, sheet: &Sheet) {
        for (line, n) in self.0.iter_mut().enumerate() {
            if *n != 0 {
                sheet.add(line, std::mem::take(n));
            }
        }
    }
}

/// All sheets of a process.
#[derive(Debug, Default)]
pub struct Ledger {
    sheets: Mutex<Vec<Arc<Sheet>>>,
}

impl Ledger {
    /// Adds a component's sheet; lines of the same name are merged when read.
    pub fn register(&self, sheet: Arc<Sheet>) {
        self.sheets.lock().expect("no holder panics").push(sheet);
    }

    /// Reads all counters once.
    pub fn read(&self) -> Entries {
        let mut entries: Vec<Entry> = Vec::new();
        let mut index: std::collections::HashMap<Text, usize> = Default::default();
        for sheet in self.sheets.lock().expect("no holder panics").iter() {
            for (line, info) in sheet.lines().iter().enumerate() {
                let value = sheet.get(line);
                let at = *index.entry(info.name.clone()).or_insert_with(|| {
                    entries.push(Entry { info: info.clone(), value: 0 });
                    entries.len() - 1
                });
                let e = &mut entries[at];
                e.value = match info.merge {
                    Merge::Sum | Merge::Present => e.value.wrapping_add(value),
                    Merge::Max => e.value.max(value),
                };
            }
        }
        Entries { entries }
    }
}

/// One counter with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Catalogue line.
    pub info: Info,
    /// Merged value.
    pub value: u64,
}

/// Balance of one hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopBalance {
    /// Hop.
    pub hop: Text,
    /// Its unit.
    pub unit: Unit,
    /// What came in.
    pub arrived: u64,
    /// What went on.
    pub accepted: u64,
    /// What was refused.
    pub rejected: u64,
    /// What was lost here by overload.
    pub dropped: u64,
    /// What still waits.
    pub queued: u64,
}

impl HopBalance {
    /// `|in − accepted − rejected − dropped − queued|`; 0 when every one is accounted for.
    pub fn difference(&self) -> u64 {
        // Hostile numbers may bring a loss near 2⁶⁴: sums stay at the top rather than wrap or panic.
        let parts = [self.accepted, self.rejected, self.dropped, self.queued];
        self.arrived.abs_diff(parts.into_iter().fold(0, u64::saturating_add))
    }
}

/// A value as programs of the field read it: signed, and at most 2⁶³ − 1.
pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// All counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Entries {
    entries: Vec<Entry>,
}

impl Entries {
    /// In order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Value by name, `None` if there is no such counter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|e| e.info.name == name).map(|e| e.value)
    }

    /// Replaces a value, for gauges that a reader knows better than their owner wrote last.
    pub fn set(&mut self, name: &str, value: u64) {
        if let Some(e) = self.entries.iter_mut().find(|e| e.info.name == name) {
            e.value = value;
        }
    }

    /// Sum of all counters that play `role` (places of a loss ignored).
    pub fn sum(&self, unit: Unit, role: Role) -> u64 {
        let it = self.entries.iter().filter(|e| e.info.unit == unit && e.info.role == role);
        it.fold(0, |sum, e| sum.saturating_add(e.value))
    }

    /// Balance of each hop that declares an `In` line, in order of registration.
    pub fn hops(&self) -> Vec<HopBalance> {
        let mut hops: Vec<HopBalance> = Vec::new();
        for e in self.entries.iter().filter(|e| e.info.role == Role::In) {
            let mut hop = HopBalance {
                hop: e.info.hop.clone(),
                unit: e.info.unit,
                arrived: 0,
                accepted: 0,
                rejected: 0,
                dropped: 0,
                queued: 0,
            };
            if hops.iter().any(|h| h.hop == hop.hop && h.unit == hop.unit) {
                continue;
            }
            let same = |e: &&Entry| e.info.hop == hop.hop && e.info.unit == hop.unit;
            for e in self.entries.iter().filter(same).cloned().collect::<Vec<_>>() {
                match e.info.role {
                    Role::In => hop.arrived = hop.arrived.saturating_add(e.value),
                    Role::Accepted => hop.accepted = hop.accepted.saturating_add(e.value),
                    Role::Rejected => hop.rejected = hop.rejected.saturating_add(e.value),
                    Role::Dropped(_) => hop.dropped = hop.dropped.saturating_add(e.value),
                    Role::Queued => hop.queued = hop.queued.saturating_add(e.value),
                    Role::Missing(_)
                    | Role::Duplicate
                    | Role::Reordered
                    | Role::Late
                    | Role::Restarts
                    | Role::Note => {}
                }
            }
            hops.push(hop);
        }
        hops
    }

    /// Sum of all hops' differences: 0 when everything is accounted for.
    pub fn balance(&self) -> u64 {
        self.hops().iter().map(HopBalance::difference).fold(0, u64::saturating_add)
    }

    /// Packets lost at `place`: missing by number, or dropped by us.
    pub fn lost_packets(&self, place: Place) -> u64 {
        self.sum(Unit::Packets, Role::Missing(place))
            + self.sum(Unit::Packets, Role::Dropped(place))
    }

    /// Anything lost at all, in any unit: exit code 3.
    pub fn anything_lost(&self) -> bool {
        let lost = |r: Role| matches!(r, Role::Missing(_) | Role::Dropped(_));
        self.entries.iter().any(|e| lost(e.info.role) && e.value > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// Test counters.
        enum T {
            In "t.in" Packets Sum "t" In "in" "";
            Ok "t.ok" Packets Sum "t" Accepted "ok" "";
            Bad "t.bad" Packets Sum "t" Rejected "bad" "fix it";
            Full "t.full" Packets Sum "t" Dropped(Queue) "full" "read faster";
            Gap "t.gap" Packets Sum "t" Missing(Unknown) "gap" "look";
            Depth "t.depth" Times Max "t" Note "deepest" "";
            Open "t.open" Times Present "t" Note "open now" "";
        }
    }

    #[test]
    fn present_values_are_added_up_and_can_fall() {
        let ledger = Ledger::default();
        let (a, b) = (Sheet::new(T::catalogue()), Sheet::new(T::catalogue()));
        ledger.register(a.clone());
        ledger.register(b.clone());
        a.set(T::Open as usize, 3);
        b.set(T::Open as usize, 2);
        assert_eq!(ledger.read().get("t.open"), Some(5));
        a.set(T::Open as usize, 1);
        assert_eq!(ledger.read().get("t.open"), Some(3));
        let falls = |line: T| T::catalogue()[line as usize].can_fall();
        assert_eq!([T::In, T::Depth, T::Open].map(falls), [false, true, true]);
    }

    #[test]
    fn sheets_of_threads_merge_by_sum_and_maximum_and_balance() {
        let ledger = Ledger::default();
        let (a, b) = (Sheet::new(T::catalogue()), Sheet::new(T::catalogue()));
        ledger.register(a.clone());
        ledger.register(b.clone());
        a.add(T::In as usize, 10);
        a.add(T::Ok as usize, 7);
        a.add(T::Bad as usize, 2);
        a.add(T::Full as usize, 1);
        a.add(T::Depth as usize, 5);
        b.add(T::In as usize, 3);
        b.add(T::Ok as usize, 3);
        b.add(T::Depth as usize, 4);
        let e = ledger.read();
        assert_eq!(e.get("t.in"), Some(13));
        assert_eq!(e.get("t.depth"), Some(5));
        assert_eq!(e.balance(), 0);
        assert_eq!(e.lost_packets(Place::Queue), 1);
        assert!(e.anything_lost());
        b.add(T::In as usize, 1);
        assert_eq!(ledger.read().balance(), 1, "one unaccounted packet shows");
        b.add(T::Gap as usize, 9);
        assert_eq!(ledger.read().balance(), 1, "what never came in is no part of the hop's sum");
        assert_eq!(ledger.read().lost_packets(Place::Unknown), 9);
    }
}
