//! Messages of a run: on the terminal, in a file, to a real rsyslog; read again on SIGHUP; levels by command.
//!
//! Source: `docs/operations.md`. Without rsyslog its test is skipped, and fails with CI=true.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fullcount_broker::ports::free_port;
use serde_json::Value;

use crate::service::{PATIENCE, Service, fullcount, say, vector};

/// Looks until it is so.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        // Not a synchronisation, only a pause between two looks.
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has(path: &Path, word: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains(word))
}

/// A program without a terminal of its own, as services are.
fn without_terminal(arguments: &[&str]) -> Command {
    let own = fullcount(arguments);
    let mut command = Command::new("setsid");
    command.arg(own.get_program()).args(own.get_args());
    command
}

fn hang_up(run: &Service) {
    let pid = run.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().expect("kill runs").success());
}

const BASE: &str = "[source]\nurl = \"udp://127.0.0.1:0\"\n[detector]\nkind = \"sequence\"\n[output]\nsink = \"null\"\n[web]\nlisten = \"off\"\n";

#[test]
fn sighup_takes_what_can_be_taken_names_the_rest_and_opens_the_file_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let config = at("run.toml");
    let write = |more: &str| fs::write(&config, format!("{BASE}{more}")).unwrap();
    let log = "[log]\nfile = \"run.log\"\n";
    write(log);
    let manager = UnixDatagram::bind(at("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = |what: &str| loop {
        let mut buffer = [0; 1000];
        let n = manager.recv(&mut buffer).expect(what);
        let text = String::from_utf8(buffer[..n].to_vec()).unwrap();
        if text.lines().any(|line| line.starts_with(what)) {
            return text;
        }
    };
    let config_text = config.display().to_string();
    let mut command = without_terminal(&[
        "run",
        &config_text,
        "--log-format",
        "json",
        "--control",
        "127.0.0.1:0",
    ]);
    command.env("NOTIFY_SOCKET", at("notify"));
    let mut run = Service::run(command);
    told("READY=1");
    until("the file", || has(&at("run.log"), "INFO run "));
    // As logrotate does it.
    fs::rename(at("run.log"), at("run.log.old")).unwrap();
    hang_up(&run);
    let reloading = told("RELOADING=1");
    assert!(
        reloading
            .lines()
            .any(|l| l.strip_prefix("MONOTONIC_USEC=").is_some_and(|n| n.parse::<u64>().is_ok()))
    );
    told("READY=1");
    let json = |word: &'static str| {
        move |line: &str| -> Option<Value> {
            let value: Value = serde_json::from_str(line).ok()?;
            value["message"].as_str()?.contains(word).then_some(value)
        }
    };
    let again = run.wait_for("the reload", json("configuration read again: nothing new"));
    assert_eq!((again["severity"].as_str(), again["level"].as_u64()), (Some("notice"), Some(5)));
    until("the new file", || has(&at("run.log"), "configuration read again"));
    assert!(!has(&at("run.log.old"), "configuration read again"));

    write(&format!(
        "{log}level = \"debug\"\n[control]\nallow = [\"10.0.0.0/8\"]\n[engine]\nmax_refused = \"7%\"\nqueue = 77\n"
    ));
    hang_up(&run);
    run.wait_for(
        "what is taken",
        json("configuration read again: control.allow, engine.max_refused, log.level"),
    );
    run.wait_for("what is not", json("these take a restart: engine.queue"));
    write("[log]\nlevel = \"loud\"\n");
    hang_up(&run);
    let refused = run.wait_for("what is wrong", json("not reloaded: "));
    assert!(refused["message"].as_str().unwrap().contains("log.level"), "{refused}");
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 0);
    let no_json = said.err.lines().find(|line| serde_json::from_str::<Value>(line).is_err());
    assert_eq!(no_json, None, "all of standard error is objects");
    assert!(has(&at("run.log"), "run ended: 0 packets received"));
}

#[test]
fn a_key_that_takes_a_restart_is_named_until_then_and_config_get_tells_what_holds() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("run.toml");
    let write = |more: &str| fs::write(&config, format!("{BASE}{more}")).unwrap();
    write("");
    let path = config.display().to_string();
    let mut run = Service::run(without_terminal(&["run", &path, "--control", "127.0.0.1:0"]));
    let at = run.wait_for("the control port", |l| Some(l.strip_prefix("commands at ")?.to_owned()));
    let get = |key: &str| {
        let said = say(&["ctl", "--to", &at, "CONFIG_GET", key]).out;
        said.trim_end().strip_prefix("CONFIG_GET ").map(str::to_owned)
    };
    let mut seen = 0;
    // Lines that came since the last reload, up to the one that begins so.
    let mut reloaded = |run: &mut Service, last: &str| {
        hang_up(run);
        let before = run.seen().iter().filter(|line| line.starts_with(last)).count();
        let end = Instant::now() + PATIENCE;
        while run.seen().iter().filter(|line| line.starts_with(last)).count() == before {
            assert!(Instant::now() < end, "{last}: {:?}", run.seen());
            let more = run.child.wait_for_line(PATIENCE, &|| false, |_| Some(()));
            more.unwrap_or_else(|e| panic!("{last}: {e}"));
        }
        let all: Vec<String> = run.seen()[seen..].to_vec();
        seen = run.seen().len();
        all.join("\n")
    };
    let restart = "fullcount: these take a restart: ";
    let again = "fullcount: configuration read again: ";
    write("[engine]\nmax_refused = \"7%\"\nqueue = 77\n");
    let first = reloaded(&mut run, restart);
    assert!(
        first.contains(&format!("{again}engine.max_refused\n{restart}engine.queue")),
        "{first}"
    );
    assert_eq!(get("engine.max_refused").as_deref(), Some("\"7%\""));
    assert_eq!(get("engine.queue").as_deref(), Some("64"), "it does not hold yet");
    let second = reloaded(&mut run, restart);
    assert!(second.contains(&format!("{again}nothing new\n{restart}engine.queue")), "{second}");
    // As it was at the start: nothing is to be done any more.
    write("[engine]\nmax_refused = \"7%\"\n[log]\nlevel = \"notice\"\n");
    let reverted = reloaded(&mut run, again);
    assert!(reverted.contains(&format!("{again}log.level")), "{reverted}");
    assert_eq!(get("log.level").as_deref(), Some("\"notice\""));
    let last = reloaded(&mut run, again);
    assert!(last.contains(&format!("{again}nothing new")), "{last}");
    assert!(!reverted.contains(restart) && !last.contains(restart), "{reverted}{last}");
    run.interrupt();
    assert_eq!(run.end().code, 0);
}

/// The run ended with 1, `words` are once on standard error, and in the file as an alert.
fn failed(said: &crate::service::Said, file: &Path, words: &str) {
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(said.err.matches(words).count(), 1, "{}", said.err);
    let text = fs::read_to_string(file).unwrap();
    let alert = |line: &&str| line.contains(" ALR ") && line.contains(words);
    assert_eq!(text.lines().filter(alert).count(), 1, "{text}");
}

#[test]
fn why_a_run_does_not_start_or_go_on_is_an_alert_in_its_file_and_once_on_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let set = |name: &str| format!("log.file={}", at(name).display());
    let there = at("there.nxs");
    fs::write(&there, "anything").unwrap();
    let path = there.display().to_string();
    let source = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde", "--tick", "1ns"];
    let nexus = ["--web", "off", "--nexus", &path, "--set"];
    for form in ["text", "json"] {
        let name = format!("start-{form}.log");
        let said = say(&[&source[..], &nexus, &[&set(&name), "--log-format", form]].concat());
        failed(&said, &at(&name), "there.nxs: the file exists");
        if form == "json" {
            let object: Value = serde_json::from_str(said.err.lines().last().unwrap()).unwrap();
            assert_eq!(object["severity"], "alert", "{object}");
        }
    }
    assert_eq!(fs::read_to_string(&there).unwrap(), "anything");
    // A capture that is replayed again and again, until nothing is left of it.
    let capture = at("short.pcap");
    fs::copy(vector("pcap/udp_capture.pcap"), &capture).unwrap();
    let source = format!("pcap:{}?flat-out&repeat=forever", capture.display());
    let run = ["run", "--source", &source, "--detector", "sequence", "--sink", "null"];
    let more = ["--web", "off", "--control", "127.0.0.1:0", "--set", &set("run.log")];
    let mut run = Service::start(&[&run[..], &more].concat());
    until("the run has started", || has(&at("run.log"), "run started"));
    run.wait_for("the control port", |l| l.starts_with("commands at ").then_some(()));
    fs::File::options().write(true).open(&capture).unwrap().set_len(0).unwrap();
    let said = run.end();
    failed(&said, &at("run.log"), "the file is empty");
    // Before the receivers go.
    let text = fs::read_to_string(at("run.log")).unwrap();
    assert!(text.contains("run ended: "), "{text}");
}

#[test]
fn two_runs_do_not_share_a_file_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.log");
    let set = format!("log.file={}", file.display());
    let run = [
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--detector",
        "sequence",
        "--sink",
        "null",
        "--web",
        "off",
    ];
    let mut first = Service::start(&[&run[..], &["--set", &set]].concat());
    first.udp_port();
    let second = say(&[&run[..], &["--set", &set]].concat());
    assert!(second.code == 1 && second.err.contains("another process writes it"), "{}", second.err);
    first.interrupt();
    assert_eq!(first.end().code, 0);
    std::os::unix::fs::symlink(&file, folder.path().join("link")).unwrap();
    let set = format!("log.file={}", folder.path().join("link").display());
    let linked = say(&[&run[..], &["--set", &set]].concat());
    assert!(linked.code == 1 && linked.err.contains("log.file"), "{}", linked.err);
    // A file that another output of the run writes.
    let nexus = folder.path().join("a.nxs").display().to_string();
    let clash = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde", "--nexus", &nexus];
    let clash = say(&[&clash[..], &["--set", &format!("log.file={nexus}")]].concat());
    assert!(clash.code == 2 && clash.err.contains("log.file"), "{}", clash.err);
}

#[test]
fn the_file_writer_tells_the_same_receivers() {
    let folder = tempfile::tempdir().unwrap();
    let syslog = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    syslog.set_read_timeout(Some(PATIENCE)).unwrap();
    let below = folder.path().display().to_string();
    let file = folder.path().join("write.log");
    let writer =
        ["write", "--brokers", "127.0.0.1:1", "--pool", "pool", "--folder", &below, "--quiet"];
    for (set, word) in [
        ("keep=0", "1 to 99"),
        ("max_size=1KiB", "64KiB to 1TiB"),
        ("folder=x", "unknown field `folder`"),
        ("file", "KEY=VALUE is expected"),
    ] {
        let said = say(&[&writer[..], &["--log-set", set]].concat());
        assert!(said.code == 2 && said.err.contains(word), "{set}: {}", said.err);
        assert!(said.err.contains("--log-set "), "{set}: {}", said.err);
    }
    let sets = [
        format!("file={}", file.display()),
        format!("syslog={}", syslog.local_addr().unwrap()),
        "keep=3".to_owned(),
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--log-set", set]).collect();
    let writer = Service::start(&[&writer[..], &sets].concat());
    until("the file", || has(&file, "waiting for a broker"));
    let mut buffer = [0; 4096];
    loop {
        let n = syslog.recv(&mut buffer).expect("the message comes");
        let text = String::from_utf8_lossy(&buffer[..n]);
        if text.contains("waiting for a broker") {
            // Facility daemon, severity warning.
            assert!(text.starts_with("<28>1 "), "{text}");
            break;
        }
    }
    writer.interrupt();
    let said = writer.end();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("waiting for a broker"), "a warning is not quiet: {}", said.err);
}

#[test]
fn the_terminal_is_quiet_or_has_time_and_place_as_it_was_asked_for() {
    let source = format!("pcap:{}?flat-out", vector("pcap/udp_capture.pcap"));
    let run =
        ["run", "--source", &source, "--detector", "sequence", "--sink", "null", "--web", "off"];
    let with = |more: &[&str]| say(&[&run[..], more].concat());
    let usual = with(&[]);
    assert!(usual.err.contains("detector sequence") && usual.out.contains("balance"));
    let quiet = with(&["--quiet"]);
    assert!(!quiet.err.contains("detector sequence"), "{}", quiet.err);
    assert_eq!(quiet.out.contains("balance"), usual.out.contains("balance"), "the ledger stays");
    let wrong = with(&["--log", "loud"]);
    assert!(wrong.code == 2 && wrong.err.contains("emergency"), "{}", wrong.err);
    // The level of the command line is part of the configuration.
    let shown = with(&["--log", "warning,kafka=debug", "--print-config"]);
    assert!(shown.out.contains("level = \"warning,kafka=debug\""), "{}", shown.out);
    let dead = [
        "--set",
        "log.gelf=127.0.0.1:1",
        "--set",
        "log.syslog=tcp://127.0.0.1:1",
        "--set",
        "log.journald=/nowhere/socket",
    ];
    let begun = Instant::now();
    let dead = with(&[&dead[..], &["--log-format", "long"]].concat());
    assert_eq!(dead.code, usual.code, "receivers that are not there change nothing: {}", dead.err);
    assert!(begun.elapsed() < PATIENCE);
    let said = dead.err.lines().find(|line| line.contains("log.gelf 127.0.0.1:1"));
    if let Some(said) = said {
        assert!(said.contains("Z WAR ") && said.contains(".rs:"), "{said}");
    }
}

#[test]
fn levels_and_traces_are_switched_by_command() {
    let run = [
        "run",
        "--source",
        "udp://127.0.0.1:0",
        "--detector",
        "sequence",
        "--sink",
        "null",
        "--web",
        "off",
    ];
    let mut run = Service::start(&[&run[..], &["--control", "127.0.0.1:0"]].concat());
    let at = run.wait_for("the control port", |l| Some(l.strip_prefix("commands at ")?.to_owned()));
    let ctl = |command: &[&str]| say(&[&["ctl", "--to", &at], command].concat()).out;
    assert_eq!(ctl(&["LOG_LEVEL"]), "LOG_LEVEL info\n");
    assert_eq!(ctl(&["LOG_LEVEL", "notice,kafka=debug"]), "<OK>\n");
    assert_eq!(ctl(&["LOG_LEVEL"]), "LOG_LEVEL notice,kafka=debug\n");
    assert_eq!(ctl(&["LOG_LEVEL", "loud"]), "Error: <BADARGS>\n");
    assert_eq!(ctl(&["TRACE_MASK", "INPUT"]), "TRACE_MASK trace is not built in\n");
    assert!(ctl(&["HELP", "LOG_LEVEL"]).contains("ORIGIN=LEVEL"));
    run.wait_for("the change", |l| {
        l.contains("the log's level is notice,kafka=debug").then_some(())
    });
    assert_eq!(ctl(&["EXIT"]), "<OK>\n");
    assert_eq!(run.end().code, 0);
}

/// A real rsyslog that writes what it understood.
struct Rsyslog(Child);

impl Drop for Rsyslog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_rsyslog_understands_datagrams_counted_messages_and_the_socket_of_its_host() {
    let program =
        ["/usr/sbin/rsyslogd", "/usr/bin/rsyslogd"].into_iter().find(|p| Path::new(p).exists());
    let Some(program) = program else {
        let reason = "no rsyslog: apt-get install rsyslog";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: {reason}");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let tcp = free_port().expect("a port");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let udp = free.expect("a port of UDP").port();
    let (socket, all) = (at("log"), at("all"));
    let config = format!(
        "global(workDirectory=\"{}\")\n\
         module(load=\"imudp\")\ninput(type=\"imudp\" address=\"127.0.0.1\" port=\"{udp}\" ruleset=\"all\")\n\
         module(load=\"imtcp\")\ninput(type=\"imtcp\" address=\"127.0.0.1\" port=\"{tcp}\" ruleset=\"all\")\n\
         module(load=\"imuxsock\" SysSock.Use=\"off\")\ninput(type=\"imuxsock\" Socket=\"{socket}\" ruleset=\"all\")\n\
         template(name=\"known\" type=\"string\" string=\"%inputname% %syslogfacility-text%.%syslogseverity-text% %app-name% %procid% %msgid%|%msg%|\\n\")\n\
         ruleset(name=\"all\") {{ action(type=\"omfile\" file=\"{all}\" template=\"known\") }}\n",
        folder.path().display()
    );
    fs::write(at("rsyslog.conf"), config).unwrap();
    let daemon = Command::new(program)
        .args(["-n", "-f", &at("rsyslog.conf"), "-i", &at("pid")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _daemon = Rsyslog(daemon.expect("rsyslog starts"));
    until("rsyslog listens", || {
        Path::new(&socket).exists() && std::net::TcpStream::connect(("127.0.0.1", tcp)).is_ok()
    });
    let source = format!("pcap:{}?flat-out", vector("pcap/udp_capture.pcap"));
    let run =
        ["run", "--source", &source, "--detector", "sequence", "--sink", "null", "--web", "off"];
    for (to, input, id) in [
        (format!("127.0.0.1:{udp}"), "imudp", "sequence"),
        (format!("tcp://127.0.0.1:{tcp}"), "imtcp", "sequence"),
        (socket.clone(), "imuxsock", "-"),
    ] {
        let said = say(&[&run[..], &["--set", &format!("log.syslog={to}")]].concat());
        assert!(said.code != 1 && said.code != 2, "{}", said.err);
        let is = |line: &str| {
            line.starts_with(&format!("{input} daemon.info fullcount "))
                && line.contains(&format!(" {id}|"))
                && line.contains("run started: ")
                && line.ends_with('|')
        };
        until(&format!("{input}: {}", fs::read_to_string(&all).unwrap_or_default()), || {
            fs::read_to_string(&all).unwrap_or_default().lines().any(is)
        });
    }
}
