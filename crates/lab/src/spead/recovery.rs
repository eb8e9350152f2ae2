//! `lab spead recovery`: heaps of 4 MiB over a link that loses frames, with and without `keep` and `resend`.
//!
//! The link emulator stands between two namespaces: it loses a share of the frames by a seed, in both directions, so that reports and requests are
//! lost as well. Each turn of a share has a link of its own, over which heaps go without recovery and then with it. A goal of ours: with recovery every
//! heap arrives whole. Needs root. Source: `docs/lab-spead.md`; the wish is the memo's, `docs/formats/spead.md` section 20.

use std::path::PathBuf;
use std::time::Duration;

use fullcount_child::Asked;
use fullcount_core::sim::{Amount, Spec};
use serde_json::{Value, json};

use super::ground::SpeadGround;
use super::heaps_run::{HeapsRun, HeapsRunner};
use crate::Tell;
use crate::error::LabError;
use crate::record::{Figure, Record};

/// Where the sender hears reports and requests.
const REPORTS: u16 = 17_142;
/// MTU of the links, for packets of the memo's size and more.
const MTU: usize = 9000;
/// Silence that ends a stream whose stop heap was lost.
const STALL: &str = "stall_timeout=2s";

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveryOrder {
    /// The `fullcount` binary.
    pub program: PathBuf,
    /// Shares of the frames that the link loses, 0 to 0.1.
    pub losses: Vec<f64>,
    /// Size of a packet, bytes.
    pub packet: usize,
    /// Rate of the link, Gb/s; heaps are sent at [`OF_LINK`] of it.
    pub gbps: f64,
    /// From the sender to the receiver and back.
    pub round_trip: Duration,
    /// Turns of each share.
    pub repeats: usize,
    /// How long heaps are sent, s.
    pub seconds: f64,
}

/// Share of the link's rate at which heaps are sent: what is sent again has room.
pub const OF_LINK: f64 = 0.8;

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RecoveryRun {
    sent: u64,
    whole: u64,
    /// Frames that the link lost on the way to the receiver, by its faults or because the emulator was too slow.
    frames_lost: u64,
    packets: u64,
    again: u64,
    gbps: f64,
}

impl RecoveryRun {
    /// Share of the heaps that did not arrive whole.
    fn loss(&self) -> f64 {
        1.0 - self.whole as f64 / self.sent.max(1) as f64
    }

    /// Packets sent again for each that was sent the first time.
    fn again_share(&self) -> f64 {
        self.again as f64 / (self.packets - self.again).max(1) as f64
    }

    fn json(&self) -> Value {
        json!({
            "heaps_sent": self.sent, "heaps_whole": self.whole, "frames_lost": self.frames_lost,
            "packets": self.packets, "packets_again": self.again, "gbps": self.gbps,
        })
    }
}

/// What came of it.
#[derive(Debug)]
pub struct RecoveryFound {
    /// Table in Markdown.
    pub text: String,
    /// Shares at which heaps were lost in spite of recovery.
    pub missed: Vec<String>,
}

impl RecoveryOrder {
    /// Keys of both URLs.
    fn keys(&self, ground: &SpeadGround, recovers: bool) -> [String; 2] {
        let packet = format!("packet={}", self.packet);
        if !recovers {
            return [packet, STALL.to_owned()];
        }
        let feedback = format!("feedback={}:{REPORTS}", ground.sender_address(0));
        // A heap waits in the window until what is missing has come: two round trips, at 24 heaps a second for each 0.8 Gb/s.
        [
            format!("{packet}&{feedback}&keep=256MiB"),
            format!("{feedback}&resend&max_heaps=16&{STALL}"),
        ]
    }

    fn once(
        &self,
        ground: &SpeadGround,
        recovers: bool,
        stop: Asked<'_>,
    ) -> Result<RecoveryRun, LabError> {
        let runner = HeapsRunner { ground, program: &self.program, cores: None, stop };
        let lost = || match ground {
            SpeadGround::Emulated { emulator, .. } => emulator.report().counts[0].gone(),
            SpeadGround::Loopback | SpeadGround::Links(_) => 0,
        };
        let before = lost();
        let [to, from] = self.keys(ground, recovers);
        let rate = Some(OF_LINK * self.gbps);
        let run = HeapsRun { tcp: false, to, from: Some(from), rate, seconds: self.seconds };
        let ran = runner.run(&run)?;
        // The receiver waits for silence after a lost stop heap, far longer than the emulator's counts are late.
        Ok(RecoveryRun {
            sent: ran.sent,
            whole: ran.received.unwrap_or(0),
            frames_lost: lost().saturating_sub(before),
            packets: ran.packets,
            again: ran.again,
            gbps: ran.gbps,
        })
    }
}

/// Measures.
///
/// # Errors
/// No namespaces, or a program that gives no result.
pub fn run(
    order: &RecoveryOrder,
    record: &mut Record,
    (tell, stop): (Tell, Asked<'_>),
) -> Result<RecoveryFound, LabError> {
    record
        .parameter("packet_bytes", order.packet)
        .parameter("link_gbps", order.gbps)
        .parameter("of_link", OF_LINK)
        .parameter("round_trip_ms", order.round_trip.as_secs_f64() * 1e3)
        .parameter("repeats", order.repeats)
        .parameter("seconds", order.seconds);
    let mut found = RecoveryFound {
        text: "| frames that the link loses | recovery | heaps sent | whole | heaps lost % | frames lost | packets sent again % | SPEAD Gb/s |\n\
               |--:|:--|--:|--:|--:|--:|--:|--:|\n"
            .to_owned(),
        missed: Vec::new(),
    };
    for &loss in &order.losses {
        let mut runs = [vec![], vec![]];
        for turn in 0..order.repeats {
            let fault =
                Spec { drop: Amount::Share(loss), seed: 1 + 2 * turn as u64, ..Spec::default() };
            let ground = SpeadGround::faulty((order.gbps, order.round_trip), MTU, fault);
            let ground = ground.map_err(|e| LabError::Failed(e.into()))?;
            for (recovers, runs) in [false, true].into_iter().zip(&mut runs) {
                if stop() {
                    return Err(LabError::Failed(anyhow::anyhow!("stopped")));
                }
                let ran = order.once(&ground, recovers, stop)?;
                let with = with(recovers);
                tell(&format!("{loss:e} of frames lost, {with}, turn {turn}: {}", ran.json()));
                runs.push(ran);
            }
        }
        for (recovers, runs) in [false, true].into_iter().zip(&runs) {
            row(loss, recovers, runs, record, &mut found);
        }
    }
    found.text += &format!(
        "\nHeaps of 4 MiB in packets of {} B for {} s at {} Gb/s, over a link of {} Gb/s with a round trip of {} ms; {} turns with seeds of their own, counts of all. The \
         way back loses as much. With recovery: `keep=256MiB` at the sender, `resend` and `max_heaps=16` at the receiver.\n",
        order.packet,
        order.seconds,
        OF_LINK * order.gbps,
        order.gbps,
        order.round_trip.as_secs_f64() * 1e3,
        order.repeats,
    );
    Ok(found)
}

fn with(recovers: bool) -> &'static str {
    if recovers { "keep, resend" } else { "none" }
}

/// A row of the table, and its figures.
fn row(
    loss: f64,
    recovers: bool,
    runs: &[RecoveryRun],
    record: &mut Record,
    found: &mut RecoveryFound,
) {
    let with = with(recovers);
    let sum = |of: fn(&RecoveryRun) -> u64| runs.iter().map(of).sum::<u64>();
    let all = RecoveryRun {
        sent: sum(|run| run.sent),
        whole: sum(|run| run.whole),
        frames_lost: sum(|run| run.frames_lost),
        packets: sum(|run| run.packets),
        again: sum(|run| run.again),
        gbps: 0.0,
    };
    let rates = Figure::of(&runs.iter().map(|run| run.gbps).collect::<Vec<_>>(), "Gb/s");
    let losses = Figure::of(&runs.iter().map(RecoveryRun::loss).collect::<Vec<_>>(), "");
    let key = format!("{loss:e}-{}", if recovers { "recovery" } else { "none" });
    record.figure(&format!("heap-loss-{key}"), &losses);
    record.figure(&format!("gbps-{key}"), &rates);
    record.row(json!({
        "frame_loss": loss, "recovery": recovers,
        "runs": runs.iter().map(RecoveryRun::json).collect::<Vec<_>>(),
    }));
    found.text += &format!(
        "| {} % | {with} | {} | {} | {:.2} | {} | {:.3} | {} |\n",
        100.0 * loss,
        all.sent,
        all.whole,
        100.0 * all.loss(),
        all.frames_lost,
        100.0 * all.again_share(),
        Figure::cell(rates, 2, 1.0),
    );
    if recovers && all.whole < all.sent {
        let lost = all.sent - all.whole;
        found.missed.push(format!(
            "{} % of frames lost, {with}: {lost} of {} heaps did not arrive whole; wanted 0",
            100.0 * loss,
            all.sent
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_sums_of_its_turns_and_a_loss_with_recovery_is_said() {
        let run = |whole, again| RecoveryRun {
            sent: 100,
            whole,
            frames_lost: 5,
            packets: 1000 + again,
            again,
            gbps: 0.8,
        };
        let mut record = Record::new("x", String::new(), None, json!({})).unwrap();
        let mut found = RecoveryFound { text: String::new(), missed: vec![] };
        row(1e-3, false, &[run(90, 0), run(94, 0)], &mut record, &mut found);
        row(1e-3, true, &[run(100, 5), run(100, 7)], &mut record, &mut found);
        assert_eq!(found.missed, [""; 0]);
        let wanted = "| 0.1 % | none | 200 | 184 | 8.00 | 10 | 0.000 | 0.80 (0.80–0.80) |\n\
                      | 0.1 % | keep, resend | 200 | 200 | 0.00 | 10 | 0.600 | 0.80 (0.80–0.80) |\n";
        assert_eq!(found.text, wanted);
        row(1e-3, true, &[run(99, 5)], &mut record, &mut found);
        assert_eq!(found.missed.len(), 1);
    }
}
