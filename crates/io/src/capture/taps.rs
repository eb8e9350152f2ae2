//! The taps of all workers, as seen by the consuming thread.
//!
//! A round takes at most one block of each worker, so none starves; blocks go back when they have been
//! read. If no free block is left, the taps count.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use fullcount_core::batch::{Origin, Train};
use fullcount_core::ledger::{Info, Role, Sheet};

use super::block::{BLOCK_BYTES, Block};
use super::room::{FIRST, Maker, Room};
use super::tap::{Captured, Line, Tap};
use crate::source::{Source, SourceError};

/// Fewest blocks a worker: one being filled, one being read, two in between.
const LEAST_BLOCKS: usize = 4;

/// What an output of packets wants of its taps.
#[derive(Debug, Clone, Copy)]
pub struct TapOptions<'a> {
    /// Name of the output in counters: `capture` makes `sink.capture.packets`.
    pub output: &'static str,
    /// Where packets go, for messages.
    pub place: &'a str,
    /// Memory, bytes, all workers together; of more than 128 MiB the rest is taken when it is needed.
    pub buffer: u64,
    /// Workers.
    pub workers: usize,
    /// What is not taken is a loss of the run, and a source that can wait is made to.
    pub required: bool,
    /// Every n-th packet of each worker, beginning with its first; at least 1, which is all.
    pub every: u64,
}

/// The taking side of all taps.
pub struct Taps {
    output: &'static str,
    place: String,
    /// Blocks of a worker at the start, and at most.
    first: usize,
    blocks: usize,
    /// Makes those in between; `None` if there are none.
    maker: Option<Maker>,
    required: bool,
    every: u64,
    failed: Arc<AtomicBool>,
    lines: Vec<LineEnd>,
}

/// The taking side of a worker's ring.
pub(super) struct LineEnd {
    pub(super) name: String,
    full: rtrb::Consumer<Block>,
    free: rtrb::Producer<Block>,
    pub(super) sheet: Arc<Sheet>,
    /// All batches up to this one are in blocks that were handed over.
    given: Arc<AtomicU64>,
    /// One of these numbers, and how many of the blocks in front of it are still to be taken.
    next: Option<(u64, usize)>,
    /// All batches up to this one are safe.
    safe: Arc<AtomicU64>,
}

/// What a round brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// At least one block.
    Data,
    /// Nothing for now.
    Idle,
    /// Nothing, and all taps have gone.
    Over,
}

impl Taps {
    /// No taps yet.
    pub fn new(options: &TapOptions<'_>) -> Taps {
        let of_worker = |bytes: u64| {
            let blocks = usize::try_from(bytes).unwrap_or(usize::MAX) / BLOCK_BYTES;
            (blocks / options.workers.max(1)).max(LEAST_BLOCKS)
        };
        let (blocks, first) = (of_worker(options.buffer), of_worker(options.buffer.min(FIRST)));
        // Without that thread all blocks are made at the start.
        let maker = (first < blocks).then(|| Maker::start().ok()).flatten();
        let first = if maker.is_some() { first } else { blocks };
        Taps {
            output: options.output,
            place: options.place.to_owned(),
            first,
            blocks,
            maker,
            required: options.required,
            every: options.every.max(1),
            failed: Arc::default(),
            lines: Vec::with_capacity(options.workers),
        }
    }

    /// Wraps the source of one worker.
    ///
    /// # Errors
    /// The source cannot say when its packets came.
    pub fn tap(&mut self, mut source: Box<dyn Source>, name: &str) -> Result<Tap, SourceError> {
        source.for_capture()?;
        let (full, blocks) = rtrb::RingBuffer::new(self.blocks);
        let (mut free, freed) = rtrb::RingBuffer::new(self.blocks);
        // A source that waits needs no more to lose nothing.
        let room = match &mut self.maker {
            Some(maker) if !(self.required && source.lossless()) => {
                maker.room(self.first, self.blocks)
            }
            _ => Room::fixed(self.first),
        };
        for _ in 0..room.have() {
            drop(free.push(Block::new()));
        }
        let sheet = Sheet::new(lines(Captured::catalogue(), self.output, self.required));
        let name = name.to_owned();
        let (given, safe) = (Arc::<AtomicU64>::default(), Arc::default());
        let end_given = given.clone();
        let (end_sheet, next) = (sheet.clone(), None);
        self.lines.push(LineEnd {
            name,
            full: blocks,
            free,
            sheet: end_sheet,
            given: end_given,
            next,
            safe,
        });
        let (place, failed) = (self.place.clone(), self.failed.clone());
        let (required, every, output) = (self.required, self.every, self.output);
        let line =
            Line { full, free: freed, sheet, given, failed, output, place, required, room, every };
        Ok(Tap::new(source, line))
    }

    /// Up to which batch of a worker all is safe in this output; `None` if its losses do not count for the run.
    pub fn safe(&self, worker: usize) -> Option<Arc<AtomicU64>> {
        self.lines.get(worker).filter(|_| self.required).map(|line| line.safe.clone())
    }

    /// True if the answer is needed.
    pub fn are_followed(&self) -> bool {
        self.lines.iter().any(|line| Arc::strong_count(&line.safe) > 1)
    }

    /// All that was taken is safe. Told only while nothing was lost.
    pub fn safe_now(&mut self) {
        for line in &mut self.lines {
            if let Some((batch, _)) = line.next.take_if(|(_, blocks)| *blocks == 0) {
                line.safe.fetch_max(batch, Release);
            }
        }
    }

    /// All taps have gone, all that they gave was taken and is safe.
    pub fn all_safe(&mut self) {
        self.lines.iter().for_each(|line| {
            line.safe.fetch_max(line.given.load(Acquire), Release);
        });
    }

    /// From now on nothing is taken: taps count all as failed, and a source that can wait ends.
    pub fn fail(&self) {
        self.failed.store(true, Relaxed);
    }

    pub(super) fn workers(&self) -> &[LineEnd] {
        &self.lines
    }

    /// One round of blocks, with the number of their worker.
    pub(super) fn blocks(&mut self, mut take: impl FnMut(usize, &Block)) -> Turn {
        // Looked at before the rings: a worker puts nothing after it has gone.
        let over = self.lines.iter().all(|l| l.full.is_abandoned());
        let mut turn = if over { Turn::Over } else { Turn::Idle };
        for (at, line) in self.lines.iter_mut().enumerate() {
            // The number first: the blocks in front of it are in the ring then.
            let next = line.next.get_or_insert_with(|| {
                let given = line.given.load(Acquire);
                (given, line.full.slots())
            });
            let Ok(mut block) = line.full.pop() else { continue };
            next.1 = next.1.saturating_sub(1);
            turn = Turn::Data;
            take(at, &block);
            block.clear();
            drop(line.free.push(block));
        }
        turn
    }

    /// One round of trains, with their destinations.
    pub fn trains(&mut self, mut take: impl FnMut(Train<'_>, Origin)) -> Turn {
        self.blocks(|_, block| block.trains().for_each(|(train, to)| take(train, to)))
    }
}

/// Lines of an output of this name. What one lacks that is not required is no loss of the run.
pub fn lines(mut lines: Vec<Info>, output: &str, required: bool) -> Vec<Info> {
    for line in &mut lines {
        let renamed = |text: &str| text.replacen("capture", output, 1).into();
        (line.name, line.hop) = (renamed(&line.name), renamed(&line.hop));
        line.todo = line.todo.replace("output.capture.", &format!("output.{output}.")).into();
        if !required && matches!(line.role, Role::Dropped(_)) {
            line.role = Role::Rejected;
        }
    }
    lines
}
