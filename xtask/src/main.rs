//! `cargo xtask`: the project's own commands, each of which does its own set-up.
//!
//! Refuses an unknown command, step or proof with the list of those that exist (exit 2), before
//! anything is built. Everything else that goes wrong is exit 1; `demo` passes on the exit code of
//! the binary it starts.
//!
//! Source: CONTRIBUTING.md (how to run) and docs/testing.md (the tiers of proof).

#![forbid(unsafe_code)]

mod command;
mod coverage;
mod demo;
mod fuzzing;
mod kafka;
mod kinds;
mod lines;
mod npm;
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
cargo xtask test                    formatting, clippy, every test, licences: a change is ready
cargo xtask test --deep             Miri, AddressSanitizer, fuzzing, other hosts, the faults again
cargo xtask test --quick            formatting, clippy and the tests, and nothing is fetched
cargo xtask test STEP…              only these steps (list below)
cargo xtask test --table            what the last runs took, into docs/testing.md
cargo xtask coverage                line coverage per crate, into docs/results/coverage.json
cargo xtask prove NAME [--resume]   the long tier, into docs/results/prove-NAME.json
cargo xtask kafka [--brokers N] [--fresh]
                                    Apache Kafka on this machine, at port 9092, until Ctrl-C
cargo xtask lines [REVISION]        source lines of the program by crate, without tests and generated code
cargo xtask schemas [--check]       the code of fullcount_messages::generated, made from crates/messages/schemas
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
        "lines" => lines::run(rest),
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
