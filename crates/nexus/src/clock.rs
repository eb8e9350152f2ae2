//! The relation of the detector's clock and the host's, in the file: `/entry/fullcount/clock`.
//!
//! Created with the file, with zeros, and written again with each flush, since a file that is read while it is written
//! cannot get new datasets. Source: `docs/time.md`.

use std::sync::Arc;

use fullcount_core::wall::WallClock;
use hdf5_metno::{Dataset, Group, Result};

use super::layout;

/// Datasets, and their units.
const ALL: [(&str, &str); 5] = [
    ("anchor_detector", "ns"),
    ("anchor_host", "ns"),
    ("drift_ppb", ""),
    ("error", "ns"),
    ("steps", ""),
];

/// Makes the group with its datasets.
pub(super) fn make(own: &Group) -> Result<()> {
    let clock = layout::group(own, "clock", "NXcollection")?;
    for (name, units) in ALL {
        let value = clock.new_dataset::<i64>().create(name)?;
        value.write_scalar(&0_i64)?;
        if !units.is_empty() {
            layout::text_attribute(&value, "units", units)?;
        }
    }
    Ok(())
}

/// The datasets of a file that is being written.
#[derive(Debug)]
pub(super) struct ClockValues {
    wall: Arc<WallClock>,
    values: Vec<Dataset>,
    written: [i64; ALL.len()],
}

impl ClockValues {
    /// Of `/entry/fullcount`.
    pub fn open(own: &Group, wall: &Arc<WallClock>) -> Result<ClockValues> {
        let clock = own.group("clock")?;
        let values = ALL.iter().map(|(name, _)| clock.dataset(name)).collect::<Result<_>>()?;
        Ok(ClockValues { wall: wall.clone(), values, written: [0; ALL.len()] })
    }

    /// Writes what has changed.
    pub fn write(&mut self) -> Result<()> {
        let status = self.wall.status();
        let Some((detector, host)) = status.anchor else { return Ok(()) };
        let steps = i64::try_from(status.steps).unwrap_or(i64::MAX);
        let now = [detector, host, status.drift_ppb, status.error_ns, steps];
        for ((value, now), written) in self.values.iter().zip(now).zip(&mut self.written) {
            if now != *written {
                value.write_scalar(&now)?;
                *written = now;
            }
        }
        Ok(())
    }
}
