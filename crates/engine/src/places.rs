//! Which place lost what: amounts from the numbering matched with the counters that moved beside them.
//!
//! A state machine without clock or file. Once an interval it is told how many numbers are missing (the
//! amount) and which of the host's counters moved (the places). What is missing goes to the one place
//! that moved, or to all that moved as *shared*, or to none. Three facts of kernels shape it:
//! a drop is counted before the gap behind it can be seen, so a movement stays a candidate for some
//! intervals with packets; fragments are given up long after the gap was seen
//! (`ipfrag_time`), so that movement looks back; and a counter counts trains, so one count stands for up
//! to 128 packets and never for more. Amounts are never changed here: the parts always add up to what the
//! numbering says. Source: `docs/losses.md`, `docs/architecture.md` contract "Ledger".

pub mod drivers;
pub mod moved;
pub mod watch;

use std::collections::{BTreeMap, VecDeque};

use fullcount_core::ledger::Place;

fullcount_core::counters! {
    /// Counters of the host that name a place, since this run began; and what reading them cost.
    pub enum HostWitness {
        SocketFull "host.socket.full" Times Sum "host" Note
            "times that this socket's buffer was full, as the kernel counts (trains count once)"
            "raise receive_buffer (and net.core.rmem_max, if it may not be forced), give the receiver a core of its own (--core), or decode on a second one (engine.threads = 2)";
        SocketMemory "host.socket.memory" Times Sum "host" Note
            "times that all UDP sockets together had no memory left"
            "raise net.ipv4.udp_mem (pages: minimum, pressure, maximum)";
        FrameMemory "frames.memory" Times Sum "host" Note
            "times that the packet memory of a receiver of frames was full (trains count once)"
            "raise receive_buffer, give the receiver a core of its own (--core), or decode on a second one (engine.threads = 2)";
        FrameDamaged "frames.damaged" Times Sum "host" Note
            "datagrams that a receiver of frames got with a wrong UDP checksum, wrong lengths or cut short"
            "bytes were changed on the way: look at cables, optics and switches (ethtool -S IF), and at the sender's checksum offload";
        FrameUncut "frames.uncut" Times Sum "host" Note
            "trains longer than the MTU that a receiver of frames cannot cut (each is many packets)"
            "on the sending side: ethtool -K PEER tx-udp-segmentation off; or let the driver hand over the frames (native mode)";
        FrameFragments "frames.fragments" Times Sum "host" Note
            "IP fragments of UDP datagrams, which a receiver of frames does not put together"
            "send datagrams that fit the MTU, raise the MTU, or receive on a socket";
        Checksum "host.udp.checksum" Times Sum "host" Note
            "datagrams with a wrong UDP checksum, of any program in this network namespace"
            "bytes were changed on the way: look at cables, optics and switches, and at the sender's checksum offload (ethtool -K IF tx off)";
        IpHeader "host.ip.header" Times Sum "host" Note
            "IP packets with a damaged header or cut short"
            "bytes were changed on the way: look at cables, optics and switches";
        Damaged "host.nic.damaged" Times Sum "host" Note
            "frames with a wrong check sequence, alignment or length"
            "look at cables and optics (ethtool -m IF), and that both ends have the same MTU (ip link)";
        Qdisc "host.qdisc.dropped" Times Sum "host" Note
            "packets dropped by a queue of this host before they reached the receiver"
            "tc -s qdisc names it: raise its rate and limit, or take it away";
        Missed "host.nic.missed" Times Sum "host" Note
            "frames for which the network card had no room"
            "enlarge the ring (ethtool -G IF rx N), spread over more queues (ethtool -L IF combined N), and keep the interrupt's core free";
        CardDropped "host.nic.dropped" Times Sum "host" Note
            "frames dropped by the interface or its driver; frames of protocols that nobody wants are in it"
            "ethtool -S IF names the reason; enlarge the ring (ethtool -G IF rx N)";
        Driver "host.nic.driver" Times Sum "host" Note
            "packets that only the driver counts as lost on receiving, under its own names (ethtool -S), from start to end of the run"
            "the name says why: no buffer or no room is the ring (ethtool -G IF rx N) or a busy interrupt's core; else the driver's documentation";
        Backlog "host.backlog.dropped" Times Sum "host" Note
            "packets dropped because a core's queue between card and protocols was full"
            "raise net.core.netdev_max_backlog, and keep the receiver off the interrupt's core (--core)";
        Reassembly "host.ip.reassembly" Times Sum "host" Note
            "IP packets of which a fragment was missing or found no room, of any program in this network namespace"
            "send datagrams that fit the MTU, or raise the MTU; if no frame was lost, raise net.ipv4.ipfrag_high_thresh (and ip6frag_high_thresh)";
        Probes "host.probes" Times Sum "host" Note
            "times that the host's counters were read" "";
        ProbeNs "host.probe_ns" Times Sum "host" Note
            "time spent in reading them, ns" "";
    }
}

impl HostWitness {
    /// All that name a place.
    pub const NAMING: [HostWitness; 15] = [
        HostWitness::SocketFull,
        HostWitness::SocketMemory,
        HostWitness::FrameMemory,
        HostWitness::FrameDamaged,
        HostWitness::FrameUncut,
        HostWitness::FrameFragments,
        HostWitness::Checksum,
        HostWitness::IpHeader,
        HostWitness::Damaged,
        HostWitness::Qdisc,
        HostWitness::Missed,
        HostWitness::CardDropped,
        HostWitness::Driver,
        HostWitness::Backlog,
        HostWitness::Reassembly,
    ];

    /// The place that it names.
    pub fn place(self) -> Option<Place> {
        match self {
            HostWitness::SocketFull | HostWitness::SocketMemory | HostWitness::FrameMemory => {
                Some(Place::Socket)
            }
            HostWitness::Checksum
            | HostWitness::IpHeader
            | HostWitness::Damaged
            | HostWitness::Qdisc => Some(Place::Link),
            HostWitness::FrameDamaged | HostWitness::FrameUncut => Some(Place::Link),
            HostWitness::Missed | HostWitness::CardDropped | HostWitness::Driver => {
                Some(Place::Nic)
            }
            HostWitness::Backlog => Some(Place::Backlog),
            HostWitness::Reassembly | HostWitness::FrameFragments => Some(Place::Reassembly),
            HostWitness::Probes | HostWitness::ProbeNs => None,
        }
    }

    /// Most packets that one count can stand for: a GSO or GRO train has up to 128 segments
    /// (`UDP_MAX_SEGMENTS`, Linux 6.9; before, 64); what cannot be put together is one packet.
    fn packets_each(self) -> u64 {
        match self {
            HostWitness::Reassembly | HostWitness::FrameFragments => 1,
            _ => 128,
        }
    }
}

/// By how much one counter moved in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Which.
    pub by: HostWitness,
    /// How often it counted, above 0.
    pub times: u64,
    /// How many earlier intervals the loss itself may lie back.
    pub back: usize,
}

/// Places as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Places(u8);

impl Places {
    const NONE: Places = Places(0);

    fn with(self, place: Place) -> Places {
        let at = Place::ALL.iter().position(|&p| p == place).unwrap_or(7);
        Places(self.0 | 1 << at)
    }

    fn list(self) -> Vec<Place> {
        Place::ALL
            .iter()
            .enumerate()
            .filter(|(i, _)| self.0 & 1 << i != 0)
            .map(|(_, &p)| p)
            .collect()
    }
}

/// Packets that are missing at one of several places, nobody can say which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The places, at least two, in the order of [`Place::ALL`].
    pub places: Vec<Place>,
    /// Packets.
    pub packets: u64,
}

/// All missing packets by place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shares {
    /// At one place each, in the order of [`Place::ALL`]; `unknown` holds what nothing explains.
    pub at: [u64; 8],
    /// At one of several.
    pub shared: Vec<Shared>,
}

impl Shares {
    /// Sum of all parts.
    pub fn total(&self) -> u64 {
        let shared = self.shared.iter().map(|s| s.packets);
        self.at.iter().copied().chain(shared).fold(0, u64::saturating_add)
    }
}

/// A movement that may still explain what is found missing.
#[derive(Debug, Clone, Copy)]
struct Standing {
    place: Place,
    /// Packets that it can still explain.
    packets: u64,
    /// Intervals with packets since then.
    age: usize,
}

/// Matches amounts and places, interval by interval.
#[derive(Debug, Clone)]
pub struct Attribution {
    /// Numbered parts that a packet may hold: 1 where packets themselves are numbered.
    per_packet: u64,
    /// Newest last: what each interval's missing packets were put down to.
    intervals: VecDeque<BTreeMap<Places, u64>>,
    /// How many intervals can still change.
    horizon: usize,
    /// A movement explains gaps of its own interval and of this many later ones in which packets came.
    stands: usize,
    /// All before these.
    settled: BTreeMap<Places, u64>,
    standing: Vec<Standing>,
    /// Missing packets in `intervals` and `settled`.
    booked: u64,
    /// Missing packets that our own full queue explains.
    of_queue: u64,
    received: u64,
}

/// What the counters of the run say at one moment; all since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GapCounts {
    /// Numbers skipped so far: lost, and missing but not given up yet.
    pub missing: u64,
    /// Packets that our own full queue dropped; their numbers are in `missing`, now or soon.
    pub queue: u64,
    /// Packets received.
    pub received: u64,
}

impl Attribution {
    /// Nothing missing. `horizon`: how many intervals a movement may look back, at least 1. `stands`: how
    /// many later intervals with packets it may explain, as the gap is behind what waits in the socket.
    pub fn new(horizon: usize, stands: usize) -> Attribution {
        Attribution {
            per_packet: 1,
            intervals: VecDeque::from([BTreeMap::new()]),
            horizon: horizon.max(1),
            stands,
            settled: BTreeMap::new(),
            standing: Vec::new(),
            booked: 0,
            of_queue: 0,
            received: 0,
        }
    }

    /// The same for what senders number instead of packets: a packet holds up to `per_packet` of them, so one lost
    /// packet explains as many, and `dropped` packets of our own full queue are a movement like any other.
    pub fn step_numbered(
        &mut self,
        gaps: GapCounts,
        moved: &[Moved],
        per_packet: u64,
        dropped: u64,
    ) {
        self.per_packet = per_packet.max(1);
        self.advance(gaps, moved, Some((Place::Queue, dropped)));
    }

    /// One interval has passed: `gaps` read first, then the counters.
    pub fn step(&mut self, gaps: GapCounts, moved: &[Moved]) {
        self.advance(gaps, moved, None);
    }

    fn advance(&mut self, gaps: GapCounts, moved: &[Moved], own: Option<(Place, u64)>) {
        self.intervals.push_back(BTreeMap::new());
        if self.intervals.len() > self.horizon + 1 {
            for (places, n) in self.intervals.pop_front().unwrap_or_default() {
                add(&mut self.settled, places, n);
            }
        }
        if gaps.received > self.received {
            self.received = gaps.received;
            self.standing.iter_mut().for_each(|s| s.age = s.age.saturating_add(1));
            self.standing.retain(|s| s.age <= self.stands && s.packets > 0);
        }
        let naming = |m: &Moved| {
            let packets = m.times.saturating_mul(m.by.packets_each());
            Some((m.by.place()?, packets, m.back))
        };
        let own = own.map(|(place, packets)| (place, packets, 1));
        let each = self.per_packet;
        let fresh: Vec<(Place, u64, usize)> = moved
            .iter()
            .filter_map(naming)
            .chain(own)
            .filter(|&(_, packets, _)| packets > 0)
            .map(|(place, packets, back)| (place, packets.saturating_mul(each), back))
            .collect();
        let first = self.standing.len();
        self.standing.extend(fresh.iter().map(|&(place, packets, _)| Standing {
            place,
            packets,
            age: 0,
        }));
        self.look_back(&fresh, first);
        let target = gaps.missing.saturating_sub(self.of_queue);
        if target < self.booked {
            self.take_back(self.booked - target);
        } else {
            // Numbers that our own queue swallowed are explained exactly, before anything else.
            let own = (target - self.booked).min(gaps.queue.saturating_sub(self.of_queue));
            self.of_queue += own;
            self.book(target - self.booked - own);
        }
    }

    /// Movements that look back claim what nothing explained so far, the newest first.
    fn look_back(&mut self, fresh: &[(Place, u64, usize)], first: usize) {
        let deepest = fresh.iter().map(|&(_, _, back)| back).max().unwrap_or(0);
        for ago in 1..=deepest.min(self.intervals.len() - 1) {
            let at = self.intervals.len() - 1 - ago;
            let open = self.intervals[at].get(&Places::NONE).copied().unwrap_or(0);
            if open == 0 {
                continue;
            }
            let reaches = |i: usize| fresh[i].2 >= ago;
            let (claimed, places) = self.claim(first, open, reaches);
            remove(&mut self.intervals[at], Places::NONE, claimed);
            add(&mut self.intervals[at], places, claimed);
        }
    }

    /// Takes up to `wanted` packets from the standing movements at `first..` that `may` (by their
    /// place in that part); gives how many, and the places that share them.
    fn claim(&mut self, first: usize, wanted: u64, may: impl Fn(usize) -> bool) -> (u64, Places) {
        let (mut left, mut places) = (wanted, Places::NONE);
        let able = |(i, s): &(usize, &mut Standing)| s.packets > 0 && may(*i);
        for (_, s) in self.standing[first..].iter_mut().enumerate().filter(able) {
            places = places.with(s.place);
            let part = s.packets.min(left);
            s.packets -= part;
            left -= part;
        }
        (wanted - left, places)
    }

    /// Puts `n` newly missing packets down to whatever stands.
    fn book(&mut self, n: u64) {
        let (claimed, places) = self.claim(0, n, |_| true);
        self.booked = self.booked.saturating_add(n);
        if let Some(now) = self.intervals.back_mut() {
            add(now, places, claimed);
            add(now, Places::NONE, n - claimed);
        }
    }

    /// Packets that were missing came after all: the newest amounts go first, as only what is still
    /// inside the reordering window can come.
    fn take_back(&mut self, n: u64) {
        let mut left = n;
        let newest = self.intervals.iter_mut().rev();
        for amounts in newest.chain(std::iter::once(&mut self.settled)) {
            // In order of the sets: unexplained ones first, for what comes after all was not dropped.
            for places in amounts.keys().copied().collect::<Vec<_>>() {
                let part = remove(amounts, places, left);
                left -= part;
                let same = |s: &&mut Standing| Places::NONE.with(s.place).0 & places.0 != 0;
                if let Some(s) = self.standing.iter_mut().find(same) {
                    s.packets = s.packets.saturating_add(part);
                }
            }
        }
        self.booked -= n - left;
    }

    /// All missing packets by place, if their sum (without those of our own queue) is `total`: what is
    /// not booked yet counts as found now, what is too much was taken back.
    pub fn shares(&self, total: u64) -> Shares {
        let mut last = self.clone();
        if total < last.booked {
            last.take_back(last.booked - total);
        } else {
            last.book(total - last.booked);
        }
        let mut sums: BTreeMap<Places, u64> = last.settled;
        for (places, n) in last.intervals.into_iter().flatten() {
            add(&mut sums, places, n);
        }
        let mut shares = Shares::default();
        for (places, packets) in sums {
            let list = places.list();
            match list[..] {
                [] => shares.at[7] += packets,
                [_] => shares.at[places.0.trailing_zeros() as usize] += packets,
                _ => shares.shared.push(Shared { places: list, packets }),
            }
        }
        shares
    }
}

fn add(amounts: &mut BTreeMap<Places, u64>, places: Places, n: u64) {
    if n > 0 {
        let slot = amounts.entry(places).or_default();
        *slot = slot.saturating_add(n);
    }
}

/// Takes up to `n` away; gives how many it were.
fn remove(amounts: &mut BTreeMap<Places, u64>, places: Places, n: u64) -> u64 {
    let Some(slot) = amounts.get_mut(&places) else { return 0 };
    let part = (*slot).min(n);
    *slot -= part;
    if *slot == 0 {
        amounts.remove(&places);
    }
    part
}

#[cfg(test)]
#[path = "places/places_tests.rs"]
mod tests;
