//! Sample packets: two readout computers, each with two digitisers. Source: `docs/formats/multiblade.md` section 2.

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: include_str!("sample.toml"),
    calibration: "",
    options: "",
    streams: 2,
    numbers: 1,
    flagged: false,
    packet,
};

/// Two neutrons: a wire and two strips each. The sequence number soon wraps.
fn packet(stream: u32, n: u64) -> SamplePacket {
    let digitizer = 100 + 2 * stream + (n % 2) as u32;
    let (wire, strip) = ((n % 32) as u16, 32 + (n % 31) as u16);
    let mut bytes = 7u64.to_le_bytes().to_vec();
    bytes.extend((1_700_000_000_000 + n).to_le_bytes());
    bytes.extend(digitizer.to_le_bytes());
    bytes.extend([1, 0, 6, 0, 1, 3]);
    bytes.extend((u32::MAX - 200).wrapping_add(n as u32).to_le_bytes());
    bytes.extend([0, 0]);
    for time in [1000, 500_000] {
        for (after, channel, adc) in [(0, wire, 900u16), (3, strip, 400), (5, strip + 1, 300)] {
            bytes.extend((time + after as u32).to_le_bytes());
            bytes.extend(channel.to_le_bytes());
            bytes.extend(adc.to_le_bytes());
        }
    }
    (bytes, sender(1 + stream as u8, 9000))
}
