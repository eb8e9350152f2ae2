//! Moves a recorded packet on, so that a capture can be sent again and again as one long run.
//!
//! Refuses nothing: a packet that the decoder would refuse keeps the bytes that cannot be understood.
//! Source: `docs/formats/sonde.md` sections 2 and 3.

use super::packet::{self, Body, ENTRY_BYTES, HEADER_BYTES};

/// Adds `packets` to the packet count (mod 2¹⁴) and `ticks` to every time (mod 2³²) of a packet.
///
/// The header moves wherever it can be read (checks 1 and 2), the times of entries and events where
/// the packet is whole. Length, flags, channels and ADC values stay.
pub fn shift(payload: &mut [u8], packets: u16, ticks: u32) {
    let Ok(header) = packet::header(payload) else { return };
    let body = packet::mode(&header, payload).and_then(|mode| packet::body(mode, payload));
    // First time of the body and the distance to the next.
    let times = match body {
        Ok(Body::TriggerTime { .. }) => Some((HEADER_BYTES + 1, ENTRY_BYTES, usize::MAX)),
        Ok(Body::MultiEvent { events, per_event, .. }) => {
            Some((HEADER_BYTES + 3, packet::event_bytes(per_event), usize::from(events)))
        }
        Ok(Body::SingleEvent { .. }) | Err(_) => None,
    };
    let count = header.count.wrapping_add(packets) & 0x3fff | u16::from(header.flag) << 14;
    payload[2..4].copy_from_slice(&count.to_be_bytes());
    add(&mut payload[4..8], ticks);
    if let Some((first, step, n)) = times {
        for event in payload[first..].chunks_exact_mut(step).take(n) {
            add(&mut event[..4], ticks);
        }
    }
}

fn add(field: &mut [u8], ticks: u32) {
    if let Some(time) = field.first_chunk_mut::<4>() {
        *time = u32::from_be_bytes(*time).wrapping_add(ticks).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_times_move_and_wrap_and_nothing_else_does() {
        let mut d6 = [
            0x01, 0xd6, 0xff, 0xfe, 0, 0, 0, 1, 0, 0x0b, 2, 0xff, 0xff, 0xff, 0xff, 0x0a, 0, 0, 0,
            2, 0x4a,
        ];
        shift(&mut d6, 3, 2);
        let want =
            [0x01, 0xd6, 0xc0, 0x01, 0, 0, 0, 3, 0, 0x0b, 2, 0, 0, 0, 1, 0x0a, 0, 0, 0, 4, 0x4a];
        assert_eq!(d6, want);
        let mut d4 =
            [0x01, 0xd4, 0, 1, 0, 0, 0, 1, 0, 13, 1, 0, 1, 0, 0, 0, 1, 2, 3, 4, 0xaa, 0xaa, 9];
        let before = d4;
        shift(&mut d4, 1, 1);
        let changed: Vec<usize> = (0..d4.len()).filter(|&i| d4[i] != before[i]).collect();
        assert_eq!(changed, [3, 7, 16], "the spare byte stays");
    }

    #[test]
    fn what_cannot_be_read_stays() {
        let mut short = [1, 2, 3];
        shift(&mut short, 1, 1);
        assert_eq!(short, [1, 2, 3]);
        let mut version = [0xff; 40];
        shift(&mut version, 1, 1);
        assert_eq!(version, [0xff; 40]);
    }
}
