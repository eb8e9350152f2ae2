//! Reads Multi-Grid datagrams: packets to triggers to hits, every readout accounted for.
//!
//! Refuses packets by the checks of [`container`](super::container), triggers by those of
//! [`words`](super::words), glitches, and readouts without place or outside of their thresholds; each is a
//! counter. A trigger that is refused leaves no hit. Follows each sender's event numbers
//! ([`senders`](super::senders)). Source: `docs/formats/multigrid.md` sections 2 to 4, 8.

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::{PlaneHit, Products};
use fullcount_core::sequence::turns::Arrivals;
use fullcount_core::wall::{EACH, Readings};

use super::builder::Clock;
use super::channels::{Channels, Place};
use super::container::{self, Word};
use super::counters::{Count, LINES};
use super::file::{Config, Format};
use super::numbers;
use super::records;
use super::senders::{EventSenders, Lines};
use super::words::{HighTime, Take};
use crate::detector::Reader;

/// Entries of one sub-buffer at most: its length has 16 bits.
const ROOM: usize = 1 << 16;

/// A time that is so far before another was not held up on its way, ticks: 1 s.
const SET_BACK: i64 = 16_000_000;

/// Entries of the sub-buffer that is being decoded, as raw words.
struct Entries {
    words: Box<[u32; ROOM]>,
    n: usize,
}

impl Take for Entries {
    #[inline]
    fn readout(&mut self, word: u32, _: u16) {
        self.words[self.n % ROOM] = word;
        self.n += 1;
    }

    #[inline]
    fn pulse(&mut self, word: u32) {
        self.words[self.n % ROOM] = word;
        self.n += 1;
    }
}

/// The reader; there is one, as all modules share a clock.
pub(super) struct MultigridReader {
    sheet: Arc<Sheet>,
    tally: Lines,
    channels: Arc<Channels>,
    glitch_limit: usize,
    entries: Entries,
    high: HighTime,
    senders: EventSenders,
    arrivals: Arrivals,
    /// What the clock was when trains came, by the time of their first packet's last trigger.
    readings: Readings,
    /// Time of the last trigger, ticks; `None` since the train began.
    time: Option<i64>,
    /// Latest time that was noted.
    newest: i64,
    /// Sender of the train being read.
    origin: Origin,
    /// Work on one datagram, chosen once: by format, and by whether anything is filtered.
    work: fn(&mut MultigridReader, &[u8], &mut Products),
}

impl MultigridReader {
    pub fn new(config: Arc<Config>, channels: Arc<Channels>, glitch_limit: usize) -> Self {
        let work = match (config.format, channels.filtered()) {
            (Format::Mesytec, false) => Self::packet::<false>,
            (Format::Mesytec, true) => Self::packet::<true>,
            (Format::Records, _) => Self::records,
        };
        MultigridReader {
            sheet: Sheet::new(Count::catalogue()),
            tally: [0; LINES],
            glitch_limit,
            entries: Entries { words: Box::new([0; ROOM]), n: 0 },
            high: HighTime::new(config.spoof_high_time),
            senders: EventSenders::default(),
            arrivals: Arrivals::default(),
            readings: Readings::default(),
            time: None,
            newest: i64::MIN,
            origin: Origin::NONE,
            work,
            channels,
        }
    }

    #[inline]
    fn count(&mut self, line: Count, n: u64) {
        self.tally[line as usize] += n;
    }

    fn packet<const FILTERED: bool>(&mut self, packet: &[u8], products: &mut Products) {
        self.senders.begin_packet();
        let rest = container::sub_buffers(packet, |data, number| {
            self.senders.event(number);
            self.trigger::<FILTERED>(data, products);
        });
        self.count(Count::Discarded, rest.discarded as u64);
        self.count(Count::TailBytes, rest.ignored as u64);
        // What is left may be an event without data, which has a number.
        if rest.ignored >= container::EMPTY_BYTES
            && let Some(number) = numbers::empty_last(packet, rest.ignored)
        {
            self.senders.event(number);
        }
        let last = self.senders.end_packet(self.origin, &self.arrivals, &mut self.tally);
        match rest.refusal {
            None => self.count(Count::Accepted, 1),
            Some(refusal) => {
                self.count(Count::of(refusal), 1);
                let refused = (packet, rest.whole);
                self.senders.refused(self.origin, refused, last, &mut self.tally);
            }
        }
    }

    #[inline]
    fn trigger<const FILTERED: bool>(&mut self, data: &[Word], products: &mut Products) {
        self.count(Count::Triggers, 1);
        if self.usual::<FILTERED>(data, products).is_some() {
            return;
        }
        self.unusual::<FILTERED>(data, products);
    }

    /// A trigger of the usual shape in one pass over its words; `None`, and nothing done, for any other. Its
    /// time is its last word, so that hits need not wait for it.
    #[inline]
    fn usual<const FILTERED: bool>(
        &mut self,
        data: &[Word],
        products: &mut Products,
    ) -> Option<()> {
        let usual = self.high.usual(data)?;
        if usual.body.len() > self.glitch_limit {
            return None;
        }
        let before = self.high;
        let good = self.high.usual_time(&usual);
        let hits = &mut products.plane_hits;
        let start = hits.len();
        let (mut readouts, mut unmapped, mut filtered) = (0, 0, 0);
        for word in usual.body {
            let word = u32::from_le_bytes(*word);
            if word >> 28 != 1 {
                if word >> 28 == 0 {
                    continue;
                }
                hits.truncate(start);
                self.high = before;
                return None;
            }
            readouts += 1;
            let Some(place) = self.channels.of_word(word) else {
                unmapped += 1;
                continue;
            };
            let adc = word as u16 & 0xfff;
            let weight = if FILTERED { self.channels.weight(place, adc) } else { Some(adc) };
            match weight {
                Some(weight) => hits.push(hit(good.time, place, weight)),
                None => filtered += 1,
            }
        }
        self.time = Some(good.time);
        self.count(Count::Decoded, 1);
        self.count(Count::Readouts, readouts);
        if good.fell || unmapped + filtered > 0 {
            self.count(Count::HighFell, good.fell.into());
            self.count(Count::Unmapped, unmapped);
            self.count(Count::Filtered, filtered);
        }
        Some(())
    }

    /// Any trigger.
    #[inline(never)]
    fn unusual<const FILTERED: bool>(&mut self, data: &[Word], products: &mut Products) {
        self.entries.n = 0;
        match self.high.decode(data, &mut self.entries) {
            Ok(good) => {
                self.time = Some(good.time);
                self.count(Count::Decoded, 1);
                self.count(Count::HighFell, good.fell.into());
                self.hits::<FILTERED>(good.time, products);
            }
            Err(bad) => {
                self.count(Count::Discarded, bad.discarded as u64);
                self.count(Count::of_words(bad.error), 1);
            }
        }
    }

    /// Entries of a good sub-buffer.
    #[inline]
    fn hits<const FILTERED: bool>(&mut self, time: i64, products: &mut Products) {
        let n = self.entries.n;
        self.tally[Count::Readouts as usize] += n as u64;
        if n > self.glitch_limit {
            self.count(Count::Glitches, n as u64);
            return;
        }
        let hits = &mut products.plane_hits;
        for &word in &self.entries.words[..n.min(ROOM)] {
            if word >> 28 != 1 {
                hits.push(pulse(time));
                self.tally[Count::PulseReadouts as usize] += 1;
                continue;
            }
            let Some(place) = self.channels.of_word(word) else {
                self.tally[Count::Unmapped as usize] += 1;
                continue;
            };
            let adc = word as u16 & 0xfff;
            let weight = if FILTERED { self.channels.weight(place, adc) } else { Some(adc) };
            match weight {
                Some(weight) => hits.push(hit(time, place, weight)),
                None => self.tally[Count::Filtered as usize] += 1,
            }
        }
    }

    fn records(&mut self, packet: &[u8], products: &mut Products) {
        self.count(Count::Accepted, 1);
        for record in records::records(packet) {
            self.count(Count::Readouts, 1);
            if record.external {
                products.plane_hits.push(pulse(record.time));
                self.count(Count::PulseReadouts, 1);
                continue;
            }
            self.time = Some(record.time);
            let Some(place) = self.channels.of(record.bus, record.channel) else {
                self.count(Count::Unmapped, 1);
                continue;
            };
            match self.channels.weight(place, record.adc) {
                Some(weight) => products.plane_hits.push(hit(record.time, place, weight)),
                None => self.count(Count::Filtered, 1),
            }
        }
    }

    /// The first packet of a train has been read, which came at `received_ns`.
    #[inline]
    fn show(&mut self, received_ns: i64) {
        let Some(time) = self.time.take() else { return };
        self.readings.note(Clock::default().absolute(time).0, received_ns);
        // One clock for all: so far back it was set.
        if time < self.newest.saturating_sub(SET_BACK) {
            self.readings.began_anew();
            self.newest = time;
        }
        self.newest = self.newest.max(time);
    }

    fn flush(&mut self) {
        for (line, n) in self.tally.iter_mut().enumerate() {
            if *n != 0 {
                self.sheet.add(line, *n);
                *n = 0;
            }
        }
        self.sheet.set(Count::EventsMost as usize, self.senders.most.into());
        let get = |line: Count| self.sheet.get(line as usize);
        for (published, value) in [
            (Count::RxPackets, get(Count::Packets)),
            (Count::ParserTriggers, get(Count::Triggers)),
            (Count::ReadoutsTotal, get(Count::Readouts) - get(Count::Glitches)),
            (Count::GlitchRejects, get(Count::Glitches)),
            (Count::FilterRejects, get(Count::Filtered)),
            (Count::GeometryErrors, get(Count::Unmapped)),
            (Count::HitsTotal, get(Count::Hits)),
        ] {
            self.sheet.set(published as usize, value);
        }
    }
}

#[inline]
fn pulse(time: i64) -> PlaneHit {
    // Section 4 of the format: no coordinate, no weight; pulses belong to no module.
    PlaneHit { time, coordinate: u16::MAX, weight: 0, module: u16::MAX, plane: PlaneHit::PULSE }
}

#[inline]
fn hit(time: i64, place: Place, weight: u16) -> PlaneHit {
    let Place { coordinate, bus, plane } = place;
    PlaneHit { time, coordinate, weight, module: bus.into(), plane: plane as u8 }
}

impl Reader for MultigridReader {
    fn read(&mut self, batch: &Batch, products: &mut Products) {
        let (mut packets, mut bytes) = (0, 0);
        let before = products.plane_hits.len();
        self.arrivals.begin();
        self.readings.begin();
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            self.origin = train.origin;
            self.time = None;
            let mut shows = at % EACH == 0;
            for packet in train.chunks() {
                packets += 1;
                bytes += packet.len() as u64;
                (self.work)(self, packet, products);
                if std::mem::take(&mut shows) {
                    self.show(train.time_ns);
                }
            }
        }
        self.count(Count::Packets, packets);
        self.count(Count::RxBytes, bytes);
        self.count(Count::Hits, (products.plane_hits.len() - before) as u64);
        self.flush();
    }

    fn finish(&mut self, _: &mut Products) {
        self.senders.finish(&mut self.tally);
        self.flush();
    }

    fn begin_anew(&mut self) {
        self.senders.begin_anew(&mut self.tally);
        self.flush();
    }

    fn readings(&mut self) -> Option<&mut Readings> {
        Some(&mut self.readings)
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
