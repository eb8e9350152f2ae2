//! What a facility says beside its events: values of a motor, a temperature, a pressure and a magnetic field, an alarm,
//! connections, chopper times; and the messages that start and stop a run.
//!
//! Everything follows from the time and a seed, so that a test knows each value. Nothing here sends: see `send`.
//! Source: `docs/formats/flatbuffers.md` sections 4 and 5.

use fullcount_core::view::PixelMap;
use fullcount_out::flat::{
    Alarm, ChopperTimes, Connection, ConnectionState, LogEntry144, LogValue, Message, RunStart,
    RunStop, Severity,
};
use fullcount_out::write::structure::panel::{self, along_beam, dataset, detector, group};
use serde_json::{Value, json};

/// Above this the temperature sounds its alarm, kelvin.
const WARM: f64 = 301.0;
/// Time between two marks of the chopper: 14 Hz.
const TURN_NS: i64 = 71_428_571;

/// A facility's slow control.
#[derive(Debug)]
pub struct Facility {
    seed: u64,
    /// Which round comes next.
    round: u64,
    warm: bool,
    /// The last mark of the chopper that was sent.
    mark: Option<i64>,
    first_ns: Option<i64>,
}

/// A number of 0 to 1 out of a seed and a place (splitmix64).
fn noise(seed: u64, at: u64) -> f64 {
    let mut x = seed.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as f64 / u64::MAX as f64
}

impl Facility {
    /// A facility whose noise follows from `seed`.
    pub fn new(seed: u64) -> Facility {
        Facility { seed, round: 0, warm: false, mark: None, first_ns: None }
    }

    /// The messages of the round at `ns` since 1970: at least one of each value.
    pub fn round(&mut self, ns: i64) -> Vec<Vec<u8>> {
        let first = *self.first_ns.get_or_insert(ns);
        let seconds = (ns - first) as f64 / 1e9;
        let noise = |channel: u64| noise(self.seed ^ channel << 56, self.round);
        let mut all = Vec::new();
        let mut log = |source_name: &str, value: LogValue<'_>| {
            let entry = LogEntry144 { source_name, timestamp: ns, value };
            all.push(Message::F144(entry).encode());
        };
        // A motor that goes up and down a millimetre in 20 s, in steps of a micrometre.
        let way = (seconds / 10.0).rem_euclid(2.0);
        let motor = (1000.0 * if way < 1.0 { way } else { 2.0 - way }).round();
        let temperature = 300.0 + 1.5 * (seconds / 30.0).sin() + 0.01 * (noise(1) - 0.5);
        let pressure = 101_325.0 + 20.0 * (noise(2) - 0.5);
        let turned = seconds / 5.0;
        let field = [turned.cos(), turned.sin(), 0.001 * (noise(3) - 0.5)];
        log("motor", LogValue::Int(motor as i32));
        log("temperature", LogValue::Double(temperature));
        log("pressure", LogValue::Float(pressure as f32));
        log("field", LogValue::ArrayDouble(field.to_vec().into()));
        if self.round == 0 {
            for source_name in ["motor", "temperature", "pressure", "field"] {
                let status = ConnectionState::Connected;
                let service_id = Some("fullcount send");
                let state = Connection { timestamp: ns, status, source_name, service_id };
                all.push(Message::Ep01(state).encode());
            }
        }
        // It ends lower than it begins, or noise would sound it many times.
        let warm = temperature > if self.warm { WARM - 0.05 } else { WARM };
        if warm != self.warm || self.round == 0 {
            let (severity, words) = match warm {
                true => (Severity::Major, "temperature above 301 K"),
                false => (Severity::Ok, "temperature in range"),
            };
            let (source_name, message) = (Some("temperature"), Some(words));
            let alarm = Alarm { source_name, timestamp: ns, severity, message };
            all.push(Message::Al00(alarm).encode());
            self.warm = warm;
        }
        let from = self.mark.map_or(ns, |mark| mark + TURN_NS);
        let marks: Vec<u64> =
            (0..).map(|i| from + i * TURN_NS).take_while(|&t| t <= ns).map(|t| t as u64).collect();
        if let Some(&last) = marks.last() {
            self.mark = Some(last as i64);
            let (name, sequence_counter) = ("chopper", self.round);
            let times = ChopperTimes { name, timestamps: marks.into(), sequence_counter };
            all.push(Message::Tdct(times).encode());
        }
        self.round += 1;
        all
    }
}

/// Where messages of events come from.
#[derive(Debug, Clone, Copy)]
pub struct Stream<'a> {
    pub topic: &'a str,
    pub source: &'a str,
}

/// What is written of a run beside the simulated values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Events<'a> {
    /// A detector, with its pixels.
    pub detector: Option<(Stream<'a>, &'a PixelMap)>,
    /// A beam monitor, without any.
    pub monitor: Option<Stream<'a>>,
}

/// From the source to the sample, metres.
const SOURCE_M: f64 = 25.0;

/// A structure that takes all of it from `topic`, and `events` if there are any.
pub fn structure(topic: &str, events: &Events<'_>) -> Value {
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
    if let Some((Stream { topic, source }, pixels)) = events.detector {
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
    if let Some(Stream { topic, source }) = events.monitor {
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

/// A run, as a control system orders it.
#[derive(Debug, Clone)]
pub struct Run {
    pub job_id: String,
    pub file: String,
    pub structure: String,
    pub control: Option<String>,
}

impl Run {
    /// The message that starts it, ms since 1970.
    pub fn start(&self, start_ms: u64) -> Vec<u8> {
        Message::Pl72(RunStart {
            start_time: start_ms,
            stop_time: 0,
            run_name: Some("simulated run"),
            instrument_name: Some("simulated"),
            nexus_structure: Some(&self.structure),
            job_id: Some(&self.job_id),
            broker: None,
            service_id: None,
            filename: Some(&self.file),
            n_periods: 1,
            detector_spectrum_map: None,
            metadata: None,
            control_topic: self.control.as_deref(),
        })
        .encode()
    }

    /// The message that stops it, ms since 1970.
    pub fn stop(&self, stop_ms: u64) -> Vec<u8> {
        Message::S6s4t(RunStop {
            stop_time: stop_ms,
            run_name: Some("simulated run"),
            job_id: Some(&self.job_id),
            service_id: None,
            command_id: Some(&format!("{}-stop", self.job_id)),
        })
        .encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_out::flat::decode;
    use fullcount_out::write::structure::{Limits, parse};

    #[test]
    fn rounds_follow_from_seed_and_time_and_say_everything() {
        let rounds = |seed: u64| -> Vec<Vec<u8>> {
            let mut facility = Facility::new(seed);
            (0..600).flat_map(|i| facility.round(1_000_000_000 + i * 100_000_000)).collect()
        };
        assert_eq!(rounds(1), rounds(1));
        assert_ne!(rounds(1), rounds(2));
        let (mut entries, mut alarms, mut marks, mut connected) = (0, Vec::new(), 0, 0);
        for value in rounds(1) {
            match decode(&value).unwrap() {
                Message::F144(_) => entries += 1,
                Message::Al00(alarm) => alarms.push(alarm.severity),
                Message::Tdct(times) => marks += times.timestamps.len(),
                Message::Ep01(_) => connected += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((entries, connected), (4 * 600, 4));
        // 59.9 s at 14 Hz, the first mark at once.
        assert_eq!(marks, 839);
        assert_eq!(alarms, [Severity::Ok, Severity::Major], "301 K are passed after 22 s");
    }

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
        let detector = Stream { topic: "loki_detector", source: "loki" };
        let monitor = Some(Stream { topic: "loki_monitor", source: "cbm1" });
        let value = structure("logs", &Events { detector: Some((detector, &pixels)), monitor });
        let text = readable(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "laid out, not changed");
        // A row of pixels is a line, however long.
        assert!(text.lines().any(|l| l.trim() == "[1,2]"), "{text}");
        let plan = parse(&text, &Limits::default()).unwrap();
        assert_eq!(plan.topics(), ["logs", "loki_detector", "loki_monitor"]);
        assert_eq!(plan.listed, 4 * 2 + 4);
        assert_eq!(readable(&json!([[], {}, "a\"b"])), "[\n  [],\n  {},\n  \"a\\\"b\"\n]");
        let run =
            Run { job_id: "j".into(), file: "f".into(), structure: text.clone(), control: None };
        let start = run.start(5);
        let Ok(Message::Pl72(start)) = decode(&start) else { panic!("pl72") };
        assert_eq!((start.start_time, start.nexus_structure), (5, Some(&text[..])));
    }
}
