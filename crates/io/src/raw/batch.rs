//! Frames that are made and not sent yet: headers here, payload where the stream keeps it.
//!
//! A frame that waits while its bytes are acknowledged (a repetition) may leave with other bytes in their place: the peer
//! has taken what is before the last acknowledgement, and looks at none of it again.

use super::RawStream;
use super::frame::Head;
use crate::frames::{BATCH, NOTE, PARTS};

/// What follows the headers.
#[derive(Debug, Clone, Default)]
pub(super) enum Body {
    /// Nothing.
    #[default]
    None,
    /// Bytes of a stream.
    Stream { at: usize, offset: u64, length: u32 },
    /// These.
    Own(Vec<u8>),
}

impl Body {
    pub fn len(&self) -> usize {
        match self {
            Body::None => 0,
            Body::Stream { length, .. } => *length as usize,
            Body::Own(bytes) => bytes.len(),
        }
    }
}

/// One frame.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    pub head: Head,
    pub body: Body,
}

impl Made {
    /// Its parts, with the note.
    pub fn parts<'a>(&'a self, streams: &'a [RawStream]) -> [&'a [u8]; PARTS] {
        let (first, second) = match &self.body {
            Body::None => (&[][..], &[][..]),
            Body::Own(bytes) => (&bytes[..], &[][..]),
            Body::Stream { at, offset, length } => {
                streams[*at].sender.memory().payload(*offset, *length)
            }
        };
        [self.head.bytes(), first, second]
    }

    /// The frame in one piece, with its note.
    pub fn flat(&self, streams: &[RawStream]) -> Vec<u8> {
        self.parts(streams).concat()
    }
}

/// Frames to be sent, from `unsent` to `made`.
#[derive(Debug)]
pub(super) struct FrameBatch {
    frames: Vec<Made>,
    made: usize,
    unsent: usize,
    bytes: usize,
}

impl FrameBatch {
    pub fn new() -> FrameBatch {
        FrameBatch { frames: vec![Made::default(); BATCH], made: 0, unsent: 0, bytes: 0 }
    }

    /// Nothing of the batch has left yet, and it has room.
    pub fn open(&self, most_bytes: usize) -> bool {
        self.unsent == 0 && self.made < BATCH && self.bytes < most_bytes
    }

    /// The middle of a batch that the interface did not take.
    pub fn begun(&self) -> bool {
        self.unsent > 0
    }

    pub fn waits(&self) -> bool {
        self.unsent < self.made
    }

    pub fn made(&self) -> usize {
        self.made
    }

    /// The place of the next frame.
    pub fn next(&mut self) -> &mut Made {
        if self.made == self.frames.len() {
            self.frames.push(Made::default());
        }
        &mut self.frames[self.made]
    }

    /// It is made.
    pub fn push(&mut self, bytes: usize) {
        self.made += 1;
        self.bytes += bytes;
    }

    pub fn waiting(&self) -> &[Made] {
        &self.frames[self.unsent..self.made]
    }

    /// The first `n` of those waiting are gone.
    pub fn sent(&mut self, n: usize) {
        self.unsent += n;
        if self.unsent >= self.made {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        (self.made, self.unsent, self.bytes) = (0, 0, 0);
    }

    /// Frames from `first` on go through `pass`, and what comes out of it takes their place.
    pub fn through(
        &mut self,
        first: usize,
        streams: &[RawStream],
        mut pass: impl FnMut(&[u8], &mut Vec<Vec<u8>>),
    ) {
        let mut out = vec![];
        let old = std::mem::replace(&mut self.made, first);
        for frame in &self.frames[first..old] {
            pass(&frame.flat(streams), &mut out);
        }
        for mut bytes in out {
            let frame = bytes.split_off(NOTE.min(bytes.len()));
            let length = frame.len();
            let place = self.next();
            place.head.note(&bytes);
            place.body = Body::Own(frame);
            self.push(length);
        }
    }
}
