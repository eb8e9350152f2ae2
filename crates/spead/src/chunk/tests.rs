//! Chunks of several streams, of any places, of packets in any order.

use proptest::prelude::*;

use super::*;
use crate::receive::ReceiverConfig;
use crate::testing::{Raw, imm, pattern, stop};

/// Chunk, index, offset and extra offset as items 0x1600 to 0x1603; a fifth item goes into `extra`.
fn place(request: PlaceRequest<'_>) -> Option<HeapPlace> {
    let value = |n: usize| request.items[n].map(|v| v as usize);
    request.extra.extend(request.items[5].map(|v| v as u8));
    let chunk = request.items[1]?;
    let (index, offset) = (value(2)?, value(3)?);
    Some(HeapPlace { chunk, index, offset, extra_offset: value(4)? })
}

fn config(max_chunks: usize, packet_presence: Option<usize>) -> ChunkConfig {
    let items = ChunkConfig::with_items(&[0x1600, 0x1601, 0x1602, 0x1603, 0x1604]);
    ChunkConfig { max_chunks, packet_presence, max_heap_extra: 1, ..items }
}

fn packet(cnt: u64, length: u64, offset: u64, bytes: &[u8], place: [u64; 4]) -> Vec<u8> {
    let items =
        place.iter().enumerate().map(|(n, v)| imm(0x1600 + n as u64, *v)).chain([imm(0x1604, 7)]);
    Raw { items: items.collect(), ..Raw::new(cnt, length, offset, bytes) }.bytes()
}

#[test]
fn several_streams_share_rings_that_stop_with_the_last_of_them() {
    let ring = SharedChunkRing::new(ChunkRing::default());
    let (other, user) = (ring.another(), ring.handle());
    (0..8).for_each(|_| user.lock().unwrap().add_free(Chunk::new(16, 2, 2)));
    let mut streams = [ring, other].map(|ring| {
        ChunkReceiver::for_chunks(ReceiverConfig::default(), config(1, None), place, ring).unwrap()
    });
    streams[0].push(0, &packet(1, 8, 0, &[1; 8], [0, 0, 0, 0]));
    streams[1].push(0, &packet(2, 8, 0, &[2; 8], [5, 1, 8, 1]));
    streams[0].push(0, &stop(9));
    assert!(!user.lock().unwrap().stopped());
    streams[1].push(0, &stop(9));
    let mut ids = vec![];
    while let Some(chunk) = user.lock().unwrap().pop() {
        ids.push((chunk.id, chunk.present.clone(), chunk.extra.clone()));
    }
    assert_eq!(ids, [(0, vec![1, 0], vec![7, 0]), (5, vec![0, 1], vec![0, 7])]);
    assert!(user.lock().unwrap().is_stopped());
}

/// Chunks of two real members of a group, each with every second of 6 heaps of 20 B; a flag for each heap or each packet.
fn grouped(presence: Option<usize>, missing: &[usize]) -> Chunk {
    let group = ChunkGroup::new(2, GroupEviction::Lossless);
    let flags = presence.map_or(1, |each| 20usize.div_ceil(each));
    let mut members = [0, 1].map(|_| {
        let memory = group.member(Chunk::new(6 * 20, 6 * flags, 6), 2);
        let config = config(1, presence);
        ChunkReceiver::for_chunks(ReceiverConfig::default(), config, place, memory).unwrap()
    });
    for heap in (0..6).filter(|heap| !missing.contains(heap)) {
        // Flags by antenna, then time; data by time, then antenna; extra backwards.
        let (antenna, time) = (heap / 2, heap % 2);
        let at = [0, heap * flags, (3 * time + antenna) * 20, 5 - heap].map(|n| n as u64);
        let bytes = pattern(20, heap as u64);
        for n in [1, 0, 2] {
            let part = &bytes[8 * n..(8 * n + 8).min(20)];
            members[antenna % 2].push(0, &packet(heap as u64, 20, 8 * n as u64, part, at));
        }
    }
    for member in &mut members {
        member.stop(0);
    }
    let mut all = group.take_ready();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn members_of_a_group_are_merged_where_their_heaps_lie() {
    for presence in [None, Some(8), Some(7)] {
        let each = presence.map_or(1, |each| 20usize.div_ceil(each));
        for missing in [&[][..], &[2], &[0, 5]] {
            let chunk = grouped(presence, missing);
            for heap in 0..6 {
                let (antenna, time) = (heap / 2, heap % 2);
                let there = !missing.contains(&heap);
                let at = (3 * time + antenna) * 20;
                let wanted = if there { pattern(20, heap as u64) } else { vec![0; 20] };
                assert_eq!(chunk.data[at..at + 20], wanted, "{presence:?} {missing:?} {heap}");
                assert_eq!(chunk.extra[5 - heap], if there { 7 } else { 0 });
                let flags = &chunk.present[heap * each..(heap + 1) * each];
                assert!(flags.iter().all(|flag| *flag == u8::from(there)), "{heap}: {flags:?}");
            }
        }
    }
}

#[test]
fn without_a_free_chunk_heaps_vanish_and_a_full_ring_takes_no_packet() {
    let mut stream = ChunkReceiver::for_chunks(
        ReceiverConfig::default(),
        config(2, None),
        place,
        ChunkRing::with_limit(1),
    )
    .unwrap();
    stream.store_mut().memory_mut().add_free(Chunk::new(16, 2, 2));
    for chunk in 0..3 {
        stream.push(0, &packet(chunk, 8, 0, &[1; 8], [chunk, 0, 0, 0]));
    }
    assert_eq!(stream.store_mut().memory_mut().starved(), 2);
    assert_eq!(
        stream.push(0, &packet(9, 8, 0, &[1; 8], [9, 0, 0, 0])),
        crate::receive::Outcome::Full
    );
    assert_eq!(stream.store_mut().memory_mut().pop().unwrap().id, 0);
}

proptest! {
    #[test]
    fn any_place_stays_inside_of_the_chunk(
        packets in proptest::collection::vec(
            ((0u64..5, 0u64..40, 0u64..40, 0usize..20), prop_oneof![Just([0u64; 4]), any::<[u64; 4]>(), [0u64..6, 0..4, 0..40, 0..4]]),
            0..40,
        ),
        (max_chunks, presence) in (1usize..4, proptest::option::of(1usize..20)),
    ) {
        let mut ring = ChunkRing::default();
        (0..200).for_each(|_| ring.add_free(Chunk::new(40, 6, 3)));
        let mut stream = ChunkReceiver::for_chunks(
            ReceiverConfig::default(), config(max_chunks, presence), place, ring,
        ).unwrap();
        for ((cnt, length, offset, bytes), place) in packets {
            stream.push(0, &packet(cnt, length, offset, &vec![1; bytes], place));
            let window = stream.store().window();
            prop_assert!(window.end - window.start <= max_chunks as u64);
        }
        stream.stop(0);
        let mut last = None;
        while let Some(chunk) = stream.store_mut().memory_mut().pop() {
            prop_assert!(last < Some(chunk.id));
            last = Some(chunk.id);
        }
    }
}
