use super::*;
use proptest::prelude::*;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

fn target(path: PathBuf, max_size: u64, keep: u32) -> FileTarget {
    FileTarget { path, json: false, max_size, keep }
}

#[test]
fn links_sockets_folders_and_files_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let refused = |name: &str| LogFile::open(target(at(name), 100, 1)).unwrap_err().to_string();
    fs::write(at("other"), b"not mine").unwrap();
    symlink("other", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    // Measurements, under names that were free when the run began.
    for (name, begin) in [
        ("nexus", &b"\x89HDF\r\n\x1a\n"[..]),
        ("pcapng", b"\x0a\x0d\x0d\x0a\x1c\0\0\0"),
        ("pcap", b"\xd4\xc3\xb2\xa1\x02\0\x04\0"),
        ("records", b"FCREC\0\0\x01"),
        ("npy", b"\x93NUMPY\x01\0"),
    ] {
        fs::write(at(name), begin).unwrap();
        assert!(refused(name).contains("something else than lines of text"), "{name}");
        assert_eq!(fs::read(at(name)).unwrap(), begin);
    }
    for name in ["link", "dangling", "folder", "socket", "missing/log"] {
        assert!(!refused(name).is_empty(), "{name}");
    }
    assert_eq!(fs::read(at("other")).unwrap(), b"not mine");
    assert!(!at("nowhere").exists());
    let made = std::process::Command::new("mkfifo").arg(at("fifo")).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(!refused("fifo").is_empty(), "and it does not wait for a reader");
    }
    let mut mine = LogFile::open(target(at("log"), 100, 1)).unwrap();
    assert_eq!(refused("log"), "another process writes it");
    mine.write(b"a\n").unwrap();
    drop(mine);
    LogFile::open(target(at("log"), 100, 1)).unwrap().write(b"b\n").unwrap();
    assert_eq!(fs::read(at("log")).unwrap(), b"a\nb\n", "it goes on");
}

#[test]
fn a_file_that_was_moved_away_is_made_again_and_what_cannot_be_moved_costs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut log = LogFile::open(target(at("log"), 10, 2)).unwrap();
    log.write(b"1234\n").unwrap();
    fs::rename(at("log"), at("log.old")).unwrap();
    log.reopen();
    log.write(b"5678\n").unwrap();
    assert_eq!(fs::read(at("log")).unwrap(), b"5678\n");
    // Somebody's folder is in the way.
    fs::create_dir_all(at("log.1/full")).unwrap();
    log.write(b"9\n").unwrap();
    assert!(log.write(b"1234567\n").is_err());
    assert_eq!(fs::read(at("log")).unwrap(), b"5678\n9\n", "bounded");
    fs::remove_dir_all(at("log.1")).unwrap();
    // A link is replaced itself.
    fs::write(at("other"), b"not mine").unwrap();
    symlink("other", at("log.1")).unwrap();
    log.write(b"1234567\n").unwrap();
    assert_eq!(fs::read(at("other")).unwrap(), b"not mine");
    assert!(at("log.2").is_symlink() && !at("log.1").is_symlink());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn files_stay_bounded_and_hold_the_newest_lines_in_order(
        sizes in proptest::collection::vec(1usize..30, 0..60), max in 10u64..60, keep in 1u32..5,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let target = target(folder.path().join("log"), max, keep);
        let mut log = LogFile::open(target.clone()).unwrap();
        let mut all = Vec::new();
        for (n, size) in sizes.iter().enumerate() {
            let line = format!("{n}{}\n", "x".repeat(*size));
            log.write(line.as_bytes()).unwrap();
            all.extend(line.into_bytes());
        }
        let mut there = Vec::new();
        for n in (0..=keep).rev() {
            let bytes = fs::read(target.nth(n)).unwrap_or_default();
            let one_line = bytes.iter().filter(|b| **b == b'\n').count() <= 1;
            prop_assert!(bytes.len() as u64 <= max || one_line);
            there.extend(bytes);
        }
        prop_assert!(all.ends_with(&there));
        let names = fs::read_dir(folder.path()).unwrap().count();
        prop_assert!(names <= keep as usize + 1);
    }
}
