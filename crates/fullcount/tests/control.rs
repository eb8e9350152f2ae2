//! The control port of a run as the scripts of the event formation unit use it, and `fullcount ctl`.
//!
//! Source: `control-and-monitoring.md` section 3.5, `docs/operations.md`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::service::{PATIENCE, Service, say};

/// A run with a control port on a free port, and where.
fn start(more: &[&str]) -> (Service, String) {
    let run = ["run", "--source", "udp://127.0.0.1:0", "--web", "off", "--sink", "null", "--json"];
    let mut run = Service::start(&[&run[..], &["--control", "127.0.0.1:0"], more].concat());
    let at =
        run.wait_for("the control port", |l| l.strip_prefix("commands at ").map(str::to_owned));
    (run, at)
}

/// As the scripts do: one send, one receive.
fn ask(stream: &mut TcpStream, command: &str) -> String {
    stream.write_all(command.as_bytes()).expect("sent");
    let mut buffer = [0; 9000];
    let n = stream.read(&mut buffer).expect("answered");
    String::from_utf8(buffer[..n].to_vec()).expect("text")
}

/// `efustats`: names and values of all counters.
fn all(stream: &mut TcpStream) -> Vec<(String, i64)> {
    let count = ask(stream, "STAT_GET_COUNT");
    let count: usize = count.strip_prefix("STAT_GET_COUNT ").unwrap().parse().unwrap();
    let one = |i: usize| {
        let reply = ask(stream, &format!("STAT_GET {i}"));
        let words: Vec<&str> = reply.split(' ').collect();
        assert_eq!((words.len(), words[0]), (3, "STAT_GET"), "{reply}");
        (words[1].to_owned(), words[2].parse().unwrap())
    };
    (1..=count).map(one).collect()
}

#[test]
fn scripts_of_the_event_formation_unit_find_what_they_look_for() {
    let (mut run, at) =
        start(&["--detector", "sonde", "--tick", "1ns", "--set", "metrics.names=efu"]);
    let mut script = TcpStream::connect(&at).unwrap();
    script.set_read_timeout(Some(PATIENCE)).unwrap();
    // isefurunning
    let first = ask(&mut script, "STAT_GET 1");
    assert_eq!(first, "STAT_GET efu.sonde.0.receive.packets 0");
    assert_eq!(ask(&mut script, "RUNTIMESTATS"), "RUNTIMESTATS 0");
    // efubriefstat
    assert_eq!(ask(&mut script, "VERSION_GET").split(' ').count(), 7);
    assert_eq!(ask(&mut script, "DETECTOR_INFO_GET"), "DETECTOR_INFO_GET sonde");
    assert!(
        ask(&mut script, "STAT_GET_NAME main.uptime").starts_with("STAT_GET_NAME main.uptime ")
    );
    // efustatus: commands by their number.
    let count = ask(&mut script, "CMD_GET_COUNT");
    let count: usize = count.strip_prefix("CMD_GET_COUNT ").unwrap().parse().unwrap();
    let names: Vec<String> =
        (1..=count).map(|i| ask(&mut script, &format!("CMD_GET {i}"))).collect();
    assert!(names.windows(2).all(|w| w[0] < w[1]), "{names:?}");
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", "sonde", "--rate", "100kev/s"];
    let mut send = crate::service::fullcount(&send);
    send.args(["--duration", "2min"]);
    let send = send.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut send = send.spawn().expect("a sender");
    let begun = Instant::now();
    while ask(&mut script, "RUNTIMESTATS") != "RUNTIMESTATS 7" {
        assert!(begun.elapsed() < PATIENCE, "packets, events and output come");
    }
    send.kill().expect("stopped");
    send.wait().expect("a child");
    // efurates: names by their ends.
    let counters = all(&mut script);
    for end in ["receive.packets", "receive.bytes", "readouts.count", "events.count"] {
        let found: Vec<_> = counters.iter().filter(|(name, _)| name.ends_with(end)).collect();
        assert_eq!(found.len(), 1, "{end}: {found:?}");
        assert!(found[0].1 > 0, "{end}");
    }
    assert!(counters.iter().all(|(name, value)| name.starts_with("efu.sonde.0.") && *value >= 0));
    // efucalibmode, then the end as scripts give it.
    assert_eq!(ask(&mut script, "CALIB_MODE_SET 1"), "<OK>");
    assert_eq!(ask(&mut script, "EXIT"), "<OK>");
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.counter("events.count") > 0);
}

#[test]
fn ctl_gives_commands_and_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token.txt");
    std::fs::write(&token, "a word of nobody\n".replace(' ', "-")).unwrap();
    let token = token.display().to_string();
    let (run, at) = start(&["--set", &format!("control.token_file={token}")]);
    let ctl = |command: &[&str]| say(&[&["ctl", "--to", &at], command].concat());
    let said = ctl(&["STAT_GET_NAME", "receive.packets"]);
    assert_eq!((said.code, said.out.as_str()), (0, "STAT_GET_NAME receive.packets 0\n"));
    let said = ctl(&["NO_SUCH"]);
    assert_eq!((said.code, said.out.as_str()), (1, "Error: <BADCMD>\n"));
    let help = ctl(&["HELP"]).out;
    assert!(help.lines().any(|l| l == "EXIT: ends the run as Ctrl-C does"), "{help}");
    let config = ctl(&["--token-file", &token, "CONFIG_GET"]).out;
    let config = config.strip_prefix("CONFIG_GET ").unwrap();
    let config: serde_json::Value = serde_json::from_str(config).unwrap();
    assert_eq!(config["control"]["token_file"], token.as_str(), "the path, not the word");
    assert!(!config.to_string().contains("a-word-of-nobody"));
    let ledger = ctl(&["LEDGER_GET"]).out;
    let ledger: serde_json::Value = serde_json::from_str(&ledger["LEDGER_GET ".len()..]).unwrap();
    assert_eq!(ledger["balance"], 0);
    let wrong = folder.path().join("wrong.txt");
    std::fs::write(&wrong, "another-word-of-nobody").unwrap();
    let said = ctl(&["--token-file", &wrong.display().to_string(), "EXIT"]);
    assert_eq!((said.code, said.out.as_str()), (1, "Error: <NOAUTH>\n"));
    assert_eq!(ctl(&["EXIT"]).out, "<OK>\n");
    assert_eq!(run.end().code, 0);
    let said = ctl(&["HELP"]);
    assert!(said.code == 1 && said.err.contains("control port"), "{}", said.err);
}

/// As from another machine: in a network namespace of its own.
#[cfg(target_os = "linux")]
#[test]
fn clients_of_other_machines_read_where_they_are_listed_and_change_with_the_token_alone() {
    use crate::places_net::{NEAR, Net};
    const TOKEN: &str = "a-word-of-nobody";
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token.txt");
    std::fs::write(&token, TOKEN).unwrap();
    let token = token.display().to_string();
    let with_token = format!("control.token_file={token}");
    let service = |more: &[&str]| {
        let mut command = Net::command(&net.near, env!("CARGO_BIN_EXE_fullcount"));
        let run = ["run", "--source", "udp://127.0.0.1:0", "--web", "off", "--sink", "null"];
        let port = ["--json", "--control", "0.0.0.0:0"];
        command.args([&run[..], &port].concat());
        for set in more {
            command.args(["--set", set]);
        }
        let mut run = Service::run(command);
        let port: u16 = run
            .wait_for("the control port", |l| l.strip_prefix("commands at 0.0.0.0:")?.parse().ok());
        (run, port)
    };
    let connect = |space: &str, to: std::net::Ipv4Addr, port: u16| {
        let stream =
            Net::inside(space, move || TcpStream::connect((to, port)).expect("it listens"));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let is_over = |mut stream: TcpStream| matches!(stream.read(&mut [0; 10]), Ok(0) | Err(_));
    const NOT_ALLOWED: &str = "Error: <NOAUTH>";

    // With a token alone nobody beyond this machine may do anything before it.
    let (mut run, port) = service(&[&with_token]);
    let mut far = connect(&net.far, NEAR, port);
    for command in ["STAT_GET 1", "HELP", "LOG_LEVEL", "EXIT", "AUTH not-the-word-of-it", "AUTH x"]
    {
        assert_eq!(ask(&mut far, command), NOT_ALLOWED, "{command}");
    }
    assert_eq!(ask(&mut far, "AUTH not-the-word-of-it"), NOT_ALLOWED, "the third");
    assert!(is_over(far), "who guesses is hung up on");
    let mut near = connect(&net.near, std::net::Ipv4Addr::LOCALHOST, port);
    assert_eq!(ask(&mut near, "STAT_RESET"), "<OK>", "of this machine");
    let mut far = connect(&net.far, NEAR, port);
    assert_eq!(ask(&mut far, &format!("AUTH {TOKEN}")), "<OK>");
    assert_eq!(ask(&mut far, "STAT_GET_NAME receive.packets"), "STAT_GET_NAME receive.packets 0");
    assert_eq!(ask(&mut far, "CALIB_MODE_SET 1"), "<OK>");
    assert_eq!(ask(&mut far, "EXIT"), "<OK>");
    run.wait_for("the record", |l| {
        (l.contains("10.77.0.1:") && l.ends_with(" gave EXIT: done")).then_some(())
    });
    let said = run.end();
    assert_eq!(said.code, 0, "{}", said.err);
    let closed = "gave AUTH: not done: this is not the token, and the connection is closed";
    assert!(said.err.contains(closed) && said.err.contains("gave CALIB_MODE_SET 1: done"));
    assert!(!said.err.contains(TOKEN) && !said.err.contains("not-the-word"), "{}", said.err);

    // A listed network reads, and changes nothing without the token.
    let (run, port) = service(&[&with_token, "control.allow=[\"10.77.0.0/24\"]"]);
    let mut far = connect(&net.far, NEAR, port);
    assert_eq!(ask(&mut far, "STAT_GET_NAME receive.packets"), "STAT_GET_NAME receive.packets 0");
    assert_eq!(ask(&mut far, "LOG_LEVEL"), "LOG_LEVEL info");
    for command in ["LOG_LEVEL debug", "STAT_RESET", "CALIB_MODE_SET 1", "EXIT"] {
        assert_eq!(ask(&mut far, command), NOT_ALLOWED, "{command}");
    }
    let to = format!("{NEAR}:{port}");
    let mut ctl = Net::command(&net.far, env!("CARGO_BIN_EXE_fullcount"));
    let out = ctl.args(["ctl", "--to", &to, "--token-file", &token, "EXIT"]).output().unwrap();
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(0), &b"<OK>\n"[..]));
    assert_eq!(run.end().code, 0);

    // Without a token it only reads, and who is not listed is hung up on at once.
    let (run, port) = service(&["control.allow=[\"10.77.0.1\"]"]);
    let mut far = connect(&net.far, NEAR, port);
    assert_eq!(ask(&mut far, "RUNTIMESTATS"), "RUNTIMESTATS 0");
    assert_eq!(ask(&mut far, &format!("AUTH {TOKEN}")), NOT_ALLOWED);
    assert_eq!(ask(&mut far, "EXIT"), NOT_ALLOWED);
    // Not over the loopback interface, so it is none of this machine.
    assert!(is_over(connect(&net.near, NEAR, port)));
    run.interrupt();
    assert_eq!(run.end().code, 0);
}

#[test]
fn thresholds_are_set_in_every_worker_of_a_run_while_data_flow() {
    let folder = tempfile::tempdir().unwrap();
    let send = ["send", "--source", "multiblade", "--modules", "6", "--to"];
    let geometry = say(&[&send[..], &["udp://127.0.0.1:9", "--print-geometry"]].concat()).out;
    let file = folder.path().join("geometry.json");
    std::fs::write(&file, geometry).unwrap();
    let file = file.display().to_string();
    let (mut run, at) = start(&["--detector", "multiblade", "--geometry", &file, "--workers", "2"]);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let mut sender = crate::service::fullcount(&send);
    let sender = sender.args([&to, "--rate", "50kev/s", "--duration", "10min"]);
    let sender = sender.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut sender = sender.spawn().expect("a sender");
    let mut port = TcpStream::connect(&at).unwrap();
    port.set_read_timeout(Some(PATIENCE)).unwrap();
    let counter = |port: &mut TcpStream, name: &str| {
        let said = ask(port, &format!("STAT_GET_NAME {name}"));
        said.rsplit(' ').next().unwrap().parse::<i64>().unwrap()
    };
    let grows = |port: &mut TcpStream, name: &str, by: i64| {
        let (begun, before) = (Instant::now(), counter(port, name));
        while counter(port, name) < before + by {
            assert!(begun.elapsed() < PATIENCE, "{name} grows");
        }
    };
    grows(&mut port, "events.count", 1000);
    let told = ask(&mut port, "THRESHOLD_GET");
    let name = told.strip_prefix("THRESHOLD_GET ").and_then(|t| t.strip_suffix(" as-configured"));
    let name = name.unwrap_or_else(|| panic!("{told}")).to_owned();
    assert_eq!(ask(&mut port, &format!("THRESHOLD_SET {name} 65535")), "<OK>");
    assert_eq!(ask(&mut port, "THRESHOLD_GET"), format!("THRESHOLD_GET {name} 65535"));
    // What was begun before is over after some more.
    grows(&mut port, "events.filter.wire_threshold", 5000);
    let events = counter(&mut port, "events.count");
    grows(&mut port, "events.filter.wire_threshold", 5000);
    assert_eq!(counter(&mut port, "events.count"), events, "none is above it");
    for (bad, why) in [
        (format!("THRESHOLD_SET {name} 65536"), "0 to 65535 ADC counts"),
        ("THRESHOLD_SET glass 1".to_owned(), name.as_str()),
    ] {
        assert_eq!(ask(&mut port, &bad), "Error: <BADARGS>", "{bad}");
        let said = ask(&mut port, "WHY");
        assert!(said.contains(why), "{bad}: {said}");
    }
    assert_eq!(ask(&mut port, &format!("THRESHOLD_SET {name} 0")), "<OK>");
    grows(&mut port, "events.count", 1000);
    let _ = sender.kill();
    let _ = sender.wait();
    assert_eq!(ask(&mut port, "EXIT"), "<OK>");
    let said = run.end();
    let done = format!("gave THRESHOLD_SET {name} 65535: done");
    assert!(said.code != 1 && said.err.contains(&done), "{}", said.err);
    assert_eq!(said.summary()["balance"], 0);
}

#[test]
fn a_port_in_use_stops_the_start_before_any_file_is_made() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.nxs").display().to_string();
    let run = [
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--web",
        "off",
        "--control",
        &at,
        "--nexus",
        &file,
    ];
    let said = say(&run);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains(&format!("control port {at}")), "{}", said.err);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let said = say(&["run", "--control", "0.0.0.0:8888", "--web", "off"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("control.token_file"), "{}", said.err);
}
