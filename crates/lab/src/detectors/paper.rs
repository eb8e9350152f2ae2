//! What the public C++ event formation did in 2018, to stand beside ours.
//!
//! Source: M. J. Christensen et al., "Software-based data acquisition and processing for neutron detectors at
//! European Spallation Source – early experience from four detector designs", 2018, table 5 and section 5, as
//! given in `docs/formats/sonde.md`, `multigrid.md`, `multiblade.md` and `gdgem.md`. Cores of a 2.4 GHz Xeon
//! E5-2620 v3, recorded data replayed over UDP, whole chain with output. Refuses: nothing.

/// One row of the paper's table; `None`: not given there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Detector as we call it.
    pub detector: &'static str,
    /// Packets/s.
    pub packets: Option<f64>,
    /// Bytes of a packet.
    pub packet_bytes: Option<f64>,
    /// Readouts/s.
    pub readouts: Option<f64>,
    /// Triggers/s.
    pub triggers: Option<f64>,
    /// Events/s, least and most.
    pub events: Option<(f64, f64)>,
    /// Cores used.
    pub cores: u32,
    /// What was measured there.
    pub about: &'static str,
}

/// What three of the rows are.
const WHOLE: &str = "UDP, whole chain";

/// The rows.
const PUBLISHED: [Published; 4] = [
    Published {
        detector: "sonde",
        packets: Some(94e3),
        // 1307 bytes of frame, 1261 of them UDP payload.
        packet_bytes: Some(1261.0),
        readouts: Some(23.5e6),
        triggers: None,
        events: Some((23.5e6, 23.5e6)),
        cores: 2,
        about: WHOLE,
    },
    Published {
        detector: "multigrid",
        packets: Some(86e3),
        packet_bytes: Some(1137.0),
        readouts: None,
        triggers: Some(3.0e6),
        events: Some((2.46e6, 2.46e6)),
        cores: 1,
        about: WHOLE,
    },
    Published {
        detector: "multiblade",
        packets: Some(82e3),
        packet_bytes: None,
        readouts: Some(5.6e6),
        triggers: None,
        events: Some((2.31e6, 2.31e6)),
        cores: 2,
        about: WHOLE,
    },
    Published {
        detector: "gdgem",
        packets: None,
        packet_bytes: None,
        readouts: Some(18.6e6),
        triggers: None,
        // "0.5 to 1 million".
        events: Some((0.5e6, 1e6)),
        cores: 1,
        about: "the algorithm alone",
    },
];

/// The paper's row of a detector.
pub fn published(detector: &str) -> Option<Published> {
    PUBLISHED.into_iter().find(|p| p.detector == detector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_designs_are_there_and_events_follow_from_packets() {
        for kind in ["sonde", "multigrid", "multiblade", "gdgem"] {
            assert_eq!(published(kind).map(|p| p.detector), Some(kind));
        }
        let sonde = published("sonde").unwrap();
        assert_eq!(sonde.packets.map(|p| (p * 250.0, p * 250.0)), sonde.events);
        let gem = published("gdgem").unwrap();
        assert_eq!(gem.events, Some((0.5e6, 1e6)), "a range");
        assert_eq!(published("sequence"), None);
    }
}
