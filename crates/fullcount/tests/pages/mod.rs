//! Reads pages of docs/ for tests that compare them with the program: tables and inline code.

#![allow(dead_code)] // each test file uses its own part

use std::fs;
use std::path::Path;

/// A page below docs/.
pub fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Words between backquotes.
pub fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Cells of the tables whose first column is headed `head`.
pub fn rows(text: &str, head: &str) -> Vec<Vec<String>> {
    let mut inside = false;
    let mut all = Vec::new();
    for line in text.lines() {
        let cells: Vec<String> =
            line.split('|').map(|c| c.trim().to_owned()).filter(|c| !c.is_empty()).collect();
        if !line.starts_with('|') {
            inside = false;
        } else if cells[0] == head {
            inside = true;
        } else if inside && cells[0].starts_with('`') {
            all.push(cells);
        }
    }
    all
}

#[test]
fn rows_are_those_of_the_wanted_table() {
    let table =
        "| key | flag | default |\n|---|---|---|\n| `a.b` | – | `1` |\n\n| other |\n| `c` |\n";
    assert_eq!(rows(table, "key"), [["`a.b`", "–", "`1`"]]);
}
