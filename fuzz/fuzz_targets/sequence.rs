//! Any order of numbers as a `sequence` stream: no panic, every packet accounted for.
//!
//! Each 9 bytes of input are one packet: a tag (stream id 0 to 7, end mark 8, damage 16; the upper three
//! bits are the sender's port, and the length of a damaged packet) and a number. Streams are told apart
//! both ways, by sender and id and by id alone.

#![no_main]

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_detect::detector::{Registry, Setup};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut packets = Vec::new();
    for step in data.chunks_exact(9) {
        let (tag, number) = (step[0], &step[1..]);
        let mut packet = b"FCSQ".to_vec();
        packet.extend(u32::from(tag & 7).to_le_bytes());
        if tag & 8 == 0 {
            packet.extend(number);
            packet.extend([0; 8]);
        } else {
            packet.extend([0xff; 8]);
            packet.extend(number);
        }
        packet.truncate(if tag & 16 == 0 { 24 } else { usize::from(tag >> 5) });
        packets.push((packet, Origin { port: u16::from(tag >> 5), ..Origin::NONE }));
    }
    let batch = Batch::from_datagrams(packets.iter().map(|(p, origin)| (&p[..], *origin)));
    for key in ["origin", "id"] {
        read(key, &batch);
    }
});

fn read(key: &str, batch: &Batch) {
    let options = format!("window = 64\nmax_streams = 3\nverify = true\nkey = \"{key}\"");
    let setup = Setup { options, ..Setup::default() };
    let detector = Registry::builtin().configure("sequence", &setup).expect("valid options");
    let mut reader = detector.reader();
    let mut products = Products::default();
    reader.read(batch, &mut products);
    reader.finish(&mut products);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    assert_eq!(entries.get("decode.packets"), Some(batch.count()));
}
