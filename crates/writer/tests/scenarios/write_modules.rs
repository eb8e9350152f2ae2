//! What each module of a structure writes, read back with HDF5: types, units, dates, and every value.

use crate::write_made::*;
use fullcount_messages::{ConnectionState, LogValue, Message};
use fullcount_writer::{Service, WriteCounter};
use hdf5_metno::types::{FixedUnicode, VarLenUnicode};
use hdf5_metno::{File, H5Type, Location};

const S: i64 = 1_000_000_000;

fn bytes<const N: usize, T>(values: &[T], each: fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(each).collect()
}

fn attribute(at: &Location, name: &str) -> String {
    at.attr(name).unwrap().read_scalar::<VarLenUnicode>().unwrap().to_string()
}

fn column<T: H5Type>(file: &File, path: &str) -> Vec<T> {
    file.dataset(path).unwrap().read_raw::<T>().unwrap()
}

fn class(file: &File, path: &str) -> String {
    attribute(&file.group(path).unwrap(), "NX_class")
}

#[test]
fn every_module_writes_its_datasets_with_units_dates_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with(&["events", "logs", "control"]);
    let mut service = Service::new(options(dir.path()), 20_000, &broker).unwrap();
    let structure = structure_of_all().to_string();
    let order = Message::Pl72(start("job-1", "all.nxs", &structure)).encode();
    service.order(&pool(0, &order), 20_000, &broker);
    assert_eq!(count(&service, WriteCounter::Started), 1, "{:?}", service.notes());

    send_all(&mut broker);
    broker.feed(&mut service, 21_000, usize::MAX);
    service.tick(21_000);
    let order = Message::S6s4t(stop("job-1", 22_000, "c")).encode();
    service.order(&pool(1, &order), 21_500, &broker);
    broker.feed(&mut service, 33_000, usize::MAX);
    service.tick(33_000);
    assert_eq!(service.jobs().count(), 0, "complete");
    for (counter, n) in [
        (WriteCounter::Ev44, 2),
        (WriteCounter::Ev42, 1),
        (WriteCounter::F144, 3),
        (WriteCounter::F142, 2),
        (WriteCounter::BeforeStart, 2),
        (WriteCounter::CarriedIn, 1),
        (WriteCounter::Range, 1),
        (WriteCounter::Shape, 4),
        (WriteCounter::NotAsked, 1),
        (WriteCounter::TooShort, 1),
        (WriteCounter::UnknownSchema, 1),
        (WriteCounter::Damaged, 1),
        (WriteCounter::Events, 5),
        (WriteCounter::OutsidePixels, 1),
        (WriteCounter::OffsetRange, 1),
        (WriteCounter::Finished, 1),
    ] {
        assert_eq!(count(&service, counter), n, "{counter:?}");
    }
    assert_balanced(&service);
    let said = replies(&mut service);
    let done = said.iter().find(|(_, m)| m["schema"] == "wrdn").expect("wrdn");
    assert_eq!(done.0, "control");
    assert_eq!(done.1["file_name"], "all.nxs");
    assert_eq!(done.1["error_encountered"], false);
    let facts: serde_json::Value =
        serde_json::from_str(done.1["metadata"].as_str().unwrap()).unwrap();
    assert_eq!(facts["events"]["/entry/instrument/bank/bank_events"], 4);
    assert_eq!(facts["events_rejected"]["outside_pixels"], 1);

    let file = File::open(dir.path().join("all.nxs")).unwrap();
    events_are_there(&file);
    channels_are_there(&file);
    arrays_are_there(&file);
    let date = |path: &str| column::<FixedUnicode<32>>(&file, path)[0].to_string();
    assert_eq!(date("/entry/start_time"), "1970-01-01T00:00:00.500000Z");
    assert_eq!(date("/entry/end_time"), "1970-01-01T00:00:22.000000Z");
    let text = |path: &str| {
        file.dataset(path).unwrap().read_scalar::<VarLenUnicode>().unwrap().to_string()
    };
    assert_eq!(text("/entry/fullcount/nexus_structure"), structure);
    assert_eq!(text("/entry/fullcount/metadata"), "{\"sample\": \"water\"}");
    assert!(text("/entry/fullcount/configuration").contains("\"job-1\""));
    assert_eq!(column::<u64>(&file, "/entry/fullcount/events_rejected"), [2]);
    assert_eq!(column::<u64>(&file, "/entry/fullcount/messages_refused"), [8]);
}

/// What a broker has of everything, right and wrong.
fn send_all(broker: &mut Broker) {
    broker.send("events", 1000, &ev44("bank", 1, S, &[5, 6, 7], &[1, 128, 64]));
    broker.send("events", 1000, &ev44("bank", 2, 2 * S, &[8, 9], &[129, 2]));
    broker.send("events", 1000, &ev44("other", 1, S, &[8, 9], &[1, 2]));
    broker.send("events", 1000, &ev42("old", S as u64, &[4, u32::MAX], &[7, 8]));
    let logs: Vec<Message<'_>> = vec![
        f144("temperature", S / 10, LogValue::Double(3.0)),
        f144("temperature", S / 5, LogValue::Double(4.0)),
        f144("temperature", S, LogValue::Double(1.5)),
        f144("temperature", 2 * S, LogValue::Int(20)),
        f144("temperature", 3 * S, LogValue::Double(1e300)),
        f144("field", S, LogValue::ArrayFloat(vec![1.0, 2.0, 3.0].into())),
        f144("field", 2 * S, LogValue::Double(1.0)),
        f142("pressure", S as u64, 1000, true),
        f142("pressure", 2 * S as u64, 1001, false),
        al00("temperature", S, "too warm"),
        ep01("temperature", S, ConnectionState::Disconnected),
        se00("fast", S, vec![1, -2, 3]),
        tdct("chopper", vec![S as u64, S as u64 + 7]),
    ];
    for message in &logs {
        broker.send("logs", 1000, message);
    }
    let image = bytes(&[1_u16, 2, 3, 4, 5, 65535], |n| n.to_le_bytes());
    broker.send("logs", 1000, &ad00("camera", S, &image));
    broker.send("logs", 1000, &ad00("camera", S, &image[2..]));
    let signal = bytes(&[1_i32, -2, 3], |n| n.to_le_bytes());
    let errors = bytes(&[0.5_f64, 1.5, 2.5], |n| n.to_le_bytes());
    broker.send("logs", 1000, &da00("spectrum", S, &signal, &errors));
    broker.send("logs", 1000, &da00("spectrum", S, &signal[..8], &errors));
    broker.send("logs", 1000, &hs01("histogram", S, vec![10, 20], vec![1.0, 2.0]));
    broker.send("logs", 1000, &hs01("histogram", S, vec![10], vec![1.0]));
    broker.send_bytes("logs", 1000, b"short".to_vec());
    broker.send_bytes("logs", 1000, b"....zzzz....".to_vec());
    broker.send_bytes("logs", 1000, b"....f144....".to_vec());
}

fn events_are_there(file: &File) {
    assert_eq!(attribute(file, "default"), "entry");
    assert_eq!(attribute(file, "facility"), "ESS");
    assert_eq!(class(file, "/entry"), "NXentry");
    let bank = "/entry/instrument/bank/bank_events";
    assert_eq!(class(file, bank), "NXevent_data");
    let at = |name: &str| format!("{bank}/{name}");
    assert_eq!(column::<i32>(file, &at("event_id")), [1, 128, 64, 2]);
    assert_eq!(column::<i32>(file, &at("event_time_offset")), [5, 6, 7, 9]);
    assert_eq!(column::<i64>(file, &at("event_index")), [0, 3]);
    assert_eq!(column::<u64>(file, &at("event_time_zero")), [S as u64, 2 * S as u64]);
    assert_eq!(column::<u64>(file, &at("total_counts")), [4]);
    assert_eq!(
        column::<i32>(file, "/entry/bank_events/event_id"),
        [1, 128, 64, 2],
        "Mantid's link"
    );
    let zero = file.dataset(&at("event_time_zero")).unwrap();
    assert_eq!(
        (attribute(&zero, "units"), attribute(&zero, "offset")),
        ("ns".into(), "1970-01-01T00:00:00Z".into())
    );
    assert_eq!(zero.attr_names().unwrap().len(), 2, "exactly one date");
    let types = ["event_id", "event_time_offset", "event_index", "event_time_zero"];
    let sizes = types.map(|name| file.dataset(&at(name)).unwrap().dtype().unwrap().size());
    assert_eq!(sizes, [4, 4, 8, 8]);
    assert!(file.dataset(&at("event_id")).unwrap().attr_names().unwrap().is_empty());
    // One pulse alone would be an empty bank for Mantid: a closing pulse without events.
    let old = "/entry/old_monitor/old_monitor_events";
    assert_eq!(column::<i32>(file, &format!("{old}/event_id")), [7]);
    assert_eq!(column::<i64>(file, &format!("{old}/event_index")), [0, 1]);
    assert_eq!(column::<i32>(file, "/entry/old_monitor_events/event_id"), [7]);
}

fn channels_are_there(file: &File) {
    let temperature = "/entry/sample/temperature";
    assert_eq!(class(file, temperature), "NXlog");
    assert_eq!(
        column::<f32>(file, &format!("{temperature}/value")),
        [4.0, 1.5, 20.0],
        "4 held at the start"
    );
    assert_eq!(column::<i64>(file, &format!("{temperature}/time")), [S / 5, S, 2 * S]);
    assert_eq!(column::<i64>(file, &format!("{temperature}/cue_index")), [1]);
    assert_eq!(column::<f64>(file, &format!("{temperature}/minimum_value")), [1.5]);
    assert_eq!(column::<f64>(file, &format!("{temperature}/maximum_value")), [20.0]);
    assert_eq!(column::<f64>(file, &format!("{temperature}/average_value")), [8.5]);
    let value = file.dataset(&format!("{temperature}/value")).unwrap();
    assert_eq!(attribute(&value, "units"), "K");
    let time = file.dataset(&format!("{temperature}/time")).unwrap();
    assert_eq!(
        (attribute(&time, "units"), attribute(&time, "start")),
        ("ns".into(), "1970-01-01T00:00:00Z".into())
    );
    let words: Vec<FixedUnicode<200>> = column(file, &format!("{temperature}/alarm_message"));
    assert_eq!(words[0].as_str(), "too warm");
    assert_eq!(column::<i16>(file, &format!("{temperature}/alarm_severity")), [2]);
    assert_eq!(column::<i64>(file, &format!("{temperature}/alarm_time")), [S]);
    assert_eq!(column::<i16>(file, &format!("{temperature}/connection_status")), [3]);
    assert_eq!(column::<i64>(file, &format!("{temperature}/connection_status_time")), [S]);
    assert_eq!(column::<i64>(file, "/entry/links/temperature/time").len(), 3, "a hard link");
    assert_eq!(file.dataset("/entry/links/numbers").unwrap().shape(), [8, 16]);

    let field = file.dataset("/entry/sample/field/value").unwrap();
    assert_eq!(
        (field.shape(), field.read_raw::<f64>().unwrap()),
        (vec![1, 3], vec![1.0, 2.0, 3.0])
    );
    assert_eq!(column::<i32>(file, "/entry/sample/pressure/value"), [1000, 1001]);
    assert_eq!(column::<i16>(file, "/entry/sample/pressure/alarm_severity"), [1]);
    assert_eq!(column::<i16>(file, "/entry/sample/pressure/alarm_status"), [4]);
    assert_eq!(column::<i64>(file, "/entry/sample/pressure/alarm_time"), [S]);
}

fn arrays_are_there(file: &File) {
    let spectrum = file.group("/entry/spectrum").unwrap();
    assert_eq!(
        (attribute(&spectrum, "NX_class"), attribute(&spectrum, "signal")),
        ("NXdata".into(), "signal".into())
    );
    let axes = spectrum.attr("axes").unwrap().read_raw::<VarLenUnicode>().unwrap();
    assert_eq!(axes.iter().map(|a| a.as_str()).collect::<Vec<_>>(), ["time", "x"]);
    let signal = spectrum.dataset("signal").unwrap();
    assert_eq!((signal.shape(), signal.read_raw::<i32>().unwrap()), (vec![1, 3], vec![1, -2, 3]));
    assert_eq!(
        (attribute(&signal, "units"), attribute(&signal, "long_name")),
        ("counts".into(), "Counts".into())
    );
    assert_eq!(column::<f64>(file, "/entry/spectrum/width"), [0.5, 1.5, 2.5]);
    assert_eq!(column::<f64>(file, "/entry/spectrum/x"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(column::<i64>(file, "/entry/spectrum/cue_index"), [0]);
    let histogram = file.dataset("/entry/histogram/signal").unwrap();
    assert_eq!(
        (histogram.shape(), histogram.read_raw::<i64>().unwrap()),
        (vec![1, 2], vec![10, 20])
    );
    assert_eq!(column::<f64>(file, "/entry/histogram/signal_errors"), [1.0, 2.0]);
    assert_eq!(column::<f64>(file, "/entry/histogram/tof"), [0.0, 1.0, 2.5]);

    assert_eq!(column::<i16>(file, "/entry/fast/value"), [1, -2, 3]);
    assert_eq!(column::<i64>(file, "/entry/fast/time"), [S, S + 1000, S + 2000]);
    assert_eq!(column::<i64>(file, "/entry/fast/cue_timestamp_zero"), [S]);
    let top = "/entry/instrument/chopper/top_dead_center";
    assert_eq!(column::<u64>(file, &format!("{top}/time")), [S as u64, S as u64 + 7]);
    let camera = file.dataset("/entry/camera/value").unwrap();
    assert_eq!(
        (camera.shape(), camera.read_raw::<u16>().unwrap()),
        (vec![1, 2, 3], vec![1, 2, 3, 4, 5, 65535])
    );
}

#[test]
fn positions_are_in_the_file_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::with(&["control"]);
    let mut service = Service::new(options(dir.path()), 20_000, &broker).unwrap();
    // Read digit by digit and divided by a power of ten, each is one bit off.
    let structure = r#"{"children": [{"type": "group", "name": "entry", "children": [{"module": "dataset", "config":
        {"name": "x", "dtype": "double", "values": [0.36804530714329675, 0.24125185620149026]}}]}]}"#;
    let order = Message::Pl72(start("job-1", "a.nxs", structure)).encode();
    service.order(&pool(0, &order), 20_000, &broker);
    service.end(20_000, false);
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    let bits = column::<f64>(&file, "/entry/x").into_iter().map(f64::to_bits);
    assert_eq!(bits.collect::<Vec<_>>(), [0x3fd7_8e0d_e768_1c6c, 0x3fce_e157_403e_0a80]);
}
