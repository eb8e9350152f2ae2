//! Reads Multi-Blade datagrams: every packet is accounted for, every readout with a place becomes a hit.
//!
//! Hits go to the builder with a border behind each segment of a packet, because nothing joins across packets
//! or across a restart of the digitiser's clock. Refuses packets by the checks of
//! [`packet`](super::packet), and readouts by time, channel and amplitude, in this order; each is a counter.
//! Source: `docs/formats/multiblade.md` sections 2 to 4.

use std::sync::Arc;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::products::{PlaneHit, Products};
use fullcount_core::sequence::turns::{Arrivals, Turned};
use fullcount_core::sequence::{Seen, Totals, Tracker};
use fullcount_core::slots::Found;

use super::arrival::Restarts;
use super::counters::{Count, LINES};
use super::layout::{Channel, Layout, Mode, Use};
use super::packet::{self, ELEMENT_BYTES, Readout, Refusal};
use super::streams::{Stream, Streams};
use crate::detector::Reader;

/// Plane of a monitor readout on its way to the builder.
pub(super) const MONITOR: u8 = 2;

/// Row that ends a segment; its time is that of the clock's beginning, ns, added to those of the segment's events.
const BORDER: PlaneHit =
    PlaneHit { time: 0, coordinate: 0, weight: 0, module: 0, plane: PlaneHit::BORDER };

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
pub(super) struct BladeReader {
    sheet: Arc<Sheet>,
    tally: Tally,
    streams: Streams,
    layout: Arc<Layout>,
    /// Monitor readouts go to the builder.
    monitor_hits: bool,
    arrivals: Arrivals,
    /// Where the packets' arrival is their time.
    restarts: Option<Restarts>,
}

impl BladeReader {
    pub fn new(streams: Streams, layout: Arc<Layout>, monitor_hits: bool, now: bool) -> Self {
        let (sheet, tally) = (Sheet::new(Count::catalogue()), Tally([0; LINES]));
        let (arrivals, restarts) = (Arrivals::default(), now.then(Restarts::default));
        BladeReader { sheet, tally, streams, layout, monitor_hits, arrivals, restarts }
    }

    #[inline]
    fn packet(&mut self, packet: &[u8], origin: Origin, hits: &mut Vec<PlaneHit>) {
        match self.try_packet(packet, origin, hits) {
            Ok(()) => self.tally.add(Count::Accepted, 1),
            Err(refusal) => self.refuse(refusal, packet.len()),
        }
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal, bytes: usize) {
        self.tally.add(Count::of(refusal), 1);
        self.tally.add(Count::of_class(refusal.class()), 1);
        match refusal {
            Refusal::Version => self.tally.add(Count::ErrorVersion, 1),
            Refusal::ShortPacket | Refusal::ElementType | Refusal::LengthMismatch => {
                self.tally.add(Count::ErrorBytes, bytes as u64);
            }
        }
    }

    #[inline]
    fn try_packet(
        &mut self,
        packet: &[u8],
        origin: Origin,
        hits: &mut Vec<PlaneHit>,
    ) -> Result<(), Refusal> {
        let header = packet::header(packet)?;
        self.sequence_check(header.sequence, origin);
        let elements = packet::elements(&header, packet)?;
        self.tally.add(Count::Readouts, elements.len() as u64);
        match self.layout.boards.get(header.digitizer) {
            Some(board) => {
                let start = hits.len();
                readouts(elements, board, &self.layout, self.monitor_hits, &mut self.tally, hits);
                if let Some(restarts) = &mut self.restarts {
                    restarts.place(header.digitizer, &mut hits[start..], &self.layout);
                }
            }
            None => {
                self.tally.add(Count::BadDigitizer, 1);
                self.tally.add(Count::Unknown, elements.len() as u64);
            }
        }
        Ok(())
    }

    /// Check 4: follows the sender's sequence number.
    #[inline]
    fn sequence_check(&mut self, number: u32, origin: Origin) {
        let found = self.streams.find(origin);
        let at = found.place();
        if !matches!(found, Found::Known(_)) {
            self.new_stream(found);
        }
        let stream = &mut self.streams.streams[at];
        if stream.is_unexpected(number) {
            self.tally.add(Count::SeqErrors, 1);
        }
        track(stream, number, &self.arrivals, &mut self.tally);
    }

    #[cold]
    fn new_stream(&mut self, found: Found) {
        let at = found.place();
        self.tally.add(Count::Streams, 1);
        if matches!(found, Found::Reused(_)) {
            self.tally.add(Count::StreamsReused, 1);
            end(&mut self.streams.streams[at].tracker, &mut self.tally);
        }
        self.streams.begin(at);
    }
}

/// Makes hits of the readouts of one packet, with a border behind each segment.
#[inline]
fn readouts(
    elements: &[[u8; ELEMENT_BYTES]],
    board: &[Channel],
    layout: &Layout,
    monitor_hits: bool,
    tally: &mut Tally,
    hits: &mut Vec<PlaneHit>,
) {
    let start = hits.len();
    // A hit each, at most as many borders, and one at the end; written by place, because pushing would store
    // the vector's length anew for each.
    hits.resize(start + 2 * elements.len() + 1, BORDER);
    let rows = &mut hits[start..];
    let (max_adc, time_limit) = (layout.max_adc, layout.time_limit);
    let (mut n, mut before, mut good, mut second) = (0, 0u32, 0u64, 0u64);
    for element in elements {
        let r = Readout::read(*element);
        if before.saturating_sub(r.time) >= layout.wrap_ticks {
            tally.add(Count::TimerWraps, 1);
            // What is not written is a border.
            n += usize::from(n > 0);
        }
        before = r.time;
        let channel = board.get(usize::from(r.channel));
        if let Some(channel) = channel
            && channel.role == Use::Hit
            && r.adc <= max_adc
            && u64::from(r.time) < time_limit
        {
            good += 1;
            second += u64::from(channel.plane);
            rows[n] = PlaneHit {
                time: i64::from(r.time),
                coordinate: channel.coordinate,
                weight: r.adc,
                module: channel.cassette,
                plane: channel.plane,
            };
            n += 1;
            continue;
        }
        let line = other(r, channel, layout);
        tally.add(line, 1);
        if line == Count::Monitor && monitor_hits {
            rows[n] = PlaneHit { time: i64::from(r.time), plane: MONITOR, ..PlaneHit::default() };
            n += 1;
        }
    }
    hits.truncate(start + n + usize::from(n > 0));
    tally.add(Count::Good, good);
    match layout.mode {
        Mode::OneD => tally.add(Count::OneY, good),
        Mode::TwoD => {
            tally.add(Count::TwoX, good - second);
            tally.add(Count::TwoY, second);
        }
    }
}

/// A readout that is no hit: time limit, monitor, channel, amplitude, then what the mode drops.
#[inline]
fn other(r: Readout, channel: Option<&Channel>, layout: &Layout) -> Count {
    let role = channel.map_or(Use::Nothing, |channel| channel.role);
    if u64::from(r.time) >= layout.time_limit {
        Count::TofLarge
    } else if matches!(role, Use::Monitor | Use::Nothing) || r.adc <= layout.max_adc {
        Count::of_use(role)
    } else {
        Count::InvalidAdc
    }
}

/// Follows one sequence number; what changed goes to the tally.
#[inline]
fn track(stream: &mut Stream, number: u32, now: &Arrivals, tally: &mut Tally) {
    let (tracker, next) = (&mut stream.tracker, number);
    let number = u64::from(number);
    let usual = stream.turns.is_usual(now);
    if usual && tracker.pending() == 0 && tracker.next() as u32 == next {
        // The usual case, without a copy of the totals: the next number, nothing open, nothing to book.
        tracker.observe(number);
        return;
    }
    let (before, pending) = (tracker.totals(), tracker.pending());
    let turned = stream.turns.before(tracker, number, now);
    let seen = tracker.observe(number);
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

impl Reader for BladeReader {
    fn read(&mut self, batch: &Batch, products: &mut Products) {
        let mut packets = 0;
        self.arrivals.begin();
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            if let Some(restarts) = &mut self.restarts {
                restarts.at(train.time_ns);
            }
            for packet in train.chunks() {
                packets += 1;
                self.packet(packet, train.origin, &mut products.plane_hits);
            }
        }
        self.tally.add(Count::Packets, packets);
        self.tally.flush(&self.sheet);
    }

    fn finish(&mut self, _: &mut Products) {
        for stream in &mut self.streams.streams {
            end(&mut stream.tracker, &mut self.tally);
        }
        self.tally.flush(&self.sheet);
    }

    fn begin_anew(&mut self) {
        for stream in &mut self.streams.streams {
            let tracker = &mut stream.tracker;
            let (before, pending) = (tracker.totals(), tracker.pending());
            tracker.forget();
            stream.turns.forget();
            settle(tracker, before, pending, &mut self.tally);
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
