//! Bytes a second on their way to a broker or a disk: several ways of doing it, in turn A B A B on the same machine.
//!
//! The first contender is what the others are compared with, and it is not ours: Kafka's own `ProducerPerformance`
//! ([`performance`]), or `dd`. A ratio is taken within a round, where both met the same minutes of the host; its
//! median counts. Refuses: empty lists, trials that failed, trials without time or bytes; see [`StreamingError`].

pub mod broker;
pub mod dd;
pub mod performance;

use std::time::Duration;

use fullcount_core::quantity::spoken;
use serde_json::{Value, json};

use crate::error::TrialError;
use crate::record::{Figure, Record, dash};

/// A comparison without a result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum StreamingError {
    #[error("{0} is empty or 0: at least one is needed")]
    Empty(&'static str),
    #[error("{contender}, messages of {size} B, compression {compression}: {cause}")]
    Trial { contender: String, size: usize, compression: String, cause: Box<TrialError> },
}

/// What is sent or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamingPoint {
    /// Bytes of a message.
    pub size: usize,
    /// Compression by its name in Kafka.
    pub compression: String,
}

/// One trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StreamingTrial {
    /// Messages.
    pub messages: u64,
    /// Events in them.
    pub events: u64,
    /// Bytes before any compression.
    pub bytes: u64,
    /// From the first to the confirmation of the last.
    pub seconds: f64,
    /// CPU time of this end, if it is known.
    pub cpu_s: Option<f64>,
}

impl StreamingTrial {
    fn per_second(&self, n: u64) -> f64 {
        n as f64 / self.seconds
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.per_second(self.bytes)
    }

    fn json(&self) -> Value {
        json!({
            "messages": self.messages, "events": self.events, "bytes": self.bytes, "seconds": self.seconds,
            "cpu_s": self.cpu_s, "mb_per_s": self.bytes_per_s() / 1e6,
            "events_per_s": self.per_second(self.events),
        })
    }

    /// What cannot be a result.
    fn check(&self, contender: &str) -> Result<(), TrialError> {
        if self.bytes > 0 && self.seconds > 0.0 && self.seconds.is_finite() {
            return Ok(());
        }
        let reason = format!("{} B in {} s are no result", self.bytes, self.seconds);
        Err(TrialError::Result { program: contender.to_owned(), reason })
    }
}

/// Makes trials.
pub trait Ways {
    /// One trial of a contender.
    ///
    /// # Errors
    /// Why it gave no result.
    fn trial(
        &mut self,
        contender: &str,
        point: &StreamingPoint,
    ) -> Result<StreamingTrial, TrialError>;
}

/// What to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingCampaign {
    /// Contenders; ratios are to the first.
    pub contenders: Vec<String>,
    /// Sizes and compressions.
    pub points: Vec<StreamingPoint>,
    /// Rounds.
    pub repeats: usize,
}

/// One contender at one point, one trial a round.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingStanding {
    /// Point.
    pub point: StreamingPoint,
    /// Contender.
    pub contender: String,
    /// Its trials.
    pub trials: Vec<StreamingTrial>,
}

impl StreamingStanding {
    fn figure(&self, unit: &str, value: impl Fn(&StreamingTrial) -> Option<f64>) -> Option<Figure> {
        let values: Option<Vec<f64>> = self.trials.iter().map(value).collect();
        Figure::of(&values?, unit)
    }

    /// MB/s, of 10⁶ bytes.
    pub fn megabytes(&self) -> Option<Figure> {
        self.figure("MB/s", |t| Some(t.bytes_per_s() / 1e6))
    }
}

/// A finished comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamingResults {
    /// What was asked for.
    pub campaign: StreamingCampaign,
    /// Points, then contenders in their order.
    pub standings: Vec<StreamingStanding>,
}

impl StreamingCampaign {
    /// # Errors
    /// Empty lists.
    pub fn check(&self) -> Result<(), StreamingError> {
        for (empty, what) in [
            (self.contenders.is_empty(), "the list of contenders"),
            (self.points.is_empty(), "the list of sizes or compressions"),
            (self.repeats == 0, "the number of repeats"),
        ] {
            if empty {
                return Err(StreamingError::Empty(what));
            }
        }
        Ok(())
    }

    /// Runs it; `tell` gets lines of progress with the time left. Every contender is tried once before, at the first
    /// point: a broker's or a disk's first trial is slower than all later ones.
    pub fn run(
        self,
        ways: &mut dyn Ways,
        tell: &mut dyn FnMut(&str),
    ) -> Result<StreamingResults, StreamingError> {
        self.check()?;
        let mut one = |contender: &str, point: &StreamingPoint| {
            let trial = ways.trial(contender, point);
            let trial = trial.and_then(|trial| trial.check(contender).map(|()| trial));
            trial.map_err(|cause| StreamingError::Trial {
                contender: contender.to_owned(),
                size: point.size,
                compression: point.compression.clone(),
                cause: Box::new(cause),
            })
        };
        for contender in &self.contenders {
            tell(&format!("{contender}: warming up"));
            one(contender, &self.points[0])?;
        }
        let mut standings: Vec<StreamingStanding> = Vec::new();
        for point in &self.points {
            standings.extend(self.contenders.iter().map(|contender| StreamingStanding {
                point: point.clone(),
                contender: contender.clone(),
                trials: Vec::new(),
            }));
        }
        let turns = standings.len() * self.repeats;
        let begun = std::time::Instant::now();
        for turn in 0..turns {
            let at = turn % standings.len();
            let StreamingStanding { point, contender, trials } = &mut standings[at];
            let trial = one(contender, point)?;
            let left = begun.elapsed() / (turn as u32 + 1) * (turns - turn - 1) as u32;
            tell(&format!(
                "[{}/{turns}] {} B, {}, {contender}: {:.0} MB/s, {} left",
                turn + 1,
                point.size,
                point.compression,
                trial.bytes_per_s() / 1e6,
                spoken(Duration::from_secs(left.as_secs())),
            ));
            trials.push(trial);
        }
        Ok(StreamingResults { campaign: self, standings })
    }
}

impl StreamingResults {
    /// Rates over those of the first contender, round by round.
    pub fn ratio(&self, at: usize) -> Option<Figure> {
        let n = self.campaign.contenders.len();
        let (own, first) = (&self.standings[at].trials, &self.standings[at / n * n].trials);
        let each = |(own, first): (&StreamingTrial, &StreamingTrial)| {
            own.bytes_per_s() / first.bytes_per_s()
        };
        Figure::of(&own.iter().zip(first).map(each).collect::<Vec<f64>>(), "times")
    }

    /// The table: medians over the rounds, least and most beside them.
    pub fn markdown(&self) -> String {
        let first = &self.campaign.contenders[0];
        let mut text = format!(
            "| message, B | compression | contender | MB/s (least–most) | messages/s | M events/s | CPU, s/GB \
             | ratio to {first} (least–most) |\n|--:|:--|:--|--:|--:|--:|--:|--:|\n"
        );
        for (at, s) in self.standings.iter().enumerate() {
            let plain = |value: &dyn Fn(&StreamingTrial) -> Option<f64>, digits: usize| {
                dash(s.figure("", value), |f| format!("{:.digits$}", f.value))
            };
            let events =
                |t: &StreamingTrial| Some(t.per_second(t.events) / 1e6).filter(|_| t.events > 0);
            let messages =
                |t: &StreamingTrial| Some(t.per_second(t.messages)).filter(|_| t.messages > 0);
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
                s.point.size,
                s.point.compression,
                s.contender,
                Figure::cell(s.megabytes(), 0, 1.0),
                plain(&messages, 0),
                plain(&events, 1),
                plain(&|t| Some(t.cpu_s? / (t.bytes as f64 / 1e9)), 2),
                Figure::cell(self.ratio(at), 2, 1.0),
            ));
        }
        text
    }

    /// Adds everything to a results file.
    pub fn note(&self, record: &mut Record) {
        record
            .parameter("contenders", self.campaign.contenders.clone())
            .parameter("repeats", self.campaign.repeats);
        for (at, s) in self.standings.iter().enumerate() {
            let StreamingPoint { size, compression } = &s.point;
            let trials: Vec<Value> = s.trials.iter().map(StreamingTrial::json).collect();
            let ratio = self.ratio(at);
            record.row(json!({
                "size": size, "compression": compression, "contender": s.contender, "trials": trials,
                "ratio": ratio.as_ref().map(|f| f.value),
            }));
            let name = format!("{}_{size}_{compression}", s.contender);
            record.figure(&format!("rate_{name}"), s.megabytes().as_ref());
            record.figure(&format!("ratio_{name}"), ratio.as_ref());
        }
    }
}

/// CPU time of this process and of its children that have ended, s; `None` where the kernel does not say.
pub fn cpu_seconds() -> Option<f64> {
    cpu_of(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

fn cpu_of(stat: &str) -> Option<f64> {
    // Behind the name, which may hold anything: state is field 3, the four times are 14 to 17. A tick is 10 ms on every
    // Linux that runs this.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks: Option<Vec<u64>> = times.map(|t| t.parse().ok()).collect();
    let ticks = ticks.filter(|t| t.len() == 4)?;
    Some(ticks.iter().sum::<u64>() as f64 / 100.0)
}

#[cfg(test)]
#[path = "streaming_tests.rs"]
mod tests;
