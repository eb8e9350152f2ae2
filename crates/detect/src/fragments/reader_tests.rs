use std::collections::BTreeMap;

use fullcount_core::batch::{Edge, Origin, TrainMeta};
use fullcount_core::ledger::Ledger;
use fullcount_core::records::flags;
use proptest::prelude::*;

use super::*;

/// A fragment in blocks of `words` words at most; encoder of its own.
pub(super) fn blocks(source: u64, event: u64, payload: usize, words: usize) -> Vec<Vec<u8>> {
    let event = event & 0x00ff_ffff;
    let mut all = vec![5 << 60 | event << 32 | source << 8];
    all.extend((0..payload as u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ event));
    all.push(0xa << 60 | (all.len() as u64 + 1) << 32);
    let crc = all.iter().flat_map(|word| word.to_be_bytes()).fold(0xffffu32, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(byte) << 8), |crc, _| {
            (if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x8005 }) & 0xffff
        })
    });
    *all.last_mut().unwrap() |= u64::from(crc) << 16;
    let count = all.chunks(words).len() as u64;
    let block = |(n, part): (u64, &[u64])| {
        let edges = u64::from(n == 0) << 31 | u64::from(n + 1 == count) << 30;
        let mut bytes = (0x475a << 48 | n << 32 | edges | part.len() as u64).to_be_bytes().to_vec();
        bytes.extend((source << 32 | event).to_be_bytes());
        bytes.extend(part.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    };
    (0..).zip(all.chunks(words)).map(block).collect()
}

/// A fragment of one block without a word.
fn empty(source: u64, event: u64) -> Vec<u8> {
    let mut bytes = (0x475a << 48 | 3u64 << 30).to_be_bytes().to_vec();
    bytes.extend((source << 32 | event & 0x00ff_ffff).to_be_bytes());
    bytes
}

/// Gives a one-block fragment another throttling state and a right checksum.
fn throttled(mut block: Vec<u8>, state: u8) -> Vec<u8> {
    let end = block.len();
    block[end - 8] = state << 4;
    let crc = checksum([&block[16..]].into_iter(), Instructions::PORTABLE);
    block[end - 6..end - 4].copy_from_slice(&crc.to_le_bytes());
    block
}

pub(super) fn unit(options: &str) -> UnitReader {
    UnitReader::new(&Options::read(options).unwrap(), true, Instructions::default())
}

/// A stream that gives what is allowed, as a source does.
pub(super) struct Peer {
    pub credit: Arc<StreamCredit>,
    pub packets: VecDeque<Vec<u8>>,
    pub handed: u64,
}

impl Peer {
    pub fn new(number: u32, packets: Vec<Vec<u8>>) -> Peer {
        let table = StreamTable::default();
        unit("").govern(Arc::default());
        table.begin_with(FULL);
        let credit = table.open(number, Origin { port: number as u16, ..Origin::NONE });
        Peer { credit, packets: packets.into(), handed: 0 }
    }

    pub fn batch(&mut self, most: usize) -> Option<Batch> {
        if self.handed >= self.credit.allowed() || self.packets.is_empty() {
            return None;
        }
        let (mut memory, mut metas) = (Vec::new(), Vec::<TrainMeta>::new());
        for packet in self.packets.drain(..most.min(self.packets.len())) {
            let (start, len) = (memory.len(), packet.len());
            memory.extend(packet);
            // As a source does: equal neighbours are one train.
            if let Some(train) = metas.last_mut().filter(|train| train.stride == len) {
                train.len += len;
                continue;
            }
            let (edge, time_ns) = (Edge::Heap, 5);
            metas.push(TrainMeta {
                start,
                len,
                stride: len,
                edge,
                time_ns,
                ..TrainMeta::default()
            });
        }
        self.handed += memory.len() as u64;
        let mut batch = Batch::with_slots(0, 0);
        batch.share(&memory.into());
        batch.set_stream(self.credit.clone());
        metas.into_iter().for_each(|meta| batch.push(meta));
        Some(batch)
    }

    pub fn close(&self) {
        self.credit.hung_up();
        self.credit.close(self.handed);
    }
}

pub(super) fn decode(
    unit: &mut UnitReader,
    batch: Option<&Batch>,
    ms: i64,
    products: &mut Products,
) {
    unit.decode(batch, Some(Nanos(ms * 1_000_000)), products);
}

pub(super) fn count(unit: &UnitReader, line: C) -> u64 {
    unit.sheet.get(line as usize)
}

pub(super) fn balanced(unit: &UnitReader) {
    let ledger = Ledger::default();
    unit.sheets().into_iter().for_each(|sheet| ledger.register(sheet));
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
}

pub(super) fn peers(sources: u64, events: u64, payload: usize) -> Vec<Peer> {
    let of = |source| (0..events).flat_map(|event| blocks(source, event, payload, 510)).collect();
    (0..sources).map(|source| Peer::new(source as u32 + 1, of(source))).collect()
}

#[test]
fn events_are_complete_in_order_and_byte_for_byte() {
    let (mut unit, mut products) = (unit("sources = 3"), Products::default());
    let mut peers = peers(3, 20, 1200);
    while peers.iter().any(|peer| !peer.packets.is_empty()) {
        for (peer, most) in peers.iter_mut().zip([1, 2, 5]) {
            let batch = peer.batch(most);
            decode(&mut unit, batch.as_ref(), 0, &mut products);
        }
    }
    let records = &products.records;
    assert_eq!(records.number, (0..20).collect::<Vec<u64>>());
    assert!(records.flags.iter().chain(&records.part_flags).all(|&of| of == 0));
    for event in 0..20 {
        for (part, source) in records.parts(event).zip(0u64..) {
            let bytes: Vec<u8> = records.pieces(part).flat_map(<[u8]>::to_vec).collect();
            let sent = blocks(source, event as u64, 1200, 510);
            let sent: Vec<u8> = sent.iter().flat_map(|block| block[16..].to_vec()).collect();
            assert!(records.source[part] == source as u32 && bytes == sent);
        }
    }
    unit.flush(Flush::End, &mut products);
    assert_eq!([C::Lost, C::LostDown, C::AtEnd, C::WrongCrc].map(|c| count(&unit, c)), [0; 4]);
    assert_eq!((count(&unit, C::Events), count(&unit, C::Checked)), (20, 60));
    balanced(&unit);
}

#[test]
fn damage_marks_the_event_and_stops_nothing() {
    let (mut unit, mut products) = (unit("sources = 2"), Products::default());
    let mut peers = peers(2, 3, 4);
    peers[0].packets[0][30] ^= 1;
    // The trailer says another length, the header another source.
    peers[0].packets[1][60] ^= 1;
    peers[1].packets[2][17] ^= 1;
    for peer in &mut peers {
        decode(&mut unit, peer.batch(9).as_ref(), 0, &mut products);
    }
    let both = flags::CHECKSUM | flags::BROKEN;
    assert_eq!(products.records.flags, [flags::CHECKSUM, both, both]);
    let lines = [C::WrongCrc, C::WrongLength, C::WrongNumber, C::Marked, C::Events];
    assert_eq!(lines.map(|line| count(&unit, line)), [3, 1, 1, 3, 3]);
    assert_eq!(unit.sheet.get(PerSource::Bad.line(0)), 2);
}

#[test]
fn a_damaged_event_number_marks_its_event_and_no_later_one() {
    let (mut unit, mut products) = (unit("sources = 2"), Products::default());
    let mut both = peers(2, 6, 4);
    // The block's number jumps 2²² ahead, the fragment's own is right; and the other way round.
    both[0].packets[2][13] |= 0x40;
    both[1].packets[4][16 + 5] ^= 0x10;
    for peer in &mut both {
        decode(&mut unit, peer.batch(6).as_ref(), 0, &mut products);
    }
    decode(&mut unit, None, 0, &mut products);
    assert_eq!(products.records.number, (0..6).collect::<Vec<u64>>());
    let marked = products.records.flags.iter().map(|of| of & flags::BROKEN != 0);
    assert_eq!(marked.collect::<Vec<bool>>(), [false, false, true, false, true, false]);
    let lines = [C::WrongNumber, C::Repeated, C::Gaps, C::Lost];
    assert_eq!(lines.map(|line| count(&unit, line)), [2, 0, 0, 0]);
    balanced(&unit);
}

#[test]
fn a_source_that_is_killed_is_named_and_held_for_until_it_comes_back() {
    let (mut unit, mut products) = (unit("sources = 2"), Products::default());
    let mut both = peers(2, 10, 4);
    decode(&mut unit, both[1].batch(10).as_ref(), 0, &mut products);
    decode(&mut unit, both[0].batch(4).as_ref(), 0, &mut products);
    both[0].close();
    decode(&mut unit, None, 60_000, &mut products);
    assert_eq!((products.records.len(), count(&unit, C::Absent)), (4, 1));
    assert!(unit.command("SOURCES", &[]).unwrap().contains("source 0: not connected, awaited, 4"));
    // It comes back two events later.
    let rest = (6..10).flat_map(|event| blocks(0, event, 4, 510)).collect();
    let mut again = Peer::new(7, rest);
    decode(&mut unit, again.batch(9).as_ref(), 60_001, &mut products);
    assert_eq!(products.records.number, (0..10).collect::<Vec<u64>>());
    assert_eq!((count(&unit, C::Lost), unit.sheet.get(PerSource::Lost.line(0))), (2, 2));
    assert_eq!(products.records.flags[4], flags::MISSING);
    balanced(&unit);
}

#[test]
fn the_stream_of_a_killed_sender_is_read_to_its_end_before_the_next_one() {
    let (mut unit, mut products) = (unit("sources = 1"), Products::default());
    let mut old = peers(1, 6, 4).remove(0);
    decode(&mut unit, old.batch(2).as_ref(), 0, &mut products);
    old.credit.hung_up();
    let mut new = Peer::new(9, (6..8).flat_map(|event| blocks(0, event, 4, 510)).collect());
    decode(&mut unit, new.batch(2).as_ref(), 0, &mut products);
    assert_eq!((products.records.len(), count(&unit, C::Waiting)), (2, 2));
    balanced(&unit);
    assert_eq!(new.credit.allowed(), new.handed);
    decode(&mut unit, old.batch(9).as_ref(), 0, &mut products);
    old.close();
    decode(&mut unit, None, 0, &mut products);
    decode(&mut unit, None, 0, &mut products);
    assert_eq!(products.records.number, (0..8).collect::<Vec<u64>>());
    assert_eq!(count(&unit, C::Lost) + count(&unit, C::Gaps), 0);
    assert!(new.credit.allowed() > new.handed);
}

#[test]
fn strangers_and_doubles_are_refused_and_counted() {
    let (mut unit, mut products) = (unit("sources = \"0\""), Products::default());
    let mut first = peers(1, 2, 4).remove(0);
    decode(&mut unit, first.batch(1).as_ref(), 0, &mut products);
    let mut double = Peer::new(5, blocks(0, 7, 4, 510));
    let mut stranger = Peer::new(6, blocks(3, 7, 4, 510));
    for peer in [&mut double, &mut stranger] {
        decode(&mut unit, peer.batch(1).as_ref(), 0, &mut products);
        assert!(peer.credit.is_refused());
    }
    assert!(!first.credit.is_refused());
    assert_eq!((count(&unit, C::Doubled), count(&unit, C::Unknown)), (1, 1));
    decode(&mut unit, first.batch(1).as_ref(), 0, &mut products);
    assert_eq!(products.records.number, [0, 1]);
    balanced(&unit);
}

#[test]
fn a_stream_is_refused_with_the_reason() {
    let (mut unit, mut products) = (unit("sources = \"0-1\""), Products::default());
    let mut first = peers(1, 2, 4).remove(0);
    decode(&mut unit, first.batch(1).as_ref(), 0, &mut products);
    let mut other = Peer::new(4, [blocks(1, 7, 4, 510), blocks(0, 7, 4, 510)].concat());
    let mut double = Peer::new(5, blocks(0, 7, 4, 510));
    let mut stranger = Peer::new(6, blocks(3, 7, 4, 510));
    for (peer, why) in [
        (&mut other, "source 0 comes on the stream of another source"),
        (&mut double, "source 0 has another open stream"),
        (&mut stranger, "source 3 is not in detector.sources"),
    ] {
        decode(&mut unit, peer.batch(2).as_ref(), 0, &mut products);
        assert_eq!(peer.credit.refusal(), Some(why));
    }
}

#[test]
fn throttling_states_are_counted_and_named_by_source() {
    let (mut unit, mut products) = (unit("sources = 3"), Products::default());
    let mut both = peers(2, 2, 4);
    let states = [(0, 0, 4), (0, 1, 4), (1, 0, 12), (1, 1, 8)];
    for (peer, event, state) in states {
        let packet = std::mem::take(&mut both[peer].packets[event]);
        both[peer].packets[event] = throttled(packet, state);
    }
    for peer in &mut both {
        decode(&mut unit, peer.batch(9).as_ref(), 0, &mut products);
    }
    let lines = [C::Busy, C::Failing, C::Warning, C::WrongCrc];
    assert_eq!(lines.map(|line| count(&unit, line)), [2, 1, 0, 0]);
    let of = |at| unit.sheet.get(PerSource::Throttled.line(at));
    assert_eq!([of(0), of(1), of(2)], [2, 1, 0]);
    let told = unit.command("SOURCES", &[]).unwrap();
    let ends: Vec<&str> = told.lines().filter_map(|line| line.split("damaged, ").nth(1)).collect();
    assert_eq!(
        ends,
        ["2 throttled, state busy", "1 throttled, state ready", "0 throttled, state not known"]
    );
}

/// Each of the 16 codes, in rows of fragments that are alike and alone.
#[test]
fn every_throttling_state_is_counted_once_for_each_fragment() {
    let line_of = |state| match state {
        0 | 8 => None,
        1 => Some(C::Warning),
        2 => Some(C::OutOfSync),
        4 => Some(C::Busy),
        12 => Some(C::Failing),
        15 => Some(C::Disconnected),
        _ => Some(C::UnknownState),
    };
    for (state, events) in (0..16).flat_map(|state| [(state, 1), (state, 6)]) {
        let (mut unit, mut products) = (unit("sources = 1"), Products::default());
        let mut peer = peers(1, events, 4).remove(0);
        peer.packets = peer.packets.drain(..).map(|packet| throttled(packet, state)).collect();
        decode(&mut unit, peer.batch(9).as_ref(), 0, &mut products);
        assert_eq!(count(&unit, C::Count), events);
        let all = [C::Warning, C::OutOfSync, C::Busy, C::Failing, C::Disconnected, C::UnknownState];
        for line in all {
            let due = if line_of(state) == Some(line) { events } else { 0 };
            assert_eq!(count(&unit, line), due, "{state} {line:?}");
        }
        let due = if line_of(state).is_some() { events } else { 0 };
        assert_eq!(unit.sheet.get(PerSource::Throttled.line(0)), due, "{state}");
    }
}

#[test]
fn a_source_that_is_ahead_with_empty_fragments_waits_too() {
    let (mut unit, mut products) = (unit("sources = 2\nmemory = \"1MiB\""), Products::default());
    let events = 60_000;
    let mut both: Vec<Peer> = (0..2)
        .map(|source| Peer::new(source as u32 + 1, (0..events).map(|e| empty(source, e)).collect()))
        .collect();
    let (read, mut most) = (1000, 0);
    while let Some(batch) = both[0].batch(read) {
        decode(&mut unit, Some(&batch), 0, &mut products);
        most = most.max(count(&unit, C::Held));
    }
    assert!(!both[0].packets.is_empty(), "it is paused");
    assert!(most <= (1 << 20) + read as u64 * fragment_room(), "{most} B");
    while both.iter().any(|peer| !peer.packets.is_empty()) {
        for peer in both.iter_mut().rev() {
            let batch = peer.batch(read);
            decode(&mut unit, batch.as_ref(), 0, &mut products);
            most = most.max(count(&unit, C::Held));
        }
    }
    assert!(most <= (1 << 20) + 2 * read as u64 * fragment_room(), "{most} B");
    assert_eq!((products.records.len() as u64, count(&unit, C::Held)), (events, 0));
    balanced(&unit);
}

/// Memory of a fragment without bytes.
fn fragment_room() -> u64 {
    size_of::<EventFragment>() as u64
}

#[test]
fn what_is_begun_and_what_waits_for_an_earlier_stream_is_held() {
    let (mut unit, mut products) = (unit("sources = 1"), Products::default());
    let mut old = Peer::new(1, blocks(0, 0, 1200, 510));
    decode(&mut unit, old.batch(1).as_ref(), 0, &mut products);
    assert_eq!(count(&unit, C::Held), 4080);
    old.credit.hung_up();
    let mut new = Peer::new(2, blocks(0, 1, 4, 510));
    decode(&mut unit, new.batch(1).as_ref(), 0, &mut products);
    assert_eq!(count(&unit, C::Held), 4080 + 48 + fragment_room());
    decode(&mut unit, old.batch(9).as_ref(), 0, &mut products);
    old.close();
    decode(&mut unit, None, 0, &mut products);
    assert_eq!((products.records.len(), count(&unit, C::Held)), (2, 0));
}

#[test]
fn a_unit_that_goes_on_after_another_one_tells_what_came_in_between() {
    for rows in [true, false] {
        for (first, skipped) in [(0, 12), (10, 2), (12, 0)] {
            let options = format!("sources = 2\nfirst_event = {first}\nrows = {rows}");
            let (mut unit, mut products) = (unit(&options), Products::default());
            for source in 0..2 {
                let packets = (12..40).flat_map(|event| blocks(source, event, 4, 510)).collect();
                let mut peer = Peer::new(source as u32 + 1, packets);
                decode(&mut unit, peer.batch(99).as_ref(), 0, &mut products);
            }
            let counted = [C::LostDown, C::Skipped, C::Lost, C::Events].map(|c| count(&unit, c));
            assert_eq!(counted, [2 * skipped, skipped, 0, 28], "{options}");
            let each = [0, 1].map(|at| unit.sheet.get(PerSource::Lost.line(at)));
            assert_eq!(each, [skipped; 2], "{options}");
            // So 12 less what should have been first is what is missing, and its numbers are told.
            let firsts = [0, 1].map(|at| unit.sheet.get(PerSource::First.line(at)));
            assert!(firsts == [12; 2] && unit.told().contains("28 fragments from event 12 on"));
            assert_eq!(products.records.len(), 28);
            balanced(&unit);
        }
    }
    // One that begins behind it has begun anew.
    let (mut unit, mut products) = (unit("sources = 1\nfirst_event = 10"), Products::default());
    let mut peer = Peer::new(1, (0..3).flat_map(|event| blocks(0, event, 4, 510)).collect());
    decode(&mut unit, peer.batch(9).as_ref(), 0, &mut products);
    let counted = [C::LostDown, C::Late, C::Restarts, C::Events].map(|c| count(&unit, c));
    assert_eq!(counted, [0, 0, 1, 3]);
}

#[test]
fn senders_that_all_begin_anew_go_on_above() {
    let (mut unit, mut products) = (unit("sources = 2"), Products::default());
    for run in 0..2 {
        let mut both = peers(2, 3, 4);
        for (peer, number) in both.iter_mut().zip([1, 2]) {
            let credit = StreamTable::default().open(10 * run + number, Origin::NONE);
            peer.credit = credit;
            decode(&mut unit, peer.batch(9).as_ref(), 0, &mut products);
        }
        both.iter().for_each(Peer::close);
        decode(&mut unit, None, 0, &mut products);
    }
    let above = 1 << 24;
    assert_eq!(products.records.number, [0, 1, 2, above, above + 1, above + 2]);
    assert_eq!(
        (count(&unit, C::Restarts), count(&unit, C::Lost), count(&unit, C::Late)),
        (1, 0, 0)
    );
}

#[test]
fn without_streams_memory_forces_events_out() {
    let (mut unit, mut products) = (unit("sources = 2\nmemory = \"1MiB\""), Products::default());
    let packets: Vec<Vec<u8>> = (0..400).flat_map(|event| blocks(0, event, 500, 510)).collect();
    let batch = Batch::from_datagrams(packets.iter().map(|p| (&p[..], Origin::NONE)));
    decode(&mut unit, Some(&batch), 0, &mut products);
    assert!(count(&unit, C::Held) <= 1 << 20);
    assert_eq!(count(&unit, C::Forced), products.records.len() as u64);
    assert!(!products.records.is_empty());
    balanced(&unit);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whoever is read when, and however much: every event comes, in order, once; memory stays bounded; nothing stands still.
    #[test]
    fn streams_that_are_ahead_wait_and_nothing_is_lost(
        sources in 2usize..6,
        events in 1u64..150,
        payload in prop::sample::select(vec![None, Some(0usize), Some(30), Some(500), Some(3000)]),
        order in prop::collection::vec((0usize..6, 1usize..40), 0..200),
    ) {
        let mut unit = unit(&format!("sources = {sources}\nmemory = \"1MiB\""));
        let mut products = Products::default();
        let mut peers = match payload {
            Some(payload) => peers(sources as u64, events, payload),
            None => (0..sources as u64)
                .map(|s| Peer::new(s as u32 + 1, (0..events).map(|e| empty(s, e)).collect()))
                .collect(),
        };
        let read = 40 * (4096 + fragment_room());
        let rest = (0..100_000).map(|n| (n % sources, 3));
        for (peer, most) in order.into_iter().map(|(p, most)| (p % sources, most)).chain(rest) {
            if peers.iter().all(|peer| peer.packets.is_empty()) {
                break;
            }
            let batch = peers[peer].batch(most);
            decode(&mut unit, batch.as_ref(), 0, &mut products);
            let held = count(&unit, C::Held);
            prop_assert!(held <= (1 << 20) + read * sources as u64, "{held} B");
        }
        decode(&mut unit, None, 0, &mut products);
        prop_assert_eq!(products.records.number.clone(), (0..events).collect::<Vec<_>>());
        let as_sent = payload.map_or(flags::BROKEN, |_| 0);
        prop_assert!(products.records.flags.iter().all(|&of| of == as_sent));
        prop_assert_eq!((unit.merger.bytes(), count(&unit, C::Held)), (0, 0));
    }

    /// No block and no stream of blocks panics, and every one is counted.
    #[test]
    fn any_blocks_are_counted(
        made in prop::collection::vec((0u64..4, 0u64..12, any::<u16>(), any::<u8>(), any::<bool>()), 0..120),
    ) {
        let mut unit = unit("sources = 3\nevent_timeout = \"10ms\"");
        let mut products = Products::default();
        for (at, (source, event, damage, bit, streamed)) in (0..).zip(made) {
            let mut packet = blocks(source, event, 2, 1 + usize::from(bit % 4)).swap_remove(0);
            if damage % 3 == 0 {
                let place = usize::from(damage) % packet.len();
                packet[place] ^= 1 << (bit % 8);
            }
            let batch = if streamed {
                let mut peer = Peer::new(1 + u32::from(bit % 8), vec![packet]);
                let batch = peer.batch(1);
                if damage % 5 == 0 { peer.close() }
                batch.unwrap()
            } else {
                Batch::from_datagrams([(&packet[..], Origin::NONE)])
            };
            decode(&mut unit, Some(&batch), at, &mut products);
            balanced(&unit);
        }
        unit.flush(Flush::End, &mut products);
        balanced(&unit);
        prop_assert!(products.records.number.is_sorted());
        let kept: BTreeMap<u64, usize> = products.records.number.iter().map(|n| (*n, 1)).collect();
        prop_assert_eq!(kept.len(), products.records.len());
    }
}

/// What the sender of a source does with the next event.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Sent {
        words: usize,
        in_one: bool,
    },
    LeftOut,
    Twice,
    Throttled(u8),
    /// A bit of the block is flipped.
    Damaged(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        20 => Just(Deed::Sent { words: 6, in_one: true }),
        2 => (0usize..9, any::<bool>()).prop_map(|(words, in_one)| Deed::Sent { words, in_one }),
        1 => Just(Deed::LeftOut),
        1 => Just(Deed::Twice),
        1 => (0u8..16).prop_map(Deed::Throttled),
        2 => (32usize..8 * 64).prop_map(Deed::Damaged),
    ]
}

fn packets(source: u64, event: u64, deed: Deed) -> Vec<Vec<u8>> {
    let usual = || blocks(source, event, 6, 510);
    match deed {
        Deed::Sent { words, in_one } => blocks(source, event, words, if in_one { 510 } else { 3 }),
        Deed::LeftOut => Vec::new(),
        Deed::Twice => [usual(), usual()].concat(),
        Deed::Throttled(state) => vec![throttled(usual().remove(0), state)],
        Deed::Damaged(bit) => {
            let mut block = usual().remove(0);
            block[bit / 8] ^= 1 << (bit % 8);
            vec![block]
        }
    }
}

proptest! {
    /// All events, flags and counters are those of fragments that are read and merged one by one.
    #[test]
    fn rows_change_nothing(
        deeds in prop::collection::vec(prop::collection::vec(deed(), 30..120), 1..4),
        first in prop_oneof![Just(0u64), Just((1 << 24) - 50)],
        crc_every in 0u32..4,
        reads in prop::collection::vec((0usize..4, 1usize..40), 1..40),
    ) {
        let run = |rows: bool| {
            let options = format!("sources = {}\ncrc_every = {crc_every}\nrows = {rows}", deeds.len());
            let (mut unit, mut products) = (unit(&options), Products::default());
            let of = |(source, deeds): (u64, &Vec<Deed>)| {
                let all = (first..).zip(deeds).flat_map(|(event, deed)| packets(source, event, *deed));
                Peer::new(source as u32 + 1, all.collect())
            };
            let mut peers: Vec<Peer> = (0..).zip(&deeds).map(of).collect();
            for (peer, most) in &reads {
                let peer = peer % peers.len();
                let batch = peers[peer].batch(*most);
                decode(&mut unit, batch.as_ref(), 0, &mut products);
            }
            unit.flush(Flush::End, &mut products);
            balanced(&unit);
            let told = unit.command("SOURCES", &[]).unwrap();
            let lines: Vec<u64> = (0..C::LINES).map(|line| unit.sheet.get(line)).collect();
            (products.records, lines, told)
        };
        let (rows, alone) = (run(true), run(false));
        prop_assert_eq!(&rows.1, &alone.1);
        prop_assert_eq!(rows, alone);
    }
}
