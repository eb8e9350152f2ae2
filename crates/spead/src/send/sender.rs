//! A send stream: a queue of heaps and groups of heaps, their numbers, their packets in turn, the pace, completions.
//!
//! [`HeapSender::next_packet`] says what to send now, or until when to wait. Nothing is lost without a word: a full queue
//! gives the heap back, every heap that was taken has one completion. Source: `docs/formats/spead.md`, section 7.

use std::collections::VecDeque;
use std::ops::Range;

use fullcount_core::link::Wire;
use fullcount_core::refusal::{Refusal, refuse};

use super::counts::{LinkCount, SendCounts, SendError, SendRefusal};
use super::kept::{Kept, ResendError};
use super::out_heap::{OutHeap, PayloadParts};
use super::pace::{BurstPacer, PaceSettings};
use super::packetise::{CutRules, Packetiser};
use crate::receive::SenderTotals;

/// Settings of a send stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderConfig {
    /// How heaps are cut.
    pub cut: CutRules,
    /// Rate and bursts.
    pub pace: PaceSettings,
    /// Heaps in the queue.
    pub max_heaps: usize,
    /// Heaps that may wait for a place in the queue instead of being refused.
    pub waiting_heaps: usize,
    /// Bytes that these may take.
    pub waiting_bytes: u64,
    /// Destinations.
    pub substreams: usize,
    /// Bytes of sent heaps that are kept, so that packets can be sent again. 0: none.
    pub keep_bytes: u64,
    /// The link of all substreams, for exact counts of its bytes; `None`: it is not known, or they have different ones.
    pub wire: Option<Wire>,
}

impl Default for SenderConfig {
    fn default() -> SenderConfig {
        SenderConfig {
            cut: CutRules::default(),
            pace: PaceSettings::default(),
            max_heaps: 4,
            waiting_heaps: 0,
            waiting_bytes: 256 << 20,
            substreams: 1,
            keep_bytes: 0,
            wire: None,
        }
    }
}

/// Numbers of heaps: an arithmetic sequence, whose low bits are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapNumbers {
    /// Of the next heap.
    pub next: u64,
    /// From heap to heap, not 0.
    pub step: u64,
}

/// Rate of one heap.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum HeapRate {
    /// The stream's.
    #[default]
    Stream,
    /// As fast as possible.
    Unlimited,
    /// Bytes/s.
    Rate(f64),
}

/// How one heap is sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SendHow {
    /// Its number; `None`: the next of the sequence.
    pub cnt: Option<u64>,
    /// Its destination.
    pub substream: usize,
    /// Its rate.
    pub rate: HeapRate,
}

/// In which order the packets of a group leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupMode {
    /// Heap after heap.
    #[default]
    Serial,
    /// One packet of each heap in turn.
    RoundRobin,
}

/// Names what was put into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeapTicket(pub u64);

/// A heap or group has left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub ticket: HeapTicket,
    /// SPEAD bytes that were sent of it.
    pub bytes: u64,
    /// All of it was sent, and nothing failed.
    pub whole: bool,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextPacket {
    /// Send this packet.
    Packet {
        /// Bytes that were appended.
        bytes: usize,
        /// To this destination.
        substream: usize,
        /// Of this heap or group; `None`: it is sent again.
        ticket: Option<HeapTicket>,
    },
    /// Ask again then, ns.
    Wait(u64),
    /// Nothing is to be sent.
    Idle,
}

#[derive(Debug)]
struct Part {
    heap: OutHeap,
    packetiser: Packetiser,
    substream: usize,
    rate: Option<f64>,
    /// Nobody gets it.
    is_stop: bool,
}

#[derive(Debug)]
struct Job {
    ticket: HeapTicket,
    parts: Vec<Part>,
    mode: GroupMode,
    turn: usize,
    bytes: u64,
    failed: bool,
}

/// What is not among the totals of heaps.
#[derive(Debug, Default)]
struct Apart {
    packets: u64,
    payload_bytes: u64,
}

impl Apart {
    fn add(&mut self, payload: usize) {
        self.packets += 1;
        self.payload_bytes += payload as u64;
    }
}

/// Completions that wait at most: as many as a queue has heaps.
const COMPLETIONS: usize = 1 << 20;

/// A send stream.
#[derive(Debug)]
pub struct HeapSender {
    config: SenderConfig,
    numbers: HeapNumbers,
    queue: VecDeque<Job>,
    queued_heaps: usize,
    queued_bytes: u64,
    completions: VecDeque<Completion>,
    pacer: BurstPacer,
    kept: Kept,
    link: LinkCount,
    counts: SendCounts,
    /// Packets of stop heaps and packets that were sent again: no receiver gets them as well as others.
    apart: Apart,
    tickets: u64,
    idle: bool,
}

impl HeapSender {
    /// An empty queue; heaps are numbered 1, 2, 3, …
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: SenderConfig) -> Result<HeapSender, Refusal> {
        config.pace.check()?;
        if !(1..=1 << 20).contains(&config.max_heaps) {
            return Err(refuse("max_heaps", config.max_heaps, "1 to 1048576"));
        }
        if !(1..=65_536).contains(&config.substreams) {
            return Err(refuse("substreams", config.substreams, "1 to 65536"));
        }
        // What a packet size cannot be shows with the first heap; an empty one always has one pointer.
        if let Err(e) = Packetiser::new(&OutHeap::default(), 0, config.cut) {
            return Err(refuse("max_packet_size", config.cut.max_packet_size, e.to_string()));
        }
        Ok(HeapSender {
            numbers: HeapNumbers { next: 1, step: 1 },
            queue: VecDeque::new(),
            queued_heaps: 0,
            queued_bytes: 0,
            completions: VecDeque::new(),
            pacer: BurstPacer::new(config.pace),
            kept: Kept::new(config.keep_bytes),
            link: LinkCount::new(config.wire),
            counts: SendCounts {
                frame_bytes: config.wire.map(|_| 0),
                link_bytes: config.wire.map(|_| 0),
                ..SendCounts::default()
            },
            apart: Apart::default(),
            tickets: 0,
            idle: true,
            config,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// What was sent.
    pub fn counts(&self) -> SendCounts {
        self.counts
    }

    /// The numbers of the heaps to come.
    ///
    /// # Errors
    /// If the step is 0.
    pub fn set_numbers(&mut self, numbers: HeapNumbers) -> Result<(), Refusal> {
        if numbers.step == 0 {
            return Err(refuse("step", 0, "not 0"));
        }
        self.numbers = numbers;
        Ok(())
    }

    /// Another rate from the next packet on, bytes/s; 0: no limit.
    pub fn set_rate(&mut self, rate: f64) {
        self.pacer.set_rate(rate);
    }

    /// Another rate and burst from the next packet on, as a tuner says: close to what the link carries, so that at most 2 ms are
    /// caught up.
    pub fn set_pace(&mut self, rate: f64, burst_size: u64) {
        self.pacer.set_most_late(2_000_000);
        self.pacer.set_rate(rate);
        self.pacer.set_burst(burst_size);
    }

    /// Bytes that leave without a pause now.
    pub fn burst_size(&self) -> u64 {
        self.pacer.settings().burst_size
    }

    /// How far packets are behind the pace, ns. It grows while the socket takes less than the rate.
    pub fn behind_ns(&self, now_ns: u64) -> u64 {
        self.pacer.behind_ns(now_ns, !self.queue.is_empty())
    }

    /// Heaps that can be queued now.
    pub fn space(&self) -> usize {
        (self.config.max_heaps + self.config.waiting_heaps).saturating_sub(self.queued_heaps)
    }

    /// Puts a heap into the queue.
    ///
    /// # Errors
    /// The heap comes back with the reason.
    pub fn send(&mut self, heap: OutHeap, how: SendHow) -> Result<HeapTicket, SendError> {
        self.send_group(vec![(heap, how)], GroupMode::Serial)
    }

    fn refusal(&self, heaps: &[(OutHeap, SendHow)]) -> Option<SendRefusal> {
        let many = heaps.len();
        if many == 0 {
            return Some(SendRefusal::Nothing);
        }
        let bytes: u64 = heaps.iter().map(|(heap, _)| heap.bytes()).sum();
        let waits = self.queued_heaps + many > self.config.max_heaps;
        let heavy = waits && self.queued_bytes + bytes > self.config.waiting_bytes;
        if many > self.space() || heavy && self.queued_heaps > 0 {
            return Some(SendRefusal::Full(self.queued_heaps, many));
        }
        let last = self.config.substreams - 1;
        let wrong = heaps.iter().find(|(_, how)| how.substream > last);
        if let Some((_, how)) = wrong {
            return Some(SendRefusal::Substream(how.substream, last));
        }
        let good = |rate| matches!(rate, HeapRate::Rate(rate) if !(rate > 0.0 && rate <= 1e13));
        heaps.iter().any(|(_, how)| good(how.rate)).then_some(SendRefusal::Rate)
    }

    /// Puts several heaps into the queue, all or none, with one completion.
    ///
    /// # Errors
    /// The heaps come back with the reason.
    pub fn send_group(
        &mut self,
        heaps: Vec<(OutHeap, SendHow)>,
        mode: GroupMode,
    ) -> Result<HeapTicket, SendError> {
        let mut numbers = self.numbers;
        let mut refused = self.refusal(&heaps);
        let mut cut = Vec::with_capacity(heaps.len());
        for (heap, how) in &heaps {
            let cnt = how.cnt.unwrap_or_else(|| {
                let cnt = numbers.next & heap.flavour.largest_value();
                numbers.next = numbers.next.wrapping_add(numbers.step);
                cnt
            });
            match (refused, Packetiser::new(heap, cnt, self.config.cut)) {
                (None, Ok(packetiser)) => cut.push(packetiser),
                (None, Err(why)) => refused = Some(why.into()),
                (Some(_), _) => break,
            }
        }
        if let Some(why) = refused {
            self.counts.refused_heaps += heaps.len() as u64;
            let heaps = heaps.into_iter().map(|(heap, _)| heap).collect();
            return Err(SendError { why, heaps });
        }
        self.numbers = numbers;
        self.queued_heaps += heaps.len();
        let parts = heaps.into_iter().zip(cut).map(|((heap, how), packetiser)| {
            self.queued_bytes += heap.bytes();
            let rate = match how.rate {
                HeapRate::Stream => None,
                HeapRate::Unlimited => Some(0.0),
                HeapRate::Rate(rate) => Some(rate),
            };
            let is_stop = heap.is_stop();
            Part { heap, packetiser, substream: how.substream, rate, is_stop }
        });
        let parts = parts.collect();
        self.tickets += 1;
        let ticket = HeapTicket(self.tickets);
        self.queue.push_back(Job { ticket, parts, mode, turn: 0, bytes: 0, failed: false });
        Ok(ticket)
    }

    /// What to send now: appended to `out`.
    pub fn next_packet(&mut self, now_ns: u64, out: &mut Vec<u8>) -> NextPacket {
        self.next_with(now_ns, out, |part, out| {
            part.packetiser.next_packet(&part.heap, out).unwrap_or(0)
        })
    }

    /// What to send now, for a system call that gathers: header and pointers are appended to `prefix`, the payload stays where it
    /// is and is named in `parts`. A packet that is sent again is whole in `prefix`.
    pub fn next_parts(
        &mut self,
        now_ns: u64,
        prefix: &mut Vec<u8>,
        parts: &mut PayloadParts,
    ) -> NextPacket {
        self.next_with(now_ns, prefix, |part, prefix| {
            let Some(cut) = part.packetiser.next_cut(prefix) else { return 0 };
            part.packetiser.parts(&part.heap, cut.payload.clone(), parts);
            cut.bytes()
        })
    }

    fn next_with(
        &mut self,
        now_ns: u64,
        out: &mut Vec<u8>,
        cut: impl FnOnce(&mut Part, &mut Vec<u8>) -> usize,
    ) -> NextPacket {
        if self.queue.is_empty() && !self.kept.has_next() {
            self.idle = true;
            return NextPacket::Idle;
        }
        if std::mem::take(&mut self.idle) {
            self.pacer.wake(now_ns);
        }
        let due = self.pacer.due_ns(now_ns);
        if due > now_ns {
            return NextPacket::Wait(due);
        }
        if let Some((substream, payload, bytes)) = self.kept.next_packet(out) {
            self.counts.resent_packets += 1;
            self.counts.resent_bytes += bytes as u64;
            self.apart.add(payload);
            self.count(payload, bytes);
            self.pacer.sent(bytes, None);
            return NextPacket::Packet { bytes, substream, ticket: None };
        }
        let Some(job) = self.queue.front_mut() else { return NextPacket::Idle };
        let part = &mut job.parts[job.turn];
        let before = part.packetiser.offset();
        let bytes = cut(part, out);
        let payload = (part.packetiser.offset() - before) as usize;
        let (substream, rate) = (part.substream, part.rate);
        if part.is_stop {
            self.apart.add(payload);
        }
        self.pacer.sent(bytes, rate);
        job.bytes += bytes as u64;
        let ticket = Some(job.ticket);
        if !job.next_turn() {
            self.finish(true);
        }
        self.count(payload, bytes);
        NextPacket::Packet { bytes, substream, ticket }
    }

    /// What the receiver may be told, so that it knows what is missing.
    pub fn totals(&self) -> SenderTotals {
        let heaps = self.counts.heaps + self.counts.unfinished_heaps;
        SenderTotals {
            heaps: heaps - self.counts.stop_heaps,
            packets: self.counts.packets - self.apart.packets,
            payload_bytes: self.counts.payload_bytes - self.apart.payload_bytes,
        }
    }

    fn count(&mut self, payload: usize, bytes: usize) {
        self.counts.packets += 1;
        self.counts.payload_bytes += payload as u64;
        self.counts.packet_bytes += bytes as u64;
        if let Some((frames, link)) = self.link.of(bytes) {
            *self.counts.frame_bytes.get_or_insert(0) += frames;
            *self.counts.link_bytes.get_or_insert(0) += link;
        }
    }

    /// The first job leaves the queue.
    fn finish(&mut self, whole: bool) {
        let Some(job) = self.queue.pop_front() else { return };
        self.left(job, whole);
    }

    fn left(&mut self, job: Job, whole: bool) {
        let Job { ticket, parts, bytes, failed, .. } = job;
        if self.completions.len() == COMPLETIONS {
            self.completions.pop_front();
        }
        self.completions.push_back(Completion { ticket, bytes, whole: whole && !failed });
        self.queued_heaps -= parts.len();
        for part in parts {
            self.queued_bytes -= part.heap.bytes();
            // One of which no packet left is missed by nobody.
            let begun = part.packetiser.offset() > 0;
            self.counts.stop_heaps += u64::from(part.is_stop || !begun);
            if part.packetiser.is_done() {
                self.counts.heaps += 1;
                self.kept.add(part.heap, part.packetiser, part.substream);
            } else {
                self.counts.unfinished_heaps += 1;
            }
        }
    }

    /// The packet could not be sent: its heap's completion will say so.
    pub fn packet_failed(&mut self, ticket: HeapTicket) {
        self.counts.failed_packets += 1;
        if let Some(job) = self.queue.iter_mut().find(|job| job.ticket == ticket) {
            job.failed = true;
        } else if let Some(done) = self.completions.iter_mut().find(|c| c.ticket == ticket) {
            done.whole = false;
        }
    }

    /// The next completion, in the order of the queue. 1,048,576 wait at most; then the oldest ones are forgotten, as of a user who never
    /// asks for them.
    pub fn pop_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Takes a heap or group out of the queue; one that has begun stops in its middle. False: it is not there.
    pub fn cancel(&mut self, ticket: HeapTicket) -> bool {
        let at = self.queue.iter().position(|job| job.ticket == ticket);
        match at.and_then(|at| self.queue.remove(at)) {
            Some(job) => {
                self.left(job, false);
                true
            }
            None => false,
        }
    }

    /// Takes everything out of the queue.
    pub fn cancel_all(&mut self) {
        while !self.queue.is_empty() {
            self.finish(false);
        }
    }

    /// Sends packets of a heap again that touch these ranges; returns how many. They go before what is queued, at the stream's
    /// rate.
    ///
    /// # Errors
    /// If the heap is not kept, or too much waits already.
    pub fn resend(&mut self, cnt: u64, ranges: &[Range<u64>]) -> Result<usize, ResendError> {
        self.kept.ask(cnt, ranges)
    }
}

impl Job {
    /// Whose packet is next; false: all were sent.
    fn next_turn(&mut self) -> bool {
        if self.mode == GroupMode::Serial && !self.parts[self.turn].packetiser.is_done() {
            return true;
        }
        let many = self.parts.len();
        let first = match self.mode {
            GroupMode::Serial => self.turn,
            GroupMode::RoundRobin => self.turn + 1,
        };
        let next =
            (first..first + many).map(|n| n % many).find(|n| !self.parts[*n].packetiser.is_done());
        self.turn = next.unwrap_or(0);
        next.is_some()
    }
}
