//! Reads Multi-Grid datagrams: packets to triggers to hits, every readout accounted for.
//!
//! Refuses packets by the checks of [`container`](super::container), triggers by those of
//! [`words`](super::words), glitches, and readouts without place or outside of their thresholds; each is a
//! counter. A trigger that is refused leaves no hit. Follows each sender's event numbers
//! ([`senders`](super::senders)). Source: `docs/formats/multigrid.md` sections 2 to 4, 8.

use std::sync::Arc;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::sequence::turns::Arrivals;
use fullcount_core::wall::{EACH, Readings};

use super::builder::Clock;
use super::channels::{Channels, ReadoutPlace};
use super::container::{self, ContainerWord};
use super::counters::MultiGridCount;
use super::file::{DatagramFormat, MultiGridConfig};
use super::numbers;
use super::records;
use super::senders::EventSenders;
use super::words::{HighTime, Take};
use crate::detector::{CommandError, CommandInfo, SeenModule};
use crate::hits::PlaneHit;
use crate::steps::Reader;
use crate::thresholds::{self, Threshold};

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
    tally: Tally<{ MultiGridCount::LINES }>,
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
    /// When the last train was received, ns since 1970; 0: unknown.
    received: i64,
    /// Work on one datagram, chosen once: by format, and by whether anything is filtered.
    work: fn(&mut MultigridReader, &[u8], &mut Vec<PlaneHit>),
    format: DatagramFormat,
    /// Smallest amplitudes of wires and grids, where a command has set them.
    thresholds: [Option<u16>; 2],
}

/// A shorter silence hides no turn of the clock, ns: half of one is 33.6 s.
const LONG_NS: i64 = 30_000_000_000;

/// Names of [`MultigridReader::thresholds`].
const THRESHOLDS: [&str; 2] = ["wires", "grids"];

impl MultigridReader {
    pub fn new(config: Arc<MultiGridConfig>, channels: Arc<Channels>, glitch_limit: usize) -> Self {
        let format = config.format;
        let work = Self::work(format, &channels);
        let mut lines = MultiGridCount::catalogue();
        let senders = EventSenders::new(config.format, &mut lines);
        MultigridReader {
            sheet: Sheet::new(lines),
            tally: Tally::default(),
            glitch_limit,
            entries: Entries { words: Box::new([0; ROOM]), n: 0 },
            high: HighTime::new(config.spoof_high_time),
            senders,
            arrivals: Arrivals::default(),
            readings: Readings::default(),
            time: None,
            newest: i64::MIN,
            received: 0,
            work,
            format,
            channels,
            thresholds: [None; 2],
        }
    }

    /// What reads a datagram.
    fn work(
        format: DatagramFormat,
        channels: &Channels,
    ) -> fn(&mut MultigridReader, &[u8], &mut Vec<PlaneHit>) {
        match (format, channels.filtered()) {
            (DatagramFormat::Mesytec, false) => Self::packet::<false>,
            (DatagramFormat::Mesytec, true) => Self::packet::<true>,
            (DatagramFormat::Records, _) => Self::records,
        }
    }

    #[inline]
    fn count(&mut self, line: MultiGridCount, n: u64) {
        self.tally.add(line, n);
    }

    fn packet<const FILTERED: bool>(&mut self, packet: &[u8], hits: &mut Vec<PlaneHit>) {
        self.senders.begin_packet();
        let rest = container::sub_buffers(packet, |data, number| {
            self.senders.event(number);
            self.trigger::<FILTERED>(data, hits);
        });
        self.count(MultiGridCount::Discarded, rest.discarded as u64);
        self.count(MultiGridCount::TailBytes, rest.ignored as u64);
        // What is left may be an event without data, which has a number.
        if rest.ignored >= container::EMPTY_BYTES
            && let Some(number) = numbers::empty_last(packet, rest.ignored)
        {
            self.senders.event(number);
        }
        let (last, steps) = self.senders.end_packet(&self.arrivals);
        self.count(MultiGridCount::SeqErrors, steps);
        match rest.refusal {
            None => self.count(MultiGridCount::Accepted, 1),
            Some(refusal) => {
                self.count(MultiGridCount::of(refusal), 1);
                self.senders.refused(packet, rest.whole, last);
            }
        }
    }

    #[inline]
    fn trigger<const FILTERED: bool>(&mut self, data: &[ContainerWord], hits: &mut Vec<PlaneHit>) {
        self.count(MultiGridCount::Triggers, 1);
        if self.usual::<FILTERED>(data, hits).is_some() {
            return;
        }
        self.unusual::<FILTERED>(data, hits);
    }

    /// A trigger of the usual shape in one pass over its words; `None`, and nothing done, for any other. Its
    /// time is its last word, so that hits need not wait for it.
    #[inline]
    fn usual<const FILTERED: bool>(
        &mut self,
        data: &[ContainerWord],
        hits: &mut Vec<PlaneHit>,
    ) -> Option<()> {
        let usual = self.high.usual(data)?;
        if usual.body.len() > self.glitch_limit {
            return None;
        }
        let before = self.high;
        let good = self.high.usual_time(&usual);
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
        self.count(MultiGridCount::Decoded, 1);
        self.count(MultiGridCount::Readouts, readouts);
        if good.fell || unmapped + filtered > 0 {
            self.count(MultiGridCount::HighFell, good.fell.into());
            self.count(MultiGridCount::Unmapped, unmapped);
            self.count(MultiGridCount::Filtered, filtered);
        }
        Some(())
    }

    /// Any trigger.
    #[inline(never)]
    fn unusual<const FILTERED: bool>(&mut self, data: &[ContainerWord], hits: &mut Vec<PlaneHit>) {
        self.entries.n = 0;
        match self.high.decode(data, &mut self.entries) {
            Ok(good) => {
                self.time = Some(good.time);
                self.count(MultiGridCount::Decoded, 1);
                self.count(MultiGridCount::HighFell, good.fell.into());
                self.hits::<FILTERED>(good.time, hits);
            }
            Err(bad) => {
                self.count(MultiGridCount::Discarded, bad.discarded as u64);
                self.count(MultiGridCount::of_words(bad.error), 1);
            }
        }
    }

    /// Entries of a good sub-buffer.
    #[inline]
    fn hits<const FILTERED: bool>(&mut self, time: i64, hits: &mut Vec<PlaneHit>) {
        let n = self.entries.n;
        self.count(MultiGridCount::Readouts, n as u64);
        if n > self.glitch_limit {
            self.count(MultiGridCount::Glitches, n as u64);
            return;
        }
        for &word in &self.entries.words[..n.min(ROOM)] {
            if word >> 28 != 1 {
                hits.push(pulse(time));
                self.tally.add(MultiGridCount::PulseReadouts, 1);
                continue;
            }
            let Some(place) = self.channels.of_word(word) else {
                self.tally.add(MultiGridCount::Unmapped, 1);
                continue;
            };
            let adc = word as u16 & 0xfff;
            let weight = if FILTERED { self.channels.weight(place, adc) } else { Some(adc) };
            match weight {
                Some(weight) => hits.push(hit(time, place, weight)),
                None => self.tally.add(MultiGridCount::Filtered, 1),
            }
        }
    }

    fn records(&mut self, packet: &[u8], hits: &mut Vec<PlaneHit>) {
        self.count(MultiGridCount::Accepted, 1);
        for record in records::records(packet) {
            self.count(MultiGridCount::Readouts, 1);
            if record.external {
                hits.push(pulse(record.time));
                self.count(MultiGridCount::PulseReadouts, 1);
                continue;
            }
            self.time = Some(record.time);
            let Some(place) = self.channels.of(record.bus, record.channel) else {
                self.count(MultiGridCount::Unmapped, 1);
                continue;
            };
            match self.channels.weight(place, record.adc) {
                Some(weight) => hits.push(hit(record.time, place, weight)),
                None => self.count(MultiGridCount::Filtered, 1),
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

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        self.senders.flush(&self.sheet);
        let get = |line: MultiGridCount| self.sheet.get(line as usize);
        for (published, value) in [
            (MultiGridCount::RxPackets, get(MultiGridCount::Packets)),
            (MultiGridCount::ParserTriggers, get(MultiGridCount::Triggers)),
            (
                MultiGridCount::ReadoutsTotal,
                get(MultiGridCount::Readouts) - get(MultiGridCount::Glitches),
            ),
            (MultiGridCount::GlitchRejects, get(MultiGridCount::Glitches)),
            (MultiGridCount::FilterRejects, get(MultiGridCount::Filtered)),
            (MultiGridCount::GeometryErrors, get(MultiGridCount::Unmapped)),
            (MultiGridCount::HitsTotal, get(MultiGridCount::Hits)),
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
fn hit(time: i64, place: ReadoutPlace, weight: u16) -> PlaneHit {
    let ReadoutPlace { coordinate, bus, plane } = place;
    PlaneHit { time, coordinate, weight, module: bus.into(), plane: plane as u8 }
}

impl MultigridReader {
    /// The run has ended: what is missing is lost.
    fn end_all(&mut self) {
        self.senders.finish();
        self.publish();
    }

    /// Somebody else may have had packets: what is missing is lost, and each stream begins with whatever comes next.
    fn begin_anew(&mut self) {
        self.senders.begin_anew();
        self.publish();
    }
}

impl Reader for MultigridReader {
    type Hit = PlaneHit;

    fn read(&mut self, batch: &Batch, hits: &mut Vec<PlaneHit>, _: &mut Products) {
        let (mut packets, mut bytes) = (0, 0);
        let before = hits.len();
        self.arrivals.begin();
        self.readings.begin();
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            self.senders.train(train.origin);
            if train.time_ns > 0 {
                let before = std::mem::replace(&mut self.received, train.time_ns);
                if before > 0 && train.time_ns - before > LONG_NS {
                    self.high.silent(train.time_ns - before);
                }
            }
            self.time = None;
            let mut shows = at % EACH == 0;
            for packet in train.chunks() {
                packets += 1;
                bytes += packet.len() as u64;
                (self.work)(self, packet, hits);
                if std::mem::take(&mut shows) {
                    self.show(train.time_ns);
                }
            }
        }
        self.count(MultiGridCount::Packets, packets);
        self.count(MultiGridCount::RxBytes, bytes);
        self.count(MultiGridCount::Hits, (hits.len() - before) as u64);
        self.publish();
    }

    fn readings(&mut self) -> Option<&mut Readings> {
        Some(&mut self.readings)
    }

    fn flush(&mut self, reason: Flush) {
        match reason {
            Flush::Taken => self.begin_anew(),
            Flush::End => self.end_all(),
            Flush::Stalled => {}
        }
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        self.senders.tell(tell);
    }

    fn commands(&self) -> Vec<CommandInfo> {
        thresholds::commands("wires|grids")
    }

    fn command(&mut self, name: &str, arguments: &[&str]) -> Result<String, CommandError> {
        match thresholds::read(name, arguments)? {
            Threshold::Get => {
                let each = THRESHOLDS.iter().zip(self.thresholds);
                Ok(each
                    .map(|(name, value)| thresholds::told(name, value))
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            Threshold::Set(of, value) => {
                let plane = THRESHOLDS.iter().position(|name| *name == of);
                let plane = plane.ok_or_else(|| thresholds::unknown(of, "wires or grids"))?;
                self.thresholds[plane] = Some(value);
                Arc::make_mut(&mut self.channels).set_least(plane, value);
                self.work = Self::work(self.format, &self.channels);
                Ok(String::new())
            }
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
