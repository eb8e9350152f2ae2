//! SRS frames for people: header fields, then one row per word.
//!
//! Same checks and same verdict as the reader, by the same functions. Rows hold what the format holds, raw; `marker` is the latest
//! time stamp of the hit's VMM (0 if none has come), over all frames that were shown; triggered firmware: the relative trigger
//! time. −1 where a field does not apply or the geometry does not list the channel; `row` is that of a pad, whose column is `coordinate`.
//! Refuses, with the counter of the reader, bad markers and hits that have no time. Source: `docs/formats/gdgem.md` sections 2, 3 and 13.

use std::sync::Arc;

use fullcount_core::batch::Origin;

use super::clock::{ClockRules, Offsets};
use super::counters::GdGemCount;
use super::layout::{CHANNELS, FECS, Layout, VMMS};
use super::options::Options;
use super::packet::{self, GdGemRefusal, Word};
use crate::detector::{Inspected, Inspector};

/// Names of the columns of a row.
const COLUMNS: [&str; 16] = [
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
    "row",
];

/// What one VMM has said.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    /// Of triggered firmware: the relative trigger time.
    marker: Option<i64>,
    absolute: Option<i64>,
    counter: i64,
}

/// A row, and why the word is refused.
type Shown = (Vec<i64>, Option<GdGemCount>);

/// Shows frames with the places of a geometry.
pub(super) struct GemInspector {
    layout: Arc<Layout>,
    capacity: usize,
    triggered: bool,
    convention: Offsets,
    said: Box<[[Said; VMMS]; FECS]>,
}

impl GemInspector {
    /// `options` have been checked.
    pub fn new(layout: Arc<Layout>, options: &Options) -> GemInspector {
        let usual = layout.rules.usual_offsets();
        GemInspector {
            capacity: options.capacity(layout.rules),
            triggered: options.triggered() == Ok(true),
            convention: options.convention().ok().flatten().unwrap_or(usual),
            layout,
            said: Default::default(),
        }
    }

    fn fill(&mut self, shown: &mut Inspected, chunk: &[u8]) -> Result<(), GdGemRefusal> {
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
        let names = GdGemCount::catalogue();
        for raw in words {
            let (row, refused) = self.row(fec, Word::read(raw));
            if let Some(count) = refused {
                shown.refused.push((shown.rows.len(), names[count as usize].name.to_string()));
            }
            shown.rows.push(row);
        }
        Ok(())
    }

    fn row(&mut self, fec: usize, word: Word) -> Shown {
        if word.is_hit() { self.hit(fec, word) } else { self.marker(fec, word) }
    }

    fn marker(&mut self, fec: usize, word: Word) -> Shown {
        let (vmm, time) = (word.marker_vmm(), word.marker_time() as i64);
        let mut row = vec![-1; COLUMNS.len()];
        (row[0], row[1], row[2], row[9]) = (0, fec as i64, vmm as i64, time);
        let said = &mut self.said[fec][vmm % VMMS];
        let bad = match self.triggered {
            true => vmm < VMMS && word.marker_time() > packet::MOST_RELATIVE,
            false => vmm >= VMMS,
        };
        if bad {
            return (row, Some(GdGemCount::BadMarker));
        }
        if vmm < VMMS {
            said.marker = Some(time);
            return (row, None);
        }
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
        (row, None)
    }

    fn hit(&self, fec: usize, word: Word) -> Shown {
        let vmm = word.vmm();
        let said = self.said[fec].get(vmm).copied().unwrap_or_default();
        let (time, count) = match self.triggered {
            true => (said.absolute.unwrap_or(-1), said.counter),
            false => (-1, -1),
        };
        let [detector, plane, coordinate, row] = self.place(fec, word);
        let row = vec![
            1,
            fec as i64,
            vmm as i64,
            word.offset() as i64,
            word.channel() as i64,
            i64::from(word.bcid()),
            i64::from(word.tdc()),
            i64::from(word.adc()),
            i64::from(word.over_threshold()),
            said.marker.unwrap_or(0),
            time,
            count,
            detector,
            plane,
            coordinate,
            row,
        ];
        let timed = self.has_time(said) && self.convention.periods(word.offset()).is_some();
        (row, (!timed).then(|| GdGemCount::untimed(word, self.convention)))
    }

    /// Detector, plane, strip or column, and row of a pad.
    fn place(&self, fec: usize, word: Word) -> [i64; 4] {
        let vmm = word.vmm();
        let fec = self.layout.fecs[fec].as_ref().filter(|_| vmm < VMMS);
        let place = fec.map(|fec| fec.places[vmm * CHANNELS + word.channel()]);
        let Some(place) = place.filter(|place| place.is_used()) else { return [-1; 4] };
        let lane = self.layout.lanes[usize::from(place.lane)];
        let detector = &self.layout.detectors[lane.detector];
        let row = if detector.pads { i64::from(place.second) } else { -1 };
        [i64::from(detector.id), i64::from(lane.plane), i64::from(place.coordinate), row]
    }

    /// True if the hits of a VMM that has said this have a time, whatever their offset.
    fn has_time(&self, said: Said) -> bool {
        // The online chain takes a marker of 0 for none.
        let zero = !self.triggered && self.layout.rules == ClockRules::Online;
        let marker = said.marker.is_some_and(|time| time != 0 || !zero);
        marker && (said.absolute.is_some() || !self.triggered)
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
