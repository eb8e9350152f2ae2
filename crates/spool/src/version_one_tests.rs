//! Spools of the previous version: `vectors/spool/version-1` was written by it (revision 135cc09).
//!
//! 20 messages, events and length of each by its number, message ids from 101. The broker had confirmed 1 to 6 and 9.

use std::fs;
use std::path::{Path, PathBuf};

use super::spool_tests::{kill_lock, options, payload, segments};
use super::{Next, Spool, SpoolStart};

fn copied() -> tempfile::TempDir {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/spool/version-1");
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn open(folder: &Path) -> (Spool, SpoolStart) {
    Spool::open(options(folder)).unwrap()
}

/// Numbers that are there, each looked at, and those that are not.
fn read(spool: &Spool) -> (Vec<u64>, u64) {
    let (mut reader, mut numbers, mut damaged) = (spool.reader(), Vec::new(), 0);
    loop {
        match reader.next().unwrap() {
            Next::Message(m) => {
                let n = m.identity.sequence;
                assert_eq!(
                    (m.message_id, m.events, m.payload),
                    (100 + n, n as u32, &payload(n)[..])
                );
                assert_eq!(m.key, (n % 2 == 0).then_some(&b"key"[..]));
                assert_eq!(m.headers().collect::<Vec<_>>(), [("other", &b"x"[..])]);
                assert_eq!(m.note(), (n % 3 == 0).then_some(&n.to_le_bytes()[..]));
                assert_eq!(m.identity.start >> 56, 0x18, "the process that appended it");
                numbers.push(n);
            }
            Next::Damaged { from, to, .. } => damaged += to - from,
            Next::Nothing => return (numbers, damaged),
        }
    }
}

#[test]
fn every_message_of_it_comes_back_and_new_ones_go_behind_them() {
    let folder = copied();
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.events, start.damaged), (14, (7..=20).sum(), 0));
    assert_eq!((start.unreadable, start.next_id, start.torn), (0, 121, 0));
    assert_eq!(start.note, Some(18_u64.to_le_bytes().to_vec()));
    let mark = start.mark.unwrap();
    assert_eq!((mark.below, mark.offsets), (7, [(0, 46), (1, 49)].into()));
    assert_eq!(read(&spool), ((7..=20).collect(), 0));
    let identity = spool.identity();
    (7..=20).for_each(|n| assert!(spool.settle(n, n as u32, None)));
    assert_eq!(segments(folder.path()).len(), 1, "its files go as any others do");
    assert_eq!(super::spool_tests::append(&spool, 121), 21);
    spool.finish().unwrap();
    drop(spool);
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.next_id, spool.identity()), (1, 122, identity));
}

#[test]
fn a_flip_in_a_head_of_it_is_mended() {
    for bit in 0..8 * 52 {
        let folder = copied();
        let file = &segments(folder.path())[1];
        let mut bytes = fs::read(file).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(file, bytes).unwrap();
        let (spool, start) = open(folder.path());
        assert_eq!((start.messages, start.damaged, start.unreadable), (14, 0, 1), "{bit}");
        assert_eq!(read(&spool), ((7..=20).collect(), 0), "{bit}");
    }
}

#[test]
fn a_flip_in_a_record_of_it_costs_that_record_and_its_last_one_too_is_counted() {
    for file in [1, 4] {
        let length = fs::read(&segments(copied().path())[file]).unwrap().len();
        for at in (56 + 24..length).step_by(7) {
            let folder = copied();
            let path = &segments(folder.path())[file];
            let mut bytes = fs::read(path).unwrap();
            bytes[at] ^= 4;
            fs::write(path, bytes).unwrap();
            let (spool, start) = open(folder.path());
            let (numbers, damaged) = read(&spool);
            // A length that says too much at the very end looks like an append that was cut off.
            let told = damaged + start.torn;
            assert_eq!((numbers.len() as u64, told), (13, 1), "file {file}, byte {at}");
            assert_eq!((start.messages, start.damaged), (13, damaged));
        }
    }
}

#[test]
fn one_that_is_interrupted_while_it_is_brought_over_is_read_again() {
    let folder = copied();
    drop(open(folder.path()));
    kill_lock(folder.path());
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.damaged, start.unreadable), (14, 0, 0));
    assert_eq!(read(&spool).0, (7..=20).collect::<Vec<_>>());
}

#[test]
fn an_identity_that_none_of_its_files_bears_is_refused() {
    let folder = copied();
    let path = folder.path().join("identity");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen('8', "9", 1)).unwrap();
    let error = Spool::open(options(folder.path())).unwrap_err().to_string();
    assert!(error.contains("`identity` is damaged"), "{error}");
    assert_eq!(segments(folder.path()).len(), 5, "nothing was moved");
}
