//! When events leave: at their time, at the end of a run, and after streams that were paused or have hung up.

use fullcount_core::batch::Origin;
use fullcount_core::records::flags;

use super::tests::{Peer, balanced, blocks, count, decode, peers, unit};
use super::*;
use crate::conformance;
use crate::detector::Kind;
use crate::fragments::Fragments;

/// A time at which the unit wants to be called.
fn at(ms: i64) -> Option<Nanos> {
    Some(Nanos(ms * 1_000_000))
}

#[test]
fn an_event_leaves_at_its_time_and_never_in_a_replay() {
    let (mut unit, mut products) =
        (unit("sources = 2\nevent_timeout = \"100ms\""), Products::default());
    let mut both = peers(2, 3, 4);
    assert_eq!(unit.due(), None);
    decode(&mut unit, both[0].batch(9).as_ref(), 1000, &mut products);
    assert_eq!(unit.due(), at(1100));
    decode(&mut unit, None, 1099, &mut products);
    assert!(products.records.is_empty());
    unit.decode(None, None, &mut products);
    assert!(products.records.is_empty() && unit.due().is_none());
    decode(&mut unit, None, 1100, &mut products);
    assert_eq!(unit.due(), None);
    assert_eq!(products.records.flags, [flags::MISSING | flags::GIVEN_UP; 3]);
    decode(&mut unit, both[1].batch(9).as_ref(), 1101, &mut products);
    assert_eq!((count(&unit, C::Late), count(&unit, C::Expired), count(&unit, C::Lost)), (3, 3, 3));
    assert_eq!(count(&unit, C::ExpiredMs), 100);
}

#[test]
fn what_a_paused_stream_owes_is_not_lost_before_it_was_read_again() {
    for (comes, late) in [(true, 0), (false, 50)] {
        let options = "sources = 3\nmemory = \"1MiB\"\nevent_timeout = \"100ms\"";
        let (mut unit, mut products) = (unit(options), Products::default());
        let mut all = peers(2, 200, 500);
        // Both are ahead of a third that never comes, and one is further ahead.
        decode(&mut unit, all[1].batch(100).as_ref(), 0, &mut products);
        decode(&mut unit, all[0].batch(150).as_ref(), 0, &mut products);
        assert!(all.iter_mut().all(|peer| peer.batch(1).is_none()), "paused");
        if comes {
            all[1].credit.hung_up();
        }
        decode(&mut unit, None, 100, &mut products);
        assert_eq!(products.records.len(), 100, "the next one waits for a paused stream");
        assert_eq!(unit.due(), at(120), "from when it is read again");
        assert!(comes || all[1].credit.allowed() > all[1].handed, "which may go on");
        if comes {
            decode(&mut unit, all[1].batch(50).as_ref(), 101, &mut products);
        }
        decode(&mut unit, None, 119, &mut products);
        assert_eq!(products.records.len(), if comes { 150 } else { 100 });
        decode(&mut unit, None, 120, &mut products);
        assert_eq!((products.records.len(), unit.due()), (150, None), "it is waited for in vain");
        decode(&mut unit, all[1].batch(50).as_ref(), 121, &mut products);
        assert_eq!((count(&unit, C::Late), count(&unit, C::Lost)), (late, 150 + late));
    }
}

#[test]
fn the_unit_wants_to_be_called_when_the_oldest_fragment_is_too_old_and_at_once_if_more_is_due() {
    let options = "sources = 3\nevent_timeout = \"100ms\"";
    let (mut unit, mut products) = (unit(options), Products::default());
    let mut all = peers(3, 200, 3750);
    // 8 events with a fragment of 30 KB each, 4 ms apart; then all the others at once.
    for n in 0..8 {
        decode(&mut unit, all[0].batch(8).as_ref(), 4 * n, &mut products);
        assert_eq!(unit.due(), at(100));
    }
    decode(&mut unit, all[0].batch(2000).as_ref(), 50, &mut products);
    for n in 0..8 {
        decode(&mut unit, None, 100 + 4 * n, &mut products);
        assert_eq!(products.records.len() as i64, n + 1);
        assert_eq!(unit.due(), at(if n == 7 { 150 } else { 104 + 4 * n }));
    }
    // 4 MiB leave in a call.
    decode(&mut unit, None, 150, &mut products);
    assert!((100..200).contains(&products.records.len()), "{}", products.records.len());
    assert_eq!(unit.due(), at(150));
    decode(&mut unit, None, 150, &mut products);
    assert_eq!((products.records.len(), unit.due()), (200, None));
    assert_eq!(count(&unit, C::ExpiredMs), 100);
    // A flush decides on what waits.
    decode(&mut unit, all[1].batch(8).as_ref(), 151, &mut products);
    let mut next = Peer::new(9, blocks(2, 300, 4, 510));
    decode(&mut unit, next.batch(1).as_ref(), 152, &mut products);
    assert_eq!(unit.due(), at(252));
    unit.flush(Flush::Stalled, &mut products);
    assert_eq!(unit.due(), None);
    balanced(&unit);
}

#[test]
fn an_event_that_is_complete_is_with_the_outputs_at_its_time_too() {
    for (rows, events) in [(true, 9), (true, 1), (false, 9)] {
        let options = format!("sources = 2\nevent_timeout = \"100ms\"\nrows = {rows}");
        let (mut unit, mut products) = (unit(&options), Products::default());
        let mut both = peers(2, 20, 4);
        decode(&mut unit, both[0].batch(events).as_ref(), 0, &mut products);
        decode(&mut unit, both[1].batch(events).as_ref(), 99, &mut products);
        assert_eq!((products.records.len(), unit.due()), (events, at(100)));
        decode(&mut unit, both[0].batch(1).as_ref(), 99, &mut products);
        assert_eq!(unit.due(), at(100), "of those before");
        // A call at that time is a hand-over, with a batch or without.
        let batch = both[1].batch(1).filter(|_| rows);
        decode(&mut unit, batch.as_ref(), 100, &mut products);
        assert_eq!(unit.due(), at(199));
        decode(&mut unit, None, 199, &mut products);
        assert_eq!((products.records.len(), unit.due()), (events + 1, None));
        assert_eq!(count(&unit, C::Expired), u64::from(!rows));
    }
}

#[test]
fn without_the_key_the_unit_never_wants_to_be_called() {
    let (mut unit, mut products) = (unit("sources = 2"), Products::default());
    let mut both = peers(2, 200, 3750);
    decode(&mut unit, both[0].batch(2000).as_ref(), 0, &mut products);
    assert_eq!(unit.due(), None);
    decode(&mut unit, both[1].batch(2000).as_ref(), 0, &mut products);
    assert!((50..200).contains(&products.records.len()), "more may leave");
    assert_eq!(unit.due(), None);
}

#[test]
fn the_suite_of_decoders_holds_with_the_key() {
    let sample = Fragments.sample();
    let mut setup = sample.setup();
    setup.options.push_str("\nevent_timeout = \"10ms\"");
    let mut packets = sample.packets(300);
    // The last source stops.
    packets.retain(|(bytes, _)| bytes[11] != 2 || bytes[15] < 30);
    assert_eq!(packets.len(), 230);
    conformance::check(&Fragments, &setup, &packets, 300, 5).unwrap();
}

#[test]
fn at_the_end_what_a_connected_source_owes_for_a_second_is_lost_and_its_source_named() {
    for (waited_ms, sends, lost) in [(999, 0, 0), (1000, 0, 3), (1000, 1, 0)] {
        let (mut unit, mut products) = (unit("sources = 2"), Products::default());
        let mut both = peers(2, 4, 4);
        decode(&mut unit, both[1].batch(1).as_ref(), 1000, &mut products);
        decode(&mut unit, both[0].batch(9).as_ref(), 1000, &mut products);
        let more = both[1].batch(1).filter(|_| sends > 0);
        decode(&mut unit, more.as_ref(), 1000 + waited_ms, &mut products);
        unit.flush(Flush::End, &mut products);
        assert_eq!((count(&unit, C::Lost), count(&unit, C::AtEnd)), (lost, 3 - sends - lost));
        assert_eq!(unit.sheet.get(PerSource::Lost.line(1)), lost, "source 1");
        assert_eq!((products.records.len(), count(&unit, C::Incomplete)), (4, 3 - sends));
        balanced(&unit);
    }
}

#[test]
fn streams_that_were_ahead_are_read_on_after_what_waited_has_left() {
    let (mut unit, mut products) = (unit("sources = 2\nmemory = \"1MiB\""), Products::default());
    let mut peer = peers(1, 900, 250).remove(0);
    while let Some(batch) = peer.batch(10) {
        decode(&mut unit, Some(&batch), 0, &mut products);
    }
    assert!(!peer.packets.is_empty() && products.records.number.is_empty());
    unit.flush(Flush::Stalled, &mut products);
    assert!(!products.records.number.is_empty() && peer.batch(1).is_some());
}

#[test]
fn packets_without_a_stream_do_not_wait_for_a_stream_that_hung_up() {
    let (mut unit, mut products) = (unit("sources = 2"), Products::default());
    let mut peer = Peer::new(1, blocks(1, 0, 4, 510));
    decode(&mut unit, peer.batch(1).as_ref(), 0, &mut products);
    peer.credit.hung_up();
    let mut field = |unit: &mut UnitReader, source, event| {
        let packet = blocks(source, event, 4, 510).remove(0);
        let batch = Batch::from_datagrams([(&packet[..], Origin::NONE)]);
        decode(unit, Some(&batch), 0, &mut products);
        balanced(unit);
    };
    field(&mut unit, 0, 0);
    field(&mut unit, 1, 1);
    peer.close();
    field(&mut unit, 1, 1);
    field(&mut unit, 0, 1);
    assert_eq!((count(&unit, C::Doubled), count(&unit, C::Waiting)), (1, 0));
    assert_eq!(products.records.number, [0, 1]);
}
