//! The receiver: datagrams from a socket directly into a batch's slots, a whole GRO train each.
//!
//! A slot holds 64 KiB, so no train is truncated. With smaller slots (an option) a truncated one is counted and dropped
//! completely, and its number of packets follows from its true length and stride. Nothing is read from a clock,
//! allocated or locked per packet; counters are written once per call. Refuses truncated trains, and trains whose
//! stride the kernel could not report.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use fullcount_core::link::LinkTime;
use socket2::Socket;

use super::nap::Nap;
use super::open::{self, Buffer, Opening, UdpError};
use super::options::{ReceiveOptions, Way, choose};
use super::shard::{self, Steer};
use super::stamps;
use super::tally::{Receive, Tally};
use crate::endpoint::{Engine, UdpUrl};
use crate::quantity::size_text;
use crate::source::{Received, Source, SourceError};
use crate::sys::{self, ReceivedTrain};

/// Slots begin this many bytes further apart than they are long: 4 KiB + 64 B, so that the first
/// lines of all slots lie in different cache sets, and space for the byte that shows a truncated datagram.
const STAGGER: usize = 4096 + 64;

/// Receive calls between two looks at the socket's fill level (one `getsockopt`, 0.2 µs).
const SAMPLE_EVERY: u32 = 64;

/// Polls between two clock reads while spinning.
const POLLS_PER_CLOCK: u32 = 16;

/// What a receiver does while nothing comes; chosen when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Asks again and again.
    Spin,
    /// Sleeps on a timer in the middle of a stream.
    Nap(Nap),
    /// Waits in the socket.
    Block,
}

/// Receives datagrams of one endpoint.
pub struct UdpSource {
    endpoint: String,
    socket: Socket,
    local: SocketAddr,
    /// Destination of trains, unless the kernel reports it; `None` if it is not needed.
    to: Option<Origin>,
    way: Way,
    engine: Engine,
    slots: usize,
    slot: usize,
    pitch: usize,
    waiting: Waiting,
    /// The last call brought data, so that more is likely soon.
    busy: bool,
    /// It took all there was: the next one would find nothing.
    emptied: bool,
    sheet: Arc<Sheet>,
    /// Timeout that the socket has now; with io_uring, that of the last call.
    timeout: Option<Duration>,
    drops: u32,
    /// As reported by the newest train, which lags behind the socket's count on idle.
    queued_drops: u32,
    until_sample: u32,
    link: LinkTime,
    facts: Vec<String>,
}

impl std::fmt::Debug for UdpSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpSource").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl UdpSource {
    /// Opens the socket, joins the group, chooses the engine. Keys of the URL win over `options`.
    ///
    /// # Errors
    /// [`UdpError`] with the endpoint and what to do.
    pub fn open(url: &UdpUrl, options: &ReceiveOptions) -> Result<UdpSource, UdpError> {
        let opening = Opening::new(url)?;
        let socket = opening.socket()?;
        let ip = opening.addr.ip();
        let (engine, way, note) = choose(&opening, &socket, url, options)?;
        let asked = url.receive_buffer.unwrap_or(options.receive_buffer);
        let buffer = open::receive_buffer(&socket, asked)
            .map_err(|e| opening.system("set the receive buffer", e))?;
        if opening.addr.is_ipv6() && ip.is_unspecified() {
            // [::] receives IPv4 too, independent of the host's default.
            socket.set_only_v6(false).map_err(|e| opening.system("listen on IPv4 and IPv6", e))?;
        }
        if url.broadcast == Some(true) {
            socket.set_broadcast(true).map_err(|e| opening.system("allow broadcast", e))?;
        }
        if ip.is_multicast() {
            // Several receivers of one host may listen to a group; a unicast port stays exclusive.
            socket.set_reuse_address(true).map_err(|e| opening.system("share the group", e))?;
        } else {
            opening.tie(&socket)?;
        }
        if options.shared.is_some() {
            opening.share(&socket)?;
        }
        if options.timestamps && engine != Engine::Plain {
            sys::set_timestamps(socket.as_fd(), true)
                .map_err(|e| opening.system("ask for receive times", e))?;
            stamps::are_of_the_kernel();
        }
        // Only a place for the loss; without it the count on idle remains.
        let _ = sys::set_drop_reports(socket.as_fd(), true);
        opening.bind(&socket, opening.addr)?;
        if let Some((workers, steer)) = options.shared {
            // Each socket says it again: the last word counts, and all say the same.
            sys::set_steering(socket.as_fd(), &shard::program(workers, steer))
                .map_err(|e| opening.system("steer senders to workers", e))?;
        }
        if ip.is_multicast() {
            opening.join(&socket)?;
        }
        let local = socket.local_addr().ok().and_then(|a| a.as_socket()).unwrap_or(opening.addr);
        let slots = options.slots_for(engine);
        let slot = options.slot_bytes.clamp(1, 65_536);
        let mut source = UdpSource {
            endpoint: url.to_string(),
            socket,
            local,
            to: None,
            way,
            engine,
            slots,
            slot,
            pitch: (slot + STAGGER).next_multiple_of(64),
            waiting: match url.nap.map_or_else(|| Nap::usual(engine, buffer.got), Nap::fixed) {
                _ if url.spin => Waiting::Spin,
                None => Waiting::Block,
                Some(nap) => Waiting::Nap(nap),
            },
            busy: false,
            emptied: false,
            sheet: Sheet::new(Receive::catalogue()),
            timeout: None,
            drops: 0,
            queued_drops: 0,
            until_sample: SAMPLE_EVERY,
            link: LinkTime::default(),
            facts: Vec::new(),
        };
        source.facts = source.facts_of(buffer, options.timestamps, url, note);
        Ok(source)
    }

    /// This socket and more of the same port, `shared.0` in all, each with the senders that the steering gives it.
    ///
    /// Sockets that share a port from the start join those of another program without a word. This one was bound
    /// alone and lets others in only now, so that the port is never free between (`net/core/sock_reuseport.c`,
    /// `reuseport_add_sock`: the first of a group may say so after it is bound).
    ///
    /// # Errors
    /// [`UdpError`] as of [`UdpSource::open`]; a group or broadcast address, of which each socket would get a copy.
    pub fn share(
        self,
        url: &UdpUrl,
        options: &ReceiveOptions,
        shared: (u32, Steer),
    ) -> Result<Vec<UdpSource>, UdpError> {
        Opening::new(url)?.share(&self.socket)?;
        let at = UdpUrl { port: self.local.port(), ..url.clone() };
        let options = ReceiveOptions { shared: Some(shared), ..options.clone() };
        let mut all = vec![self];
        for _ in 1..shared.0 {
            all.push(UdpSource::open(&at, &options)?);
        }
        Ok(all)
    }

    fn facts_of(
        &self,
        buffer: Buffer,
        timestamps: bool,
        url: &UdpUrl,
        note: Option<String>,
    ) -> Vec<String> {
        let calls = match self.engine {
            Engine::Gro => "recvmmsg with UDP GRO",
            Engine::Mmsg => "recvmmsg",
            Engine::Uring if note.is_none() => "multishot recvmsg of io_uring with UDP GRO",
            Engine::Uring => "multishot recvmsg of io_uring",
            Engine::Plain | Engine::Auto => "one call per datagram",
        };
        let (slots, slot) = (self.slots, size_text(self.slot as u64));
        let mut facts = vec![
            format!("listening on {}", self.local),
            format!("engine {}: {calls}, up to {slots} slots of {slot}", self.engine.name()),
            buffer.describe("receive buffer", "net.core.rmem_max"),
        ];
        if self.engine == Engine::Uring {
            facts.push(
                "io_uring: single issuer, deferred task work; slots lent for each call".into(),
            );
        }
        facts.extend(note);
        if self.local.ip().is_multicast() {
            let on =
                url.interface.as_ref().map_or("the default interface".into(), |i| i.to_string());
            facts.push(format!("group {} joined on {on}", self.local.ip()));
        }
        if timestamps {
            facts.push(match self.engine {
                Engine::Plain => "receive times: not available with engine plain".into(),
                _ => "receive times: from the kernel".into(),
            });
        }
        facts.push(match self.waiting {
            Waiting::Spin => "waiting: polling without sleep".into(),
            Waiting::Nap(nap) => match nap.range() {
                (least, most) if least == most => {
                    format!("waiting: naps of {} µs while packets come", most.as_micros())
                }
                (least, most) => format!(
                    "waiting: naps of {} to {} µs while packets come",
                    least.as_micros(),
                    most.as_micros()
                ),
            },
            Waiting::Block => "waiting: woken by each arrival".into(),
        });
        facts
    }

    /// Address that the socket has, with the port that the system chose for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Engine in use.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Updates the kernel's drop count and the buffer's peak, even if no packet follows the last drop. On idle it is
    /// called automatically.
    pub fn sample(&mut self) {
        self.until_sample = SAMPLE_EVERY;
        if let Ok(m) = sys::socket_memory(self.socket.as_fd()) {
            self.drops_are(m.drops);
            let peak = Receive::BufferPeak as usize;
            self.sheet.set(peak, self.sheet.get(peak).max(u64::from(m.queued)));
        }
    }

    /// Counts are taken when a train is queued and when we ask, so an older one may come later.
    fn drops_are(&mut self, now: u32) {
        let more = now.wrapping_sub(self.drops) as i32;
        if more > 0 {
            self.drops = now;
            self.sheet.add(Receive::KernelDrops as usize, more as u64);
        }
    }

    fn failed(&self, what: &str, cause: &io::Error) -> SourceError {
        let (endpoint, what) = (self.endpoint.clone(), what.to_owned());
        SourceError { endpoint, what, cause: cause.to_string() }
    }

    /// One receive call; the number of trains that came, accepted or not.
    fn call(&mut self, batch: &mut Batch, block: bool) -> io::Result<usize> {
        let mut tally = Tally::behind(self.queued_drops);
        let (pitch, slot) = (self.pitch, self.slot);
        let (link, to) = (&mut self.link, self.to);
        let trains = match &mut self.way {
            Way::Ring(ring) => {
                self.sheet.add(Receive::SystemCalls as usize, 1);
                let memory = batch.memory_mut();
                let n = ring.receive(self.socket.as_fd(), memory, (pitch, slot), block)?;
                for i in 0..n {
                    let Some(m) = ring.message(i) else { break };
                    tally.take(&m, i * pitch, link, to, batch);
                }
                n
            }
            Way::Uring(ring) => {
                let wait = self.timeout.filter(|_| block).unwrap_or(Duration::ZERO);
                let before = (ring.calls, ring.exhausted, ring.completions_lost);
                let memory = batch.memory_mut();
                let came = ring.receive(self.socket.as_fd(), memory, (pitch, slot), wait);
                let s = &*self.sheet;
                s.add(Receive::SystemCalls as usize, ring.calls - before.0);
                s.add(Receive::Rearmed as usize, ring.exhausted - before.1);
                s.add(Receive::CompletionsLost as usize, ring.completions_lost - before.2);
                let n = came?;
                for i in 0..n {
                    let Some((start, m)) = ring.message(i) else { break };
                    tally.take(&m, start, link, to, batch);
                }
                n
            }
            Way::OneByOne => {
                let slots = self.slots.min(batch.memory_mut().len() / pitch);
                let mut calls = 0;
                for i in 0..slots {
                    calls += 1;
                    let start = i * pitch;
                    // One byte more than a slot: a datagram that reaches it was cut.
                    let place = &mut batch.memory_mut()[start..start + slot + 1];
                    let block = block && i == 0;
                    let (len, origin) = match sys::receive_one(&self.socket, place, block) {
                        Ok(one) => one,
                        Err(e) if i == 0 => {
                            self.sheet.add(Receive::SystemCalls as usize, calls);
                            return Err(e);
                        }
                        Err(_) => break,
                    };
                    let m = ReceivedTrain {
                        len,
                        origin,
                        truncated: len > slot,
                        ..ReceivedTrain::default()
                    };
                    tally.take(&m, start, link, to, batch);
                }
                self.sheet.add(Receive::SystemCalls as usize, calls);
                tally.packets as usize
            }
        };
        if let Some(now) = tally.drops {
            self.drops_are(now);
            self.queued_drops = tally.queued;
        }
        self.emptied = trains < self.slots && matches!(self.way, Way::Ring(_));
        if let Waiting::Nap(nap) = &mut self.waiting {
            nap.found(tally.bytes);
        }
        tally.write(&self.sheet);
        Ok(trains)
    }

    /// True for a wait that is shorter than the socket's own timeout, and exact.
    fn is_shorter(&self, wait: Duration) -> bool {
        let uring = matches!(self.way, Way::Uring(_));
        cfg!(target_os = "linux") && !uring && self.timeout.is_some_and(|usual| wait < usual)
    }

    /// Waits in the socket for at most `wait`.
    fn block(&mut self, batch: &mut Batch, wait: Duration) -> io::Result<usize> {
        if self.is_shorter(wait) {
            // The socket's own timeout counts ticks of the kernel, of 1 to 10 ms, and setting it takes a call as well.
            self.sheet.add(Receive::SystemCalls as usize, 1);
            sys::wait_readable(self.socket.as_fd(), wait)?;
            return self.call(batch, false);
        }
        if self.timeout != Some(wait) {
            if !matches!(self.way, Way::Uring(_)) {
                self.socket.set_read_timeout(Some(wait))?;
            }
            self.timeout = Some(wait);
        }
        self.call(batch, true)
    }

    /// In the middle of a stream looks first, naps and looks again; waits in the socket only then.
    fn nap(&mut self, batch: &mut Batch, wait: Duration) -> io::Result<usize> {
        let mut left = wait;
        let shorter = self.is_shorter(wait);
        if self.busy {
            for last in [false, true] {
                // A call that was not filled has just seen the socket empty.
                if last || !self.emptied {
                    match self.call(batch, false) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        other => return other,
                    }
                }
                if !last {
                    let slept = self.sleep(wait);
                    // The usual wait goes on for its whole time: another one would take another call.
                    left -= if shorter { slept } else { Duration::ZERO };
                }
            }
        }
        let outcome = match left.is_zero() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => self.block(batch, left),
        };
        self.busy = outcome.is_ok();
        outcome
    }

    /// Takes a nap of at most `wait`; how long it was to be.
    fn sleep(&mut self, wait: Duration) -> Duration {
        let Waiting::Nap(nap) = &mut self.waiting else { return Duration::ZERO };
        let nap = nap.next().min(wait);
        std::thread::sleep(nap);
        nap
    }

    /// Polls until something comes or `wait` is over.
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> io::Result<usize> {
        let mut began: Option<Instant> = None;
        let mut polls = 0u32;
        loop {
            match self.call(batch, false) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if polls.is_multiple_of(POLLS_PER_CLOCK) {
                let now = Instant::now();
                if now.duration_since(*began.get_or_insert(now)) >= wait {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
            }
            polls += 1;
            std::hint::spin_loop();
        }
    }
}

/// Errors that pass: what ICMP or the interface reported about an earlier moment.
fn passes(e: &io::Error) -> bool {
    use io::ErrorKind::*;
    let kinds = [ConnectionRefused, HostUnreachable, NetworkUnreachable, NetworkDown, OutOfMemory];
    kinds.contains(&e.kind()) || matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

impl Source for UdpSource {
    fn recv(&mut self, batch: &mut Batch, wait: Duration) -> Result<Received, SourceError> {
        batch.clear();
        if batch.memory_mut().len() < self.pitch {
            // A batch of another source (shared or without slots); happens once, if at all.
            *batch = self.batch();
        }
        let outcome = match self.waiting {
            _ if wait.is_zero() => self.call(batch, false),
            Waiting::Spin => self.poll(batch, wait),
            Waiting::Nap(_) => self.nap(batch, wait),
            Waiting::Block => self.block(batch, wait),
        };
        match outcome {
            Ok(_) => {
                self.until_sample -= 1;
                if self.until_sample == 0 {
                    self.sample();
                }
                // All trains of the call may have been refused.
                Ok(if batch.is_empty() { Received::Idle } else { Received::Data })
            }
            Err(e) => {
                use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
                match e.kind() {
                    WouldBlock | TimedOut => {
                        self.sheet.add(Receive::Idle as usize, 1);
                        self.sample();
                    }
                    Interrupted => {}
                    _ if passes(&e) => self.sheet.add(Receive::Errors as usize, 1),
                    _ => return Err(self.failed("receiving", &e)),
                }
                Ok(Received::Idle)
            }
        }
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::with_slots(self.slots, self.pitch);
        sys::prefer_large_pages(batch.memory_mut());
        batch
    }

    fn lossless(&self) -> bool {
        false
    }

    fn for_capture(&mut self) -> Result<(), SourceError> {
        self.to = Some(Origin::from(self.local));
        if self.engine == Engine::Plain {
            return Ok(());
        }
        sys::set_timestamps(self.socket.as_fd(), true)
            .map_err(|e| self.failed("asking for receive times", &e))?;
        stamps::are_of_the_kernel();
        if self.local.ip().is_unspecified() {
            // A group or a specific address is already the destination.
            sys::set_destinations(self.socket.as_fd(), self.local.is_ipv6(), true)
                .map_err(|e| self.failed("asking for destination addresses", &e))?;
        }
        Ok(())
    }

    fn buffer_percent(&self) -> Option<u32> {
        let m = sys::socket_memory(self.socket.as_fd()).ok()?;
        Some((u64::from(m.queued) * 100 / u64::from(m.limit.max(1))) as u32)
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        self.facts.clone()
    }
}
