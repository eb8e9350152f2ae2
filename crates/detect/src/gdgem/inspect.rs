//! SRS frames for people: header fields, then one row per word.
//!
//! Same checks and same verdict as the reader, by the same functions. Rows hold what the format holds, raw; `marker` is the latest
//! time stamp of the hit's VMM (0 if none has come), over all frames that were shown. −1 where a field does not apply or the
//! geometry does not list the channel. Source: `docs/formats/gdgem.md` sections 2, 3 and 13.

use std::sync::Arc;

use fullcount_core::batch::Origin;

use super::layout::{CHANNELS, FECS, Layout, VMMS};
use super::packet::{self, Refusal, Word};
use crate::detector::{Inspected, Inspector};

/// Names of the columns of a row.
const COLUMNS: [&str; 15] = [
    "hit",
    "fec",
    "vmm",
    "offset",
    "channel",
    "bcid",
    "tdc",
    "adc",
    "over_threshold",
    "marker",
    "trigger_time",
    "trigger_count",
    "detector",
    "plane",
    "coordinate",
];

/// What one VMM has said.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    marker: i64,
    absolute: Option<i64>,
    counter: i64,
}

/// Shows frames with the places of a geometry.
pub(super) struct GemInspector {
    layout: Arc<Layout>,
    capacity: usize,
    triggered: bool,
    said: Box<[[Said; VMMS]; FECS]>,
}

impl GemInspector {
    pub fn new(layout: Arc<Layout>, capacity: usize, triggered: bool) -> GemInspector {
        GemInspector { layout, capacity, triggered, said: Default::default() }
    }

    fn fill(&mut self, shown: &mut Inspected, chunk: &[u8]) -> Result<(), Refusal> {
        let (header, words) = packet::frame(chunk)?;
        shown.header.extend([
            ("counter", header.counter.to_string()),
            ("fec", header.fec.to_string()),
            ("sent", header.sent.to_string()),
            ("overflow", format!("0x{:08x}", header.overflow)),
        ]);
        let (words, skipped) = packet::within(words, self.capacity);
        if !skipped.is_empty() {
            let remark = format!(
                "{} words behind {} hits are not read (detector.capacity)",
                skipped.len(),
                self.capacity
            );
            shown.header.push(("remark", remark));
        }
        let fec = usize::from(header.fec);
        shown.rows = words.iter().map(|raw| self.row(fec, Word::read(raw))).collect();
        Ok(())
    }

    fn row(&mut self, fec: usize, word: Word) -> Vec<i64> {
        if word.is_hit() { self.hit(fec, word) } else { self.marker(fec, word) }
    }

    fn marker(&mut self, fec: usize, word: Word) -> Vec<i64> {
        let (vmm, time) = (word.marker_vmm(), word.marker_time() as i64);
        let mut row = vec![-1; COLUMNS.len()];
        (row[0], row[1], row[2], row[9]) = (0, fec as i64, vmm as i64, time);
        let said = &mut self.said[fec][vmm % VMMS];
        if vmm < VMMS {
            said.marker = time;
        } else if self.triggered {
            (row[2], row[9]) = ((vmm - VMMS) as i64, -1);
            match word.event_counter() {
                Some(counter) => {
                    said.counter = i64::from(counter) + 1;
                    row[11] = i64::from(counter);
                }
                None => {
                    said.absolute = Some(time);
                    row[10] = time;
                }
            }
        }
        row
    }

    fn hit(&self, fec: usize, word: Word) -> Vec<i64> {
        let vmm = word.vmm();
        let said = self.said[fec].get(vmm).copied().unwrap_or_default();
        let fecs = self.layout.fecs[fec].as_ref().filter(|_| vmm < VMMS);
        let place = fecs.map(|f| f.places[vmm * CHANNELS + word.channel()]).filter(|p| p.is_used());
        let lane = place.map(|p| (p, self.layout.lanes[usize::from(p.lane)]));
        let [detector, plane, coordinate] = lane.map_or([-1; 3], |(p, lane)| {
            let id = self.layout.detectors[lane.detector].id;
            [i64::from(id), i64::from(lane.plane), i64::from(p.coordinate)]
        });
        let (time, count) = match self.triggered {
            true => (said.absolute.unwrap_or(-1), said.counter),
            false => (-1, -1),
        };
        vec![
            1,
            fec as i64,
            vmm as i64,
            word.offset() as i64,
            word.channel() as i64,
            i64::from(word.bcid()),
            i64::from(word.tdc()),
            i64::from(word.adc()),
            i64::from(word.over_threshold()),
            said.marker,
            time,
            count,
            detector,
            plane,
            coordinate,
        ]
    }
}

impl Inspector for GemInspector {
    fn inspect(&mut self, chunk: &[u8], _: Origin) -> Inspected {
        let mut shown = Inspected { columns: COLUMNS.to_vec(), ..Inspected::default() };
        if let Err(refusal) = self.fill(&mut shown, chunk) {
            shown.error = Some((refusal.class(), refusal.reason()));
        }
        shown
    }
}
