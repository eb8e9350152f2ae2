//! Flags laid over a configuration file: key paths with values, in the order of the flags.
//!
//! A flag only lays its value over the file's; [`Config::read`] checks both alike. Refuses a `--set` that is no key path
//! with a value, and a file that cannot be read.

use std::path::PathBuf;

use fullcount_io::input_file;
use toml::Value;

use super::{Config, ConfigError, is_text};

/// Key paths and values in the order of the flags.
#[derive(Debug, Default)]
pub struct Overlay(Vec<(String, Value)>);

impl Overlay {
    /// Adds a value if the flag was given.
    pub fn put<T: Into<Value>>(&mut self, key: &str, value: Option<T>) -> &mut Self {
        self.0.extend(value.map(|v| (key.to_owned(), v.into())));
        self
    }

    /// Reads `file`, if any, with the flags laid over it.
    ///
    /// # Errors
    /// What [`Config::read`] refuses, and a file that cannot be read.
    pub fn read(&self, file: Option<&PathBuf>) -> Result<Config, ConfigError> {
        let Some(path) = file else { return Config::read(None, &self.0) };
        let name = path.display().to_string();
        let text = input_file::text(path, input_file::LARGEST_INPUT).map_err(|e| {
            ConfigError::File { key: "CONFIG", path: name.clone(), cause: e.to_string() }
        })?;
        Config::read(Some((&name, &text)), &self.0)
    }

    /// Adds `--set KEY=VALUE` flags: any key path of the configuration. Where the key does not want text, a
    /// value that TOML reads (a number, true, a list in brackets) is that, anything else is text.
    ///
    /// # Errors
    /// The first that is no key path with a value.
    pub fn set(&mut self, settings: &[String]) -> Result<(), ConfigError> {
        for setting in settings {
            let wrong = || ConfigError::Setting { setting: setting.clone() };
            let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if key.split('.').any(|part| part.is_empty() || !part.chars().all(plain)) {
                return Err(wrong());
            }
            let value = match (is_text(key), as_toml(value)) {
                (false, Some(value)) => value,
                _ => Value::from(value),
            };
            self.0.push((key.to_owned(), value));
        }
        Ok(())
    }
}

/// The value as TOML reads it, `None` if it is no TOML value.
pub fn as_toml(text: &str) -> Option<Value> {
    let table: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
    // One key: text with a line break could smuggle in more.
    if table.len() == 1 { table.get("value").cloned() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_reads_numbers_lists_and_text_by_what_the_key_wants() {
        let read = |setting: &str| {
            let mut o = Overlay::default();
            o.set(&[setting.to_owned()]).map(|()| o.0.remove(0).1).ok()
        };
        assert_eq!(read("engine.threads=2"), Some(2.into()));
        assert_eq!(read("web.listen=off"), Some("off".into()));
        assert_eq!(read("output.nexus.title=42"), Some("42".into()));
        assert_eq!(read("time.epoch=17"), Some("17".into()));
        assert_eq!(read("source.core=[1, 2]"), Some(vec![1, 2].into()));
        assert_eq!(read("detector.verify=true"), Some(true.into()));
        assert_eq!(read("detector.word=two words"), Some("two words".into()));
        assert_eq!(read("detector.word=1\nx = 2"), Some("1\nx = 2".into()));
        assert_eq!(read("detector.-dt=[100, 200]"), Some(vec![100, 200].into()), "as vmm-sdat");
        assert_eq!(read("no value"), None);
    }
}
