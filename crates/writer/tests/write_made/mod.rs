//! A run for the file writer: a structure with every module, messages for it, and a broker that is only a list.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fullcount_messages::{
    Alarm, AlarmSeverity, AlarmStatus, ChopperTimes, Connection, ConnectionState, DataArray,
    DataType, Dimension01, Events42, Events44, Histogram01, Image, LogEntry142, LogEntry144,
    LogValue, Message, PixelType, RunStart, RunStop, SampleLocation, SampleValues, Samples,
    StateSeverity, Values01, Variable,
};
use fullcount_nexus::{Compression, DiskWay, StartAttribute};
use fullcount_writer::structure::StructureLimits;
use fullcount_writer::{Options, ReadFrom, Service, TopicFault, TopicRecord, Topics, WriteCounter};
use serde_json::{Value, json};

/// Topics with the messages of their partition 0: (Kafka time in ms, value).
#[derive(Debug, Default)]
pub struct Broker(pub BTreeMap<String, Vec<(u64, Vec<u8>)>>);

impl Topics for Broker {
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault> {
        self.0.get(topic).map(|_| vec![0]).ok_or(TopicFault::Missing)
    }
}

impl Broker {
    pub fn with(topics: &[&str]) -> Broker {
        Broker(topics.iter().map(|&t| (t.to_owned(), Vec::new())).collect())
    }

    pub fn send(&mut self, topic: &str, time_ms: u64, message: &Message<'_>) {
        self.send_bytes(topic, time_ms, message.encode());
    }

    pub fn send_bytes(&mut self, topic: &str, time_ms: u64, value: Vec<u8>) {
        self.0.get_mut(topic).expect("a topic").push((time_ms, value));
    }

    /// Gives each job up to `most` messages that are there for it; how many were given.
    pub fn feed(&self, service: &mut Service, now_ms: u64, most: usize) -> usize {
        let ids: Vec<String> = service.jobs().map(|job| job.id().to_owned()).collect();
        let mut given = 0;
        for id in ids {
            let Some(job) = service.job(&id) else { continue };
            for wanted in job.wanted() {
                let log = &self.0[&wanted.topic];
                let first = match wanted.begin {
                    ReadFrom::Offset(offset) => offset as usize,
                    ReadFrom::Time(at) => {
                        log.iter().position(|(time, _)| *time >= at).unwrap_or(log.len())
                    }
                };
                if let Some(job) = service.job(&id) {
                    job.begin(&wanted.topic, 0, first as i64);
                }
                for (offset, (time, value)) in log.iter().enumerate().skip(first) {
                    if given == most {
                        return given;
                    }
                    let record = TopicRecord {
                        topic: &wanted.topic,
                        partition: 0,
                        offset: offset as i64,
                        timestamp_ms: Some(*time),
                        value,
                    };
                    service.offer(&id, &record);
                    given += 1;
                }
                if let Some(job) = service.job(&id) {
                    job.at_end(&wanted.topic, 0, log.len() as i64, now_ms);
                }
            }
        }
        given
    }
}

pub fn options(folder: &Path) -> Options {
    Options {
        folder: folder.to_owned(),
        templates: None,
        service_id: "writer-1".into(),
        host: "host".into(),
        process: 7,
        version: "0.0".into(),
        pool_topic: None,
        control_topic: Some("control".into()),
        shared_control: false,
        jobs: 4,
        leeway: Duration::from_secs(10),
        flush: Duration::from_secs(2),
        heartbeat: Duration::from_secs(1),
        compression: Compression::None,
        disk: DiskWay::Direct,
        start_attribute: StartAttribute::Offset,
        read_only: false,
        limits: StructureLimits::default(),
    }
}

/// A message of the job pool, without Kafka's time.
pub fn pool(offset: i64, value: &[u8]) -> TopicRecord<'_> {
    TopicRecord { topic: "pool", partition: 0, offset, timestamp_ms: None, value }
}

/// The same with Kafka's time.
pub fn pool_at(offset: i64, sent_ms: u64, value: &[u8]) -> TopicRecord<'_> {
    TopicRecord { timestamp_ms: Some(sent_ms), ..pool(offset, value) }
}

/// Files of the writer's own that mean work to go on with.
pub fn journals(folder: &Path) -> Vec<String> {
    let own = std::fs::read_dir(folder.join(".fullcount-write/writer-1")).unwrap();
    let names = own.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !["lock", "orders"].contains(&name.as_str())).collect()
}

pub fn start<'a>(job: &'a str, file: &'a str, structure: &'a str) -> RunStart<'a> {
    RunStart {
        start_time: 500,
        stop_time: 0,
        run_name: Some("run 42"),
        instrument_name: Some("loki"),
        nexus_structure: Some(structure),
        job_id: Some(job),
        broker: None,
        service_id: None,
        filename: Some(file),
        n_periods: 1,
        detector_spectrum_map: None,
        metadata: Some("{\"sample\": \"water\"}"),
        control_topic: None,
    }
}

pub fn stop<'a>(job: &'a str, at_ms: u64, command: &'a str) -> RunStop<'a> {
    RunStop {
        stop_time: at_ms,
        run_name: None,
        job_id: Some(job),
        service_id: None,
        command_id: Some(command),
    }
}

/// The messages that wait to be published, decoded as JSON with their topic; the broker confirms all of them.
pub fn replies(service: &mut Service) -> Vec<(String, Value)> {
    let all = service.replies();
    all.iter().filter_map(|reply| reply.receipt).for_each(|receipt| service.confirmed(receipt));
    let each = |reply: fullcount_writer::Reply| {
        let message = fullcount_messages::decode(&reply.value).expect("a message");
        let mut value = serde_json::to_value(&message).expect("JSON");
        value["schema"] = message.schema().identifier().into();
        (reply.topic, value)
    };
    all.into_iter().map(each).collect()
}

pub fn count(service: &Service, counter: WriteCounter) -> u64 {
    service.sheet().get(counter as usize)
}

/// In = accepted + rejected + dropped + queued at every hop.
pub fn assert_balanced(service: &Service) {
    use fullcount_core::ledger::Role;
    let sheet = service.sheet();
    let mut hops: BTreeMap<String, i128> = BTreeMap::new();
    for (i, info) in WriteCounter::catalogue().iter().enumerate() {
        let n = i128::from(sheet.get(i));
        *hops.entry(info.hop.to_string()).or_default() += match info.role {
            Role::In => n,
            Role::Accepted | Role::Rejected | Role::Queued | Role::Dropped(_) => -n,
            _ => 0,
        };
    }
    assert!(hops.values().all(|&n| n == 0), "{hops:?}");
}

fn class(name: &str) -> Value {
    json!([{"name": "NX_class", "dtype": "string", "values": name}])
}

pub fn group(name: &str, nx: &str, children: Value) -> Value {
    json!({"type": "group", "name": name, "attributes": class(nx), "children": children})
}

/// A group without a class of its own: the module gives it one.
pub fn bare(name: &str, children: Value) -> Value {
    json!({"type": "group", "name": name, "children": children})
}

pub fn dataset(name: &str, dtype: &str, values: Value, attributes: Value) -> Value {
    json!({"module": "dataset", "config": {"name": name, "dtype": dtype, "values": values},
           "attributes": attributes})
}

pub fn stream(module: &str, config: Value) -> Value {
    json!({"module": module, "config": config})
}

/// A panel of 8 × 16 pixels, as in `nexus_made`, with one position for each, the shape of a pixel and a distance.
pub fn panel() -> Vec<Value> {
    let number = |f: &dyn Fn(u32) -> f64| -> Value {
        (0..8)
            .map(|y| (0..16).map(|x| f(y * 16 + x)).collect::<Vec<f64>>())
            .collect::<Vec<_>>()
            .into()
    };
    let metres = json!({"units": "m"});
    let corners =
        json!([[-0.005, -0.005, 0], [0.005, -0.005, 0], [0.005, 0.005, 0], [-0.005, 0.005, 0]]);
    let shape = json!([
        dataset("vertices", "float", corners, metres.clone()),
        dataset("winding_order", "int32", json!([0, 1, 2, 3]), json!([])),
        dataset("faces", "int32", json!([0]), json!([])),
    ]);
    vec![
        dataset("detector_number", "int32", number(&|i| f64::from(i + 1)), json!([])),
        dataset("x_pixel_offset", "double", number(&|i| f64::from(i % 16) * 0.01), metres.clone()),
        dataset("y_pixel_offset", "double", number(&|i| f64::from(i / 16) * 0.01), metres),
        dataset("depends_on", "string", json!("transformations/distance"), json!([])),
        group("pixel_shape", "NXoff_geometry", shape),
        along_beam(2.5),
    ]
}

fn along_beam(metres: f64) -> Value {
    let attributes = json!([
        {"name": "units", "dtype": "string", "values": "m"},
        {"name": "transformation_type", "dtype": "string", "values": "translation"},
        {"name": "depends_on", "dtype": "string", "values": "."},
        {"name": "vector", "dtype": "double", "values": [0.0, 0.0, 1.0]},
    ]);
    let distance = dataset("distance", "double", json!(metres), attributes);
    group("transformations", "NXtransformations", json!([distance]))
}

/// A source 25 m upstream.
fn source() -> Value {
    let depends_on = dataset("depends_on", "string", json!("transformations/distance"), json!([]));
    group("source", "NXsource", json!([depends_on, along_beam(-25.0)]))
}

/// Events only: `bank` on the topic `events` from the source `bank`.
pub fn structure_of_events(chunk: usize) -> String {
    let config =
        json!({"topic": "events", "source": "bank", "chunk_size": chunk, "cue_interval": 50_000});
    let mut detector = panel();
    detector.push(bare("bank_events", json!([stream("ev44", config)])));
    let instrument = group(
        "instrument",
        "NXinstrument",
        json!([
            dataset("name", "string", json!("LOKI"), json!([])),
            source(),
            group("bank", "NXdetector", detector.into()),
        ]),
    );
    json!({"children": [group("entry", "NXentry", json!([
        dataset("title", "string", json!("a run"), json!([])),
        instrument,
        group("sample", "NXsample", json!([dataset("depends_on", "string", json!("."), json!([]))])),
    ]))]})
    .to_string()
}

/// Every module once; all on the topics `events` and `logs`.
pub fn structure_of_all() -> Value {
    let log = |source: &str, more: Value| {
        let mut config = json!({"topic": "logs", "source": source});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let mut detector = panel();
    detector.push(bare(
        "bank_events",
        json!([stream("ev44", json!({"topic": "events", "source": "bank"}))]),
    ));
    json!({
        "attributes": {"facility": "ESS"},
        "children": [group("entry", "NXentry", json!([
            dataset("title", "string", json!("all modules"), json!([])),
            stream("mdat", json!({"items": ["start_time", "end_time"]})),
            group("instrument", "NXinstrument", json!([
                dataset("name", "string", json!("LOKI"), json!([])),
                source(),
                group("bank", "NXdetector", detector.into()),
                group("chopper", "NXdisk_chopper", json!([
                    bare("top_dead_center", json!([stream("tdct", log("chopper", json!({})))])),
                ])),
            ])),
            group("old_monitor", "NXmonitor", json!([
                bare("old_monitor_events", json!([stream("ev42", json!({"topic": "events", "source": "old"}))])),
            ])),
            group("sample", "NXsample", json!([
                dataset("depends_on", "string", json!("."), json!([])),
                bare("temperature", json!([
                    stream("f144", log("temperature", json!({"dtype": "float", "value_units": "K", "cue_interval": 2}))),
                    stream("al00", log("temperature", json!({}))),
                    stream("ep01", log("temperature", json!({}))),
                ])),
                bare("field", json!([stream("f144", log("field", json!({"units": "T", "array_size": 3})))])),
                bare("pressure", json!([stream("f142", log("pressure", json!({"dtype": "int32", "units": "Pa"})))])),
            ])),
            bare("spectrum", json!([stream("da00", log("spectrum", json!({
                "title": "a spectrum",
                "variables": [
                    {"name": "signal", "unit": "counts", "label": "Counts", "data_type": "int32", "shape": [3], "axes": ["x"]},
                    {"name": "width", "unit": "counts", "data_type": "float64", "shape": [3], "axes": ["x"]},
                ],
                "constants": [{"name": "x", "unit": "mm", "data_type": "float64", "data": {"first": 0, "last": 3, "size": 4}}],
                "cue_interval": 1,
            })))])),
            bare("histogram", json!([stream("hs01", log("histogram", json!({
                "data_type": "int64", "error_type": "double",
                "shape": [{"size": 2, "label": "tof", "unit": "ms", "edges": [0.0, 1.0, 2.5], "dataset_name": "tof"}],
            })))])),
            bare("fast", json!([stream("se00", log("fast", json!({"dtype": "int16", "units": "V"})))])),
            bare("camera", json!([stream("ad00", log("camera", json!({"dtype": "uint16", "array_size": [2, 3]})))])),
            group("links", "NXcollection", json!([
                {"module": "link", "config": {"name": "temperature", "source": "../sample/temperature"}},
                {"module": "link", "config": {"name": "numbers", "source": "/entry/instrument/bank/detector_number"}},
            ])),
        ]))],
    })
}

pub fn ev44<'a>(source: &'a str, id: i64, zero: i64, tof: &[i32], pixel: &[i32]) -> Message<'a> {
    Message::Ev44(Events44 {
        source_name: source,
        message_id: id,
        reference_time: vec![zero].into(),
        reference_time_index: vec![0].into(),
        time_of_flight: Some(tof.to_vec().into()),
        pixel_id: Some(pixel.to_vec().into()),
    })
}

pub fn ev42(source: &str, zero: u64, tof: &[u32], pixel: &[u32]) -> Message<'static> {
    let source_name = Some(&*source.to_owned().leak());
    Message::Ev42(Events42 {
        source_name,
        message_id: 1,
        pulse_time: zero,
        time_of_flight: Some(Cow::Owned(tof.to_vec())),
        detector_id: Some(Cow::Owned(pixel.to_vec())),
        facility_specific_data: None,
    })
}

pub fn f144<'a>(source: &'a str, timestamp: i64, value: LogValue<'a>) -> Message<'a> {
    Message::F144(LogEntry144 { source_name: source, timestamp, value })
}

pub fn f142(source: &str, timestamp: u64, value: i32, alarm: bool) -> Message<'_> {
    let (status, severity) = match alarm {
        true => (AlarmStatus::High, AlarmSeverity::Major),
        false => (AlarmStatus::NoChange, AlarmSeverity::NoChange),
    };
    let value = Some(LogValue::Int(value));
    Message::F142(LogEntry142 { source_name: Some(source), value, timestamp, status, severity })
}

pub fn al00<'a>(source: &'a str, timestamp: i64, words: &'a str) -> Message<'a> {
    let (severity, message) = (StateSeverity::Major, Some(words));
    Message::Al00(Alarm { source_name: Some(source), timestamp, severity, message })
}

pub fn ep01(source: &str, timestamp: i64, status: ConnectionState) -> Message<'_> {
    Message::Ep01(Connection { timestamp, status, source_name: source, service_id: None })
}

pub fn se00(name: &str, packet_timestamp: i64, values: Vec<i16>) -> Message<'_> {
    Message::Se00(Samples {
        name,
        channel: -1,
        packet_timestamp,
        time_delta: 1000.0,
        timestamp_location: SampleLocation::Unknown,
        values: SampleValues::Int16Array(values.into()),
        timestamps: None,
        message_counter: 0,
    })
}

pub fn tdct(name: &str, times: Vec<u64>) -> Message<'_> {
    Message::Tdct(ChopperTimes { name, timestamps: times.into(), sequence_counter: 0 })
}

pub fn ad00<'a>(source: &'a str, timestamp: i64, data: &'a [u8]) -> Message<'a> {
    Message::Ad00(Image {
        source_name: source,
        id: 0,
        timestamp,
        dimensions: vec![2, 3].into(),
        data_type: PixelType::Uint16,
        data,
        attributes: None,
    })
}

pub fn da00<'a>(
    source: &'a str,
    timestamp: i64,
    signal: &'a [u8],
    errors: &'a [u8],
) -> Message<'a> {
    let variable = |name: &'a str, data_type, data: &'a [u8]| Variable {
        name,
        unit: Some("counts"),
        label: None,
        source: None,
        data_type,
        axes: Some(vec!["x"]),
        shape: vec![3].into(),
        data,
    };
    Message::Da00(DataArray {
        source_name: source,
        timestamp,
        data: vec![
            variable("signal", DataType::Int32, signal),
            variable("not asked", DataType::Int32, signal),
            variable("width", DataType::Float64, errors),
        ],
    })
}

pub fn hs01(source: &str, timestamp: i64, counts: Vec<i64>, errors: Vec<f64>) -> Message<'_> {
    Message::Hs01(Histogram01 {
        source: Some(source),
        timestamp,
        dim_metadata: Some(vec![Dimension01 {
            length: 2,
            unit: None,
            label: None,
            bin_boundaries: None,
        }]),
        last_metadata_timestamp: 0,
        current_shape: vec![counts.len() as i32].into(),
        offset: None,
        data: Some(Values01::ArrayLong(counts.into())),
        errors: Some(Values01::ArrayDouble(errors.into())),
        info: None,
    })
}
