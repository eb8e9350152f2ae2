//! Answers of `expected.json` beside ours, and the online chain that they are for. Source: `vectors/gdgem`.

use fullcount_detect::detector::Setup;
use serde_json::{Value, json};

use super::{Ran, count, text};

/// Published names and ours.
pub const PARSER: [(&str, &[&str]); 13] = [
    ("FrameSeqErrors", &["frames.seq_errors"]),
    ("FrameMissingErrors", &["frames.missing_errors"]),
    ("FramecounterOverflows", &["frames.counter_overflows"]),
    ("TimestampLostErrors", &["timestamps.lost_errors"]),
    ("TimestampSeqErrors", &["timestamps.seq_errors"]),
    ("TimestampOverflows", &["timestamps.overflows"]),
    ("BadFrames", &["frames.bad"]),
    ("GoodFrames", &["decode.accepted"]),
    ("ErrorBytes", &["frames.error_bytes"]),
    ("Markers", &["readouts.all_markers"]),
    ("Data", &["readouts.data"]),
    ("Readouts", &["readouts.count"]),
    ("OverThreshold", &["readouts.over_threshold"]),
];

/// The same under the names of vmm-sdat.
pub const FRAMES: [(&str, &[&str]); 9] = [
    ("good_frames", &["decode.accepted"]),
    ("readouts", &["readouts.count"]),
    ("markers", &["readouts.all_markers"]),
    ("trigger_time_markers", &["readouts.trigger_time_markers"]),
    ("trigger_counter_markers", &["readouts.trigger_counter_markers"]),
    ("hits", &["readouts.data"]),
    ("over_threshold", &["readouts.over_threshold"]),
    ("frames_missing", &["frames.missing_errors"]),
    ("error_bytes", &["frames.error_bytes"]),
];

pub fn compare(ran: &Ran, names: &[(&str, &[&str])], wanted: &Value, what: &str) {
    for (name, value) in wanted.as_object().expect("counters") {
        let ours =
            names.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{what}: {name}")).1;
        let seen: u64 = ours.iter().map(|n| ran.counters.get(n)).sum();
        assert_eq!(seen, count(value), "{what}: {name}");
    }
}

pub fn close(seen: f64, wanted: f64, tolerance: f64, what: &str) {
    let off = (seen - wanted).abs();
    assert!(off <= tolerance || seen == wanted, "{what}: {seen} is not {wanted}");
}

pub fn relative(seen: f64, wanted: &Value, what: &str) {
    let wanted = wanted.as_f64().unwrap();
    close(seen, wanted, 1e-12 * wanted.abs(), what);
}

/// A configuration of the online chain with other gaps, matcher and algorithm.
pub fn online(file: &str, changes: &[(&str, Value)]) -> Setup {
    let mut config: Value = serde_json::from_str(&text(&format!("config/{file}"))).unwrap();
    changes.iter().for_each(|(key, value)| config[*key] = value.clone());
    Setup { geometry: config.to_string(), geometry_path: file.to_owned(), ..Setup::default() }
}

pub fn gaps(time: &Value, strip: &Value) -> Value {
    json!({"max_time_gap": time, "max_strip_gap": strip})
}
