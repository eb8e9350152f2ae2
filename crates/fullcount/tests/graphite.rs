//! `metrics.graphite` against a real Carbon: what a run counted is read back from Carbon's own files with Carbon's own reader.
//!
//! Source: `docs/operations.md`. Refuses nothing; without Carbon it is skipped, and fails with CI=true.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::service::{PATIENCE, Service, say};
use fullcount_broker::ports::free_port;
use fullcount_child::RunningChild;

/// Carbon, storing below a folder of its own.
struct Carbon {
    _child: RunningChild,
    port: u16,
    files: PathBuf,
}

impl Carbon {
    /// `None` without Carbon, which is said, and fails with CI=true.
    fn start(folder: &Path) -> Option<Carbon> {
        let reader = Command::new("whisper-fetch").arg("--help").stdout(Stdio::null()).status();
        let there =
            reader.is_ok_and(|s| s.success()) && Path::new("/usr/bin/carbon-cache").exists();
        if !there {
            let reason = "no Carbon: apt-get install graphite-carbon";
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
            println!("skipped: {reason}");
            return None;
        }
        let (port, at) = (free_port().expect("a port"), folder.display());
        let files = folder.join("whisper");
        std::fs::create_dir(&files).expect("a folder");
        let carbon = format!(
            "[cache]\nSTORAGE_DIR = {at}\nLOCAL_DATA_DIR = {at}/whisper\nCONF_DIR = {at}\nLOG_DIR = {at}\n\
             WHITELISTS_DIR = {at}\nPID_DIR = {at}\nUSER =\nENABLE_LOGROTATION = False\n\
             MAX_CREATES_PER_MINUTE = inf\nMAX_UPDATES_PER_SECOND = inf\nLINE_RECEIVER_INTERFACE = 127.0.0.1\n\
             LINE_RECEIVER_PORT = {port}\nPICKLE_RECEIVER_INTERFACE = 127.0.0.1\nPICKLE_RECEIVER_PORT = {}\n\
             CACHE_QUERY_INTERFACE = 127.0.0.1\nCACHE_QUERY_PORT = {}\nENABLE_UDP_LISTENER = False\n",
            free_port().expect("a port"),
            free_port().expect("a port")
        );
        let schemas = "[all]\npattern = .*\nretentions = 1s:1h\n";
        for (name, text) in [("carbon.conf", carbon.as_str()), ("storage-schemas.conf", schemas)] {
            std::fs::write(folder.join(name), text).expect("written");
        }
        let config = folder.join("carbon.conf").display().to_string();
        let mut carbon = Command::new("/usr/bin/carbon-cache");
        carbon.args([&format!("--config={config}"), "--nodaemon", "start"]);
        carbon.env("GRAPHITE_STORAGE_DIR", folder);
        let _child = RunningChild::start("carbon-cache", carbon).expect("Carbon starts");
        Some(Carbon { _child, port, files })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.join(format!("{}.wsp", name.replace('.', "/")))
    }

    /// The newest value that Carbon's own reader finds.
    fn newest(&self, name: &str) -> Option<f64> {
        let file = self.file(name);
        let told = Command::new("whisper-fetch").arg(&file).output().expect("it runs");
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        let mut values =
            text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok());
        values.next_back()
    }

    /// Waits until a counter has this value there.
    fn wait(&self, name: &str, value: u64) {
        let begun = Instant::now();
        while self.newest(name) != Some(value as f64) {
            let now = self.newest(name);
            assert!(begun.elapsed() < PATIENCE, "{name} is {now:?}, not {value}");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }
}

/// The dashboard's queries through graphite-web's own render interface, over what Carbon has stored; skipped without graphite-web.
fn queries_of_the_dashboard(storage: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let told = Command::new("/usr/bin/python3")
        .args(["-W", "ignore"])
        .arg(root.join("tests/python/graphite_render.py"))
        .args([storage, &root.join("deploy/monitoring/grafana-graphite.json")])
        .arg("beam.line.hall")
        .output()
        .expect("Python runs");
    let text = String::from_utf8_lossy(&told.stdout) + String::from_utf8_lossy(&told.stderr);
    if told.status.code() == Some(77) {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{text}");
        println!("{text}");
        return;
    }
    assert!(told.status.success(), "{text}");
}

#[test]
fn what_a_run_counted_is_read_back_from_carbon() {
    let folder = tempfile::tempdir().unwrap();
    let Some(carbon) = Carbon::start(folder.path()) else { return };
    let graphite = format!("127.0.0.1:{}", carbon.port);
    let set = ["--set", "metrics.prefix=beam.line", "--set", "metrics.region=hall"];
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sequence", "--sink", "null"];
    // Started before or while Carbon starts: it is found once it listens.
    let more = ["--web", "off", "--json", "--graphite", &graphite];
    let mut run = Service::start(&[&run[..], &more, &set].concat());
    let said = run.wait_for("where counters go", |l| {
        l.starts_with("counters to Graphite").then(|| l.to_owned())
    });
    assert_eq!(said, format!("counters to Graphite at {graphite} as beam.line.hall.*, every 1 s"));
    carbon.wait("beam.line.hall.receive.packets", 0);
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let sent =
        say(&["send", "--to", &to, "--source", "sequence", "--count", "777", "--rate", "1kpps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let said = run.end();
    // The last counts came at the end of the run, and are those of its summary.
    let summary = said.summary();
    let counters = summary["counters"].as_object().expect("counters");
    assert!(counters.len() > 30, "{summary}");
    for (name, value) in counters {
        // These counted on while the summary was made.
        if name.starts_with("graphite.") || name.starts_with("host.") {
            continue;
        }
        carbon.wait(&format!("beam.line.hall.{name}"), value.as_u64().expect("a number"));
    }
    assert!(said.counter("receive.packets") >= 777);
    assert_eq!(said.counter("graphite.dropped"), 0);
    queries_of_the_dashboard(folder.path());
}
