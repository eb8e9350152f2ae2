//! Starts as NICOS sends them: each of `vectors/nicos` is accepted and becomes a file, with exactly the warnings that stand
//! there about what is odd, and h5py and scippnexus find in it what the structure says. Templates in place of structures, and who hears of a start that is refused.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::write_made::*;
use fullcount_messages::{ConnectionState, LogValue};
use fullcount_messages::{DataArray, DataType, Message, RunStart, Variable};
use fullcount_writer::structure::{
    FilePlan, LogKind, NumberType, StreamModule, StructureLimits, parse,
};
use fullcount_writer::{Options, Service, TopicFault, Topics, WriteCounter};
use hdf5_metno::File;
use hdf5_metno::types::VarLenUnicode;
use serde_json::{Value, json};

const NOW: u64 = 1_000_000;

fn vectors() -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/nicos");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let read = |path: &Path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Two messages for each source of the structure that has logs, events, images, samples, chopper times, alarms or connections.
fn feed_each(broker: &mut Broker, plan: &FilePlan) {
    let mut done = BTreeSet::new();
    for stream in &plan.streams[..plan.listed] {
        let (topic, source) = (&stream.topic, &*stream.source);
        let kind = std::mem::discriminant(&stream.module);
        if !done.insert(format!("{topic} {source} {kind:?}")) {
            continue;
        }
        let pixel = |path: &Option<String>| {
            let of = plan.datasets.iter().find(|dataset| Some(&dataset.path) == path.as_ref());
            of.and_then(|dataset| dataset.value.integers()?.next()).unwrap_or(1) as i32
        };
        for k in 1..=2 {
            let time = (NOW as i64 + k) * 1_000_000;
            let message = match &stream.module {
                StreamModule::Events { pixels, .. } => {
                    ev44(source, k, time, &[10, 20], &[pixel(pixels); 2])
                }
                StreamModule::Log { kind: LogKind::F144, array: Some(n), .. } => {
                    f144(source, time, LogValue::ArrayDouble(vec![0.5; *n].into()))
                }
                StreamModule::Log { kind: LogKind::F144, dtype: NumberType::F64, .. } => {
                    f144(source, time, LogValue::Double(0.5))
                }
                StreamModule::Log { kind: LogKind::F144, .. } => {
                    f144(source, time, LogValue::Int(1))
                }
                StreamModule::Images { .. } => ad00(source, time, &[0; 12]),
                StreamModule::Chopper { .. } => tdct(source, vec![time as u64]),
                StreamModule::Samples { .. } => se00(source, time, vec![1, 2, 3]),
                StreamModule::Alarms => al00(source, time, "too warm"),
                StreamModule::Connections { .. } => ep01(source, time, ConnectionState::Connected),
                StreamModule::Log { .. }
                | StreamModule::Arrays { .. }
                | StreamModule::Histogram { .. } => continue,
            };
            broker.send(topic, NOW, &message);
        }
    }
}

/// The answers that wait: topic and message.
fn answers(service: &mut Service) -> Vec<(String, Value)> {
    replies(service).into_iter().filter(|(_, m)| m["schema"] == "answ").collect()
}

/// A histogram of 4 bins, with edges if there are any.
fn histogram<'a>(
    source: &'a str,
    time: i64,
    counts: &'a [u8],
    edges: Option<&'a [u8]>,
) -> Message<'a> {
    let of = |name: &'a str, data: &'a [u8]| Variable {
        name,
        unit: None,
        label: None,
        source: None,
        data_type: DataType::Int32,
        axes: Some(vec!["frame_time"]),
        shape: vec![data.len() as i64 / 4].into(),
        data,
    };
    let all = edges.map(|edges| of("frame_time", edges)).into_iter().chain([of("signal", counts)]);
    Message::Da00(DataArray { source_name: source, timestamp: time, data: all.collect() })
}

fn integers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Edges come with the data, once: also where the first message has none.
fn send_monitors(broker: &mut Broker) {
    let counts: Vec<Vec<u8>> = (1..=3).map(|n| integers(&[n, n, n, n])).collect();
    let edges = [integers(&[0, 10, 20, 30, 40]), integers(&[1, 2, 3, 4, 5])];
    for (n, edges) in [None, Some(&edges[0]), Some(&edges[1])].into_iter().enumerate() {
        let time = (NOW as i64 + 1 + n as i64) * 1_000_000;
        let message = histogram("cbm1", time, &counts[n], edges.map(Vec::as_slice));
        broker.send("dream_beam_monitor", NOW, &message);
    }
    // Edges of another shape are refused with what they belong to.
    let wrong = histogram("cbm1", (NOW as i64 + 9) * 1_000_000, &counts[0], Some(&edges[0][..8]));
    let other = histogram("cbm2", (NOW as i64 + 9) * 1_000_000, &counts[0], Some(&edges[0][..8]));
    broker.send("dream_beam_monitor", NOW, &wrong);
    broker.send("dream_beam_monitor", NOW, &other);
}

fn is_as_it_should_be(path: &Path, warnings: usize, monitors: bool) {
    let file = File::open(path).unwrap();
    let said: Option<VarLenUnicode> =
        file.dataset("/entry/fullcount/warnings").ok().map(|d| d.read_scalar().unwrap());
    assert_eq!(said.map_or(0, |said| said.lines().count()), warnings);
    if monitors {
        let of = |path: &str| {
            let path = format!("/entry/instrument/{path}");
            file.dataset(&path).unwrap().read_raw::<i32>().unwrap()
        };
        assert_eq!(of("monitor_bunker/histogram/frame_time"), [0, 10, 20, 30, 40]);
        assert_eq!(
            of("monitor_bunker/histogram/signal").len(),
            4 * 4,
            "the last is right but for its edges"
        );
        assert_eq!(of("monitor_cave/histogram/frame_time"), [0_i32; 0]);
        assert!(file.group("/entry/links/temperature").is_ok(), "a link through a link");
    }
    drop(file);
    // These structures leave out the shape of pixels, which Mantid draws; a camera has no pixel numbers; high voltages
    // are logs in a detector.
    let mut found = fullcount_nexus::check(path).unwrap();
    let cameras = ["/camera", "/orca_detector"];
    found.retain(|v| {
        let camera = cameras.iter().any(|camera| v.place.ends_with(camera));
        !(camera || v.what.contains("pixel_shape") || v.place.contains("_hvps_"))
    });
    assert_eq!(found, [], "{}", path.display());
}

/// The start that a vector tells of.
fn order<'a>(told: &'a Value, structure: &'a str, metadata: &'a str) -> RunStart<'a> {
    let text = |name: &str| told[name].as_str();
    RunStart {
        start_time: 0,
        stop_time: 0,
        run_name: text("run_name"),
        instrument_name: text("instrument_name"),
        nexus_structure: Some(structure),
        job_id: text("job_id"),
        broker: text("broker"),
        service_id: text("service_id"),
        filename: text("filename"),
        n_periods: 1,
        detector_spectrum_map: None,
        metadata: Some(metadata),
        control_topic: text("control_topic"),
    }
}

#[test]
fn starts_of_ten_instruments_are_accepted_and_become_files() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 10);
    let dir = tempfile::tempdir().unwrap();
    let mut made = vec![];
    for (vector_path, vector) in &vectors {
        let (told, expected) = (&vector["start"], &vector["expected"]);
        let text = |name: &str| told[name].as_str();
        let (structure, metadata) =
            (told["nexus_structure"].to_string(), told["metadata"].to_string());
        let order = order(told, &structure, &metadata);
        let job = text("job_id").unwrap();
        let plan = parse(&structure, &StructureLimits::default()).unwrap();
        let mut topics: BTreeSet<&str> = plan.topics().into_iter().collect();
        topics.extend(["control", text("control_topic").unwrap()]);
        let mut broker = Broker::with(&topics.into_iter().collect::<Vec<_>>());
        let folder = dir.path().join(text("instrument_name").unwrap());
        let path = folder.join(expected["path"].as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut service = Service::new(options(&folder), NOW, &broker).unwrap();
        service.order(&pool_at(0, NOW, &Message::Pl72(order).encode()), NOW, &broker);
        let answer = answers(&mut service);
        assert_eq!(answer.len(), 1, "{job}");
        let (topic, answer) = &answer[0];
        assert_eq!(
            (topic.as_str(), &answer["status_code"]),
            (text("control_topic").unwrap(), &201.into()),
            "{answer}"
        );
        // Each warning is in the answer, the log and the heartbeat; words are bounded.
        let warnings = expected["warnings"].as_array().unwrap();
        let words = answer["message"].as_str().unwrap();
        assert!(words.len() <= 4096 && words.starts_with("job started"), "{words}");
        let notes: Vec<String> = service.notes().into_iter().map(|note| note.text).collect();
        service.tick(NOW + 1);
        let beat =
            replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "x5f2").unwrap().1;
        let status: Value = serde_json::from_str(beat["status_json"].as_str().unwrap()).unwrap();
        assert_eq!(status["warnings"].as_array().unwrap(), warnings, "{job}");
        for warning in warnings {
            let warning = warning.as_str().unwrap();
            assert!(words.contains(warning), "{warning}: {words}");
            assert_eq!(notes.iter().filter(|note| note.contains(warning)).count(), 1, "{notes:?}");
        }
        let monitors = plan.streams.iter().find(|s| s.topic == "dream_beam_monitor");
        if monitors.is_some() {
            send_monitors(&mut broker);
        }
        feed_each(&mut broker, &plan);
        broker.feed(&mut service, NOW + 2, usize::MAX);
        // A writer that is killed and comes back goes on with the same file.
        service.end(NOW + 3, true);
        drop(service);
        let mut service = Service::new(options(&folder), NOW + 4, &broker).unwrap();
        assert_eq!(service.jobs().count(), 1, "{:?}", service.notes());
        service.order(
            &pool_at(1, NOW + 5, &Message::S6s4t(stop(job, 0, "c")).encode()),
            NOW + 5,
            &broker,
        );
        broker.feed(&mut service, NOW + 20_000, usize::MAX);
        service.tick(NOW + 20_000);
        assert_eq!(count(&service, WriteCounter::Finished), 1, "{:?}", service.notes());
        is_as_it_should_be(&path, warnings.len(), monitors.is_some());
        made.extend([vector_path.clone(), path]);
    }
    let Some(python) = fullcount_testing::python::python() else { return };
    let script = fullcount_testing::python::script("check_nicos.py");
    let output = Command::new(python).arg(script).args(&made).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
}

fn with_templates(folder: &Path, templates: &Path) -> Options {
    Options { templates: Some(templates.to_owned()), ..options(folder) }
}

#[test]
fn a_template_stands_for_a_structure_that_a_start_does_not_bring() {
    let dir = tempfile::tempdir().unwrap();
    let (data, templates) = (dir.path().join("data"), dir.path().join("templates"));
    fs::create_dir(&data).unwrap();
    fs::create_dir(&templates).unwrap();
    let broker = Broker::with(&["events", "control"]);
    let structure = structure_of_events(1024);
    fs::write(templates.join("loki.json"), &structure).unwrap();
    fs::write(templates.join("broken.json"), "{").unwrap();
    let mut service = Service::new(with_templates(&data, &templates), NOW, &broker).unwrap();
    let mut n = 0;
    let mut give = |service: &mut Service, order: RunStart<'_>| {
        n += 1;
        service.order(&pool(n, &Message::Pl72(order).encode()), NOW, &broker);
        let all = answers(service);
        assert_eq!(all.len(), 1);
        let (status, words) = (&all[0].1["status_code"], &all[0].1["message"]);
        (status.as_u64().unwrap(), words.as_str().unwrap().to_owned())
    };
    let without = |job, file, instrument| RunStart {
        instrument_name: instrument,
        nexus_structure: None,
        ..start(job, file, "")
    };
    for (instrument, words) in [
        (Some("dream"), "\"dream\" has no template: the folder "),
        (Some("dream"), " has broken, loki"),
        (Some("../loki"), "is no name of a template"),
        (Some("broken"), "nexus_structure: is not JSON"),
        (None, "nexus_structure: is missing"),
    ] {
        let (status, said) = give(&mut service, without("no", "no.nxs", instrument));
        assert!(status == 400 && said.contains(words), "{words}: {said}");
    }
    assert_eq!(count(&service, WriteCounter::OrderTemplate), 3);
    assert_eq!(give(&mut service, without("a", "a.nxs", Some("loki"))).0, 201);
    // A structure of its own wins, also over a template that is not there.
    let own = json!({"children": [group("entry", "NXentry", json!([]))]}).to_string();
    let both = |job, file, instrument| RunStart {
        instrument_name: Some(instrument),
        ..start(job, file, &own)
    };
    assert_eq!(give(&mut service, both("b", "b.nxs", "loki")).0, 201);
    assert_eq!(give(&mut service, both("c", "c.nxs", "dream")).0, 201);
    // Killed; the template changes: the job goes on with the one that it began with.
    service.end(NOW + 1, true);
    drop(service);
    fs::remove_file(templates.join("loki.json")).unwrap();
    let mut service = Service::new(options(&data), NOW + 2, &broker).unwrap();
    assert_eq!(service.jobs().count(), 3, "{:?}", service.notes());
    for (i, job) in ["a", "b", "c"].into_iter().enumerate() {
        let order = Message::S6s4t(stop(job, 0, job)).encode();
        service.order(&pool(100 + i as i64, &order), NOW + 3, &broker);
    }
    broker.feed(&mut service, NOW + 20_000, usize::MAX);
    service.tick(NOW + 20_000);
    assert_eq!(count(&service, WriteCounter::Finished), 3, "{:?}", service.notes());
    let text = |file: &str, name: &str| {
        let file = File::open(data.join(file)).unwrap();
        let text = file.dataset(&format!("/entry/fullcount/{name}")).unwrap();
        text.read_scalar::<VarLenUnicode>().unwrap().to_string()
    };
    assert_eq!(text("a.nxs", "nexus_structure"), structure);
    assert!(text("a.nxs", "configuration").contains("/templates/loki.json"));
    assert_eq!(text("b.nxs", "nexus_structure"), own);
    assert_balanced(&service);
}

#[test]
fn a_refused_start_is_heard_on_its_own_control_topic_and_on_the_writers() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with(&["events", "control", "own"]);
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    let good = structure_of_events(1024);
    let heard = |service: &mut Service| {
        let each = |(topic, m): (String, Value)| {
            assert_eq!(m["command_id"], m["job_id"]);
            (topic, m["job_id"].as_str().unwrap().to_owned(), m["status_code"].as_u64().unwrap())
        };
        answers(service).into_iter().map(each).collect::<Vec<_>>()
    };
    let said = |topic: &str, job: &str, code| (topic.to_owned(), job.to_owned(), code);
    let own = |job, file, structure| RunStart {
        control_topic: Some("own"),
        ..start(job, file, structure)
    };
    let mut n = 0;
    let mut give = |service: &mut Service, value: &[u8]| {
        n += 1;
        service.order(&pool(n, value), NOW, &broker);
        heard(service)
    };
    for (job, file, structure) in
        [("a", "../a.nxs", &good[..]), ("b", "b.nxs", "{"), ("c", "c.nxs", "")]
    {
        let both = [said("own", job, 400), said("control", job, 400)];
        let order = Message::Pl72(own(job, file, structure)).encode();
        assert_eq!(give(&mut service, &order), both);
    }
    // What is obeyed is heard where the run is controlled from then on.
    let order = Message::Pl72(own("d", "d.nxs", &good)).encode();
    assert_eq!(give(&mut service, &order), [said("own", "d", 201)]);
    // A name that is taken; and the writer's own topic is told once.
    let order = Message::Pl72(own("e", "d.nxs", &good)).encode();
    assert_eq!(give(&mut service, &order), [said("own", "e", 400), said("control", "e", 400)]);
    let order = Message::Pl72(start("f", "../f.nxs", &good)).encode();
    assert_eq!(give(&mut service, &order), [said("control", "f", 400)]);
    // A start that cannot be read, but says whose it is.
    let mut broken = Message::Pl72(own("g", "g.nxs", &good)).encode();
    let at = broken.windows(5).position(|w| w == b"g.nxs").unwrap();
    broken[at] = 0xff;
    assert_eq!(give(&mut service, &broken), [said("own", "g", 400), said("control", "g", 400)]);
    // One that names another writer is that one's.
    let order = RunStart { service_id: Some("writer-2"), ..own("h", "h.nxs", &good) };
    let mut others = Message::Pl72(order).encode();
    let at = others.windows(5).position(|w| w == b"h.nxs").unwrap();
    others[at] = 0xff;
    assert_eq!(give(&mut service, &others), []);
    // Nothing can be read of this one.
    assert_eq!(give(&mut service, b"\xff\0\0\0pl72"), [said("control", "", 400)]);
    assert_eq!(count(&service, WriteCounter::OrderBroken), 2);
    assert_balanced(&service);
}

/// A broker that makes no topics.
struct Fixed(Broker);

impl Topics for Fixed {
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault> {
        self.0.partitions(topic)
    }
    fn talk(&self, topic: &str) -> Result<(), TopicFault> {
        self.0.partitions(topic).map(drop)
    }
}

#[test]
fn a_run_that_nobody_could_hear_of_or_stop_is_refused_where_it_is_heard() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Fixed(Broker::with(&["events", "control", "own"]));
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    let good = structure_of_events(1024);
    let mut give = |n, job, file, control| {
        let order = RunStart { control_topic: Some(control), ..start(job, file, &good) };
        service.order(&pool(n, &Message::Pl72(order).encode()), NOW, &broker);
        let said = answers(&mut service);
        assert_eq!(said.len(), 1, "{said:?}");
        (said[0].0.clone(), said[0].1["status_code"].clone(), said[0].1["message"].to_string())
    };
    let (topic, code, words) = give(0, "a", "a.nxs", "nowhere");
    assert_eq!((&*topic, code), ("control", 400.into()));
    assert!(words.contains("control_topic: \\\"nowhere\\\" is not on the broker"), "{words}");
    // The writer's own topic and one that is there.
    assert_eq!(give(1, "b", "b.nxs", "control").1, 201);
    assert_eq!(give(2, "c", "c.nxs", "own").1, 201);
    assert_eq!(count(&service, WriteCounter::OrderTopic), 1);
    assert!(!dir.path().join("a.nxs").exists());
    assert_balanced(&service);
}

#[test]
fn an_absolute_file_name_stays_below_the_folder_after_a_kill_too() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(data.join("ess/x")).unwrap();
    let broker = Broker::with(&["events", "control"]);
    let structure = structure_of_events(1024);
    let mut service = Service::new(options(&data), NOW, &broker).unwrap();
    let order = Message::Pl72(start("a", "/ess/x/a.nxs", &structure)).encode();
    service.order(&pool(0, &order), NOW, &broker);
    assert_eq!(answers(&mut service)[0].1["status_code"], 201);
    assert!(data.join("ess/x/a.nxs").exists());
    service.end(NOW + 1, true);
    drop(service);
    // Its folder is away: looked for below the data folder, not at the root.
    fs::rename(data.join("ess"), data.join("away")).unwrap();
    let mut service = Service::new(options(&data), NOW + 2, &broker).unwrap();
    let notes: Vec<String> = service.notes().into_iter().map(|note| note.text).collect();
    let there = data.join("ess/x/a.nxs").display().to_string();
    assert!(notes.iter().any(|note| note.contains(&there)), "{notes:?}");
}
