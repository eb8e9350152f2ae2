//! `cargo xtask prove NAME [--resume]`: the long tier, what takes minutes to hours.
//!
//! Refuses an unknown name (exit 2), a `--resume` without anything to resume, and one at another
//! revision or with other settings than the proof began with: half a proof of each is none.
//!
//! A proof is a row of units. Each finished unit is put into `target/prove/NAME.json` at once, so
//! an interrupted proof goes on at the unit it was in. The end writes
//! `docs/results/prove-NAME.json` whether it held or not; exit 0 only if it held. A proof that this
//! host cannot make is skipped with the reason: exit 1, and what was written before stays.
//!
//! Source: docs/testing.md, "Long proofs".

mod by_turns;
mod campaign;
mod capture;
mod datagrams;
mod files;
mod flat_out;
mod fuzz;
mod heap_ids;
mod kafka;
mod kill;
mod lab;
mod line_rate;
mod soak;
mod stcp;
mod sweep;
mod workers;

use std::process::ExitCode;

use serde_json::{Value, json};

use self::campaign::Campaign;
use crate::command::spoken;
use crate::record;

/// What a proof found: whether its claim held, and the figures.
struct Finding {
    held: bool,
    figures: Value,
}

struct Proof {
    name: &'static str,
    about: &'static str,
    /// Why this host cannot make it at all; then it is skipped and no result is written.
    lacking: fn() -> Option<String>,
    run: fn(&mut Campaign) -> Result<Finding, String>,
}

const PROOFS: [Proof; 14] = [
    Proof {
        name: "soak",
        about: "10 min of `run` at 1 M events/s into a file: nothing lost, memory flat",
        lacking: nothing,
        run: soak::run,
    },
    Proof {
        name: "kill",
        about: "50 SIGKILLs at random moments: nothing flushed is missing after recovery",
        lacking: nothing,
        run: kill::run,
    },
    Proof {
        name: "files",
        about: "100 new files by command in 60 s at 1 M events/s: every event in exactly one",
        lacking: nothing,
        run: files::run,
    },
    Proof {
        name: "datagrams",
        about: "10 million random and damaged datagrams a detector into `run`: no panic, balance 0",
        lacking: nothing,
        run: datagrams::run,
    },
    Proof {
        name: "capture",
        about: "`run --capture` beside events at 10 Gb/s or 0.8 of the disk's rate: no loss",
        lacking: nothing,
        run: capture::run,
    },
    Proof {
        name: "kafka",
        about: "20 of each fault around Kafka, 2 h (kafka:FAULT, kafka:N): no event lost or twice",
        lacking: nothing,
        run: kafka::run,
    },
    Proof {
        name: "fuzz",
        about: "10 million inputs for each fuzz target and decoder (fuzz:NAME for one), 2 min under AddressSanitizer",
        lacking: nothing,
        run: fuzz::run,
    },
    Proof {
        name: "heap-ids",
        about: "a billion distinct heap numbers into one stream of SPEAD: the memory of the window",
        lacking: nothing,
        run: heap_ids::run,
    },
    Proof {
        name: "line-rate",
        about: "60 s of the first detector at 10 Gb/s through `run --sink null` on one core: no loss",
        lacking: nothing,
        run: line_rate::run,
    },
    Proof {
        name: "sweep",
        about: "`fullcount lab udp`: no loss at 10 Gb/s for 16 packet sizes, 10 s each",
        lacking: nothing,
        run: sweep::run,
    },
    Proof {
        name: "stcp",
        about: "the simplified TCP into Linux, 100 GB or 10 min, and over bad links: every byte compared",
        lacking: nothing,
        run: stcp::run,
    },
    Proof {
        name: "flat-out",
        about: "`send` and `receive` without a rate: at least 0.85 of a plain C program's Gb/s",
        lacking: flat_out::lacking,
        run: flat_out::run,
    },
    Proof {
        name: "by-turns",
        about: "decoders, flat-out UDP, Kafka, files in turn with FULLCOUNT_OLD_BINARY: no rate falls",
        lacking: by_turns::lacking,
        run: by_turns::run,
    },
    Proof {
        name: "workers",
        about: "two paced senders shared out among two workers, 10 s at three sizes: no loss",
        lacking: nothing,
        run: workers::run,
    },
];

/// For proofs that say by themselves what they miss.
fn nothing() -> Option<String> {
    None
}

/// One line per proof, for the help.
pub fn list() -> String {
    PROOFS.iter().map(|proof| format!("  {:9} {}\n", proof.name, proof.about)).collect()
}

/// Runs one proof.
pub fn run(arguments: &[String]) -> ExitCode {
    let mut resume = false;
    let mut chosen = None;
    for argument in arguments {
        let (name, only) = match argument.split_once(':') {
            Some((name @ ("fuzz" | "kafka"), part)) => (name, Some(part)),
            _ => (argument.as_str(), None),
        };
        if let ("kafka", Some(Err(error))) = (name, only.map(kafka::Choice::read)) {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
        match (name, PROOFS.iter().find(|proof| proof.name == name)) {
            ("--resume", _) => resume = true,
            (_, Some(proof)) if chosen.is_none() => chosen = Some((proof, only)),
            (other, _) => {
                eprintln!("error: one of these names and --resume, not `{other}`:\n{}", list());
                return ExitCode::from(2);
            }
        }
    }
    let Some((proof, only)) = chosen else {
        eprintln!("error: prove what? One of:\n{}", list());
        return ExitCode::from(2);
    };
    match carry_out(proof, only, resume) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `only`: one part of the proof, with a record of its own.
fn carry_out(proof: &Proof, only: Option<&str>, resume: bool) -> Result<bool, String> {
    if let Some(reason) = (proof.lacking)() {
        println!("{}: skipped: {reason}", proof.name);
        return Ok(false);
    }
    let name = only.map_or(proof.name.to_owned(), |only| format!("{}-{only}", proof.name));
    let name = name.replace(':', "-");
    let mut campaign = Campaign::open(&name, only, resume)?;
    println!("{}: {}", proof.name, proof.about);
    let finding = (proof.run)(&mut campaign)?;
    let spent = campaign.spent();
    let results = json!({
        "claim": proof.about,
        "held": finding.held,
        "seconds": spent.as_secs_f64(),
        "figures": finding.figures,
    });
    let file = record::write(&format!("prove-{name}"), &results)?;
    campaign.close();
    println!("{:#}", finding.figures);
    println!("written: {}", file.display());
    let verdict = if finding.held { "held" } else { "DID NOT HOLD" };
    println!("{}: {verdict} ({})", proof.name, spoken(spent));
    Ok(finding.held)
}
