//! The structure of a simulated run's file: the values of the facility, a detector with its pixels, a beam monitor.
//!
//! Source: `docs/formats/flatbuffers.md` section 5.

use fullcount_core::view::PixelMap;
use fullcount_writer::structure::panel::{self, along_beam, dataset, detector, group};
use serde_json::{Value, json};

/// Where messages of events come from.
#[derive(Debug, Clone, Copy)]
pub struct EventSource<'a> {
    /// Their topic.
    pub topic: &'a str,
    /// Their source name in it.
    pub source: &'a str,
}

/// What is written of a run beside the simulated values.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventSources<'a> {
    /// A detector, with its pixels.
    pub detector: Option<(EventSource<'a>, &'a PixelMap)>,
    /// A beam monitor, without any.
    pub monitor: Option<EventSource<'a>>,
}

/// From the source to the sample, metres.
const SOURCE_M: f64 = 25.0;

/// A structure that takes all of it from `topic`, and `events` if there are any.
pub fn structure(topic: &str, events: &EventSources<'_>) -> Value {
    let module = |name: &str, source: &str, more: Value| {
        let mut config = json!({"topic": topic, "source": source});
        if let (Some(config), Some(more)) = (config.as_object_mut(), more.as_object()) {
            config.extend(more.clone());
        }
        json!({"module": name, "config": config})
    };
    let log = |source: &str, more: Value| {
        let children = vec![module("f144", source, more), module("ep01", source, json!({}))];
        group(source, "NXlog", children)
    };
    let mut temperature = log("temperature", json!({"dtype": "double", "value_units": "K"}));
    if let Some(children) = temperature["children"].as_array_mut() {
        children.push(module("al00", "temperature", json!({})));
    }
    let marks = group("top_dead_center", "NXlog", vec![module("tdct", "chopper", json!({}))]);
    let mut instrument = vec![
        dataset("name", "string", "simulated", None),
        group("chopper", "NXdisk_chopper", vec![marks]),
        // Upstream of the sample, which is at the origin: the negative direction of z.
        group("source", "NXsource", along_beam(-SOURCE_M).to_vec()),
    ];
    if let Some((EventSource { topic, source }, pixels)) = events.detector {
        instrument.push(detector(pixels, topic, source));
    }
    let mut entry = vec![
        dataset("title", "string", "simulated run", None),
        json!({"module": "mdat", "config": {"items": ["start_time", "end_time"]}}),
        group("instrument", "NXinstrument", instrument),
        group(
            "sample",
            "NXsample",
            vec![
                dataset("depends_on", "string", ".", None),
                log("motor", json!({"dtype": "int32", "value_units": "um"})),
                temperature,
                log("pressure", json!({"dtype": "float", "value_units": "Pa"})),
                log("field", json!({"dtype": "double", "value_units": "T", "array_size": 3})),
            ],
        ),
    ];
    if let Some(EventSource { topic, source }) = events.monitor {
        let own = panel::events("monitor_events", topic, source);
        entry.push(group("monitor", "NXmonitor", vec![own]));
    }
    json!({"children": [group("entry", "NXentry", entry)]})
}

/// JSON for people: lists of plain values stand in one line each, since detectors have many pixels.
pub fn readable(value: &Value) -> String {
    let mut text = String::new();
    lay_out(value, 0, &mut text);
    text
}

fn lay_out(value: &Value, depth: usize, text: &mut String) {
    let is_plain = |one: &Value| !one.is_object() && !one.is_array();
    let next = |text: &mut String, first: bool, depth: usize| {
        text.push_str(if first { "\n" } else { ",\n" });
        text.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Array(all) if !all.iter().all(is_plain) => {
            text.push('[');
            for (i, one) in all.iter().enumerate() {
                next(text, i == 0, depth + 1);
                lay_out(one, depth + 1, text);
            }
            next(text, true, depth);
            text.push(']');
        }
        Value::Object(all) if !all.values().all(is_plain) => {
            text.push('{');
            for (i, (key, one)) in all.iter().enumerate() {
                next(text, i == 0, depth + 1);
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push_str(": ");
                lay_out(one, depth + 1, text);
            }
            next(text, true, depth);
            text.push('}');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_writer::structure::{StructureLimits, parse};

    #[test]
    fn the_structure_can_be_written_and_names_all_sources() {
        let pixels = PixelMap {
            name: "loki".into(),
            columns: 2,
            rows: 1,
            cell: vec![0, 1],
            x_m: vec![0.0, 0.01],
            y_m: vec![0.0, 0.0],
            distance_m: 1.5,
            ..PixelMap::default()
        };
        let detector = EventSource { topic: "loki_detector", source: "loki" };
        let monitor = Some(EventSource { topic: "loki_monitor", source: "cbm1" });
        let value =
            structure("logs", &EventSources { detector: Some((detector, &pixels)), monitor });
        let text = readable(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "laid out, not changed");
        // A row of pixels is a line, however long.
        assert!(text.lines().any(|l| l.trim() == "[1,2]"), "{text}");
        let plan = parse(&text, &StructureLimits::default()).unwrap();
        assert_eq!(plan.topics(), ["logs", "loki_detector", "loki_monitor"]);
        assert_eq!(plan.listed, 4 * 2 + 4);
        assert_eq!(readable(&json!([[], {}, "a\"b"])), "[\n  [],\n  {},\n  \"a\\\"b\"\n]");
    }
}
