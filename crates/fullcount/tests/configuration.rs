//! docs/keys.md and docs/configuration.md against the program: the same keys, the same defaults, examples that are accepted.
//!
//! The keys of the program come from its error about an unknown key, as for a user. So a new, removed or renamed key
//! fails here until the document is changed. Geometry keys are in docs/sonde.md and docs/multigrid.md and are checked
//! in the same way. Source: `CONTRIBUTING.md`, "Write it".

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::pages::{document, quoted, rows};
use crate::service::say;

/// Tables whose keys are librdkafka's.
const FREE: [&str; 4] =
    ["output.kafka.options", "output.merged.options", "output.raw.options", "source.options"];
/// A key that no section has.
const UNKNOWN: &str = "no_such_key";

/// The keys that a refusal of [`UNKNOWN`] lists; `None` if it refuses something else.
fn offered(message: &str) -> Option<BTreeSet<String>> {
    let (_, list) = message.split_once(&format!("unknown field `{UNKNOWN}`, expected "))?;
    let list = list.lines().next().unwrap_or_default();
    Some(quoted(list).into_iter().map(str::to_owned).collect())
}

/// Asks for the keys of the section at `path`, or `None` if that is a key itself.
fn ask(kind: &str, path: &str) -> Option<BTreeSet<String>> {
    let key = if path.is_empty() { UNKNOWN.to_owned() } else { format!("{path}.{UNKNOWN}") };
    let said = say(&["run", "--print-config", "--detector", kind, "--set", &format!("{key}=true")]);
    assert_eq!(said.code, 2, "{key} was accepted");
    offered(&said.err)
}

/// Every key path below `path` with this detector.
fn keys_below(kind: &str, path: &str, found: &mut BTreeSet<String>) {
    let Some(names) = ask(kind, path) else {
        found.insert(path.to_owned());
        return;
    };
    for name in names {
        let inner = if path.is_empty() { name } else { format!("{path}.{name}") };
        keys_below(kind, &inner, found);
    }
}

/// Every key path of the program. A detector's own keys join `kind`, `geometry` and `calibration`, which are read before it.
fn keys_of_the_program() -> BTreeSet<String> {
    let common = ["kind", "geometry", "calibration"];
    let mut found: BTreeSet<String> = common.map(|key| format!("detector.{key}")).into();
    for kind in kinds() {
        keys_below(&kind, "", &mut found);
    }
    found
}

/// Detectors, as the refusal of an unknown one lists them.
fn kinds() -> Vec<String> {
    let said = say(&["run", "--print-config", "--detector", UNKNOWN]);
    let list = said.err.split_once("known: ").expect("it lists the known ones").1;
    list.trim().split(", ").map(str::to_owned).collect()
}

/// Key paths of a TOML table, leaves only.
fn leaves(prefix: &str, table: &toml::Table, found: &mut BTreeMap<String, toml::Value>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            // Its keys are librdkafka's.
            toml::Value::Table(inner) if !FREE.contains(&path.as_str()) => {
                leaves(&path, inner, found)
            }
            other => drop(found.insert(path, other.clone())),
        }
    }
}

/// Fenced TOML blocks.
fn examples(text: &str) -> Vec<toml::Table> {
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block.parse().unwrap_or_else(|e| panic!("{e}\n{block}"))).collect()
}

#[test]
fn the_document_has_every_key_of_the_program_and_no_other() {
    let text = document("keys.md");
    let listed: BTreeSet<String> =
        rows(&text, "key").iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let known = keys_of_the_program();
    assert!(known.len() > 20, "the program names only {known:?}");
    let missing: Vec<_> = known.difference(&listed).collect();
    let invented: Vec<_> = listed.difference(&known).collect();
    assert!(missing.is_empty(), "keys that docs/keys.md leaves out: {missing:?}");
    assert!(invented.is_empty(), "docs/keys.md has keys that do not exist: {invented:?}");
}

#[test]
fn the_defaults_of_the_document_are_those_that_are_printed() {
    let text = document("keys.md");
    let outputs = ["--nexus", "run.nxs", "--kafka", "kafka://localhost/events", "--capture"];
    let raw = ["output.raw.brokers=b", "output.raw.topic=t", "output.raw.spool=s"];
    let raw = raw.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
    let outputs = [&outputs[..], &["run.pcapng"], &raw].concat();
    let said = say(&[&["run", "--print-config"][..], &outputs].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let mut printed = BTreeMap::new();
    leaves("", &said.out.parse().expect("TOML"), &mut printed);
    assert_eq!(printed.remove("output.kafka.topic"), Some("events".into()));
    assert_eq!(printed.remove("output.nexus.path"), Some("run.nxs".into()));
    // Outputs that only these detectors have something for: their flag, and the key that it sets.
    for (detector, asked) in [
        ("gdgem", &[("hits", "file", "h.h5"), ("clusters", "file", "c.h5")][..]),
        ("heap", &[("npy", "folder", "arrays"), ("heaps", "file", "run.h5")]),
        (
            "fragments",
            &[("records", "file", "run.rec"), ("merged", "brokers", "b"), ("merged", "spool", "s")],
        ),
    ] {
        let mut words =
            ["run", "--print-config", "--detector", detector].map(str::to_owned).to_vec();
        words.extend(asked.iter().flat_map(|(kind, key, path)| match *kind {
            "merged" => ["--set".to_owned(), format!("output.{kind}.{key}={path}")],
            _ => [format!("--{kind}"), (*path).into()],
        }));
        let said = say(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(said.code, 0, "{}", said.err);
        let mut theirs = BTreeMap::new();
        leaves("", &said.out.parse().expect("TOML"), &mut theirs);
        for (kind, key, path) in asked {
            assert_eq!(theirs.remove(&format!("output.{kind}.{key}")), Some((*path).into()));
        }
        let of_one =
            |key: &str| asked.iter().any(|(k, ..)| key.starts_with(&format!("output.{k}.")));
        printed.extend(theirs.into_iter().filter(|(key, _)| of_one(key)));
    }
    assert_eq!(printed.remove("output.capture.file"), Some("run.pcapng".into()));
    for (key, value) in [("brokers", "b"), ("topic", "t"), ("spool", "s")] {
        assert_eq!(printed.remove(&format!("output.raw.{key}")), Some(value.into()));
    }
    let optional: BTreeSet<String> =
        kinds().iter().filter_map(|k| ask(k, "detector")).flatten().collect();
    for row in rows(&text, "key") {
        let (key, default) = (row[0].trim_matches('`'), row[2].trim_matches('`'));
        let own = key.strip_prefix("detector.").is_some_and(|k| optional.contains(k));
        match printed.remove(key) {
            Some(value) => assert_eq!(value.to_string(), default, "{key}"),
            // A detector's own keys are printed only if they are given: the default is accepted at least.
            // Without them nothing is counted by numbers that only the sender knows, and nothing is drawn.
            None if own
                && [
                    "detector.sequence",
                    "detector.packet_payload",
                    "detector.waterfall",
                    "detector.first_event",
                ]
                .contains(&key) => {}
            None if own => assert_ne!(default, "–", "{key}"),
            None => {
                assert!(matches!(default, "–" | "required"), "{key} = {default} is not printed")
            }
        }
    }
    assert!(printed.is_empty(), "printed and not in a table: {printed:?}");
}

#[test]
fn the_examples_are_accepted_and_use_every_key() {
    let text = document("configuration.md");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("sonde.toml"), "").expect("an empty geometry is one module");
    let empty = "{\"vmm_calibration\": []}";
    fs::write(folder.path().join("calibration.json"), empty).expect("a calibration of no VMM");
    fs::write(folder.path().join("control-token.txt"), "0123456789abcdef").expect("a token");
    fs::create_dir(folder.path().join("runs")).expect("a folder for files that commands begin");
    let mut used = BTreeMap::new();
    let all = examples(&text);
    for (n, example) in all.iter().enumerate() {
        leaves("", example, &mut used);
        let mut example = example.clone();
        // CPU 1 is not there on every host that runs this.
        if let Some(core) = example.get_mut("source").and_then(|s| s.get_mut("core")) {
            *core = 0.into();
        }
        let file = folder.path().join(format!("{n}.toml"));
        fs::write(&file, example.to_string()).expect("written");
        let said = say(&["run", &file.display().to_string(), "--print-config"]);
        assert_eq!(said.code, 0, "{}\n{example}", said.err);
    }
    let used: BTreeSet<String> = used.into_keys().collect();
    let unused: Vec<String> = keys_of_the_program().difference(&used).cloned().collect();
    assert!(unused.is_empty(), "no example of docs/configuration.md has {unused:?}");
}

#[test]
fn every_flag_of_run_is_in_the_document_and_every_flag_there_is_one_of_run() {
    let text = document("keys.md");
    let help = say(&["run", "--help"]);
    let word =
        |w: &str| w.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>();
    let flags = |t: &str| -> BTreeSet<String> {
        let starts = t.match_indices("--").filter(|(at, _)| !t[..*at].ends_with(['-', '|']));
        let names = starts.map(|(at, _)| word(&t[at + 2..])).filter(|n| !n.is_empty());
        names.collect()
    };
    let options = help.out.lines().filter(|l| l.trim_start().starts_with("--"));
    let known: BTreeSet<String> = options.flat_map(|l| flags(l).into_iter().next()).collect();
    let columns: Vec<String> =
        rows(&text, "key").into_iter().map(|mut r| r.swap_remove(1)).collect();
    let listed = flags(&columns.join(" "));
    // These are of the command line alone.
    let alone = ["print-config", "json", "help", "version", "log", "log-format", "quiet"]
        .map(str::to_owned);
    let expected: BTreeSet<String> =
        known.difference(&alone.into_iter().collect()).cloned().collect();
    assert_eq!(listed, expected);
}

#[test]
fn url_and_fault_keys_of_the_document_are_those_of_the_program() {
    let text = document("configuration.md");
    let kinds = say(&["catalogue", "--kinds", "--json"]);
    let kinds: serde_json::Value = serde_json::from_str(&kinds.out).expect("an object");
    let sources = kinds["sources"].as_array().expect("a list");
    assert!(sources.len() >= 5, "{sources:?}");
    for kind in sources {
        let word = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
        let (name, url) = (word("name"), word("example"));
        let said = say(&["run", "--print-config", "--source", &format!("{url}?{UNKNOWN}")]);
        assert_eq!(said.code, 2, "{url}?{UNKNOWN} was accepted");
        let known = said.err.split_once("known are ").expect("it lists the known ones").1;
        let known: BTreeSet<String> = known.trim().split(", ").map(str::to_owned).collect();
        let slashes = if word("form").starts_with(&format!("{name}://")) { "//" } else { "" };
        let listed = rows(&text, &format!("key of `{name}:{slashes}`"));
        let names: BTreeSet<String> =
            listed.iter().map(|r| r[0].trim_matches('`').to_owned()).collect();
        assert_eq!(names, known, "{name}");
        for key in kind["keys"].as_array().expect("a list") {
            let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
            let want =
                [format!("`{}`", text("key")), text("default"), text("allowed"), text("about")];
            assert!(listed.iter().any(|row| row[..] == want), "{name}: {want:?}: {listed:#?}");
        }
    }
    let said = say(&["run", "--print-config", "--fault", &format!("{UNKNOWN}=1")]);
    for row in rows(&text, "key of a fault") {
        for key in quoted(&row[0]) {
            assert!(said.err.contains(&format!("{key}=")), "{key}: {}", said.err);
        }
    }
}

#[test]
fn sonde_has_every_key_of_a_geometry_file() {
    let text = document("sonde.md");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("geometry.toml");
    let asked = |geometry: String| {
        fs::write(&file, &geometry).expect("written");
        let said = say(&["run", "--print-config", "--geometry", &file.display().to_string()]);
        offered(&said.err).unwrap_or_else(|| panic!("{geometry}: {}", said.err))
    };
    let sections = asked(format!("{UNKNOWN} = 1"));
    assert_eq!(sections, ["groups", "modules", "panel"].map(str::to_owned).into());
    // The chapter on geometry, up to the next heading of its rank or above.
    let chapter = text.split_once("### Geometry").expect("a chapter").1;
    let chapter = chapter.split_once("\n## ").map_or(chapter, |(c, _)| c);
    let named: BTreeSet<String> = quoted(chapter)
        .into_iter()
        .map(|w| w.split(" = ").next().unwrap_or(w).to_owned())
        .collect();
    for (section, header) in
        [("panel", "[panel]"), ("modules", "[[modules]]"), ("groups", "[groups]")]
    {
        let keys = asked(format!("{header}\n{UNKNOWN} = 1"));
        let missing: Vec<_> = keys.iter().filter(|k| !named.contains(*k)).collect();
        assert!(missing.is_empty(), "{section}: docs/sonde.md leaves out {missing:?}");
    }
}

#[test]
fn multigrid_has_every_key_of_a_geometry_file() {
    let text = document("multigrid.md");
    let chapter = text.split_once("### Geometry").expect("a chapter").1;
    let chapter = chapter.split_once("\n## ").map_or(chapter, |(c, _)| c);
    let named: BTreeSet<&str> = quoted(chapter).into_iter().collect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("geometry.toml");
    for (section, geometry) in [
        ("the file", format!("{UNKNOWN} = 1")),
        ("builder", format!("[builder]\n{UNKNOWN} = 1")),
        ("panel", format!("[panel]\n{UNKNOWN} = 1")),
        ("mappings", format!("[[mappings]]\n{UNKNOWN} = 1")),
        ("wires", format!("[[mappings]]\nwires = [{{ {UNKNOWN} = 1 }}]")),
        ("filters", format!("[[mappings]]\nwire_filters = {{ {UNKNOWN} = 1 }}")),
        ("blanket", format!("[[mappings]]\nwire_filters = {{ blanket = {{ {UNKNOWN} = 1 }} }}")),
        (
            "exceptions",
            format!("[[mappings]]\ngrid_filters = {{ exceptions = [{{ {UNKNOWN} = 1 }}] }}"),
        ),
        ("pipeline_config", format!("[pipeline_config]\n{UNKNOWN} = 1")),
        ("modules", format!("[[pipeline_config.modules]]\n{UNKNOWN} = 1")),
        (
            "digital_geometry",
            format!("[[pipeline_config.modules]]\ndigital_geometry = {{ {UNKNOWN} = 1 }}"),
        ),
    ] {
        fs::write(&file, &geometry).expect("written");
        let path = file.display().to_string();
        let arguments = ["run", "--print-config", "--detector", "multigrid", "--geometry", &path];
        let said = say(&arguments);
        let keys = offered(&said.err).unwrap_or_else(|| panic!("{geometry}: {}", said.err));
        let missing: Vec<_> = keys.iter().filter(|k| !named.contains(k.as_str())).collect();
        assert!(missing.is_empty(), "{section}: docs/multigrid.md leaves out {missing:?}");
    }
}

#[test]
fn an_unknown_key_is_told_from_a_value() {
    let list = offered("x: unknown field `no_such_key`, expected `sink` or `nexus`\nin `output`");
    assert_eq!(list, Some(["nexus", "sink"].map(str::to_owned).into()));
    assert_eq!(offered("invalid type: map, expected a string"), None);
}

#[test]
fn multiblade_has_every_key_of_a_geometry_file() {
    let text = document("multiblade.md");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("geometry.toml");
    let asked = |geometry: String| {
        fs::write(&file, &geometry).expect("written");
        let path = file.display().to_string();
        let run = ["run", "--print-config", "--detector", "multiblade", "--geometry", &path];
        let said = say(&run);
        offered(&said.err).unwrap_or_else(|| panic!("{geometry}: {}", said.err))
    };
    let chapter = text.split_once("### Geometry").expect("a chapter").1;
    let chapter = chapter.split_once("\n## ").map_or(chapter, |(c, _)| c);
    let words: BTreeSet<&str> = chapter.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for header in ["", "[builder]", "[panel]", "[[mapping]]", "[monitor]", "[[DigitizerConfig]]"] {
        let keys = asked(format!("{header}\n{UNKNOWN} = 1"));
        let missing: Vec<_> = keys.iter().filter(|k| !words.contains(k.as_str())).collect();
        assert!(missing.is_empty(), "{header}: docs/multiblade.md leaves out {missing:?}");
    }
}

#[test]
fn the_page_of_keys_is_what_the_program_prints() {
    let said = say(&["catalogue", "--keys"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let page = document("keys.md");
    assert!(said.out == page, "run: fullcount catalogue --keys > docs/keys.md");
    let json = say(&["catalogue", "--keys", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("an object");
    let sections = json["sections"].as_array().expect("a list");
    let keys = sections.iter().map(|s| s["keys"].as_array().expect("a list").len()).sum::<usize>();
    assert_eq!(keys, rows(&page, "key").len());
    assert!(keys > 150, "{keys} keys");
}
