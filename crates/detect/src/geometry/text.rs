//! Reads a geometry or option text into a serde type: TOML, or JSON if it begins with `{`.
//!
//! Refuses what the type refuses, with place, line and column. A TOML text cannot begin with `{`, so
//! the content decides and no file name is needed. Option text is put together from command line and file,
//! so its lines are nobody's: there the message names key and value.

use serde::de::DeserializeOwned;

use crate::detector::SetupError;

/// Reads `text`; `place` (a path or a section) stands in front of the message.
///
/// # Errors
/// [`SetupError::Syntax`] with the parser's place and words.
pub fn parse<T: DeserializeOwned>(text: &str, place: &str) -> Result<T, SetupError> {
    let syntax = |line: usize, column: usize, message: &str| SetupError::Syntax {
        place: place.to_owned(),
        message: format!("line {line}, column {column}: {message}"),
    };
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|e| {
            let words = e.to_string();
            // serde_json ends its own words with the place, which stands in front here.
            let end = words.rfind(" at line ").unwrap_or(words.len());
            syntax(e.line(), e.column(), &words[..end])
        });
    }
    toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |span| span.start).min(text.len());
        let before = text.get(..start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        syntax(line, column, e.message())
    })
}

/// Reads the options of a detector, TOML with one key per line.
///
/// # Errors
/// [`SetupError::Syntax`] with the place `detector`, key, value and the parser's words.
pub fn options<T: DeserializeOwned>(text: &str) -> Result<T, SetupError> {
    toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |span| span.start).min(text.len());
        let first =
            text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        let line = text[first..].lines().next().unwrap_or_default().trim();
        let message = match line {
            "" => e.message().to_owned(),
            line => format!("{line}: {}", e.message()),
        };
        SetupError::Syntax { place: "detector".to_owned(), message }
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
    fn options_are_named_by_key_and_value() {
        let says = |text: &str| options::<T>(text).unwrap_err().to_string();
        assert_eq!(options::<T>("a = 3"), Ok(T { a: 3 }));
        assert_eq!(says("a = 1\nb = 3\n"), "detector: b = 3: unknown field `b`, expected `a`");
        let e = says("a = \"three\"\n");
        assert!(e.starts_with("detector: a = \"three\": invalid type: string"), "{e}");
        assert_eq!(says(""), "detector: missing field `a`");
    }
}
