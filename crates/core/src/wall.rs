//! The host's time for a detector whose clock only counts: `[time] epoch = "now"`.
//!
//! The first packet's time is set equal to the moment of its arrival, once for all workers and links of a run
//! ([`WallClock`]). From there the host's time is a function of the detector's alone, by straight lines whose
//! slopes are corrected ([`discipline`](self)): all threads get the same answer, and a recording with the
//! lines gives the same events. A line that may have been used is never changed; the next one begins after
//! it. If the difference is too large for drift, a new [`Era`] begins. Time never goes back: an era begins at
//! the last time of the one before it at the earliest. Irregularities are counted as steps. Source:
//! `docs/time.md`.

mod arrival;
mod discipline;
mod line;
mod readings;
mod rows;
mod worker;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

pub use arrival::ArrivalClock;
pub use line::{ClockLine, ClockRecord, Era, MOST_PPB, NoRecord, rate};
pub use readings::{ClockReading, EACH, Readings};
pub use worker::WorkerClock;

use discipline::Discipline;

use crate::ledger::Sheet;

crate::counters! {
    /// What was done to join the detector's clock and the host's.
    pub enum WallCount {
        Anchors "time.anchors" Times Sum "time" Note
            "times that the detector's clock was joined to the host's" "";
        Steps "time.steps" Times Sum "time" Note
            "differences between both clocks that no drift of 200 ppm makes: more than 50 ms, or more than 1 ms that grow for 5 s against the largest correction"
            "the host's clock was set (chronyc tracking, timedatectl), the readout system began anew, or senders have clocks of \
             their own: times are right from there on, and never go back";
        Corrections "time.corrections" Times Sum "time" Note
            "changes of the rate between both clocks" "";
        Ahead "time.ahead" Times Max "time" Note
            "1 while times are ahead of the host's clock, which was set back"
            "times go 200 ppm slower until the host's clock has come up to them; what is compared with the host's clock is \
             off by that much";
    }
}

/// A larger difference than this is not drift, ns: 50 ms. At 200 ppm they are 250 s of drift, and a shorter
/// pause of a sender starts no new era.
pub const STEP_NS: i64 = 50_000_000;
/// A difference above this that grows against the largest correction is more than 200 ppm, ns.
const BEYOND_NS: i64 = 1_000_000;
/// For so many corrections, of one second each.
const BEYOND: u32 = 5;
/// A new stream that is later than this has a separate clock, ns: 0.5 s. A sender that paused for less has
/// not.
const ANEW_NS: i64 = 500_000_000;
/// An era's first packet may have been late: for this time, ns, packets with less delay correct it.
const ACQUIRE_NS: i64 = 5_000_000_000;
/// By how much they must know better, ns: less is left to the loop.
const BETTER_NS: i64 = 300_000;
/// The rate at which times wait for the host's clock then: half as fast.
const HALF: i32 = i32::MIN;
/// Lines are fixed this far ahead of requested times, ns: a worker asks ten times a second.
const AHEAD_NS: i64 = 100_000_000;
/// Time between two corrections, ns.
const CORRECT_NS: i64 = 1_000_000_000;
/// A rate that differs by less is kept, ppb: noise of 10 µs would write a line each second, and 0.5 µs in a second are found soon enough.
const KEEP_PPB: i64 = 500;
/// Eras that are remembered: this many different clocks of senders. More come only from a sender without a
/// stable clock.
const MOST_ERAS: usize = 64;
/// Lines of one era that are remembered: an hour of one each second. What waits in a builder is seconds old.
const MOST_LINES: usize = 1 << 12;
/// Records that are kept for those who write them down, which takes them a second at most.
const MOST_RECORDS: usize = 1 << 16;
/// Anchors that a recording may have: a run with a new anchor every second for an hour.
const MOST_ANCHORS: usize = 1 << 12;

/// What is known of both clocks now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WallStatus {
    /// Where the last era began: ns of the detector's clock, and of the host's.
    pub anchor: Option<(i64, i64)>,
    /// How much faster the host's clock goes, ppb.
    pub drift_ppb: i64,
    /// Host less line, ns, at the last correction.
    pub error_ns: i64,
    /// Differences that no drift makes.
    pub steps: u64,
    /// The last of them, ns: by how much the host's clock or the detector's jumped relative to the other.
    pub last_step_ns: i64,
    /// True while times are ahead of the host's clock, as they never go back.
    pub ahead: bool,
}

/// What is odd about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    /// It came before its time; `back`: and before those before it, so it is the host's clock that was set.
    Early {
        /// See there.
        back: bool,
    },
    /// For a second, all came long after their time.
    Late,
    /// It has a separate clock, or one that restarted.
    Other,
}

/// Joins both clocks for all workers of a run.
#[derive(Debug)]
pub struct WallClock {
    state: Mutex<State>,
    /// Changes with eras and lines.
    version: AtomicU64,
    /// Detector times of the last era below this are settled.
    settled: AtomicI64,
    /// Latest reading of the last era.
    newest: AtomicI64,
    /// How far its packets may come before their time, ns, as times are ahead of the host's clock.
    allowed: AtomicI64,
    /// Nothing has got its time from the last era yet: its anchor may still move.
    unused: AtomicBool,
    live: bool,
    /// The time of a readout is that of its packet's arrival.
    received: bool,
    sheet: Arc<Sheet>,
}

/// Options are compared: two clocks are the same only if they are one.
impl PartialEq for WallClock {
    fn eq(&self, other: &WallClock) -> bool {
        std::ptr::eq(self, other)
    }
}

#[derive(Debug, Default)]
struct State {
    eras: Vec<Era>,
    /// What was written down, the first `forgotten` left out.
    records: Vec<ClockRecord>,
    forgotten: usize,
    discipline: Discipline,
    /// Host's time of the last correction, and the least difference that any worker saw since.
    corrected: i64,
    least: Option<i64>,
    steps: u64,
    last_step_ns: i64,
    ahead: bool,
    /// Corrections at the limit in a row, and the difference at the first of them, ns.
    limited: Option<(u32, i64)>,
    /// Last time of the era before the last one.
    floor: i64,
    /// Last time of an earlier run.
    first: Option<i64>,
}

impl State {
    /// True once the largest correction has not been enough for a while: the clocks differ by more than 200 ppm.
    fn is_beyond(&mut self, ppb: i64, error_ns: i64) -> bool {
        let error = error_ns.saturating_abs();
        if ppb.abs() < MOST_PPB || error <= BEYOND_NS {
            self.limited = None;
            return false;
        }
        let (corrections, first) = self.limited.get_or_insert((0, error));
        *corrections += 1;
        let (long, grows) = (*corrections == BEYOND, error >= *first);
        if long && !grows {
            self.limited = None;
        }
        long && grows
    }
}

impl WallClock {
    /// Of a live run.
    pub fn live() -> WallClock {
        WallClock::new(true, State::default())
    }

    /// Of a live run whose decoder takes the arrival of packets for their time.
    pub fn of_arrivals(live: bool) -> WallClock {
        let records = vec![ClockRecord::Received];
        WallClock { received: true, ..WallClock::new(live, State { records, ..State::default() }) }
    }

    /// Of a recording, from the records that it contains; `None` if it has none, if a line has no anchor
    /// before it, or if there are more than 4096 anchors.
    pub fn recorded(records: &[ClockRecord]) -> Option<WallClock> {
        let mut state = State::default();
        for record in records {
            match *record {
                ClockRecord::Received => return Some(WallClock::of_arrivals(false)),
                ClockRecord::Era { received, anchor } => {
                    state.eras.push(Era::new(received, anchor))
                }
                ClockRecord::Line(line) => state.eras.last_mut()?.lines.push(line),
            }
        }
        if state.eras.len() > MOST_ANCHORS {
            return None;
        }
        state.eras.iter_mut().for_each(|era| era.lines.sort_by_key(|line| line.from));
        state.records = records.to_vec();
        (!state.eras.is_empty()).then(|| WallClock::new(false, state))
    }

    fn new(live: bool, state: State) -> WallClock {
        let settled = AtomicI64::new(if live { i64::MIN } else { i64::MAX });
        let (version, newest) = (AtomicU64::new(1), AtomicI64::new(i64::MIN));
        let (state, sheet) = (Mutex::new(state), Sheet::new(WallCount::catalogue()));
        let (allowed, unused) = (AtomicI64::new(0), AtomicBool::new(false));
        WallClock { state, version, settled, newest, allowed, unused, live, received: false, sheet }
    }

    /// True if readouts have the time of their packets' arrival, as the decoder sees to.
    pub fn is_received(&self) -> bool {
        self.received
    }

    /// True if this run makes the lines, and none were recorded.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Its counters.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// What has been written down since there were `known` records, and how many there are now. Only the last 65,536 are kept.
    pub fn records_from(&self, known: usize) -> (Vec<ClockRecord>, usize) {
        let state = self.state();
        let from = known.saturating_sub(state.forgotten);
        let records = state.records.get(from..).unwrap_or_default().to_vec();
        (records, state.forgotten + state.records.len())
    }

    /// The last anchor, with the lines that count now: enough for what is received now.
    pub fn current(&self) -> Vec<ClockRecord> {
        self.now(1)
    }

    /// The same of all clocks of the run, as far as anything got its time from them.
    pub fn all_current(&self) -> Vec<ClockRecord> {
        self.now(MOST_ERAS)
    }

    fn now(&self, eras: usize) -> Vec<ClockRecord> {
        let state = self.state();
        if self.received {
            return vec![ClockRecord::Received];
        }
        let used = state.eras.len() - usize::from(self.unused.load(Relaxed)).min(state.eras.len());
        let mut all = Vec::new();
        for era in &state.eras[used.saturating_sub(eras)..used] {
            all.push(ClockRecord::Era { received: era.received, anchor: era.anchor });
            let lines = &era.lines[era.lines.len().saturating_sub(2)..];
            let later = lines.iter().filter(|line| **line != era.anchor);
            all.extend(later.map(|line| ClockRecord::Line(*line)));
        }
        all
    }

    /// A number that changes with what [`WallClock::current`] and [`WallClock::records_from`] say.
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// This moment.
    pub fn status(&self) -> WallStatus {
        let state = self.state();
        let anchor = state.eras.last().map(|era| (era.anchor.from, era.anchor.wall));
        WallStatus {
            anchor,
            drift_ppb: state.discipline.drift_ppb,
            error_ns: state.discipline.error_ns,
            steps: state.steps,
            last_step_ns: state.last_step_ns,
            ahead: state.ahead,
        }
    }

    /// No time of this clock is before `ns`, which an earlier run has given. To be said before any packet comes.
    pub fn not_before(&self, ns: i64) {
        self.state().first = Some(ns);
    }

    /// The latest time that was given, ns since 1970.
    pub fn given(&self) -> Option<i64> {
        let state = self.state();
        let settled = self.settled.load(Relaxed);
        let era = state.eras.last()?;
        // Lines are fixed a little ahead of what was asked for, and a packet's events may be behind its reading.
        let newest = self.newest.load(Relaxed).saturating_add(AHEAD_NS).min(settled);
        let last = (settled != i64::MIN).then(|| era.at(newest));
        last.max(Some(state.floor).filter(|floor| *floor != i64::MIN))
    }

    /// The first packet of all.
    fn anchor(&self, first: ClockReading) {
        let mut state = self.state();
        if state.eras.is_empty() {
            let floor = state.first.unwrap_or(i64::MIN);
            self.begin(&mut state, first, first.received_ns.max(floor), floor);
        }
    }

    /// `floor`: the era's times are not before it.
    fn begin(&self, state: &mut State, at: ClockReading, wall: i64, floor: i64) {
        let anchor =
            ClockLine { from: at.detector_ns, wall, rate: rate(state.discipline.drift_ppb) };
        if state.eras.len() >= MOST_ERAS {
            state.eras.remove(0);
        }
        state.eras.push(Era::new(at.received_ns, anchor));
        state.floor = floor;
        self.unused.store(true, Relaxed);
        (state.corrected, state.least, state.limited) = (at.received_ns, None, None);
        // It may begin ahead of the host's clock, where that was the only way not to go back.
        self.allowed.store(wall.saturating_sub(at.received_ns).max(0), Relaxed);
        state.ahead = wall.saturating_sub(at.received_ns) > STEP_NS;
        self.newest.store(at.detector_ns, Relaxed);
        // Its first user reports it.
        self.settled.store(i64::MIN, Release);
        self.version.fetch_add(1, Release);
        self.sheet.add(WallCount::Anchors as usize, 1);
        self.sheet.set(WallCount::Ahead as usize, state.ahead.into());
    }

    /// A packet that no era explains: its clock, or the host's, was set. `known` is the version for which that was found.
    fn step(&self, at: ClockReading, odd: Odd, known: u64) {
        let mut state = self.state();
        if self.version.load(Relaxed) != known {
            // Another worker found it, or something else has changed: checked again with the next batch.
            return;
        }
        let Some(era) = state.eras.last() else { return };
        let (was, newest) = (era.last().at(at.detector_ns), self.newest.load(Relaxed));
        let top = era.at(newest);
        if self.unused.load(Relaxed) && matches!(odd, Odd::Late | Odd::Early { .. }) {
            let difference = at.received_ns.saturating_sub(era.at(at.detector_ns));
            return self.move_anchor(&mut state, difference);
        }
        // The detector's clock continues unchanged, and so do its lines.
        let (least, most) = (newest.saturating_sub(STEP_NS), newest.saturating_add(STEP_NS));
        let goes_on = match odd {
            // The newest that was not late may be some time ago.
            Odd::Late => at.detector_ns >= least,
            _ => (era.anchor.from..=most).contains(&at.detector_ns),
        };
        let step = at.received_ns.saturating_sub(was);
        state.last_step_ns = step;
        state.steps += 1;
        self.sheet.set(WallCount::Steps as usize, state.steps);
        match odd {
            Odd::Late if goes_on => self.jump(&mut state, step),
            Odd::Early { back } if back || goes_on => {
                self.allowed.store(step.saturating_neg(), Relaxed);
                state.ahead = true;
                self.sheet.set(WallCount::Ahead as usize, 1);
                self.version.fetch_add(1, Release);
            }
            // Not before times that were already given.
            _ => self.begin(&mut state, at, at.received_ns.max(top), top),
        }
    }

    /// The host's clock was set forward: times that are not fixed yet become later.
    fn jump(&self, state: &mut State, by: i64) {
        let Some(last) = state.eras.last().map(Era::last) else { return };
        let from = self.settled.load(Relaxed).max(last.from + 1);
        self.push(
            state,
            ClockLine { from, wall: last.at(from).saturating_add(by), rate: last.rate },
        );
    }

    /// A packet in an era's beginning came sooner after its time than the first one: that one was late. Times go half as fast until
    /// the host has come up to them.
    fn acquire(&self, at: ClockReading, known: u64) {
        let mut state = self.state();
        if self.version.load(Relaxed) != known {
            return;
        }
        let Some(last) = state.eras.last().map(Era::last) else { return };
        let ahead = last.at(at.detector_ns).saturating_sub(at.received_ns);
        if self.unused.load(Relaxed) {
            return self.move_anchor(&mut state, ahead.saturating_neg());
        }
        let from = self.settled.load(Relaxed).max(last.from + 1);
        let slow = ClockLine { from, wall: last.at(from), rate: HALF };
        let upto = from.saturating_add(ahead.saturating_mul(2));
        self.push(&mut state, slow);
        self.push(&mut state, ClockLine { from: upto, wall: slow.at(upto), rate: last.rate });
    }

    /// Nothing has got its time from the last era yet: it may as well be right.
    fn move_anchor(&self, state: &mut State, by: i64) {
        let floor = state.floor;
        let Some(era) = state.eras.last_mut() else { return };
        era.anchor.wall = era.anchor.wall.saturating_add(by).max(floor);
        era.lines = vec![era.anchor];
        self.version.fetch_add(1, Release);
    }

    /// The last era's clock is silent, and another one is active: that one becomes the last era, so that it
    /// is corrected.
    fn resume(&self, at: ClockReading, number: usize, known: u64) {
        let mut state = self.state();
        if self.version.load(Relaxed) != known {
            return;
        }
        let Some(era) = state.eras.get(number) else { return };
        let (wall, rate) = (era.at(at.detector_ns), era.last().rate);
        let (corrected, least) = (state.corrected, state.least);
        self.begin(&mut state, at, wall, wall);
        (state.corrected, state.least) = (corrected, least);
        if let Some(era) = state.eras.last_mut() {
            era.anchor.rate = rate;
            era.lines = vec![era.anchor];
        }
        self.allowed.store(0, Relaxed);
        // Its times are in use.
        self.unused.store(false, Relaxed);
        self.settled.store(at.detector_ns, Release);
        if let Some(era) = state.eras.last() {
            let record = ClockRecord::Era { received: era.received, anchor: era.anchor };
            state.write_down(record);
        }
    }

    /// A worker saw this least difference, host less line, in the last second; `now` is its newest reading.
    fn saw(&self, least: i64, now: ClockReading, known: u64) {
        let mut state = self.state();
        if self.version.load(Relaxed) != known && least.abs() > STEP_NS {
            // Of an era that is over.
            return;
        }
        let least = state.least.map_or(least, |known| known.min(least));
        let span = now.received_ns.saturating_sub(state.corrected);
        if span < CORRECT_NS {
            state.least = Some(least);
            return;
        }
        (state.least, state.corrected) = (None, now.received_ns);
        if self.unused.load(Relaxed) {
            return self.move_anchor(&mut state, least);
        }
        if least > STEP_NS {
            drop(state);
            self.step(now, Odd::Late, known);
            return;
        }
        if least >= -STEP_NS {
            self.allowed.store(0, Relaxed);
        }
        state.ahead = least < -STEP_NS;
        self.sheet.set(WallCount::Ahead as usize, state.ahead.into());
        let ppb = match state.ahead {
            // Until the host's clock has come up to it; that is no drift.
            true => {
                state.discipline.error_ns = least;
                -MOST_PPB
            }
            false => state.discipline.correct(least, span),
        };
        if !state.ahead && state.is_beyond(ppb, least) {
            if least > 0 {
                state.limited = None;
                drop(state);
                return self.step(now, Odd::Late, known);
            }
            // Times must not go back: said, and once only.
            state.last_step_ns = least;
            state.steps += 1;
            self.sheet.set(WallCount::Steps as usize, state.steps);
        }
        self.go_on(&mut state, rate(ppb));
    }

    /// The last era continues at this rate, after the fixed part.
    fn go_on(&self, state: &mut State, rate: i32) {
        let Some(era) = state.eras.last_mut() else { return };
        let last = era.last();
        if i64::from(last.rate.abs_diff(rate)) * 1_000_000_000 < KEEP_PPB << 32 {
            return;
        }
        let from = self.settled.load(Relaxed).max(last.from + 1);
        let line = ClockLine { from, wall: last.at(from), rate };
        self.push(state, line);
    }

    /// One line more of the last era.
    fn push(&self, state: &mut State, line: ClockLine) {
        let Some(era) = state.eras.last_mut() else { return };
        if era.lines.len() >= MOST_LINES {
            era.lines.drain(..MOST_LINES / 2);
        }
        era.lines.push(line);
        self.sheet.add(WallCount::Corrections as usize, 1);
        state.write_down(ClockRecord::Line(line));
        self.version.fetch_add(1, Release);
    }

    /// Fixes the last era up to `detector_ns` and a little after it.
    fn settle(&self, detector_ns: i64) {
        let mut state = self.state();
        if self.unused.swap(false, Relaxed)
            && let Some(era) = state.eras.last()
        {
            let record = ClockRecord::Era { received: era.received, anchor: era.anchor };
            state.write_down(record);
            self.version.fetch_add(1, Release);
        }
        self.settled.fetch_max(detector_ns.saturating_add(AHEAD_NS), Release);
    }
}

impl State {
    fn write_down(&mut self, record: ClockRecord) {
        if self.records.len() >= MOST_RECORDS {
            self.records.drain(..MOST_RECORDS / 2);
            self.forgotten += MOST_RECORDS / 2;
        }
        self.records.push(record);
    }
}

#[cfg(test)]
#[path = "wall/wall_tests.rs"]
mod tests;
