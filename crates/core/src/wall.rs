//! The host's time for a detector whose clock only counts: `[time] epoch = "now"`.
//!
//! The first packet's time is joined to the moment of its arrival, once for all workers and links of a run ([`WallClock`]). From there
//! the host's time follows from the detector's alone, by straight lines whose slopes are corrected ([`discipline`](self)): who asks
//! twice gets the same answer, whatever thread asks, and a recording with the lines gives the same events. A line that somebody may
//! have used is never changed; the next one begins behind it. Where the difference is one that no drift makes, a new [`Era`] begins.
//! Time never goes back: an era begins at the last time of the one before it at the earliest. Refuses: nothing; what is odd is
//! counted as a step. Source: `docs/time.md`.

mod arrival;
mod discipline;
mod line;
mod readings;
mod worker;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

pub use arrival::ArrivalClock;
pub use line::{Era, Line, MOST_PPB, NoRecord, Record, rate};
pub use readings::{EACH, Reading, Readings};
pub use worker::WorkerClock;

use discipline::Discipline;

use crate::ledger::Sheet;

crate::counters! {
    /// What was done to join the detector's clock and the host's.
    pub enum WallCount {
        Anchors "time.anchors" Times Sum "time" Note
            "times that the detector's clock was joined to the host's" "";
        Steps "time.steps" Times Sum "time" Note
            "differences of more than 50 ms between both clocks, which no drift makes"
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

/// A packet that comes sooner or later than this is no matter of drift, ns: 50 ms. At 200 ppm they are 250 s of drift, and a
/// sender that stands still for less than that begins nothing new.
pub const STEP_NS: i64 = 50_000_000;
/// A stream that is new and so late has a clock of its own, ns: 0.5 s. A sender that stood still for less has not.
const ANEW_NS: i64 = 500_000_000;
/// An era's first packet may have been late: for so long, ns, it is believed that later ones know better.
const ACQUIRE_NS: i64 = 5_000_000_000;
/// By how much they must know better, ns: less is left to the loop.
const BETTER_NS: i64 = 300_000;
/// The rate at which times wait for the host's clock then: half as fast.
const HALF: i32 = i32::MIN;
/// Lines are settled so far ahead of what was asked for, ns: a worker asks ten times a second.
const AHEAD_NS: i64 = 100_000_000;
/// Time between two corrections, ns.
const CORRECT_NS: i64 = 1_000_000_000;
/// A rate that differs by less is kept, ppb: noise of 10 µs would write a line each second, and 0.5 µs in a second are found soon enough.
const KEEP_PPB: i64 = 500;
/// Eras that are remembered: senders of so many different clocks. More are a sender that does not know what time it is.
const MOST_ERAS: usize = 64;
/// Lines of one era that are remembered: an hour of one each second. What waits in a builder is seconds old.
const MOST_LINES: usize = 1 << 12;
/// Records that are kept for those who write them down, which takes them a second at most.
const MOST_RECORDS: usize = 1 << 16;
/// Anchors that a recording may have: a run that was joined anew once a second for an hour.
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
    /// The last of them, ns: the host's clock or the detector's went on by so much beside the other.
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
    /// It has a clock of its own, or one that began anew.
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
    records: Vec<Record>,
    forgotten: usize,
    discipline: Discipline,
    /// Host's time of the last correction, and the least difference that any worker saw since.
    corrected: i64,
    least: Option<i64>,
    steps: u64,
    last_step_ns: i64,
    ahead: bool,
    /// Last time of the era before the last one.
    floor: i64,
}

impl WallClock {
    /// Of a live run.
    pub fn live() -> WallClock {
        WallClock::new(true, State::default())
    }

    /// Of a live run whose decoder takes the arrival of packets for their time.
    pub fn of_arrivals(live: bool) -> WallClock {
        let records = vec![Record::Received];
        WallClock { received: true, ..WallClock::new(live, State { records, ..State::default() }) }
    }

    /// Of a recording, with what was written down when it was made; `None` if nothing was, if a line has no anchor before it, or if there
    /// are more than 4096 anchors.
    pub fn recorded(records: &[Record]) -> Option<WallClock> {
        let mut state = State::default();
        for record in records {
            match *record {
                Record::Received => return Some(WallClock::of_arrivals(false)),
                Record::Era { received, anchor } => state.eras.push(Era::new(received, anchor)),
                Record::Line(line) => state.eras.last_mut()?.lines.push(line),
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
    pub fn records_from(&self, known: usize) -> (Vec<Record>, usize) {
        let state = self.state();
        let from = known.saturating_sub(state.forgotten);
        let records = state.records.get(from..).unwrap_or_default().to_vec();
        (records, state.forgotten + state.records.len())
    }

    /// The last anchor, with the lines that count now: enough for what is received now.
    pub fn current(&self) -> Vec<Record> {
        self.now(1)
    }

    /// The same of all clocks of the run, as far as anything got its time from them.
    pub fn all_current(&self) -> Vec<Record> {
        self.now(MOST_ERAS)
    }

    fn now(&self, eras: usize) -> Vec<Record> {
        let state = self.state();
        if self.received {
            return vec![Record::Received];
        }
        let used = state.eras.len() - usize::from(self.unused.load(Relaxed)).min(state.eras.len());
        let mut all = Vec::new();
        for era in &state.eras[used.saturating_sub(eras)..used] {
            all.push(Record::Era { received: era.received, anchor: era.anchor });
            let lines = &era.lines[era.lines.len().saturating_sub(2)..];
            let later = lines.iter().filter(|line| **line != era.anchor);
            all.extend(later.map(|line| Record::Line(*line)));
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

    /// The first packet of all.
    fn anchor(&self, first: Reading) {
        let mut state = self.state();
        if state.eras.is_empty() {
            self.begin(&mut state, first, first.received_ns, i64::MIN);
        }
    }

    /// `floor`: the era's times are not before it.
    fn begin(&self, state: &mut State, at: Reading, wall: i64, floor: i64) {
        let anchor = Line { from: at.detector_ns, wall, rate: rate(state.discipline.drift_ppb) };
        if state.eras.len() >= MOST_ERAS {
            state.eras.remove(0);
        }
        state.eras.push(Era::new(at.received_ns, anchor));
        state.floor = floor;
        self.unused.store(true, Relaxed);
        (state.corrected, state.least) = (at.received_ns, None);
        // It may begin ahead of the host's clock, where that was the only way not to go back.
        self.allowed.store(wall.saturating_sub(at.received_ns).max(0), Relaxed);
        state.ahead = wall.saturating_sub(at.received_ns) > STEP_NS;
        self.newest.store(at.detector_ns, Relaxed);
        // Whoever uses it first says so.
        self.settled.store(i64::MIN, Release);
        self.version.fetch_add(1, Release);
        self.sheet.add(WallCount::Anchors as usize, 1);
        self.sheet.set(WallCount::Ahead as usize, state.ahead.into());
    }

    /// A packet that no era explains: its clock, or the host's, was set. `known` is the version for which that was found.
    fn step(&self, at: Reading, odd: Odd, known: u64) {
        let mut state = self.state();
        if self.version.load(Relaxed) != known {
            // Somebody else found it, or something else has changed: looked at again with the next batch.
            return;
        }
        let Some(era) = state.eras.last() else { return };
        let (was, newest) = (era.last().at(at.detector_ns), self.newest.load(Relaxed));
        let top = era.at(newest);
        if self.unused.load(Relaxed) && matches!(odd, Odd::Late | Odd::Early { .. }) {
            let difference = at.received_ns.saturating_sub(era.at(at.detector_ns));
            return self.move_anchor(&mut state, difference);
        }
        // The detector's clock goes on as it did: lines do, whoever has used them already.
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
            // Not before what was said already.
            _ => self.begin(&mut state, at, at.received_ns.max(top), top),
        }
    }

    /// The host's clock was set forward: from what is not settled yet, times are later.
    fn jump(&self, state: &mut State, by: i64) {
        let Some(last) = state.eras.last().map(Era::last) else { return };
        let from = self.settled.load(Relaxed).max(last.from + 1);
        self.push(state, Line { from, wall: last.at(from).saturating_add(by), rate: last.rate });
    }

    /// A packet in an era's beginning came sooner after its time than the first one: that one was late. Times go half as fast until
    /// the host has come up to them.
    fn acquire(&self, at: Reading, known: u64) {
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
        let slow = Line { from, wall: last.at(from), rate: HALF };
        let upto = from.saturating_add(ahead.saturating_mul(2));
        self.push(&mut state, slow);
        self.push(&mut state, Line { from: upto, wall: slow.at(upto), rate: last.rate });
    }

    /// Nothing has got its time from the last era yet: it may as well be right.
    fn move_anchor(&self, state: &mut State, by: i64) {
        let floor = state.floor;
        let Some(era) = state.eras.last_mut() else { return };
        era.anchor.wall = era.anchor.wall.saturating_add(by).max(floor);
        era.lines = vec![era.anchor];
        self.version.fetch_add(1, Release);
    }

    /// The last era's clock is not heard any more, and another one's is: it goes on as the last one, so that it is corrected.
    fn resume(&self, at: Reading, number: usize, known: u64) {
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
            let record = Record::Era { received: era.received, anchor: era.anchor };
            state.write_down(record);
        }
    }

    /// A worker saw this least difference, host less line, in the last second; `now` is its newest reading.
    fn saw(&self, least: i64, now: Reading, known: u64) {
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
        self.go_on(&mut state, rate(ppb));
    }

    /// The last era goes on at this rate, behind what is settled.
    fn go_on(&self, state: &mut State, rate: i32) {
        let Some(era) = state.eras.last_mut() else { return };
        let last = era.last();
        if i64::from(last.rate.abs_diff(rate)) * 1_000_000_000 < KEEP_PPB << 32 {
            return;
        }
        let from = self.settled.load(Relaxed).max(last.from + 1);
        let line = Line { from, wall: last.at(from), rate };
        self.push(state, line);
    }

    /// One line more of the last era.
    fn push(&self, state: &mut State, line: Line) {
        let Some(era) = state.eras.last_mut() else { return };
        if era.lines.len() >= MOST_LINES {
            era.lines.drain(..MOST_LINES / 2);
        }
        era.lines.push(line);
        self.sheet.add(WallCount::Corrections as usize, 1);
        state.write_down(Record::Line(line));
        self.version.fetch_add(1, Release);
    }

    /// Nobody changes what is before `detector_ns` in the last era any more, and a little behind.
    fn settle(&self, detector_ns: i64) {
        let mut state = self.state();
        if self.unused.swap(false, Relaxed)
            && let Some(era) = state.eras.last()
        {
            let record = Record::Era { received: era.received, anchor: era.anchor };
            state.write_down(record);
            self.version.fetch_add(1, Release);
        }
        self.settled.fetch_max(detector_ns.saturating_add(AHEAD_NS), Release);
    }
}

impl State {
    fn write_down(&mut self, record: Record) {
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
