//! Makes a file of a plan: groups, datasets, attributes, empty columns, links; then it is closed and opened anew for
//! writing while others read.
//!
//! Source: `docs/formats/nexus.md` sections 2 to 4. HDF5 may refuse what a plan holds.

use std::path::Path;
use std::sync::Arc;

use hdf5_metno::types::VarLenUnicode;
use hdf5_metno::{Dataset, File, Group, H5Type, Location, Result};

use super::module::{self, Style};
use super::structure::{Array, ArrayValues, Attribute, Date, FilePlan};
use fullcount_nexus::layout::{self, DateText, date, text, text_attribute, unicode};
use fullcount_nexus::packers::Packers;
use fullcount_nexus::sys;
use fullcount_nexus::{Compression, DiskWay};

/// The value of an expression of the list `$v`, whatever its numbers are; of texts, `$text` is one of `$texts`.
macro_rules! with_values {
    ($values:expr, $v:ident => $then:expr, $texts:ident => $text:expr) => {
        match $values {
            ArrayValues::I8($v) => $then,
            ArrayValues::U8($v) => $then,
            ArrayValues::I16($v) => $then,
            ArrayValues::U16($v) => $then,
            ArrayValues::I32($v) => $then,
            ArrayValues::U32($v) => $then,
            ArrayValues::I64($v) => $then,
            ArrayValues::U64($v) => $then,
            ArrayValues::F32($v) => $then,
            ArrayValues::F64($v) => $then,
            ArrayValues::Text($texts) => $text,
        }
    };
}

/// What a file says of its making.
#[derive(Debug)]
pub(super) struct About<'a> {
    /// Name of the file.
    pub(super) file_name: &'a str,
    /// Version of the program.
    pub(super) version: &'a str,
    /// When the run began, ns since 1970.
    pub(super) start_ns: i64,
    /// Texts for our own group: configuration, job, metadata.
    pub(super) own: &'a [(&'static str, String)],
    pub(super) style: Style,
    pub(super) compression: Compression,
    /// How large rows get to the disk.
    pub(super) disk: DiskWay,
    /// Who compresses events, if they are.
    pub(super) packers: Option<Arc<Packers>>,
}

/// Makes the file at `path`, replacing what is there, and closes it.
pub(super) fn make(path: &Path, plan: &FilePlan, about: &About<'_>) -> Result<()> {
    sys::create(path, |file| fill(file, plan, about))
}

fn fill(file: &File, plan: &FilePlan, about: &About<'_>) -> Result<()> {
    for group in &plan.groups {
        if group.path.is_empty() {
            root(file, plan, about)?;
            write_attributes(file, &group.attributes)?;
        } else {
            let made = file.create_group(&group.path)?;
            write_attributes(&made, &group.attributes)?;
        }
    }
    for dataset in &plan.datasets {
        let (group, name) = parent(file, &dataset.path)?;
        let made = write_dataset(&group, name, &dataset.value)?;
        write_attributes(&made, &dataset.attributes)?;
    }
    for plan in &plan.dates {
        let (group, name) = parent(file, &plan.path)?;
        let dataset = group.new_dataset::<DateText>().create(name)?;
        if plan.date == Date::Start {
            dataset.write_scalar(&date(about.start_ns))?;
        }
    }
    for stream in &plan.streams {
        let group = group(file, &stream.group)?;
        for spec in module::specs(&stream.module, about.style) {
            spec.create(&group, about.compression)?;
        }
        module::make_totals(&group, &stream.module)?;
    }
    let (above, name) = parent(file, &plan.own)?;
    let own = layout::group(&above, name, "NXcollection")?;
    text(&own, "version", about.version)?;
    for (name, value) in about.own {
        text(&own, name, value)?;
    }
    layout::scalar(&own, "messages_refused", &0_u64)?;
    layout::scalar(&own, "messages_gone", &0_u64)?;
    layout::scalar(&own, "events_rejected", &0_u64)?;
    for link in &plan.links {
        file.link_hard(&link.target, &link.path)?;
    }
    Ok(())
}

fn root(file: &File, plan: &FilePlan, about: &About<'_>) -> Result<()> {
    let given = &plan.groups[0].attributes;
    let entry = plan.own.trim_start_matches('/').split_once('/').map(|(entry, _)| entry);
    let creator = format!("fullcount {}", about.version);
    let time = fullcount_nexus::when::iso8601(about.start_ns);
    let all = [
        ("default", entry),
        ("creator", Some(&creator[..])),
        ("file_name", Some(about.file_name)),
        ("file_time", Some(&time[..])),
    ];
    for (name, value) in all {
        // What the structure says itself is kept.
        if let Some(value) = value.filter(|_| !given.iter().any(|a| a.name == name)) {
            text_attribute(file, name, value)?;
        }
    }
    Ok(())
}

/// The group at an absolute path; empty is the root.
pub(super) fn group(file: &File, path: &str) -> Result<Group> {
    file.group(if path.is_empty() { "/" } else { path })
}

/// The group that holds `path`, and the last part of it.
pub(super) fn parent<'p>(file: &File, path: &'p str) -> Result<(Group, &'p str)> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok((group(file, above)?, name))
}

fn write_dataset(group: &Group, name: &str, array: &Array) -> Result<Dataset> {
    fn write<T: H5Type>(at: &Group, name: &str, shape: &[usize], values: &[T]) -> Result<Dataset> {
        let builder = at.new_dataset::<T>();
        if shape.is_empty() {
            let dataset = builder.create(name)?;
            dataset.write_scalar(&values[0])?;
            return Ok(dataset);
        }
        let dataset = builder.shape(shape).create(name)?;
        if !values.is_empty() {
            dataset.write_raw(values)?;
        }
        Ok(dataset)
    }
    with_values!(&array.values,
        numbers => write(group, name, &array.shape, numbers),
        texts => write(group, name, &array.shape, &unicodes(texts))
    )
}

fn write_attributes(at: &Location, attributes: &[Attribute]) -> Result<()> {
    fn write<T: H5Type>(at: &Location, name: &str, shape: &[usize], values: &[T]) -> Result<()> {
        let builder = at.new_attr::<T>();
        if shape.is_empty() {
            return builder.create(name)?.write_scalar(&values[0]);
        }
        let attribute = builder.shape(shape).create(name)?;
        if values.is_empty() { Ok(()) } else { attribute.write_raw(values) }
    }
    attributes.iter().try_for_each(|attribute| {
        let (Array { shape, values }, name) = (&attribute.value, &attribute.name[..]);
        with_values!(values,
            numbers => write(at, name, shape, numbers),
            texts => write(at, name, shape, &unicodes(texts))
        )
    })
}

fn unicodes(texts: &[String]) -> Vec<VarLenUnicode> {
    texts.iter().map(|text| unicode(text)).collect()
}
