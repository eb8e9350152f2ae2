//! A few things that one thread leaves for another: orders to an output or a decoder, which it looks for between two batches.
//!
//! Looking costs one read of memory while nothing is there. Refuses more than it holds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Things that wait at most.
const MOST: usize = 8;

/// What waits for a thread, the oldest first.
#[derive(Debug)]
pub struct Mailbox<T> {
    waiting: AtomicUsize,
    things: Mutex<VecDeque<T>>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox { waiting: AtomicUsize::new(0), things: Mutex::default() }
    }
}

impl<T> Mailbox<T> {
    fn things(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves one.
    ///
    /// # Errors
    /// Eight wait already; the thing comes back.
    pub fn put(&self, thing: T) -> Result<(), T> {
        let mut things = self.things();
        if things.len() >= MOST {
            return Err(thing);
        }
        things.push_back(thing);
        self.waiting.store(things.len(), Relaxed);
        Ok(())
    }

    /// True if nothing waits. It may be said late.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.load(Relaxed) == 0
    }

    /// Takes the oldest.
    pub fn take(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut things = self.things();
        let thing = things.pop_front();
        self.waiting.store(things.len(), Relaxed);
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_and_too_many_come_back() {
        let mailbox = Mailbox::default();
        assert!(mailbox.is_empty() && mailbox.take().is_none());
        (0..MOST).for_each(|n| mailbox.put(n).unwrap());
        assert_eq!((mailbox.put(99), mailbox.take()), (Err(99), Some(0)));
        mailbox.put(8).unwrap();
        assert_eq!(
            (1..=8).map(|_| mailbox.take().unwrap()).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8]
        );
        assert!(mailbox.is_empty());
    }
}
