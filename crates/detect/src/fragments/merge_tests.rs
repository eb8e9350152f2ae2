use proptest::prelude::*;

use super::*;

fn fragment(number: u32, arrived: i64) -> EventFragment {
    EventFragment {
        number: number % (1 << 24),
        batch: BatchNumber { pipeline: 0, batch: 1 },
        arrived: Nanos(arrived),
        time_ns: arrived,
        flags: 0,
        len: 8,
        first: None,
        more: Vec::new(),
    }
}

fn drain(merger: &mut Merger, now: Option<Nanos>, full: bool) -> Vec<EventLeft> {
    let mut all = Vec::new();
    while let NextEvent::Leaves(number, due) = merger.due(now, full) {
        let left = merger.take(due, None, |_, _| {}).unwrap();
        assert_eq!(left.number, number);
        all.push(left);
    }
    all
}

#[test]
fn an_event_leaves_once_every_source_has_it_or_has_passed_it() {
    let mut merger = Merger::new(vec![5, 6], None);
    assert_eq!(merger.push(0, fragment(7, 0)), FragmentVerdict::Taken { gap: 0 });
    let waits = NextEvent::Waits(None);
    assert_eq!((merger.due(Some(Nanos(i64::MAX)), false), merger.awaited()), (waits, 1));
    assert!(merger.is_awaited(1) && !merger.is_awaited(0));
    merger.push(1, fragment(7, 0));
    assert_eq!(drain(&mut merger, None, false).len(), 1);
    merger.push(1, fragment(8, 0));
    assert_eq!(merger.push(0, fragment(10, 0)), FragmentVerdict::Taken { gap: 2 });
    let left = drain(&mut merger, None, false);
    assert_eq!((left[0].number, left[0].parts, left[0].missing, left[0].down), (8, 1, 1, 0));
    merger.push(1, fragment(10, 0));
    let left = drain(&mut merger, None, false);
    assert_eq!((left[0].number, left[0].parts, left[0].skipped), (10, 2, 1));
    assert_eq!(merger.push(1, fragment(10, 0)), FragmentVerdict::Repeated);
    merger.push(0, fragment(12, 0));
    assert_eq!(merger.push(0, fragment(12, 0)), FragmentVerdict::Repeated);
    assert_eq!(merger.push(0, fragment(11, 0)), FragmentVerdict::Repeated);
}

#[test]
fn a_source_that_begins_later_is_down_before() {
    let mut merger = Merger::new(vec![0, 1], None);
    for n in 3..6 {
        merger.push(0, fragment(n, 0));
    }
    merger.push(1, fragment(5, 0));
    let left = drain(&mut merger, None, false);
    let seen: Vec<_> = left.iter().map(|e| (e.number, e.missing, e.down)).collect();
    assert_eq!(seen, [(3, 1, 1), (4, 1, 1), (5, 0, 0)]);
}

#[test]
fn an_event_expires_by_its_own_first_fragment() {
    let mut merger = Merger::new(vec![0, 1], Some(Nanos(100)));
    merger.push(0, fragment(1, 10));
    merger.push(0, fragment(2, 50));
    assert!(drain(&mut merger, Some(Nanos(109)), false).is_empty());
    assert_eq!(merger.due(Some(Nanos(109)), false), NextEvent::Waits(Some(Nanos(110))));
    assert!(drain(&mut merger, None, false).is_empty());
    assert_eq!(merger.due(None, false), NextEvent::Waits(None));
    let left = drain(&mut merger, Some(Nanos(110)), false);
    assert_eq!((left.len(), left[0].number, left[0].missing), (1, 1, 1));
    assert_eq!(merger.push(1, fragment(1, 111)), FragmentVerdict::Late);
    merger.push(1, fragment(2, 111));
    assert_eq!(drain(&mut merger, None, false)[0].parts, 2);
    assert_eq!((merger.waiting(), merger.bytes()), (0, 0));
}

#[test]
fn an_event_with_a_higher_number_leaves_at_its_time_too() {
    let mut merger = Merger::new(vec![0, 1, 2], Some(Nanos(100)));
    merger.push(0, fragment(4, 0));
    merger.push(1, fragment(3, 99));
    assert!(drain(&mut merger, Some(Nanos(99)), false).is_empty());
    let left = drain(&mut merger, Some(Nanos(100)), false);
    assert_eq!(left.iter().map(|e| e.number).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn what_is_noted_of_a_fragment_takes_room_too() {
    let mut merger = Merger::new(vec![0, 1], None);
    let piece = || RecordPiece { memory: vec![0; 8].into(), start: 0, len: 8 };
    let empty = EventFragment { len: 0, ..fragment(1, 0) };
    let pieces = EventFragment { first: Some(piece()), more: vec![piece()], ..fragment(2, 0) };
    merger.push(0, empty);
    let of_one = size_of::<EventFragment>() as u64;
    assert_eq!(merger.bytes(), of_one);
    merger.push(0, pieces);
    assert_eq!(merger.bytes(), 2 * of_one + 8 + size_of::<RecordPiece>() as u64);
    drain(&mut merger, None, true);
    assert_eq!((merger.bytes(), merger.waiting()), (0, 0));
}

#[test]
fn numbers_go_on_over_their_turn_and_a_new_beginning_is_above() {
    let mut merger = Merger::new(vec![0], None);
    for n in [(1 << 24) - 2, (1 << 24) - 1, 0, 1] {
        merger.push(0, fragment(n, 0));
    }
    let numbers: Vec<u64> = drain(&mut merger, None, false).iter().map(|e| e.number).collect();
    assert_eq!(numbers, [(1 << 24) - 2, (1 << 24) - 1, 1 << 24, (1 << 24) + 1]);
    assert!(merger.is_behind(0, 1) && !merger.is_behind(0, 2));
    merger.begin_anew();
    merger.push(0, fragment(1, 0));
    assert_eq!(drain(&mut merger, None, false)[0].number, (2 << 24) + 1);
}

#[test]
fn records_have_a_part_for_every_source() {
    let mut merger = Merger::new(vec![512, 7], None);
    let memory: std::sync::Arc<[u8]> = vec![1, 2, 3, 4, 5, 6, 7, 8].into();
    let piece = RecordPiece { memory, start: 0, len: 8 };
    let with = EventFragment { first: Some(piece), flags: flags::CHECKSUM, ..fragment(1, 9) };
    merger.push(0, with);
    merger.push(1, fragment(2, 0));
    let mut records = EventRecords::default();
    merger.take(EventDue::Decided, Some(&mut records), |_, _| {}).unwrap();
    assert_eq!((&records.number[..], &records.time_ns[..]), (&[1][..], &[9][..]));
    assert_eq!(records.flags, [flags::MISSING | flags::CHECKSUM]);
    assert_eq!((&records.source[..], &records.part_flags[..]), (&[512, 7][..], &[2, 1][..]));
    assert_eq!((records.pieces(0).len(), records.pieces(1).len(), records.bytes()), (1, 0, 8));
}

proptest! {
    /// Any interleaving: every event is complete, in order, exactly once; nothing is left.
    #[test]
    fn any_interleaving_gives_every_event_once(
        sources in 1usize..8,
        events in 1u32..60,
        start in prop_oneof![Just(0u32), Just((1 << 24) - 20), 0u32..1 << 24],
        turns in prop::collection::vec(0usize..8, 0..600),
    ) {
        let mut merger = Merger::new((0..sources as u16).collect(), None);
        let mut next = vec![0u32; sources];
        let mut left = Vec::new();
        let rest = (0..sources * events as usize).map(|n| n % sources);
        for source in turns.iter().map(|t| t % sources).chain(rest) {
            if next[source] == events {
                continue;
            }
            let verdict = merger.push(source, fragment(start + next[source], 0));
            prop_assert_eq!(verdict, FragmentVerdict::Taken { gap: 0 });
            next[source] += 1;
            left.extend(drain(&mut merger, None, false));
        }
        prop_assert_eq!(left.len(), events as usize);
        let first = u64::from(start % (1 << 24));
        for (event, number) in left.iter().zip(first..) {
            prop_assert_eq!((event.number, event.parts, event.missing), (number, sources, 0));
        }
        prop_assert_eq!((merger.waiting(), merger.bytes(), merger.awaited()), (0, 0, sources));
    }

    /// Any numbers at all, times and lack of room: numbers rise, every fragment is accounted for once, and nothing panics.
    #[test]
    fn any_numbers_leave_in_order_and_are_counted(
        steps in prop::collection::vec((0usize..4, any::<u32>(), 0i64..50, any::<bool>()), 0..300),
        timeout in prop::option::of(1i64..100),
    ) {
        let mut merger = Merger::new(vec![1, 2, 3, 4], timeout.map(Nanos));
        let (mut now, mut given, mut kept, mut refused, mut last) = (0, 0u64, 0u64, 0u64, None);
        for (source, number, later, full) in steps {
            now += later;
            given += 1;
            match merger.push(source, fragment(number % 500, now)) {
                FragmentVerdict::Taken { .. } => {}
                FragmentVerdict::Late | FragmentVerdict::Repeated => refused += 1,
            }
            for event in drain(&mut merger, Some(Nanos(now)), full) {
                prop_assert!(last.is_none_or(|last| event.number > last));
                prop_assert_eq!(event.parts + event.missing, 4);
                last = Some(event.number);
                kept += event.parts as u64;
            }
            let mut waiting = merger.sources.iter().flat_map(|source| &source.arrivals);
            let young = |f: &Arrived| timeout.is_none_or(|most| now - f.of.arrived.0 < most);
            prop_assert!(waiting.all(young), "older than {timeout:?} at {now}");
        }
        prop_assert_eq!(given, kept + refused + merger.waiting());
        prop_assert_eq!(merger.bytes(), fragment(0, 0).room() * merger.waiting());
    }
}
