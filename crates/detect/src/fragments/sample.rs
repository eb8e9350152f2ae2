//! DetectorSample blocks: three sources, a fragment of 24 or 32 bytes in one block each. Source: `docs/formats/simplified-tcp.md`, section 26.1.

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: "",
    calibration: "",
    options: "sources = \"512-514\"",
    streams: 3,
    numbers: 1,
    flagged: false,
    packet,
};

/// Bit by bit, to share nothing with the decoder.
fn crc(words: &[u64]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.to_be_bytes());
    let one = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ (u32::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            (if crc & 0x8000 == 0 { shifted } else { shifted ^ 0x8005 }) & 0xffff
        })
    };
    bytes.fold(0xffff, one).into()
}

fn packet(stream: u32, n: u64) -> SamplePacket {
    let (source, event) = (512 + u64::from(stream % 3), n & 0x00ff_ffff);
    let mut words = vec![5 << 60 | 1 << 56 | event << 32 | (n & 0xfff) << 20 | source << 8];
    words.extend((0..1 + n % 2).map(|k| 0x0123_4567_89ab_cdef + n + k));
    words.push(0xa << 60 | (words.len() as u64 + 1) << 32 | 8 << 4);
    let sum = crc(&words);
    *words.last_mut().expect("a trailer") |= sum << 16;
    let mut bytes = Vec::new();
    bytes.extend((0x475a << 48 | 1u64 << 31 | 1 << 30 | words.len() as u64).to_be_bytes());
    bytes.extend((source << 32 | event).to_be_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    (bytes, sender(1 + (stream % 3) as u8, 40_000))
}
