//! A source with seeded faults: drops, duplicates and reorders the chunks of any source.
//!
//! Faults are those of [`fullcount_core::sim::Fault`], counted by chunk in order of arrival. Chunks are copied, so this
//! is for tests, not for measurements. Equal neighbours are joined into trains again. Held chunks are released when
//! enough later ones have come, or at the end. Only for datagrams: a piece of a byte stream cannot be lost, so
//! [`Edge::Stream`] passes untouched. A fault is checked when it is made.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::Sheet;
use fullcount_core::progress::Flush;
use fullcount_core::sim::{Fault, FaultyLine, PacketFate};

use crate::pcap::trains::{Trains, single};
use crate::source::{Received, Source, SourceError};

/// Own memory of a batch: holds the longest datagram 16 times.
const BATCH_BYTES: usize = 1 << 20;
/// Longest datagram, rounded up.
const SLOT_BYTES: usize = 1 << 16;

fullcount_core::counters! {
    /// What a fault did. The hop balances: packets + duplicated = delivered + dropped + held.
    pub enum Faults {
        Packets "fault.packets" Packets Sum "fault" In "datagrams that met the fault" "";
        Duplicated "fault.duplicated" Packets Sum "fault" In "copies made on purpose" "";
        Delivered "fault.delivered" Packets Sum "fault" Accepted "datagrams handed on" "";
        Dropped "fault.dropped" Packets Sum "fault" Rejected "datagrams dropped on purpose"
            "leave the fault out of the configuration if this is no test";
        Held "fault.held" Packets Sum "fault" Queued "datagrams held back at present" "";
        Reordered "fault.reordered" Packets Sum "fault" Note "datagrams held back on purpose" "";
    }
}

#[derive(Debug, Clone)]
struct Held {
    bytes: Vec<u8>,
    origin: Origin,
    /// Its destination, if the source has it.
    to: Option<Origin>,
    time_ns: i64,
    edge: Edge,
    /// Trains that the kernel dropped before it.
    dropped: u32,
}

impl Held {
    /// A copy, which says nothing about drops again.
    fn again(&self) -> Held {
        Held { dropped: 0, ..self.clone() }
    }
}

/// A source around a source.
pub struct FaultSource {
    inner: Box<dyn Source>,
    fault: Fault,
    line: FaultyLine<Held>,
    received: Batch,
    /// Came out of the fault and waits for room in a batch.
    ready: VecDeque<Held>,
    ended: bool,
    /// Reported after the held chunks are released.
    flush: Option<Flush>,
    sheet: Arc<Sheet>,
}

impl FaultSource {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn Source>, fault: Fault) -> FaultSource {
        let received = inner.batch();
        let sheet = Sheet::new(Faults::catalogue());
        let (line, ready) = (FaultyLine::default(), VecDeque::new());
        FaultSource { inner, fault, line, received, ready, ended: false, flush: None, sheet }
    }

    /// Counters of the fault alone; [`Source::sheet`] gives those of the wrapped source.
    pub fn fault_sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    /// Applies the fault to received chunks.
    fn meet(&mut self) {
        let (mut packets, mut duplicated, mut dropped, mut reordered) = (0, 0, 0, 0);
        let ready = &mut self.ready;
        let destinations = self.received.destinations();
        let mut marks = self.received.dropped().iter().peekable();
        let mut before = 0;
        for (at, train) in self.received.trains().enumerate() {
            let to = destinations.get(at).copied();
            let (origin, time_ns, edge) = (train.origin, train.time_ns, train.edge);
            while let Some(mark) = marks.next_if(|m| m.before <= at) {
                before += mark.trains;
            }
            for chunk in train.chunks() {
                let held =
                    Held { bytes: chunk.to_vec(), origin, to, time_ns, edge, dropped: before };
                packets += 1;
                if edge == Edge::Stream {
                    ready.push_back(held);
                    continue;
                }
                let action = self.line.push(&self.fault, held, Held::again, |h| ready.push_back(h));
                match action {
                    PacketFate::Deliver => {}
                    PacketFate::Duplicate => duplicated += 1,
                    PacketFate::Drop => dropped += 1,
                    PacketFate::Hold(_) => reordered += 1,
                }
                // Said by the next one if this one goes no further.
                before = if action == PacketFate::Drop { before } else { 0 };
            }
        }
        self.sheet.add(Faults::Packets as usize, packets);
        self.sheet.add(Faults::Duplicated as usize, duplicated);
        self.sheet.add(Faults::Dropped as usize, dropped);
        self.sheet.add(Faults::Reordered as usize, reordered);
    }

    /// Moves ready chunks into the batch, as far as there is space.
    fn fill(&mut self, batch: &mut Batch) {
        let mut trains = Trains::new(u64::MAX);
        let mut open: Option<TrainMeta> = None;
        let mut open_to = None;
        let (mut filled, mut delivered) = (0, 0);
        while let Some(h) = self.ready.front() {
            let end = filled + h.bytes.len();
            let Some(place) = batch.memory_mut().get_mut(filled..end) else { break };
            place.copy_from_slice(&h.bytes);
            let differs = open.is_some_and(|t| t.edge != h.edge) || open_to != h.to;
            if differs || h.edge != Edge::Datagram || h.dropped > 0 {
                trains.close();
            }
            if !trains.join(open.as_mut(), filled, h.bytes.len(), h.origin, None, h.time_ns) {
                let next = TrainMeta {
                    edge: h.edge,
                    ..single(filled, h.bytes.len(), h.origin, h.time_ns)
                };
                if let Some(done) = open.replace(next) {
                    push(batch, done, open_to);
                }
                batch.note_dropped(h.dropped);
                open_to = h.to;
            }
            filled = end;
            delivered += 1;
            self.ready.pop_front();
        }
        if let Some(done) = open {
            push(batch, done, open_to);
        }
        self.sheet.add(Faults::Delivered as usize, delivered);
        self.sheet.set(Faults::Held as usize, (self.line.held() + self.ready.len()) as u64);
    }
}

fn push(batch: &mut Batch, train: TrainMeta, to: Option<Origin>) {
    match to {
        None => batch.push(train),
        Some(to) => batch.push_to(train, to),
    }
}

impl Source for FaultSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        if batch.memory_mut().len() < BATCH_BYTES {
            let number = batch.number();
            *batch = self.batch();
            batch.set_number(number);
        }
        batch.clear();
        if self.ready.is_empty() && !self.ended && self.flush.is_none() {
            // Held chunks come with a later batch: a group's offset may be ahead of them by that much.
            self.received.set_number(batch.number());
            match self.inner.recv(&mut self.received, wait)? {
                Received::Data => self.meet(),
                Received::Idle => return Ok(Received::Idle),
                Received::Flush(reason) => {
                    self.flush = Some(reason);
                    let ready = &mut self.ready;
                    self.line.finish(|h| ready.push_back(h));
                }
                Received::End => {
                    self.ended = true;
                    let ready = &mut self.ready;
                    self.line.finish(|h| ready.push_back(h));
                }
            }
        }
        self.fill(batch);
        if batch.is_empty()
            && let Some(reason) = self.flush.take()
        {
            return Ok(Received::Flush(reason));
        }
        Ok(match (batch.is_empty(), self.ended) {
            (false, _) => Received::Data,
            (true, true) => Received::End,
            // All that came was dropped or is held back.
            (true, false) => Received::Idle,
        })
    }

    fn batch(&self) -> Batch {
        Batch::with_slots(BATCH_BYTES / SLOT_BYTES, SLOT_BYTES)
    }

    fullcount_core::as_inner_source!(inner: lossless replay for_capture buffer_percent sheet);

    fn describe(&self) -> Vec<String> {
        let mut lines = self.inner.describe();
        lines.push(format!("faults on purpose: {}", self.fault.spec()));
        lines
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
