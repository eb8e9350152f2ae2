//! Reads SoNDe datagrams: every readout with a pixel becomes an event, every packet is accounted for.
//!
//! Refuses packets by the checks of [`packet`](super::packet), and readouts without a pixel; each is a counter. Source: `docs/formats/sonde.md`.

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::Products;
use fullcount_core::sequence::turns::{Arrivals, Turned};
use fullcount_core::sequence::{Seen, Totals, Tracker};
use fullcount_core::slots::Found;
use fullcount_core::wall::{EACH, Readings};
use fullcount_instructions::{Instructions, Set, Work};

use super::arrival;
use super::clock::{Clock, HeaderTime};
use super::counters::{Count, LINES};
use super::entries;
use super::layout::Layout;
use super::packet::{self, Body, ENTRY_BYTES, Header, Refusal, SAMPLE_BYTES};
use super::pixel::{self, NO_PIXEL, TABLE};
use super::shared::Shared;
use super::streams::{Published, Sequence, Streams};
use crate::detector::Reader;

/// Counts of one batch, written to the sheet at its end.
#[derive(Debug)]
struct Tally([u64; LINES]);

impl Tally {
    #[inline]
    fn add(&mut self, line: Count, n: u64) {
        // Wraps where a tracker takes back a `late` that proved to be a restart, and where fewer are missing.
        self.0[line as usize] = self.0[line as usize].wrapping_add(n);
    }

    fn flush(&mut self, sheet: &Sheet) {
        for (line, n) in self.0.iter_mut().enumerate() {
            if *n != 0 {
                sheet.add(line, *n);
                *n = 0;
            }
        }
    }
}

/// The reader of one worker.
pub(super) struct SondeReader {
    sheet: Arc<Sheet>,
    tally: Tally,
    streams: Streams,
    layout: Arc<Layout>,
    clock: Clock,
    /// Newest header time of this reader: a new stream is read as the nearest time to it.
    newest: Option<HeaderTime>,
    /// Place of the stream that it is of.
    newest_stream: usize,
    shared: Arc<Shared>,
    arrivals: Arrivals,
    /// Receive times, for the turns of the clock.
    times: arrival::Arrivals,
    unsettled: Option<String>,
    /// What the clock was when packets came, by their latest time: a packet is sent with its last readout.
    readings: Readings,
    /// The next packet shows it: those of some trains, and of new streams.
    wanted: bool,
    fresh: bool,
    instructions: Instructions,
}

/// A batch to be read, with whatever instructions.
struct Read<'a> {
    reader: &'a mut SondeReader,
    batch: &'a Batch,
    products: &'a mut Products,
}

impl Work for Read<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Set>(self, set: S) {
        self.reader.batch(set, self.batch, self.products);
    }
}

/// Entries to be read one by one, in a function of its own: most packets do without.
struct Exactly<'a> {
    reader: &'a mut SondeReader,
    entries: &'a [u8],
    time: HeaderTime,
    offset: u32,
    products: &'a mut Products,
}

impl Work for Exactly<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Set>(self, _: S) {
        let Exactly { reader, entries, time, offset, products } = self;
        reader.trigger_times_exactly(entries, time, offset, products);
    }
}

/// What the header of a packet led to.
struct Sender {
    stream: usize,
    offset: Option<u32>,
}

impl SondeReader {
    pub fn new(streams: Streams, layout: Arc<Layout>, clock: Clock, shared: Arc<Shared>) -> Self {
        let (sheet, tally) = (Sheet::new(Count::catalogue()), Tally([0; LINES]));
        let (arrivals, times) = (Arrivals::default(), arrival::Arrivals::new(clock.tick()));
        SondeReader {
            sheet,
            tally,
            streams,
            layout,
            clock,
            newest: None,
            newest_stream: 0,
            shared,
            arrivals,
            times,
            unsettled: None,
            readings: Readings::default(),
            wanted: true,
            fresh: false,
            instructions: Instructions::default(),
        }
    }

    /// Uses these instructions.
    pub fn with(self, instructions: Instructions) -> Self {
        SondeReader { instructions, ..self }
    }

    #[inline(always)]
    fn batch<S: Set>(&mut self, set: S, batch: &Batch, products: &mut Products) {
        let mut packets = 0;
        self.arrivals.begin();
        self.times.begin(batch.is_apart(), self.shared.first());
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            self.times.at(train.time_ns);
            self.wanted |= at % EACH == 0;
            for packet in train.chunks() {
                packets += 1;
                self.packet(set, packet, train.origin, products);
            }
        }
        self.tally.add(Count::Packets, packets);
    }

    #[inline(always)]
    fn packet<S: Set>(&mut self, set: S, packet: &[u8], origin: Origin, products: &mut Products) {
        match self.try_packet(set, packet, origin, products) {
            Ok(()) => self.tally.add(Count::Accepted, 1),
            Err(refusal) => {
                self.tally.add(Count::of(refusal), 1);
                self.tally.add(Count::of_class(refusal.class()), 1);
            }
        }
    }

    #[inline(always)]
    fn try_packet<S: Set>(
        &mut self,
        set: S,
        packet: &[u8],
        origin: Origin,
        products: &mut Products,
    ) -> Result<(), Refusal> {
        let header = packet::header(packet)?;
        let sender = self.sequence_check(&header, origin);
        let mode = packet::mode(&header, packet)?;
        self.tally.add(Count::of_mode(mode), 1);
        let body = packet::body(mode, packet)?;

        // Only an accepted packet moves the clock: a damaged one must not shift the times behind it.
        let time = self.header_time(&sender, header.count, header.timestamp);
        // A module that is not of the geometry tells nobody the time.
        if self.wanted && sender.offset.is_some() {
            self.show(&body, time);
        }
        if sender.offset.is_none() {
            self.tally.add(Count::UnknownModule, 1);
        }
        match body {
            Body::TriggerTime { entries } => {
                self.trigger_times(set, entries, time, sender.offset, products);
            }
            Body::SingleEvent { samples, .. } => {
                self.single_event(samples, time, sender.offset, products);
            }
            Body::MultiEvent { per_event, data, trailing, .. } => {
                self.tally.add(Count::TrailingBytes, trailing as u64);
                self.multi_event(data, per_event, time, sender.offset, products);
            }
        }
        Ok(())
    }

    /// Notes the latest time of a packet.
    #[cold]
    fn show(&mut self, body: &Body<'_>, time: HeaderTime) {
        let last = match body {
            Body::TriggerTime { entries } => {
                entries.chunks_exact(ENTRY_BYTES).next_back().and_then(|e| e.first_chunk::<4>())
            }
            Body::SingleEvent { .. } => None,
            Body::MultiEvent { per_event, data, .. } => {
                let events = data.chunks_exact(packet::event_bytes(*per_event));
                { events }.next_back().and_then(|event| event.first_chunk::<4>())
            }
        };
        let at = time.event(last.map_or(time.raw, |raw| u32::from_be_bytes(*raw)));
        self.readings.note(self.clock.absolute(at), self.times.now());
        if self.fresh {
            self.readings.began_anew();
        }
        (self.wanted, self.fresh) = (false, false);
    }

    /// Check 3: finds the stream and follows its packet count.
    #[inline]
    fn sequence_check(&mut self, header: &Header, origin: Origin) -> Sender {
        let found = self.streams.find(origin, header.system);
        let at = found.place();
        if !matches!(found, Found::Known(_)) {
            self.new_stream(found, origin, header.system);
        }
        let stream = &self.streams.streams[at];
        let offset = stream.offset;
        let sequence = &mut self.streams.sequences[stream.sequence];
        match sequence.publish(header.count) {
            Published::Expected => {}
            Published::Gap(lost) => {
                self.tally.add(Count::SeqErrors, 1);
                self.tally.add(Count::LostPackets, lost);
            }
            Published::OutOfOrder => {
                self.tally.add(Count::SeqErrors, 1);
                self.tally.add(Count::OutOfOrder, 1);
            }
        }
        track(sequence, header.count, &self.arrivals, &mut self.tally);
        Sender { stream: at, offset }
    }

    #[cold]
    fn new_stream(&mut self, found: Found, origin: Origin, system: u8) {
        let at = found.place();
        (self.wanted, self.fresh) = (true, true);
        self.tally.add(Count::Streams, 1);
        if matches!(found, Found::Reused(_)) {
            self.tally.add(Count::StreamsReused, 1);
            if let Some(sequence) = self.streams.own_sequence(at) {
                end(&mut sequence.tracker, &mut self.tally);
            }
        }
        let offset = self.layout.offset(origin, system);
        self.streams.begin(at, offset);
        if offset.is_some_and(|offset| self.shared.overlaps(offset, origin, system)) {
            self.tally.add(Count::SharedModule, 1);
        }
    }

    #[inline]
    fn header_time(&mut self, sender: &Sender, count: u16, raw: u32) -> HeaderTime {
        let stream = &self.streams.streams[sender.stream];
        let time = match stream.time {
            Some(last) if self.times.is_near(&stream.pace) => HeaderTime::after(Some(last), raw),
            _ => self.place(sender.stream, count, raw),
        };
        let stream = &mut self.streams.streams[sender.stream];
        stream.time = Some(time);
        // A stranger's one packet must not say what time it is for others.
        let heard = self.streams.is_followed(sender.stream) || self.newest.is_none();
        let stream = &mut self.streams.streams[sender.stream];
        self.times.placed(&mut stream.pace, time, heard);
        if heard && self.newest.is_none_or(|newest| time.ticks > newest.ticks) {
            self.newest = Some(time);
            self.newest_stream = sender.stream;
        }
        time
    }

    /// The time of a packet whose turn the stream's last packet does not tell.
    #[cold]
    fn place(&mut self, at: usize, count: u16, raw: u32) -> HeaderTime {
        let stream = &mut self.streams.streams[at];
        if self.times.places() {
            stream.before = None;
            arrival::Arrivals::jumped(&mut stream.pace);
            return self.times.place(raw);
        }
        if let Some(last) = stream.time {
            let time = self.times.behind_silence(&stream.pace, last, raw);
            arrival::Arrivals::jumped(&mut stream.pace);
            return time;
        }
        arrival::Arrivals::jumped(&mut stream.pace);
        if let Some(last) = stream.resume(count) {
            return HeaderTime::after(Some(last), raw);
        }
        let heard = &self.streams.streams[self.newest_stream];
        match self.newest {
            Some(newest) => self.times.behind_silence(&heard.pace, newest, raw),
            None => HeaderTime::after(self.shared.newest(), raw),
        }
    }

    #[inline(always)]
    fn trigger_times<S: Set>(
        &mut self,
        set: S,
        entries: &[u8],
        time: HeaderTime,
        offset: Option<u32>,
        products: &mut Products,
    ) {
        let n = (entries.len() / ENTRY_BYTES) as u64;
        self.tally.add(Count::Readouts, n);
        let (Some(offset), Some(first)) = (offset, entries.first_chunk::<4>()) else {
            self.tally.add(Count::GeometryErrors, n);
            return;
        };
        if let Some(window) = self.clock.window(time, u32::from_be_bytes(*first))
            && entries::append(set, entries, window, offset, &mut products.events)
        {
            self.tally.add(Count::Events, n);
        } else {
            set.call(Exactly { reader: self, entries, time, offset, products });
        }
    }

    /// Entries one by one: several pulses, entries without a pixel, ticks other than 1 ns.
    #[inline(always)]
    fn trigger_times_exactly(
        &mut self,
        entries: &[u8],
        time: HeaderTime,
        offset: u32,
        products: &mut Products,
    ) {
        let mut errors = 0;
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let pixel = TABLE[usize::from(entry[4])];
            if pixel & NO_PIXEL != 0 {
                errors += 1;
                continue;
            }
            let raw = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let at = self.clock.absolute(time.event(raw));
            self.clock.push(at, pixel + offset, &mut products.events);
        }
        self.tally.add(Count::GeometryErrors, errors);
        self.tally.add(Count::Events, (entries.len() / ENTRY_BYTES) as u64 - errors);
    }

    fn single_event(
        &mut self,
        samples: &[u8],
        time: HeaderTime,
        offset: Option<u32>,
        products: &mut Products,
    ) {
        let at = self.clock.absolute(time.event(time.raw));
        for (i, sample) in samples.chunks_exact(2).enumerate() {
            let asic = u8::try_from(i / 16).unwrap_or(u8::MAX);
            let pixel = pixel::pixel(asic, (i % 16) as u8);
            let adc = u16::from_be_bytes([sample[0], sample[1]]);
            self.sample(at, offset.zip(pixel), adc, products);
        }
    }

    fn multi_event(
        &mut self,
        data: &[u8],
        per_event: u16,
        time: HeaderTime,
        offset: Option<u32>,
        products: &mut Products,
    ) {
        for event in data.chunks_exact(packet::event_bytes(per_event)) {
            let Some((raw, samples)) = event.split_first_chunk::<4>() else { continue };
            let at = self.clock.absolute(time.event(u32::from_be_bytes(*raw)));
            for sample in samples.chunks_exact(SAMPLE_BYTES) {
                let pixel = pixel::pixel(sample[1], sample[2]);
                let adc = u16::from_be_bytes([sample[3], sample[4]]);
                self.sample(at, offset.zip(pixel), adc, products);
            }
        }
    }

    /// One charge sample: an event, and a hit where somebody wants amplitudes.
    // As a call for each sample, the captured packets (64 samples each) are read at two thirds of the rate.
    #[inline(always)]
    fn sample(&mut self, at: i64, place: Option<(u32, u32)>, adc: u16, products: &mut Products) {
        self.tally.add(Count::Samples, 1);
        self.tally.add(Count::Readouts, 1);
        let Some((offset, pixel)) = place else {
            self.tally.add(Count::GeometryErrors, 1);
            return;
        };
        self.tally.add(Count::Events, 1);
        self.clock.push(at, pixel + offset, &mut products.events);
        if products.want.hits {
            products.hits.time_ns.push(at);
            products.hits.pixel.push(pixel + offset);
            products.hits.adc.push(adc);
        }
    }
}

/// Follows one packet count; what changed goes to the tally.
#[inline]
fn track(sequence: &mut Sequence, count: u16, now: &Arrivals, tally: &mut Tally) {
    let (tracker, count) = (&mut sequence.tracker, u64::from(count));
    let (before, pending) = (tracker.totals(), tracker.pending());
    let turned = sequence.turns.before(tracker, count, now);
    let seen = tracker.observe(count);
    // In order, or in order with the same gaps open as before: nothing to book.
    if seen != Seen::New || tracker.pending() != pending || tracker.totals().lost != before.lost {
        settle(tracker, before, pending, tally);
    }
    if turned != Turned::Nothing {
        book(turned, tally);
    }
}

/// Books whole turns that were missed.
#[cold]
fn book(turned: Turned, tally: &mut Tally) {
    tally.add(Count::LostByTime, turned.numbers());
    tally.add(Count::LostAtLeast, u64::from(turned.is_least()));
}

/// What is missing now is lost.
fn end(tracker: &mut Tracker, tally: &mut Tally) {
    let (before, pending) = (tracker.totals(), tracker.pending());
    tracker.finish(None);
    settle(tracker, before, pending, tally);
}

/// Books what changed since a tracker had the totals `before` and `pending` numbers missing.
#[cold]
fn settle(tracker: &Tracker, before: Totals, pending: u64, tally: &mut Tally) {
    let after = tracker.totals();
    tally.add(Count::Lost, after.lost.wrapping_sub(before.lost));
    tally.add(Count::Missing, tracker.pending().wrapping_sub(pending));
    tally.add(Count::Duplicate, after.duplicate.wrapping_sub(before.duplicate));
    tally.add(Count::Reordered, after.reordered.wrapping_sub(before.reordered));
    tally.add(Count::Late, after.late.wrapping_sub(before.late));
    tally.add(Count::Restarts, after.restarted.wrapping_sub(before.restarted));
}

impl Reader for SondeReader {
    fn read(&mut self, batch: &Batch, products: &mut Products) {
        self.readings.begin();
        let instructions = self.instructions;
        instructions.run(Read { reader: &mut *self, batch, products });
        if self.tally.0[Count::Restarts as usize] > 0 {
            self.readings.began_anew();
        }
        self.tally.flush(&self.sheet);
        if let Some(newest) = self.newest {
            self.shared.publish(newest.ticks);
        }
        if self.unsettled.is_none() {
            self.unsettled = self.times.unsettled(self.newest, self.streams.streams.len());
        }
    }

    fn readings(&mut self) -> Option<&mut Readings> {
        Some(&mut self.readings)
    }

    fn unsettled(&self) -> Option<&str> {
        self.unsettled.as_deref()
    }

    fn finish(&mut self, _: &mut Products) {
        for sequence in &mut self.streams.sequences {
            end(&mut sequence.tracker, &mut self.tally);
        }
        self.tally.flush(&self.sheet);
    }

    fn begin_anew(&mut self) {
        let mut expected = Vec::with_capacity(self.streams.sequences.len());
        for sequence in &mut self.streams.sequences {
            let (before, pending) = (sequence.tracker.totals(), sequence.tracker.pending());
            expected.push(sequence.begin_anew());
            settle(&sequence.tracker, before, pending, &mut self.tally);
        }
        // A module that somebody else had may be any number of wraps further on: it joins at the newest time, as one that
        // comes late. One that was here all the time goes on by its own clock, which may be seconds behind.
        for stream in &mut self.streams.streams {
            if let (Some(time), Some(count)) = (stream.time.take(), expected[stream.sequence]) {
                stream.before = Some((time, count));
            }
        }
        self.tally.flush(&self.sheet);
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
