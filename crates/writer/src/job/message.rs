//! A message on its way into the file: whether it is one, for which streams, and whether its time is within the run.
//!
//! Refuses what the counters of [`WriteCounter`] list. Source: `docs/formats/flatbuffers.md` section 8.

use super::{Job, TopicRecord, ns};
use crate::WriteCounter;
use crate::module::{Seen, Stopped, Unfit};
use fullcount_messages::{
    EventFault, EventRefused, EventView, Message, NotAMessage, Schema, decode,
};
use fullcount_nexus::NexusError;
use fullcount_nexus::error::hdf5_error;

/// What became of a message at one stream.
enum Fate {
    Written,
    Unfit(Unfit),
}

impl Job {
    /// Takes a message. One that was taken before is passed over.
    ///
    /// # Errors
    /// The file cannot be written: the job is lost.
    pub(crate) fn offer(&mut self, record: &TopicRecord<'_>) -> Result<(), NexusError> {
        let drains_at = self.drains_at_ms();
        let Some(position) = self.position(record.topic, record.partition) else { return Ok(()) };
        if position.next.is_some_and(|next| record.offset < next) {
            return Ok(());
        }
        position.next = Some(record.offset.saturating_add(1));
        position.seen_ms = position.seen_ms.max(record.timestamp_ms);
        if drains_at.is_some_and(|at| record.timestamp_ms.is_some_and(|time| time > at)) {
            position.done = true;
        }
        let done = position.done;
        self.moved = true;
        self.count(WriteCounter::In);
        if done {
            self.count(WriteCounter::AfterStop);
            return Ok(());
        }
        self.route(record)
    }

    fn route(&mut self, record: &TopicRecord<'_>) -> Result<(), NexusError> {
        let schema = match schema_of(record.value) {
            Ok(schema) => schema,
            Err(refused) => {
                self.refuse(WriteCounter::refused(&refused));
                return Ok(());
            }
        };
        let routes = self.routes.get(record.topic).and_then(|routes| routes.get(&schema));
        let Some(sources) = routes else {
            self.count(WriteCounter::NotAsked);
            return Ok(());
        };
        let seen = match read(schema, record.value) {
            Ok(seen) => seen,
            Err(counter) => {
                self.refuse(counter);
                return Ok(());
            }
        };
        let Some(streams) = sources.get(source(&seen)) else {
            self.count(WriteCounter::NotAsked);
            return Ok(());
        };
        // Few: the same source in two groups is rare.
        let mut streams = streams.clone();
        let time = time_ns(&seen);
        if time < ns(self.order.start_ms) {
            for &i in &streams {
                let stream = &mut self.streams[i];
                let most = stream.carries.unwrap_or(0);
                if !stream.begun && record.value.len() <= most {
                    stream.carried = Some(record.value.to_vec());
                }
                self.came_before(i, record.timestamp_ms, &seen, time);
            }
            self.count(WriteCounter::BeforeStart);
            return Ok(());
        }
        if let Some(stop_ms) = self.stop_ms.filter(|&stop| time > ns(stop)) {
            for &i in &streams {
                self.came_after(i, (record.timestamp_ms, stop_ms), &seen, time);
            }
            self.count(WriteCounter::AfterStop);
            return self.put_after(&streams, &seen, time, ns(stop_ms));
        }
        streams.retain(|&i| !(self.streams[i].once && self.streams[i].last == Some(time)));
        if streams.is_empty() {
            self.count(WriteCounter::Repeated);
            return Ok(());
        }
        self.unflushed += 1;
        match self.put_in_all(&streams, &seen, time) {
            Ok(None) => self.count(WriteCounter::of(schema)),
            Ok(Some(Unfit::Shape)) => self.refuse(WriteCounter::Shape),
            Ok(Some(Unfit::Range)) => self.refuse(WriteCounter::Range),
            Err(error) => {
                // Taken, as those before it that are not flushed either.
                self.count(WriteCounter::of(schema));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The first value of a slow channel from after the stop is written too: it says until when the last one of the
    /// run held. What came after that, and events, are not.
    fn put_after(
        &mut self,
        streams: &[usize],
        seen: &Seen<'_>,
        time: i64,
        stop: i64,
    ) -> Result<(), NexusError> {
        for &i in streams {
            let stream = &mut self.streams[i];
            let first = !std::mem::replace(&mut stream.ended, true);
            // A stop that came late has values behind it already.
            let has = stream.last.is_some_and(|last| last > stop);
            if !first || has || stream.carries.is_none() {
                continue;
            }
            self.carry_in(i)?;
            self.streams[i].begun = true;
            if matches!(self.put(i, seen)?, Fate::Written) {
                self.unflushed += 1;
                self.count(WriteCounter::CarriedOut);
                let stream = &mut self.streams[i];
                stream.last = stream.once.then_some(time);
                stream.latest = stream.latest.max(Some(time));
            }
        }
        Ok(())
    }

    /// Why it does not fit, if it does not.
    fn put_in_all(
        &mut self,
        streams: &[usize],
        seen: &Seen<'_>,
        time: i64,
    ) -> Result<Option<Unfit>, NexusError> {
        let mut unfit = None;
        for &i in streams {
            self.carry_in(i)?;
            self.streams[i].begun = true;
            match self.put(i, seen)? {
                Fate::Unfit(reason) => unfit = Some(reason),
                Fate::Written => {
                    let stream = &mut self.streams[i];
                    stream.last = stream.once.then_some(time);
                    stream.latest = stream.latest.max(Some(latest_ns(seen)));
                }
            }
        }
        Ok(unfit)
    }

    fn put(&mut self, stream: usize, seen: &Seen<'_>) -> Result<Fate, NexusError> {
        match self.file.write(stream, seen) {
            Ok(()) => Ok(Fate::Written),
            Err(Stopped::Unfit(reason)) => Ok(Fate::Unfit(reason)),
            Err(Stopped::Hdf5(error)) => Err(hdf5_error(&self.order.path, "write")(error)),
        }
    }

    /// Writes the last value from before the start, if there is one and it is not written yet.
    pub(super) fn carry_in(&mut self, stream: usize) -> Result<(), NexusError> {
        let Some(value) = self.streams[stream].carried.take() else { return Ok(()) };
        let read = schema_of(&value).ok().and_then(|schema| read(schema, &value).ok());
        if let Some(seen) = read
            && matches!(self.put(stream, &seen)?, Fate::Written)
        {
            self.count(WriteCounter::CarriedIn);
        }
        Ok(())
    }
}

fn schema_of(value: &[u8]) -> Result<Schema, NotAMessage> {
    let (Some(_), Some(&[a, b, c, d])) = (value.first_chunk::<8>(), value.get(4..8)) else {
        return Err(NotAMessage::TooShort { bytes: value.len() });
    };
    let identifier = [a, b, c, d];
    Schema::of(identifier).ok_or(NotAMessage::UnknownSchema { identifier })
}

fn read(schema: Schema, value: &[u8]) -> Result<Seen<'_>, WriteCounter> {
    let events = match schema {
        Schema::Ev44 => EventView::ev44(value),
        Schema::Ev43 => EventView::ev43(value),
        Schema::Ev42 => EventView::ev42(value),
        _ => {
            let message = decode(value).map_err(|refused| WriteCounter::refused(&refused))?;
            return Ok(Seen::Other(message));
        }
    };
    events.map(Seen::Events).map_err(|refused| match refused {
        EventRefused::Refused(refused) => WriteCounter::refused(&refused),
        EventRefused::Fault(EventFault::PulseTime(_)) => WriteCounter::Range,
        EventRefused::Fault(_) => WriteCounter::Contradictory,
    })
}

/// The source name of a message; empty where it has none.
fn source<'a>(seen: &'a Seen<'_>) -> &'a str {
    match seen {
        Seen::Events(view) => view.source_name,
        Seen::Other(message) => match message {
            Message::F144(m) => m.source_name,
            Message::F142(m) => m.source_name.unwrap_or(""),
            Message::Da00(m) => m.source_name,
            Message::Hs01(m) => m.source.unwrap_or(""),
            Message::Al00(m) => m.source_name.unwrap_or(""),
            Message::Ep01(m) => m.source_name,
            Message::Se00(m) => m.name,
            Message::Tdct(m) => m.name,
            Message::Ad00(m) => m.source_name,
            Message::Ns10(m) => m.key.unwrap_or(""),
            Message::Hs00(m) => m.source.unwrap_or(""),
            Message::Ep00(m) => m.source_name.unwrap_or(""),
            Message::Senv(m) => m.name,
            Message::Adar(m) => m.source_name,
            _ => "",
        },
    }
}

/// No row of a message has a later time, ns since 1970.
fn latest_ns(seen: &Seen<'_>) -> i64 {
    match seen {
        Seen::Events(view) => view.pulses.iter().map(|p| p.0).max().unwrap_or(i64::MAX),
        // Samples are later than the first of them.
        Seen::Other(Message::Se00(_) | Message::Senv(_) | Message::Tdct(_)) => i64::MAX,
        Seen::Other(_) => time_ns(seen),
    }
}

/// The time of a message, ns since 1970.
fn time_ns(seen: &Seen<'_>) -> i64 {
    let unsigned = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    match seen {
        Seen::Events(view) => view.time(),
        Seen::Other(message) => match message {
            Message::F144(m) => m.timestamp,
            Message::F142(m) => unsigned(m.timestamp),
            Message::Da00(m) => m.timestamp,
            Message::Hs01(m) => m.timestamp,
            Message::Al00(m) => m.timestamp,
            Message::Ep01(m) => m.timestamp,
            Message::Se00(m) => m.packet_timestamp,
            Message::Tdct(m) => m.timestamps.first().map_or(0, |&first| unsigned(first)),
            Message::Ad00(m) => m.timestamp,
            // As a double: exact to some 0.2 µs.
            Message::Ns10(m) => (m.time * 1e9).round() as i64,
            Message::Hs00(m) => unsigned(m.timestamp),
            Message::Ep00(m) => unsigned(m.timestamp),
            Message::Senv(m) => unsigned(m.packet_timestamp),
            Message::Adar(m) => unsigned(m.timestamp),
            _ => 0,
        },
    }
}
