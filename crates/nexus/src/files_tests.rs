//! Files that commands begin: where they are cut, that every event is in one or counted, and what they are refused for.

use std::time::Duration;

use hdf5_metno::File;

use super::sink_tests::{balance, batch, clean, count, options, read};
use super::*;
use fullcount_core::sink::Sink;

/// A file below the folder of the tests' options, as a command begins one.
fn begun(o: &NexusOptions, name: &str) -> super::files::FileBegun {
    let path = o.path.with_file_name(name);
    super::files::FileBegun::make(&NexusOptions { path, ..o.clone() }).unwrap()
}

fn leave(sink: &NexusSink, change: super::change::NexusChange) {
    sink.orders().changes.put(change).unwrap();
}

#[test]
fn a_change_cuts_between_two_pulses_and_no_event_is_in_two_files_or_in_none() {
    use super::change::NexusChange;
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path());
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&batch(&[(100, &[(5, 1)]), (200, &[(6, 2)])])).unwrap();
    leave(&sink, NexusChange::To(begun(&o, "second.nxs")));
    // The pulse goes on after the command, and another worker is behind.
    sink.push(&batch(&[(200, &[(7, 3)]), (300, &[(8, 4)])])).unwrap();
    sink.push(&batch(&[(100, &[(9, 5)]), (300, &[(1, 6)])])).unwrap();
    assert_eq!((balance(&sink), count(&sink, NexusCounter::Files)), ((0, false), 2));
    leave(&sink, NexusChange::Stop);
    sink.push(&batch(&[(300, &[(2, 7)]), (400, &[(3, 8), (4, 9)])])).unwrap();
    assert_eq!(count(&sink, NexusCounter::Stopped), 2);
    assert_eq!(balance(&sink), (0, false), "what was not to be written is no loss");
    leave(&sink, NexusChange::To(begun(&o, "third.nxs")));
    sink.push(&batch(&[(400, &[(5, 10)]), (500, &[(6, 11)])])).unwrap();
    assert_eq!(count(&sink, NexusCounter::Stopped), 3, "a pulse that had begun is not begun with");
    sink.tick(Duration::from_secs(10)).unwrap();
    let report = sink.finish().unwrap();
    assert_eq!((report.events, count(&sink, NexusCounter::Events)), (8, 8));
    assert!(report.place.ends_with("third.nxs (3 files)"), "{}", report.place);
    assert_eq!((balance(&sink), count(&sink, NexusCounter::In)), ((0, false), 11));
    let ids = |name: &str| {
        let path = o.path.with_file_name(name);
        clean(&path);
        let c = read(&path);
        (c.id, c.zero)
    };
    assert_eq!(ids("run.nxs"), (vec![1, 5, 2, 3], vec![100, 200]));
    assert_eq!(ids("second.nxs"), (vec![4, 6, 7], vec![300, 300]));
    assert_eq!(ids("third.nxs").0, [11]);
}

#[test]
fn a_change_waits_for_a_pulse_behind_the_last_cut_but_not_for_ever() {
    use super::change::NexusChange;
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path());
    let mut sink = NexusSink::create(&o).unwrap();
    sink.push(&batch(&[(100, &[(5, 1)])])).unwrap();
    leave(&sink, NexusChange::To(begun(&o, "second.nxs")));
    leave(&sink, NexusChange::To(begun(&o, "third.nxs")));
    sink.push(&batch(&[(100, &[(5, 2)])])).unwrap();
    sink.push(&batch(&[(100, &[(5, 3)])])).unwrap();
    assert_eq!(count(&sink, NexusCounter::Files), 2, "the pulse goes on");
    sink.tick(Duration::from_millis(100)).unwrap();
    assert_eq!(count(&sink, NexusCounter::Files), 2);
    sink.tick(Duration::from_secs(5)).unwrap();
    assert_eq!(count(&sink, NexusCounter::Files), 3, "it is over");
    // What nobody takes any more is begun and closed at the end.
    leave(&sink, NexusChange::To(begun(&o, "fourth.nxs")));
    sink.push(&batch(&[])).unwrap();
    assert_eq!(sink.finish().unwrap().events, 3);
    for name in ["second.nxs", "third.nxs", "fourth.nxs"] {
        let path = o.path.with_file_name(name);
        assert_eq!(read(&path).total, 0, "{name}");
    }
    assert_eq!(read(&o.path).id, [1, 2, 3]);
}

#[test]
fn a_file_that_nobody_takes_goes_and_one_that_is_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path());
    let path = o.path.with_file_name("other.nxs");
    drop(begun(&o, "other.nxs"));
    assert!(!path.exists());
    std::fs::write(&path, "mine").unwrap();
    let made = super::files::FileBegun::make(&NexusOptions { path: path.clone(), ..o });
    assert!(matches!(made, Err(NexusError::Exists { .. })), "{made:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn commands_begin_files_below_the_folder_only() {
    use fullcount_core::command::{Answer, Commands, NotDone};
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path());
    let mut sink = NexusSink::create(&o).unwrap();
    let folder = fullcount_io::below::RunFolder::new(dir.path()).unwrap();
    let mut all = Commands::default();
    o.start_time_ns = None;
    super::change::commands(&o, Some(folder), &sink.orders())
        .into_iter()
        .for_each(|command| all.register(command));
    assert!(super::change::commands(&o, None, &sink.orders()).is_empty());
    let give = |name: &str, arguments: &[&str]| all.give(all.find(name).unwrap(), arguments);
    let refused = |name: &str, arguments: &[&str]| match give(name, arguments) {
        Err(NotDone::Refused(why)) => why,
        other => panic!("{name} {arguments:?}: {other:?}"),
    };
    assert!(refused("NEXUS_START", &["a.nxs"]).contains("NEXUS_NEXT"));
    for bad in ["../a.nxs", "/tmp/a.nxs", "a.txt", "run.nxs", ".a.nxs", "none/a.nxs"] {
        assert!(!refused("NEXUS_NEXT", &[bad]).is_empty());
    }
    assert_eq!(give("NEXUS_NEXT", &["a.nxs", "-1"]), Err(NotDone::Arguments));
    assert_eq!(give("NEXUS_NEXT", &["a.nxs", "17"]), Ok(Answer::Done));
    sink.push(&batch(&[(100, &[(5, 1)])])).unwrap();
    assert_eq!(give("NEXUS_STOP", &[]), Ok(Answer::Done));
    assert!(refused("NEXUS_STOP", &[]).contains("no file"));
    assert!(refused("NEXUS_NEXT", &["b.nxs"]).contains("NEXUS_START"));
    let Ok(Answer::Values(shown)) = give("NEXUS_GET", &[]) else { panic!("no answer") };
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let (path, state) = (serde_json::Value::Null, "stopped");
    assert_eq!(
        shown,
        serde_json::json!({"failed": null, "files": 2, "path": path, "state": state})
    );
    sink.push(&batch(&[(200, &[(5, 1)])])).unwrap();
    sink.finish().unwrap();
    assert!(matches!(give("NEXUS_START", &["c.nxs"]), Err(NotDone::Failed(_))), "it has ended");
    let file = File::open(dir.path().join("a.nxs")).unwrap();
    let number: i32 = file.dataset("/entry/run_number").unwrap().read_scalar().unwrap();
    assert_eq!((number, read(&dir.path().join("a.nxs")).id), (17, vec![1]));
}
