//! One fault at a time, put into a good file: the self-test must name each, and nothing else.

use std::path::Path;
use std::str::FromStr;

use fullcount_core::view::PixelMap;
use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{Extent, File, Group, H5Type};

use super::sys::{self, Access};
use super::*;
use crate::sink::Sink;

const DETECTOR: &str = "/entry/instrument/panel";
const EVENTS: &str = "/entry/instrument/panel/panel_events";

fn good(path: &Path) {
    let map = PixelMap {
        name: "panel".into(),
        columns: 2,
        rows: 1,
        cell: vec![0, 1],
        x_m: vec![0.0, 0.1],
        y_m: vec![0.0, 0.0],
        z_m: vec![0.0, 0.2],
        distance_m: 1.0,
        ..PixelMap::default()
    };
    let mut o = NexusOptions::new(path, map);
    (o.start_time_ns, o.read_only, o.chunk_events) = (Some(0), false, 1024);
    NexusSink::create(&o).unwrap().finish().unwrap();
}

fn replace<T: H5Type>(group: &Group, name: &str, values: &[T]) {
    group.unlink(name).unwrap();
    let shape = (Extent::resizable(values.len()),);
    group.new_dataset::<T>().chunk(64).shape(shape).create(name).unwrap().write(values).unwrap();
}

/// Puts `fault` into a good file; what the self-test says then.
fn with(fault: fn(&File)) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.nxs");
    good(&path);
    assert_eq!(check(&path).unwrap(), []);
    let file = sys::open(&path, Access::Write { cache: 0 }).unwrap();
    fault(&file);
    file.close().unwrap();
    check(&path).unwrap().iter().map(Violation::to_string).collect()
}

#[track_caller]
fn says(fault: fn(&File), words: &str) {
    let found = with(fault);
    assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:#?}");
}

#[test]
fn missing_or_wrong_attributes_are_named() {
    let found = with(|f| f.group("/entry").unwrap().delete_attr("NX_class").unwrap());
    assert_eq!(found, ["/entry: NX_class is none, must be NXentry"]);
    says(
        |f| f.dataset(&format!("{DETECTOR}/x_pixel_offset")).unwrap().delete_attr("units").unwrap(),
        "x_pixel_offset: units: missing",
    );
    says(
        |f| {
            f.dataset(&format!("{EVENTS}/event_time_offset")).unwrap().delete_attr("units").unwrap()
        },
        "event_time_offset: units: missing",
    );
    says(
        |f| f.dataset(&format!("{EVENTS}/event_time_zero")).unwrap().delete_attr("offset").unwrap(),
        "0 attributes with an ISO date",
    );
    says(
        |f| f.dataset(&format!("{DETECTOR}/z_pixel_offset")).unwrap().delete_attr("units").unwrap(),
        "z_pixel_offset: units: missing",
    );
    for (name, words) in [
        ("vector", "vector with 3 numbers is missing"),
        ("transformation_type", "transformation_type is missing"),
        ("depends_on", "distance: depends_on is missing"),
        ("units", "units: missing"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.nxs");
        good(&path);
        let file = sys::open(&path, Access::Write { cache: 0 }).unwrap();
        let step = file.dataset(&format!("{DETECTOR}/transformations/distance")).unwrap();
        step.delete_attr(name).unwrap();
        drop(step);
        file.close().unwrap();
        let found = check(&path).unwrap();
        assert!(found.len() == 1 && found[0].to_string().contains(words), "{found:?}");
    }
}

#[test]
fn groups_too_many_or_missing_are_named() {
    says(
        |f| drop(f.create_group(&format!("{DETECTOR}/extra")).unwrap()),
        "extra: extra group below an NXdetector",
    );
    says(|f| f.unlink("/entry/panel_events").unwrap(), "panel_events is not linked into the entry");
    says(
        |f| f.unlink(&format!("{DETECTOR}/detector_number")).unwrap(),
        "detector_number is missing",
    );
    says(
        |f| f.unlink(&format!("{DETECTOR}/transformations/distance")).unwrap(),
        "distance does not exist",
    );
    says(|f| f.unlink(&format!("{DETECTOR}/depends_on")).unwrap(), "depends_on is missing");
    says(
        |f| f.unlink(&format!("{EVENTS}/event_id")).unwrap(),
        "event_id, one-dimensional, is missing",
    );
    says(|f| f.unlink("/entry/end_time").unwrap(), "end_time is missing");
}

#[test]
fn positions_that_do_not_fit_the_pixels_are_named() {
    fn z(f: &File, metres: &[f64]) {
        let detector = f.group(DETECTOR).unwrap();
        detector.unlink("z_pixel_offset").unwrap();
        let z = detector.new_dataset::<f64>().shape((1, metres.len())).create("z_pixel_offset");
        let z = z.unwrap();
        z.write_raw(metres).unwrap();
        let units = z.new_attr::<VarLenUnicode>().create("units").unwrap();
        units.write_scalar(&VarLenUnicode::from_str("m").unwrap()).unwrap();
    }
    says(|f| z(f, &[0.0]), "z_pixel_offset: shape differs from detector_number");
    says(|f| z(f, &[0.0, f64::NAN]), "z_pixel_offset: a position is not a finite number");
    assert!(with(|f| z(f, &[0.0, -1.0])).is_empty());
    let flat = with(|f| f.unlink(&format!("{DETECTOR}/z_pixel_offset")).unwrap());
    assert!(flat.is_empty(), "a flat panel has no depth: {flat:?}");
    says(|f| f.unlink(&format!("{DETECTOR}/y_pixel_offset")).unwrap(), "y_pixel_offset is missing");
}

#[test]
fn contradicting_columns_are_named() {
    fn events(f: &File) -> Group {
        f.group(EVENTS).unwrap()
    }
    fn two_events(f: &File, ids: [i32; 2]) {
        replace(&events(f), "event_id", &ids);
        events(f).dataset("event_time_offset").unwrap().resize(2).unwrap();
    }
    says(|f| two_events(f, [1, 3]), "1 events outside detector_number");
    says(|f| two_events(f, [0, 2]), "1 events outside detector_number");
    assert!(with(|f| two_events(f, [1, 2])).is_empty());
    says(
        |f| events(f).dataset("event_time_offset").unwrap().resize(1).unwrap(),
        "0 event_id, 1 event_time_offset",
    );
    says(
        |f| events(f).dataset("event_index").unwrap().resize(3).unwrap(),
        "3 event_index, 2 event_time_zero",
    );
    says(|f| replace(&events(f), "event_index", &[0_i64, 5]), "points outside the events");
    says(|f| replace(&events(f), "event_index", &[0_i32, 0]), "not 8 bytes wide");
    says(
        |f| {
            for name in ["event_index", "event_time_zero"] {
                events(f).dataset(name).unwrap().resize(1).unwrap();
            }
        },
        "one single 0",
    );
    says(
        |f| {
            for name in ["event_index", "event_time_zero"] {
                events(f).dataset(name).unwrap().resize(0).unwrap();
            }
        },
        "empty: Mantid",
    );
    says(
        |f| {
            let number = f.dataset(&format!("{DETECTOR}/detector_number")).unwrap();
            number.write_raw(&[1_i32, 1]).unwrap();
        },
        "numbers are not unique",
    );
}
