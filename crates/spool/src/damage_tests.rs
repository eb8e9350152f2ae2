//! Any damage to the files: whole messages come back in order, once, and the others are counted.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::spool_tests::{append, kill_lock, open, read, segments};
use super::{Next, Spool, SpoolStart};

/// Bytes in front of the records, and of a record in front of its body.
const START: usize = 64;
const HEAD: usize = 48;

/// 30 messages of which none is confirmed, and no process.
fn thirty(folder: &Path, cleanly: bool) {
    let (spool, _) = open(folder);
    (1..=30).for_each(|id| _ = append(&spool, id));
    if cleanly {
        spool.finish().unwrap();
    }
    drop(spool);
    if !cleanly {
        kill_lock(folder);
    }
}

/// Changes a file.
fn change(path: &Path, how: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    how(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Start of each record of a segment, by an independent scan, and its number.
fn records(bytes: &[u8]) -> Vec<(usize, u64)> {
    let (mut all, mut at) = (Vec::new(), START);
    while at < bytes.len() {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        all.push((at, word(at + 8)));
        at += HEAD + (word(at) >> 32) as usize;
    }
    all
}

/// Reads all, gives up what is damaged, confirms the rest; events given up.
fn work_off(spool: &Spool) -> (Vec<u64>, u64, u64) {
    let (mut reader, mut numbers, mut damaged) = (spool.reader(), Vec::new(), 0);
    loop {
        match reader.next().unwrap() {
            Next::Message(m) => {
                numbers.push(m.identity.sequence);
                spool.settle(m.identity.sequence, m.events, None);
            }
            Next::Damaged { from, to, events } => {
                damaged += to - from;
                spool.give_up(from, to, events);
            }
            Next::Nothing => break,
        }
    }
    let depth = spool.depth();
    assert_eq!((depth.messages, depth.events), (0, 0));
    (numbers, damaged, depth.damaged_events)
}

/// Every message is there, or is counted, with its events; numbers are those of [`append`]: n events in message n.
fn all_is_told(spool: &Spool, start: &SpoolStart, upto: u64) -> (Vec<u64>, u64) {
    let (numbers, damaged, events) = work_off(spool);
    assert!(numbers.is_sorted_by(|a, b| a < b), "once and in order: {numbers:?}");
    assert_eq!(start.messages, numbers.len() as u64);
    assert_eq!(start.damaged, damaged);
    assert_eq!(numbers.len() as u64 + damaged, upto, "{numbers:?}");
    let there: u64 = numbers.iter().sum();
    assert_eq!(there + events, upto * (upto + 1) / 2, "events of what is lost are known");
    assert_eq!((start.events, start.damaged_events), (there, events));
    (numbers, damaged)
}

#[test]
fn a_segment_with_a_damaged_head_loses_its_head_and_no_message() {
    for bit in 0..8 * START {
        let folder = tempfile::tempdir().unwrap();
        thirty(folder.path(), true);
        let all = segments(folder.path());
        for file in [&all[0], &all[1], &all[all.len() - 1]] {
            change(file, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        }
        let (spool, start) = open(folder.path());
        assert_eq!((start.messages, start.damaged, start.unreadable), (30, 0, 3), "bit {bit}");
        assert!(start.told[0].contains("is damaged"), "{:?}", start.told);
        assert_eq!(read(&spool), ((1..=30).map(|n| (n, n)).collect(), vec![]), "bit {bit}");
        let mut reader = spool.reader();
        let Next::Message(first) = reader.next().unwrap() else { panic!("one") };
        assert_ne!(first.identity.start, 0, "it is still known who wrote it");
    }
}

#[test]
fn a_damaged_last_record_is_no_torn_append_and_a_torn_append_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    thirty(folder.path(), false);
    let last = segments(folder.path()).pop().unwrap();
    let whole = fs::read(&last).unwrap();
    let (place, number) = *records(&whole).last().unwrap();
    assert_eq!(number, 30);
    // No mark says how many there were: only the bytes show it.
    for bit in (8 * place..8 * whole.len()).step_by(3) {
        let copy = tempfile::tempdir().unwrap();
        copy_all(folder.path(), copy.path());
        _ = fs::remove_file(copy.path().join("settled"));
        change(&copy.path().join(last.file_name().unwrap()), |b| b[bit / 8] ^= 1 << (bit % 8));
        let (spool, start) = open(copy.path());
        assert_eq!((start.messages, start.damaged, start.torn), (29, 1, 0), "bit {bit}");
        let (numbers, damaged, _) = work_off(&spool);
        assert_eq!((numbers.len(), damaged, spool.depth().messages), (29, 1, 0));
        assert_eq!(append(&spool, 31), 31);
    }
    for length in place + 1..whole.len() {
        let copy = tempfile::tempdir().unwrap();
        copy_all(folder.path(), copy.path());
        _ = fs::remove_file(copy.path().join("settled"));
        change(&copy.path().join(last.file_name().unwrap()), |b| b.truncate(length));
        let (_, start) = open(copy.path());
        assert_eq!((start.messages, start.damaged, start.torn), (29, 0, 1), "{length}");
    }
    // Zeros, as a file system leaves them after a loss of power.
    change(&last, |bytes| bytes[place..].fill(0));
    _ = fs::remove_file(folder.path().join("settled"));
    let (_, start) = open(folder.path());
    assert_eq!((start.messages, start.damaged, start.torn), (29, 0, 1));
}

/// Without the files that are being built: the thread of a spool that ended as by a kill still writes its mark, and moves
/// such a file away while this looks.
fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with('.') {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

#[test]
fn what_the_mark_knows_to_be_appended_and_no_file_holds_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    thirty(folder.path(), true);
    // Cut between two records: no trace of the rest but in the mark.
    let files = segments(folder.path());
    let last = files.last().unwrap();
    let from = records(&fs::read(last).unwrap())[0];
    change(last, |bytes| bytes.truncate(from.0));
    let (spool, start) = open(folder.path());
    assert_eq!((start.damaged, start.torn, start.next_id), (31 - from.1, 0, 31));
    all_is_told(&spool, &start, 30);
    assert_eq!(append(&spool, 31), 31);
}

#[test]
fn a_mark_beyond_the_last_record_is_reported_and_removes_no_segment() {
    for old in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        thirty(folder.path(), true);
        let before = segments(folder.path()).len();
        let path = folder.path().join("settled");
        let text = fs::read_to_string(&path).unwrap();
        let text = match old {
            true => r#"{"below": 1000, "offsets": {"0": 5}, "written_ms": 0}"#.to_owned(),
            false => text.replace(r#""below":1,"#, r#""below":31,"#),
        };
        fs::write(&path, text).unwrap();
        let (spool, start) = open(folder.path());
        assert_eq!((start.unreadable, start.mark.clone()), (1, None));
        assert!(start.told[0].contains("settled"), "{:?}", start.told);
        assert_eq!(segments(folder.path()).len(), before + 1);
        assert_eq!(all_is_told(&spool, &start, 30).0.len(), 30);
    }
}

#[test]
fn damage_in_front_of_a_whole_record_is_told_under_a_mark_that_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (spool, _) = open(folder.path());
        (1..=6).for_each(|id| _ = append(&spool, id));
        (1..=6).for_each(|n| _ = spool.settle(n, n as u32, None));
        spool.finish().unwrap();
    }
    // 4, 5 and 6; the last one's damage makes the mark say more than the file holds.
    let last = segments(folder.path()).pop().unwrap();
    let all = records(&fs::read(&last).unwrap());
    assert_eq!(all.iter().map(|one| one.1).collect::<Vec<_>>(), [4, 5, 6]);
    change(&last, |bytes| {
        bytes[all[1].0 - 1] ^= 1;
        *bytes.last_mut().unwrap() ^= 1;
    });
    let (spool, start) = open(folder.path());
    assert_eq!((start.mark.clone(), start.messages, start.damaged), (None, 1, 1));
    assert_eq!(work_off(&spool), (vec![5], 1, 4));
}

#[test]
fn lost_segments_and_swapped_and_doubled_ones_are_told_and_nothing_comes_twice() {
    let folder = tempfile::tempdir().unwrap();
    thirty(folder.path(), true);
    let files = segments(folder.path());
    assert!(files.len() > 5);
    // The fourth is a copy of the second under a new name, the first is missing, two have each other's name.
    fs::copy(&files[1], folder.path().join("00000000000000000099.seg")).unwrap();
    fs::rename(&files[2], folder.path().join("x")).unwrap();
    fs::rename(&files[3], &files[2]).unwrap();
    fs::rename(folder.path().join("x"), &files[3]).unwrap();
    let gone = records(&fs::read(&files[0]).unwrap()).len() as u64;
    fs::remove_file(&files[0]).unwrap();
    let (spool, start) = open(folder.path());
    assert_eq!((start.damaged, start.unreadable), (gone, 1));
    all_is_told(&spool, &start, 30);
}

#[test]
fn a_live_segment_that_is_damaged_under_the_running_process_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (spool, _) = open(folder.path());
    append(&spool, 1);
    append(&spool, 2);
    let file = segments(folder.path()).pop().unwrap();
    // In place, so that the process sees it.
    let mut open = fs::File::options().write(true).open(&file).unwrap();
    open.seek(SeekFrom::End(-1)).unwrap();
    open.write_all(&[0xff]).unwrap();
    let (numbers, damaged, events) = work_off(&spool);
    assert_eq!((numbers, damaged, events), (vec![1], 1, 2));
    assert_eq!(append(&spool, 3), 3);
    assert_eq!(read(&spool).0, [(3, 3)]);
}

#[test]
fn links_in_place_of_its_files_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    thirty(folder.path(), true);
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = |name: &str| {
        let path: PathBuf = folder.path().join(name);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(&victim, path).unwrap();
    };
    // Names that were written to before they were renamed, and those of files that are read.
    for name in ["segment.new", "settled.new", "note.new", "identity.new", "settled", "note"] {
        link(name);
    }
    link("00000000000000000031.seg");
    fs::hard_link(&victim, folder.path().join("00000000000000000032.seg")).unwrap();
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.unreadable), (30, 3), "{:?}", start.told);
    (31..=60).for_each(|n| _ = append(&spool, n));
    (1..=60).for_each(|n| _ = spool.settle(n, n as u32, None));
    spool.finish().unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    thirty(folder.path(), true);
    // 64 MiB of nothing, and heads of version 1 that say 1 GiB each.
    let file = fs::File::create(folder.path().join("00000000000000000002.seg")).unwrap();
    file.set_len(1 << 26).unwrap();
    let last = segments(folder.path()).pop().unwrap();
    change(&last, |bytes| {
        for _ in 0..1000 {
            bytes.extend(b"FCR1\xff\xff\xff\x3fFCR2\xff\xff\xff\x3f");
        }
    });
    let (spool, start) = open(folder.path());
    assert_eq!((start.messages, start.unreadable), (30, 1));
    assert_eq!(read(&spool).0.len(), 30);
}

/// One thing that happens to the files.
#[derive(Debug, Clone)]
enum Harm {
    Flip(prop::sample::Index, prop::sample::Index),
    Cut(prop::sample::Index, prop::sample::Index),
    Delete(prop::sample::Index),
    Double(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Append(prop::sample::Index, Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => (at(), at()).prop_map(|(a, b)| Harm::Flip(a, b)),
        2 => (at(), at()).prop_map(|(a, b)| Harm::Cut(a, b)),
        1 => at().prop_map(Harm::Delete),
        1 => at().prop_map(Harm::Double),
        1 => (at(), at()).prop_map(|(a, b)| Harm::Swap(a, b)),
        1 => (at(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(a, b)| Harm::Append(a, b)),
    ]
}

impl Harm {
    fn befall(&self, files: &[PathBuf]) {
        let there = |index: &prop::sample::Index| {
            let path = &files[index.index(files.len())];
            path.exists().then_some(path)
        };
        match self {
            Harm::Flip(file, at) => {
                let Some(path) = there(file) else { return };
                change(path, |bytes| {
                    if !bytes.is_empty() {
                        let bit = at.index(8 * bytes.len());
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                });
            }
            Harm::Cut(file, at) => {
                let Some(path) = there(file) else { return };
                change(path, |bytes| bytes.truncate(at.index(bytes.len() + 1)));
            }
            Harm::Delete(file) => drop(there(file).map(fs::remove_file)),
            Harm::Double(file) => {
                let Some(path) = there(file) else { return };
                fs::copy(path, path.with_file_name("00000000000000000017-copy.seg")).unwrap();
            }
            Harm::Swap(a, b) => {
                let (Some(a), Some(b)) = (there(a), there(b)) else { return };
                let (first, second) = (fs::read(a).unwrap(), fs::read(b).unwrap());
                fs::write(a, second).unwrap();
                fs::write(b, first).unwrap();
            }
            Harm::Append(file, more) => {
                let Some(path) = there(file) else { return };
                change(path, |bytes| bytes.extend(more));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn after_any_harm_to_segments_every_message_is_there_once_or_is_counted(
        count in 1u64..40,
        settled in 0u64..10,
        harms in prop::collection::vec(harm(), 0..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let settled = settled.min(count);
        {
            let (spool, _) = open(folder.path());
            (1..=count).for_each(|id| _ = append(&spool, id));
            (1..=settled).for_each(|n| _ = spool.settle(n, n as u32, None));
            spool.finish().unwrap();
        }
        let files = segments(folder.path());
        harms.iter().for_each(|harm| harm.befall(&files));
        let (spool, start) = open(folder.path());
        let (numbers, damaged, _) = work_off(&spool);
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "once and in order: {:?}", numbers);
        // A mark that says more than the files hold is ignored: then messages that it calls confirmed may come again.
        let again = numbers.iter().filter(|&&n| n <= settled).count() as u64;
        prop_assert!(start.mark.is_none() || again == 0, "{:?}", numbers);
        prop_assert!(numbers.iter().all(|n| (1..=count).contains(n)));
        // Foreign bytes after the last record look like one message; so does a damaged confirmed one if the mark is
        // ignored.
        let strange = start.mark.is_none() || harms.iter().any(|h| matches!(h, Harm::Append(..)));
        let (told, wanted) = (numbers.len() as u64 - again + damaged, count - settled);
        prop_assert!(told == wanted || (strange && told > wanted), "{:?}, {} lost", numbers, damaged);
        prop_assert_eq!((start.messages, start.damaged), (numbers.len() as u64, damaged));
        let next = append(&spool, 1000);
        prop_assert!((count + 1..=count + 2).contains(&next));
        prop_assert_eq!(read(&spool), (vec![(next, 1000)], vec![]));
    }

    #[test]
    fn after_any_harm_to_any_file_nothing_is_lost_in_silence(
        count in 1u64..30,
        settled in 0u64..10,
        killed in any::<bool>(),
        harms in prop::collection::vec(harm(), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let settled = settled.min(count);
        {
            let (spool, _) = open(folder.path());
            (1..=count).for_each(|id| _ = append(&spool, id));
            (1..=settled).for_each(|n| _ = spool.settle(n, n as u32, None));
            if killed {
                // The last mark came before these.
                spool.finish().unwrap();
                (count + 1..=count + 3).for_each(|id| _ = append(&spool, id));
            } else {
                spool.finish().unwrap();
            }
        }
        let mut files = segments(folder.path());
        files.extend(["settled", "identity", "note"].map(|name| folder.path().join(name)));
        harms.iter().for_each(|harm| harm.befall(&files));
        let count = if killed { count + 3 } else { count };
        // A refusal is reported.
        let Ok((spool, start)) = Spool::open(super::spool_tests::options(folder.path())) else { return Ok(()) };
        let (numbers, damaged, _) = work_off(&spool);
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "once and in order: {:?}", numbers);
        let told = damaged + start.unreadable + start.torn > 0;
        let all = (settled + 1..=count).all(|n| numbers.contains(&n));
        // Whole records cut off the end within the last tenth of a second before a kill leave no trace.
        let cut = killed && harms.iter().any(|h| matches!(h, Harm::Cut(..) | Harm::Delete(_) | Harm::Swap(..)));
        prop_assert!(all || told || cut, "{:?} of {}..={}", numbers, settled + 1, count);
        prop_assert_eq!((start.messages, start.damaged), (numbers.len() as u64, damaged));
    }
}
