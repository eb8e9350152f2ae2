//! What h5py, pandas and pyarrow make of the tables: `tests/python/check_tables.py` checks them.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::tables::{DetectorRow, ModuleHit, PlaneRow, StripHit, Table};
use fullcount_core::time::Nanos;
use fullcount_nexus::Compression;
use fullcount_nexus::tables::{TableOptions, TableOutput, TableSink};
use fullcount_testing::python::{python, script};

fn check(python: &Path, arguments: &[&str]) {
    let output =
        Command::new(python).arg(script("check_tables.py")).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
}

fn products(from: u64, to: u64) -> Arc<Products> {
    let mut p = Products::default();
    for n in from..to {
        let (time, detector) = (n as i64 * 1_000_003 - 5, u32::MAX - n as u32);
        p.hits.time_ns.push(time);
        p.hits.pixel.push(n as u32);
        p.hits.adc.push(n as u16);
        let strip = u16::MAX - n as u16;
        p.strip_hits.push(StripHit { time_ps: time, detector, strip, ..StripHit::default() });
        p.module_hits.push(ModuleHit { time_ps: -time, ..ModuleHit::default() });
        let (pos, id) = (n as f64 / 7.0, u64::MAX - n);
        p.plane_clusters.push(PlaneRow { id, pos, time_ps: time, ..PlaneRow::default() });
        p.detector_clusters.push(DetectorRow { id: n, pos1: -pos, ..DetectorRow::default() });
    }
    Arc::new(p)
}

fn sink(path: &Path, output: TableOutput, tables: &[Table], compression: Compression) -> TableSink {
    TableSink::create(&TableOptions {
        output,
        path: path.to_owned(),
        overwrite: false,
        compression,
        tables: tables.to_vec(),
        epoch: Nanos(1_700_000_000_000_000_000),
        wall: None,
        detector: "gdgem".to_owned(),
        configuration: "[detector]\nkind = \"gdgem\" # µ\n".to_owned(),
    })
    .unwrap()
}

#[test]
fn both_formats_read_the_same_in_python() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: String| dir.path().join(name);
    let planes = [Table::PlaneClusters, Table::DetectorClusters];
    for (name, output, tables) in [
        ("amplitudes", TableOutput::Hits, &[Table::Amplitudes][..]),
        ("hits", TableOutput::Hits, &[Table::StripHits]),
        ("module-hits", TableOutput::Hits, &[Table::ModuleHits]),
        ("clusters", TableOutput::Clusters, &planes),
    ] {
        for (n, compression) in
            [(0, Compression::Gzip(4)), (40_000, Compression::Gzip(1)), (1000, Compression::None)]
        {
            let files = ["h5", "parquet"].map(|ending| at(format!("{name}-{n}.{ending}")));
            for file in &files {
                let mut sink = sink(file, output, tables, compression);
                for from in (0..n).step_by(3000) {
                    sink.push(&products(from, n.min(from + 3000))).unwrap();
                }
                sink.finish().unwrap();
            }
            for table in tables {
                let parquet = match table {
                    Table::PlaneClusters => at(format!("{name}-{n}.planes.parquet")),
                    _ => files[1].clone(),
                };
                let [hdf5, parquet] = [&files[0], &parquet].map(|f| f.to_str().unwrap());
                let rows = n.to_string();
                check(&python, &[hdf5, parquet, "--table", table.name(), "--rows", &rows]);
            }
        }
    }
}

#[test]
fn what_a_killed_run_leaves_has_the_rows_up_to_the_last_flush() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hits.h5");
    let mut sink = sink(&path, TableOutput::Hits, &[Table::StripHits], Compression::Gzip(1));
    sink.push(&products(0, 5000)).unwrap();
    sink.flush().unwrap();
    sink.push(&products(5000, 6000)).unwrap();
    // A copy, as the disk has it at this moment.
    let killed = dir.path().join("killed.h5");
    std::fs::copy(dir.path().join("hits.h5.part"), &killed).unwrap();
    let killed = killed.to_str().unwrap();
    check(&python, &[killed, "--table", "hits", "--rows", "5000", "--swmr"]);
    sink.finish().unwrap();
    check(&python, &[path.to_str().unwrap(), "--table", "hits", "--rows", "6000"]);
}
