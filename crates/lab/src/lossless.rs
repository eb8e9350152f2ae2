//! The highest rate at which nothing is lost, for each size and engine.
//!
//! [`search`] decides what to try, a [`Bench`] tries it ([`pair`]: `fullcount send` into `receive`), [`rounds`] goes
//! round sizes and repeats, also for [`crate::peers`]; here are one search, the table and the results. The ceiling of a search is the rate
//! that the sender reaches flat out, unless one is given. Repeats are whole searches, and they go round
//! the sizes, so that a slow minute of the host does not hit one size alone. Refuses: see
//! [`LosslessError`]. Source: RFC 2544 section 26.1.

pub mod pair;
pub mod place;
pub mod rounds;
pub mod search;

use std::time::Duration;

use fullcount_core::link::Wire;
use serde_json::{Value, json};

use crate::cores::{Near, on_near_cores};
use crate::error::TrialError;
use crate::record::{Figure, Record, dash};
pub use rounds::{LosslessCampaign, LosslessResults, LosslessRow};
use search::{ConfirmedRate, PlanError, Search, SearchPhase, SearchPlan, SearchStep, Verdict};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum LosslessError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("{contender}, {size} B: {cause}")]
    Trial { contender: String, size: usize, cause: TrialError },
    #[error("{0} must not be empty or 0")]
    Empty(&'static str),
    #[error("{contender}, {size} B: nothing was sent flat out; see the sender's messages")]
    Silent { contender: String, size: usize },
}

/// What one trial showed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LosslessTrial {
    /// Payload size, bytes.
    pub size: usize,
    /// Packets sent.
    pub sent: u64,
    /// First copies delivered.
    pub delivered: u64,
    /// Packets/s while sending.
    pub sent_per_s: f64,
    /// Packets/s at the receiver.
    pub delivered_per_s: f64,
    /// Cores that the sender used (user and system).
    pub send_cores: Option<f64>,
    /// Cores that the receiver used (user and system).
    pub receive_cores: Option<f64>,
    /// Share of the receiver's core spent in softirq, if known.
    pub softirq_cores: Option<f64>,
}

impl LosslessTrial {
    /// Packets that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.delivered)
    }

    /// How a trial at `rate` ended.
    fn verdict(&self, rate: f64) -> Verdict {
        match (self.lost() > 0 || self.sent == 0, self.sent_per_s < REACHED * rate) {
            (true, _) => Verdict::Lossy,
            (false, true) => Verdict::Short { offered: self.sent_per_s },
            (false, false) => Verdict::Lossless,
        }
    }

    /// Everything, for a results file.
    pub fn json(&self) -> Value {
        json!({
            "sent": self.sent, "delivered": self.delivered, "lost": self.lost(),
            "sent_per_s": self.sent_per_s, "delivered_per_s": self.delivered_per_s,
            "send_cores": self.send_cores, "receive_cores": self.receive_cores,
            "softirq_cores": self.softirq_cores,
        })
    }
}

/// A sender within 1 % of the rate has offered it: what the pacer keeps in every second.
const REACHED: f64 = 0.99;
/// Time that a trial takes beside the sending: start, end marks, summary.
const OVERHEAD: Duration = Duration::from_millis(300);

/// A trial that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct TrialPlan<'a> {
    /// Who.
    pub contender: &'a str,
    /// Payload size, bytes.
    pub size: usize,
    /// Rate; flat out if `None`.
    pub packets_per_s: Option<f64>,
    /// How long.
    pub length: Duration,
}

/// Makes trials.
pub trait Bench {
    /// One trial.
    ///
    /// # Errors
    /// Whatever kept it from giving a result.
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError>;
}

impl<B: Bench + ?Sized> Bench for &mut B {
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        (**self).trial(plan)
    }
}

/// A bench whose two programs can be put on other cores.
pub trait OnCores: Bench {
    /// Cores of receiver and sender from the next trial on.
    fn put_on(&mut self, receiver: usize, sender: usize);
}

impl<B: OnCores + ?Sized> OnCores for &mut B {
    fn put_on(&mut self, receiver: usize, sender: usize) {
        (**self).put_on(receiver, sender);
    }
}

/// A bench that makes each trial on two cores that share a cache at that time ([`crate::cores`]).
#[derive(Debug)]
pub struct OnNearCores<B> {
    bench: B,
    last: Option<Near>,
    /// Trials made.
    pub trials: u32,
    /// Of these, on cores that were not near: there were none.
    pub far: u32,
    /// Longest round trip of a cache line, ns.
    pub longest_ns: f64,
}

impl<B: OnCores> OnNearCores<B> {
    /// Around a bench.
    pub fn new(bench: B) -> OnNearCores<B> {
        OnNearCores { bench, last: None, trials: 0, far: 0, longest_ns: 0.0 }
    }
}

impl<B: OnCores> Bench for OnNearCores<B> {
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        let bench = &mut self.bench;
        let (trial, near) = on_near_cores(&mut self.last, |cores| {
            bench.put_on(cores.receiver, cores.sender);
            bench.trial(plan)
        })?;
        self.trials += 1;
        self.far += u32::from(!near.is_near());
        self.longest_ns = self.longest_ns.max(near.round_trip_ns);
        Ok(trial)
    }
}

/// How hard to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Gap to a rate that loses, as a share.
    pub resolution: f64,
    /// Length of a search trial.
    pub trial: Duration,
    /// Length of a confirmation trial.
    pub confirm: Duration,
    /// Confirmations in a row.
    pub confirmations: u32,
    /// Repeats of a search trial that lost.
    pub retries: u32,
    /// Lowest rate tried, as a share of the highest.
    pub floor: f64,
    /// Highest rate tried; the sender's own flat out if `None`.
    pub ceiling: Option<Ceiling>,
}

/// Highest rate to try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ceiling {
    /// Payload bits a second.
    Bits(f64),
    /// Packets a second.
    Packets(f64),
}

impl Default for SearchSettings {
    fn default() -> SearchSettings {
        SearchSettings {
            resolution: 0.01,
            trial: Duration::from_secs(1),
            confirm: Duration::from_secs(10),
            confirmations: 3,
            retries: 1,
            floor: 0.01,
            ceiling: None,
        }
    }
}

impl SearchSettings {
    fn plan(&self, ceiling: f64) -> SearchPlan {
        SearchPlan {
            floor: self.floor * ceiling,
            ceiling,
            resolution: self.resolution,
            trial: self.trial,
            confirm: self.confirm,
            confirmations: self.confirmations,
            retries: self.retries,
        }
    }

    /// Refuses what cannot be searched for.
    pub fn check(&self) -> Result<(), PlanError> {
        self.plan(1.0).check()
    }

    /// Usual time of one search, overheads included.
    pub fn usual(&self) -> Duration {
        let search = Search::new(self.plan(1.0));
        let left = search.map_or(Duration::ZERO, |s| s.left());
        let trials = (left.as_secs_f64() / self.trial.as_secs_f64().max(0.01)).min(40.0) as u32;
        self.trial + left + OVERHEAD * trials
    }

    /// Notes the settings in a results file.
    pub fn note(&self, record: &mut Record) {
        record
            .parameter("resolution", self.resolution)
            .parameter("trial_s", self.trial.as_secs_f64())
            .parameter("confirm_s", self.confirm.as_secs_f64())
            .parameter("confirmations", self.confirmations)
            .parameter("retries", self.retries)
            .parameter("floor_share", self.floor)
            .parameter(
                "ceiling",
                match self.ceiling {
                    None => json!("flat out"),
                    Some(Ceiling::Bits(bits)) => json!({"payload_bps": bits}),
                    Some(Ceiling::Packets(n)) => json!({"packets_per_s": n}),
                },
            );
    }
}

/// One whole search of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// What was found; `None` if even the floor loses.
    pub found: Option<ConfirmedRate>,
    /// Highest rate that was tried, packets/s.
    pub ceiling: f64,
    /// Every trial: what for, asked packets/s, what it showed.
    pub trials: Vec<(SearchPhase, f64, LosslessTrial)>,
}

impl SearchOutcome {
    /// Packets/s without loss; 0 if there is no such rate above the floor.
    pub fn rate(&self) -> f64 {
        self.found.map_or(0.0, |f| f.rate)
    }

    /// Median over the confirmation trials at the rate found.
    fn confirmed(&self, value: impl Fn(&LosslessTrial) -> Option<f64>) -> Option<f64> {
        let rate = self.found?.asked;
        let at = self.trials.iter().filter(|(phase, asked, trial)| {
            *phase != SearchPhase::Search && *asked == rate && trial.lost() == 0
        });
        let values: Option<Vec<f64>> = at.map(|(_, _, t)| value(t)).collect();
        Figure::of(&values?, "").map(|f| f.value)
    }

    /// Everything, for a results file.
    pub fn json(&self) -> Value {
        let trials: Vec<Value> = self
            .trials
            .iter()
            .map(|(phase, asked, trial)| {
                let phase = if *phase == SearchPhase::Search { "search" } else { "confirm" };
                let mut object = trial.json();
                if let Some(o) = object.as_object_mut() {
                    o.insert("phase".into(), phase.into());
                    o.insert("asked_per_s".into(), (*asked).into());
                }
                object
            })
            .collect();
        json!({
            "packets_per_s": self.rate(),
            "asked_per_s": self.found.map(|f| f.asked),
            "limit": self.found.map(|f| f.limit.name()),
            "failed_at": self.found.and_then(|f| f.failed),
            "failed_confirmations": self.found.map(|f| f.failed_confirmations),
            "ceiling": self.ceiling,
            "trials": trials,
        })
    }
}

/// Searches one size.
///
/// # Errors
/// A trial without a result.
pub fn find(
    bench: &mut dyn Bench,
    contender: &str,
    size: usize,
    settings: &SearchSettings,
    tell: &mut dyn FnMut(&str, Duration),
) -> Result<SearchOutcome, LosslessError> {
    let place = |cause| LosslessError::Trial { contender: contender.to_owned(), size, cause };
    let wanted = |packets_per_s, length| TrialPlan { contender, size, packets_per_s, length };
    let ceiling = match settings.ceiling {
        Some(Ceiling::Packets(n)) => n,
        Some(Ceiling::Bits(bits)) => bits / (8 * size.max(1)) as f64,
        None => {
            tell("flat out, to know the ceiling", settings.usual());
            bench.trial(&wanted(None, settings.trial)).map_err(place)?.sent_per_s
        }
    };
    if ceiling <= 0.0 {
        return Err(LosslessError::Silent { contender: contender.to_owned(), size });
    }
    let mut search = Search::new(settings.plan(ceiling))?;
    let mut trials = Vec::new();
    let found = loop {
        match search.next() {
            SearchStep::Trial(ask) => {
                let what = match ask.phase {
                    SearchPhase::Search => "search".to_owned(),
                    SearchPhase::Confirm { number, of } => format!("confirmation {number} of {of}"),
                };
                tell(&format!("{what} at {:.4} Mpackets/s", ask.rate / 1e6), search.left());
                let plan = wanted(Some(ask.rate), ask.length);
                let trial = bench.trial(&plan).map_err(place)?;
                trials.push((ask.phase, ask.rate, trial));
                search.report(trial.verdict(ask.rate));
            }
            SearchStep::Found(found) => break Some(found),
            SearchStep::Nothing(..) => break None,
        }
    };
    Ok(SearchOutcome { found, ceiling, trials })
}

impl LosslessResults {
    /// The table of `lab lossless`.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| size, B | engine | without loss, Mpackets/s (min–max) | ± % | payload, Gb/s | on the wire, Gb/s \
             | limited by | sender, cores | receiver, cores |\n|--:|:--|--:|--:|--:|--:|:--|--:|--:|\n",
        );
        for row in &self.rows {
            let Some(rate) = row.rate() else { continue };
            let cores = |f: &dyn Fn(&LosslessTrial) -> Option<f64>| {
                let known: Option<Vec<f64>> = row.outcomes.iter().map(|o| o.confirmed(f)).collect();
                dash(known.and_then(|v| Figure::of(&v, "")), |f| format!("{:.2}", f.value))
            };
            let wire = Wire::usual(false, row.size).bits(row.size) as f64;
            text.push_str(&format!(
                "| {} | {} | {:.4} ({:.4}–{:.4}) | {} | {:.3} | {:.3} | {} | {} | {} |\n",
                row.size,
                row.contender,
                rate.value / 1e6,
                rate.interval.0 / 1e6,
                rate.interval.1 / 1e6,
                dash(row.spread(), |s| format!("{:.1}", 100.0 * s)),
                rate.value * (8 * row.size) as f64 / 1e9,
                rate.value * wire / 1e9,
                row.limits(),
                cores(&|t| t.send_cores),
                cores(&|t| t.receive_cores),
            ));
        }
        text
    }

    /// Adds everything to a results file.
    pub fn note(&self, record: &mut Record) {
        record
            .parameter("place", self.place.clone())
            .parameter("sizes", self.campaign.sizes.clone())
            .parameter("engines", self.campaign.contenders.clone())
            .parameter("repeats", self.campaign.repeats);
        self.campaign.note_search(record);
        for row in &self.rows {
            record.row(json!({
                "size": row.size, "engine": row.contender, "spread": row.spread(),
                "searches": row.searches(),
            }));
            let name = format!("lossless_{}_{}", row.contender, row.size);
            record.figure(&name, row.rate().as_ref());
        }
    }
}

#[cfg(test)]
#[path = "lossless_tests.rs"]
mod tests;
