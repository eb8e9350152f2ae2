//! A refused value of a configuration: key, value, and what is allowed. Exit code 2, before anything is opened.
//!
//! Source: `docs/configuration.md`.

/// What cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum Refusal {
    /// A value outside its range.
    #[error("{}", sentence(key, value, allowed))]
    Value { key: &'static str, value: String, allowed: String },
    /// A value of a detector's section or of its files, where the key may say file and line.
    #[error("{key}: {value} is not allowed: {allowed}")]
    Setting { key: String, value: String, allowed: String },
    /// No such detector.
    #[error("detector.kind: {0}")]
    Kind(String),
    /// An unknown key, a wrong type, a key that is missing; in the parser's words, with line and column where there is a file.
    #[error("{0}")]
    Syntax(String),
}

/// The sentence of every refused value: key, value, what is allowed.
pub fn sentence(key: &str, value: &str, allowed: &str) -> String {
    let equals = if key.starts_with("--") { "" } else { " =" };
    format!("{key}{equals} {value}: {allowed}")
}

/// Shorthand for a refused value.
pub fn refuse(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> Refusal {
    Refusal::Value { key, value: value.to_string(), allowed: allowed.into() }
}

/// Shorthand for a refused value of a detector's section or of its files.
pub fn setting(
    key: impl Into<String>,
    value: impl ToString,
    allowed: impl Into<String>,
) -> Refusal {
    Refusal::Setting { key: key.into(), value: value.to_string(), allowed: allowed.into() }
}

/// The same for a key of `[detector]`, named without its section.
pub fn of_detector(key: &str, value: impl ToString, allowed: impl Into<String>) -> Refusal {
    setting(format!("detector.{key}"), value, allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_key_value_and_what_is_allowed() {
        let said = refuse("engine.threads", 3, "1 or 2").to_string();
        assert_eq!(said, "engine.threads = 3: 1 or 2");
        let said = of_detector("hm", 2, "0 or 1").to_string();
        assert_eq!(said, setting("detector.hm", 2, "0 or 1").to_string());
        assert_eq!(refuse("--jobs", 0, "1 to 1000").to_string(), "--jobs 0: 1 to 1000");
    }
}
