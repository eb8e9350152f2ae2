//! The receiver: frames from all queues' rings, one copy into the batch, joined to trains.
//!
//! The copy is what makes the rest simple: a batch may wait in a queue to another thread while its
//! chunks go back to the kernel, frames in several chunks become contiguous, and equal datagrams lie
//! side by side as one train. Nothing is allocated, locked or read from a clock per packet; counters
//! are written once per call. Refuses: see [`Refusal`], and trains that came uncut.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;

use super::filter::{TALLIES, Tally};
use super::open::{self, LINK_HEADERS, Link, Parts};
use super::rings::{Queue, Statistics};
use super::{Xdp, XdpError};
use crate::dissect::datagram::{Judgement, Refusal, destination, find};
use crate::dissect::judged::{Judged, Lines};
use crate::dissect::pack::Packer;
use crate::endpoint::XdpUrl;
use crate::source::{Received, Source, SourceError};
use crate::sys::bpf::{self, XdpMode};
use crate::sys::interface::{Awake, Waiter};

/// Payload bytes of a batch: a quarter of a usual second-level cache (1 MiB), 28 of the largest
/// frames of a 9000-byte MTU.
const BATCH_BYTES: usize = 256 << 10;
/// Receive calls between two looks at the kernel's counts (a call per queue and one for the filter).
const SAMPLE_EVERY: u32 = 256;
/// Polls between two clock reads while spinning.
const POLLS_PER_CLOCK: u32 = 64;
/// Pieces that are fetched ahead: they were written by another core.
const AHEAD: u32 = 8;

/// Receives the datagrams of one port from an interface.
pub struct XdpSource {
    endpoint: String,
    /// Dropped first: the filter goes before the sockets do.
    _link: Link,
    queues: Vec<Queue>,
    waiter: Waiter,
    tallies: OwnedFd,
    _member: Option<socket2::Socket>,
    local: SocketAddr,
    port: u16,
    verify: bool,
    /// Longest frame, where trains may come uncut.
    longest: Option<usize>,
    spin: bool,
    /// Sleep in the middle of a stream.
    nap: Duration,
    /// The last call brought data, so that more is likely soon.
    busy: bool,
    busy_poll: bool,
    timestamps: bool,
    /// Trains say where they were sent to.
    destinations: bool,
    /// Most datagrams a call.
    most: usize,
    /// Queue that the next call begins with.
    turn: usize,
    sheet: Arc<Sheet>,
    until_sample: u32,
    facts: Vec<String>,
}

impl std::fmt::Debug for XdpSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XdpSource").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

const LINES: Lines = Lines {
    calls: Xdp::Calls as usize,
    packets: Xdp::Packets as usize,
    accepted: Xdp::Accepted as usize,
    bytes: Xdp::Bytes as usize,
    partial: Xdp::Partial as usize,
    absent: Xdp::Absent as usize,
    refused: [line(0), line(1), line(2), line(3), line(4)],
};

const fn line(refusal: usize) -> usize {
    match Refusal::ALL[refusal] {
        Refusal::Cut => Xdp::Truncated as usize,
        Refusal::Length => Xdp::Lengths as usize,
        Refusal::NotOurs => Xdp::NotOurs as usize,
        Refusal::Fragment => Xdp::Fragment as usize,
        Refusal::Checksum => Xdp::Checksum as usize,
    }
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
        let Parts { link, queues, tallies, member, mode, interface, mut facts } = parts;
        facts.push(match url.verify {
            true => "UDP checksums: verified (checksum=off leaves them)".into(),
            false => "UDP checksums: not looked at (checksum=off)".to_owned(),
        });
        if timestamps {
            facts.push("receive times: of the receive call, not of each packet".into());
        }
        match (url.spin, url.busy_poll) {
            (true, true) => facts.push("waiting: polling the card without sleep".into()),
            (true, false) => facts.push("waiting: polling the rings without sleep".into()),
            (false, true) => facts.push("waiting: busy polling of the card".into()),
            (false, false) => {}
        }
        let ip = url.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Ok(XdpSource {
            endpoint: url.to_string(),
            waiter: Waiter::new(&queues),
            _link: link,
            queues,
            tallies,
            _member: member,
            local: SocketAddr::new(ip, url.port),
            port: url.port,
            verify: url.verify,
            longest: (mode == XdpMode::Generic).then_some(interface.mtu + LINK_HEADERS),
            spin: url.spin,
            nap: url.nap,
            busy: false,
            busy_poll: url.busy_poll,
            timestamps,
            destinations: false,
            most: usize::from(url.batch),
            turn: 0,
            sheet: Sheet::new(Xdp::catalogue()),
            until_sample: SAMPLE_EVERY,
            facts,
        })
    }

    /// Address and port that are received; an unspecified address stands for any.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Brings the kernel's counts up to date. Called on idle by itself.
    pub fn sample(&mut self) {
        self.until_sample = SAMPLE_EVERY;
        let mut all = Statistics::default();
        for s in self.queues.iter().filter_map(|q| q.statistics().ok()) {
            all.dropped += s.dropped;
            all.ring_full += s.ring_full;
            all.fill_empty += s.fill_empty;
            all.invalid += s.invalid;
        }
        let s = &*self.sheet;
        s.set(Xdp::Dropped as usize, all.dropped);
        s.set(Xdp::RingFull as usize, all.ring_full);
        s.set(Xdp::FillEmpty as usize, all.fill_empty);
        s.set(Xdp::Invalid as usize, all.invalid);
        s.set(Xdp::KernelDrops as usize, all.dropped + all.ring_full);
        if let Ok(tallies) = bpf::read_tallies::<TALLIES>(&self.tallies) {
            s.set(Xdp::Passed as usize, tallies[Tally::Passed as usize]);
            s.set(Xdp::FragmentsPassed as usize, tallies[Tally::Fragments as usize]);
            s.set(Xdp::OtherQueue as usize, tallies[Tally::OtherQueue as usize]);
        }
    }

    /// Takes what waits in the rings, as much as the batch holds; the datagrams seen.
    fn gather(&mut self, batch: &mut Batch) -> u64 {
        let mut judged = Judged::default();
        let (mut seen, mut uncut) = (0, 0);
        let mut packer = Packer::new(batch, true);
        let (mut time, mut peak) = (0, 0);
        for step in 0..self.queues.len() {
            let index = (self.turn + step) % self.queues.len();
            let queue = &mut self.queues[index];
            let waiting = queue.look();
            if waiting == 0 {
                continue;
            }
            peak = peak.max(waiting);
            if self.timestamps && time == 0 {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                time = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
            }
            (0..AHEAD).for_each(|i| queue.prefetch(i));
            let mut done = 0;
            while done < waiting && seen < self.most as u64 {
                queue.prefetch(done + AHEAD);
                let Some((pieces, total)) = frame(queue, done, waiting) else { break };
                match find(queue.piece(done).bytes, total, self.port) {
                    Ok(_) if self.longest.is_some_and(|longest| total > longest) => {
                        uncut += 1;
                    }
                    Ok(d) => {
                        if !packer.fits(d.len) {
                            break;
                        }
                        copy(queue, done, d.start, packer.place(d.len));
                        let judgement = match self.verify {
                            true => d.judge(packer.place(d.len)),
                            false => Judgement::Good,
                        };
                        if self.destinations {
                            let to = destination(queue.piece(done).bytes, self.port);
                            packer.sent_to(to.unwrap_or(Origin::NONE));
                        }
                        if judged.delivers(judgement, 1) {
                            packer.keep(d.len, d.origin, time);
                        }
                    }
                    Err(refusal) => judged.refuse(refusal),
                }
                seen += 1;
                done += pieces;
            }
            queue.release(done);
        }
        self.turn = (self.turn + 1) % self.queues.len();
        let (accepted, bytes) = packer.finish();
        if seen > 0 {
            judged.add(&self.sheet, &LINES, accepted, bytes);
            let highest = self.sheet.get(Xdp::WaitingPeak as usize).max(u64::from(peak));
            self.sheet.set(Xdp::WaitingPeak as usize, highest);
        }
        if uncut > 0 {
            self.sheet.add(Xdp::Uncut as usize, uncut);
        }
        seen
    }

    /// Lets drivers that have stopped go on; with busy polling they work on this thread.
    fn wake(&self) {
        let mut calls = 0;
        for queue in &self.queues {
            if self.busy_poll || queue.wants_wakeup() {
                queue.wake();
                calls += 1;
            }
        }
        if calls > 0 {
            self.sheet.add(Xdp::SystemCalls as usize, calls);
        }
    }

    /// In the middle of a stream sleeps a little and looks again, rather than be woken by each arrival.
    fn nap(&mut self, batch: &mut Batch, wait: Duration) -> u64 {
        if !self.busy || self.busy_poll || self.nap.is_zero() {
            return 0;
        }
        self.wake();
        std::thread::sleep(self.nap.min(wait));
        self.gather(batch)
    }

    /// Polls until something comes or `wait` is over.
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> u64 {
        let began = Instant::now();
        loop {
            for _ in 0..POLLS_PER_CLOCK {
                self.wake();
                let seen = self.gather(batch);
                if seen > 0 {
                    return seen;
                }
                std::hint::spin_loop();
            }
            if began.elapsed() >= wait {
                return 0;
            }
        }
    }

    fn failed(&self, what: &str, cause: String) -> SourceError {
        SourceError { endpoint: self.endpoint.clone(), what: what.into(), cause }
    }
}

/// Pieces and bytes of the frame that begins with piece `first`; `None` if its end is not there yet.
#[inline]
fn frame(queue: &Queue, first: u32, waiting: u32) -> Option<(u32, usize)> {
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

impl Source for XdpSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if batch.memory_mut().len() < BATCH_BYTES {
            // A batch of another source; happens once, if at all.
            *batch = self.batch();
        }
        self.until_sample -= 1;
        if self.until_sample == 0 {
            self.sample();
        }
        let seen = if self.spin {
            self.poll(batch, wait)
        } else {
            if self.busy_poll {
                self.wake();
            }
            match self.gather(batch) {
                0 if wait.is_zero() => 0,
                0 => match self.nap(batch, wait) {
                    0 => {
                        self.wake();
                        self.sheet.add(Xdp::SystemCalls as usize, 1);
                        let awake = self.waiter.wait(wait);
                        match awake.map_err(|e| self.failed("waiting", e.to_string()))? {
                            Awake::Readable => self.gather(batch),
                            Awake::Broken | Awake::Nothing => 0,
                        }
                    }
                    seen => seen,
                },
                seen => seen,
            }
        };
        self.busy = seen > 0;
        if seen == 0 {
            self.sheet.add(Xdp::Idle as usize, 1);
            self.sample();
            if self.queues.iter().any(Queue::has_gone) {
                let cause = "the interface has gone; 'ip link' shows those that are there";
                return Err(self.failed("receiving", cause.into()));
            }
        }
        Ok(if batch.is_empty() { Received::Idle } else { Received::Data })
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::with_slots(self.most, BATCH_BYTES.div_ceil(self.most));
        crate::sys::prefer_large_pages(batch.memory_mut());
        batch
    }

    fn lossless(&self) -> bool {
        false
    }

    fn for_capture(&mut self) -> Result<(), SourceError> {
        (self.timestamps, self.destinations) = (true, true);
        Ok(())
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        self.facts.clone()
    }
}
