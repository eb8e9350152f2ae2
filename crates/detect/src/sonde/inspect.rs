//! SoNDe packets for people: header and sub-header fields, then one row per readout.
//!
//! Same checks and same verdict as the reader, by the same functions. Rows hold what the format holds:
//! raw 32-bit ticks, the pixel (0 for "no pixel"), the ADC value (1 where the mode has none).
//! Source: `docs/formats/sonde.md`, section 7.

use std::sync::Arc;

use fullcount_core::batch::Origin;

use super::layout::Layout;
use super::packet::{self, Body, ENTRY_BYTES, SAMPLE_BYTES, SondeHeader, SondeRefusal};
use super::pixel;
use crate::detector::{Inspected, Inspector};

/// Shows packets of senders in a geometry.
pub(super) struct SondeInspector {
    pub layout: Arc<Layout>,
}

impl Inspector for SondeInspector {
    fn inspect(&mut self, chunk: &[u8], origin: Origin) -> Inspected {
        let mut shown = Inspected { columns: vec!["time", "pixel", "adc"], ..Inspected::default() };
        if let Err(refusal) = self.fill(&mut shown, chunk, origin) {
            shown.error = Some((refusal.class().word(), refusal.reason()));
        }
        shown
    }
}

impl SondeInspector {
    fn fill(
        &self,
        shown: &mut Inspected,
        chunk: &[u8],
        origin: Origin,
    ) -> Result<(), SondeRefusal> {
        let header = packet::header(chunk)?;
        header_fields(&header, &mut shown.header);
        let mode = packet::mode(&header, chunk)?;
        sub_header_fields(mode, chunk, &mut shown.header);
        let offset = self.layout.offset(origin, header.system);
        let row = |time: u32, pixel: Option<u32>, adc: u16| {
            let pixel = offset.zip(pixel).map_or(0, |(offset, pixel)| offset + pixel);
            vec![i64::from(time), i64::from(pixel), i64::from(adc)]
        };
        match packet::body(mode, chunk)? {
            Body::TriggerTime { entries } => {
                shown.rows.extend(entries.chunks_exact(ENTRY_BYTES).map(|e| {
                    let pixel = pixel::pixel(e[4] >> 6, e[4] & 63);
                    row(u32::from_be_bytes([e[0], e[1], e[2], e[3]]), pixel, 1)
                }));
            }
            Body::SingleEvent { samples, .. } => {
                shown.rows.extend(samples.chunks_exact(2).enumerate().map(|(i, s)| {
                    let asic = u8::try_from(i / 16).unwrap_or(u8::MAX);
                    let pixel = pixel::pixel(asic, (i % 16) as u8);
                    row(header.timestamp, pixel, u16::from_be_bytes([s[0], s[1]]))
                }));
            }
            Body::MultiEvent { per_event, data, trailing, .. } => {
                for event in data.chunks_exact(packet::event_bytes(per_event)) {
                    let time = u32::from_be_bytes([event[0], event[1], event[2], event[3]]);
                    shown.rows.extend(event[4..].chunks_exact(SAMPLE_BYTES).map(|s| {
                        row(time, pixel::pixel(s[1], s[2]), u16::from_be_bytes([s[3], s[4]]))
                    }));
                }
                shown.header.push(("trailing_bytes", trailing.to_string()));
            }
        }
        Ok(())
    }
}

fn header_fields(header: &SondeHeader, fields: &mut Vec<(&'static str, String)>) {
    fields.extend([
        // Check 2 refuses every other version.
        ("version", "0".to_owned()),
        ("system", header.system.to_string()),
        ("type", format!("0x{:02x}", header.packet_type)),
        ("seq_flag", header.flag.to_string()),
        ("seq_count", header.count.to_string()),
        ("timestamp", header.timestamp.to_string()),
        ("length", header.length.to_string()),
    ]);
}

/// Sub-header fields as far as they are there: a refused packet shows what it claims.
fn sub_header_fields(
    mode: packet::SondeMode,
    chunk: &[u8],
    fields: &mut Vec<(&'static str, String)>,
) {
    let mut bytes = fullcount_core::bytes::Bytes::new(&chunk[packet::HEADER_BYTES..]);
    let mut show = |name, value: Option<u16>| fields.extend(value.map(|v| (name, v.to_string())));
    match mode {
        packet::SondeMode::TriggerTime => show("entries", bytes.u8().map(u16::from)),
        packet::SondeMode::SingleEvent => {
            show("source", bytes.u8().map(u16::from));
            show("trigger_type", bytes.u8().map(u16::from));
            show("channel", bytes.u8().map(u16::from));
            show("hold_delay", bytes.be16());
            show("samples", bytes.be16());
        }
        packet::SondeMode::MultiEvent => {
            show("events", bytes.u8().map(u16::from));
            show("samples_per_event", bytes.be16());
        }
    }
}
