//! Numbers of heaps that ended lately, in a bounded table: a late copy of their packets starts no heap.
//!
//! Each number has four places of its own; the oldest one goes. No allocation after the start.

#[derive(Debug, Clone, Copy)]
struct Place {
    cnt: u64,
    until_ns: u64,
    whole: bool,
}

const WAYS: usize = 4;
const NONE: Place = Place { cnt: u64::MAX, until_ns: 0, whole: false };

/// The table.
#[derive(Debug)]
pub(super) struct Recent {
    places: Vec<[Place; WAYS]>,
    keep_ns: u64,
}

impl Recent {
    /// For about `heaps` numbers, each for `keep_ns`; 0: remembers nothing.
    pub fn new(heaps: usize, keep_ns: u64) -> Recent {
        let sets = if keep_ns == 0 { 1 } else { heaps.div_ceil(WAYS).next_power_of_two() };
        Recent { places: vec![[NONE; WAYS]; sets], keep_ns }
    }

    /// Neighbours in number lie beside each other; numbers in large steps are spread as well.
    #[inline]
    fn set(&self, cnt: u64) -> usize {
        (cnt ^ cnt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (self.places.len() - 1)
    }

    /// The heap ended not long ago; with `true` if it was whole.
    #[inline]
    pub fn ended(&self, cnt: u64, now_ns: u64) -> Option<bool> {
        if self.keep_ns == 0 {
            return None;
        }
        let set = &self.places[self.set(cnt)];
        set.iter().find(|p| p.cnt == cnt && p.until_ns > now_ns).map(|p| p.whole)
    }

    /// The heap has ended.
    pub fn add(&mut self, cnt: u64, now_ns: u64, whole: bool) {
        if self.keep_ns == 0 {
            return;
        }
        let set = self.set(cnt);
        let ways = &mut self.places[set];
        let at = ways
            .iter()
            .position(|p| p.cnt == cnt)
            .unwrap_or_else(|| (0..WAYS).min_by_key(|way| ways[*way].until_ns).unwrap_or(0));
        ways[at] = Place { cnt, until_ns: now_ns.saturating_add(self.keep_ns), whole };
    }

    /// A sender says that it begins.
    pub fn clear(&mut self) {
        self.places.fill([NONE; WAYS]);
    }
}
