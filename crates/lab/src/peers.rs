//! Peers side by side: iperf3, our `plain` engine (one call a packet) and our best one, on the same place,
//! cores and sizes, in turn A B C A B C, so that a slow minute of the host meets all of them.
//!
//! Two questions: packets/s flat out, and the highest rate without loss, by the same search for each. The
//! first contender is what ratios are taken to. Refuses: see [`LosslessError`].

pub mod iperf3;

use std::time::Duration;

use serde_json::{Value, json};

use crate::child::TrialError;
use crate::lossless::pair::Pair;
use crate::lossless::{Bench, LosslessError, OnCores, Outcome, Row, Settings, Trial, find, time};
use crate::record::{Figure, Record};
use iperf3::Iperf3;

/// Name of the contender that is not ours.
pub const IPERF3: &str = "iperf3";

/// iperf3 and our engines behind one seam.
pub struct Contest<'a> {
    /// Ours.
    pub pair: Pair<'a>,
    /// Theirs.
    pub iperf3: Iperf3<'a>,
}

impl Bench for Contest<'_> {
    fn trial(
        &mut self,
        contender: &str,
        size: usize,
        packets_per_s: Option<f64>,
        length: Duration,
    ) -> Result<Trial, TrialError> {
        match contender {
            IPERF3 => self.iperf3.trial(size, packets_per_s, length),
            engine => self.pair.trial(engine, size, packets_per_s, length),
        }
    }
}

impl OnCores for Contest<'_> {
    fn put_on(&mut self, receiver: usize, sender: usize) {
        self.pair.put_on(receiver, sender);
        (self.iperf3.receive_core, self.iperf3.send_core) = (Some(receiver), Some(sender));
    }
}

/// What to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Contenders; ratios are to the first.
    pub contenders: Vec<String>,
    /// Payload sizes, bytes.
    pub sizes: Vec<usize>,
    /// Rounds.
    pub repeats: usize,
    /// Length of a flat-out trial.
    pub flat_out: Duration,
    /// The search for the rate without loss; `None` leaves it out.
    pub lossless: Option<Settings>,
}

/// One contender and size.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Flat out, one trial a round.
    pub flat_out: Vec<Trial>,
    /// Searches, one a round.
    pub lossless: Row,
}

impl Standing {
    /// Packets/s delivered flat out.
    pub fn delivered(&self) -> Option<Figure> {
        self.figure("packets/s", |t| Some(t.delivered_per_s))
    }

    fn figure(&self, unit: &str, value: impl Fn(&Trial) -> Option<f64>) -> Option<Figure> {
        let values: Option<Vec<f64>> = self.flat_out.iter().map(value).collect();
        Figure::of(&values?, unit)
    }
}

/// A finished comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What was asked for.
    pub campaign: Campaign,
    /// Where.
    pub place: String,
    /// Sizes, then contenders in their order.
    pub standings: Vec<Standing>,
}

impl Campaign {
    /// # Errors
    /// Empty lists, or a search that cannot be made.
    pub fn check(&self) -> Result<(), LosslessError> {
        for (empty, what) in [
            (self.sizes.is_empty(), "the list of sizes"),
            (self.contenders.is_empty(), "the list of contenders"),
            (self.repeats == 0, "the number of repeats"),
            (self.flat_out.is_zero(), "the flat-out duration"),
        ] {
            if empty {
                return Err(LosslessError::Empty(what));
            }
        }
        Ok(self.lossless.as_ref().map_or(Ok(()), Settings::check)?)
    }

    /// Usual time of it all.
    pub fn usual(&self) -> Duration {
        let search = self.lossless.map_or(Duration::ZERO, |s| s.usual());
        let all = self.sizes.len() * self.contenders.len() * self.repeats;
        (self.flat_out + Duration::from_millis(500) + search) * all as u32
    }

    /// Runs it; `tell` gets lines of progress with the time left.
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
        let mut standings = Vec::new();
        for &size in &self.sizes {
            for contender in &self.contenders {
                let lossless = Row { contender: contender.clone(), size, outcomes: Vec::new() };
                standings.push(Standing { flat_out: Vec::new(), lossless });
            }
        }
        let turns = standings.len() * self.repeats;
        let each = self.usual() / turns.max(1) as u32;
        for turn in 0..turns {
            let at = turn % standings.len();
            let Standing { flat_out, lossless } = &mut standings[at];
            let (contender, size) = (lossless.contender.clone(), lossless.size);
            let name = format!("[{}/{turns}] {size} B, {contender}", turn + 1);
            let after = each * (turns - turn - 1) as u32;
            tell(&format!("{name}: flat out, {} left", time(after + each)));
            let trial = bench.trial(&contender, size, None, self.flat_out).map_err(|cause| {
                LosslessError::Trial { contender: contender.clone(), size, cause }
            })?;
            tell(&format!(
                "{name}: flat out {:.4} Mpackets/s sent, {:.4} delivered, lost {}",
                trial.sent_per_s / 1e6,
                trial.delivered_per_s / 1e6,
                trial.lost()
            ));
            flat_out.push(trial);
            if let Some(settings) = &self.lossless {
                let mut progress = |what: &str, left: Duration| {
                    tell(&format!("{name}: {what}, {} left", time(after + left)));
                };
                let outcome = find(bench, &contender, size, settings, &mut progress)?;
                let rate = outcome.rate() / 1e6;
                tell(&format!("{name}: {rate:.4} Mpackets/s without loss"));
                lossless.outcomes.push(outcome);
            }
        }
        Ok(Results { campaign: self, place: place.to_owned(), standings })
    }
}

impl Results {
    /// The first contender's standing at the same size.
    fn first(&self, at: usize) -> &Standing {
        let n = self.campaign.contenders.len();
        &self.standings[at / n * n]
    }

    /// Median over the first contender's median; `None` if that is 0.
    fn ratio(ours: Option<Figure>, theirs: Option<Figure>) -> Option<f64> {
        let (ours, theirs) = (ours?.value, theirs?.value);
        (theirs > 0.0).then(|| ours / theirs)
    }

    fn ratios(&self, at: usize) -> (Option<f64>, Option<f64>) {
        let (own, first) = (&self.standings[at], self.first(at));
        let flat = Results::ratio(own.delivered(), first.delivered());
        (flat, Results::ratio(own.lossless.rate(), first.lossless.rate()))
    }

    /// The table: medians over the rounds.
    pub fn markdown(&self) -> String {
        let first = &self.campaign.contenders[0];
        let mut text = format!(
            "| size, B | contender | flat out, delivered Mpackets/s (min–max) | lost, % | sender, cores \
             | receiver, cores | ratio to {first} | without loss, Mpackets/s (min–max) | payload, Gb/s \
             | ratio to {first} |\n|--:|:--|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        );
        let mega = |f: Option<Figure>| {
            f.map_or("–".to_owned(), |f| {
                let (low, high) = f.interval;
                format!("{:.4} ({:.4}–{:.4})", f.value / 1e6, low / 1e6, high / 1e6)
            })
        };
        let times = |r: Option<f64>| r.map_or("–".to_owned(), |r| format!("{r:.2}"));
        for (at, s) in self.standings.iter().enumerate() {
            let plain = |f: &dyn Fn(&Trial) -> Option<f64>, digits: usize| {
                s.figure("", f).map_or("–".to_owned(), |f| format!("{:.*}", digits, f.value))
            };
            let (flat, lossless) = self.ratios(at);
            let (rate, size) = (s.lossless.rate(), s.lossless.size);
            let gbps = rate
                .as_ref()
                .map_or("–".to_owned(), |r| format!("{:.3}", r.value * (8 * size) as f64 / 1e9));
            text.push_str(&format!(
                "| {size} | {} | {} | {} | {} | {} | {} | {} | {gbps} | {} |\n",
                s.lossless.contender,
                mega(s.delivered()),
                plain(&|t| Some(100.0 * t.lost() as f64 / t.sent.max(1) as f64), 2),
                plain(&|t| t.send_cores, 2),
                plain(&|t| t.receive_cores, 2),
                times(flat),
                mega(rate),
                times(lossless),
            ));
        }
        text
    }

    /// Adds everything to a results file.
    pub fn note(&self, record: &mut Record) {
        record
            .parameter("place", self.place.clone())
            .parameter("sizes", self.campaign.sizes.clone())
            .parameter("contenders", self.campaign.contenders.clone())
            .parameter("repeats", self.campaign.repeats)
            .parameter("flat_out_s", self.campaign.flat_out.as_secs_f64());
        if let Some(settings) = &self.campaign.lossless {
            settings.note(record);
        }
        for (at, s) in self.standings.iter().enumerate() {
            let Row { contender, size, .. } = &s.lossless;
            let flat: Vec<Value> = s.flat_out.iter().map(Trial::json).collect();
            let searches: Vec<Value> = s.lossless.outcomes.iter().map(Outcome::json).collect();
            let (flat_ratio, lossless_ratio) = self.ratios(at);
            record.row(json!({
                "size": size, "contender": contender, "flat_out": flat, "searches": searches,
                "flat_out_ratio": flat_ratio, "lossless_ratio": lossless_ratio,
            }));
            let figures = [("flat-out", s.delivered()), ("lossless", s.lossless.rate())];
            for (what, figure) in figures {
                if let Some(figure) = figure {
                    record.figure(&format!("{what}_{contender}_{size}"), &figure);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
