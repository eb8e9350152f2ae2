//! Detectors of four sectors each, with their packets.

use std::collections::BTreeSet;

use fullcount_sim::Traffic;
use fullcount_sim::gdgem::{GdGemSetup, SimulatedGdGem};
use fullcount_sim::multiblade::{MultiBladeSetup, SimulatedMultiBlade};

use super::{EPOCH, SECTORS};

/// A packet, with who sent it. A sender belongs to a sector.
#[derive(Clone)]
pub(super) struct Packet {
    pub(super) sender: u8,
    pub(super) bytes: Vec<u8>,
}

/// A detector with its packets in order of arrival.
pub(super) struct Scene {
    pub(super) kind: &'static str,
    /// Contents of the geometry file, which is that of the whole detector for everybody.
    pub(super) geometry: String,
    /// More keys of `[detector]` for all instances.
    pub(super) keys: &'static str,
    /// The key that says which sectors are an instance's, where one is needed.
    pub(super) sector_key: Option<&'static str>,
    pub(super) packets: Vec<Packet>,
    /// Senders of each sector.
    pub(super) senders: u8,
    /// Events, where they are known without a run.
    pub(super) expected: Option<Vec<(i64, i32)>>,
}

impl Scene {
    pub(super) fn sector(&self, packet: &Packet) -> usize {
        usize::from(packet.sender / self.senders)
    }
}

/// 16 SoNDe modules, each an address of its own; four make a sector. Packets of 100 events, 1 µs from event to event.
pub(super) fn sonde() -> Scene {
    let module = |sender: u32| {
        let (column, row) = (sender % 4, sender / 4);
        format!(
            "[[modules]]\nsource = \"10.0.0.{}\"\npixel_offset = {}\ncell = [{column}, {row}]\n",
            sender + 1,
            64 * sender
        )
    };
    // Pixels of channel 10 of ASICs 0, 1 and 2, with their byte in a packet.
    let pixels = [(0x0a, 14), (0x4a, 19), (0x8a, 46)];
    let (mut packets, mut expected) = (vec![], vec![]);
    for k in 0..320u32 {
        let sender = (k * 7 % 16) as u8;
        let mut p = vec![0x01, 0xd6];
        p.extend((k as u16 / 16).to_be_bytes());
        p.extend((k * 100_000).to_be_bytes());
        p.extend(501u16.to_be_bytes());
        p.push(100);
        for n in k * 100..(k + 1) * 100 {
            let (byte, pixel) = pixels[n as usize % 3];
            p.extend((n * 1_000).to_be_bytes());
            p.push(byte);
            expected.push((EPOCH + i64::from(n) * 1_000, pixel + 64 * i32::from(sender)));
        }
        packets.push(Packet { sender, bytes: p });
    }
    let geometry = (0..16).map(module).collect();
    expected.sort_unstable();
    let (kind, keys) = ("sonde", "");
    Scene { kind, geometry, keys, sector_key: None, packets, senders: 4, expected: Some(expected) }
}

pub(super) fn simulated(traffic: &mut dyn Traffic, count: usize) -> Vec<Vec<u8>> {
    let mut all = vec![];
    while all.len() < count {
        let train = traffic.next_train(count - all.len(), 1_700_000_000_000_000_000);
        all.extend(train.expect("no end was set").each().map(<[u8]>::to_vec));
    }
    all
}

/// A Gd-GEM of four sectors: two FECs each, x and y in coincidence.
pub(super) fn gdgem() -> Scene {
    let noise = "dark=10%,pileup=random".parse().expect("noise");
    let setup =
        GdGemSetup { words: Some(150), noise, prepared_bytes: 1 << 20, ..GdGemSetup::default() };
    let mut traffic = SimulatedGdGem::new(&setup).expect("four sectors");
    let turn = traffic.turn().0 as usize;
    // The header's last byte names the FEC: 1 to 8. Each sends from an address of its own.
    let packet = |bytes: Vec<u8>| Packet { sender: (bytes[7] >> 4) - 1, bytes };
    let packets = simulated(&mut traffic, turn).into_iter().map(packet).collect();
    Scene {
        kind: "gdgem",
        geometry: SimulatedGdGem::configuration(),
        keys: "one_picture = true\n",
        sector_key: Some("sectors"),
        packets,
        senders: 2,
        expected: None,
    }
}

/// Multi-Blade cassettes, wires and strips in coincidence: each readout computer has one or two of the six.
pub(super) fn multiblade() -> Scene {
    let noise = "dark=10%,bad=5%,pileup=random".parse().expect("noise");
    let setup = MultiBladeSetup { noise, prepared_bytes: 1 << 20, ..MultiBladeSetup::default() };
    let mut traffic = SimulatedMultiBlade::new(&setup).expect("the prototype");
    let packets = simulated(&mut traffic, 1_000);
    let digitiser = |bytes: &[u8]| bytes[16..20].try_into().map(u32::from_le_bytes).expect("four");
    let known: BTreeSet<u32> = packets.iter().map(|p| digitiser(p)).collect();
    let mut sent = [0u32; SECTORS];
    let packet = |mut bytes: Vec<u8>| {
        let cassette = known.iter().position(|d| *d == digitiser(&bytes)).expect("known");
        let sender = cassette * SECTORS / known.len();
        // Each readout computer counts its own packets.
        bytes[26..30].copy_from_slice(&sent[sender].to_le_bytes());
        sent[sender] += 1;
        Packet { sender: sender as u8, bytes }
    };
    let packets = packets.into_iter().map(packet).collect();
    Scene {
        kind: "multiblade",
        geometry: SimulatedMultiBlade::configuration(setup.cassettes).expect("the prototype"),
        keys: "",
        sector_key: None,
        packets,
        senders: 1,
        expected: None,
    }
}
