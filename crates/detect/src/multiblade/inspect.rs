//! Multi-Blade packets for people: header fields, then one row per readout.
//!
//! Same checks and same verdict as the reader, by the same functions. Rows hold what the format holds: raw
//! ticks, channel, amplitude; then where the geometry puts them, −1 where it does not. Source:
//! `docs/formats/multiblade.md` section 2.

use std::sync::Arc;

use fullcount_core::batch::Origin;

use super::layout::{Layout, Use};
use super::packet::{self, MultiBladeHeader, MultiBladeRefusal, Readout};
use crate::detector::{Inspected, Inspector};

/// Shows packets with the places of a geometry.
pub(super) struct BladeInspector {
    pub layout: Arc<Layout>,
}

impl Inspector for BladeInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let columns = vec!["time", "channel", "adc", "cassette", "plane", "coordinate"];
        let mut shown = Inspected { columns, ..Inspected::default() };
        if let Err(refusal) = self.fill(&mut shown, chunk) {
            shown.error = Some((refusal.class().word(), refusal.reason()));
        }
        shown
    }
}

impl BladeInspector {
    fn fill(&self, shown: &mut Inspected, chunk: &[u8]) -> Result<(), MultiBladeRefusal> {
        let header = packet::read_header(chunk)?;
        header_fields(&header, &mut shown.header);
        packet::check(&header)?;
        let elements = packet::elements(&header, chunk)?;
        let board = self.layout.boards.get(header.digitizer);
        if board.is_none() {
            shown.header.push(("remark", "this digitiser is not in the geometry".to_owned()));
        }
        shown.rows.extend(elements.iter().map(|element| {
            let r = Readout::read(*element);
            let channel = board.and_then(|board| board.get(usize::from(r.channel)));
            let place = match channel {
                Some(c) if c.role == Use::Monitor => [i64::from(c.cassette), -1, -1],
                Some(c) if c.role != Use::Nothing => {
                    [i64::from(c.cassette), i64::from(c.plane), i64::from(c.coordinate)]
                }
                _ => [-1, -1, -1],
            };
            let [cassette, plane, coordinate] = place;
            let raw = [i64::from(r.time), i64::from(r.channel), i64::from(r.adc)];
            vec![raw[0], raw[1], raw[2], cassette, plane, coordinate]
        }));
        Ok(())
    }
}

fn header_fields(header: &MultiBladeHeader, fields: &mut Vec<(&'static str, String)>) {
    fields.extend([
        ("runID", header.run_id.to_string()),
        ("globalTime", header.global_time.to_string()),
        ("digitizerID", header.digitizer.to_string()),
        ("elementType", format!("0x{:04x}", header.element_type)),
        ("numElements", header.elements.to_string()),
        ("version", format!("0x{:04x}", header.version)),
        ("seqNum", header.sequence.to_string()),
    ]);
}
