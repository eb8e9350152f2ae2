//! ev44 and ev42: NXevent_data.
//!
//! The columns of a message go into a block of the [`EventGroup`] in one copy; no event is looked at but for the largest and smallest pixel, unless a message has one that is not in
//! `detector_number`. Refuses (and counts) such events, offsets and pixels beyond int32, pulses before 1970.
//! Source: `docs/formats/nexus.md` sections 1, 4, 6 and 8.

use std::sync::Arc;

use hdf5_metno::{Group, Result};

use super::super::behind::Behind;
use super::super::column::StoredColumn;
use super::super::pixels::PixelSet;
use super::{Seen, Stopped, Unfit, Writer};
use fullcount_messages::EventView;
use fullcount_nexus::events::{EventGroup, EventWay};
use fullcount_nexus::file::FileStream;

/// What became of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EventCounts {
    /// In the file, or on their way.
    pub(crate) taken: u64,
    /// In the file up to the last commit.
    pub(crate) committed: u64,
    /// Not in `detector_number`.
    pub(crate) outside_pixels: u64,
    /// Too long after their pulse.
    pub(crate) offset_range: u64,
    /// Of pixels that `event_id` (int32) cannot hold.
    pub(crate) pixel_range: u64,
    /// Of pulses before 1970.
    pub(crate) before_1970: u64,
}

impl EventCounts {
    /// What is not in the file, of all reasons.
    pub(crate) fn rejected(&self) -> u64 {
        self.outside_pixels + self.offset_range + self.pixel_range + self.before_1970
    }
}

#[derive(Debug)]
pub(super) struct Events {
    group: EventGroup,
    pixels: Option<Arc<PixelSet>>,
    /// Without those in the file.
    refused: EventCounts,
    /// Events of one message that are left when some were refused.
    kept: (Vec<[u8; 4]>, Vec<[u8; 4]>),
}

impl Events {
    pub(super) fn open(
        group: &Group,
        chunk: usize,
        cue_interval: u64,
        pixels: Option<Arc<PixelSet>>,
        way: EventWay,
    ) -> Result<Events> {
        // Many groups of a run have few events: memory is taken when they come.
        let group = EventGroup::open(group, chunk, cue_interval, way, 0)?;
        Ok(Events { group, pixels, refused: EventCounts::default(), kept: Default::default() })
    }

    fn take(&mut self, view: &EventView<'_>) -> Result<()> {
        let pixels_fit = match (&self.pixels, view.pixel) {
            (Some(set), Some(pixel)) => set.holds_all(pixel),
            (Some(set), None) => view.events() == 0 || set.holds(1),
            (None, _) => true,
        };
        // What is signed fits by its type; a fold without early exit becomes vector code.
        let sign = |all: u8, t: &[u8; 4]| all | t[3];
        let columns = [view.time_of_flight, view.pixel.unwrap_or(&[])];
        let fits = |column: &[[u8; 4]]| column.iter().fold(0, sign) < 0x80;
        let clean = pixels_fit && (!view.unsigned || columns.into_iter().all(fits));
        let ends = view.pulses.iter().skip(1).map(|p| p.1).chain([view.events()]);
        for (&(time, first), end) in view.pulses.iter().zip(ends) {
            let Ok(zero) = u64::try_from(time) else {
                self.refused.before_1970 += (end - first) as u64;
                continue;
            };
            self.group.open_pulse(zero);
            let offsets = &view.time_of_flight[first..end];
            let pixel = view.pixel.map(|pixel| &pixel[first..end]);
            if clean {
                self.group.append_bytes(pixel, offsets)?;
            } else {
                self.append_some(pixel, offsets, view.unsigned)?;
            }
        }
        Ok(())
    }

    fn append_some(
        &mut self,
        pixel: Option<&[[u8; 4]]>,
        offsets: &[[u8; 4]],
        unsigned: bool,
    ) -> Result<()> {
        let (mut ids, mut times) = std::mem::take(&mut self.kept);
        for (i, &time) in offsets.iter().enumerate() {
            let id = pixel.map_or(1_i32.to_le_bytes(), |pixel| pixel[i]);
            if unsigned && id[3] >= 0x80 {
                // Written it would be a negative pixel, and could even be one of the detector's.
                self.refused.pixel_range += 1;
            } else if self.pixels.as_ref().is_some_and(|set| !set.holds(i32::from_le_bytes(id))) {
                self.refused.outside_pixels += 1;
            } else if unsigned && time[3] >= 0x80 {
                self.refused.offset_range += 1;
            } else {
                ids.push(id);
                times.push(time);
            }
        }
        let outcome = self.group.append_bytes(Some(&ids), &times);
        ids.clear();
        times.clear();
        self.kept = (ids, times);
        outcome
    }
}

impl FileStream for Events {
    fn hand_in(&mut self) -> Result<()> {
        self.group.hand_in()
    }

    fn settle(&mut self) -> Result<()> {
        self.group.settle()
    }

    fn columns(&mut self) -> Vec<&mut dyn StoredColumn> {
        self.group.columns()
    }

    fn totals(&mut self) -> Result<()> {
        self.group.totals()
    }

    fn committed(&mut self) {
        FileStream::committed(&mut self.group);
    }
}

impl Writer for Events {
    fn write(&mut self, message: &Seen<'_>) -> std::result::Result<(), Stopped> {
        let Seen::Events(view) = message else { return Err(Unfit::Shape.into()) };
        Ok(self.take(view)?)
    }

    fn behind(&self, at: i64) -> Result<Behind> {
        let (zero, index, events) = self.group.pulses();
        Behind::of_events(zero, index, events, at)
    }

    fn close(&mut self, start_ns: u64) -> Result<()> {
        self.group.close_pulses(start_ns)
    }

    fn urgent(&self) -> bool {
        self.group.is_urgent()
    }

    fn events(&self) -> Option<EventCounts> {
        let (taken, committed) = (self.group.events(), self.group.committed());
        Some(EventCounts { taken, committed, ..self.refused })
    }
}
