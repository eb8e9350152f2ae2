//! All rows come out, in both formats and for any batches; and no other file is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::parquet::data_type::{DoubleType, Int32Type, Int64Type};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use fullcount_core::conformance::OutputCase;
use fullcount_core::ledger::Ledger;
use fullcount_core::number::NumberType;
use fullcount_core::products::Products;
use fullcount_core::tables::{DetectorRow, PlaneRow, StripHit, Table};
use fullcount_core::time::Nanos;

use super::hdf5::CHUNK_ROWS;
use super::parquet::GROUP_ROWS;
use super::*;
use crate::Compression;
use crate::sys::{self, FileMode};
use fullcount_core::sink::Sink;

const CLUSTERS: [Table; 2] = [Table::PlaneClusters, Table::DetectorClusters];

fn options(output: TableOutput, path: &Path) -> TableOptions {
    let tables = match output {
        TableOutput::Hits => vec![Table::StripHits],
        TableOutput::Clusters => CLUSTERS.to_vec(),
    };
    TableOptions {
        output,
        path: path.to_owned(),
        overwrite: false,
        compression: Compression::Gzip(1),
        tables,
        epoch: Nanos(1_700_000_000_000_000_000),
        wall: None,
        detector: "gdgem".to_owned(),
        configuration: "[detector]\nkind = \"gdgem\"\n".to_owned(),
    }
}

/// Rows `from..to` of each table; values at the ends of their types among them.
fn products(from: u64, to: u64) -> Arc<Products> {
    let mut p = Products::default();
    for n in from..to {
        let time = n as i64 * 1_000_003 - 5;
        p.strip_hits.push(StripHit {
            time_ps: time,
            detector: u32::MAX - n as u32,
            strip: u16::MAX - n as u16,
            adc: n as u16,
            tdc: n as u8,
            ..StripHit::default()
        });
        p.plane_clusters.push(PlaneRow {
            id: u64::MAX - n,
            pos: n as f64 / 7.0,
            first_ps: i64::MIN + time.abs(),
            ..PlaneRow::default()
        });
        if n % 3 == 0 {
            p.detector_clusters.push(DetectorRow {
                id: n / 3 + 1,
                pos2_utpc: -(n as f64) / 3.0,
                ..DetectorRow::default()
            });
        }
    }
    Arc::new(p)
}

/// Columns of a table as whole numbers (bits of doubles), from a file.
fn read(path: &Path, table: Table) -> Vec<Vec<i128>> {
    match TableFormat::of(path) {
        Some(TableFormat::Hdf5) => read_hdf5(path, table),
        _ => read_parquet(path, table),
    }
}

fn read_hdf5(path: &Path, table: Table) -> Vec<Vec<i128>> {
    let file = sys::open(path, FileMode::Read).unwrap();
    let group = file.group(table.name()).unwrap();
    let column = |column: &fullcount_core::tables::Column| -> Vec<i128> {
        let d = group.dataset(column.name).unwrap();
        match column.kind {
            NumberType::U8 => d.read_raw::<u8>().unwrap().into_iter().map(i128::from).collect(),
            NumberType::U16 => d.read_raw::<u16>().unwrap().into_iter().map(i128::from).collect(),
            NumberType::U32 => d.read_raw::<u32>().unwrap().into_iter().map(i128::from).collect(),
            NumberType::U64 => d.read_raw::<u64>().unwrap().into_iter().map(i128::from).collect(),
            NumberType::I64 => d.read_raw::<i64>().unwrap().into_iter().map(i128::from).collect(),
            NumberType::F64 => bits(d.read_raw::<f64>().unwrap()),
            other => unreachable!("no column of {other:?}"),
        }
    };
    table.columns().iter().map(column).collect()
}

fn bits(values: Vec<f64>) -> Vec<i128> {
    values.into_iter().map(|v| i128::from(v.to_bits())).collect()
}

fn read_parquet(path: &Path, table: Table) -> Vec<Vec<i128>> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut all = vec![Vec::new(); table.columns().len()];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).unwrap();
        let rows = group.metadata().num_rows() as usize;
        for (at, column) in table.columns().iter().enumerate() {
            assert_eq!(group.metadata().column(at).column_path().string(), column.name);
            macro_rules! values {
                ($type:ty) => {{
                    let mut values = Vec::new();
                    let mut reader = ::parquet::column::reader::get_typed_column_reader::<$type>(
                        group.get_column_reader(at).unwrap(),
                    );
                    reader.read_records(rows, None, None, &mut values).unwrap();
                    values
                }};
            }
            match column.kind {
                NumberType::U8 | NumberType::U16 | NumberType::U32 => {
                    all[at].extend(values!(Int32Type).into_iter().map(|v| i128::from(v as u32)));
                }
                NumberType::U64 => {
                    all[at].extend(values!(Int64Type).into_iter().map(|v| i128::from(v as u64)));
                }
                NumberType::I64 => all[at].extend(values!(Int64Type).into_iter().map(i128::from)),
                NumberType::F64 => all[at].extend(bits(values!(DoubleType))),
                other => unreachable!("no column of {other:?}"),
            }
        }
    }
    all
}

/// The same from a batch.
fn wanted(products: &Products, table: Table) -> Vec<Vec<i128>> {
    use fullcount_core::tables::Values;
    let column = |values: Values<'_>| -> Vec<i128> {
        match values {
            Values::U8(v) => v.iter().map(|&n| n.into()).collect(),
            Values::U16(v) => v.iter().map(|&n| n.into()).collect(),
            Values::U32(v) => v.iter().map(|&n| n.into()).collect(),
            Values::U64(v) => v.iter().map(|&n| n.into()).collect(),
            Values::I64(v) => v.iter().map(|&n| n.into()).collect(),
            Values::F64(v) => bits(v.to_vec()),
        }
    };
    table.values(products).into_iter().map(column).collect()
}

fn balanced(sink: &TableSink) -> fullcount_core::ledger::Entries {
    let ledger = Ledger::default();
    ledger.register(sink.sheet());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "{:?}", entries.hops());
    entries
}

#[test]
fn every_row_comes_out_as_it_went_in_whatever_the_batches() {
    let dir = tempfile::tempdir().unwrap();
    // More than a chunk and a group, and no multiple of them.
    let n = (GROUP_ROWS + CHUNK_ROWS + 77) as u64;
    let whole = products(0, n);
    for (output, name) in [
        (TableOutput::Hits, "hits.h5"),
        (TableOutput::Hits, "hits.parquet"),
        (TableOutput::Clusters, "clusters.hdf5"),
        (TableOutput::Clusters, "clusters.parquet"),
    ] {
        for step in [n, 40_009] {
            let path = dir.path().join(format!("{step}-{name}"));
            let o = options(output, &path);
            let mut sink = TableSink::create(&o).unwrap();
            assert!(!path.exists(), "it gets its name when it is complete");
            for (at, from) in (0..n).step_by(step as usize).enumerate() {
                sink.push(&products(from, n.min(from + step))).unwrap();
                // Every third push a flush: half-filled chunks are gone on with.
                sink.tick(Duration::from_secs(at as u64)).unwrap();
                balanced(&sink);
            }
            let report = sink.finish().unwrap();
            let rows: Vec<_> = o.tables.iter().map(|t| (t.name(), t.rows(&whole) as u64)).collect();
            assert_eq!(report.rows, rows);
            assert!(report.bytes > 0 && report.place.starts_with(dir.path().to_str().unwrap()));
            let entries = balanced(&sink);
            let total: u64 = rows.iter().map(|r| r.1).sum();
            let counter = |what: &str| entries.get(&format!("sink.{}.{what}", output.name()));
            assert_eq!((counter("rows"), counter("waiting")), (Some(total), Some(0)));
            assert_eq!(sink.finish().unwrap(), report, "finishing twice changes nothing");
            for (file, tables) in TableFormat::of(&path).unwrap().files(&path, &o.tables) {
                for table in tables {
                    // Not assert_eq: what it would print has no end.
                    assert!(read(&file, table) == wanted(&whole, table), "{}", file.display());
                }
            }
        }
    }
    let left = fs::read_dir(dir.path()).unwrap();
    let parts = left.filter(|f| f.as_ref().unwrap().path().extension().unwrap() == "part");
    assert_eq!(parts.count(), 0);
}

#[test]
fn an_empty_run_makes_empty_tables() {
    let dir = tempfile::tempdir().unwrap();
    for (output, name) in [
        (TableOutput::Hits, "h.h5"),
        (TableOutput::Hits, "h.parquet"),
        (TableOutput::Clusters, "c.h5"),
        (TableOutput::Clusters, "c.parquet"),
    ] {
        let mut o = options(output, &dir.path().join(name));
        o.compression = Compression::None;
        let mut sink = TableSink::create(&o).unwrap();
        sink.push(&Arc::new(Products::default())).unwrap();
        sink.tick(Duration::from_secs(5)).unwrap();
        assert!(sink.finish().unwrap().rows.iter().all(|(_, n)| *n == 0));
        for (file, tables) in TableFormat::of(&o.path).unwrap().files(&o.path, &o.tables) {
            assert!(read(&file, tables[0]).iter().all(Vec::is_empty), "{name}");
        }
    }
}

fn refused(o: &TableOptions) -> String {
    TableSink::create(o).unwrap_err().to_string()
}

#[test]
fn files_that_are_there_are_refused_unless_they_may_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["c.h5", "c.parquet"] {
        let path = dir.path().join(name);
        let mut o = options(TableOutput::Clusters, &path);
        fs::write(&path, b"of someone").unwrap();
        let e = refused(&o);
        assert!(e.starts_with("output.clusters.file: ") && e.contains("exists (10 bytes)"), "{e}");
        assert!(e.contains("output.clusters.overwrite = true"), "{e}");
        assert_eq!(fs::read(&path).unwrap(), b"of someone");

        o.overwrite = true;
        let mut sink = TableSink::create(&o).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"of someone", "whole until the new one is");
        let e = refused(&o);
        assert!(e.contains("another run is writing it"), "{e}");
        sink.push(&products(0, 10)).unwrap();
        sink.finish().unwrap();
        assert_eq!(read(&path, Table::DetectorClusters)[0].len(), 4);
        fs::remove_file(&path).unwrap();
        if name == "c.parquet" {
            fs::remove_file(dir.path().join("c.planes.parquet")).unwrap();
        }

        // What a killed run leaves.
        let part = dir.path().join(format!("{name}.part"));
        fs::write(&part, b"left").unwrap();
        o.overwrite = false;
        let e = refused(&o);
        assert!(e.contains("left by a run that did not end") && e.contains(".part"), "{e}");
        assert_eq!(fs::read(&part).unwrap(), b"left");
        o.overwrite = true;
        drop(TableSink::create(&o).unwrap());
        assert!(!part.exists(), "a run that never had a row leaves nothing");
        assert!(!path.exists());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_sink_that_is_dropped_with_rows_closes_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.h5");
    let mut sink = TableSink::create(&options(TableOutput::Hits, &path)).unwrap();
    sink.push(&products(0, 10)).unwrap();
    drop(sink);
    assert_eq!(read(&path, Table::StripHits)[0].len(), 10);
}

#[test]
fn a_file_that_came_meanwhile_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.parquet");
    let mut sink = TableSink::create(&options(TableOutput::Hits, &path)).unwrap();
    sink.push(&products(0, 10)).unwrap();
    fs::write(&path, b"of someone").unwrap();
    let e = sink.finish().unwrap_err().to_string();
    assert!(e.contains("h.parquet: another file came to stand there"), "{e}");
    assert!(e.contains("the finished table is ") && e.ends_with("h.parquet.part"), "{e}");
    assert_eq!(fs::read(&path).unwrap(), b"of someone");
    assert_eq!(read(&dir.path().join("h.parquet.part"), Table::StripHits).len(), 14);
    assert_eq!(balanced(&sink).get("sink.hits.unwritten"), Some(10));
}

#[test]
fn paths_that_cannot_hold_a_file_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let words = |path: PathBuf| refused(&options(TableOutput::Hits, &path));
    let e = words(dir.path().join("missing/h.h5"));
    assert!(e.starts_with("output.hits.file: ") && e.contains("does not exist; make it"), "{e}");
    fs::create_dir(dir.path().join("folder.h5")).unwrap();
    assert!(words(dir.path().join("folder.h5")).contains("this is a folder"));
    let e = words(dir.path().join("h.csv"));
    assert!(e.contains("h.csv: the ending decides the format: .h5 or .hdf5"), "{e}");
}

#[test]
fn units_and_origin_stand_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (h5, parquet) = (dir.path().join("h.h5"), dir.path().join("h.parquet"));
    for path in [&h5, &parquet] {
        TableSink::create(&options(TableOutput::Hits, path)).unwrap().finish().unwrap();
    }
    let file = sys::open(&h5, FileMode::Read).unwrap();
    let text = |at: &hdf5_metno::Location, name: &str| {
        at.attr(name)
            .unwrap()
            .read_scalar::<hdf5_metno::types::VarLenUnicode>()
            .unwrap()
            .to_string()
    };
    assert_eq!(text(&file, "format"), "fullcount/tables/1");
    assert_eq!(text(&file, "detector"), "gdgem");
    assert!(text(&file, "configuration").contains("kind = \"gdgem\""));
    let epoch: i64 = file.attr("epoch_ns").unwrap().read_scalar().unwrap();
    assert_eq!(epoch, 1_700_000_000_000_000_000);
    let time = file.dataset("hits/time_ps").unwrap();
    assert_eq!(text(&time, "units"), "ps");
    assert!(text(&time, "long_name").contains("after the epoch"));

    let reader = SerializedFileReader::new(fs::File::open(&parquet).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let facts = metadata.key_value_metadata().unwrap();
    let fact = |key: &str| {
        facts.iter().find(|f| f.key == key).and_then(|f| f.value.clone()).expect("a value")
    };
    assert_eq!(fact("epoch_ns"), "1700000000000000000");
    assert_eq!(fact("format"), "fullcount/tables/1");
    let columns: serde_json::Value = serde_json::from_str(&fact("columns")).unwrap();
    assert_eq!(columns["time_ps"]["units"], "ps");
    assert_eq!(columns["strip"]["units"], "strip");
}

#[test]
fn a_link_to_nothing_leads_to_the_table_and_one_to_nowhere_is_refused_at_the_start() {
    for end in ["h5", "parquet"] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(format!("{name}.{end}"));
        fs::create_dir(dir.path().join("disk")).unwrap();
        std::os::unix::fs::symlink(format!("disk/h.{end}"), at("link")).unwrap();
        std::os::unix::fs::symlink("gone/h", at("lost")).unwrap();
        let target = dir.path().join(format!("disk/h.{end}"));
        let mut sink = TableSink::create(&options(TableOutput::Hits, &at("link"))).unwrap();
        // Under any name.
        for name in [at("link"), target.clone(), dir.path().join(format!("disk/../disk/h.{end}"))] {
            let mut o = options(TableOutput::Hits, &name);
            o.overwrite = true;
            let e = TableSink::create(&o).unwrap_err();
            assert!(matches!(e, TableError::InUse { .. }), "{e}");
        }
        sink.push(&products(0, 10)).unwrap();
        assert_eq!(sink.finish().unwrap().place, target.display().to_string());
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink(), "it stays a link");
        assert_eq!(read(&at("link"), Table::StripHits)[0].len(), 10);
        let e =
            TableSink::create(&options(TableOutput::Hits, &at("lost"))).unwrap_err().to_string();
        assert!(e.contains("output.hits.file: ") && e.contains("gone does not exist"), "{e}");
    }
}

#[test]
fn a_file_that_another_process_writes_is_not_replaced_however_late_it_came() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h.parquet");
    let mut o = options(TableOutput::Hits, &path);
    o.overwrite = true;
    let write = |text: &[u8]| {
        fs::write(&path, text).unwrap();
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        file.try_lock_shared().unwrap();
        file
    };
    let other = write(b"a capture");
    let e = TableSink::create(&o).unwrap_err().to_string();
    assert!(e.contains("another run is writing it"), "{e}");
    drop(other);
    let mut sink = TableSink::create(&o).unwrap();
    sink.push(&products(0, 10)).unwrap();
    let other = write(b"another capture");
    let e = sink.finish().unwrap_err().to_string();
    assert!(e.ends_with("h.parquet.part"), "{e}");
    assert_eq!(fs::read(&path).unwrap(), b"another capture");
    drop(other);
}

#[test]
fn rows_that_it_says_are_safe_are_found_after_a_kill() {
    for (name, at_close) in [("hits.h5", false), ("hits.parquet", true)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut sink = TableSink::create(&options(TableOutput::Hits, &path)).unwrap();
        let (ledger, part) = (Ledger::default(), dir.path().join(format!("{name}.part")));
        ledger.register(sink.sheet());
        let mut kept = || match (path.exists(), at_close) {
            (true, _) => read(&path, Table::StripHits)[0].len() as u64,
            (false, true) => 0,
            (false, false) => {
                // What is counted here a reader finds: that is another test's.
                assert!(part.exists());
                ledger.read().get("sink.hits.rows").unwrap()
            }
        };
        let fill = |p: &mut Products, n: u64| {
            p.strip_hits.push(StripHit { time_ps: n as i64, ..StripHit::default() });
        };
        let case = OutputCase { sink: &mut sink, fill: &fill, kept: &mut kept, at_close };
        fullcount_core::conformance::output(case).unwrap();
    }
}
