//! Writes a result with the revision, the host and the date it was made on.
//!
//! Refuses to hide an unclean tree: `"clean": false` says that the revision is not the whole
//! truth. Names neither the host nor its folders, only what the figures depend on.
//!
//! Source: docs/testing.md, "Results".

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::place;

/// The shape of every file that this writes.
const SCHEMA: &str = "fullcount/result/1";

/// The commit that the tree stands on, and whether anything but results differs from it.
pub fn revision() -> (String, bool) {
    let commit = place::output_of("git", &["rev-parse", "HEAD"]);
    let changed = place::output_of("git", &["status", "--porcelain", "--", ".", ":!docs/results"]);
    (commit.unwrap_or_else(|| "unknown".to_owned()), changed.is_some_and(|list| list.is_empty()))
}

/// Writes `docs/results/NAME.json`.
///
/// # Errors
///
/// The file and what the system said.
pub fn write(name: &str, results: &Value) -> Result<PathBuf, String> {
    let (revision, clean) = revision();
    let record = json!({
        "schema": SCHEMA,
        "name": name,
        "revision": revision,
        "clean": clean,
        "date": utc(now()),
        "host": host(),
        "results": results,
    });
    let folder = place::root().join("docs/results");
    let file = folder.join(format!("{name}.json"));
    let said = |error: std::io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(&folder).map_err(said)?;
    fs::write(&file, format!("{record:#}\n")).map_err(said)?;
    Ok(file)
}

/// Seconds since 1970 in UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What figures depend on: processor, cores, memory, kernel, compiler.
fn host() -> Value {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    json!({
        "processor": field(&processors, "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field(&memory, "MemTotal"),
        "kernel": place::output_of("uname", &["-sr"]),
        "rustc": place::output_of("rustc", &["--version"]),
    })
}

/// `2026-01-31T12:00:00Z`.
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, with years that begin in March so that the leap day is the last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Expected values from `date -u -d @N +%FT%TZ`.
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
