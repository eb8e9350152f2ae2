//! What control systems send that is odd: it is written, with a warning that says where.

use serde_json::{Value, json};

use super::*;

fn read(children: Value) -> FilePlan {
    let entry = json!({"type": "group", "name": "entry", "attributes": {"NX_class": "NXentry"}, "children": children});
    parse(&json!({"children": [entry]}).to_string(), &StructureLimits::default()).unwrap()
}

/// The plan of these children, and the one warning about the first of them.
fn odd(children: Value) -> (FilePlan, String) {
    let plan = read(children);
    let lines = plan.warnings.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let here = "nexus_structure.children[0].children[0]";
    let said = lines[0].strip_prefix(here).unwrap_or_else(|| panic!("{}", lines[0]));
    (plan, said.to_owned())
}

fn attribute<'p>(attributes: &'p [Attribute], name: &str) -> Option<&'p Array> {
    attributes.iter().find(|a| a.name == name).map(|a| &a.value)
}

#[test]
fn a_link_to_nothing_is_left_out() {
    for (source, words) in [
        ("nowhere", ".config.source: \"nowhere\" is not in the structure: the link is left out"),
        ("../../..", ".config.source: \"../../..\" leads out of the file: the link is left out"),
        (
            "l",
            ".config.source: \"l\" leads in a circle, or through too many links: the link is left out",
        ),
    ] {
        let link = json!({"module": "link", "config": {"name": "l", "source": source}});
        let (plan, said) = odd(json!([link]));
        assert_eq!((said.as_str(), plan.links.len()), (words, 0));
    }
    // One to another link is one to what that leads to.
    let plan = read(json!([
        {"module": "link", "config": {"name": "a", "source": "b/x"}},
        {"module": "link", "config": {"name": "b", "source": "g"}},
        {"type": "group", "name": "g", "children": [{"module": "dataset", "config": {"name": "x", "values": 1}}]},
    ]));
    let links: Vec<_> = plan.links.iter().map(|l| (&l.path[..], &l.target[..])).collect();
    assert_eq!(links, [("/entry/a", "/entry/g/x"), ("/entry/b", "/entry/g")]);
    assert_eq!(plan.warnings.count(), 0);
}

#[test]
fn mdat_without_items_writes_nothing_of_its_own() {
    for mdat in [
        json!({"module": "mdat", "config": {}}),
        json!({"module": "mdat", "config": {"items": null}}),
        json!({"module": "mdat", "config": {"items": []}}),
        json!({"module": "mdat"}),
    ] {
        let (plan, said) = odd(json!([mdat]));
        assert_eq!(
            said,
            ".config.items: names neither start_time nor end_time: nothing is written"
        );
        // Those of the entry are there all the same.
        assert_eq!(plan.dates.len(), 2);
    }
}

#[test]
fn of_two_attributes_of_one_name_the_last_is_written() {
    let twice = json!([
        {"name": "units", "dtype": "string", "values": "m"},
        {"name": "vector", "values": [0, 0, 1]},
        {"name": "units", "dtype": "string", "values": "mm"},
    ]);
    let (plan, said) = odd(
        json!([{"module": "dataset", "config": {"name": "x", "values": 1}, "attributes": twice}]),
    );
    assert_eq!(said, ".attributes[2]: the attribute \"units\" is there twice: this one is written");
    let attributes = &plan.datasets[0].attributes;
    assert_eq!((attributes.len(), attributes[0].value.text()), (2, Some("mm")));
    let arrays = json!({"topic": "t", "source": "s", "variables": [{"name": "v", "data_type": "int8", "shape": [1]}],
        "attributes": [{"name": "signal", "data": "w"}, {"name": "signal", "data": "v"}]});
    let (plan, said) = odd(json!([{"module": "da00", "config": arrays}]));
    assert!(said.starts_with(".config.attributes[1]: the attribute \"signal\""), "{said}");
    let signal = attribute(&plan.groups[1].attributes, "signal").unwrap();
    assert_eq!(signal.text(), Some("v"));
}

#[test]
fn empty_units_are_no_units() {
    let dataset = |attributes: Value| json!([{"module": "dataset", "config": {"name": "x", "values": 1}, "attributes": attributes}]);
    for (attributes, place) in [
        (json!({"units": ""}), ".attributes.units"),
        (json!([{"name": "units", "dtype": "string", "values": ""}]), ".attributes[0].values"),
    ] {
        let (plan, said) = odd(dataset(attributes));
        let units = attribute(&plan.datasets[0].attributes, "units").unwrap();
        assert_eq!(units.text(), Some(""));
        assert!(said.starts_with(&format!("{place}: units are empty")), "{said}");
    }
    for (attributes, place) in [
        (json!({"units": null}), ".attributes.units"),
        (json!([{"name": "units", "dtype": "string", "values": null}]), ".attributes[0].values"),
        (json!([{"name": "units", "dtype": "string"}]), ".attributes[0].values"),
        (json!([{"name": "units", "values": []}]), ".attributes[0].values"),
    ] {
        let (plan, said) = odd(dataset(attributes));
        assert_eq!(attribute(&plan.datasets[0].attributes, "units"), None);
        assert_eq!(said, format!("{place}: units without a text are left out"));
    }
    let stream = |more: Value| {
        let mut config = json!({"topic": "t", "source": "s"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    for (module, config, place) in [
        ("f144", stream(json!({"value_units": ""})), ".config.value_units"),
        ("se00", stream(json!({"units": ""})), ".config.units"),
        ("ad00", stream(json!({"units": "", "array_size": [2]})), ".config.units"),
        (
            "da00",
            stream(
                json!({"variables": [{"name": "v", "unit": "", "data_type": "int8", "shape": [1]}]}),
            ),
            ".config.variables[0].unit",
        ),
    ] {
        let (_, said) = odd(json!([{"module": module, "config": config}]));
        assert!(said.starts_with(&format!("{place}: units are empty")), "{said}");
    }
}

#[test]
fn a_whole_number_may_be_text() {
    let events = |key: &str, text: &str| {
        let mut config = json!({"topic": "t", "source": "s"});
        config[key] = text.into();
        json!([{"module": "ev44", "config": config}])
    };
    let (plan, said) = odd(events("cue_interval", "3"));
    assert_eq!(said, ".config.cue_interval: is text: the number 3 is taken");
    let StreamModule::Events { cue_interval, .. } = &plan.streams[0].module else { panic!("ev44") };
    assert_eq!(*cue_interval, 3);
    let (plan, _) = odd(events("chunk_size", "1024"));
    assert!(matches!(plan.streams[0].module, StreamModule::Events { chunk: 1024, .. }));
    for wrong in ["0", "-1", "x", "", "1e3", "99999999999999999999"] {
        let entry = json!({"children": [{"type": "group", "name": "entry", "children": events("cue_interval", wrong)}]});
        let refused =
            parse(&entry.to_string(), &StructureLimits::default()).unwrap_err().to_string();
        assert!(refused.contains(".config.cue_interval: is"), "{refused}");
    }
}

#[test]
fn arrays_without_variables_have_their_times_alone() {
    let empty = json!({"topic": "t", "source": "s", "dtype": "int32"});
    let (plan, said) = odd(json!([{"module": "da00", "config": empty}]));
    assert_eq!(said, ".config.variables: names none: of each message only its time is written");
    let StreamModule::Arrays { variables, .. } = &plan.streams[0].module else { panic!("da00") };
    assert!(variables.is_empty());
    // Nothing names a signal that is not there.
    assert_eq!(attribute(&plan.groups[1].attributes, "signal"), None);
}

#[test]
fn constants_without_values_are_made_for_those_of_the_data() {
    let config = |constant: Value| {
        json!({"topic": "t", "source": "s", "constants": [constant],
        "variables": [{"name": "v", "data_type": "int8", "shape": [2, 3], "axes": ["y", "x"]}]})
    };
    let edges = |dtype, shape: Option<&[usize]>| {
        let shape = shape.map(<[usize]>::to_vec);
        LatePlan { name: "x".into(), dtype, shape, attributes: Vec::new() }
    };
    for (constant, late) in [
        (json!({"name": "x"}), edges(NumberType::F64, None)),
        (json!({"name": "x", "data": null, "axes": ["x"]}), edges(NumberType::F64, None)),
        (
            json!({"name": "x", "data_type": "int32", "shape": [4]}),
            edges(NumberType::I32, Some(&[4])),
        ),
        (
            json!({"name": "x", "dtype": "float32", "shape": [2, 4], "axes": ["y", "x"]}),
            edges(NumberType::F32, Some(&[2, 4])),
        ),
    ] {
        let (plan, said) = odd(json!([{"module": "da00", "config": config(constant)}]));
        let words =
            ".config.constants[0].data: is missing: the values are those of the first message";
        assert_eq!(said, words);
        let StreamModule::Arrays { late: found, .. } = &plan.streams[0].module else {
            panic!("da00")
        };
        assert_eq!(found, &[late]);
    }
    // Its name is taken.
    let two = json!([
        {"module": "dataset", "config": {"name": "x", "values": 1}},
        {"module": "da00", "config": config(json!({"name": "x"}))},
    ]);
    let text = json!({"children": [{"type": "group", "name": "g", "children": two}]}).to_string();
    let twice = parse(&text, &StructureLimits::default()).unwrap_err().to_string();
    assert!(twice.contains("\"/g/x\" is there already"), "{twice}");
}

#[test]
fn what_a_template_and_its_filler_both_have_is_written_once() {
    let text = |name: &str, values: &str| json!({"module": "dataset", "config": {"name": name, "values": values, "type": "string"}});
    let plan = read(json!([
        text("title", "$TITLE$"),
        {"module": "mdat", "config": {"items": ["start_time", "end_time"]}},
        {"type": "group", "name": "user_A", "attributes": {"NX_class": "NXuser"}, "children": [text("name", "A")]},
        "$USERS$",
        text("title", "vanadium"),
        {"module": "mdat", "config": {"items": ["start_time", "end_time"]}},
        {"type": "group", "name": "user_A", "attributes": {"NX_class": "NXuser"}, "children": [text("name", "A")]},
    ]));
    let here = "nexus_structure.children[0].children";
    assert_eq!(
        plan.warnings.lines(),
        [
            format!("{here}[3]: \"$USERS$\" is neither a group nor a module: it is left out"),
            format!("{here}[4]: the dataset is there twice: this one is written"),
            format!("{here}[5].config.items[0]: is there twice: it is written once"),
            format!("{here}[5].config.items[1]: is there twice: it is written once"),
            format!("{here}[6]: the same group is there twice: it is written once"),
        ]
    );
    let datasets: Vec<_> = plan.datasets.iter().map(|d| (&d.path[..], d.value.text())).collect();
    assert_eq!(datasets, [("/entry/title", Some("vanadium")), ("/entry/user_A/name", Some("A"))]);
    assert_eq!(plan.dates.len(), 2);
    assert_eq!(plan.groups.iter().filter(|g| g.path == "/entry/user_A").count(), 1);
}

#[test]
fn two_that_differ_and_too_many_of_one_name_are_refused() {
    let refused = |children: Value| {
        let text = json!({"children": children}).to_string();
        parse(&text, &StructureLimits::default()).unwrap_err().to_string()
    };
    let group = |n: i32| json!({"type": "group", "name": "g", "children": [{"module": "dataset", "config": {"name": "x", "values": n}}]});
    let said = refused(json!([group(1), group(2)]));
    assert!(said.contains("children[1]") && said.contains("/g"), "{said}");
    let data = json!({"module": "dataset", "config": {"name": "value", "values": 1}});
    let log = json!({"module": "f144", "config": {"topic": "t", "source": "s"}});
    for children in [json!([log, data]), json!([data, log])] {
        refused(children);
    }
    let many = |n: usize| vec![data.clone(); n];
    let plan =
        parse(&json!({"children": many(65)}).to_string(), &StructureLimits::default()).unwrap();
    assert_eq!((plan.datasets.len(), plan.warnings.count()), (1, 64));
    let said = refused(json!(many(66)));
    assert!(said.contains("children[65]"), "{said}");
}

#[test]
fn a_link_and_a_text_without_a_value_are_no_reason_to_refuse() {
    for source in [Value::Null, json!("")] {
        let link = json!({"module": "link", "config": {"name": "temperature", "type": "NXlink", "source": source}});
        let (plan, said) = odd(json!([link]));
        assert_eq!(
            (said.as_str(), plan.links.len()),
            (".config.source: is empty: the link is left out", 0)
        );
    }
    let (plan, said) = odd(
        json!([{"module": "dataset", "config": {"name": "email", "values": null, "dtype": "string"}}]),
    );
    assert_eq!(said, ".config.values: is null: an empty text is written");
    assert_eq!(plan.datasets[0].value.text(), Some(""));
}

#[test]
fn a_vector_that_is_called_text_is_numbers() {
    let vector = json!([
        {"name": "vector", "dtype": "string", "values": [0.0, 1, 0.0]},
        {"name": "units", "dtype": "string", "value": "m"},
    ]);
    let (plan, said) = odd(
        json!([{"module": "dataset", "config": {"name": "x", "value": 1.5}, "attributes": vector}]),
    );
    assert_eq!(said, ".attributes[0].values: numbers that are called text are written as numbers");
    let attributes = &plan.datasets[0].attributes;
    assert_eq!(
        attribute(attributes, "vector").unwrap().values,
        ArrayValues::F64(vec![0.0, 1.0, 0.0])
    );
    assert_eq!(attribute(attributes, "units").and_then(Array::text), Some("m"));
    assert_eq!(plan.datasets[0].value.values, ArrayValues::F64(vec![1.5]));
}

#[test]
fn a_group_says_which_topic_and_source_it_is_written_from() {
    let log = json!({"module": "f144", "config": {"topic": "motion", "source": "m1.RBV"}});
    let alarms = json!({"module": "al00", "config": {"topic": "motion", "source": "other"}});
    let own = json!({"source": "mine"});
    let plan = read(json!([
        {"type": "group", "name": "a", "children": [log, alarms]},
        {"type": "group", "name": "b", "attributes": own, "children": [log]},
    ]));
    let of = |path: &str, name: &str| {
        let group = plan.groups.iter().find(|g| g.path == path).unwrap();
        attribute(&group.attributes, name).and_then(Array::text).map(str::to_owned)
    };
    assert_eq!(of("/entry/a", "topic").as_deref(), Some("motion"));
    assert_eq!(of("/entry/a", "source").as_deref(), Some("m1.RBV"));
    assert_eq!(of("/entry/b", "source").as_deref(), Some("mine"));
    assert_eq!(plan.warnings.count(), 0);
}
