//! The file writer between other people's programs: ess-streaming-data-types makes the messages, scippnexus reads the
//! file. `tests/python` does both.
#![cfg(feature = "nexus")]

mod nexus_made;
mod write_made;

use std::path::Path;
use std::process::Command;

use fullcount_out::flat::Message;
use fullcount_out::write::{Service, WriteCounter};
use nexus_made::{python, script};
use write_made::*;

fn run(python: &Path, name: &str, argument: &Path) -> String {
    let output = Command::new(python).arg(script(name)).arg(argument).output().unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {text}\n{errors}");
    text.trim().to_owned()
}

#[test]
fn messages_of_the_package_become_a_file_that_scippnexus_loads() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let messages = dir.path().join("messages");
    let data = dir.path().join("data");
    for folder in [&messages, &data] {
        std::fs::create_dir(folder).unwrap();
    }
    let made: u64 = run(&python, "write_messages.py", &messages).parse().unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(&messages).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len() as u64, made);
    let mut broker = Broker::with(&["events", "logs", "control"]);
    for path in files {
        let topic = path.file_stem().unwrap().to_str().unwrap()[3..].to_owned();
        broker.send_bytes(&topic, 1000, std::fs::read(&path).unwrap());
    }
    let mut service = Service::new(options(&data), 20_000, &broker).unwrap();
    let structure = structure_of_all().to_string();
    let order = Message::Pl72(start("job", "all.nxs", &structure)).encode();
    service.order(&pool(0, &order), 20_000, &broker);
    broker.feed(&mut service, 21_000, usize::MAX);
    let order = Message::S6s4t(stop("job", 0, "c")).encode();
    service.order(&pool(1, &order), 21_000, &broker);
    broker.feed(&mut service, 31_001, usize::MAX);
    service.tick(31_001);
    assert_eq!(count(&service, WriteCounter::Finished), 1, "{:?}", service.notes());
    let written = [
        WriteCounter::Ev44,
        WriteCounter::F144,
        WriteCounter::Al00,
        WriteCounter::Ep01,
        WriteCounter::Se00,
        WriteCounter::Tdct,
        WriteCounter::Ad00,
        WriteCounter::Da00,
        WriteCounter::Hs01,
    ];
    let written: u64 = written.iter().map(|&counter| count(&service, counter)).sum();
    assert_eq!(written, made, "every message is in the file");
    assert_eq!(run(&python, "check_write.py", &data.join("all.nxs")), "fine");
}
