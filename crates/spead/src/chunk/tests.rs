//! Chunks of several streams, of any places, of packets in any order.

use proptest::prelude::*;

use super::*;
use crate::receive::{Outcome, ReceiverConfig, SpeadCounter};
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
    assert_eq!(stream.push(0, &packet(9, 8, 0, &[1; 8], [9, 0, 0, 0])), Outcome::Full);
    assert_eq!(stream.store_mut().memory_mut().pop().unwrap().id, 0);
}

type Member = ChunkReceiver<fn(PlaceRequest<'_>) -> Option<HeapPlace>, ChunkGroupMember>;

/// Chunks of a group have so many heaps of 8 B.
const PLACES: usize = 64;

/// Streams of a group, with windows as large as its own.
fn members(group: &ChunkGroup, many: usize, window: usize, presence: Option<usize>) -> Vec<Member> {
    let like = Chunk::new(8 * PLACES, PLACES, 0);
    let config = ChunkConfig { max_heap_extra: 0, ..config(window, presence) };
    let one = |_| {
        let memory = group.member(like.clone(), 4);
        let place: fn(PlaceRequest<'_>) -> Option<HeapPlace> = |request| {
            let [_, Some(chunk), Some(index), ..] = request.items[..] else { return None };
            let (index, offset) = (index as usize, 8 * index as usize);
            Some(HeapPlace { chunk, index, offset, extra_offset: 0 })
        };
        ChunkReceiver::for_chunks(ReceiverConfig::default(), config.clone(), place, memory).unwrap()
    };
    (0..many).map(one).collect()
}

/// A heap of one packet.
fn one(cnt: u64, chunk: u64, index: u64) -> Vec<u8> {
    packet(cnt, 8, 0, &[1; 8], [chunk, index, 0, 0])
}

/// Heaps that are there.
fn there(chunks: &[Chunk]) -> u64 {
    chunks.iter().flat_map(|chunk| &chunk.present).map(|flag| u64::from(*flag)).sum()
}

#[test]
fn a_user_who_takes_no_chunks_lets_all_members_wait_and_loses_nothing_unseen() {
    for eviction in [GroupEviction::Lossy, GroupEviction::Lossless] {
        let group = ChunkGroup::new(2, eviction).with_limit(3);
        let mut members = members(&group, 2, 2, None);
        let (mut accepted, mut full) = (0, 0);
        for n in 0..1000 {
            for (at, member) in members.iter_mut().enumerate() {
                match member.push(0, &one(2 * n + at as u64, n, at as u64)) {
                    Outcome::Accepted => accepted += 1,
                    Outcome::Full => full += 1,
                    Outcome::Refused(why) => panic!("{why}"),
                }
            }
        }
        assert_eq!(accepted + full, 2000);
        assert!(members.iter().all(|member| member.statistics().worker_blocked > 0));
        // One that stands still again is counted again, and the rest goes on as soon as there is room.
        let ready = group.take_ready();
        assert!((3..=3 + 2 * 2).contains(&ready.len()), "{} {eviction:?}", ready.len());
        for (at, member) in members.iter_mut().enumerate() {
            let outcome = member.push(0, &one(3000 + at as u64, 1000, at as u64));
            assert_eq!(outcome, Outcome::Accepted, "{eviction:?}");
            accepted += 1;
        }
        members.iter_mut().for_each(|member| member.stop(0));
        let rest = group.take_ready();
        let old: u64 = members.iter().map(|member| member.statistics().too_old_heaps).sum();
        assert_eq!(there(&ready) + there(&rest) + old, accepted, "{eviction:?}");
        assert!(group.is_stopped());
    }
}

/// Threads that are never at the same chunk, and a user who is slower than they are.
#[test]
fn members_on_threads_of_their_own_lose_no_heap_unseen() {
    const MEMBERS: usize = 4;
    for eviction in [GroupEviction::Lossy, GroupEviction::Lossless] {
        let group = ChunkGroup::new(3, eviction).with_limit(2);
        let streams = members(&group, MEMBERS, 2, None);
        let (mut seen, mut accepted, mut old) = (vec![], 0, 0);
        std::thread::scope(|scope| {
            let fill = |(at, mut member): (usize, Member)| {
                move || {
                    for n in 0..400u64 {
                        let heap = one(n, n / 2, (n % 2) * MEMBERS as u64 + at as u64);
                        while member.push(0, &heap) == Outcome::Full {
                            std::thread::yield_now();
                        }
                    }
                    member.stop(0);
                    (member.tally().get(SpeadCounter::Complete), member.statistics().too_old_heaps)
                }
            };
            let threads: Vec<_> =
                streams.into_iter().enumerate().map(|s| scope.spawn(fill(s))).collect();
            while !group.is_stopped() {
                let ready = group.take_ready();
                assert!(ready.len() < 2 + MEMBERS * 3 * 3, "{} chunks", ready.len());
                seen.extend(ready);
                std::thread::yield_now();
            }
            for thread in threads {
                let (heaps, late) = thread.join().unwrap();
                (accepted, old) = (accepted + heaps, old + late);
            }
        });
        assert!(seen.is_sorted_by(|a, b| a.id < b.id));
        // A heap that was too old from its beginning counts as one that came.
        assert_eq!((there(&seen) + old, accepted), (1600, 1600), "{eviction:?}");
        assert!(eviction == GroupEviction::Lossy || old == 0);
    }
}

#[test]
fn heaps_of_a_chunk_that_a_member_hands_over_too_late_are_too_old() {
    for presence in [None, Some(8)] {
        let group = ChunkGroup::new(2, GroupEviction::Lossy);
        let mut members = members(&group, 2, 2, presence);
        for n in 0..2 {
            members[1].push(0, &one(n, 0, n));
        }
        members[1].push(0, &one(2, 1, 2));
        // The other one goes on alone.
        (0..5).for_each(|n| {
            members[0].push(0, &one(10 + n, n, 9));
        });
        let ids: Vec<u64> = group.take_ready().iter().map(|chunk| chunk.id).collect();
        assert_eq!(ids, [0, 1, 2]);
        assert_eq!(members[1].statistics().too_old_heaps, 0, "nobody knows yet");
        // Its chunks 0 and 1 are dropped when it hears of that.
        members[1].push(0, &one(3, 1, 3));
        assert_eq!((members[1].statistics().too_old_heaps, group.too_old()), (4, 2));
        assert_eq!(members[1].tally().get(SpeadCounter::Discarded), 1);
        members[1].push(0, &one(4, 4, 4));
        members.iter_mut().for_each(|member| member.stop(0));
        assert_eq!(there(&group.take_ready()), 3);
        assert_eq!(members[0].statistics().too_old_heaps, 0);
    }
}

#[test]
fn a_window_above_the_groups_is_refused() {
    let group = ChunkGroup::new(2, GroupEviction::Lossy);
    let memory = group.member(Chunk::new(8, 1, 0), 1);
    let refused = ChunkStore::new(config(3, None), place, memory).unwrap_err();
    assert_eq!(refused.to_string(), "max_chunks = 3: 1 to 2, the window of its group");
}

proptest! {
    /// Whatever members do and however seldom chunks are taken: memory is bounded, and each heap is in a chunk or counted.
    #[test]
    fn heaps_of_a_group_are_there_or_too_old(
        steps in proptest::collection::vec((0usize..3, 0u64..5, 0u8..12), 0..PLACES),
        (window, more, limit, presence) in (1usize..4, 0usize..3, 1usize..5, proptest::option::of(Just(8usize))),
        lossless: bool,
    ) {
        let eviction = if lossless { GroupEviction::Lossless } else { GroupEviction::Lossy };
        let group = ChunkGroup::new(window + more, eviction).with_limit(limit);
        let mut members = members(&group, 3, window, presence);
        let (mut at, mut accepted, mut seen) = ([0u64; 3], 0, vec![]);
        let most = limit + 3 * 3 * (window + more);
        for (n, (member, on, what)) in steps.into_iter().enumerate() {
            match what {
                0 => {
                    let ready = group.take_ready();
                    prop_assert!(ready.len() < most);
                    seen.extend(ready);
                }
                1 => at[member] += 1000,
                2 => at[member] = at[member].saturating_sub(2),
                _ => at[member] += on / 2,
            }
            let packet = one(n as u64, at[member], n as u64);
            accepted += u64::from(members[member].push(0, &packet) == Outcome::Accepted);
        }
        members.iter_mut().for_each(|member| member.stop(0));
        let ready = group.take_ready();
        prop_assert!(ready.len() < most && group.is_stopped());
        seen.extend(ready);
        prop_assert!(seen.is_sorted_by(|a, b| a.id < b.id));
        let old: u64 = members.iter().map(|member| member.statistics().too_old_heaps).sum();
        prop_assert_eq!(there(&seen) + old, accepted);
    }

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
