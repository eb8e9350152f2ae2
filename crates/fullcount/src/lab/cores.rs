//! `fullcount lab cores`: which of this host's cores are near each other, now.
//!
//! A matrix of the round trips of a cache line. On a virtual machine it changes, for the host moves cores between
//! caches: `--watch` shows how often. Refuses: a watch of no time. Source: `docs/lab.md`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use fullcount_engine::config::refuse;
use fullcount_engine::stop::Stop;
use fullcount_lab::cores::{NEAR_NS, Near, allowed, pairs};
use serde_json::json;

use super::read;
use crate::exit::Failure;
use crate::{note, say, tell};

/// Measures every pair of cores; writes no file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabCoresFlags {
    /// Measure again every second for so long, and say how often pairs changed between near and far
    #[arg(long, value_name = "TIME")]
    watch: Option<String>,
    /// End with one JSON object on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Two cores that share a cache hand a line over and back within 150 ns. Copying through the kernel
between cores that do not is several times slower: put receiver and sender on near ones
(lab udp --cores near, lab lossless --near-cores, lab peers --near-cores).

Examples:
  fullcount lab cores
  fullcount lab cores --watch 30s";

/// Pause between two rounds of a watch.
const ROUND: Duration = Duration::from_secs(1);

fn measure(cores: &[usize]) -> Result<Vec<Near>, Failure> {
    Ok(pairs(cores).context("measuring the cores")?)
}

/// Measures and prints.
pub fn cores(flags: &LabCoresFlags) -> Result<u8, Failure> {
    let watch = flags.watch.as_ref().map(|t| read::duration("watch", t)).transpose()?;
    let watch = watch.filter(|time| !time.is_zero());
    if flags.watch.is_some() && watch.is_none() {
        return Err(refuse("watch", "0s", "more than 0s, e.g. 30s").into());
    }
    let cores = allowed().context("counting the cores")?;
    if cores.len() < 2 {
        return Err(
            anyhow::anyhow!("this process may use one core only: no pair to measure").into()
        );
    }
    let stop = Stop::on_signals().context("installing the signal handlers")?;
    let (begun, mut rounds, mut changes) = (Instant::now(), 0u32, 0u32);
    let mut last: Vec<Near> = measure(&cores)?;
    loop {
        rounds += 1;
        note!("{}", line(&last));
        if stop.requested() || watch.is_none_or(|w| begun.elapsed() + ROUND > w) {
            break;
        }
        std::thread::sleep(ROUND);
        let now = measure(&cores)?;
        let was = |n: &Near| {
            last.iter()
                .find(|l| (l.receiver, l.sender) == (n.receiver, n.sender))
                .map(Near::is_near)
        };
        changes +=
            now.iter().filter(|n| was(n).is_some_and(|was| was != n.is_near())).count() as u32;
        last = now;
    }
    if flags.json {
        let list: Vec<_> = last
            .iter()
            .map(|n| json!({"cores": [n.receiver, n.sender], "round_trip_ns": n.round_trip_ns, "near": n.is_near()}))
            .collect();
        say!(
            "{}",
            json!({"schema": "fullcount/cores/1", "verb": "lab cores", "cores": cores, "near_ns": NEAR_NS,
                   "pairs": list, "rounds": rounds, "changes": changes})
        );
        return Ok(0);
    }
    let mut text = matrix(&cores, &last);
    if watch.is_some() {
        let _ = writeln!(
            text,
            "{changes} changes between near and far in {rounds} rounds of all pairs"
        );
    }
    tell!("{text}");
    Ok(0)
}

/// The near pairs in one line.
fn line(all: &[Near]) -> String {
    let near = all.iter().filter(|n| n.is_near());
    let names: Vec<String> = near.map(|n| format!("{}-{}", n.receiver, n.sender)).collect();
    match names.is_empty() {
        true => format!("no two cores are near each other (below {NEAR_NS} ns)"),
        false => format!("near: {}", names.join(", ")),
    }
}

fn matrix(cores: &[usize], all: &[Near]) -> String {
    let mut text = format!("round trip of a cache line, ns\n{:<8}", "core");
    text.extend(cores.iter().map(|c| format!("{c:>7}")));
    text.push('\n');
    for &a in cores {
        let _ = write!(text, "{a:<8}");
        for &b in cores {
            let pair = (a.min(b), a.max(b));
            let found = all.iter().find(|n| (n.receiver, n.sender) == pair);
            let _ = match found {
                Some(n) => write!(text, "{:>7.0}", n.round_trip_ns),
                None => write!(text, "{:>7}", "-"),
            };
        }
        text.push('\n');
    }
    text
}
