//! Counters of a UDP receiver: trains of one call first, then its ledger once.
//!
//! Refuses truncated trains, and trains whose stride the kernel could not report.

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::Sheet;
use fullcount_core::link::LinkTime;

use crate::sys::ReceivedTrain;

fullcount_core::counters! {
    /// What a UDP receiver counts.
    pub enum Receive {
        Packets "receive.packets" Packets Sum "receive" In
            "datagrams received" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted
            "datagrams handed on to the decoder" "";
        Truncated "receive.truncated" Packets Sum "receive" Rejected
            "datagrams in trains that did not fit their slot and were dropped"
            "receive into slots of 64 KiB, the default";
        UnknownStride "receive.unknown_stride" Packets Sum "receive" Rejected
            "trains dropped because the kernel did not say where their datagrams end"
            "receive with engine=mmsg and report the kernel's version";
        Bytes "receive.bytes" Bytes Sum "receive" Note
            "UDP payload bytes received" "";
        WireBytes "receive.wire_bytes" Bytes Sum "receive" Note
            "link time of these datagrams in bytes: Ethernet frames with preamble and gap, MTU 1500, or 9000 for those that need more" "";
        KernelDrops "receive.kernel_drops" Times Sum "receive" Note
            "times that the socket's buffer was full (a train of many datagrams counts once: the amount lost is in packets.lost)"
            "raise receive_buffer and net.core.rmem_max, pin the receiver to a core of its own, or lower the rate";
        Largest "receive.largest" Bytes Max "receive" Note
            "payload of the largest datagram received" "";
        BufferPeak "receive.buffer_peak" Bytes Max "receive" Note
            "most bytes seen waiting in the socket, with the kernel's overhead (sampled)" "";
        Idle "thread.input_idle" Times Sum "receive" Note
            "receive calls that timed out" "";
        Calls "receive.calls" Times Sum "receive" Note
            "receive calls that brought at least one datagram" "";
        SystemCalls "receive.system_calls" Times Sum "receive" Note
            "receive system calls, those that brought nothing included" "";
        Rearmed "receive.uring_rearmed" Times Sum "receive" Note
            "times that a call of engine=uring filled all its slots, so that its request was made again" "";
        CompletionsLost "receive.completions_lost" Times Sum "receive" Note
            "trains that io_uring took from the socket and could not hand over"
            "receive with engine=gro and report the kernel's version";
        Errors "receive.errors" Times Sum "receive" Note
            "receive calls that the system answered with a passing error"
            "look at the interface: ip -s link, dmesg";
    }
}

/// What one receive call brought.
#[derive(Default)]
pub(super) struct Tally {
    pub packets: u64,
    pub bytes: u64,
    wire: u64,
    truncated: u64,
    unknown: u64,
    largest: usize,
    pub drops: Option<u32>,
    /// Drops before the newest train that reported them.
    pub queued: u32,
}

impl Tally {
    /// For a call, with the drops that earlier trains reported.
    pub fn behind(queued: u32) -> Tally {
        Tally { queued, ..Tally::default() }
    }

    /// Counts a train, and adds it to the batch unless it must be refused.
    #[inline]
    pub fn take(
        &mut self,
        m: &ReceivedTrain,
        start: usize,
        link: &mut LinkTime,
        to: Option<Origin>,
        batch: &mut Batch,
    ) {
        // Full datagrams of one size, and one shorter at the end.
        let ((full, each), rest) = match m.stride {
            Some(s) if m.len > s => ((m.len / s, s), m.len % s),
            _ => ((1, m.len), 0),
        };
        let count = full as u64 + u64::from(rest > 0);
        self.packets += count;
        self.bytes += m.len as u64;
        self.wire += link.bytes(m.origin.is_ipv6(), (full, each), rest);
        self.largest = self.largest.max(each);
        self.drops = m.drops.or(self.drops);
        if m.truncated {
            self.truncated += count;
        } else if m.control_lost && m.stride.is_none() {
            self.unknown += count;
        } else {
            let meta = TrainMeta {
                start,
                len: m.len,
                stride: m.stride.unwrap_or(0),
                origin: m.origin,
                time_ns: m.time_ns.unwrap_or(0),
                edge: Edge::Datagram,
            };
            if let Some(drops) = m.drops.filter(|&d| d != self.queued) {
                // The count when the train was queued: the increase since the last train was dropped between the two.
                // It is smaller only if two cores queued at the same time.
                let more = drops.wrapping_sub(self.queued) as i32;
                if more > 0 {
                    self.queued = drops;
                    batch.note_dropped(more as u32);
                }
            }
            match to {
                None => batch.push(meta),
                Some(to) => batch.push_to(meta, Origin { ip: m.to.unwrap_or(to.ip), ..to }),
            }
        }
    }

    /// Writes the counts of a call.
    pub fn write(&self, s: &Sheet) {
        let (truncated, unknown) = (self.truncated, self.unknown);
        s.add(Receive::Calls as usize, 1);
        s.add(Receive::Packets as usize, self.packets);
        s.add(Receive::Accepted as usize, self.packets - truncated - unknown);
        s.add(Receive::Bytes as usize, self.bytes);
        if self.largest as u64 > s.get(Receive::Largest as usize) {
            s.set(Receive::Largest as usize, self.largest as u64);
        }
        s.add(Receive::WireBytes as usize, self.wire);
        if truncated + unknown > 0 {
            s.add(Receive::Truncated as usize, truncated);
            s.add(Receive::UnknownStride as usize, unknown);
        }
    }
}
