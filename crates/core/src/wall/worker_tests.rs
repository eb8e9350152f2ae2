//! The look at a whole row leaves out no event that begins an era.

use proptest::prelude::*;

use super::*;
use crate::time::PulseTime;

const MS: i64 = 1_000_000;

fn known(from: i64, lead: i64, begun: bool, entered: bool) -> Known {
    let anchor = ClockLine { from, wall: from.saturating_add(lead), rate: 0 };
    let era = Era::new(anchor.wall, anchor);
    Known { era, newest: from, heard: anchor.wall, begun, entered, placed: from }
}

/// ns that are near each other, or anything.
fn time() -> impl Strategy<Value = i64> {
    prop_oneof![-20 * MS..20 * MS, -8_000 * MS..8_000 * MS, any::<i64>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_row_that_is_left_out_has_no_event_that_begins_an_era(
        eras in prop::collection::vec((time(), 0i64..4, any::<bool>(), any::<bool>(), time()), 1..6),
        current in 0usize..6,
        before in prop_oneof![Just(i64::MIN), time()],
        pulse in time(),
        offsets in prop::collection::vec(prop_oneof![0u32..20_000_000, 0u32..1 << 31], 1..20),
    ) {
        let mut worker = WorkerClock::new(Arc::new(WallClock::live()));
        for (from, lead, begun, entered, newest) in eras {
            // Clocks that differ by less than a millisecond are the same.
            worker.eras.push(Known { newest, ..known(from, lead * MS / 2, begun, entered) });
        }
        worker.current = current.min(worker.eras.len() - 1);
        let times: Vec<i64> =
            offsets.iter().map(|offset| pulse.saturating_add((*offset).into())).collect();
        let ends = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
        if !worker.may_be_entered(ends, before) {
            let mut before = before;
            for time in times {
                prop_assert_eq!(worker.entered_by(time, before), None);
                before = before.max(time);
            }
        }
    }
}

#[test]
fn an_era_that_no_event_enters_costs_a_look_at_each_row() {
    let mut worker = WorkerClock::new(Arc::new(WallClock::live()));
    worker.eras = vec![known(0, 0, true, true), known(-900 * MS, 5 * MS, true, false)];
    let mut events = EventBatch::default();
    events.open_pulse(PulseTime(0));
    for n in 0..1000 {
        events.push(n * 1000, n);
    }
    let before = events.clone();
    assert!(!worker.may_be_entered((0, 999_000), 0), "its time is long over");
    worker.cut_rows(&mut events);
    assert_eq!(events, before);
}
