//! Which stream a source is on, and what a stream has of its source.
//!
//! A source has one open stream. A second one is refused while the first is open; when the first has hung up, the second waits until the
//! last byte of the first has been read, and then takes its place. Packets of a source without streams (datagrams, captures) are
//! one stream that nobody can refuse, with any number of sources.

use std::collections::VecDeque;
use std::sync::Arc;

use fullcount_core::source::{StreamCredit, StreamPhase};
use fullcount_core::time::Nanos;

use super::assembly::Assembly;
use super::merge::EventFragment;

/// Ids have 12 bits.
const IDS: usize = 1 << 12;

/// A source on a stream.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its id.
    pub id: u16,
    /// Its place among the sources.
    pub at: usize,
    pub assembly: Assembly,
    /// Fragments that wait until an earlier stream of the source has been read; `None`: it is the source's stream.
    pub stash: Option<VecDeque<EventFragment>>,
}

/// A stream.
#[derive(Debug, Default)]
pub(super) struct UnitStream {
    /// `None`: it is not governed.
    pub credit: Option<Arc<StreamCredit>>,
    pub slots: Vec<Slot>,
    /// The slot that was used last.
    pub recent: usize,
    /// Bytes of its blocks so far.
    pub handed: u64,
    pub paused: bool,
    /// When it brought something last, on the decoder's clock.
    pub heard: Option<Nanos>,
    /// When it was paused no longer, on the decoder's clock.
    pub resumed: Option<Nanos>,
    pub refused: Option<Refusal>,
}

impl UnitStream {
    pub fn of(credit: Option<Arc<StreamCredit>>) -> UnitStream {
        UnitStream { credit, ..UnitStream::default() }
    }

    /// The slot of a source.
    #[inline]
    pub fn find(&mut self, id: u16) -> Option<usize> {
        if self.slots.get(self.recent).is_some_and(|slot| slot.id == id) {
            return Some(self.recent);
        }
        self.recent = self.slots.iter().position(|slot| slot.id == id)?;
        Some(self.recent)
    }

    /// True once all that was read of it has come here and nothing follows.
    pub fn is_over(&self) -> bool {
        let over = |credit: &Arc<StreamCredit>| {
            credit.phase() == StreamPhase::Closed && self.handed >= credit.total()
        };
        self.credit.as_ref().is_some_and(over)
    }

    /// True unless its peer has hung up.
    pub fn is_open(&self) -> bool {
        self.credit.as_ref().is_none_or(|credit| credit.phase() == StreamPhase::Open)
    }
}

/// Why a stream gets no source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nobody configured the id.
    Unknown,
    /// Another stream has it, or this stream has another one.
    Doubled,
}

impl Refusal {
    /// In words. `alone`: the stream has no other source.
    pub fn told(self, id: u16, alone: bool) -> String {
        match self {
            Refusal::Unknown => format!("source {id} is not in detector.sources"),
            Refusal::Doubled if alone => format!("source {id} has another open stream"),
            Refusal::Doubled => format!("source {id} comes on the stream of another source"),
        }
    }
}

/// The place of each source.
#[derive(Debug)]
pub(super) struct Owners {
    /// By id: place among the sources.
    places: Box<[Option<u16>]>,
    /// By place: stream, and the one that waits to take its place.
    pub streams: Vec<(Option<usize>, Option<usize>)>,
}

impl Owners {
    pub fn new(ids: &[u16]) -> Owners {
        let mut places = vec![None; IDS].into_boxed_slice();
        for (at, &id) in (0..).zip(ids) {
            places[usize::from(id)] = Some(at);
        }
        Owners { places, streams: vec![(None, None); ids.len()] }
    }

    /// The place of an id.
    pub fn place(&self, id: u16) -> Option<usize> {
        self.places.get(usize::from(id)).copied().flatten().map(usize::from)
    }

    /// Gives the source at this place to a stream; true: it has to wait for the earlier one.
    ///
    /// # Errors
    /// Another stream has it; `open` tells of a stream whether it is open.
    pub fn claim(
        &mut self,
        at: usize,
        stream: usize,
        open: impl Fn(usize) -> bool,
    ) -> Result<bool, Refusal> {
        match &mut self.streams[at] {
            (owner @ None, _) => {
                *owner = Some(stream);
                Ok(false)
            }
            (Some(owner), heir @ None) if !open(*owner) => {
                *heir = Some(stream);
                Ok(true)
            }
            _ => Err(Refusal::Doubled),
        }
    }

    /// A stream has left this place. The one that waited takes it, and is returned.
    pub fn leave(&mut self, at: usize, stream: usize) -> Option<usize> {
        let (owner, heir) = &mut self.streams[at];
        if *heir == Some(stream) {
            *heir = None;
        }
        if *owner != Some(stream) {
            return None;
        }
        *owner = heir.take();
        *owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_one_open_stream_and_one_that_waits() {
        let mut owners = Owners::new(&[7, 9]);
        assert_eq!((owners.place(9), owners.place(8), owners.place(4095)), (Some(1), None, None));
        assert_eq!(owners.claim(1, 3, |_| true), Ok(false));
        assert_eq!(owners.claim(1, 4, |_| true), Err(Refusal::Doubled));
        assert_eq!(owners.claim(1, 4, |_| false), Ok(true));
        assert_eq!(owners.claim(1, 5, |_| false), Err(Refusal::Doubled));
        assert_eq!(owners.leave(1, 3), Some(4));
        assert_eq!(owners.leave(1, 4), None);
        assert_eq!(owners.claim(1, 5, |_| true), Ok(false));
    }
}
