//! A campaign of flat-out trials and searches: each contender and size in turn, round by round, so that a slow minute of
//! the host meets all of them.
//!
//! `lab lossless` searches alone; `lab peers` measures flat out too. Refuses: empty lists, and searches that cannot be made.

use std::time::Duration;

use fullcount_core::quantity::spoken;
use serde_json::Value;

use super::{Bench, LosslessError, LosslessTrial, SearchOutcome, SearchSettings, TrialPlan, find};
use crate::record::{Figure, Record};

/// Time that a flat-out trial takes beside the sending.
const BESIDE: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct LosslessCampaign {
    /// Engines or programs; ratios are to the first.
    pub contenders: Vec<String>,
    /// Payload sizes, bytes.
    pub sizes: Vec<usize>,
    /// Rounds.
    pub repeats: usize,
    /// Length of a flat-out trial in each round; `None` leaves it out.
    pub flat_out: Option<Duration>,
    /// The search for the rate without loss in each round; `None` leaves it out.
    pub search: Option<SearchSettings>,
}

/// One contender and size.
#[derive(Debug, Clone, PartialEq)]
pub struct LosslessRow {
    /// Contender.
    pub contender: String,
    /// Payload size, bytes.
    pub size: usize,
    /// Flat out, one trial a round.
    pub flat_out: Vec<LosslessTrial>,
    /// Searches, one a round.
    pub outcomes: Vec<SearchOutcome>,
}

impl LosslessRow {
    /// Packets/s without loss over the rounds.
    pub fn rate(&self) -> Option<Figure> {
        let rates: Vec<f64> = self.outcomes.iter().map(SearchOutcome::rate).collect();
        Figure::of(&rates, "packets/s")
    }

    /// Half of the interval over the median: ± so much.
    pub fn spread(&self) -> Option<f64> {
        let figure = self.rate()?;
        let (low, high) = figure.interval;
        (figure.value > 0.0).then(|| (high - low) / 2.0 / figure.value)
    }

    /// Median of a value flat out; `None` if a trial has none.
    pub fn flat_out(
        &self,
        unit: &str,
        value: impl Fn(&LosslessTrial) -> Option<f64>,
    ) -> Option<Figure> {
        let values: Option<Vec<f64>> = self.flat_out.iter().map(value).collect();
        Figure::of(&values?, unit)
    }

    /// Packets/s delivered flat out.
    pub fn delivered(&self) -> Option<Figure> {
        self.flat_out("packets/s", |t| Some(t.delivered_per_s))
    }

    /// Its searches, for a results file.
    pub fn searches(&self) -> Vec<Value> {
        self.outcomes.iter().map(SearchOutcome::json).collect()
    }

    /// What limited the searches, each once.
    pub(super) fn limits(&self) -> String {
        let mut all: Vec<&str> = Vec::new();
        for outcome in &self.outcomes {
            let name = outcome.found.map_or("below the floor", |f| f.limit.name());
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all.join(", ")
    }
}

/// A finished campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct LosslessResults {
    /// What was asked for.
    pub campaign: LosslessCampaign,
    /// Where it was measured.
    pub place: String,
    /// Sizes, and the contenders of each in their order.
    pub rows: Vec<LosslessRow>,
}

impl LosslessResults {
    /// True if every search found a rate.
    pub fn complete(&self) -> bool {
        self.rows.iter().flat_map(|r| &r.outcomes).all(|o| o.found.is_some())
    }
}

impl LosslessCampaign {
    /// # Errors
    /// Empty lists, or a search that cannot be made.
    pub fn check(&self) -> Result<(), LosslessError> {
        for (empty, what) in [
            (self.sizes.is_empty(), "the list of sizes"),
            (self.contenders.is_empty(), "the list of contenders"),
            (self.repeats == 0, "the number of repeats"),
            (self.flat_out.is_some_and(|time| time.is_zero()), "the flat-out duration"),
        ] {
            if empty {
                return Err(LosslessError::Empty(what));
            }
        }
        Ok(self.search.as_ref().map_or(Ok(()), SearchSettings::check)?)
    }

    /// Usual time of one turn.
    fn turn(&self) -> Duration {
        let search = self.search.map_or(Duration::ZERO, |s| s.usual());
        search + self.flat_out.map_or(Duration::ZERO, |time| time + BESIDE)
    }

    /// Usual time of it all.
    pub fn usual(&self) -> Duration {
        self.turn() * (self.sizes.len() * self.contenders.len() * self.repeats) as u32
    }

    /// Notes how the rate is searched, if it is.
    pub fn note_search(&self, record: &mut Record) {
        if let Some(settings) = &self.search {
            settings.note(record);
        }
    }

    /// Measures everything; `tell` gets lines of progress with the time left.
    ///
    /// # Errors
    /// Those of [`LosslessCampaign::check`], and a trial without a result.
    pub fn run(
        self,
        place: &str,
        bench: &mut dyn Bench,
        tell: &mut dyn FnMut(&str),
    ) -> Result<LosslessResults, LosslessError> {
        self.check()?;
        let row = |size: usize, contender: &String| {
            let (flat_out, outcomes) = (Vec::new(), Vec::new());
            LosslessRow { contender: contender.clone(), size, flat_out, outcomes }
        };
        let contenders = &self.contenders;
        let rows = self.sizes.iter().flat_map(|&size| contenders.iter().map(move |c| row(size, c)));
        let mut rows: Vec<LosslessRow> = rows.collect();
        let turns = rows.len() * self.repeats;
        for turn in 0..turns {
            let at = turn % rows.len();
            let LosslessRow { contender, size, flat_out, outcomes } = &mut rows[at];
            let size = *size;
            let name = format!("[{}/{turns}] {size} B, {contender}", turn + 1);
            let after = self.turn() * (turns - turn - 1) as u32;
            if let Some(length) = self.flat_out {
                tell(&format!("{name}: flat out, {} left", spoken(after + self.turn())));
                let plan = TrialPlan { contender, size, packets_per_s: None, length };
                let trial = bench.trial(&plan).map_err(|cause| LosslessError::Trial {
                    contender: contender.clone(),
                    size,
                    cause,
                })?;
                tell(&format!(
                    "{name}: flat out {:.4} Mpackets/s sent, {:.4} delivered, lost {}",
                    trial.sent_per_s / 1e6,
                    trial.delivered_per_s / 1e6,
                    trial.lost()
                ));
                flat_out.push(trial);
            }
            if let Some(settings) = &self.search {
                let mut progress = |what: &str, left: Duration| {
                    tell(&format!("{name}: {what}, {} left", spoken(after + left)));
                };
                let outcome = find(bench, contender, size, settings, &mut progress)?;
                let limit = outcome.found.map_or("even the floor loses", |f| f.limit.name());
                tell(&format!(
                    "{name}: {:.4} Mpackets/s = {:.3} Gb/s without loss (limit: {limit}), {} trials",
                    outcome.rate() / 1e6,
                    outcome.rate() * (8 * size) as f64 / 1e9,
                    outcome.trials.len()
                ));
                outcomes.push(outcome);
            }
        }
        Ok(LosslessResults { campaign: self, place: place.to_owned(), rows })
    }
}
