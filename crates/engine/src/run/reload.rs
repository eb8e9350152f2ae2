//! A changed configuration while a run goes on: what can be taken is, every other key that differs is named.
//!
//! What is refused changes nothing: all parts check before any takes. Source: `docs/operations.md`, "Reload".

use std::collections::BTreeMap;

use fullcount_core::output::OutputOpenError;
use toml::{Table, Value};

use super::plan::RunPlan;
use super::{RunError, Running};
use crate::config::{Config, ConfigError};

/// A threshold that a run takes.
const MAX_REFUSED: &str = "engine.max_refused";

/// What became of a changed configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Keys that differ, and hold from now on.
    pub taken: Vec<String>,
    /// Keys that differ, and hold after the next start.
    pub restart: Vec<String>,
}

impl Running {
    /// Takes what differs between both. Files of the log are opened again in any case.
    ///
    /// # Errors
    /// A value that is refused, then all is as it was; or a file that cannot be opened.
    pub fn reload(&self, old: &Config, new: &Config) -> Result<Reloaded, RunError> {
        let wrong = |e: ConfigError| RunError::Output(e.to_string());
        // All of it must be right, also what a restart would take: a file of the log may be another output's.
        RunPlan::new("run", new).map_err(wrong)?;
        let percent = new.max_refused().map_err(wrong)?;
        let part = |page: &usize| Some((*page, self.pages[*page].reads_again()?));
        let parts: Vec<(usize, &'static str)> =
            (0..self.pages.len()).collect::<Vec<_>>().iter().filter_map(part).collect();
        for (page, path) in &parts {
            let checked = self.pages[*page].check_again(&section(new, path));
            checked.map_err(|e| wrong(e.into()))?;
        }
        let mut reloaded = Reloaded::default();
        for key in differ(old, new) {
            let is_of = |path: &str| {
                key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let threshold = key == MAX_REFUSED && self.watch.refusals.is_some();
            match threshold || parts.iter().any(|(_, path)| is_of(path)) {
                true => reloaded.taken.push(key),
                false => reloaded.restart.push(key),
            }
        }
        let failed = |e: OutputOpenError| RunError::Output(e.to_string());
        for (page, path) in &parts {
            self.pages[*page].read_again(&section(new, path)).map_err(failed)?;
        }
        if let Some(refusals) = &self.watch.refusals {
            refusals.set_limit(percent);
        }
        Ok(reloaded)
    }
}

/// The section that a part reads again.
fn section(config: &Config, path: &str) -> String {
    match path.starts_with("control") {
        true => toml::to_string(&config.control).unwrap_or_default(),
        false => config.section(path).unwrap_or_default(),
    }
}

/// Keys whose values differ, defaults included.
fn differ(old: &Config, new: &Config) -> Vec<String> {
    let keys = |config: &Config| {
        let mut all = BTreeMap::new();
        flat("", &config.to_toml().parse::<Table>().unwrap_or_default(), &mut all);
        all
    };
    let (old, new) = (keys(old), keys(new));
    let mut all: Vec<&String> = old.keys().chain(new.keys()).collect();
    all.sort();
    all.dedup();
    all.into_iter().filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

fn flat(path: &str, table: &Table, all: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Table(inner) => flat(&path, inner, all),
            value => drop(all.insert(path, value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overlay;

    fn config(settings: &[&str]) -> Config {
        let mut overlay = Overlay::default();
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        overlay.set(&settings).unwrap();
        overlay.read(None).unwrap()
    }

    #[test]
    fn keys_that_differ_are_named_defaults_included() {
        let old = config(&["detector.kind=sequence", "output.sink=null"]);
        assert!(differ(&old, &old.clone()).is_empty());
        let same = config(&["detector.kind=sequence", "output.sink=null", "engine.queue=64"]);
        let queue = old.engine.queue;
        assert_eq!(differ(&old, &same).is_empty(), queue == 64);
        let new = config(&[
            "detector.kind=sequence",
            "output.sink=null",
            "engine.max_refused=7%",
            "control.allow=[\"10.0.0.0/8\"]",
        ]);
        assert_eq!(differ(&old, &new), ["control.allow", "engine.max_refused"]);
    }
}
