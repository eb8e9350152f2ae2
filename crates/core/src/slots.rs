//! Places for a bounded number of streams: when all are taken, the one that was silent longest is used again.
//!
//! Packets can come from forged addresses. So a stream with one packet is replaced before one with more (a
//! followed stream): forged senders with one packet each replace each other, and a followed stream keeps its
//! place. An eighth of the places is enough for streams with one packet. If they hold more, the longest
//! silent of them is replaced; otherwise the longest silent followed stream. Every step costs the same for
//! any number of places: two lists in order of silence, and a table from key to place. The table's hash is
//! seeded, so that no sender can choose keys that collide. Source: `docs/losses.md`, "Many
//! senders".

use std::collections::HashMap;
use std::hash::Hash;

/// No place.
const NONE: u32 = u32::MAX;

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It has this place.
    Known(usize),
    /// It got a free place.
    New(usize),
    /// It replaced another stream.
    Reused(usize),
}

impl Found {
    /// The place.
    pub fn place(self) -> usize {
        let (Found::Known(at) | Found::New(at) | Found::Reused(at)) = self;
        at
    }
}

#[derive(Debug, Clone)]
struct Slot<K> {
    key: K,
    /// Neighbours in its list: the next newer and the next older one.
    newer: u32,
    older: u32,
    /// It has come again.
    followed: bool,
}

/// One list in order of silence.
#[derive(Debug, Clone, Copy)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: usize,
}

/// Places by key.
#[derive(Debug, Clone)]
pub struct Slots<K> {
    limit: usize,
    places: HashMap<K, u32>,
    slots: Vec<Slot<K>>,
    /// Those that came once, and those that came again.
    lists: [Ends; 2],
}

impl<K: Copy + Eq + Hash> Slots<K> {
    /// At most `limit` places, at least 1, at most 2³¹.
    pub fn new(limit: usize) -> Slots<K> {
        let none = Ends { newest: NONE, oldest: NONE, len: 0 };
        let limit = limit.clamp(1, 1 << 31);
        Slots { limit, places: HashMap::new(), slots: Vec::new(), lists: [none; 2] }
    }

    /// Places in use.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if none is.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The stream at this place.
    ///
    /// # Panics
    /// If it is free.
    pub fn key(&self, place: usize) -> K {
        self.slots[place].key
    }

    /// True once the stream of this place has come again: a single packet, perhaps forged, must not affect other
    /// streams.
    ///
    /// # Panics
    /// If the place is free.
    #[inline]
    pub fn is_followed(&self, place: usize) -> bool {
        self.slots[place].followed
    }

    /// The place of `key`, if it has one; nothing changes.
    pub fn place_of(&self, key: K) -> Option<usize> {
        self.places.get(&key).map(|&at| at as usize)
    }

    /// The place of `key`, which is now the one that was silent shortest.
    pub fn find(&mut self, key: K) -> Found {
        if let Some(&at) = self.places.get(&key) {
            self.unlink(at);
            self.slots[at as usize].followed = true;
            self.link(at);
            return Found::Known(at as usize);
        }
        let slot = Slot { key, newer: NONE, older: NONE, followed: false };
        let (at, reused) = if self.slots.len() < self.limit {
            self.slots.push(slot);
            ((self.slots.len() - 1) as u32, false)
        } else {
            let at = self.victim();
            self.unlink(at);
            let before = std::mem::replace(&mut self.slots[at as usize], slot);
            self.places.remove(&before.key);
            (at, true)
        };
        self.places.insert(key, at);
        self.link(at);
        if reused { Found::Reused(at as usize) } else { Found::New(at as usize) }
    }

    /// The place of `key` without replacing another stream: `None` if it has none and all are taken.
    pub fn join(&mut self, key: K) -> Option<usize> {
        let full = self.slots.len() >= self.limit && !self.places.contains_key(&key);
        (!full).then(|| self.find(key).place())
    }

    /// Whose place is used again. There is one.
    fn victim(&self) -> u32 {
        let [once, followed] = self.lists;
        if followed.len == 0 || once.len >= (self.limit / 8).max(1) {
            once.oldest
        } else {
            followed.oldest
        }
    }

    fn list(&mut self, at: u32) -> &mut Ends {
        let followed = self.slots[at as usize].followed;
        &mut self.lists[usize::from(followed)]
    }

    fn unlink(&mut self, at: u32) {
        let Slot { newer, older, .. } = self.slots[at as usize];
        match newer {
            NONE => self.list(at).newest = older,
            n => self.slots[n as usize].older = older,
        }
        match older {
            NONE => self.list(at).oldest = newer,
            o => self.slots[o as usize].newer = newer,
        }
        self.list(at).len -= 1;
    }

    fn link(&mut self, at: u32) {
        let list = self.list(at);
        let before = std::mem::replace(&mut list.newest, at);
        list.len += 1;
        if before == NONE {
            list.oldest = at;
        } else {
            self.slots[before as usize].newer = at;
        }
        let slot = &mut self.slots[at as usize];
        (slot.newer, slot.older) = (NONE, before);
    }
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
