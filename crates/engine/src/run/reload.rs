//! A changed configuration while a run goes on: what can be taken is, every other key that differs is named.
//!
//! What is refused changes nothing: all parts check before any takes. Source: `docs/operations.md`, "Reload".

use fullcount_core::output::OutputOpenError;

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
    /// Takes what differs from what holds now. Files of the log are opened again in any case. A key that takes a restart is named
    /// each time until it holds.
    ///
    /// # Errors
    /// A value that is refused, then all is as it was; or a file that cannot be opened, then what was taken before it holds.
    pub fn reload(&self, new: &Config) -> Result<Reloaded, RunError> {
        let wrong = |e: ConfigError| RunError::Output(e.to_string());
        // All of it must be right, also what a restart would take: a file of the log may be another output's.
        let shown = RunPlan::new("run", new).map_err(wrong)?.outputs.configuration();
        let percent = new.max_refused().map_err(wrong)?;
        let part = |page: &usize| Some((*page, self.pages[*page].reads_again()?));
        let parts: Vec<(usize, &'static str)> =
            (0..self.pages.len()).collect::<Vec<_>>().iter().filter_map(part).collect();
        for (page, path) in &parts {
            let checked = self.pages[*page].check_again(&section(new, path));
            checked.map_err(|e| wrong(e.into()))?;
        }
        let mut reloaded = Reloaded::default();
        for key in self.configuration.differ(&shown) {
            let threshold = key == MAX_REFUSED && self.watch.refusals.is_some();
            match threshold || parts.iter().any(|(_, path)| is_of(&key, path)) {
                true => reloaded.taken.push(key),
                false => reloaded.restart.push(key),
            }
        }
        let failed = |e: OutputOpenError| RunError::Output(e.to_string());
        for (page, path) in &parts {
            self.pages[*page].read_again(&section(new, path)).map_err(failed)?;
            self.configuration.take(&shown, |key| is_of(key, path));
        }
        if let Some(refusals) = &self.watch.refusals {
            refusals.set_limit(percent);
            self.configuration.take(&shown, |key| key == MAX_REFUSED);
        }
        Ok(reloaded)
    }
}

/// True for a section's or a key's own path, and what is below it.
fn is_of(key: &str, path: &str) -> bool {
    key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The section that a part reads again.
fn section(config: &Config, path: &str) -> String {
    match path.starts_with("control") {
        true => toml::to_string(&config.control).unwrap_or_default(),
        false => config.section(path).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overlay;
    use crate::control::CurrentConfig;

    fn config(settings: &[&str]) -> CurrentConfig {
        let mut overlay = Overlay::default();
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        overlay.set(&settings).unwrap();
        let config = overlay.read(None).unwrap();
        RunPlan::new("run", &config).unwrap().outputs.configuration()
    }

    #[test]
    fn keys_that_differ_are_named_defaults_included() {
        let old = config(&["detector.kind=sequence", "output.sink=null"]);
        assert!(old.differ(&old.clone()).is_empty());
        let same = config(&["detector.kind=sequence", "output.sink=null", "engine.queue=64"]);
        assert!(old.differ(&same).is_empty(), "the default");
        let new = config(&[
            "detector.kind=sequence",
            "output.sink=null",
            "engine.max_refused=7%",
            "control.allow=[\"10.0.0.0/8\"]",
        ]);
        assert_eq!(old.differ(&new), ["control.allow", "engine.max_refused"]);
        assert!(is_of("log.level", "log") && is_of("log", "log") && !is_of("logs.level", "log"));
    }
}
