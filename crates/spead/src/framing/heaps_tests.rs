//! Whole heaps in whatever pieces they come, behind junk, above the limit, cut.

use proptest::prelude::*;

use super::*;
use crate::receive::{HeapReceiver, MemoryPool, OnIncomplete, ReceiverConfig, SpeadCounter};
use crate::send::{OutHeap, Packetiser};
use crate::testing::{Raw, adr, imm, pattern, stop};

fn raw(cnt: u64, bytes: usize) -> Vec<u8> {
    let items = vec![adr(0x1000, 0)];
    Raw { items, ..Raw::new(cnt, bytes as u64, 0, &pattern(bytes, cnt)) }.bytes()
}

fn read(stream: &mut HeapStream, bytes: &[u8], piece: usize) -> Vec<(u64, usize)> {
    let mut heaps = vec![];
    for part in bytes.chunks(piece) {
        stream.push(part, 5, |heap| {
            let heap = heap.heap().unwrap();
            let data = pattern(heap.payload().len(), heap.cnt);
            assert_eq!(heap.item(0x1000).and_then(|i| i.bytes()).unwrap_or(&[]), data);
            heaps.push((heap.cnt, data.len()));
        });
    }
    heaps
}

#[test]
fn payload_goes_into_the_heaps_own_memory() {
    let pool = MemoryPool::new(1, 10_000, 2, 1).unwrap();
    let mut stream = HeapStream::new(1 << 20, pool.clone());
    let bytes = raw(7, 5000);
    let room = stream.want();
    room.copy_from_slice(&bytes[..8]);
    assert!(stream.filled(8, 1).is_none());
    let rest = stream.want().len();
    stream.want().copy_from_slice(&bytes[8..8 + rest]);
    assert!(stream.filled(rest, 1).is_none());
    // One read of the payload is enough, and goes where the heap stays.
    let room = stream.want();
    assert_eq!(room.len(), 5000);
    room.copy_from_slice(&bytes[48..]);
    let place = room.as_ptr();
    let heap = stream.filled(5000, 9).and_then(Delivery::heap).unwrap();
    assert_eq!((heap.payload().as_ptr(), heap.first_ns, heap.last_ns), (place, 1, 9));
    assert_eq!(pool.free_blocks(), 0);
    drop(heap);
    assert_eq!(pool.free_blocks(), 1);
}

#[test]
fn heaps_above_the_limit_and_junk_are_skipped_and_a_cut_is_said() {
    let junk = [[0x53, 4, 3, 5, 0, 0, 0, 0], [0xff; 8]].concat();
    let all = [raw(1, 50), raw(2, 5000), junk, raw(3, 900), stop(4), raw(5, 10)].concat();
    for piece in [1, 3, 64, 1 << 20] {
        let mut stream = HeapStream::plain(1000);
        assert_eq!(read(&mut stream, &all, piece), [(1, 50), (3, 900)]);
        let counts = stream.counts();
        assert_eq!((counts.too_large, counts.skipped_bytes, counts.junk_bytes), (1, 5000, 16));
        assert!(stream.is_stopped() && stream.finish(Arrival::Flushed).is_none());
        assert_eq!(stream.counts().cut, 0);
    }
    let mut stream = HeapStream::plain(1000);
    assert_eq!(read(&mut stream, &raw(1, 50)[..70], 7), []);
    let part = stream.finish(Arrival::Flushed).unwrap();
    assert_eq!((part.cnt, part.heap_length, part.received_length), (1, Some(50), 22));
    assert_eq!(part.pieces().collect::<Vec<_>>(), [(0, &pattern(50, 1)[..22])]);
    assert_eq!(stream.counts().cut, 1);
    // Of one that is cut in its pointers nobody knows what it is.
    read(&mut stream, &raw(1, 50)[..30], 7);
    assert!(stream.finish(Arrival::Flushed).is_none() && stream.counts().cut == 2);
    let mut packets = HeapStream::plain(1000);
    read(&mut packets, &crate::testing::heap(1, &[1; 100], 40).concat(), 9);
    assert_eq!(packets.counts().heaps, 0, "packets of a heap are no heaps");
    assert!(packets.counts().not_whole > 0);
}

#[test]
fn what_a_sender_writes_whole_is_read() {
    let mut heap = OutHeap::default();
    heap.add_item(0x1000, pattern(70_000, 3), false);
    (0..40).for_each(|n| heap.add_inline(0x1100 + n, n));
    let mut packetiser = Packetiser::whole(&heap, 3).unwrap();
    let mut bytes = vec![];
    packetiser.next_packet(&heap, &mut bytes).unwrap();
    assert!(packetiser.is_done());
    let empty = OutHeap::default();
    Packetiser::whole(&empty, 4).unwrap().next_packet(&empty, &mut bytes).unwrap();
    let mut stream = HeapStream::plain(1 << 20);
    let mut seen = vec![];
    stream.push(&bytes, 0, |heap| {
        let heap = heap.heap().unwrap();
        seen.push((heap.cnt, heap.items().count(), heap.payload().len()));
    });
    assert_eq!(seen, [(3, 41, 70_000), (4, 0, 1)]);
    (0..65_600).for_each(|n| heap.add_inline(0x1100 + n, n));
    assert!(Packetiser::whole(&heap, 3).is_err());
}

/// Counts of a stream that gets what whole heaps of these bytes give.
fn counted(bytes: &[u8], arrival: Arrival) -> (HeapReceiver, Vec<Delivery>) {
    let config = ReceiverConfig { incomplete: OnIncomplete::Give, ..ReceiverConfig::default() };
    let (mut framing, mut stream) =
        (HeapStream::plain(1 << 20), HeapReceiver::new(config).unwrap());
    framing.push(bytes, 7, |heap| {
        stream.push_heap(7, heap, 1);
    });
    if let Some(part) = framing.finish(arrival) {
        stream.push_heap(8, Delivery::Incomplete(part), 1);
    }
    let all = std::iter::from_fn(|| stream.pop()).collect();
    (stream, all)
}

#[test]
fn a_heap_that_is_cut_is_counted_to_the_byte_and_given_with_its_map() {
    let bytes = [raw(1, 50), raw(2, 900)].concat();
    for (arrival, flushed) in [(Arrival::Flushed, 1), (Arrival::TimedOut, 0)] {
        let (mut stream, all) = counted(&bytes[..bytes.len() - 300], arrival);
        let count = |stream: &mut HeapReceiver, line| stream.tally().get(line);
        assert_eq!(count(&mut stream, SpeadCounter::Incomplete), 1);
        assert_eq!(count(&mut stream, SpeadCounter::LostBytes), 300);
        assert_eq!(count(&mut stream, SpeadCounter::PayloadBytes), 650);
        assert_eq!(count(&mut stream, SpeadCounter::TimedOut), 1 - flushed);
        let statistics = stream.statistics();
        assert_eq!((statistics.heaps, statistics.incomplete_heaps_flushed), (2, flushed));
        assert_eq!(stream.losses().bytes, 300);
        let Delivery::Incomplete(part) = &all[1] else { panic!("{all:?}") };
        assert_eq!((part.cnt, part.arrival), (2, arrival));
        assert!(part.gaps().eq(std::iter::once(600..900)));
        assert_eq!(part.addresses().collect::<Vec<_>>(), [(0x1000, 0)]);
    }
}

#[test]
fn an_item_beyond_the_end_makes_a_whole_heap_incomplete() {
    let items = vec![adr(0x1000, 0), adr(0x1001, 17)];
    let heap = Raw { items, ..Raw::new(1, 16, 0, &[9; 16]) }.bytes();
    let (mut stream, all) = counted(&heap, Arrival::Flushed);
    assert!(matches!(&all[..], [Delivery::Incomplete(part)] if part.received_length == 16));
    let tally = stream.tally();
    let lines = [SpeadCounter::Complete, SpeadCounter::Incomplete, SpeadCounter::LostBytes];
    assert_eq!(lines.map(|line| tally.get(line)), [0, 1, 0]);
}

#[test]
fn a_start_item_lets_a_sender_use_its_numbers_again() {
    let start = Raw { items: vec![imm(6, 0)], ..Raw::new(1, 4, 0, &[1; 4]) }.bytes();
    let bytes = [raw(1, 50), raw(2, 50), raw(2, 50), start, raw(2, 50)].concat();
    let (mut stream, all) = counted(&bytes, Arrival::Flushed);
    assert_eq!(all.iter().map(Delivery::cnt).collect::<Vec<_>>(), [1, 2, 1, 2]);
    assert_eq!(stream.tally().get(SpeadCounter::DuplicateHeap), 1);
}

#[test]
fn a_stop_lets_a_sender_use_its_numbers_again() {
    let mut heaps = vec![];
    HeapStream::plain(1 << 20).push(&raw(1, 50).repeat(2), 7, |heap| heaps.push(heap));
    let mut stream =
        HeapReceiver::new(ReceiverConfig { stops: 2, ..ReceiverConfig::default() }).unwrap();
    heaps.into_iter().for_each(|heap| {
        stream.push_heap(7, heap, 90);
        stream.push_stop(7, 57);
    });
    assert_eq!(std::iter::from_fn(|| stream.pop()).count(), 2);
    // Or it is handed on.
    let config = ReceiverConfig { stop_on_stop_item: false, ..ReceiverConfig::default() };
    let mut stream = HeapReceiver::new(config).unwrap();
    let bytes = [raw(1, 50), raw(2, 50), stop(3)].concat().repeat(2);
    HeapStream::plain(1 << 20).without_stop().push(&bytes, 7, |heap| {
        stream.push_heap(7, heap, 90);
    });
    let all: Vec<_> = std::iter::from_fn(|| stream.pop()).map(|heap| heap.cnt()).collect();
    assert_eq!(all, [1, 2, 3, 1, 2, 3]);
}

/// Bytes of memory that the heap has which is being read.
fn held(stream: &HeapStream) -> usize {
    match &stream.reading {
        Reading::Payload { memory, .. } => memory.capacity(),
        _ => 0,
    }
}

#[test]
fn a_length_alone_costs_no_memory_and_a_long_heap_grows_as_it_comes() {
    let announced = |length: u64| {
        let items = vec![imm(4, length), adr(0x1000, 0)];
        Raw { items, skip: vec![4], ..Raw::new(1, length, 0, &[]) }.bytes()
    };
    let pool = MemoryPool::new(1, FIRST, 2, 0).unwrap();
    let streams = || [HeapStream::plain(1 << 30), HeapStream::new(1 << 30, pool.clone())];
    let piece = pattern(1 << 20, 3);
    for mut stream in streams() {
        stream.push(&announced(1 << 30), 0, |_| panic!("nothing came"));
        assert_eq!(held(&stream), FIRST);
        for n in 1..=72 {
            stream.push(&piece, 0, |_| panic!("not whole"));
            assert!(held(&stream) <= FIRST.max(2 * n * piece.len()), "{n} MiB: {}", held(&stream));
        }
        let part = stream.finish(Arrival::Flushed).unwrap();
        assert_eq!((part.heap_length, part.received_length), (Some(1 << 30), 72 << 20));
        assert!(part.pieces().all(|(at, bytes)| at == 0 && bytes.len() == 72 << 20));
    }
    // In pieces that end anywhere.
    let data = pattern(70_000_003, 9);
    let bytes = [announced(data.len() as u64), data.clone(), raw(2, 50)].concat();
    for mut stream in streams() {
        let mut heaps = vec![];
        bytes.chunks(1_234_567).for_each(|piece| {
            stream.push(piece, 0, |heap| heaps.extend(heap.heap()));
            assert!(held(&stream) <= data.len());
        });
        assert_eq!(heaps.len(), 2);
        assert!(heaps[0].payload() == data && heaps[1].payload() == pattern(50, 2));
    }
}

#[test]
fn heaps_of_all_streams_together_keep_to_their_memory() {
    let announced = |length: usize| {
        let items = vec![imm(4, length as u64), adr(0x1000, 0)];
        Raw { items, skip: vec![4], ..Raw::new(1, length as u64, 0, &[]) }.bytes()
    };
    let live = LiveMemory::new(100 << 20);
    let stream = || HeapStream::plain(1 << 30).within(&live);
    let (mut first, mut second, mut third) = (stream(), stream(), stream());
    // 32 MiB each before anything came of three; the fourth gets none.
    for stream in [&mut first, &mut second, &mut third] {
        stream.push(&announced(40 << 20), 0, |_| panic!("nothing came"));
    }
    assert_eq!(live.held(), 96 << 20);
    let mut fourth = stream();
    fourth.push(&announced(5 << 20), 0, |_| panic!("nothing came"));
    assert_eq!((fourth.counts().no_memory, fourth.counts().too_large), (1, 0));
    // A small one has room.
    let mut heaps = 0;
    fourth.push(&pattern(5 << 20, 1), 0, |_| panic!("it is skipped"));
    fourth.push(&raw(2, 1000), 0, |_| heaps += 1);
    assert_eq!((fourth.counts().skipped_bytes, heaps, live.held()), (5 << 20, 1, 96 << 20));
    // The first cannot grow beyond its 32 MiB: it is given up, and the others have its memory.
    first.push(&pattern(33 << 20, 1), 0, |_| panic!("it is skipped"));
    assert_eq!((first.counts().no_memory, live.held()), (1, 64 << 20));
    second.push(&pattern(40 << 20, 1), 0, |_| heaps += 1);
    assert_eq!((second.counts().no_memory, heaps, live.held()), (0, 2, 32 << 20));
    assert!(third.finish(Arrival::Flushed).is_some());
    drop((first, second));
    assert_eq!(live.held(), 0);
    third.push(&announced(40 << 20), 0, |_| panic!("nothing came"));
    drop(third);
    assert_eq!(live.held(), 0);
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(
        parts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..60), 0usize..300), 0..8),
        piece in 1usize..100,
    ) {
        let mut bytes = vec![];
        for (good, junk, size) in &parts {
            if *good { bytes.extend(raw(1, *size)) } else { bytes.extend(junk) }
        }
        let live = LiveMemory::new(u64::MAX);
        let mut stream = HeapStream::plain(250).within(&live);
        let mut heaps = 0;
        for part in bytes.chunks(piece) {
            stream.push(part, 0, |_| heaps += 1);
        }
        prop_assert_eq!(stream.counts().heaps, heaps);
        let good = parts.iter().filter(|p| p.0 && p.2 <= 250).count() as u64;
        if parts.iter().all(|p| p.0) {
            prop_assert_eq!(heaps, good);
        }
        stream.finish(Arrival::Flushed);
        prop_assert_eq!(live.held(), 0);
    }
}
