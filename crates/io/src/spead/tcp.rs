//! Byte streams: the receiver listens, each connection brings packets back to back or whole heaps.
//!
//! The payloads of packets that should come next, and those of whole heaps, are read straight into the heap's memory ([`ahead`]); other
//! packets are handed on from the read buffer. A connection that ends,
//! is reset or stays dead (keep-alive, 25 s) has ended, so nobody waits for it for ever. Connections that never sent a packet, or its header, are no
//! senders: they take nobody's place, and their end is nobody's. At most as many connections are read as there are senders, and some silent ones are open
//! beside them. Source: `docs/formats/spead.md`, section 9.2.

mod ahead;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::batch::Origin;
use fullcount_spead::HeapReceiver;
use fullcount_spead::framing::{HeapStream, LiveMemory, PacketStream};
use fullcount_spead::receive::{Arrival, Delivery, MemoryPool};
use fullcount_spead::wire::PREFIX_BYTES;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use self::ahead::AheadReader;
use super::url::SpeadFraming;
use crate::tcp::low_water::{LOW_WATER, LowWater};
use crate::udp::url::UdpUrl;

/// Bytes of a read: what the second-level cache holds beside the heap.
const READ: usize = 512 << 10;
/// Reads of one connection before the next one has its turn, and bytes of them: one heap of the usual size, so that not many heaps
/// of one sender come before the next packet of another one's.
const TURNS: usize = 8;
/// See [`TURNS`].
const TURN: usize = 4 << 20;
/// Connections that may be open beside those of senders and have sent no packet; for one more the oldest of them is ended. Senders
/// connect a moment before they send, and visitors may stay.
const SILENT: usize = 64;
/// Connections that are accepted in one go: those that the listener keeps.
const BACKLOG: i32 = 128;
/// Largest packet unless the options say: 64 MiB.
const MAX_PACKET: usize = 64 << 20;

/// How to listen.
#[derive(Debug, Clone)]
pub struct TcpIntakeOptions {
    /// Senders: connections that are open at once, and that must end.
    pub senders: u32,
    /// Packets or heaps.
    pub framing: SpeadFraming,
    /// Largest packet; 0: 64 MiB.
    pub max_packet: usize,
    /// Longest heap.
    pub max_heap: u64,
    /// Memory of all unfinished whole heaps together, bytes.
    pub max_live: u64,
    /// Where heaps lie.
    pub memory: Option<MemoryPool>,
    /// Stop heaps are heaps like any other.
    pub ignore_stop: bool,
    /// A reader of a fast connection is woken when so many bytes are there; 0: at each segment.
    pub low_water: usize,
}

impl Default for TcpIntakeOptions {
    fn default() -> TcpIntakeOptions {
        TcpIntakeOptions {
            senders: 1,
            framing: SpeadFraming::Packets,
            max_packet: 0,
            max_heap: 1 << 30,
            max_live: 4 << 30,
            memory: None,
            ignore_stop: false,
            low_water: LOW_WATER,
        }
    }
}

#[derive(Debug)]
enum Framing {
    Packets(PacketStream),
    Heaps(Box<HeapStream>),
}

impl Framing {
    /// Whoever is at the other end speaks SPEAD.
    fn is_spead(&self) -> bool {
        match self {
            Framing::Packets(packets) => packets.is_spead(),
            Framing::Heaps(heaps) => heaps.is_spead(),
        }
    }

    /// What was no packet so far.
    fn waste(&self) -> StreamWaste {
        match self {
            Framing::Packets(packets) => {
                let counts = packets.counts();
                let (junk_bytes, too_large) = (counts.junk_bytes, counts.too_large);
                StreamWaste { junk_bytes, too_large, ..StreamWaste::default() }
            }
            Framing::Heaps(heaps) => {
                let counts = heaps.counts();
                StreamWaste {
                    junk_bytes: counts.junk_bytes,
                    too_large: counts.too_large,
                    no_memory: counts.no_memory,
                    not_whole: counts.not_whole,
                    ..StreamWaste::default()
                }
            }
        }
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    origin: Origin,
    framing: Framing,
    bytes: u64,
    /// It has sent a packet, or its header: it is a sender.
    begun: bool,
    low_water: LowWater,
}

/// What a connection gave.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// A packet.
    Packet(&'a [u8], Origin),
    /// A heap or what is there of one, and the bytes that it took on the connection.
    Heap(Delivery, u64, Origin),
    /// A stop heap, and its bytes.
    Stop(u64),
    /// A connection has ended, whole or not.
    Ended,
}

/// Who gets what connections give.
pub(super) trait TakesPieces {
    /// A packet, a heap, or an end.
    fn take(&mut self, piece: Piece<'_>);

    /// The stream whose next packets are foreseen.
    fn receiver(&mut self) -> &mut HeapReceiver;

    /// The payload of the packet that begins with `head` is where [`HeapReceiver::ahead`] said. False: it is another packet.
    fn take_ahead(&mut self, head: &[u8; PREFIX_BYTES], origin: Origin) -> bool;

    /// Now, in the stream's time, ns.
    fn now_ns(&self) -> u64;
}

/// What connections gave that was no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamWaste {
    /// Connections that were accepted.
    pub connections: u64,
    /// Of these, ended by a reset or without an answer.
    pub resets: u64,
    /// Of these, ended for others because they had sent no packet.
    pub silent: u64,
    /// Bytes that belonged to no packet.
    pub junk_bytes: u64,
    /// Packets or heaps above the limit.
    pub too_large: u64,
    /// Heaps without memory, or beyond what all may have together.
    pub no_memory: u64,
    /// Connections that ended inside of a packet or heap.
    pub cut: u64,
    /// Packets where whole heaps are wanted that were only parts of one.
    pub not_whole: u64,
    /// Read calls.
    pub reads: u64,
    /// Bytes of all connections.
    pub bytes: u64,
}

impl StreamWaste {
    /// Takes in what one connection gave.
    fn add(&mut self, of: StreamWaste) {
        self.junk_bytes += of.junk_bytes;
        self.too_large += of.too_large;
        self.no_memory += of.no_memory;
        self.not_whole += of.not_whole;
    }
}

/// Listens, and reads what comes.
#[derive(Debug)]
pub struct TcpIntake {
    listener: TcpListener,
    /// Memory of unfinished whole heaps.
    live: Arc<LiveMemory>,
    options: TcpIntakeOptions,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    ahead: AheadReader,
    next: usize,
    ended: u32,
    /// Bytes of connections that are senders.
    of_senders: u64,
    waste: StreamWaste,
}

impl TcpIntake {
    /// Listens at the address of `url`, with its receive buffer.
    ///
    /// # Errors
    /// The system's answer, with the address.
    pub fn listen(url: &UdpUrl, options: TcpIntakeOptions) -> io::Result<TcpIntake> {
        let at = url.resolve()?;
        let named = |what: &str, e: io::Error| {
            io::Error::new(e.kind(), format!("spead+tcp://{at}: {what}: {e}"))
        };
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)
            .map_err(|e| named("opening a socket", e))?;
        socket.set_reuse_address(true).map_err(|e| named("sharing the address", e))?;
        if at.is_ipv6() && at.ip().is_unspecified() {
            socket.set_only_v6(false).map_err(|e| named("listening on IPv4 and IPv6", e))?;
        }
        if let Some(bytes) = url.receive_buffer {
            // Before listening: the window scale is told in the first answer.
            crate::udp::receive_buffer(&socket, bytes)
                .map_err(|e| named("setting the receive buffer", e))?;
        }
        socket.bind(&at.into()).map_err(|e| named("listening", e))?;
        socket.listen(BACKLOG).map_err(|e| named("listening", e))?;
        socket.set_nonblocking(true).map_err(|e| named("listening", e))?;
        Ok(TcpIntake {
            listener: socket.into(),
            buffer: vec![0; if options.framing == SpeadFraming::Packets { READ } else { 0 }],
            ahead: AheadReader::default(),
            live: LiveMemory::new(options.max_live),
            options,
            connections: vec![],
            next: 0,
            ended: 0,
            of_senders: 0,
            waste: StreamWaste::default(),
        })
    }

    /// Address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The system's answer.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What was no packet, on connections that are open as well.
    pub fn waste(&self) -> StreamWaste {
        let mut waste = self.waste;
        self.connections.iter().for_each(|open| waste.add(open.framing.waste()));
        waste
    }

    /// Bytes of all connections.
    pub fn bytes(&self) -> u64 {
        self.waste.bytes
    }

    /// Bytes of connections that are senders: those of others keep no stream alive.
    pub(super) fn bytes_of_senders(&self) -> u64 {
        self.of_senders
    }

    /// Senders that are expected.
    pub(super) fn senders(&self) -> u32 {
        self.options.senders
    }

    /// Senders that have ended.
    pub(super) fn ended(&self) -> u32 {
        self.ended
    }

    /// All senders have ended.
    pub(super) fn is_over(&self) -> bool {
        self.ended >= self.options.senders
    }

    /// In the middle of a whole heap of which nothing came since then, ns; the oldest.
    pub(super) fn waits_since_ns(&self) -> Option<u64> {
        let waits = |c: &Connection| match &c.framing {
            Framing::Heaps(heaps) => heaps.waits_since_ns(),
            Framing::Packets(_) => None,
        };
        self.connections.iter().filter_map(waits).min()
    }

    /// Ends connections that have been silent inside of a heap since `before_ns`.
    pub(super) fn give_up(&mut self, before_ns: u64, to: &mut impl TakesPieces) {
        let mut n = 0;
        while n < self.connections.len() {
            let silent = match &self.connections[n].framing {
                Framing::Heaps(heaps) => heaps.waits_since_ns().is_some_and(|at| at <= before_ns),
                Framing::Packets(_) => false,
            };
            match silent {
                true => self.close(n, Arrival::TimedOut, true, to),
                false => n += 1,
            }
        }
    }

    /// Ends all connections: the stream has ended, and what is begun on them is cut.
    pub(super) fn close_all(&mut self, to: &mut impl TakesPieces) {
        while !self.connections.is_empty() {
            self.close(0, Arrival::Flushed, false, to);
        }
    }

    /// Senders that have not begun yet.
    fn expected(&self) -> usize {
        let begun = self.connections.iter().filter(|c| c.begun).count();
        (self.options.senders.saturating_sub(self.ended) as usize).saturating_sub(begun)
    }

    fn accept(&mut self) {
        if self.expected() == 0 {
            return;
        }
        for _ in 0..BACKLOG {
            let Ok((stream, from)) = self.listener.accept() else { return };
            let mut silent = (0..self.connections.len()).filter(|n| !self.connections[*n].begun);
            if silent.clone().count() == SILENT
                && let Some(oldest) = silent.next()
            {
                // In the order in which they came.
                let gone = self.connections.remove(oldest);
                self.waste.add(gone.framing.waste());
                self.waste.silent += 1;
            }
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let alive = TcpKeepalive::new()
                .with_time(Duration::from_secs(10))
                .with_interval(Duration::from_secs(5))
                .with_retries(3);
            // Without it a dead peer is noticed by the stall timeout alone.
            let _ = SockRef::from(&stream).set_tcp_keepalive(&alive);
            let framing = match self.options.framing {
                SpeadFraming::Packets => {
                    let most = if self.options.max_packet == 0 {
                        MAX_PACKET
                    } else {
                        self.options.max_packet
                    };
                    Framing::Packets(PacketStream::new(most))
                }
                SpeadFraming::Heap => {
                    let heaps = match &self.options.memory {
                        Some(pool) => HeapStream::new(self.options.max_heap, pool.clone()),
                        None => HeapStream::plain(self.options.max_heap),
                    };
                    let heaps = if self.options.ignore_stop { heaps.without_stop() } else { heaps };
                    Framing::Heaps(Box::new(heaps.within(&self.live)))
                }
            };
            self.waste.connections += 1;
            self.connections.push(Connection {
                stream,
                origin: Origin::from(from),
                framing,
                bytes: 0,
                begun: false,
                low_water: LowWater::new(self.options.low_water),
            });
        }
    }

    /// Reads what is there, waits at most `wait` if nothing is. False: nothing came.
    pub(super) fn read(&mut self, wait: Duration, to: &mut impl TakesPieces) -> bool {
        if self.round(false, to) {
            return true;
        }
        if wait.is_zero() {
            return false;
        }
        let wait = self.connections.iter().fold(wait, |wait, c| c.low_water.wait(wait));
        // One that nobody is going to read would end the wait at once.
        let expected = self.expected() > 0;
        let read = self.connections.iter().filter(|c| c.begun || expected);
        let listener = expected.then(|| self.listener.as_fd());
        let all: Vec<BorrowedFd<'_>> = read.map(|c| c.stream.as_fd()).chain(listener).collect();
        crate::sys::wait_ready(&all, None, wait);
        self.round(true, to)
    }

    /// Reads each connection, in turns; `waited`: after a wait.
    fn round(&mut self, waited: bool, to: &mut impl TakesPieces) -> bool {
        self.accept();
        let (mut came, mut left) = (false, self.connections.len());
        while left > 0 && !self.connections.is_empty() {
            left -= 1;
            self.next = (self.next + 1) % self.connections.len();
            let at = self.next;
            if !self.connections[at].begun && self.expected() == 0 {
                continue;
            }
            let (many, end) = self.turn(at, to);
            came |= many > 0 || end.is_some();
            let Connection { stream, low_water, .. } = &mut self.connections[at];
            low_water.came(stream.as_fd(), many, waited);
            if let Some(reset) = end {
                self.close(at, Arrival::Flushed, reset, to);
            }
        }
        came
    }

    /// Some reads of one connection. The bytes that came; whether the connection is over, and then whether it was reset.
    fn turn(&mut self, at: usize, to: &mut impl TakesPieces) -> (usize, Option<bool>) {
        // Of several connections the stream foresees packets of the one that was read last.
        let (mut came, mut end, mut foreseen) = (0, None, self.connections.len() == 1);
        for _ in 0..TURNS {
            match self.one(at, foreseen, to) {
                Ok(0) => end = Some(false),
                Ok(many) => {
                    (came, foreseen) = (came + many, true);
                    if came < TURN {
                        continue;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => end = Some(true),
            }
            break;
        }
        let Connection { framing, origin, .. } = &mut self.connections[at];
        if let Framing::Packets(packets) = framing {
            self.ahead.settle(packets, *origin, to);
        }
        (came, end)
    }

    /// One read; how many bytes came.
    fn one(&mut self, at: usize, foreseen: bool, to: &mut impl TakesPieces) -> io::Result<usize> {
        let Connection { stream, origin, framing, bytes, begun, .. } = &mut self.connections[at];
        self.waste.reads += 1;
        let many = match framing {
            Framing::Packets(packets) => {
                if foreseen && let Some(many) = self.ahead.read(stream, packets, *origin, to) {
                    many?
                } else {
                    self.ahead.settle(packets, *origin, to);
                    let many = stream.read(&mut self.buffer)?;
                    let came = &self.buffer[..many];
                    packets.push(came, |packet| to.take(Piece::Packet(packet, *origin)));
                    many
                }
            }
            Framing::Heaps(heaps) => {
                let before = heaps.counts();
                let many = stream.read(heaps.want())?;
                let whole = heaps.filled(many, to.now_ns());
                let after = heaps.counts();
                if after.heaps > before.heaps {
                    let taken =
                        after.stream_bytes - after.junk_bytes - after.skipped_bytes - *bytes;
                    *bytes += taken;
                    match whole {
                        Some(heap) => to.take(Piece::Heap(heap, taken, *origin)),
                        None => to.take(Piece::Stop(taken)),
                    }
                }
                many
            }
        };
        if let Framing::Packets(_) = framing {
            *bytes += many as u64;
        }
        *begun = *begun || framing.is_spead();
        self.of_senders += if *begun { many as u64 } else { 0 };
        self.waste.bytes += many as u64;
        Ok(many)
    }

    /// A connection is over. Of a whole heap that it cut, what is there is handed on.
    fn close(&mut self, at: usize, arrival: Arrival, reset: bool, to: &mut impl TakesPieces) {
        let mut gone = self.connections.remove(at);
        // A first packet that was read into place is judged here.
        gone.begun = gone.begun || gone.framing.is_spead();
        let cut = match &mut gone.framing {
            Framing::Packets(packets) => packets.finish() > 0,
            Framing::Heaps(heaps) => {
                let part = heaps.finish(arrival);
                let counts = heaps.counts();
                if let Some(part) = part {
                    let used = counts.stream_bytes - counts.junk_bytes - counts.skipped_bytes;
                    to.take(Piece::Heap(
                        Delivery::Incomplete(part),
                        used - gone.bytes,
                        gone.origin,
                    ));
                }
                counts.cut > 0
            }
        };
        self.waste.add(gone.framing.waste());
        self.waste.cut += u64::from(cut && gone.begun);
        self.waste.resets += u64::from(reset && gone.begun);
        if gone.begun {
            self.ended += 1;
            to.take(Piece::Ended);
        }
    }
}
