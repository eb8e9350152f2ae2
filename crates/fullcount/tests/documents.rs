//! The documents against the repository and the binary: no dead link, no verb that does not exist, and
//! docs/files.md has the datasets that a file has.
//!
//! Looks at README.md, CONTRIBUTING.md, CHANGELOG.md, deploy/README.md and every Markdown file below docs and vectors.
//! Links into the web are not followed. Source: `CONTRIBUTING.md`, "Write it".

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::pages::{document, quoted, rows};
use crate::service::{say, vector};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().expect("the workspace is two folders up")
}

/// Every Markdown file that a reader may open, in a fixed order.
fn documents() -> Vec<PathBuf> {
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/README.md"];
    let mut all: Vec<PathBuf> = top.iter().map(|name| root().join(name)).collect();
    let mut folders = vec![root().join("docs"), root().join("vectors")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

/// `text` without fenced blocks and inline code: what looks like a link there is an example.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Every second piece between backquotes is code.
            kept.extend(line.split('`').step_by(2));
            kept.push('\n');
        }
    }
    kept
}

/// Targets of `[text](target)`, images included.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.trim().to_owned()).collect()
}

/// The anchor that the usual viewers make of a heading.
fn anchor(heading: &str) -> String {
    let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let plain = heading.trim().to_lowercase().chars().filter(keep).collect::<String>();
    plain.replace(' ', "-")
}

fn has_anchor(file: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let headings = text.lines().filter(|l| l.starts_with('#'));
    headings.map(|l| anchor(l.trim_start_matches('#'))).any(|a| a == wanted)
}

/// What is wrong with a link of `document`, if anything is.
fn fault(document: &Path, target: &str) -> Option<String> {
    if target.starts_with("https://") || target.starts_with("http://") {
        return None;
    }
    let (path, part) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
    let folder = document.parent().expect("a file has a folder");
    let file = if path.is_empty() { document.to_path_buf() } else { folder.join(path) };
    let Ok(file) = file.canonicalize() else { return Some("no such file".to_owned()) };
    if !file.starts_with(root()) {
        return Some("leads out of the repository".to_owned());
    }
    let part = part.filter(|_| file.is_file())?;
    (!has_anchor(&file, part)).then(|| format!("no heading '{part}'"))
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut followed = 0;
    let mut dead = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("readable");
        for target in links(&text) {
            followed += 1;
            let shown = document.strip_prefix(root()).unwrap_or(&document).display().to_string();
            dead.extend(fault(&document, &target).map(|why| format!("{shown}: {target}: {why}")));
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    // 20 stood here when this was written: fewer means that the search is broken, not the links.
    assert!(followed >= 20, "only {followed} links found");
}

#[test]
fn dead_links_are_found() {
    let readme = root().join("README.md");
    let text = "[a](docs/files.md) `[b](c.md)`\n```\n[d](e.md)\n```\n![f](docs/none.png)";
    assert_eq!(links(text), ["docs/files.md", "docs/none.png"]);
    assert_eq!(fault(&readme, "docs/files.md"), None);
    assert_eq!(fault(&readme, "docs/files.md#while-it-grows"), None);
    assert_eq!(fault(&readme, "docs/none.png").unwrap(), "no such file");
    assert_eq!(fault(&readme, "docs/files.md#nowhere").unwrap(), "no heading 'nowhere'");
    assert_eq!(fault(&readme, "../").unwrap(), "leads out of the repository");
}

#[test]
fn every_verb_in_the_readme_is_a_verb_of_the_binary() {
    let help = say(&["--help"]);
    assert_eq!(help.code, 0, "{}", help.err);
    let listed: Vec<&str> =
        help.out.lines().filter_map(|l| l.strip_prefix("  ")?.split_whitespace().next()).collect();
    let readme = fs::read_to_string(root().join("README.md")).expect("readable");
    // As a command at the start of a line (after a prompt or a path) or of a piece of inline code.
    let mut verbs: Vec<&str> = Vec::new();
    for (at, _) in readme.match_indices("fullcount ") {
        let before = readme[..at].chars().next_back();
        let word = readme[at + "fullcount ".len()..].split([' ', '`', '\n']).next();
        let verb = word.filter(|w| w.chars().all(|c| c.is_ascii_lowercase()) && !w.is_empty());
        let shell = readme[..at].ends_with("$ ");
        if shell || matches!(before, None | Some('\n' | '`' | '/')) {
            verbs.extend(verb);
        }
    }
    for wanted in ["run", "send", "receive", "inspect"] {
        assert!(verbs.contains(&wanted), "the search does not find `fullcount {wanted}`");
    }
    for verb in verbs {
        assert!(
            listed.contains(&verb),
            "README.md: `fullcount {verb}`, but --help has no such verb"
        );
    }
}

/// Type and unit of every dataset below `group`, by path. The second place of the events, which only
/// Mantid needs, is left out.
fn datasets(group: &hdf5_metno::Group, found: &mut BTreeMap<String, (String, Option<String>)>) {
    for inner in group.groups().expect("readable") {
        if inner.name() != "/entry/sonde_events" {
            datasets(&inner, found);
        }
    }
    for dataset in group.datasets().expect("readable") {
        let kind = dataset.dtype().and_then(|t| t.to_descriptor()).expect("a type").to_string();
        let unit = dataset.attr("units").and_then(|a| a.read_scalar()).ok();
        let unit = unit.map(|u: hdf5_metno::types::VarLenUnicode| u.to_string());
        found.insert(dataset.name(), (kind, unit));
    }
}

/// Flags for all that can be said of a run.
pub fn all_that_can_be_said() -> Vec<String> {
    let users = "output.nexus.users=[{name='A', affiliation='B', email='C', facility_user_id='D', role='E'}]";
    let sample =
        ["chemical_formula=V", "description=rod", "type=can", "temperature_k=3", "mass_g=4"]
            .map(|key| format!("output.nexus.sample.{key}"));
    let set = [users.to_owned()].into_iter().chain(sample);
    let set = set.flat_map(|key| ["--set".to_owned(), key]);
    let flags = ["--run-number", "1", "--proposal", "2", "--sample", "V"];
    set.chain(flags.map(str::to_owned)).collect()
}

#[test]
fn files_has_every_dataset_with_type_and_unit() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.nxs").display().to_string();
    let source = format!("pcap:{}?flat-out", vector("sonde/sonde.pcap"));
    let mut run = vec!["run", "--source", &source, "--nexus", &file, "--web", "off"];
    let all = all_that_can_be_said();
    run.extend(all.iter().map(String::as_str));
    let said = say(&run);
    assert!(Path::new(&file).exists(), "{}", said.err);
    let mut made = BTreeMap::new();
    datasets(&hdf5_metno::File::open(&file).expect("complete"), &mut made);
    // The panel of a run without geometry lies at the sample and is called sonde.
    let mut listed = BTreeMap::new();
    for row in rows(&document("files.md"), "path").into_iter().filter(|row| row.len() == 5) {
        let mut folder = String::new();
        for name in quoted(&row[0]) {
            let name = name.replace('…', "/entry/instrument/PANEL").replace("PANEL", "sonde");
            let path = if name.starts_with('/') { name } else { format!("{folder}/{name}") };
            folder = path.rsplit_once('/').expect("a path").0.to_owned();
            listed.insert(path, (row[1].clone(), row[3].clone()));
        }
    }
    let in_file: Vec<&String> = made.keys().collect();
    let in_page: Vec<&String> = listed.keys().collect();
    assert_eq!(in_file, in_page, "left: in the file; right: in docs/files.md");
    for (path, (kind, unit)) in &made {
        let (said_kind, said_unit) = &listed[path];
        let text = kind.starts_with("unicode") && said_kind.starts_with("text");
        assert!(text || said_kind.starts_with(kind.as_str()), "{path}: {kind}, not {said_kind}");
        // Without the attribute the page may still name a unit, as that of tick_numerator_ns.
        if let Some(unit) = unit {
            assert!(said_unit.starts_with(unit.as_str()), "{path}: {unit}, not {said_unit}");
        }
    }
}

#[test]
fn the_readout_in_the_readme_is_what_inspect_prints() {
    let readme = fs::read_to_string(root().join("README.md")).expect("readable");
    let command = "fullcount inspect pcap:vectors/sonde/sonde.pcap --count 8 --rows 3";
    assert!(readme.contains(&format!("\n{command}\n")), "README.md: no line `{command}`");
    let capture = format!("pcap:{}", vector("sonde/sonde.pcap"));
    let said = say(&["inspect", &capture, "--count", "8", "--rows", "3"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        readme.contains(&format!("```text\n{}```\n", said.out)),
        "README.md does not hold what `{command}` prints:\n{}",
        said.out
    );
}

/// The body of a function in a source file, from its name to the end of its braces.
fn body<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let heads = [format!("fn {name}("), format!("fn {name}<")];
    let at = heads.iter().find_map(|head| source.find(head.as_str()))?;
    let open = at + source[at..].find(['{', ';'])?;
    let mut depth = 0;
    for (i, c) in source[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&source[at..open + i + 1]);
        }
    }
    None
}

#[test]
fn the_path_of_one_packet_is_that_of_the_source() {
    let page = document("one-packet.md");
    let mut seen = 0;
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [function, file, calls, what] = cells[..] else { panic!("four cells: {line}") };
        let (function, file) = (function.trim_matches('`'), file.trim_matches('`'));
        let source =
            fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let body = body(&source, function).unwrap_or_else(|| panic!("{file} has no fn {function}"));
        for call in quoted(calls) {
            assert!(
                body.contains(&format!("{call}(")),
                "{function} in {file} does not call {call}"
            );
        }
        assert!(!what.is_empty(), "{line}");
        seen += 1;
    }
    assert!(seen >= 15, "{seen} functions");
}

/// Bodies of all test functions of the repository's crates, by name: what stands behind `#[test]`, or in a `proptest!` behind it.
fn tests_of(folder: &Path, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path())
    {
        if path.is_dir() {
            tests_of(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let source = fs::read_to_string(&path).expect("text");
            let behind = source.split("#[test]").skip(1);
            let names = behind.filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
            found.extend(names.map(|name| name.trim().to_owned()));
        }
    }
}

/// Each weakness of spead2 in the format document has a row with a test that is there, or a sentence that says why not.
#[test]
fn every_defect_of_spead2_has_a_test() {
    let page = document("spead.md");
    let section =
        page.split("## Defects of spead2").nth(1).and_then(|rest| rest.split("\n## ").next());
    let section = section.expect("the section");
    let (mut tests, counters) = (Vec::new(), document("counters.md"));
    for part in ["spead", "io", "fullcount"] {
        tests_of(&root().join("crates").join(part), &mut tests);
    }
    let mut numbers: Vec<String> = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, test, counter] = cells[..] else { panic!("four cells: {line}") };
        let test = test.trim_matches('`');
        assert!(tests.iter().any(|known| known == test), "no test is called {test}");
        let known = counter == "–" || counters.contains(&format!("| {counter} |"));
        assert!(known, "no counter is called {counter}");
        numbers.push(number.to_owned());
    }
    let other = section.rsplit("|\n\n").next().unwrap_or_default();
    let said = |n: u32| numbers.contains(&n.to_string()) || other.contains(&format!("({n})"));
    let format = document("formats/spead.md");
    let known = format.split("## 18. ").nth(1).and_then(|rest| rest.split("\n## ").next());
    let last =
        (1..).take_while(|n| known.expect("section 18").contains(&format!("\n{n}. "))).last();
    assert!(last.is_some_and(|last| last >= 33), "{last:?}");
    let missing: Vec<u32> = (1..=last.unwrap_or(0)).filter(|n| !said(*n)).collect();
    assert!(missing.is_empty(), "neither a row nor a sentence: {missing:?}");
}
