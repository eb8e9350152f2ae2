//! Commands of the control port: thresholds, and `NMX_GET_CALIB` of the event formation unit.
//!
//! Refuses channels outside the electronics, and those that are calibrated to nothing. Source: `control-and-monitoring.md`
//! section 3.3, `docs/operations.md`.

use crate::detector::{CommandError, CommandInfo};
use crate::thresholds;

use super::clock::Calibration;
use super::layout::{CHANNELS, FECS, Layout, VMMS};

/// Tells the calibration of a channel's time.
pub(super) const CALIBRATION: &str = "NMX_GET_CALIB";

/// All commands of a reader.
pub(super) fn commands() -> Vec<CommandInfo> {
    let mut all = thresholds::commands("hits");
    all.push(CommandInfo {
        name: CALIBRATION.into(),
        arguments: "FEC ASIC CHANNEL".into(),
        help: "offset, ns, and slope of a channel's time".into(),
        count: 3..=3,
        changes: false,
    });
    all
}

/// `offset: N slope: N` of a channel, as the unit of 2018 tells them.
///
/// # Errors
/// There is no such channel, or it is calibrated to nothing.
pub(super) fn calibration(layout: &Layout, arguments: &[&str]) -> Result<String, CommandError> {
    let [fec, vmm, channel] = arguments else {
        return Err(CommandError::Arguments(format!("{CALIBRATION} takes FEC ASIC CHANNEL")));
    };
    let number = |name: &str, text: &str, end: usize| {
        let found = text.parse::<usize>().ok().filter(|n| *n < end);
        found.ok_or_else(|| CommandError::Arguments(format!("{name} {text}: 0 to {}", end - 1)))
    };
    let fec = number("FEC", fec, FECS)?;
    let vmm = number("ASIC", vmm, VMMS)?;
    let channel = number("CHANNEL", channel, CHANNELS)?;
    let all = layout.fecs[fec].as_ref().and_then(|fec| fec.calibrations.as_deref());
    let c = all.map_or(Calibration::NONE, |all| all[vmm * CHANNELS + channel]);
    let [offset, slope] = [c.time_offset, c.time_slope].map(f64::from);
    // The unit takes such a pair for none.
    if offset.abs() <= 1e-6 && slope.abs() <= 1e-6 {
        let why = format!("FEC {fec}, ASIC {vmm}, channel {channel}: offset and slope are 0");
        return Err(CommandError::Arguments(why));
    }
    Ok(format!("offset: {offset:.6} slope: {slope:.6}"))
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;

    fn layout() -> Layout {
        let list = |first: &str, rest: &str| first.to_owned() + &format!(",{rest}").repeat(63);
        let text = format!(
            r#"{{"vmm_calibration": [{{"fecID": 1, "vmmID": 0, "adc_offsets": [{}], "adc_slopes": [{}],
                "time_offsets": [{}], "time_slopes": [{}]}}]}}"#,
            list("7", "8"),
            list("2", "3"),
            list("-12.25", "0"),
            list("0.1", "0"),
        );
        Layout::read("", "", (&text, "calibration"), &Options::default()).unwrap()
    }

    #[test]
    fn the_two_numbers_of_time_are_told_as_the_unit_of_2018_tells_them() {
        let layout = layout();
        let told = |arguments: &[&str]| calibration(&layout, arguments);
        // 0.1 is a number of 32 bits in the file, and six digits of it are shown.
        assert_eq!(told(&["1", "0", "0"]).unwrap(), "offset: -12.250000 slope: 0.100000");
        for default in [["1", "1", "0"], ["0", "0", "0"], ["15", "15", "63"]] {
            assert_eq!(told(&default).unwrap(), "offset: 0.000000 slope: 1.000000", "{default:?}");
        }
        for (bad, said) in [
            (&["1", "0", "1"][..], "FEC 1, ASIC 0, channel 1: offset and slope are 0"),
            (&["16", "0", "0"], "FEC 16: 0 to 15"),
            (&["1", "16", "0"], "ASIC 16: 0 to 15"),
            (&["1", "0", "64"], "CHANNEL 64: 0 to 63"),
            (&["x", "0", "0"], "FEC x: 0 to 15"),
            (&["1", "0"], "NMX_GET_CALIB takes FEC ASIC CHANNEL"),
        ] {
            assert_eq!(told(bad), Err(CommandError::Arguments(said.into())));
        }
        assert!(
            commands().iter().any(|c| c.name == CALIBRATION && !c.changes && c.count == (3..=3))
        );
    }
}
