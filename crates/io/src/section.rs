//! How a kind reads its section of a configuration: a serde type, with errors that carry the file's own lines and keys.
//!
//! Text may be given as a number ([`text`]), settings of a library as one key or as nested tables ([`settings`]), and
//! printed configurations hold no passwords ([`without_secrets`]). Refuses unknown keys, wrong types and missing keys.
//! Source: `docs/configuration.md`.

use std::marker::PhantomData;

use fullcount_core::output::SectionReading;
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::sink::secret;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};
use serde::{Deserialize, Serialize, Serializer};
use toml::{Table, Value};

/// Reads the section at `path` from its own text.
///
/// # Errors
/// In the parser's words, with the key's whole path.
pub fn read<T: DeserializeOwned>(path: &str, section: &str) -> Result<T, Refusal> {
    let wrong = |e: toml::de::Error| Refusal::Syntax(with_path(path, e.to_string().trim_end()));
    let table: Table = toml::from_str(section).map_err(wrong)?;
    Value::Table(table).try_into().map_err(wrong)
}

/// How outputs read a section that is a `T`.
pub const fn reading<T: DeserializeOwned + Serialize>() -> SectionReading {
    SectionReading { check: check::<T>, shown: |path, text| shown(&read::<T>(path, text)?) }
}

/// Gives the line "in `key`" the whole path.
fn with_path(path: &str, message: &str) -> String {
    match message.split_once("\nin `") {
        Some((what, rest)) => format!("{what}\nin `{path}.{rest}"),
        None => format!("{message}\nin `{path}`"),
    }
}

/// Reads the section at `path` of a whole file, if it has it.
///
/// # Errors
/// In the parser's words, with line and column.
pub fn check<T: DeserializeOwned>(path: &str, file: &str) -> Result<(), Refusal> {
    let wrong = |e: toml::de::Error| Refusal::Syntax(e.to_string().trim_end().to_owned());
    let parts: Vec<&str> = path.split('.').collect();
    let whole = toml::Deserializer::parse(file).map_err(wrong)?;
    At::<T>(&parts, PhantomData).deserialize(whole).map_err(wrong)
}

/// Refuses names in the table at `path` of a whole file that are none of `known`.
///
/// # Errors
/// In the parser's words, with line and column.
pub fn check_names(path: &str, known: &[&str], file: &str) -> Result<(), Refusal> {
    let wrong = |e: toml::de::Error| Refusal::Syntax(e.to_string().trim_end().to_owned());
    let whole = toml::Deserializer::parse(file).map_err(wrong)?;
    Names { path, known, inside: path.is_empty() }.deserialize(whole).map_err(wrong)
}

/// Walks down one table and looks at the names in it.
#[derive(Clone, Copy)]
struct Names<'a> {
    path: &'a str,
    known: &'a [&'a str],
    inside: bool,
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a table")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(ours) = map.next_key_seed(Name(self))? {
            match ours && !self.inside {
                true => map.next_value_seed(Names { inside: true, ..self })?,
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// One name: true if it is that of the table; inside, it must be a known one.
struct Name<'a>(Names<'a>);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }
    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        match self.0.inside {
            false => Ok(name == self.0.path),
            true if self.0.known.contains(&name) => Ok(true),
            true => Err(E::custom(unknown(name, self.0.known))),
        }
    }
}

/// The message about an unknown name.
pub fn unknown(name: &str, known: &[&str]) -> String {
    let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    format!("unknown field `{name}`, expected one of {known}")
}

/// The section as text.
///
/// # Errors
/// It cannot be written as TOML.
pub fn shown<T: Serialize>(section: &T) -> Result<String, Refusal> {
    toml::to_string(section).map_err(|e| Refusal::Syntax(e.to_string()))
}

/// Walks down to a section and reads it.
struct At<'a, T>(&'a [&'a str], PhantomData<T>);

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for At<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.0 {
            [] => T::deserialize(from).map(drop),
            _ => from.deserialize_map(self),
        }
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for At<'_, T> {
    type Value = ();
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a table")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((first, rest)) if *first == key => {
                    map.next_value_seed(At::<T>(rest, PhantomData))?
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Text of a number, a date or a text: `receive_buffer = 67108864`. The number goes the way of the text that a flag would have
/// given, through the same checks: a size is bytes then, and a duration is refused because its unit is missing.
///
/// # Errors
/// Any other value.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Datetime(time) => Ok(time.to_string()),
        other => {
            let kind = other.type_str();
            Err(D::Error::custom(format!("invalid type: {kind}, expected text or a number")))
        }
    }
}

/// The same for a key that may be left out.
pub fn some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from).map(Some)
}

/// A library's settings by name: `ssl.ca.location` may be written as one key or as nested tables.
///
/// # Errors
/// A value that is neither text, number nor truth value.
pub fn settings(key: &'static str, table: &Table) -> Result<Vec<(String, String)>, Refusal> {
    let mut all = Vec::new();
    lay_flat(key, "", table, &mut all)?;
    Ok(all)
}

fn lay_flat(
    key: &'static str,
    prefix: &str,
    table: &Table,
    all: &mut Vec<(String, String)>,
) -> Result<(), Refusal> {
    for (part, value) in table {
        let name = if prefix.is_empty() { part.clone() } else { format!("{prefix}.{part}") };
        match value {
            Value::Table(inner) => lay_flat(key, &name, inner, all)?,
            Value::String(text) => all.push((name, text.clone())),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => {
                all.push((name, value.to_string()));
            }
            _ => {
                let why = "text, a number, true or false";
                return Err(refuse(key, format!("{name} = {value}"), why));
            }
        }
    }
    Ok(())
}

/// A printed configuration, and the copy in a file, hold no passwords.
///
/// # Errors
/// As the serializer.
pub fn without_secrets<S: Serializer>(table: &Table, to: S) -> Result<S::Ok, S::Error> {
    fn hide(prefix: &str, table: &Table) -> Table {
        let one = |(key, value): (&String, &Value)| {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            let value = match value {
                Value::Table(inner) => hide(&name, inner).into(),
                _ if secret(&name) => "(hidden)".into(),
                other => other.clone(),
            };
            (key.clone(), value)
        };
        table.iter().map(one).collect()
    }
    hide("", table).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[serde(deserialize_with = "text")]
        size: String,
        #[serde(default)]
        options: Table,
    }

    #[test]
    fn what_is_wrong_has_the_files_line_or_the_keys_whole_path() {
        let file = "[source]\nurl = 1\n\n[output.made]\nsize = 5\nsizes = 6\n";
        let said = check::<Inner>("output.made", file).unwrap_err().to_string();
        assert!(said.contains("line 6") && said.contains("sizes"), "{said}");
        assert!(check::<Inner>("output.other", file).is_ok(), "another section is not ours");
        let said = read::<Inner>("output.made", "").unwrap_err().to_string();
        assert_eq!(said, "missing field `size`\nin `output.made`");
        assert!(check_names("output", &["made"], file).is_ok());
        let said = check_names("output", &["nexus"], file).unwrap_err().to_string();
        assert!(said.contains("line 4") && said.contains("unknown field `made`"), "{said}");
        let inner: Inner = read("output.made", "size = 5\noptions.a.b = true").unwrap();
        assert_eq!(inner.size, "5");
        let all = settings("output.made.options", &inner.options).unwrap();
        assert_eq!(all, [("a.b".to_owned(), "true".to_owned())]);
    }
}
