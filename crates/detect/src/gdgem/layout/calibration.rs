//! The calibration file: amplitude, time and time walk per channel of a VMM.
//!
//! Online, the four lists must have 64 numbers each; offline each may be absent or empty. Refuses lists of another length,
//! numbers above 1e9, and VMMs outside the electronics. Source: `docs/formats/gdgem.md` section 5.

use fullcount_core::refusal::Refusal;
use serde::Deserialize;

use super::{CHANNELS, Calibration, ClockRules, FECS, Fec, FileText, Layout, VMMS};
use crate::geometry::text;

#[derive(Debug, Deserialize)]
struct File {
    vmm_calibration: Vec<Entry>,
}

/// Other fields (`hybridID`) are ignored, as the format says.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "fecID")]
    fec: usize,
    #[serde(rename = "vmmID")]
    vmm: usize,
    #[serde(default)]
    adc_offsets: Vec<f32>,
    #[serde(default)]
    adc_slopes: Vec<f32>,
    #[serde(default)]
    time_offsets: Vec<f32>,
    #[serde(default)]
    time_slopes: Vec<f32>,
    #[serde(default)]
    timewalk_a: Vec<f32>,
    #[serde(default)]
    timewalk_b: Vec<f32>,
    #[serde(default)]
    timewalk_c: Vec<f32>,
    #[serde(default)]
    timewalk_d: Vec<f32>,
}

impl Entry {
    fn lists(&self) -> [(&'static str, &Vec<f32>); 8] {
        [
            ("adc_offsets", &self.adc_offsets),
            ("adc_slopes", &self.adc_slopes),
            ("time_offsets", &self.time_offsets),
            ("time_slopes", &self.time_slopes),
            ("timewalk_a", &self.timewalk_a),
            ("timewalk_b", &self.timewalk_b),
            ("timewalk_c", &self.timewalk_c),
            ("timewalk_d", &self.timewalk_d),
        ]
    }

    fn check(&self, at: usize, file: FileText<'_>, rules: ClockRules) -> Result<(), Refusal> {
        let no = |key: &str, value: String, allowed: &str| {
            Err(file.refuse(&format!("vmm_calibration[{at}].{key}"), value, allowed))
        };
        if !(1..FECS).contains(&self.fec) {
            return no("fecID", self.fec.to_string(), "1 to 15");
        }
        if self.vmm >= VMMS {
            return no("vmmID", self.vmm.to_string(), "0 to 15");
        }
        for (n, (key, list)) in self.lists().into_iter().enumerate() {
            let required = rules == ClockRules::Online && n < 4;
            if list.len() != CHANNELS && (required || !list.is_empty()) {
                let allowed = if required {
                    "64 numbers, one per channel"
                } else {
                    "64 numbers, one per channel, or none"
                };
                return no(key, format!("{} numbers", list.len()), allowed);
            }
            if let Some(n) = list.iter().position(|number| number.is_nan() || number.abs() > 1e9) {
                return no(&format!("{key}[{n}]"), list[n].to_string(), "numbers up to 1e9");
            }
        }
        Ok(())
    }
}

/// Reads `text` and gives its numbers to the channels of `layout`; VMMs that are not mapped are passed over.
pub(super) fn apply(layout: &mut Layout, text: &str, path: &str) -> Result<(), Refusal> {
    let file: File = text::parse(text, path)?;
    for (at, entry) in file.vmm_calibration.iter().enumerate() {
        entry.check(at, FileText { path, text }, layout.rules)?;
        let fec: &mut Fec = match &mut layout.fecs[entry.fec] {
            Some(fec) => fec,
            None => continue,
        };
        let none = || Box::new([Calibration::NONE; VMMS * CHANNELS]);
        let all = fec.calibrations.get_or_insert_with(none);
        for (channel, c) in all[entry.vmm * CHANNELS..][..CHANNELS].iter_mut().enumerate() {
            let [a, b, c2, d] = &mut c.walk;
            let cells = [
                &mut c.adc_offset,
                &mut c.adc_slope,
                &mut c.time_offset,
                &mut c.time_slope,
                a,
                b,
                c2,
                d,
            ];
            // The online chain has no time walk.
            let most = if layout.rules == ClockRules::Online { 4 } else { 8 };
            for (cell, (_, list)) in cells.into_iter().zip(entry.lists()).take(most) {
                if let Some(&number) = list.get(channel) {
                    *cell = number;
                }
            }
        }
    }
    Ok(())
}
