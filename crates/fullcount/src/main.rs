//! The `fullcount` binary: one thin module per verb.
//!
//! Exit codes: 0 balanced and nothing lost; 1 failed at run time or a check said no; 2 wrong option or
//! configuration, found before anything is opened; 3 ran, but something was lost or the balance is
//! not 0. Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

mod advise;
mod catalogue;
mod confirm;
mod demo;
mod exit;
mod flags;
mod inspect;
mod lab;
mod leash;
mod receive;
mod recover;
mod run;
mod say;
mod send;
mod shifted;
mod status_line;
mod version;
mod write;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Data acquisition in software that accounts for every packet: delivered, or listed in the ledger
/// with the place where it was lost and what to change.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    /// With --version: also what this binary was compiled for and which instructions its decoders use here
    #[arg(long, requires = "version")]
    verbose: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The whole chain on this machine: simulated detector, service, live page, NeXus file, ledger
    Demo(demo::Flags),
    /// The service: source → detector → outputs, with live page, metrics and ledger
    Run(Box<run::Flags>),
    /// The readout system's stand-in: numbered packets, simulated readouts or a capture, at a set rate
    Send(Box<send::Flags>),
    /// The bare receiver of numbered packets: rate, loss, duplicates, reordering, CPU
    Receive(receive::Flags),
    /// Decodes a capture or a live port readout by readout
    Inspect(inspect::Flags),
    /// The file writer: runs that control systems start by messages on Kafka become NeXus files
    Write(Box<write::Flags>),
    /// Makes NeXus files of a killed process readable by every reader
    Recover(recover::Flags),
    /// Measuring: campaigns, rates without loss, peers, link arithmetic, an emulated link, decoder speed
    Lab(lab::Flags),
    /// What limits a wanted rate on this host and what to change; changes it and puts it back on request
    Advise(advise::Flags),
    /// Every counter with its unit, meaning and what to do about it
    Catalogue(catalogue::Flags),
}

fn main() -> ExitCode {
    // Before anything may start a thread.
    fullcount_out::nexus::ignore_environment();
    leash::hold();
    if version::is_asked_for(std::env::args_os().skip(1)) {
        tell!("{}", version::text());
        return ExitCode::SUCCESS;
    }
    let outcome = match Cli::parse().verb {
        Verb::Demo(f) => demo::demo(f),
        Verb::Run(f) => run::run(&f),
        Verb::Send(f) => send::send(*f),
        Verb::Receive(f) => receive::receive(f),
        Verb::Inspect(f) => inspect::inspect(f),
        Verb::Write(f) => write::write(&f),
        Verb::Recover(f) => recover::recover(f),
        Verb::Lab(f) => lab::lab(f),
        Verb::Advise(f) => advise::advise(&f),
        Verb::Catalogue(f) => catalogue::catalogue(f),
    };
    exit::code(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, CommandFactory};

    /// The verbs that do something, with the words that call them.
    fn verbs(of: &Command, called: &str, all: &mut Vec<(String, Command)>) {
        for verb in of.get_subcommands().filter(|v| v.get_name() != "help" && !v.is_hide_set()) {
            let name = format!("{called} {}", verb.get_name());
            verbs(verb, &name, all);
            // A verb of verbs may have examples; one that does something must.
            if !verb.has_subcommands() || verb.get_after_help().is_some() {
                all.push((name, verb.clone()));
            }
        }
    }

    #[test]
    fn every_verb_has_examples_of_itself_and_text_that_fits_its_width() {
        let mut cli = Cli::command();
        cli.build();
        let mut all = Vec::new();
        verbs(&cli, "fullcount", &mut all);
        let named: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        for name in
            ["fullcount run", "fullcount advise", "fullcount lab udp", "fullcount lab bench probes"]
        {
            assert!(named.contains(&name), "{named:?}");
        }
        for (name, verb) in all {
            let text = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let (_, examples) =
                text.split_once("Examples:\n").unwrap_or_else(|| panic!("{name}: no examples"));
            assert!(examples.contains(&name), "{name}: {examples}");
            // zsh takes `?` and `[` in a bare word for a pattern, and every shell ends a command at `&`.
            for line in examples.lines().filter(|line| line.contains("fullcount ")) {
                let bare: String = line.split(['\'', '"']).step_by(2).collect();
                assert!(!bare.contains(['?', '[', '&']), "{name}: quote it: {line}");
            }
            // Wider lines would be broken in the middle of a sentence or a command.
            let wide: Vec<&str> = text.lines().filter(|l| l.chars().count() > 100).collect();
            assert!(wide.is_empty(), "{name}: {wide:#?}");
        }
    }
}
