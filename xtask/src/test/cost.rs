//! What steps and pieces cost: time, and time of the processors; kept from run to run, and a table of it for the document.
//!
//! Refuses to write a table of what was not measured: a step that no run has made has no row.
//!
//! Source: proc(5), `/proc/PID/stat`, fields 16 and 17 (time of children that have ended, in 1/100 s on Linux).

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::command::{spoken, timed};
use crate::{place, record};

/// Time by the clock, and time of all processors together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    pub wall: Duration,
    pub processor: Duration,
}

/// Something with what it cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    pub cost: Cost,
}

/// Runs `work`; what it and the children that it waited for cost. What ran beside it meanwhile and ended counts as well.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let before = of_children();
    let (result, wall) = timed(work);
    (result, Cost { wall, processor: of_children().saturating_sub(before) })
}

/// Processor time of all descendants that have ended and were waited for.
fn of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_in(&stat).unwrap_or_default()
}

fn children_in(stat: &str) -> Option<Duration> {
    // The name before them may hold spaces and brackets; behind it the state is field 3.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (next()? + next()?)))
}

/// Parts of a step, noted while it runs.
#[derive(Default)]
pub struct Notes {
    parts: Mutex<Vec<Line>>,
    pieces: Mutex<Vec<Line>>,
}

impl Notes {
    /// A part of the step that runs.
    pub fn part(&self, name: &str, cost: Cost) {
        lock(&self.parts).push(Line { name: name.to_owned(), cost });
    }

    /// Pieces of the run.
    pub fn pieces(&self, lines: Vec<Line>) {
        lock(&self.pieces).extend(lines);
    }

    /// The parts of the step that has ended.
    pub fn take(&self) -> (Vec<Line>, Vec<Line>) {
        (std::mem::take(&mut lock(&self.parts)), std::mem::take(&mut lock(&self.pieces)))
    }
}

fn lock(lines: &Mutex<Vec<Line>>) -> std::sync::MutexGuard<'_, Vec<Line>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file() -> PathBuf {
    place::target().join("xtask/times.json")
}

fn of_line(line: &Line) -> Value {
    let seconds = |d: Duration| (d.as_secs_f64() * 10.0).round() / 10.0;
    json!({"name": line.name, "seconds": seconds(line.cost.wall), "processor_seconds": seconds(line.cost.processor)})
}

/// A step as it is kept.
pub struct Step {
    pub line: Line,
    pub parts: Vec<Line>,
    pub pieces: Vec<Line>,
}

/// Keeps what these steps cost, beside what others did in earlier runs.
pub fn keep<'a>(steps: impl Iterator<Item = &'a Step>) {
    let mut all = read();
    let (revision, _) = record::revision();
    for step in steps {
        let mut value = of_line(&step.line);
        value["parts"] = step.parts.iter().map(of_line).collect();
        value["pieces"] = step.pieces.iter().map(of_line).collect();
        value["date"] = record::utc(record::now()).into();
        value["revision"] = revision.as_str().into();
        all.insert(step.line.name.clone(), value);
    }
    let file = file();
    let written = file.parent().map_or(Ok(()), fs::create_dir_all);
    let written = written.and_then(|()| fs::write(&file, format!("{:#}\n", Value::Object(all))));
    if let Err(error) = written {
        println!("what the steps cost is not kept: {}: {error}", file.display());
    }
}

fn read() -> Map<String, Value> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

const BEGIN: &str =
    "<!-- Made by `cargo xtask test --table` from what the last runs took: begin. -->";
const END: &str = "<!-- End of the table. -->";

/// Pieces in the table.
const LONGEST: usize = 12;

/// Writes the table into docs/testing.md, in the order of `steps`.
///
/// # Errors
///
/// Nothing was measured, or the page has no marks.
pub fn write_table(steps: &[&str]) -> Result<PathBuf, String> {
    let all = read();
    let table = table(&all, steps);
    if table.lines().count() <= 2 {
        return Err("no run has left its times: call `cargo xtask test` first".to_owned());
    }
    let page = place::root().join("docs/testing.md");
    let said = |error: std::io::Error| format!("{}: {error}", page.display());
    let text = fs::read_to_string(&page).map_err(said)?;
    let (before, rest) = text.split_once(BEGIN).ok_or(format!("{}: no {BEGIN}", page.display()))?;
    let (_, after) = rest.split_once(END).ok_or(format!("{}: no {END}", page.display()))?;
    fs::write(&page, format!("{before}{BEGIN}\n\n{table}\n{END}{after}")).map_err(said)?;
    Ok(page)
}

fn table(all: &Map<String, Value>, steps: &[&str]) -> String {
    let mut text = "| step | time | processor time |\n|---|---|---|\n".to_owned();
    let mut pieces = Vec::new();
    for name in steps {
        let Some(step) = all.get(*name) else { continue };
        text += &row(&format!("`{name}`"), step);
        for part in step["parts"].as_array().into_iter().flatten() {
            text += &row(&format!("– {}", part["name"].as_str().unwrap_or_default()), part);
        }
        pieces.extend(step["pieces"].as_array().into_iter().flatten());
    }
    let seconds = |piece: &Value| piece["seconds"].as_f64().unwrap_or(0.0);
    pieces.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    if !pieces.is_empty() {
        text += "\nThe files of tests that take longest, several of them at a time:\n\n";
        text += "| file | time | processor time |\n|---|---|---|\n";
        for piece in pieces.into_iter().take(LONGEST) {
            text += &row(&format!("`{}`", piece["name"].as_str().unwrap_or_default()), piece);
        }
    }
    text
}

fn row(name: &str, value: &Value) -> String {
    let time = |key: &str| spoken(Duration::from_secs_f64(value[key].as_f64().unwrap_or(0.0)));
    format!("| {name} | {} | {} |\n", time("seconds"), time("processor_seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_read_past_an_awkward_name() {
        let stat = "17 (a) b (c) S 4 17 17 0 -1 4194304 1 2 3 4 100 200 300 45 20 0 1";
        assert_eq!(children_in(stat), Some(Duration::from_millis(3_450)));
        assert_eq!(children_in("17"), None);
    }

    #[test]
    fn children_that_were_waited_for_count() {
        let spin = ["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"];
        let run = || std::process::Command::new("sh").args(spin).status();
        let (ended, cost) = measured(run);
        assert!(ended.is_ok_and(|status| status.success()));
        assert!(cost.processor > Duration::ZERO && cost.wall > Duration::ZERO, "{cost:?}");
    }

    #[test]
    fn a_table_has_the_steps_in_their_order_with_their_parts() {
        let line = |name: &str, wall: u64, processor: u64| Line {
            name: name.to_owned(),
            cost: Cost {
                wall: Duration::from_secs(wall),
                processor: Duration::from_secs(processor),
            },
        };
        let mut test = of_line(&line("test", 700, 1_200));
        test["parts"] = [line("build", 400, 700)].iter().map(of_line).collect();
        test["pieces"] = [line("a", 5, 1), line("b", 70, 9)].iter().map(of_line).collect();
        let all = Map::from_iter([
            ("test".to_owned(), test),
            ("fmt".to_owned(), of_line(&line("fmt", 2, 1))),
        ]);
        let text = table(&all, &["fmt", "clippy", "test"]);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(
            rows,
            [
                "| step | time | processor time |",
                "| `fmt` | 2.0 s | 1.0 s |",
                "| `test` | 11 min 40 s | 20 min 00 s |",
                "| – build | 6 min 40 s | 11 min 40 s |",
                "| file | time | processor time |",
                "| `b` | 1 min 10 s | 9.0 s |",
                "| `a` | 5.0 s | 1.0 s |",
            ]
        );
    }
}
