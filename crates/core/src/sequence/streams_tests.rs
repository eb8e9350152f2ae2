//! Streams by sender and id, and what their numbers leave in the ledger.

use super::super::numbering::Per;
use super::*;
use crate::ledger::{Ledger, Sheet, Unit};

const NUMBERING: Numbering = Numbering {
    bits: 14,
    unit: Unit::Packets,
    called: "packet counts",
    per: Per::SenderAnd("system number"),
    window: Limit::Fixed(64),
    streams: Some(Limit::Set(3)),
    drops_copies: false,
};

fn origin(n: u8) -> Origin {
    Origin { ip: [n; 16], port: 1 }
}

fn streams<const NEAR: usize>(limit: u32) -> Streams<u32, NEAR> {
    Streams::new(&Numbering { streams: Some(Limit::Fixed(limit)), ..NUMBERING })
}

fn find<const NEAR: usize>(s: &mut Streams<u32, NEAR>, from: u8, id: u32) -> Found {
    s.train(origin(from));
    let found = s.find(id);
    if !matches!(found, Found::Known(_)) {
        s.begin(found.place(), id);
    }
    found
}

#[test]
fn streams_are_told_apart_by_sender_and_id_and_are_bounded() {
    use Found::*;
    let mut s = streams::<32>(3);
    let all = [(1, 0), (1, 1), (2, 0), (1, 1), (1, 0)].map(|(o, id)| find(&mut s, o, id));
    assert_eq!(all, [New(0), New(1), New(2), Known(1), Known(0)]);
    assert_eq!(find(&mut s, 3, 0), Reused(2), "a fourth one");
    assert_eq!(find(&mut s, 1, 2), Reused(2), "also of a known sender");
    assert_eq!(find(&mut s, 1, 1), Known(1));
    assert_eq!(find(&mut s, 1, 0), Known(0));
    assert_eq!(s.all, [0, 1, 2]);
    assert_eq!((s.join(origin(7), 0, || 9), s.join(origin(1), 2, || 9)), (None, Some(2)));
    assert_eq!((s.place_of(1), s.place_of(9)), (Some(1), None));
}

#[test]
fn ids_that_share_a_place_at_hand_are_still_told_apart() {
    use Found::*;
    let mut s = streams::<1>(3);
    let all = [5, 6, 5, 5, 6, 6, 5].map(|id| find(&mut s, 1, id));
    assert_eq!(all, [New(0), New(1), Known(0), Known(0), Known(1), Known(1), Known(0)]);
}

#[test]
fn a_place_that_went_to_another_is_not_found_by_the_short_way() {
    use Found::*;
    let mut s = streams::<32>(1);
    assert_eq!([0, 0, 0].map(|id| find(&mut s, 1, id)), [New(0), Known(0), Known(0)]);
    assert_eq!([1, 0].map(|id| find(&mut s, 1, id)), [Reused(0), Reused(0)]);
}

/// What a sheet says of a series of numbers.
fn booked(numbering: &Numbering, what: impl FnOnce(&mut Series, &mut Book)) -> Ledger {
    let mut lines = Vec::new();
    let mut book = Book::new(numbering, &mut lines);
    let sheet = Sheet::new(lines);
    let mut series = Series::new(numbering);
    what(&mut series, &mut book);
    book.flush(&sheet);
    let ledger = Ledger::default();
    ledger.register(sheet);
    ledger
}

#[test]
fn lines_have_the_key_of_what_is_numbered() {
    let packets = booked(&NUMBERING, |series, book| {
        for n in [0, 1, 3, 4, 3, 2, 6] {
            series.observe(n, book);
        }
        series.begin_anew(book);
        series.observe(9000, book);
        series.finish(None, book);
        book.found(Found::Reused(0));
    });
    let e = packets.read();
    let said = |what: &str| e.get(&format!("packets.{what}"));
    let amounts = ["lost", "duplicate", "reordered", "late", "missing", "restarts"].map(said);
    assert_eq!(amounts, [Some(1), Some(1), Some(1), Some(0), Some(0), Some(0)]);
    assert_eq!((e.get("decode.streams"), e.get("decode.streams_reused")), (Some(1), Some(1)));
    assert_eq!((said("count"), said("lost_at_least")), (None, Some(0)));

    let parts = Numbering { bits: 64, unit: Unit::ContainerEvents, streams: None, ..NUMBERING };
    let e = booked(&parts, |series, book| {
        for first in [100, 110, 130] {
            book.held(10);
            if !series.takes_run(first, 10, book) {
                series.change(book, |tracker| tracker.observe_run(first, 10));
            }
        }
        series.finish(None, book);
    });
    let e = e.read();
    let said = |what: &str| e.get(&format!("container_events.{what}"));
    assert_eq!([said("count"), said("lost"), said("most_in_packet")], [30, 10, 10].map(Some));
    assert_eq!((said("lost_at_least"), e.get("packets.lost")), (None, None), "64 bits never wrap");
    assert_eq!(e.get("decode.streams"), None);
    assert!(e.anything_lost());
}
