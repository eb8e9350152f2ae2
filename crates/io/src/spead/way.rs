//! Ways out of a send stream: UDP sockets, a TCP connection, a capture, memory.
//!
//! Datagrams of one heap are as long as one another but for the last, so they leave in trains that the kernel or the card cuts
//! (segmentation offload). On TCP hundreds of packets leave in one call, which gathers headers and payloads from where they are: the
//! payload is copied once, into the kernel. Source: `docs/formats/spead.md`, section 9.

use std::fs::File;
use std::io::{self, BufWriter, IoSlice, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use fullcount_core::frame::emit::Route;
use socket2::{Domain, Socket, Type};

use super::outlet::{OutletError, TransportCount};
use super::train::HeapTrain;
use crate::pcap::{CaptureFormat, Writer};
use crate::sys;
use crate::udp::UdpSender;
use crate::udp::url::UdpUrl;
use crate::wall::wall_ns;

/// Slices of one `writev`: the system's limit.
const SLICES: usize = 1024;
/// Bytes of a train that is put together: two kernel messages, which stay in the second-level cache.
const TRAIN: usize = 128 << 10;
/// Bytes of a message that leaves with a call of its own. Of shorter ones `sendmmsg` takes several.
const WORTH: usize = 16 << 10;
/// Nothing of a connection was taken for so long: it is dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where packets go.
pub(super) enum Way {
    /// A socket for each substream.
    Udp(Vec<UdpSender>),
    /// A connection.
    Tcp(TcpWay),
    /// A file.
    Capture(Box<CaptureWay>),
    /// Datagrams in memory, by substream.
    Memory(Vec<(usize, Vec<u8>)>),
}

impl Way {
    /// Sends datagrams of `stride` bytes, the last may be shorter.
    pub fn train(
        &mut self,
        substream: usize,
        bytes: &[u8],
        stride: usize,
    ) -> Result<(), OutletError> {
        match self {
            Way::Udp(senders) => Ok(senders[substream].send(bytes, stride)?),
            Way::Tcp(tcp) => tcp.write(bytes),
            Way::Capture(capture) => {
                bytes.chunks(stride.max(1)).try_for_each(|packet| capture.packet(packet))
            }
            Way::Memory(all) => {
                let each = bytes.chunks(stride.max(1));
                all.extend(each.map(|packet| (substream, packet.to_vec())));
                Ok(())
            }
        }
    }

    /// Sends the first `many` packets of a train.
    pub fn send(&mut self, train: &HeapTrain, many: usize) -> Result<(), OutletError> {
        match self {
            Way::Udp(senders) => {
                let sender = &mut senders[train.substream];
                Ok(sender.send_pieces(train.pieces(many), train.stride)?)
            }
            Way::Tcp(tcp) => tcp.gather(train.pieces(many)),
            Way::Capture(capture) => {
                train.each(many).try_for_each(|packet| capture.packet(&together(packet)))
            }
            Way::Memory(all) => {
                let packets = train.each(many).map(|packet| (train.substream, together(packet)));
                all.extend(packets);
                Ok(())
            }
        }
    }

    /// Packets of `stride` bytes that leave in one train.
    pub fn packets_a_train(&self, substream: usize, stride: usize, gathers: bool) -> usize {
        let stride = stride.max(1);
        let message = match self {
            Way::Udp(senders) => senders[substream].train_limit(stride),
            Way::Tcp(_) | Way::Capture(_) | Way::Memory(_) => 1,
        };
        // One message is one call if it gathers and is worth it.
        match gathers && message * stride >= WORTH {
            true => message,
            false => (TRAIN / stride / message * message).max(message),
        }
    }

    /// What the system has taken.
    pub fn transport(&self) -> TransportCount {
        match self {
            Way::Udp(senders) => TransportCount {
                bytes: senders.iter().map(UdpSender::bytes).sum(),
                packets: senders.iter().map(UdpSender::packets).sum(),
                calls: senders
                    .iter()
                    .map(|s| s.sheet().get(crate::udp::Transmit::Calls as usize))
                    .sum(),
                ..TransportCount::default()
            },
            Way::Tcp(tcp) => tcp.transport(),
            Way::Capture(capture) => TransportCount {
                bytes: capture.bytes,
                packets: capture.frames(),
                ..TransportCount::default()
            },
            Way::Memory(all) => TransportCount {
                bytes: all.iter().map(|(_, packet)| packet.len() as u64).sum(),
                packets: all.len() as u64,
                ..TransportCount::default()
            },
        }
    }
}

/// A packet in one piece.
fn together<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    pieces.collect::<Vec<_>>().concat()
}

/// A connection.
pub(super) struct TcpWay {
    stream: TcpStream,
    to: SocketAddr,
    bytes: u64,
    calls: u64,
}

impl TcpWay {
    /// Connects within 10 s, with this congestion control in place of the system's.
    pub fn connect(url: &UdpUrl, congestion: Option<&str>) -> Result<TcpWay, OutletError> {
        let label = format!("spead+tcp://{}:{}", place(url), url.port);
        let failed =
            |cause| OutletError::Tcp { endpoint: label.clone(), what: "connecting", cause };
        let to = url.resolve().map_err(failed)?;
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).map_err(failed)?;
        if let Some(bytes) = url.send_buffer {
            crate::udp::send_buffer(&socket, bytes).map_err(failed)?;
        }
        if let Some(name) = congestion {
            sys::set_congestion(socket.as_fd(), name).map_err(|cause| OutletError::Tcp {
                endpoint: label.clone(),
                what: "choosing the congestion control of congestion",
                cause,
            })?;
        }
        if let Some(local) = url.bind {
            let bound = socket.bind(&SocketAddr::new(local, 0).into());
            bound.map_err(|cause| OutletError::Tcp {
                endpoint: label.clone(),
                what: "taking the local address of bind",
                cause,
            })?;
        }
        socket.connect_timeout(&to.into(), Duration::from_secs(10)).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        // The end of a heap must not wait for an acknowledgement; trains are large anyway.
        socket.set_tcp_nodelay(true).map_err(failed)?;
        Ok(TcpWay { stream: socket.into(), to, bytes: 0, calls: 0 })
    }

    fn failed(&self, cause: io::Error) -> OutletError {
        OutletError::Tcp { endpoint: format!("spead+tcp://{}", self.to), what: "sending", cause }
    }

    /// Writes these pieces one behind the other.
    fn gather<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<(), OutletError> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut filled = 0;
        for piece in pieces {
            slices[filled] = IoSlice::new(piece);
            filled += 1;
            if filled == SLICES {
                self.write_all(&mut slices[..filled])?;
                filled = 0;
            }
        }
        self.write_all(&mut slices[..filled])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), OutletError> {
        self.write_all(&mut [IoSlice::new(bytes)])
    }

    fn write_all(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<(), OutletError> {
        let mut stuck: Option<Instant> = None;
        while !slices.is_empty() {
            match self.stream.write_vectored(slices) {
                Ok(0) => return Err(self.failed(io::ErrorKind::WriteZero.into())),
                Ok(many) => {
                    self.calls += 1;
                    self.bytes += many as u64;
                    stuck = None;
                    IoSlice::advance_slices(&mut slices, many);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let since = *stuck.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        let why = "the receiver took nothing for 30 s";
                        return Err(self.failed(io::Error::new(io::ErrorKind::TimedOut, why)));
                    }
                    let wait = Duration::from_millis(100);
                    crate::sys::wait_ready(&[], Some(self.stream.as_fd()), wait);
                }
                Err(e) => return Err(self.failed(e)),
            }
        }
        Ok(())
    }

    /// No more bytes: the receiver reads the end of the stream.
    pub fn finish(&mut self) {
        // A connection that is gone has ended already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Waits until all bytes have left this host, at most 10 s: before that the kernel's count is not the whole.
    pub fn settle(&self) {
        #[cfg(target_os = "linux")]
        for _ in 0..10_000 {
            let left = crate::sys::tcp_counts(self.stream.as_fd());
            if left.is_ok_and(|counts| counts.bytes - counts.bytes_again < self.bytes) {
                std::thread::sleep(Duration::from_millis(1));
            } else {
                return;
            }
        }
    }

    fn transport(&self) -> TransportCount {
        let own =
            TransportCount { bytes: self.bytes, calls: self.calls, ..TransportCount::default() };
        #[cfg(target_os = "linux")]
        if let Ok(kernel) = crate::sys::tcp_counts(self.stream.as_fd()) {
            return TransportCount {
                packets: kernel.segments,
                sent_bytes: Some(kernel.bytes),
                again_bytes: Some(kernel.bytes_again),
                ..own
            };
        }
        own
    }

    pub fn describe(&self) -> String {
        format!("sending to spead+tcp://{}", self.to)
    }
}

/// The host as it stands in a URL.
fn place(url: &UdpUrl) -> String {
    let text = url.to_string();
    let text = text.trim_start_matches("udp://");
    text.rsplit_once(':').map_or(text, |(host, _)| host).to_owned()
}

/// A capture that is written.
pub(super) struct CaptureWay {
    writer: Option<Writer<BufWriter<File>>>,
    path: String,
    route: Route,
    bytes: u64,
    /// Frames of a file that is closed.
    frames: u64,
}

impl CaptureWay {
    /// A new file; an existing one is refused. Its datagrams go from 127.0.0.1:8887 to 127.0.0.1:8888.
    pub fn create(path: &Path) -> Result<CaptureWay, OutletError> {
        let named = path.display().to_string();
        let failed = |cause: String| OutletError::Capture { path: named.clone(), cause };
        let file = File::options().write(true).create_new(true).open(path);
        let file = file.map_err(|e| failed(e.to_string()))?;
        let writer = Writer::new(BufWriter::new(file), CaptureFormat::from_path(path), None);
        let writer = writer.map_err(|e| failed(e.to_string()))?;
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let route = Route { source: at(8887), destination: at(8888), vlan: None };
        Ok(CaptureWay { writer: Some(writer), path: named, route, bytes: 0, frames: 0 })
    }

    fn packet(&mut self, packet: &[u8]) -> Result<(), OutletError> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        self.bytes += packet.len() as u64;
        let written = writer.udp(wall_ns(), &self.route, packet);
        written.map_err(|e| OutletError::Capture { path: self.path.clone(), cause: e.to_string() })
    }

    fn frames(&self) -> u64 {
        self.writer.as_ref().map_or(self.frames, Writer::frames)
    }

    /// Writes what waits.
    pub fn finish(&mut self) -> Result<(), OutletError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        self.frames = writer.frames();
        let finished = writer.finish().map(drop);
        finished.map_err(|e| OutletError::Capture { path: self.path.clone(), cause: e.to_string() })
    }
}
