//! Reads Multi-Blade datagrams: every packet is accounted for, every readout with a place becomes a hit.
//!
//! Hits go to the builder with a border behind each segment of a packet, because nothing joins across packets
//! or across a restart of the digitiser's clock. Refuses packets by the checks of
//! [`packet`](super::packet), and readouts by time, channel and amplitude, in this order; each is a counter.
//! Source: `docs/formats/multiblade.md` sections 2 to 4.

use std::sync::Arc;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Sheet, Tally};
use fullcount_core::products::Products;
use fullcount_core::progress::Flush;
use fullcount_core::sequence::numbering::{Book, Numbering};
use fullcount_core::sequence::streams::{Series, Streams};
use fullcount_core::sequence::turns::Arrivals;
use fullcount_core::slots::Found;

use super::arrival::Restarts;
use super::counters::MultiBladeCount;
use super::layout::{Channel, Layout, Mode, Use};
use super::packet::{self, ELEMENT_BYTES, MultiBladeRefusal, Readout};
use crate::detector::SeenModule;
use crate::hits::PlaneHit;
use crate::steps::Reader;

/// Counts of one batch.
type Counts = Tally<{ MultiBladeCount::LINES }>;

/// Plane of a monitor readout on its way to the builder.
pub(super) const MONITOR: u8 = 2;

/// Row that ends a segment; its time is that of the clock's beginning, ns, added to those of the segment's events.
const BORDER: PlaneHit =
    PlaneHit { time: 0, coordinate: 0, weight: 0, module: 0, plane: PlaneHit::BORDER };

/// The packets of one sender, which counts them over all its digitisers.
#[derive(Debug)]
struct Sender {
    /// Next number of the published rule, which begins with 0.
    expected: u32,
    series: Series,
}

impl Sender {
    fn new(numbering: &Numbering) -> Sender {
        Sender { expected: 0, series: Series::new(numbering) }
    }

    /// The published rule: true if the number is not the expected one.
    #[inline]
    fn is_unexpected(&mut self, number: u32) -> bool {
        let expected = std::mem::replace(&mut self.expected, number.wrapping_add(1));
        number != expected
    }
}

/// The reader of one worker.
pub(super) struct BladeReader {
    sheet: Arc<Sheet>,
    tally: Counts,
    numbering: Numbering,
    book: Book,
    senders: Streams<Sender>,
    layout: Arc<Layout>,
    /// Monitor readouts go to the builder.
    monitor_hits: bool,
    arrivals: Arrivals,
    /// Where the packets' arrival is their time.
    restarts: Option<Restarts>,
}

impl BladeReader {
    pub fn new(numbering: Numbering, layout: Arc<Layout>, monitor_hits: bool, now: bool) -> Self {
        let mut lines = MultiBladeCount::catalogue();
        let book = Book::new(&numbering, &mut lines);
        BladeReader {
            sheet: Sheet::new(lines),
            tally: Tally::default(),
            numbering,
            book,
            senders: Streams::new(&numbering),
            layout,
            monitor_hits,
            arrivals: Arrivals::default(),
            restarts: now.then(Restarts::default),
        }
    }

    #[inline]
    fn packet(&mut self, packet: &[u8], hits: &mut Vec<PlaneHit>) {
        match self.try_packet(packet, hits) {
            Ok(()) => self.tally.add(MultiBladeCount::Accepted, 1),
            Err(refusal) => self.refuse(refusal, packet.len()),
        }
    }

    #[cold]
    fn refuse(&mut self, refusal: MultiBladeRefusal, bytes: usize) {
        self.tally.add(MultiBladeCount::of(refusal), 1);
        self.tally.add(MultiBladeCount::of_class(refusal.class()), 1);
        match refusal {
            MultiBladeRefusal::Version => self.tally.add(MultiBladeCount::ErrorVersion, 1),
            MultiBladeRefusal::ShortPacket
            | MultiBladeRefusal::ElementType
            | MultiBladeRefusal::LengthMismatch => {
                self.tally.add(MultiBladeCount::ErrorBytes, bytes as u64);
            }
        }
    }

    #[inline]
    fn try_packet(
        &mut self,
        packet: &[u8],
        hits: &mut Vec<PlaneHit>,
    ) -> Result<(), MultiBladeRefusal> {
        let header = packet::header(packet)?;
        self.sequence_check(header.sequence);
        let elements = packet::elements(&header, packet)?;
        self.tally.add(MultiBladeCount::Readouts, elements.len() as u64);
        match self.layout.boards.get(header.digitizer) {
            Some(board) => {
                let start = hits.len();
                readouts(elements, board, &self.layout, self.monitor_hits, &mut self.tally, hits);
                if let Some(restarts) = &mut self.restarts {
                    restarts.place(header.digitizer, &mut hits[start..], &self.layout);
                }
            }
            None => {
                self.tally.add(MultiBladeCount::BadDigitizer, 1);
                self.tally.add(MultiBladeCount::Unknown, elements.len() as u64);
            }
        }
        Ok(())
    }

    /// Check 4: follows the sender's sequence number.
    #[inline]
    fn sequence_check(&mut self, number: u32) {
        let found = self.senders.find(0);
        if !matches!(found, Found::Known(_)) {
            self.new_sender(found);
        }
        let sender = &mut self.senders.all[found.place()];
        if sender.is_unexpected(number) {
            self.tally.add(MultiBladeCount::SeqErrors, 1);
        }
        sender.series.observe_at(number.into(), &self.arrivals, &mut self.book);
    }

    #[cold]
    fn new_sender(&mut self, found: Found) {
        self.book.found(found);
        let at = found.place();
        if let Some(gone) = self.senders.all.get_mut(at) {
            gone.series.finish(None, &mut self.book);
        }
        self.senders.begin(at, Sender::new(&self.numbering));
    }

    fn publish(&mut self) {
        self.tally.flush(&self.sheet);
        self.book.flush(&self.sheet);
    }
}

/// Makes hits of the readouts of one packet, with a border behind each segment.
#[inline]
fn readouts(
    elements: &[[u8; ELEMENT_BYTES]],
    board: &[Channel],
    layout: &Layout,
    monitor_hits: bool,
    tally: &mut Counts,
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
            tally.add(MultiBladeCount::TimerWraps, 1);
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
        if line == MultiBladeCount::Monitor && monitor_hits {
            rows[n] = PlaneHit { time: i64::from(r.time), plane: MONITOR, ..PlaneHit::default() };
            n += 1;
        }
    }
    hits.truncate(start + n + usize::from(n > 0));
    tally.add(MultiBladeCount::Good, good);
    match layout.mode {
        Mode::OneD => tally.add(MultiBladeCount::OneY, good),
        Mode::TwoD => {
            tally.add(MultiBladeCount::TwoX, good - second);
            tally.add(MultiBladeCount::TwoY, second);
        }
    }
}

/// A readout that is no hit: time limit, monitor, channel, amplitude, then what the mode drops.
#[inline]
fn other(r: Readout, channel: Option<&Channel>, layout: &Layout) -> MultiBladeCount {
    let role = channel.map_or(Use::Nothing, |channel| channel.role);
    if u64::from(r.time) >= layout.time_limit {
        MultiBladeCount::TofLarge
    } else if matches!(role, Use::Monitor | Use::Nothing) || r.adc <= layout.max_adc {
        MultiBladeCount::of_use(role)
    } else {
        MultiBladeCount::InvalidAdc
    }
}

impl BladeReader {
    /// The run has ended: what is missing is lost.
    fn end_all(&mut self) {
        self.senders.all.iter_mut().for_each(|s| s.series.finish(None, &mut self.book));
        self.publish();
    }

    /// Somebody else may have had packets: what is missing is lost, and each stream begins with whatever comes next.
    fn begin_anew(&mut self) {
        self.senders.all.iter_mut().for_each(|s| s.series.begin_anew(&mut self.book));
        self.publish();
    }
}

impl Reader for BladeReader {
    type Hit = PlaneHit;

    fn read(&mut self, batch: &Batch, hits: &mut Vec<PlaneHit>, _: &mut Products) {
        let mut packets = 0;
        self.arrivals.begin();
        for (at, train) in batch.trains().enumerate() {
            self.arrivals.train(batch, at, &train);
            self.senders.train(train.origin);
            if let Some(restarts) = &mut self.restarts {
                restarts.at(train.time_ns);
            }
            for packet in train.chunks() {
                packets += 1;
                self.packet(packet, hits);
            }
        }
        self.tally.add(MultiBladeCount::Packets, packets);
        self.publish();
    }

    fn flush(&mut self, reason: Flush) {
        match reason {
            Flush::Taken => self.begin_anew(),
            Flush::End => self.end_all(),
            Flush::Stalled => {}
        }
    }

    fn modules(&self, tell: &mut dyn FnMut(SeenModule)) {
        for ((origin, id), sender) in self.senders.followed() {
            let totals = sender.series.tracker().totals();
            tell(SeenModule { origin, id, packets: totals.received, lost: totals.lost });
        }
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
