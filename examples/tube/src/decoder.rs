//! The decoder of tubes: one pixel for each position of each tube.
//!
//! Refuses packets of another form, readouts outside the tubes, and tubes outside 1 to 256.

use fullcount_core::refusal::{Refusal, setting};
use std::io;
use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::bytes::Bytes;
use fullcount_core::detector::sample::sender;
use fullcount_core::detector::{
    Clock, Decoder, Detector, DetectorSample, Inspected, Inspector, Kind, Setup, Sharding, Threads,
};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::{Products, Want};
use fullcount_core::progress::Flush;
use fullcount_core::sequence::numbering::Numbering;
use fullcount_core::time::{Nanos, PulseTime, TickLength};
use fullcount_core::view::{PixelMap, Plot, PlotKind};

/// Positions along a tube.
pub const POSITIONS: u32 = 64;
const HEADER: usize = 12;
const READOUT: usize = 8;

fullcount_core::counters! {
    /// Counters of the decoder.
    pub enum Count {
        Packets "decode.packets" Packets Sum "decode" In "packets read" "";
        Accepted "decode.accepted" Packets Sum "decode" Accepted "packets decoded" "";
        Form "errors.form" Packets Sum "decode" Rejected "packets that are not of tubes" "check who sends to this port";
        Readouts "readouts.count" Readouts Sum "geometry" In "readouts in accepted packets" "";
        Events "events.count" Readouts Sum "geometry" Accepted "readouts that are events" "";
        Outside "readouts.outside_tubes" Readouts Sum "geometry" Rejected "readouts outside the tubes" "compare `tubes` with the detector";
    }
}

/// The kind for the registry.
pub struct Tube;

/// The geometry file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Geometry {
    tubes: u32,
}

impl Kind for Tube {
    fn name(&self) -> &'static str {
        "tube"
    }

    fn about(&self) -> &'static str {
        "position-sensitive tubes (an example)"
    }

    fn clock(&self) -> Clock {
        Clock::Absolute
    }

    fn carries_pulses(&self) -> bool {
        true
    }

    fn looks_right(&self, chunk: &[u8]) -> bool {
        parse(chunk).is_some()
    }

    fn sample(&self) -> DetectorSample {
        // A pulse a packet, with one readout.
        let packet = |_, n: u64| {
            let readout = [n as u8 % 8, 0, n as u8 % 64, 0, 16, 39, 0, 0];
            let bytes = [&b"TUBE"[..], &(71_428_571 * n).to_le_bytes(), &readout].concat();
            (bytes, sender(1, 9000))
        };
        DetectorSample {
            geometry: "tubes = 8",
            calibration: "",
            options: "",
            streams: 1,
            numbers: 1,
            flagged: false,
            packet,
        }
    }

    fn configure(&self, setup: &Setup) -> Result<Box<dyn Detector>, Refusal> {
        let value = |key: &str, value: String, allowed: &str| setting(key, value, allowed);
        if !setup.options.trim().is_empty() {
            return Err(value("detector", setup.options.clone(), "tubes have no options"));
        }
        let text = if setup.geometry.trim().is_empty() { "tubes = 8" } else { &setup.geometry };
        let read: Result<Geometry, _> = toml::from_str(text);
        let syntax =
            |e: toml::de::Error| Refusal::Syntax(format!("{}: {}", setup.geometry_path.clone(), e));
        let Geometry { tubes } = read.map_err(syntax)?;
        if !(1..=256).contains(&tubes) {
            return Err(value("geometry tubes", tubes.to_string(), "1 to 256"));
        }
        Ok(Box::new(TubeDetector { tubes, source_text: setup.geometry.clone() }))
    }
}

struct TubeDetector {
    tubes: u32,
    source_text: String,
}

impl Detector for TubeDetector {
    fn name(&self) -> &str {
        "tube"
    }

    fn decoder(&self, _: Want, _: &Threads) -> io::Result<Box<dyn Decoder>> {
        Ok(Box::new(TubeDecoder { tubes: self.tubes, sheet: Sheet::new(Count::catalogue()) }))
    }

    // No readout depends on another one.
    fn sharding(&self) -> Sharding {
        Sharding::ByKey
    }

    // Its packets have no numbers: losses on the way cannot be detected.
    fn numbering(&self) -> Option<Numbering> {
        None
    }

    fn tick(&self) -> (TickLength, bool) {
        (TickLength::NANOSECOND, false)
    }

    fn pixels(&self) -> PixelMap {
        let all = 0..self.tubes * POSITIONS;
        PixelMap {
            name: "tube".into(),
            columns: POSITIONS,
            rows: self.tubes,
            cell: all.clone().collect(),
            x_m: all.clone().map(|i| 0.01 * f64::from(i % POSITIONS)).collect(),
            y_m: all.map(|i| -0.03 * f64::from(i / POSITIONS)).collect(),
            source_text: self.source_text.clone(),
            ..PixelMap::default()
        }
    }

    fn plots(&self) -> Vec<Plot> {
        let (id, title) = ("image".to_owned(), "Tubes".to_owned());
        vec![Plot { id, title, kind: PlotKind::Image, gates: Vec::new(), log: false }]
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        Box::new(TubeInspector)
    }
}

/// Pulse time and readouts; `None`: not the packet of a tube.
fn parse(chunk: &[u8]) -> Option<(i64, &[u8])> {
    let mut bytes = Bytes::new(chunk);
    let magic = bytes.take(4)? == b"TUBE";
    let pulse = i64::try_from(bytes.le64()?).ok()?;
    let whole = (chunk.len() - HEADER).is_multiple_of(READOUT);
    (magic && whole).then_some((pulse, bytes.rest()))
}

/// Tube, position and time after the pulse of each readout.
fn readouts(bytes: &[u8]) -> impl Iterator<Item = [u32; 3]> {
    bytes.chunks_exact(READOUT).map(|readout| {
        let mut bytes = Bytes::new(readout);
        let (tube, position) = (bytes.le16().unwrap_or(0), bytes.le16().unwrap_or(0));
        [tube.into(), position.into(), bytes.le32().unwrap_or(0)]
    })
}

struct TubeDecoder {
    tubes: u32,
    sheet: Arc<Sheet>,
}

impl Decoder for TubeDecoder {
    fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, products: &mut Products) {
        let trains = batch.iter().flat_map(|batch| batch.trains());
        for chunk in trains.flat_map(|train| train.chunks()) {
            self.sheet.add(Count::Packets as usize, 1);
            let Some((pulse, bytes)) = parse(chunk) else {
                self.sheet.add(Count::Form as usize, 1);
                continue;
            };
            self.sheet.add(Count::Accepted as usize, 1);
            products.events.open_pulse(PulseTime(pulse));
            let (mut events, mut outside) = (0, 0);
            for [tube, position, offset_ns] in readouts(bytes) {
                // Offsets have 31 bits.
                if tube < self.tubes && position < POSITIONS && offset_ns < 1 << 31 {
                    products.events.push(offset_ns, tube * POSITIONS + position + 1);
                    events += 1;
                } else {
                    outside += 1;
                }
            }
            self.sheet.add(Count::Readouts as usize, events + outside);
            self.sheet.add(Count::Events as usize, events);
            self.sheet.add(Count::Outside as usize, outside);
        }
    }

    // No readout waits.
    fn flush(&mut self, _: Flush, _: &mut Products) {}

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.sheet.clone()]
    }
}

struct TubeInspector;

impl Inspector for TubeInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let Some((pulse, bytes)) = parse(chunk) else {
            return Inspected { error: Some(("form", "no packet of tubes")), ..Default::default() };
        };
        Inspected {
            header: vec![("pulse_ns", pulse.to_string())],
            columns: vec!["tube", "position", "offset_ns"],
            rows: readouts(bytes).map(|row| row.map(i64::from).to_vec()).collect(),
            ..Inspected::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullcount_core::detector::conformance;

    #[test]
    fn it_passes_the_suite_that_every_detector_must_pass() {
        let packet = |pulse: u64, readouts: &[[u16; 2]]| {
            let mut packet = [&b"TUBE"[..], &pulse.to_le_bytes()].concat();
            for (n, [tube, position]) in readouts.iter().enumerate() {
                packet.extend([tube.to_le_bytes(), position.to_le_bytes()].concat());
                packet.extend((1000 * n as u32).to_le_bytes());
            }
            (packet, Origin::NONE)
        };
        let packets =
            [packet(5, &[[0, 0], [7, 63], [8, 0], [0, 64]]), packet(5, &[]), packet(9, &[[1, 1]])];
        let report = conformance::check(&Tube, &Setup::default(), &packets, 5000, 7).unwrap();
        assert_eq!(report.events, 3);
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        let said = |geometry: &str, options: &str| {
            let (geometry, options) = (geometry.to_owned(), options.to_owned());
            let setup = Setup { geometry, options, ..Setup::default() };
            Tube.configure(&setup).err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert!(said("tubes = 257", "").contains("257 is not allowed: 1 to 256"));
        assert!(said("tube = 1", "").contains("unknown field"));
        assert!(said("", "window = 1").contains("no options"));
    }
}
