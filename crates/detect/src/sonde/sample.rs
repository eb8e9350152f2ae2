//! Sample packets: three modules, two of which send from one address. Source: `docs/formats/sonde.md` sections 2 and 3.1.

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: include_str!("sample.toml"),
    calibration: "",
    options: "",
    streams: 3,
    numbers: 1,
    flagged: false,
    packet,
};

/// Trigger times of each ASIC. The count soon wraps.
fn packet(stream: u32, n: u64) -> SamplePacket {
    let (host, system) = [(1, 0), (1, 1), (2, 0)][stream as usize % 3];
    let (count, time) = ((16_200 + n) as u16 & 0x3fff, (10_000 * (n + 1)) as u32);
    let mut bytes = vec![system, 0xd6];
    bytes.extend(count.to_be_bytes());
    bytes.extend(time.to_be_bytes());
    bytes.extend([0, 1 + 5 * 4, 4]);
    for asic in 0..4u8 {
        bytes.extend((time + 100 * u32::from(asic)).to_be_bytes());
        bytes.push(asic << 6 | (n as u8 & 0x0f));
    }
    (bytes, sender(host, 50_011))
}
