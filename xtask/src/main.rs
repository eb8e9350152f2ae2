//! `cargo xtask`: the project's own commands, each of which does its own set-up.
//!
//! Refuses an unknown command, step or proof with the list of those that exist (exit 2), before
//! anything is built. Everything else that goes wrong is exit 1; `demo` passes on the exit code of
//! the binary it starts.
//!
//! Source: CONTRIBUTING.md (how to run) and docs/testing.md (the three tiers of proof).

#![forbid(unsafe_code)]

mod axe;
mod command;
mod coverage;
mod demo;
mod fuzzing;
mod kafka;
mod place;
mod prove;
mod record;
mod room;
mod schemas;
mod setup;
mod tally;
mod test;
mod wasm;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask demo [ARGS…]            build the release binary and run `fullcount demo ARGS…`
cargo xtask test                    every check and every test: what CI runs
cargo xtask test --quick            formatting, clippy and the Rust tests only
cargo xtask test STEP…              only these steps (list below)
cargo xtask coverage                line coverage per crate, into docs/results/coverage.json
cargo xtask prove NAME [--resume]   the long tier, into docs/results/prove-NAME.json
cargo xtask kafka [--brokers N] [--fresh]
                                    Apache Kafka on this machine, at port 9092, until Ctrl-C
cargo xtask schemas [--check]       the code of out::flat::generated, made from crates/out/schemas
";

fn main() -> ExitCode {
    // The second face of this binary: cargo starts it in front of rustc, see `coverage`.
    if coverage::is_wrapper() {
        return coverage::wrap_rustc();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("--help", &[][..]),
    };
    match command {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "coverage" => coverage::run(rest),
        "prove" => prove::run(rest),
        "kafka" => kafka::run(rest),
        "schemas" => schemas::run(rest),
        "--help" | "-h" | "help" => {
            print!("{HELP}\nSteps of `test`, in this order:\n{}", test::list());
            print!("\nNames for `prove`:\n{}", prove::list());
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("error: there is no command `{other}`; these exist:\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
