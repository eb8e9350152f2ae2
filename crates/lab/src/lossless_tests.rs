//! The campaign with a bench that is made up instead of measured.

use super::search::SearchLimit;
use super::*;

/// Loses everything above a border, packets/s, that shrinks with every flat-out trial.
struct Made {
    border: f64,
    flat_out: f64,
    trials: Vec<(String, usize, Option<f64>)>,
}

impl Bench for Made {
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        let &TrialPlan { contender, size, packets_per_s, length } = plan;
        self.trials.push((contender.to_owned(), size, packets_per_s));
        if packets_per_s.is_none() {
            self.border *= 0.98;
        }
        let rate = packets_per_s.unwrap_or(self.flat_out);
        let sent = (rate * length.as_secs_f64()) as u64;
        let delivered = if rate <= self.border { sent } else { sent - 1 };
        let cores = Some(0.5);
        Ok(LosslessTrial {
            size,
            sent,
            delivered,
            sent_per_s: rate,
            send_cores: cores,
            receive_cores: cores,
            ..LosslessTrial::default()
        })
    }
}

fn campaign(sizes: &[usize], repeats: usize) -> LosslessCampaign {
    let contenders = vec!["auto".to_owned()];
    let search = Some(SearchSettings::default());
    LosslessCampaign { contenders, sizes: sizes.to_vec(), repeats, flat_out: None, search }
}

#[test]
fn repeats_are_whole_searches_round_the_sizes_with_median_and_spread() {
    let mut bench = Made { border: 1e6, flat_out: 4e6, trials: vec![] };
    let mut lines = Vec::new();
    let results = campaign(&[64, 1472], 3)
        .run("loopback", &mut bench, &mut |l| lines.push(l.to_owned()))
        .unwrap();
    let flat: Vec<usize> = bench.trials.iter().filter(|t| t.2.is_none()).map(|t| t.1).collect();
    assert_eq!(flat, [64, 1472, 64, 1472, 64, 1472], "repeats go round the sizes");
    let row = &results.rows[0];
    assert_eq!((row.size, row.outcomes.len()), (64, 3));
    for (outcome, border) in row.outcomes.iter().zip([0.98e6, 0.9412e6, 0.9039e6]) {
        assert!((outcome.rate() / border - 1.0).abs() < 0.011, "{}", outcome.rate());
        assert_eq!(outcome.confirmed(|t| t.send_cores), Some(0.5));
    }
    let spread = row.spread().unwrap();
    assert!((0.03..0.06).contains(&spread), "{spread}");
    assert!(lines[0].starts_with("[1/6] 64 B, auto: flat out"), "{}", lines[0]);
    assert!(lines[0].ends_with(" s left"), "{}", lines[0]);
    assert!(lines.last().unwrap().contains("without loss (limit: loss)"));
    assert!(results.complete());
    let table = results.markdown();
    let columns = |l: &str| l.matches('|').count();
    assert_eq!(table.lines().count(), 4);
    assert!(table.lines().all(|l| columns(l) == 10), "{table}");
    let mut record = Record::new("lossless", "d".into(), None, Value::Null).unwrap();
    results.note(&mut record);
    let json = record.json();
    assert_eq!(json["parameters"]["ceiling"], "flat out");
    assert_eq!(json["rows"][1]["size"], 1472);
    assert_eq!(json["figures"]["lossless_auto_64"]["repeats"], 3);
    let trial = &json["rows"][0]["searches"][0]["trials"][0];
    assert_eq!((&trial["phase"], &trial["lost"]), (&"search".into(), &1.into()));
}

#[test]
fn a_host_that_always_loses_is_shown_as_such() {
    let mut bench = Made { border: 0.0, flat_out: 1e6, trials: vec![] };
    let results = campaign(&[64], 1).run("loopback", &mut bench, &mut |_| {}).unwrap();
    assert!(!results.complete());
    assert!(results.markdown().contains("below the floor"));
    let mut silent = Made { border: 1.0, flat_out: 0.0, trials: vec![] };
    let e = campaign(&[64], 1).run("loopback", &mut silent, &mut |_| {}).unwrap_err();
    assert!(matches!(&e, LosslessError::Silent { size: 64, .. }), "{e}");
}

#[test]
fn a_ceiling_in_bits_or_packets_saves_the_flat_out_trial() {
    for (ceiling, rate) in [(Ceiling::Packets(5e5), 5e5), (Ceiling::Bits(1e9), 1.25e8 / 64.0)] {
        let mut bench = Made { border: 1e9, flat_out: 4e9, trials: vec![] };
        let settings = SearchSettings { ceiling: Some(ceiling), ..SearchSettings::default() };
        let outcome = find(&mut bench, "auto", 64, &settings, &mut |_, _| {}).unwrap();
        assert_eq!(outcome.rate(), rate);
        assert_eq!(outcome.found.unwrap().limit, SearchLimit::Ceiling);
        assert_eq!(bench.trials.len(), 4);
    }
}

#[test]
fn verdicts_tell_loss_from_a_slow_sender() {
    let trial =
        LosslessTrial { sent: 100, delivered: 100, sent_per_s: 100.0, ..LosslessTrial::default() };
    assert_eq!(trial.verdict(100.0), Verdict::Lossless);
    assert_eq!(trial.verdict(101.0), Verdict::Lossless);
    assert_eq!(trial.verdict(102.0), Verdict::Short { offered: 100.0 });
    assert_eq!(LosslessTrial { delivered: 99, ..trial }.verdict(102.0), Verdict::Lossy);
    assert_eq!(
        LosslessTrial::default().verdict(1.0),
        Verdict::Lossy,
        "nothing sent proves nothing"
    );
}

#[test]
fn empty_campaigns_and_times() {
    for bad in [
        campaign(&[], 1),
        campaign(&[64], 0),
        LosslessCampaign { contenders: vec![], ..campaign(&[64], 1) },
        LosslessCampaign {
            search: Some(SearchSettings { resolution: 0.9, ..SearchSettings::default() }),
            ..campaign(&[64], 1)
        },
    ] {
        let mut bench = Made { border: 1.0, flat_out: 1.0, trials: vec![] };
        assert!(bad.run("loopback", &mut bench, &mut |_| {}).is_err());
        assert!(bench.trials.is_empty());
    }
}
