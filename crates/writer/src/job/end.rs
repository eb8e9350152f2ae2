//! The end of a job: its file is completed, or given up.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{FlushError, Job, Lost, ns, outside_facts};
use crate::WriteCounter;
use crate::journal::Order;

impl Job {
    /// Completes the file. Gives its path, its order and what is to be said of it.
    pub(crate) fn finish(mut self, end_ms: u64) -> Result<(PathBuf, Order, Value), Box<Lost>> {
        let carried = (0..self.streams.len()).try_for_each(|i| self.carry_in(i));
        if let Err(error) = carried.and_then(|()| self.commit()) {
            return Err(self.give_up(error.into()));
        }
        self.account();
        let mut facts = json!({
            "path": self.order.path.display().to_string(),
            "start_time": self.order.start_ms,
            "stop_time": end_ms,
            "events": self.events_by_group(),
            "events_rejected": {
                "outside_pixels": self.reported.outside_pixels,
                "offset_range": self.reported.offset_range,
                "pixel_range": self.reported.pixel_range,
                "before_1970": self.reported.before_1970,
            },
            "messages_refused": self.refused,
            "messages_gone": self.gone,
        });
        for (key, value) in outside_facts(&self.outside()) {
            facts[key] = value;
        }
        let Job { mut file, refused, gone, order, rows, held, .. } = self;
        // Everything is committed: what can still fail are the closing rows.
        match file.close(ns(end_ms), refused, gone) {
            Ok(path) => Ok((path, order, facts)),
            Err(error) => {
                let left = file.give_up();
                let error = error.into();
                Err(Box::new(Lost { order, rows, left, error, events: 0, messages: 0, held }))
            }
        }
    }

    /// Events of each group, as the end of a run reports them.
    fn events_by_group(&self) -> Map<String, Value> {
        let groups = self.streams.iter().zip(self.file.events_by_stream());
        groups.filter_map(|(stream, n)| Some((stream.group.clone(), n?.into()))).collect()
    }

    /// The file is lost from here on: what was not flushed is counted.
    pub(crate) fn give_up(mut self, error: FlushError) -> Box<Lost> {
        self.account();
        self.sheet.add(WriteCounter::Unwritten as usize, self.waiting());
        let (events, messages) = (self.waiting(), self.unflushed);
        let left = self.file.give_up();
        let Job { order, rows, held, .. } = self;
        Box::new(Lost { order, rows, left, error, events, messages, held })
    }
}
