//! Hostile orders to the file writer: what they take of memory is bounded, whatever they name; what ends the writer all
//! the same ends it twice at most; and nothing of theirs becomes a line of a log.

mod write_made;

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use fullcount_messages::{Message, RunStart, RunStop};
use fullcount_writer::structure::{StructureLimits, parse};
use fullcount_writer::{Options, Service, TopicFault, Topics, WriteCounter};
use proptest::prelude::*;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use write_made::*;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NOW: u64 = 1_000_000;
const MIB: usize = 1 << 20;

/// The allocator counts for all threads: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Bytes that were asked for while `f` ran, those given back in between too.
fn asked_for<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATOR.stats();
    let made = f();
    (ALLOCATOR.stats().bytes_allocated - before.bytes_allocated, made)
}

fn service(folder: &Path, change: impl FnOnce(&mut Options)) -> (Service, Broker) {
    let broker = Broker::with(&["t", "events", "logs", "control"]);
    let mut options = options(folder);
    change(&mut options);
    (Service::new(options, NOW, &broker).unwrap(), broker)
}

fn answers(service: &mut Service) -> Vec<Value> {
    let all = replies(service).into_iter().map(|(_, m)| m);
    all.filter(|m| m["schema"] == "answ").collect()
}

fn in_entry(children: Value) -> String {
    let entry = json!({"type": "group", "name": "entry", "attributes": {"NX_class": "NXentry"}, "children": children});
    json!({"children": [entry]}).to_string()
}

fn module(name: &str, more: &str) -> String {
    let config =
        format!(r#"{{"topic":"t","source":"s"{}{more}}}"#, if more.is_empty() { "" } else { "," });
    let config: Value = serde_json::from_str(&config).expect(more);
    in_entry(json!([{"module": name, "config": config}]))
}

/// Evenly spaced constants: three numbers of text for any number of values.
fn constants(count: usize, size: u64, dtype: &str) -> String {
    let one = |i: usize| json!({"name": format!("c{i}"), "data_type": dtype, "data": {"first": 1, "last": 1, "size": size}});
    let constants: Vec<Value> = (0..count).map(one).collect();
    let variables = json!([{"name": "signal", "data_type": "int8", "shape": [1]}]);
    in_entry(json!([{"module": "da00", "config":
        {"topic": "t", "source": "s", "variables": variables, "constants": constants}}]))
}

/// Structures of some hundred bytes that ask for far more memory than a run may have.
fn large_shapes() -> Vec<String> {
    let whole = 1_u64 << 28;
    vec![
        constants(1, whole, "double"),
        constants(1, u64::MAX, "int8"),
        constants(1000, 1 << 20, "double"),
        // The second one of the report: a chunk, and five values to be written into it.
        module("f144", &format!(r#""chunk_size": {whole}"#)),
        module("f142", r#""chunk_size": 8388609"#),
        module("ev44", &format!(r#""chunk_size": {whole}"#)),
        module("ev42", r#""chunk_size": 16777217"#),
        module("se00", &format!(r#""chunk_size": {whole}, "dtype": "int8""#)),
        module("tdct", &format!(r#""chunk_size": {whole}"#)),
        module("ev43", r#""chunk_size": 16777217"#),
        module("ns10", &format!(r#""chunk_size": {whole}"#)),
        module("senv", &format!(r#""chunk_size": {whole}, "dtype": "int8""#)),
        module("ADAr", r#""array_size": [16384, 16384], "dtype": "double""#),
        module("hs00", r#""shape": [{"size": 100000}, {"size": 100000}]"#),
        module("f144", &format!(r#""array_size": {whole}"#)),
        module("f144", &format!(r#""array_size": {}"#, u64::MAX)),
        module("ad00", &format!(r#""array_size": [{whole}, {whole}, {whole}]"#)),
        module("ad00", &format!(r#""array_size": [{}]"#, vec!["1"; 40].join(","))),
        module("ad00", r#""array_size": [16384, 16384], "dtype": "double""#),
        module("hs01", &format!(r#""shape": [{{"size": {}}}]"#, u64::MAX)),
        module("hs01", &format!(r#""shape": [{{"size": {}, "edges": [1, 2]}}]"#, u64::MAX)),
        module("hs01", r#""shape": [{"size": 100000}, {"size": 100000}]"#),
        module(
            "hs01",
            r#""shape": [{"size": 10000000}], "data_type": "int32", "error_type": "double""#,
        ),
        module(
            "da00",
            r#""variables": [{"name": "a", "data_type": "double", "shape": [9000000]}]"#,
        ),
        // Each allowed, all of them not.
        in_entry(
            (0..200)
                .map(|i| {
                    group(
                        &format!("g{i}"),
                        "NXevent_data",
                        json!([
            {"module": "ev44", "config": {"topic": "t", "source": "s"}}]),
                    )
                })
                .collect(),
        ),
    ]
}

#[test]
fn a_start_of_four_hundred_bytes_cannot_take_gigabytes() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path(), |o| o.limits.memory = 200 << 20);
    let shapes = large_shapes();
    for (i, structure) in shapes.iter().enumerate() {
        let order = Message::Pl72(start("job", "a.nxs", structure)).encode();
        let (bytes, ()) = asked_for(|| service.order(&pool(i as i64, &order), NOW, &broker));
        // The thousand constants of 8 MiB are taken one after the other, up to the sum.
        let most = if i == 2 { 220 * MIB } else { 2 * MIB + 20 * structure.len() };
        assert!(bytes < most, "{i}: {bytes} bytes");
        let [answer] = &answers(&mut service)[..] else { panic!("{i}") };
        assert_eq!(
            (&answer["status_code"], &answer["job_id"]),
            (&400.into(), &"job".into()),
            "{i}"
        );
        let words = answer["message"].as_str().unwrap();
        assert!(
            words.contains(" bytes, above the limit of ") || words.contains("dimensions is above"),
            "{i}: {words}"
        );
        assert_eq!(count(&service, WriteCounter::OrderStructure), 1 + i as u64);
    }
    assert!(journals(dir.path()).is_empty() && !dir.path().join("a.nxs").exists());
    // What is just within the limits is taken; a smaller limit of the sum is one that an operator gives.
    for (i, structure) in
        [module("ev44", r#""chunk_size": 16777216"#), constants(3, 1 << 20, "int8")]
            .iter()
            .enumerate()
    {
        let order = Message::Pl72(RunStart {
            filename: Some(&format!("{i}.nxs")),
            ..start(&format!("fine{i}"), "", structure)
        })
        .encode();
        service.order(&pool(100 + i as i64, &order), NOW, &broker);
        assert_eq!(answers(&mut service)[0]["status_code"], 201);
    }
    assert_balanced(&service);
}

#[test]
fn a_text_that_grows_when_it_is_read_is_refused_before_that() {
    let _alone = alone();
    let limits = StructureLimits { memory: 4 << 20, ..StructureLimits::default() };
    let many = |one: &str, n: usize| vec![one; n].join(",");
    let deep = |n: usize| format!("{}0{}", "[".repeat(n), "]".repeat(n));
    for text in [
        format!(r#"{{"children":[{}]}}"#, many(r#"{"":0}"#, 100_000)),
        format!(r#"{{"children":[{}]}}"#, many("[0]", 200_000)),
        format!(r#"{{"children":[{}]}}"#, many("0", 1_000_000)),
        format!(r#"{{"children":[{}]}}"#, many(r#""""#, 1_000_000)),
        format!(r#"{{"children":[],"x":{}}}"#, deep(100_000)),
        format!(
            r#"{{"children":[],{}}}"#,
            (0..100_000).map(|i| format!("\"{i}\":0")).collect::<Vec<_>>().join(",")
        ),
        "[".repeat(4_000_000),
        "{\"a\":".repeat(1_000_000),
    ] {
        let (bytes, outcome) = asked_for(|| parse(&text, &limits));
        let words = outcome.expect_err("refused").to_string();
        assert!(bytes < MIB, "{bytes}: {words}");
        assert!(words.len() < 1000, "{words}");
    }
    // Paths: 30 names of 250 bytes, and thousands of groups below them.
    let leaves: Vec<Value> =
        (0..20_000).map(|i| json!({"type": "group", "name": i.to_string()})).collect();
    let nested = (0..30).fold(
        Value::from(leaves),
        |children, _| json!([{"type": "group", "name": "n".repeat(250), "children": children}]),
    );
    let text = json!({"children": nested}).to_string();
    let (bytes, outcome) =
        asked_for(|| parse(&text, &StructureLimits { memory: 40 << 20, ..limits }));
    assert!(outcome.unwrap_err().to_string().contains("above the limit of 41943040 bytes"));
    assert!(bytes < 120 * MIB, "{bytes}");
    let attributes: serde_json::Map<_, _> = (0..1025).map(|i| (i.to_string(), 0.into())).collect();
    let text = json!({"attributes": attributes, "children": []}).to_string();
    let words = parse(&text, &StructureLimits::default()).unwrap_err().to_string();
    assert!(words.contains("1025 attributes is above the limit, 1024"), "{words}");
}

#[test]
fn thousands_of_events_of_one_name_are_read_at_once() {
    let _alone = alone();
    let events =
        json!([{"module": "ev44", "config": {"topic": "t", "source": "s", "chunk_size": 64}}]);
    let banks: Vec<Value> = (0..3000)
        .map(|i| {
            bare(&format!("d{i}"), json!([bare("x", json!([bare("events", events.clone())]))]))
        })
        .collect();
    let text = in_entry(banks.into());
    let begun = std::time::Instant::now();
    let plan = parse(&text, &StructureLimits::default()).unwrap();
    assert_eq!(plan.links.len(), 3000);
    // With a look at all names for each it took minutes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..10,
        Just(1 << 20),
        Just(1 << 28),
        Just(u64::MAX),
        any::<u64>(),
        (0_u32..64).prop_map(|n| 1 << n)
    ]
}

fn any_config() -> impl Strategy<Value = Value> {
    let dtype = prop_oneof![
        Just("int8"),
        Just("double"),
        Just("float"),
        Just("int64"),
        Just("string"),
        Just("x")
    ];
    (any_count(), prop::collection::vec(any_count(), 0..5), dtype, "[a-z\n/.]{0,3}").prop_map(|(n, shape, dtype, name)| {
        let sizes: Vec<Value> = shape.iter().map(|n| json!({"size": n})).collect();
        let constant = json!({"name": name, "data_type": dtype, "data": {"first": 0, "last": 1, "size": n}});
        json!({
            "topic": "t", "source": "s", "name": name, "dtype": dtype, "data_type": dtype, "chunk_size": n,
            "array_size": shape, "cue_interval": n, "shape": if n % 2 == 0 { sizes.into() } else { json!(shape) },
            "variables": [{"name": "v", "data_type": dtype, "shape": shape}], "constants": [constant],
            "values": shape, "items": ["start_time"],
        })
    })
}

fn any_node() -> impl Strategy<Value = Value> {
    const MODULES: &[&str] = &[
        "ev44", "ev42", "f144", "f142", "da00", "hs01", "al00", "ep01", "se00", "tdct", "ad00",
        "mdat", "dataset", "link",
    ];
    // f144 takes array_size as a number, ad00 as a list.
    let leaf = (prop::sample::select(MODULES), any_config(), any::<bool>()).prop_map(
        |(module, mut config, number)| {
            if number {
                config["array_size"] = config["chunk_size"].take();
            }
            json!({"module": module, "config": config})
        },
    );
    leaf.prop_recursive(4, 24, 6, |inner| {
        (0_u32..1000, prop::collection::vec(inner, 0..6)).prop_map(
            |(n, children)| json!({"type": "group", "name": format!("g{n}"), "children": children}),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_structure_takes_more_than_it_may(children in prop::collection::vec(any_node(), 1..6)) {
        let _alone = alone();
        let memory = 2 << 20;
        let limits = StructureLimits { memory, constant: 1 << 20, chunk: 1 << 20, ..StructureLimits::default() };
        let text = in_entry(children.into());
        let (bytes, outcome) = asked_for(|| parse(&text, &limits));
        // The tree, what is kept of it, and pieces that were given back; never what a number names.
        prop_assert!(bytes < 3 * memory as usize + 64 * text.len(), "{bytes} bytes for {text}");
        if let Ok(plan) = outcome {
            prop_assert!(plan.bytes <= memory);
        }
    }
}

/// A broker at which the process dies when it is asked: reading an order ends there.
struct Deadly(Broker);

impl Topics for Deadly {
    fn partitions(&self, topic: &str) -> Result<Vec<i32>, TopicFault> {
        if topic == "t" { panic!("the end of the process") } else { self.0.partitions(topic) }
    }
}

#[test]
fn an_order_that_ends_the_writer_ends_it_twice_and_is_then_refused() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let broker = Deadly(Broker::with(&["t", "events", "control"]));
    let poison = module("f144", "");
    let order = Message::Pl72(RunStart {
        control_topic: Some("events"),
        ..start("poison", "p.nxs", &poison)
    })
    .encode();
    let fine = Message::Pl72(start("fine", "f.nxs", &structure_of_events(64))).encode();
    for round in 0..2 {
        let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
        let died = catch_unwind(AssertUnwindSafe(|| service.order(&pool(7, &order), NOW, &broker)));
        assert!(died.is_err(), "{round}");
    }
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    service.order(&pool(7, &order), NOW, &broker);
    let all = replies(&mut service);
    assert_eq!(all.len(), 2, "{all:?}");
    for ((topic, answer), where_to) in all.iter().zip(["events", "control"]) {
        assert_eq!(
            (topic.as_str(), &answer["job_id"], &answer["outcome"]),
            (where_to, &"poison".into(), &"Failure".into())
        );
        assert!(answer["message"].as_str().unwrap().contains("ended the writer twice"), "{answer}");
    }
    assert_eq!(count(&service, WriteCounter::OrderSuspect), 1);
    // It may come again and again; the next one is obeyed.
    service.order(&pool(7, &order), NOW, &broker);
    assert_eq!((replies(&mut service).len(), count(&service, WriteCounter::OrderAgain)), (0, 1));
    service.order(&pool(8, &fine), NOW, &broker);
    assert_eq!(answers(&mut service)[0]["status_code"], 201);
    assert_balanced(&service);
    drop(service);
    // Also after another restart.
    let mut service = Service::new(options(dir.path()), NOW, &broker).unwrap();
    service.order(&pool(7, &order), NOW, &broker);
    assert_eq!(count(&service, WriteCounter::OrderAgain), 1);
}

#[test]
fn a_job_that_was_written_down_and_ends_each_writer_is_refused_too() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let lines = module("f144", "");
    let order = Message::Pl72(start("poison", "p.nxs", &lines)).encode();
    // A writer wrote the order down, and died before its file had a flush.
    let fine = Broker::with(&["t", "control"]);
    let mut service = Service::new(options(dir.path()), NOW, &fine).unwrap();
    service.order(&pool(7, &order), NOW, &fine);
    drop(service);
    let own = dir.path().join(".fullcount-write/writer-1");
    std::fs::remove_file(own.join("poison.progress")).unwrap();
    std::fs::remove_file(dir.path().join("p.nxs")).unwrap();
    std::fs::remove_file(own.join("orders")).unwrap();
    for reply in std::fs::read_dir(&own).unwrap().map(|e| e.unwrap().path()) {
        if reply.extension().is_some_and(|e| e == "reply") {
            std::fs::remove_file(reply).unwrap();
        }
    }
    let deadly = Deadly(fine);
    for _ in 0..2 {
        assert!(catch_unwind(|| Service::new(options(dir.path()), NOW, &deadly)).is_err());
    }
    let mut service = Service::new(options(dir.path()), NOW, &deadly).unwrap();
    let answer = &answers(&mut service)[0];
    assert_eq!((&answer["job_id"], &answer["status_code"]), (&"poison".into(), &400.into()));
    assert_eq!(service.jobs().count(), 0);
    service.order(&pool(7, &order), NOW, &deadly);
    assert_eq!(count(&service, WriteCounter::OrderAgain), 1);
    assert_balanced(&service);
}

/// Structures with such names, and with others that are none.
fn named(forged: &str, long: &str) -> Vec<String> {
    let node = |name: &str| in_entry(json!([{"type": "group", "name": name}]));
    let attribute =
        |name: &str| in_entry(json!([{"type": "group", "name": "g", "attributes": {name: 1}}]));
    [forged, long, "a/b", ".", "..", "", "nul\0", "\u{2028}"]
        .into_iter()
        .flat_map(|name| [node(name), attribute(name)])
        .chain([
            in_entry(json!([{"module": forged, "config": {}}])),
            in_entry(json!([{"module": "f144", "config": {"topic": forged, "source": "s"}}])),
            in_entry(json!([{"module": "f144", "config": {"topic": "t", "source": "s", "dtype": forged}}])),
            in_entry(json!([{"module": "f144", "config": {"topic": "t", "source": "s", "dtype": long}}])),
            in_entry(json!([{"module": "da00", "config": {"topic": "t", "source": "s", "variables": [{"name": forged, "data_type": "int8", "shape": [1]}]}}])),
            in_entry(json!([{"module": "dataset", "config": {"name": "d", "dtype": "int32", "values": [forged]}}])),
            format!("{{\"{long}"),
        ])
        .collect()
}

#[test]
fn what_others_name_stays_one_line_and_short() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (mut service, broker) = service(dir.path(), |_| ());
    let good = structure_of_events(64);
    let order = || start("job", "a.nxs", &good);
    let forged = "a\n2026-01-01 ERROR disk gone\u{1b}[2J";
    let long = "x".repeat(1 << 20);
    let structures = named(forged, &long);
    let mut orders: Vec<RunStart<'_>> = vec![
        RunStart { job_id: Some(forged), ..order() },
        RunStart { job_id: Some(&long), ..order() },
        RunStart { filename: Some(forged), ..order() },
        RunStart { filename: Some(&long), ..order() },
        RunStart { filename: Some(&long[..201]), ..order() },
        RunStart { run_name: Some(forged), ..order() },
        RunStart { instrument_name: Some(&long), ..order() },
        RunStart { control_topic: Some(forged), ..order() },
    ];
    orders.extend(
        structures.iter().map(|structure| RunStart { nexus_structure: Some(structure), ..order() }),
    );
    // What is tolerated is said: that stays one line too.
    let warned: Vec<String> = [forged, &long]
        .map(|name| {
            let link = json!({"module": "link", "config": {"name": "l", "source": name}});
            in_entry(json!([link]))
        })
        .to_vec();
    let mut n = 0;
    let mut check = |service: &mut Service, order: Message<'_>, code: u16| {
        n += 1;
        service.order(&pool(n, &order.encode()), NOW, &broker);
        let [answer] = &answers(service)[..] else { panic!("order {n}") };
        assert_eq!(answer["status_code"], code, "order {n}: {answer}");
        for field in ["message", "job_id", "command_id", "service_id"] {
            let text =
                answer[field].as_str().unwrap_or_else(|| panic!("order {n}: {field} is not there"));
            assert!(
                !text.contains(char::is_control) && !text.contains('\u{2028}'),
                "order {n}: {text:?}"
            );
            assert!(text.len() < 4200, "order {n}: {field} of {} bytes", text.len());
        }
        for note in service.notes() {
            assert!(
                !note.text.contains(char::is_control) && note.text.len() < 4200,
                "order {n}: {:.200}",
                note.text
            );
        }
    };
    for order in orders {
        check(&mut service, Message::Pl72(order), 400);
    }
    for (i, structure) in warned.iter().enumerate() {
        let (job, file) = (format!("warned{i}"), format!("warned{i}.nxs"));
        check(&mut service, Message::Pl72(start(&job, &file, structure)), 201);
    }
    // Stops: nothing of theirs is kept as it is.
    for job in [forged, &long[..], ""] {
        for command in [Some(forged), Some(&long[..]), None] {
            let stop = RunStop { job_id: Some(job), command_id: command, ..stop("", 0, "") };
            check(&mut service, Message::S6s4t(stop), 400);
        }
    }
    let orders = std::fs::read(dir.path().join(".fullcount-write/writer-1/orders")).unwrap();
    assert!(orders.len() < 100_000, "{}", orders.len());
    assert_balanced(&service);
}
