//! `kafka`: each fault between the service and a real Kafka 20 times, and what is on the topic compared with what was sent.
//!
//! The scenarios and the checker are those of `kafka_faults` in `fullcount`, optimised, more often and longer: a
//! broker gone for 60 s, a network cut for 30 s. Holds if every round held, if nothing was lost at 80 % of the spool's
//! rate, and if something was above it. Refuses a fault or a number that there is not, and a test that tested nothing.
//!
//! `kafka:FAULT` is one fault, `kafka:N` so many rounds of all, `kafka:FAULT:N` both; each has a record of its own.

use std::time::Duration;

use serde_json::{Value, json};

use super::Finding;
use super::campaign::Campaign;
use crate::command::Job;
use crate::tally::Libtest;
use crate::{kafka, setup};

/// Rounds of each fault.
const ROUNDS: u32 = 20;

struct Fault {
    /// As `FULLCOUNT_FAULT` has it.
    name: &'static str,
    test: &'static str,
    /// Least seconds that one lasts.
    seconds: u32,
    /// Rounds that share brokers and service: those that are interrupted are made again.
    together: u32,
    /// Nothing may be missing, as opposed to: what is missing must be counted.
    lossless: bool,
}

/// Their module among the scenarios.
const SCENARIOS: &str = "kafka_faults";

const KILLED_BROKER: &str = "a_broker_that_is_killed_or_gone_costs_no_event_and_doubles_none";
const SPOOL: &str =
    "a_spool_that_cannot_follow_loses_what_is_counted_and_a_kill_nothing_that_was_appended";

const FAULTS: [Fault; 7] = [
    Fault { name: "broker-killed", test: KILLED_BROKER, seconds: 1, together: 5, lossless: true },
    Fault {
        name: "service-killed",
        test: SPOOL,
        seconds: 1,
        together: 5,
        // What no message held yet dies with the service, which the scenario itself judges.
        lossless: false,
    },
    Fault {
        name: "election",
        test: "an_election_among_three_brokers_costs_no_event_and_doubles_none",
        seconds: 1,
        together: 5,
        lossless: true,
    },
    Fault { name: "disk-full", test: SPOOL, seconds: 1, together: 5, lossless: false },
    Fault { name: "overload", test: SPOOL, seconds: 5, together: 5, lossless: false },
    Fault {
        name: "network-cut",
        test: "a_network_that_is_cut_costs_no_event_and_doubles_none",
        seconds: 30,
        together: 5,
        lossless: true,
    },
    // Gigabytes each: one at a time.
    Fault { name: "broker-gone", test: KILLED_BROKER, seconds: 60, together: 1, lossless: true },
];

/// Which faults, and how often.
pub struct Choice {
    faults: Vec<&'static Fault>,
    rounds: u32,
}

impl Choice {
    /// Reads what stands behind `kafka:`.
    ///
    /// # Errors
    ///
    /// No such fault, or no such number.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut choice = Self { faults: FAULTS.iter().collect(), rounds: ROUNDS };
        for part in text.split(':') {
            match (FAULTS.iter().find(|fault| fault.name == part), part.parse()) {
                (Some(fault), _) => choice.faults = vec![fault],
                (None, Ok(rounds @ 1..=1000)) => choice.rounds = rounds,
                _ => {
                    let names: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
                    let names = names.join(", ");
                    return Err(format!("kafka:{part}: one of {names}, or 1 to 1000 rounds"));
                }
            }
        }
        Ok(choice)
    }
}

pub fn run(campaign: &mut Campaign) -> Result<Finding, String> {
    let choice = match campaign.only.clone() {
        Some(only) => Choice::read(&only)?,
        None => Choice { faults: FAULTS.iter().collect(), rounds: ROUNDS },
    };
    let needs = [setup::C_COMPILER, setup::CMAKE, setup::JAVA, setup::MAVEN];
    setup::ensure(&needs).map_err(|missing| missing.to_string())?;
    let jars = kafka::jars()?.display().to_string();
    let (mut held, mut figures) = (true, Vec::new());
    for fault in &choice.faults {
        let count = choice.rounds.div_ceil(fault.together);
        let units = campaign.units(fault.name, count, |unit| {
            let rounds = fault.together.min(choice.rounds - unit * fault.together);
            rounds_of(fault, rounds, &jars)
        })?;
        let ok = units.iter().all(|unit| holds(fault, unit));
        held &= ok;
        figures.push(json!({
            "fault": fault.name,
            "held": ok,
            "rounds": choice.rounds,
            "seconds_at_least": fault.seconds,
            "units": units,
        }));
    }
    Ok(Finding { held, figures: json!({"rounds_each": choice.rounds, "faults": figures}) })
}

fn rounds_of(fault: &Fault, rounds: u32, jars: &str) -> Result<Value, String> {
    let mut reader = Libtest::default();
    let mut told = Vec::new();
    let end = Job::cargo(&["test", "--release", "--package", "fullcount", "--test", "scenarios"])
        .args(["--", "--exact", &format!("{SCENARIOS}::{}", fault.test), "--show-output"])
        .env("FULLCOUNT_FAULT", fault.name)
        .env("FULLCOUNT_FAULT_ROUNDS", rounds.to_string())
        .env("FULLCOUNT_FAULT_SECONDS", fault.seconds.to_string())
        .env("FULLCOUNT_KAFKA_JARS", jars)
        // The first builds; then brokers start, and what was spooled in a minute is sent and read.
        .limit(Duration::from_secs(3600))
        .run_reading(|line| {
            told.extend(line.strip_prefix("figures: ").map(serde_json::from_str::<Value>));
            reader.read(line)
        });
    let tally = reader.finish(&end, fault.name);
    if let Some(reason) = tally.missing.first() {
        return Err(format!("{}: {reason}", fault.name));
    }
    let told = told.into_iter().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    if tally.failed.is_empty() && told.is_empty() {
        return Err(format!("{SCENARIOS} ran nothing of {}: nothing was proved", fault.name));
    }
    let figures: Vec<&Value> = told.iter().map(|told| &told["figures"]).collect();
    Ok(json!({"rounds": rounds, "failed": tally.failed, "figures": figures}))
}

/// No test failed; and no event is missing where none may be.
fn holds(fault: &Fault, unit: &Value) -> bool {
    let passed = unit["failed"].as_array().is_some_and(Vec::is_empty);
    let accounts = unit["figures"].as_array().into_iter().flatten().map(|told| &told["account"]);
    let whole = |account: &Value| {
        ["packets_lost", "events_dropped"].iter().all(|key| account[key].as_u64() == Some(0))
    };
    passed && (!fault.lossless || accounts.into_iter().all(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_fault_a_number_or_both() {
        let read = |text: &str| {
            let choice = Choice::read(text)?;
            Ok::<_, String>((choice.faults.len(), choice.faults[0].name, choice.rounds))
        };
        assert_eq!(read("election"), Ok((1, "election", 20)));
        assert_eq!(read("3"), Ok((7, "broker-killed", 3)));
        assert_eq!(read("network-cut:2"), Ok((1, "network-cut", 2)));
        assert!(read("0").is_err_and(|error| error.contains("1 to 1000 rounds")));
        assert!(read("flood").is_err_and(|error| error.contains("broker-gone")));
    }

    #[test]
    fn a_missing_event_counts_only_where_none_may_be_missing() {
        let unit = |lost: u64, failed: &[&str]| {
            let account = json!({"packets_lost": 0, "events_dropped": lost});
            json!({"failed": failed, "figures": [{"account": account}]})
        };
        let [gone, overload] = ["broker-gone", "overload"]
            .map(|name| FAULTS.iter().find(|fault| fault.name == name).unwrap());
        assert!(holds(gone, &unit(0, &[])) && !holds(gone, &unit(10, &[])));
        assert!(holds(overload, &unit(10, &[])) && !holds(overload, &unit(10, &["a test"])));
    }
}
