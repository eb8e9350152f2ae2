//! The binary as a child process, for scenarios: start, wait until it listens, stop, read its summary.
//!
//! Every wait is for an observable fact (a line on standard error, an exit) with a generous bound that
//! only turns a hang into a failure.

#![allow(dead_code)] // each scenario file uses its own part

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use fullcount_child::{ChildEnd, RunningChild};
use serde_json::Value;

/// Bound on anything that should take a second.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub fn fullcount(arguments: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_fullcount"));
    c.args(arguments).stdin(Stdio::null());
    c
}

/// A committed vector.
pub fn vector(path: &str) -> String {
    format!("{}/../../vectors/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// A capture of these payloads from 10.0.0.1, 1 µs apart.
pub fn capture(dir: &std::path::Path, name: &str, payloads: &[Vec<u8>]) -> String {
    let path = dir.join(format!("{name}.pcap"));
    write_capture(&path, payloads.iter().map(|payload| (1, payload.as_slice())));
    path.display().to_string()
}

/// A capture of payloads, each with the last number of its sender's address 10.0.0.n, 1 µs apart, written here with no
/// code of ours: classic pcap, Ethernet, IPv4, UDP.
pub fn write_capture<'a>(path: &std::path::Path, packets: impl Iterator<Item = (u8, &'a [u8])>) {
    let mut f = vec![];
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        f.extend(word.to_le_bytes());
    }
    for (at, (sender, payload)) in packets.enumerate() {
        let frame = 14 + 20 + 8 + payload.len();
        for word in [1, at as u32, frame as u32, frame as u32] {
            f.extend(word.to_le_bytes());
        }
        f.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        let mut ip = vec![0x45, 0];
        ip.extend((28 + payload.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, sender, 10, 0, 0, 2]);
        let sum: u32 = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        f.extend(ip);
        f.extend(50_011u16.to_be_bytes());
        f.extend(9000u16.to_be_bytes());
        f.extend((8 + payload.len() as u16).to_be_bytes());
        f.extend([0, 0]);
        f.extend(payload);
    }
    std::fs::write(path, f).expect("written");
}

/// What a finished verb said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// The summary: alone on the last line of standard output.
    pub fn summary(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {last}\n{}", self.err))
    }

    pub fn counter(&self, name: &str) -> u64 {
        let summary = self.summary();
        summary["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}: {summary}"))
    }
}

/// Runs a verb to its end.
pub fn say(arguments: &[&str]) -> Said {
    let o = fullcount(arguments).output().expect("the binary starts");
    Said {
        code: o.status.code().expect("not killed by a signal"),
        out: String::from_utf8(o.stdout).expect("UTF-8"),
        err: String::from_utf8(o.stderr).expect("UTF-8"),
    }
}

/// For waits that nobody cuts short.
const GO_ON: fullcount_child::Asked<'_> = &|| false;

/// A verb that runs until it is told to end; a scenario that fails leaves nothing running.
pub struct Service {
    pub child: RunningChild,
}

impl Service {
    /// Starts a verb.
    pub fn start(arguments: &[&str]) -> Service {
        Service::run(fullcount(arguments))
    }

    /// Starts a verb that `command` runs, perhaps in another network namespace.
    pub fn run(command: Command) -> Service {
        let child = RunningChild::start("fullcount", command).unwrap_or_else(|e| panic!("{e}"));
        Service { child: child.keeping_all() }
    }

    /// What it has said so far on standard error.
    pub fn seen(&self) -> &[String] {
        self.child.said()
    }

    /// Waits for a line of standard error that `find` recognises, also one that was seen before.
    pub fn wait_for<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> T {
        if let Some(found) = self.seen().iter().find_map(|l| find(l)) {
            return found;
        }
        let found = self.child.wait_for_line(PATIENCE, GO_ON, find);
        found.unwrap_or_else(|e| panic!("waiting for {what}: {e}; so far: {:?}", self.seen()))
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.ended(Duration::ZERO).expect("a child")
    }

    /// Port of the UDP socket.
    pub fn udp_port(&mut self) -> u16 {
        self.wait_for("the UDP port", |l| {
            l.strip_prefix("listening on ")?.rsplit(':').next()?.parse().ok()
        })
    }

    /// Address of the live page.
    pub fn page(&mut self) -> String {
        self.wait_for("the live page", |l| {
            let rest = l.strip_prefix("live page http://")?;
            Some(rest.trim_end_matches('/').to_owned())
        })
    }

    /// Address of the control port.
    pub fn control(&mut self) -> String {
        self.wait_for("the control port", |l| l.strip_prefix("commands at ").map(str::to_owned))
    }

    /// As Ctrl-C.
    pub fn interrupt(&self) {
        self.child.interrupt();
    }

    /// Waits for the end.
    pub fn end(mut self) -> Said {
        let ended = self.child.end(PATIENCE, GO_ON).expect("a child");
        let Some(ChildEnd { status, output, lines, .. }) = ended else {
            panic!("did not end; said: {:?}", self.seen());
        };
        Said { code: status.code().unwrap_or(-1), out: output, err: lines.join("\n") }
    }
}

/// One GET over plain TCP.
pub fn get(address: &str, path: &str) -> String {
    let (head, body) = answer(address, path);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body
}

/// The head and the body of an answer, whatever its status.
pub fn answer(address: &str, path: &str) -> (String, String) {
    use std::io::Write;
    let mut s = std::net::TcpStream::connect(address).expect("the page listens");
    write!(s, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut all = Vec::new();
    s.read_to_end(&mut all).expect("answered");
    let text = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Waits until a counter of a run is so large, over a connection to its control port.
pub fn until_counter(port: &mut std::net::TcpStream, name: &str, least: i64) {
    use std::io::Write;
    port.set_read_timeout(Some(PATIENCE)).expect("a time");
    let begun = std::time::Instant::now();
    loop {
        // In one piece: one receive is one command.
        port.write_all(format!("STAT_GET_NAME {name}").as_bytes()).expect("sent");
        let mut reply = [0; 200];
        let n = port.read(&mut reply).expect("answered");
        let reply = String::from_utf8_lossy(&reply[..n]);
        let value = reply.rsplit(' ').next().and_then(|value| value.parse::<i64>().ok());
        if value.expect("a number") >= least {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{reply}, not {least}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Chromium; `None` after printing that there is none, which fails with CI=true.
pub fn browser() -> Option<OsString> {
    let named = std::env::var_os("FULLCOUNT_BROWSER").into_iter();
    let usual = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let starts = |program: &OsString| {
        Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success())
    };
    let found = named.chain(usual.iter().map(OsString::from)).find(starts);
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs Chromium");
        println!("skipped: Chromium is not installed");
    }
    found
}

/// The page as a browser has made it, once its script has run; `None` without Chromium.
pub fn seen_by_a_browser(address: &str) -> Option<String> {
    let profile = tempfile::tempdir().expect("a folder");
    let seen = Command::new(browser()?)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--dump-dom", &format!("http://{address}/")])
        .stdin(Stdio::null())
        .output();
    Some(String::from_utf8_lossy(&seen.expect("it starts").stdout).into_owned())
}
