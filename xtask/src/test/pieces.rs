//! The tests cut into pieces: what runs in one process. A piece is a file of scenarios (a module of a test binary), or
//! all unit tests of a crate.
//!
//! A process for each file keeps what tests do to their process apart, says what each costs, and lets the long ones begin
//! first. Refuses a name in its lists that no piece has: the reason beside it would be about nothing.
//!
//! Source: docs/testing.md, "How tests run".

use std::fs;
use std::path::{Path, PathBuf};

use super::binaries::Binary;

/// What runs in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Index of its binary.
    pub binary: usize,
    /// For people: `fullcount scenarios::kafka_faults`, `core lib`, `fullcount host::places, alone`.
    pub label: String,
    /// The name of the file: of the module, or of a binary without modules.
    pub file: String,
    pub tests: Vec<String>,
    /// Whether nothing may run beside it.
    pub alone: bool,
}

/// Tests at the same time in one piece: they wait for brokers, browsers and drains more than they compute.
const THREADS: usize = 2;

/// Tests that get the machine for themselves, one at a time, when all others are done: of a file, those whose name has this word.
const ALONE: [(&str, &str, &str); 7] = [
    (
        "places",
        "",
        "sets the backlog of the whole host to one packet, and reads the host's counters of drops",
    ),
    ("advise_root", "", "changes settings of the whole host for a moment"),
    ("write_live", "", "a million events a second through everything: a rate"),
    ("lab_cores", "", "measures what each processor costs the others"),
    ("lab_spead", "tuner", "follows the rate that arrives within a second"),
    ("lab_spead", "without_a_lost_heap", "compares rates of trials that follow each other"),
    ("lab_spead", "re_requests", "asks for heaps again within milliseconds"),
];

/// Whether the test of the file is one of them.
fn alone(file: &str, test: &str) -> bool {
    ALONE.iter().any(|(of, word, _)| *of == file && test.contains(word))
}

/// Files whose tests run one after the other, beside other files. What they close must be free at once, and a process that
/// another test of theirs just starts holds all that is open until it has become another program.
const ONE_BY_ONE: [(&str, &str); 2] = [
    (
        "interfaces",
        "a port and a name on an interface are taken again right after they were let go",
    ),
    (
        "fullcount_lab",
        "an emulator takes its interfaces again right after the one before let them go",
    ),
];

/// Files that take longest, longest first: they begin first, so that none of them is the only one left at the end.
const LONGEST: [&str; 14] = [
    "kafka_faults",
    "lab_spead",
    "kafka_exact",
    "kafka_group",
    "kafka_scale",
    "raw",
    "lab_detectors",
    "campaign",
    "documented",
    "full_spool",
    "simulated",
    "write_peers",
    "write_control",
    "readout_page",
];

impl Piece {
    /// Tests at the same time.
    pub fn threads(&self) -> usize {
        let one_by_one = ONE_BY_ONE.iter().any(|(name, _)| *name == self.file);
        if self.alone || one_by_one { 1 } else { self.tests.len().clamp(1, THREADS) }
    }
}

/// Cuts the binaries; the longest first, those that run alone last.
pub fn cut(binaries: &[Binary]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, binary) in binaries.iter().enumerate() {
        let package = binary.package();
        for test in &binary.tests {
            let module = test.split_once("::").map(|(module, _)| module);
            // Modules of unit tests share what they compute with the crate's others; nothing is gained by more processes.
            let (label, file) = match module.filter(|_| binary.kind == "test") {
                Some(module) => (format!("{package} {}::{module}", binary.name), module),
                None if binary.kind == "test" => {
                    (format!("{package} {}", binary.name), binary.name.as_str())
                }
                None => (format!("{package} {}", binary.kind), binary.name.as_str()),
            };
            let alone = alone(file, test);
            let is_its = |piece: &&mut Piece| {
                piece.binary == at && piece.file == file && piece.alone == alone
            };
            match pieces.iter_mut().find(is_its) {
                Some(piece) => piece.tests.push(test.clone()),
                None => {
                    let label = if alone { label + ", alone" } else { label };
                    let (file, tests) = (file.to_owned(), vec![test.clone()]);
                    pieces.push(Piece { binary: at, label, file, tests, alone });
                }
            }
        }
    }
    let rank = |piece: &Piece| {
        let long = LONGEST.iter().position(|name| *name == piece.file);
        (piece.alone, long.unwrap_or(LONGEST.len()), usize::MAX - piece.tests.len())
    };
    pieces.sort_by_key(rank);
    pieces
}

/// Names of the lists that no piece has: of a file, or of tests that the file does not have.
pub fn unknown(pieces: &[Piece]) -> Vec<String> {
    let listed = ONE_BY_ONE.iter().map(|(name, _)| *name).chain(LONGEST);
    let files = listed.filter(|name| !pieces.iter().any(|piece| piece.file == *name));
    let has = |(file, word, _): &&(&str, &str, &str)| {
        let of_file = |piece: &&Piece| piece.alone && piece.file == *file;
        pieces.iter().filter(of_file).any(|piece| piece.tests.iter().any(|t| t.contains(word)))
    };
    let tests = ALONE.iter().filter(|of| !has(of)).map(|(file, word, _)| format!("{file} {word}"));
    files.map(str::to_owned).chain(tests).collect()
}

/// Files with tests of which no piece runs one: a file that its crate's `tests/main.rs` does not name is compiled by nobody.
pub fn unheard(crates: &Path, pieces: &[Piece]) -> Vec<PathBuf> {
    let children = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let folders = children(crates.to_path_buf()).into_iter().map(|krate| krate.join("tests"));
    let folders = folders.flat_map(|tests| [tests.join("scenarios"), tests]);
    let mut silent: Vec<PathBuf> = folders
        .flat_map(children)
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter(|file| {
            let name = file.file_stem().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| !pieces.iter().any(|piece| piece.file == name))
        })
        .filter(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("#[test]")))
        .collect();
    silent.sort();
    silent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(package: &str, kind: &str, name: &str, tests: &[&str]) -> Binary {
        Binary {
            folder: format!("/w/crates/{package}").into(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            executable: format!("/w/target/{name}").into(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        }
    }

    #[test]
    fn a_module_of_scenarios_is_a_piece_and_so_are_all_unit_tests_of_a_crate() {
        let binaries = [
            binary("core", "lib", "fullcount_core", &["time::tests::a", "bytes::tests::b"]),
            binary("fullcount", "test", "scenarios", &["places::c", "raw::d", "raw::deep::e"]),
            binary("fullcount", "test", "scenarios", &["lab_spead::a", "lab_spead::the_tuner"]),
            binary("io", "test", "allocations", &["f"]),
        ];
        let pieces = cut(&binaries);
        let seen: Vec<(&str, usize, usize, bool)> = pieces
            .iter()
            .map(|p| (p.label.as_str(), p.tests.len(), p.threads(), p.alone))
            .collect();
        assert_eq!(
            seen,
            [
                ("fullcount scenarios::lab_spead", 1, 1, false),
                ("fullcount scenarios::raw", 2, 2, false),
                ("core lib", 2, 2, false),
                ("io allocations", 1, 1, false),
                ("fullcount scenarios::lab_spead, alone", 1, 1, true),
                ("fullcount scenarios::places, alone", 1, 1, true),
            ]
        );
        let unknown = unknown(&pieces);
        let says = |name: &str| unknown.iter().any(|unknown| unknown == name);
        assert!(says("kafka_faults") && says("lab_spead re_requests") && says("write_live "));
        assert!(!says("raw") && !says("places ") && !says("lab_spead tuner"), "{unknown:?}");
    }

    #[test]
    fn a_file_that_nobody_names_is_told() {
        let crates = std::env::temp_dir().join(format!("fullcount-xtask-{}", std::process::id()));
        let tests = crates.join("io/tests");
        fs::create_dir_all(&tests).unwrap();
        for (name, text) in [("raw", "#[test]"), ("new", "#[test]"), ("helper", "fn help() {}")] {
            fs::write(tests.join(name).with_extension("rs"), text).unwrap();
        }
        let pieces = cut(&[binary("io", "test", "scenarios", &["raw::a"])]);
        let silent = unheard(&crates, &pieces);
        fs::remove_dir_all(&crates).unwrap();
        assert_eq!(silent, [tests.join("new.rs")]);
    }
}
