//! Finds the line of a key in a geometry text, for messages about values that only the rules behind the parser refuse.
//!
//! The parsers' own places end where a file is well-formed. TOML is read again with its spans; JSON, whose parser keeps none,
//! is walked through. What is not there has the line of what it would stand in, or none.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A step into a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    At(usize),
}

/// Steps of a path such as `pipeline_config.modules[2].analysis_weighted`.
fn steps(path: &str) -> Vec<Step<'_>> {
    let mut all = Vec::new();
    for part in path.split('.') {
        let mut pieces = part.split('[');
        all.extend(pieces.next().map(Step::Key));
        all.extend(pieces.filter_map(|n| n.strip_suffix(']')?.parse().ok()).map(Step::At));
    }
    all
}

/// Line, from 1, on which `path` begins in `text`, which is JSON or TOML; of the nearest thing around it that is there, if
/// it is not there itself. `None` if not even its first key is.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let steps = steps(path);
    let start = match text.trim_start().starts_with('{') {
        true => {
            let mut scan = Scan { text, at: 0, found: None };
            scan.value(&steps);
            scan.found
        }
        false => in_toml(text, &steps),
    };
    start.and_then(|start| text.get(..start)).map(|before| before.matches('\n').count() + 1)
}

/// [`line_of`] as the beginning of a message: `line 12: `, or nothing.
pub fn place_of(text: &str, path: &str) -> String {
    line_of(text, path).map_or(String::new(), |line| format!("line {line}: "))
}

fn in_toml(text: &str, steps: &[Step<'_>]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let (mut table, mut value, mut start) = (Some(root.get_ref()), None, None);
    for step in steps {
        let next: Option<(usize, &Spanned<DeValue<'_>>)> = match *step {
            Step::Key(name) => table
                .and_then(|table| table.iter().find(|(key, _)| *key.get_ref() == name))
                .map(|(key, value)| (key.span().start, value)),
            Step::At(n) => value
                .and_then(|value: &Spanned<DeValue<'_>>| value.get_ref().as_array()?.get(n))
                .map(|value| (value.span().start, value)),
        };
        let Some((at, found)) = next else { break };
        (start, table, value) = (Some(at), found.get_ref().as_table(), Some(found));
    }
    start
}

/// A walk through JSON that a parser has accepted.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Where the last step that led somewhere begins.
    found: Option<usize>,
}

impl<'a> Scan<'a> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// The text between quotation marks, as it stands there.
    fn string(&mut self) -> &'a str {
        let start = self.at + 1;
        let (mut end, mut escaped) = (start, false);
        for byte in self.text.as_bytes().iter().skip(start) {
            match byte {
                b'"' if !escaped => break,
                _ => escaped = *byte == b'\\' && !escaped,
            }
            end += 1;
        }
        self.at = (end + 1).min(self.text.len());
        self.text.get(start..end).unwrap_or_default()
    }

    /// Goes behind a value, and into it where `steps` lead.
    fn value(&mut self, steps: &[Step<'_>]) {
        match self.peek() {
            Some(b'{') => self.object(steps),
            Some(b'[') => self.list(steps),
            Some(b'"') => drop(self.string()),
            _ => {
                let end = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | '}' | ']');
                let rest = &self.text[self.at..];
                self.at += rest.find(end).unwrap_or(rest.len());
            }
        }
    }

    fn object(&mut self, steps: &[Step<'_>]) {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    let start = self.at;
                    let key = self.string();
                    if self.peek() == Some(b':') {
                        self.at += 1;
                    }
                    match steps.split_first() {
                        Some((Step::Key(name), rest)) if *name == key => {
                            self.found = Some(start);
                            self.value(rest);
                        }
                        _ => self.value(&[]),
                    }
                }
                Some(b'}') => return self.at += 1,
                _ => return,
            }
        }
    }

    fn list(&mut self, steps: &[Step<'_>]) {
        self.at += 1;
        let mut n = 0;
        loop {
            match self.peek() {
                Some(b',') => (self.at, n) = (self.at + 1, n + 1),
                Some(b']') => return self.at += 1,
                Some(b'}' | b':') | None => return,
                Some(_) => match steps.split_first() {
                    Some((Step::At(at), rest)) if *at == n => {
                        self.found = Some(self.at);
                        self.value(rest);
                    }
                    _ => self.value(&[]),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOML: &str = "# a\n[x]\nb = 1\n[[list]]\nid = 3 # id\n\n[[list]]\nid = 4\nsub = [\n {c = 1},\n {c = 2}]\n";
    const JSON: &str = "{\n \"x\": {\"b\": 1},\n \"list\": [\n  {\"id\": 3},\n  {\"id\": 4,\n   \"sub\": [\n {\"c\": 1, \"s\": \"a\\\"]}\"},\n  [{}, -1.5e3, true], {\"c\": 2}]}]\n}";

    #[test]
    fn entries_and_keys_have_the_line_on_which_they_begin() {
        for (path, toml, json) in [
            ("x", 2, 2),
            ("x.b", 3, 2),
            ("list[0]", 4, 4),
            ("list[0].id", 5, 4),
            ("list[1]", 7, 5),
            ("list[1].id", 8, 5),
            ("list[1].sub", 9, 6),
            ("list[1].sub[0].c", 10, 7),
        ] {
            assert_eq!(line_of(TOML, path), Some(toml), "{path}");
            assert_eq!(line_of(JSON, path), Some(json), "{path}");
        }
        assert_eq!(line_of(TOML, "list[1].sub[1].c"), Some(11));
        assert_eq!(line_of(JSON, "list[1].sub[2].c"), Some(8));
    }

    #[test]
    fn what_is_missing_has_the_line_of_what_it_would_stand_in() {
        for text in [TOML, JSON] {
            assert_eq!(line_of(text, "nothing.there"), None);
            assert_eq!(line_of(text, "x.c"), line_of(text, "x"));
            assert_eq!(line_of(text, "list[7].id"), line_of(text, "list"));
            assert_eq!(line_of(text, "list[1].none"), line_of(text, "list[1]"));
        }
        assert_eq!(place_of(TOML, "list[1].id"), "line 8: ");
        assert_eq!(place_of(TOML, "nothing"), "");
    }

    proptest! {
        /// Whatever the text is, it is gone through once and without panic.
        #[test]
        fn any_text_is_walked_to_an_end(text in "[\\{\\}\\[\\]\",:a1\\\\ \n]{0,60}", path in "[a1]{1,2}(\\[[01]\\])?(\\.a)?") {
            let line = line_of(&format!("{{{text}"), &path);
            prop_assert!(line.is_none_or(|line| (1..=61).contains(&line)));
            let _ = line_of(&text, &path);
        }
    }
}
