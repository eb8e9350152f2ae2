//! A frame that passed the filter becomes datagrams in the batch, or is counted by the reason of its refusal.
//!
//! The payload is copied once: a batch may wait in a queue to another thread while the frame's memory goes back to the
//! kernel, and datagrams of equal length are contiguous as one train. Nothing is allocated, locked or read from a
//! clock. Refuses: see [`DatagramRefusal`], and trains that came unsegmented.

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;

use crate::dissect::datagram::{DatagramRefusal, Judgement, destination, find};
use crate::dissect::judged::{Judged, Lines};
use crate::dissect::pack::Packer;

/// What is accepted, and what is recorded of it.
#[derive(Debug)]
pub(crate) struct Intake {
    /// UDP destination port.
    pub port: u16,
    /// Checksums are verified.
    pub verify: bool,
    /// Longest frame; a longer one is a train that came uncut.
    pub longest: usize,
    /// Batches carry receive times.
    pub timestamps: bool,
    /// Trains have their destination address.
    pub destinations: bool,
    /// Most datagrams a call.
    pub most: usize,
}

/// One frame.
pub(crate) struct Frame<'a> {
    /// Its bytes, or the first piece of them, which holds the headers.
    pub head: &'a [u8],
    /// Bytes on the wire.
    pub len: usize,
    /// Bytes of it that are there.
    pub held: usize,
    /// Bytes of each datagram of a train.
    pub stride: Option<usize>,
    /// The sender is on this host, and its checksum was never completed.
    pub partial: bool,
    /// Receive time, ns since 1970, or 0.
    pub time_ns: i64,
}

/// One call's work.
pub(crate) struct Taking<'a> {
    intake: &'a Intake,
    packer: Packer<'a>,
    judged: Judged,
    /// Frames seen.
    pub seen: u64,
    /// Trains among them that came uncut.
    pub uncut: u64,
}

impl Intake {
    /// Begins a call on a cleared batch. `join`: equal datagrams become trains.
    pub fn begin<'a>(&'a self, batch: &'a mut Batch, join: bool) -> Taking<'a> {
        let (packer, judged) = (Packer::new(batch, join), Judged::default());
        Taking { intake: self, packer, judged, seen: 0, uncut: 0 }
    }
}

impl Taking<'_> {
    /// True while the call may take more.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.seen < self.intake.most as u64
    }

    /// Takes a frame; `copy` fills memory with its bytes from a place on. False: the batch is full, and the frame stays.
    #[inline]
    pub fn take(&mut self, frame: &Frame<'_>, copy: impl FnOnce(usize, &mut [u8])) -> bool {
        match find(frame.head, frame.len, self.intake.port) {
            Ok(d) if d.range().end > frame.held => self.judged.refuse(DatagramRefusal::Cut),
            Ok(_) if frame.len > self.intake.longest => self.uncut += 1,
            Ok(d) => {
                if !self.packer.fits(d.len) {
                    return false;
                }
                copy(d.start, self.packer.place(d.len));
                let judgement = match (frame.partial, self.intake.verify) {
                    (true, _) => Judgement::Partial,
                    (false, true) => d.judge(self.packer.place(d.len)),
                    (false, false) => Judgement::Good,
                };
                if self.intake.destinations {
                    let to = destination(frame.head, self.intake.port);
                    self.packer.sent_to(to.unwrap_or(Origin::NONE));
                }
                let stride = frame.stride.filter(|s| *s < d.len);
                let count = stride.map_or(1, |s| d.len.div_ceil(s)) as u64;
                match stride {
                    _ if !self.judged.delivers(judgement, count) => {}
                    Some(s) => self.packer.keep_train(d.len, s, d.origin, frame.time_ns),
                    None => self.packer.keep(d.len, d.origin, frame.time_ns),
                }
            }
            Err(refusal) => self.judged.refuse(refusal),
        }
        self.seen += 1;
        true
    }

    /// Ends the call and writes its counts.
    pub fn end(self, sheet: &Sheet, lines: &Lines) {
        let (accepted, bytes) = self.packer.finish();
        if self.seen > 0 {
            self.judged.add(sheet, lines, accepted, bytes);
        }
    }
}
