//! Sweep over packet sizes: `receive` and `send` as child processes on loopback, at a set rate or flat
//! out, several times each; a table for people and a results file.
//!
//! This file plans, judges and tabulates; [`children`] runs the processes. The amounts are those of the
//! children's summaries (`fullcount/summary/1`): sent by the sender, delivered and lost by the receiver,
//! and what neither explains is shown as unaccounted. Refuses: see [`SweepError`].

pub mod children;

use std::time::Duration;

use serde_json::{Value, json};

use crate::record::{Figure, Record, RecordError};

/// Payload sizes of the loopback sweep, bytes: small packets, the sizes of Christensen et al. (2018),
/// Ethernet's and jumbo frames' limits.
pub const SIZES: [usize; 16] =
    [64, 128, 256, 472, 772, 1000, 1472, 1700, 1800, 1900, 2000, 2200, 2972, 4472, 5972, 8972];

/// Sizes measured flat out.
pub const FLAT_OUT_SIZES: [usize; 3] = [64, 1472, 8972];

/// Why a sweep stopped.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Nothing to do.
    #[error("sweep: {0} is empty or 0: give at least one size and one repeat, and a duration")]
    Empty(&'static str),
    /// A child could not be started.
    #[error("{program}: {cause}: give the path of the fullcount binary")]
    Start {
        /// Path as given.
        program: String,
        /// The system's words.
        cause: std::io::Error,
    },
    /// No port to be had on loopback.
    #[error("127.0.0.1: no free UDP port: {0}")]
    Port(std::io::Error),
    /// The receiver did not open its port.
    #[error("receive: port {port} was not open after {seconds} s; it said: {said}")]
    NotReady {
        /// Port.
        port: u16,
        /// Time waited.
        seconds: u64,
        /// End of its standard error.
        said: String,
    },
    /// A child failed (exit codes 0 and 3 are results).
    #[error("{verb}: ended with {status}; it said: {said}")]
    Failed {
        /// `receive` or `send`.
        verb: &'static str,
        /// Exit status.
        status: String,
        /// End of its standard error.
        said: String,
    },
    /// A child did not end.
    #[error("{verb}: still running {seconds} s after it should have ended, and stopped")]
    Stuck {
        /// `receive` or `send`.
        verb: &'static str,
        /// Time waited.
        seconds: u64,
    },
    /// The last line of standard output is not a summary.
    #[error("{verb}: no summary: {reason}; run it with --json by hand")]
    Summary {
        /// `receive` or `send`.
        verb: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The results file.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// How much is offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A payload rate, bit/s.
    Offered(f64),
    /// As fast as the sender can.
    FlatOut,
}

impl Load {
    /// Text for `--rate`; `None`: no such option, flat out.
    pub fn rate(&self) -> Option<String> {
        match self {
            Load::Offered(bits) => Some(format!("{bits:.0}bps")),
            Load::FlatOut => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Load::Offered(bits) => format!("{} Gb/s", bits / 1e9),
            Load::FlatOut => "flat out".to_owned(),
        }
    }
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Payload sizes, bytes.
    pub sizes: Vec<usize>,
    /// Offered rate.
    pub load: Load,
    /// Sending time per point.
    pub duration: Duration,
    /// Measurements per point.
    pub repeats: usize,
}

impl Plan {
    /// The 16 sizes at 10 Gb/s of payload, 10 s each, once.
    pub fn offered() -> Plan {
        Plan {
            sizes: SIZES.to_vec(),
            load: Load::Offered(10e9),
            duration: Duration::from_secs(10),
            repeats: 1,
        }
    }

    /// Flat out at 64, 1472 and 8972 B, 10 s each, three times.
    pub fn flat_out() -> Plan {
        Plan { sizes: FLAT_OUT_SIZES.to_vec(), load: Load::FlatOut, repeats: 3, ..Plan::offered() }
    }

    fn check(&self) -> Result<(), SweepError> {
        if self.sizes.is_empty() {
            return Err(SweepError::Empty("the list of sizes"));
        }
        if self.repeats == 0 {
            return Err(SweepError::Empty("the number of repeats"));
        }
        if self.duration.is_zero() {
            return Err(SweepError::Empty("the duration"));
        }
        Ok(())
    }
}

/// One measurement of one point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Packets that the sender sent.
    pub sent: u64,
    /// First copies that the receiver accepted.
    pub delivered: u64,
    /// Packets lost, all places.
    pub lost: u64,
    /// The places where some were lost, with the number.
    pub lost_at: Vec<(String, u64)>,
    /// Packets that arrived and were refused, or still waited.
    pub set_aside: u64,
    /// Duplicates and reordered packets.
    pub duplicate: u64,
    /// Reordered packets.
    pub reordered: u64,
    /// Payload sent, Gb/s.
    pub sent_gbps: f64,
    /// Payload received, Gb/s.
    pub received_gbps: f64,
    /// Packets received, millions per second.
    pub mpps: f64,
    /// Cores in use by the receiver (user + system), if it says so.
    pub receive_cpu: Option<f64>,
    /// Cores in use by the sender (user + system), if it says so.
    pub send_cpu: Option<f64>,
    /// False if the receiver had to be told to stop: no end mark reached it.
    pub ended_by_mark: bool,
}

impl Outcome {
    /// Reads the two summaries.
    ///
    /// # Errors
    /// A summary without the keys that this needs.
    pub fn read(receive: &Value, send: &Value, ended_by_mark: bool) -> Result<Outcome, SweepError> {
        let need = |verb: &'static str, summary: &Value, path: &str| {
            let missing = || SweepError::Summary { verb, reason: format!("{path} is missing") };
            summary.pointer(path).and_then(Value::as_u64).ok_or_else(missing)
        };
        let rate = |summary: &Value, key: &str| {
            summary.pointer(&format!("/rates/{key}")).and_then(Value::as_f64).unwrap_or(0.0)
        };
        let count = |path: &str| receive.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let counts = |path: &str| -> Vec<(String, u64)> {
            let object = receive.pointer(path).and_then(Value::as_object);
            let number = |(k, v): (&String, &Value)| Some((k.clone(), v.as_u64()?));
            object.map(|o| o.iter().filter_map(number).collect()).unwrap_or_default()
        };
        let mut lost_at = counts("/packets/lost");
        lost_at.retain(|(_, n)| *n > 0);
        let rejected: u64 = counts("/packets/rejected").iter().map(|(_, n)| n).sum();
        let cpu = |summary: &Value| {
            // The summary gives CPU seconds.
            let part = |key| summary.pointer(key).and_then(Value::as_f64);
            let seconds = part("/seconds").filter(|&s| s > 0.0)?;
            Some((part("/cpu/user")? + part("/cpu/system")?) / seconds)
        };
        Ok(Outcome {
            sent: need("send", send, "/packets/sent")?,
            delivered: need("receive", receive, "/packets/accepted")?,
            lost: lost_at.iter().map(|(_, n)| n).sum(),
            lost_at,
            set_aside: rejected + count("/packets/queued"),
            duplicate: count("/packets/duplicate"),
            reordered: count("/packets/reordered"),
            sent_gbps: rate(send, "gbps"),
            received_gbps: rate(receive, "gbps"),
            mpps: rate(receive, "mpps"),
            receive_cpu: cpu(receive),
            send_cpu: cpu(send),
            ended_by_mark,
        })
    }

    /// Packets that neither arrived nor stand in the ledger as lost; 0 when everything adds up.
    pub fn unaccounted(&self) -> u64 {
        self.sent.abs_diff(self.delivered + self.lost + self.set_aside)
    }

    fn json(&self) -> Value {
        let lost_at: serde_json::Map<String, Value> =
            self.lost_at.iter().map(|(k, n)| (k.clone(), (*n).into())).collect();
        json!({
            "sent": self.sent, "delivered": self.delivered, "lost": self.lost, "lost_at": lost_at,
            "set_aside": self.set_aside, "duplicate": self.duplicate, "reordered": self.reordered,
            "unaccounted": self.unaccounted(), "sent_gbps": self.sent_gbps,
            "received_gbps": self.received_gbps, "mpps": self.mpps,
            "receive_cpu": self.receive_cpu, "send_cpu": self.send_cpu,
            "ended_by_mark": self.ended_by_mark,
        })
    }
}

/// Measures one point once.
pub trait Measure {
    /// One run of `receive` and `send`.
    ///
    /// # Errors
    /// Whatever kept it from giving a result; the sweep stops.
    fn measure(
        &mut self,
        size: usize,
        load: Load,
        duration: Duration,
    ) -> Result<Outcome, SweepError>;
}

/// All measurements of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Payload size, bytes.
    pub size: usize,
    /// One outcome per repeat.
    pub outcomes: Vec<Outcome>,
}

impl Row {
    fn figure(&self, unit: &str, value: impl Fn(&Outcome) -> f64) -> Option<Figure> {
        Figure::of(&self.outcomes.iter().map(value).collect::<Vec<_>>(), unit)
    }

    /// Payload received, Gb/s, over the repeats.
    pub fn received(&self) -> Option<Figure> {
        self.figure("Gb/s", |o| o.received_gbps)
    }

    /// Packets lost over the repeats; the upper end of the interval is the worst one.
    pub fn lost(&self) -> Option<Figure> {
        self.figure("packets", |o| o.lost as f64)
    }
}

/// A finished sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What was asked for.
    pub plan: Plan,
    /// One row per size, in the order of the plan.
    pub rows: Vec<Row>,
}

/// Time that a measurement takes beside the sending: start, end mark, summary.
const OVERHEAD: Duration = Duration::from_secs(1);

impl Sweep {
    /// Measures every point; `tell` gets one line of progress before and after each.
    ///
    /// # Errors
    /// An empty plan, or the first measurement that gave no result.
    pub fn run(
        plan: Plan,
        measure: &mut dyn Measure,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Sweep, SweepError> {
        plan.check()?;
        let points = plan.sizes.len() * plan.repeats;
        let mut rows: Vec<Row> =
            plan.sizes.iter().map(|&size| Row { size, outcomes: Vec::new() }).collect();
        // Repeats go round the sizes, so that a slow minute of the host does not hit one size alone.
        for done in 0..points {
            let row = &mut rows[done % plan.sizes.len()];
            let left = (plan.duration + OVERHEAD).as_secs() * (points - done) as u64;
            let place = format!("[{}/{points}] {} B, {}", done + 1, row.size, plan.load.name());
            tell(&format!("{place}: running, {left} s left"));
            let outcome = measure.measure(row.size, plan.load, plan.duration)?;
            tell(&format!(
                "{place}: {:.2} Gb/s, {:.2} M packets/s, lost {}, unaccounted {}",
                outcome.received_gbps,
                outcome.mpps,
                outcome.lost,
                outcome.unaccounted()
            ));
            row.outcomes.push(outcome);
        }
        Ok(Sweep { plan, rows })
    }

    /// True if no repeat of any size lost a packet or left one unaccounted.
    pub fn lossless(&self) -> bool {
        let all = || self.rows.iter().flat_map(|r| &r.outcomes);
        all().next().is_some() && all().all(|o| o.lost == 0 && o.unaccounted() == 0)
    }

    /// The table: medians, the interval of the received rate, the worst loss.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| size, B | sent, Gb/s | received, Gb/s (min–max) | M packets/s | lost, worst | PER, worst \
             | lost at | unaccounted | receiver, cores | sender, cores |\n\
             |--:|--:|--:|--:|--:|--:|:--|--:|--:|--:|\n",
        );
        for row in &self.rows {
            let middle = |f: &dyn Fn(&Outcome) -> f64| row.figure("", f).map_or(0.0, |f| f.value);
            let (low, high) = row.received().map_or((0.0, 0.0), |f| f.interval);
            let Some(worst) = row.outcomes.iter().max_by_key(|o| o.lost) else { continue };
            let per = worst.lost as f64 / worst.sent.max(1) as f64;
            let places: Vec<String> =
                worst.lost_at.iter().map(|(place, n)| format!("{place} {n}")).collect();
            let cores = |f: &dyn Fn(&Outcome) -> Option<f64>| {
                let known: Option<Vec<f64>> = row.outcomes.iter().map(f).collect();
                let figure = known.and_then(|v| Figure::of(&v, ""));
                figure.map_or("–".to_owned(), |f| format!("{:.2}", f.value))
            };
            let unaccounted = row.outcomes.iter().map(Outcome::unaccounted).max().unwrap_or(0);
            text.push_str(&format!(
                "| {} | {:.2} | {:.2} ({low:.2}–{high:.2}) | {:.3} | {} | {per:.1e} | {} \
                 | {unaccounted} | {} | {} |\n",
                row.size,
                middle(&|o| o.sent_gbps),
                middle(&|o| o.received_gbps),
                middle(&|o| o.mpps),
                worst.lost,
                if places.is_empty() { "–".to_owned() } else { places.join(", ") },
                cores(&|o| o.receive_cpu),
                cores(&|o| o.send_cpu),
            ));
        }
        text
    }

    /// Adds plan, rows and figures to a record.
    pub fn note(&self, record: &mut Record) {
        record
            .parameter("sizes", self.plan.sizes.clone())
            .parameter("load", self.plan.load.name())
            .parameter("duration_s", self.plan.duration.as_secs_f64())
            .parameter("repeats", self.plan.repeats)
            .parameter("path", "loopback");
        for row in &self.rows {
            let outcomes: Vec<Value> = row.outcomes.iter().map(Outcome::json).collect();
            record.row(json!({"size": row.size, "outcomes": outcomes}));
            if let Some(figure) = row.received() {
                record.figure(&format!("received_{}", row.size), &figure);
            }
            if let Some(figure) = row.lost() {
                record.figure(&format!("lost_{}", row.size), &figure);
            }
        }
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
