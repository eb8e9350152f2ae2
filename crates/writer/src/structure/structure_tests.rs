//! Structures that are taken and structures that are refused, with where in the JSON.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn group(name: &str, children: Value) -> Value {
    json!({"type": "group", "name": name, "children": children})
}

fn in_entry(children: Value) -> Value {
    json!({"children": [{"type": "group", "name": "entry", "attributes": {"NX_class": "NXentry"}, "children": children}]})
}

fn read(tree: &Value) -> Result<FilePlan, StructureError> {
    parse(&tree.to_string(), &StructureLimits::default())
}

/// The sentence about the one child of the entry.
fn said(child: Value) -> String {
    read(&in_entry(json!([child]))).expect_err("refused").to_string()
}

fn module(name: &str, config: Value) -> Value {
    json!({"module": name, "config": config})
}

/// A child of a group, where in it the mistake is, and what is said of it.
type Mistake = (Value, &'static str, &'static str);

fn stream(more: Value) -> Value {
    let mut config = json!({"topic": "t", "source": "s"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

fn dataset(values: Value, dtype: &str) -> Value {
    module("dataset", json!({"name": "x", "dtype": dtype, "values": values}))
}

fn of_groups() -> Vec<Mistake> {
    vec![
        (json!(7), "", "is 7; expected an object"),
        (json!({}), "", "is missing: `type`"),
        (json!({"type": "stream"}), ".type", "expected \"group\""),
        (json!({"module": 3}), ".module", "the name of a module"),
        (module("ev99", json!({})), ".module", "unknown module \"ev99\"; known are ev44"),
        (json!({"module": "ev44"}), ".config", "is missing"),
        (json!({"type": "group", "name": ""}), ".name", "is no name"),
        (json!({"type": "group", "name": "a/b"}), ".name", "is no name"),
        (json!({"type": "group", "name": ".."}), ".name", "is no name"),
        (json!({"type": "group"}), ".name", "is missing: a name"),
        (json!({"type": "group", "name": "g", "children": {}}), ".children", "expected a list"),
        (
            json!({"type": "group", "name": "g", "attributes": 3}),
            ".attributes",
            "an object, or a list",
        ),
        (
            json!({"type": "group", "name": "g", "attributes": [{"name": "a", "values": 1}, 2]}),
            ".attributes[1]",
            "an object with name",
        ),
        (
            json!({"type": "group", "name": "g", "attributes": {"NX_class": 4}}),
            ".attributes",
            "NX_class as one text",
        ),
    ]
}

fn of_events_and_logs() -> Vec<Mistake> {
    vec![
        (module("ev44", json!({"source": "s"})), ".config.topic", "is missing"),
        (
            module("ev44", json!({"topic": "a b", "source": "s"})),
            ".config.topic",
            "the name of a Kafka topic",
        ),
        (module("ev44", json!({"topic": "t"})), ".config.source", "is missing"),
        (
            module("ev44", stream(json!({"chunk_size": 0}))),
            ".config.chunk_size",
            "is 0; expected a whole number",
        ),
        (
            module("ev44", stream(json!({"chunk_size": 1u64 << 40}))),
            ".config.chunk_size",
            "a chunk of 1099511627776 takes 4398046511104 bytes, above the limit of 67108864 bytes (64 MiB)",
        ),
        (
            module("ev44", stream(json!({"cue_interval": "x"}))),
            ".config.cue_interval",
            "at least 1",
        ),
        (
            module("f144", stream(json!({"dtype": "complex"}))),
            ".config.dtype",
            "unknown type \"complex\"",
        ),
        (module("f144", stream(json!({"dtype": "string"}))), ".config.dtype", "a type of numbers"),
        (
            module("f144", stream(json!({"array_size": 1u64 << 40}))),
            ".config.array_size",
            "above the limit of 67108864 bytes",
        ),
    ]
}

fn of_arrays() -> Vec<Mistake> {
    vec![
        (
            module("da00", stream(json!({"variables": ["signal"]}))),
            ".config.variables[0]",
            "objects with name",
        ),
        (
            module("da00", stream(json!({"variables": [{"name": "a", "data_type": "int32"}]}))),
            ".config.variables[0].shape",
            "is missing",
        ),
        (
            module("da00", stream(json!({"variables": [{"name": "a", "shape": [2]}]}))),
            ".config.variables[0].data_type",
            "is missing",
        ),
        (
            module(
                "da00",
                stream(json!({"variables": [{"name": "a/b", "data_type": "int8", "shape": [2]}]})),
            ),
            ".config",
            "is no name",
        ),
        (
            module(
                "da00",
                stream(json!({"variables": [{"name": "a", "data_type": "int8", "shape": [2]}],
                    "constants": [{"name": "xy", "axes": ["x", "y"]}]})),
            ),
            ".config.constants[0].shape",
            "its values come with the data",
        ),
        (module("hs01", stream(json!({}))), ".config.shape", "the dimensions"),
        (
            module("hs01", stream(json!({"shape": [{"size": 2, "edges": [1, 2, 3, 4]}]}))),
            ".config.shape[0].edges",
            "size + 1 bin edges",
        ),
        (module("ad00", stream(json!({}))), ".config.array_size", "the shape of an image"),
        (
            module("ad00", stream(json!({"array_size": [1u64 << 20, 1u64 << 20]}))),
            ".config.array_size",
            "above the limit of 67108864 bytes",
        ),
    ]
}

fn of_constants() -> Vec<Mistake> {
    vec![
        (
            module("mdat", json!({"items": ["proton_charge"]})),
            ".config.items[0]",
            "start_time or end_time",
        ),
        (
            module("link", json!({"name": "l", "source": ".."})),
            ".config.source",
            "the link itself is in",
        ),
        (
            module("link", json!({"name": "l", "source": "."})),
            ".config.source",
            "the link itself is in",
        ),
        (dataset(json!([1, [2]]), "int8"), ".config.values", "a single value, as beside it"),
        (dataset(json!([[1], 2]), "int8"), ".config.values", "a list, as beside it"),
        (dataset(json!([[1, 2], [3]]), "int8"), ".config.values", "2 and 1 entries"),
        (dataset(json!([300]), "int8"), ".config.values", "value 300 is no int8"),
        (dataset(json!(-1), "uint64"), ".config.values", "value -1 is no uint64"),
        (dataset(json!(1.5), "int32"), ".config.values", "value 1.5 is no int32"),
        (dataset(json!(1e300), "float"), ".config.values", "is no float"),
        (dataset(json!("a"), "double"), ".config.values", "is no double"),
        (dataset(json!({}), "string"), ".config.values", "is no string"),
        (module("dataset", json!({"name": "x"})), ".config.values", "is missing: the values"),
    ]
}

#[test]
fn each_mistake_is_named_with_its_place() {
    let here = "nexus_structure.children[0].children[0]";
    let all = [of_groups(), of_events_and_logs(), of_arrays(), of_constants()].concat();
    for (child, place, words) in all {
        let words_said = said(child.clone());
        assert!(words_said.starts_with(&format!("{here}{place}: ")), "{child}: {words_said}");
        assert!(words_said.contains(words), "{child}: {words_said}");
    }
    for (text, words) in [
        ("", "nexus_structure: is not JSON"),
        ("[]", "nexus_structure: is a list of 0; expected an object"),
        ("{}", "nexus_structure.children: is missing"),
        ("{\"children\": 1}", "nexus_structure.children: is 1; expected a list"),
    ] {
        let e = parse(text, &StructureLimits::default()).unwrap_err().to_string();
        assert!(e.starts_with(words), "{text}: {e}");
    }
}

#[test]
fn two_things_of_one_name_are_refused_with_both_places() {
    let stream = |name: &str| module(name, json!({"topic": "t", "source": "s"}));
    for pair in [
        // One that is there twice word for word is written once.
        [group("a", json!([])), group("a", json!([group("b", json!([]))]))],
        [module("dataset", json!({"name": "time", "values": 1})), stream("f144")],
        [stream("f144"), stream("se00")],
        [
            module("mdat", json!({"items": ["start_time"]})),
            module("dataset", json!({"name": "start_time", "values": "x"})),
        ],
    ] {
        let e = read(&in_entry(json!(pair))).unwrap_err().to_string();
        assert!(e.starts_with("nexus_structure.children[0].children[1]: "), "{e}");
        assert!(e.contains("is there already (nexus_structure.children[0].children[0])"), "{e}");
    }
    let own = read(&in_entry(json!([group("fullcount", json!([]))]))).unwrap_err().to_string();
    assert!(own.contains("the writer's own group"), "{own}");
    // The same group for values, alarm and connection is what they are made for.
    assert!(read(&in_entry(json!([stream("f144"), stream("al00"), stream("ep01")]))).is_ok());
}

#[test]
fn limits_hold() {
    let limits = StructureLimits { bytes: 2000, depth: 3, nodes: 5, ..StructureLimits::default() };
    let mut deep = json!({"children": []});
    for _ in 0..4 {
        deep = json!({"children": [{"type": "group", "name": "g", "children": deep["children"]}]});
    }
    let e = parse(&deep.to_string(), &limits).unwrap_err().to_string();
    assert!(e.contains("groups in groups is above the limit, 3"), "{e}");
    let many: Vec<Value> = (0..6).map(|i| group(&format!("g{i}"), json!([]))).collect();
    let e = parse(&json!({"children": many}).to_string(), &limits).unwrap_err().to_string();
    assert!(e.starts_with("nexus_structure.children[5]: ") && e.contains("limit, 5"), "{e}");
    let long = json!({"children": [], "note": "x".repeat(2000)}).to_string();
    assert!(
        parse(&long, &limits).unwrap_err().to_string().contains("bytes is above the limit, 2000")
    );
    // Deeper than the JSON reader goes by itself: an error, not the end of the stack.
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&nested, &StructureLimits::default()).is_err());
}

#[test]
fn a_structure_gets_what_readers_need_beside_what_it_says() {
    let events = |topic: &str| module("ev44", json!({"topic": topic, "source": "s"}));
    let number =
        module("dataset", json!({"name": "detector_number", "dtype": "int32", "values": [1, 2]}));
    let plan = read(&in_entry(json!([
        group(
            "instrument",
            json!([
                group("left", json!([number, group("events", json!([events("a")]))])),
                group("right", json!([group("right_events", json!([events("b")]))])),
            ])
        ),
        group("monitor_events", json!([events("a")])),
        group("spare", json!([events("a")])),
        module("link", json!({"name": "right", "source": "instrument/right"})),
    ])))
    .unwrap();
    assert_eq!(plan.topics(), ["a", "b"]);
    assert_eq!(plan.own, "/entry/fullcount");
    let links: Vec<(&str, &str)> =
        plan.links.iter().map(|l| (&l.path[..], &l.target[..])).collect();
    assert_eq!(
        links,
        [
            ("/entry/left_events", "/entry/instrument/left/events"),
            ("/entry/right_events", "/entry/instrument/right/right_events"),
            ("/entry/spare_events", "/entry/spare"),
            ("/entry/right", "/entry/instrument/right"),
        ]
    );
    let dates: Vec<&str> = plan.dates.iter().map(|d| &d.path[..]).collect();
    assert_eq!(dates, ["/entry/start_time", "/entry/end_time"]);
    let class = |path: &str| plan.groups.iter().find(|g| g.path == path).unwrap().class();
    assert_eq!(class("/entry/spare"), Some("NXevent_data"));
    let pixels = |i: usize| match &plan.streams[i].module {
        StreamModule::Events { pixels, .. } => pixels.as_deref(),
        _ => None,
    };
    assert_eq!((pixels(0), pixels(1)), (Some("/entry/instrument/left/detector_number"), None));
}

#[test]
fn every_group_of_events_is_found_in_the_entry_under_a_name_of_its_own() {
    let events = || module("ev44", json!({"topic": "a", "source": "s"}));
    let class = |name: &str, class: &str, children: Value| json!({"type": "group", "name": name, "children": children, "attributes": {"NX_class": class}});
    let plan = read(&in_entry(json!([
        class(
            "left",
            "NXdetector",
            json!([
                group("events", json!([events()])),
                group("more", json!([events()])),
                group("bank_events", json!([events()])),
            ])
        ),
        class("right", "NXdetector", json!([group("bank_events", json!([events()]))])),
        class("direct", "NXdetector", json!([events()])),
        group("known", json!([group("events", json!([events()]))])),
        module("link", json!({"name": "mine_events", "source": "known/events"})),
    ])))
    .unwrap();
    let links: Vec<(&str, &str)> = plan
        .links
        .iter()
        .map(|l| (&l.path["/entry/".len()..], &l.target["/entry/".len()..]))
        .collect();
    let whole: Vec<_> = links.iter().filter(|l| !l.0.contains('/')).copied().collect();
    assert_eq!(
        whole,
        [
            ("left_events", "left/events"),
            ("left_more_events", "left/more"),
            ("bank_events", "left/bank_events"),
            ("right_bank_events", "right/bank_events"),
            ("mine_events", "known/events"),
        ]
    );
    // Events beside the detector's own datasets: the same datasets in a group of events.
    let own = plan.groups.iter().find(|g| g.path == "/entry/direct_events").unwrap();
    assert_eq!(own.class(), Some("NXevent_data"));
    for name in ["event_id", "event_time_offset", "event_index", "event_time_zero", "total_counts"]
    {
        let link = (format!("direct_events/{name}"), format!("direct/{name}"));
        assert!(links.iter().any(|l| (l.0, l.1) == (&*link.0, &*link.1)), "{name}: {links:?}");
    }
}

#[test]
fn pixel_numbers_are_integers_or_refused_and_links_to_them_are_followed() {
    let events = || module("ev44", json!({"topic": "a", "source": "s"}));
    let numbers = |config: Value| {
        let mut whole = json!({"name": "detector_number", "values": [1.0, 2]});
        whole.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        read(&in_entry(json!([group("bank", json!([module("dataset", whole), events()]))])))
    };
    let checked = |plan: &FilePlan| match &plan.streams[0].module {
        StreamModule::Events { pixels, .. } => pixels.clone(),
        _ => None,
    };
    // Without a type: not the doubles that another dataset would have.
    let plan = numbers(json!({})).unwrap();
    assert_eq!(plan.datasets[0].value.values, ArrayValues::I32(vec![1, 2]));
    assert_eq!(checked(&plan).as_deref(), Some("/entry/bank/detector_number"));
    let plan = numbers(json!({"values": [1, 5_000_000_000_i64]})).unwrap();
    assert_eq!(plan.datasets[0].value.values, ArrayValues::I64(vec![1, 5_000_000_000]));
    for config in [
        json!({"dtype": "double"}),
        json!({"dtype": "string"}),
        json!({"values": [1.5]}),
        json!({"values": "no"}),
    ] {
        let told = numbers(config.clone()).unwrap_err().to_string();
        assert!(told.contains("config.values"), "{config}: {told}");
    }
    let linked = |dtype: &str| {
        let values = module("dataset", json!({"name": "ids", "dtype": dtype, "values": [7, 9]}));
        let link = module("link", json!({"name": "detector_number", "source": "../all/ids"}));
        read(&in_entry(json!([
            group("all", json!([values])),
            group("bank", json!([link, group("events", json!([events()]))])),
        ])))
    };
    assert_eq!(checked(&linked("int64").unwrap()).as_deref(), Some("/entry/all/ids"));
    let told = linked("double").unwrap_err().to_string();
    assert!(told.contains("no dataset of integers"), "{told}");
}

#[test]
fn values_and_attributes_are_read_in_both_forms() {
    let plan = read(&json!({"children": [
        module("dataset", json!({"name": "a", "values": [[1, 2], [3, null]]})),
        {"module": "dataset", "config": {"name": "b", "type": "int64", "values": 3.0},
         "attributes": {"units": "m", "n": 2, "x": [1.5, 2], "flag": [true]}},
        {"module": "dataset", "config": {"name": "c", "values": ["p", "q"]},
         "attributes": [{"name": "v", "dtype": "float", "values": [0, 0, 1]}, {"name": "w", "values": "t"}]},
        module("dataset", json!({"name": "empty", "dtype": "uint8", "values": []})),
        {"module": "dataset", "config": {"name": "one", "type": "string", "value": "t"},
         "attributes": [{"name": "units", "value": "m"}]},
    ]}))
    .unwrap();
    let ArrayValues::F64(a) = &plan.datasets[0].value.values else { panic!("doubles") };
    assert_eq!(
        (&plan.datasets[0].value.shape, &a[..3], a[3].is_nan()),
        (&vec![2, 2], &[1.0, 2.0, 3.0][..], true)
    );
    assert_eq!(plan.datasets[1].value, Array { shape: vec![], values: ArrayValues::I64(vec![3]) });
    let of = |d: usize, name: &str| {
        &plan.datasets[d].attributes.iter().find(|a| a.name == name).unwrap().value.values
    };
    assert_eq!(
        (of(1, "n"), of(1, "x")),
        (&ArrayValues::I64(vec![2]), &ArrayValues::F64(vec![1.5, 2.0]))
    );
    assert_eq!(of(2, "v"), &ArrayValues::F32(vec![0.0, 0.0, 1.0]));
    assert_eq!(plan.datasets[2].value.values, ArrayValues::Text(vec!["p".into(), "q".into()]));
    assert_eq!(plan.datasets[3].value, Array { shape: vec![0], values: ArrayValues::U8(vec![]) });
    assert_eq!(plan.datasets[4].value.text(), Some("t"));
    assert_eq!(of(4, "units"), &ArrayValues::Text(vec!["m".into()]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let words = proptest::sample::select(
        &[
            "group",
            "ev44",
            "f144",
            "da00",
            "hs01",
            "ad00",
            "link",
            "mdat",
            "dataset",
            "a",
            "../a",
            "",
            "int32",
            "start_time",
        ][..],
    );
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    let keys = proptest::sample::select(
        &[
            "type",
            "module",
            "config",
            "name",
            "children",
            "attributes",
            "values",
            "dtype",
            "topic",
            "source",
            "shape",
            "variables",
            "constants",
            "items",
            "size",
            "edges",
            "data",
            "array_size",
            "axes",
        ][..],
    );
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((keys.clone(), inner), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_number_is_read_to_the_last_bit(number in any::<f64>().prop_filter("JSON has no others", |x| x.is_finite())) {
        let text = format!("{{\"children\": [{{\"module\": \"dataset\", \"config\": {{\"name\": \"x\", \"values\": {number:?}}}}}]}}");
        let plan = parse(&text, &StructureLimits::default()).unwrap();
        let ArrayValues::F64(found) = &plan.datasets[0].value.values else { panic!("doubles") };
        prop_assert_eq!(found[0].to_bits(), number.to_bits());
    }

    #[test]
    fn no_text_makes_a_panic(tree in any_json(), text in ".{0,60}") {
        let _ = parse(&text, &StructureLimits::default());
        let _ = read(&tree);
        let _ = read(&json!({"children": [tree]}));
    }
}
