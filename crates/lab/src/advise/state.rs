//! The state file: what every changed setting was before, so that it can be put back exactly.
//!
//! It is written before anything is changed, as a new file that takes the old one's name, so that a
//! crash leaves the old or the new one and never half. A setting that is changed again keeps its oldest
//! value. Refuses: files that are not ours, of another version, or that name places where no settings lie.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fullcount_io::{input_file, newfile};
use serde_json::{Map, Value, json};

use super::place::SettingPlace;

/// What the file calls itself.
const SCHEMA: &str = "fullcount/advise-state/1";

/// Why the state file cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum SettingsStateError {
    #[error("state file {path}: {cause}; name another with --state")]
    Read { path: PathBuf, cause: io::Error },
    #[error("state file {path}: {cause}; nothing more was changed. Name another with --state")]
    Write { path: PathBuf, cause: io::Error },
    #[error("state file {path}: {what}; it is left as it is. Name another with --state")]
    Form { path: PathBuf, what: String },
    #[error(
        "state file {0}: there is none, so nothing is to be put back; name another with --state"
    )]
    Absent(PathBuf),
}

/// One changed setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSetting {
    /// Where.
    pub place: SettingPlace,
    /// Value before the first change.
    pub former: String,
    /// Value that was set last.
    pub applied: String,
}

/// Changed settings, in the order in which they were first changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangedSettings {
    /// One each.
    pub entries: Vec<ChangedSetting>,
}

impl ChangedSettings {
    /// Reads the file; an empty state if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no state file.
    pub fn read(path: &Path) -> Result<ChangedSettings, SettingsStateError> {
        match input_file::text(path, input_file::LARGEST_INPUT) {
            Ok(text) => ChangedSettings::parse(&text)
                .map_err(|what| SettingsStateError::Form { path: path.to_owned(), what }),
            Err(e) if e.is_not_found() => Ok(ChangedSettings::default()),
            Err(e) => Err(SettingsStateError::Read { path: path.to_owned(), cause: e.into() }),
        }
    }

    fn parse(text: &str) -> Result<ChangedSettings, String> {
        let root: Value = serde_json::from_str(text).map_err(|e| format!("not JSON ({e})"))?;
        match root.get("schema").and_then(Value::as_str) {
            Some(SCHEMA) => {}
            Some(other) => return Err(format!("schema '{other}', expected '{SCHEMA}'")),
            None => return Err(format!("no schema, expected '{SCHEMA}'")),
        }
        let list = root.get("changes").and_then(Value::as_array).ok_or("no list 'changes'")?;
        let mut state = ChangedSettings::default();
        for (i, item) in list.iter().enumerate() {
            let word = |key: &str| {
                let text = item.get(key).and_then(Value::as_str);
                text.map(str::to_owned).ok_or_else(|| format!("changes[{i}]: no text '{key}'"))
            };
            let name = word("place")?;
            let place = SettingPlace::parse(&name)
                .ok_or_else(|| format!("changes[{i}]: '{name}' is no setting of ours"))?;
            if state.entries.iter().any(|e| e.place == place) {
                return Err(format!("changes[{i}]: '{name}' is there twice"));
            }
            let entry =
                ChangedSetting { place, former: word("former")?, applied: word("applied")? };
            state.entries.push(entry);
        }
        Ok(state)
    }

    /// What [`ChangedSettings::parse`] reads.
    fn text(&self) -> String {
        let entry = |e: &ChangedSetting| {
            let mut map = Map::new();
            map.insert("place".into(), e.place.to_string().into());
            map.insert("former".into(), e.former.as_str().into());
            map.insert("applied".into(), e.applied.as_str().into());
            Value::Object(map)
        };
        let changes: Vec<Value> = self.entries.iter().map(entry).collect();
        format!("{:#}\n", json!({"schema": SCHEMA, "changes": changes}))
    }

    /// Notes a change. The oldest value of a place stays.
    pub fn note(&mut self, place: &SettingPlace, former: String, applied: String) {
        match self.entries.iter_mut().find(|e| e.place == *place) {
            Some(entry) => entry.applied = applied,
            None => self.entries.push(ChangedSetting { place: place.clone(), former, applied }),
        }
    }

    /// Writes the file, through a new one beside it; removes it if nothing is left to put back.
    pub fn write(&self, path: &Path) -> Result<(), SettingsStateError> {
        self.store(path).map_err(|cause| SettingsStateError::Write { path: path.to_owned(), cause })
    }

    fn store(&self, path: &Path) -> io::Result<()> {
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        if self.entries.is_empty() {
            return match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        fs::create_dir_all(folder)?;
        newfile::replace_for_good(path, self.text().as_bytes())
    }
}

/// Where the state file lies unless told otherwise: below `XDG_STATE_HOME` (`state_home`) if that is an
/// absolute path, else below `/var/lib`.
pub fn default_path(state_home: Option<&Path>) -> PathBuf {
    let home = state_home.filter(|p| p.is_absolute()).unwrap_or(Path::new("/var/lib"));
    home.join("fullcount/advise-state.json")
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
