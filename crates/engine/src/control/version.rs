//! `VERSION_GET`: exactly seven words, as scripts take them apart.
//!
//! Source: `control-and-monitoring.md` sections 3.3 and 3.5.

use std::time::UNIX_EPOCH;

use jiff::Timestamp;

/// A word without blanks.
fn word(text: &str) -> String {
    let text: String =
        text.trim().chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect();
    if text.is_empty() { "-".to_owned() } else { text }
}

/// One of the kernel's facts.
fn kernel(what: &str) -> String {
    let path = format!("/proc/sys/kernel/{what}");
    word(&std::fs::read_to_string(path).unwrap_or_default())
}

/// Version, date and time of the program's file, host and user, kernel, commit.
pub fn words() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata).and_then(|m| m.modified());
    let seconds =
        file.ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |t| t.as_secs());
    let time = Timestamp::from_second(seconds as i64).unwrap_or(Timestamp::UNIX_EPOCH).to_string();
    let (date, time) = time.trim_end_matches('Z').split_once('T').unwrap_or(("-", "-"));
    let user = word(&std::env::var("USER").unwrap_or_default());
    let commit = word(option_env!("FULLCOUNT_COMMIT").unwrap_or_default());
    let (version, host, release) =
        (env!("CARGO_PKG_VERSION"), kernel("hostname"), kernel("osrelease"));
    format!("{version} {date} {time} [{host}:{user}] [{release}] {commit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_seven_with_the_commands_name() {
        let text = words();
        assert_eq!(text.split(' ').count(), 6, "{text}");
        assert!(text.split(' ').all(|w| !w.is_empty()), "{text}");
        assert_eq!((word(" a b\n"), word("\n")), ("a_b".to_owned(), "-".to_owned()));
    }
}
