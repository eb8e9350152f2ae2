//! How long files are, that the name of a public type stands once in the workspace, and that documents which files name are there.
//!
//! Refuses a file of Rust with more than 600 lines, one of the binary with more than 300, a public type whose name another
//! one has, and a source document below `docs/` that does not exist. What is generated does not count, and neither does a type that stands in for another one on other systems
//! (`elsewhere`). Source: CONTRIBUTING.md, "Write it".

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Host;
use crate::place;
use crate::tally::Tally;

/// Most lines of a file.
const LINES: usize = 600;
/// Most lines of a file of the binary, whose logic stands in libraries.
const LINES_OF_BINARY: usize = 300;
const BINARY: &str = "crates/fullcount/src/";
/// Folders with our own Rust.
const FOLDERS: [&str; 4] = ["crates", "examples", "fuzz", "xtask"];

/// Looks at every file.
pub fn check(_: &Host) -> Tally {
    let mut paths = Vec::new();
    FOLDERS.iter().for_each(|folder| files(&place::root().join(folder), &mut paths));
    let mut wrong = Vec::new();
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &paths {
        let shown = path.strip_prefix(place::root()).unwrap_or(path).display().to_string();
        let Ok(text) = fs::read_to_string(path) else {
            wrong.push(format!("{shown} cannot be read"));
            continue;
        };
        wrong.extend(too_long(&shown, text.lines().count()));
        let missing = documents(&text).filter(|name| !place::root().join(name).is_file());
        wrong.extend(missing.map(|name| format!("{shown} names {name}, which is not there")));
        for name in public_types(&shown, &text) {
            types.entry(name).or_default().insert(shown.clone());
        }
    }
    wrong.extend(doubled(&types));
    match (paths.is_empty(), wrong.is_empty()) {
        (true, _) => Tally::fail("no file was found"),
        (_, true) => Tally::pass(),
        (_, false) => Tally::fail(wrong.join("; ")),
    }
}

/// Files of Rust that people write, below a folder.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "target" && name != "generated" {
            files(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
}

/// Documents that a file names.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &text[at..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        // The end of a sentence is none of the name.
        Some(name.trim_end_matches('.')).filter(|name| name.ends_with(".md"))
    })
}

fn too_long(path: &str, lines: usize) -> Option<String> {
    let most = if path.starts_with(BINARY) { LINES_OF_BINARY } else { LINES };
    (lines > most).then(|| format!("{path} has {lines} lines; at most {most}"))
}

/// Names of the public types of a file of a library.
fn public_types(path: &str, text: &str) -> Vec<String> {
    let of_library = path.starts_with("crates/") && path.contains("/src/");
    if !of_library || path.ends_with("tests.rs") || path.ends_with("elsewhere.rs") {
        return Vec::new();
    }
    let mut names = Vec::new();
    let mut elsewhere = false;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod tests {"))
        {
            break;
        }
        elsewhere = (elsewhere || line.ends_with("mod elsewhere {")) && line != "}";
        let line = line.trim_start().strip_prefix("pub ").filter(|_| !elsewhere);
        let mut words =
            line.into_iter().flat_map(|line| line.split(' ')).filter(|w| *w != "unsafe");
        if words.next().is_some_and(|w| ["struct", "enum", "trait", "type", "union"].contains(&w)) {
            let name = words.next().unwrap_or_default();
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            // `$Name` of a macro is no name.
            names.extend((end > 0).then(|| name[..end].to_owned()));
        }
    }
    names
}

/// Names that stand in more than one file.
fn doubled(types: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let several = types.iter().filter(|(_, files)| files.len() > 1);
    let several = several.map(|(name, files)| {
        let files = files.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("{name} is the name of several public types: {files}")
    });
    several.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found() {
        assert_eq!(too_long("crates/io/src/udp.rs", 600), None);
        assert!(too_long("crates/io/src/udp.rs", 601).is_some());
        assert_eq!(too_long("crates/fullcount/tests/main.rs", 600), None);
        assert!(too_long("crates/fullcount/src/run.rs", 301).is_some());
    }

    #[test]
    fn documents_that_a_file_names_are_found() {
        // In parts, so that this file names none.
        let text =
            ["//! Source: `do", "cs/formats/x.md`, do", "cs/y.md. In do", "cs/z: do", "cs/a.rs"]
                .concat();
        let names: Vec<&str> = documents(&text).collect();
        assert_eq!(names, [["do", "cs/formats/x.md"].concat(), ["do", "cs/y.md"].concat()]);
    }

    #[test]
    fn names_that_stand_twice_are_found() {
        assert_eq!(
            public_types("crates/io/src/a.rs", "pub type Last = u8;\npub struct $Name;"),
            ["Last"]
        );
        let text = "pub struct One<T>(T);\npub(crate) struct Two;\n    pub enum Three {\n    }\npub unsafe trait Four: X {\n}\n\
                    mod elsewhere {\n    pub struct Five;\n}\npub type Six = u8;\n#[cfg(test)]\nmod tests {\npub struct Seven;\n}\n";
        let names = public_types("crates/io/src/a.rs", text);
        assert_eq!(names, ["One", "Three", "Four", "Six"]);
        for other in
            ["crates/io/src/sys/elsewhere.rs", "xtask/src/a.rs", "crates/io/src/a_tests.rs"]
        {
            assert!(public_types(other, text).is_empty(), "{other}");
        }
        let at = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect();
        let types = [("One".to_owned(), at(&["a", "b"])), ("Two".to_owned(), at(&["a"]))].into();
        let told = doubled(&types);
        assert_eq!(told, ["One is the name of several public types: a, b"]);
    }
}
