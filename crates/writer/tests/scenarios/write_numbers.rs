//! Numbers that a dataset cannot hold: refused and counted, never another number in the file.

use crate::write_made::*;
use fullcount_messages::{LogValue, Message};
use fullcount_writer::{Service, WriteCounter};
use hdf5_metno::File;
use serde_json::json;

const NOW: u64 = 1_000_000;
const S: i64 = 1_000_000_000;

/// `old` with pixels 1, 2 and -1 (which an ev42 pixel of 2³²-1 would become), `free` without any list of pixels, and logs.
fn structure() -> String {
    let events =
        |module: &str, source: &str| stream(module, json!({"topic": "events", "source": source}));
    let log = |source: &str, dtype: &str| {
        group(
            &format!("{source}_{dtype}"),
            "NXlog",
            json!([stream("f144", json!({"topic": "logs", "source": source, "dtype": dtype}))]),
        )
    };
    let numbers = dataset("detector_number", "int32", json!([1, 2, -1]), json!([]));
    let children = json!([
        group(
            "bank",
            "NXdetector",
            json!([numbers, bare("bank_events", json!([events("ev42", "old")]))])
        ),
        bare("free_events", json!([events("ev42", "free")])),
        bare("new_events", json!([events("ev44", "new")])),
        log("a", "double"),
        log("b", "float"),
        log("c", "int64"),
        log("d", "uint64"),
        group(
            "fast",
            "NXlog",
            json!([stream("se00", json!({"topic": "logs", "source": "fast", "dtype": "int64"}))])
        ),
    ]);
    json!({"children": [group("entry", "NXentry", children)]}).to_string()
}

#[test]
fn what_a_dataset_cannot_hold_is_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with(&["events", "logs", "control"]);
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    let structure = structure();
    service.order(&pool(0, &Message::Pl72(start("a", "a.nxs", &structure)).encode()), NOW, &broker);
    assert_eq!(replies(&mut service)[0].1["status_code"], 201);

    let high = 1_u32 << 31;
    broker.send("events", NOW, &ev42("old", S as u64, &[1, 2, 3, 4], &[1, high, u32::MAX, 2]));
    broker.send("events", NOW, &ev42("free", S as u64, &[5, 6, high, 7], &[high - 1, high, 7, 0]));
    broker.send("events", NOW, &ev42("free", u64::MAX, &[1], &[1]));
    // Signed numbers fit as they are.
    broker.send("events", NOW, &ev44("new", 1, S, &[-1, i32::MAX, 3], &[-7, 1, i32::MIN]));
    let two53 = 1_i64 << 53;
    let values = [
        ("a", LogValue::Long(two53)),
        ("a", LogValue::Long(two53 + 1)),
        ("a", LogValue::Long(-two53 - 1)),
        ("a", LogValue::Long(i64::MAX)),
        ("a", LogValue::ULong(u64::MAX)),
        ("a", LogValue::ULong(1 << 63)),
        ("b", LogValue::Int(16_777_216)),
        ("b", LogValue::Int(16_777_217)),
        ("b", LogValue::Double(1e39)),
        ("c", LogValue::Long(two53 + 1)),
        ("c", LogValue::ULong(u64::MAX)),
        ("c", LogValue::Double(1e19)),
        ("d", LogValue::ULong(u64::MAX)),
        ("d", LogValue::Long(-1)),
    ];
    for (time, (source, value)) in (S..).zip(values) {
        broker.send("logs", NOW, &f144(source, time, value));
    }
    let Message::Se00(mut late) = se00("fast", S, vec![1, 2]) else { panic!("se00") };
    (late.timestamps, late.time_delta) = (None, 1e300);
    broker.send("logs", NOW, &Message::Se00(late.clone()));
    late.packet_timestamp = i64::MAX - 1;
    late.time_delta = 10.0;
    broker.send("logs", NOW, &Message::Se00(late));
    broker.feed(&mut service, NOW, usize::MAX);
    service.order(&pool(1, &Message::S6s4t(stop("a", NOW + 1, "c")).encode()), NOW, &broker);
    broker.feed(&mut service, NOW + 10_002, usize::MAX);
    service.tick(NOW + 10_002);

    let of = |counter| count(&service, counter);
    assert_eq!((of(WriteCounter::PixelRange), of(WriteCounter::OffsetRange)), (3, 1));
    assert_eq!(of(WriteCounter::OutsidePixels), 0, "none of them was taken for pixel -1");
    // One pulse time, nine values of logs, two messages of samples.
    assert_eq!(of(WriteCounter::Range), 1 + 9 + 2);
    assert_eq!(of(WriteCounter::F144), 5);
    let done = replies(&mut service).into_iter().find(|(_, m)| m["schema"] == "wrdn").unwrap().1;
    assert!(done["metadata"].as_str().unwrap().contains("\"pixel_range\":3"), "{done}");
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    let ids = |path: &str| file.dataset(path).unwrap().read_raw::<i32>().unwrap();
    assert_eq!(ids("/entry/bank/bank_events/event_id"), [1, 2]);
    assert_eq!(ids("/entry/free_events/event_id"), [i32::MAX, 0]);
    assert_eq!(ids("/entry/new_events/event_id"), [-7, 1, i32::MIN]);
    assert_eq!(ids("/entry/new_events/event_time_offset"), [-1, i32::MAX, 3]);
    let values = |path: &str| file.dataset(path).unwrap().read_raw::<f64>().unwrap();
    assert_eq!(values("/entry/a_double/value"), [two53 as f64, (1_u64 << 63) as f64]);
    assert_eq!(values("/entry/b_float/value"), [16_777_216.0]);
    let whole = file.dataset("/entry/d_uint64/value").unwrap().read_raw::<u64>().unwrap();
    assert_eq!(whole, [u64::MAX]);
    let rejected = file.dataset("/entry/fullcount/events_rejected").unwrap();
    assert_eq!(rejected.read_scalar::<u64>().unwrap(), 4);
    assert_balanced(&service);
}

#[test]
fn many_small_samples_are_refused_where_their_times_would_be_too_much() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = Broker::with(&["events", "logs", "control"]);
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    let structure = structure();
    service.order(&pool(0, &Message::Pl72(start("a", "a.nxs", &structure)).encode()), NOW, &broker);
    let Message::Se00(samples) = se00("fast", S, vec![1]) else { panic!("se00") };
    let bytes = fullcount_messages::SampleValues::Int8Array(vec![1; (8 << 20) + 1].into());
    let many =
        fullcount_messages::Samples { values: bytes, timestamps: None, time_delta: 1.0, ..samples };
    broker.send("logs", NOW, &Message::Se00(many));
    broker.feed(&mut service, NOW, usize::MAX);
    assert_eq!(count(&service, WriteCounter::Shape), 1);
}
