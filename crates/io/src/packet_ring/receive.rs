//! The receiver: frames from the ring's blocks, one copy into the batch, joined to trains.
//!
//! Trains that the kernel has made (GRO) or not cut (a sender on this host) come with their stride
//! and stay trains. Nothing is allocated, locked or read from a clock per packet; counters are
//! written once per call. Refuses: see [`Refusal`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Sheet;
use socket2::{Domain, Socket, Type};

use super::{PacketError, Ring, filter};
use crate::dissect::datagram::{Judgement, Refusal, destination, find};
use crate::dissect::judged::{Judged, Lines};
use crate::dissect::pack::Packer;
use crate::endpoint::PacketUrl;
use crate::quantity::size_text;
use crate::source::{Received, Source, SourceError};
use crate::sys;
use crate::sys::interface::{self, Awake, Waiter, attach_classic_filter};
use crate::sys::packet_ring::PacketRing;

/// Bytes of a block: holds the longest train (64 KiB), and a quarter of a second-level cache.
const BLOCK: usize = 256 << 10;
/// Fewest blocks: one is being filled, one read, two wait.
const BLOCKS_MIN: u64 = 4;
/// Payload bytes of a batch.
const BATCH_BYTES: usize = 256 << 10;
/// Receive calls between two looks at the kernel's counts.
const SAMPLE_EVERY: u32 = 256;
/// Polls between two clock reads while spinning.
const POLLS_PER_CLOCK: u32 = 64;

/// Receives the datagrams of one port from an interface's copies.
pub struct PacketSource {
    endpoint: String,
    ring: PacketRing,
    waiter: Waiter,
    /// Takes the originals, so that the kernel does not answer "port unreachable".
    _swallow: Option<Socket>,
    _member: Option<Socket>,
    local: SocketAddr,
    port: u16,
    /// Number of the interface.
    index: u32,
    verify: bool,
    spin: bool,
    timestamps: bool,
    /// Trains say where they were sent to.
    destinations: bool,
    most: usize,
    sheet: Arc<Sheet>,
    until_sample: u32,
    facts: Vec<String>,
}

impl std::fmt::Debug for PacketSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketSource").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

const LINES: Lines = Lines {
    calls: Ring::Calls as usize,
    packets: Ring::Packets as usize,
    accepted: Ring::Accepted as usize,
    bytes: Ring::Bytes as usize,
    partial: Ring::Partial as usize,
    absent: Ring::Absent as usize,
    refused: [line(0), line(1), line(2), line(3), line(4)],
};

const fn line(refusal: usize) -> usize {
    match Refusal::ALL[refusal] {
        Refusal::Cut => Ring::Truncated as usize,
        Refusal::Length => Ring::Lengths as usize,
        Refusal::NotOurs => Ring::NotOurs as usize,
        Refusal::Fragment => Ring::Fragments as usize,
        Refusal::Checksum => Ring::Checksum as usize,
    }
}

fn system(url: &PacketUrl, what: &'static str, cause: io::Error) -> PacketError {
    let endpoint = url.to_string();
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PacketError::NotAllowed { endpoint, what },
        _ => PacketError::System { endpoint, what, cause },
    }
}

/// A socket on the port that takes every datagram and keeps none; `None` with the reason where it
/// cannot be had.
fn swallow(port: u16) -> io::Result<Socket> {
    let nothing = [(0x06, 0, 0, 0)];
    let both = Socket::new(Domain::IPV6, Type::DGRAM, None).and_then(|s| {
        s.set_only_v6(false)?;
        attach_classic_filter(s.as_fd(), &nothing)?;
        // Trains are dropped whole instead of being cut first.
        let _ = sys::set_gro(s.as_fd(), true);
        s.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
        Ok(s)
    });
    match both {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(e),
        Ok(s) => Ok(s),
        // A host without IPv6.
        Err(_) => {
            let s = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            attach_classic_filter(s.as_fd(), &nothing)?;
            let _ = sys::set_gro(s.as_fd(), true);
            s.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
            Ok(s)
        }
    }
}

impl PacketSource {
    /// Opens the ring. `buffer`: its bytes, where the URL does not say; `timestamps`: hand on the
    /// kernel's receive time of each packet (then every datagram is a train of its own).
    ///
    /// # Errors
    /// [`PacketError`] with the endpoint and what to do.
    pub fn open(
        url: &PacketUrl,
        buffer: u64,
        timestamps: bool,
    ) -> Result<PacketSource, PacketError> {
        let (endpoint, name) = (url.to_string(), url.interface.clone());
        let about = interface::interface(&name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => {
                PacketError::NoInterface { endpoint: endpoint.clone(), interface: name.clone() }
            }
            _ => system(url, "look at the interface", e),
        })?;
        if !about.up {
            return Err(PacketError::Down { endpoint, interface: name });
        }
        let asked = url.receive_buffer.unwrap_or(buffer);
        let blocks = (asked / BLOCK as u64).max(BLOCKS_MIN);
        let program = filter::program(url.port, url.address);
        let ring =
            PacketRing::open(about.index, BLOCK, blocks as usize, url.block_timeout_ms, &program)
                .map_err(|(what, cause)| system(url, what, cause))?;
        let group = url.address.filter(IpAddr::is_multicast);
        let member = group.map(|group| crate::dissect::member(group, about.index)).transpose();
        let member = member.map_err(|cause| PacketError::Join {
            endpoint: endpoint.clone(),
            group: group.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            cause,
        })?;
        let place = url.address.map_or("any address".to_owned(), |a| a.to_string());
        let mut facts = vec![
            format!("listening on {name} for UDP port {}, {place}", url.port),
            format!(
                "engine packet: AF_PACKET ring of {blocks} blocks of {}, handed over after {} ms",
                size_text(BLOCK as u64),
                url.block_timeout_ms
            ),
            format!(
                "receive buffer: asked {}, got {}",
                size_text(asked),
                size_text(blocks * BLOCK as u64)
            ),
        ];
        let swallow = match swallow(url.port) {
            Ok(socket) => {
                facts.push("the kernel's own copies: dropped at the port".into());
                Some(socket)
            }
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                facts.push(format!(
                    "another program has port {} and gets every datagram as well",
                    url.port
                ));
                None
            }
            Err(e) => {
                let note = "the kernel may answer 'port unreachable' to the sender";
                facts.push(format!("the port cannot be held: {e}; {note}"));
                None
            }
        };
        facts.push(match url.verify {
            true => "UDP checksums: verified (checksum=off leaves them)".into(),
            false => "UDP checksums: not looked at (checksum=off)".to_owned(),
        });
        if timestamps {
            facts.push("receive times: from the kernel".into());
        }
        if url.spin {
            facts.push("waiting: polling without sleep".into());
        }
        let ip = url.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Ok(PacketSource {
            endpoint,
            waiter: Waiter::new([&ring]),
            ring,
            _swallow: swallow,
            _member: member,
            local: SocketAddr::new(ip, url.port),
            port: url.port,
            index: about.index,
            verify: url.verify,
            spin: url.spin,
            timestamps,
            destinations: false,
            most: usize::from(url.batch),
            sheet: Sheet::new(Ring::catalogue()),
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
        if let Ok(s) = self.ring.statistics() {
            self.sheet.add(Ring::KernelDrops as usize, s.drops);
            self.sheet.add(Ring::Freezes as usize, s.freezes);
        }
    }

    /// Takes what waits in the ring, as much as the batch holds; the frames seen.
    fn gather(&mut self, batch: &mut Batch) -> u64 {
        let mut judged = Judged::default();
        let mut seen = 0;
        let mut packer = Packer::new(batch, !self.timestamps);
        while seen < self.most as u64 && self.ring.look() {
            let Some(packet) = self.ring.packet() else {
                // A block that makes no sense: its rest is skipped, and shows as a gap.
                self.ring.advance();
                continue;
            };
            match find(packet.frame, packet.len, self.port) {
                Ok(d) if d.range().end > packet.frame.len() => judged.refuse(Refusal::Cut),
                Ok(d) => {
                    if !packer.fits(d.len) {
                        break;
                    }
                    let stride = packet.stride.filter(|s| *s < d.len);
                    let count = stride.map_or(1, |s| d.len.div_ceil(s)) as u64;
                    let time = if self.timestamps { packet.time_ns } else { 0 };
                    packer.place(d.len).copy_from_slice(&packet.frame[d.range()]);
                    let judgement = match (packet.partial, self.verify) {
                        (true, _) => Judgement::Partial,
                        (false, true) => d.judge(packer.place(d.len)),
                        (false, false) => Judgement::Good,
                    };
                    if self.destinations {
                        let to = destination(packet.frame, self.port);
                        packer.sent_to(to.unwrap_or(Origin::NONE));
                    }
                    match stride {
                        _ if !judged.delivers(judgement, count) => {}
                        Some(stride) => packer.keep_train(d.len, stride, d.origin, time),
                        None => packer.keep(d.len, d.origin, time),
                    }
                }
                Err(refusal) => judged.refuse(refusal),
            }
            seen += 1;
            self.ring.advance();
        }
        let (accepted, bytes) = packer.finish();
        if seen > 0 {
            judged.add(&self.sheet, &LINES, accepted, bytes);
        }
        seen
    }

    /// Polls until something comes or `wait` is over.
    fn poll(&mut self, batch: &mut Batch, wait: Duration) -> u64 {
        let began = Instant::now();
        loop {
            for _ in 0..POLLS_PER_CLOCK {
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

impl Source for PacketSource {
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
            match self.gather(batch) {
                0 if wait.is_zero() => 0,
                0 => {
                    self.sheet.add(Ring::SystemCalls as usize, 1);
                    let awake = self.waiter.wait(wait);
                    match awake.map_err(|e| self.failed("waiting", e.to_string()))? {
                        Awake::Readable => self.gather(batch),
                        Awake::Broken | Awake::Nothing => 0,
                    }
                }
                seen => seen,
            }
        };
        if seen == 0 {
            self.sheet.add(Ring::Idle as usize, 1);
            self.sample();
            if interface::has_gone(self.ring.as_fd(), self.index) {
                let cause = "the interface has gone; 'ip link' shows those that are there";
                return Err(self.failed("receiving", cause.into()));
            }
        }
        Ok(if batch.is_empty() { Received::Idle } else { Received::Data })
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::with_slots(self.most, BATCH_BYTES.div_ceil(self.most));
        sys::prefer_large_pages(batch.memory_mut());
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
