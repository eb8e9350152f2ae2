//! Position of a component: its chain of transformations, step by step to the end.
//!
//! A step is a dataset, or a log (NXlog) of a movement, of which the first value counts here.
//! Notes a chain that is broken or runs in a circle, and steps without what a reader needs to follow them.
//! Source: `docs/formats/nexus.md` sections 2, 5 and 6.

use hdf5_metno::{Dataset, File, Group, Location, Result};

use super::{Found, text, text_attribute};

/// The end of a chain.
pub(super) struct Place {
    /// Transformations on the way.
    pub(super) steps: usize,
    /// Where the component's own origin is, seen from the sample.
    pub(super) metres: [f64; 3],
}

/// One transformation.
struct Step {
    /// What has its attributes: a dataset, or the group of a log.
    at: Location,
    values: Dataset,
    is_log: bool,
}

impl Step {
    fn find(file: &File, path: &str) -> Option<Step> {
        if let Ok(values) = file.dataset(path) {
            let at: &Location = &values;
            return Some(Step { at: at.clone(), values, is_log: false });
        }
        let log = file.group(path).ok()?;
        let values = log.dataset("value").ok()?;
        let at: &Location = &log;
        Some(Step { at: at.clone(), values, is_log: true })
    }

    /// Units that its values may have. Logs have those of their motors.
    fn allowed(&self, rotation: bool) -> &'static [&'static str] {
        match (rotation, self.is_log) {
            (false, false) => &["m"],
            (false, true) => &["m", "mm"],
            (true, false) => &["deg"],
            (true, true) => &["deg", "degrees"],
        }
    }
}

impl Found {
    /// Follows a chain of transformations. `None` if that cannot be done.
    pub(super) fn depends_on(&mut self, file: &File, component: &Group) -> Result<Option<Place>> {
        let place = component.name();
        let Some(mut target) = component.dataset("depends_on").ok().and_then(|d| text(&d)) else {
            self.note(&place, "depends_on is missing");
            return Ok(None);
        };
        let mut base = place.clone();
        let mut metres = [0.0; 3];
        for steps in 0..100 {
            if target == "." {
                return Ok(Some(Place { steps, metres }));
            }
            let path =
                if target.starts_with('/') { target.clone() } else { format!("{base}/{target}") };
            let Some(step) = Step::find(file, &path) else {
                self.note(&place, format!("depends_on target {path} does not exist"));
                return Ok(None);
            };
            base = path.rsplit_once('/').map_or(String::new(), |(group, _)| group.to_owned());
            if let Ok(group) = file.group(&base) {
                self.class(&group, "NXtransformations");
            }
            let Some(moved) = self.step(&path, &step, metres)? else { return Ok(None) };
            metres = moved;
            match text_attribute(&step.at, "depends_on") {
                Some(next) => target = next,
                None => {
                    self.note(&path, "depends_on is missing");
                    return Ok(None);
                }
            }
        }
        self.note(&place, "depends_on runs in a circle");
        Ok(None)
    }

    /// Where a point is after one transformation. `None` if it does not say.
    fn step(&mut self, path: &str, step: &Step, from: [f64; 3]) -> Result<Option<[f64; 3]>> {
        let kind = text_attribute(&step.at, "transformation_type");
        let rotation = match kind.as_deref() {
            Some("translation") => false,
            Some("rotation") => true,
            _ => {
                self.note(path, "transformation_type is missing");
                return Ok(None);
            }
        };
        self.units(&step.values, step.allowed(rotation));
        let vector = |name: &str| -> Option<[f64; 3]> {
            step.at.attr(name).ok()?.read_raw::<f64>().ok()?.try_into().ok()
        };
        let Some(axis) = vector("vector") else {
            self.note(path, "vector with 3 numbers is missing");
            return Ok(None);
        };
        let length = axis.iter().map(|x| x * x).sum::<f64>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            self.note(path, "vector has no direction");
            return Ok(None);
        }
        let Some(value) = step.values.read_raw::<f64>()?.first().copied() else {
            self.note(path, "has no value");
            return Ok(None);
        };
        let in_mm = text_attribute(&step.values, "units").as_deref() == Some("mm");
        let value = if in_mm { value / 1000.0 } else { value };
        let axis = axis.map(|x| x / length);
        let moved = match rotation {
            false => [0, 1, 2].map(|i| from[i] + value * axis[i]),
            true => rotated(from, axis, value.to_radians()),
        };
        let offset = vector("offset").unwrap_or_default();
        Ok(Some([0, 1, 2].map(|i| moved[i] + offset[i])))
    }
}

/// A point turned about an axis of length 1 (Rodrigues).
fn rotated(p: [f64; 3], axis: [f64; 3], angle: f64) -> [f64; 3] {
    let [x, y, z] = axis;
    let cross = [y * p[2] - z * p[1], z * p[0] - x * p[2], x * p[1] - y * p[0]];
    let along = x * p[0] + y * p[1] + z * p[2];
    let (sin, cos) = angle.sin_cos();
    [0, 1, 2].map(|i| p[i] * cos + cross[i] * sin + axis[i] * along * (1.0 - cos))
}
