//! One destination of a sender: what it was opened as, its fault, and its account.
//!
//! Of several destinations one that fails stops none of the others: what it does not get is counted, and it is tried
//! again after [`PAUSE`]. A sender with one destination fails with it.

use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::destination::{
    Departed, Destination, DestinationEndpoint, DestinationError, DestinationOpening,
    DestinationPart, HeldBack,
};
use fullcount_core::ledger::Ledger;
use fullcount_core::link::Wire;
use fullcount_core::sim::{Fault, FaultyLine};

/// Where packets go, and what happens to them on the way.
#[derive(Debug)]
pub struct SendTo {
    /// Endpoint.
    pub endpoint: Box<dyn DestinationEndpoint>,
    /// What happens to packets on their way out.
    pub fault: Option<Fault>,
}

/// What one destination got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached {
    /// Endpoint as it was given.
    pub to: String,
    /// Packets that were not sent because sending to it failed; faults left out none of these.
    pub failed: u64,
    /// Datagrams that left, copies and end marks included.
    pub datagrams: u64,
    /// Send system calls that the kernel answered with datagrams taken.
    pub calls: u64,
    /// How it held its source back, where it can.
    pub held: Option<HeldBack>,
    /// What failed last, if anything did.
    pub failure: Option<String>,
    /// The destination's own counters that are not 0.
    pub counters: Vec<(String, u64)>,
    /// Its connections, where it has several or measures them.
    pub parts: Vec<DestinationPart>,
}

/// A destination that failed is left alone for so long: each try costs the others its time.
const PAUSE: Duration = Duration::from_secs(1);

/// A queue that takes nothing for so long holds up the other destinations no longer: 64 KiB, the longest message, take
/// 52 ms at 10 Mbit/s.
const PATIENCE: Duration = Duration::from_millis(200);

/// An open destination.
pub(super) struct Way {
    /// Empty if they could not be opened.
    pub lanes: Vec<Box<dyn Destination>>,
    fault: Option<Fault>,
    /// One per lane: what is held back leaves on the socket it was meant for.
    lines: Vec<FaultyLine<Vec<u8>>>,
    reached: Reached,
    /// True if others go on without this one.
    spared: bool,
    /// Until then it is not tried again.
    rests: Option<Instant>,
    marks_failed: u64,
    ipv6: bool,
    pub wire_bits: u64,
    wire_of: (usize, u64),
}

impl Way {
    /// Opens it. With further destinations a failure is kept instead of returned.
    pub fn open(to: &SendTo, opening: DestinationOpening<'_>) -> Result<Way, DestinationError> {
        let others = opening.others;
        // What a fault leaves out or repeats shifts the numbers behind it.
        let numbers = opening.numbers.filter(|_| to.fault.is_none());
        let patience = others.then_some(PATIENCE);
        let opening = DestinationOpening { patience, numbers, ..opening };
        let opened = to.endpoint.open(&opening);
        let mut reached = Reached { to: to.endpoint.label(), ..Reached::default() };
        let lanes = match opened {
            Err(e) if others => {
                note(&mut reached, &e.to_string(), "the other destinations are sent to");
                vec![]
            }
            opened => opened?,
        };
        let lines = lanes.iter().map(|_| FaultyLine::default()).collect();
        Ok(Way {
            lanes,
            fault: to.fault.clone(),
            lines,
            reached,
            spared: others,
            rests: None,
            marks_failed: 0,
            ipv6: to.endpoint.ipv6(),
            wire_bits: 0,
            wire_of: (usize::MAX, 0),
        })
    }

    /// True if nothing can be sent now.
    pub fn down(&self) -> bool {
        self.lanes.is_empty() || self.rests.is_some()
    }

    /// True if packets pass one by one.
    pub fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// Sends `bytes` as packets of `stride`, through the fault if there is one.
    pub fn send(
        &mut self,
        lane: usize,
        bytes: &[u8],
        stride: usize,
    ) -> Result<(), DestinationError> {
        self.count_wire(bytes.len(), stride);
        if !self.ready() {
            self.reached.failed += packets(bytes, stride);
            return Ok(());
        }
        let out = &mut self.lanes[lane];
        let Some(fault) = &self.fault else {
            let outcome = out.send(bytes, stride);
            return self.outlive(outcome);
        };
        let line = &mut self.lines[lane];
        let each = if stride == 0 { bytes.len().max(1) } else { stride };
        let (mut outcome, mut failed) = (Ok(()), 0);
        let mut give = |packet: Vec<u8>| match outcome {
            Ok(()) => outcome = out.send(&packet, 0),
            Err(_) => failed += 1,
        };
        if bytes.is_empty() {
            line.push(fault, Vec::new(), Clone::clone, &mut give);
        }
        for packet in bytes.chunks(each) {
            line.push(fault, packet.to_vec(), Clone::clone, &mut give);
        }
        self.reached.failed += failed;
        self.outlive(outcome)
    }

    /// Sends all trains of a batch on the first lane, untouched.
    pub fn whole(&mut self, batch: &Batch) -> Result<(), DestinationError> {
        batch.trains().for_each(|t| self.count_wire(t.bytes.len(), t.stride));
        if !self.ready() {
            self.reached.failed += batch.count();
            return Ok(());
        }
        let outcome = self.lanes[0].send_batch(batch);
        self.outlive(outcome)
    }

    /// What the fault still holds back leaves.
    pub fn finish(&mut self) -> Result<(), DestinationError> {
        let (mut outcome, mut failed) = (Ok(()), 0);
        for (line, out) in self.lines.iter_mut().zip(&mut self.lanes) {
            line.finish(|packet| match outcome {
                Ok(()) => outcome = out.send(&packet, 0),
                Err(_) => failed += 1,
            });
        }
        self.reached.failed += failed;
        self.outlive(outcome)
    }

    /// One end mark, outside faults; `again`: it was sent before, which is enough where nothing is lost. It is tried even while the destination rests: it is the last that it can get.
    pub fn mark(&mut self, mark: &[u8], again: bool) -> Result<(), DestinationError> {
        let Some(out) = self.lanes.first_mut() else { return Ok(()) };
        if again && out.lossless() {
            // Who has read the first one may be gone.
            return Ok(());
        }
        match out.send(mark, 0) {
            Err(e) if !self.spared => Err(e),
            Err(_) => {
                self.marks_failed += 1;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Nothing more comes.
    pub fn close(&mut self) -> Result<(), DestinationError> {
        let outcome = self.lanes.iter_mut().try_for_each(|lane| lane.finish());
        self.outlive(outcome)
    }

    /// What became of it.
    pub fn reached(&self) -> Reached {
        let sum = |which: fn(Departed) -> u64| -> u64 {
            self.lanes.iter().map(|lane| which(lane.departed())).sum()
        };
        let ledger = Ledger::default();
        self.lanes.iter().for_each(|lane| ledger.register(lane.sheet()));
        let own = ledger.read();
        let moved = own.iter().filter(|entry| entry.value > 0);
        let parts: Vec<_> = self.lanes.iter().flat_map(|lane| lane.parts()).collect();
        let ended: Vec<&str> = parts.iter().filter_map(|part| part.ended.as_deref()).collect();
        let ended = (!ended.is_empty()).then(|| ended.join("; "));
        Reached {
            failure: self.reached.failure.clone().or(ended),
            counters: moved.map(|entry| (entry.info.name.to_string(), entry.value)).collect(),
            failed: self.reached.failed + self.tried_in_vain(),
            datagrams: sum(|d| d.datagrams),
            calls: sum(|d| d.calls),
            held: self.lanes.iter().find_map(|lane| lane.held()),
            parts,
            ..self.reached.clone()
        }
    }

    /// Packets that the kernel refused for good, without end marks: they are no packets of the stream.
    fn tried_in_vain(&self) -> u64 {
        let failed: u64 = self.lanes.iter().map(|lane| lane.departed().failed).sum();
        failed.saturating_sub(self.marks_failed)
    }

    fn ready(&mut self) -> bool {
        if self.lanes.is_empty() {
            return false;
        }
        // The clock is read only while it rests.
        if self.rests.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        self.rests = None;
        true
    }

    /// A failure that the others outlive: said once, and tried again later.
    fn outlive(&mut self, outcome: Result<(), DestinationError>) -> Result<(), DestinationError> {
        let Err(e) = outcome else { return Ok(()) };
        if !self.spared {
            return Err(e);
        }
        self.rests = Some(Instant::now() + PAUSE);
        if self.reached.failure.is_none() {
            note(&mut self.reached, &e.to_string(), "it is tried again every second");
        }
        Ok(())
    }

    fn count_wire(&mut self, len: usize, stride: usize) {
        let each = if stride == 0 { len } else { stride };
        let bits = |payload| match self.lanes.first() {
            Some(lane) => lane.wire_bits(payload),
            None => Wire::usual(self.ipv6, payload).bits(payload),
        };
        if self.wire_of.0 != each {
            self.wire_of = (each, bits(each));
        }
        let full = len.checked_div(each).unwrap_or(1) as u64;
        self.wire_bits += full * self.wire_of.1;
        let rest = len.checked_rem(each).unwrap_or(0);
        if rest > 0 {
            self.wire_bits += bits(rest);
        }
    }
}

fn packets(bytes: &[u8], stride: usize) -> u64 {
    if stride == 0 { 1 } else { bytes.len().div_ceil(stride) as u64 }
}

fn note(reached: &mut Reached, why: &str, then: &str) {
    eprintln!("fullcount: {why}; {then}");
    reached.failure = Some(why.to_owned());
}
