//! The sender: sends prepared trains of equal datagrams as fast as the kernel accepts them.
//!
//! A call sends everything or returns an error; what the kernel could not accept at once is tried again and counted.
//! `IP_RECVERR` is on, so that a full queue of the network card is an error that we see and retry, instead of packets
//! that vanish after they were counted. Offload limits are probed on loopback when opening and lowered when a path
//! refuses them (datagrams above the MTU go as fragments, one a message). Refuses: datagrams longer than UDP allows.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fullcount_core::batch::Batch;
use fullcount_core::ledger::Sheet;
use socket2::{Domain, Socket, Type};

use super::open::{self, Opening, UdpError};
use super::split::{Piece, Pieces, SplitLimits};
use super::{MAX_PAYLOAD_V4, MAX_PAYLOAD_V6};
use crate::endpoint::{Engine, UdpUrl};
use crate::sys::{self, SendRing};

fullcount_core::counters! {
    /// What a UDP sender counts.
    pub enum Transmit {
        Offered "send.offered" Packets Sum "send" In
            "datagrams given to the sender" "";
        Packets "send.packets" Packets Sum "send" Accepted
            "datagrams that the kernel took" "";
        Failed "send.failed" Packets Sum "send" Rejected
            "datagrams that were not sent because the kernel refused them for good"
            "see the error message of the sender";
        Bytes "send.bytes" Bytes Sum "send" Note
            "UDP payload bytes that the kernel took" "";
        Calls "send.calls" Times Sum "send" Note
            "send calls" "";
        NoBuffer "send.no_buffer" Times Sum "send" Note
            "send calls repeated because the kernel's or the card's queue was full"
            "nothing is lost; to send faster raise txqueuelen (ip link) or send_buffer";
        Reported "send.reported" Times Sum "send" Note
            "error reports (ICMP) that came back, for example because nobody listens at the port"
            "start the receiver first; check address and port";
    }
}

/// How to send, where the URL does not say.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// Send buffer in bytes, 4 KiB..=1 GiB. Default 4 MiB: 3 ms at 10 Gb/s.
    pub send_buffer: u64,
    /// Local address to send from; the system's choice if `None`. With several source ports its
    /// port must be 0. The URL's `bind` takes the place of its address.
    pub local: Option<SocketAddr>,
    /// Other senders of this process may have the same local port. Default: no.
    pub share_port: bool,
    /// How long a full queue is tried before sending fails. Default 5 s.
    pub patience: Duration,
}

impl Default for SendOptions {
    fn default() -> Self {
        SendOptions { send_buffer: 4 << 20, local: None, share_port: false, patience: PATIENCE }
    }
}

/// Why something was not sent.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum TransmitError {
    #[error("{endpoint}: a datagram of {len} B cannot be sent; UDP takes 0 to {most} B")]
    TooLong { endpoint: String, len: usize, most: usize },
    #[error("{endpoint}: not allowed: {cause}; {advice}")]
    NotAllowed { endpoint: String, cause: io::Error, advice: &'static str },
    #[error("{endpoint}: the kernel took nothing for {seconds} s: {cause}; is the interface up?")]
    Stuck { endpoint: String, seconds: f64, cause: io::Error },
    #[error("{endpoint}: sending failed: {cause}")]
    System { endpoint: String, cause: io::Error },
}

/// Messages a call. At 64 B that is 16 x 128 datagrams, 131 kB.
const SLOTS: usize = 16;
/// Messages a call without offload, one datagram each.
const SLOTS_PLAIN: usize = 64;
/// How often an error report about earlier datagrams is set aside before it counts as an answer.
const REPORTS: u32 = 16;
/// How long a full queue is tried, unless the options say otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends datagrams to one endpoint.
pub struct UdpSender {
    endpoint: String,
    to: SocketAddr,
    sockets: Vec<Socket>,
    current: usize,
    ring: Option<SendRing>,
    engine: Engine,
    pub(super) limits: SplitLimits,
    sheet: Arc<Sheet>,
    facts: Vec<String>,
    /// The last reason why the limits are lower than probed.
    lowered: Option<String>,
    patience: Duration,
    /// Where a train is put together whose pieces could not go as they are.
    pub(super) together: Vec<u8>,
}

impl std::fmt::Debug for UdpSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpSender").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// What an error of a send call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Interrupted: again at once.
    Again,
    /// A queue is full: again a little later.
    Later,
    /// A report about an earlier datagram: set it aside, again.
    Report,
    /// This message is not possible with the offload.
    NoOffload,
    /// Longer than UDP allows.
    TooLong,
    /// Forbidden.
    Forbidden,
    /// For good.
    Fatal,
}

pub(super) fn answer(cause: &io::Error, piece: &Piece<'_>, most: usize) -> Answer {
    use io::ErrorKind as K;
    let (kind, code) = (cause.kind(), cause.raw_os_error());
    let offloaded = piece.segment.is_some();
    match (kind, code) {
        (K::Interrupted, _) => Answer::Again,
        (K::WouldBlock | K::OutOfMemory, _) | (_, Some(libc::ENOBUFS)) => Answer::Later,
        (K::PermissionDenied, _) => Answer::Forbidden,
        // No checksum offload, no GSO, too many segments, or a datagram above the MTU.
        (_, Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO | libc::EOPNOTSUPP)) if offloaded => {
            Answer::NoOffload
        }
        (_, Some(libc::EMSGSIZE)) if piece.bytes.len() > most => Answer::TooLong,
        // EMSGSIZE here: a router told of a smaller MTU; the next one goes as fragments.
        (K::ConnectionRefused | K::HostUnreachable | K::NetworkUnreachable, _)
        | (_, Some(libc::EMSGSIZE | libc::EPROTO | libc::ENOPROTOOPT | libc::EHOSTDOWN)) => {
            Answer::Report
        }
        _ => Answer::Fatal,
    }
}

impl UdpSender {
    /// Opens the sockets and chooses the engine. Keys of the URL win over `options`.
    ///
    /// # Errors
    /// [`UdpError`] with the endpoint and what to do.
    pub fn open(url: &UdpUrl, options: &SendOptions) -> Result<UdpSender, UdpError> {
        let opening = Opening::new(url)?;
        let to = opening.addr;
        if to.port() == 0 {
            return Err(opening.no_port());
        }
        let (engine, limits, note) = choose(&opening, url.engine)?;
        let asked = url.send_buffer.unwrap_or(options.send_buffer);
        let mut facts = vec![format!("sending to {to}")];
        let mut sockets = Vec::with_capacity(usize::from(url.source_ports));
        for i in 0..url.source_ports.max(1) {
            let socket = opening.socket()?;
            opening.prepare_to_send(&socket)?;
            let buffer = open::send_buffer(&socket, asked)
                .map_err(|e| opening.system("set the send buffer", e))?;
            // If it is missing, local drops are silent, as for every other program.
            let _ = sys::set_error_reports(socket.as_fd(), to.is_ipv6(), true);
            if options.share_port {
                opening.share_with_senders(&socket)?;
            }
            opening.bind_to_send(&socket, options.local)?;
            socket.connect(&to.into()).map_err(|cause| opening.no_way(cause))?;
            if i == 0 {
                facts.push(buffer.describe("send buffer", "net.core.wmem_max"));
            }
            sockets.push(socket);
        }
        let (calls, most) = match engine {
            Engine::Gro => ("sendmmsg with UDP GSO", limits.segments),
            Engine::Mmsg => ("sendmmsg", 1),
            Engine::Plain | Engine::Auto | Engine::Uring => ("one call per datagram", 1),
        };
        let name = if engine == Engine::Gro { "gso" } else { engine.name() };
        facts.push(format!("engine {name}: {calls}, up to {most} datagrams a train"));
        facts.extend(note);
        if sockets.len() > 1 {
            facts.push(format!("{} source ports", sockets.len()));
        }
        let ring = match engine {
            Engine::Gro => Some(SendRing::new(SLOTS)),
            Engine::Mmsg => Some(SendRing::new(SLOTS_PLAIN)),
            Engine::Plain | Engine::Auto | Engine::Uring => None,
        };
        Ok(UdpSender {
            endpoint: url.to_string(),
            to,
            sockets,
            current: 0,
            ring,
            engine,
            limits,
            sheet: Sheet::new(Transmit::catalogue()),
            facts,
            lowered: None,
            patience: options.patience,
            together: vec![],
        })
    }

    /// Sends `bytes` as datagrams of `stride` bytes, the last may be shorter; with `stride` 0 as one
    /// datagram. Any length; returns when the kernel has all of it, so the buffer may be reused.
    ///
    /// # Errors
    /// [`TransmitError`]; datagrams sent until then are counted, the others are counted as failed.
    pub fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), TransmitError> {
        self.send_trains(std::iter::once((bytes, stride)))
    }

    /// Sends all trains of a batch (a capture being replayed), datagram by datagram as they are.
    pub fn send_batch(&mut self, batch: &Batch) -> Result<(), TransmitError> {
        self.send_trains(batch.trains().map(|t| (t.bytes, t.stride)))
    }

    /// Sends some trains, each as bytes and stride.
    pub fn send_trains<'a>(
        &mut self,
        trains: impl Iterator<Item = (&'a [u8], usize)> + Clone,
    ) -> Result<(), TransmitError> {
        let mut todo = Pieces::new(trains, self.limits);
        let mut reports = 0;
        let mut stuck: Option<Instant> = None;
        loop {
            let cause = match self.call(todo.clone()) {
                Ok(0) => return Ok(()),
                Ok(messages) => {
                    let (mut packets, mut bytes) = (0, 0);
                    for piece in todo.by_ref().take(messages) {
                        packets += piece.packets as u64;
                        bytes += piece.bytes.len() as u64;
                    }
                    self.sent(packets, bytes);
                    (reports, stuck) = (0, None);
                    continue;
                }
                Err(cause) => cause,
            };
            let Some(piece) = todo.clone().next() else { return Ok(()) };
            let most = self.most();
            let failure = match answer(&cause, &piece, most) {
                Answer::Again => None,
                Answer::NoOffload => {
                    todo.limits = self.lower(&cause, &piece);
                    None
                }
                Answer::Later => {
                    self.sheet.add(Transmit::NoBuffer as usize, 1);
                    let since = stuck.get_or_insert_with(Instant::now).elapsed();
                    std::thread::yield_now();
                    let endpoint = self.endpoint.clone();
                    let seconds = self.patience.as_secs_f64();
                    (since > self.patience).then_some(TransmitError::Stuck {
                        endpoint,
                        seconds,
                        cause,
                    })
                }
                Answer::Report => {
                    self.set_aside();
                    reports += 1;
                    (reports > REPORTS)
                        .then(|| TransmitError::System { endpoint: self.endpoint.clone(), cause })
                }
                Answer::TooLong => {
                    let (endpoint, len) = (self.endpoint.clone(), piece.bytes.len());
                    Some(TransmitError::TooLong { endpoint, len, most })
                }
                Answer::Forbidden => {
                    let (endpoint, ip) = (self.endpoint.clone(), self.to.ip());
                    let advice = match ip.is_ipv6() || ip.is_multicast() {
                        true => "look for a firewall rule",
                        false => {
                            "a broadcast address needs ?broadcast=1, else a firewall forbids it"
                        }
                    };
                    Some(TransmitError::NotAllowed { endpoint, cause, advice })
                }
                Answer::Fatal => {
                    Some(TransmitError::System { endpoint: self.endpoint.clone(), cause })
                }
            };
            if let Some(failure) = failure {
                let unsent: u64 = todo.map(|p| p.packets as u64).sum();
                self.sheet.add(Transmit::Offered as usize, unsent);
                self.sheet.add(Transmit::Failed as usize, unsent);
                return Err(failure);
            }
        }
    }

    /// One call took these.
    #[inline]
    pub(super) fn sent(&self, packets: u64, bytes: u64) {
        self.sheet.add(Transmit::Offered as usize, packets);
        self.sheet.add(Transmit::Packets as usize, packets);
        self.sheet.add(Transmit::Bytes as usize, bytes);
        self.sheet.add(Transmit::Calls as usize, 1);
    }

    /// Takes reports about earlier datagrams out of the way and counts them.
    pub(super) fn set_aside(&self) {
        let n = sys::drain_errors(self.socket().as_fd()).max(1);
        self.sheet.add(Transmit::Reported as usize, n);
    }

    /// The socket of the source port in use.
    pub(super) fn socket(&self) -> &Socket {
        &self.sockets[self.current]
    }

    /// One send call; the number of messages that went.
    #[inline]
    fn call<'a>(&mut self, mut pieces: impl Iterator<Item = Piece<'a>>) -> io::Result<usize> {
        let socket = &self.sockets[self.current];
        match &mut self.ring {
            Some(ring) => ring.send(socket.as_fd(), pieces.map(|p| (p.bytes, p.segment))),
            None => match pieces.next() {
                Some(piece) => socket.send(piece.bytes).map(|_| 1),
                None => Ok(0),
            },
        }
    }

    /// Lowers the offload's limits after the kernel refused `piece`.
    fn lower(&mut self, cause: &io::Error, piece: &Piece<'_>) -> SplitLimits {
        let stride = piece.segment.map_or(0, usize::from);
        self.limits = match cause.raw_os_error() {
            Some(libc::EINVAL) if piece.packets > 64 => SplitLimits { segments: 64, ..self.limits },
            // EINVAL: kernels before 6.12 say so where the datagram is above the MTU.
            Some(libc::EMSGSIZE | libc::EINVAL) if stride > 1 => {
                SplitLimits { stride: stride - 1, ..self.limits }
            }
            _ => SplitLimits::PLAIN,
        };
        self.lowered = Some(format!("UDP GSO lowered: refused for {stride} B: {cause}"));
        self.limits
    }

    pub(super) fn most(&self) -> usize {
        if self.to.is_ipv4() { MAX_PAYLOAD_V4 } else { MAX_PAYLOAD_V6 }
    }

    /// Datagrams of `stride` bytes that go in one train, at least 1.
    pub fn train_limit(&self, stride: usize) -> usize {
        self.limits.per_message(stride)
    }

    /// Sends from source port number `index` (modulo their number) from now on.
    pub fn use_source_port(&mut self, index: usize) {
        self.current = index % self.sockets.len();
    }

    /// Local addresses, one per source port.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let addr = |s: &Socket| s.local_addr().ok().and_then(|a| a.as_socket());
        self.sockets.iter().filter_map(addr).collect()
    }

    /// Address that is sent to.
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Engine in use.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Datagrams sent so far.
    pub fn packets(&self) -> u64 {
        self.sheet.get(Transmit::Packets as usize)
    }

    /// Payload bytes sent so far.
    pub fn bytes(&self) -> u64 {
        self.sheet.get(Transmit::Bytes as usize)
    }

    /// This sender's counters.
    pub fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    /// For people, one fact a line.
    pub fn describe(&self) -> Vec<String> {
        self.facts.iter().chain(&self.lowered).cloned().collect()
    }
}

/// Result of a probe on loopback.
enum Probed {
    /// The kernel does it.
    Works,
    /// The kernel does not.
    Refused(io::Error),
    /// There is no loopback for the probe (a new network namespace): the first real send decides.
    Untold,
}

/// Finds engine and limits with a throw-away pair of sockets on loopback.
fn choose(
    opening: &Opening<'_>,
    asked: Engine,
) -> Result<(Engine, SplitLimits, Option<String>), UdpError> {
    if asked == Engine::Plain {
        return Ok((Engine::Plain, SplitLimits::PLAIN, None));
    }
    if asked == Engine::Uring {
        let cause = "it only receives; send with engine=gro";
        return Err(opening.engine("uring", io::Error::new(io::ErrorKind::Unsupported, cause)));
    }
    if let Probed::Refused(cause) = probe(1) {
        return match asked {
            Engine::Auto => {
                let note = format!("sendmmsg is not available: {cause}");
                Ok((Engine::Plain, SplitLimits::PLAIN, Some(note)))
            }
            _ => Err(opening.engine(asked.name(), cause)),
        };
    }
    if asked == Engine::Mmsg {
        return Ok((Engine::Mmsg, SplitLimits::PLAIN, None));
    }
    // 65,507 B is what IPv4 takes in one packet; IPv6 takes 20 B more and does not need them.
    let limits = |segments| SplitLimits { segments, bytes: MAX_PAYLOAD_V4, stride: MAX_PAYLOAD_V4 };
    let mut refused = io::Error::from(io::ErrorKind::Unsupported);
    for segments in [128, 64] {
        match probe(segments) {
            Probed::Works => return Ok((Engine::Gro, limits(segments), None)),
            Probed::Refused(cause) => refused = cause,
            // 64 is what every kernel with GSO takes.
            Probed::Untold => return Ok((Engine::Gro, limits(64), None)),
        }
    }
    match asked {
        Engine::Gro => Err(opening.engine("gro", refused)),
        _ => {
            let note = format!("UDP GSO is not available: {refused}");
            Ok((Engine::Mmsg, SplitLimits::PLAIN, Some(note)))
        }
    }
}

/// Sends one message of `segments` datagrams of 1 B to ourselves.
fn probe(segments: usize) -> Probed {
    let pair = |any: SocketAddr| -> io::Result<(Socket, Socket)> {
        let to = Socket::new(Domain::for_address(any), Type::DGRAM, None)?;
        to.bind(&any.into())?;
        let from = Socket::new(Domain::for_address(any), Type::DGRAM, None)?;
        from.connect(&to.local_addr()?)?;
        Ok((from, to))
    };
    let v4 = pair((Ipv4Addr::LOCALHOST, 0).into());
    let Ok((from, _to)) = v4.or_else(|_| pair((Ipv6Addr::LOCALHOST, 0).into())) else {
        return Probed::Untold;
    };
    let bytes = [0u8; 128];
    let message = (&bytes[..segments.min(128)], (segments > 1).then_some(1));
    match SendRing::new(1).send(from.as_fd(), std::iter::once(message)) {
        Ok(_) => Probed::Works,
        Err(cause) => match (cause.kind(), cause.raw_os_error()) {
            (io::ErrorKind::Unsupported, _)
            | (_, Some(libc::ENOSYS | libc::EINVAL | libc::EIO | libc::ENOPROTOOPT)) => {
                Probed::Refused(cause)
            }
            _ => Probed::Untold,
        },
    }
}

#[cfg(test)]
#[path = "transmit_tests.rs"]
mod tests;
