//! Reads a geometry or option text into a serde type: TOML, or JSON if it begins with `{`.
//!
//! Refuses what the type refuses, with place, line and column. A TOML text cannot begin with `{`, so
//! the content decides and no file name is needed; of a text that is neither, both parsers say why. Option text is put together from command line and file,
//! so its lines are nobody's: there the message names key and value.

use fullcount_core::refusal::Refusal;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Reads `text`; `place` (a path or a section) stands in front of the message.
///
/// # Errors
/// [`Refusal::Syntax`] with the parser's place and words.
pub fn parse<T: DeserializeOwned>(text: &str, place: &str) -> Result<T, Refusal> {
    let syntax = |message: String| Refusal::Syntax(format!("{}: {}", place, message));
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|e| syntax(in_json(&e)));
    }
    toml::from_str(text).map_err(|e| match toml::from_str::<toml::Table>(text) {
        Ok(_) => syntax(in_toml(text, &e)),
        // It may be meant as either.
        Err(e) => {
            let json = match serde_json::from_str::<IgnoredAny>(text) {
                Ok(_) => "it does not begin with `{`".to_owned(),
                Err(e) => in_json(&e),
            };
            syntax(format!("neither JSON ({json}) nor TOML ({})", in_toml(text, &e)))
        }
    })
}

/// The parser's words with the place in front; serde_json ends its own with it.
fn in_json(e: &serde_json::Error) -> String {
    let words = e.to_string();
    let end = words.rfind(" at line ").unwrap_or(words.len());
    format!("line {}, column {}: {}", e.line(), e.column(), &words[..end])
}

/// The parser's words with the place in front.
fn in_toml(text: &str, e: &toml::de::Error) -> String {
    let start = e.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("line {line}, column {column}: {}", e.message())
}

/// Reads the options of a detector, TOML with one key per line.
///
/// # Errors
/// [`Refusal::Syntax`] with the place `detector`, key, value and the parser's words.
pub fn options<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |span| span.start).min(text.len());
        let first =
            text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        let line = text[first..].lines().next().unwrap_or_default().trim();
        let message = match line {
            "" => e.message().to_owned(),
            line => format!("{line}: {}", e.message()),
        };
        Refusal::Syntax(format!("{}: {}", "detector", message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct T {
        a: u8,
    }

    #[test]
    fn toml_and_json_are_told_apart_by_content() {
        assert_eq!(parse::<T>("a = 3", "f"), Ok(T { a: 3 }));
        assert_eq!(parse::<T>(" \n{\"a\": 3}", "f"), Ok(T { a: 3 }));
    }

    #[test]
    fn messages_name_place_line_column_and_key() {
        let e = parse::<T>("# x\n  b = 3\na = 1", "geo.toml").unwrap_err().to_string();
        assert_eq!(e, "geo.toml: line 2, column 3: unknown field `b`, expected `a`");
        let e = parse::<T>("{\n \"a\": 300}", "geo.json").unwrap_err().to_string();
        assert!(e.starts_with("geo.json: line 2, column 9: invalid value: integer `300`"), "{e}");
    }

    #[test]
    fn a_text_that_is_neither_has_the_reasons_of_both() {
        let says = |text: &str| parse::<T>(text, "geo").unwrap_err().to_string();
        let e = says("a: 3\n");
        let json = "geo: neither JSON (line 1, column 1: expected value) nor TOML (line 1, column ";
        assert!(e.starts_with(json) && e.ends_with(')') && !e.contains('\n'), "{e}");
        let e = says("[1, 2]");
        let json = "geo: neither JSON (it does not begin with `{`) nor TOML (line 1, column ";
        assert!(e.starts_with(json), "{e}");
        // What is meant is certain: a file that begins so is no TOML, and a TOML file with other keys is TOML.
        assert_eq!(says("{\"a\" 3}"), "geo: line 1, column 6: expected `:`");
        assert_eq!(says("b = 3"), "geo: line 1, column 1: unknown field `b`, expected `a`");
    }

    #[test]
    fn options_are_named_by_key_and_value() {
        let says = |text: &str| options::<T>(text).unwrap_err().to_string();
        assert_eq!(options::<T>("a = 3"), Ok(T { a: 3 }));
        assert_eq!(says("a = 1\nb = 3\n"), "detector: b = 3: unknown field `b`, expected `a`");
        let e = says("a = \"three\"\n");
        assert!(e.starts_with("detector: a = \"three\": invalid type: string"), "{e}");
        assert_eq!(says(""), "detector: missing field `a`");
    }
}
