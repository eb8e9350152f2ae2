//! Descriptors that mean harm cost no more memory than a multiple of their own length: all that this process allocates is counted.
//!
//! Alone in its binary, because the allocator counts for all threads. Reasons and counts: `describe/hostile_tests.rs`. Source:
//! `docs/spead.md`, "Memory".

use std::alloc::System;

use fullcount_spead::describe::DescriptorRefused;
use fullcount_spead::{BugCompat, HeapReceiver, ItemGroup, ReceiverConfig};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A packet of SPEAD-64-40 with these items by (id, immediate, value) behind the standard ones.
fn packet(items: &[(u64, bool, u64)], payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u64;
    let standard = [(1, true, 1), (2, true, length), (3, true, 0), (4, true, length)];
    let mut bytes = vec![0x53, 4, 3, 5, 0, 0];
    bytes.extend(((standard.len() + items.len()) as u16).to_be_bytes());
    for (id, immediate, value) in standard.iter().chain(items) {
        bytes.extend((u64::from(*immediate) << 63 | id << 40 | value).to_be_bytes());
    }
    bytes.extend(payload);
    bytes
}

/// All bytes that were allocated while a group took a heap with a descriptor that has this NumPy header, an immediate value behind it.
fn allocated(header: &str, group: &mut ItemGroup) -> usize {
    let descriptor = packet(&[(0x14, true, 0x1000), (0x15, false, 0)], header.as_bytes());
    let heap = packet(&[(5, false, 0), (0x1000, true, 7)], &descriptor);
    let mut stream = HeapReceiver::new(ReceiverConfig::default()).unwrap();
    stream.push(0, &heap);
    let heap = stream.pop().unwrap().heap().unwrap();
    let before = ALLOCATOR.stats().bytes_allocated + reallocated();
    group.update(&heap);
    ALLOCATOR.stats().bytes_allocated + reallocated() - before
}

/// What growing vectors took beside, if anything.
fn reallocated() -> usize {
    usize::try_from(ALLOCATOR.stats().bytes_reallocated).unwrap_or(0)
}

/// Most bytes that are allocated for each byte of a header, and beside it for the receiver of the descriptor's packet.
const TIMES: usize = 64;
const BESIDE: usize = 256 << 10;

#[test]
fn a_descriptor_costs_a_multiple_of_its_length_however_much_it_announces() {
    let header = |descr: &str, shape: &str| {
        format!("{{'descr': {descr}, 'fortran_order': True, 'shape': {shape}}}")
    };
    let many = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let megabyte = 1_000_000;
    for (what, text, why) in [
        ("2^47 bytes", header("'|u1'", "(140737488355328,)"), None),
        ("2^62 by 0", header("'<u8'", "(4611686018427387904, 0)"), None),
        (
            "2^47 by 2^47",
            header("'|u1'", "(140737488355328, 140737488355328)"),
            Some(DescriptorRefused::TooLarge),
        ),
        (
            "1 MB of numbers",
            header(&format!("[{}]", many("1,", megabyte)), "()"),
            Some(DescriptorRefused::Header),
        ),
        (
            "1 MB of dimensions",
            header("'|u1'", &format!("({})", many("1,", megabyte))),
            Some(DescriptorRefused::Header),
        ),
        ("1 MB of fields", header(&format!("[{}]", many("('','|u1'),", megabyte)), "()"), None),
        ("1 MB of levels", header(&many("[", megabyte), "()"), Some(DescriptorRefused::Header)),
        (
            "16 MB of numbers",
            header(&format!("[{}]", many("1,", 16 * megabyte)), "()"),
            Some(DescriptorRefused::Header),
        ),
    ] {
        let mut group = ItemGroup::new(BugCompat::default());
        let used = allocated(&text, &mut group);
        println!("{what}: {used} B for {} B", text.len());
        assert!(
            used <= TIMES * text.len().min(1 << 20) + 4 * text.len() + BESIDE,
            "{what}: {used} B for {} B",
            text.len()
        );
        let reasons: Vec<_> = group.counts().refused.reasons().collect();
        assert_eq!(reasons, why.map(|why| (why, 1)).into_iter().collect::<Vec<_>>(), "{what}");
    }
}
