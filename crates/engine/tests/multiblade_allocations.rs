//! Multi-Blade allocates nothing in steady state: recorded packets through reader and builder, also where every
//! box goes through the clusterer.

use std::alloc::System;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Setup, Threads, builtin};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The recorded packets, made as section 8 of the format says.
fn packets() -> Vec<Vec<u8>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/multiblade/readouts_a01000.csv");
    let text = std::fs::read_to_string(file).expect("vectors are committed");
    let number = |v: &str| v.parse::<u64>().expect("a number");
    let row = |line: &str| line.split(',').map(number).collect::<Vec<_>>();
    let rows: Vec<Vec<u64>> = text.lines().skip(1).map(row).collect();
    let make = |(n, rows): (usize, &[Vec<u64>])| {
        let mut p = vec![0; 16];
        p.extend((rows[0][1] as u32).to_le_bytes());
        p.extend([1, 0]);
        p.extend((rows.len() as u16).to_le_bytes());
        p.extend([1, 3]);
        p.extend((n as u32).to_le_bytes());
        p.extend([0, 0]);
        for r in rows {
            p.extend((r[2] as u32).to_le_bytes());
            p.extend((r[3] as u16).to_le_bytes());
            p.extend((r[4] as u16).to_le_bytes());
        }
        p
    };
    rows.chunk_by(|a, b| a[..2] == b[..2]).enumerate().map(make).collect()
}

#[test]
fn a_pass_over_recorded_packets_allocates_nothing() {
    let packets = packets();
    let batches: Vec<Batch> = packets
        .chunks(100)
        .map(|part| Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE))))
        .collect();
    for options in [
        "",
        "resolve_doubles = true\nmonitor = 'pixel'",
        "builders = 'per-cassette'\nmonitor = 'pixel'",
        "mode = '1d'",
        "clustering = 'fixed-window'",
    ] {
        let setup = Setup { options: options.to_owned(), ..Setup::default() };
        let detector = builtin().configure("multiblade", &setup).expect("defaults");
        let mut decoder = detector.decoder(Want::default(), &Threads::of(1)).expect("one thread");
        let mut products = Products::default();
        let mut events = 0;
        // The first pass lets every column grow to its size. The test's own thread is not alone in the process:
        // one pass without any allocation proves it.
        let least = (0..5)
            .map(|_| {
                let region = Region::new(ALLOCATOR);
                for batch in &batches {
                    products.clear();
                    decoder.decode(Some(batch), None, &mut products);
                    events += products.events.len();
                }
                let made = region.change();
                made.allocations + made.reallocations
            })
            .min();
        assert!(events > 1000, "{options}: {events} events");
        assert_eq!(least, Some(0), "{options}");
    }
}
