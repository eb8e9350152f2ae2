//! Self-test of a file against the rules of `docs/formats/nexus.md` sections 2, 5 and 6.
//!
//! It lists what a reader would stumble over; it refuses only files that HDF5 cannot open.

use std::collections::HashSet;
use std::path::Path;

use hdf5_metno::types::{FixedUnicode, TypeDescriptor, VarLenUnicode};
use hdf5_metno::{Container, Dataset, File, Group, Location, Result};

use super::error::{NexusError, hdf5_error};
use super::sys::{self, Access};

/// One rule that a file breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a path inside the file.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Everything in the file at `path` that keeps h5py, scippnexus or Mantid from reading it in full;
/// empty for a good file. Reads event_id, event_index and the pixel columns into memory.
///
/// # Errors
/// If HDF5 cannot open or read the file.
pub fn check(path: &Path) -> std::result::Result<Vec<Violation>, NexusError> {
    let file = sys::open(path, Access::Read).map_err(hdf5_error(path, "open the file"))?;
    let mut found = Found::default();
    found.entry(&file).map_err(hdf5_error(path, "check the file"))?;
    Ok(found.0)
}

#[derive(Default)]
struct Found(Vec<Violation>);

impl Found {
    fn note(&mut self, place: &str, what: impl Into<String>) {
        self.0.push(Violation { place: place.to_owned(), what: what.into() });
    }

    fn class(&mut self, group: &Group, class: &str) {
        match text_attribute(group, "NX_class") {
            Some(found) if found == class => {}
            found => {
                let found = found.unwrap_or_else(|| "none".into());
                self.note(&group.name(), format!("NX_class is {found}, must be {class}"));
            }
        }
    }

    fn units(&mut self, at: &Dataset, allowed: &[&str]) {
        match text_attribute(at, "units") {
            Some(units) if allowed.contains(&units.as_str()) => {}
            found => {
                let found = found.unwrap_or_else(|| "missing".into());
                self.note(&at.name(), format!("units: {found}; must be one of {allowed:?}"));
            }
        }
    }

    fn entry(&mut self, file: &File) -> Result<()> {
        let Ok(entry) = file.group("entry") else {
            self.note("/", "no group entry");
            return Ok(());
        };
        self.class(&entry, "NXentry");
        for name in ["title", "start_time", "end_time"] {
            if !entry.link_exists(name) {
                self.note("/entry", format!("{name} is missing"));
            }
        }
        for name in ["start_time", "end_time"] {
            if let Ok(time) = entry.dataset(name)
                && !text(&time).is_some_and(|t| is_date(&t))
            {
                self.note(&time.name(), "not an ISO 8601 date with zone");
            }
        }
        match entry.group("sample") {
            Ok(sample) => {
                self.class(&sample, "NXsample");
                self.depends_on(file, &sample)?;
            }
            Err(_) => self.note("/entry", "sample is missing"),
        }
        let Ok(instrument) = entry.group("instrument") else {
            self.note("/entry", "instrument is missing");
            return Ok(());
        };
        self.class(&instrument, "NXinstrument");
        if !instrument.link_exists("name") {
            self.note("/entry/instrument", "name is missing");
        }
        let mut detectors = 0;
        for group in instrument.groups()? {
            match text_attribute(&group, "NX_class").as_deref() {
                Some("NXdetector") => {
                    detectors += 1;
                    self.detector(file, &entry, &group)?;
                }
                Some("NXsource") => self.depends_on(file, &group)?,
                Some(_) => {}
                None => self.note(&group.name(), "no NX_class"),
            }
        }
        if detectors == 0 {
            self.note("/entry/instrument", "no NXdetector");
        }
        Ok(())
    }

    fn detector(&mut self, file: &File, entry: &Group, detector: &Group) -> Result<()> {
        let place = detector.name();
        let Ok(number) = detector.dataset("detector_number") else {
            self.note(&place, "detector_number is missing");
            return Ok(());
        };
        let numbers: Vec<i64> = number.read_raw::<i32>()?.iter().map(|&n| n.into()).collect();
        let known: HashSet<i64> = numbers.iter().copied().collect();
        if known.len() != numbers.len() {
            self.note(&number.name(), "numbers are not unique");
        }
        for name in ["x_pixel_offset", "y_pixel_offset", "z_pixel_offset"] {
            match detector.dataset(name) {
                Ok(offset) => {
                    self.units(&offset, &["m"]);
                    if offset.shape() != number.shape() {
                        self.note(&offset.name(), "shape differs from detector_number");
                    }
                    if offset.read_raw::<f64>()?.iter().any(|metres| !metres.is_finite()) {
                        self.note(&offset.name(), "a position is not a finite number");
                    }
                }
                // Only a detector with depth has it.
                Err(_) if name == "z_pixel_offset" => {}
                Err(_) => self.note(&place, format!("{name} is missing")),
            }
        }
        if detector.attr("axes").is_ok() {
            self.note(&place, "attribute axes with one offset per pixel");
        }
        self.depends_on(file, detector)?;
        let mut event_groups = 0;
        for group in detector.groups()? {
            match text_attribute(&group, "NX_class").as_deref() {
                Some("NXtransformations") => {}
                Some("NXevent_data") => {
                    event_groups += 1;
                    self.events(entry, &group, &known)?;
                }
                // Mantid draws pixels by these; scippnexus loads positions beside them all the same.
                Some("NXoff_geometry" | "NXcylindrical_geometry") if is_shape(&group.name()) => {}
                _ => self.note(&group.name(), "extra group below an NXdetector"),
            }
        }
        if event_groups != 1 {
            self.note(&place, format!("{event_groups} NXevent_data groups instead of one"));
        }
        Ok(())
    }

    /// Follows a chain of transformations to its end.
    fn depends_on(&mut self, file: &File, component: &Group) -> Result<()> {
        let place = component.name();
        let Some(mut target) = component.dataset("depends_on").ok().and_then(|d| text(&d)) else {
            self.note(&place, "depends_on is missing");
            return Ok(());
        };
        let mut base = place.clone();
        for _ in 0..100 {
            if target == "." {
                return Ok(());
            }
            let path =
                if target.starts_with('/') { target.clone() } else { format!("{base}/{target}") };
            let Ok(step) = file.dataset(&path) else {
                self.note(&place, format!("depends_on target {path} does not exist"));
                return Ok(());
            };
            base = path.rsplit_once('/').map_or(String::new(), |(group, _)| group.to_owned());
            if let Ok(group) = file.group(&base) {
                self.class(&group, "NXtransformations");
            }
            match text_attribute(&step, "transformation_type").as_deref() {
                Some("translation") => self.units(&step, &["m"]),
                Some("rotation") => self.units(&step, &["deg"]),
                _ => self.note(&path, "transformation_type is missing"),
            }
            if step.attr("vector").map_or(0, |v| v.size()) != 3 {
                self.note(&path, "vector with 3 numbers is missing");
            }
            match text_attribute(&step, "depends_on") {
                Some(next) => target = next,
                None => {
                    self.note(&path, "depends_on is missing");
                    return Ok(());
                }
            }
        }
        self.note(&place, "depends_on runs in a circle");
        Ok(())
    }

    fn events(&mut self, entry: &Group, group: &Group, known: &HashSet<i64>) -> Result<()> {
        let place = group.name();
        let mut columns = Vec::new();
        for name in ["event_id", "event_time_offset", "event_index", "event_time_zero"] {
            match group.dataset(name) {
                Ok(dataset) if dataset.ndim() == 1 => columns.push(dataset),
                _ => self.note(&place, format!("{name}, one-dimensional, is missing")),
            }
        }
        let [id, offset, index, zero] = columns.as_slice() else { return Ok(()) };
        let (n, rows) = (id.size(), zero.size());
        if offset.size() != n {
            self.note(&place, format!("{n} event_id, {} event_time_offset", offset.size()));
        }
        if index.size() != rows {
            self.note(&place, format!("{} event_index, {rows} event_time_zero", index.size()));
        }
        self.units(offset, &["ns", "us", "ms", "s"]);
        self.units(zero, &["ns"]);
        let mut dates = 0;
        for name in zero.attr_names()? {
            dates += usize::from(text_attribute(zero, &name).is_some_and(|t| is_date(&t)));
        }
        if dates != 1 {
            self.note(&zero.name(), format!("{dates} attributes with an ISO date instead of one"));
        }
        if zero.dtype()?.to_descriptor()?
            != TypeDescriptor::Unsigned(hdf5_metno::types::IntSize::U8)
        {
            self.note(&zero.name(), "not uint64");
        }
        if index.dtype()?.size() != 8 {
            self.note(&index.name(), "not 8 bytes wide");
        }
        for name in [id, index] {
            if name.attr("units").is_ok() {
                self.note(&name.name(), "must not have units");
            }
        }
        let starts = index.read_raw::<i64>()?;
        if !starts.is_sorted() {
            self.note(&index.name(), "not sorted");
        }
        if starts.iter().any(|&i| i < 0 || i > n as i64) {
            self.note(&index.name(), "points outside the events");
        }
        if rows == 0 {
            self.note(&zero.name(), "empty: Mantid calls that an error");
        }
        if starts == [0] {
            self.note(&index.name(), "one single 0: Mantid takes the bank for empty");
        }
        if id.dtype()?.size() != 4 {
            self.note(&id.name(), "not 32 bits wide");
        }
        let mut at = 0;
        let mut outside = 0_u64;
        while at < n {
            let end = n.min(at + (1 << 20));
            let block = id.read_slice_1d::<i64, _>(at..end)?;
            outside += block.iter().filter(|i| !known.contains(i)).count() as u64;
            at = end;
        }
        if outside > 0 {
            self.note(&id.name(), format!("{outside} events outside detector_number"));
        }
        let name = place.rsplit('/').next().unwrap_or_default();
        if !name.ends_with("_events") {
            self.note(&place, "name does not end in _events: Mantid does not see it");
        }
        match entry.dataset(&format!("{name}/event_id")) {
            Ok(linked) if linked.size() == n => {}
            _ => self.note("/entry", format!("{name} is not linked into the entry")),
        }
        Ok(())
    }
}

fn is_date(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() >= 20 && b[4] == b'-' && b[7] == b'-' && b[10] == b'T' && text.ends_with('Z')
}

fn text_attribute(at: &Location, name: &str) -> Option<String> {
    text(&*at.attr(name).ok()?)
}

fn text(at: &Container) -> Option<String> {
    match at.dtype().ok()?.to_descriptor().ok()? {
        TypeDescriptor::VarLenUnicode => {
            at.read_scalar::<VarLenUnicode>().ok().map(|t| t.to_string())
        }
        TypeDescriptor::FixedUnicode(_) => {
            at.read_scalar::<FixedUnicode<256>>().ok().map(|t| t.to_string())
        }
        _ => None,
    }
}

/// True for the groups that a detector may have its shape in.
fn is_shape(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("pixel_shape" | "detector_shape"))
}
