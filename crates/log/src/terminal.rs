//! Standard error: text as people know it, text with time and place, or JSON for collectors.
//!
//! A closed pipe or a full disk behind it is no failure of ours.

use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::level::LogLevel;
use crate::line::{LogLine, safe};

/// How lines look on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogForm {
    /// `fullcount: TEXT`.
    #[default]
    Text,
    /// With time, severity, module and place in the source.
    Long,
    /// One object a line.
    Json,
}

/// Form, and whether only warnings and worse are shown.
static SHOWN: Mutex<(LogForm, bool)> = Mutex::new((LogForm::Text, false));

fn shown() -> (LogForm, bool) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets how lines look.
pub(crate) fn set(form: LogForm, quiet: bool) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = (form, quiet);
}

/// True if only warnings and worse are shown.
pub fn is_quiet() -> bool {
    shown().1
}

/// True if standard error takes objects, not lines for people.
pub fn is_json() -> bool {
    shown().0 == LogForm::Json
}

/// How a line looks.
fn looks(line: &LogLine, form: LogForm) -> String {
    let told = || safe(&line.told(), &['\n', '\t']);
    match form {
        LogForm::Text if line.level == LogLevel::Debug => format!("fullcount: debug: {}\n", told()),
        LogForm::Text => format!("fullcount: {}\n", told()),
        LogForm::Long => line.long() + "\n",
        LogForm::Json => line.json() + "\n",
    }
}

/// Shows a line.
pub(crate) fn show(line: &LogLine) {
    let (form, quiet) = shown();
    // The losses of the run and the like are on the status line already; a collector has none.
    if (quiet && line.level > LogLevel::Warning) || !(line.on_terminal || form == LogForm::Json) {
        return;
    }
    write(&looks(line, form));
}

/// Shows text that a verb makes for who called it: as it is, and as a line where objects are wanted.
pub fn plain(level: LogLevel, text: &str) {
    match is_json() {
        false => write(text),
        true => {
            // What renews a line on a terminal is nothing for a collector.
            let text = text.trim_start_matches("\r\x1b[2K").trim_end();
            if !text.is_empty() {
                let line = LogLine::now(level, "fullcount", text.to_owned());
                write(&(line.json() + "\n"));
            }
        }
    }
}

fn write(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes());
    let _ = err.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_it_always_was() {
        let mut line = LogLine::now(LogLevel::Error, "fullcount_kafka", "no broker".into());
        assert_eq!(looks(&line, LogForm::Text), "fullcount: no broker\n");
        let sent =
            LogLine::now(LogLevel::Error, "fullcount_kafka", "a\tb\nc\u{1b}[2J\u{202e}".into());
        assert_eq!(looks(&sent, LogForm::Text), "fullcount: a\tb\nc\u{fffd}[2J\u{fffd}\n");
        line.level = LogLevel::Debug;
        assert_eq!(looks(&line, LogForm::Text), "fullcount: debug: no broker\n");
        assert!(looks(&line, LogForm::Long).contains(" DEB  kafka - no broker\n"));
        assert!(looks(&line, LogForm::Json).starts_with("{\"time\":"));
    }
}
