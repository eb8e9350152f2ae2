//! What waits for a peer: bounded in bytes, the oldest goes first.
//!
//! Two threads share it: one puts, one takes. Refuses nothing; what does not fit is dropped and counted by who puts.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Something on its way, and its number.
pub type Piece = (u64, Arc<[u8]>);

#[derive(Debug, Default)]
struct Inner {
    all: VecDeque<Piece>,
    bytes: usize,
    next: u64,
    /// Asked to end.
    ended: bool,
    /// Nothing more is put.
    closed: bool,
}

/// The queue.
#[derive(Debug)]
pub struct Backlog {
    inner: Mutex<Inner>,
    changed: Condvar,
    limit: usize,
}

impl Backlog {
    /// At most `limit` bytes, or one piece.
    pub fn new(limit: usize) -> Backlog {
        Backlog { inner: Mutex::default(), changed: Condvar::new(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece, and tells how many old ones had to go for it.
    pub fn put(&self, piece: Vec<u8>) -> u64 {
        let mut inner = self.lock();
        let mut gone = 0;
        inner.bytes += piece.len();
        while inner.bytes > self.limit {
            let Some((_, old)) = inner.all.pop_front() else { break };
            inner.bytes -= old.len();
            gone += 1;
        }
        let number = inner.next;
        inner.next += 1;
        inner.all.push_back((number, piece.into()));
        self.changed.notify_all();
        gone
    }

    /// The oldest piece, left in its place; waits for one until `end`, or for ever. `None`: nothing came, or it is over.
    pub fn oldest(&self, end: Option<Instant>) -> Option<Piece> {
        let mut inner = self.lock();
        loop {
            if let Some(piece) = inner.all.front() {
                return Some(piece.clone());
            }
            if inner.closed || end.is_some_and(|end| end <= Instant::now()) {
                return None;
            }
            inner = self.wait(inner, end);
        }
    }

    /// Removes the piece with that number, unless it had to go already.
    pub fn done(&self, number: u64) {
        let mut inner = self.lock();
        if inner.all.front().is_some_and(|(first, _)| *first == number)
            && let Some((_, piece)) = inner.all.pop_front()
        {
            inner.bytes -= piece.len();
        }
    }

    /// Waits until `end`; true if it is over before.
    pub fn over_before(&self, end: Instant) -> bool {
        let mut inner = self.lock();
        while !inner.ended {
            if end <= Instant::now() {
                return false;
            }
            inner = self.wait(inner, Some(end));
        }
        true
    }

    /// Asks who puts to end.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// Nothing more is put: said by who puts, behind the last piece.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// One wait, until something changes or the time is over.
    fn wait<'a>(
        &self,
        inner: MutexGuard<'a, Inner>,
        end: Option<Instant>,
    ) -> MutexGuard<'a, Inner> {
        let Some(end) = end else {
            return self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        };
        let left = end.saturating_duration_since(Instant::now());
        self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_oldest_goes_first_and_what_was_dropped_is_not_taken_twice() {
        let backlog = Backlog::new(10);
        assert_eq!((backlog.put(vec![1; 4]), backlog.put(vec![2; 4])), (0, 0));
        let (number, piece) = backlog.oldest(None).unwrap();
        assert_eq!((number, piece[0]), (0, 1));
        assert_eq!(backlog.put(vec![3; 4]), 1, "12 bytes do not fit");
        backlog.done(number);
        assert_eq!(backlog.oldest(None).unwrap().1[0], 2, "the second is still there");
        backlog.done(1);
        backlog.done(2);
        assert!(backlog.oldest(Some(Instant::now())).is_none());
        backlog.end();
        assert!(
            backlog.oldest(Some(Instant::now())).is_none(),
            "who puts may still put a last one"
        );
        assert_eq!(backlog.put(vec![4]), 0);
        backlog.close();
        assert_eq!(backlog.oldest(None).unwrap().1[0], 4);
        backlog.done(3);
        assert!(backlog.oldest(None).is_none());
        assert!(backlog.over_before(Instant::now()));
    }

    proptest! {
        #[test]
        fn bytes_stay_below_the_limit_and_none_is_counted_twice(
            sizes in proptest::collection::vec(0usize..20, 0..100), take: u8,
        ) {
            let backlog = Backlog::new(40);
            let (mut gone, mut taken) = (0, 0);
            for (at, size) in sizes.iter().enumerate() {
                gone += backlog.put(vec![0; *size]);
                prop_assert!(backlog.lock().bytes <= 40);
                if at % 8 == usize::from(take % 8) && let Some((n, _)) = backlog.oldest(Some(Instant::now())) {
                    backlog.done(n);
                    taken += 1;
                }
            }
            let left = backlog.lock().all.len() as u64;
            prop_assert_eq!(gone + taken + left, sizes.len() as u64);
        }
    }
}
