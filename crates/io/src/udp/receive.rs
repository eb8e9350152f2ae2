//! The receiver: datagrams from a socket straight into a batch's slots, a whole GRO train each.
//!
//! A slot holds 64 KiB, so no train is cut; one that is all the same (smaller slots by option) is
//! counted and dropped whole, and its packets are known from its true length and stride. Nothing is
//! read from a clock, allocated or locked per packet; counters are written once per call. Refuses:
//! trains that were cut, and trains whose stride the kernel could not hand over.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Edge, Origin, TrainMeta};
use fullcount_core::ledger::Sheet;
use fullcount_core::link::LinkTime;
use socket2::Socket;

use super::nap::Nap;
use super::open::{self, Buffer, Opening, UdpError};
use super::shard::{self, Steer};
use crate::endpoint::{Engine, UdpUrl};
use crate::quantity::size_text;
use crate::source::{Received, Source, SourceError};
use crate::sys::{self, Message, ReceiveRing, UringRing};

fullcount_core::counters! {
    /// What a UDP receiver counts.
    pub enum Receive {
        Packets "receive.packets" Packets Sum "receive" In
            "datagrams received" "";
        Accepted "receive.accepted" Packets Sum "receive" Accepted
            "datagrams handed on to the decoder" "";
        Truncated "receive.truncated" Packets Sum "receive" Rejected
            "datagrams in trains that did not fit their slot and were dropped"
            "receive into slots of 64 KiB, the default";
        UnknownStride "receive.unknown_stride" Packets Sum "receive" Rejected
            "trains dropped because the kernel did not say where their datagrams end"
            "receive with engine=mmsg and report the kernel's version";
        Bytes "receive.bytes" Bytes Sum "receive" Note
            "UDP payload bytes received" "";
        WireBytes "receive.wire_bytes" Bytes Sum "receive" Note
            "link time of these datagrams in bytes: Ethernet frames with preamble and gap, MTU 1500, or 9000 for those that need more" "";
        KernelDrops "receive.kernel_drops" Times Sum "receive" Note
            "times that the socket's buffer was full (a train of many datagrams counts once: the amount lost is in packets.lost)"
            "raise receive_buffer and net.core.rmem_max, pin the receiver to a core of its own, or lower the rate";
        Largest "receive.largest" Bytes Max "receive" Note
            "payload of the largest datagram received" "";
        BufferPeak "receive.buffer_peak" Bytes Max "receive" Note
            "most bytes seen waiting in the socket, with the kernel's overhead (sampled)" "";
        Idle "thread.input_idle" Times Sum "receive" Note
            "receive calls that timed out" "";
        Calls "receive.calls" Times Sum "receive" Note
            "receive calls that brought at least one datagram" "";
        SystemCalls "receive.system_calls" Times Sum "receive" Note
            "receive system calls, those that brought nothing included" "";
        Rearmed "receive.uring_rearmed" Times Sum "receive" Note
            "times that a call of engine=uring filled all its slots, so that its request was made again" "";
        CompletionsLost "receive.completions_lost" Times Sum "receive" Note
            "trains that io_uring took from the socket and could not hand over"
            "receive with engine=gro and report the kernel's version";
        Errors "receive.errors" Times Sum "receive" Note
            "receive calls that the system answered with a passing error"
            "look at the interface: ip -s link, dmesg";
    }
}

/// How to receive, where the URL does not say.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// Receive buffer in bytes, 4 KiB..=1 GiB. Default 64 MiB: 50 ms at 10 Gb/s.
    pub receive_buffer: u64,
    /// Ask for the kernel's receive time; costs the kernel a clock read per packet. Default off.
    pub timestamps: bool,
    /// Share the port among so many sockets of this process, and what keeps packets together on one of
    /// them. Default: alone.
    pub shared: Option<(u32, Steer)>,
    /// Most trains a call, 1..=1024. Default by engine, see [`ReceiveOptions::slots_for`].
    pub slots: Option<usize>,
    /// Bytes a slot, 1..=65536. Default 65,536: the largest train is 65,535 B with its headers.
    pub slot_bytes: usize,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        ReceiveOptions {
            receive_buffer: 64 << 20,
            timestamps: false,
            shared: None,
            slots: None,
            slot_bytes: 65_536,
        }
    }
}

impl ReceiveOptions {
    /// Most trains a call for an engine. Measured flat out on loopback at 64 B and 8972 B (Linux
    /// 6.18, EPYC 9004 guest): with GRO 4, 16 and 64 slots are equal within 2 % (6.5 Gb/s on a busy
    /// host), as a call brings 2 to 6 trains; 16 slots of 64 KiB are the core's level 2 cache. One
    /// datagram a slot: 4, 16, 64 and 256 slots gave 227, 227, 235 and 244 thousand packets/s.
    pub fn slots_for(&self, engine: Engine) -> usize {
        let default = match engine {
            Engine::Plain | Engine::Mmsg | Engine::Auto => 64,
            Engine::Gro | Engine::Uring => 16,
        };
        self.slots.unwrap_or(default).clamp(1, 1024)
    }
}

/// Slots begin this many bytes further apart than they are long: 4 KiB + 64 B, so that the first
/// lines of all slots lie in different cache sets, and room for the byte that tells a cut datagram.
const STAGGER: usize = 4096 + 64;

/// Receive calls between two looks at the socket's fill level (one `getsockopt`, 0.2 µs).
const SAMPLE_EVERY: u32 = 64;

/// Polls between two clock reads while spinning.
const POLLS_PER_CLOCK: u32 = 16;

enum Way {
    Ring(ReceiveRing),
    Uring(Box<UringRing>),
    OneByOne,
}

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

/// What one receive call brought.
#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    wire: u64,
    truncated: u64,
    unknown: u64,
    largest: usize,
    drops: Option<u32>,
    /// Drops before the newest train that was told of.
    queued: u32,
}

impl Tally {
    /// Counts a train, and adds it to the batch unless it must be refused.
    #[inline]
    fn take(
        &mut self,
        m: &Message,
        start: usize,
        link: &mut LinkTime,
        to: Option<Origin>,
        batch: &mut Batch,
    ) {
        // Full datagrams of one size, and one shorter at the end.
        let ((full, each), rest) = match m.stride {
            Some(s) if m.len > s => ((m.len / s, s), m.len % s),
            _ => ((1, m.len), 0),
        };
        let count = full as u64 + u64::from(rest > 0);
        self.packets += count;
        self.bytes += m.len as u64;
        self.wire += link.bytes(m.origin.is_ipv6(), (full, each), rest);
        self.largest = self.largest.max(each);
        self.drops = m.drops.or(self.drops);
        if m.truncated {
            self.truncated += count;
        } else if m.control_lost && m.stride.is_none() {
            self.unknown += count;
        } else {
            let meta = TrainMeta {
                start,
                len: m.len,
                stride: m.stride.unwrap_or(0),
                origin: m.origin,
                time_ns: m.time_ns.unwrap_or(0),
                edge: Edge::Datagram,
            };
            if let Some(drops) = m.drops.filter(|&d| d != self.queued) {
                // Taken when the train was queued: what is more than before the last train was dropped between the
                // two. Less it is only where two cores queued at once.
                let more = drops.wrapping_sub(self.queued) as i32;
                if more > 0 {
                    self.queued = drops;
                    batch.note_dropped(more as u32);
                }
            }
            match to {
                None => batch.push(meta),
                Some(to) => batch.push_to(meta, Origin { ip: m.to.unwrap_or(to.ip), ..to }),
            }
        }
    }
}

/// Receives datagrams of one endpoint.
pub struct UdpSource {
    endpoint: String,
    socket: Socket,
    local: SocketAddr,
    /// Where trains were sent to, unless the kernel says better; `None` if nobody asked.
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
    /// As the newest train told of it, which lags behind what the socket tells on idle.
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
            // [::] takes IPv4 too, whatever the host's default.
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

    /// Brings the kernel's drop count and the buffer's peak up to date, also where no packet
    /// follows the last drop. Called on idle by itself.
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
        let mut tally = Tally { queued: self.queued_drops, ..Tally::default() };
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
                    let m = Message { len, origin, truncated: len > slot, ..Message::default() };
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
        let s = &*self.sheet;
        let (truncated, unknown) = (tally.truncated, tally.unknown);
        s.add(Receive::Calls as usize, 1);
        s.add(Receive::Packets as usize, tally.packets);
        s.add(Receive::Accepted as usize, tally.packets - truncated - unknown);
        s.add(Receive::Bytes as usize, tally.bytes);
        if tally.largest as u64 > s.get(Receive::Largest as usize) {
            s.set(Receive::Largest as usize, tally.largest as u64);
        }
        s.add(Receive::WireBytes as usize, tally.wire);
        if truncated + unknown > 0 {
            s.add(Receive::Truncated as usize, truncated);
            s.add(Receive::UnknownStride as usize, unknown);
        }
        Ok(trains)
    }

    /// Waits in the socket for at most `wait`.
    fn block(&mut self, batch: &mut Batch, wait: Duration) -> io::Result<usize> {
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
                    self.sleep(wait);
                }
            }
        }
        let outcome = self.block(batch, wait);
        self.busy = outcome.is_ok();
        outcome
    }

    fn sleep(&mut self, wait: Duration) {
        if let Waiting::Nap(nap) = &mut self.waiting {
            std::thread::sleep(nap.next().min(wait));
        }
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

/// Finds the engine, before the socket is bound so that the probe cannot take a packet.
fn choose(
    opening: &Opening<'_>,
    socket: &Socket,
    url: &UdpUrl,
    options: &ReceiveOptions,
) -> Result<(Engine, Way, Option<String>), UdpError> {
    let asked = url.engine;
    if asked == Engine::Plain {
        return Ok((Engine::Plain, Way::OneByOne, None));
    }
    if asked == Engine::Uring {
        let ring = UringRing::new(options.slots_for(asked));
        let ring = ring.map_err(|e| opening.engine("uring", e))?;
        let gro = sys::set_gro(socket.as_fd(), true);
        let note = gro.err().map(|cause| format!("UDP GRO is not available: {cause}"));
        return Ok((Engine::Uring, Way::Uring(Box::new(ring)), note));
    }
    let mut probe = ReceiveRing::new(1);
    let batches = match probe.receive(socket.as_fd(), &mut [0; 64], (64, 64), false) {
        // Unbound: a system that has the call says that there is nothing.
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(e) => Err(e),
    };
    if let Err(cause) = batches {
        return match asked {
            Engine::Auto => {
                let note = format!("recvmmsg is not available: {cause}");
                Ok((Engine::Plain, Way::OneByOne, Some(note)))
            }
            _ => Err(opening.engine(asked.name(), cause)),
        };
    }
    let ring = |engine| Way::Ring(ReceiveRing::new(options.slots_for(engine)));
    if asked == Engine::Mmsg {
        return Ok((Engine::Mmsg, ring(Engine::Mmsg), None));
    }
    match sys::set_gro(socket.as_fd(), true) {
        Ok(()) => Ok((Engine::Gro, ring(Engine::Gro), None)),
        Err(cause) if asked == Engine::Gro => Err(opening.engine("gro", cause)),
        Err(cause) => {
            let note = format!("UDP GRO is not available: {cause}");
            Ok((Engine::Mmsg, ring(Engine::Mmsg), Some(note)))
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
        if self.local.ip().is_unspecified() {
            // A group or an address of its own is the destination already.
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
