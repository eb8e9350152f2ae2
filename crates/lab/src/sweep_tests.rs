//! Tests of the sweep's plan, judgement and table, with outcomes made up instead of measured.

use super::*;

fn summaries() -> (Value, Value) {
    let receive = json!({
        "schema": "fullcount/summary/1", "verb": "receive", "seconds": 10.0,
        "packets": {"received": 95, "accepted": 90, "rejected": {"magic": 2}, "queued": 1,
                    "lost": {"link": 0, "socket": 6, "unknown": 1}, "duplicate": 2, "reordered": 3},
        "rates": {"gbps": 9.5, "mpps": 1.25}, "cpu": {"user": 2.5, "system": 5.0, "softirq": 0.1},
    });
    let send = json!({
        "seconds": 8.0, "packets": {"sent": 100}, "rates": {"gbps": 10.0, "mpps": 1.5},
        "cpu": {"user": 4.0, "system": 4.0},
    });
    (receive, send)
}

#[test]
fn an_outcome_adds_up_the_two_summaries() {
    let (receive, send) = summaries();
    let o = Outcome::read(&receive, &send, true).unwrap();
    assert_eq!((o.sent, o.delivered, o.lost, o.set_aside, o.unaccounted()), (100, 90, 7, 3, 0));
    assert_eq!(o.lost_at, [("socket".to_owned(), 6), ("unknown".to_owned(), 1)]);
    assert_eq!((o.duplicate, o.reordered), (2, 3));
    assert_eq!((o.sent_gbps, o.received_gbps, o.mpps), (10.0, 9.5, 1.25));
    assert_eq!((o.receive_cpu, o.send_cpu), (Some(0.75), Some(1.0)));
    let more = json!({"packets": {"sent": 104}});
    let o = Outcome::read(&receive, &more, true).unwrap();
    assert_eq!((o.unaccounted(), o.send_cpu), (4, None));
    let e = Outcome::read(&json!({}), &send, true).unwrap_err();
    assert!(e.to_string().contains("receive: no summary: /packets/accepted is missing"), "{e}");
    let e = Outcome::read(&receive, &json!({}), true).unwrap_err();
    assert!(e.to_string().contains("send: no summary: /packets/sent is missing"), "{e}");
}

/// Gives prepared outcomes in turn and notes what was asked.
struct Prepared {
    outcomes: Vec<Outcome>,
    asked: Vec<usize>,
}

impl Measure for Prepared {
    fn measure(&mut self, size: usize, _: Load, _: Duration) -> Result<Outcome, SweepError> {
        self.asked.push(size);
        Ok(self.outcomes.remove(0))
    }
}

fn outcome(received_gbps: f64, lost: u64) -> Outcome {
    let lost_at = if lost > 0 { vec![("socket".to_owned(), lost)] } else { Vec::new() };
    Outcome {
        sent: 1000,
        delivered: 1000 - lost,
        lost,
        lost_at,
        received_gbps,
        ..Outcome::default()
    }
}

#[test]
fn repeats_go_round_the_sizes_and_the_table_shows_median_and_worst() {
    let plan = Plan { sizes: vec![64, 128], repeats: 3, ..Plan::offered() };
    let outcomes = [(5.0, 0), (9.0, 0), (4.0, 10), (9.5, 0), (6.0, 0), (8.0, 0)];
    let outcomes = outcomes.map(|(g, l)| outcome(g, l)).to_vec();
    let mut measure = Prepared { outcomes, asked: Vec::new() };
    let mut lines = Vec::new();
    let sweep = Sweep::run(plan, &mut measure, &mut |l| lines.push(l.to_owned())).unwrap();
    assert_eq!(measure.asked, [64, 128, 64, 128, 64, 128]);
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[0], "[1/6] 64 B, 10 Gb/s: running, 66 s left");
    assert_eq!(
        lines[5],
        "[3/6] 64 B, 10 Gb/s: 4.00 Gb/s, 0.00 M packets/s, lost 10, unaccounted 0"
    );
    assert!(!sweep.lossless());
    let table = sweep.markdown();
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(
        rows[0],
        "| 64 | 0.00 | 5.00 (4.00–6.00) | 0.000 | 10 | 1.0e-2 | socket 10 | 0 | – | – |"
    );
    assert_eq!(rows[1], "| 128 | 0.00 | 9.00 (8.00–9.50) | 0.000 | 0 | 0.0e0 | – | 0 | – | – |");
    let columns = |l: &str| l.matches('|').count();
    assert!(table.lines().all(|l| columns(l) == columns(rows[0])));
}

#[test]
fn a_record_of_a_sweep_keeps_every_repeat() {
    let plan = Plan { sizes: vec![64], repeats: 2, ..Plan::flat_out() };
    let outcomes = vec![outcome(5.0, 0), outcome(7.0, 0)];
    let mut measure = Prepared { outcomes, asked: Vec::new() };
    let sweep = Sweep::run(plan, &mut measure, &mut |_| {}).unwrap();
    assert!(sweep.lossless());
    let mut record = Record::new("sweep", "d".into(), None, Value::Null).unwrap();
    sweep.note(&mut record);
    let json = record.json();
    assert_eq!(json["parameters"]["load"], "flat out");
    assert_eq!(json["rows"][0]["outcomes"][1]["received_gbps"], 7.0);
    assert_eq!(json["figures"]["received_64"]["value"], 6.0);
    assert_eq!(json["figures"]["lost_64"]["interval"], json!([0.0, 0.0]));
}

#[test]
fn plans_are_those_of_the_acceptance_and_empty_ones_are_refused() {
    assert_eq!(Plan::offered().sizes.len(), 16);
    assert_eq!(Plan::offered().load.rate().as_deref(), Some("10000000000bps"));
    assert_eq!(
        (Plan::flat_out().sizes, Plan::flat_out().load.rate()),
        (vec![64, 1472, 8972], None)
    );
    for plan in [
        Plan { sizes: vec![], ..Plan::offered() },
        Plan { repeats: 0, ..Plan::offered() },
        Plan { duration: Duration::ZERO, ..Plan::offered() },
    ] {
        let mut measure = Prepared { outcomes: Vec::new(), asked: Vec::new() };
        let e = Sweep::run(plan, &mut measure, &mut |_| {}).unwrap_err();
        assert!(matches!(e, SweepError::Empty(_)), "{e}");
    }
    let none = Sweep { plan: Plan::offered(), rows: Vec::new() };
    assert!(!none.lossless(), "nothing measured proves nothing");
}
