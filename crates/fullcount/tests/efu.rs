//! `fullcount efu` as scripts of the event formation unit start it: exit codes, the check of interfaces, what is refused by
//! name, and the names that its scripts and dashboards ask for.
//!
//! Source: `control-and-monitoring.md` sections 1 to 3, `docs/operations.md`. Refuses nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::mocking::MockCluster;

use crate::service::{PATIENCE, Said, Service, fullcount, say, vector};

fn efu(line: &str) -> Said {
    let words: Vec<&str> = line.split_whitespace().collect();
    say(&[&["efu"], &words[..]].concat())
}

#[test]
fn help_version_and_no_time_to_run_end_with_0() {
    for line in ["--help", "-h", "--version"] {
        let said = efu(line);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{line}");
        assert!(!said.out.is_empty(), "{line}");
    }
    // It ends before anything is opened, ports that are taken included.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let said = efu(&format!("-d sonde -s 0 -m {port}"));
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{}", said.err);
    assert!(said.err.starts_with("fullcount run --source udp://0.0.0.0:9000 "), "{}", said.err);
}

/// The largest MTU that an interface can have is below this.
const BEYOND: &str = "99999999";

#[test]
#[cfg(target_os = "linux")]
fn interfaces_that_fail_the_check_end_with_1_unless_it_is_left_out() {
    for (check, why) in [
        (format!("--checkif lo -u {BEYOND}"), "--checkif lo: its MTU is "),
        (format!("--checkif lo,nosuch0 -u {BEYOND}"), "--checkif lo: its MTU is "),
        ("--checkif nosuch0".to_owned(), "--checkif nosuch0: "),
        ("--checkif lo nosuch0 -u 1".to_owned(), "--checkif nosuch0: "),
    ] {
        let said = efu(&format!("-d sonde -s 0 {check}"));
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{check}: {}", said.err);
        assert!(said.err.contains(why), "{check}: {}", said.err);
        let said = efu(&format!("-d sonde -s 0 {check} --nohwcheck"));
        assert_eq!(said.code, 0, "{check}: {}", said.err);
    }
    // No names, no check.
    assert_eq!(efu(&format!("-d sonde -s 0 -u {BEYOND}")).code, 0);
    assert_eq!(efu("-d sonde -s 0 --checkif lo -u 1").code, 0);
}

#[test]
fn bad_arguments_end_with_255_and_say_which() {
    for (line, why) in [
        ("", "--det <MODULE>"),
        ("-d nosuch", "-d nosuch: no such module; known: "),
        ("-d mgcncs2", "-d mgcncs2: no such module; known: "),
        ("-d sonde --nosuch", "'--nosuch'"),
        ("-d sonde -p 65536", "'--port <PORT>'"),
        ("-d sonde -i nowhere", "'--dip <ADDR>'"),
        ("-d sonde -l 9", "'--log_level <LEVEL>'"),
        ("-d sonde -c 5,6", "-c 5,6: "),
        ("-d sonde --updateinterval 0", "'--updateinterval <SECONDS>'"),
        ("-d sonde --kafka_config /no/such.json", "--kafka_config /no/such.json: "),
        ("-d sonde -f /no/such.json -s 1", "/no/such.json"),
        ("-d sonde -r a/b -s 1", "metrics.region"),
        ("-d sonde --udder", "--udder is not taken: "),
        ("-d mgmesytec --multigrid-monitor", "--multigrid-monitor is not taken: "),
        ("-d mgmesytec --multigrid-monitor=false -s 0", "--multigrid-monitor is not taken: "),
        ("-d sonde --ttlmonitor-reduce 5", "--ttlmonitor-reduce is not taken: "),
    ] {
        let said = efu(line);
        assert_eq!((said.code, said.out.as_str()), (255, ""), "{line}: {}", said.err);
        assert!(said.err.contains(why), "{line}: {}", said.err);
    }
}

/// As the scripts do: one send, one receive.
fn ask(stream: &mut TcpStream, command: &str) -> String {
    stream.write_all(command.as_bytes()).expect("sent");
    let mut buffer = [0; 9000];
    let n = stream.read(&mut buffer).expect("answered");
    String::from_utf8(buffer[..n].to_vec()).expect("text")
}

#[test]
fn losses_end_with_0_under_the_names_of_the_module() {
    let cluster = MockCluster::new(1).expect("a mock");
    cluster.create_topic("mbcaen_detector", 1, 1).expect("a topic");
    let (brokers, folder) = (cluster.bootstrap_servers(), tempfile::tempdir().expect("a folder"));
    let line = ["efu", "-d", "mbcaen", "-i", "127.0.0.1", "-p", "0", "-m", "0", "-b", &brokers];
    let mut command = fullcount(&line);
    // Where its spool is.
    command.current_dir(folder.path());
    let mut run = Service::run(command);
    let at = run.wait_for("commands", |l| l.strip_prefix("commands at ").map(str::to_owned));
    let mut script = TcpStream::connect(at).expect("it listens");
    script.set_read_timeout(Some(PATIENCE)).expect("a time");
    assert_eq!(ask(&mut script, "STAT_GET 1"), "STAT_GET efu.mbcaen.0.receive.packets 0");
    assert_eq!(ask(&mut script, "DETECTOR_INFO_GET"), "DETECTOR_INFO_GET mbcaen");
    // That of a calibration belongs to another detector.
    assert_eq!(ask(&mut script, "NMX_GET_CALIB 1 0 0"), "Error: <BADCMD>");
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send = ["send", "--to", &to, "--source", "multiblade", "--rate", "60kev/s"];
    let send = [&send[..], &["--duration", "1s", "--fault", "loss=0.2,seed=1"]].concat();
    let sent = fullcount(&send).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(sent.expect("a sender").success());
    assert_eq!(ask(&mut script, "EXIT"), "<OK>");
    let said = run.end();
    assert_eq!(said.code, 0, "{}\n{}", said.err, said.out);
    assert!(said.out.contains("packet error ratio"), "something was lost: {}", said.out);
    let consumer: BaseConsumer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &brokers)
        .set("group.id", "scenario")
        .create()
        .expect("a consumer");
    let (low, high) =
        consumer.fetch_watermarks("mbcaen_detector", 0, PATIENCE).expect("a partition");
    assert!(high > low, "messages on the topic of the module: {low} to {high}");
}

#[test]
fn a_channels_calibration_is_asked_for_as_in_2018() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = |first: &str, rest: &str| first.to_owned() + &format!(",{rest}").repeat(63);
    let text = format!(
        r#"{{"vmm_calibration": [{{"fecID": 1, "vmmID": 0, "adc_offsets": [{0}], "adc_slopes": [{1}],
            "time_offsets": [{2}], "time_slopes": [{1}]}}]}}"#,
        list("0", "0"),
        list("1", "1"),
        list("-12.25", "3")
    );
    std::fs::write(folder.path().join("calibration.json"), text).expect("written");
    let line = ["efu", "-d", "gdgem", "-i", "127.0.0.1", "-p", "0", "-m", "0", "-b", "127.0.0.1:1"];
    // Its configuration of 2018 is taken as it is.
    let file = vector("gdgem/config/reference_test_config.json");
    let files = ["-f", &file, "--calibration", "calibration.json"];
    let mut command = fullcount(&[&line[..], &files].concat());
    command.current_dir(folder.path());
    let mut run = Service::run(command);
    let at = run.wait_for("commands", |l| l.strip_prefix("commands at ").map(str::to_owned));
    let mut script = TcpStream::connect(at).expect("it listens");
    script.set_read_timeout(Some(PATIENCE)).expect("a time");
    for (asked, said) in [
        ("1 0 0", "NMX_GET_CALIB offset: -12.250000 slope: 1.000000"),
        ("1 0 63", "NMX_GET_CALIB offset: 3.000000 slope: 1.000000"),
        ("1 1 0", "NMX_GET_CALIB offset: 0.000000 slope: 1.000000"),
        ("1 0", "Error: <BADARGS>"),
        ("700 0 0", "Error: <BADARGS>"),
        ("one 0 0", "Error: <BADARGS>"),
    ] {
        assert_eq!(ask(&mut script, &format!("NMX_GET_CALIB {asked}")), said, "{asked}");
    }
    assert_eq!(ask(&mut script, "CSPEC_SHOW_CALIB"), "Error: <BADCMD>");
    assert_eq!(ask(&mut script, "EXIT"), "<OK>");
    assert_eq!(run.end().code, 0);
}
