//! Headers of TCP: ours are of 20 bytes, 28 with the options of a SYN; of a peer's options MSS and window scale are read.

use super::WireError;

/// Control bits of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data.
    pub const FIN: TcpFlags = TcpFlags(1);
    /// First number.
    pub const SYN: TcpFlags = TcpFlags(2);
    /// Connection is gone.
    pub const RST: TcpFlags = TcpFlags(4);
    /// Hand it to the reader.
    pub const PSH: TcpFlags = TcpFlags(8);
    /// The ACK field counts.
    pub const ACK: TcpFlags = TcpFlags(16);

    /// Both.
    #[must_use]
    pub const fn and(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }

    /// All of `other` are set.
    pub const fn has(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A segment that arrived, without its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inbound {
    /// Its sequence number.
    pub seq: u32,
    /// Its ACK field.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window field, as it stands there.
    pub window: u16,
    /// Bytes of payload.
    pub length: u32,
    /// Option MSS, of a SYN.
    pub mss: Option<u16>,
    /// Option window scale, of a SYN.
    pub scale: Option<u8>,
}

impl Inbound {
    /// Sequence numbers that it takes.
    pub const fn span(&self) -> u32 {
        self.length + self.flags.has(TcpFlags::SYN) as u32 + self.flags.has(TcpFlags::FIN) as u32
    }
}

/// Reads a segment: its ports (source, target) and fields. The checksum is the caller's business.
///
/// # Errors
/// Short, or a data offset that cannot be.
pub fn read(segment: &[u8]) -> Result<((u16, u16), Inbound), WireError> {
    let (header, _) = segment.split_first_chunk::<20>().ok_or(WireError::Short)?;
    let two = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let four = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let length = usize::from(header[12] >> 4) * 4;
    if length < 20 || length > segment.len() {
        return Err(WireError::DataOffset);
    }
    let flags = TcpFlags(header[13]);
    let mut inbound = Inbound {
        seq: four(4),
        ack: four(8),
        flags,
        window: two(14),
        length: (segment.len() - length) as u32,
        mss: None,
        scale: None,
    };
    if flags.has(TcpFlags::SYN) {
        options(&segment[20..length], &mut inbound);
    }
    Ok(((two(0), two(2)), inbound))
}

/// An option that goes wrong ends the walk; what was read before it counts.
fn options(mut rest: &[u8], inbound: &mut Inbound) {
    while let [kind, tail @ ..] = rest {
        match (kind, tail) {
            (0, _) => return,
            (1, _) => rest = tail,
            (_, [length, ..]) if *length >= 2 && usize::from(*length) <= rest.len() => {
                match &rest[..usize::from(*length)] {
                    [2, 4, high, low] => inbound.mss = Some(u16::from_be_bytes([*high, *low])),
                    [3, 3, shift] => inbound.scale = Some(*shift),
                    _ => {}
                }
                rest = &rest[usize::from(*length)..];
            }
            _ => return,
        }
    }
}

/// Writes a header with checksum 0; its length comes back: 28 bytes with the options of a SYN (MSS, window scale), else 20.
pub fn write(to: &mut [u8; 28], ports: (u16, u16), segment: &crate::sender::Outbound) -> usize {
    to[0..2].copy_from_slice(&ports.0.to_be_bytes());
    to[2..4].copy_from_slice(&ports.1.to_be_bytes());
    to[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    to[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    to[13] = segment.flags.0;
    to[14..16].copy_from_slice(&segment.window.to_be_bytes());
    to[16..20].fill(0);
    match segment.options {
        None => {
            to[12] = 5 << 4;
            20
        }
        Some((mss, scale)) => {
            to[12] = 7 << 4;
            let mss = mss.to_be_bytes();
            to[20..28].copy_from_slice(&[2, 4, mss[0], mss[1], 1, 3, 3, scale]);
            28
        }
    }
}
