//! Flags of `run` that the outputs declare with their keys: each lays its value over the file's.
//!
//! Refuses an address that cannot be taken apart. Source: `docs/configuration.md`.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use fullcount_core::key::{Flag, Key, Words};
use fullcount_engine::config::{Overlay, as_toml};
use fullcount_engine::registered;
use toml::{Table, Value};

use crate::exit::Failure;

/// Words given, by flag.
#[derive(Debug, Default)]
pub struct OutputFlags {
    given: Vec<(&'static str, Vec<String>)>,
}

/// Keys of the outputs that have flags.
fn keys() -> impl Iterator<Item = (Key, Flag)> {
    let all = registered::outputs().kinds().flat_map(|kind| kind.keys());
    all.filter_map(|key| Some((key, key.flag?)))
}

/// Flags, each once: several outputs may have one.
fn flags() -> Vec<Flag> {
    let mut all: Vec<Flag> = Vec::new();
    for (_, flag) in keys() {
        if !all.iter().any(|f| f.name == flag.name) {
            all.push(flag);
        }
    }
    all
}

impl Args for OutputFlags {
    fn augment_args(command: Command) -> Command {
        flags().into_iter().fold(command, |command, flag| {
            let arg = Arg::new(flag.name).long(flag.name).help(flag.help).help_heading("Outputs");
            command.arg(match flag.words {
                Words::Replace => arg.action(ArgAction::SetTrue),
                Words::Names => arg.value_name(flag.value).action(ArgAction::Append),
                Words::As | Words::Split(_) => arg.value_name(flag.value),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OutputFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = OutputFlags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.given = flags()
            .iter()
            .map(|flag| {
                let words: Vec<String> = match flag.words {
                    Words::Replace => {
                        let given = matches.get_flag(flag.name);
                        given.then(|| "true".to_owned()).into_iter().collect()
                    }
                    _ => matches.get_many(flag.name).unwrap_or_default().cloned().collect(),
                };
                (flag.name, words)
            })
            .filter(|(_, words)| !words.is_empty())
            .collect();
        Ok(())
    }
}

impl OutputFlags {
    fn words(&self, flag: &str) -> Option<&[String]> {
        self.given.iter().find(|(name, _)| *name == flag).map(|(_, words)| &words[..])
    }

    /// Lays what was given over a configuration.
    ///
    /// # Errors
    /// An address that cannot be taken apart.
    pub fn lay(&self, over: &mut Overlay) -> Result<(), Failure> {
        for (key, flag) in keys() {
            let Some(words) = self.words(flag.name) else { continue };
            match flag.words {
                Words::As => {
                    let word = words.last().cloned().unwrap_or_default();
                    let read = if key.is_text() { None } else { as_toml(&word) };
                    over.put(key.path, Some(read.unwrap_or(Value::from(word))));
                }
                Words::Names => {
                    let one = |name: &String| {
                        Value::Table(Table::from_iter([("name".to_owned(), name.clone().into())]))
                    };
                    over.put(key.path, Some(words.iter().map(one).collect::<Vec<_>>()));
                }
                Words::Split(split) => {
                    let word = words.last().map_or("", String::as_str);
                    let parts =
                        split(word).map_err(|e| Failure::Wrong(format!("--{} {e}", flag.name)))?;
                    for (path, value) in parts {
                        over.put(path, Some(value));
                    }
                }
                Words::Replace => {}
            }
        }
        self.replace(over);
        Ok(())
    }

    /// `--overwrite` is about the files that flags name; without such flags, about that of the first output that has it.
    fn replace(&self, over: &mut Overlay) {
        let mut kinds = Vec::new();
        for kind in registered::outputs().kinds() {
            let keys = kind.keys();
            let of = |key: &&Key| key.flag.is_some_and(|f| matches!(f.words, Words::Replace));
            let Some(replaces) = keys.iter().find(of) else { continue };
            if self.words(replaces.flag.map_or("", |f| f.name)).is_none() {
                continue;
            }
            let naming = keys.iter().find(|key| Some(key.path) == kind.named_by());
            let named = naming.and_then(|key| self.words(key.flag?.name)).is_some();
            kinds.push((replaces.path, named));
        }
        let any = kinds.iter().any(|(_, named)| *named);
        for (at, (path, named)) in kinds.into_iter().enumerate() {
            if named || (!any && at == 0) {
                over.put(path, Some(true));
            }
        }
    }
}
