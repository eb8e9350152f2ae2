//! The sink against a plain model, read back with HDF5; copies of the open file stand for killed runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fullcount_core::conformance::OutputCase;
use fullcount_core::ledger::Ledger;
use fullcount_core::products::{EventBatch, Products};
use fullcount_core::time::{Nanos, TickLength};
use fullcount_core::view::PixelMap;
use hdf5_metno::File;
use proptest::prelude::*;

use super::*;
use fullcount_core::sink::Sink;

/// A picture of `columns` × `rows` pixels of 5 mm, 10 m from the sample.
fn map(columns: u32, rows: u32) -> PixelMap {
    let n = columns * rows;
    PixelMap {
        name: "panel".into(),
        columns,
        rows,
        // Not the identity: pixel 1 is in the last cell.
        cell: (0..n).rev().collect(),
        x_m: (0..n).map(|i| 0.005 * f64::from(i % columns)).collect(),
        z_m: vec![],
        y_m: (0..n).map(|i| 0.005 * f64::from(i / columns)).collect(),
        distance_m: 10.0,
        source_text: "# geometry\n".into(),
    }
}

pub(crate) fn options(dir: &Path) -> NexusOptions {
    let mut o = NexusOptions::new(dir.join("run.nxs"), map(4, 3));
    o.start_time_ns = Some(1_527_854_400_000_000_000);
    o.source_distance_m = Some(25.0);
    o.chunk_events = 1024;
    o.chunk_pulses = 64;
    o
}

pub(crate) type Rows<'a> = &'a [(i64, &'a [(u32, u32)])];

/// A batch of (pulse, [(offset, pixel)]).
pub(crate) fn batch(rows: Rows<'_>) -> Arc<Products> {
    let mut p = Products::default();
    for &(pulse, events) in rows {
        p.events.pulse_ns.push(pulse);
        p.events.pulse_first.push(p.events.pixel.len() as u32);
        for &(offset, pixel) in events {
            p.events.push(offset, pixel);
        }
    }
    Arc::new(p)
}

#[derive(Debug, PartialEq, Default)]
pub(crate) struct Columns {
    pub id: Vec<i64>,
    pub offset: Vec<i64>,
    pub index: Vec<i64>,
    pub zero: Vec<u64>,
    pub cue_index: Vec<i64>,
    pub cue_time: Vec<i64>,
    pub total: u64,
}

pub(crate) fn read(path: &Path) -> Columns {
    let file = File::open(path).unwrap();
    let group = file.group("/entry/instrument/panel/panel_events").unwrap();
    let i64s = |name: &str| group.dataset(name).unwrap().read_raw::<i64>().unwrap();
    Columns {
        id: i64s("event_id"),
        offset: i64s("event_time_offset"),
        index: i64s("event_index"),
        zero: group.dataset("event_time_zero").unwrap().read_raw().unwrap(),
        cue_index: i64s("cue_index"),
        cue_time: i64s("cue_timestamp_zero"),
        total: group.dataset("total_counts").unwrap().read_scalar().unwrap(),
    }
}

pub(crate) fn balance(sink: &NexusSink) -> (u64, bool) {
    let ledger = Ledger::default();
    ledger.register(sink.sheet());
    (ledger.read().balance(), ledger.read().anything_lost())
}

pub(crate) fn count(sink: &NexusSink, counter: NexusCounter) -> u64 {
    sink.sheet().get(counter as usize)
}

pub(crate) fn clean(path: &Path) {
    assert_eq!(check(path).unwrap(), [], "the rules of section 5");
}

#[test]
fn batches_become_columns_and_a_pulse_that_goes_on_gets_no_second_row() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path());
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&batch(&[(100, &[(5, 1), (6, 12)]), (200, &[])])).unwrap();
    sink.push(&batch(&[(200, &[(7, 2)]), (300, &[(8, 3)])])).unwrap();
    sink.flush().unwrap();
    sink.push(&batch(&[(300, &[(9, 4)]), (300, &[(1, 5)])])).unwrap();
    assert_eq!(count(&sink, NexusCounter::Waiting), 2);
    assert_eq!(balance(&sink), (0, false), "balanced while events wait");
    let report = sink.finish().unwrap();
    assert_eq!(report.events, 6);
    assert_eq!(report.bytes, std::fs::metadata(&o.path).unwrap().len());
    assert_eq!(balance(&sink), (0, false));
    let c = read(&o.path);
    assert_eq!(c.id, [1, 12, 2, 3, 4, 5]);
    assert_eq!(c.offset, [5, 6, 7, 8, 9, 1]);
    assert_eq!((c.index, c.zero), (vec![0, 2, 3], vec![100, 200, 300]));
    assert_eq!(c.total, 6);
    clean(&o.path);
    assert!(std::fs::metadata(&o.path).unwrap().permissions().readonly());
    assert_eq!(sink.finish().unwrap(), report, "a second finish says the same");
    assert!(sink.push(&batch(&[])).is_err(), "closed");
}

#[test]
fn refused_events_have_a_counter_each_and_are_not_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path());
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&batch(&[(-5, &[(1, 1), (2, 2)]), (-4, &[]), (10, &[(1, 1)])])).unwrap();
    sink.push(&batch(&[(20, &[(1, 0), (2, 13), (3, 12), (1 << 31, 1), (4, u32::MAX)])])).unwrap();
    let (pulse_ns, pulse_first) = (vec![1], vec![1]);
    let events = EventBatch { pulse_ns, pulse_first, offset_ns: vec![0, 0], pixel: vec![1, 1] };
    let wrong = Products { events, ..Products::default() };
    sink.push(&Arc::new(wrong)).unwrap();
    assert_eq!(count(&sink, NexusCounter::Before1970), 2);
    assert_eq!(count(&sink, NexusCounter::PulsesBefore1970), 2);
    assert_eq!(count(&sink, NexusCounter::OutsidePixels), 3);
    assert_eq!(count(&sink, NexusCounter::OffsetRange), 1);
    assert_eq!(count(&sink, NexusCounter::Malformed), 2, "events before the first pulse");
    assert_eq!(sink.finish().unwrap().events, 2);
    assert_eq!(balance(&sink), (0, false), "refused is not lost");
    clean(&o.path);
    let c = read(&o.path);
    assert_eq!(
        (c.id, c.offset, c.index, c.zero),
        (vec![1, 12], vec![1, 3], vec![0, 1], vec![10, 20])
    );
    let file = File::open(&o.path).unwrap();
    let rejected = file.dataset("/entry/fullcount/events_rejected").unwrap();
    assert_eq!(rejected.read_scalar::<u64>().unwrap(), 8);
}

#[test]
fn files_without_events_or_with_one_pulse_get_a_closing_pulse() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    o.epoch = Nanos(7);
    NexusSink::create(&o).unwrap().finish().unwrap();
    let c = read(&o.path);
    assert_eq!((c.index, c.zero), (vec![0, 0], vec![7, 7]));
    clean(&o.path);

    o.path = dir.path().join("one.nxs");
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&batch(&[(1000, &[(1, 1), (2, 2)])])).unwrap();
    sink.finish().unwrap();
    let c = read(&o.path);
    assert_eq!((c.index, c.zero), (vec![0, 2], vec![1000, 1000]));
    clean(&o.path);
}

#[test]
fn structure_follows_the_pixel_map_and_the_options() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    o.event_id = EventIdType::U32;
    o.start_attribute = StartAttribute::Start;
    o.compression = Compression::Gzip(4);
    o.source_distance_m = Some(25.0);
    o.tick = TickLength::new(125, 2).unwrap();
    o.tick_assumed = false;
    o.configuration = "a\0b = 1".into();
    o.cue_interval = 3;
    let mut sink = NexusSink::create(&o).unwrap();
    sink.tick(Duration::ZERO).unwrap();
    sink.push(&batch(&[(100, &[(5, 1), (6, 12)])])).unwrap();
    sink.tick(Duration::from_secs(2)).unwrap();
    sink.push(&batch(&[(200, &[(7, 2), (8, 3)])])).unwrap();
    sink.tick(Duration::from_secs(4)).unwrap();
    assert_eq!(count(&sink, NexusCounter::Flushes), 2, "one per interval");
    sink.finish().unwrap();
    clean(&o.path);
    let c = read(&o.path);
    assert_eq!((c.cue_index, c.cue_time), (vec![3], vec![208]), "after 3 events or more");
    let f = File::open(&o.path).unwrap();
    let numbers = f.dataset("/entry/instrument/panel/detector_number").unwrap();
    assert_eq!(numbers.shape(), [3, 4]);
    assert_eq!(numbers.read_raw::<i32>().unwrap(), (1..=12).rev().collect::<Vec<_>>());
    let x = f.dataset("/entry/instrument/panel/x_pixel_offset").unwrap();
    assert_eq!(x.shape(), [3, 4]);
    assert_eq!(x.read_raw::<f64>().unwrap()[..4], [0.015, 0.01, 0.005, 0.0], "of pixels 12 to 9");
    let own = |name: &str| f.dataset(&format!("/entry/fullcount/{name}")).unwrap();
    let tick = own("tick_numerator_ns").read_scalar::<u32>().unwrap();
    assert_eq!((tick, own("tick_denominator").read_scalar::<u32>().unwrap()), (125, 2));
    assert_eq!(own("tick_assumed").read_scalar::<u8>().unwrap(), 0);
    let text: hdf5_metno::types::VarLenUnicode = own("configuration").read_scalar().unwrap();
    assert_eq!(text.as_str(), "a\u{fffd}b = 1");
    let source = f.dataset("/entry/instrument/source/transformations/distance").unwrap();
    assert_eq!(source.read_scalar::<f64>().unwrap(), -25.0);
    let end: super::layout::DateText = f.dataset("/entry/end_time").unwrap().read_scalar().unwrap();
    assert_eq!(end.as_str(), "2018-06-01T12:00:04.000000Z", "start plus the last tick");
    let zero = f.dataset("/entry/panel_events/event_time_zero").unwrap();
    assert_eq!(zero.attr_names().unwrap(), ["start", "units"]);
}

#[test]
fn a_map_with_gaps_gives_one_dimensional_columns() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    o.pixels.columns = 5;
    NexusSink::create(&o).unwrap().finish().unwrap();
    clean(&o.path);
    let f = File::open(&o.path).unwrap();
    let numbers = f.dataset("/entry/instrument/panel/detector_number").unwrap();
    assert_eq!(numbers.read_raw::<i32>().unwrap(), (1..=12).collect::<Vec<_>>());
    assert_eq!(numbers.shape(), [12]);
}

#[test]
fn existing_files_are_refused_replaced_or_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    std::fs::write(&o.path, b"").unwrap();
    let mut sink = NexusSink::create(&o).unwrap();
    let e = NexusSink::create(&o).unwrap_err();
    assert!(matches!(e, NexusError::InUse { .. }), "{e}");
    assert!(matches!(recover(&o.path), Err(NexusError::InUse { .. })), "the writer lives");
    sink.push(&batch(&[(1, &[(1, 1)]), (2, &[(1, 2)])])).unwrap();
    sink.flush().unwrap();
    let killed = dir.path().join("killed.nxs");
    std::fs::copy(&o.path, &killed).unwrap();
    sink.finish().unwrap();

    let e = NexusSink::create(&o).unwrap_err();
    assert!(matches!(e, NexusError::Exists { .. }), "{e}");
    assert_eq!(read(&o.path).id, [1, 2], "untouched");
    o.existing = Existing::Replace;
    assert!(NexusSink::create(&o).unwrap().recovered().is_none());
    assert!(!o.path.exists(), "a sink that took nothing leaves no file when it is dropped");

    o.existing = Existing::Refuse;
    o.path = killed;
    std::fs::write(dir.path().join("killed.recovered-1.nxs"), b"taken").unwrap();
    let mut sink = NexusSink::create(&o).unwrap();
    let found = sink.recovered().unwrap().clone();
    assert_eq!(found.path, dir.path().join("killed.recovered-2.nxs"));
    assert_eq!((found.events, found.pulses), (2, 2));
    assert_eq!(sink.finish().unwrap().events, 0);
    assert_eq!(read(&found.path).id, [1, 2]);
    clean(&found.path);
    assert!(!dir.path().join("killed.nxs.building").exists());
}

#[test]
fn recovery_cuts_to_the_last_flush_and_repeats_without_change() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    o.cue_interval = 1;
    let mut sink = NexusSink::create(&o).unwrap();
    let copy = |name: &str| -> PathBuf {
        let to = dir.path().join(name);
        std::fs::copy(&o.path, &to).unwrap();
        to
    };
    let before = copy("before.nxs");
    sink.push(&batch(&[(1000, &[(1, 1); 10])])).unwrap();
    sink.flush().unwrap();
    // More than a chunk after the flush: its blocks are in the file, its rows are not.
    sink.push(&batch(&[(2000, &[(2, 2); 3000])])).unwrap();
    let after = copy("after.nxs");
    sink.finish().unwrap();

    let found = recover(&after).unwrap();
    assert_eq!((found.events, found.pulses, found.changed), (10, 2, true));
    let c = read(&after);
    assert_eq!((c.id, c.offset), (vec![1; 10], vec![1; 10]));
    assert_eq!((c.index, c.zero), (vec![0, 10], vec![1000, 1000]), "one pulse and its closing one");
    assert_eq!((c.cue_index, c.total), (vec![9], 10));
    clean(&after);
    let bytes = std::fs::read(&after).unwrap();
    let again = recover(&after).unwrap();
    assert_eq!((again.events, again.pulses, again.changed), (10, 2, false));
    assert_eq!(std::fs::read(&after).unwrap(), bytes);

    let found = recover(&before).unwrap();
    assert_eq!((found.events, found.pulses), (0, 2), "killed before the first flush");
    clean(&before);
    let finished = recover(&o.path).unwrap();
    assert_eq!((finished.events, finished.changed), (3010, false));
}

#[test]
fn what_is_not_ours_is_left_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    assert!(matches!(recover(&path), Err(NexusError::Io { .. })));
    std::fs::write(&path, b"plain text").unwrap();
    assert!(matches!(recover(&path), Err(NexusError::NotHdf5 { .. })));
    let file = File::with_options().with_fapl(|f| f.libver_v110()).create(&path).unwrap();
    file.create_group("entry").unwrap();
    file.flush().unwrap();
    let foreign = dir.path().join("foreign.nxs");
    std::fs::copy(&path, &foreign).unwrap();
    drop(file);
    let bytes = std::fs::read(&foreign).unwrap();
    let e = recover(&foreign).unwrap_err();
    assert!(e.to_string().contains("/entry/fullcount is missing"), "{e}");
    assert_eq!(std::fs::read(&foreign).unwrap(), bytes, "restored, flags included");
    assert!(check(&path).unwrap().iter().any(|v| v.what.contains("NX_class")), "check sees faults");
}

#[test]
fn a_dataset_whose_header_is_damaged_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let mut sink = NexusSink::create(&options).unwrap();
    sink.push(&batch(&[(1, &[(5, 1)])])).unwrap();
    sink.flush().unwrap();
    let mut bytes = std::fs::read(&options.path).unwrap();
    // All headers of datasets have one length; their last four bytes are a checksum.
    let headers = (0..bytes.len()).step_by(512).filter(|&at| bytes[at..].starts_with(b"OHDR"));
    for at in headers.collect::<Vec<_>>() {
        bytes[at + 267] ^= 1;
        let damaged = dir.path().join("damaged.nxs");
        std::fs::write(&damaged, &bytes).unwrap();
        let found = recover(&damaged).map_err(|e| e.to_string());
        if found
            .as_ref()
            .is_err_and(|e| e.contains("open /entry/instrument/panel/panel_events/event_index: "))
        {
            return;
        }
        bytes[at + 267] ^= 1;
    }
    panic!("no header is that of event_index");
}

#[test]
fn an_unwritable_path_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    o.path = dir.path().join("missing").join("run.nxs");
    let e: String = NexusSink::create(&o).unwrap_err().to_string();
    assert!(e.contains("missing/run.nxs: the folder ") && e.contains("does not exist"), "{e}");
    o.pixels = PixelMap::default();
    assert!(matches!(NexusSink::create(&o), Err(NexusError::NoPixels)));
}

/// Pulse, [(offset, pixel)].
type Row = (i64, Vec<(u32, u32)>);

#[test]
fn modules_in_turn_give_one_row_per_pulse_however_they_are_cut_into_batches() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path());
    let mut sink = NexusSink::create(&o).unwrap();
    for (pulse, n) in [(200, 1), (100, 2), (200, 3), (100, 4)] {
        sink.push(&batch(&[(pulse, &[(n, n)])])).unwrap();
    }
    sink.flush().unwrap();
    // The last pulse of the file continues; the older one is late and gets a separate row.
    sink.push(&batch(&[(100, &[(5, 5)]), (200, &[(6, 6)]), (300, &[])])).unwrap();
    sink.push(&batch(&[(400, &[(7, 7)]), (100, &[(8, 8)]), (300, &[(9, 9)])])).unwrap();
    sink.finish().unwrap();
    let c = read(&o.path);
    assert_eq!(c.zero, [100, 200, 100, 300, 400]);
    assert_eq!(c.index, [0, 2, 5, 7, 8]);
    assert_eq!(c.id, [2, 4, 1, 3, 6, 5, 8, 9, 7]);
    clean(&o.path);
}

/// What the file must hold, the slow way: blocks end at each 1024 events of the file and at flushes, and
/// hold each of their pulses once, that of the file's last row first.
#[derive(Default)]
struct Model {
    columns: Columns,
    block: std::collections::BTreeMap<u64, Vec<(u32, u32)>>,
    events: usize,
}

impl Model {
    fn of(batches: &[Vec<Row>], flushes: u8) -> Columns {
        let (mut m, mut open) = (Model::default(), None);
        for (i, rows) in batches.iter().enumerate() {
            for (pulse, events) in rows {
                let Ok(pulse) = u64::try_from(*pulse) else { continue };
                // A pulse that is still open needs no new row in a new block.
                if open.replace(pulse) != Some(pulse) {
                    m.block.entry(pulse).or_default();
                }
                for &event in events.iter().filter(|(_, pixel)| (1..=12).contains(pixel)) {
                    m.block.entry(pulse).or_default().push(event);
                    m.events += 1;
                    if m.events.is_multiple_of(1024) {
                        m.end_block();
                    }
                }
            }
            if flushes >> i & 1 == 1 {
                m.end_block();
            }
        }
        m.end_block();
        let mut c = m.columns;
        while c.zero.len() < 2 {
            c.zero.push(c.zero.last().copied().unwrap_or(0));
            c.index.push(c.id.len() as i64);
        }
        c.total = c.id.len() as u64;
        c
    }

    fn end_block(&mut self) {
        let c = &mut self.columns;
        let first = c.zero.last().and_then(|last| self.block.remove_entry(last));
        for (pulse, events) in first.into_iter().chain(std::mem::take(&mut self.block)) {
            if c.zero.last() != Some(&pulse) {
                c.zero.push(pulse);
                c.index.push(c.id.len() as i64);
            }
            c.offset.extend(events.iter().map(|&(offset, _)| i64::from(offset)));
            c.id.extend(events.iter().map(|&(_, pixel)| i64::from(pixel)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_batches_are_read_back_as_the_model_says(
        batches in proptest::collection::vec(
            proptest::collection::vec(
                (-2i64..9, proptest::collection::vec((0u32..1 << 31, 0u32..15), 0..900)), 0..4), 0..8),
        flushes in any::<u8>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path());
        let mut sink = NexusSink::create(&o).unwrap();
        for (i, b) in batches.iter().enumerate() {
            let rows: Vec<(i64, &[(u32, u32)])> = b.iter().map(|(t, e)| (*t, e.as_slice())).collect();
            sink.push(&batch(&rows)).unwrap();
            if flushes >> i & 1 == 1 {
                sink.flush().unwrap();
            }
        }
        let killed = dir.path().join("killed.nxs");
        let in_file = count(&sink, NexusCounter::Events);
        std::fs::copy(&o.path, &killed).unwrap();
        let report = sink.finish().unwrap();
        prop_assert_eq!(balance(&sink), (0, false));
        let (found, want) = (read(&o.path), Model::of(&batches, flushes));
        prop_assert_eq!(report.events, want.total);
        prop_assert_eq!(&found, &want);
        prop_assert_eq!(check(&o.path).unwrap(), vec![]);
        let recovered = recover(&killed).unwrap();
        prop_assert_eq!(recovered.events, in_file);
        let c = read(&killed);
        prop_assert_eq!(&c.id[..], &want.id[..in_file as usize]);
        prop_assert_eq!(&c.offset[..], &want.offset[..in_file as usize]);
        prop_assert_eq!(check(&killed).unwrap(), vec![]);
        let rows = c.zero.iter().zip(&c.index);
        // Behind the last flush nothing is left; a closing row may have come.
        prop_assert!(rows.zip(want.zero.iter().zip(&want.index)).take_while(|(_, w)| *w.1 < in_file as i64).all(|(f, w)| f == w));
    }
}

#[test]
fn a_complete_file_that_was_cut_short_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    o.read_only = false;
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&batch(&[(1, &[(1, 1); 5000]), (2, &[(1, 2)])])).unwrap();
    sink.finish().unwrap();
    let mut bytes = std::fs::read(&o.path).unwrap();
    bytes.truncate(bytes.len() - 10);
    std::fs::write(&o.path, &bytes).unwrap();
    let e = recover(&o.path).unwrap_err();
    let want = format!("({} of {} bytes)", bytes.len(), bytes.len() + 10);
    assert!(e.to_string().contains(&want), "{e}");
    assert_eq!(std::fs::read(&o.path).unwrap(), bytes);
}

#[test]
fn what_it_says_is_safe_is_in_the_file_of_a_killed_run() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let path = options.path.clone();
    let mut sink = NexusSink::create(&options).unwrap();
    let mut kept = || {
        let copy = dir.path().join("copy.nxs");
        std::fs::copy(&path, &copy).unwrap();
        // Closed: complete.
        recover(&copy).map_or(u64::MAX, |found| found.events)
    };
    let fill = |products: &mut Products, n: u64| {
        products.events.pulse_ns.push(1_000_000 * n as i64);
        products.events.pulse_first.push(0);
        products.events.push(1, n as u32 % 12 + 1);
    };
    let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close: false };
    fullcount_core::conformance::output(case).unwrap();
}

/// A killed writer may leave one page of a write new and the next one old.
#[test]
fn no_block_with_a_checksum_lies_across_two_pages() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let mut sink = NexusSink::create(&options).unwrap();
    let events: Vec<(u32, u32)> = (0..40_000).map(|i| (i, 1 + i % 12)).collect();
    for pulse in 1..200 {
        let n = pulse as usize * 199;
        sink.push(&batch(&[(pulse, &events[n..n + 199])])).unwrap();
        sink.flush().unwrap();
    }
    let bytes = std::fs::read(&options.path).unwrap();
    for (sign, boundary, least) in
        [(b"OHDR", 512, 30), (b"EAHD", 4096, 4), (b"EAIB", 4096, 4), (b"EADB", 4096, 4)]
    {
        let at: Vec<usize> =
            (0..bytes.len() - 4).filter(|&i| bytes[i..].starts_with(sign)).collect();
        assert!(at.len() >= least, "{} of {sign:?}", at.len());
        assert!(at.iter().all(|i| i % boundary == 0), "{sign:?} at {at:?}");
    }
}
