//! What one UDP datagram costs on a link of known speed, byte by byte and in time.
//!
//! All amounts are integers; only shares and rates are `f64`, in addition to the two integers from which they
//! are computed. A fragment's part of the datagram is a multiple of 8 B except the last one. With VLAN tags a
//! frame grows by 4 B each and is still padded to 64 B (a bridge may pad a tagged frame to 68 B; that is not
//! counted). Refuses: see [`LinkError`]. Sources: IEEE 802.3 clauses 3 and 4, IEEE 802.1Q annex G, RFC 791,
//! RFC 8200 section 4.5.

/// Preamble and start of frame, bytes.
pub const PREAMBLE: u64 = 8;
/// Gap between two frames, bytes of link time.
pub const GAP: u64 = 12;
/// Destination, source and type of a frame, bytes.
pub const ETHERNET: u64 = 14;
/// Check sequence at the end of a frame, bytes.
pub const CHECK: u64 = 4;
/// One VLAN tag, bytes.
pub const VLAN_TAG: u64 = 4;
/// Smallest frame with header and check sequence, bytes.
pub const SMALLEST_FRAME: u64 = 64;
/// UDP header, bytes.
pub const UDP: u64 = 8;

/// Why a link or a datagram cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum LinkError {
    /// No such speed.
    #[error("speed of {0} bit/s is outside 1 bit/s to 1000000 Gbit/s")]
    Speed(u64),
    /// Below what IP must be able to carry, or above what its length field can say.
    #[error("MTU of {mtu} B is outside {least} to 65535 B ({family})")]
    Mtu { mtu: usize, least: usize, family: &'static str },
    /// More tags than Ethernet has use for.
    #[error("{0} VLAN tags: 0, 1 (802.1Q) or 2 (802.1ad) are possible")]
    Tags(u8),
    /// Longer than a UDP datagram can be.
    #[error("user data of {payload} B is above the {most} B of a UDP datagram ({family})")]
    Payload { payload: usize, most: usize, family: &'static str },
}

/// IP of a link, as far as lengths go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ip {
    name: &'static str,
    header: u64,
    /// Additional header of each fragment.
    fragment: u64,
    least_mtu: usize,
    most_payload: usize,
}

const V4: Ip = Ip { name: "IPv4", header: 20, fragment: 0, least_mtu: 68, most_payload: 65_507 };
const V6: Ip = Ip { name: "IPv6", header: 40, fragment: 8, least_mtu: 1280, most_payload: 65_527 };

fn ip(ipv6: bool) -> Ip {
    if ipv6 { V6 } else { V4 }
}

/// Smallest MTU in bytes that IP allows: 68 (IPv4) or 1280 (IPv6).
pub fn least_mtu(ipv6: bool) -> usize {
    ip(ipv6).least_mtu
}

/// Bytes of link time of one datagram, by what they are spent on, over all of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Frames: 1, or the number of fragments.
    pub frames: u64,
    /// User data.
    pub payload: u64,
    /// UDP header, once a datagram.
    pub udp: u64,
    /// IP headers, one a frame, and the fragment headers of IPv6.
    pub ip: u64,
    /// Ethernet headers.
    pub ethernet: u64,
    /// VLAN tags.
    pub vlan: u64,
    /// Zeros that bring a frame up to 64 B.
    pub padding: u64,
    /// Check sequences.
    pub check: u64,
    /// Preambles and starts of frame.
    pub preamble: u64,
    /// Gaps.
    pub gap: u64,
}

impl Cost {
    /// Cost of `payload` bytes over an MTU of `mtu` bytes (at least 68 or 1280 is used) with `tags`
    /// VLAN tags a frame. Takes any numbers; [`Link::cost`] refuses those that cannot be.
    pub fn of(payload: usize, ipv6: bool, mtu: usize, tags: u8) -> Cost {
        let ip = ip(ipv6);
        let mtu = mtu.max(ip.least_mtu) as u64;
        let data = payload as u64 + UDP;
        let frame = |ip_header: u64, part: u64, times: u64| {
            let bare = ip_header + part + ETHERNET + CHECK + VLAN_TAG * u64::from(tags);
            Cost {
                frames: times,
                ip: times * ip_header,
                ethernet: times * ETHERNET,
                vlan: times * VLAN_TAG * u64::from(tags),
                padding: times * SMALLEST_FRAME.saturating_sub(bare),
                check: times * CHECK,
                preamble: times * PREAMBLE,
                gap: times * GAP,
                ..Cost::default()
            }
        };
        let all = if ip.header + data <= mtu {
            frame(ip.header, data, 1)
        } else {
            let header = ip.header + ip.fragment;
            let step = (mtu - header) & !7;
            let (full, rest) = (data / step, data % step);
            let last = frame(header, rest, u64::from(rest > 0));
            frame(header, step, full).plus(last)
        };
        Cost { payload: payload as u64, udp: UDP, ..all }
    }

    /// Both together.
    pub fn plus(self, o: Cost) -> Cost {
        Cost {
            frames: self.frames + o.frames,
            payload: self.payload + o.payload,
            udp: self.udp + o.udp,
            ip: self.ip + o.ip,
            ethernet: self.ethernet + o.ethernet,
            vlan: self.vlan + o.vlan,
            padding: self.padding + o.padding,
            check: self.check + o.check,
            preamble: self.preamble + o.preamble,
            gap: self.gap + o.gap,
        }
    }

    /// Bytes of the frames as a capture on the link would show them, check sequences included.
    pub fn frame_bytes(self) -> u64 {
        self.payload + self.udp + self.ip + self.ethernet + self.vlan + self.padding + self.check
    }

    /// Bytes of link time: frames, preambles and gaps.
    pub fn bytes(self) -> u64 {
        self.frame_bytes() + self.preamble + self.gap
    }

    /// Bits of link time.
    pub fn bits(self) -> u64 {
        8 * self.bytes()
    }

    /// Bytes that are not user data.
    pub fn overhead_bytes(self) -> u64 {
        self.bytes() - self.payload
    }

    /// Share of the link time that is not user data, 0..=1.
    pub fn overhead(self) -> f64 {
        self.overhead_bytes() as f64 / self.bytes() as f64
    }
}

/// A place of a datagram that goes as one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkFragment {
    /// First byte, counted from the UDP header; a multiple of 8.
    pub offset: u64,
    /// Bytes of the datagram in it, UDP header included in the first.
    pub bytes: u64,
    /// Another one follows.
    pub more: bool,
}

/// A link of known speed and what its frames carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    speed_bps: u64,
    mtu: usize,
    ipv6: bool,
    tags: u8,
}

impl Link {
    /// A link of `speed_bps` bit/s whose largest IP packet is `mtu` bytes, with `tags` VLAN tags.
    ///
    /// # Errors
    /// A speed outside 1..=10¹⁵ bit/s, an MTU outside 68 (IPv6: 1280)..=65,535 B, more than 2 tags.
    pub fn new(speed_bps: u64, mtu: usize, ipv6: bool, tags: u8) -> Result<Link, LinkError> {
        let ip = ip(ipv6);
        if !(1..=1_000_000_000_000_000).contains(&speed_bps) {
            return Err(LinkError::Speed(speed_bps));
        }
        if !(ip.least_mtu..=65_535).contains(&mtu) {
            return Err(LinkError::Mtu { mtu, least: ip.least_mtu, family: ip.name });
        }
        if tags > 2 {
            return Err(LinkError::Tags(tags));
        }
        Ok(Link { speed_bps, mtu, ipv6, tags })
    }

    /// Speed in bit/s.
    pub fn speed_bps(self) -> u64 {
        self.speed_bps
    }

    /// Largest IP packet in bytes.
    pub fn mtu(self) -> usize {
        self.mtu
    }

    /// What one datagram of `payload` bytes costs.
    ///
    /// # Errors
    /// More than 65,507 B (IPv4) or 65,527 B (IPv6).
    pub fn cost(self, payload: usize) -> Result<Cost, LinkError> {
        let ip = ip(self.ipv6);
        if payload > ip.most_payload {
            let (most, family) = (ip.most_payload, ip.name);
            return Err(LinkError::Payload { payload, most, family });
        }
        Ok(Cost::of(payload, self.ipv6, self.mtu, self.tags))
    }

    /// The parts in which a datagram of `payload` bytes goes; one that is the whole if it fits.
    pub fn fragments(self, payload: usize) -> impl Iterator<Item = LinkFragment> {
        let ip = ip(self.ipv6);
        let data = payload as u64 + UDP;
        let mtu = self.mtu as u64;
        let fits = ip.header + data <= mtu;
        let step = if fits { data } else { (mtu - ip.header - ip.fragment) & !7 };
        (0..data.div_ceil(step)).map(move |i| {
            let offset = i * step;
            LinkFragment { offset, bytes: step.min(data - offset), more: offset + step < data }
        })
    }

    /// Time of one datagram on the link in ps, rounded to the nearest; exact wherever the speed divides
    /// 10¹² (1, 10, 25, 40, 100 Gb/s among them).
    pub fn time_ps(self, cost: Cost) -> u64 {
        let (bits, speed) = (u128::from(cost.bits()), u128::from(self.speed_bps));
        let ps = (bits * 1_000_000_000_000 + speed / 2) / speed;
        u64::try_from(ps).unwrap_or(u64::MAX)
    }

    /// Whole datagrams that leave in `ns`, exactly.
    pub fn datagrams_in(self, cost: Cost, ns: u64) -> u64 {
        let bits = u128::from(self.speed_bps) * u128::from(ns) / 1_000_000_000;
        u64::try_from(bits / u128::from(cost.bits())).unwrap_or(u64::MAX)
    }

    /// Most datagrams a second.
    pub fn datagrams_per_s(self, cost: Cost) -> f64 {
        self.speed_bps as f64 / cost.bits() as f64
    }

    /// Most frames a second.
    pub fn frames_per_s(self, cost: Cost) -> f64 {
        self.datagrams_per_s(cost) * cost.frames as f64
    }

    /// Most user data, bit/s.
    pub fn payload_bps(self, cost: Cost) -> f64 {
        self.datagrams_per_s(cost) * (8 * cost.payload) as f64
    }

    /// Share of the link that `datagrams_per_s` take; above 1 they do not fit.
    pub fn utilisation(self, cost: Cost, datagrams_per_s: f64) -> f64 {
        datagrams_per_s * cost.bits() as f64 / self.speed_bps as f64
    }
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
