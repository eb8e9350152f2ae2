//! A full disk: an error with the path, no panic, and everything flushed is recoverable.
//!
//! The test starts itself under a file size limit (`ulimit -f`, SIGXFSZ ignored), which HDF5 sees as a failed write,
//! like a full disk.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::options;
use fullcount_core::ledger::Ledger;
use fullcount_core::sink::Sink;
use fullcount_nexus::{NexusSink, check, recover};
use fullcount_testing::made_events::events;

const CHILD: &str = "FULLCOUNT_FULL_CHILD";

fn write_until_it_fails(path: &Path) {
    let mut o = options(path);
    o.chunk_events = 4096;
    o.chunk_pulses = 64;
    let mut sink = NexusSink::create(&o).unwrap();
    let ledger = Ledger::default();
    ledger.register(sink.sheet());
    let mut flushed = 0;
    let mut n = 0;
    let error = loop {
        assert!(n < 10_000_000, "the limit of 4 MiB never came");
        if let Err(e) = sink.push(&events(n, n + 10_000)).and_then(|()| sink.flush()) {
            break e;
        }
        n += 10_000;
        flushed = n;
    };
    let again = sink.push(&events(n, n + 1)).unwrap_err();
    assert_eq!(again.to_string(), error.to_string(), "the first error stays");
    assert!(sink.finish().is_err());
    let entries = ledger.read();
    assert_eq!(entries.balance(), 0, "what was not written is accounted for");
    assert_eq!(entries.get("sink.nexus.unwritten"), Some(10_000));
    // The library works on: with other files, and when the process ends.
    o.path = path.with_file_name("other.nxs");
    let mut other = NexusSink::create(&o).unwrap();
    other.push(&events(0, 1000)).and_then(|()| other.flush()).unwrap();
    assert_eq!(other.finish().unwrap().events, 1000);
    println!("flushed {flushed}");
    println!("error {error}");
}

#[test]
fn a_full_disk_is_an_error_with_the_path_and_nothing_flushed_is_lost() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_until_it_fails(Path::new(&path));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.nxs");
    // Blocks of 512 or 1024 bytes: 4 or 8 MiB.
    let shell = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" --exact \
                 nexus_full::a_full_disk_is_an_error_with_the_path_and_nothing_flushed_is_lost --nocapture";
    let output = Command::new("sh")
        .args(["-c", shell])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let line =
        |start: &str| text.lines().find_map(|l| l.strip_prefix(start)).expect(start).to_owned();
    let flushed: u64 = line("flushed ").parse().unwrap();
    assert!(flushed > 0);
    assert!(line("error ").contains(&format!("nexus: {}: cannot ", path.display())), "{text}");
    let found = recover(&path).unwrap();
    assert!(found.events >= flushed, "{found:?} {flushed}");
    assert_eq!(check(&path).unwrap(), []);
}
