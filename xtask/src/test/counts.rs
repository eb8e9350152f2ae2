//! The counts and failures that a whole run leaves for the one behind it, so that the end of both together is about everything.
//!
//! Refuses to count a run that left nothing as one that passed: then it is a failure of its own.
//!
//! Source: `.ci/run`, which runs the usual steps and then the deep ones.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::place;
use crate::tally::{Said, Tally};

fn file() -> PathBuf {
    place::target().join("xtask/counts.json")
}

/// Removes what an earlier run left.
pub fn forget() {
    let _ = fs::remove_file(file());
}

/// Leaves the counts of this run.
pub fn leave(tally: &Tally) {
    let file = file();
    let text = format!("{:#}\n", written(tally));
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    if let Err(error) = made.and_then(|()| fs::write(&file, text)) {
        println!("the counts are not kept: {}: {error}", file.display());
    }
}

/// Takes the counts of the run before; they are added once.
pub fn take() -> Tally {
    let text = fs::read_to_string(file()).unwrap_or_default();
    forget();
    read(&text)
}

fn written(tally: &Tally) -> Value {
    json!({
        "passed": tally.passed,
        "failed": tally.failed,
        "missing": tally.missing,
        "unavailable": tally.unavailable,
        "said": tally.said.iter().map(|said| json!([said.test, said.lines])).collect::<Vec<_>>(),
    })
}

fn read(text: &str) -> Tally {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(passed) = value["passed"].as_u64() else {
        return Tally::fail("the run before left no counts: it did not come to its end");
    };
    let names = |key: &str| words(&value[key]).collect();
    let said = value["said"].as_array().into_iter().flatten();
    Tally {
        passed,
        failed: names("failed"),
        missing: names("missing"),
        unavailable: names("unavailable"),
        said: said
            .map(|said| Said { test: words(said).collect(), lines: words(&said[1]).collect() })
            .collect(),
    }
}

/// The texts in a list.
fn words(list: &Value) -> impl Iterator<Item = String> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(|word| word.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_as_they_were_left() {
        let name = |text: &str| vec![text.to_owned()];
        let tally = Tally {
            passed: 7,
            failed: name("a"),
            missing: name("no browser"),
            unavailable: name("no nightly"),
            said: vec![Said { test: "a".to_owned(), lines: name("left: 1").into() }],
        };
        assert_eq!(read(&written(&tally).to_string()), tally);
    }

    #[test]
    fn a_run_that_left_nothing_has_failed() {
        for text in ["", "{}", "{\"passed\": \"7\"}", "[1]"] {
            assert_eq!(read(text).failed.len(), 1, "{text}");
        }
    }
}
