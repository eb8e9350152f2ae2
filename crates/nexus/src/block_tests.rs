//! Blocks against a plain model: no file, so thousands of cases.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::block::{Block, PulseRows};

/// What a reader finds.
#[derive(Debug, Default)]
struct Written {
    rows: PulseRows,
    ids: Vec<i32>,
    offsets: Vec<i32>,
}

impl Written {
    fn take(&mut self, block: &mut Block) {
        block.settle(self.ids.len(), &mut self.rows);
        let [ids, offsets] = block.columns();
        self.ids.extend_from_slice(ids);
        self.offsets.extend_from_slice(offsets);
        block.clear(0);
        assert_eq!((block.runs(), block.len()), (0, 0));
    }

    /// (pulse, offset, pixel) of every event, as the columns say.
    fn events(&self) -> Vec<(u64, i32, i32)> {
        let ends = self.rows.index.iter().skip(1).copied().chain([self.ids.len() as i64]);
        let rows = self.rows.zero.iter().zip(&self.rows.index).zip(ends);
        rows.flat_map(|((&zero, &first), end)| {
            (first as usize..end as usize).map(move |i| (zero, self.offsets[i], self.ids[i]))
        })
        .collect()
    }
}

fn push(block: &mut Block, pulse: u64, events: &[(u32, u32)]) {
    let (offsets, pixels): (Vec<u32>, Vec<u32>) = events.iter().copied().unzip();
    block.open_pulse(pulse);
    block.append(&pixels, &offsets);
}

#[test]
fn packets_of_many_modules_become_one_row_for_each_pulse() {
    let (mut block, mut written) = (Block::with_capacity(8), Written::default());
    for (pulse, pixel) in [(20, 1), (10, 2), (20, 3), (10, 4), (30, 5), (10, 6)] {
        push(&mut block, pulse, &[(0, pixel), (1, pixel)]);
    }
    written.take(&mut block);
    assert_eq!(
        (&written.rows.zero[..], &written.rows.index[..]),
        (&[10, 20, 30][..], &[0, 6, 10][..])
    );
    assert_eq!(written.ids, [2, 2, 4, 4, 6, 6, 1, 1, 3, 3, 5, 5], "as they came, within a pulse");
    assert_eq!(written.rows.last_event, Some((30, 1)));
}

#[test]
fn the_last_row_goes_on_in_the_next_block_and_late_events_get_a_row_of_their_own() {
    let (mut block, mut written) = (Block::default(), Written::default());
    push(&mut block, 10, &[(0, 1)]);
    push(&mut block, 20, &[(0, 2)]);
    written.take(&mut block);
    // No new pulse was opened: the events are those of pulse 20.
    block.append(&[3], &[1]);
    push(&mut block, 10, &[(5, 4)]);
    push(&mut block, 30, &[(0, 5)]);
    push(&mut block, 20, &[(2, 6)]);
    written.take(&mut block);
    assert_eq!(written.rows.zero, [10, 20, 10, 30]);
    assert_eq!(written.rows.index, [0, 1, 4, 5]);
    assert_eq!(written.ids, [1, 2, 3, 6, 4, 5]);
}

#[test]
fn in_order_the_last_row_still_goes_on_behind_late_events() {
    let (mut block, mut written) = (Block::default(), Written::default());
    push(&mut block, 20, &[(0, 1)]);
    written.take(&mut block);
    for (pulse, pixel) in [(10, 2), (20, 3), (30, 4)] {
        push(&mut block, pulse, &[(0, pixel)]);
    }
    written.take(&mut block);
    assert_eq!((written.rows.zero, written.ids), (vec![20, 10, 30], vec![1, 3, 2, 4]));
}

#[test]
fn pulses_without_events_keep_their_rows() {
    let (mut block, mut written) = (Block::default(), Written::default());
    for pulse in [30, 10, 20] {
        push(&mut block, pulse, &[]);
    }
    push(&mut block, 10, &[(7, 1)]);
    written.take(&mut block);
    assert_eq!(written.rows.zero, [10, 20, 30]);
    assert_eq!(written.rows.index, [0, 1, 1]);
    assert_eq!(written.rows.last_event, Some((10, 7)), "not that of an empty pulse");
    written.take(&mut block);
    assert_eq!(written.rows.zero.len(), 3, "an empty block adds nothing");
}

proptest! {
    #[test]
    fn blocks_keep_every_event_and_repeat_a_pulse_only_from_block_to_block(
        packets in prop::collection::vec(
            (0u64..12, prop::collection::vec((0u32..1 << 31, 1u32..1 << 31), 0..6), any::<u8>()), 0..60),
    ) {
        let (mut block, mut written) = (Block::default(), Written::default());
        let mut came: Vec<(u64, i32, i32)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut border = 0;
        for (pulse, events, end) in &packets {
            push(&mut block, *pulse, events);
            seen.insert(*pulse);
            came.extend(events.iter().map(|&(t, p)| (*pulse, t as i32, p as i32)));
            if end % 8 == 0 {
                written.take(&mut block);
                let rows = &written.rows.zero[border..];
                prop_assert!(rows.is_sorted_by(|a, b| a < b), "one row a pulse, ascending: {rows:?}");
                border = written.rows.zero.len();
            }
        }
        written.take(&mut block);
        prop_assert!(written.rows.zero[border..].is_sorted_by(|a, b| a < b));
        prop_assert!(written.rows.zero.windows(2).all(|w| w[0] != w[1]), "the last row goes on");
        prop_assert!(written.rows.index.is_sorted());
        prop_assert_eq!(written.rows.index.len(), written.rows.zero.len());
        prop_assert_eq!(written.rows.zero.iter().copied().collect::<std::collections::BTreeSet<_>>(), seen);
        let found = written.events();
        prop_assert_eq!(written.rows.last_event, found.last().map(|&(zero, t, _)| (zero, t)));
        // Stronger than equal multisets: each pulse's events in the order in which they came.
        let by_pulse = |events: &[(u64, i32, i32)]| {
            let mut map: BTreeMap<u64, Vec<(i32, i32)>> = BTreeMap::new();
            events.iter().for_each(|&(zero, t, p)| map.entry(zero).or_default().push((t, p)));
            map
        };
        prop_assert_eq!(by_pulse(&found), by_pulse(&came));
    }
}
