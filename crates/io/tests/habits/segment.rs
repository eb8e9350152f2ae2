//! Frames that the tests of the Linux receiver's habits send and read: Ethernet, ARP, IPv4 and TCP.
//!
//! This encoder shares no code with the one of `fullcount_stcp`. Of what comes no checksum is looked at: a veth pair leaves
//! them incomplete. Refuses nothing but what is not for its address. Sources: RFC 826, 791 and 9293;
//! docs/formats/simplified-tcp.md sections 4 and 21.3.

/// Neither the sender's kernel nor the receiver's has these addresses.
pub const OWN: [u8; 4] = [10, 77, 0, 9];
pub const OWN_MAC: [u8; 6] = [2, 0, 10, 77, 0, 9];
pub const PEER: [u8; 4] = [10, 77, 0, 2];

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

/// A segment of TCP; ports and numbers as they stand in its header.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment {
    pub from: u16,
    pub to: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Segment { from, to, seq, ack, flags, window, options, payload } = self;
        let bytes = payload.len();
        write!(f, "{from}>{to} flags {flags:#x} {seq}+{bytes} ack {ack} window {window}")?;
        write!(f, " options {options:x?}")
    }
}

/// The internet checksum, RFC 1071; an odd byte at the end has a zero behind it.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |two: &[u8]| u64::from(two[0]) << 8 | u64::from(two.get(1).copied().unwrap_or(0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The TCP checksum of a frame: as it should be, another one, or left to the kernel, with the sum of the pseudo header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Right,
    Wrong,
    Left,
}

impl Segment {
    /// The Ethernet frame from our address to the peer's.
    pub fn frame(&self, peer: [u8; 6], kind: Checksum) -> Vec<u8> {
        let header = 20 + self.options.len().next_multiple_of(4);
        let mut tcp = [self.from.to_be_bytes(), self.to.to_be_bytes()].concat();
        tcp.extend([self.seq.to_be_bytes(), self.ack.to_be_bytes()].concat());
        tcp.extend([(header as u8 / 4) << 4, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&self.options);
        tcp.resize(header, 0);
        tcp.extend(&self.payload);
        let pseudo = [&OWN[..], &PEER, &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
        let sum = match kind {
            Checksum::Right => checksum(&[pseudo, tcp.clone()].concat()),
            Checksum::Wrong => checksum(&[pseudo, tcp.clone()].concat()) ^ 1,
            Checksum::Left => !checksum(&pseudo),
        };
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let total = (20 + tcp.len()) as u16;
        let mut ip = vec![0x45, 0];
        ip.extend(total.to_be_bytes());
        // Identification 0, do not fragment, 64 hops, TCP, room for the checksum.
        ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        ip.extend([OWN, PEER].concat());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&peer[..], &OWN_MAC, &[8, 0], &ip, &tcp].concat()
    }

    /// The segment in a frame from the peer to our address.
    pub fn read(frame: &[u8]) -> Option<Segment> {
        let ip = frame.get(14..).filter(|ip| ip.len() >= 40 && frame[12..14] == [8, 0])?;
        if ip[9] != 6 || ip[12..16] != PEER || ip[16..20] != OWN {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let tcp = ip.get(usize::from(ip[0] & 15) * 4..total)?;
        let two = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let four = |at: usize| u32::from(two(at)) << 16 | u32::from(two(at + 2));
        let header = usize::from(tcp[12] >> 4) * 4;
        Some(Segment {
            from: two(0),
            to: two(2),
            seq: four(4),
            ack: four(8),
            flags: tcp[13],
            window: two(14),
            options: tcp[20..header].to_vec(),
            payload: tcp[header..].to_vec(),
        })
    }
}

/// A frame with ARP from our address about the peer's: 1 asks, 2 answers.
pub fn arp(operation: u8, peer: [u8; 6]) -> Vec<u8> {
    let to = if operation == 1 { [0xff; 6] } else { peer };
    let about = [0, 1, 8, 0, 6, 4, 0, operation];
    [&to[..], &OWN_MAC, &[8, 6], &about, &OWN_MAC, &OWN, &peer, &PEER].concat()
}

/// The operation of a frame with ARP from the peer about our address, and the peer's MAC address.
pub fn read_arp(frame: &[u8]) -> Option<(u8, [u8; 6])> {
    let arp = frame.get(14..42).filter(|_| frame[12..14] == [8, 6])?;
    let ours = arp[14..18] == PEER && arp[24..28] == OWN;
    ours.then(|| (arp[7], arp[8..14].try_into().unwrap()))
}
