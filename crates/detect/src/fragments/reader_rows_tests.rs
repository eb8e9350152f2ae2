//! Rows give what one by one gives, however fragments come: on streams that follow each other, in datagrams of several sources, in
//! memory that is shared or not, with and without records, with a timeout, and where the memory is full.

use fullcount_core::batch::{Edge, Origin, TrainMeta};
use proptest::prelude::*;

use super::tests::{balanced, blocks};
use super::*;

/// How fragments come, and what is done with them.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Each source has two streams, one after the other; otherwise there are none, and a train has fragments of all sources.
    streams: bool,
    shared: bool,
    records: bool,
    timeout: bool,
    /// Fragments of 4 KB, of which 1 MiB is full after 250.
    long: bool,
    crc_every: u32,
}

fn way() -> impl Strategy<Value = Way> {
    let all = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 0u32..4);
    all.prop_map(|(streams, shared, records, timeout, long, crc_every)| Way {
        streams,
        shared,
        records,
        timeout,
        long,
        crc_every,
    })
}

/// Equal neighbours are one train.
fn batch(packets: &[Vec<u8>], shared: bool) -> Batch {
    let mut metas = Vec::<TrainMeta>::new();
    let mut start = 0;
    for packet in packets {
        let len = packet.len();
        match metas.last_mut().filter(|train| train.stride == len) {
            Some(train) => train.len += len,
            None => {
                let edge = Edge::Heap;
                metas.push(TrainMeta { start, len, stride: len, edge, ..TrainMeta::default() });
            }
        }
        start += len;
    }
    let memory = packets.concat();
    let mut batch = Batch::with_slots(1, memory.len());
    match shared {
        true => batch.share(&memory.into()),
        false => batch.memory_mut().copy_from_slice(&memory),
    }
    metas.into_iter().for_each(|meta| batch.push(meta));
    batch
}

/// Packets that somebody sends, in order.
struct Line {
    packets: Vec<Vec<u8>>,
    /// Its streams, and how many packets the first one has.
    credits: Vec<Arc<StreamCredit>>,
    first: usize,
    sent: usize,
    handed: u64,
}

impl Line {
    /// The next packets; those of one stream only.
    fn next(&mut self, most: usize, shared: bool) -> Option<Batch> {
        let mut end = self.packets.len().min(self.sent + most);
        let behind = self.sent >= self.first;
        if !behind && !self.credits.is_empty() {
            end = end.min(self.first);
        }
        let packets = &self.packets[self.sent..end];
        if packets.is_empty() {
            return None;
        }
        let mut made = batch(packets, shared);
        self.sent = end;
        if let Some(credit) = self.credits.get(usize::from(behind)) {
            self.handed += packets.iter().map(|packet| packet.len() as u64).sum::<u64>();
            made.set_stream(credit.clone());
            let last = if behind { self.packets.len() } else { self.first };
            if end == last {
                credit.hung_up();
                credit.close(std::mem::take(&mut self.handed));
            }
        }
        Some(made)
    }
}

/// Who sends: each source for itself, or one sender the fragments of all.
fn lines(sent: &[Vec<bool>], way: Way) -> Vec<Line> {
    let words = if way.long { 500 } else { 6 };
    let of = |source: usize, event: usize| blocks(source as u64, event as u64, words, 510);
    let table = StreamTable::default();
    table.begin_with(u64::MAX);
    if way.streams {
        let line = |(source, sent): (usize, &Vec<bool>)| {
            let events = sent.iter().enumerate().filter(|(_, sent)| **sent);
            let packets: Vec<_> = events.flat_map(|(event, _)| of(source, event)).collect();
            let number = |n: usize| (2 * source + n + 1) as u32;
            let credits = (0..2).map(|n| table.open(number(n), Origin::NONE)).collect();
            Line { first: packets.len() / 2, packets, credits, sent: 0, handed: 0 }
        };
        return sent.iter().enumerate().map(line).collect();
    }
    let mut packets = vec![];
    for event in 0..sent.iter().map(Vec::len).max().unwrap_or(0) {
        let these = sent.iter().enumerate().filter(|(_, sent)| sent.get(event) == Some(&true));
        packets.extend(these.flat_map(|(source, _)| of(source, event)));
    }
    vec![Line { packets, credits: vec![], first: 0, sent: 0, handed: 0 }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn rows_change_nothing_however_fragments_come(
        way in way(),
        sent in prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.97), 20..400), 1..4),
        reads in prop::collection::vec((0usize..4, 1usize..120, 0i64..4), 1..40),
    ) {
        let run = |rows: bool| {
            let Way { shared, records, timeout, crc_every, .. } = way;
            let timeout = if timeout { "10ms" } else { "off" };
            let options = format!(
                "sources = {}\ncrc_every = {crc_every}\nrows = {rows}\nevent_timeout = \"{timeout}\"\nmemory = \"1MiB\"",
                sent.len(),
            );
            let options = Options::read(&options).unwrap();
            let (mut unit, mut products) =
                (UnitReader::new(&options, records, Instructions::default()), Products::default());
            let (mut lines, mut ms) = (lines(&sent, way), 0);
            for (line, most, later) in &reads {
                let line = line % lines.len();
                ms += later;
                let batch = lines[line].next(*most, shared);
                unit.decode(batch.as_ref(), Some(Nanos(ms * 1_000_000)), &mut products);
            }
            unit.flush(Flush::End, &mut products);
            balanced(&unit);
            let told = unit.command("SOURCES", &[]).unwrap();
            let counted: Vec<u64> = (0..C::LINES).map(|line| unit.sheet.get(line)).collect();
            (counted, products.records, told)
        };
        let (rows, alone) = (run(true), run(false));
        prop_assert_eq!(&rows.0, &alone.0);
        prop_assert!(way.records || rows.1.is_empty());
        prop_assert_eq!(rows, alone);
    }
}

/// What a unit counted, and what left in each call.
type UnitRun = (Vec<u64>, Vec<EventRecords>);

/// Units with and without rows get the same batches, a call each, and then calls without any; they must agree, call by call.
fn both(options: &str, mut batches: impl FnMut() -> Vec<Batch>) -> UnitRun {
    let mut run = |rows: bool| {
        let options = Options::read(&format!("{options}\nrows = {rows}")).unwrap();
        let mut unit = UnitReader::new(&options, true, Instructions::default());
        let mut left = vec![];
        let batches = batches();
        for batch in batches.iter().map(Some).chain([None; 4]) {
            let mut products = Products::default();
            unit.decode(batch, Some(Nanos(1)), &mut products);
            left.push(products.records);
        }
        let mut products = Products::default();
        unit.flush(Flush::End, &mut products);
        left.push(products.records);
        balanced(&unit);
        ((0..C::LINES).map(|line| unit.sheet.get(line)).collect::<Vec<u64>>(), left)
    };
    let (rows, alone) = (run(true), run(false));
    assert_eq!(rows.0, alone.0);
    assert!(rows.1 == alone.1, "the same events leave in each call");
    rows
}

/// Fragments of a source of these events, `words` of payload each.
fn fragments(source: u64, events: std::ops::Range<u64>, words: usize) -> Vec<Vec<u8>> {
    events.flat_map(|event| blocks(source, event, words, 510)).collect()
}

#[test]
fn more_than_4_mib_leave_in_several_calls_with_rows_as_without() {
    // 2 times 1500 fragments of 4 KB wait for the last source.
    let (counted, left) = both("sources = 3\nmemory = \"64MiB\"", || {
        (0..3).map(|source| batch(&fragments(source, 0..1500, 500), true)).collect()
    });
    assert_eq!(counted[C::Events as usize], 1500);
    let events: Vec<usize> = left.iter().map(EventRecords::len).collect();
    assert_eq!((&events[..2], events.iter().sum::<usize>()), (&[0, 0][..], 1500));
    let calls = events.iter().filter(|n| **n > 0).count();
    assert!((4..=6).contains(&calls), "{events:?}");
    assert!(left.iter().all(|records| records.bytes() <= (4 << 20) + 3 * 4096), "{events:?}");
}

#[test]
fn a_wrong_checksum_in_a_row_is_counted_once_and_marks_its_event_alone() {
    let damaged = |every: u32| {
        let (counted, left) = both(&format!("sources = 2\ncrc_every = {every}"), || {
            let mut all = [fragments(0, 0..100, 20), fragments(1, 0..100, 20)];
            // The first, one in the midst, two behind each other, and the last.
            for event in [0, 40, 60, 61, 99] {
                all[1][event][40] ^= 1;
            }
            all.iter().map(|packets| batch(packets, true)).collect()
        });
        let of = |line: C| counted[line as usize];
        assert_eq!((of(C::Events), of(C::Incomplete)), (100, 0));
        assert!(left.iter().any(|records| !records.is_empty()));
        (of(C::WrongCrc), of(C::Marked), of(C::Checked))
    };
    assert_eq!(damaged(1), (5, 5, 200));
    // Of every 20th only 0, 40 and 60 are looked at.
    assert_eq!(damaged(20), (3, 3, 10));
    assert_eq!(damaged(0), (0, 0, 0));
}

#[test]
fn a_second_stream_of_a_source_waits_for_the_first_with_rows_as_without() {
    let (counted, left) = both("sources = 2\nmemory = \"64MiB\"", || {
        let table = StreamTable::default();
        table.begin_with(u64::MAX);
        let [first, second, other] = [1, 2, 3].map(|number| table.open(number, Origin::NONE));
        let on = |credit: &Arc<StreamCredit>, packets: &[Vec<u8>]| {
            let mut made = batch(packets, true);
            made.set_stream(credit.clone());
            made
        };
        let half = fragments(0, 0..50, 20);
        let sent = half.iter().map(|packet| packet.len() as u64).sum();
        // The new connection's fragments are there before the old one's last ones, and before its end.
        let all = vec![
            on(&first, &half[..30]),
            on(&second, &fragments(0, 50..120, 20)),
            on(&other, &fragments(1, 0..120, 20)),
            on(&first, &half[30..]),
        ];
        first.hung_up();
        first.close(sent);
        all
    });
    let of = |line: C| counted[line as usize];
    assert_eq!((of(C::Events), of(C::Incomplete), of(C::Repeated)), (120, 0, 0));
    let events: Vec<usize> = left.iter().map(EventRecords::len).collect();
    // What the new connection brought leaves when the old one is over.
    assert_eq!((&events[2..5], events.iter().sum::<usize>()), (&[30, 20, 70][..], 120));
}
