//! Any bytes as SoNDe packets: no panic, every hop balances, reader and inspector agree.
//!
//! The input is a sequence of datagrams, each behind its length (two bytes, little-endian), so that
//! streams are reached too; the seeds are `vectors/sonde` in that form.

#![no_main]

use std::sync::LazyLock;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Ledger, Role, Unit};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Detector, Registry, Setup};
use libfuzzer_sys::fuzz_target;

/// Configured once: that takes longer than a hundred packets.
static MADE: LazyLock<Box<dyn Detector>> = LazyLock::new(|| {
    Registry::builtin().configure("sonde", &Setup::default()).expect("defaults")
});

fuzz_target!(|data: &[u8]| {
    let (mut reader, mut inspector) = (MADE.reader(), MADE.inspector());
    let want = Want { hits: true, ..Want::default() };
    let mut products = Products { want, ..Products::default() };
    let (mut refused, mut rest) = (0, data);
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let (packet, tail) = tail.split_at(tail.len().min(u16::from_le_bytes(*length).into()));
        rest = tail;
        refused += u64::from(inspector.inspect(packet, Origin::NONE).error.is_some());
        reader.read(&Batch::from_datagrams([(packet, Origin::NONE)]), &mut products);
    }
    reader.finish(&mut products);
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0);
    assert_eq!(entries.sum(Unit::Packets, Role::Rejected), refused);
    assert_eq!(entries.get("events.count"), Some(products.events.len() as u64));
    assert!(products.events.pixel.iter().all(|p| (1..=64).contains(p)));
    assert!(products.events.offset_ns.iter().all(|&o| o < 1 << 31));
});
