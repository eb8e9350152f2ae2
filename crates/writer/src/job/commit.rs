//! A job's flushes: first the file, then the journal says where the job is.
//!
//! Source: `docs/decisions`, write journal.

use super::{Astray, FlushError, Job, Stream};
use crate::WriteCounter;
use crate::journal::{Journals, Progress, to_hex};
use fullcount_nexus::NexusError;

impl Job {
    /// Events that are in the file, but not yet flushed.
    pub(crate) fn waiting(&self) -> u64 {
        let events = self.file.events();
        events.taken - events.committed
    }

    /// Brings the counters of events up to date.
    pub(super) fn account(&mut self) {
        let (now, was) = (self.file.events(), self.reported);
        let outside = now.outside_pixels - was.outside_pixels;
        let range = now.offset_range - was.offset_range;
        let pixel = now.pixel_range - was.pixel_range;
        let before = now.before_1970 - was.before_1970;
        let add = |counter: WriteCounter, n: u64| self.sheet.add(counter as usize, n);
        add(WriteCounter::EventsIn, now.taken - was.taken + now.rejected() - was.rejected());
        add(WriteCounter::Events, now.committed - was.committed);
        add(WriteCounter::OutsidePixels, outside);
        add(WriteCounter::OffsetRange, range);
        add(WriteCounter::PixelRange, pixel);
        add(WriteCounter::Before1970, before);
        self.reported = now;
    }

    /// True if it is time to flush.
    pub(crate) fn is_due(&self, now_ms: u64, interval_ms: u64) -> bool {
        now_ms.saturating_sub(self.flushed_ms) >= interval_ms || self.file.urgent()
    }

    /// Flushes the file, then writes down where the job is.
    pub(crate) fn flush(&mut self, now_ms: u64, journals: &Journals) -> Result<(), FlushError> {
        self.flushed_ms = now_ms;
        if self.commit()? {
            self.moved = true;
            self.count(WriteCounter::Flushes);
        }
        self.account();
        if self.moved {
            journals.advance(&self.order.job_id, &self.progress(now_ms))?;
            self.moved = false;
        }
        Ok(())
    }

    /// Flushes the file. False if nothing was to be flushed.
    pub(super) fn commit(&mut self) -> Result<bool, NexusError> {
        let rows = self.file.commit()?;
        self.held = self.spots();
        self.unflushed = 0;
        let flushed = rows.is_some();
        self.rows = rows.unwrap_or_else(|| std::mem::take(&mut self.rows));
        Ok(flushed)
    }

    fn progress(&self, now_ms: u64) -> Progress {
        let astray = |s: &Stream| !s.begun && s.astray != Astray::default();
        let numbers = |keep: fn(&Stream) -> bool| {
            self.streams.iter().enumerate().filter(|(_, s)| keep(s)).map(|(i, _)| i).collect()
        };
        let mut seen = Vec::new();
        for (topic, all) in &self.positions {
            for (&partition, position) in all {
                seen.extend(position.seen_ms.map(|ms| (topic.clone(), partition, ms)));
            }
        }
        let carried = self.streams.iter().enumerate();
        let carried = carried.filter_map(|(i, s)| Some((i, to_hex(s.carried.as_ref()?))));
        Progress {
            stop_ms: self.stop_ms,
            commands: self.commands.clone(),
            heard_ms: now_ms,
            next: self.spots(),
            seen,
            anew: self.anew.clone(),
            rows: self.rows.clone(),
            begun: numbers(|s| s.begun),
            ended: numbers(|s| s.ended),
            carried: carried.collect(),
            last: self.streams.iter().enumerate().filter_map(|(i, s)| Some((i, s.last?))).collect(),
            astray: self
                .streams
                .iter()
                .enumerate()
                .filter(|(_, s)| astray(s))
                .map(|(i, s)| (i, s.astray))
                .collect(),
            refused: self.refused,
            gone: self.gone,
        }
    }
}
