//! What a detector is configured with, and how a configuration is refused.

use fullcount_instructions::Instructions;

use crate::refusal::{Refusal, setting};
use crate::time::{Nanos, PulseGrid, TickLength};

/// `[time]` of the configuration as detectors need it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeBase {
    /// Where the detector's tick 0 lies, ns since 1970.
    pub epoch: Nanos,
    /// Grid that owns the events: configured pulses, or reference blocks of 2³⁰ ns. [`PulseGrid::around`] says to which one a time
    /// belongs: [`open_pulse`](crate::products::EventBatch::open_pulse) with that, and push the difference.
    pub grid: PulseGrid,
    /// True if the pulses in the data own them (`pulse = "data"`); the grid then serves what lies before
    /// the first pulse or too far behind one.
    pub pulses_in_data: bool,
    /// Tick length from the configuration, for detectors whose format does not state one.
    pub tick: Option<TickLength>,
    /// True for `[time] epoch = "now"`: times are those of the host. Where the format is [`Clock::Local`](super::Clock::Local) the decoder takes the
    /// packets' arrival; else others join both clocks, and tick 0 is 0 here.
    pub now: bool,
}

impl Default for TimeBase {
    fn default() -> Self {
        let epoch = Nanos(0);
        let grid = PulseGrid::reference_blocks(epoch);
        TimeBase { epoch, grid, pulses_in_data: false, tick: None, now: false }
    }
}

impl TimeBase {
    /// True if no pulses are configured: blocks of a fixed length own the events.
    pub fn has_no_pulses(&self) -> bool {
        let blocks = [PulseGrid::reference_blocks(self.epoch), PulseGrid::live_blocks(self.epoch)];
        blocks.contains(&self.grid)
    }

    /// Refuses `pulse = "data"` for a detector whose format carries no pulses.
    ///
    /// # Errors
    /// Key, value and what is allowed.
    pub fn without_pulses(&self, kind: &str) -> Result<(), Refusal> {
        if !self.pulses_in_data {
            return Ok(());
        }
        Err(setting(
            "time.pulse",
            "data",
            format!("none or grid(PERIOD): {kind} readouts carry no pulses"),
        ))
    }
}

/// What a detector is configured with: plain text, as a plugin would get it.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Text of the geometry file (TOML or the published JSON), empty if none was given.
    pub geometry: String,
    /// Its path, for messages.
    pub geometry_path: String,
    /// Text of the calibration file, empty if none was given.
    pub calibration: String,
    /// Its path, for messages.
    pub calibration_path: String,
    /// Remaining keys of `[detector]` as TOML text, put together from file and command line: its lines are nobody's, so a refusal
    /// says `detector` and the key in place of a line.
    pub options: String,
    /// `[time]`.
    pub time: TimeBase,
    /// `engine.instructions`: what loops of a decoder use that are compiled for several sets. Never changes a result.
    pub instructions: Instructions,
}
