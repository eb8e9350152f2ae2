//! Gd-GEM allocates nothing in steady state, on one thread and on several: simulated tracks through reader and builder.

use std::alloc::System;

use fullcount_core::batch::{Batch, Origin};
use fullcount_core::products::{Products, Want};
use fullcount_detect::detector::{Setup, Threads, builtin};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bunch-crossing clocks between two tracks, and tracks of a pass.
const APART: u64 = 40;
const TRACKS: u64 = 20_000;

/// A frame of words, as section 2 of the format says.
fn frame(fec: u8, counter: u32, words: &[[u8; 6]]) -> Vec<u8> {
    let mut frame = counter.to_be_bytes().to_vec();
    frame.extend(b"VM3");
    frame.push(fec << 4);
    frame.extend([0; 8]);
    frame.extend(words.concat());
    frame
}

fn marker(vmm: u64, time: u64) -> [u8; 6] {
    let word = (time >> 10) << 16 | vmm << 10 | (time & 0x3ff);
    let [_, _, rest @ ..] = word.to_be_bytes();
    rest
}

fn hit(vmm: u64, channel: u64, since: u64, adc: u64) -> [u8; 6] {
    let (offset, bcid) = (since / 4096, since % 4096);
    let word =
        offset << 43 | vmm << 38 | adc << 28 | (bcid ^ bcid >> 1) << 16 | 0xc000 | channel << 8 | 7;
    let [_, _, rest @ ..] = word.to_be_bytes();
    rest
}

/// Tracks of 5 + 5 hits: x from FEC 2, y from FEC 1, as the public capture has them.
fn pass(number: u64) -> Vec<Vec<u8>> {
    let mut words: [Vec<[u8; 6]>; 2] = Default::default();
    let mut latest = 0;
    for track in number * TRACKS..(number + 1) * TRACKS {
        let clock = 65_536 + track * APART;
        if clock / 65_536 != latest {
            latest = clock / 65_536;
            words.iter_mut().for_each(|w| w.extend([0, 1].map(|vmm| marker(vmm, latest * 65_536))));
        }
        for (plane, words) in words.iter_mut().enumerate() {
            let first = track * (7 + plane as u64) % 58;
            words
                .extend((0..5).map(|k| hit(track % 2, first + k, clock % 65_536 + k / 2, 200 + k)));
        }
    }
    let frames = words.iter().zip([2, 1]).map(|(words, fec)| {
        let base = number as u32 * 10_000;
        let frames = words.chunks(1400).enumerate();
        frames.map(|(n, words)| frame(fec, base + n as u32, words)).collect::<Vec<_>>()
    });
    let frames: Vec<_> = frames.collect();
    frames[0].iter().zip(&frames[1]).flat_map(|(a, b)| [a.clone(), b.clone()]).collect()
}

#[test]
fn passes_over_simulated_tracks_allocate_nothing() {
    let passes: Vec<Vec<Batch>> = (0..80)
        .map(|number| {
            let packets = pass(number);
            let batch = |part: &[Vec<u8>]| {
                Batch::from_datagrams(part.iter().map(|p| (&p[..], Origin::NONE)))
            };
            packets.chunks(16).map(batch).collect()
        })
        .collect();
    for threads in [1, 2, 3] {
        let options = "ccs = 3\ncrl = 0.2\ncru = 10".to_owned();
        let setup = Setup { options, ..Setup::default() };
        let detector = builtin().configure("gdgem", &setup).expect("accepted");
        let on = Threads::of(threads);
        let mut decoder = detector.decoder(Want::default(), &on).expect("threads");
        let (mut products, mut events) = (Products::default(), 0);
        // The first passes let every column and slice grow to its size; on several threads that takes the more of them. The test's own thread is not alone in the process:
        // one pass without any allocation proves it.
        let made: Vec<usize> = passes
            .iter()
            .map(|batches| {
                let region = Region::new(ALLOCATOR);
                for batch in batches {
                    products.clear();
                    decoder.decode(Some(batch), None, &mut products);
                    events += products.events.len();
                }
                let made = region.change();
                made.allocations + made.reallocations
            })
            .collect();
        assert!(events as u64 > 10 * TRACKS, "{threads} threads: {events} events");
        assert_eq!(made.iter().min(), Some(&0), "{threads} threads: {made:?}");
    }
}
