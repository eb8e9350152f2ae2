//! Finds and holds the highest rate that loses no more than the target, from a receiver's reports.
//!
//! Each rate is a trial: wait until packets of the rate before are gone, then compare what was sent with what came. It is bad if
//! more than the target is missing, or if less came than was sent, which shows a queue that fills before it drops. A bad trial
//! says how fast the link is: what came. From there two or three trials narrow it down; then the rate is held, and now and
//! then a little more is tried, in steps that grow as long as they are good. A link of the sender's own does not drop: it
//! keeps the sender waiting, and what came is held. Lag alone may be the processor's doing: where a mistake costs, it has to
//! show two or three times. A first try of more ends when two reports show it, mostly before a switch drops. Without reports the rate is halved. Every decision is logged with its reason. Time is an argument, ns from any
//! origin; rates are SPEAD bytes per second.

use std::collections::VecDeque;

use fullcount_core::refusal::{Refusal, refuse};

use super::message::ReceiverReport;
use super::trial::{Base, Shown, shown};

/// Settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TunerConfig {
    /// Never below, B/s.
    pub min_rate: f64,
    /// Never above, B/s.
    pub max_rate: f64,
    /// First rate, B/s.
    pub start_rate: f64,
    /// Share of payload that may be missing, 0 to 0.5.
    pub loss_target: f64,
    /// Time from a new rate until its packets are what reports speak of: round trip and one report, ns.
    pub settle_ns: u64,
    /// Length of a trial, ns.
    pub trial_ns: u64,
    /// How long a rate is held before more is tried, ns. Twice as long after each probe in a row that failed, but at most `max_hold_ns`.
    pub hold_ns: u64,
    /// Longest time that a rate is held before more is tried, ns; less than `hold_ns` is as `hold_ns`. From then on it takes some 3 s to follow
    /// a link that became faster.
    pub max_hold_ns: u64,
    /// Without a report for so long, the rate is halved, ns.
    pub silence_ns: u64,
    /// First step beyond a rate that is held.
    pub step: f64,
    /// Longest burst, B; slow senders get shorter ones, of 1 ms.
    pub max_burst: u64,
    /// Largest packet, B.
    pub packet_bytes: u64,
}

impl Default for TunerConfig {
    fn default() -> TunerConfig {
        TunerConfig {
            min_rate: 1e6,
            max_rate: 12.5e9,
            start_rate: 12.5e6,
            loss_target: 0.0,
            settle_ns: 120_000_000,
            trial_ns: 200_000_000,
            hold_ns: 3_000_000_000,
            max_hold_ns: 4_500_000_000,
            silence_ns: 2_000_000_000,
            step: 0.03,
            max_burst: 65_536,
            packet_bytes: 9000,
        }
    }
}

impl TunerConfig {
    fn check(&self) -> Result<(), Refusal> {
        if !(self.min_rate > 0.0 && self.min_rate <= self.max_rate && self.max_rate <= 1e13) {
            let allowed = format!(
                "above 0, at most max_rate ({} B/s), which is at most 1e13 B/s",
                self.max_rate
            );
            return Err(refuse("min_rate", self.min_rate, allowed));
        }
        if !(self.min_rate..=self.max_rate).contains(&self.start_rate) {
            let allowed = format!("{} to {} B/s", self.min_rate, self.max_rate);
            return Err(refuse("start_rate", self.start_rate, allowed));
        }
        if !(0.0..=0.5).contains(&self.loss_target) {
            return Err(refuse("loss_target", self.loss_target, "0 to 0.5"));
        }
        if !(0.005..=1.0).contains(&self.step) {
            return Err(refuse("step", self.step, "0.005 to 1"));
        }
        match self.trial_ns {
            0 => Err(refuse("trial_ns", 0, "above 0")),
            _ => Ok(()),
        }
    }
}

/// What the tuner does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TunerState {
    /// Doubles the rate until it is bad.
    Ramp,
    /// Between a good and a bad rate.
    Narrow {
        /// Good.
        low: f64,
        /// Bad.
        high: f64,
    },
    /// Stays, since then.
    Hold {
        /// Of the first trial, ns.
        since_ns: u64,
        /// Next step.
        step: f64,
    },
    /// Tries more than this.
    Probe {
        /// To which it goes back.
        base: f64,
        /// How much more.
        step: f64,
    },
}

/// Why a rate was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateReason {
    /// No loss: more.
    Good,
    /// More than the target is missing.
    Loss,
    /// Less came than was sent.
    Lagging,
    /// The sender's own way out takes less than the rate: held at what came.
    HeldBack,
    /// Good and bad rate are close: held.
    Found,
    /// Held long enough: more is tried.
    Probing,
    /// What was tried was too much.
    ProbeFailed,
    /// No reports.
    Silence,
}

/// A line of the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TunerDecision {
    /// When, ns.
    pub time_ns: u64,
    /// From this rate, B/s.
    pub from: f64,
    /// To this one, B/s.
    pub to: f64,
    /// Why.
    pub why: RateReason,
    /// Share that was missing in the trial.
    pub loss: f64,
    /// What came in the trial, B/s.
    pub delivered: f64,
}

/// Lines that the log keeps.
const MOST_DECISIONS: usize = 1024;
/// Share of a rate known to be too fast that is tried next.
const BELOW: f64 = 0.985;
/// A good rate of at least this share of what came in the bad trial before is the answer.
const SEEN: f64 = 0.98;
/// Less than this share of what was sent is lagging.
const LAG: f64 = 0.99;
/// With more than this share of what was sent, a lag may be a receiver that did not run for a moment.
const SLIGHT_LAG: f64 = 0.9;
/// A sender that falls behind its pace by more than this share of a trial is held back: 2 % of 200 ms is 4 ms, more than a
/// late wake-up.
const BEHIND: f64 = 0.02;
/// The same while more is tried: a first step of 3 % from 0.99 of the rate of an own link is 2 % too much, of which the socket's
/// buffer hides a part. Taken for good, it was followed by a step of 6 %, so that a seventh of the time went outside of 5 %.
const PROBE_BEHIND: f64 = 0.01;
/// A sender so far behind in a larger step is held back without a second look: 8 ms of 200 ms.
const FAR_BEHIND: f64 = 0.04;
/// Share of the best rate that is held: a queue that filled while the sender caught up drains again.
const HELD: f64 = 0.99;
/// Less loss than this at a rate that is held lowers it a little, to [`EASED`] of it. What came in that trial says nothing of the link then: a host
/// that did not run for 50 ms lost one packet and showed 0.87 of the rate, which was taken for the link's for 2 s; another one lost 4.6 %. A link that is slower by less is followed in such steps.
const FEW_LOST: f64 = 0.05;
const EASED: f64 = 0.98;
/// From step to step as long as they are good: a rate of twice as much is found with four.
const FASTER: f64 = 3.0;
/// So many times what may be on its way has to be missing for a first probe to end early: 4 ms of the rate. A machine that does not run for
/// 2 ms shows half of it.
const SURE: f64 = 2.0;
/// A good rate this close to a bad one is the answer.
const CLOSE: f64 = 0.97;

/// What the sender has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentSoFar {
    /// SPEAD bytes.
    pub bytes: u64,
    /// How far the packets that wait are behind the pace, ns: [`HeapSender::behind_ns`](crate::send::HeapSender::behind_ns).
    pub behind_ns: u64,
}

/// The tuner.
#[derive(Debug)]
pub struct RateTuner {
    config: TunerConfig,
    rate: f64,
    state: TunerState,
    since_ns: u64,
    base: Option<Base>,
    last_report: Option<ReceiverReport>,
    heard_ns: u64,
    /// What came in the last bad trial, B/s.
    came: Option<f64>,
    /// Trials at this rate, one after the other, that showed a lag without a loss.
    doubts: u32,
    /// Where a first probe began, and how many reports in a row have shown that it was too much.
    probe: Option<(Base, u32)>,
    /// The next probe comes early.
    soon: bool,
    /// Probes in a row that failed.
    failed: u32,
    decisions: VecDeque<TunerDecision>,
}

impl RateTuner {
    /// Begins at `start_rate`.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: TunerConfig, now_ns: u64) -> Result<RateTuner, Refusal> {
        config.check()?;
        Ok(RateTuner {
            config,
            rate: config.start_rate,
            state: TunerState::Ramp,
            since_ns: now_ns,
            base: None,
            last_report: None,
            heard_ns: now_ns,
            came: None,
            doubts: 0,
            probe: None,
            soon: false,
            failed: 0,
            decisions: VecDeque::new(),
        })
    }

    /// What the sender should send at, B/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// What the sender should send without a pause, B: at most 1 ms.
    pub fn burst_size(&self) -> u64 {
        ((self.rate / 1000.0) as u64).clamp(1, self.config.max_burst)
    }

    /// What may be on its way at one end of a trial and not at the other, B.
    fn slack(&self) -> f64 {
        2.0 * self.burst_size().max(self.config.packet_bytes) as f64
    }

    /// What it does.
    pub fn state(&self) -> TunerState {
        self.state
    }

    /// The next line of the log.
    pub fn pop_decision(&mut self) -> Option<TunerDecision> {
        self.decisions.pop_front()
    }

    fn go(
        &mut self,
        now_ns: u64,
        to: f64,
        state: TunerState,
        why: RateReason,
        shown: Option<Shown>,
    ) {
        let to = to.clamp(self.config.min_rate, self.config.max_rate);
        // Found by one trial's measure, which a busy machine spoils at times: more is tried soon.
        let measured = matches!(why, RateReason::HeldBack | RateReason::Found);
        self.soon = measured && !matches!(self.state, TunerState::Probe { .. });
        self.failed = match why {
            RateReason::ProbeFailed => self.failed.saturating_add(1),
            RateReason::Probing => self.failed,
            // A probe that succeeded, or a link that changed.
            _ => 0,
        };
        if self.decisions.len() == MOST_DECISIONS {
            self.decisions.pop_front();
        }
        let (loss, delivered) = shown.map_or((0.0, 0.0), |s| (s.loss, s.delivered));
        self.decisions.push_back(TunerDecision {
            time_ns: now_ns,
            from: self.rate,
            to,
            why,
            loss,
            delivered,
        });
        // Behind a rate that was too high a queue has to drain, and heaps that lost packets are still to be given up.
        let drain = if to < self.rate { 2 * self.config.settle_ns } else { 0 };
        (self.rate, self.state, self.doubts) = (to, state, 0);
        (self.since_ns, self.base) = (now_ns.saturating_add(drain), None);
        self.probe = None;
    }

    /// Time passes; to be called now and then, also without reports.
    pub fn tick(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.heard_ns) >= self.config.silence_ns {
            self.heard_ns = now_ns;
            if self.rate > self.config.min_rate {
                self.go(now_ns, self.rate / 2.0, TunerState::Ramp, RateReason::Silence, None);
            }
        }
    }

    /// A report came. Old and repeated reports are passed over.
    pub fn report(&mut self, now_ns: u64, report: ReceiverReport, sent: SentSoFar) {
        let restarted =
            self.last_report.is_some_and(|last| report.packet_bytes < last.packet_bytes);
        let old = self.last_report.is_some_and(|last| report.number <= last.number);
        match (old, restarted && report.number < 4) {
            (_, true) => self.base = None,
            (true, false) => return,
            (false, false) => {}
        }
        self.last_report = Some(report);
        self.heard_ns = now_ns;
        if let Some((base, _)) = self.probe
            && let Some(shown) = shown(&base, &report, now_ns, sent)
            && self.is_too_much(shown)
        {
            return self.bad(now_ns, shown, RateReason::ProbeFailed);
        }
        if now_ns < self.since_ns.saturating_add(self.config.settle_ns) {
            return;
        }
        let Some(base) = self.base else {
            self.base = Some(Base { report, sent, at_ns: now_ns });
            return;
        };
        let Some(shown) = shown(&base, &report, now_ns, sent) else { return };
        let receiver_ns = report.time_ns.saturating_sub(base.report.time_ns);
        let trial_ns = match self.state {
            // A little more than a link takes shows late.
            TunerState::Probe { step, .. } if step <= self.config.step => 2 * self.config.trial_ns,
            _ => self.config.trial_ns,
        };
        let over = receiver_ns >= trial_ns;
        // Loss is loss at once, but how fast the link is takes a moment to see.
        let lost = self.is_lossy(shown) && receiver_ns >= self.config.trial_ns / 2;
        if over || lost {
            self.judge(now_ns, shown);
            if let (TunerState::Probe { step, .. }, None) = (self.state, self.base)
                && step <= self.config.step
                && self.since_ns == now_ns
            {
                self.probe = Some((Base { report, sent, at_ns: now_ns }, 0));
            }
        }
    }

    /// Less came than was sent, and more is missing than packets under way explain.
    fn is_lagging(&self, shown: Shown) -> bool {
        let behind = (shown.sent - shown.delivered) * shown.seconds;
        // Loss up to the target is meant: what it takes away is no lag.
        let allowed = self.config.loss_target > 0.0
            && shown.delivered >= (LAG - 2.0 * self.config.loss_target) * shown.sent;
        shown.delivered < LAG * shown.sent && behind > self.slack() && !allowed
    }

    /// A first probe is given up when two reports in a row show a queue that fills, mostly before it drops.
    fn is_too_much(&mut self, shown: Shown) -> bool {
        let behind = (shown.sent - shown.delivered) * shown.seconds;
        let lagging = self.is_lagging(shown) && behind > SURE * self.slack();
        let Some((_, seen)) = &mut self.probe else { return false };
        *seen = if lagging { *seen + 1 } else { 0 };
        *seen >= 2 || self.is_lossy(shown)
    }

    /// More than the target is missing: with a target, by more than chance explains, for a trial at a low rate has few packets.
    fn is_lossy(&self, shown: Shown) -> bool {
        let target = self.config.loss_target;
        let allowed = target * shown.expected / self.config.packet_bytes as f64;
        let chance = if target > 0.0 { 1.0 + 2.0 * allowed.sqrt() } else { 0.0 };
        shown.loss * shown.expected > (allowed + chance) * self.config.packet_bytes as f64
    }

    fn judge(&mut self, now_ns: u64, shown: Shown) {
        let lossy = self.is_lossy(shown);
        match (lossy, self.is_lagging(shown)) {
            (true, _) => self.bad(now_ns, shown, RateReason::Loss),
            (false, true) if shown.delivered > SLIGHT_LAG * shown.sent && self.is_doubtful() => {}
            (false, true) => self.bad(now_ns, shown, RateReason::Lagging),
            (false, false) if self.is_held_back(shown) => {
                let sure = match self.state {
                    TunerState::Probe { step, .. } if step > self.config.step => {
                        shown.behind > FAR_BEHIND
                    }
                    _ => false,
                };
                if sure || !self.is_doubtful() {
                    self.held_back(now_ns, shown);
                }
            }
            // Whoever does not send at the rate learns nothing of it.
            (false, false) if shown.sent < 0.9 * self.rate => self.base = None,
            (false, false) => self.good(now_ns, shown),
        }
    }

    /// A lag that was not seen often enough at this rate: then there is another trial. What is held was good, and a lag without
    /// a loss costs nothing: there it has to show three times.
    fn is_doubtful(&mut self) -> bool {
        self.doubts += 1;
        let again = self.doubts < if matches!(self.state, TunerState::Hold { .. }) { 3 } else { 2 };
        if again {
            self.base = None;
        }
        again
    }

    fn is_held_back(&self, shown: Shown) -> bool {
        match self.state {
            TunerState::Probe { .. } => shown.behind > PROBE_BEHIND,
            _ => shown.behind > BEHIND,
        }
    }

    /// The sender's own way out takes less than the rate.
    fn held_back(&mut self, now_ns: u64, shown: Shown) {
        let came = shown.delivered.min(shown.sent).min(self.rate);
        // What a probe went out from was good a moment ago, unless much less comes now.
        let came = match self.state {
            TunerState::Probe { base, .. } if came > 0.9 * base => came.max(base),
            _ => came,
        };
        let state = TunerState::Hold { since_ns: now_ns, step: self.config.step };
        self.go(now_ns, HELD * came, state, RateReason::HeldBack, Some(shown));
    }

    fn good(&mut self, now_ns: u64, shown: Shown) {
        self.doubts = 0;
        let rate = self.rate;
        let (first, top) = (self.config.step, rate >= self.config.max_rate);
        let hold = |step| TunerState::Hold { since_ns: now_ns, step };
        match self.state {
            TunerState::Ramp if top => {
                self.go(now_ns, rate, hold(first), RateReason::Found, Some(shown))
            }
            TunerState::Ramp => {
                self.go(now_ns, 2.0 * rate, TunerState::Ramp, RateReason::Good, Some(shown))
            }
            TunerState::Narrow { high, .. } if rate >= CLOSE * high => {
                self.go(now_ns, HELD * rate, hold(first), RateReason::Found, Some(shown));
            }
            // What came through a full link is its rate: to go on between this and what was too much loses more and says no more.
            TunerState::Narrow { .. } if self.came.is_some_and(|came| rate >= SEEN * came) => {
                self.go(now_ns, rate, hold(first), RateReason::Found, Some(shown));
            }
            TunerState::Narrow { high, .. } => {
                let next = (rate + high) / 2.0;
                self.go(
                    now_ns,
                    next,
                    TunerState::Narrow { low: rate, high },
                    RateReason::Good,
                    Some(shown),
                );
            }
            TunerState::Hold { since_ns, step } => {
                if !top && now_ns.saturating_sub(since_ns) >= self.hold_ns() {
                    let state = TunerState::Probe { base: rate, step };
                    self.go(now_ns, rate * (1.0 + step), state, RateReason::Probing, Some(shown));
                } else {
                    self.base = None;
                }
            }
            TunerState::Probe { .. } if top => {
                self.go(now_ns, rate, hold(first), RateReason::Found, Some(shown))
            }
            TunerState::Probe { step, .. } => {
                let step = (FASTER * step).min(1.0);
                let state = TunerState::Probe { base: rate, step };
                self.go(now_ns, rate * (1.0 + step), state, RateReason::Good, Some(shown));
            }
        }
    }

    /// How long the rate is held before more is tried, ns: each probe that fails costs heaps.
    fn hold_ns(&self) -> u64 {
        let (first, most) = (self.config.hold_ns, self.config.max_hold_ns);
        match self.failed {
            0 if self.soon => first / 3,
            n => first.saturating_mul(1 << n.min(32)).min(most.max(first)),
        }
    }

    fn bad(&mut self, now_ns: u64, shown: Shown, why: RateReason) {
        let rate = self.rate;
        let first = self.config.step;
        let came = BELOW * shown.delivered.min(rate);
        self.came = Some(shown.delivered.min(rate));
        match self.state {
            TunerState::Ramp => {
                let low = (rate / 2.0).max(self.config.min_rate);
                self.narrow(now_ns, came, low, rate, why, shown);
            }
            TunerState::Narrow { low, high } if rate <= 1.001 * low || low >= CLOSE * high => {
                // What was good is so no more.
                self.narrow(now_ns, came.min(0.9 * rate), self.config.min_rate, rate, why, shown);
            }
            TunerState::Narrow { low, .. } => self.narrow(now_ns, came, low, rate, why, shown),
            // A packet or a few of a rate that was good: a link that became slower loses more.
            TunerState::Hold { .. } if why == RateReason::Loss && shown.loss < FEW_LOST => {
                let state = TunerState::Hold { since_ns: now_ns, step: first };
                self.go(now_ns, EASED * rate, state, why, Some(shown));
            }
            TunerState::Hold { .. } => {
                self.narrow(now_ns, came.min(0.95 * rate), self.config.min_rate, rate, why, shown);
            }
            TunerState::Probe { base, step } if step <= first => {
                let state = TunerState::Hold { since_ns: now_ns, step: first };
                self.go(now_ns, base, state, RateReason::ProbeFailed, Some(shown));
            }
            // Its last step was too much already, or the receiver broke down under this one.
            TunerState::Probe { base, .. } if came <= base => {
                let to = if came > 0.95 * base { came } else { base };
                let state = TunerState::Hold { since_ns: now_ns, step: first };
                self.go(now_ns, to, state, RateReason::ProbeFailed, Some(shown));
            }
            TunerState::Probe { base, .. } => self.narrow(now_ns, came, base, rate, why, shown),
        }
    }

    /// Goes on between `low` and `high`, at `next` if that is between them.
    fn narrow(
        &mut self,
        now_ns: u64,
        next: f64,
        low: f64,
        high: f64,
        why: RateReason,
        shown: Shown,
    ) {
        if low >= CLOSE * high {
            let state = TunerState::Hold { since_ns: now_ns, step: self.config.step };
            return self.go(now_ns, HELD * low, state, RateReason::Found, Some(shown));
        }
        // What came may be far less than the link can: the receiver may have broken down under it.
        let next = if next > low { next } else { (low + high) / 2.0 };
        self.came = self.came.filter(|came| *came > low);
        self.go(now_ns, next.min(BELOW * high), TunerState::Narrow { low, high }, why, Some(shown));
    }
}

#[cfg(test)]
#[path = "tuner_tests.rs"]
mod tests;
