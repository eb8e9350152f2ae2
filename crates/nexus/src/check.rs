//! Self-test of a file against the rules of `docs/formats/nexus.md` sections 2, 5 and 6.
//!
//! It lists everything that would cause a problem in a reader; it refuses only files that HDF5 cannot open. It checks
//! every row of section 6 except the optional logs (proton charge, periods), which any NXlog may be.

mod columns;
mod place;

use std::collections::HashSet;
use std::path::Path;

use hdf5_metno::types::{FixedUnicode, TypeDescriptor, VarLenUnicode};
use hdf5_metno::{Container, Dataset, File, Group, Location, Result};

use super::error::{NexusError, hdf5_error};
use super::sys::{self, FileMode};

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
    let file = sys::open(path, FileMode::Read).map_err(hdf5_error(path, "open the file"))?;
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
        let (mut detectors, mut sources) = (0, 0);
        for group in instrument.groups()? {
            match text_attribute(&group, "NX_class").as_deref() {
                Some("NXdetector") => {
                    detectors += 1;
                    self.detector(file, &entry, &group)?;
                }
                Some("NXsource") => {
                    sources += 1;
                    self.source(file, &group)?;
                }
                Some("NXmonitor") => self.monitor(&entry, &group)?,
                Some(_) => {}
                None => self.note(&group.name(), "no NX_class"),
            }
        }
        if detectors == 0 {
            self.note("/entry/instrument", "no NXdetector");
        }
        if sources == 0 {
            self.note("/entry/instrument", "no NXsource");
        }
        for group in entry.groups()? {
            match text_attribute(&group, "NX_class").as_deref() {
                Some("NXmonitor") => self.monitor(&entry, &group)?,
                Some(_) => {}
                None => self.note(&group.name(), "no NX_class"),
            }
        }
        Ok(())
    }

    /// The source has its place upstream, which is the negative direction of z.
    fn source(&mut self, file: &File, source: &Group) -> Result<()> {
        let Some(place) = self.depends_on(file, source)? else { return Ok(()) };
        let [x, y, z] = place.metres;
        if z >= 0.0 || x.hypot(y) > 1e-6 * -z {
            let what = format!("at ({x}, {y}, {z}) m: not upstream of the sample on the axis z");
            self.note(&source.name(), what);
        }
        Ok(())
    }

    /// Events of a monitor need no pixels.
    fn monitor(&mut self, entry: &Group, monitor: &Group) -> Result<()> {
        for group in monitor.groups()? {
            if text_attribute(&group, "NX_class").as_deref() == Some("NXevent_data") {
                self.events(entry, &group, None)?;
            }
        }
        if monitor.link_exists("event_time_zero") {
            self.events(entry, monitor, None)?;
        }
        Ok(())
    }

    fn detector(&mut self, file: &File, entry: &Group, detector: &Group) -> Result<()> {
        let place = detector.name();
        let Ok(number) = detector.dataset("detector_number") else {
            self.note(&place, "detector_number is missing");
            return Ok(());
        };
        let numbers = number.read_raw::<i64>()?;
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
        if self.depends_on(file, detector)?.is_some_and(|found| found.steps == 0) {
            self.note(&place, "depends_on leads to no transformation");
        }
        let (mut event_groups, mut shapes) = (0, 0);
        for group in detector.groups()? {
            match text_attribute(&group, "NX_class").as_deref() {
                Some("NXtransformations") => {}
                Some("NXevent_data") => {
                    event_groups += 1;
                    self.events(entry, &group, Some(&known))?;
                }
                // Mantid draws pixels by these; scippnexus still loads positions with them.
                Some("NXoff_geometry" | "NXcylindrical_geometry") if is_shape(&group.name()) => {
                    shapes += 1;
                    self.shape(&group)?;
                }
                _ => self.note(&group.name(), "extra group below an NXdetector"),
            }
        }
        if event_groups == 0 && detector.link_exists("event_time_zero") {
            // Next to the detector's own fields, which is allowed.
            event_groups += 1;
            self.events(entry, detector, Some(&known))?;
        }
        if event_groups != 1 {
            self.note(&place, format!("{event_groups} NXevent_data groups instead of one"));
        }
        if shapes == 0 {
            self.note(&place, "neither pixel_shape nor detector_shape");
        }
        Ok(())
    }

    /// Corners, and which of them belong together.
    fn shape(&mut self, shape: &Group) -> Result<()> {
        let place = shape.name();
        let corners = match shape.dataset("vertices") {
            Ok(vertices) => {
                self.units(&vertices, &["m"]);
                match vertices.shape()[..] {
                    [n, 3] if n > 0 => n,
                    _ => {
                        self.note(&vertices.name(), "not a list of points");
                        return Ok(());
                    }
                }
            }
            Err(_) => {
                self.note(&place, "vertices is missing");
                return Ok(());
            }
        };
        // Of an NXoff_geometry the first, of an NXcylindrical_geometry the other.
        let indices = shape.dataset("winding_order").or_else(|_| shape.dataset("cylinders"));
        match indices {
            Ok(indices) => {
                let inside = |i: &i64| (0..corners as i64).contains(i);
                if !indices.read_raw::<i64>()?.iter().all(inside) {
                    self.note(&indices.name(), "a corner that is not in vertices");
                }
            }
            Err(_) => self.note(&place, "neither winding_order nor cylinders"),
        }
        if shape.link_exists("winding_order") && !shape.link_exists("faces") {
            self.note(&place, "faces is missing");
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
