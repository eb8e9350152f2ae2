//! `[output]`, `[web]`, `[metrics]` and `[log]`: sections that the outputs read themselves, by what they declare.
//!
//! Refuses sections of outputs that are not there, keys of an output whose file nobody named, and an output that takes all events beside
//! another one. Source: `docs/configuration.md`.

use fullcount_core::output::OutputKind;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_io::section;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::Config;
use crate::registered;

/// `[output]`
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct OutputConfig {
    /// An output that stands alone: `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sink: Option<String>,
    /// A section for each output.
    #[serde(flatten)]
    pub sections: Table,
}

/// Names of outputs that have a section in `[output]`.
fn names() -> Vec<&'static str> {
    let inner = registered::outputs().kinds().filter(|kind| !kind.alone());
    let inner = inner.filter_map(|kind| kind.section().strip_prefix("output."));
    std::iter::once("sink").chain(inner).collect()
}

/// Reads the sections of a whole file, so that messages carry its line numbers.
pub(super) fn check_file(file: &str) -> Result<(), Refusal> {
    if let Ok(table) = file.parse::<Table>() {
        check_left_out(|path| at(&table, path).is_some())?;
    }
    section::check_names("output", &names(), file)?;
    registered::outputs().kinds().try_for_each(|kind| kind.check(file))
}

impl Config {
    /// The section at `path` as TOML; `None` if there is none.
    pub fn section(&self, path: &str) -> Option<String> {
        if path == "control" {
            return toml::to_string(&self.control).ok();
        }
        let table = match path.strip_prefix("output.") {
            Some(name) => self.output.sections.get(name)?.as_table()?,
            None if path == "web" => &self.web,
            None if path == "metrics" => &self.metrics,
            None if path == "log" => &self.log,
            None => return None,
        };
        Some(toml::to_string(table).unwrap_or_default())
    }

    /// True if the output is there.
    pub(crate) fn has(&self, kind: &dyn OutputKind) -> bool {
        match kind.alone() {
            true => self.output.sink.as_deref() == Some(kind.name()),
            false => kind.always() || self.section(kind.section()).is_some(),
        }
    }

    /// Outputs that are configured, in the order in which they are opened.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &'static dyn OutputKind> {
        registered::outputs().kinds().filter(|kind| self.has(*kind))
    }

    /// Checks what flags and file together say of the outputs.
    pub(super) fn check_outputs(&self) -> Result<(), Refusal> {
        check_left_out(|path| match path.strip_prefix("output.") {
            Some(name) => self.output.sections.contains_key(name),
            None => path == "web" && !self.web.is_empty(),
        })?;
        for (name, value) in &self.output.sections {
            if !names().contains(&name.as_str()) {
                let what = section::unknown(name, &names());
                return Err(Refusal::Syntax(format!("{what}\nin `output`")));
            }
            if !value.is_table() {
                let what = format!("invalid type: {}, expected a table", value.type_str());
                return Err(Refusal::Syntax(format!("{what}\nin `output.{name}`")));
            }
        }
        for kind in self.outputs() {
            kind.shown(&self.section(kind.section()).unwrap_or_default())?;
        }
        let Some(sink) = self.output.sink.as_deref() else { return Ok(()) };
        let alone = || registered::outputs().kinds().filter(|kind| kind.alone());
        if !alone().any(|kind| kind.name() == sink) {
            let allowed = alone().map(OutputKind::name).collect::<Vec<_>>().join(", ");
            let allowed = format!("{allowed}, or leave it out and name outputs");
            return Err(refuse("output.sink", sink, allowed));
        }
        let mut others = self.outputs().filter(|kind| !kind.alone() && kind.takes_events());
        match others.next() {
            None => Ok(()),
            Some(other) => {
                let other = other.section();
                let why =
                    format!("cannot stand beside {other}: {sink} means that events go nowhere");
                Err(refuse("output.sink", sink, why))
            }
        }
    }

    /// The whole with all defaults and without secrets.
    pub(super) fn shown(&self) -> Result<Table, Refusal> {
        let wrong = |e: &dyn std::fmt::Display| Refusal::Syntax(e.to_string());
        let mut all = Table::try_from(self).map_err(|e| wrong(&e))?;
        for kind in self.outputs().filter(|kind| !kind.alone()) {
            let text = kind.shown(&self.section(kind.section()).unwrap_or_default())?;
            let shown: Table = toml::from_str(&text).map_err(|e| wrong(&e))?;
            super::lay(&mut all, kind.section(), Value::Table(shown));
        }
        Ok(all)
    }
}

fn at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |at, part| at.get(part))
}

/// Refuses sections of outputs that this build was made without.
fn check_left_out(has: impl Fn(&str) -> bool) -> Result<(), Refusal> {
    match registered::outputs().left_out().iter().find(|(section, _)| has(section)) {
        None => Ok(()),
        Some((section, feature)) => {
            let what = "not in this build, which was made without the feature";
            Err(Refusal::Syntax(format!("{section}: {what} `{feature}`")))
        }
    }
}

/// Refuses keys of an output whose file nobody named, as `--overwrite` alone.
pub(super) fn names_its_file(table: &Table) -> Result<(), Refusal> {
    let at = |path: &str| at(table, path)?.as_table();
    for kind in registered::outputs().kinds() {
        let Some(file) = kind.named_by() else { continue };
        let of_kind = kind.keys();
        let Some(naming) = of_kind.iter().find(|key| key.path == file) else { continue };
        let found = at(kind.section()).filter(|keys| !keys.contains_key(naming.name()));
        let Some(keys) = found else { continue };
        // A key that nobody knows is told by the parser; of what is a table, flags give the name.
        let has_flag = |path: &str| of_kind.iter().any(|k| k.path == path && k.flag.is_some());
        let of_flags = |(key, value): (&String, &Value)| {
            let path = format!("{}.{key}", kind.section());
            match value.as_table() {
                Some(inner) => inner.keys().all(|name| has_flag(&format!("{path}.{name}"))),
                None => has_flag(&path),
            }
        };
        if keys.is_empty() || !keys.iter().all(of_flags) {
            continue;
        }
        let given = keys.keys().cloned().collect::<Vec<_>>().join(", ");
        let flag = naming.flag.map_or(String::new(), |f| format!("--{} {}", f.name, f.value));
        let more = match keys.contains_key("overwrite") {
            // --overwrite is about the files that flags name.
            true => replaced_by_key(kind),
            false => String::new(),
        };
        let why = format!("{given} alone names no file: which one is meant? {flag}{more}");
        return Err(refuse(file, "(nothing)", why));
    }
    Ok(())
}

/// Outputs beside `kind` that a key replaces, not the flag.
fn replaced_by_key(kind: &dyn OutputKind) -> String {
    let others = registered::outputs().kinds().filter(|other| other.name() != kind.name());
    let key = |other: &dyn OutputKind| {
        let keys = other.keys();
        let key = keys.iter().find(|key| key.name() == "overwrite" && key.flag.is_none())?;
        Some(format!("; of a {}: --set {}=true", other.name(), key.path))
    };
    others.filter_map(key).collect()
}
