//! Numbers of heaps that ended lately, in a bounded table: a late copy of their packets starts no heap.
//!
//! Each number has four places of its own; the oldest one goes. No allocation after the start. A number is forgotten after a time, and
//! once as many heaps have ended since as half of all numbers that there are: a sender with few numbers soon uses them again.
//!
//! A sender that stops may begin again with its numbers at once, without saying so: then heaps are forgotten, and stop heaps are not.
//! A copy of a stop heap would count as another sender's.

use super::live::HeapEnd;
use crate::wire::{Flavour, control, id};

/// How a heap ended that is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PastHeap {
    /// With every byte.
    Whole,
    /// Without some.
    GivenUp,
    /// It was a whole stop heap.
    Stop,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    cnt: u64,
    until_ns: u64,
    /// Heaps that had ended before it.
    before: u64,
    how: PastHeap,
}

const WAYS: usize = 4;
const NONE: Place = Place { cnt: u64::MAX, until_ns: 0, before: 0, how: PastHeap::GivenUp };

/// The table.
#[derive(Debug)]
pub(super) struct Recent {
    places: Vec<[Place; WAYS]>,
    keep_ns: u64,
    /// Numbers are multiples of 2 to this power, from some first one on.
    step_bits: u32,
    /// Heaps that have ended.
    ended: u64,
    /// So many of these are forgotten, stop heaps excepted.
    forgotten: u64,
}

impl Recent {
    /// For about `heaps` numbers in steps of `step`, each for `keep_ns`; 0: remembers nothing.
    pub fn new(heaps: usize, keep_ns: u64, step: u64) -> Recent {
        let sets = if keep_ns == 0 { 1 } else { heaps.div_ceil(WAYS).next_power_of_two() };
        let places = vec![[NONE; WAYS]; sets];
        Recent { places, keep_ns, step_bits: step.trailing_zeros(), ended: 0, forgotten: 0 }
    }

    /// Neighbours in number lie beside each other; numbers in large steps are spread as well.
    #[inline]
    fn set(&self, cnt: u64) -> usize {
        (cnt ^ cnt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (self.places.len() - 1)
    }

    /// Half of the numbers that a sender of this flavour has, at least 1.
    fn half(&self, flavour: Flavour) -> u64 {
        1 << (flavour.address_bits() - 1).saturating_sub(self.step_bits)
    }

    /// How the heap ended, if that is not long ago.
    #[inline]
    pub fn ended(&self, cnt: u64, flavour: Flavour, now_ns: u64) -> Option<PastHeap> {
        if self.keep_ns == 0 {
            return None;
        }
        let place = self.places[self.set(cnt)].iter().find(|p| p.cnt == cnt)?;
        let known = place.until_ns > now_ns
            && self.ended - place.before <= self.half(flavour)
            && (place.before >= self.forgotten || place.how == PastHeap::Stop);
        known.then_some(place.how)
    }

    /// A heap has ended, `whole` or not.
    pub fn add(&mut self, end: &HeapEnd, now_ns: u64, whole: bool) {
        let stop = end.flavour.immediate(id::STREAM_CTRL, control::STOP);
        let how = match whole {
            true if end.pointers.contains(&stop) => PastHeap::Stop,
            true => PastHeap::Whole,
            false => PastHeap::GivenUp,
        };
        self.add_as(end.cnt, now_ns, how);
    }

    /// The heap of this number has ended.
    pub fn add_as(&mut self, cnt: u64, now_ns: u64, how: PastHeap) {
        if self.keep_ns == 0 {
            return;
        }
        let set = self.set(cnt);
        let ways = &mut self.places[set];
        let at = ways
            .iter()
            .position(|p| p.cnt == cnt)
            .unwrap_or_else(|| (0..WAYS).min_by_key(|way| ways[*way].until_ns).unwrap_or(0));
        let until_ns = now_ns.saturating_add(self.keep_ns);
        ways[at] = Place { cnt, until_ns, before: self.ended, how };
        self.ended += 1;
    }

    /// A sender has stopped: all heaps are forgotten, and stop heaps are not. Costs the same whatever the table's size.
    pub fn forget_heaps(&mut self) {
        self.forgotten = self.ended;
    }

    /// A sender says that it begins.
    pub fn clear(&mut self) {
        self.places.fill([NONE; WAYS]);
    }
}
