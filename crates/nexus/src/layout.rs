//! The groups, datasets and attributes of a file, made before SWMR writing starts.
//!
//! `docs/formats/nexus.md` sections 2, 3, 5, 6: names, types and attributes are literal from there. Fullcount's own
//! data (configuration, tick, epoch) is in `/entry/fullcount`, since any extra group below an NXdetector costs
//! scippnexus the pixel positions.

use std::path::Path;
use std::str::FromStr;

use fullcount_core::shape::{arranged, corners};
use hdf5_metno::types::{FixedUnicode, VarLenUnicode};
use hdf5_metno::{File, Group, H5Type, Location, Result};

use super::events;
use super::options::NexusOptions;
use super::sys;
use super::when::iso8601;

/// Dates, and the placeholder of a date: fixed length, so that SWMR allows to overwrite them.
pub type DateText = FixedUnicode<32>;

/// Epoch of `event_time_zero` and `cue_timestamp_zero`.
pub const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Path of the group with Fullcount's own entries.
pub(super) const OWN_GROUP: &str = "/entry/fullcount";

/// Path of the panel's NXdetector.
pub(super) fn detector_path(panel: &str) -> String {
    format!("/entry/instrument/{panel}")
}

/// Path of the panel's NXevent_data.
pub(super) fn events_path(panel: &str) -> String {
    format!("/entry/instrument/{panel}/{panel}_events")
}

/// A date as the file holds it.
pub fn date(ns: i64) -> DateText {
    DateText::from_str(&iso8601(ns)).expect("27 characters")
}

/// Creates a complete file without events at `path`, replacing an existing one, and closes it.
pub(super) fn build(path: &Path, options: &NexusOptions, start_ns: i64) -> Result<()> {
    sys::create(path, |file| fill(file, options, start_ns))
}

fn fill(file: &File, options: &NexusOptions, start_ns: i64) -> Result<()> {
    text_attribute(file, "default", "entry")?;
    text_attribute(file, "creator", &format!("fullcount {}", options.version))?;
    let name = options.path.file_name().map(|n| n.to_string_lossy().into_owned());
    text_attribute(file, "file_name", &name.unwrap_or_default())?;
    text_attribute(file, "file_time", &iso8601(start_ns))?;

    let entry = group(file, "entry", "NXentry")?;
    text(&entry, "title", &options.title)?;
    entry.new_dataset::<DateText>().create("start_time")?.write_scalar(&date(start_ns))?;
    // Empty until the run ends: distinguishes a finished run from a killed one.
    let empty = DateText::from_str("").expect("fits");
    entry.new_dataset::<DateText>().create("end_time")?.write_scalar(&empty)?;

    let instrument = group(&entry, "instrument", "NXinstrument")?;
    text(&instrument, "name", &options.instrument)?;
    let source = group(&instrument, "source", "NXsource")?;
    match options.source_distance_m {
        Some(d) => along_beam(&source, "/entry/instrument/source", -d)?,
        None => text(&source, "depends_on", ".")?,
    }
    let sample = group(&entry, "sample", "NXsample")?;
    text(&sample, "depends_on", ".")?;
    options.about.write(&entry, &sample)?;

    detector(&instrument, options)?;
    let panel = &options.panel;
    entry.link_hard(&events_path(panel), &format!("{panel}_events"))?;
    own(&entry, options)
}

fn detector(instrument: &Group, options: &NexusOptions) -> Result<()> {
    let (panel, map) = (&options.panel, &options.pixels);
    let detector = group(instrument, panel, "NXdetector")?;
    let (shape, order) = arranged(map);
    let numbers: Vec<i32> = order.iter().map(|&i| i as i32 + 1).collect();
    array(&detector, "detector_number", &shape, &numbers)?;
    let places =
        [("x_pixel_offset", &map.x_m), ("y_pixel_offset", &map.y_m), ("z_pixel_offset", &map.z_m)];
    // A flat panel has no depth, and then no zeros that would say so.
    for (name, metres) in places.into_iter().filter(|(_, metres)| !metres.is_empty()) {
        let values: Vec<f64> = order.iter().map(|&i| metres[i]).collect();
        let offset = array(&detector, name, &shape, &values)?;
        text_attribute(&offset, "units", "m")?;
    }
    along_beam(&detector, &detector_path(panel), map.distance_m)?;
    let outline = group(&detector, "pixel_shape", "NXoff_geometry")?;
    let metres: Vec<f32> = corners(map).as_flattened().iter().map(|&m| m as f32).collect();
    let vertices = array(&outline, "vertices", &[4, 3], &metres)?;
    text_attribute(&vertices, "units", "m")?;
    array(&outline, "winding_order", &[4], &[0_i32, 1, 2, 3])?;
    array(&outline, "faces", &[1], &[0_i32])?;
    event_data(&detector, options)
}

fn event_data(detector: &Group, options: &NexusOptions) -> Result<()> {
    let group = group(detector, &format!("{}_events", options.panel), "NXevent_data")?;
    let (many, pulses) = (options.chunk_events, options.chunk_pulses);
    for spec in events::specs(many, pulses, options.event_id, options.start_attribute) {
        spec.create(&group, options.compression)?;
    }
    events::make_total(&group)
}

fn own(entry: &Group, options: &NexusOptions) -> Result<()> {
    let own = group(entry, "fullcount", "NXcollection")?;
    text(&own, "version", &options.version)?;
    text(&own, "configuration", &options.configuration)?;
    text(&own, "geometry", &options.geometry)?;
    text(&own, "calibration", &options.calibration)?;
    text(&own, "pulse_mode", &options.pulse_mode)?;
    let (num, den) = options.tick.fraction();
    // time_ns = epoch + floor(tick * numerator / denominator): raw ticks can be recovered.
    scalar(&own, "tick_numerator_ns", &num)?;
    scalar(&own, "tick_denominator", &den)?;
    scalar(&own, "tick_assumed", &u8::from(options.tick_assumed))?;
    let epoch = own.new_dataset::<i64>().create("epoch")?;
    epoch.write_scalar(&options.epoch.0)?;
    text_attribute(&epoch, "units", "ns")?;
    if options.wall.is_some() {
        super::clock::make(&own)?;
    }
    let committed = own.new_dataset::<u64>().shape(2).create("committed")?;
    committed.write(&[0_u64, 0])?;
    scalar(&own, "events_rejected", &0_u64)
}

/// `depends_on` and one translation of `metres` along the beam (z).
fn along_beam(component: &Group, path: &str, metres: f64) -> Result<()> {
    text(component, "depends_on", &format!("{path}/transformations/distance"))?;
    let group = group(component, "transformations", "NXtransformations")?;
    let distance = group.new_dataset::<f64>().create("distance")?;
    distance.write_scalar(&metres)?;
    text_attribute(&distance, "units", "m")?;
    text_attribute(&distance, "transformation_type", "translation")?;
    text_attribute(&distance, "depends_on", ".")?;
    distance.new_attr::<f64>().shape(3).create("vector")?.write(&[0.0, 0.0, 1.0])
}

/// A group of the class `NX…` below another.
pub fn group(parent: &Group, name: &str, class: &str) -> Result<Group> {
    let group = parent.create_group(name)?;
    text_attribute(&group, "NX_class", class)?;
    Ok(group)
}

/// HDF5 text ends at a NUL; one in a configuration file is shown as U+FFFD instead.
pub fn unicode(value: &str) -> VarLenUnicode {
    VarLenUnicode::from_str(&value.replace('\0', "\u{fffd}")).expect("no NUL")
}

/// A text of UTF-8 as a dataset.
pub fn text(parent: &Group, name: &str, value: &str) -> Result<()> {
    parent.new_dataset::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value))
}

/// A text of UTF-8 as an attribute.
pub fn text_attribute(at: &Location, name: &str, value: &str) -> Result<()> {
    at.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value))
}

/// One number as a dataset.
pub fn scalar<T: H5Type>(parent: &Group, name: &str, value: &T) -> Result<()> {
    parent.new_dataset::<T>().create(name)?.write_scalar(value)
}

fn array<T: H5Type>(
    parent: &Group,
    name: &str,
    shape: &[usize],
    values: &[T],
) -> Result<hdf5_metno::Dataset> {
    let dataset = parent.new_dataset::<T>().shape(shape).create(name)?;
    dataset.write_raw(values)?;
    Ok(dataset)
}
