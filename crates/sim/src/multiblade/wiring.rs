//! Which digitiser and channel a wire or strip of a simulated Multi-Blade has, and which pixel they make.
//!
//! Two set-ups, both an MB18 in Freia orientation with one digitiser per cassette: the six cassettes of
//! 32 wires and 32 strips that were recorded, and fifty of 32 wires and 64 strips. Wires are y, strips x;
//! even and odd channels are swapped. Refuses: other numbers of cassettes.
//! Source: `docs/formats/multiblade.md`, section 3.1.

use serde_json::{Value, json};

use crate::TrafficError;

/// Wires of a cassette.
pub const WIRES: u16 = 32;
/// Identifiers of the six digitisers of the prototype, by cassette.
const PROTOTYPE: [u32; 6] = [137, 143, 142, 31, 33, 34];
/// First identifier of the fifty.
const FIRST_OF_FIFTY: u32 = 1001;
/// The digitiser whose channel 62 is the beam monitor in this orientation.
const MONITOR: u32 = 137;
/// That channel.
pub const MONITOR_CHANNEL: u16 = 62;

/// A set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wiring {
    pub cassettes: u16,
    pub strips: u16,
}

/// A number of cassettes of which no set-up is known.
pub(super) fn cassettes_refused(cassettes: usize) -> TrafficError {
    TrafficError::value("modules", cassettes, "a Multi-Blade has 6 cassettes or 50")
}

impl Wiring {
    pub fn new(cassettes: usize) -> Result<Wiring, TrafficError> {
        match cassettes {
            6 => Ok(Wiring { cassettes: 6, strips: 32 }),
            50 => Ok(Wiring { cassettes: 50, strips: 64 }),
            other => Err(cassettes_refused(other)),
        }
    }

    /// Identifier of a cassette's digitiser.
    pub fn digitiser(&self, cassette: u16) -> u32 {
        match self.cassettes {
            6 => PROTOTYPE[usize::from(cassette)],
            _ => FIRST_OF_FIFTY + u32::from(cassette),
        }
    }

    /// An identifier that no cassette has.
    pub fn no_digitiser(&self) -> u32 {
        9999
    }

    /// Cassette whose digitiser the beam monitor is wired to; `None` if this set-up has none.
    pub fn monitor(&self) -> Option<u16> {
        (0..self.cassettes).find(|&c| self.digitiser(c) == MONITOR)
    }

    /// Strips of a cassette that neutrons may hit: not the one that is wired to the monitor.
    pub fn usable_strips(&self, cassette: u16) -> u16 {
        // Channel 62 is swapped to 63: the last strip of 32.
        if self.digitiser(cassette) == MONITOR { self.strips - 1 } else { self.strips }
    }

    pub fn wire_channel(&self, wire: u16) -> u16 {
        wire ^ 1
    }

    pub fn strip_channel(&self, strip: u16) -> u16 {
        (WIRES + strip) ^ 1
    }

    /// First channel that does not exist.
    pub fn channels(&self) -> u16 {
        WIRES + self.strips
    }

    /// Pixel number from 1.
    pub fn pixel(&self, cassette: u16, wire: u16, strip: u16) -> u32 {
        let y = u32::from(cassette) * u32::from(WIRES) + u32::from(wire);
        y * u32::from(self.strips) + u32::from(strip) + 1
    }

    pub fn pixels(&self) -> usize {
        usize::from(self.cassettes) * usize::from(WIRES) * usize::from(self.strips)
    }

    /// The configuration file that fits.
    pub fn configuration(&self) -> Value {
        let digitisers = (0..self.cassettes).map(|c| json!({"index": c, "id": self.digitiser(c)}));
        json!({
            "Detector": "MB18",
            "InstrumentGeometry": "Freia",
            "DigitizerConfig": digitisers.collect::<Vec<_>>(),
            "cassettes": self.cassettes,
            "wires": WIRES,
            "strips": self.strips,
            "TimeTickNS": super::TICK_NS,
        })
    }
}
