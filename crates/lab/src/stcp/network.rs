//! Senders, their links, one port of a switch with a finite queue, receivers: events in order of time and of their making.
//!
//! Sender and receiver are state machines; a segment takes the sender's link (its rate spaces what leaves), the port (queue, rate) and
//! the way to the receiver; an ACK takes a way back without loss. Everything a link does is a [`Channel`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fullcount_core::sim::{Channel, ChannelSetup};
use fullcount_sim::splitmix;
use fullcount_stcp::receiver::{ModelReceiver, ReceiverSetup};
use fullcount_stcp::trace::TraceKind;
use fullcount_stcp::wire::Inbound;
use fullcount_stcp::{Outbound, StcpCounters, StcpSender, StcpState};

use super::cell::ScanCell;
use super::memory::Counting;
use super::watch::SimWatch;

/// Headers (Ethernet 14, IP 20, TCP 20 bytes) and frame check sequence.
const FRAME: u32 = 58;
/// Preamble and gap between frames, bytes.
const GAP: u32 = 20;
/// From sender to switch, and from port to receiver, ns.
const ACCESS_NS: u64 = 5_000;
/// From receiver to sender, ns.
const BACK_NS: u64 = 15_000;
/// Gaps that a receiver keeps: a window of 4 MiB in segments of 8960 bytes has 234 at most.
const GAPS: usize = 256;
const NEVER: u64 = u64::MAX;

/// One sender with its source, its link, and the receiver at its far end.
struct Lane {
    sender: StcpSender<Counting>,
    receiver: ModelReceiver<GAPS>,
    link: Channel<Outbound>,
    back: Channel<Inbound>,
    /// The next fragment; the source begins and ends.
    next_ns: u64,
    fragments: u64,
    until_ns: u64,
    removed: bool,
    /// The link is free again.
    free_ns: u64,
    /// Fragments that were not made because the buffer was full.
    throttled: u64,
    wire_bits: u64,
    random: u64,
}

/// What one sender did in one bin of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    /// Bytes that arrived in order.
    pub useful_bytes: u64,
    /// Bits on its link, headers and gaps included.
    pub wire_bits: u64,
}

/// All that is known at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// For each sender the bins in order of time.
    pub bins: Vec<Vec<Bin>>,
    /// What each sender counted.
    pub counters: Vec<StcpCounters>,
    /// Fragments that each source did not make.
    pub throttled: Vec<u64>,
    /// Each is still connected.
    pub connected: Vec<bool>,
    /// Bytes submitted and not in order at the receiver when it ended.
    pub underway: Vec<u64>,
    /// Frames that came to the port.
    pub frames: u64,
    /// Frames that its full queue dropped.
    pub dropped: u64,
    /// Frames that were lost by the set fault.
    pub lost: u64,
    /// A hash over every segment and its time: equal for equal runs.
    pub hash: u64,
}

pub(super) struct Network<'c> {
    cell: &'c ScanCell,
    lanes: Vec<Lane>,
    port: Channel<(u32, Outbound)>,
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// When each actor is woken.
    wakes: Vec<u64>,
    made: u64,
    fragment: Vec<u8>,
    hash: u64,
    /// Writes what the first sender does.
    watch: Option<SimWatch>,
}

/// Initial sequence number of sender `i`.
pub(super) fn first_number(i: usize) -> u32 {
    0xffff_0000u32.wrapping_add(i as u32 * 77_777)
}

fn way<T>(delay_ns: u64) -> Channel<T> {
    let setup = ChannelSetup { delay_ns, ..ChannelSetup::default() };
    Channel::new(setup).expect("a delay alone can be")
}

impl<'c> Network<'c> {
    pub fn new(cell: &'c ScanCell) -> Network<'c> {
        let settings = cell.variant.settings(cell.rto_us);
        let port = ChannelSetup {
            rate_bps: Some(cell.port_bps),
            delay_ns: ACCESS_NS,
            queue_bytes: cell.queue_bytes,
            fault: cell.fault,
            ..ChannelSetup::default()
        };
        let lanes = (0..cell.senders).map(|i| {
            let mut sender =
                StcpSender::new(settings, Counting::new(cell.buffer_bytes)).expect("checked");
            let (from_ns, until_ns) = cell.times(i);
            sender.open(from_ns, first_number(i), true).expect("closed");
            let receiver = ReceiverSetup { buffer: cell.window_bytes, ..ReceiverSetup::default() };
            let mut state = cell.seed.wrapping_mul(1_000_003).wrapping_add(i as u64);
            // Sources of one experiment have no common phase.
            let period = 1_000_000_000u64.checked_div(cell.rate_hz).unwrap_or(1_000);
            Lane {
                sender,
                receiver: ModelReceiver::new(receiver),
                link: way(ACCESS_NS),
                back: way(BACK_NS),
                next_ns: from_ns + splitmix(&mut state) % period.max(1),
                fragments: 0,
                until_ns,
                removed: false,
                free_ns: from_ns,
                throttled: 0,
                wire_bits: 0,
                random: state,
            }
        });
        let lanes: Vec<Lane> = lanes.collect();
        let actors = 3 * lanes.len() + 1;
        let mut network = Network {
            cell,
            port: Channel::new(port).expect("checked"),
            events: BinaryHeap::new(),
            wakes: vec![NEVER; actors],
            made: 0,
            fragment: vec![0; cell.fragment_bytes as usize],
            hash: 0xcbf2_9ce4_8422_2325,
            lanes,
            watch: None,
        };
        for i in 0..network.lanes.len() {
            network.wake(i, cell.times(i).0);
        }
        network
    }

    /// The first sender is watched.
    pub fn watched(mut self, mut watch: Option<SimWatch>) -> Network<'c> {
        if let Some(watch) = &mut watch {
            watch.call(self.cell.times(0).0, TraceKind::Opened, first_number(0), 0);
        }
        self.watch = watch;
        self
    }

    fn wake(&mut self, actor: usize, at_ns: u64) {
        if at_ns < self.wakes[actor] {
            self.wakes[actor] = at_ns;
            self.made += 1;
            self.events.push(Reverse((at_ns, self.made, actor as u32)));
        }
    }

    /// Runs to the end of the cell; the watch comes back.
    pub fn run(mut self) -> (Course, Option<SimWatch>) {
        let cell = self.cell;
        let n = self.lanes.len();
        let mut bins: Vec<Vec<Bin>> = vec![vec![]; n];
        let mut before = vec![(0u64, 0u64); n];
        let mut bin_end = cell.bin_ns;
        while let Some(Reverse((now, _, actor))) = self.events.pop() {
            let actor = actor as usize;
            // An earlier wish overtook this one.
            if now != self.wakes[actor] {
                continue;
            }
            while now >= bin_end {
                for (i, lane) in self.lanes.iter().enumerate() {
                    let total = (lane.receiver.in_order(), lane.wire_bits);
                    bins[i].push(Bin {
                        useful_bytes: total.0 - before[i].0,
                        wire_bits: total.1 - before[i].1,
                    });
                    before[i] = total;
                }
                bin_end += cell.bin_ns;
            }
            if now >= cell.end_ns {
                break;
            }
            self.wakes[actor] = NEVER;
            match actor / n {
                0 => self.host(actor, now),
                1 => self.access(actor - n, now),
                2 => self.delayed(actor - 2 * n, now),
                _ => self.arrivals(now),
            }
        }
        let watch = self.watch.take();
        (self.finish(bins), watch)
    }

    fn finish(self, bins: Vec<Vec<Bin>>) -> Course {
        let totals = self.port.totals();
        let of = |f: fn(&Lane) -> u64| self.lanes.iter().map(f).collect();
        Course {
            bins,
            counters: self.lanes.iter().map(|l| *l.sender.memory().counted()).collect(),
            throttled: of(|l| l.throttled),
            connected: self
                .lanes
                .iter()
                .map(|l| l.sender.state() == StcpState::Established)
                .collect(),
            underway: of(|l| l.sender.snapshot().end - l.receiver.in_order()),
            frames: totals.taken,
            dropped: totals.dropped,
            lost: totals.lost,
            hash: self.hash,
        }
    }

    /// Source, ACKs and link of one sender.
    fn host(&mut self, i: usize, now: u64) {
        let cell = self.cell;
        let lane = &mut self.lanes[i];
        let mut watch = self.watch.as_mut().filter(|_| i == 0);
        if lane.removed {
            return;
        }
        if now >= lane.until_ns {
            lane.removed = true;
            return;
        }
        while lane.next_ns <= now {
            let made = lane.sender.submit(now, &self.fragment).is_ok();
            lane.throttled += u64::from(!made);
            lane.fragments += u64::from(made);
            if let Some(watch) = watch.as_mut().filter(|_| made) {
                watch.call(now, TraceKind::Submitted, 0, cell.fragment_bytes);
            }
            lane.next_ns = match cell.rate_hz {
                // As fast as it is taken.
                0 if made => lane.next_ns,
                0 => now + 1_000,
                hz => lane.next_ns + 1_000_000_000 / hz,
            };
        }
        while let Some(ack) = lane.back.pop(now) {
            if let Some(watch) = &mut watch {
                watch.received(now, &ack);
            }
            lane.sender.receive(now, &ack);
        }
        let mut next = lane.next_ns.min(lane.back.next_ns().unwrap_or(NEVER)).min(lane.until_ns);
        if now < lane.free_ns {
            let free = lane.free_ns;
            return self.wake(i, next.min(free));
        }
        let waited = lane.sender.deadline().is_some_and(|at| at <= now);
        if let Some(watch) = watch.as_mut().filter(|_| waited) {
            watch.call(now, TraceKind::Waited, 0, 0);
        }
        if let Some(segment) = lane.sender.poll(now, 0) {
            if let Some(watch) = &mut watch {
                watch.sent(now, &segment);
            }
            let bits = u64::from(segment.length + FRAME + GAP) * 8;
            lane.wire_bits += bits;
            // ± 5 %: without it phases lock, and single senders win or starve.
            let share = 950 + splitmix(&mut lane.random) % 101;
            lane.free_ns = now + bits * 1_000_000 * share / cell.emit_bps.max(1);
            self.hash = (self.hash ^ now ^ (u64::from(segment.seq) << 20) ^ i as u64)
                .wrapping_mul(0x0000_0100_0000_01b3);
            lane.link.push(now, segment, segment.length + FRAME, bits, |s| *s);
            let arrives = lane.link.next_ns().unwrap_or(NEVER);
            next = next.min(lane.free_ns);
            self.wake(self.lanes.len() + i, arrives);
        } else {
            next = next.min(lane.sender.deadline().unwrap_or(NEVER).max(now + 1));
        }
        self.wake(i, next);
    }

    /// Frames of one link come to the port.
    fn access(&mut self, i: usize, now: u64) {
        let n = self.lanes.len();
        while let Some(segment) = self.lanes[i].link.pop(now) {
            let bytes = segment.length + FRAME;
            let bits = u64::from(bytes + GAP) * 8;
            self.port.push(now, (i as u32, segment), bytes, bits, |p| *p);
        }
        if let Some(at) = self.lanes[i].link.next_ns() {
            self.wake(n + i, at);
        }
        if let Some(at) = self.port.next_ns() {
            self.wake(3 * n, at);
        }
    }

    fn arrivals(&mut self, now: u64) {
        let n = self.lanes.len();
        while let Some((i, segment)) = self.port.pop(now) {
            let i = i as usize;
            let lane = &mut self.lanes[i];
            if let Some(ack) = lane.receiver.receive(now, &segment) {
                self.answer(i, now, ack);
            } else if let Some(at) = lane.receiver.deadline() {
                self.wake(2 * n + i, at);
            }
        }
        if let Some(at) = self.port.next_ns() {
            self.wake(3 * n, at);
        }
    }

    fn delayed(&mut self, i: usize, now: u64) {
        if let Some(ack) = self.lanes[i].receiver.tick(now) {
            self.answer(i, now, ack);
        } else if let Some(at) = self.lanes[i].receiver.deadline() {
            self.wake(2 * self.lanes.len() + i, at);
        }
    }

    fn answer(&mut self, i: usize, now: u64, ack: Inbound) {
        let back = &mut self.lanes[i].back;
        back.push(now, ack, 64, 84 * 8, |a| *a);
        if let Some(at) = back.next_ns() {
            self.wake(i, at);
        }
    }
}
