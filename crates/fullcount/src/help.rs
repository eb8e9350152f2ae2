//! Help texts and defaults that depend on the kinds of this process: what they declare, in one place for all verbs.

use fullcount_core::simulator::{Simulator, either};
use fullcount_detect::detector;
use fullcount_engine::registered;

/// URLs of all sources, as in a sentence.
fn endpoints() -> String {
    registered::sources().examples(|_| true)
}

/// `run --source`.
pub fn run_source() -> String {
    let several = registered::sources().kinds().filter(|kind| kind.several());
    let several: Vec<String> = several.map(|kind| format!("{}://", kind.name())).collect();
    let several = several.join(" or ");
    format!(
        "Endpoint, e.g. {} [default: {}]. May be repeated with {several}, where HOST:FIRST-LAST stands for one endpoint a \
         port",
        endpoints(),
        registered::sources().usual()
    )
}

/// `receive URL`.
pub fn receive_url() -> String {
    format!("Endpoints, e.g. {}; udp://0.0.0.0:9000-9003 is one a port", endpoints())
}

/// `inspect URL`.
pub fn inspect_url() -> String {
    format!("Endpoint, e.g. {}; a capture is read flat out", endpoints())
}

/// The detectors, as in a sentence.
pub fn detectors() -> String {
    detector::registered().names()
}

/// The detector that is taken unless one is chosen.
pub fn usual_detector() -> &'static str {
    detector::registered().usual()
}

/// `run --detector`.
pub fn run_detector() -> String {
    format!("Detector: {} [default: {}]", detectors(), usual_detector())
}

/// `inspect --detector`.
pub fn inspect_detector() -> String {
    format!("Detector: {}", detectors())
}

/// `send --detector`.
pub fn moved_detector() -> String {
    format!(
        "Detector whose rule moves a capture with ?shift on, or whose pixels are in a printed structure: {} [default: {}]",
        detectors(),
        usual_detector()
    )
}

fn simulators() -> impl Iterator<Item = &'static dyn Simulator> {
    fullcount_sim::registered().kinds()
}

/// `send --to`.
pub fn send_to() -> String {
    let each: Vec<&str> = registered::destinations().kinds().map(|kind| kind.example()).collect();
    format!(
        "Destination, e.g. {} or kafka://broker/topic. May be repeated: each gets the same packets, as over redundant links; \
         SPEAD heaps are shared out",
        each.join(", ")
    )
}

/// `send --source`.
pub fn source() -> String {
    let each: Vec<String> =
        simulators().map(|kind| format!("{} ({})", kind.name(), kind.declared().about)).collect();
    format!(
        "{}, heaps (SPEAD heaps, to spead+ destinations) or pcap:FILE (a capture); to Kafka: logs (simulated values of slow control) or run (start and stop of a run)",
        each.join(", ")
    )
}

/// Rates of the kinds of `rate`, in brackets.
fn rates(rate: impl Fn(&dyn Simulator) -> Option<&'static str>) -> String {
    let each = simulators().filter_map(|kind| Some(format!("{} {}", kind.name(), rate(kind)?)));
    each.collect::<Vec<String>>().join("; ")
}

/// `send --rate`.
pub fn send_rate() -> String {
    format!(
        "Payload bits (10Gbps), packets (14.88Mpps) or events (1Mev/s) per second, to each destination; with events a \
         simulated detector's clock goes as fast as real time [default: flat out; {}; a capture as recorded]",
        rates(|kind| kind.declared().usual_rate)
    )
}

/// `send --truth`.
pub fn send_truth() -> String {
    let kinds = fullcount_sim::registered().names(|kind| kind.declared().truth_columns.is_some());
    format!("Write what a simulated {kinds} made to this file, neutron by neutron (CSV)")
}

/// The detector that `demo` shows unless one is chosen.
pub fn usual_demo() -> &'static str {
    simulators().find(|kind| kind.declared().demonstration.is_some()).map_or("", |kind| kind.name())
}

/// `demo --detector`.
pub fn demo_detector() -> String {
    let each: Vec<String> = simulators()
        .filter_map(|kind| {
            Some(format!("{} ({})", kind.name(), kind.declared().demonstration?.extent))
        })
        .collect();
    let each: Vec<&str> = each.iter().map(String::as_str).collect();
    format!("Simulated detector: {}", either(&each))
}

/// `demo --rate`.
pub fn demo_rate() -> String {
    format!(
        "Events (1Mev/s), payload bits (10Gbps) or packets (94kpps) per second [default: {}]",
        rates(|kind| Some(kind.declared().demonstration?.rate))
    )
}

/// Kinds that `lab truth` can compare.
pub fn truth_detector() -> String {
    format!(
        "Detector: {}",
        fullcount_sim::registered().names(|kind| kind.declared().truth.is_some())
    )
}

/// `lab truth --rates`.
pub fn truth_rates() -> String {
    let each: Vec<String> = simulators()
        .filter_map(|kind| {
            let rules = kind.declared().truth?;
            let of = if rules.per_module { "of each of its " } else { "of all its " };
            let (range, usual) = (rules.range, rules.rates.join(","));
            Some(format!("{} {of}{}: {range} [default: {usual}]", kind.name(), rules.modules_name))
        })
        .collect();
    format!("Neutrons per second, several with commas. {}", each.join("; "))
}

/// `lab truth --modules`.
pub fn truth_modules() -> String {
    let each: Vec<String> = simulators()
        .filter_map(|kind| {
            let rules = kind.declared().truth.filter(|rules| !rules.modules_range.is_empty())?;
            let (range, usual) = (rules.modules_range, rules.modules);
            Some(format!("{} {}, {range} [default: {usual}]", kind.name(), rules.modules_name))
        })
        .collect();
    format!("Modules: {}", each.join("; "))
}

/// When a neutron is clean, for each kind.
pub fn truth_clean() -> String {
    let each = simulators().filter_map(|kind| Some((kind, kind.declared().truth?)));
    let lines = each.map(|(kind, rules)| format!("  {}: {}\n", kind.name(), rules.clean));
    format!(
        "A neutron is clean if no other readout of its module lies within the format's resolution:\n{}",
        lines.collect::<String>()
    )
}

/// `lab detectors --input`.
pub fn inputs() -> String {
    format!(
        "Inputs, with commas: {}; captures: recorded, where there is none vectors. recorded* and vectors are of the \
         repository, see --vectors [default: all from memory; over UDP captures; for pipelines simulated]",
        fullcount_lab::detectors::input::names().join(", ")
    )
}

/// Examples of a verb: its own commands, each a line with the program's name, then those that kinds declare.
pub fn examples(verb: &str, own: &str) -> String {
    let mut text = "Examples:".to_owned();
    // A line that begins a text with a line break in front of it has lost its own space.
    for line in own.trim_end().lines() {
        text += &format!("\n  {}", line.strip_prefix("  ").unwrap_or(line));
    }
    let of_verb = |line: &&&str| line.strip_prefix(verb).is_some_and(|rest| rest.starts_with(' '));
    for line in simulators().flat_map(|kind| kind.declared().examples.iter()).filter(of_verb) {
        text += &format!("\n  fullcount {line}");
    }
    text.trim_end().to_owned()
}
