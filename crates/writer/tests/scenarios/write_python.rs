//! The file writer between other people's programs: ess-streaming-data-types makes the messages, scippnexus reads the
//! file. `tests/python` does both.

use std::path::Path;
use std::process::Command;

use crate::write_made::*;
use fullcount_messages::Message;
use fullcount_testing::python::{python, script};
use fullcount_writer::{Service, WriteCounter};
use serde_json::{Value, json};

fn run(python: &Path, name: &str, argument: &Path) -> String {
    let output = Command::new(python).arg(script(name)).arg(argument).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {text}\n{errors}");
    text.trim().to_owned()
}

#[test]
fn messages_of_the_package_become_a_file_that_scippnexus_loads() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let messages = dir.path().join("messages");
    let data = dir.path().join("data");
    for folder in [&messages, &data] {
        std::fs::create_dir(folder).unwrap();
    }
    let made: u64 = run(&python, "write_messages.py", &messages).parse().unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(&messages).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len() as u64, made);
    let mut broker = Broker::with(&["events", "logs", "control"]);
    for path in files {
        let topic = path.file_stem().unwrap().to_str().unwrap()[3..].to_owned();
        broker.send_bytes(&topic, 1000, std::fs::read(&path).unwrap());
    }
    let mut service = Service::new(options(&data), 20_000, &broker).unwrap();
    let structure = structure_of_all().to_string();
    let order = Message::Pl72(start("job", "all.nxs", &structure)).encode();
    service.order(&pool(0, &order), 20_000, &broker);
    broker.feed(&mut service, 21_000, usize::MAX);
    let order = Message::S6s4t(stop("job", 0, "c")).encode();
    service.order(&pool(1, &order), 21_000, &broker);
    broker.feed(&mut service, 31_001, usize::MAX);
    service.tick(31_001);
    assert_eq!(count(&service, WriteCounter::Finished), 1, "{:?}", service.notes());
    let written = [
        WriteCounter::Ev44,
        WriteCounter::F144,
        WriteCounter::Al00,
        WriteCounter::Ep01,
        WriteCounter::Se00,
        WriteCounter::Tdct,
        WriteCounter::Ad00,
        WriteCounter::Da00,
        WriteCounter::Hs01,
    ];
    let written: u64 = written.iter().map(|&counter| count(&service, counter)).sum();
    assert_eq!(written, made, "every message is in the file");
    assert_eq!(run(&python, "check_write.py", &data.join("all.nxs")), "fine");
}

/// A structure with every schema that only old topics hold.
fn structure_of_old() -> String {
    let old = |module: &str, source: &str, more: Value| {
        let mut config = json!({"topic": "old", "source": source});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([stream(module, config)])
    };
    let mut detector = panel();
    detector.push(bare("bank_events", old("ev43", "bank", json!({}))));
    let shape = json!([{"size": 2, "label": "tof", "unit": "ms", "edges": [0.0, 1.0, 2.5], "dataset_name": "tof"}]);
    json!({"children": [group("entry", "NXentry", json!([
        group("bank", "NXdetector", detector.into()),
        bare("temperature", old("ns10", "nicos/t/value", json!({"units": "K"}))),
        bare("pv", old("ep00", "pv", json!({}))),
        bare("adc", old("senv", "adc", json!({"dtype": "int32", "units": "V"}))),
        bare("camera", old("ADAr", "camera", json!({"dtype": "uint16", "array_size": [2, 3]}))),
        bare("histogram", old("hs00", "histogram", json!({"error_type": "double", "shape": shape}))),
    ]))]})
    .to_string()
}

#[test]
fn messages_of_schemas_that_only_old_topics_hold_become_a_file() {
    const S: i64 = 1_000_000_000;
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let messages = dir.path().join("messages");
    let data = dir.path().join("data");
    for folder in [&messages, &data] {
        std::fs::create_dir(folder).unwrap();
    }
    assert_eq!(run(&python, "old_messages.py", &messages), "15");
    let mut broker = Broker::with(&["old", "control"]);
    let mut files: Vec<_> =
        std::fs::read_dir(&messages).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "bin"));
    files.sort();
    for path in files {
        broker.send_bytes("old", 1000, std::fs::read(&path).unwrap());
    }
    let structure = structure_of_old();
    let mut service = Service::new(options(&data), 20_000, &broker).unwrap();
    let order = Message::Pl72(start("job", "old.nxs", &structure)).encode();
    service.order(&pool(0, &order), 20_000, &broker);
    broker.feed(&mut service, 21_000, usize::MAX);
    let order = Message::S6s4t(stop("job", 0, "c")).encode();
    service.order(&pool(1, &order), 21_000, &broker);
    broker.feed(&mut service, 31_001, usize::MAX);
    service.tick(31_001);
    assert_eq!(count(&service, WriteCounter::Finished), 1, "{:?}", service.notes());
    let counts = [
        (WriteCounter::Ev43, 2),
        (WriteCounter::Ns10, 3),
        (WriteCounter::Ep00, 2),
        (WriteCounter::Senv, 3),
        (WriteCounter::Adar, 2),
        (WriteCounter::Hs00, 2),
        (WriteCounter::Events, 6),
        // The text of a cache entry that is no number.
        (WriteCounter::Shape, 1),
    ];
    for (counter, n) in counts {
        assert_eq!(count(&service, counter), n, "{counter:?}");
    }
    assert_balanced(&service);
    let file = hdf5_metno::File::open(data.join("old.nxs")).unwrap();
    let ints = |path: &str| file.dataset(path).expect(path).read_raw::<i64>().expect(path);
    let reals = |path: &str| file.dataset(path).expect(path).read_raw::<f64>().expect(path);
    let bank = "/entry/bank/bank_events";
    assert_eq!(ints(&format!("{bank}/event_id")), [1, 128, 64, 1, 128, 64]);
    assert_eq!(ints(&format!("{bank}/event_time_offset")), [5, 6, 7, 5, 6, 7]);
    assert_eq!(ints(&format!("{bank}/event_index")), [0, 2, 3, 5]);
    assert_eq!(ints(&format!("{bank}/event_time_zero")), [S, 2 * S, 3 * S, 4 * S]);
    assert_eq!(reals("/entry/temperature/value"), [21.5, 22.0, 1000.0]);
    let quarter = S / 4;
    assert_eq!(ints("/entry/temperature/time"), [S + quarter, 2 * S + quarter, 4 * S + quarter]);
    assert_eq!(reals("/entry/temperature/maximum_value"), [1000.0]);
    assert_eq!(ints("/entry/pv/connection_status"), [2, 3]);
    assert_eq!(ints("/entry/pv/connection_status_time"), [S, 2 * S]);
    assert_eq!(ints("/entry/adc/value"), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
    let spaced = |from: i64, by: i64| (0..3).map(move |i| from + i * by);
    let times = spaced(S, 1000).chain(spaced(2 * S, 1)).chain(spaced(3 * S, 1000));
    assert_eq!(ints("/entry/adc/time"), times.collect::<Vec<_>>());
    assert_eq!(ints("/entry/camera/value"), (0..6).chain(1..7).collect::<Vec<_>>());
    assert_eq!(file.dataset("/entry/camera/value").unwrap().shape(), [2, 2, 3]);
    assert_eq!(ints("/entry/camera/time"), [S, 2 * S]);
    assert_eq!(reals("/entry/histogram/signal"), [10.0, 20.0, 11.0, 21.0]);
    assert_eq!(reals("/entry/histogram/signal_errors"), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(ints("/entry/histogram/time"), [S, 2 * S]);
}
