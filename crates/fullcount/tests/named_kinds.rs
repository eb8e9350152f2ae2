//! No source file names one of the four detectors outside its folder, its simulator and the registries: a fifth one, or one of an
//! application, is complete without a change elsewhere.
//!
//! Tests may name them. Source: `docs/decisions/0017-simulators.md`.

use std::fs;
use std::path::{Path, PathBuf};

/// As people and code write them.
const NAMES: [&str; 7] =
    ["sonde", "multigrid", "multi-grid", "multiblade", "multi-blade", "gdgem", "gd-gem"];

/// Lines that put a kind into the list of its crate.
const LISTS: [&str; 4] = [
    "crates/detect/src/lib.rs",
    "crates/detect/src/detector.rs",
    "crates/sim/src/lib.rs",
    "crates/sim/src/registry.rs",
];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "tests"].contains(&name.as_str()) {
            sources(&path, all);
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") {
            all.push(path);
        }
    }
}

/// The folder or file of a kind.
fn is_a_kinds_own(path: &str) -> bool {
    let below = ["crates/detect/src/", "crates/sim/src/"];
    let rest = below.iter().find_map(|folder| path.strip_prefix(folder));
    rest.is_some_and(|rest| NAMES.iter().any(|name| rest.starts_with(name)))
}

/// Without the tests at the end.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

#[test]
fn detectors_are_named_in_their_own_folders_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for folder in ["crates", "examples", "fuzz", "xtask"] {
        sources(&root.join(folder), &mut all);
    }
    assert!(all.len() > 300, "{} files", all.len());
    let mut wrong = Vec::new();
    for path in all {
        let shown = path.strip_prefix(&root).expect("below").display().to_string();
        // A bench of a detector is in its crate.
        if is_a_kinds_own(&shown) || shown.starts_with("crates/detect/benches") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        for (at, line) in code(&text).lines().enumerate() {
            let lower = line.to_lowercase();
            let listed = LISTS.contains(&shown.as_str())
                && ["pub mod ", "pub use ", "registry.register(", "all.register("]
                    .iter()
                    .any(|begin| line.trim_start().starts_with(begin));
            if !listed && NAMES.iter().any(|name| lower.contains(name)) {
                wrong.push(format!("{shown}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "a kind declares this instead:\n{}", wrong.join("\n"));
}

/// Types of sources and of their URLs.
const SOURCES: [&str; 8] = [
    "UdpSource",
    "PcapSource",
    "XdpSource",
    "PacketSource",
    "TopicSource",
    "PcapUrl",
    "XdpUrl",
    "fullcount_kafka",
];

#[test]
fn the_engine_names_no_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    assert!(all.len() > 30, "{} files", all.len());
    for path in all {
        let text = fs::read_to_string(&path).expect("text");
        // Kinds for unit tests are listed in one place.
        let listed = path.ends_with("registered.rs");
        let named = |line: &&str| !listed && SOURCES.iter().any(|name| line.contains(name));
        let wrong: Vec<&str> = code(&text).lines().filter(named).collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", path.display());
    }
}
