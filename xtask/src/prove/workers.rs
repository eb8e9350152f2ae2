//! `workers`: two paced senders to one port that two workers share, at three packet sizes.
//!
//! Holds if at each size every packet of both senders was accepted, each worker served one of them, and the
//! rates were kept within 1 %. Which worker a sender meets depends on its source port, which the system
//! chooses: a trial in which both met the same one is repeated, whatever it lost, and counted. Workers are
//! on CPU 0 and 1, senders on 2 and 3; a host with fewer than four CPUs shows less, which the record says.

use std::thread;

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use super::lab::{self, Ended};

/// Payload bytes, and the rate of each sender.
const TRIALS: [(u32, &str, f64); 3] =
    [(64, "1Gbps", 1.0), (1472, "3Gbps", 3.0), (8972, "5Gbps", 5.0)];
const SECONDS: u64 = 10;
/// Half of all pairs of ports meet one worker: 20 in a row do once in a million.
const TRIES: u32 = 20;

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let count = u32::try_from(TRIALS.len()).map_err(|error| error.to_string())?;
    let trials =
        campaign.units("packet size", count, |unit| shared_out(TRIALS[unit as usize], cpus))?;
    let held = trials.iter().all(|trial| trial["held"] == true);
    let shown = match cpus {
        0..4 => {
            "fewer CPUs than the four programs want: workers and senders share them, so that this \
                 shows that nothing is lost at these rates, not what two workers gain"
        }
        _ => {
            "each worker and each sender has a CPU of its own; on two CPUs, where senders and workers \
              share them, the gain of a second worker cannot be shown"
        }
    };
    Ok(Finding { held, figures: json!({"cpus": cpus, "shown": shown, "trials": trials}) })
}

fn shared_out(trial: (u32, &str, f64), cpus: usize) -> Result<Value, String> {
    for tries in 1..=TRIES {
        let mut measured = measure(trial, cpus)?;
        if measured["shares"].as_array().is_some_and(|all| all.iter().all(|n| n.as_u64() > Some(0)))
        {
            measured["tries"] = json!(tries);
            return Ok(measured);
        }
    }
    Err(format!("both senders met the same worker {TRIES} times"))
}

fn measure((size, rate, gbps): (u32, &str, f64), cpus: usize) -> Result<Value, String> {
    let (size_text, duration) = (size.to_string(), format!("{SECONDS}s"));
    let words = ["trial", "--detector", "sequence", "--senders", "2", "--size", &size_text];
    let mut words = [&words[..], &["--rate", rate, "--duration", &duration]].concat();
    let receive = ["--", "receive", "--workers", "2", "--senders", "2"];
    let [senders, workers]: [&[&str]; 2] = match cpus {
        0..4 => [&[], &[]],
        _ => [&["--send-cores", "2,3"], &["--core", "0,1"]],
    };
    words.extend([senders, &receive, workers].concat());
    let row = lab::bench(&lab::build()?, &words)?;
    let ended = Ended::of(&row["receiver"]);
    let sent: Vec<Ended> = row["send"].as_array().into_iter().flatten().map(Ended::of).collect();
    let workers = ended.summary["workers"].as_array().cloned().unwrap_or_default();
    let shares: Vec<u64> = workers.iter().filter_map(|w| w["packets"].as_u64()).collect();
    let packets: u64 = sent.iter().map(|s| s.number("/packets/sent")).sum();
    let rates: Vec<f64> =
        sent.iter().filter_map(|s| s.summary.pointer("/rates/gbps")?.as_f64()).collect();
    let kept = rates.len() == 2 && rates.iter().all(|r| *r >= 0.99 * gbps);
    let held = ended.code == 0
        && ended.number("/balance") == 0
        && packets > 0
        && packets == ended.number("/packets/accepted")
        && kept;
    Ok(json!({
        "size": size,
        "rate_each": rate,
        "seconds": SECONDS,
        "held": held,
        "exit": ended.code,
        "balance": ended.number("/balance"),
        "packets_sent": packets,
        "packets_accepted": ended.number("/packets/accepted"),
        "packets_lost": ended.sum("/packets/lost"),
        "shares": shares,
        "gbps_sent": rates,
        "gbps_received": ended.summary.pointer("/rates/gbps"),
        "cpu": ended.summary.get("cpu"),
    }))
}
