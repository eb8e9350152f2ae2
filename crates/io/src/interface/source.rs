//! The [`Source`] around an engine's rings: batches, waiting, spinning and napping, sampling, timestamps, the interface's end.
//!
//! Nothing is allocated, locked or read from a clock per packet; counters are written once per call. Ends if the
//! interface is removed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::{Info, Sheet};
use socket2::Socket;

use super::intake::Intake;
use crate::source::{Received, Source, SourceError};
use crate::sys::interface::{Awake, Waiter};
use crate::{dissect, sys};

/// Payload bytes of a batch: a quarter of a usual second-level cache (1 MiB), 28 of the largest
/// frames of a 9000-byte MTU.
const BATCH_BYTES: usize = 256 << 10;
/// Receive calls between two looks at the kernel's counts (system calls).
const SAMPLE_EVERY: u32 = 256;
/// Polls between two clock reads while spinning.
const POLLS_PER_CLOCK: u32 = 64;

/// Lines of the ledger that every engine writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines {
    /// Calls that timed out.
    pub idle: usize,
    /// System calls.
    pub system_calls: usize,
    /// What became of frames.
    pub frames: dissect::judged::Lines,
}

/// An engine's rings.
pub(crate) trait Frames: Send {
    /// Its counters.
    const OWN_LINES: Lines;
    /// All its counters.
    fn catalogue() -> Vec<Info>;
    /// Waits for its sockets, which stay open as long as `self`.
    fn waiter(&self) -> Waiter;
    /// Takes frames that wait in the rings, as many as the batch holds; returns their number.
    fn gather(&mut self, intake: &Intake, batch: &mut Batch, sheet: &Sheet) -> u64;
    /// Brings the kernel's counts up to date.
    fn sample(&mut self, sheet: &Sheet);
    /// True if the interface has gone.
    fn has_gone(&self) -> bool;
    /// Wakes drivers that have stopped.
    fn wake(&self, _: &Sheet) {}
    /// Does the card's work on this thread, if requested.
    fn drive(&self, _: &Sheet) {}
}

/// How the source waits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// Polls without sleep.
    pub spin: bool,
    /// Sleep in the middle of a stream; 0: never.
    pub nap: Duration,
}

/// Receives the datagrams of one port from an interface.
pub struct InterfaceSource<F> {
    endpoint: String,
    frames: F,
    waiter: Waiter,
    /// Holds the membership of a group.
    _member: Option<Socket>,
    local: SocketAddr,
    intake: Intake,
    waiting: Waiting,
    /// The last call brought data, so that more is likely soon.
    busy: bool,
    sheet: Arc<Sheet>,
    until_sample: u32,
    facts: Vec<String>,
}

impl<F> std::fmt::Debug for InterfaceSource<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterfaceSource").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// What an engine opened.
pub(crate) struct Opened<F> {
    pub endpoint: String,
    pub frames: F,
    pub member: Option<Socket>,
    pub address: Option<IpAddr>,
    pub intake: Intake,
    pub waiting: Waiting,
    /// For people, one a line.
    pub facts: Vec<String>,
}

#[expect(private_bounds, reason = "the rings are an engine's own business")]
impl<F: Frames> InterfaceSource<F> {
    pub(crate) fn new(opened: Opened<F>, times: &str, spinning: &str) -> InterfaceSource<F> {
        let Opened { endpoint, frames, member, address, intake, waiting, mut facts } = opened;
        facts.push(match intake.verify {
            true => "UDP checksums: verified (checksum=off leaves them)".into(),
            false => "UDP checksums: not looked at (checksum=off)".to_owned(),
        });
        if intake.timestamps {
            facts.push(format!("receive times: {times}"));
        }
        if !spinning.is_empty() {
            facts.push(format!("waiting: {spinning}"));
        }
        let ip = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        InterfaceSource {
            endpoint,
            waiter: frames.waiter(),
            frames,
            _member: member,
            local: SocketAddr::new(ip, intake.port),
            intake,
            waiting,
            busy: false,
            sheet: Sheet::new(F::catalogue()),
            until_sample: SAMPLE_EVERY,
            facts,
        }
    }

    /// Address and port that are received; an unspecified address means any.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Updates the kernel's counts. On idle it is called automatically.
    pub fn sample(&mut self) {
        self.until_sample = SAMPLE_EVERY;
        self.frames.sample(&self.sheet);
    }

    #[inline]
    fn gather(&mut self, batch: &mut Batch) -> u64 {
        self.frames.gather(&self.intake, batch, &self.sheet)
    }

    /// Polls until something comes or `wait` is over.
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> u64 {
        let began = Instant::now();
        loop {
            for _ in 0..POLLS_PER_CLOCK {
                self.frames.wake(&self.sheet);
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

    /// Looks, naps, sleeps, and looks again after each.
    fn look(&mut self, batch: &mut Batch, wait: Duration) -> Result<u64, SourceError> {
        self.frames.drive(&self.sheet);
        let seen = self.gather(batch);
        if seen > 0 || wait.is_zero() {
            return Ok(seen);
        }
        // In the middle of a stream: a little sleep rather than being woken by each arrival.
        if self.busy && !self.waiting.nap.is_zero() {
            self.frames.wake(&self.sheet);
            std::thread::sleep(self.waiting.nap.min(wait));
            let seen = self.gather(batch);
            if seen > 0 {
                return Ok(seen);
            }
        }
        self.frames.wake(&self.sheet);
        self.sheet.add(F::OWN_LINES.system_calls, 1);
        match self.waiter.wait(wait).map_err(|e| self.failed("waiting", e.to_string()))? {
            Awake::Readable => Ok(self.gather(batch)),
            Awake::Broken | Awake::Nothing => Ok(0),
        }
    }

    fn failed(&self, what: &str, cause: String) -> SourceError {
        SourceError { endpoint: self.endpoint.clone(), what: what.into(), cause }
    }
}

impl<F: Frames> Source for InterfaceSource<F> {
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
        let seen = match self.waiting.spin {
            true => self.poll(batch, wait),
            false => self.look(batch, wait)?,
        };
        self.busy = seen > 0;
        if seen == 0 {
            self.sheet.add(F::OWN_LINES.idle, 1);
            self.sample();
            if self.frames.has_gone() {
                let cause = "the interface has gone; 'ip link' shows those that are there";
                return Err(self.failed("receiving", cause.into()));
            }
        }
        Ok(if batch.is_empty() { Received::Idle } else { Received::Data })
    }

    fn batch(&self) -> Batch {
        let most = self.intake.most;
        let mut batch = Batch::with_slots(most, BATCH_BYTES.div_ceil(most));
        sys::prefer_large_pages(batch.memory_mut());
        batch
    }

    fn lossless(&self) -> bool {
        false
    }

    fn for_capture(&mut self) -> Result<(), SourceError> {
        (self.intake.timestamps, self.intake.destinations) = (true, true);
        Ok(())
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        self.facts.clone()
    }
}
