//! Any bytes as Multi-Grid packets: no panic, every hop balances, reader and inspector agree, events come in
//! rising time unless time stepped back.
//!
//! The input is a sequence of datagrams, each behind its length (two bytes, little-endian), so that carried
//! times and groups over packets are reached too; the seeds are `vectors/multigrid` in that form. Its
//! length chooses: pulses in the data or not, many or few entries that may wait, the high part made up or sent.

#![no_main]

use std::sync::LazyLock;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Ledger, Role, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Registry, Setup, TimeBase};
use libfuzzer_sys::fuzz_target;

const GEOMETRY: &str = include_str!("../../vectors/multigrid/config/three_modules_mg24.json");

/// Configured once for each choice: reading the file takes longer than a hundred packets.
static MADE: LazyLock<Vec<Box<dyn Detector>>> = LazyLock::new(|| (0..8).map(detector).collect());

fn detector(choice: usize) -> Box<dyn Detector> {
    let time = TimeBase { pulses_in_data: choice & 1 == 1, ..TimeBase::default() };
    let most = if choice & 2 == 2 { 256 } else { 4096 };
    let spoof = format!("\"spoof_high_time\": {}", choice & 4 == 4);
    let setup = Setup {
        geometry: GEOMETRY.replace("\"spoof_high_time\": false", &spoof),
        options: format!("max_waiting = {most}"),
        time,
        ..Setup::default()
    };
    Registry::builtin().configure("multigrid", &setup).expect("a published file")
}

fuzz_target!(|data: &[u8]| {
    let detector = &MADE[data.len() % MADE.len()];
    let (mut reader, mut builder) = (detector.reader(), detector.builder());
    let mut inspector = detector.inspector();
    let want = Want { hits: true, ..Want::default() };
    let mut products = Products { want, ..Products::default() };
    let (mut refused, mut rows, mut rest) = (0, 0, data);
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let (packet, tail) = tail.split_at(tail.len().min(u16::from_le_bytes(*length).into()));
        rest = tail;
        let shown = inspector.inspect(packet, Origin::NONE);
        refused += u64::from(shown.error.is_some());
        rows += shown.rows.len() as u64;
        reader.read(&Batch::from_datagrams([(packet, Origin::NONE)]), &mut products);
        builder.build(&mut products, None);
    }
    reader.finish(&mut products);
    builder.finish(&mut products);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    ledger.register(builder.sheet().expect("it counts"));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    assert_eq!(entries.sum(Unit::Packets, Role::Rejected), refused);
    assert_eq!(entries.get("readouts.count"), Some(rows));
    assert_eq!(entries.get("events.count"), Some(products.events.len() as u64));
    assert!(products.events.pixel.iter().all(|p| (1..=9600).contains(p)));
    assert!(products.events.offset_ns.iter().all(|&o| o < 1 << 31));
    let given = ["time.steps_back", "events.released_by_number"].map(|n| entries.get(n));
    if given == [Some(0), Some(0)] {
        let times: Vec<i64> = products.events.absolute().map(|e| e.0).collect();
        assert!(times.is_sorted());
    }
});
