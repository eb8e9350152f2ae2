//! The rings of all receive queues, read in turn: frames in one or several pieces become contiguous in the batch.

use std::os::fd::OwnedFd;
use std::time::Duration;

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Info, Sheet};

use super::filter::{FilterTally, TALLIES};
use super::open::{self, LINK_HEADERS, Link, Parts};
use super::rings::{Queue, Statistics};
use super::{Xdp, XdpError, XdpSource};
use crate::endpoint::XdpUrl;
use crate::interface::intake::{Frame, Intake};
use crate::interface::source::{Frames, Lines, Opened, Waiting};
use crate::sys::bpf::{self, XdpAttachMode};
use crate::sys::interface::Waiter;
use crate::wall::wall_ns;

/// Pieces that are fetched ahead: they were written by another core.
const AHEAD: u32 = 8;

/// The sockets on an interface's receive queues.
pub struct Queues {
    /// Dropped first: the filter goes before the sockets do.
    _link: Link,
    queues: Vec<Queue>,
    tallies: OwnedFd,
    busy_poll: bool,
    /// Queue that the next call begins with.
    turn: usize,
}

impl XdpSource {
    /// Opens sockets on the interface's queues and attaches the filter. `buffer`: packet memory a
    /// queue, bytes, where the URL does not say; `timestamps`: stamp each batch with the time of its
    /// receive call.
    ///
    /// # Errors
    /// [`XdpError`] with the endpoint and what to do.
    pub fn open(url: &XdpUrl, buffer: u64, timestamps: bool) -> Result<XdpSource, XdpError> {
        let parts = open::open(url, url.receive_buffer.unwrap_or(buffer))?;
        let Parts { link, queues, tallies, member, mode, interface, facts } = parts;
        let spinning = match (url.spin, url.own.busy_poll) {
            (true, true) => "polling the card without sleep",
            (true, false) => "polling the rings without sleep",
            (false, true) => "busy polling of the card",
            (false, false) => "",
        };
        let generic = mode == XdpAttachMode::Generic;
        let nap = if url.own.busy_poll { Duration::ZERO } else { url.own.nap };
        let busy_poll = url.own.busy_poll;
        let opened = Opened {
            endpoint: url.to_string(),
            frames: Queues { _link: link, queues, tallies, busy_poll, turn: 0 },
            member,
            address: url.address,
            intake: Intake {
                port: url.port,
                verify: url.verify,
                longest: if generic { interface.mtu + LINK_HEADERS } else { usize::MAX },
                timestamps,
                destinations: false,
                most: usize::from(url.batch),
            },
            waiting: Waiting { spin: url.spin, nap },
            facts,
        };
        Ok(XdpSource::new(opened, "of the receive call, not of each packet", spinning))
    }
}

impl Frames for Queues {
    const OWN_LINES: Lines = Xdp::OWN_LINES;

    fn catalogue() -> Vec<Info> {
        Xdp::catalogue()
    }

    fn waiter(&self) -> Waiter {
        Waiter::new(&self.queues)
    }

    fn gather(&mut self, intake: &Intake, batch: &mut Batch, sheet: &Sheet) -> u64 {
        let mut taking = intake.begin(batch, true);
        let (mut time_ns, mut peak) = (0, 0);
        for step in 0..self.queues.len() {
            let index = (self.turn + step) % self.queues.len();
            let queue = &mut self.queues[index];
            let waiting = queue.look();
            if waiting == 0 {
                continue;
            }
            peak = peak.max(waiting);
            if intake.timestamps && time_ns == 0 {
                time_ns = wall_ns();
            }
            (0..AHEAD).for_each(|i| queue.prefetch(i));
            let mut done = 0;
            while done < waiting && taking.goes_on() {
                queue.prefetch(done + AHEAD);
                let Some((pieces, len)) = extent(queue, done, waiting) else { break };
                let head = queue.piece(done).bytes;
                let (stride, partial) = (None, false);
                let frame = Frame { head, len, held: len, stride, partial, time_ns };
                if !taking.take(&frame, |start, to| copy(queue, done, start, to)) {
                    break;
                }
                done += pieces;
            }
            queue.release(done);
        }
        self.turn = (self.turn + 1) % self.queues.len();
        let (seen, uncut) = (taking.seen, taking.uncut);
        taking.end(sheet, &Self::OWN_LINES.frames);
        if seen > 0 {
            let highest = sheet.get(Xdp::WaitingPeak as usize).max(u64::from(peak));
            sheet.set(Xdp::WaitingPeak as usize, highest);
        }
        if uncut > 0 {
            sheet.add(Xdp::Uncut as usize, uncut);
        }
        seen
    }

    fn sample(&mut self, sheet: &Sheet) {
        let mut all = Statistics::default();
        for s in self.queues.iter().filter_map(|q| q.statistics().ok()) {
            all.dropped += s.dropped;
            all.ring_full += s.ring_full;
            all.fill_empty += s.fill_empty;
            all.invalid += s.invalid;
        }
        sheet.set(Xdp::Dropped as usize, all.dropped);
        sheet.set(Xdp::RingFull as usize, all.ring_full);
        sheet.set(Xdp::FillEmpty as usize, all.fill_empty);
        sheet.set(Xdp::Invalid as usize, all.invalid);
        sheet.set(Xdp::KernelDrops as usize, all.dropped + all.ring_full);
        if let Ok(tallies) = bpf::read_tallies::<TALLIES>(&self.tallies) {
            sheet.set(Xdp::Passed as usize, tallies[FilterTally::Passed as usize]);
            sheet.set(Xdp::FragmentsPassed as usize, tallies[FilterTally::Fragments as usize]);
            sheet.set(Xdp::OtherQueue as usize, tallies[FilterTally::OtherQueue as usize]);
        }
    }

    fn has_gone(&self) -> bool {
        self.queues.iter().any(Queue::has_gone)
    }

    /// With busy polling the drivers work on this thread.
    fn wake(&self, sheet: &Sheet) {
        let mut calls = 0;
        for queue in &self.queues {
            if self.busy_poll || queue.wants_wakeup() {
                queue.wake();
                calls += 1;
            }
        }
        if calls > 0 {
            sheet.add(Xdp::SystemCalls as usize, calls);
        }
    }

    fn drive(&self, sheet: &Sheet) {
        if self.busy_poll {
            self.wake(sheet);
        }
    }
}

/// Pieces and bytes of the frame that begins with piece `first`; `None` if its end is not there yet.
#[inline]
fn extent(queue: &Queue, first: u32, waiting: u32) -> Option<(u32, usize)> {
    let (mut pieces, mut total) = (1, 0);
    loop {
        let piece = queue.piece(first + pieces - 1);
        total += piece.bytes.len();
        if !piece.more {
            return Some((pieces, total));
        }
        pieces += 1;
        if first + pieces > waiting {
            return None;
        }
    }
}

/// Fills `to` with the frame's bytes from `start` on.
#[inline]
fn copy(queue: &Queue, first: u32, start: usize, to: &mut [u8]) {
    let (mut skip, mut filled, mut number) = (start, 0, first);
    while filled < to.len() {
        let piece = queue.piece(number).bytes;
        let part = piece.get(skip..).unwrap_or(&[]);
        let n = part.len().min(to.len() - filled);
        to[filled..filled + n].copy_from_slice(&part[..n]);
        skip = skip.saturating_sub(piece.len());
        filled += n;
        number += 1;
    }
}
