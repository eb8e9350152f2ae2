//! Results files: what was measured, with which revision, on which host, when and how.
//!
//! One JSON object per campaign in `docs/results/<name>.json`, schema `fullcount/result/1`: `name`,
//! `date` (UTC), `revision`, `host`, `parameters`, `rows` (a table, one object per measured point) and
//! `figures` (the numbers that count, with unit and the interval over the repeats). Used by the `lab`
//! verbs and by `cargo xtask prove`. Refuses: names that are not `a-z0-9-`, see [`RecordError`].

pub mod files;
pub mod host;
pub mod results;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// A results file that could not be made.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum RecordError {
    #[error("result name: \"{0}\" is not allowed: 1 to 80 of a-z, 0-9 and -")]
    Name(String),
    #[error(
        "{path}: the file exists; replace it with --overwrite, or choose another --name or --out"
    )]
    Exists { path: PathBuf },
    #[error("{path}: {cause}: check that the directory exists and is writable")]
    Write { path: PathBuf, cause: std::io::Error },
}

/// A number that counts, over `n` repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Median.
    pub value: f64,
    /// Unit as people write it, for example `Gb/s`.
    pub unit: String,
    /// Smallest and largest of the repeats.
    pub interval: (f64, f64),
    /// Number of repeats, at least 1.
    pub repeats: usize,
}

impl Figure {
    /// Median and interval of `values`; `None` if there are none or one is not a number.
    pub fn of(values: &[f64], unit: &str) -> Option<Figure> {
        let mut sorted = values.to_vec();
        if sorted.iter().any(|v| v.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let (&low, &high) = (sorted.first()?, sorted.last()?);
        Some(Figure {
            value: median_of_sorted(&sorted)?,
            unit: unit.to_owned(),
            interval: (low, high),
            repeats: sorted.len(),
        })
    }

    /// Median, least and most as a cell of a table, in units of `unit`; a dash for what is not known.
    pub fn cell(figure: Option<Figure>, digits: usize, unit: f64) -> String {
        dash(figure, |f| {
            let (value, low, high) = (f.value / unit, f.interval.0 / unit, f.interval.1 / unit);
            format!("{value:.digits$} ({low:.digits$}–{high:.digits$})")
        })
    }

    fn json(&self) -> Value {
        let (low, high) = self.interval;
        json!({"value": self.value, "unit": self.unit, "interval": [low, high], "repeats": self.repeats})
    }
}

/// A cell of a table; a dash for what is not known.
pub fn dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

/// Median of ascending values: the middle one, or the mean of the two in the middle.
fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    if n % 2 == 1 { Some(upper) } else { Some((sorted[n / 2 - 1] + upper) / 2.0) }
}

/// One campaign's results.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    name: String,
    date: String,
    revision: Option<String>,
    host: Value,
    parameters: Map<String, Value>,
    rows: Vec<Value>,
    figures: Map<String, Value>,
}

impl Record {
    /// An empty record of this moment, host and revision.
    ///
    /// # Errors
    /// A name that is not 1 to 80 of `a-z0-9-`.
    pub fn begin(name: &str) -> Result<Record, RecordError> {
        Record::new(name, now(), revision(), host::snapshot(Path::new("/")))
    }

    /// An empty record with everything given.
    ///
    /// # Errors
    /// A name that is not 1 to 80 of `a-z0-9-`.
    pub fn new(
        name: &str,
        date: String,
        revision: Option<String>,
        host: Value,
    ) -> Result<Record, RecordError> {
        if !allowed_name(name) {
            return Err(RecordError::Name(name.to_owned()));
        }
        Ok(Record {
            name: name.to_owned(),
            date,
            revision,
            host,
            parameters: Map::new(),
            rows: Vec::new(),
            figures: Map::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes a parameter of the campaign.
    pub fn parameter(&mut self, key: &str, value: impl Into<Value>) -> &mut Record {
        self.parameters.insert(key.to_owned(), value.into());
        self
    }

    /// Adds a measured point.
    pub fn row(&mut self, row: impl Into<Value>) -> &mut Record {
        self.rows.push(row.into());
        self
    }

    /// Notes a number that counts, if it is known.
    pub fn figure<'a>(&mut self, key: &str, figure: impl Into<Option<&'a Figure>>) -> &mut Record {
        if let Some(figure) = figure.into() {
            self.figures.insert(key.to_owned(), figure.json());
        }
        self
    }

    /// The whole object.
    pub fn json(&self) -> Value {
        json!({
            "schema": "fullcount/result/1",
            "name": self.name,
            "date": self.date,
            "revision": self.revision,
            "host": self.host,
            "parameters": self.parameters,
            "rows": self.rows,
            "figures": self.figures,
        })
    }

    /// Writes `<directory>/<name>.json` in one step; gives the path where it is: [`files::put`].
    pub fn write(&self, directory: &Path, overwrite: bool) -> Result<PathBuf, RecordError> {
        let text = format!("{:#}\n", self.json());
        files::put(directory, &format!("{}.json", self.name), text.as_bytes(), overwrite)
    }
}

/// True for a name that is a file name everywhere: 1 to 80 of `a-z0-9-`.
pub fn allowed_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=80).contains(&name.len()) && name.chars().all(allowed)
}

/// Revision of this build: `FULLCOUNT_REVISION` of the build's environment, else what git says of the
/// working directory (`-dirty` if it has changes), else unknown.
pub fn revision() -> Option<String> {
    if let Some(built) = option_env!("FULLCOUNT_REVISION") {
        return Some(built.to_owned());
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { head } else { format!("{head}-dirty") })
}

/// This moment, as [`utc`] writes it.
pub fn now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}

/// `YYYY-MM-DDThh:mm:ssZ` of seconds since 1970 UTC (years 1970 to 9999).
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, so that a leap day ends its year (Hinnant's civil calendar).
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + carry;
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{of_month:02}T{h:02}:{m:02}:{s:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_234_567_890, "2009-02-13T23:31:30Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(utc(seconds), text);
        }
    }

    #[test]
    fn a_record_holds_everything_in_order_and_replaces_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut r =
            Record::new("receive-sizes", utc(0), Some("abc-dirty".into()), json!({"cpus": 4}))
                .unwrap();
        r.parameter("rate", "10Gbps").row(json!({"size": 64}));
        r.figure("received", &Figure::of(&[3.0, 1.0, 2.0, 10.0], "Gb/s").unwrap());
        let path = r.write(&dir.path().join("new"), false).unwrap();
        assert_eq!(path.file_name().unwrap(), "receive-sizes.json");
        // A link in its place, or at a name that can be guessed, is not followed.
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        r.write(path.parent().unwrap(), true).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        let back: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(
            back,
            json!({
                "schema": "fullcount/result/1", "name": "receive-sizes",
                "date": "1970-01-01T00:00:00Z", "revision": "abc-dirty", "host": {"cpus": 4},
                "parameters": {"rate": "10Gbps"}, "rows": [{"size": 64}],
                "figures": {"received":
                    {"value": 2.5, "unit": "Gb/s", "interval": [1.0, 10.0], "repeats": 4}},
            })
        );
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "no part is left behind");
    }

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for bad in ["", "../x", "A", "a b", "a.b", &"x".repeat(81)] {
            let e = Record::new(bad, utc(0), None, Value::Null).unwrap_err();
            assert!(e.to_string().contains("a-z, 0-9"), "{e}");
        }
        let e = Record::new("a", utc(0), None, Value::Null).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(e.write(file.path(), true), Err(RecordError::Write { .. })));
    }

    #[test]
    fn figures_need_numbers() {
        assert_eq!(Figure::of(&[], "s"), None);
        assert_eq!(Figure::of(&[f64::NAN], "s"), None);
        let one = Figure::of(&[7.0], "s").unwrap();
        assert_eq!((one.value, one.interval, one.repeats), (7.0, (7.0, 7.0), 1));
    }
}
