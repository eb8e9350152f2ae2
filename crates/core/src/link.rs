//! What a UDP payload costs on an Ethernet link, in bits and frames.
//!
//! A frame is preamble and start (8 B), Ethernet header (14 B), IP packet, padding up to 60 B, check sequence
//! (4 B) and the gap (12 B). A datagram longer than the MTU goes as IP fragments, whose parts are multiples
//! of 8 B except the last. [`Wire`] has bits and frames of a payload; [`cost`] has every byte, VLAN tags,
//! speeds and times. An MTU below the minimum of IP counts as that minimum. Sources:
//! IEEE 802.3, RFC 791 (fragments), RFC 8200 section 4.5.

pub mod cost;

pub use cost::{Cost, Link, LinkError, LinkFragment};

/// The link that a rate is counted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// IPv6 (40 B header) instead of IPv4 (20 B, no options).
    pub ipv6: bool,
    /// Largest IP packet in bytes, 1500 on plain Ethernet; counts as at least 68 (IPv4) or 1280 (IPv6).
    pub mtu: usize,
}

impl Wire {
    /// The usual Ethernet link for packets of `payload` bytes: MTU 1500 B if they fit, otherwise jumbo frames
    /// of 9000 B (above 8972 B they go as fragments of these).
    pub fn usual(ipv6: bool, payload: usize) -> Wire {
        let headers = if ipv6 { 48 } else { 28 };
        Wire { ipv6, mtu: if payload + headers <= 1500 { 1500 } else { 9000 } }
    }

    /// Bits of link time for one datagram of `payload` bytes.
    pub fn bits(self, payload: usize) -> u64 {
        wire_bits(payload, self.ipv6, self.mtu)
    }

    /// Frames for one datagram of `payload` bytes: 1, or the number of its fragments.
    pub fn frames(self, payload: usize) -> u64 {
        Cost::of(payload, self.ipv6, self.mtu, 0).frames
    }
}

/// Bits of link time for one UDP datagram of `payload` bytes over an MTU of `mtu` bytes: frames
/// (each at least 64 B) with preamble and gap, fragments included.
pub fn wire_bits(payload: usize, ipv6: bool, mtu: usize) -> u64 {
    Cost::of(payload, ipv6, mtu, 0).bits()
}

/// Adds up link time train by train, as [`Wire::usual`] counts it; remembers the size seen last, so that
/// a train of equal datagrams costs one comparison and one multiplication.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkTime {
    /// Family, payload bytes and link bytes of the size seen last.
    last: Option<(bool, usize, u64)>,
}

impl LinkTime {
    /// Link bytes (frames with preamble and gap) of `full` datagrams of `each` bytes and, if `rest` is
    /// not 0, one of `rest` bytes.
    #[inline]
    pub fn bytes(&mut self, ipv6: bool, (full, each): (usize, usize), rest: usize) -> u64 {
        let per = match self.last {
            Some((family, size, bytes)) if family == ipv6 && size == each => bytes,
            _ => {
                let bytes = Wire::usual(ipv6, each).bits(each) / 8;
                self.last = Some((ipv6, each, bytes));
                bytes
            }
        };
        let short = if rest == 0 { 0 } else { Wire::usual(ipv6, rest).bits(rest) / 8 };
        (full as u64).saturating_mul(per).saturating_add(short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_and_the_largest_frame_of_plain_ethernet() {
        assert_eq!(wire_bits(0, false, 1500), 84 * 8, "padded to 64 B");
        assert_eq!(wire_bits(18, false, 1500), 84 * 8, "exactly 64 B");
        assert_eq!(wire_bits(19, false, 1500), 85 * 8);
        assert_eq!(wire_bits(1472, false, 1500), 1538 * 8);
        assert_eq!(wire_bits(8972, false, 9000), 9038 * 8);
        assert_eq!(wire_bits(1452, true, 1500), 1538 * 8);
    }

    #[test]
    fn one_byte_above_the_mtu_costs_a_second_frame() {
        // 1481 B of IP payload: a fragment of 1480 and one of 1, the second padded to 64 B.
        assert_eq!(wire_bits(1473, false, 1500), (1538 + 84) * 8);
        assert_eq!(Wire { ipv6: false, mtu: 1500 }.frames(1473), 2);
        // 9000 B on 1500: 9008/1480 = 6 full ones and 128 B.
        assert_eq!(Wire { ipv6: false, mtu: 1500 }.frames(9000), 7);
        assert_eq!(wire_bits(9000, false, 1500), (6 * 1538 + 20 + 128 + 18 + 20) * 8);
        // IPv6: parts of 1448 B after 48 B of headers.
        assert_eq!(wire_bits(1453, true, 1500), (48 + 1448 + 38 + 48 + 13 + 38) * 8);
    }

    proptest! {
        #[test]
        fn the_wire_always_costs_more_than_the_payload(
            payload in 0usize..65_508, ipv6: bool, mtu in 0usize..70_000,
        ) {
            let wire = Wire { ipv6, mtu };
            let bits = wire.bits(payload);
            prop_assert!(bits >= 84 * 8 * wire.frames(payload));
            prop_assert!(bits >= 8 * (payload as u64 + 66) || payload < 18);
            prop_assert!(wire.bits(payload + 1) >= bits);
        }
    }

    proptest! {
        #[test]
        fn trains_cost_what_their_datagrams_cost(
            trains in proptest::collection::vec((any::<bool>(), 0usize..70, 0usize..9000, 0usize..9000), 1..20),
        ) {
            let mut link = LinkTime::default();
            for (ipv6, full, each, rest) in trains {
                let one = |payload| Wire::usual(ipv6, payload).bits(payload) / 8;
                let mut wanted: u64 = (0..full).map(|_| one(each)).sum();
                if rest > 0 {
                    wanted += one(rest);
                }
                prop_assert_eq!(link.bytes(ipv6, (full, each), rest), wanted);
            }
        }
    }
}
