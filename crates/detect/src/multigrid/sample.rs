//! Sample packets: two SIS3153, four events a packet. Source: `docs/formats/multigrid.md` sections 2 and 3.

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: include_str!("sample.toml"),
    calibration: "",
    options: "",
    streams: 2,
    numbers: EVENTS,
    flagged: false,
    packet,
};

/// Events of a packet.
const EVENTS: u32 = 4;

/// Each event has a wire and a grid of one module. The number soon wraps.
fn packet(stream: u32, n: u64) -> SamplePacket {
    let mut bytes = vec![0x60, 0, 0];
    for event in u64::from(EVENTS) * n..u64::from(EVENTS) * (n + 1) {
        let time = 16_000 * (event + 1);
        let (wire, grid) = (event as u32 % 80, 80 + event as u32 % 40);
        let data = [
            0x4000_0004,
            0x2000_0000 | (time >> 30) as u32 & 0xffff,
            0x1000_0000 | wire << 12 | 700,
            0x1000_0000 | grid << 12 | 500,
            0xc000_0000 | time as u32 & 0x3fff_ffff,
        ];
        bytes.extend([0x58, 0, 3 + data.len() as u8, 0]);
        bytes.extend((0xbb00_0000 | (0xff_f000 + event) as u32 & 0xff_ffff).to_le_bytes());
        bytes.extend(data.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([0x21, 0x43, 0x65, 0x87, 0, 0, 1, 0xee]);
    }
    (bytes, sender(1 + stream as u8, 57_344))
}
