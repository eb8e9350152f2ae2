//! State files: round trip, the oldest value, what is refused.

use super::*;
use proptest::prelude::*;

fn entry(name: &str, former: &str, applied: &str) -> ChangedSetting {
    ChangedSetting {
        place: SettingPlace::sysctl(name),
        former: former.into(),
        applied: applied.into(),
    }
}

#[test]
fn what_is_written_is_read_and_the_empty_state_has_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/state.json");
    let mut state =
        ChangedSettings { entries: vec![entry("net.ipv4.udp_mem", "1\t2\t3", "4 5 6")] };
    state.note(&SettingPlace::sysctl("net.core.rmem_max"), "212992".into(), "67108864".into());
    state.write(&path).unwrap();
    assert_eq!(ChangedSettings::read(&path).unwrap(), state);
    let beside: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "no new file is left beside it");
    ChangedSettings::default().write(&path).unwrap();
    assert!(!path.exists());
    assert_eq!(ChangedSettings::read(&path).unwrap(), ChangedSettings::default());
}

#[test]
fn links_at_the_names_that_can_be_guessed_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("victim"), "precious").unwrap();
    let guessed = format!("state.json.new-{}", std::process::id());
    for name in [guessed.as_str(), "state.json"] {
        std::os::unix::fs::symlink(at("victim"), at(name)).unwrap();
    }
    let mut state = ChangedSettings::default();
    state.note(&entry("net.ipv4.udp_mem", "1", "2").place, "1".into(), "2".into());
    state.write(&at("state.json")).unwrap();
    assert_eq!(ChangedSettings::read(&at("state.json")).unwrap(), state);
    assert_eq!(std::fs::read(at("victim")).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "nothing is left beside it");
}

#[test]
fn a_second_change_keeps_the_oldest_value() {
    let mut state = ChangedSettings::default();
    let place = SettingPlace::sysctl("net.core.rmem_max");
    state.note(&place, "1".into(), "2".into());
    state.note(&place, "2".into(), "3".into());
    assert_eq!(state.entries, [entry("net.core.rmem_max", "1", "3")]);
}

#[test]
fn files_that_are_not_ours_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.json");
    let change = |place: &str| {
        format!(
            r#"{{"schema":"{SCHEMA}","changes":[{{"place":"{place}","former":"1","applied":"2"}}]}}"#
        )
    };
    let twice = change("ring-rx eth0")
        .replace("}]", r#"},{"place":"ring-rx eth0","former":"1","applied":"2"}]"#);
    for (text, word) in [
        (String::new(), "not JSON"),
        ("{}".into(), "no schema"),
        (r#"{"schema":"fullcount/advise-state/9"}"#.into(), "state/9"),
        (format!(r#"{{"schema":"{SCHEMA}"}}"#), "changes"),
        (format!(r#"{{"schema":"{SCHEMA}","changes":[{{}}]}}"#), "place"),
        (change("file etc/shadow"), "etc/shadow"),
        (change("file proc/sys/net/../../../etc/shadow"), "no setting"),
        (twice, "twice"),
    ] {
        fs::write(&path, &text).unwrap();
        let said = ChangedSettings::read(&path).unwrap_err().to_string();
        assert!(said.contains(word) && said.contains("--state"), "{text}: {said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "left as it is");
    }
    let said = ChangedSettings::read(dir.path()).unwrap_err().to_string();
    assert!(said.contains("--state"), "{said}");
}

#[test]
fn the_file_lies_where_the_desktop_says_or_in_var_lib() {
    let var = Path::new("/var/lib/fullcount/advise-state.json");
    assert_eq!(default_path(None), var);
    assert_eq!(default_path(Some(Path::new("relative"))), var);
    let home = Path::new("/h/.local/state");
    assert_eq!(default_path(Some(home)), home.join("fullcount/advise-state.json"));
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,80}") {
        let _ = ChangedSettings::parse(&text);
    }

    #[test]
    fn any_values_survive(former in ".{0,20}", applied in ".{0,20}") {
        let state = ChangedSettings { entries: vec![entry("net.core.rmem_max", &former, &applied)] };
        prop_assert_eq!(ChangedSettings::parse(&state.text()), Ok(state));
    }
}
