//! The program as a library: verbs and flags over the kinds that an application registers.
//!
//! An application with kinds of its own adds them to [`Kinds::builtin`] and hands them to [`run`]; every verb, help text,
//! campaign and document of kinds then has them. `examples/tube` does so in ten lines.
//!
//! Exit codes: 0 balanced and nothing lost; 1 failed at run time or a check said no; 2 wrong option or
//! configuration, found before anything is opened; 3 ran, but something was lost or the balance is
//! not 0. Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

mod absent;
mod advise;
mod catalogue;
mod ctl;
mod demo;
mod efu;
mod exit;
mod flags;
mod help;
mod inspect;
mod kinds;
mod lab;
mod leash;
mod logging;
mod notify;
mod output_flags;
mod receive;
#[cfg(feature = "nexus")]
mod recover;
mod reference;
mod run;
#[doc(hidden)]
pub mod say;
mod send;
mod shifted;
mod spead2;
mod status_line;
mod top;
mod version;
#[cfg(feature = "kafka")]
mod wish;
#[cfg(feature = "write")]
mod write;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use kinds::Kinds;

/// Data acquisition in software that accounts for every packet: delivered, or listed in the ledger
/// with the place where it was lost and what to change.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    /// With --version: also what this binary was compiled for and which instructions its decoders use here
    #[arg(long, requires = "version")]
    verbose: bool,
    #[command(flatten)]
    told: logging::LogFlags,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The whole chain on this machine: simulated detector, service, live page, NeXus file, ledger
    Demo(demo::DemoFlags),
    /// The service: source → detector → outputs, with live page, metrics and ledger
    Run(Box<run::RunFlags>),
    /// The readout system's stand-in: numbered packets, simulated readouts or a capture, at a set rate
    Send(Box<send::SendFlags>),
    /// The bare receiver of numbered packets: rate, loss, duplicates, reordering, CPU
    Receive(receive::ReceiveFlags),
    /// Decodes a capture or a live port readout by readout
    Inspect(inspect::InspectFlags),
    /// The file writer: runs that control systems start by messages on Kafka become NeXus files
    #[cfg(feature = "write")]
    Write(Box<write::WriteFlags>),
    /// Makes NeXus files of a killed process readable by every reader
    #[cfg(feature = "nexus")]
    Recover(recover::RecoverFlags),
    /// Measuring: campaigns, rates without loss, peers, link arithmetic, an emulated link, decoder speed
    Lab(lab::LabFlags),
    /// What limits a wanted rate on this host and what to change; changes it and puts it back on request
    Advise(advise::AdviseFlags),
    /// Takes the options of the event formation unit and runs the same
    Efu(Box<efu::EfuFlags>),
    /// Takes the options of spead2_send and spead2_recv and does the same
    Spead2(spead2::Spead2Flags),
    /// Gives a command to a running service over its control port
    Ctl(ctl::CtlFlags),
    /// Shows a running service in the terminal: rates, losses, counters, queues, CPU of its threads
    Top(top::TopFlags),
    /// Every counter with its unit, meaning and what to do about it
    Catalogue(catalogue::CatalogueFlags),
}

/// Runs the program: `arguments` are those of the command line, the program's name first.
///
/// `kinds` become those of this process; a second call with other kinds has no effect and ends with 1.
pub fn run(kinds: Kinds, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Before anything may start a thread.
    #[cfg(feature = "nexus")]
    fullcount_nexus::ignore_environment();
    leash::hold();
    if let Err(why) = kinds.register() {
        note!("fullcount: {why}");
        return ExitCode::from(1);
    }
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if version::is_asked_for(arguments.iter().skip(1).cloned()) {
        tell!("{}", version::text());
        return ExitCode::SUCCESS;
    }
    let is_efu = arguments.get(1).is_some_and(|verb| verb == "efu");
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(e) if is_efu => return efu::refused(&e),
        Err(e) => match absent::of(&e) {
            Some(sentence) => return exit::code(Err(exit::Failure::Wrong(sentence))),
            None => e.exit(),
        },
    };
    cli.told.begin();
    let outcome = match cli.verb {
        Verb::Demo(f) => demo::demo(f),
        Verb::Run(f) => run::run(&f),
        Verb::Send(f) => send::send(*f),
        Verb::Receive(f) => receive::receive(f),
        Verb::Inspect(f) => inspect::inspect(f),
        #[cfg(feature = "write")]
        Verb::Write(f) => write::write(&f),
        #[cfg(feature = "nexus")]
        Verb::Recover(f) => recover::recover(f),
        Verb::Lab(f) => lab::lab(f),
        Verb::Advise(f) => advise::advise(&f),
        Verb::Efu(f) => Ok(efu::efu(&f)),
        Verb::Spead2(f) => spead2::spead2(&f),
        Verb::Ctl(f) => ctl::ctl(&f),
        Verb::Top(f) => top::top(&f),
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
        kinds::for_tests();
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
