//! The destination `tcp`: packets on byte streams, one for each lane of the traffic, as a kind.
//!
//! Packets with a framing of their own ([`FrameRule`] of the format) go as they are (`framing=none`); others get their length in front. Waits
//! while the other side takes nothing, which is what back-pressure means. Refuses port 0, and packets that a prefix of 16 bits cannot tell.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fullcount_core::destination::{
    Departed, Destination, DestinationEndpoint, DestinationError, DestinationKind,
    DestinationOpening,
};
use fullcount_core::ledger::{Info, Sheet};
use fullcount_core::refusal::{Refusal, refuse};
use fullcount_core::source::UrlKey;
use fullcount_core::url::{self, SWITCH, Scheme, SchemeKey, authority};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::udp::url::{BUFFER, BUFFER_TAKES, UdpHost, host_and_port};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a call waits before it looks whether it is to go on.
const LOOK: Duration = Duration::from_millis(100);
/// Most packets that one call writes: the kernel takes 1024 pieces, two for each.
const PIECES: usize = 512;

fullcount_core::counters! {
    /// Lines of a `tcp://` destination.
    pub enum TcpSent {
        Packets "tcp.sent.packets" Packets Sum "tcp.sent" Note "packets written to a stream" "";
        Bytes "tcp.sent.bytes" Bytes Sum "tcp.sent" Note "bytes written, framing included" "";
        Calls "tcp.sent.calls" Times Sum "tcp.sent" Note "system calls that wrote something" "";
        Failed "tcp.sent.failed" Packets Sum "tcp.sent" Note
            "packets that were not written because the stream broke off or the other side took nothing for too long"
            "is the receiver still there?";
    }
}

/// What is in front of each packet.
#[derive(Debug, Clone, Copy)]
enum Prefix {
    None,
    U16(fn(u16) -> [u8; 2]),
    U32(fn(u32) -> [u8; 4]),
}

/// `tcp://ADDRESS:PORT?framing=…`, to send to.
#[derive(Debug, Clone)]
pub struct TcpToUrl {
    host: UdpHost,
    port: u16,
    framing: Option<Prefix>,
    send_buffer: Option<usize>,
    no_delay: bool,
}

impl Scheme for TcpToUrl {
    const NAME: &'static str = "tcp";
    const FORM: &'static str = "tcp://ADDRESS:PORT, for example tcp://127.0.0.1:9000";
    const KEYS: &'static [SchemeKey<TcpToUrl>] = &[
        SchemeKey::told(
            "framing",
            "one of none, u16be, u16le, u32be, u32le",
            "`u32be`; `none` for traffic that tells its lengths (`fragments`)",
            "what stands in front of each packet: its length as a whole number, or nothing",
            |u, v| {
                let names = [
                    ("none", Prefix::None),
                    ("u16be", Prefix::U16(u16::to_be_bytes)),
                    ("u16le", Prefix::U16(u16::to_le_bytes)),
                    ("u32be", Prefix::U32(u32::to_be_bytes)),
                    ("u32le", Prefix::U32(u32::to_le_bytes)),
                ];
                v.one_of(&names).map(|prefix| u.framing = Some(prefix))
            },
        ),
        SchemeKey::told(
            "send_buffer",
            BUFFER_TAKES,
            "the kernel adapts it (net.ipv4.tcp_wmem)",
            "send buffer of each connection",
            |u, v| v.size(BUFFER).map(|n| u.send_buffer = Some(n as usize)),
        ),
        SchemeKey::told(
            "no_delay",
            SWITCH,
            "1",
            "short packets leave at once, not with the next ones",
            |u, v| v.switch().map(|on| u.no_delay = on),
        ),
    ];

    fn at(place: &str) -> Result<TcpToUrl, String> {
        let (host, port) = host_and_port(authority::<TcpToUrl>(place)?)?;
        if port == 0 {
            return Err("port 0 cannot be sent to".into());
        }
        Ok(TcpToUrl { host, port, framing: None, send_buffer: None, no_delay: true })
    }
}

/// `tcp://ADDRESS:PORT`
pub struct TcpDestination;

impl DestinationKind for TcpDestination {
    fn name(&self) -> &'static str {
        TcpToUrl::NAME
    }

    fn about(&self) -> &'static str {
        "TCP connections, one for each source port or lane of the traffic"
    }

    fn form(&self) -> &'static str {
        TcpToUrl::FORM
    }

    fn example(&self) -> &'static str {
        "tcp://127.0.0.1:9000"
    }

    fn keys(&self) -> Vec<UrlKey> {
        UrlKey::of::<TcpToUrl>()
    }

    fn counters(&self) -> Vec<(&'static str, Vec<Info>)> {
        vec![("sending: tcp", TcpSent::catalogue())]
    }

    fn plan(&self, text: &str) -> Result<Box<dyn DestinationEndpoint>, Refusal> {
        let url: TcpToUrl = url::read(text).map_err(|e| refuse("to", text, e.to_string()))?;
        Ok(Box::new(url))
    }
}

impl TcpToUrl {
    fn connect(&self, local: u16, opening: &DestinationOpening<'_>) -> io::Result<TcpSender> {
        let to = self.host.resolve(self.port)?;
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes)?;
        }
        if local > 0 {
            socket.set_reuse_address(true)?;
            let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            let mut any: std::net::SocketAddr = any.parse().map_err(io::Error::other)?;
            any.set_port(local);
            socket.bind(&any.into())?;
        }
        socket.connect_timeout(&to.into(), CONNECT)?;
        let stream = TcpStream::from(socket);
        SockRef::from(&stream).set_tcp_nodelay(self.no_delay)?;
        // Short, so that a wish to end is seen.
        stream.set_write_timeout(Some(LOOK))?;
        let usual = if opening.framed { Prefix::None } else { Prefix::U32(u32::to_be_bytes) };
        let (place, framing) = (self.label(), self.framing.unwrap_or(usual));
        let sheet = Sheet::new(TcpSent::catalogue());
        let (patience, wish) = (opening.patience, opening.wish.cloned());
        let (heads, broken) = (Vec::new(), None);
        Ok(TcpSender { stream, place, framing, heads, sheet, patience, wish, broken })
    }
}

impl DestinationEndpoint for TcpToUrl {
    fn label(&self) -> String {
        match &self.host {
            UdpHost::Addr(ip) => format!("tcp://{}", std::net::SocketAddr::new(*ip, self.port)),
            UdpHost::Name(name) => format!("tcp://{name}:{}", self.port),
        }
    }

    fn ipv6(&self) -> bool {
        self.host.resolve(self.port).is_ok_and(|a| a.is_ipv6())
    }

    fn open(
        &self,
        opening: &DestinationOpening<'_>,
    ) -> Result<Vec<Box<dyn Destination>>, DestinationError> {
        let ports = if opening.source_ports.is_empty() { &[0] } else { opening.source_ports };
        let one = |&port: &u16| match self.connect(port, opening) {
            Ok(sender) => Ok(Box::new(sender) as Box<dyn Destination>),
            Err(e) => Err(DestinationError::of(format!("{}: connect: {e}", self.label()))),
        };
        ports.iter().map(one).collect()
    }
}

/// One stream.
struct TcpSender {
    stream: TcpStream,
    place: String,
    framing: Prefix,
    /// Lengths in front of the packets of a call.
    heads: Vec<[u8; 4]>,
    sheet: Arc<Sheet>,
    /// How long one that takes nothing is waited for; `None`: for ever.
    patience: Option<Duration>,
    /// Set when the sender is asked to end.
    wish: Option<Arc<AtomicBool>>,
    /// Why nothing more is sent: the other side would not know where a packet begins.
    broken: Option<String>,
}

impl TcpSender {
    fn head(prefix: Prefix, len: usize) -> io::Result<([u8; 4], usize)> {
        let long = |_| io::Error::other(format!("a packet of {len} B is too long for its prefix"));
        let mut head = [0; 4];
        let used = match prefix {
            Prefix::None => 0,
            Prefix::U16(bytes) => {
                head[..2].copy_from_slice(&bytes(u16::try_from(len).map_err(long)?));
                2
            }
            Prefix::U32(bytes) => {
                head = bytes(u32::try_from(len).map_err(long)?);
                4
            }
        };
        Ok((head, used))
    }

    /// Writes all of it, however often the kernel takes a part only.
    fn write_all(&mut self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut slices, 0);
        let mut waited = Duration::ZERO;
        while !slices.is_empty() {
            match self.stream.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.sheet.add(TcpSent::Calls as usize, 1);
                    self.sheet.add(TcpSent::Bytes as usize, n as u64);
                    IoSlice::advance_slices(&mut slices, n);
                    waited = Duration::ZERO;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    waited += LOOK;
                    if self.wish.as_ref().is_some_and(|wish| wish.load(Relaxed)) {
                        return Err(io::Error::other(
                            "asked to end while the other side took nothing",
                        ));
                    }
                    if self.patience.is_some_and(|patience| waited >= patience) {
                        return Err(io::Error::other(format!(
                            "the other side took nothing for {waited:?}"
                        )));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn packets(&mut self, packets: &[&[u8]]) -> io::Result<()> {
        let prefix = self.framing;
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        let mut used = 0;
        for packet in packets {
            let (head, len) = TcpSender::head(prefix, packet.len())?;
            used = len;
            heads.push(head);
        }
        let pairs = heads.iter().zip(packets);
        let mut slices: Vec<IoSlice<'_>> = pairs
            .flat_map(|(head, packet)| [IoSlice::new(&head[..used]), IoSlice::new(packet)])
            .collect();
        let outcome = self.write_all(&mut slices);
        self.heads = heads;
        outcome
    }
}

impl Destination for TcpSender {
    fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), DestinationError> {
        let each = if stride == 0 { bytes.len().max(1) } else { stride };
        let mut all: Vec<&[u8]> = bytes.chunks(each).collect();
        if all.is_empty() {
            all.push(&[]);
        }
        let (mut done, count) = (0, all.len());
        let failed = |sheet: &Sheet, done: usize, words: &str, place: &str| {
            sheet.add(TcpSent::Failed as usize, (count - done) as u64);
            DestinationError::of(format!("{place}: {words}"))
        };
        if let Some(words) = &self.broken {
            return Err(failed(&self.sheet, 0, words, &self.place));
        }
        // Nothing in front of packets that follow each other in memory: one piece.
        if matches!(self.framing, Prefix::None) {
            all = vec![bytes];
        }
        for packets in all.chunks(PIECES) {
            if let Err(e) = self.packets(packets) {
                self.broken = Some(e.to_string());
                return Err(failed(&self.sheet, done, &e.to_string(), &self.place));
            }
            done += packets.len();
        }
        self.sheet.add(TcpSent::Packets as usize, count as u64);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), DestinationError> {
        let shut = self.stream.shutdown(std::net::Shutdown::Write);
        match (shut, &self.broken) {
            (Err(e), None) => Err(DestinationError::of(format!("{}: close: {e}", self.place))),
            _ => Ok(()),
        }
    }

    fn departed(&self) -> Departed {
        let get = |line: TcpSent| self.sheet.get(line as usize);
        Departed {
            datagrams: get(TcpSent::Packets),
            failed: get(TcpSent::Failed),
            calls: get(TcpSent::Calls),
        }
    }

    fn lossless(&self) -> bool {
        true
    }

    fn sheet(&self) -> Arc<Sheet> {
        self.sheet.clone()
    }

    fn describe(&self) -> Vec<String> {
        let local = self.stream.local_addr().map_or_else(|e| e.to_string(), |a| a.to_string());
        vec![format!("{} connected from {local}", self.place)]
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn packets_have_their_length_in_front_unless_they_tell_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = |keys: &str| format!("tcp://{}{keys}", listener.local_addr().unwrap());
        let framed = std::cell::Cell::new(false);
        let sent = |keys: &str, bytes: &[u8], stride| {
            let plan = TcpDestination.plan(&url(keys)).unwrap();
            let opening =
                DestinationOpening { framed: framed.get(), ..DestinationOpening::default() };
            let mut lanes = plan.open(&opening).unwrap();
            lanes[0].send(bytes, stride).unwrap();
            lanes[0].finish().unwrap();
            let mut came = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut came).unwrap();
            (came, lanes[0].departed().datagrams)
        };
        assert_eq!(sent("", b"abcde", 2), (b"\0\0\0\x02ab\0\0\0\x02cd\0\0\0\x01e".to_vec(), 3));
        assert_eq!(sent("?framing=u16le", b"", 0), (vec![0, 0], 1));
        assert_eq!(sent("?framing=none", b"abcd", 2), (b"abcd".to_vec(), 2));
        framed.set(true);
        assert_eq!(sent("", b"GZabGZcd", 4), (b"GZabGZcd".to_vec(), 2));
        let (many, count) = sent("?framing=u32le", &[7; 3000], 1);
        assert_eq!((many.len(), count), (15_000, 3000));
        assert!(TcpDestination.plan("tcp://127.0.0.1:0").is_err());
    }

    #[test]
    fn a_stream_that_broke_is_not_written_to_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", listener.local_addr().unwrap());
        let mut lanes =
            TcpDestination.plan(&url).unwrap().open(&DestinationOpening::default()).unwrap();
        drop(listener.accept().unwrap());
        let packet = vec![1; 60_000];
        let mut tries = 0;
        while lanes[0].send(&packet, 0).is_ok() {
            tries += 1;
            assert!(tries < 1000);
        }
        let failed = lanes[0].departed().failed;
        assert!(lanes[0].send(&packet, 0).is_err());
        assert_eq!(lanes[0].departed().failed, failed + 1);
    }
}
