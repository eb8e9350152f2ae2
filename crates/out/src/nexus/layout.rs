//! The groups, datasets and attributes of a file, made before SWMR writing starts.
//!
//! `docs/formats/nexus.md` sections 2, 3, 5, 6: names, types and attributes are literal from there. What
//! belongs to Fullcount (configuration, tick, epoch) lies in `/entry/fullcount`, since any extra group
//! below an NXdetector costs scippnexus the pixel positions.

use std::path::Path;
use std::str::FromStr;

use fullcount_core::view::PixelMap;
use hdf5_metno::plist::dataset_create::FillTime;
use hdf5_metno::types::{FixedUnicode, VarLenUnicode};
use hdf5_metno::{Extent, File, Group, H5Type, Location, Result};

use super::options::{Compression, EventIdType, NexusOptions};
use super::shape::corners;
use super::sys;
use super::when::iso8601;

/// Dates, and the placeholder of a date: fixed length, so that SWMR allows to overwrite them.
pub(crate) type DateText = FixedUnicode<32>;

/// Epoch of `event_time_zero` and `cue_timestamp_zero`.
pub(crate) const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Entries per chunk of the cue datasets: one cue per 100 M events.
const CHUNK_CUES: usize = 1024;

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
pub(crate) fn date(ns: i64) -> DateText {
    DateText::from_str(&iso8601(ns)).expect("27 characters")
}

/// Creates a complete file without events at `path`, replacing what is there, and closes it.
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
    // Empty until the run ends: tells a finished run from a killed one.
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
    events(&detector, options)
}

/// Shape of `detector_number`, and the index of the pixel at each of its places: as the picture if every cell of it has
/// exactly one pixel, else in one row.
pub(crate) fn arranged(map: &PixelMap) -> (Vec<usize>, Vec<usize>) {
    let (rows, columns) = (map.rows as usize, map.columns as usize);
    match rectangle(&map.cell, rows, columns) {
        Some(order) => (vec![rows, columns], order),
        None => (vec![map.cell.len()], (0..map.cell.len()).collect()),
    }
}

/// Index of the pixel in each cell, row by row, if every cell of the picture has exactly one pixel.
fn rectangle(cell: &[u32], rows: usize, columns: usize) -> Option<Vec<usize>> {
    if rows.checked_mul(columns)? != cell.len() {
        return None;
    }
    let mut order = vec![usize::MAX; cell.len()];
    for (i, &c) in cell.iter().enumerate() {
        let slot = order.get_mut(c as usize)?;
        if *slot != usize::MAX {
            return None;
        }
        *slot = i;
    }
    Some(order)
}

fn events(detector: &Group, options: &NexusOptions) -> Result<()> {
    let events = group(detector, &format!("{}_events", options.panel), "NXevent_data")?;
    let many = options.chunk_events;
    match options.event_id {
        EventIdType::I32 => column::<i32>(&events, "event_id", many, options)?,
        EventIdType::U32 => column::<u32>(&events, "event_id", many, options)?,
    };
    let offset = column::<i32>(&events, "event_time_offset", many, options)?;
    text_attribute(&offset, "units", "ns")?;
    column::<i64>(&events, "event_index", options.chunk_pulses, options)?;
    let zero = column::<u64>(&events, "event_time_zero", options.chunk_pulses, options)?;
    column::<i64>(&events, "cue_index", CHUNK_CUES, options)?;
    let cue = column::<i64>(&events, "cue_timestamp_zero", CHUNK_CUES, options)?;
    for times in [zero, cue] {
        text_attribute(&times, "units", "ns")?;
        // Exactly one ISO date: with two, scippnexus leaves bare integers.
        text_attribute(&times, options.start_attribute.name(), EPOCH)?;
    }
    events.new_dataset::<u64>().create("total_counts")?.write_scalar(&0_u64)
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

pub(crate) fn group(parent: &Group, name: &str, class: &str) -> Result<Group> {
    let group = parent.create_group(name)?;
    text_attribute(&group, "NX_class", class)?;
    Ok(group)
}

/// HDF5 text ends at a NUL; one in a configuration file is shown as U+FFFD instead.
pub(crate) fn unicode(value: &str) -> VarLenUnicode {
    VarLenUnicode::from_str(&value.replace('\0', "\u{fffd}")).expect("no NUL")
}

pub(crate) fn text(parent: &Group, name: &str, value: &str) -> Result<()> {
    parent.new_dataset::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value))
}

pub(crate) fn text_attribute(at: &Location, name: &str, value: &str) -> Result<()> {
    at.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value))
}

pub(crate) fn scalar<T: H5Type>(parent: &Group, name: &str, value: &T) -> Result<()> {
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

fn column<T: H5Type>(
    parent: &Group,
    name: &str,
    chunk: usize,
    options: &NexusOptions,
) -> Result<hdf5_metno::Dataset> {
    let mut builder = parent.new_dataset::<T>().chunk(chunk);
    if let Compression::Gzip(level) = options.compression {
        builder = builder.shuffle().deflate(level);
    } else if chunk >= options.chunk_events {
        // Each row is written before it counts. A chunk that the library would have to fill first it copies to its cache,
        // whatever the size.
        builder = builder.fill_time(FillTime::Never);
    }
    builder.shape((Extent::resizable(0),)).create(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_rectangle_is_ordered_by_cell_and_anything_else_is_not_one() {
        assert_eq!(rectangle(&[3, 2, 1, 0], 2, 2), Some(vec![3, 2, 1, 0]));
        assert_eq!(rectangle(&[1, 2, 0], 1, 3), Some(vec![2, 0, 1]));
        assert_eq!(rectangle(&[0, 1, 2], 2, 2), None, "a cell without pixel");
        assert_eq!(rectangle(&[0, 0, 2, 3], 2, 2), None, "two pixels in a cell");
        assert_eq!(rectangle(&[0, 1, 2, 4], 2, 2), None, "outside the picture");
    }
}
