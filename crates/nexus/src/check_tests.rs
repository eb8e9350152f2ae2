//! One fault at a time, put into a good file: the self-test must name each, and nothing else.

use std::path::Path;
use std::str::FromStr;

use fullcount_core::view::PixelMap;
use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{Extent, File, Group, H5Type};

use super::sys::{self, FileMode};
use super::*;
use fullcount_core::sink::Sink;

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
    o.source_distance_m = Some(25.0);
    NexusSink::create(&o).unwrap().finish().unwrap();
}

fn replace<T: H5Type>(group: &Group, name: &str, values: &[T]) {
    group.unlink(name).unwrap();
    let shape = (Extent::resizable(values.len()),);
    group.new_dataset::<T>().chunk(64).shape(shape).create(name).unwrap().write(values).unwrap();
}

/// Puts `fault` into a good file; returns the report of the self-test.
fn with(fault: fn(&File)) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.nxs");
    good(&path);
    assert_eq!(check(&path).unwrap(), []);
    let file = sys::open(&path, FileMode::Write { cache: 0 }).unwrap();
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
        let file = sys::open(&path, FileMode::Write { cache: 0 }).unwrap();
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
        events(f).dataset("total_counts").unwrap().write_scalar(&2_u64).unwrap();
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

#[test]
fn a_source_that_is_not_upstream_is_named() {
    const SOURCE: &str = "/entry/instrument/source";
    fn moved(f: &File, metres: f64) {
        let distance = f.dataset(&format!("{SOURCE}/transformations/distance")).unwrap();
        distance.write_scalar(&metres).unwrap();
    }
    says(|f| f.unlink(SOURCE).unwrap(), "/entry/instrument: no NXsource");
    says(|f| moved(f, 0.0), "source: at (0, 0, 0) m: not upstream of the sample");
    says(|f| moved(f, 3.0), "not upstream");
    assert!(with(|f| moved(f, -0.5)).is_empty());
    fn vector(f: &File, to: [f64; 3]) {
        let distance = f.dataset(&format!("{SOURCE}/transformations/distance")).unwrap();
        distance.attr("vector").unwrap().write(&to).unwrap();
    }
    says(|f| vector(f, [1.0, 0.0, 0.0]), "at (-25, 0, 0) m");
    says(|f| vector(f, [0.0; 3]), "distance: vector has no direction");
    // Half a turn about y brings it downstream, a whole one back again.
    fn turned(f: &File, degrees: f64) {
        let steps = f.group(&format!("{SOURCE}/transformations")).unwrap();
        let text = |at: &hdf5_metno::Location, name: &str, value: &str| {
            let _ = at.delete_attr(name);
            let made = at.new_attr::<VarLenUnicode>().create(name).unwrap();
            made.write_scalar(&VarLenUnicode::from_str(value).unwrap()).unwrap();
        };
        let turn = steps.new_dataset::<f64>().create("turn").unwrap();
        turn.write_scalar(&degrees).unwrap();
        text(&turn, "units", "deg");
        text(&turn, "transformation_type", "rotation");
        text(&turn, "depends_on", ".");
        turn.new_attr::<f64>().shape(3).create("vector").unwrap().write(&[0.0, 1.0, 0.0]).unwrap();
        text(&steps.dataset("distance").unwrap(), "depends_on", "turn");
    }
    says(|f| turned(f, 180.0), "not upstream");
    assert!(with(|f| turned(f, 360.0)).is_empty());
    // A step may be the log of a motor, whose attributes are at its group.
    fn logged(f: &File, millimetres: f64) {
        let steps = f.group(&format!("{SOURCE}/transformations")).unwrap();
        let text = |at: &hdf5_metno::Location, name: &str, value: &str| {
            let _ = at.delete_attr(name);
            let made = at.new_attr::<VarLenUnicode>().create(name).unwrap();
            made.write_scalar(&VarLenUnicode::from_str(value).unwrap()).unwrap();
        };
        let log = steps.create_group("motor").unwrap();
        let values = log.new_dataset::<f64>().shape(2).create("value").unwrap();
        values.write(&[millimetres, 0.0]).unwrap();
        text(&values, "units", "mm");
        text(&log, "transformation_type", "translation");
        text(&log, "depends_on", ".");
        log.new_attr::<f64>().shape(3).create("vector").unwrap().write(&[0.0, 0.0, 1.0]).unwrap();
        text(&steps.dataset("distance").unwrap(), "depends_on", "motor");
    }
    assert!(with(|f| logged(f, 1000.0)).is_empty());
    says(|f| logged(f, 26_000.0), "not upstream");
}

#[test]
fn a_detector_that_cannot_be_drawn_is_named() {
    const SHAPE: &str = "/entry/instrument/panel/pixel_shape";
    says(|f| f.unlink(SHAPE).unwrap(), "panel: neither pixel_shape nor detector_shape");
    says(|f| f.unlink(&format!("{SHAPE}/vertices")).unwrap(), "vertices is missing");
    says(|f| f.unlink(&format!("{SHAPE}/faces")).unwrap(), "faces is missing");
    says(
        |f| f.unlink(&format!("{SHAPE}/winding_order")).unwrap(),
        "neither winding_order nor cylinders",
    );
    says(
        |f| {
            let order = f.dataset(&format!("{SHAPE}/winding_order")).unwrap();
            order.write(&[0_i32, 1, 2, 4]).unwrap();
        },
        "winding_order: a corner that is not in vertices",
    );
    says(
        |f| f.dataset(&format!("{SHAPE}/vertices")).unwrap().delete_attr("units").unwrap(),
        "vertices: units: missing",
    );
    fn text(f: &File, value: &str) {
        let at = f.dataset(&format!("{DETECTOR}/depends_on")).unwrap();
        at.write_scalar(&VarLenUnicode::from_str(value).unwrap()).unwrap();
    }
    says(|f| text(f, "."), "panel: depends_on leads to no transformation");
}

#[test]
fn what_is_optional_must_be_right_and_a_monitor_needs_no_pixels() {
    fn events(f: &File) -> Group {
        f.group(EVENTS).unwrap()
    }
    says(
        |f| events(f).dataset("total_counts").unwrap().write_scalar(&1_u64).unwrap(),
        "total_counts: not the number of events",
    );
    says(
        |f| {
            let weight = events(f).new_dataset::<f64>().shape(0).create("event_weight").unwrap();
            assert_eq!(weight.size(), 0);
        },
        "event_weight: not one float32 for each event",
    );
    says(|f| replace(&events(f), "event_id", &[0_f32; 0]), "not 32 bits wide, as an integer");
    // An attribute of another name with another epoch: scippnexus takes it, Mantid does not see it.
    fn epoch(f: &File, name: &str, date: &str) {
        let zero = events(f).dataset("event_time_zero").unwrap();
        zero.delete_attr("offset").unwrap();
        let made = zero.new_attr::<VarLenUnicode>().create(name).unwrap();
        made.write_scalar(&VarLenUnicode::from_str(date).unwrap()).unwrap();
    }
    says(|f| epoch(f, "start", "2020-01-01T00:00:00Z"), "not in the attribute offset");
    assert!(with(|f| epoch(f, "start", "1970-01-01T00:00:00Z")).is_empty());
    assert!(with(|f| epoch(f, "offset", "2020-01-01T00:00:00Z")).is_empty());
    /// A monitor with the columns of the panel, but without pixels.
    fn monitor(f: &File, linked: bool) {
        let monitor = f.create_group("/entry/monitor").unwrap();
        let class = |group: &Group, name: &str| {
            let made = group.new_attr::<VarLenUnicode>().create("NX_class").unwrap();
            made.write_scalar(&VarLenUnicode::from_str(name).unwrap()).unwrap();
        };
        class(&monitor, "NXmonitor");
        let own = monitor.create_group("monitor_events").unwrap();
        class(&own, "NXevent_data");
        for name in ["event_time_offset", "event_index", "event_time_zero"] {
            // Separate columns of the same kind.
            let (from, to) = (format!("{EVENTS}/{name}"), format!("{}/{name}", own.name()));
            let from = f.dataset(&from).unwrap();
            match name {
                "event_time_offset" => drop(own.new_dataset::<i32>().shape(0).create(name)),
                "event_index" => {
                    let made = own.new_dataset::<i64>().shape(2).create(name).unwrap();
                    made.write(&[0_i64, 0]).unwrap();
                }
                _ => {
                    let made = own.new_dataset::<u64>().shape(2).create(name).unwrap();
                    made.write(&from.read_raw::<u64>().unwrap()).unwrap();
                }
            }
            let to = f.dataset(&to).unwrap();
            for attribute in from.attr_names().unwrap() {
                let value: VarLenUnicode = from.attr(&attribute).unwrap().read_scalar().unwrap();
                let made = to.new_attr::<VarLenUnicode>().create(&*attribute).unwrap();
                made.write_scalar(&value).unwrap();
            }
        }
        if linked {
            f.link_hard("/entry/monitor/monitor_events", "/entry/monitor_events").unwrap();
        }
    }
    says(|f| monitor(f, false), "monitor_events is not linked into the entry");
    assert!(with(|f| monitor(f, true)).is_empty());
}
