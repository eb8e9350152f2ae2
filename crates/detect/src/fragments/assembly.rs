//! Blocks of one source on one stream become fragments.
//!
//! A fragment whose blocks contradict each other is finished all the same and marked: one bad fragment must not stop its event.
//! Bytes are kept as pieces, none is copied. Bounded: a fragment has at most 2048 blocks of 4080 bytes.

use fullcount_core::progress::BatchNumber;
use fullcount_core::records::RecordPiece;

use super::block::{FragmentBlock, HEADER, MOST};

/// Longest fragment, bytes.
pub(super) const MOST_FRAGMENT: u64 = BLOCKS as u64 * (MOST - HEADER) as u64;
/// Most blocks of a fragment.
const BLOCKS: usize = 2048;

/// A fragment whose last block has come, or that came to another end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assembled {
    /// Event number of its blocks.
    pub event: u32,
    /// Its blocks contradict each other.
    pub broken: bool,
    pub len: u64,
    /// Its bytes; a block without payload is a piece too.
    pub first: RecordPiece,
    pub more: Vec<RecordPiece>,
}

impl Assembled {
    /// Its bytes, piece by piece.
    pub fn pieces(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        std::iter::once(&self.first).chain(&self.more).map(RecordPiece::bytes)
    }
}

/// What a block led to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct BlockOutcome {
    /// A fragment that was given up because this block begins another.
    pub before: Option<Assembled>,
    /// The fragment that this block ends.
    pub done: Option<Assembled>,
    /// The block does not follow the one before.
    pub out_of_order: bool,
}

/// The fragment under way.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    open: Option<(Assembled, u16)>,
    batch: BatchNumber,
}

impl Assembly {
    /// The batch that the fragment under way began in.
    pub fn oldest(&self) -> Option<BatchNumber> {
        self.open.as_ref().map(|_| self.batch)
    }

    /// True without a fragment under way: a block that is a whole one need not come here.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.open.is_none()
    }

    /// Memory of the fragment under way, bytes.
    pub fn room(&self) -> u64 {
        let room = |open: &Assembled| open.len + size_of_val(&open.more[..]) as u64;
        self.open.as_ref().map_or(0, |(open, _)| room(open))
    }

    /// The stream ended; true if a fragment was under way.
    pub fn give_up(&mut self) -> bool {
        self.open.take().is_some()
    }

    /// Takes a block.
    pub fn block(
        &mut self,
        block: &FragmentBlock,
        piece: RecordPiece,
        batch: BatchNumber,
    ) -> BlockOutcome {
        let len = block.len as u64;
        let mut outcome = BlockOutcome::default();
        let follows = |open: &(Assembled, u16)| {
            let fits = open.0.len + len <= MOST_FRAGMENT && open.0.more.len() + 1 < BLOCKS;
            !block.first && open.0.event == block.event && fits
        };
        match self.open.take() {
            Some(mut open) if follows(&open) => {
                outcome.out_of_order = block.number != open.1;
                open.0.broken |= outcome.out_of_order;
                open.0.len += len;
                open.0.more.push(piece);
                open.1 = block.number.wrapping_add(1);
                self.open = Some(open);
            }
            before => {
                outcome.out_of_order = before.is_some() || !block.first || block.number != 0;
                outcome.before = before.map(|(open, _)| Assembled { broken: true, ..open });
                let broken = !block.first || block.number != 0;
                let (event, more) = (block.event, Vec::new());
                let open = Assembled { event, broken, len, first: piece, more };
                self.open = Some((open, block.number.wrapping_add(1)));
                self.batch = batch;
            }
        }
        if block.last {
            outcome.done = self.open.take().map(|(open, _)| open);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u16, event: u32, edges: &str) -> FragmentBlock {
        let (first, last) = (edges.contains('f'), edges.contains('l'));
        FragmentBlock { number, first, last, source: 1, event, len: 8 }
    }

    fn piece() -> RecordPiece {
        RecordPiece { memory: vec![0; 8].into(), start: 0, len: 8 }
    }

    fn feed(assembly: &mut Assembly, block: FragmentBlock) -> BlockOutcome {
        assembly.block(&block, piece(), BatchNumber { pipeline: 0, batch: 3 })
    }

    #[test]
    fn blocks_in_order_are_one_fragment() {
        let mut assembly = Assembly::default();
        assert_eq!(feed(&mut assembly, block(0, 5, "f")), BlockOutcome::default());
        assert_eq!(assembly.oldest().map(|b| b.batch), Some(3));
        assert_eq!(feed(&mut assembly, block(1, 5, "")), BlockOutcome::default());
        let done = feed(&mut assembly, block(2, 5, "l")).done.unwrap();
        assert_eq!((done.event, done.broken, done.len, done.pieces().count()), (5, false, 24, 3));
        assert!(assembly.oldest().is_none());
    }

    #[test]
    fn blocks_that_contradict_each_other_mark_their_fragment() {
        let mut assembly = Assembly::default();
        feed(&mut assembly, block(0, 5, "f"));
        let outcome = feed(&mut assembly, block(2, 5, "l"));
        assert!(outcome.out_of_order && outcome.done.unwrap().broken);
        feed(&mut assembly, block(0, 6, "f"));
        let outcome = feed(&mut assembly, block(0, 7, "fl"));
        assert!(outcome.out_of_order && outcome.before.unwrap().broken);
        assert!(!outcome.done.unwrap().broken);
        let outcome = feed(&mut assembly, block(1, 8, "l"));
        assert!(outcome.out_of_order && outcome.done.unwrap().broken);
        feed(&mut assembly, block(0, 9, "f"));
        assert!(assembly.give_up() && !assembly.give_up());
    }

    #[test]
    fn an_endless_fragment_is_cut_at_its_longest() {
        let mut assembly = Assembly::default();
        let mut ended = 0;
        feed(&mut assembly, FragmentBlock { len: 4080, ..block(0, 5, "f") });
        for n in 1..5000u16 {
            let outcome =
                feed(&mut assembly, FragmentBlock { len: 4080, ..block(n % 2048, 5, "") });
            ended += usize::from(outcome.before.is_some_and(|f| f.len <= MOST_FRAGMENT));
        }
        assert_eq!(ended, 2);
    }

    #[test]
    fn an_endless_fragment_without_bytes_is_cut_too() {
        let mut assembly = Assembly::default();
        feed(&mut assembly, FragmentBlock { len: 0, ..block(0, 5, "f") });
        let mut most = 0;
        for n in 1..5000u16 {
            feed(&mut assembly, FragmentBlock { len: 0, ..block(n % 2048, 5, "") });
            most = most.max(assembly.room());
        }
        assert_eq!(most, (BLOCKS as u64 - 1) * size_of::<RecordPiece>() as u64);
    }
}
