//! Puts IP fragments together: no clock, no socket, bounded in memory and number.
//!
//! * At most [`ReassemblyLimits::datagrams`] are open; the oldest is dropped when another comes. Each takes at most
//!   64 KiB of data and 64 KiB of range list, so the default of 256 is bounded by 32 MiB.
//! * An open datagram expires [`ReassemblyLimits::expiry_ns`] after its first fragment (30 s, as in Linux);
//!   a clock that jumps back by as much expires it too.
//! * A fragment with data that is already there is a duplicate and is ignored. Any other overlap refuses the
//!   whole datagram, fragments still to come included, for both versions of IP (RFC 5722; Linux does the same
//!   since 2018): no standard says which bytes are valid, so no choice is right.
//!
//! Sources: RFC 791, RFC 8200 (4.5), RFC 5722.

use std::net::IpAddr;

use super::ip::{Fragment, IpPacket, upper};
use super::udp::Udp;
use super::{FrameRefusal, udp};

/// Longest datagram that fragments can make up, bytes.
pub const LONGEST: u32 = 65_535;

/// Bounds of a [`Reassembler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Datagrams open at a time, at least 1.
    pub datagrams: usize,
    /// Life of an open datagram, ns.
    pub expiry_ns: i64,
}

impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits { datagrams: 256, expiry_ns: 30_000_000_000 }
    }
}

/// Why a fragment was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FragmentFault {
    /// It has no data.
    Empty,
    /// Not the last one, but no multiple of 8 bytes.
    Ragged,
    /// It ends above 65,535 bytes.
    TooLong,
    /// It contradicts bytes or the end that are known already, or belongs to a datagram refused so.
    Overlap,
}

/// Where fragments went; `fragments = used + duplicate + refused + expired + evicted + waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentTotals {
    /// Fragments taken in.
    pub fragments: u64,
    /// Fragments that became part of a whole datagram.
    pub used: u64,
    /// Repeated fragments.
    pub duplicate: u64,
    /// Fragments refused for a [`FragmentFault`], with those that waited in the same datagram.
    pub refused: u64,
    /// Fragments of datagrams that were not completed in time.
    pub expired: u64,
    /// Fragments of datagrams that had to go for newer ones.
    pub evicted: u64,
    /// Fragments in open datagrams.
    pub waiting: u64,
    /// Whole datagrams made.
    pub datagrams: u64,
    /// Datagrams given up: expired or evicted.
    pub incomplete: u64,
}

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum FragmentOutcome {
    /// Kept; others are missing.
    Waiting,
    /// Known already.
    Duplicate,
    /// Refused.
    Refused(FragmentFault),
    /// The last missing one.
    Complete(Assembled),
}

/// A datagram put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Protocol of its first header.
    pub protocol: u8,
    /// All bytes after the IP header.
    pub bytes: Vec<u8>,
}

impl Assembled {
    /// The UDP datagram in it.
    ///
    /// # Errors
    /// As [`IpPacket::udp`]; a fragment header inside is [`FrameRefusal::Extension`].
    pub fn udp(&self) -> Result<Udp<'_>, FrameRefusal> {
        let (protocol, bytes) = if self.source.is_ipv6() {
            match upper(self.protocol, &self.bytes)? {
                (_, Some(_), _) => return Err(FrameRefusal::Extension),
                (protocol, None, bytes) => (protocol, bytes),
            }
        } else {
            (self.protocol, &self.bytes[..])
        };
        if protocol != udp::PROTOCOL {
            return Err(FrameRefusal::NotUdp);
        }
        Udp::parse(bytes)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    ident: u32,
    /// Part of the key in IPv4; the next header of IPv6 fragments may differ and is 0 here.
    protocol: u8,
}

#[derive(Debug)]
struct Open {
    key: Key,
    first_ns: i64,
    bytes: Vec<u8>,
    /// Ranges present: sorted, disjoint, not touching.
    have: Vec<(u32, u32)>,
    end: Option<u32>,
    protocol: u8,
    fragments: u64,
    refused: bool,
}

/// Keeps fragments until their datagram is whole.
#[derive(Debug)]
pub struct Reassembler {
    limits: ReassemblyLimits,
    /// In order of their first fragment.
    open: Vec<Open>,
    /// Memory to use again.
    spare: Vec<Vec<u8>>,
    totals: FragmentTotals,
}

impl Reassembler {
    /// Empty, with these bounds (`datagrams` 0 is read as 1).
    pub fn new(limits: ReassemblyLimits) -> Reassembler {
        let limits = ReassemblyLimits { datagrams: limits.datagrams.max(1), ..limits };
        Reassembler {
            limits,
            open: Vec::new(),
            spare: Vec::new(),
            totals: FragmentTotals::default(),
        }
    }

    /// Takes a packet that is `fragment` of its datagram; `now_ns` is the time it came at.
    pub fn accept(
        &mut self,
        packet: &IpPacket<'_>,
        fragment: Fragment,
        now_ns: i64,
    ) -> FragmentOutcome {
        self.expire(now_ns);
        self.totals.fragments += 1;
        let Fragment { ident, offset, more } = fragment;
        let end = offset + u32::try_from(packet.payload.len()).unwrap_or(LONGEST + 1);
        let fault = if packet.payload.is_empty() {
            Some(FragmentFault::Empty)
        } else if more && !packet.payload.len().is_multiple_of(8) {
            Some(FragmentFault::Ragged)
        } else if end > LONGEST {
            Some(FragmentFault::TooLong)
        } else {
            None
        };
        if let Some(fault) = fault {
            self.totals.refused += 1;
            return FragmentOutcome::Refused(fault);
        }
        let protocol = if packet.source.is_ipv4() { packet.protocol } else { 0 };
        let (source, destination) = (packet.source, packet.destination);
        let key = Key { source, destination, ident, protocol };
        // Newest first: fragments of one datagram usually follow each other.
        let at = match self.open.iter().rposition(|o| o.key == key) {
            Some(at) => at,
            None => self.begin(key, now_ns),
        };
        let open = &mut self.open[at];
        if open.refused {
            self.totals.refused += 1;
            return FragmentOutcome::Refused(FragmentFault::Overlap);
        }
        match open.place(offset, end, more, packet.payload) {
            Placed::Same => {
                self.totals.duplicate += 1;
                return FragmentOutcome::Duplicate;
            }
            Placed::Contradicts => {
                self.totals.refused += 1 + open.fragments;
                self.totals.waiting -= open.fragments;
                open.fragments = 0;
                open.refused = true;
                let bytes = std::mem::take(&mut open.bytes);
                open.have = Vec::new();
                self.give_back(bytes);
                return FragmentOutcome::Refused(FragmentFault::Overlap);
            }
            Placed::New => {}
        }
        open.fragments += 1;
        self.totals.waiting += 1;
        if offset == 0 {
            open.protocol = packet.protocol;
        }
        let whole = open.end.is_some_and(|end| open.have == [(0, end)]);
        if !whole {
            return FragmentOutcome::Waiting;
        }
        let open = self.open.remove(at);
        self.totals.waiting -= open.fragments;
        self.totals.used += open.fragments;
        self.totals.datagrams += 1;
        let (protocol, bytes) = (open.protocol, open.bytes);
        FragmentOutcome::Complete(Assembled { source, destination, protocol, bytes })
    }

    fn begin(&mut self, key: Key, now_ns: i64) -> usize {
        if self.open.len() >= self.limits.datagrams {
            let old = self.open.remove(0);
            self.totals.evicted += old.fragments;
            self.forget(old);
        }
        let bytes = self.spare.pop().unwrap_or_default();
        self.open.push(Open {
            key,
            first_ns: now_ns,
            bytes,
            have: Vec::new(),
            end: None,
            protocol: 0,
            fragments: 0,
            refused: false,
        });
        self.open.len() - 1
    }

    fn forget(&mut self, old: Open) {
        self.totals.waiting -= old.fragments;
        self.totals.incomplete += u64::from(!old.refused);
        self.give_back(old.bytes);
    }

    /// Drops datagrams that are older than the limit.
    pub fn expire(&mut self, now_ns: i64) {
        let limit = u64::try_from(self.limits.expiry_ns).unwrap_or(0);
        let mut at = 0;
        while at < self.open.len() {
            if now_ns.abs_diff(self.open[at].first_ns) > limit {
                let old = self.open.remove(at);
                self.totals.expired += old.fragments;
                self.forget(old);
            } else {
                at += 1;
            }
        }
    }

    /// Nothing more will come: gives up all.
    pub fn finish(&mut self) -> FragmentTotals {
        for old in std::mem::take(&mut self.open) {
            self.totals.expired += old.fragments;
            self.forget(old);
        }
        self.totals
    }

    /// Takes the memory of an [`Assembled`] datagram back, so that the next one allocates nothing.
    pub fn give_back(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < 16 && bytes.capacity() > 0 {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Totals so far.
    pub fn totals(&self) -> FragmentTotals {
        self.totals
    }
}

enum Placed {
    New,
    Same,
    Contradicts,
}

impl Open {
    fn place(&mut self, from: u32, to: u32, more: bool, data: &[u8]) -> Placed {
        let highest = self.have.last().map_or(0, |r| r.1);
        let beyond = self.end.is_some_and(|end| if more { to >= end } else { to != end });
        if beyond || (!more && highest > to) {
            return Placed::Contradicts;
        }
        // First range that ends at or after `from`: the only one that can touch it from the left.
        let at = self.have.partition_point(|r| r.1 < from);
        let range = from as usize..to as usize;
        match self.have.get(at) {
            Some(&(a, b)) if a <= from && to <= b => {
                // Same bytes, but a new last one would have set the end: not the same statement.
                let same = self.bytes[range] == *data && (more || self.end.is_some());
                return if same { Placed::Same } else { Placed::Contradicts };
            }
            Some(&(a, b)) if a < to && from < b => return Placed::Contradicts,
            _ => {}
        }
        // It may begin where range `at` ends and reach into the one after that.
        let touches_left = self.have.get(at).is_some_and(|r| r.1 == from);
        let right = at + usize::from(touches_left);
        if self.have.get(right).is_some_and(|r| r.0 < to) {
            return Placed::Contradicts;
        }
        let touches_right = self.have.get(right).is_some_and(|r| r.0 == to);
        match (touches_left, touches_right) {
            (true, true) => {
                self.have[at].1 = self.have[right].1;
                self.have.remove(right);
            }
            (true, false) => self.have[at].1 = to,
            (false, true) => self.have[right].0 = from,
            (false, false) => self.have.insert(at, (from, to)),
        }
        if !more {
            self.end = Some(to);
        }
        if self.bytes.len() < to as usize {
            self.bytes.resize(to as usize, 0);
        }
        self.bytes[range].copy_from_slice(data);
        Placed::New
    }
}

#[cfg(test)]
#[path = "reassembly_tests.rs"]
mod tests;
