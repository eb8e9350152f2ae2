//! Any bytes as Multi-Blade packets in every set-up: no panic, every hop balances, reader and inspector agree,
//! and one builder for all cassettes makes the same events as one for each.
//!
//! The input is a sequence of datagrams, each behind its length (two bytes, little-endian); the seeds are
//! `vectors/multiblade` in that form. The last byte, whatever else it is, chooses set-up and options.

#![no_main]

use std::sync::LazyLock;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::ledger::{Entries, Ledger, Role, Unit};
use fullcount_core::products::Products;
use fullcount_detect::detector::{Detector, Registry, Setup};
use libfuzzer_sys::fuzz_target;

const GEOMETRIES: [&str; 4] = [
    include_str!("../../vectors/multiblade/config/MB18Freia.json"),
    include_str!("../../vectors/multiblade/config/MB16Estia.json"),
    include_str!("../../vectors/multiblade/config/AmorB.json"),
    include_str!("../../docs/examples/multiblade-50.toml"),
];

const OPTIONS: [&str; 5] = [
    "",
    "mode = '1d'\nmonitor = 'pixel'",
    "mode = '2d'\nmonitor = 'pixel'\nresolve_doubles = true\nsubpixels = 3\ndrop_late = true",
    "mode = '2d'\nmax_wires = 2\nmax_strips = 4\nmax_time_span = 100\namplitude_ratio = [0.1, 2.0]\nwire_threshold = 500",
    "mode = '2d'\nclustering = 'fixed-window'\nthreshold = 9\nposition = 'maximum'",
];

/// A set-up with one builder for all cassettes and with one for each, and its last pixel.
struct Made {
    detectors: [Box<dyn Detector>; 2],
    last: u32,
}

/// Configured once: the table of fifty cassettes takes longer than a thousand packets.
static MADE: LazyLock<Vec<Made>> = LazyLock::new(|| {
    let choices = OPTIONS.iter().flat_map(|options| GEOMETRIES.map(|geometry| (geometry, options)));
    choices
        .map(|(geometry, options)| {
            let detectors = ["shared", "per-cassette"].map(|builders| {
                let options = format!("builders = '{builders}'\n{options}");
                let setup = Setup { geometry: geometry.to_owned(), options, ..Setup::default() };
                Registry::builtin().configure("multiblade", &setup).expect("a published set-up")
            });
            let last = detectors[0].pixels().pixels();
            Made { detectors, last }
        })
        .collect()
});

fuzz_target!(|data: &[u8]| {
    let Some(&choice) = data.last() else { return };
    let made = &MADE[usize::from(choice) % MADE.len()];
    let [one, each] = &made.detectors;
    let (events, entries, refused) = read(&**one, made.last, data);
    assert_eq!(entries.balance(), 0);
    assert_eq!(entries.sum(Unit::Packets, Role::Rejected), refused);
    let (again, again_entries, _) = read(&**each, made.last, data);
    assert_eq!((events, entries), (again, again_entries));
});

/// Sorted events, counters, and how many packets the inspector refused.
fn read(detector: &dyn Detector, last: u32, data: &[u8]) -> (Vec<(i64, u32)>, Entries, u64) {
    let (mut reader, mut builder) = (detector.reader(), detector.builder());
    let mut inspector = detector.inspector();
    let ledger = Ledger::default();
    ledger.register(reader.sheet());
    ledger.register(builder.sheet().expect("it counts"));
    let mut products = Products::default();
    let (mut refused, mut rest) = (0, data);
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let (packet, tail) = tail.split_at(tail.len().min(u16::from_le_bytes(*length).into()));
        rest = tail;
        refused += u64::from(inspector.inspect(packet, Origin::NONE).error.is_some());
        reader.read(&Batch::from_datagrams([(packet, Origin::NONE)]), &mut products);
        builder.build(&mut products, None);
    }
    reader.finish(&mut products);
    builder.finish(&mut products);
    assert!(products.events.pixel.iter().all(|p| (1..=last).contains(p)));
    assert!(products.events.offset_ns.iter().all(|&o| o < 1 << 31));
    let mut events: Vec<_> = products.events.absolute().collect();
    events.sort_unstable();
    (events, ledger.read(), refused)
}
