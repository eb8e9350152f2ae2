//! When events leave: at their time, at the end of a run, and after streams that were paused or have hung up.

use fullcount_core::batch::Origin;
use fullcount_core::records::flags;

use super::tests::{Peer, balanced, blocks, count, decode, peers, unit};
use super::*;

#[test]
fn an_event_leaves_at_its_time_and_never_in_a_replay() {
    let (mut unit, mut products) =
        (unit("sources = 2\nevent_timeout = \"100ms\""), Products::default());
    let mut both = peers(2, 3, 4);
    decode(&mut unit, both[0].batch(9).as_ref(), 1000, &mut products);
    decode(&mut unit, None, 1099, &mut products);
    assert!(products.records.is_empty());
    unit.decode(None, None, &mut products);
    assert!(products.records.is_empty());
    decode(&mut unit, None, 1100, &mut products);
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
        assert!(comes || all[1].credit.allowed() > all[1].handed, "which may go on");
        if comes {
            decode(&mut unit, all[1].batch(50).as_ref(), 101, &mut products);
        }
        decode(&mut unit, None, 119, &mut products);
        assert_eq!(products.records.len(), if comes { 150 } else { 100 });
        decode(&mut unit, None, 120, &mut products);
        assert_eq!(products.records.len(), 150, "it is waited for in vain");
        decode(&mut unit, all[1].batch(50).as_ref(), 121, &mut products);
        assert_eq!((count(&unit, C::Late), count(&unit, C::Lost)), (late, 150 + late));
    }
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
