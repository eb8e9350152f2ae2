//! `fullcount catalogue --keys`: every key of the configuration, section by section, as the kinds and the engine declare them.
//!
//! `docs/keys.md` is its output; a test compares the two, and another compares the rows with what the program reads.

use fullcount_core::key::{Key, KeyRow};
use fullcount_core::output::OutputKind;
use fullcount_core::source::SourceKind;
use fullcount_detect::detector::{self, Kind};
use fullcount_engine::config::{DetectorConfig, reference};
use fullcount_engine::registered;
use serde_json::{Value, json};

/// Keys of one section, or those that one kind adds to it.
struct Section {
    /// `engine`.
    name: String,
    /// The detector that adds them.
    kind: Option<&'static str>,
    /// One sentence.
    about: String,
    rows: Vec<Row>,
}

/// A row with the names of the registered kinds filled in.
struct Row {
    key: &'static str,
    flag: String,
    default: String,
    allowed: String,
    about: String,
}

/// Names as code with commas between them.
fn list(names: impl Iterator<Item = &'static str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// How URLs of a source begin: `udp://`, `pcap:`.
fn beginning(kind: &dyn SourceKind) -> &'static str {
    let (form, name) = (kind.form(), kind.name().len());
    let slashes = form.get(name..).is_some_and(|rest| rest.starts_with("://"));
    form.get(..name + if slashes { 3 } else { 1 }).unwrap_or(form)
}

impl From<&KeyRow> for Row {
    fn from(row: &KeyRow) -> Row {
        let kinds = || detector::registered().kinds();
        let sources = registered::sources();
        let options = |k: &dyn SourceKind| {
            k.options().map(|options| format!("`{}`: {}", beginning(k), options.meaning))
        };
        let options: Vec<String> = sources.kinds().filter_map(options).collect();
        let fill = |text: &str| {
            text.replace("{kinds}", &list(kinds().map(Kind::name)))
                .replace(
                    "{calibrated}",
                    &list(kinds().filter(|k| k.takes_calibration()).map(Kind::name)),
                )
                .replace("{first kind}", &format!("`\"{}\"`", DetectorConfig::default().kind))
                .replace("{usual source}", &format!("`\"{}\"`", sources.usual()))
                .replace("{schemes}", &list(sources.kinds().map(beginning)))
                .replace("{several}", &list(sources.kinds().filter(|k| k.several()).map(beginning)))
                .replace("{options}", &options.join("; "))
        };
        Row {
            key: row.path,
            flag: if row.flag.is_empty() { "`--set`".to_owned() } else { row.flag.to_owned() },
            default: fill(row.default),
            allowed: fill(row.allowed),
            about: fill(row.about),
        }
    }
}

impl From<Key> for Row {
    fn from(key: Key) -> Row {
        let flag = key.flag.map_or("set", |flag| flag.name);
        Row {
            key: key.path,
            flag: format!("`--{flag}`"),
            default: key.default.to_owned(),
            allowed: key.allowed.to_owned(),
            about: key.about.to_owned(),
        }
    }
}

fn section(name: &str, about: &str, rows: &[KeyRow]) -> Section {
    let rows = rows.iter().map(Row::from).collect();
    Section { name: name.to_owned(), kind: None, about: about.to_owned(), rows }
}

fn of_detector(kind: &'static dyn Kind) -> Section {
    let about = format!("Keys that `kind = \"{}\"` adds: {}.", kind.name(), kind.about());
    Section { kind: Some(kind.name()), ..section("detector", &about, kind.keys()) }
}

fn of_output(kind: &dyn OutputKind) -> Section {
    let rows = kind.keys().into_iter().map(Row::from).collect();
    Section {
        rows,
        ..section(kind.section(), &format!("Output `{}`: {}.", kind.name(), kind.about()), &[])
    }
}

fn sections() -> Vec<Section> {
    let mut all = vec![
        section("source", "Where packets come from.", reference::SOURCE),
        section("time", "Pulses and times.", reference::TIME),
        section(
            "detector",
            "What the packets are. Each kind adds its own keys.",
            reference::DETECTOR,
        ),
    ];
    all.extend(detector::registered().kinds().map(of_detector));
    all.push(section("output", "Where results go. Each output has a section.", reference::OUTPUT));
    all.extend(registered::outputs().kinds().map(of_output));
    all.push(section("control", "The port of commands.", reference::CONTROL));
    all.push(section("engine", "Threads, queues, and when a run ends.", reference::ENGINE));
    all.retain(|section| !section.rows.is_empty());
    all
}

/// The page.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Configuration keys\n\nEvery key, as `fullcount catalogue --keys` prints it. [Configuration](configuration.md) says how a \
         file is read and has examples. A key whose flag is `--set` is set by `--set KEY=VALUE`.\n",
    );
    for section in sections() {
        text += &match section.kind {
            Some(kind) => format!("\n### `[{}]` with `kind = \"{kind}\"`\n", section.name),
            None => format!("\n## `[{}]`\n", section.name),
        };
        text += &format!("\n{}\n\n| key | flag | default | allowed | meaning |\n", section.about);
        text += "|---|---|---|---|---|\n";
        for Row { key, flag, default, allowed, about } in section.rows {
            text += &format!("| `{key}` | {flag} | {default} | {allowed} | {about} |\n");
        }
    }
    text
}

/// The same for programs.
pub fn json() -> Value {
    let row = |row: Row| {
        json!({
            "key": row.key, "flag": row.flag.trim_matches('`'), "default": row.default,
            "allowed": row.allowed, "about": row.about,
        })
    };
    let section = |section: Section| {
        let keys: Vec<Value> = section.rows.into_iter().map(row).collect();
        json!({"section": section.name, "kind": section.kind, "about": section.about, "keys": keys})
    };
    let sections: Vec<Value> = sections().into_iter().map(section).collect();
    json!({"schema": "fullcount/keys/1", "verb": "catalogue", "sections": sections})
}
