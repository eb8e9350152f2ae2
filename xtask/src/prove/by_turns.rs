//! `by-turns`: an older binary and this one, in turn on the same cores: no rate falls.
//!
//! Each round runs `fullcount lab detectors --over memory` and `lab udp --flat-out` at three sizes, with the
//! older binary and with this one; where there are Java and Kafka's jars, also `lab bench kafka` and `lab bench write` with one
//! broker for both, which begins with nothing that waits for the disk. Binaries before `lab bench` know these two as `lab kafka` and `lab write`. Which is first changes with the round, so that what else the host does meets both alike.
//! Flat out each binary runs three times a round, by turns, and the best counts: loopback between two virtual cores has a fast
//! and a slow state (110 and 75 Gb/s at 1472 B), which neither binary chooses. Rows are compared by their medians, those of the rounds in which a binary was first and those of the others each by themselves: the second one to write 3 GB to the
//! broker has a slower disk, and of nine rounds one binary is first in five. Holds if the geometric mean of new/old is at least 0.97 and
//! no row is below 0.93. Rows that only one of the two has are named and not compared.
//!
//! Refuses to run without `FULLCOUNT_OLD_BINARY`, the path of the older release binary: there it is skipped.
//!
//! Source: docs/testing.md, "Long proofs".

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::flat_out::{self, median};
use super::lab;
use crate::command::{Job, Show};
use crate::kafka;
use crate::{place, setup};
use fullcount_broker::BrokerCluster;

/// Rounds: the median of nine stands four disturbed ones.
const ROUNDS: u32 = 9;
/// Payload bytes of the packets sent flat out.
const SIZES: [u32; 3] = [64, 1472, 8972];
/// Runs flat out of each binary, size and round; the best counts.
const RUNS: usize = 3;
/// Length of one such run.
const SECONDS: u64 = 1;
/// The least geometric mean of all rows, and the least row, as parts of the older binary's rate.
const LEAST_MEAN: f64 = 0.97;
const LEAST_ROW: f64 = 0.93;

/// Bytes of a trial with a broker.
const VOLUME: &str = "400MB";
/// What is measured with it, by the name of its results, and the options.
const BROKERED: [(&str, &[&str]); 2] = [
    (
        "kafka",
        &["--contenders", "sink,publisher", "--sizes", "10kB,100kB", "--compressions", "none,lz4"],
    ),
    ("write", &["--compressions", "none,gzip:1"]),
];

const OLD: &str = "FULLCOUNT_OLD_BINARY";

/// Rates of one binary in one round, by row, in the row's own unit.
type Rates = BTreeMap<String, f64>;

/// Why there is nothing to compare with.
pub fn lacking() -> Option<String> {
    match env::var_os(OLD).map(PathBuf::from) {
        Some(path) if path.is_file() => flat_out::cores().err(),
        Some(path) => Some(format!("{OLD}: {} is no file", path.display())),
        None => Some(format!("{OLD} is not set: the path of the older release binary")),
    }
}

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let old = env::var_os(OLD).map(PathBuf::from).ok_or("no older binary")?;
    let new = lab::build()?;
    let cores = flat_out::cores()?;
    let broker = broker();
    if let Err(why) = &broker {
        println!("no broker: {why}; the benches that need one are left out");
    }
    let rounds = campaign.units("round", ROUNDS, |round| {
        let mut both = [("old", &old), ("new", &new)];
        if round % 2 == 1 {
            both.reverse();
        }
        let load = flat_out::load_average();
        let mut rates = [decoders(both[0].1)?, decoders(both[1].1)?];
        for (size, _) in SIZES.iter().flat_map(|size| (0..RUNS).map(move |run| (size, run))) {
            for ((_, binary), rates) in both.iter().zip(&mut rates) {
                let run = flat_out::run_ours(binary, *size, SECONDS, cores)?;
                let gbps = run["gbps"].as_f64().ok_or("flat out: nothing received")?;
                let best = rates.entry(format!("flat out {size} B")).or_insert(gbps);
                *best = best.max(gbps);
            }
        }
        if let Ok(broker) = &broker {
            for ((_, binary), rates) in both.iter().zip(&mut rates) {
                written_out()?;
                rates.extend(brokered(binary, &broker.bootstrap())?);
            }
        }
        let [first, second] = rates;
        Ok(json!({"load_before": load, "first": both[0].0, (both[0].0): first, (both[1].0): second}))
    })?;
    let version = |binary: &PathBuf| {
        place::output_of(&binary.display().to_string(), &["--version"]).unwrap_or_default()
    };
    let (rows, mean) = compared(&rounds)?;
    let least = rows.values().filter_map(|row| row["ratio"].as_f64()).fold(f64::INFINITY, f64::min);
    let figures = json!({
        "old": version(&old), "new": version(&new),
        "rounds": ROUNDS, "geometric_mean": mean, "least_row": least,
        "least_mean_allowed": LEAST_MEAN, "least_row_allowed": LEAST_ROW,
        "only_in_one": only_in_one(&rounds), "no_broker": broker.err(), "rows": rows,
    });
    Ok(Finding { held: mean >= LEAST_MEAN && least >= LEAST_ROW, figures })
}

/// A broker for both binaries, which ends with the proof.
fn broker() -> Result<BrokerCluster, String> {
    setup::ensure(&[setup::JAVA, setup::MAVEN]).map_err(|missing| missing.to_string())?;
    let folder = place::target().join("prove/by-turns-broker");
    let _ = fs::remove_dir_all(&folder);
    BrokerCluster::start(&kafka::jars()?, &folder, 1, None)
}

/// Waits until the disk has what the broker got: with 3 GB of the first binary still in memory the kernel held the second one's
/// messages of 10 kB back to the disk's rate (180 in place of 300 MB/s); of those of 100 kB, which come later, it still does.
fn written_out() -> Result<(), String> {
    place::output_of("sync", &[]).map(drop).ok_or_else(|| "sync failed".to_owned())
}

/// MB a second of events to the broker and from it into a file.
fn brokered(binary: &Path, broker: &str) -> Result<Rates, String> {
    // The older binary may have these verbs under their older names.
    let has_bench = Job::new(binary).args(["lab", "bench", "--help"]).run_reading(|_| Show::No).ok;
    let verbs: &[&str] = if has_bench { &["bench"] } else { &[] };
    let mut rates = Rates::new();
    for (verb, options) in BROKERED {
        let more = [verb, "--broker", broker, "--volume", VOLUME, "--repeats", "1"];
        let ended = lab::campaign(binary, &[verbs, &more, options].concat())?;
        rates.extend(ours(&ended.record));
    }
    Ok(rates)
}

/// The figures of a record that are our own rates.
fn ours(record: &Value) -> Rates {
    let figures = record["figures"].as_object().into_iter().flatten();
    let rate = |(name, figure): (&String, &Value)| {
        let name = name.strip_prefix("rate_").filter(|name| !name.starts_with("dd_"))?;
        Some((name.replace('_', " "), figure["value"].as_f64()?))
    };
    figures.filter_map(rate).collect()
}

/// Packets a second of every detector and input, from memory on one core.
fn decoders(binary: &Path) -> Result<Rates, String> {
    let words = ["detectors", "--over", "memory", "--duration", "1s", "--repeats", "1"];
    let ended = lab::campaign(binary, &words)?;
    by_row(&ended.record).ok_or_else(|| "a row without detector, input or rate".to_owned())
}

/// Packets a second of each row; where reading alone is measured too, it has a row of its own.
fn by_row(record: &Value) -> Option<Rates> {
    let row = |row: &Value| {
        let how = match row["how"].as_str() {
            None | Some("memory") => String::new(),
            Some(how) => format!(", {how}"),
        };
        let name = format!("{} {}{how}", row["detector"].as_str()?, row["input"].as_str()?);
        Some((name, row.pointer("/packets/value")?.as_f64()?))
    };
    record["rows"].as_array().into_iter().flatten().map(row).collect()
}

/// Rates of one row of one binary over all rounds; empty if it has no such row.
fn over_rounds(rounds: &[Value], which: &str, row: &str) -> Vec<f64> {
    rounds.iter().filter_map(|round| round[which][row].as_f64()).collect()
}

/// The median of a row in the rounds in which the binary was first, and in those in which it was second: the geometric mean of both.
fn of_both_places(rounds: &[Value], which: &str, row: &str) -> Option<f64> {
    let median_of = |is_first: bool| {
        let those = rounds.iter().filter(|round| (round["first"] == which) == is_first);
        median(those.filter_map(|round| round[which][row].as_f64()).collect())
    };
    Some((median_of(true)? * median_of(false)?).sqrt())
}

fn names(rounds: &[Value], which: &str) -> Vec<String> {
    let first = rounds.first().and_then(|round| round[which].as_object());
    first.into_iter().flat_map(|rows| rows.keys().cloned()).collect()
}

fn only_in_one(rounds: &[Value]) -> Vec<String> {
    let (old, new) = (names(rounds, "old"), names(rounds, "new"));
    let others = old.iter().filter(|row| !new.contains(row));
    others.chain(new.iter().filter(|row| !old.contains(row))).cloned().collect()
}

/// Each row's medians and their ratio, and the geometric mean of all ratios.
fn compared(rounds: &[Value]) -> Result<(BTreeMap<String, Value>, f64), String> {
    let mut rows = BTreeMap::new();
    let mut logarithms = Vec::new();
    let new = names(rounds, "new");
    for row in names(rounds, "old").into_iter().filter(|row| new.contains(row)) {
        let [old, new] = ["old", "new"].map(|which| of_both_places(rounds, which, &row));
        let (old, new) = (old.unwrap_or(0.0), new.unwrap_or(0.0));
        if old <= 0.0 || new <= 0.0 {
            return Err(format!("{row}: nothing was measured"));
        }
        logarithms.push((new / old).ln());
        let each = |which| over_rounds(rounds, which, &row);
        let told = json!({"old": old, "new": new, "ratio": new / old,
                          "old_rounds": each("old"), "new_rounds": each("new")});
        rows.insert(row, told);
    }
    if rows.is_empty() {
        return Err("the two binaries have no row in common".into());
    }
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    Ok((rows, mean.exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(first: &str, old: &[(&str, f64)], new: &[(&str, f64)]) -> Value {
        let rates = |all: &[(&str, f64)]| json!(all.iter().copied().collect::<BTreeMap<_, _>>());
        json!({"first": first, "old": rates(old), "new": rates(new)})
    }

    #[test]
    fn rows_are_compared_by_medians_and_all_together_by_their_geometric_mean() {
        let turns = [
            (&[("a", 10.0), ("b", 100.0)], &[("a", 20.0), ("b", 50.0), ("c", 1.0)]),
            (&[("a", 9.0), ("b", 100.0)], &[("a", 0.1), ("b", 50.0), ("c", 1.0)]),
            (&[("a", 11.0), ("b", 1.0)], &[("a", 21.0), ("b", 50.0), ("c", 1.0)]),
        ];
        let each = |first| turns.iter().map(move |(old, new)| round(first, *old, *new));
        let rounds: Vec<Value> = each("old").chain(each("new")).collect();
        let (rows, mean) = compared(&rounds).unwrap();
        assert_eq!(
            (rows["a"]["ratio"].as_f64(), rows["b"]["ratio"].as_f64()),
            (Some(2.0), Some(0.5))
        );
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
        assert_eq!((rows.len(), only_in_one(&rounds)), (2, vec!["c".to_owned()]));
    }

    #[test]
    fn rows_of_records_are_told_apart_and_what_is_not_ours_is_left_out() {
        let row = |how: &str, rate: f64| json!({"detector": "gem", "input": "recorded", "how": how, "packets": {"value": rate}});
        let record = json!({"rows": [row("memory-reading", 3.0), row("memory", 1.0)]});
        let rates = by_row(&record).unwrap();
        assert_eq!((rates["gem recorded"], rates["gem recorded, memory-reading"]), (1.0, 3.0));
        let figure = |value: f64| json!({"value": value});
        let record = json!({"figures": {
            "rate_write none_97224_none": figure(9.0), "ratio_write none_97224_none": figure(1.5),
            "rate_dd_97224_none": figure(6.0), "rate_sink_9304_lz4": figure(4.0)}});
        let names: Vec<String> = ours(&record).into_keys().collect();
        assert_eq!(names, ["sink 9304 lz4", "write none 97224 none"]);
    }

    /// Whoever is second has half of the rate. The newer binary has 0.9 of the older one's, and is second in five rounds of nine.
    #[test]
    fn who_is_first_more_often_gains_nothing() {
        let turn = |n: usize| match n % 2 {
            0 => round("old", &[("a", 100.0)], &[("a", 45.0)]),
            _ => round("new", &[("a", 50.0)], &[("a", 90.0)]),
        };
        let (rows, mean) = compared(&(0..9).map(turn).collect::<Vec<_>>()).unwrap();
        let ratio = rows["a"]["ratio"].as_f64().unwrap();
        assert!((ratio - 0.9).abs() < 1e-12 && (mean - 0.9).abs() < 1e-12, "{ratio} {mean}");
    }

    #[test]
    fn what_was_not_measured_is_no_comparison() {
        let both = |old, new| [round("old", old, new), round("new", old, new)];
        let error = compared(&both(&[("a", 0.0)], &[("a", 1.0)])).unwrap_err();
        assert_eq!(error, "a: nothing was measured");
        assert!(compared(&both(&[("a", 1.0)], &[("b", 1.0)])).is_err());
        // In one round each has one place only.
        assert!(compared(&both(&[("a", 1.0)], &[("a", 1.0)])[..1]).is_err());
        assert!(compared(&[]).is_err());
    }
}
