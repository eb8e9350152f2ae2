//! `/metrics` of a run, scraped by a real Prometheus, and judged by its tool; `/healthz` and `/readyz`.
//!
//! Source: `docs/operations.md`. Refuses nothing; without Prometheus it is skipped, and fails with CI=true.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::monitoring::graphs;
use crate::service::{PATIENCE, Service, get, say};
use fullcount_child::RunningChild;

/// What promtool finds in a text.
fn findings(text: &str) -> String {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = promtool.expect("promtool starts");
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let said = promtool.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&said.stderr).into_owned() + &String::from_utf8_lossy(&said.stdout)
}

/// Graphs of faults that the run has: what they show is above 0.
const FAULTS: [&str; 3] = ["Losses by place", "Packets refused, by reason", "Refused, by reason"];

/// Every query of the dashboard is executed and gives something, but for those of other detectors. `fault` makes one
/// packet more that is refused.
fn queries_of_the_dashboard(address: &str, fault: impl Fn()) {
    let dashboard = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/monitoring/grafana-prometheus.json");
    let dashboard: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dashboard).unwrap()).unwrap();
    let mut filled = 0;
    for panel in graphs(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "30s");
            let query = query.replace("$job", "fullcount").replace("$instance", ".*");
            // What this run has no fault of is 0, and there.
            let query = if FAULTS.contains(&title) { query } else { query.replace(" > 0", "") };
            let elsewhere = query.contains("fullcount_detector_info{")
                && !query.contains("fullcount_detector_info{detector=\"sonde\"}");
            let begun = Instant::now();
            loop {
                fault();
                let url = format!("http://{address}");
                let asked =
                    Command::new("promtool").args(["query", "instant", &url, &query]).output();
                let asked = asked.expect("promtool runs");
                let errors = String::from_utf8_lossy(&asked.stderr);
                assert!(asked.status.success(), "{query}: {errors}");
                let empty = asked.stdout.trim_ascii().is_empty();
                assert!(empty || !elsewhere, "{query}: of another detector");
                if !empty || elsewhere {
                    filled += u32::from(!empty);
                    break;
                }
                assert!(begun.elapsed() < PATIENCE, "{title}: {query}: nothing");
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
        }
    }
    assert!(filled > 16, "{filled} queries");
}

#[test]
fn a_real_prometheus_reads_what_a_run_counts() {
    if Command::new("prometheus")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        let reason = "no Prometheus: apt-get install prometheus";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: {reason}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [spool, hits] = ["spool", "hits.h5"].map(|n| folder.path().join(n).display().to_string());
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sonde", "--hits", &hits];
    let more = ["--tick", "1ns", "--web", "127.0.0.1:0", "--json", "--set", "engine.senders=9"];
    // No broker listens at port 1: its messages fill a spool.
    let kafka = ["--kafka", "kafka://127.0.0.1:1/events", "--spool", &spool];
    let drain = ["--set", "output.kafka.drain=1s"];
    let mut run = Service::start(&[&run[..], &more, &kafka, &drain].concat());
    let (page, port) = (run.page(), run.udp_port());
    assert_eq!((get(&page, "/healthz").as_str(), get(&page, "/readyz").as_str()), ("ok\n", "ok\n"));
    assert_eq!(findings(&get(&page, "/metrics")), "");
    let config = folder.path().join("prometheus.yml");
    let scrape = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: fullcount\n  static_configs:\n  - targets: ['{page}']\n"
    );
    std::fs::write(&config, scrape).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut prometheus = Command::new("prometheus");
    prometheus
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={address}"));
    let _prometheus = RunningChild::start("prometheus", prometheus).expect("Prometheus starts");
    let to = format!("udp://127.0.0.1:{port}");
    let sent =
        say(&["send", "--to", &to, "--source", "sonde", "--count", "500", "--rate", "5kpps"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    let metrics = get(&page, "/metrics");
    assert_eq!(findings(&metrics), "", "with modules that have sent");
    let counted =
        metrics.lines().find(|l| l.starts_with("fullcount_receive_packets_total{")).unwrap();
    let counted = counted.rsplit(' ').next().unwrap();
    let (begun, mut answer) = (Instant::now(), String::new());
    while !answer.contains(&format!("\"{counted}\"")) {
        assert!(begun.elapsed() < PATIENCE, "{counted}: {answer}");
        std::thread::sleep(std::time::Duration::from_millis(200));
        if std::net::TcpStream::connect(&address).is_ok() {
            let all = Command::new("promtool")
                .args([
                    "query",
                    "instant",
                    &format!("http://{address}"),
                    "fullcount_receive_packets_total",
                ])
                .output();
            let text = String::from_utf8_lossy(&all.expect("promtool runs").stdout).into_owned();
            answer = text.replace("=> ", "=> \"").replace(" @", "\" @");
        }
    }
    let lossy = ["send", "--to", &to, "--source", "sonde", "--rate", "1kpps", "--fault", "loss=1%"];
    let sending = Service::start(&lossy);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    queries_of_the_dashboard(&address, || {
        socket.send_to(b"no packet", ("127.0.0.1", port)).expect("sent");
    });
    sending.interrupt();
    assert_eq!(sending.end().code, 0);
    run.interrupt();
    let said = run.end();
    assert_eq!((said.code, &said.summary()["balance"]), (3, &0.into()), "{}", said.err);
}
