//! Any order of numbers as a `sequence` stream: no panic, every packet accounted for.
//!
//! Each 9 bytes of input are one packet: a tag (stream, end mark, damage) and a number.

#![no_main]

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_detect::detector::{Registry, Setup};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let options = "window = 64\nmax_streams = 3\nverify = true".to_owned();
    let setup = Setup { options, ..Setup::default() };
    let detector = Registry::builtin().configure("sequence", &setup).expect("valid options");
    let mut reader = detector.reader();
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
        packets.push(packet);
    }
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    let mut products = Products::default();
    reader.read(&batch, &mut products);
    reader.finish(&mut products);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    assert_eq!(entries.get("decode.packets"), Some(packets.len() as u64));
});
