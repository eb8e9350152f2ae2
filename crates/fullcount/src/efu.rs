//! `fullcount efu`: takes the options of the event formation unit, says the `run` command that does the same, and runs it.
//!
//! Each option is handled, or refused by its name. Exit codes are the unit's: 0 also where something was lost, 1 for a failed
//! hardware check or run, 255 for bad arguments. Source: `control-and-monitoring.md` sections 1 and 2, `docs/operations.md`.

mod hardware;
mod options;

use std::process::ExitCode;

use clap::{Command, FromArgMatches as _};
use fullcount_core::sink::secret;
use fullcount_detect::detector::registered;

use crate::exit::Failure;
use crate::{note, run, say};

pub use options::EfuFlags;

/// Bad arguments: -1 of the unit.
const BAD: u8 = 255;

/// What the options mean.
enum Meaning {
    /// A run with these arguments.
    Run(Vec<String>),
    /// End at once, as with `-s 0`, of a run with these arguments.
    Nothing(Vec<String>),
}

/// Runs what the options ask for; its own exit codes.
pub fn efu(flags: &EfuFlags) -> u8 {
    let meaning = match meaning(flags) {
        Ok(meaning) => meaning,
        Err(why) => {
            note!("fullcount efu: {why}");
            return BAD;
        }
    };
    if let Err(why) = hardware::check(flags) {
        note!("fullcount efu: {why}");
        return 1;
    }
    let arguments = match meaning {
        Meaning::Run(arguments) => arguments,
        Meaning::Nothing(arguments) => {
            note!("fullcount {}", shown(&arguments));
            return 0;
        }
    };
    note!("fullcount {}", shown(&arguments));
    match parsed(&arguments).and_then(|flags| run::run(&flags)) {
        // Losses are counted and shown; the unit ends with 0 all the same.
        Ok(0 | 3) => 0,
        Ok(other) => other,
        Err(Failure::Wrong(why)) => {
            note!("fullcount efu: {why}");
            BAD
        }
        Err(Failure::Failed(e)) => {
            note!("fullcount efu: {e:#}");
            1
        }
        Err(Failure::Told(2)) => BAD,
        Err(Failure::Told(_)) => 1,
    }
}

/// Help and version end with 0, what is wrong with the options with 255.
pub fn refused(e: &clap::Error) -> ExitCode {
    if let Some(why) = options::not_taken(e) {
        note!("fullcount efu: {why}");
        return ExitCode::from(BAD);
    }
    if e.use_stderr() {
        note!("{}", e.render().to_string().trim_end());
        return ExitCode::from(BAD);
    }
    say!("{}", e.render().to_string().trim_end());
    ExitCode::SUCCESS
}

/// The arguments of `run` as its own flags.
fn parsed(arguments: &[String]) -> Result<run::RunFlags, Failure> {
    let command = <run::RunFlags as clap::Args>::augment_args(Command::new("run"));
    let matches = command.try_get_matches_from(arguments);
    let wrong = |e: clap::Error| Failure::Wrong(e.to_string());
    run::RunFlags::from_arg_matches(&matches.map_err(wrong)?).map_err(wrong)
}

/// What stands for a secret, which would else be in the journal.
const HIDDEN: &str = "(hidden)";

/// `KEY=VALUE` with a secret hidden, else as it is.
fn without_secret(word: &str) -> String {
    match word.split_once('=') {
        Some((key, _)) if secret(key) => format!("{key}={HIDDEN}"),
        _ => word.to_owned(),
    }
}

/// As a shell takes it, without secrets.
fn shown(arguments: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@%+,".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    arguments.iter().map(|word| quoted(&without_secret(word))).collect::<Vec<_>>().join(" ")
}

/// What the options mean; else what is wrong with one of them.
fn meaning(flags: &EfuFlags) -> Result<Meaning, String> {
    flags.refuse_the_rest()?;
    let module = &flags.det;
    let known = registered().kinds().filter_map(|kind| Some((kind.name(), kind.published()?)));
    let all: Vec<_> = known.collect();
    let found = all.iter().find(|(name, p)| name == module || p.modules.contains(&module.as_str()));
    let Some((kind, _)) = found else {
        return Err(format!("-d {module}: no such module; known: {}", options::modules()));
    };
    let mut run: Vec<String> = vec!["run".into()];
    let mut put = |flag: &str, value: String| run.extend([flag.to_owned(), value]);
    put("--source", format!("udp://{}:{}", flags.dip, flags.port));
    put("--detector", (*kind).to_owned());
    if let Some(file) = &flags.file {
        put("--geometry", file.clone());
    }
    put("--receive-buffer", flags.rxbuffer.to_string());
    let topic = flags.broker_topic.clone().filter(|t| !t.is_empty());
    let topic = topic.unwrap_or_else(|| format!("{module}_detector"));
    put("--kafka", format!("kafka://{}/{topic}", flags.broker_addr));
    let carbon = format!("{}:{}", flags.graphite, flags.gport);
    put("--graphite", carbon);
    put("--control", format!("127.0.0.1:{}", flags.cmdport));
    put("--web", "off".into());
    if flags.stopafter != u32::MAX {
        put("--duration", format!("{}s", flags.stopafter));
    }
    let mut set = |key: &str, value: String| put("--set", format!("{key}={value}"));
    if let Some(file) = &flags.calibration {
        set("detector.calibration", file.clone());
    }
    set("metrics.names", "efu".into());
    // As scripts and dashboards of the unit know it, whatever it is called here.
    set("metrics.detector", module.clone());
    set("output.kafka.flush", format!("{}s", flags.updateinterval));
    let metrics = [("metrics.prefix", &flags.graphite_prefix), ("metrics.region", &flags.region)];
    for (key, value) in metrics {
        if let Some(value) = value {
            set(key, value.clone());
        }
    }
    let file = flags.log_file.as_deref();
    let logs =
        [("log.gelf", flags.logip.as_deref()), ("log.level", flags.level()), ("log.file", file)];
    for (key, value) in logs {
        if let Some(value) = value {
            set(key, value.to_owned());
        }
    }
    for (key, value) in flags.kafka_settings()? {
        set(&format!("output.kafka.options.{key}"), value);
    }
    if let Some(topic) = &flags.ar51_topic {
        set("output.raw.brokers", flags.broker_addr.clone());
        set("output.raw.topic", topic.clone());
        set("output.raw.spool", format!("fullcount-spool/{topic}"));
        set(
            "output.raw.every",
            (flags.monitor_every / flags.monitor_consecutive.max(1)).max(1).to_string(),
        );
        set("output.raw.required", "false".into());
    }
    for (flag, value) in flags.cores()? {
        put(flag, value);
    }
    Ok(if flags.stopafter == 0 { Meaning::Nothing(run) } else { Meaning::Run(run) })
}

#[cfg(test)]
#[path = "efu/efu_tests.rs"]
mod tests;
