//! Tests of the tables, with outcomes made up instead of measured.

use super::super::tests::{outcome, plan};
use super::super::{CampaignPlan, CampaignPoint, Done, Pass};
use super::*;
use crate::agent::sample::Interval;
use crate::campaign::outcome::EndCost;

fn made(plan: CampaignPlan, outcomes: Vec<(Pass, &str, usize, TrialOutcome)>) -> Campaign {
    let done = |(pass, series, size, outcome): (Pass, &str, usize, TrialOutcome)| {
        let series = series.to_owned();
        Done { point: CampaignPoint { pass, series, size }, outcome }
    };
    Campaign { plan, done: outcomes.into_iter().map(done).collect() }
}

fn interval(user: f64, softirq: f64) -> Interval {
    let share = Share { user, softirq, idle: 100.0 - user - softirq, ..Share::default() };
    Interval {
        seconds: 10.0,
        core: Some((1, share)),
        voluntary_per_s: Some(2000.0),
        involuntary_per_s: Some(10.0),
    }
}

#[test]
fn a_cell_takes_the_median_of_speeds_and_the_sum_of_losses() {
    let cost = |user| EndCost { user: Some(user), system: Some(0.1), ..EndCost::default() };
    let with = |g, lost, user| TrialOutcome { receiver: cost(user), mpps: g, ..outcome(g, lost) };
    let cpu = TrialOutcome {
        mpps: 1.0,
        receiver: EndCost {
            intervals: vec![interval(20.0, 10.0), interval(40.0, 30.0)],
            ..EndCost::default()
        },
        ..outcome(9.0, 0)
    };
    let campaign = made(
        plan(),
        vec![
            (Pass::Speed(0), "default", 64, with(5.0, 0, 0.2)),
            (Pass::Speed(1), "default", 64, with(4.0, 10, 0.4)),
            (Pass::Cpu, "default", 64, cpu),
        ],
    );
    let p = Parameters::kernel();
    let c = cell(&campaign, &p, 64).unwrap();
    assert_eq!((c.received.value, c.received.interval), (4.5, (4.0, 5.0)));
    assert_eq!((c.sent, c.lost, c.per()), (2000, 10, 0.005));
    assert_eq!(c.lost_at, [("socket".to_owned(), 10)]);
    let share = c.shares.0.unwrap();
    assert_eq!((share.user, share.softirq, share.busy()), (30.0, 20.0, 50.0));
    assert_eq!((c.receiver_cpu(), c.sender_cpu()), (Some(50.0), None));
    assert!((c.cores.0.unwrap() - 0.4).abs() < 1e-12);
    assert_eq!(c.switches, Some((0.002, 0.00001)));
    assert_eq!(cell(&campaign, &p, 128), None, "not measured");
    let table = series_table(&campaign, &p);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3);
    assert!(
        rows[2].starts_with("| 64 | 1 | 4.50 (4.00–5.00) | 4.92 | 4.500 | 5.0e-3 | socket 10 | 0 | 40 | 30/0/20/0 | – | – | 2.0e-3/1.0e-5 | –/– |"),
        "{}",
        rows[2]
    );
    let columns = |l: &str| l.matches('|').count();
    assert!(rows.iter().all(|l| columns(l) == columns(rows[0])), "{table}");
}

#[test]
fn nothing_lost_says_what_that_is_worth_and_the_unaccounted_count_as_lost() {
    let mut missing = outcome(1.0, 0);
    missing.delivered -= 4;
    let campaign = made(
        CampaignPlan { repeats: 1, cpu_interval_ms: None, ..plan() },
        vec![
            (Pass::Speed(0), "default", 64, outcome(1.0, 0)),
            (Pass::Speed(0), "tuned", 64, missing),
        ],
    );
    let whole = cell(&campaign, &Parameters::kernel(), 64).unwrap();
    assert_eq!(whole.per_text(), "0 (< 1.0e-3)");
    let lacking = cell(&campaign, &Parameters::tuned(), 64).unwrap();
    assert_eq!((lacking.lost, lacking.lost_at[0].0.as_str()), (4, "unaccounted"));
    let text = markdown(&campaign);
    assert!(text.starts_with("# test\n\nOn loopback, 10 Gb/s, 10 s per trial."), "{text}");
    assert!(text.contains("speed, Gb/s: default | speed, Gb/s: tuned |"), "{text}");
    assert!(text.contains("| 64 | 1.00 | 1.00 | 0 (< 1.0e-3) | 4.0e-3 | – | – |"), "{text}");
    assert!(text.contains("## default\n") && text.contains("## tuned\n"), "{text}");
}

#[test]
fn an_ablation_compares_with_its_base() {
    let base = Parameters::tuned();
    let plain = Parameters { name: "no batch".into(), ..Parameters::tuned() };
    let plan =
        CampaignPlan { series: vec![base, plain], ablation: true, sizes: vec![64], ..plan() };
    let cost = |user| EndCost { user: Some(user), system: Some(0.0), ..EndCost::default() };
    let with = |g, user| TrialOutcome { receiver: cost(user), ..outcome(g, 0) };
    let campaign = made(
        plan,
        vec![
            (Pass::Speed(0), "tuned", 64, with(8.0, 0.5)),
            (Pass::Speed(0), "no batch", 64, with(2.0, 1.0)),
        ],
    );
    let text = markdown(&campaign);
    assert!(text.contains("## 64 B"), "{text}");
    let row = "| no batch | 2.00 (2.00–2.00) | 0.25 | 0 (< 1.0e-3) | 100 | +50 | – | – |";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("| tuned | 8.00 (8.00–8.00) | 1.00 |"), "{text}");
}
