//! `catalogue --kinds`: what each kind declares, for people and for other programs.

use std::fmt::Write as _;

use fullcount_core::destination::DestinationKind;
use fullcount_core::key::Key;
use fullcount_core::output::OutputKind;
use fullcount_core::simulator::taste::SimulatedTaste;
use fullcount_core::simulator::{Simulator, SimulatorOption};
use fullcount_core::source::{SourceKind, UrlKey};
use fullcount_detect::detector::{self, Clock, Kind};
use fullcount_engine::registered;
use serde_json::{Value, json};

/// What the simulator of the same name makes first; `None`: there is none.
fn sample(name: &str) -> Option<SimulatedTaste> {
    SimulatedTaste::of(fullcount_sim::registered().find(name)?).ok()
}

fn clock(kind: &dyn Kind) -> &'static str {
    match kind.clock() {
        Clock::Absolute => "absolute",
        Clock::Counting => "counting",
        Clock::Local => "local",
    }
}

fn detector(kind: &dyn Kind) -> Value {
    let sample = sample(kind.name()).map(|sample| {
        let packets: Vec<String> = sample.packets.iter().map(|bytes| hex(bytes)).collect();
        json!({"geometry": sample.geometry, "packets": packets})
    });
    json!({
        "name": kind.name(), "title": kind.title(), "about": kind.about(), "clock": clock(kind),
        "carries_pulses": kind.carries_pulses(), "takes_calibration": kind.takes_calibration(),
        "sample": sample,
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn option(option: &SimulatorOption) -> Value {
    json!({
        "key": option.key, "unit": option.unit.name(), "about": option.about,
        "range": option.range, "default": option.default,
    })
}

/// Where a simulator is shown and measured.
fn uses(kind: &dyn Simulator) -> Vec<&'static str> {
    let measured = !kind.loads().is_empty() || !kind.declared().recorded.is_empty();
    [
        ("demo", kind.declared().demonstration.is_some()),
        ("lab detectors", measured),
        ("lab truth", kind.declared().truth.is_some()),
        ("lab capacity", !kind.declared().instruments.is_empty()),
    ]
    .into_iter()
    .filter_map(|(verb, used)| used.then_some(verb))
    .collect()
}

fn simulator(kind: &dyn Simulator) -> Value {
    let options: Vec<Value> = kind.declared().options.iter().map(option).collect();
    let inputs: Vec<&str> = kind
        .declared()
        .recorded
        .iter()
        .map(|recorded| recorded.name)
        .chain(kind.loads().iter().map(|load| load.name))
        .collect();
    json!({
        "name": kind.name(), "title": kind.declared().title, "about": kind.declared().about, "options": options,
        "usual_rate": kind.declared().usual_rate, "uses": uses(kind), "inputs": inputs,
    })
}

/// Keys are the rows of the reference page: the flag without its dashes, or null.
fn output(kind: &dyn OutputKind) -> Value {
    let key = |key: Key| {
        json!({
            "key": key.path, "flag": key.flag.map(|flag| flag.name), "default": key.default,
            "allowed": key.allowed, "about": key.about,
        })
    };
    let keys: Vec<Value> = kind.keys().into_iter().map(key).collect();
    json!({"name": kind.name(), "about": kind.about(), "section": kind.section(), "keys": keys})
}

/// Keys are those of its URLs.
fn source(kind: &dyn SourceKind) -> Value {
    json!({
        "name": kind.name(), "schemes": schemes(kind), "about": kind.about(), "form": kind.form(),
        "example": kind.example(), "several": kind.several(), "options": kind.options().map(|o| o.whose),
        "keys": url_keys(kind.keys()),
    })
}

/// Keys are those of its URLs.
fn destination(kind: &dyn DestinationKind) -> Value {
    json!({
        "name": kind.name(), "about": kind.about(), "form": kind.form(), "example": kind.example(),
        "keys": url_keys(kind.keys()),
    })
}

fn url_keys(keys: Vec<UrlKey>) -> Vec<Value> {
    let key = |key: UrlKey| json!({"key": key.name, "default": key.default, "allowed": key.takes, "about": key.about});
    keys.into_iter().map(key).collect()
}

/// Its name and its aliases.
fn schemes(kind: &dyn SourceKind) -> Vec<&'static str> {
    [kind.name()].into_iter().chain(kind.aliases().iter().copied()).collect()
}

/// All kinds as one JSON object.
pub fn json() -> Value {
    let detectors: Vec<Value> = detector::registered().kinds().map(detector).collect();
    let simulators: Vec<Value> = fullcount_sim::registered().kinds().map(simulator).collect();
    let sources: Vec<Value> = registered::sources().kinds().map(source).collect();
    let destinations: Vec<Value> = registered::destinations().kinds().map(destination).collect();
    let outputs: Vec<Value> = registered::outputs().kinds().map(output).collect();
    json!({
        "schema": "fullcount/kinds/1", "verb": "catalogue",
        "detectors": detectors, "simulators": simulators, "sources": sources, "destinations": destinations,
        "outputs": outputs,
    })
}

/// All kinds for people.
pub fn text() -> String {
    let mut text = "Detectors (detector.kind)\n".to_owned();
    for kind in detector::registered().kinds() {
        text += &format!("  {:<12} {}\n", kind.name(), kind.about());
    }
    text += "\nSimulated detectors (send --source)\n";
    for kind in fullcount_sim::registered().kinds() {
        text += &format!("  {:<12} {}\n", kind.name(), kind.declared().about);
        for o in kind.declared().options {
            let default = if o.default.is_empty() { "" } else { &format!(" [{}]", o.default) };
            text += &format!("    --{:<12} {}, {}{default}\n", o.key, o.about, o.range);
        }
        let uses = uses(kind);
        if !uses.is_empty() {
            text += &format!("    also in {}\n", uses.join(", "));
        }
    }
    text += "\nSources (run --source)\n";
    for kind in registered::sources().kinds() {
        text += &format!("  {:<12} {}\n", schemes(kind).join(", "), kind.about());
        text += &format!("    {}\n", kind.form());
        for key in kind.keys() {
            text += &format!("    ?{:<15} {}; {}\n", key.name, key.takes, key.about);
        }
    }
    text += "\nDestinations (send --to)\n";
    for kind in registered::destinations().kinds() {
        text += &format!("  {:<12} {}\n    {}\n", kind.name(), kind.about(), kind.form());
        for key in kind.keys() {
            text += &format!("    ?{:<15} {}; {}\n", key.name, key.takes, key.about);
        }
    }
    text += "\nOutputs\n";
    for kind in registered::outputs().kinds() {
        text += &format!("  {:<12} {} ([{}])\n", kind.name(), kind.about(), kind.section());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_and_every_sample_passes_its_own_header_test() {
        let (json, text) = (json(), text());
        let named = |list: &str, name: &str| {
            json[list].as_array().unwrap().iter().any(|kind| kind["name"] == name)
        };
        for kind in detector::registered().kinds() {
            assert!(named("detectors", kind.name()) && text.contains(kind.about()));
            let Some(sample) = sample(kind.name()) else { continue };
            assert!(sample.packets.len() >= 2, "{}", kind.name());
            let right = sample.packets.iter().filter(|packet| kind.looks_right(packet)).count();
            assert!(right > 0, "{}: no packet of its sample looks like one", kind.name());
        }
        for kind in fullcount_sim::registered().kinds() {
            assert!(named("simulators", kind.name()) && text.contains(kind.declared().about));
        }
    }
}
