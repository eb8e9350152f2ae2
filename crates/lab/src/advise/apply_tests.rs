//! Applying and reverting on settings kept in memory, with refusals, rounding and crashes.

use std::collections::BTreeMap;
use std::io;

use proptest::prelude::*;

use super::super::place::SettingPlace;
use super::*;

/// Settings in memory: some refuse, some round, and the state file is looked at with each write.
#[derive(Default)]
struct Memory {
    values: BTreeMap<String, String>,
    refuse: Vec<String>,
    ignore: Vec<String>,
    state: Option<std::path::PathBuf>,
}

impl Memory {
    fn of(values: &[(&str, &str)]) -> Memory {
        let values = values.iter().map(|(k, v)| (file(k).to_string(), (*v).to_owned())).collect();
        Memory { values, ..Memory::default() }
    }

    fn get(&self, name: &str) -> &str {
        &self.values[&file(name).to_string()]
    }
}

impl SettingsStore for Memory {
    fn read(&mut self, place: &SettingPlace) -> io::Result<String> {
        self.values.get(&place.to_string()).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, place: &SettingPlace, value: &str) -> io::Result<()> {
        let key = place.to_string();
        if let Some(path) = &self.state {
            let state = ChangedSettings::read(path).unwrap();
            assert!(
                state.entries.iter().any(|e| e.place == *place),
                "the former value is in the file before it is overwritten"
            );
        }
        if self.refuse.contains(&key) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if !self.ignore.contains(&key) {
            self.values.insert(key, value.to_owned());
        }
        Ok(())
    }
}

fn file(name: &str) -> SettingPlace {
    SettingPlace::sysctl(&format!("net.core.{name}"))
}

fn set(name: &str, value: &str) -> Change {
    Change { place: file(name), value: value.into() }
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.json");
    (dir, path)
}

#[test]
fn applied_and_put_back_exactly() {
    let (_dir, path) = folder();
    let mut m = Memory::of(&[("a", "1\t2"), ("b", "7"), ("c", "9")]);
    m.state = Some(path.clone());
    let steps = apply(&[set("a", "3 4"), set("b", "8"), set("c", "9")], &mut m, &path, false);
    let outcomes: Vec<_> = steps.unwrap().into_iter().map(|s| s.outcome).collect();
    assert_eq!(outcomes, [ChangeOutcome::Done, ChangeOutcome::Done, ChangeOutcome::Already]);
    assert_eq!((m.get("a"), m.get("b")), ("3 4", "8"));
    let steps = revert(&mut m, &path, false).unwrap();
    assert_eq!(steps[0].change.place, file("b"), "backwards");
    assert_eq!((m.get("a"), m.get("b"), m.get("c")), ("1\t2", "7", "9"));
    assert!(!path.exists());
    let said = revert(&mut m, &path, false).unwrap_err().to_string();
    assert!(said.contains("nothing is to be put back"), "{said}");
}

#[test]
fn applied_twice_the_oldest_value_comes_back() {
    let (_dir, path) = folder();
    let mut m = Memory::of(&[("a", "1")]);
    apply(&[set("a", "2")], &mut m, &path, false).unwrap();
    apply(&[set("a", "3")], &mut m, &path, false).unwrap();
    revert(&mut m, &path, false).unwrap();
    assert_eq!(m.get("a"), "1");
}

#[test]
fn what_fails_is_told_and_what_worked_stays_in_the_state() {
    let (_dir, path) = folder();
    let mut m = Memory::of(&[("a", "1"), ("b", "1"), ("c", "1")]);
    m.refuse = vec![file("b").to_string()];
    m.ignore = vec![file("c").to_string()];
    let changes = [set("a", "2"), set("b", "2"), set("c", "2"), set("absent", "2")];
    let steps = apply(&changes, &mut m, &path, false).unwrap();
    let failed: Vec<bool> = steps.iter().map(AppliedChange::failed).collect();
    assert_eq!(failed, [false, true, true, true]);
    let state = ChangedSettings::read(&path).unwrap();
    let kept: Vec<&SettingPlace> = state.entries.iter().map(|e| &e.place).collect();
    assert_eq!(kept, [&file("a")]);
}

#[test]
fn a_failed_revert_is_kept_for_the_next_one() {
    let (_dir, path) = folder();
    let mut m = Memory::of(&[("a", "1"), ("b", "1")]);
    apply(&[set("a", "2"), set("b", "2")], &mut m, &path, false).unwrap();
    m.refuse = vec![file("a").to_string()];
    let steps = revert(&mut m, &path, false).unwrap();
    assert_eq!(steps.iter().filter(|s| s.failed()).count(), 1);
    assert_eq!((m.get("a"), m.get("b")), ("2", "1"));
    m.refuse.clear();
    revert(&mut m, &path, false).unwrap();
    assert_eq!(m.get("a"), "1");
    assert!(!path.exists());
}

#[test]
fn a_state_file_that_cannot_be_written_stops_everything_before_the_first_change() {
    let (dir, _) = folder();
    std::fs::write(dir.path().join("plain"), "").unwrap();
    let path = dir.path().join("plain/state.json");
    let mut m = Memory::of(&[("a", "1")]);
    assert!(apply(&[set("a", "2")], &mut m, &path, false).is_err());
    assert_eq!(m.get("a"), "1");
}

#[test]
fn a_dry_run_changes_nothing_and_writes_nothing() {
    let (_dir, path) = folder();
    let mut m = Memory::of(&[("a", "1")]);
    let steps = apply(&[set("a", "2")], &mut m, &path, true).unwrap();
    assert_eq!(
        (steps[0].outcome.clone(), steps[0].before.as_deref()),
        (ChangeOutcome::Done, Some("1"))
    );
    assert!(m.get("a") == "1" && !path.exists());
    apply(&[set("a", "2")], &mut m, &path, false).unwrap();
    revert(&mut m, &path, true).unwrap();
    assert!(m.get("a") == "2" && path.exists());
}

proptest! {
    // Each case writes its file to the disk for good several times, some ms each.
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Any run of applies, whatever refuses when, then a revert with nothing refusing: all as before.
    #[test]
    fn whatever_happens_the_first_values_come_back(
        runs in prop::collection::vec(
            (prop::collection::vec((0usize..4, 0u8..5), 1..6), prop::collection::vec(0usize..4, 0..3)),
            1..6,
        ),
    ) {
        let (_dir, path) = folder();
        let names = ["a", "b", "c", "d"];
        let first: Vec<(&str, &str)> = names.iter().map(|n| (*n, "0")).collect();
        let mut m = Memory::of(&first);
        for (changes, refuse) in runs {
            m.refuse = refuse.iter().map(|i| file(names[*i]).to_string()).collect();
            let changes: Vec<Change> =
                changes.iter().map(|(i, v)| set(names[*i], &v.to_string())).collect();
            apply(&changes, &mut m, &path, false).unwrap();
        }
        m.refuse.clear();
        match ChangedSettings::read(&path).unwrap().entries.is_empty() {
            true => prop_assert!(!path.exists()),
            false => { revert(&mut m, &path, false).unwrap(); }
        }
        for name in names {
            prop_assert_eq!(m.get(name), "0");
        }
        prop_assert!(!path.exists());
    }
}
