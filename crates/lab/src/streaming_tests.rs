//! The comparison with made-up contenders.

use super::*;

/// `theirs` takes a second a GB and slows down by a tenth each trial, and so does whoever comes after it in that round;
/// `ours` takes 0.8 of that.
#[derive(Default)]
struct Made {
    order: Vec<(String, usize)>,
    fails: Option<&'static str>,
}

impl Ways for Made {
    fn trial(
        &mut self,
        contender: &str,
        point: &StreamingPoint,
    ) -> Result<StreamingTrial, TrialError> {
        if self.fails == Some(contender) {
            let (program, reason) = (contender.to_owned(), "no".to_owned());
            return Err(TrialError::Result { program, reason });
        }
        self.order.push((contender.to_owned(), point.size));
        // Two warm-up trials, then four a round.
        let round = self.order.len().saturating_sub(3) / 4;
        let slow = 1.0 + 0.1 * round as f64;
        let seconds = if contender == "theirs" { slow } else { 0.8 * slow };
        Ok(StreamingTrial {
            messages: 1_000_000_000 / point.size as u64,
            events: if contender == "theirs" { 0 } else { 125_000_000 },
            bytes: 1_000_000_000,
            seconds,
            cpu_s: (contender == "theirs").then_some(0.5),
        })
    }
}

fn campaign() -> StreamingCampaign {
    let point = |size| StreamingPoint { size, compression: "none".into() };
    StreamingCampaign {
        contenders: vec!["theirs".into(), "ours".into()],
        points: vec![point(1000), point(100_000)],
        repeats: 3,
    }
}

#[test]
fn contenders_take_turns_and_ratios_are_of_the_same_round() {
    let (mut ways, mut lines) = (Made::default(), Vec::new());
    let results = campaign().run(&mut ways, &mut |line| lines.push(line.to_owned())).unwrap();
    let order: Vec<(&str, usize)> = ways.order.iter().map(|(c, s)| (c.as_str(), *s)).collect();
    let round = [("theirs", 1000), ("ours", 1000), ("theirs", 100_000), ("ours", 100_000)];
    assert_eq!(order[..2], round[..2], "each once before");
    assert_eq!(order[2..], [round, round, round].concat());
    assert!(lines[2].starts_with("[1/12] 1000 B, none, theirs: 1000 MB/s, "), "{}", lines[2]);
    assert!(lines[13].contains("[12/12]") && lines[13].contains("0 s left"), "{}", lines[13]);
    for (at, wanted) in [(0, 1.0), (1, 1.25), (2, 1.0), (3, 1.25)] {
        let ratio = results.ratio(at).unwrap();
        assert!((ratio.value - wanted).abs() < 1e-9, "{at}: {ratio:?}");
        let (low, high) = ratio.interval;
        assert!(high - low < 1e-9, "a slow minute met both: {ratio:?}");
    }
    // 1.0, 1.1 and 1.2 s.
    let rate = results.standings[0].megabytes().unwrap();
    assert!((rate.value - 1000.0 / 1.1).abs() < 1e-6 && rate.repeats == 3, "{rate:?}");
    let table = results.markdown();
    assert_eq!(table.lines().count(), 6);
    assert!(table.lines().all(|l| l.matches('|').count() == 9), "{table}");
    assert!(
        table.contains(
            "| 1000 | none | theirs | 909 (833–1000) | 909091 | – | 0.50 | 1.00 (1.00–1.00) |"
        ),
        "{table}"
    );
    assert!(
        table.contains(
            "| 100000 | none | ours | 1136 (1042–1250) | 11364 | 142.0 | – | 1.25 (1.25–1.25) |"
        ),
        "{table}"
    );
}

#[test]
fn everything_is_in_the_record() {
    let results = campaign().run(&mut Made::default(), &mut |_| {}).unwrap();
    let mut record = Record::new("kafka", "d".into(), None, Value::Null).unwrap();
    results.note(&mut record);
    let json = record.json();
    assert_eq!(json["parameters"]["contenders"], json!(["theirs", "ours"]));
    assert_eq!(json["rows"].as_array().unwrap().len(), 4);
    assert_eq!(json["rows"][3]["trials"][0]["bytes"], 1_000_000_000);
    let figure = &json["figures"]["ratio_ours_100000_none"];
    assert!((figure["value"].as_f64().unwrap() - 1.25).abs() < 1e-9, "{figure}");
    assert_eq!((&figure["unit"], &figure["repeats"]), (&json!("times"), &json!(3)));
    assert_eq!(json["figures"]["rate_theirs_1000_none"]["unit"], "MB/s");
}

#[test]
fn nothing_to_do_and_trials_without_a_result_are_told() {
    let refused = |change: fn(&mut StreamingCampaign)| {
        let mut campaign = campaign();
        change(&mut campaign);
        campaign.run(&mut Made::default(), &mut |_| {}).unwrap_err().to_string()
    };
    assert!(refused(|c| c.contenders.clear()).contains("contenders"));
    assert!(refused(|c| c.points.clear()).contains("sizes"));
    assert!(refused(|c| c.repeats = 0).contains("repeats"));
    let mut ways = Made { fails: Some("ours"), ..Made::default() };
    let error = campaign().run(&mut ways, &mut |_| {}).unwrap_err().to_string();
    assert_eq!(error, "ours, messages of 1000 B, compression none: ours: no");
    for trial in [
        StreamingTrial { bytes: 0, seconds: 1.0, ..StreamingTrial::default() },
        StreamingTrial { bytes: 1, seconds: 0.0, ..StreamingTrial::default() },
        StreamingTrial { bytes: 1, seconds: f64::INFINITY, ..StreamingTrial::default() },
    ] {
        let error = trial.check("x").unwrap_err().to_string();
        assert!(error.contains("are no result"), "{error}");
    }
}

#[test]
fn cpu_time_is_read_behind_any_name() {
    let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 200 0 0 150 50 30 20 20 0 1 0 100 1 1 1";
    assert_eq!(cpu_of(stat), Some(2.5));
    assert_eq!(cpu_of("7 (x) S 1 7 7 0 -1 4194304 100 200 0 0 150 50"), None);
    assert_eq!(cpu_of(""), None);
    if cfg!(target_os = "linux") {
        assert!(cpu_seconds().is_some());
    }
}
