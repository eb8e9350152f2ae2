//! A link whose wire is memory and whose time is told: tests and fuzzing hold the other end, byte for byte and to the nanosecond.

use std::collections::VecDeque;

use super::RawLink;
use super::port::{Port, SLOT, Taken};
use super::setup::{RawError, RawSetup};
use crate::frames::{BATCH, NOTE, PARTS};

/// Both directions.
#[derive(Debug, Default)]
pub(super) struct WireInMemory {
    coming: VecDeque<Vec<u8>>,
    /// Those of the last call.
    came: Vec<Vec<u8>>,
    gone: Vec<Vec<u8>>,
    /// Frames that it takes for now.
    room: usize,
}

impl WireInMemory {
    pub fn receive(&mut self) -> usize {
        self.came = self.coming.drain(..self.coming.len().min(BATCH)).collect();
        self.came.len()
    }

    pub fn copy(&self, i: usize, into: &mut Vec<u8>) -> bool {
        into.clear();
        let Some(frame) = self.came.get(i) else { return false };
        into.extend_from_slice(frame);
        (NOTE..SLOT).contains(&frame.len())
    }

    pub fn send<'a>(&mut self, frames: impl Iterator<Item = [&'a [u8]; PARTS]>) -> Taken {
        let before = self.gone.len();
        self.gone.extend(frames.take(self.room).map(|parts| parts.concat()));
        let taken = self.gone.len() - before;
        self.room -= taken;
        Ok(taken)
    }
}

impl RawLink {
    /// A link without an interface: frames come by [`RawLink::bring`], leave to [`RawLink::left`], and it is always
    /// [`RawLink::set_time`]'s time, first 0. The driver of the set-up says nothing.
    ///
    /// # Errors
    /// A fault that cannot be.
    pub fn in_memory(setup: RawSetup) -> Result<RawLink, RawError> {
        let wire = WireInMemory { room: usize::MAX, ..WireInMemory::default() };
        RawLink::on(Port::InMemory(wire), None, setup)
    }

    fn wire(&mut self) -> Option<&mut WireInMemory> {
        match &mut self.port {
            Port::InMemory(wire) => Some(wire),
            _ => None,
        }
    }

    /// A frame, with the kernel's note in front, is there for the next [`RawLink::turn`].
    pub fn bring(&mut self, noted: Vec<u8>) {
        if let Some(wire) = self.wire() {
            wire.coming.push_back(noted);
        }
    }

    /// Frames that have left since the last call, each with its note.
    pub fn left(&mut self) -> Vec<Vec<u8>> {
        self.wire().map(|wire| std::mem::take(&mut wire.gone)).unwrap_or_default()
    }

    /// So many frames more may leave; nothing has room after them.
    pub fn set_room(&mut self, frames: usize) {
        if let Some(wire) = self.wire() {
            wire.room = frames;
        }
    }

    /// It is so many ns since the link began. Of a link on an interface the system's clock decides.
    pub fn set_time(&mut self, ns: u64) {
        self.clock = ns;
    }
}
