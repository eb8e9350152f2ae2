//! Reads SoNDe datagrams: every readout with a pixel becomes an event, every packet is accounted for.
//!
//! Refuses packets by the checks of [`packet`](super::packet), and readouts without a pixel; each is a counter. Source: `docs/formats/sonde.md`.

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::sequence::numbering::{Book, Numbering};
use fullcount_core::sequence::turns::Arrivals;
use fullcount_core::slots::Found;
use fullcount_core::time::Nanos;
use fullcount_core::wall::{EACH, Readings};
use fullcount_instructions::{Instructions, Set, Work};

use super::arrival;
use super::clock::{Clock, HeaderTime};
use super::counters::SondeCount;
use super::entries;
use super::layout::Layout;
use super::packet::{self, Body, ENTRY_BYTES, SAMPLE_BYTES, SondeHeader, SondeRefusal};
use super::pixel::{self, IN_ORDER, NO_PIXEL, TABLE};
use super::shared::Shared;
use super::streams::{Modules, Published};
use crate::detector::{Decoder, SeenModule};

/// The reader of one worker.
pub(super) struct SondeReader {
    sheet: Arc<Sheet>,
    tally: Tally<{ SondeCount::LINES }>,
    book: Book,
    modules: Modules,
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
    pub fn new(
        numbering: Numbering,
        layout: Arc<Layout>,
        clock: Clock,
        shared: Arc<Shared>,
    ) -> Self {
        let mut lines = SondeCount::catalogue();
        let book = Book::new(&numbering, &mut lines);
        let (arrivals, times) = (Arrivals::default(), arrival::Arrivals::new(clock.tick()));
        SondeReader {
            sheet: Sheet::new(lines),
            tally: Tally::default(),
            book,
            modules: Modules::new(numbering),
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

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        self.book.flush(&self.sheet);
    }

    #[inline(always)]
    fn batch<S: Set>(&mut self, set: S, batch: &Batch, products: &mut Products) {
        let mut packets = 0;
        self.arrivals.begin();
        self.times.begin(batch.is_apart(), self.shared.first());
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            self.times.at(train.time_ns);
            self.modules.found.train(train.origin);
            self.wanted |= at % EACH == 0;
            for packet in train.chunks() {
                packets += 1;
                self.packet(set, packet, train.origin, products);
            }
        }
        self.tally.add(SondeCount::Packets, packets);
    }

    #[inline(always)]
    fn packet<S: Set>(&mut self, set: S, packet: &[u8], origin: Origin, products: &mut Products) {
        match self.try_packet(set, packet, origin, products) {
            Ok(()) => self.tally.add(SondeCount::Accepted, 1),
            Err(refusal) => {
                self.tally.add(SondeCount::of(refusal), 1);
                self.tally.add(SondeCount::of_class(refusal.class()), 1);
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
    ) -> Result<(), SondeRefusal> {
        let header = packet::header(packet)?;
        let sender = self.sequence_check(&header, origin);
        let mode = packet::mode(&header, packet)?;
        self.tally.add(SondeCount::of_mode(mode), 1);
        let body = packet::body(mode, packet)?;

        // Only an accepted packet moves the clock: a damaged one must not shift the times behind it.
        let time = self.header_time(&sender, header.count, header.timestamp);
        // A module that is not of the geometry tells nobody the time.
        if self.wanted && sender.offset.is_some() {
            self.show(&body, time);
        }
        if sender.offset.is_none() {
            self.tally.add(SondeCount::UnknownModule, 1);
        }
        match body {
            Body::TriggerTime { entries } => {
                self.trigger_times(set, entries, time, sender.offset, products);
            }
            Body::SingleEvent { samples, .. } => {
                self.single_event(samples, time, sender.offset, products);
            }
            Body::MultiEvent { per_event, data, trailing, .. } => {
                self.tally.add(SondeCount::TrailingBytes, trailing as u64);
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
    fn sequence_check(&mut self, header: &SondeHeader, origin: Origin) -> Sender {
        let found = self.modules.found.find(header.system.into());
        let at = found.place();
        if !matches!(found, Found::Known(_)) {
            self.new_stream(found, origin, header.system);
        }
        let stream = &mut self.modules.found.all[at];
        stream.packets += 1;
        let offset = stream.offset;
        let sequence = &mut self.modules.sequences[stream.sequence];
        match sequence.publish(header.count) {
            Published::Expected => {}
            Published::Gap(lost) => {
                self.tally.add(SondeCount::SeqErrors, 1);
                self.tally.add(SondeCount::LostPackets, lost);
            }
            Published::OutOfOrder => {
                self.tally.add(SondeCount::SeqErrors, 1);
                self.tally.add(SondeCount::OutOfOrder, 1);
            }
        }
        sequence.series.observe_at(header.count.into(), &self.arrivals, &mut self.book);
        Sender { stream: at, offset }
    }

    #[cold]
    fn new_stream(&mut self, found: Found, origin: Origin, system: u8) {
        let at = found.place();
        (self.wanted, self.fresh) = (true, true);
        self.book.found(found);
        if let Some(gone) = self.modules.own_sequence(at) {
            gone.series.finish(None, &mut self.book);
        }
        let offset = self.layout.offset(origin, system);
        self.modules.begin(at, offset);
        if offset.is_some_and(|offset| self.shared.overlaps(offset, origin, system)) {
            self.tally.add(SondeCount::SharedModule, 1);
        }
    }

    #[inline]
    fn header_time(&mut self, sender: &Sender, count: u16, raw: u32) -> HeaderTime {
        let stream = &self.modules.found.all[sender.stream];
        let time = match stream.time {
            Some(last) if self.times.is_near(&stream.pace) => HeaderTime::after(Some(last), raw),
            _ => self.place(sender.stream, count, raw),
        };
        let stream = &mut self.modules.found.all[sender.stream];
        stream.time = Some(time);
        // A stranger's one packet must not say what time it is for others.
        let heard = self.modules.found.is_followed(sender.stream) || self.newest.is_none();
        let stream = &mut self.modules.found.all[sender.stream];
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
        let stream = &mut self.modules.found.all[at];
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
        let heard = &self.modules.found.all[self.newest_stream];
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
        self.tally.add(SondeCount::Readouts, n);
        let (Some(offset), Some(first)) = (offset, entries.first_chunk::<4>()) else {
            self.tally.add(SondeCount::GeometryErrors, n);
            return;
        };
        if let Some(window) = self.clock.window(time, u32::from_be_bytes(*first))
            && entries::append(set, entries, window, offset, &mut products.events)
        {
            self.tally.add(SondeCount::Events, n);
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
        self.tally.add(SondeCount::GeometryErrors, errors);
        self.tally.add(SondeCount::Events, (entries.len() / ENTRY_BYTES) as u64 - errors);
    }

    /// Samples of all channels in their order: one time, and a pixel for each of the first 64.
    fn single_event(
        &mut self,
        samples: &[u8],
        time: HeaderTime,
        offset: Option<u32>,
        products: &mut Products,
    ) {
        let n = samples.len() / 2;
        let (offset, placed) = match offset {
            Some(offset) => (offset, n.min(IN_ORDER.len())),
            None => (0, 0),
        };
        self.samples(n, placed);
        if placed == 0 {
            return;
        }
        let at = self.clock.absolute(time.event(time.raw));
        let pixels = IN_ORDER[..placed].iter().map(|pixel| pixel + offset);
        self.clock.push_all(at, pixels.clone(), &mut products.events);
        if products.want.hits {
            let amplitudes = samples.as_chunks().0.iter().map(|adc| u16::from_be_bytes(*adc));
            products.hits.time_ns.extend(std::iter::repeat_n(at, placed));
            products.hits.pixel.extend(pixels);
            products.hits.adc.extend(amplitudes.take(placed));
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
        let (mut n, mut placed) = (0, 0);
        for event in data.chunks_exact(packet::event_bytes(per_event)) {
            let Some((raw, samples)) = event.split_first_chunk::<4>() else { continue };
            let at = self.clock.absolute(time.event(u32::from_be_bytes(*raw)));
            for sample in samples.chunks_exact(SAMPLE_BYTES) {
                n += 1;
                let Some((offset, pixel)) = offset.zip(pixel::pixel(sample[1], sample[2])) else {
                    continue;
                };
                placed += 1;
                self.clock.push(at, pixel + offset, &mut products.events);
                if products.want.hits {
                    products.hits.time_ns.push(at);
                    products.hits.pixel.push(pixel + offset);
                    products.hits.adc.push(u16::from_be_bytes([sample[3], sample[4]]));
                }
            }
        }
        self.samples(n, placed);
    }

    /// Counts charge samples, so many of them with a pixel: an event each, and a hit where somebody wants amplitudes.
    #[inline]
    fn samples(&mut self, n: usize, placed: usize) {
        let (n, placed) = (n as u64, placed as u64);
        self.tally.add(SondeCount::Samples, n);
        self.tally.add(SondeCount::Readouts, n);
        self.tally.add(SondeCount::GeometryErrors, n - placed);
        self.tally.add(SondeCount::Events, placed);
    }
}

impl SondeReader {
    /// The run has ended: what is missing is lost.
    fn end_all(&mut self) {
        for sequence in &mut self.modules.sequences {
            sequence.series.finish(None, &mut self.book);
        }
        self.publish();
    }

    /// Somebody else may have had packets: what is missing is lost, and each stream begins with whatever comes next.
    fn begin_anew(&mut self) {
        let mut expected = Vec::with_capacity(self.modules.sequences.len());
        for sequence in &mut self.modules.sequences {
            expected.push(sequence.begin_anew(&mut self.book));
        }
        // A module that somebody else had may be any number of wraps further on: it joins at the newest time, as one that
        // comes late. One that was here all the time goes on by its own clock, which may be seconds behind.
        for stream in &mut self.modules.found.all {
            if let (Some(time), Some(count)) = (stream.time.take(), expected[stream.sequence]) {
                stream.before = Some((time, count));
            }
        }
        self.publish();
    }
}

impl Decoder for SondeReader {
    fn decode(&mut self, batch: Option<&Batch>, _: Option<Nanos>, products: &mut Products) {
        let Some(batch) = batch else { return };
        self.readings.begin();
        let instructions = self.instructions;
        instructions.run(Read { reader: &mut *self, batch, products });
        if self.book.began_anew() {
            self.readings.began_anew();
        }
        self.publish();
        if let Some(newest) = self.newest {
            self.shared.publish(newest.ticks);
        }
        if self.unsettled.is_none() {
            self.unsettled = self.times.unsettled(self.newest, self.modules.found.all.len());
        }
    }

    fn readings(&mut self) -> Option<&mut Readings> {
        Some(&mut self.readings)
    }

    fn unsettled(&self) -> Option<&str> {
        self.unsettled.as_deref()
    }

    fn flush(&mut self, reason: Flush, _: &mut Products) {
        match reason {
            Flush::Taken => self.begin_anew(),
            Flush::End => self.end_all(),
            Flush::Stalled => {}
        }
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        self.modules.tell(tell);
    }

    fn sheets(&self) -> Vec<Arc<Sheet>> {
        vec![self.sheet.clone()]
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
