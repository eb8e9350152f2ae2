//! Packets of a kind with what they need to be read: for tests over every kind, and as seeds of fuzzing.
//!
//! They are made by hand from the format's document and share no code with the decoder. Every packet is a good one, and the
//! numbers of a stream follow each other.

use std::net::SocketAddr;

use crate::batch::Origin;

use crate::detector::Setup;

/// A packet and who sent it.
pub type SamplePacket = (Vec<u8>, Origin);

/// What a kind gives to be tried out with.
#[derive(Debug, Clone, Copy)]
pub struct DetectorSample {
    /// Text of a geometry file; empty: the kind has none.
    pub geometry: &'static str,
    /// Text of a calibration file, if it takes one.
    pub calibration: &'static str,
    /// Keys of `[detector]` as TOML text.
    pub options: &'static str,
    /// Streams of numbers: two or more of a format with numbers, 1 of one without.
    pub streams: u32,
    /// Numbers that each packet carries.
    pub numbers: u32,
    /// Its readouts say themselves that they were above the electronics' threshold.
    pub flagged: bool,
    /// Packet `n` of a stream, `n` from 0 on: it carries the numbers behind those of packet `n` − 1.
    pub packet: fn(stream: u32, n: u64) -> SamplePacket,
}

impl DetectorSample {
    /// The configuration.
    pub fn setup(&self) -> Setup {
        Setup {
            geometry: self.geometry.to_owned(),
            geometry_path: "sample".to_owned(),
            calibration: self.calibration.to_owned(),
            options: self.options.to_owned(),
            ..Setup::default()
        }
    }

    /// The first `count` packets: streams take turns.
    pub fn packets(&self, count: usize) -> Vec<SamplePacket> {
        let streams = u64::from(self.streams.max(1));
        let packet = |i: u64| (self.packet)((i % streams) as u32, i / streams);
        (0..count as u64).map(packet).collect()
    }
}

/// The sender 10.0.0.`host`.
pub fn sender(host: u8, port: u16) -> Origin {
    SocketAddr::from(([10, 0, 0, host], port)).into()
}
