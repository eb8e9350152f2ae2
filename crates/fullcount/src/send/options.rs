//! The options of simulated detectors as flags of `send`: one flag for each key that a kind declares.
//!
//! Refuses what the chosen source does not have, naming those that do, and values without their unit.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use fullcount_core::simulator::{OptionUnit, Simulator, SimulatorOption, TrafficOptions};
use fullcount_engine::config::refuse;
use fullcount_io::quantity;

use crate::exit::Failure;

/// Options as they were given.
#[derive(Debug, Clone, Default)]
pub struct OptionFlags(TrafficOptions);

/// Each key once, with the kinds that have it.
fn declared() -> Vec<(&'static str, Vec<(&'static str, SimulatorOption)>)> {
    let mut all: Vec<(&'static str, Vec<(&'static str, SimulatorOption)>)> = vec![];
    for kind in fullcount_sim::registered().kinds() {
        for option in kind.declared().options {
            let own = (kind.name(), *option);
            match all.iter_mut().find(|(key, _)| *key == option.key) {
                Some((_, kinds)) => kinds.push(own),
                None => all.push((option.key, vec![own])),
            }
        }
    }
    all
}

/// What the flag sets of each kind; kinds that say the same stand together.
fn help(kinds: &[(&'static str, SimulatorOption)]) -> String {
    let mut said: Vec<(Vec<&str>, String)> = vec![];
    for (name, option) in kinds {
        let SimulatorOption { about, range, default, .. } = option;
        let default =
            if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
        let text = format!("{about}, {range}{default}");
        match said.iter_mut().find(|(_, other)| *other == text) {
            Some((names, _)) => names.push(name),
            None => said.push((vec![name], text)),
        }
    }
    let each = said.iter().map(|(names, text)| format!("{}: {text}", names.join(", ")));
    each.collect::<Vec<String>>().join("; ")
}

impl Args for OptionFlags {
    fn augment_args(command: Command) -> Command {
        declared().into_iter().fold(command, |command, (key, kinds)| {
            let arg = Arg::new(key).long(key).value_name(kinds[0].1.value).help(help(&kinds));
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = TrafficOptions::default();
        for (key, _) in declared() {
            if let Some(text) = matches.get_one::<String>(key) {
                given.set(key, text);
            }
        }
        Ok(OptionFlags(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl OptionFlags {
    /// Those of a declaration.
    pub fn of(given: &[(&str, &str)]) -> OptionFlags {
        OptionFlags(TrafficOptions::of(given))
    }

    /// The options for `kind`, without units; `None`: a source that has none.
    pub fn read(&self, kind: Option<&dyn Simulator>) -> Result<TrafficOptions, Failure> {
        let mut options = TrafficOptions::default();
        for (key, kinds) in declared() {
            let Some(text) = self.0.get(key) else { continue };
            let own = kind.and_then(|kind| kinds.iter().find(|(name, _)| *name == kind.name()));
            let Some((_, option)) = own else {
                let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
                return Err(refuse(key, text, only(&names)).into());
            };
            options.set(key, plain(option, text)?);
        }
        Ok(options)
    }
}

/// Which sources have it.
pub fn only(names: &[&str]) -> String {
    match names {
        [] => "no source has it".to_owned(),
        [one] => format!("only the source {one} has it"),
        [first @ .., last] => format!("only the sources {} and {last} have it", first.join(", ")),
    }
}

/// The value in the option's unit, without its name.
fn plain(option: &SimulatorOption, text: &str) -> Result<String, Failure> {
    let SimulatorOption { key, range, .. } = *option;
    match option.unit {
        OptionUnit::None => Ok(text.to_owned()),
        OptionUnit::Bytes => {
            let size = |t: &str| quantity::size(t).map_err(|e| refuse(key, t, e.to_string()));
            let sizes = text.split(',').map(size).collect::<Result<Vec<u64>, _>>()?;
            Ok(sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
        }
        OptionUnit::Hertz => {
            let hz = text.strip_suffix("Hz").and_then(|n| quantity::number(n).ok());
            Ok(hz.ok_or_else(|| refuse(key, text, range))?.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_what_the_kinds_declare_and_others_are_refused_by_name() {
        let command = OptionFlags::augment_args(Command::new("send"));
        for (key, kinds) in declared() {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(key)).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(kinds.iter().all(|(name, _)| help.contains(name)), "{key}: {help}");
        }
        let all = fullcount_sim::registered();
        for (key, kinds) in declared() {
            let flags = OptionFlags::of(&[(key, "1")]);
            for kind in all.kinds().filter(|k| kinds.iter().all(|(name, _)| *name != k.name())) {
                let Err(Failure::Wrong(said)) = flags.read(Some(kind)) else { panic!("{key}") };
                assert!(said.contains(key) && said.contains(kinds[0].0), "{said}");
            }
            assert!(flags.read(None).is_err(), "a capture has none");
        }
    }

    #[test]
    fn units_are_taken_off() {
        let all = fullcount_sim::registered();
        let kind =
            all.kinds().find(|k| k.declared().options.iter().any(|o| o.unit == OptionUnit::Bytes));
        let kind = kind.unwrap();
        let key = kind.declared().options[0].key;
        let read = |text: &str| OptionFlags::of(&[(key, text)]).read(Some(kind)).unwrap();
        assert_eq!(read("64,1KiB").get(key), Some("64,1024"));
        assert_eq!(only(&["a", "b", "c"]), "only the sources a, b and c have it");
    }
}
