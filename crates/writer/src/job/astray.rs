//! Streams of which nothing is in the run: all that came during it has times before its start, or after its stop.
//!
//! A few such messages are normal: reading begins a leeway before the start, and what came just before it arrives just
//! behind it. A stream that has nothing else has another clock than the control system, and its file would be empty
//! without a word. Streams whose last value from before the start still holds (logs, alarms, connections) may well have
//! no other in a run. Came during the run: by Kafka's time, neither before the start nor after the stop. The messages
//! are counted as `write.before_start` and `write.after_stop`. Source: `docs/write.md`, "A clock
//! that is not the control system's".

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Job, ns};
use crate::module::Seen;
use fullcount_nexus::when::iso8601;

/// Groups that status and wrdn list: a message has its limit.
const LISTED: usize = 64;

/// What came during the run and lies on one side of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) messages: u64,
    /// Events in them.
    pub(crate) events: u64,
    /// Of their times the one that is nearest to the run, ns since 1970.
    pub(crate) nearest: i64,
}

/// Both sides, of a stream that has had nothing in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Astray {
    pub(crate) before: Side,
    pub(crate) after: Side,
}

/// A group of the file whose stream has nothing in the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) group: String,
    pub(crate) sides: Astray,
    /// True of streams of events.
    pub(crate) has_events: bool,
}

impl Side {
    fn add(&mut self, events: u64, nearest: i64) {
        self.messages += 1;
        self.events += events;
        self.nearest = nearest;
    }

    fn facts(&self, has_events: bool, nearest: &str) -> Value {
        let mut facts = json!({
            "messages": self.messages,
            nearest: iso8601(self.nearest),
            format!("{nearest}_ns"): self.nearest,
        });
        if has_events {
            facts["events"] = self.events.into();
        }
        facts
    }
}

/// Events of a message, and the latest of its times, ns since 1970; `time` is the first.
fn events_and_latest(seen: &Seen<'_>, time: i64) -> (u64, i64) {
    match seen {
        Seen::Events(view) => {
            let latest = view.pulses.iter().map(|pulse| pulse.0).max();
            (view.events() as u64, latest.unwrap_or(time))
        }
        Seen::Other(_) => (0, time),
    }
}

impl Job {
    /// A message of Kafka's time `came_ms` has the time `time`, which is before the start.
    pub(super) fn came_before(
        &mut self,
        stream: usize,
        came_ms: Option<u64>,
        seen: &Seen<'_>,
        time: i64,
    ) {
        let during = came_ms.is_none_or(|came| came >= self.order.start_ms);
        let Some(astray) = self.astray_of(stream).filter(|_| during) else { return };
        let (events, latest) = events_and_latest(seen, time);
        let newest = match astray.before.messages {
            0 => latest,
            _ => latest.max(astray.before.nearest),
        };
        astray.before.add(events, newest);
    }

    /// The same of a time after the stop `stop_ms`.
    pub(super) fn came_after(
        &mut self,
        stream: usize,
        (came_ms, stop_ms): (Option<u64>, u64),
        seen: &Seen<'_>,
        time: i64,
    ) {
        // Without Kafka's time it may well have come later than the stop, which is normal.
        let during = came_ms.is_some_and(|came| (self.order.start_ms..=stop_ms).contains(&came));
        let Some(astray) = self.astray_of(stream).filter(|_| during) else { return };
        let (events, _) = events_and_latest(seen, time);
        let oldest = match astray.after.messages {
            0 => time,
            _ => time.min(astray.after.nearest),
        };
        astray.after.add(events, oldest);
    }

    /// Where that is counted, of a stream that it matters for.
    fn astray_of(&mut self, stream: usize) -> Option<&mut Astray> {
        let stream = &mut self.streams[stream];
        (!stream.begun && stream.carries.is_none()).then_some(&mut stream.astray)
    }

    /// The streams of which nothing is in the run, though something came during it.
    pub(crate) fn outside(&self) -> Vec<Outside> {
        let streams = self.streams.iter().zip(self.file.events_by_stream());
        let astray = streams.filter(|(stream, _)| {
            let Astray { before, after } = stream.astray;
            !stream.begun && before.messages + after.messages > 0
        });
        let each = astray.map(|(stream, events)| Outside {
            group: stream.group.clone(),
            sides: stream.astray,
            has_events: events.is_some(),
        });
        each.collect()
    }

    /// Looks at them once more. Gives how many times in a row there was one.
    pub(crate) fn look_outside(&mut self) -> u32 {
        let any = !self.outside().is_empty();
        self.astray_looks = if any { self.astray_looks.saturating_add(1) } else { 0 };
        self.astray_looks
    }

    /// What is to be said of them, each group with its clock and what to do; nothing if there is none.
    pub(crate) fn outside_words(&self) -> Vec<String> {
        let start = iso8601(ns(self.order.start_ms));
        let stop = iso8601(ns(self.stop_ms.unwrap_or(self.order.start_ms)));
        let mut words = Vec::new();
        for Outside { group, sides, has_events } in self.outside() {
            let all = |side: &Side| match (has_events, side.messages) {
                (true, n) => format!("all {} events in {n} messages", side.events),
                (false, n) => format!("all {n} messages"),
            };
            if sides.before.messages > 0 {
                words.push(format!(
                    "{group}: {} that came during the run are before its start {start}, the newest of {}: give the \
                     detector wall-clock times ([time] epoch = \"now\" of `fullcount run`), or begin the run where its \
                     times are (--start of `fullcount send --source run`)",
                    all(&sides.before),
                    iso8601(sides.before.nearest),
                ));
            }
            if sides.after.messages > 0 {
                words.push(format!(
                    "{group}: {} that came during the run are after its stop {stop}, the oldest of {}: compare the \
                     clock of the detector with that of the control system",
                    all(&sides.after),
                    iso8601(sides.after.nearest),
                ));
            }
        }
        words
    }
}

/// Groups with what came of them and lies before the start, then after the stop: for status and wrdn.
pub(crate) fn facts(outside: &[Outside]) -> [(&'static str, Value); 3] {
    let of = |side: fn(&Astray) -> Side, nearest: &str| {
        let each = outside.iter().filter(|o| side(&o.sides).messages > 0);
        let each = each
            .take(LISTED)
            .map(|o| (o.group.clone(), side(&o.sides).facts(o.has_events, nearest)));
        Value::Object(each.collect::<Map<_, _>>())
    };
    [
        ("streams_outside", outside.len().into()),
        ("before_start", of(|a| a.before, "newest")),
        ("after_stop", of(|a| a.after, "oldest")),
    ]
}
