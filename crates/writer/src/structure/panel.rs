//! The structure of a detector out of its pixel map: numbers, positions, outline, place and events.
//!
//! Pixels and positions are those that the `nexus` sink writes for the same map, so that the file of a run that went over
//! Kafka and one that did not agree. Source: `docs/formats/nexus.md` sections 2, 6 and 7.

use fullcount_core::shape::{arranged, corners};
use fullcount_core::view::PixelMap;
use serde_json::{Value, json};

/// Text attributes, in the form that also has types.
fn texts(all: &[(&str, &str)]) -> Vec<Value> {
    let each =
        |(name, text): &(&str, &str)| json!({"name": name, "dtype": "string", "values": text});
    all.iter().map(each).collect()
}

/// A group of this name and `NX_class`.
pub fn group(name: &str, class: &str, children: impl Into<Value>) -> Value {
    let (attributes, children) = (texts(&[("NX_class", class)]), children.into());
    json!({"type": "group", "name": name, "attributes": attributes, "children": children})
}

/// A dataset, with its unit if it has one.
pub fn dataset(name: &str, dtype: &str, values: impl Into<Value>, units: Option<&str>) -> Value {
    let config = json!({"name": name, "dtype": dtype, "values": values.into()});
    match units {
        None => json!({"module": "dataset", "config": config}),
        Some(units) => {
            let attributes = texts(&[("units", units)]);
            json!({"module": "dataset", "config": config, "attributes": attributes})
        }
    }
}

/// What places a component `metres` along the beam from the sample: `depends_on` and its transformation.
pub fn along_beam(metres: f64) -> [Value; 2] {
    let mut attributes =
        texts(&[("units", "m"), ("transformation_type", "translation"), ("depends_on", ".")]);
    attributes.push(json!({"name": "vector", "dtype": "double", "values": [0.0, 0.0, 1.0]}));
    let config = json!({"name": "distance", "dtype": "double", "values": metres});
    let step = json!({"module": "dataset", "config": config, "attributes": attributes});
    [
        dataset("depends_on", "string", "transformations/distance", None),
        group("transformations", "NXtransformations", vec![step]),
    ]
}

/// ev44 messages of a topic and source.
pub fn events(name: &str, topic: &str, source: &str) -> Value {
    let stream = json!({"module": "ev44", "config": {"topic": topic, "source": source}});
    group(name, "NXevent_data", vec![stream])
}

/// The NXdetector of `map`, with the events of a topic and source.
pub fn detector(map: &PixelMap, topic: &str, source: &str) -> Value {
    let (shape, order) = arranged(map);
    let columns = shape.last().copied().unwrap_or(1).max(1);
    // By rows, as the picture has them, or in one.
    let rows = |each: &dyn Fn(usize) -> Value| -> Value {
        let all: Vec<Value> = order.iter().map(|&i| each(i)).collect();
        match shape.len() {
            2 => all.chunks(columns).map(<[Value]>::to_vec).collect(),
            _ => all.into(),
        }
    };
    let mut children = vec![dataset("detector_number", "int32", rows(&|i| (i + 1).into()), None)];
    for (name, metres) in
        [("x_pixel_offset", &map.x_m), ("y_pixel_offset", &map.y_m), ("z_pixel_offset", &map.z_m)]
    {
        // A flat panel has no depth.
        if !metres.is_empty() {
            children.push(dataset(name, "double", rows(&|i| metres[i].into()), Some("m")));
        }
    }
    children.extend(along_beam(map.distance_m));
    let corners: Vec<Value> = corners(map).iter().map(|&corner| json!(corner)).collect();
    let shape = vec![
        dataset("vertices", "float", corners, Some("m")),
        dataset("winding_order", "int32", vec![0, 1, 2, 3], None),
        dataset("faces", "int32", vec![0], None),
    ];
    children.push(group("pixel_shape", "NXoff_geometry", shape));
    children.push(events(&format!("{}_events", map.name), topic, source));
    group(&map.name, "NXdetector", children)
}

#[cfg(test)]
mod tests {
    use super::super::{ArrayValues, StructureLimits, parse};
    use super::*;

    #[test]
    fn numbers_and_positions_stand_as_in_the_picture() {
        let mut map = PixelMap {
            name: "panel".into(),
            columns: 2,
            rows: 2,
            cell: vec![3, 2, 1, 0],
            x_m: vec![0.1, 0.0, 0.1, 0.0],
            y_m: vec![0.0, 0.0, 0.3, 0.3],
            z_m: vec![],
            distance_m: 2.5,
            source_text: String::new(),
        };
        let plan = |map: &PixelMap| {
            let text = json!({"children": [detector(map, "t", "s")]}).to_string();
            parse(&text, &StructureLimits::default()).unwrap()
        };
        let values = |map: &PixelMap, name: &str| {
            let plan = plan(map);
            let path = format!("/panel/{name}");
            plan.datasets
                .into_iter()
                .find(|d| d.path == path)
                .map(|d| (d.value.shape, d.value.values))
        };
        let number = values(&map, "detector_number");
        assert_eq!(number, Some((vec![2, 2], ArrayValues::I32(vec![4, 3, 2, 1]))));
        let x = values(&map, "x_pixel_offset");
        assert_eq!(x, Some((vec![2, 2], ArrayValues::F64(vec![0.0, 0.1, 0.0, 0.1]))));
        assert_eq!(values(&map, "z_pixel_offset"), None);
        let distance = values(&map, "transformations/distance");
        assert_eq!(distance, Some((vec![], ArrayValues::F64(vec![2.5]))));
        assert_eq!(values(&map, "pixel_shape/vertices").map(|v| v.0), Some(vec![4, 3]));
        let stream = &plan(&map).streams[0];
        let found = (&*stream.group, &*stream.topic, &*stream.source);
        assert_eq!(found, ("/panel/panel_events", "t", "s"));
        // With a gap in the picture there are no rows; depth is there if the map has it.
        map.columns = 3;
        map.z_m = vec![0.5, 0.6, 0.7, 0.8];
        assert_eq!(
            values(&map, "detector_number"),
            Some((vec![4], ArrayValues::I32(vec![1, 2, 3, 4])))
        );
        let z = values(&map, "z_pixel_offset");
        assert_eq!(z, Some((vec![4], ArrayValues::F64(vec![0.5, 0.6, 0.7, 0.8]))));
    }
}
