//! Which counters moved between two readings of the host, and which of them can concern this receiver.
//!
//! One drop may move several counters: a full backlog also moves the interface's `rx_dropped`, a wrong
//! checksum also the socket's own drops. Here each is told once. Queues that only hold what this host
//! sends elsewhere, and interfaces that the receiver's packets do not come in on, say nothing. What a host does not
//! tell did not move. Source: `docs/losses.md`.

use std::collections::{BTreeMap, BTreeSet};

use fullcount_io::host::card::Card;
use fullcount_io::host::probe::Reading;
use fullcount_io::host::qdisc::Qdisc;
use fullcount_io::host::softnet::SoftnetBacklog;

use super::{HostWitness, Moved};

/// What a receiver listens to, as far as places of losses depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Numbers of the interfaces that its packets come in on; `None`: any.
    pub interfaces: Option<BTreeSet<u32>>,
    /// Intervals that fragments wait for the rest.
    pub fragments_wait: usize,
}

/// One movement, with what it is called on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// For the attribution.
    pub moved: Moved,
    /// Interface, queue or core, where there are several.
    pub of: Option<String>,
}

/// Every movement looks back one interval, for a gap may be read just before its counter.
const BACK: usize = 1;

/// A datagram with its headers above this may come in fragments: the MTU of ordinary Ethernet.
const USUAL_MTU: u64 = 1500;
/// IPv4 and UDP header.
const HEADERS: u64 = 28;

/// True if datagrams of `largest` payload bytes may be in fragments; 0: none came yet.
pub fn may_be_fragments(largest: u64) -> bool {
    largest == 0 || largest + HEADERS > USUAL_MTU
}

/// Follows the host's counters from reading to reading.
#[derive(Debug)]
pub struct Movements {
    scope: Scope,
    before: Reading,
    /// Full buffers and wrong checksums of the interval before that no drop of our own explained yet.
    full_left: u64,
    sums_left: u64,
    /// With a receiver of frames, by interface: drops of the interval before that no packet memory explained
    /// yet. It tells its count up to 256 calls after the interface has.
    card_left: BTreeMap<u32, u64>,
}

/// What a receiver that takes frames counted itself: exact, and ours alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Damaged datagrams.
    pub damaged: u64,
    /// Trains longer than the MTU.
    pub uncut: u64,
    /// Fragments.
    pub fragments: u64,
}

impl Frames {
    /// By how much it moved since `then`.
    pub fn since(&self, then: &Frames) -> Frames {
        Frames {
            damaged: self.damaged.saturating_sub(then.damaged),
            uncut: self.uncut.saturating_sub(then.uncut),
            fragments: self.fragments.saturating_sub(then.fragments),
        }
    }
}

/// What the receiver itself says beside a reading; asked before it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own {
    /// Drops that its sockets (`SO_RXQ_OVFL`), packet memory or rings counted in the interval.
    pub drops: u64,
    /// With a receiver of frames: what else it counted in the interval.
    pub frames: Option<Frames>,
    /// True if datagrams may be in fragments.
    pub fragments: bool,
    /// True at the end of the run: fragments that still wait will never be whole.
    pub last: bool,
}

type Tell<'a> = dyn FnMut(HostWitness, u64, usize, Option<String>) + 'a;

impl Movements {
    /// Begins with a reading from before the first packet.
    pub fn new(scope: Scope, before: Reading) -> Movements {
        Movements { scope, before, full_left: 0, sums_left: 0, card_left: BTreeMap::new() }
    }

    /// What moved until `after`.
    pub fn step(&mut self, own: Own, after: Reading) -> Vec<Told> {
        let mut all = Vec::new();
        let mut tell = |by: HostWitness, times: u64, back: usize, of: Option<String>| {
            if times > 0 {
                all.push(Told { moved: Moved { by, times, back: back.max(BACK) }, of });
            }
        };
        let before = std::mem::take(&mut self.before);
        let mut elsewhere = 0;
        match own.frames {
            Some(frames) => {
                // An interface counts frames that found no packet memory as its own drops as well.
                elsewhere = own.drops;
                taken(own.drops, frames, &before, &after, &mut tell);
            }
            None => self.udp(own, &before, &after, &mut tell),
        }
        elsewhere += backlogs(&before, &after, &mut tell);
        let left = (&mut self.card_left, own.frames.is_some() && !own.last);
        cards(&self.scope, &before, &after, elsewhere, left, &mut tell);
        queues(&self.scope, &before, &after, &mut tell);
        self.before = after;
        all
    }

    /// Socket, checksum, header and fragments.
    fn udp(&mut self, own: Own, before: &Reading, after: &Reading, tell: &mut Tell<'_>) {
        let (Some(then), Some(now)) = (before.udp, after.udp) else {
            return tell(HostWitness::SocketFull, own.drops, BACK, None);
        };
        let d = now.since(&then);
        let full_now = d.receive_buffer_errors + d.memory_errors;
        self.socket(own.drops, full_now, d.memory_errors, d.checksum_errors, tell);
        tell(HostWitness::Checksum, d.checksum_errors, BACK, None);
        tell(HostWitness::IpHeader, d.header_errors, BACK, None);
        if own.fragments {
            let waiting = after.incomplete.filter(|_| own.last).unwrap_or(0);
            let given_up = d.reassembly_errors + waiting;
            tell(HostWitness::Reassembly, given_up, self.scope.fragments_wait, None);
        }
    }

    /// The socket's own count knows no reason: wrong checksums are in it. The namespace's counts know
    /// the reason, but not whose packets they were; and ours is told with the next packet, perhaps an
    /// interval later. What the checksums cannot be was the buffer; what they can be all of was the
    /// buffer only if some buffer of the namespace was full.
    fn socket(&mut self, drops: u64, full: u64, memory: u64, sums: u64, tell: &mut Tell<'_>) {
        let (full_all, sums_all) = (self.full_left + full, self.sums_left + sums);
        let beyond = drops.saturating_sub(sums_all);
        let of_buffer = drops.min(full_all).max(beyond);
        match full == memory && memory > 0 {
            true => tell(HostWitness::SocketMemory, of_buffer, BACK, None),
            false => tell(HostWitness::SocketFull, of_buffer, BACK, None),
        }
        self.full_left = full_all.saturating_sub(of_buffer).min(full);
        self.sums_left = sums_all.saturating_sub(drops - of_buffer).min(sums);
    }
}

/// What a receiver of frames lost. The kernel's sums of datagrams are those of other programs then, or of
/// copies that it makes besides; headers that it could not read were perhaps ours.
fn taken(drops: u64, f: Frames, before: &Reading, after: &Reading, tell: &mut Tell<'_>) {
    tell(HostWitness::FrameMemory, drops, BACK, None);
    tell(HostWitness::FrameDamaged, f.damaged, BACK, None);
    tell(HostWitness::FrameUncut, f.uncut, BACK, None);
    tell(HostWitness::FrameFragments, f.fragments, BACK, None);
    if let (Some(then), Some(now)) = (before.udp, after.udp) {
        tell(HostWitness::IpHeader, now.since(&then).header_errors, BACK, None);
    }
}

/// Cores whose queue was full; gives the sum.
fn backlogs(before: &Reading, after: &Reading, tell: &mut Tell<'_>) -> u64 {
    let (Some(before), Some(after)) = (&before.softnet, &after.softnet) else {
        return 0;
    };
    let mut sum = 0;
    for (core, now) in after {
        let then =
            before.iter().find(|(c, _)| c == core).map_or(SoftnetBacklog::default(), |(_, b)| *b);
        // The file has 32 bits a number, so it wraps.
        let times = u64::from((now.dropped as u32).wrapping_sub(then.dropped as u32));
        tell(HostWitness::Backlog, times, BACK, Some(format!("core {core}")));
        sum += times;
    }
    sum
}

/// Interfaces that the packets come in on; `explained`: drops of theirs that are told elsewhere. What
/// nothing explains yet is left for the next reading if it may `wait`.
fn cards(
    scope: &Scope,
    before: &Reading,
    after: &Reading,
    mut explained: u64,
    (left, wait): (&mut BTreeMap<u32, u64>, bool),
    tell: &mut Tell<'_>,
) {
    let (Some(before), Some(after)) = (&before.cards, &after.cards) else {
        return;
    };
    for now in after.iter().filter(|c| in_scope(scope, c.index)) {
        let Some(then) = before.iter().find(|c| c.index == now.index) else { continue };
        // A driver that was restarted begins at 0 again: nothing is said then.
        let (a, b) = (&now.counters, &then.counters);
        let on = || Some(now.name.clone());
        tell(HostWitness::Damaged, a.damaged.saturating_sub(b.damaged), BACK, on());
        tell(HostWitness::Missed, a.missed.saturating_sub(b.missed), BACK, on());
        let mut unknown = |dropped: u64| {
            let known = dropped.min(explained);
            explained -= known;
            dropped - known
        };
        let mut told = unknown(left.remove(&now.index).unwrap_or(0));
        let newer = unknown(a.dropped.saturating_sub(b.dropped));
        match wait {
            true => drop(left.insert(now.index, newer)),
            false => told += newer,
        }
        tell(HostWitness::CardDropped, told, BACK, on());
    }
}

/// Queues that the packets pass on this host: those before an interface's receive path, and those of
/// interfaces whose sent packets come back to this host (loopback, `ifb`).
fn queues(scope: &Scope, before: &Reading, after: &Reading, tell: &mut Tell<'_>) {
    let cards: &[Card] = after.cards.as_deref().unwrap_or(&[]);
    let (Some(before), Some(after)) = (&before.qdiscs, &after.qdiscs) else {
        return;
    };
    for now in after {
        let Some(card) = cards.iter().find(|c| c.index == now.interface) else { continue };
        let passes = match now.ingress {
            true => in_scope(scope, card.index),
            false => card.kind == "ifb" || (card.loopback && in_scope(scope, card.index)),
        };
        let same = |q: &&Qdisc| {
            (q.interface, q.ingress, &q.kind) == (now.interface, now.ingress, &now.kind)
        };
        let Some(then) = before.iter().find(same).filter(|_| passes) else { continue };
        let times = u64::from(now.drops.wrapping_sub(then.drops));
        tell(HostWitness::Qdisc, times, BACK, Some(format!("{} on {}", now.kind, card.name)));
    }
}

/// True if packets may come in on interface `index`.
pub(super) fn in_scope(scope: &Scope, index: u32) -> bool {
    scope.interfaces.as_ref().is_none_or(|all| all.contains(&index))
}

#[cfg(test)]
#[path = "moved_tests.rs"]
mod tests;
