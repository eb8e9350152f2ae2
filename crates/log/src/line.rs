//! One line of the log, and how it looks as text and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use fullcount_core::text::is_control;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::filter::origin;
use crate::level::LogLevel;

/// Longest text of a line, bytes; what is longer is cut.
pub const LONGEST: usize = 32 << 10;
/// Fields of a line at most.
const FIELDS: usize = 16;

/// What was told.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// Milliseconds since 1970 UTC.
    pub unix_ms: u64,
    /// How bad it is.
    pub level: LogLevel,
    /// Module that says it.
    pub target: &'static str,
    /// One or more lines for people; the first says it.
    pub text: String,
    /// What belongs to it, by name.
    pub fields: Vec<(&'static str, Value)>,
    /// File and line in the source.
    pub place: (&'static str, u32),
    /// Name of the thread.
    pub thread: String,
    /// So many of the same place were left out before.
    pub left_out: u64,
    /// The terminal shows it.
    pub on_terminal: bool,
}

/// Milliseconds since 1970 UTC.
pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// At most `most` bytes of a text, with a word where it was cut.
pub fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut at = most;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text += " … (cut)";
    }
    text
}

/// `text` without control characters other than those in `but`: one could forge a line, or steer a terminal that shows it.
pub(crate) fn safe(text: &str, but: &[char]) -> String {
    let safe = |c| if is_control(c) && !but.contains(&c) { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(safe).collect()
}

/// JSON with the control characters escaped that JSON allows in texts: a terminal may show it.
fn escaped(json: String) -> String {
    if !json.contains(is_control) {
        return json;
    }
    let mut all = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_control(c) {
            // None of them is above U+FFFF.
            true => all += &format!("\\u{:04x}", u32::from(c)),
            false => all.push(c),
        }
    }
    all
}

impl LogLine {
    /// A line of this moment and thread.
    pub fn now(level: LogLevel, target: &'static str, text: String) -> LogLine {
        LogLine {
            unix_ms: unix_ms(),
            level,
            target,
            text: cut(text, LONGEST),
            fields: Vec::new(),
            place: ("", 0),
            thread: std::thread::current().name().unwrap_or_default().to_owned(),
            left_out: 0,
            on_terminal: true,
        }
    }

    /// Adds a field, unless it has many already.
    pub fn with(&mut self, name: &'static str, value: Value) {
        if self.fields.len() < FIELDS {
            self.fields.push((name, value));
        }
    }

    /// The text, and how many were left out.
    pub fn told(&self) -> String {
        match self.left_out {
            0 => self.text.clone(),
            n => format!("{} ({n} more of these were left out)", self.text),
        }
    }

    /// When, RFC 3339 with milliseconds, UTC.
    pub fn time(&self) -> String {
        let time = Timestamp::from_millisecond(self.unix_ms as i64).unwrap_or_default();
        format!("{time:.3}")
    }

    /// With time, severity, origin and place, one line each.
    pub fn long(&self) -> String {
        let (file, line) = self.place;
        let place = if file.is_empty() { String::new() } else { format!(" {file}:{line}") };
        let (time, level, origin) = (self.time(), self.level.short(), origin(self.target));
        let mut text = self.told();
        for (name, value) in &self.fields {
            text += &format!(" {name}={value}");
        }
        let text = safe(&text, &['\n']);
        format!("{time} {level:4} {origin}{place} - {}", text.replace('\n', "\n    "))
    }

    /// One object on one line.
    pub fn json(&self) -> String {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        put("time", self.time().into());
        put("severity", self.level.name().into());
        put("level", (self.level as u8).into());
        put("target", origin(self.target).into());
        put("message", self.text.as_str().into());
        if self.left_out > 0 {
            put("left_out", self.left_out.into());
        }
        if !self.place.0.is_empty() {
            put("file", self.place.0.into());
            put("line", self.place.1.into());
        }
        put("thread", self.thread.as_str().into());
        for (name, value) in &self.fields {
            all.entry((*name).to_owned()).or_insert_with(|| value.clone());
        }
        escaped(Value::Object(all).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str) -> LogLine {
        LogLine {
            unix_ms: 1_500_000_000_250,
            level: LogLevel::Warning,
            target: "fullcount_kafka::link",
            text: text.into(),
            fields: vec![("topic", "a".into()), ("message", "not this".into())],
            place: ("src/link.rs", 7),
            thread: "spool".into(),
            left_out: 3,
            on_terminal: true,
        }
    }

    #[test]
    fn both_forms_have_all_that_is_known() {
        assert_eq!(
            line("first\nsecond").long(),
            "2017-07-14T02:40:00.250Z WAR  kafka::link src/link.rs:7 - first\n    second (3 more of these were left out) \
             topic=\"a\" message=\"not this\""
        );
        let read: Value = serde_json::from_str(&line("first\nsecond").json()).unwrap();
        let want = serde_json::json!({
            "time": "2017-07-14T02:40:00.250Z", "severity": "warning", "level": 4, "target": "kafka::link",
            "message": "first\nsecond", "left_out": 3, "file": "src/link.rs", "line": 7, "thread": "spool", "topic": "a",
        });
        assert_eq!(read, want);
        assert_eq!(cut("äöü".into(), 3), "ä … (cut)");
    }

    #[test]
    fn nothing_turns_a_line_around_or_begins_a_new_one() {
        let line = line("a\u{202e}b\u{2028}c\u{9b}d");
        assert!(line.long().contains("a\u{fffd}b\u{fffd}c\u{fffd}d"), "{}", line.long());
        assert!(line.json().contains(r"a\u202eb\u2028c\u009bd"), "{}", line.json());
        assert_eq!(safe("a\tb\nc\u{2066}", &['\n', '\t']), "a\tb\nc\u{fffd}");
    }

    proptest! {
        #[test]
        fn json_is_one_line_and_text_cannot_forge_one(text: String) {
            let line = line(&text);
            prop_assert!(!line.json().contains('\n'));
            prop_assert!(line.long().lines().skip(1).all(|l| l.starts_with("    ")));
            prop_assert!(!line.long().contains(|c: char| is_control(c) && c != '\n'));
            prop_assert!(!line.json().contains(is_control));
            let read: Value = serde_json::from_str(&line.json()).unwrap();
            prop_assert_eq!(&read["message"], &text);
        }
    }
}
