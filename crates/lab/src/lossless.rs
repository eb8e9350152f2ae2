//! The highest rate at which nothing is lost, for each size and engine.
//!
//! [`search`] decides what to try, a [`Bench`] tries it ([`pair`]: `fullcount send` into `receive`), this
//! file goes round sizes and repeats, and writes table and results. The ceiling of a search is the rate
//! that the sender reaches flat out, unless one is given. Repeats are whole searches, and they go round
//! the sizes, so that a slow minute of the host does not hit one size alone. Refuses: see
//! [`LosslessError`]. Source: RFC 2544 section 26.1.

pub mod pair;
pub mod place;
pub mod search;

use std::time::Duration;

use fullcount_core::link::Wire;
use serde_json::{Value, json};

use crate::child::TrialError;
use crate::cores::{Near, on_near_cores};
use crate::record::{Figure, Record};
use search::{Found, Next, Phase, Plan, PlanError, Search, Verdict};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LosslessError {
    /// The search cannot be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A trial gave no result.
    #[error("{contender}, {size} B: {cause}")]
    Trial {
        /// Engine or peer.
        contender: String,
        /// Payload size, bytes.
        size: usize,
        /// Why.
        cause: TrialError,
    },
    /// Nothing to do.
    #[error("{0} must not be empty or 0")]
    Empty(&'static str),
    /// The sender sent nothing at all.
    #[error("{contender}, {size} B: nothing was sent flat out; see the sender's messages")]
    Silent {
        /// Engine or peer.
        contender: String,
        /// Payload size, bytes.
        size: usize,
    },
}

/// What one trial showed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trial {
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

impl Trial {
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

/// Makes trials.
pub trait Bench {
    /// One trial: `packets_per_s` or flat out, for `length`.
    ///
    /// # Errors
    /// Whatever kept it from giving a result.
    fn trial(
        &mut self,
        contender: &str,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Result<Trial, TrialError>;
}

impl<B: Bench + ?Sized> Bench for &mut B {
    fn trial(
        &mut self,
        contender: &str,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Result<Trial, TrialError> {
        (**self).trial(contender, size, packets_per_s, length)
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
    fn trial(
        &mut self,
        contender: &str,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Result<Trial, TrialError> {
        let bench = &mut self.bench;
        let (trial, near) = on_near_cores(&mut self.last, |cores| {
            bench.put_on(cores.receiver, cores.sender);
            bench.trial(contender, size, packets_per_s, length)
        })?;
        self.trials += 1;
        self.far += u32::from(!near.is_near());
        self.longest_ns = self.longest_ns.max(near.round_trip_ns);
        Ok(trial)
    }
}

/// How hard to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
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

impl Default for Settings {
    fn default() -> Settings {
        Settings {
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

impl Settings {
    fn plan(&self, ceiling: f64) -> Plan {
        Plan {
            floor: self.floor * ceiling,
            ceiling,
            resolution: self.resolution,
            trial: self.trial,
            confirm: self.confirm,
            confirmations: self.confirmations,
            retries: self.retries,
        }
    }

    /// # Errors
    /// See [`PlanError`].
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
pub struct Outcome {
    /// What was found; `None` if even the floor loses.
    pub found: Option<Found>,
    /// Highest rate that was tried, packets/s.
    pub ceiling: f64,
    /// Every trial: what for, asked packets/s, what it showed.
    pub trials: Vec<(Phase, f64, Trial)>,
}

impl Outcome {
    /// Packets/s without loss; 0 if there is no such rate above the floor.
    pub fn rate(&self) -> f64 {
        self.found.map_or(0.0, |f| f.rate)
    }

    /// Median over the confirmation trials at the rate found.
    fn confirmed(&self, value: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
        let rate = self.found?.asked;
        let at = self.trials.iter().filter(|(phase, asked, trial)| {
            *phase != Phase::Search && *asked == rate && trial.lost() == 0
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
                let phase = if *phase == Phase::Search { "search" } else { "confirm" };
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
    settings: &Settings,
    tell: &mut dyn FnMut(&str, Duration),
) -> Result<Outcome, LosslessError> {
    let place = |cause| LosslessError::Trial { contender: contender.to_owned(), size, cause };
    let ceiling = match settings.ceiling {
        Some(Ceiling::Packets(n)) => n,
        Some(Ceiling::Bits(bits)) => bits / (8 * size.max(1)) as f64,
        None => {
            tell("flat out, to know the ceiling", settings.usual());
            bench.trial(contender, size, None, settings.trial).map_err(place)?.sent_per_s
        }
    };
    if ceiling <= 0.0 {
        return Err(LosslessError::Silent { contender: contender.to_owned(), size });
    }
    let mut search = Search::new(settings.plan(ceiling))?;
    let mut trials = Vec::new();
    let found = loop {
        match search.next() {
            Next::Trial(ask) => {
                let what = match ask.phase {
                    Phase::Search => "search".to_owned(),
                    Phase::Confirm { number, of } => format!("confirmation {number} of {of}"),
                };
                tell(&format!("{what} at {:.4} Mpackets/s", ask.rate / 1e6), search.left());
                let trial =
                    bench.trial(contender, size, Some(ask.rate), ask.length).map_err(place)?;
                trials.push((ask.phase, ask.rate, trial));
                search.report(trial.verdict(ask.rate));
            }
            Next::Found(found) => break Some(found),
            Next::Nothing(..) => break None,
        }
    };
    Ok(Outcome { found, ceiling, trials })
}

/// All searches of one engine and size.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Engine.
    pub contender: String,
    /// Payload size, bytes.
    pub size: usize,
    /// One per repeat.
    pub outcomes: Vec<Outcome>,
}

impl Row {
    /// Packets/s over the repeats.
    pub fn rate(&self) -> Option<Figure> {
        let rates: Vec<f64> = self.outcomes.iter().map(Outcome::rate).collect();
        Figure::of(&rates, "packets/s")
    }

    /// Half of the interval over the median: ± so much.
    pub fn spread(&self) -> Option<f64> {
        let figure = self.rate()?;
        let (low, high) = figure.interval;
        (figure.value > 0.0).then(|| (high - low) / 2.0 / figure.value)
    }

    fn limits(&self) -> String {
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

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Engines.
    pub contenders: Vec<String>,
    /// Payload sizes, bytes.
    pub sizes: Vec<usize>,
    /// Whole searches of each.
    pub repeats: usize,
    /// How each is made.
    pub settings: Settings,
}

/// A finished campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What was asked for.
    pub campaign: Campaign,
    /// Where it was measured.
    pub place: String,
    /// One per engine and size.
    pub rows: Vec<Row>,
}

impl Campaign {
    /// # Errors
    /// Empty lists, or a search that cannot be made.
    pub fn check(&self) -> Result<(), LosslessError> {
        if self.sizes.is_empty() {
            return Err(LosslessError::Empty("the list of sizes"));
        }
        if self.contenders.is_empty() {
            return Err(LosslessError::Empty("the list of engines"));
        }
        if self.repeats == 0 {
            return Err(LosslessError::Empty("the number of repeats"));
        }
        Ok(self.settings.check()?)
    }

    /// Searches everything; `tell` gets lines of progress with the time left.
    ///
    /// # Errors
    /// See [`LosslessError`].
    pub fn run(
        self,
        place: &str,
        bench: &mut dyn Bench,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Results, LosslessError> {
        self.check()?;
        let mut rows = Vec::new();
        for &size in &self.sizes {
            for contender in &self.contenders {
                rows.push(Row { contender: contender.clone(), size, outcomes: Vec::new() });
            }
        }
        let searches = rows.len() * self.repeats;
        for done in 0..searches {
            let at = done % rows.len();
            let row = &mut rows[at];
            let name = format!("[{}/{searches}] {} B, {}", done + 1, row.size, row.contender);
            let after = self.settings.usual() * (searches - done - 1) as u32;
            let mut progress = |what: &str, left: Duration| {
                tell(&format!("{name}: {what}, {} left", time(left + after)));
            };
            let outcome = find(bench, &row.contender, row.size, &self.settings, &mut progress)?;
            let limit = outcome.found.map_or("even the floor loses", |f| f.limit.name());
            tell(&format!(
                "{name}: {:.4} Mpackets/s = {:.3} Gb/s without loss (limit: {limit}), {} trials",
                outcome.rate() / 1e6,
                outcome.rate() * (8 * row.size) as f64 / 1e9,
                outcome.trials.len()
            ));
            row.outcomes.push(outcome);
        }
        Ok(Results { campaign: self, place: place.to_owned(), rows })
    }
}

/// `2 min 05 s` or `12 s`.
pub fn time(t: Duration) -> String {
    let seconds = t.as_secs_f64().ceil() as u64;
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {:02} s", seconds % 60),
    }
}

impl Results {
    /// True if every search found a rate.
    pub fn complete(&self) -> bool {
        self.rows.iter().flat_map(|r| &r.outcomes).all(|o| o.found.is_some())
    }

    /// The table.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| size, B | engine | without loss, Mpackets/s (min–max) | ± % | payload, Gb/s | on the wire, Gb/s \
             | limited by | sender, cores | receiver, cores |\n|--:|:--|--:|--:|--:|--:|:--|--:|--:|\n",
        );
        for row in &self.rows {
            let Some(rate) = row.rate() else { continue };
            let cores = |f: &dyn Fn(&Trial) -> Option<f64>| {
                let known: Option<Vec<f64>> = row.outcomes.iter().map(|o| o.confirmed(f)).collect();
                let figure = known.and_then(|v| Figure::of(&v, ""));
                figure.map_or("–".to_owned(), |f| format!("{:.2}", f.value))
            };
            let wire = Wire::usual(false, row.size).bits(row.size) as f64;
            text.push_str(&format!(
                "| {} | {} | {:.4} ({:.4}–{:.4}) | {} | {:.3} | {:.3} | {} | {} | {} |\n",
                row.size,
                row.contender,
                rate.value / 1e6,
                rate.interval.0 / 1e6,
                rate.interval.1 / 1e6,
                row.spread().map_or("–".into(), |s| format!("{:.1}", 100.0 * s)),
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
        self.campaign.settings.note(record);
        for row in &self.rows {
            let outcomes: Vec<Value> = row.outcomes.iter().map(Outcome::json).collect();
            record.row(json!({
                "size": row.size, "engine": row.contender, "spread": row.spread(),
                "searches": outcomes,
            }));
            if let Some(figure) = row.rate() {
                record.figure(&format!("lossless_{}_{}", row.contender, row.size), &figure);
            }
        }
    }
}

#[cfg(test)]
#[path = "lossless_tests.rs"]
mod tests;
