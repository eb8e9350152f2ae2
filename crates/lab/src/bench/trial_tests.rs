use super::*;

fn shell(script: &str) -> RunningChild {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    RunningChild::start("sh", command).unwrap()
}

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_summary_is_the_last_line() {
    let mut child = shell("echo started >&2; echo ledger; echo '{\"balance\": 0}'; exit 3");
    let (found, code) = summary(&mut child, LIMIT, &|| false).unwrap();
    assert_eq!((found["balance"].as_u64(), code), (Some(0), 3));
}

#[test]
fn a_panic_and_a_missing_summary_are_complaints() {
    for (script, complaint) in [
        ("echo thread main panicked at x >&2; echo '{}'", "panicked at x"),
        ("echo ledger; exit 1", "ended with exit status: 1: ledger"),
    ] {
        let error = summary(&mut shell(script), LIMIT, &|| false).unwrap_err().to_string();
        assert!(error.contains(complaint), "{error}");
    }
    let error = summary(&mut shell("exec sleep 100"), Duration::ZERO, &|| false).unwrap_err();
    assert!(error.to_string().contains("still running"), "{error}");
}

fn trial(receiver: &[&str]) -> BenchTrial {
    let order = BenchSenders { options: vec![], cores: vec![None], duration: LIMIT };
    BenchTrial {
        receiver: words(receiver),
        detector: "sonde".into(),
        load: BenchLoad::Senders(order),
        memory_every: None,
        commands: None,
        replay: None,
    }
}

#[test]
fn options_are_those_of_the_verbs() {
    let run = trial(&["run", "--sink", "null"]);
    assert_eq!(
        run.listening(Some(Path::new("g"))).join(" "),
        "run --source udp://127.0.0.1:0 --detector sonde --sink null --geometry g"
    );
    let commands = BenchCommands { count: 1, every: LIMIT, text: "GO".into() };
    let run = BenchTrial { commands: Some(commands), ..trial(&["run"]) };
    assert!(run.listening(None).join(" ").ends_with("--control 127.0.0.1:0"));
    let receive = trial(&["receive", "--workers", "2"]);
    assert_eq!(receive.listening(None).join(" "), "receive udp://127.0.0.1:0 --workers 2");
}

#[test]
fn captures_of_a_folder_are_taken_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b.pcapng", "a.pcapng", "c.txt"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let found = captures(folder.path()).unwrap();
    let names: Vec<_> = found.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert_eq!(names, ["a.pcapng", "b.pcapng"]);
}

#[test]
fn a_program_that_is_no_fullcount_is_told() {
    let error = trial(&["run"]).measure(Path::new("false"), |_| {}, &|| false).unwrap_err();
    assert!(matches!(&error, TrialError::Child(ChildError::Failed { .. })), "{error}");
}
