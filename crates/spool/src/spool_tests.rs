//! Messages over segments and starts: whole ones come back in order, once, and are removed when they are confirmed.

use std::fs;
use std::path::{Path, PathBuf};

use super::{AppendError, Next, Outgoing, Spool, SpoolError, SpoolOptions, SpoolStart};

pub(super) fn options(folder: &Path) -> SpoolOptions {
    // Small segments, so that a few messages make several.
    SpoolOptions { limit: 16 << 20, segment: 400, ..SpoolOptions::new(folder, "events sonde") }
}

pub(super) fn open(folder: &Path) -> (Spool, SpoolStart) {
    Spool::open(options(folder)).unwrap()
}

/// The message that belongs to a number: its length depends on it, so that records differ.
pub(super) fn payload(id: u64) -> Vec<u8> {
    (0..20 + id * 37 % 90).map(|i| (id * 31 + i) as u8).collect()
}

pub(super) fn append(spool: &Spool, id: u64) -> u64 {
    let payload = payload(id);
    let message =
        Outgoing { payload: &payload, message_id: id, events: id as u32, ..Outgoing::default() };
    spool.append(&message).unwrap()
}

/// Two numbers each.
pub(super) type Pairs = Vec<(u64, u64)>;

/// Numbers and ids of all that a fresh reader gives, each checked, and the damaged ranges.
pub(super) fn read(spool: &Spool) -> (Pairs, Pairs) {
    let (mut reader, mut messages, mut damaged) = (spool.reader(), Vec::new(), Vec::new());
    loop {
        match reader.next().unwrap() {
            Next::Message(m) => {
                assert_eq!(m.payload, payload(m.message_id));
                assert_eq!(m.events, m.message_id as u32);
                messages.push((m.identity.sequence, m.message_id));
            }
            Next::Damaged { from, to, .. } => damaged.push((from, to)),
            Next::Nothing => return (messages, damaged),
        }
    }
}

pub(super) fn segments(folder: &Path) -> Vec<PathBuf> {
    super::folder::segments(folder).unwrap()
}

#[test]
fn messages_come_back_in_order_over_segments_and_starts() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.next_id, start.touched), (0, 1, None));
    for id in 1..=30 {
        assert_eq!(append(&spool, id), id);
    }
    assert!(segments(folder.path()).len() > 3);
    let wanted: Vec<_> = (1..=30).map(|n| (n, n)).collect();
    assert_eq!(read(&spool), (wanted.clone(), vec![]));
    assert_eq!((spool.depth().messages, spool.depth().events), (30, 465));
    // A process that is killed finishes nothing.
    drop(spool);
    kill_lock(folder.path());
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.events, start.damaged, start.next_id), (30, 465, 0, 31));
    assert_eq!(append(&spool, 31), 31);
    let mut wanted = wanted;
    wanted.push((31, 31));
    assert_eq!(read(&spool).0, wanted);
}

/// In one process two openings of a file are two locks: the first spool's thread may still hold it.
pub(super) fn kill_lock(folder: &Path) {
    fs::remove_file(folder.join("lock")).unwrap();
}

#[test]
fn what_is_confirmed_goes_and_stays_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    (1..=30).for_each(|id| _ = append(&spool, id));
    let before = segments(folder.path()).len();
    for n in (1..=20).rev() {
        assert!(spool.settle(n, n as u32, Some((0, n as i64))));
        assert!(!spool.settle(n, n as u32, None), "only once");
    }
    assert!(spool.settle(25, 25, Some((1, 3))));
    assert!(segments(folder.path()).len() < before);
    let wanted: Vec<_> = (21..=30).filter(|&n| n != 25).map(|n| (n, n)).collect();
    assert_eq!(read(&spool).0, wanted);
    assert_eq!(spool.depth().messages, 9);
    spool.finish().unwrap();
    drop(spool);
    let (spool, start) = open(folder.path());
    // 25 is above the mark: only the topic shows that it was sent.
    assert_eq!((start.messages, start.next_id), (10, 31));
    let mark = start.mark.unwrap();
    assert_eq!((mark.below, mark.offsets), (21, [(0, 20), (1, 3)].into()));
    assert_eq!(read(&spool).0, (21..=30).map(|n| (n, n)).collect::<Vec<_>>());
    (21..=30).for_each(|n| assert!(spool.settle(n, n as u32, None)));
    assert_eq!((spool.depth().messages, spool.depth().events, spool.depth().age_ms), (0, 0, 0));
    spool.finish().unwrap();
    drop(spool);
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.next_id, segments(folder.path()).len()), (0, 31, 1));
    assert_eq!(append(&spool, 31), 31, "numbers go on although no message is left");
}

#[test]
fn a_reader_follows_what_is_appended_and_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let mut reader = spool.reader();
    assert_eq!(reader.next().unwrap(), Next::Nothing);
    for n in 1..=40 {
        append(&spool, n);
        let Next::Message(m) = reader.next().unwrap() else { panic!("{n}") };
        assert_eq!(m.identity.sequence, n);
        // Segments go while the reader is in them.
        spool.settle(n, n as u32, None);
    }
    assert_eq!(reader.next().unwrap(), Next::Nothing);
    (41..=50).for_each(|n| _ = append(&spool, n));
    for n in 41..=45 {
        let Next::Message(m) = reader.next().unwrap() else { panic!("{n}") };
        assert_eq!(m.identity.sequence, n);
    }
    spool.settle(41, 41, None);
    reader.rewind();
    let Next::Message(m) = reader.next().unwrap() else { panic!("42") };
    assert_eq!(m.identity.sequence, 42);
}

#[test]
fn a_full_spool_says_so_and_has_room_again_once_messages_are_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) =
        Spool::open(SpoolOptions { limit: 16 << 20, ..SpoolOptions::new(folder.path(), "s") })
            .unwrap();
    let payload = vec![7; 1 << 20];
    let message = Outgoing { payload: &payload, events: 5, message_id: 1, ..Outgoing::default() };
    let mut n = 0;
    let error = loop {
        match spool.append(&message) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::Full { limit: 16_777_216, .. }), "{error}");
    assert_eq!(n, 15, "1 MiB and a head each");
    assert!(spool.append(&message).is_err(), "still");
    let depth = spool.depth();
    assert_eq!((depth.messages, depth.events), (15, 75));
    spool.settle(1, 5, None);
    spool.settle(2, 5, None);
    assert_eq!(spool.append(&message).unwrap(), 16, "a whole segment went");
    let large = vec![0; 9 << 20];
    let error = spool.append(&Outgoing { payload: &large, ..Outgoing::default() }).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { .. }), "{error}");
    // All confirmed: even a message of half the bound fits.
    (3..=16).for_each(|n| _ = spool.settle(n, 5, None));
    let half = vec![0; (8 << 20) - 100];
    for n in 17..25 {
        let sequence = spool.append(&Outgoing { payload: &half, ..Outgoing::default() }).unwrap();
        assert_eq!(sequence, n);
        spool.settle(n, 0, None);
    }
}

#[test]
fn folders_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    let error = Spool::open(options(folder.path())).unwrap_err();
    assert!(matches!(error, SpoolError::InUse { .. }), "{error}");
    spool.finish().unwrap();
    drop(spool);
    let other = SpoolOptions { stream: "events multigrid".into(), ..options(folder.path()) };
    let error = Spool::open(other).unwrap_err().to_string();
    assert!(error.contains("belongs to `events sonde`, not to `events multigrid`"), "{error}");
    let small = SpoolOptions { limit: 1 << 20, ..options(folder.path()) };
    assert!(matches!(Spool::open(small), Err(SpoolError::Size { .. })));
    fs::write(folder.path().join("identity"), "what").unwrap();
    assert!(matches!(Spool::open(options(folder.path())), Err(SpoolError::Identity { .. })));
}
