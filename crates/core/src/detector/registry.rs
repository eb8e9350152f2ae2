//! Detectors by name, and how one is found.

use super::{Clock, Detector, Kind, Setup};
use crate::refusal::{Refusal, setting};

/// Detectors by name. An application adds its own kinds to those of this workspace.
pub struct Registry {
    kinds: Vec<Box<dyn Kind>>,
}

impl Registry {
    /// No kinds.
    pub fn empty() -> Registry {
        Registry { kinds: Vec::new() }
    }

    /// True if the readouts of the kind called `name` carry pulses; false for an unknown one.
    pub fn carries_pulses(&self, name: &str) -> bool {
        self.kinds.iter().any(|kind| kind.name() == name && kind.carries_pulses())
    }

    /// What the times in the packets of the kind called `name` say.
    pub fn clock(&self, name: &str) -> Option<Clock> {
        self.kinds.iter().find(|kind| kind.name() == name).map(|kind| kind.clock())
    }

    /// Name of the kind that is taken unless one is chosen: the first that was registered; empty without any.
    pub fn usual(&self) -> &'static str {
        self.kinds.first().map_or("", |kind| kind.name())
    }

    /// Names of all kinds, as in a sentence: `a, b or c`.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.kinds().map(Kind::name).collect();
        crate::simulator::either(&names)
    }

    /// The kind called `name`.
    pub fn find(&self, name: &str) -> Option<&dyn Kind> {
        self.kinds().find(|kind| kind.name() == name)
    }

    /// Adds a kind; a later one of the same name wins.
    pub fn register(&mut self, kind: Box<dyn Kind>) {
        self.kinds.retain(|k| k.name() != kind.name());
        self.kinds.push(kind);
    }

    /// Known kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &dyn Kind> {
        self.kinds.iter().map(|k| &**k)
    }

    /// Configures the detector called `kind`.
    ///
    /// # Errors
    /// Unknown name, `plugin:` (not yet), or a refused configuration.
    pub fn configure(&self, kind: &str, setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
        if kind.starts_with("plugin:") {
            return Err(Refusal::Kind(format!(
                "\"{kind}\": shared-library detectors are not supported by this version; link the detector crate and register \
                 its Kind instead"
            )));
        }
        let known = || self.kinds().map(Kind::name).collect::<Vec<_>>().join(", ");
        let found = self.kinds().find(|k| k.name() == kind);
        let unknown = || Refusal::Kind(format!("unknown detector \"{kind}\"; known: {}", known()));
        let found = found.ok_or_else(unknown)?;
        let given = !(setup.calibration.is_empty() && setup.calibration_path.is_empty());
        if given && !found.takes_calibration() {
            return Err(setting(
                "detector.calibration",
                setup.calibration_path.clone(),
                format!("none: {kind} has no calibration file"),
            ));
        }
        found.configure(setup)
    }
}
