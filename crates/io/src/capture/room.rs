//! Blocks that are allocated only when needed, on a separate thread.
//!
//! A disk that stalls for half a second needs a buffer that would waste memory at other times. So a tap begins with
//! [`FIRST`] bytes, and asks for more while it still has some: making a block (its memory is touched) costs a third of
//! a millisecond, in which 10 Gb/s fill less than half of one. Blocks are kept until the end of the run. Without memory
//! for them the system ends the process, as for any program.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::block::Block;

/// Bytes that are there from the start, all workers together: 100 ms of 10 Gb/s.
pub(super) const FIRST: u64 = 128 << 20;
/// Blocks that are asked for at a time.
const STEP: usize = 32;
/// Blocks that are made for one tap before the next one's turn: with eight workers that ask at once, the last has some after 10 ms.
const TURN: usize = 4;
/// A tap with fewer free blocks asks: in 16 MiB of 10 Gb/s some 40 are made.
const LOW: usize = 16;

/// A wish of the tap of this number.
struct Wish {
    tap: usize,
    blocks: usize,
}

/// The maker's end of a tap.
pub(super) type Made = rtrb::Producer<Block>;

/// The thread that makes blocks; it ends when all taps have gone.
pub(super) struct Maker {
    wishes: Sender<Wish>,
    taps: Sender<Made>,
    count: usize,
}

impl Maker {
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start() -> io::Result<Maker> {
        let (wishes, asked) = channel();
        let (taps, known) = channel();
        thread::Builder::new().name("capture-room".into()).spawn(move || serve(&asked, &known))?;
        Ok(Maker { wishes, taps, count: 0 })
    }

    /// Room for a tap that has `first` blocks and may have `most`.
    pub(super) fn room(&mut self, first: usize, most: usize) -> Room {
        let (made, fresh) = rtrb::RingBuffer::new(most.saturating_sub(first).max(1));
        // After the thread has ended, no blocks are added.
        let _ = self.taps.send(made);
        self.count += 1;
        let wishes = Some((self.wishes.clone(), self.count - 1));
        Room { wishes, fresh: Some(fresh), most, have: first, coming: 0, low: LOW.min(first / 2) }
    }
}

/// Until no tap can request more.
fn serve(wishes: &Receiver<Wish>, known: &Receiver<Made>) {
    let mut taps: Vec<Made> = Vec::new();
    let mut open = VecDeque::new();
    while let Some(Wish { tap, blocks }) = open.pop_front().or_else(|| wishes.recv().ok()) {
        taps.extend(known.try_iter());
        open.extend(wishes.try_iter());
        let Some(made) = taps.get_mut(tap) else { continue };
        let mut room = || !made.is_abandoned() && made.push(Block::new()).is_ok();
        if (0..blocks.min(TURN)).all(|_| room()) && blocks > TURN {
            open.push_back(Wish { tap, blocks: blocks - TURN });
        }
    }
}

/// The blocks that a tap has, and may have.
pub(super) struct Room {
    /// Where to ask, and as which tap; `None` if it has all that it may have.
    wishes: Option<(Sender<Wish>, usize)>,
    fresh: Option<rtrb::Consumer<Block>>,
    most: usize,
    have: usize,
    coming: usize,
    low: usize,
}

impl Room {
    /// Of a tap that has all its blocks from the start.
    pub(super) fn fixed(blocks: usize) -> Room {
        Room { wishes: None, fresh: None, most: blocks, have: blocks, coming: 0, low: 0 }
    }

    /// Blocks that there are.
    pub(super) fn have(&self) -> usize {
        self.have
    }

    /// Blocks that there may be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Adds new blocks to `free`, and requests more if there are few.
    #[inline]
    pub(super) fn refill(&mut self, free: &mut Vec<Block>) {
        if self.coming == 0 && (free.len() > self.low || self.have == self.most) {
            return;
        }
        self.refill_few(free);
    }

    #[cold]
    fn refill_few(&mut self, free: &mut Vec<Block>) {
        while let Some(block) = self.fresh.as_mut().and_then(|fresh| fresh.pop().ok()) {
            (self.have, self.coming) = (self.have + 1, self.coming - 1);
            free.push(block);
        }
        let blocks = STEP.min(self.most - self.have);
        if self.coming > 0 || free.len() > self.low || blocks == 0 {
            return;
        }
        if let Some((wishes, tap)) = &self.wishes
            && wishes.send(Wish { tap: *tap, blocks }).is_ok()
        {
            self.coming = blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all blocks, and waits for those in flight.
    fn drain(room: &mut Room, free: &mut Vec<Block>) -> usize {
        let mut taken = 0;
        loop {
            room.refill(free);
            taken += usize::from(free.pop().is_some());
            if free.is_empty() && room.coming == 0 && room.have == room.most {
                return taken;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_tap_gets_all_that_it_may_have_but_only_when_it_needs_it() {
        let mut maker = Maker::start().unwrap();
        let blocks = |n: usize| (0..n).map(|_| Block::new()).collect::<Vec<_>>();
        let (mut small, mut large) = (maker.room(4, 6), maker.room(40, 80));
        let (mut few, mut many) = (blocks(4), blocks(40));
        for _ in 0..10 {
            large.refill(&mut many);
        }
        assert_eq!((large.have(), large.coming, many.len()), (40, 0, 40), "enough are free");
        assert_eq!(drain(&mut large, &mut many), 80);
        assert_eq!((large.have(), large.most()), (80, 80));
        assert_eq!(drain(&mut small, &mut few), 6, "others get theirs");
        drop(maker);
        // No more than that are made.
        large.refill(&mut many);
        assert!(many.is_empty());
    }

    #[test]
    fn a_fixed_room_stays() {
        let mut free = Vec::new();
        let mut room = Room::fixed(8);
        room.refill(&mut free);
        assert_eq!((free.len(), room.have(), room.most()), (0, 8, 8));
    }
}
