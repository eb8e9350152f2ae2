//! How SPEAD packets are found on a byte stream: back to back, as spead2 sends them over TCP.
//!
//! A packet's length follows from its header and its payload length, which must be one of the first four item pointers: there
//! spead2 and every sender of ours has it. Refuses a stream whose packets have it elsewhere; `receive spead+tcp://` reads
//! those.
//! Source: `docs/formats/spead.md`, section 3.

use fullcount_core::source::FrameRule;
use fullcount_spead::wire::{PREFIX_BYTES, size_of};

/// The rule: the header and four pointers say the length.
pub(super) const FRAMING: FrameRule =
    FrameRule { name: "spead", head: PREFIX_BYTES, length, skip: 0, most: None };

/// Pointers that are looked at, big-endian in the last two bytes of the header.
const POINTERS: [u8; 2] = [0, 4];

fn length(head: &[u8]) -> Option<usize> {
    let mut head: [u8; PREFIX_BYTES] = *head.first_chunk()?;
    let all = u16::from_be_bytes([head[6], head[7]]);
    // No packet has fewer pointers than these four.
    let more = usize::from(all.checked_sub(4)?) * 8;
    head[6..8].copy_from_slice(&POINTERS);
    let size = size_of(&head).ok()??;
    usize::try_from(size).ok()?.checked_add(more)
}

#[cfg(test)]
mod tests {
    use fullcount_spead::SpeadPacket;

    use super::*;
    use crate::heap::sample;

    #[test]
    fn packets_stand_back_to_back() {
        let packets: Vec<_> = sample::SAMPLE.packets(9).into_iter().map(|(p, _)| p).collect();
        let stream = packets.concat();
        let mut rest = &stream[..];
        for packet in &packets {
            assert_eq!(FRAMING.whole(&rest[..PREFIX_BYTES - 1], 1 << 20), Ok(None));
            assert_eq!(FRAMING.whole(rest, 1 << 20), Ok(Some(packet.len())));
            assert_eq!(SpeadPacket::parse(rest).unwrap().size(), packet.len());
            rest = &rest[packet.len()..];
        }
    }

    #[test]
    fn what_does_not_say_its_length_in_front_begins_no_packet() {
        let (packet, _) = sample::SAMPLE.packets(1).remove(0);
        for (at, byte) in [(0, 0x54), (3, 9), (7, 3), (33, 9)] {
            let mut bad = packet.clone();
            bad[at] = byte;
            assert!(FRAMING.whole(&bad, 1 << 20).is_err(), "{at}");
        }
        let mut long = packet;
        long[35..40].copy_from_slice(&[0xff; 5]);
        assert!(FRAMING.whole(&long, 1 << 20).is_err(), "2^40 bytes");
    }
}
