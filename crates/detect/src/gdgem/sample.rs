//! Sample frames: two FECs, one for each plane. Source: `docs/formats/gdgem.md` sections 2 and 3.

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: include_str!("sample.toml"),
    calibration: "",
    options: "",
    streams: 2,
    numbers: 1,
    flagged: true,
    packet,
};

/// A marker, and three neighbouring strips. The frame counter soon wraps.
fn packet(stream: u32, n: u64) -> SamplePacket {
    let fec = 1 + stream as u8;
    let marker = (65_536 * (n + 16)) & ((1 << 42) - 1);
    let mut bytes = (u32::MAX - 200).wrapping_add(n as u32).to_be_bytes().to_vec();
    bytes.extend([b'V', b'M', b'3', fec << 4]);
    bytes.extend((marker as u32).to_be_bytes());
    bytes.extend(1u32.to_be_bytes());
    bytes.extend(((marker >> 10) as u32).to_be_bytes());
    bytes.extend((marker as u16 & 0x3ff).to_be_bytes());
    for strip in 0..3u32 {
        let (adc, count) = (300 + 50 * strip, 1000 + strip);
        let gray = count ^ count >> 1;
        bytes.extend((3 << 27 | adc << 12 | gray).to_be_bytes());
        let channel = 10 + n as u32 % 40 + strip;
        bytes.extend((0xc000 | channel << 8 | 60).to_be_bytes()[2..].iter());
    }
    (bytes, sender(fec, 6006))
}
