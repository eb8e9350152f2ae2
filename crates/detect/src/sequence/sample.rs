//! Sample packets: three streams, two of one sender. Source: `docs/contracts.md`, "`sequence` payload".

use crate::sample::{DetectorSample, SamplePacket, sender};

pub(super) const SAMPLE: DetectorSample = DetectorSample {
    geometry: "",
    calibration: "",
    options: "",
    streams: 3,
    numbers: 1,
    flagged: false,
    packet,
};

/// 40 bytes: header and pattern.
fn packet(stream: u32, n: u64) -> SamplePacket {
    let (host, id) = [(1, 5u32), (1, 6), (2, 5)][stream as usize % 3];
    let mut bytes = b"FCSQ".to_vec();
    bytes.extend(id.to_le_bytes());
    bytes.extend(n.to_le_bytes());
    bytes.extend((1_700_000_000_000_000_000 + 1000 * n).to_le_bytes());
    bytes.extend((24..40u8).map(|at| (n as u8).wrapping_mul(32).wrapping_add(at)));
    (bytes, sender(host, 40_000))
}
