//! What the options come to: how hits become clusters and events, which part of the detector is taken, and what may wait.
//!
//! Source: `docs/formats/gdgem.md` section 14.1.

use std::ops::RangeInclusive;

/// Time that is used for matching (`-coin`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Coin {
    #[default]
    CenterOfMass,
    Utpc,
    Charge2,
}

/// Which of a cluster's positions and times make the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Position {
    #[default]
    CenterOfMass,
    Utpc,
    Charge2,
    Algo,
}

/// What one detector's hits go through (section 14.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    /// `-dt` by plane, ns.
    pub time_gap: [f64; 2],
    /// `-th`: smallest amplitude without the flag; 65535 for a negative one.
    pub threshold: u16,
    /// `-cs`.
    pub cluster_size: f64,
    /// `-ccs`.
    pub coincident_size: f64,
    /// `-mst`, `-mp0`.
    pub missing: f64,
    /// `-mp1`.
    pub missing_second: f64,
    /// `-spc`, ns.
    pub span: f64,
    /// `-dp`, ns.
    pub plane_gap: f64,
    /// `-crl`, `-cru`.
    pub ratio: (f64, f64),
    pub coin: Coin,
    pub algo: u8,
    /// `-hm`.
    pub multiplicity: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            time_gap: [200.0; 2],
            threshold: 0,
            cluster_size: 1.0,
            coincident_size: 1.0,
            missing: 1.0,
            missing_second: 1.0,
            span: 500.0,
            plane_gap: 200.0,
            ratio: (0.5, 2.0),
            coin: Coin::CenterOfMass,
            algo: 0,
            multiplicity: false,
        }
    }
}

impl Parameters {
    /// Largest distance to the hit before, ns; planes behind the second have that of the second.
    pub fn time_gap(&self, plane: u8) -> f64 {
        self.time_gap[usize::from(plane.min(1))]
    }
}

/// Part of the detector that this process takes.
pub(super) struct Region {
    /// Strips of plane 0.
    pub hits: RangeInclusive<u16>,
    /// Smallest and largest x of an event.
    pub events: [u16; 2],
}

/// Bounds on what may wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    /// Hits that wait for the border.
    pub waiting: usize,
    /// Hits of a run without a gap.
    pub run_hits: usize,
    /// ns from the first to the last hit of a run.
    pub run_span: f64,
    /// Without readouts for so long, live, what waits is released, ns.
    pub idle: i64,
}

/// Beyond the horizon.
pub(super) const IDLE_NS: i64 = 1_000_000_000;

impl Default for Limits {
    fn default() -> Self {
        Limits { waiting: 8_000_000, run_hits: 4096, run_span: 1e6, idle: IDLE_NS }
    }
}
