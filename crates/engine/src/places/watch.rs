//! The thread that reads the host's counters beside a run, and the amounts from its ledger.
//!
//! Off the hot path: once an interval it reads the ledger, then the host (the order matters: a gap that
//! is seen was counted before), and hands both to the [`Attribution`]. What a reading costs is counted
//! (`host.probe_ns`). Where a host tells nothing, nothing is attributed.
//! Source: `docs/losses.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::ledger::{Entries, Ledger, Place, Sheet, Unit};
use fullcount_io::host::Host;
use fullcount_io::host::card::Card;
use fullcount_io::host::probe::Reading;

use super::drivers::Drivers;
use super::moved::{self, Frames, Movements, Own, Scope, Told};
use super::{Attribution, GapCounts, HostWitness, Moved, Shares};
use crate::account::{Account, NumberedLoss};
use crate::registered;

/// Longest look back, in intervals: fragments may wait for a minute, read ten times a second.
const HORIZON: usize = 1024;

/// A drop explains gaps that are seen within this time of reading on: the gap waits behind what is in the
/// socket. 64 MiB, the default, last 54 ms at 10 Gb/s and 540 ms at 1 Gb/s.
const STANDS: Duration = Duration::from_secs(2);

/// How much later than `ipfrag_time` the kernel may give fragments up: its timers are coarse (1/8 of the
/// time at most), and a virtual core that its host has stopped runs none at all meanwhile.
const FRAGMENTS_LATE: Duration = Duration::from_secs(2);

/// Everything that is known about the places of this run's losses.
struct State {
    movements: Movements,
    drops: u64,
    frames: Frames,
    attribution: Attribution,
    /// The same for what is numbered instead of packets, in the order of [`Unit::NUMBERED`].
    numbered: [Attribution; Unit::NUMBERED.len()],
    /// Packets that our own full queue has dropped.
    queue: u64,
    /// What moved, by counter and by interface, queue or core.
    told: BTreeMap<(usize, Option<String>), u64>,
}

/// Readings of the host beside a run.
pub struct PlaceWatch {
    host: Host,
    ledger: Arc<Ledger>,
    sheet: Arc<Sheet>,
    scope: Scope,
    drivers: Drivers,
    state: Mutex<State>,
}

impl std::fmt::Debug for PlaceWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlaceWatch").finish_non_exhaustive()
    }
}

impl PlaceWatch {
    /// Begins with the reading `before` (taken before the sockets were opened). `locals`: address of each
    /// socket, `None` where it may be any. `interval`: time between two calls of [`PlaceWatch::look`].
    pub fn new(
        before: Reading,
        locals: &[Option<IpAddr>],
        ledger: Arc<Ledger>,
        interval: Duration,
    ) -> PlaceWatch {
        let host = Host::default();
        let cards = before.cards.as_deref().unwrap_or(&[]);
        let fragments = Duration::from_secs(host.fragment_time_s().unwrap_or(30));
        let scope = Scope {
            interfaces: locals
                .iter()
                .map(|local| local.and_then(|ip| host.receiving(ip, cards)))
                .try_fold(BTreeSet::new(), |all, some| Some(&all | &some?)),
            fragments_wait: fragments_wait(fragments, interval),
        };
        let sheet = Sheet::new(HostWitness::catalogue());
        ledger.register(sheet.clone());
        let stands = (STANDS.as_secs_f64() / interval.as_secs_f64().max(1e-3)).ceil() as usize;
        let attribution = Attribution::new(scope.fragments_wait, stands);
        let told = BTreeMap::new();
        let drivers = Drivers::of(&host, &scope, cards);
        let movements = Movements::new(scope.clone(), before);
        let state = Mutex::new(State {
            movements,
            drops: 0,
            frames: Frames::default(),
            numbered: Unit::NUMBERED.map(|_| attribution.clone()),
            attribution,
            queue: 0,
            told,
        });
        PlaceWatch { host, ledger, sheet, scope, drivers, state }
    }

    /// Looks once: what went missing since the last look, and what moved.
    pub fn look(&self) {
        self.look_now(false);
    }

    fn look_now(&self, last: bool) {
        let mut state = self.state.lock().expect("no holder panics");
        let state = &mut *state;
        let first = self.ledger.read();
        let gaps = gaps(&first);
        let begun = Instant::now();
        // The sockets' own drops after the gaps, the host's counters after both.
        let entries = self.ledger.read();
        let get = |name| entries.get(name).unwrap_or(0);
        let drops = get("receive.kernel_drops");
        let after = Reading::of(&self.host);
        let frames = frames(&entries);
        let own = Own {
            frames: frames.map(|now| now.since(&state.frames)),
            drops: drops.saturating_sub(state.drops),
            fragments: moved::may_be_fragments(get("receive.largest")),
            last,
        };
        let now = last.then(|| self.drivers(after.cards.as_deref().unwrap_or(&[])));
        let mut told = state.movements.step(own, after);
        for driver in now.into_iter().flatten() {
            driver.beside(&mut told, &mut state.told);
        }
        let all: Vec<_> = told.iter().map(|t| t.moved).collect();
        state.attribution.step(gaps, &all);
        let dropped = gaps.queue.saturating_sub(state.queue);
        state.queue = gaps.queue;
        for (attribution, unit) in state.numbered.iter_mut().zip(Unit::NUMBERED) {
            let series = NumberedLoss::of(&first, unit).unwrap_or_default();
            let missing = series.lost_total().saturating_add(series.missing);
            let gaps = GapCounts { missing, queue: 0, received: gaps.received };
            attribution.step_numbered(gaps, &all, series.most_in_packet, dropped);
        }
        for t in told {
            self.sheet.add(t.moved.by as usize, t.moved.times);
            *state.told.entry((t.moved.by as usize, t.of)).or_default() += t.moved.times;
        }
        state.drops = drops;
        state.frames = frames.unwrap_or_default();
        self.sheet.add(HostWitness::Probes as usize, 1);
        self.sheet.add(HostWitness::ProbeNs as usize, begun.elapsed().as_nanos() as u64);
    }

    /// What drivers counted since the start.
    fn drivers(&self, cards: &[Card]) -> Vec<ByDriver> {
        let moved = Drivers::of(&self.host, &self.scope, cards).since(&self.drivers);
        let one = |(interface, times, names)| ByDriver { interface, times, names };
        moved.into_iter().map(one).collect()
    }

    /// All missing packets by place, if they are `total` without those of our own queue.
    pub fn shares(&self, total: u64) -> Shares {
        self.state.lock().expect("no holder panics").attribution.shares(total)
    }

    /// The same for what is numbered instead of packets.
    pub fn numbered_shares(&self, unit: Unit, total: u64) -> Shares {
        let at = Unit::NUMBERED.iter().position(|&u| u == unit).unwrap_or(0);
        self.state.lock().expect("no holder panics").numbered[at].shares(total)
    }

    /// What moved at `place` since the start: counter, how often, and on which interface, queue or core.
    pub fn witnesses(&self, place: Place) -> Vec<Testimony> {
        let state = self.state.lock().expect("no holder panics");
        let lines = self.sheet.lines();
        let naming = HostWitness::NAMING.into_iter().filter(|w| w.place() == Some(place));
        let mut all = Vec::new();
        for by in naming {
            let info = &lines[by as usize];
            let of: Vec<String> = state
                .told
                .iter()
                .filter(|((line, _), _)| *line == by as usize)
                .filter_map(|((_, of), _)| of.clone())
                .collect();
            let times = self.sheet.get(by as usize);
            if times > 0 {
                let (name, todo) = (info.name.to_string(), info.todo.to_string());
                all.push(Testimony { name, times, of, todo });
            }
        }
        all
    }
}

/// How many intervals back a fragment may have come that the kernel gives up now, after `time`.
fn fragments_wait(time: Duration, interval: Duration) -> usize {
    let latest = time + time / 8 + FRAGMENTS_LATE;
    let intervals = latest.as_nanos().div_ceil(interval.max(Duration::from_millis(1)).as_nanos());
    // One more, as it came inside of one and is given up inside of another.
    usize::try_from(intervals + 1).unwrap_or(HORIZON).clamp(2, HORIZON)
}

/// What a driver counted on one interface over the whole run.
struct ByDriver {
    interface: String,
    times: u64,
    names: String,
}

impl ByDriver {
    /// A movement of its own where nothing else tells the same drops. Where the interface's standard
    /// counters do, the driver's names are put beside them: they say why.
    fn beside(self, now: &mut Vec<Told>, before: &mut BTreeMap<(usize, Option<String>), u64>) {
        let plain = Some(self.interface.clone());
        let of = Some(format!("{} ({})", self.interface, self.names));
        for by in [HostWitness::CardDropped, HostWitness::Missed, HostWitness::Damaged] {
            let told = before.remove(&(by as usize, plain.clone()));
            if let Some(n) = told {
                before.insert((by as usize, of.clone()), n);
            }
            let again = now.iter_mut().find(|t| t.moved.by == by && t.of == plain);
            if told.is_some() || again.is_some() {
                again.into_iter().for_each(|t| t.of.clone_from(&of));
                return;
            }
        }
        // Frames without packet memory, and those of a full backlog, are drops of the interface as well.
        let elsewhere = |by: usize| {
            by == HostWitness::FrameMemory as usize || by == HostWitness::Backlog as usize
        };
        let told = before.iter().filter(|((by, _), _)| elsewhere(*by)).map(|(_, n)| *n);
        let new = now.iter().filter(|t| elsewhere(t.moved.by as usize)).map(|t| t.moved.times);
        let times = self.times.saturating_sub(told.chain(new).sum());
        if times > 0 {
            // Nobody looked in between: it may have been at any time of the run.
            let moved = Moved { by: HostWitness::Driver, times, back: HORIZON };
            now.push(Told { moved, of });
        }
    }
}

/// One counter that names a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Testimony {
    /// Name in the catalogue.
    pub name: String,
    /// How often it counted in this run.
    pub times: u64,
    /// Interfaces, queues or cores that it counted on, if it tells.
    pub of: Vec<String>,
    /// What to do about it.
    pub todo: String,
}

/// What a receiver of frames has counted so far; `None`: this run has none.
fn frames(entries: &Entries) -> Option<Frames> {
    let mut all: Option<Frames> = None;
    for counters in registered::sources().kinds().filter_map(|kind| kind.frames()) {
        if !counters.damaged.iter().any(|name| entries.get(name).is_some()) {
            continue;
        }
        let sum = |names: &[&str]| names.iter().filter_map(|n| entries.get(n)).sum::<u64>();
        let frames = all.get_or_insert_default();
        frames.damaged += sum(counters.damaged);
        frames.uncut += sum(counters.uncut);
        frames.fragments += sum(counters.fragments);
    }
    all
}

/// The amounts of this moment.
fn gaps(entries: &Entries) -> GapCounts {
    let get = |name| entries.get(name).unwrap_or(0);
    let (lost, queue) = Account::numbered_gaps(entries);
    GapCounts {
        missing: lost.saturating_add(get("packets.missing")),
        queue,
        received: get("receive.packets"),
    }
}

/// The thread; ends with [`Watcher::end`] or when dropped.
#[derive(Debug)]
pub struct Watcher {
    watch: Arc<PlaceWatch>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Looks every `interval` from now on.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(watch: Arc<PlaceWatch>, interval: Duration) -> std::io::Result<Watcher> {
        let (stop, stopped) = mpsc::channel::<()>();
        let looks = watch.clone();
        let body = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                looks.look();
            }
        };
        let thread = Some(std::thread::Builder::new().name("places".into()).spawn(body)?);
        Ok(Watcher { watch, stop: Some(stop), thread })
    }

    /// What it found so far.
    pub fn watch(&self) -> &Arc<PlaceWatch> {
        &self.watch
    }

    /// The run has ended and everything is decided: looks for the last time.
    pub fn end(&mut self) {
        self.join();
        self.watch.look_now(true);
    }

    fn join(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was printed; what it found until then holds.
            let _ = thread.join();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(times: u64) -> ByDriver {
        ByDriver { interface: "eth0".into(), times, names: format!("rx_out_of_buffer {times}") }
    }

    fn told(by: HostWitness, times: u64, of: Option<&str>) -> Told {
        Told { moved: Moved { by, times, back: 1 }, of: of.map(str::to_owned) }
    }

    #[test]
    fn fragments_may_be_given_up_late() {
        let s = Duration::from_secs;
        assert_eq!(fragments_wait(s(1), s(1) / 10), 33);
        assert_eq!(fragments_wait(s(30), s(1)), 37);
        assert_eq!(fragments_wait(s(30), s(60)), 2);
        assert_eq!(fragments_wait(s(3600), s(1)), HORIZON);
        assert_eq!(fragments_wait(s(1), Duration::ZERO), HORIZON);
    }

    #[test]
    fn a_driver_names_the_place_only_where_nothing_else_does() {
        let names = "eth0 (rx_out_of_buffer 12)";
        let named = Some(names);
        // Alone: a movement of its own, over the whole run.
        let (mut now, mut before) = (vec![], BTreeMap::new());
        driver(12).beside(&mut now, &mut before);
        let whole = Moved { by: HostWitness::Driver, times: 12, back: HORIZON };
        assert_eq!(now, [Told { moved: whole, of: named.map(str::to_owned) }]);
        // Beside a standard counter, of this look or an earlier one: its reason.
        let mut now = vec![told(HostWitness::Missed, 7, Some("eth0"))];
        driver(12).beside(&mut now, &mut before);
        assert_eq!(now, [told(HostWitness::Missed, 7, named)]);
        let key = |of: &str| (HostWitness::CardDropped as usize, Some(of.to_owned()));
        let (mut now, mut before) = (vec![], BTreeMap::from([(key("eth0"), 3), (key("eth1"), 4)]));
        driver(12).beside(&mut now, &mut before);
        assert_eq!(before, BTreeMap::from([(key(names), 3), (key("eth1"), 4)]));
        assert_eq!(now, []);
        // The same drops, told as packet memory before and now.
        let mut before = BTreeMap::from([((HostWitness::FrameMemory as usize, None), 10)]);
        let mut now = vec![told(HostWitness::FrameMemory, 2, None)];
        driver(12).beside(&mut now, &mut before);
        assert_eq!(now, [told(HostWitness::FrameMemory, 2, None)]);
        driver(15).beside(&mut now, &mut before);
        assert_eq!((now[1].moved.by, now[1].moved.times), (HostWitness::Driver, 3));
    }
}
