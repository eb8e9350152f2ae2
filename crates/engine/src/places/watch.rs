//! The thread that reads the host's counters beside a run, and the amounts from its ledger.
//!
//! Off the hot path: once an interval it reads the ledger, then the host (the order matters: a gap that
//! is seen was counted before), and hands both to the [`Attribution`]. What a reading costs is counted
//! (`host.probe_ns`). Refuses: nothing; where a host tells nothing, nothing is attributed.
//! Source: `docs/losses.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullcount_core::ledger::{Entries, Ledger, Place, Sheet};
use fullcount_io::host::Host;
use fullcount_io::host::probe::Reading;

use super::moved::{self, Movements, Own, Scope};
use super::{Attribution, Gaps, Shares, Witness};
use crate::account::Account;

/// Longest look back, in intervals: fragments may wait for a minute, read ten times a second.
const HORIZON: usize = 1024;

/// A drop explains gaps that are seen within this time of reading on: the gap waits behind what is in the
/// socket. 64 MiB, the default, last 54 ms at 10 Gb/s and 540 ms at 1 Gb/s.
const STANDS: Duration = Duration::from_secs(2);

/// Everything that is known about the places of this run's losses.
struct State {
    movements: Movements,
    drops: u64,
    attribution: Attribution,
    /// What moved, by counter and by interface, queue or core.
    told: BTreeMap<(usize, Option<String>), u64>,
}

/// Readings of the host beside a run.
pub struct PlaceWatch {
    host: Host,
    ledger: Arc<Ledger>,
    sheet: Arc<Sheet>,
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
        let seconds = host.fragment_time_s().unwrap_or(30).max(1) as f64;
        let waits = (seconds / interval.as_secs_f64().max(1e-3)).ceil() + 2.0;
        let scope = Scope {
            interfaces: locals
                .iter()
                .map(|local| local.and_then(|ip| host.receiving(ip, cards)))
                .try_fold(BTreeSet::new(), |all, some| Some(&all | &some?)),
            fragments_wait: (waits as usize).clamp(2, HORIZON),
        };
        let sheet = Sheet::new(Witness::catalogue());
        ledger.register(sheet.clone());
        let stands = (STANDS.as_secs_f64() / interval.as_secs_f64().max(1e-3)).ceil() as usize;
        let attribution = Attribution::new(scope.fragments_wait, stands);
        let told = BTreeMap::new();
        let movements = Movements::new(scope, before);
        let state = Mutex::new(State { movements, drops: 0, attribution, told });
        PlaceWatch { host, ledger, sheet, state }
    }

    /// Looks once: what went missing since the last look, and what moved.
    pub fn look(&self) {
        self.look_now(false);
    }

    fn look_now(&self, last: bool) {
        let mut state = self.state.lock().expect("no holder panics");
        let state = &mut *state;
        let gaps = gaps(&self.ledger.read());
        let begun = Instant::now();
        // The sockets' own drops after the gaps, the host's counters after both.
        let entries = self.ledger.read();
        let get = |name| entries.get(name).unwrap_or(0);
        let drops = get("receive.kernel_drops");
        let after = Reading::of(&self.host);
        let own = Own {
            drops: drops.saturating_sub(state.drops),
            fragments: moved::may_be_fragments(get("receive.largest")),
            last,
        };
        let told = state.movements.step(own, after);
        let all: Vec<_> = told.iter().map(|t| t.moved).collect();
        state.attribution.step(gaps, &all);
        for t in told {
            self.sheet.add(t.moved.by as usize, t.moved.times);
            *state.told.entry((t.moved.by as usize, t.of)).or_default() += t.moved.times;
        }
        state.drops = drops;
        self.sheet.add(Witness::Probes as usize, 1);
        self.sheet.add(Witness::ProbeNs as usize, begun.elapsed().as_nanos() as u64);
    }

    /// All missing packets by place, if they are `total` without those of our own queue.
    pub fn shares(&self, total: u64) -> Shares {
        self.state.lock().expect("no holder panics").attribution.shares(total)
    }

    /// What moved at `place` since the start: counter, how often, and on which interface, queue or core.
    pub fn witnesses(&self, place: Place) -> Vec<Testimony> {
        let state = self.state.lock().expect("no holder panics");
        let lines = self.sheet.lines();
        let naming = Witness::NAMING.into_iter().filter(|w| w.place() == Some(place));
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

/// The amounts of this moment.
fn gaps(entries: &Entries) -> Gaps {
    let get = |name| entries.get(name).unwrap_or(0);
    let (lost, queue) = Account::numbered_gaps(entries);
    Gaps {
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
