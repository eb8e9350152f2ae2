use std::sync::Arc;

use fullcount_core::progress::BatchNumber;
use fullcount_core::records::EventRecords;
use fullcount_core::time::Nanos;
use proptest::prelude::*;

use super::super::{ArrivedBatch, EventDue, FragmentVerdict, Merger, NextEvent, WholeFragment};
use super::*;

fn arrival(n: i64) -> ArrivedBatch {
    let batch = BatchNumber { pipeline: 0, batch: n as u64 };
    let memory = Some(Arc::from(vec![n as u8; 4096]));
    ArrivedBatch { batch, arrived: Nanos(n), time_ns: n, memory }
}

fn row(number: u32, count: u32, flags: u16) -> WholeRow {
    let first = WholeFragment { number: number % (1 << 24), flags, start: 16, len: 8 };
    WholeRow { first, count, stride: 24 }
}

/// The same, one by one.
fn push_alone(
    merger: &mut Merger,
    source: usize,
    row: &WholeRow,
    of: &ArrivedBatch,
) -> FragmentVerdict {
    let mut first = None;
    for n in 0..row.count {
        let WholeFragment { number, flags, start, len } = row.first;
        let (number, start) = (number + n, start + n * row.stride);
        let fragment = WholeFragment { number, flags, start, len };
        let verdict = merger.push_whole(source, fragment, of);
        first.get_or_insert(verdict);
    }
    first.unwrap()
}

fn drain(merger: &mut Merger, rows: bool, records: &mut EventRecords) -> Vec<EventLeft> {
    let mut all = Vec::new();
    while let NextEvent::Leaves(_, due) = merger.due(None, false) {
        if let Some(left) = rows.then(|| merger.take_rows(300, Some(records))).flatten() {
            assert!(due == EventDue::Decided && left.count > 1);
            for n in 0..u64::from(left.count) {
                let skipped = if n == 0 { left.each.skipped } else { 0 };
                all.push(EventLeft { number: left.each.number + n, skipped, ..left.each });
            }
            continue;
        }
        all.extend(merger.take(due, Some(records), |_, _| {}));
    }
    all
}

#[test]
fn as_many_events_leave_together_as_the_shortest_row_has() {
    let mut merger = Merger::new(vec![5, 6], None);
    let mut records = EventRecords::default();
    merger.push_row(0, &row(7, 5, 0), &arrival(1));
    assert_eq!(merger.take_rows(1 << 20, Some(&mut records)), None);
    merger.push_row(1, &row(7, 3, 8), &arrival(2));
    let left = merger.take_rows(1 << 20, Some(&mut records)).unwrap();
    assert_eq!((left.count, left.each.number, left.each.parts), (3, 7, 2));
    assert_eq!((left.each.flags, left.each.bytes), (8, 16));
    assert_eq!((records.number.as_slice(), merger.waiting()), (&[7, 8, 9][..], 2));
    assert_eq!(records.part_flags, [0, 8, 0, 8, 0, 8]);
    assert!((records.bytes(), merger.is_awaited(1)) == (48, true));
    // An event of 16 bytes counts as 80: after two of them 160 have left.
    merger.push_row(1, &row(10, 2, 8), &arrival(3));
    merger.push_row(0, &row(12, 9, 0), &arrival(4));
    merger.push_row(1, &row(12, 9, 0), &arrival(4));
    assert_eq!(merger.take_rows(160, None).unwrap().count, 2);
    assert_eq!(merger.take_rows(161, None).unwrap().count, 3);
    assert_eq!(merger.take_rows(80, None), None);
}

proptest! {
    /// Sources with gaps, repeats, numbers that go back, and turns of the number.
    #[test]
    fn rows_give_what_one_by_one_gives(
        first in prop_oneof![Just(0u32), Just((1 << 24) - 40)],
        pushes in prop::collection::vec((0usize..3, 1u32..9, 0u32..4, 0u16..2, any::<bool>()), 1..60),
    ) {
        let ids = vec![1, 2, 3];
        let (mut rows, mut alone) = (Merger::new(ids.clone(), None), Merger::new(ids, None));
        let (mut of_rows, mut of_alone) = (EventRecords::default(), EventRecords::default());
        let mut next = [first; 3];
        for (n, (source, count, step, flags, same)) in (1..).zip(pushes) {
            let of = arrival(if same { 1 } else { n });
            // 0: one number is repeated; 1: the next; more: some are missing.
            let number = (next[source] + step).saturating_sub(1) % (1 << 24);
            let count = count.min((1 << 24) - number);
            next[source] = (number + count) % (1 << 24);
            let row = row(number, count, 8 * flags);
            prop_assert_eq!(rows.takes(source, number), alone.takes(source, number));
            if rows.takes(source, number) {
                let verdict = rows.push_row(source, &row, &of);
                prop_assert_eq!(verdict, push_alone(&mut alone, source, &row, &of));
            } else {
                let verdict = push_alone(&mut rows, source, &row, &of);
                let taken = matches!(verdict, FragmentVerdict::Taken { .. });
                prop_assert!(!taken, "{verdict:?}");
                push_alone(&mut alone, source, &row, &of);
            }
            let left = drain(&mut rows, true, &mut of_rows);
            prop_assert_eq!(left, drain(&mut alone, false, &mut of_alone));
            let states = [&rows, &alone].map(|m| (m.waiting(), m.bytes(), m.awaited(), m.oldest()));
            prop_assert_eq!(states[0], states[1]);
        }
        prop_assert_eq!(of_rows, of_alone);
    }
}
