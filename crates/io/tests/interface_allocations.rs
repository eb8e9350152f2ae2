//! Receiving from an interface allocates nothing in steady state, with either engine.
//!
//! Needs root and iproute2, as `interfaces.rs`.
#![cfg(target_os = "linux")]

use std::alloc::System;
use std::time::Duration;

use fullcount_io::endpoint::{PacketUrl, XdpUrl};
use fullcount_io::packet_ring::PacketSource;
use fullcount_io::source::{Received, Source};
use fullcount_io::xdp::XdpSource;
use fullcount_testing::veth::{NAME, RECEIVER, Veth};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations of the whole process; this file holds one test, so nothing else makes any.
fn allocations() -> usize {
    let s = ALLOCATOR.stats();
    s.allocations + s.reallocations
}

#[test]
fn no_allocation_per_packet() {
    let Some(veth) = Veth::new(9000, 1) else { return };
    for packet in [false, true] {
        let mut source: Box<dyn Source> = veth.receiving(|| -> Box<dyn Source> {
            match packet {
                false => {
                    Box::new(XdpSource::open(&XdpUrl::new(NAME, 9000), 8 << 20, false).unwrap())
                }
                true => Box::new(
                    PacketSource::open(&PacketUrl::new(NAME, 9000), 8 << 20, false).unwrap(),
                ),
            }
        });
        let socket = veth.socket(RECEIVER, 9000);
        let bytes = vec![0u8; 8972];
        let mut batch = source.batch();
        let mut round = || {
            for i in 0..100 {
                // Every second one stays alone, in one piece or three.
                socket.send(&bytes[..[64, 64, 1472, 8972][i % 4]]).unwrap();
            }
            let mut missing = 100;
            while missing > 0 {
                let got = source.recv(&mut batch, Duration::from_secs(60)).unwrap();
                assert_eq!(got, Received::Data);
                missing -= batch.count();
            }
            // A call that brings nothing is part of the steady state, too.
            let got = source.recv(&mut batch, Duration::from_millis(3)).unwrap();
            assert_eq!(got, Received::Idle);
        };
        round();
        // The test harness's own thread allocates now and then, so one pass may see that; our own allocations would be
        // in every pass.
        let mut pass = || {
            let before = allocations();
            (0..40).for_each(|_| round());
            allocations() - before
        };
        let made: Vec<_> = (0..4).map(|_| pass()).collect();
        assert!(
            made.contains(&0),
            "packet ring {packet}: {made:?} allocations in passes of 40 rounds"
        );
    }
}
