//! DetectorSample packets: heaps of one described array in three packets, written from the format's document.
//!
//! Shares no code with the sender of `fullcount-spead`. Source: `docs/formats/spead.md`, sections 3, 4 and 7.

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: "",
    calibration: "",
    options: "",
    streams: 1,
    numbers: 1,
    flagged: false,
    packet,
};

/// Payload bytes of a packet.
const EACH: usize = 96;

fn pointer(immediate: bool, id: u64, value: u64) -> [u8; 8] {
    (u64::from(immediate) << 63 | id << 40 | value).to_be_bytes()
}

fn part(cnt: u64, length: usize, offset: usize, payload: &[u8], items: &[[u8; 8]]) -> Vec<u8> {
    let standard = [(1, cnt), (2, length as u64), (3, offset as u64), (4, payload.len() as u64)];
    let mut packet = vec![0x53, 4, 3, 5, 0, 0, 0, 4 + items.len() as u8];
    packet.extend(standard.iter().flat_map(|&(id, value)| pointer(true, id, value)));
    packet.extend(items.iter().flatten());
    packet.extend(payload);
    packet
}

/// A descriptor of 32 numbers, 16 bits each.
fn descriptor() -> Vec<u8> {
    let texts: [&[u8]; 5] = [
        b"samples",
        b"what was sampled",
        b"",
        b"",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (32,)}",
    ];
    let mut items = vec![pointer(true, 0x14, 0x1000)];
    let mut at = 0;
    for (id, text) in [0x10, 0x11, 0x13, 0x12, 0x15].into_iter().zip(texts) {
        items.push(pointer(false, id, at));
        at += text.len() as u64;
    }
    part(1, at as usize, 0, &texts.concat(), &items)
}

/// SamplePacket `n`: the parts of heap n / 3 + 1, each with a descriptor and an array.
fn packet(_: u32, n: u64) -> SamplePacket {
    let cnt = n / 3 + 1;
    let mut payload = descriptor();
    let samples = payload.len();
    payload.extend((0..32u16).flat_map(|i| (i * 3 + cnt as u16).to_le_bytes()));
    let items = [
        pointer(false, 5, 0),
        pointer(false, 0x1000, samples as u64),
        pointer(true, 0x1001, cnt % 1000),
    ];
    let third = payload.len().div_ceil(3).max(EACH);
    let offset = (n % 3) as usize * third;
    let end = payload.len().min(offset + third);
    let items = if offset == 0 { &items[..] } else { &[] };
    (part(cnt, payload.len(), offset, &payload[offset..end], items), sender(1, 9000))
}
