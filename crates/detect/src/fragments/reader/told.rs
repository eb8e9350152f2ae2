//! What people are told of each source: the answer of the command `SOURCES`.

use super::super::counters::PerSource;
use super::super::fed::throttling_name;
use super::UnitReader;

impl UnitReader {
    /// A line for each source.
    pub(super) fn told(&self) -> String {
        let line = |(at, id): (usize, &u16)| {
            let get = |line: PerSource| self.sheet.get(line.line(at));
            let stream = self.owners.streams[at].0.and_then(|stream| self.streams[stream].as_ref());
            let place = match stream.map(|stream| (stream, &stream.credit)) {
                None => "not connected".to_owned(),
                Some((_, None)) => "datagrams".to_owned(),
                Some((stream, Some(credit))) => {
                    let state = if stream.paused { "paused" } else { "read" };
                    format!("stream {} from {}, {state}", credit.number(), credit.origin())
                }
            };
            let awaited = if self.merger.is_awaited(at) { "awaited" } else { "ahead" };
            let first = self.first[at].map_or(String::new(), |n| format!(" from event {n} on"));
            let state = self.throttling[at].map_or("not known", throttling_name);
            format!(
                "source {id}: {place}, {awaited}, {} fragments{first}, {} lost, {} damaged, {} throttled, state {state}",
                get(PerSource::Count),
                get(PerSource::Lost),
                get(PerSource::Bad),
                get(PerSource::Throttled)
            )
        };
        self.ids.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }
}
