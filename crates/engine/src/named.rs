//! A run's counters under the names that people chose, for the outputs of its state and the control port.
//!
//! Source: `docs/operations.md`, "Names". Refuses nothing: who owns `[metrics]` checks it.

use std::sync::Arc;
use std::time::Instant;

use fullcount_core::command::Desk;
use fullcount_core::ledger::Entries;
use fullcount_core::naming::{Names, Naming};
use fullcount_core::status::{Facts, StatusSource};
use fullcount_detect::detector::registered;

use crate::config::Config;

/// The names of `[metrics]`.
pub fn names(config: &Config, detector: &str) -> Names {
    let text = |key: &str| config.metrics.get(key).and_then(toml::Value::as_str);
    let naming = text("names").and_then(Naming::read).unwrap_or_default();
    let published = registered().find(detector).and_then(|kind| kind.published());
    Names::new(naming, (detector, published), text("prefix"), text("region"))
}

/// A run with its names.
pub struct Named {
    run: Arc<dyn StatusSource>,
    names: Arc<Names>,
    started: Instant,
}

impl Named {
    /// From now on.
    pub fn new(run: Arc<dyn StatusSource>, names: Arc<Names>) -> Named {
        Named { run, names, started: Instant::now() }
    }
}

impl StatusSource for Named {
    fn entries(&self) -> Entries {
        self.run.entries()
    }

    fn facts(&self) -> Facts {
        self.run.facts()
    }

    fn published(&self) -> Vec<(String, i64)> {
        self.names.values(&self.run.entries(), self.started.elapsed().as_secs())
    }

    fn prefix(&self) -> &str {
        self.names.prefix()
    }

    fn can_fall(&self, name: &str, entries: &Entries) -> bool {
        self.names.can_fall(name, entries)
    }
}

/// A run with the commands that can be given to it.
pub struct WithDesk {
    /// The run.
    pub run: Arc<dyn StatusSource>,
    /// The commands, and who may give them.
    pub desk: Arc<Desk>,
}

impl StatusSource for WithDesk {
    fn entries(&self) -> Entries {
        self.run.entries()
    }

    fn facts(&self) -> Facts {
        self.run.facts()
    }

    fn published(&self) -> Vec<(String, i64)> {
        self.run.published()
    }

    fn prefix(&self) -> &str {
        self.run.prefix()
    }

    fn can_fall(&self, name: &str, entries: &Entries) -> bool {
        self.run.can_fall(name, entries)
    }

    fn desk(&self) -> Option<Arc<Desk>> {
        Some(self.desk.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fullcount_core::naming::Theirs;

    use super::*;

    #[test]
    fn every_name_of_theirs_stands_for_counters_that_exist_and_none_is_twice() {
        let lines = crate::catalogue::lines();
        let known: BTreeSet<&str> = lines.iter().map(|(_, info)| &*info.name).collect();
        let mut n = 0;
        for kind in registered().kinds() {
            let Some(published) = kind.published() else { continue };
            assert!(!published.modules.is_empty(), "{}", kind.name());
            for table in [published.now, published.of_2018] {
                let mut names: Vec<&str> = table.iter().map(|t| t.name).collect();
                let first = table.first().expect("the received packets").ours;
                assert_eq!(
                    first,
                    ["receive.packets"],
                    "{}: scripts ask for the first",
                    kind.name()
                );
                let missing: Vec<&Theirs> = table
                    .iter()
                    .filter(|t| !t.ours.iter().all(|name| known.contains(name)))
                    .collect();
                assert!(missing.is_empty(), "{}: {missing:?}", kind.name());
                names.sort_unstable();
                n += names.len();
                assert!(names.windows(2).all(|w| w[0] != w[1]), "{}: {names:?}", kind.name());
            }
            // What scripts look for ends so.
            let config = Config::default();
            let all = names(&config, kind.name());
            assert_eq!(all.prefix(), format!("fullcount.{}.", kind.name()));
        }
        assert!(n > 80, "{n}");
    }
}
