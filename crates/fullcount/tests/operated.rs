//! A run that is operated while data flow: files and captures by command, modules that stop, counters begun anew; over the control port
//! and over HTTP, which is tried out by its own description.
//!
//! Source: `docs/operations.md`. Refuses nothing; without schemathesis that test is skipped, and fails with CI=true.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::python;
use crate::service::{PATIENCE, Said, Service, fullcount, get};

/// A sender of SoNDe packets, ended with the test.
struct Sender(Child);

impl Sender {
    fn start(port: u16, rate: &str) -> Sender {
        let to = format!("udp://127.0.0.1:{port}");
        let send =
            ["send", "--to", &to, "--source", "sonde", "--rate", rate, "--duration", "10min"];
        let mut send = fullcount(&send);
        Sender(send.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a sender"))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run with a control port, a page, and files below a folder.
struct Operated {
    run: Service,
    port: TcpStream,
    page: String,
    folder: tempfile::TempDir,
}

impl Operated {
    fn start(more: &[&str]) -> Operated {
        let folder = tempfile::tempdir().expect("a folder");
        let below = format!("control.folder={}", folder.path().display());
        let first = |name: &str| folder.path().join(name).display().to_string();
        let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde", "--tick", "1ns"];
        let outputs = ["--nexus", &first("first.nxs"), "--capture", &first("first.pcapng")];
        let ways = ["--web", "127.0.0.1:0", "--control", "127.0.0.1:0", "--json", "--set", &below];
        let mut run = Service::start(&[&run[..], &outputs, &ways, more].concat());
        let at = run.wait_for("the port", |l| l.strip_prefix("commands at ").map(str::to_owned));
        let port = TcpStream::connect(at).expect("the port listens");
        port.set_read_timeout(Some(PATIENCE)).expect("a time");
        let page = run.page();
        Operated { run, port, page, folder }
    }

    fn ask(&mut self, command: &str) -> String {
        self.port.write_all(command.as_bytes()).expect("sent");
        let mut buffer = vec![0; 64 << 10];
        let n = self.port.read(&mut buffer).expect("answered");
        String::from_utf8(buffer[..n].to_vec()).expect("text")
    }

    /// A counter by its name.
    fn counter(&mut self, name: &str) -> i64 {
        let said = self.ask(&format!("STAT_GET_NAME {name}"));
        said.rsplit(' ').next().expect("a word").parse().expect("a number")
    }

    /// Gives a command once nothing of those before is under way.
    fn order(&mut self, command: &str) {
        let begun = Instant::now();
        loop {
            match self.ask(command).as_str() {
                "<OK>" => return,
                "Error: <BUSY>" => assert!(begun.elapsed() < PATIENCE, "{command}"),
                other => panic!("{command}: {other}, {}", self.ask("WHY")),
            }
        }
    }

    fn until(&mut self, what: &str, is: impl Fn(&mut Operated) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn end(mut self) -> (Said, tempfile::TempDir) {
        self.order("EXIT");
        (self.run.end(), self.folder)
    }
}

/// Events of a file, and its first and last pulse.
fn events(path: &Path) -> (u64, Option<(u64, u64)>) {
    let file = hdf5_metno::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let instrument = file.group("/entry/instrument").expect("an instrument");
    let groups = instrument.groups().expect("groups").into_iter();
    let found = groups.flat_map(|panel| panel.groups().unwrap_or_default());
    let group = found.into_iter().find(|group| group.dataset("event_id").is_ok()).expect("events");
    let zeros: Vec<u64> =
        group.dataset("event_time_zero").and_then(|d| d.read_raw()).expect("pulses");
    let n = group.dataset("event_id").expect("events").size() as u64;
    (n, zeros.iter().min().copied().zip(zeros.iter().max().copied()).filter(|_| n > 0))
}

#[test]
fn a_hundred_files_are_begun_while_data_flow_and_every_event_is_in_one() {
    let mut run = Operated::start(&[]);
    let port = run.run.udp_port();
    let sender = Sender::start(port, "100kev/s");
    run.until("events", |run| run.counter("sink.nexus.events") > 0);
    for n in 1..=100 {
        run.order(&format!("NEXUS_NEXT run-{n:03}.nxs {n}"));
        run.until("it is begun", |run| run.counter("sink.nexus.files") == n + 1);
    }
    run.order("NEXUS_STOP");
    run.until("nothing is written", |run| run.counter("sink.nexus.not_written") > 0);
    run.order("NEXUS_START last.nxs");
    run.until("it is begun", |run| run.counter("sink.nexus.files") == 102);
    run.order("CAPTURE_NEXT second.pcapng");
    run.until("packets in it", |run| run.counter("sink.capture.files") == 2);
    let taken = run.counter("sink.nexus.in");
    run.until("more events", |run| run.counter("sink.nexus.in") > taken + 10_000);
    for (command, why) in [
        ("NEXUS_NEXT ../out.nxs", "below control.folder"),
        ("NEXUS_NEXT run-001.nxs", "already"),
        ("NEXUS_START other.nxs", "NEXUS_NEXT goes on"),
        ("CAPTURE_NEXT out.nxs", "its ending is .pcapng"),
    ] {
        assert_eq!(run.ask(command), "Error: <BADARGS>", "{command}");
        let said = run.ask("WHY");
        assert!(said.contains(why), "{command}: {said}");
    }
    drop(sender);
    let (said, folder) = run.end();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end != "pcapng"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 102, "{files:?}");
    let each: Vec<_> = files.iter().map(|path| events(path)).collect();
    let all: u64 = each.iter().map(|(n, _)| n).sum();
    assert_eq!(all, said.counter("sink.nexus.events"));
    let left_out = said.counter("sink.nexus.not_written");
    assert!(left_out > 0);
    assert_eq!(
        all + left_out,
        said.counter("sink.nexus.in"),
        "each event is in one file, or counted"
    );
    let borders: Vec<_> = each.iter().filter_map(|(_, pulses)| *pulses).collect();
    // `first`, `last`, `run-001`, …: by name; by time the second is the last.
    let in_order: Vec<_> = borders[..1].iter().chain(&borders[2..]).chain(&borders[1..2]).collect();
    for pair in in_order.windows(2) {
        assert!(pair[0].1 < pair[1].0, "a pulse is in one file: {pair:?}");
    }
    assert_eq!(said.summary()["balance"], 0);
    // What this host lost under the load of other tests is not the matter.
    assert!(said.code == 0 || said.code == 3, "{}", said.err);
    assert_eq!(said.counter("sink.nexus.unwritten"), 0);
}

#[test]
fn a_module_that_stops_is_told_by_name_everywhere() {
    let mut run = Operated::start(&["--set", "engine.module_silent=1s"]);
    let port = run.run.udp_port();
    let sender = Sender::start(port, "50kev/s");
    let modules = |run: &mut Operated| -> Value {
        let said = run.ask("MODULES_GET");
        serde_json::from_str(said.strip_prefix("MODULES_GET ").expect(&said)).expect("JSON")
    };
    // A sender that has to wait for a processor may be silent for a moment.
    let name = std::cell::OnceCell::new();
    run.until("a module that sends", |run| {
        let found = modules(run);
        let first = found["modules"][0]["name"].as_str();
        first.is_some_and(|first| {
            found["silent"] == serde_json::json!([]) && name.set(first.to_owned()).is_ok()
        })
    });
    let name = name.into_inner().expect("a module");
    assert!(name.starts_with("127.0.0.1 module "), "{name}");
    drop(sender);
    run.until("it is silent", |run| {
        modules(run)["silent"].as_array().is_some_and(|all| all.iter().any(|m| *m == name.as_str()))
    });
    let metrics = get(&run.page, "/metrics");
    let line = format!("fullcount_module_silent{{module=\"{name}\"}} 1");
    assert!(metrics.lines().any(|l| l == line), "{line}");
    let state: Value = serde_json::from_str(&get(&run.page, "/api/state")).unwrap();
    assert!(
        state["modules"]
            .as_array()
            .unwrap()
            .iter()
            .any(|m| m["name"] == name.as_str() && m["silent"] == true)
    );
    // Counters of scripts begin anew, those that decide do not.
    let before = run.counter("receive.packets");
    assert!(before > 0);
    assert_eq!(run.ask("STAT_RESET"), "<OK>");
    run.until("it is 0", |run| run.counter("receive.packets") == 0);
    let (said, _folder) = run.end();
    assert_eq!(said.counter("receive.packets") as i64, before);
    let summary = said.summary();
    assert!(
        summary["modules"].as_array().unwrap().iter().any(|m| m["name"] == name.as_str()),
        "{summary}"
    );
}

#[test]
fn the_http_interface_is_as_its_description_says() {
    let Some(python) = python::interpreter() else { return };
    let program = python.with_file_name("schemathesis");
    if !program.exists() {
        let reason = "no schemathesis: install tests/python/requirements.txt";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: {reason}");
        return;
    }
    let run = Operated::start(&[]);
    let described = format!("http://{}/api/openapi.json", run.page);
    let folder = tempfile::tempdir().unwrap();
    let tried = Command::new(program)
        .args(["run", &described, "--checks", "all", "--max-examples", "15", "--seed", "1"])
        // Which words are right depends on the run, so a word that fits the schema may be refused.
        .args(["--exclude-checks", "positive_data_acceptance", "--request-timeout", "30"])
        // It ends the run.
        .args(["--exclude-path", "/api/commands/EXIT", "--no-color"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&tried.stdout);
    assert!(tried.status.success(), "{text}");
    let (said, _folder) = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn a_run_under_its_operators_answers_all_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let bench = ["lab", "bench", "service", "--rate", "50Mbps", "--duration", "2s", "--json"];
    let more = ["--clients", "10", "--commands", "20", "--endless", "2", "--out", &out];
    let said = crate::service::say(&[&bench[..], &more].concat());
    assert!(said.code == 0 || said.code == 3, "{}", said.err);
    let row = said.summary()["rows"][0].clone();
    assert_eq!(row["commands_failed"].as_u64(), Some(0), "{row}");
    assert!(
        row["commands_answered"].as_u64().unwrap() > 50
            && row["received_packets"].as_u64().unwrap() > 0,
        "{row}"
    );
    // How much is reached is this host's business; each share is told, and one that is too small is named.
    let shares =
        [("answered_share", 0.95), ("received_share", 0.99), ("graphite_snapshots_share", 0.95)];
    let small = shares.iter().filter(|(key, least)| row[*key].as_f64().unwrap() < *least).count();
    let missed = row["missed"].as_array().unwrap().len();
    assert!(missed >= small && (missed == 0) == (said.code == 0), "{row}");
    assert_eq!(said.err.matches("did not hold: ").count(), missed, "{}", said.err);
    assert!(
        row["counters"].as_u64().unwrap() >= 1000 && row["endless_bytes"].as_u64().unwrap() > 0,
        "{row}"
    );
    let refused = crate::service::say(&["lab", "bench", "service", "--clients", "0"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
}
