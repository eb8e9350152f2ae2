//! The highest rate without loss, by RFC 2544's method, as a state machine: it says which trial to make
//! next and is told how it ended. No clock, no process, no unit: a rate is any number above 0.
//!
//! 1. **Search**: a trial at the ceiling; if that loses, one at the floor, then bisection (the middle on a
//!    logarithmic scale, so that a range of 1 to 1000 takes as many steps below 10 as above 100) until the
//!    gap is within the resolution. A trial that loses may be repeated before it counts (`retries`). What a
//!    sender sent that fell behind without loss is a rate without loss: the search goes on above it.
//! 2. **Confirmation**: `confirmations` longer trials in a row at the rate found, without a retry. One loss
//!    lowers the rate by the resolution, the next by twice that, and so on, until a rate is confirmed.
//!    A sender that falls behind without loss confirms what it did send: the rate found is then the lowest
//!    of those, and the sender is the limit.
//! 3. **Return**: if the steps down were wider than the resolution, the gap to the lowest rate that lost
//!    is bisected with full confirmations.
//!
//! So the rate found was never seen to lose in a trial that counts, and was confirmed; loss that is not
//! monotonous in the rate (a hiccup of the host) ends the search lower, never without end:
//! [`SearchPlan::most_trials`] bounds it. Refuses: see [`PlanError`]. Source: RFC 2544 sections 24 and 26.1.

use std::time::Duration;

/// What to search and how hard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchPlan {
    /// Lowest rate tried, above 0.
    pub floor: f64,
    /// Highest rate tried, at least the floor.
    pub ceiling: f64,
    /// Gap between the rate found and a rate that loses, as a share of the latter: 0.0005..=0.5.
    pub resolution: f64,
    /// Length of a search trial.
    pub trial: Duration,
    /// Length of a confirmation trial.
    pub confirm: Duration,
    /// Confirmation trials without loss that a rate needs, at least 1.
    pub confirmations: u32,
    /// How often a search trial that lost is repeated before it counts.
    pub retries: u32,
}

/// A plan that cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum PlanError {
    #[error(
        "a search from {floor} to {ceiling}: the floor must be above 0 and at most the ceiling"
    )]
    Range { floor: f64, ceiling: f64 },
    #[error("resolution of {0}: allowed are 0.05% to 50%")]
    Resolution(f64),
    #[error("a trial of 0 s shows nothing: give the {0} a length")]
    Length(&'static str),
    #[error("confirmations: at least 1 is needed")]
    Confirmations,
}

impl SearchPlan {
    /// Refuses what cannot be searched for.
    pub fn check(&self) -> Result<(), PlanError> {
        let &SearchPlan { floor, ceiling, .. } = self;
        if !(floor > 0.0 && floor <= ceiling && ceiling.is_finite()) {
            return Err(PlanError::Range { floor, ceiling });
        }
        if !(0.0005..=0.5).contains(&self.resolution) {
            return Err(PlanError::Resolution(self.resolution));
        }
        if self.trial.is_zero() {
            return Err(PlanError::Length("trial"));
        }
        if self.confirm.is_zero() {
            return Err(PlanError::Length("confirmation"));
        }
        if self.confirmations == 0 {
            return Err(PlanError::Confirmations);
        }
        Ok(())
    }

    /// Bisections that bring `low` and `high` within the resolution.
    fn bisections(&self, low: f64, high: f64) -> u32 {
        let wanted = -(1.0 - self.resolution).ln();
        // One more for what rounding takes.
        ((high / low).ln() / wanted).max(1.0).log2().ceil() as u32 + 1
    }

    /// No search of this plan needs more trials, whatever they say.
    pub fn most_trials(&self) -> u32 {
        let bisections = self.bisections(self.floor, self.ceiling);
        // Steps down double from the resolution to a half, and halve the rate from then on.
        let down =
            (0.5 / self.resolution).log2().ceil() + (self.ceiling / self.floor).log2().ceil();
        let confirmed = 2 + down as u32 + bisections;
        (2 + bisections) * (1 + self.retries) + confirmed * self.confirmations
    }
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Offered in full, and nothing was lost.
    Lossless,
    /// Something was lost.
    Lossy,
    /// Nothing was lost, but the sender did not reach the rate: it proves nothing about this rate, only about
    /// the one that it did send.
    Short {
        /// Rate that was sent, below the one asked.
        offered: f64,
    },
}

/// Which part of the search a trial belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchPhase {
    /// Looking for the border.
    Search,
    /// Confirmation trial `number` of `of`.
    Confirm {
        /// From 1.
        number: u32,
        /// Needed in a row.
        of: u32,
    },
}

/// A trial to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialOrder {
    /// Rate to offer.
    pub rate: f64,
    /// For how long.
    pub length: Duration,
    /// What for.
    pub phase: SearchPhase,
}

/// What stood in the way of a higher rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchLimit {
    /// The ceiling itself was lossless: the border may lie higher.
    Ceiling,
    /// Packets were lost.
    Loss,
    /// The sender did not offer more.
    Sender,
}

impl SearchLimit {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            SearchLimit::Ceiling => "ceiling",
            SearchLimit::Loss => "loss",
            SearchLimit::Sender => "sender",
        }
    }
}

/// A confirmed rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfirmedRate {
    /// Highest rate that was confirmed: sent without loss in every confirmation.
    pub rate: f64,
    /// What those trials asked for; above `rate` if the sender fell behind.
    pub asked: f64,
    /// What limits it.
    pub limit: SearchLimit,
    /// Lowest rate that failed, if one did.
    pub failed: Option<f64>,
    /// Trials made.
    pub trials: u32,
    /// Confirmations that failed on the way.
    pub failed_confirmations: u32,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchStep {
    /// Make this trial and report it.
    Trial(TrialOrder),
    /// Finished.
    Found(ConfirmedRate),
    /// Even the floor failed, for this reason, after so many trials.
    Nothing(SearchLimit, u32),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Ceiling,
    Floor,
    /// `low` passed, `high` failed.
    Bisect {
        low: f64,
    },
    /// `rate` has passed so often, sent at `offered` or more; below it lies `good`, confirmed, if any.
    Confirm {
        rate: f64,
        offered: f64,
        passed: u32,
        step: f64,
        good: Option<f64>,
    },
    Found {
        rate: f64,
        asked: f64,
    },
    Nothing,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Search {
    plan: SearchPlan,
    state: State,
    /// Lowest rate that failed, and why.
    failed: Option<(f64, SearchLimit)>,
    /// Times that the present search trial has been repeated.
    repeated: u32,
    trials: u32,
    failed_confirmations: u32,
}

impl Search {
    /// A search that has tried nothing yet.
    pub fn new(plan: SearchPlan) -> Result<Search, PlanError> {
        plan.check()?;
        let state = State::Ceiling;
        Ok(Search { plan, state, failed: None, repeated: 0, trials: 0, failed_confirmations: 0 })
    }

    /// The plan.
    pub fn plan(&self) -> &SearchPlan {
        &self.plan
    }

    fn limit(&self) -> SearchLimit {
        self.failed.map_or(SearchLimit::Ceiling, |(_, limit)| limit)
    }

    /// What to do now; the same until [`Search::report`].
    pub fn next(&self) -> SearchStep {
        let search = |rate| {
            SearchStep::Trial(TrialOrder {
                rate,
                length: self.plan.trial,
                phase: SearchPhase::Search,
            })
        };
        match self.state {
            State::Ceiling => search(self.plan.ceiling),
            State::Floor => search(self.plan.floor),
            State::Bisect { low } => search((low * self.high()).sqrt()),
            State::Confirm { rate, passed, .. } => {
                let phase =
                    SearchPhase::Confirm { number: passed + 1, of: self.plan.confirmations };
                SearchStep::Trial(TrialOrder { rate, length: self.plan.confirm, phase })
            }
            State::Found { rate, asked } => SearchStep::Found(ConfirmedRate {
                rate,
                asked,
                limit: self.limit(),
                failed: self.failed.map(|(rate, _)| rate),
                trials: self.trials,
                failed_confirmations: self.failed_confirmations,
            }),
            State::Nothing => SearchStep::Nothing(self.limit(), self.trials),
        }
    }

    /// Lowest rate that failed; above the ceiling nothing is asked.
    fn high(&self) -> f64 {
        self.failed.map_or(self.plan.ceiling, |(rate, _)| rate)
    }

    fn near(&self, low: f64) -> bool {
        // A rounding error must not cost a trial.
        self.high() - low <= self.plan.resolution * self.high() * (1.0 + 1e-9)
    }

    /// How the trial of [`Search::next`] ended. Ignored once the search is over.
    pub fn report(&mut self, verdict: Verdict) {
        let SearchStep::Trial(ask) = self.next() else { return };
        self.trials += 1;
        if let (
            State::Confirm { rate, offered, passed, step, good },
            Verdict::Short { offered: sent },
        ) = (self.state, verdict)
        {
            // What was sent is confirmed; the rate that was not reached is not.
            self.failed = Some((rate, SearchLimit::Sender));
            self.state = self.confirmed(rate, offered.min(sent), passed, step, good);
            return;
        }
        let passed = match verdict {
            Verdict::Lossless => true,
            Verdict::Lossy | Verdict::Short { .. } => false,
        };
        if !passed && ask.phase == SearchPhase::Search && self.repeated < self.plan.retries {
            self.repeated += 1;
            return;
        }
        self.repeated = 0;
        if !passed {
            let why =
                if verdict == Verdict::Lossy { SearchLimit::Loss } else { SearchLimit::Sender };
            self.failed = Some((ask.rate, why));
        }
        if let Verdict::Short { offered } = verdict
            && let Some(low) = self.below(offered)
        {
            self.state = self.bisect(low);
            return;
        }
        self.state = match self.state {
            State::Ceiling if passed => self.confirm(self.plan.ceiling, None),
            State::Ceiling if self.plan.floor >= self.plan.ceiling => State::Nothing,
            State::Ceiling => State::Floor,
            State::Floor if passed => self.bisect(self.plan.floor),
            State::Floor => State::Nothing,
            State::Bisect { .. } if passed => self.bisect(ask.rate),
            State::Bisect { low } => self.bisect(low),
            State::Confirm { rate, offered, passed: before, step, good } if passed => {
                self.confirmed(rate, offered, before, step, good)
            }
            State::Confirm { rate, step, good, .. } => {
                self.failed_confirmations += 1;
                self.lower(rate, step, good)
            }
            done @ (State::Found { .. } | State::Nothing) => done,
        };
    }

    /// Where a bisection goes on above what a sender sent without loss; `None` outside of the search for the border,
    /// and where the lowest rate is not known to pass.
    fn below(&self, offered: f64) -> Option<f64> {
        match self.state {
            State::Ceiling | State::Floor if offered >= self.plan.floor => Some(offered),
            State::Bisect { low } => Some(low.max(offered)),
            _ => None,
        }
    }

    fn bisect(&self, low: f64) -> State {
        if self.near(low) { self.confirm(low, None) } else { State::Bisect { low } }
    }

    fn confirm(&self, rate: f64, good: Option<f64>) -> State {
        State::Confirm { rate, offered: rate, passed: 0, step: self.plan.resolution, good }
    }

    /// One more confirmation of `rate`, sent at `offered` or more.
    fn confirmed(
        &self,
        rate: f64,
        offered: f64,
        before: u32,
        step: f64,
        good: Option<f64>,
    ) -> State {
        if before + 1 < self.plan.confirmations {
            return State::Confirm { rate, offered, passed: before + 1, step, good };
        }
        // More is not sent: no higher rate would be confirmed.
        if offered < rate { State::Found { rate: offered, asked: rate } } else { self.refine(rate) }
    }

    /// `rate` failed its confirmation.
    fn lower(&self, rate: f64, step: f64, good: Option<f64>) -> State {
        if let Some(good) = good {
            return self.refine(good);
        }
        if rate <= self.plan.floor {
            return State::Nothing;
        }
        let rate = (rate * (1.0 - step)).max(self.plan.floor);
        State::Confirm { rate, offered: rate, passed: 0, step: (2.0 * step).min(0.5), good: None }
    }

    /// `good` is confirmed: closer to what failed, unless that is near enough.
    fn refine(&self, good: f64) -> State {
        if self.failed.is_none() || self.near(good) {
            return State::Found { rate: good, asked: good };
        }
        self.confirm((good * self.high()).sqrt(), Some(good))
    }

    /// Time of the trials still to come if no confirmation fails and about half of the search trials lose.
    pub fn left(&self) -> Duration {
        let SearchPlan { floor, trial, confirm, confirmations, retries, .. } = self.plan;
        let searching = |low: f64, high: f64| {
            let n = self.plan.bisections(low, high).saturating_sub(1);
            trial * (n + n * retries / 2)
        };
        match self.state {
            State::Ceiling => {
                trial * 2 + searching(floor, self.plan.ceiling) + confirm * confirmations
            }
            State::Floor => trial + searching(floor, self.high()) + confirm * confirmations,
            State::Bisect { low } => searching(low, self.high()) + confirm * confirmations,
            State::Confirm { passed, .. } => confirm * (confirmations - passed),
            State::Found { .. } | State::Nothing => Duration::ZERO,
        }
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
