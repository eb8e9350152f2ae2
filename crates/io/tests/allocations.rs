//! Receiving and sending allocate nothing in steady state, with any engine.
#![cfg(target_os = "linux")]

use std::alloc::System;
use std::time::Duration;

use fullcount_io::endpoint::{Engine, UdpUrl};
use fullcount_io::pace::Pacer;
use fullcount_io::source::{Received, Source};
use fullcount_io::udp::{ReceiveOptions, SendOptions, UdpSender, UdpSource};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations of the whole process; this file holds one test, so nothing else makes any.
fn allocations() -> usize {
    let s = ALLOCATOR.stats();
    s.allocations + s.reallocations
}

#[test]
fn no_allocation_per_packet_in_either_direction() {
    let seen = allocations();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(allocations() > seen, "the counter counts");
    for engine in [Engine::Plain, Engine::Mmsg, Engine::Gro, Engine::Uring] {
        let any = UdpUrl { engine, ..UdpUrl::new("127.0.0.1:0".parse().unwrap()) };
        let mut source = match UdpSource::open(&any, &ReceiveOptions::default()) {
            Ok(source) => source,
            Err(told) if engine == Engine::Uring => {
                assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{told}");
                println!("skipped: {told}");
                continue;
            }
            Err(told) => panic!("{told}"),
        };
        let sends = if engine == Engine::Uring { Engine::Gro } else { engine };
        let to = UdpUrl { engine: sends, ..UdpUrl::new(source.local_addr()) };
        let mut sender = UdpSender::open(&to, &SendOptions::default()).unwrap();
        let mut pacer = Pacer::flat_out(100);
        let bytes = vec![0u8; 100 * 300];
        let mut batch = source.batch();
        let mut round = |packets: &mut u64| {
            let n = (pacer.wait(Duration::from_secs(1)) as usize).min(300);
            sender.send(&bytes[..n * 100 - 1], 100).unwrap();
            let mut missing = n as u64;
            while missing > 0 {
                assert_eq!(
                    source.recv(&mut batch, Duration::from_secs(60)).unwrap(),
                    Received::Data
                );
                missing -= batch.count();
            }
            // A call that brings nothing is part of the steady state, too.
            assert_eq!(source.recv(&mut batch, Duration::ZERO).unwrap(), Received::Idle);
            *packets += n as u64;
        };
        let mut packets = 0;
        round(&mut packets);
        // The test harness's own thread allocates now and then, so one pass may see that; our own allocations would be
        // in every pass.
        let mut pass = || {
            let before = allocations();
            for _ in 0..40 {
                round(&mut packets);
            }
            allocations() - before
        };
        let made: Vec<_> = (0..4).map(|_| pass()).collect();
        assert!(made.contains(&0), "{engine:?}: {made:?} allocations in passes of 40 rounds");
        assert!(packets > 12_000);
    }
}
