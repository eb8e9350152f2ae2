//! A run's counters under the names that people chose, for the outputs of its state and the control port.
//!
//! Source: `docs/operations.md`, "Names". Refuses nothing: who owns `[metrics]` checks it.

use std::sync::Arc;
use std::time::Instant;

use fullcount_core::command::Desk;
use fullcount_core::ledger::Entries;
use fullcount_core::naming::{Names, NamesGiven, Naming};
use fullcount_core::status::{Facts, StatusSource};
use fullcount_detect::detector::registered;

use crate::config::Config;

/// The names of `[metrics]`.
pub fn names(config: &Config, detector: &str) -> Names {
    let text = |key: &str| config.metrics.get(key).and_then(toml::Value::as_str);
    let naming = text("names").and_then(Naming::read).unwrap_or_default();
    let published = registered().find(detector).and_then(|kind| kind.published());
    let given =
        NamesGiven { detector: text("detector"), prefix: text("prefix"), region: text("region") };
    Names::new(naming, (detector, published), given)
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
#[path = "named_list_tests.rs"]
mod list_tests;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fullcount_core::ledger::{Info, Ledger, Sheet};
    use fullcount_core::naming::{Theirs, UPTIME};

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
            let all = names(&Config::default(), kind.name());
            assert_eq!(all.prefix(), format!("fullcount.{}.", kind.name()));
        }
        assert!(n > 80, "{n}");
    }

    /// All counters that a run of this kind can have, each with another value.
    pub(super) fn entries(kind: &str) -> Entries {
        let others: BTreeSet<&str> = registered().kinds().map(|k| k.name()).collect();
        let mut seen = BTreeSet::new();
        let lines = crate::catalogue::lines().into_iter();
        let lines = lines.filter(|(part, _)| *part == kind || !others.contains(part));
        let lines: Vec<Info> =
            lines.map(|(_, i)| i).filter(|i| seen.insert(i.name.to_string())).collect();
        let (ledger, sheet) = (Ledger::default(), Sheet::new(lines));
        let n = sheet.lines().len();
        (0..n).for_each(|at| sheet.add(at, 1 + at as u64));
        ledger.register(sheet);
        ledger.read()
    }

    #[test]
    fn scripts_of_the_unit_find_counters_of_every_kind_by_place_and_by_ending() {
        let mut config = Config::default();
        config.metrics.insert("names".into(), "efu".into());
        let mut with = [0; 2];
        for kind in registered().kinds().map(|kind| kind.name()) {
            let (entries, all) = (entries(kind), names(&config, kind));
            let values = all.values(&entries, 7);
            let of = |ours: &str| entries.get(ours).map(|n| n as i64);
            // isefurunning asks for the first, and takes it for the received packets; efubriefstat for the last.
            let (first, last) = (&values[0], &values[values.len() - 1]);
            assert_eq!(Some(first.1), of("receive.packets"), "{kind}: {}", first.0);
            let published = registered().find(kind).and_then(|kind| kind.published());
            let name = published.map_or("receive.packets", |p| p.now[0].name);
            assert_eq!((first.0.as_str(), last.0.as_str(), last.1), (name, UPTIME, 7), "{kind}");
            // efurates asks for all whose names end so; one of them is that very counter.
            let ending = |end: &str| {
                let is = |name: &str| {
                    name.strip_suffix(end)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                let found: Vec<_> = values.iter().filter(|(name, _)| is(name)).collect();
                assert_eq!(found.len(), 1, "{kind}: {end}: {found:?}");
                assert_eq!(Some(found[0].1), of(end), "{kind}: {end}");
            };
            ending("receive.packets");
            ending("receive.bytes");
            for (n, end) in with.iter_mut().zip(["readouts.count", "events.count"]) {
                if of(end).is_some() {
                    ending(end);
                    *n += 1;
                }
            }
        }
        // Numbered packets and heaps have neither; fragments have events of their own.
        assert!(with[0] >= 4 && with[1] >= 4, "{with:?}");
    }
}
