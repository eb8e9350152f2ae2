//! One direction of an emulated link: a queue of finite size, a rate, faults, and a delay, as a state
//! machine over packets of any type. Time comes in with every call, in ns from any origin.
//!
//! A packet first takes its place in the **queue**, or is dropped at its tail; leaves it at the **rate**; may
//! then meet a **fault** (lost, doubled, held back until later ones have gone); and arrives after the
//! **delay** and a random share of the jitter. A packet that is held back and never overtaken continues after
//! [`HOLD_NS`]. Order is kept, as on a cable, unless jitter may reorder. Each packet is in exactly one place:
//! `taken + doubled = delivered + dropped + lost + inside` ([`Channel::balance`]), at any time.
//!
//! The same seed and calls give the same packets at the same times. Refuses: see [`ChannelError`].

use std::collections::VecDeque;

use super::fault::{Fault, FaultError, FaultyLine, PacketFate, chance};
use super::spec::Spec;

/// Time after the last packet at which held ones continue, ns: 10 ms, long compared with the time of a
/// packet.
pub const HOLD_NS: u64 = 10_000_000;
/// Longest delay and jitter, ns: a minute; the way to Mars takes longer, but not through this memory.
pub const LONGEST_NS: u64 = 60_000_000_000;

/// ns with 32 fractional bits: a rate is kept to 1 part in 10⁹ at 64 B and 100 Gbit/s.
type Fine = u128;
const ONE_NS: Fine = 1 << 32;

/// Why a channel cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum ChannelError {
    /// No such rate.
    #[error("rate of {0} bit/s is outside 1 bit/s to 1000000 Gbit/s")]
    Rate(u64),
    /// Longer than is kept.
    #[error("{what} of {ns} ns is above 60 s")]
    Delay { what: &'static str, ns: u64 },
    /// Nothing would pass.
    #[error("a queue of 0 passes nothing: give at least 1 packet, and bytes for the longest frame")]
    Queue,
    /// The faults cannot be carried out.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

/// What a channel does to packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChannelSetup {
    /// Rate of the link, bit/s; `None`: unlimited.
    pub rate_bps: Option<u64>,
    /// Time from the end of the queue to the other side, ns.
    pub delay_ns: u64,
    /// Up to so much more, drawn evenly for each packet, ns.
    pub jitter_ns: u64,
    /// A packet that draws less jitter may overtake.
    pub jitter_reorders: bool,
    /// Packets that may wait for the rate, the one being sent included.
    pub queue_packets: usize,
    /// Bytes that may wait for the rate, the packet being sent included.
    pub queue_bytes: u64,
    /// Bytes that may be inside altogether: guards the host's memory.
    pub memory_bytes: u64,
    /// Faults, applied after the queue.
    pub fault: Spec,
}

impl Default for ChannelSetup {
    /// A cable without length or limits.
    fn default() -> ChannelSetup {
        ChannelSetup {
            rate_bps: None,
            delay_ns: 0,
            jitter_ns: 0,
            jitter_reorders: false,
            queue_packets: usize::MAX,
            queue_bytes: u64::MAX,
            memory_bytes: 1 << 30,
            fault: Spec::default(),
        }
    }
}

/// What happened so far, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelTotals {
    /// Given to the channel.
    pub taken: u64,
    /// Bytes of these.
    pub taken_bytes: u64,
    /// Second copies made by a fault.
    pub doubled: u64,
    /// Held back or swapped by a fault; they still arrive.
    pub moved: u64,
    /// Arrived, copies included.
    pub delivered: u64,
    /// Bytes of these.
    pub delivered_bytes: u64,
    /// Dropped at the tail of the full queue.
    pub dropped: u64,
    /// Dropped because the memory was full.
    pub no_memory: u64,
    /// Lost by a fault.
    pub lost: u64,
}

/// What became of a packet that was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It will arrive.
    Taken,
    /// The queue was full.
    Dropped,
    /// The memory was full.
    NoMemory,
    /// A fault took it; it had its turn on the link.
    Lost,
}

#[derive(Debug)]
struct Held<T> {
    packet: T,
    bytes: u32,
}

#[derive(Debug)]
struct Due<T> {
    at_ns: u64,
    held: Held<T>,
}

/// The part after the queue: delay and jitter.
#[derive(Debug)]
struct Flight<T> {
    setup: ChannelSetup,
    /// On their way, soonest first.
    flying: VecDeque<Due<T>>,
    /// Arrival of the last packet, where order is kept.
    last_ns: u64,
    draws: u64,
}

impl<T> Flight<T> {
    /// A packet that leaves the rate at `gone` is in flight.
    fn fly(&mut self, gone_ns: u64, held: Held<T>) {
        let jitter = match self.setup.jitter_ns {
            0 => 0,
            most => {
                self.draws += 1;
                chance(self.setup.fault.seed, self.draws, most + 1)
            }
        };
        let mut at_ns = gone_ns.saturating_add(self.setup.delay_ns).saturating_add(jitter);
        if !self.setup.jitter_reorders {
            at_ns = at_ns.max(self.last_ns);
            self.last_ns = at_ns;
        }
        // Nearly always at the end; with jitter at most as far from it as packets fit the jitter.
        let place = match self.flying.back().is_none_or(|b| b.at_ns <= at_ns) {
            true => self.flying.len(),
            false => self.flying.partition_point(|d| d.at_ns <= at_ns),
        };
        self.flying.insert(place, Due { at_ns, held });
    }
}

/// One direction.
#[derive(Debug)]
pub struct Channel<T> {
    setup: ChannelSetup,
    fault: Fault,
    line: FaultyLine<Held<T>>,
    /// When the rate is free again.
    free: Fine,
    /// Packets waiting for the rate: when each has gone, and its bytes.
    waiting: VecDeque<(u64, u32)>,
    waiting_bytes: u64,
    flight: Flight<T>,
    inside_bytes: u64,
    /// When the last packet came in.
    last_in_ns: u64,
    totals: ChannelTotals,
    now_ns: u64,
}

impl<T> Channel<T> {
    /// An empty channel.
    pub fn new(setup: ChannelSetup) -> Result<Channel<T>, ChannelError> {
        if let Some(bps) = setup.rate_bps.filter(|r| !(1..=1_000_000_000_000_000).contains(r)) {
            return Err(ChannelError::Rate(bps));
        }
        for (what, ns) in [("delay", setup.delay_ns), ("jitter", setup.jitter_ns)] {
            if ns > LONGEST_NS {
                return Err(ChannelError::Delay { what, ns });
            }
        }
        if setup.queue_packets == 0 || setup.queue_bytes == 0 || setup.memory_bytes == 0 {
            return Err(ChannelError::Queue);
        }
        Ok(Channel {
            fault: Fault::new(setup.fault)?,
            setup,
            line: FaultyLine::default(),
            free: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            flight: Flight { setup, flying: VecDeque::new(), last_ns: 0, draws: 0 },
            inside_bytes: 0,
            last_in_ns: 0,
            totals: ChannelTotals::default(),
            now_ns: 0,
        })
    }

    /// What it was asked to do.
    pub fn setup(&self) -> &ChannelSetup {
        &self.setup
    }

    /// What happened so far.
    pub fn totals(&self) -> ChannelTotals {
        self.totals
    }

    /// Packets inside: in the queue, held back, or in flight.
    pub fn inside(&self) -> u64 {
        (self.flight.flying.len() + self.line.held()) as u64
    }

    /// Packets that are in no place or in two; 0 unless this file is wrong.
    pub fn balance(&self) -> i128 {
        let t = self.totals;
        let went = [t.delivered, t.dropped, t.no_memory, t.lost, self.inside()];
        i128::from(t.taken) + i128::from(t.doubled)
            - went.iter().map(|&n| i128::from(n)).sum::<i128>()
    }

    /// Lets time pass; it never goes back.
    fn at(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        while self.waiting.front().is_some_and(|w| w.0 <= self.now_ns) {
            if let Some((_, bytes)) = self.waiting.pop_front() {
                self.waiting_bytes -= u64::from(bytes);
            }
        }
        self.now_ns
    }

    /// Takes a packet of `bytes` bytes whose link time is `wire_bits`; `copy` makes the second one if a
    /// fault doubles it.
    pub fn push(
        &mut self,
        now_ns: u64,
        packet: T,
        bytes: u32,
        wire_bits: u64,
        copy: impl FnOnce(&T) -> T,
    ) -> Fate {
        let now = self.at(now_ns);
        self.release_late(now);
        self.totals.taken += 1;
        self.totals.taken_bytes += u64::from(bytes);
        self.last_in_ns = now;
        let waits = self.setup.rate_bps.is_some();
        let more = self.waiting_bytes.saturating_add(u64::from(bytes));
        if waits
            && (self.waiting.len() >= self.setup.queue_packets || more > self.setup.queue_bytes)
        {
            self.totals.dropped += 1;
            return Fate::Dropped;
        }
        // Twice: a fault may double it.
        if self.inside_bytes.saturating_add(2 * u64::from(bytes)) > self.setup.memory_bytes {
            self.totals.no_memory += 1;
            return Fate::NoMemory;
        }
        let gone = match self.setup.rate_bps {
            None => now,
            Some(bps) => {
                let took = (Fine::from(wire_bits) * 1_000_000_000 * ONE_NS) / Fine::from(bps);
                self.free = self.free.max(Fine::from(now) * ONE_NS) + took;
                let gone = u64::try_from(self.free.div_ceil(ONE_NS)).unwrap_or(u64::MAX);
                self.waiting.push_back((gone, bytes));
                self.waiting_bytes = more;
                gone
            }
        };
        let held = Held { packet, bytes };
        let twin = |h: &Held<T>| Held { packet: copy(&h.packet), bytes: h.bytes };
        self.inside_bytes += u64::from(bytes);
        let flight = &mut self.flight;
        let action = self.line.push(&self.fault, held, twin, |held| flight.fly(gone, held));
        match action {
            PacketFate::Deliver => {}
            PacketFate::Duplicate => {
                self.totals.doubled += 1;
                self.inside_bytes += u64::from(bytes);
            }
            PacketFate::Hold(_) => self.totals.moved += 1,
            PacketFate::Drop => {
                self.totals.lost += 1;
                self.inside_bytes -= u64::from(bytes);
                return Fate::Lost;
            }
        }
        Fate::Taken
    }

    /// Releases packets that were held back and can no longer be overtaken.
    fn release_late(&mut self, now_ns: u64) {
        if self.line.held() > 0 && now_ns >= self.last_in_ns.saturating_add(HOLD_NS) {
            let gone = self.last_in_ns + HOLD_NS;
            self.finish(gone);
        }
    }

    /// Releases all held packets, as if the last packet had passed at `now_ns`.
    pub fn finish(&mut self, now_ns: u64) {
        let flight = &mut self.flight;
        self.line.finish(|held| flight.fly(now_ns, held));
    }

    /// The next packet that has arrived by `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<T> {
        let now = self.at(now_ns);
        self.release_late(now);
        if self.flight.flying.front()?.at_ns > now {
            return None;
        }
        let Due { held, .. } = self.flight.flying.pop_front()?;
        self.totals.delivered += 1;
        self.totals.delivered_bytes += u64::from(held.bytes);
        self.inside_bytes -= u64::from(held.bytes);
        Some(held.packet)
    }

    /// When [`Channel::pop`] has something next, ns; `None` if nothing is inside.
    pub fn next_ns(&self) -> Option<u64> {
        let flying = self.flight.flying.front().map(|d| d.at_ns);
        let held = (self.line.held() > 0).then(|| self.last_in_ns.saturating_add(HOLD_NS));
        flying.into_iter().chain(held).min()
    }

    /// Packets waiting for the rate at `now_ns`.
    pub fn waiting(&mut self, now_ns: u64) -> usize {
        self.at(now_ns);
        self.waiting.len()
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
