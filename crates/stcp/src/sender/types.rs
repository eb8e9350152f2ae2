//! What goes into a sender and comes out of it.

use crate::wire::TcpFlags;

/// How full the buffer is: a level, for a source that can be slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pressure {
    /// Go on.
    Ready,
    /// Above three quarters.
    Warning,
    /// Stop: the next fragments may be refused.
    Busy,
    /// Not connected any more.
    Error,
}

/// Why a connection is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Asked for here.
    LocalAbort,
    /// Nobody answered ARP.
    HostUnreachable,
    /// Nobody answered the SYN.
    ConnectTimeout,
    /// No listener.
    Refused,
    /// RST from the peer.
    ResetByPeer,
    /// No progress for too long.
    SendTimeout,
    /// No answer to probes.
    PeerDead,
    /// FIN from the peer.
    PeerClosed,
    /// Data from the peer.
    PeerSentData,
    /// An MSS of 0.
    PeerNonsense,
    /// ICMP: no such port or protocol.
    IcmpError,
    /// The state contradicts itself: ended rather than sending wrong bytes.
    Internal,
}

/// What the application is told; each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The connection is there.
    Connected,
    /// The peer's MSS is below 536 bytes.
    SmallMss,
    /// The same bytes were sent again for the third time: look for the neighbour again.
    Slow,
    /// Busy was raised.
    Xoff,
    /// Ready again.
    Xon,
    /// Everything before this offset has arrived.
    Acked(u64),
    /// The connection is gone; the peer has the bytes up to some offset.
    Aborted(Ended),
}

/// A fragment is in the send buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// Offset behind its last byte.
    pub end: u64,
    /// How full the buffer is with it.
    pub pressure: Pressure,
}

/// Why a fragment is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitError {
    /// No room now; the caller keeps it.
    WouldBlock,
    /// Longer than the whole buffer.
    TooLong,
    /// No connection, and none being opened.
    NotConnected,
}

impl core::fmt::Display for SubmitError {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str(match self {
            SubmitError::WouldBlock => "the send buffer is full",
            SubmitError::TooLong => "the fragment is longer than the send buffer",
            SubmitError::NotConnected => "there is no connection",
        })
    }
}

impl core::error::Error for SubmitError {}

/// Why a connection cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// It is open, or being opened.
    AlreadyOpen,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("already open")
    }
}

impl core::error::Error for OpenError {}

/// Why a sender cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MakeError {
    /// A setting.
    Settings(crate::settings::SettingsError),
    /// The memory: what is wrong with it.
    Memory(&'static str),
}

impl core::fmt::Display for MakeError {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            MakeError::Settings(e) => e.fmt(to),
            MakeError::Memory(what) => to.write_str(what),
        }
    }
}

impl core::error::Error for MakeError {}

/// What a segment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// SYN, ACK or RST.
    Control,
    /// Payload.
    Data,
    /// One byte beyond a closed window.
    Probe,
    /// One byte, of any value, that was acknowledged long ago.
    KeepAlive,
}

/// A segment to be sent; with segmentation offload several of `mss` bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outbound {
    /// What for.
    pub purpose: Purpose,
    /// Sequence number.
    pub seq: u32,
    /// ACK field; 0 without the bit.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window field.
    pub window: u16,
    /// MSS and window scale, of a SYN.
    pub options: Option<(u16, u8)>,
    /// Offset of the payload in the stream.
    pub offset: u64,
    /// Bytes of payload.
    pub length: u32,
    /// Greatest payload of one segment.
    pub mss: u16,
}

/// An ACK or RST that waits to be sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Control {
    pub seq: u32,
    pub ack: u32,
    pub flags: TcpFlags,
}

/// So many a second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Throttle {
    second: u32,
    used: u16,
}

impl Throttle {
    /// One more is within the limit.
    pub fn allow(&mut self, now_ns: u64, limit: u16) -> bool {
        // The second of the virtual clock; it comes back after 136 years.
        let second = (now_ns / 1_000_000_000) as u32;
        if second != self.second {
            (self.second, self.used) = (second, 0);
        }
        self.used = self.used.saturating_add(1);
        self.used <= limit
    }
}

/// What a sender is like at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Its state.
    pub state: crate::StcpState,
    /// Offset of the oldest byte that is not acknowledged.
    pub una: u64,
    /// Of the next to be sent.
    pub nxt: u64,
    /// Behind the last ever sent.
    pub max: u64,
    /// Behind the last submitted.
    pub end: u64,
    /// Bytes that the peer's window allows from `una` on.
    pub window: u64,
    /// The greatest it ever was, bytes.
    pub max_wnd: u32,
    /// Bytes that congestion control allows from `una` on.
    pub cwnd: u32,
    /// Halvings of `simplified`.
    pub shift: u8,
    /// Greatest payload of a segment.
    pub mss: u16,
    /// Round trip.
    pub rtt: crate::rtt::RoundTrip,
    /// Retransmission time, ns.
    pub rto_ns: u64,
}
