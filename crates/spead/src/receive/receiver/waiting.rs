//! What a stream does as time passes, and what it tells its sender.
//!
//! A heap whose end never comes and a stream that stalls are given up: spead2 waits for ever. Source:
//! `docs/formats/spead.md`, sections 18 (1) and 20.

use super::super::counters::SpeadCounter as C;
use super::super::live::{Arrival, LiveHeap};
use super::super::presence::PresenceMap;
use super::super::store::Store;
use super::{StreamEnd, StreamReceiver};
use crate::feedback::ReceiverReport;

impl<S: Store> StreamReceiver<S> {
    /// When [`StreamReceiver::expire`] has something to do, ns.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if self.ended.is_some() {
            return None;
        }
        let stall =
            self.last_packet_ns.filter(|_| self.config.stall_timeout_ns > 0 && !self.stalled);
        let stall = stall.map(|last| last.saturating_add(self.config.stall_timeout_ns));
        let oldest = match self.config.heap_timeout_ns {
            0 => None,
            _ => self.heaps.iter().flatten().map(|heap| heap.last_ns).min(),
        };
        let heap = oldest.map(|last| last.saturating_add(self.config.heap_timeout_ns));
        stall.into_iter().chain(heap).min()
    }

    /// Gives up what has waited too long. To be called when nothing comes: a lost end then hangs nobody.
    pub fn expire(&mut self, now_ns: u64) {
        if self.next_deadline_ns().is_none_or(|at| at > now_ns) {
            return;
        }
        if self.config.heap_timeout_ns > 0 {
            for at in 0..self.heaps.len() {
                let old = |heap: &LiveHeap<S::Place>| {
                    heap.last_ns.saturating_add(self.config.heap_timeout_ns) <= now_ns
                };
                if self.heaps[at].as_ref().is_some_and(old) {
                    self.finish(at, Arrival::TimedOut, now_ns);
                }
            }
        }
        let silent = self.last_packet_ns.filter(|_| self.config.stall_timeout_ns > 0);
        let silent =
            silent.is_some_and(|l| l.saturating_add(self.config.stall_timeout_ns) <= now_ns);
        if silent && !self.stalled {
            self.stalled = true;
            self.tally.add(C::Stalls, 1);
            self.flush(Arrival::TimedOut, now_ns);
            if self.config.stall_ends {
                self.end(StreamEnd::Stalled, now_ns);
            }
        }
    }

    /// Hands over all live heaps as they are; the stream goes on.
    pub fn flush_live(&mut self, now_ns: u64) {
        self.flush(Arrival::Flushed, now_ns);
    }

    /// Bytes of a packet came whose end is still on its way: the stream does not stall.
    pub fn bytes_came(&mut self, now_ns: u64) {
        self.last_packet_ns = Some(now_ns);
        self.stalled = false;
    }

    /// Stop items that came.
    pub fn stop_items(&self) -> u32 {
        self.stops
    }

    /// Each sender has stopped or its reader has ended: the stream ends, whatever was counted of either.
    pub fn readers_over(&mut self, now_ns: u64) {
        self.end(StreamEnd::Readers, now_ns);
    }

    /// No packet has come for the stall timeout.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// What a sender wants to know: totals since the stream began.
    pub fn report(&mut self, now_ns: u64) -> ReceiverReport {
        self.settle();
        self.reports += 1;
        let (ended_heaps, expected_bytes) = self.losses.ended_so_far();
        let losses = self.losses();
        // Of a live heap that newer ones have overtaken some packets came: what is missing of it now is missing, not all of it.
        let overtaken = self
            .heaps
            .iter()
            .flatten()
            .filter(|heap| self.losses.is_overtaken(heap.cnt, heap.flavour()));
        let (mut live, mut missing) = (0, losses.bytes);
        for heap in overtaken {
            live += 1;
            let length = heap.length().unwrap_or(heap.received());
            missing = missing.saturating_add(length - heap.received().min(length));
        }
        ReceiverReport {
            number: self.reports,
            time_ns: now_ns,
            packets: self.statistics.packets,
            packet_bytes: self.packet_bytes,
            ended_heaps,
            expected_bytes,
            missing_bytes: missing,
            lost_heaps: losses.heaps.map(|heaps| heaps.saturating_sub(live)),
        }
    }

    /// No packet came for this live heap since `before_ns`.
    pub fn is_quiet(&self, cnt: u64, before_ns: u64) -> bool {
        self.heaps.iter().flatten().any(|heap| heap.cnt == cnt && heap.last_ns <= before_ns)
    }

    /// What is missing of live heaps that no packet came for since `before_ns`, oldest first: number and gaps.
    pub fn missing(&self, before_ns: u64) -> impl Iterator<Item = (u64, u64, &PresenceMap)> {
        let quiet = self.heaps.iter().flatten().filter(move |heap| heap.last_ns <= before_ns);
        quiet.filter_map(|heap| Some((heap.cnt, heap.length()?, heap.present())))
    }
}
