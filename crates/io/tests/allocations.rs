//! Receiving and sending allocate nothing once they are warm, whatever the engine.
#![cfg(target_os = "linux")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use fullcount_io::endpoint::{Engine, UdpUrl};
use fullcount_io::pace::Pacer;
use fullcount_io::source::{Received, Source};
use fullcount_io::udp::{ReceiveOptions, SendOptions, UdpSender, UdpSource};

/// Counts the allocations of each thread; const-initialised, so counting allocates nothing.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn counted() {
    ALLOCATIONS.with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counted();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        counted();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn no_allocation_per_packet_in_either_direction() {
    let seen = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert!(ALLOCATIONS.get() > seen, "the counter counts");
    for engine in [Engine::Plain, Engine::Mmsg, Engine::Gro] {
        let any = UdpUrl { engine, ..UdpUrl::new("127.0.0.1:0".parse().unwrap()) };
        let mut source = UdpSource::open(&any, &ReceiveOptions::default()).unwrap();
        let to = UdpUrl { engine, ..UdpUrl::new(source.local_addr()) };
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
                    source.recv(&mut batch, Duration::from_secs(5)).unwrap(),
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
        let before = ALLOCATIONS.get();
        for _ in 0..40 {
            round(&mut packets);
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{engine:?}, {packets} packets");
        assert!(packets > 12_000);
    }
}
