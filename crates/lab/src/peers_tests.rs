//! The comparison with made-up contenders.

use super::*;
use crate::lossless::{LosslessCampaign, LosslessError, SearchSettings};
use std::time::Duration;

/// `iperf3` loses above 1 M, all others above 5 M packets/s.
#[derive(Default)]
struct Made(Vec<(String, usize)>);

impl Bench for Made {
    fn trial(&mut self, plan: &TrialPlan<'_>) -> Result<LosslessTrial, TrialError> {
        let &TrialPlan { contender, size, packets_per_s, length } = plan;
        let border = if contender == IPERF3 { 1e6 } else { 5e6 };
        let rate = packets_per_s.unwrap_or(2.0 * border);
        if packets_per_s.is_none() {
            self.0.push((contender.to_owned(), size));
        }
        let sent = rate * length.as_secs_f64();
        Ok(LosslessTrial {
            size,
            sent: sent as u64,
            delivered: sent.min(border * length.as_secs_f64()) as u64,
            sent_per_s: rate,
            delivered_per_s: rate.min(border),
            ..LosslessTrial::default()
        })
    }
}

fn campaign() -> LosslessCampaign {
    LosslessCampaign {
        contenders: [IPERF3, "plain", "auto"].map(str::to_owned).to_vec(),
        sizes: vec![64, 1472],
        repeats: 2,
        flat_out: Some(Duration::from_secs(1)),
        search: None,
    }
}

#[test]
fn contenders_take_turns_and_ratios_are_to_the_first() {
    let mut bench = Made::default();
    let results = campaign().run("loopback", &mut bench, &mut |_| {}).unwrap();
    let order: Vec<&str> = bench.0.iter().map(|(c, _)| c.as_str()).collect();
    assert_eq!(order[..6], ["iperf3", "plain", "auto", "iperf3", "plain", "auto"]);
    assert_eq!(
        bench.0.iter().map(|(_, s)| *s).collect::<Vec<_>>()[..7],
        [64, 64, 64, 1472, 1472, 1472, 64]
    );
    assert_eq!(ratios(&results, 0), (Some(1.0), None));
    assert_eq!(ratios(&results, 5), (Some(5.0), None));
    let table = markdown(&results);
    assert_eq!(table.lines().count(), 8);
    let columns = |l: &str| l.matches('|').count();
    assert!(table.lines().all(|l| columns(l) == 11), "{table}");
    assert!(
        table.contains(
            "| 1472 | auto | 5.0000 (5.0000–5.0000) | 50.00 | – | – | 5.00 | – | – | – |"
        )
    );
}

#[test]
fn the_same_search_finds_each_contenders_rate() {
    let settings = SearchSettings { confirm: Duration::from_secs(2), ..SearchSettings::default() };
    let campaign = LosslessCampaign { search: Some(settings), sizes: vec![64], ..campaign() };
    assert!(campaign.usual() > Duration::from_secs(60));
    let mut lines = Vec::new();
    let results =
        campaign.run("veth", &mut Made::default(), &mut |l| lines.push(l.to_owned())).unwrap();
    let (_, ratio) = ratios(&results, 2);
    assert!((ratio.unwrap() - 5.0).abs() < 0.06, "{ratio:?}");
    assert!(lines[0].starts_with("[1/6] 64 B, iperf3: flat out, "), "{}", lines[0]);
    let mut record = Record::new("peers", "d".into(), None, Value::Null).unwrap();
    note(&results, &mut record);
    let json = record.json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 3);
    assert_eq!(json["figures"]["lossless_iperf3_64"]["repeats"], 2);
    assert!(json["rows"][2]["lossless_ratio"].as_f64().unwrap() > 4.9);
    assert_eq!(json["parameters"]["confirm_s"], 2.0);
}

#[test]
fn empty_comparisons_are_refused() {
    for bad in [
        LosslessCampaign { sizes: vec![], ..campaign() },
        LosslessCampaign { contenders: vec![], ..campaign() },
        LosslessCampaign { repeats: 0, ..campaign() },
        LosslessCampaign { flat_out: Some(Duration::ZERO), ..campaign() },
    ] {
        let e = bad.run("x", &mut Made::default(), &mut |_| {}).unwrap_err();
        assert!(matches!(e, LosslessError::Empty(_)), "{e}");
    }
}
