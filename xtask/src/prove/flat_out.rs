//! `flat-out`: `fullcount send` and `receive` without a rate, beside a plain C program.
//!
//! The C program (`crates/lab/peers/flood.c`) uses the kernel's trains (UDP GSO and GRO) and does
//! nothing else; ours are trials of `fullcount lab udp --flat-out`. Both run over loopback in turn, C then ours, on the
//! same two cores, so that what else the host does meets both. Holds if our median of received Gb/s is at least 0.85 of the C
//! program's at every size; losses are recorded, not judged: nothing paces the senders.
//!
//! Refuses a host without a C compiler or with fewer than 2 cores: there it is skipped.
//!
//! Source: docs/testing.md, "Long proofs".

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::lab;
use crate::command::Job;
use crate::{place, setup};

/// Payload bytes, and the Gb/s of the C prototype that the claim was made with. That was another
/// hour, perhaps another host: the figure stands beside the results and decides nothing.
const SIZES: [(u32, f64); 3] = [(64, 12.2), (1472, 49.0), (8972, 59.0)];
/// Pairs of runs at each size: the median of 5 stands two disturbed ones.
const REPEATS: u32 = 5;
/// Length of one run.
const SECONDS: u64 = 3;
/// The least part of the C program's rate that holds.
const LEAST_RATIO: f64 = 0.85;
/// The cores of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cores {
    receiver: usize,
    sender: usize,
}

impl Cores {
    /// As options take them.
    fn listed(self) -> String {
        format!("{},{}", self.receiver, self.sender)
    }
}

/// Why this host cannot make the comparison.
pub fn lacking() -> Option<String> {
    let missing = setup::ensure(&[setup::C_COMPILER]).err();
    missing.map(|missing| missing.to_string()).or_else(|| cores().err())
}

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let cores = cores()?;
    let flood = compile()?;
    let binary = lab::build()?;
    let mut sizes = Vec::new();
    for (size, reference_gbps) in SIZES {
        let pairs = campaign.units(&format!("pair of runs at {size} B"), REPEATS, |_| {
            let load = load_average();
            let c = run_c(&binary, &flood, size, cores)?;
            let ours = run_ours(&binary, size, SECONDS, cores)?;
            println!("{size} B: C {} Gb/s, ours {} Gb/s", c["gbps"], ours["gbps"]);
            Ok(json!({"load_before": load, "c": c, "ours": ours}))
        })?;
        sizes.push(compared(size, reference_gbps, &pairs)?);
    }
    let held = sizes.iter().all(|size| size["ratio"].as_f64() >= Some(LEAST_RATIO));
    let figures = json!({
        "receiver_core": cores.receiver,
        "sender_core": cores.sender,
        "seconds": SECONDS,
        "repeats": REPEATS,
        "least_ratio": LEAST_RATIO,
        "sizes": sizes,
    });
    Ok(Finding { held, figures })
}

/// One C run: what was received, sent and lost on the way.
fn run_c(binary: &Path, flood: &Path, size: u32, cores: Cores) -> Result<Value, String> {
    let (program, size) = (flood.display().to_string(), size.to_string());
    let (cores, seconds) = (cores.listed(), SECONDS.to_string());
    let words = ["flood", "--program", &program, "--size", &size, "--cores", &cores];
    lab::bench(binary, &[&words[..], &["--seconds", &seconds]].concat())
}

/// One run of ours, the same way, by `lab udp`; the ledger counts the losses.
pub(super) fn run_ours(
    binary: &Path,
    size: u32,
    seconds: u64,
    cores: Cores,
) -> Result<Value, String> {
    let (size, duration) = (size.to_string(), format!("{seconds}s"));
    let cores = cores.listed();
    let words = ["udp", "--flat-out", "--sizes", &size, "--duration", &duration, "--cores", &cores];
    let more = ["--parameters", "tuned", "--repeats", "1", "--warm-up", "0s", "--no-figures"];
    let record = lab::campaign(binary, &[&words[..], &more].concat())?.record;
    let outcome = &record["trials"][0]["outcome"];
    let of = |name: &str| outcome[name].clone();
    Ok(json!({
        "gbps": of("received_gbps"),
        "gbps_sent": of("sent_gbps"),
        "seconds": of("seconds"),
        "packets_sent": of("sent"),
        "packets_received": of("delivered"),
        "packets_lost": of("lost"),
        "receiver": of("receiver"),
        "sender": of("sender"),
    }))
}

/// Medians and their ratio at one size, with the runs they come from.
fn compared(size: u32, reference_gbps: f64, pairs: &[Value]) -> Result<Value, String> {
    let of = |whose: &str| {
        let rates = pairs.iter().map(|pair| pair[whose]["gbps"].as_f64());
        median(rates.collect::<Option<Vec<f64>>>()?).filter(|rate| *rate > 0.0)
    };
    let c = of("c").ok_or_else(|| format!("{size} B: the C program received nothing"))?;
    let ours = of("ours").ok_or_else(|| format!("{size} B: fullcount received nothing"))?;
    Ok(json!({
        "size": size,
        "ours_gbps": ours,
        "c_gbps": c,
        "ratio": ours / c,
        "reference_gbps": reference_gbps,
        "pairs": pairs,
    }))
}

/// The middle value; of an even number the mean of the two in the middle. `None` of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Processes that wanted a core over the last minute, the run before included: well above 2, others
/// were at work and the rates are theirs too. `None` where the kernel does not say.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Compiles the C program into the target directory.
fn compile() -> Result<PathBuf, String> {
    let compiler = setup::program(setup::C_COMPILER).ok_or("no C compiler")?;
    let folder = place::target().join("prove");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = folder.join("flood");
    let end = Job::new(compiler)
        .args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-o"])
        .args([program.as_path(), Path::new("crates/lab/peers/flood.c")])
        .run();
    if end.ok { Ok(program) } else { Err(format!("crates/lab/peers/flood.c: {}", end.phrase)) }
}

/// Two cores that this process may use.
pub(super) fn cores() -> Result<Cores, String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = listed(list.unwrap_or_default());
    chosen(&allowed)
        .ok_or_else(|| format!("takes 2 cores, one for each side; this has {}", allowed.len()))
}

/// The numbers in a kernel list of cores, such as `0,2-4`.
fn listed(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Receiver and sender. The first core stays out where there is a third: most hosts serve their
/// interrupts and everybody else's work there.
fn chosen(allowed: &[usize]) -> Option<Cores> {
    match *allowed {
        [_, receiver, sender, ..] | [receiver, sender] => Some(Cores { receiver, sender }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(listed("\t0-3\n"), [0, 1, 2, 3]);
        assert_eq!(listed("0,2-4,9"), [0, 2, 3, 4, 9]);
        assert!(listed("").is_empty());
    }

    #[test]
    fn two_cores_suffice_and_one_does_not() {
        let pair = |receiver, sender| Some(Cores { receiver, sender });
        assert_eq!(chosen(&[0, 1, 2, 3]), pair(1, 2));
        assert_eq!(chosen(&[4, 6]), pair(4, 6));
        assert_eq!(chosen(&[0]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn one_disturbed_pair_does_not_decide() {
        let pair = |c: f64, ours: f64| json!({"c": {"gbps": c}, "ours": {"gbps": ours}});
        let pairs = [pair(10.0, 9.0), pair(10.5, 0.1), pair(9.5, 9.2)];
        let size = compared(64, 12.2, &pairs).unwrap();
        assert_eq!((size["c_gbps"].as_f64(), size["ours_gbps"].as_f64()), (Some(10.0), Some(9.0)));
        assert_eq!(
            (size["ratio"].as_f64(), size["reference_gbps"].as_f64()),
            (Some(0.9), Some(12.2))
        );
    }

    #[test]
    fn a_run_without_a_rate_is_no_comparison() {
        let pairs = [json!({"c": {"gbps": 10.0}, "ours": {"gbps": null}})];
        assert_eq!(compared(64, 12.2, &pairs).unwrap_err(), "64 B: fullcount received nothing");
        let pairs = [json!({"c": {"gbps": 0.0}, "ours": {"gbps": 9.0}})];
        assert_eq!(compared(64, 12.2, &pairs).unwrap_err(), "64 B: the C program received nothing");
    }
}
