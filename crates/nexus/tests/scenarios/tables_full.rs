//! A full disk: an error with the path, no panic, every row in a counter, and nothing flushed is lost.
//!
//! The test starts itself under a file size limit (`ulimit -f`, SIGXFSZ ignored), which both libraries see as a failed
//! write, like a full disk.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fullcount_core::ledger::Ledger;
use fullcount_core::products::Products;
use fullcount_core::sink::Sink;
use fullcount_core::tables::{StripHit, Table};
use fullcount_core::time::Nanos;
use fullcount_nexus::Compression;
use fullcount_nexus::tables::{TableOptions, TableOutput, TableSink};

const CHILD: &str = "FULLCOUNT_FULL_TABLE_CHILD";

fn hits(from: i64, to: i64) -> Arc<Products> {
    let mut p = Products::default();
    for n in from..to {
        p.strip_hits.push(StripHit { time_ps: n * 7919, adc: n as u16, ..StripHit::default() });
    }
    Arc::new(p)
}

fn write_until_it_fails(path: &Path) {
    let mut sink = TableSink::create(&TableOptions {
        output: TableOutput::Hits,
        path: path.to_owned(),
        overwrite: false,
        compression: Compression::None,
        tables: vec![Table::StripHits],
        epoch: Nanos(0),
        wall: None,
        detector: "gdgem".to_owned(),
        configuration: String::new(),
    })
    .unwrap();
    let ledger = Ledger::default();
    ledger.register(sink.sheet());
    let mut n = 0;
    let error = loop {
        assert!(n < 10_000_000, "the limit of 4 MiB never came");
        if let Err(e) = sink.push(&hits(n, n + 10_000)).and_then(|()| sink.flush()) {
            break e;
        }
        n += 10_000;
    };
    let again = sink.push(&hits(n, n + 1)).unwrap_err();
    assert_eq!(again.to_string(), error.to_string(), "the first error stays");
    assert!(sink.finish().is_err());
    let entries = ledger.read();
    let counter = |what: &str| entries.get(&format!("sink.hits.{what}")).unwrap();
    assert_eq!(counter("in"), counter("rows") + counter("unwritten"));
    assert_eq!(entries.balance(), 0);
    println!("flushed {}", counter("rows"));
    println!("error {error}");
}

#[test]
fn a_full_disk_is_an_error_with_the_path_and_every_row_is_accounted_for() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_until_it_fails(Path::new(&path));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["hits.h5", "hits.parquet"] {
        let path = dir.path().join(name);
        // Blocks of 512 or 1024 bytes: 4 or 8 MiB.
        let shell = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" --exact \
                     tables_full::a_full_disk_is_an_error_with_the_path_and_every_row_is_accounted_for --nocapture";
        let output = Command::new("sh")
            .args(["-c", shell])
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {text}\n{errors}");
        let line =
            |start: &str| text.lines().find_map(|l| l.strip_prefix(start)).expect(start).to_owned();
        assert!(
            line("error ").contains(&format!("hits: {}.part: cannot ", path.display())),
            "{text}"
        );
        assert!(!path.exists(), "only a whole file has its name");
        let flushed: u64 = line("flushed ").parse().unwrap();
        assert_eq!(flushed > 0, name == "hits.h5", "{name}: {flushed}");
    }
}
