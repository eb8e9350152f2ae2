//! Threads that compress make files with the same columns as HDF5's filter, of at most 1.05 times the length.

use std::path::Path;
use std::sync::Arc;

use crate::options;
use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::time::PulseTime;
use fullcount_nexus::{Compression, NexusSink, Packing, check};
use fullcount_testing::made_events::{Dice, PIXELS, events};

/// Events of a push, and pushes: a chunk and a half of 1 Mi, so that one is whole and one is begun.
const PULSE: u64 = 12_400;
const PULSES: u64 = 127;

/// Random pixels at sorted random times of each pulse; the detector's clock has steps of `step` ns.
fn random(dice: &mut Dice, pulse: u64, step: u64) -> Arc<Products> {
    let mut times: Vec<u64> = (0..PULSE).map(|_| dice.below(71_000_000) / step * step).collect();
    times.sort_unstable();
    let mut products = Products::default();
    products.events.open_pulse(PulseTime(1_000_000_000 + pulse as i64 * 71_428_571));
    for time in times {
        products.events.push(time as u32, 1 + dice.below(PIXELS) as u32);
    }
    Arc::new(products)
}

/// Columns and length of the file.
fn written(
    path: &Path,
    packing: Packing,
    mut next: impl FnMut(u64) -> Arc<Products>,
) -> (Vec<i32>, Vec<i32>, u64) {
    let mut o = options(path);
    o.chunk_events = 1 << 20;
    (o.compression, o.packing) = (Compression::Gzip(1), packing);
    let mut sink = NexusSink::create(&o).unwrap();
    for pulse in 0..PULSES {
        sink.push(&next(pulse)).unwrap();
        if pulse == 20 {
            sink.flush().unwrap();
        }
    }
    assert_eq!(sink.finish().unwrap().events, PULSE * PULSES);
    assert_eq!(check(path).unwrap(), []);
    let file = hdf5_metno::File::open(path).unwrap();
    let column = |name: &str| {
        let dataset = file.dataset(&format!("/entry/bank_events/{name}")).unwrap();
        let filters: Vec<_> = dataset.filters().iter().map(|f| format!("{f:?}")).collect();
        (dataset.read_raw::<i32>().unwrap(), filters)
    };
    let ((ids, filters), (offsets, _)) = (column("event_id"), column("event_time_offset"));
    assert_eq!(filters, ["Shuffle", "Deflate(1)"], "what every HDF5 has");
    (ids, offsets, std::fs::metadata(path).unwrap().len())
}

#[test]
fn both_ways_make_the_same_columns_and_neither_file_is_much_longer() {
    let dir = tempfile::tempdir().unwrap();
    for (name, step) in [("any time", 1), ("microseconds", 1000), ("repeating", 0)] {
        let make =
            |packing| {
                let mut dice = Dice(7);
                written(&dir.path().join(format!("{name}-{packing:?}.nxs")), packing, |pulse| {
                    match step {
                        0 => events(pulse * PULSE, (pulse + 1) * PULSE),
                        step => random(&mut dice, pulse, step),
                    }
                })
            };
        let (ids, offsets, length) = make(Packing::Hdf5);
        for threads in [1, 3] {
            let (same_ids, same_offsets, other) = make(Packing::Direct { threads });
            assert!(ids == same_ids && offsets == same_offsets, "{name}: the columns differ");
            let part = other as f64 / length as f64;
            println!("{name}: {length} bytes by HDF5, {other} by {threads} threads: {part:.3}");
            assert!(part <= 1.05, "{name}: {part} times as long");
        }
    }
}
