//! Peers side by side: iperf3, our `plain` engine (one call a packet) and our best one, on the same place,
//! cores and sizes, in turn A B C A B C, so that a slow minute of the host meets all of them.
//!
//! Two questions: packets/s flat out, and the highest rate without loss, by the same search for each. The
//! first contender is what ratios are taken to. Refuses: see [`LosslessError`].

pub mod iperf3;

use serde_json::{Value, json};

use crate::error::TrialError;
use crate::lossless::pair::Pair;
use crate::lossless::{Bench, LosslessResults, LosslessRow, LosslessTrial, OnCores, TrialPlan};
use crate::record::{Figure, Record, dash};
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
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        match plan.contender {
            IPERF3 => self.iperf3.trial(plan),
            _ => self.pair.trial(plan),
        }
    }
}

impl OnCores for Contest<'_> {
    fn put_on(&mut self, receiver: usize, sender: usize) {
        self.pair.put_on(receiver, sender);
        (self.iperf3.receive_core, self.iperf3.send_core) = (Some(receiver), Some(sender));
    }
}

/// Median over the first contender's median; `None` if that is 0.
fn ratio(ours: Option<Figure>, theirs: Option<Figure>) -> Option<f64> {
    let (ours, theirs) = (ours?.value, theirs?.value);
    (theirs > 0.0).then(|| ours / theirs)
}

/// Of a row to the first contender at the same size: flat out, and without loss.
fn ratios(results: &LosslessResults, at: usize) -> (Option<f64>, Option<f64>) {
    let n = results.campaign.contenders.len();
    let (own, first) = (&results.rows[at], &results.rows[at / n * n]);
    (ratio(own.delivered(), first.delivered()), ratio(own.rate(), first.rate()))
}

/// The table: medians over the rounds.
pub fn markdown(results: &LosslessResults) -> String {
    let first = &results.campaign.contenders[0];
    let mut text = format!(
        "| size, B | contender | flat out, delivered Mpackets/s (min–max) | lost, % | sender, cores \
         | receiver, cores | ratio to {first} | without loss, Mpackets/s (min–max) | payload, Gb/s \
         | ratio to {first} |\n|--:|:--|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    let times = |r: Option<f64>| dash(r, |r| format!("{r:.2}"));
    for (at, s) in results.rows.iter().enumerate() {
        let plain = |f: &dyn Fn(&LosslessTrial) -> Option<f64>, digits: usize| {
            s.flat_out("", f).map_or("–".to_owned(), |f| format!("{:.*}", digits, f.value))
        };
        let (flat, lossless) = ratios(results, at);
        let (rate, size) = (s.rate(), s.size);
        let gbps = rate
            .as_ref()
            .map_or("–".to_owned(), |r| format!("{:.3}", r.value * (8 * size) as f64 / 1e9));
        text.push_str(&format!(
            "| {size} | {} | {} | {} | {} | {} | {} | {} | {gbps} | {} |\n",
            s.contender,
            Figure::cell(s.delivered(), 4, 1e6),
            plain(&|t| Some(100.0 * t.lost() as f64 / t.sent.max(1) as f64), 2),
            plain(&|t| t.send_cores, 2),
            plain(&|t| t.receive_cores, 2),
            times(flat),
            Figure::cell(rate, 4, 1e6),
            times(lossless),
        ));
    }
    text
}

/// Adds everything to a results file.
pub fn note(results: &LosslessResults, record: &mut Record) {
    record
        .parameter("place", results.place.clone())
        .parameter("sizes", results.campaign.sizes.clone())
        .parameter("contenders", results.campaign.contenders.clone())
        .parameter("repeats", results.campaign.repeats)
        .parameter("flat_out_s", results.campaign.flat_out.map(|time| time.as_secs_f64()));
    results.campaign.note_search(record);
    for (at, s) in results.rows.iter().enumerate() {
        let LosslessRow { contender, size, .. } = s;
        let flat: Vec<Value> = s.flat_out.iter().map(LosslessTrial::json).collect();
        let (flat_ratio, lossless_ratio) = ratios(results, at);
        record.row(json!({
            "size": size, "contender": contender, "flat_out": flat, "searches": s.searches(),
            "flat_out_ratio": flat_ratio, "lossless_ratio": lossless_ratio,
        }));
        record.figure(&format!("flat-out_{contender}_{size}"), s.delivered().as_ref());
        record.figure(&format!("lossless_{contender}_{size}"), s.rate().as_ref());
    }
}

#[cfg(test)]
#[path = "peers_tests.rs"]
mod tests;
