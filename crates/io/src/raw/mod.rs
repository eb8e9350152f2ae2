//! The simplified TCP on an interface: own MAC and IP address beside those of the kernel, several streams on one link.
//!
//! Frames leave through one of three drivers ([`Driver`]): a packet socket with the kernel's note in front of each frame, which
//! says that the checksum is to be completed and, with offload, that the frame is to be cut into segments; a TAP device; or
//! AF_XDP. Payload is not copied here, but for AF_XDP. The addresses must not
//! be those of the interface, or the kernel would answer the peer's segments with RSTs. Needs Linux and, but for a TAP device
//! of one's own, `CAP_NET_RAW`.
//! Refuses: see [`RawError`]. Source: docs/stcp.md, "On an interface"; `packet(7)`, `linux/virtio_net.h`.

mod batch;
mod buffers;
mod carrier;
mod counters;
mod delays;
mod destination;
mod frame;
mod in_memory;
mod intake;
mod lane;
mod measured;
mod memory;
mod port;
mod record;
mod setup;
pub mod url;
mod way;
#[cfg(target_os = "linux")]
mod xdp;
#[cfg(not(target_os = "linux"))]
#[path = "xdp_elsewhere.rs"]
mod xdp;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fullcount_stcp::neighbour::{Neighbour, NeighbourState};
use fullcount_stcp::schedule::Turns;
use fullcount_stcp::sender::{Purpose, initial_number};
use fullcount_stcp::wire::{Addresses, arp};
use fullcount_stcp::{Accepted, Ended, Notice, Outbound, StcpSender, StcpSettings, SubmitError};

use self::batch::{Body, FrameBatch};
use self::buffers::SendBuffers;
pub use self::counters::StcpSending;
pub use self::destination::StcpDestination;
use self::intake::Answers;
pub use self::memory::StreamMemory;
use self::port::Port;
pub use self::record::FrameFile;
use self::setup::SHORT_UNIT;
pub use self::setup::{Driver, MOST_STREAMS, RawCounters, RawError, RawSetup, UNIT};
use self::way::Way;
use crate::frames::FramesError;

/// Bytes of payload in a batch of frames: 0.8 ms at 10 Gb/s, so that acknowledgements are not kept waiting.
const MOST_BYTES: usize = 1 << 20;
/// What a unit has beside its payload at most (Ethernet, IP, TCP), and one byte: the kernel wants it shorter than what the interface takes.
const UNIT_HEADERS: u32 = 14 + 20 + 60 + 1;
/// An interface that takes no unit of more than 64 KiB for so long, ns, has no memory for one in as few pieces.
const BLOCKED: u64 = 10_000_000;
/// Fragments for which the time is read once.
const CLOCK_EVERY: u32 = 64;

/// One stream.
#[derive(Debug)]
pub struct RawStream {
    ends: Addresses,
    sender: StcpSender<StreamMemory>,
    neighbour: usize,
    told_unreachable: bool,
}

impl RawStream {
    /// The sender.
    pub fn sender(&self) -> &StcpSender<StreamMemory> {
        &self.sender
    }

    /// Its addresses and ports.
    pub fn ends(&self) -> Addresses {
        self.ends
    }
}

/// An interface with streams.
#[derive(Debug)]
pub struct RawLink {
    setup: RawSetup,
    mac: [u8; 6],
    port: Port,
    /// Longest packet that the interface takes, where it has such a bound.
    most: Option<usize>,
    streams: Vec<RawStream>,
    /// Streams by their local port.
    ports: HashMap<u16, usize>,
    /// One for each next hop.
    neighbours: Vec<Neighbour>,
    hops: Vec<[u8; 4]>,
    turns: Turns,
    batch: FrameBatch,
    /// Longest unit now, bytes with headers.
    unit: u32,
    /// Since when the interface has taken nothing, ns.
    blocked: Option<u64>,
    buffers: SendBuffers,
    scratch: Vec<u8>,
    /// Faults on purpose: of what leaves and of what comes.
    ways: [Option<Way>; 2],
    file: Option<FrameFile>,
    echoes: Answers,
    stray_resets: Answers,
    id: u16,
    begin: Instant,
    /// Time of the last look at the clock, ns.
    clock: u64,
    submitted: u32,
    counters: RawCounters,
}

impl RawLink {
    /// Opens the interface.
    ///
    /// # Errors
    /// See [`RawError`].
    pub fn open(setup: RawSetup) -> Result<RawLink, RawError> {
        let (port, most) = (Port::open(&setup)?, port::mtu(&setup));
        RawLink::on(port, most, setup)
    }

    fn on(port: Port, most: Option<usize>, setup: RawSetup) -> Result<RawLink, RawError> {
        let [a, b, c, d] = setup.address;
        let way = |later| {
            Way::new(setup.fault, later).map_err(|e| RawError::Stream(format!("fault: {e}")))
        };
        Ok(RawLink {
            mac: setup.mac.unwrap_or([2, 0, a, b, c, d]),
            ways: [way(0)?, way(1)?],
            unit: if port.is_in_memory() { SHORT_UNIT } else { port::unit(&setup) },
            port,
            most,
            blocked: None,
            buffers: SendBuffers::new(setup.large_pages),
            setup,
            streams: vec![],
            ports: HashMap::new(),
            neighbours: vec![],
            hops: vec![],
            turns: Turns::default(),
            batch: FrameBatch::new(),
            scratch: vec![],
            file: None,
            echoes: Answers::default(),
            stray_resets: Answers::default(),
            id: 0,
            begin: Instant::now(),
            clock: 0,
            submitted: 0,
            counters: RawCounters::default(),
        })
    }

    /// From now on frames are written to `file` too.
    pub fn record(&mut self, file: FrameFile) {
        self.file = Some(file);
    }

    /// The file of frames, which gets no more.
    pub fn take_file(&mut self) -> Option<FrameFile> {
        self.file.take()
    }

    fn now(&mut self) -> u64 {
        if !self.port.is_in_memory() {
            self.clock = self.begin.elapsed().as_nanos() as u64;
        }
        self.clock
    }

    /// Adds a stream with a send buffer of `buffer` bytes (a power of two) and opens it: the neighbour is looked for, then
    /// the SYN leaves. Its number comes back.
    ///
    /// # Errors
    /// Settings out of range, a port that is used, too many.
    pub fn add(
        &mut self,
        remote: ([u8; 4], u16),
        local_port: u16,
        settings: StcpSettings,
        buffer: usize,
    ) -> Result<usize, RawError> {
        if self.streams.len() >= MOST_STREAMS {
            return Err(RawError::Streams);
        }
        if self.ports.contains_key(&local_port) {
            return Err(RawError::Port(local_port));
        }
        if let Some(most) = self.most.filter(|&most| usize::from(settings.mtu) > most) {
            let interface = self.setup.interface.clone();
            return Err(RawError::Mtu { mtu: settings.mtu, most, interface });
        }
        let ends = Addresses {
            local: self.setup.address,
            remote: remote.0,
            local_port,
            remote_port: remote.1,
        };
        let sender = StcpSender::new(settings, StreamMemory::new(self.buffers.take(buffer)))?;
        let hop = self.setup.gateway.unwrap_or(remote.0);
        let neighbour = match self.hops.iter().position(|&known| known == hop) {
            Some(at) => at,
            None => {
                let own = (self.mac, self.setup.address);
                let neighbour = Neighbour::new(self.now(), own, hop);
                self.neighbours.push(neighbour);
                self.hops.push(hop);
                self.hops.len() - 1
            }
        };
        let at = self.streams.len();
        self.ports.insert(local_port, at);
        self.streams.push(RawStream { ends, sender, neighbour, told_unreachable: false });
        self.open_again(at)?;
        Ok(at)
    }

    /// Opens a stream that ended once more; what it had not delivered is gone.
    ///
    /// # Errors
    /// It has not ended.
    pub fn open_again(&mut self, at: usize) -> Result<(), RawError> {
        // Frames of its last connection must not leave with the bytes of this one.
        self.batch.clear();
        let now = self.now();
        let stream = &mut self.streams[at];
        let number = initial_number(now, &stream.ends, self.setup.key);
        let opened = stream.sender.open(now, number, false);
        opened.map_err(|e| RawError::Stream(e.to_string()))?;
        stream.told_unreachable = false;
        if self.neighbours[stream.neighbour].state() == NeighbourState::Unreachable {
            let own = (self.mac, self.setup.address);
            let hop = self.hops[stream.neighbour];
            self.neighbours[stream.neighbour] = Neighbour::new(now, own, hop);
        }
        Ok(())
    }

    /// A stream.
    pub fn stream(&self, at: usize) -> &RawStream {
        &self.streams[at]
    }

    /// All streams.
    pub fn streams(&self) -> &[RawStream] {
        &self.streams
    }

    /// What was counted beside the streams.
    pub fn counters(&self) -> RawCounters {
        self.counters
    }

    /// A whole fragment for stream `at`, or nothing of it. Its time is that of the last turn or wait, or of 64 fragments ago.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn submit(&mut self, at: usize, fragment: &[u8]) -> Result<Accepted, SubmitError> {
        self.look_at_clock();
        self.streams[at].sender.submit(self.clock, fragment)
    }

    /// The same, made where it leaves from: see [`StcpSender::submit_in_place`].
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub fn submit_in_place(
        &mut self,
        at: usize,
        length: usize,
        make: impl FnOnce(&mut [u8], &mut [u8]),
    ) -> Result<Accepted, SubmitError> {
        self.look_at_clock();
        self.streams[at].sender.submit_in_place(self.clock, length, make)
    }

    fn look_at_clock(&mut self) {
        self.submitted = self.submitted.wrapping_add(1);
        if self.submitted.is_multiple_of(CLOCK_EVERY) {
            self.now();
        }
    }

    /// What was submitted leaves without waiting for more.
    pub fn flush(&mut self, at: usize) {
        self.streams[at].sender.flush();
    }

    /// Ends a stream with a RST, which leaves with the next turn.
    pub fn abort(&mut self, at: usize) {
        let now = self.now();
        self.streams[at].sender.abort(now);
    }

    /// The next notice of stream `at`.
    pub fn notice(&mut self, at: usize) -> Option<Notice> {
        let now = self.now();
        let stream = &mut self.streams[at];
        let notice = stream.sender.notice();
        if notice == Some(Notice::Slow) {
            self.neighbours[stream.neighbour].doubt(now);
        }
        notice
    }

    /// Takes what came, and sends what may leave: up to 64 frames each. True: something was done.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn turn(&mut self) -> Result<bool, RawError> {
        let received = self.receive()?;
        // In the middle of a batch that the interface did not take, the rest of it goes first.
        if !self.batch.begun() {
            self.fill();
        }
        let sent = self.send()?;
        Ok(received + sent > 0)
    }

    /// Sleeps until something comes, a timer is due, or `limit` is over.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&mut self, limit: Duration) -> Result<(), RawError> {
        let now = self.now();
        let streams = self.streams.iter().filter_map(|s| s.sender.deadline());
        let due = streams.chain(self.neighbours.iter().filter_map(Neighbour::deadline));
        let next = due.min().unwrap_or(u64::MAX).saturating_sub(now);
        // What the interface did not take is tried again soon: nothing says when it has room.
        let retry = if self.batch.waits() { 50_000 } else { u64::MAX };
        let limit = limit.min(Duration::from_nanos(next.min(retry)));
        if !limit.is_zero() {
            self.port.wait(limit)?;
            self.now();
        }
        Ok(())
    }

    fn make_arp(&mut self, to: [u8; 6], arp: &arp::Arp) {
        match arp.request {
            true => self.counters.arp_requests += 1,
            false => self.counters.arp_replies += 1,
        }
        let mac = self.mac;
        let place = self.batch.next();
        place.head.arp(to, mac, arp);
        place.body = Body::None;
        self.batch.push(0);
    }

    /// Makes a batch of frames: ARP first, then the streams in turns.
    fn fill(&mut self) {
        let first = self.batch.made();
        self.make();
        if let Some(way) = &mut self.ways[0] {
            self.batch.through(first, &self.streams, |frame, out| way.pass(frame, out));
        }
    }

    fn make(&mut self) {
        let now = self.now();
        self.look_for_neighbours(now);
        let mss = u32::from(self.streams.first().map_or(1460, |s| s.sender.settings().mss()));
        let quantum = if self.setup.offload { u32::MAX } else { mss };
        // Files and faults take frames of one IP packet.
        let long = self.file.is_none() && self.ways[0].is_none();
        let unit = if long { self.unit } else { SHORT_UNIT } - UNIT_HEADERS;
        let mut idle = 0;
        while self.batch.open(MOST_BYTES) && idle < self.streams.len() {
            let Some((at, credit)) = self.turns.next(self.streams.len(), quantum) else { return };
            let most = if self.setup.offload { credit.min(unit) } else { 0 };
            match self.streams[at].sender.poll(now, most) {
                Some(segment) => {
                    idle = 0;
                    // One unit of each stream, whatever its length, is a turn.
                    let made = self.make_segment(at, &segment);
                    self.turns.sent(match (made, segment.length) {
                        (false, _) => 0,
                        (true, 0) => 1,
                        (true, _) => u32::MAX,
                    });
                }
                None => {
                    idle += 1;
                    self.turns.sent(0);
                }
            }
        }
    }

    /// A frame, or none as long as nobody knows where it goes.
    fn make_segment(&mut self, at: usize, segment: &Outbound) -> bool {
        let stream = &self.streams[at];
        let NeighbourState::Known(mac) = self.neighbours[stream.neighbour].state() else {
            return false;
        };
        let Outbound { purpose, offset, length, .. } = *segment;
        let payload = match purpose {
            Purpose::KeepAlive => (&[0u8][..], &[][..]),
            _ => stream.sender.memory().payload(offset, length),
        };
        self.id = self.id.wrapping_add(1);
        let place = self.batch.next();
        let partial = self.port.completes();
        let ways = (mac, self.mac);
        place.head.segment(ways, &stream.ends, self.id, segment, payload, partial);
        place.body = match purpose {
            Purpose::KeepAlive => Body::Own(vec![0]),
            _ => Body::Stream { at, offset, length },
        };
        self.batch.push(length as usize);
        true
    }

    fn look_for_neighbours(&mut self, now: u64) {
        for at in 0..self.neighbours.len() {
            if !self.batch.open(MOST_BYTES) {
                break;
            }
            if let Some((to, arp)) = self.neighbours[at].poll(now) {
                self.make_arp(to, &arp);
            }
            // Its address stays known: connections count this and go on, those being opened end.
            if self.neighbours[at].lost() {
                for stream in self.streams.iter_mut().filter(|s| s.neighbour == at) {
                    stream.sender.neighbour(now, false);
                }
            }
        }
        for stream in &mut self.streams {
            match self.neighbours[stream.neighbour].state() {
                NeighbourState::Known(_) => stream.sender.neighbour(now, true),
                NeighbourState::Asking => {}
                NeighbourState::Unreachable | NeighbourState::Duplicate(_) => {
                    if !std::mem::replace(&mut stream.told_unreachable, true) {
                        stream.sender.neighbour(now, false);
                    }
                }
            }
        }
    }

    /// Somebody else has the own address: their MAC address.
    pub fn duplicate(&self) -> Option<[u8; 6]> {
        self.neighbours.iter().find_map(|n| match n.state() {
            NeighbourState::Duplicate(mac) => Some(mac),
            _ => None,
        })
    }

    fn send(&mut self) -> Result<usize, RawError> {
        let mut sent = 0;
        while self.batch.waits() {
            let streams = &self.streams;
            let waiting = self.batch.waiting();
            self.counters.calls += 1;
            let taken: Result<_, FramesError> =
                self.port.send(waiting.iter().map(|f| f.parts(streams)));
            let gone = match taken? {
                Ok(0) => {
                    // What has no room now is kept, and is not a loss.
                    self.counters.blocked += 1;
                    if !self.gives_up_long_unit() {
                        break;
                    }
                    self.counters.refused += 1;
                    1
                }
                Ok(n) => {
                    if let Some(file) = &mut self.file {
                        for frame in &waiting[..n.min(waiting.len())] {
                            let put = file.put(&frame.parts(streams));
                            self.counters.recorded += u64::from(put);
                            self.counters.not_recorded += u64::from(!put);
                        }
                    }
                    self.counters.sent += n as u64;
                    self.blocked = None;
                    n
                }
                Err(_) => {
                    self.counters.refused += 1;
                    1
                }
            };
            self.batch.sent(gone);
            sent += gone;
        }
        Ok(sent)
    }

    /// The frame in front is a long unit that has found no room for long: it is dropped, and units are short from now on. Its stream
    /// repeats it.
    fn gives_up_long_unit(&mut self) -> bool {
        let long = self.batch.waiting().first().is_some_and(|f| f.body.len() > SHORT_UNIT as usize);
        let now = self.now();
        let since = *self.blocked.get_or_insert(now);
        let over = long && now.saturating_sub(since) >= BLOCKED;
        if over {
            (self.unit, self.blocked) = (SHORT_UNIT, None);
        }
        over
    }

    /// Why stream `at` ended, once its notices were read; helper of callers that only wait for it.
    pub fn ended(&mut self, at: usize) -> Option<Ended> {
        std::iter::from_fn(|| self.notice(at)).find_map(|n| match n {
            Notice::Aborted(why) => Some(why),
            _ => None,
        })
    }
}

#[cfg(test)]
mod unit_tests;
