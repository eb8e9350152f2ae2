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
