//! What waits for its turn: events, pulses, and the places of groups that are still open, in rising time.
//!
//! An entry gets its place when its group *begins*, so that rising input never needs sorting; a late one
//! moves to its place among the last few, or asks for a sort before the next release. The memory is
//! fixed. Source: `docs/formats/multigrid.md` section 6.3.

/// Places that a late entry is moved back by hand: the modules that one trigger may hit, out of order.
const STEPS: u64 = 128;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    /// A group that may still get hits.
    Open = 0,
    /// An event.
    Event = 1,
    /// A pulse.
    Pulse = 2,
    /// A group that was no event.
    Nothing = 3,
}

/// 16 bytes, written and read as two words: fields of their own would make every copy wait until the
/// small writes before it are done (a third of the builder's time).
#[derive(Debug, Clone, Copy)]
pub struct WaitingEntry {
    /// Ticks.
    pub time: i64,
    /// From the top: rank (8 bits; 0 for a pulse, else 1 + module: pulses come first, then modules in order),
    /// state (8), amplitude of an event's strongest wire (16), its pixel (32).
    rest: u64,
}

impl WaitingEntry {
    #[inline]
    fn new(time: i64, rank: u8, state: EntryState) -> WaitingEntry {
        WaitingEntry { time, rest: u64::from(rank) << 56 | (state as u64) << 48 }
    }

    /// An open group of a module below 255.
    #[inline]
    pub fn open(time: i64, module: u8) -> WaitingEntry {
        WaitingEntry::new(time, module.saturating_add(1), EntryState::Open)
    }

    /// A pulse.
    #[inline]
    pub fn pulse(time: i64) -> WaitingEntry {
        WaitingEntry::new(time, 0, EntryState::Pulse)
    }

    /// What it is.
    #[inline]
    pub fn state(&self) -> EntryState {
        match self.rest >> 48 & 0xff {
            0 => EntryState::Open,
            1 => EntryState::Event,
            2 => EntryState::Pulse,
            _ => EntryState::Nothing,
        }
    }

    /// The group is an event.
    #[inline]
    pub fn is_event(&mut self, pixel: u32, adc: u16) {
        let known = self.rest & 0xff << 56 | (EntryState::Event as u64) << 48;
        self.rest = known | u64::from(adc) << 32 | u64::from(pixel);
    }

    /// The group is none.
    #[inline]
    pub fn is_nothing(&mut self) {
        self.rest = self.rest & 0xff << 56 | (EntryState::Nothing as u64) << 48;
    }

    /// Pixel of an event.
    #[inline]
    pub fn pixel(&self) -> u32 {
        self.rest as u32
    }

    /// Amplitude of an event.
    #[inline]
    pub fn adc(&self) -> u16 {
        (self.rest >> 32) as u16
    }

    #[inline]
    fn key(&self) -> (i64, u64) {
        (self.time, self.rest >> 56)
    }

    /// Module of an open group.
    #[inline]
    pub fn open_module(&self) -> Option<usize> {
        let open = self.rest >> 48 & 0xff == EntryState::Open as u64;
        open.then(|| ((self.rest >> 56) as usize).wrapping_sub(1))
    }
}

/// A ring of entries; places are counted on for ever.
#[derive(Debug)]
pub struct Waiting {
    ring: Box<[WaitingEntry]>,
    head: u64,
    tail: u64,
    disordered: bool,
    scratch: Vec<WaitingEntry>,
}

impl Waiting {
    /// Room for `most` entries, rounded up to a power of two.
    pub fn new(most: usize) -> Waiting {
        let room = most.next_power_of_two();
        let ring = vec![WaitingEntry::pulse(0); room].into_boxed_slice();
        Waiting { ring, head: 0, tail: 0, disordered: false, scratch: Vec::with_capacity(room) }
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> u64 {
        self.tail - self.head
    }

    /// True without room for one more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.ring.len() as u64
    }

    /// Place behind the last entry.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    #[inline]
    fn index(&self, slot: u64) -> usize {
        slot as usize & (self.ring.len() - 1)
    }

    /// The entry at a place.
    #[inline]
    pub fn at(&mut self, slot: u64) -> &mut WaitingEntry {
        let index = self.index(slot);
        &mut self.ring[index]
    }

    /// Adds an entry, for which there must be room, and gives its place; `moved` hears of open groups that
    /// got another one.
    #[inline]
    pub fn push(&mut self, entry: WaitingEntry, moved: impl FnMut(usize, u64)) -> u64 {
        let slot = self.tail;
        self.tail += 1;
        *self.at(slot) = entry;
        if slot > self.head && self.at(slot - 1).key() > entry.key() {
            return self.settle(slot, entry, moved);
        }
        slot
    }

    /// Moves the last entry to its place, if that is near.
    #[cold]
    fn settle(&mut self, last: u64, entry: WaitingEntry, mut moved: impl FnMut(usize, u64)) -> u64 {
        if self.disordered {
            return last;
        }
        let nearest = self.head.max(last.saturating_sub(STEPS));
        let mut slot = last;
        while slot > nearest && self.at(slot - 1).key() > entry.key() {
            slot -= 1;
        }
        if slot == nearest && slot > self.head {
            self.disordered = true;
            return last;
        }
        for to in (slot + 1..=last).rev() {
            let other = *self.at(to - 1);
            *self.at(to) = other;
            if let Some(module) = other.open_module() {
                moved(module, to);
            }
        }
        *self.at(slot) = entry;
        slot
    }

    /// Puts all entries in order; `moved` hears of open groups.
    #[inline]
    pub fn sort(&mut self, moved: impl FnMut(usize, u64)) {
        if self.disordered {
            self.sort_all(moved);
        }
    }

    #[cold]
    fn sort_all(&mut self, mut moved: impl FnMut(usize, u64)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend((self.head..self.tail).map(|slot| self.ring[self.index(slot)]));
        scratch.sort_unstable_by_key(WaitingEntry::key);
        for (slot, entry) in (self.head..).zip(&scratch) {
            *self.at(slot) = *entry;
            if let Some(module) = entry.open_module() {
                moved(module, slot);
            }
        }
        self.scratch = scratch;
        self.disordered = false;
    }

    /// Earliest and latest time of the entries.
    pub fn span(&self) -> Option<(i64, i64)> {
        let times = (self.head..self.tail).map(|slot| self.ring[self.index(slot)].time);
        times.fold(None, |span, time| {
            let (first, last) = span.unwrap_or((time, time));
            Some((time.min(first), time.max(last)))
        })
    }

    /// The first entry and its place.
    #[inline]
    pub fn first(&self) -> Option<(u64, WaitingEntry)> {
        (self.head < self.tail).then(|| (self.head, self.ring[self.index(self.head)]))
    }

    /// Forgets the first entry.
    #[inline]
    pub fn pop(&mut self) {
        if self.head < self.tail {
            self.head += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes in whatever order leaves in rising time, pulses before modules, and open groups
        /// know where they are.
        #[test]
        fn entries_leave_in_order_and_open_groups_keep_their_place(
            steps in proptest::collection::vec((0i64..400, 0u8..4, any::<bool>()), 1..300),
        ) {
            let mut waiting = Waiting::new(512);
            let mut slots = [None; 3];
            for (time, rank, _) in &steps {
                let entry = match rank {
                    0 => WaitingEntry::pulse(*time),
                    module => {
                        if let Some(slot) = slots[usize::from(*module) - 1] {
                            waiting.at(slot).is_event(7, 9);
                        }
                        WaitingEntry::open(*time, module - 1)
                    }
                };
                let slot = waiting.push(entry, |module, slot| slots[module] = Some(slot));
                if let Some(module) = entry.open_module() {
                    slots[module] = Some(slot);
                }
                for (module, slot) in slots.iter().enumerate() {
                    if let Some(slot) = *slot {
                        prop_assert_eq!(waiting.at(slot).open_module(), Some(module));
                    }
                }
            }
            waiting.sort(|module, slot| slots[module] = Some(slot));
            for (module, slot) in slots.iter().enumerate() {
                if let Some(slot) = *slot {
                    prop_assert_eq!(waiting.at(slot).open_module(), Some(module));
                }
            }
            let mut left = Vec::new();
            while let Some((_, entry)) = waiting.first() {
                left.push(entry.key());
                waiting.pop();
            }
            let mut wanted: Vec<_> = steps.iter().map(|&(t, r, _)| (t, u64::from(r))).collect();
            wanted.sort_unstable();
            prop_assert_eq!(left, wanted);
        }
    }

    #[test]
    fn an_entry_takes_16_bytes() {
        assert_eq!(size_of::<WaitingEntry>(), 16);
    }
}
