//! `fullcount lab bench trial` as the long proofs use it: packets at a rate, commands, datagrams that nobody sends, refusals.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::service::say;

/// The row of a trial with these options.
fn row(options: &[&str], receiver: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let words = ["lab", "bench", "trial", "--json", "--out", out];
    let said = say(&[&words[..], options, &["--"], receiver].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    said.summary()["rows"][0].clone()
}

#[test]
fn a_run_gets_what_is_sent_and_its_commands_are_carried_out() {
    let folder = tempfile::tempdir().unwrap();
    let below = format!("control.folder={}", folder.path().display());
    let first = folder.path().join("0.pcapng").display().to_string();
    let options = ["--rate", "1kpps", "--duration", "1s", "--commands", "2", "--every", "200ms"];
    let options = [&options[..], &["--command", "CAPTURE_NEXT {n}.pcapng"]].concat();
    let replay = folder.path().display().to_string();
    let options = [&options[..], &["--replay", &replay]].concat();
    let run = ["run", "--sink", "null", "--web", "off", "--capture", &first, "--set", &below];
    let row = row(&options, &run);
    let number = |path: &str| row.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!((number("/send/0/exit"), number("/receiver/exit")), (0, 0), "{row:#}");
    let sent = number("/send/0/summary/packets/sent");
    assert!(sent > 0 && sent == number("/receiver/summary/packets/accepted"), "{row:#}");
    let replays = row["replayed"].as_array().unwrap();
    let names: Vec<&str> = replays.iter().filter_map(|replay| replay["file"].as_str()).collect();
    assert_eq!(names, ["0.pcapng", "1.pcapng", "2.pcapng"]);
    let packets = |replay: &Value| replay.pointer("/summary/packets/received")?.as_u64();
    assert_eq!(replays.iter().filter_map(packets).sum::<u64>(), sent, "{row:#}");
}

#[test]
fn two_senders_meet_a_receiver_with_two_workers() {
    let options = ["--senders", "2", "--detector", "sequence", "--size", "1000"];
    let options = [&options[..], &["--rate", "1kpps", "--duration", "300ms"]].concat();
    let row = row(&options, &["receive", "--workers", "2", "--senders", "2"]);
    let sent: u64 =
        (0..2).filter_map(|n| row["send"][n]["summary"]["packets"]["sent"].as_u64()).sum();
    assert!(sent > 0, "{row:#}");
    assert_eq!(row["receiver"]["exit"], 0, "{row:#}");
    assert_eq!(row["receiver"]["summary"]["packets"]["accepted"], sent);
    assert_eq!(row["receiver"]["summary"]["workers"].as_array().map(Vec::len), Some(2));
}

#[test]
fn datagrams_that_no_readout_system_sends_are_all_counted() {
    let options = ["--datagrams", "2000", "--seed", "3"];
    let row = row(&options, &["run", "--sink", "null", "--web", "off"]);
    let summary = &row["receiver"]["summary"];
    let received = summary["packets"]["received"].as_u64().unwrap_or_default();
    let dropped = row["kernel_dropped"].as_u64().unwrap_or_default();
    assert_eq!((&row["datagrams"], received + dropped), (&2000.into(), 2000), "{row:#}");
    assert_eq!(summary["balance"], 0, "{row:#}");
}

#[test]
fn what_no_trial_can_be_is_refused() {
    let refused = |words: &[&str]| {
        let said = say(&[&["lab", "bench", "trial"], words].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{}", said.err);
        said.err
    };
    assert!(refused(&["--", "write"]).contains("run or receive"));
    assert!(refused(&["--command", "HELP", "--", "receive"]).contains("control port"));
    assert!(refused(&["--senders", "0", "--", "run"]).contains("1 to 64"));
    assert!(refused(&["--senders", "2", "--send-cores", "1", "--", "run"]).contains("each sender"));
}
