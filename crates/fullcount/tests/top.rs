//! `fullcount top` at a running service: as text, as JSON, and on a real terminal of tmux.
//!
//! Source: `docs/operations.md`. Without tmux its test is skipped, and fails with CI=true.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::service::{PATIENCE, Service, say};

fn service() -> (Service, String) {
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", "sequence", "--sink", "null"];
    let mut run = Service::start(&[&run[..], &["--web", "127.0.0.1:0"]].concat());
    let page = run.page();
    (run, page)
}

#[test]
fn a_look_at_a_service_shows_its_counters_and_one_at_nothing_says_so() {
    let (mut run, page) = service();
    let to = format!("udp://127.0.0.1:{}", run.udp_port());
    let send =
        ["send", "--to", &to, "--count", "500", "--rate", "10kpps", "--fault", "loss=0.1,seed=7"];
    // It ends at the end mark; the page with it.
    let mut watched = say(&["top", &page, "--once", "--json", "--interval", "200ms"]);
    assert_eq!(watched.code, 0, "{}", watched.err);
    let object: Value = serde_json::from_str(&watched.out).unwrap();
    assert_eq!(
        (object["schema"].as_str(), object["running"].as_bool()),
        (Some("fullcount/top/1"), Some(true))
    );
    assert_eq!(object["unreachable"], Value::Null);
    let threads = object["threads_percent"].as_object().unwrap();
    assert!(threads.contains_key("receive"), "{threads:?}");
    watched = say(&["top", &page, "--once", "--interval", "200ms", "--size", "90x30"]);
    for words in
        ["sequence", "running, all well", "lost packets at", "socket", "CPU by thread", "receive "]
    {
        assert!(watched.out.contains(words), "{words}:\n{}", watched.out);
    }
    assert!(
        watched.out.lines().all(|l| l.chars().count() <= 90) && !watched.out.contains('\u{1b}')
    );
    assert_eq!(say(&send).code, 0);
    run.interrupt();
    run.end();
    let gone = say(&["top", &page, "--once"]);
    assert!(
        gone.code == 1 && gone.out.contains(&format!("{page} cannot be reached")),
        "{}",
        gone.out
    );
    for (arguments, why) in [
        (&["top"][..], "--once or --json"),
        (&["top", "::1", "--once"], "HOST:PORT"),
        (&["top", "--once", "--interval", "0s"], "200ms to 60s"),
    ] {
        let refused = say(arguments);
        assert!(refused.code == 2 && refused.err.contains(why), "{arguments:?}: {}", refused.err);
    }
}

/// A terminal in tmux, with a server of its own.
struct Tmux(tempfile::TempDir);

impl Tmux {
    fn ask(&self, arguments: &[&str]) -> (bool, String) {
        let out = Command::new("tmux")
            .arg("-S")
            .arg(self.0.path().join("tmux"))
            .args(arguments)
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .output()
            .expect("tmux runs");
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    }

    fn until(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.ask(&["capture-pane", "-p"]).1;
            if screen.contains(words) {
                return;
            }
            assert!(Instant::now() < end, "{words}:\n{screen}");
            // Not a synchronisation, only a pause between two looks.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

#[test]
fn on_a_terminal_it_follows_the_service_its_size_and_keys() {
    if !Path::new("/usr/bin/tmux").exists() {
        let reason = "no tmux: apt-get install tmux";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: {reason}");
        return;
    }
    let (run, page) = service();
    let tmux = Tmux(tempfile::tempdir().unwrap());
    let program = env!("CARGO_BIN_EXE_fullcount");
    let line = format!("{program} top {page} --interval 200ms");
    let size = ["-x", "100", "-y", "30"];
    assert!(
        tmux.ask(
            &[&["-f", "/dev/null", "new-session", "-d", "-s", "t"][..], &size, &[&line]].concat()
        )
        .0
    );
    tmux.until("running, all well");
    tmux.until("CPU by thread");
    tmux.ask(&["resize-window", "-t", "t", "-x", "40", "-y", "8"]);
    tmux.until("running, all well");
    tmux.ask(&["resize-window", "-t", "t", "-x", "100", "-y", "30"]);
    tmux.until("lost packets at");
    tmux.ask(&["send-keys", "-t", "t", "z"]);
    tmux.until("decode");
    run.interrupt();
    run.end();
    tmux.until("cannot be reached");
    assert!(tmux.ask(&["has-session", "-t", "t"]).0, "it goes on trying");
    tmux.ask(&["send-keys", "-t", "t", "q"]);
    let end = Instant::now() + PATIENCE;
    while tmux.ask(&["has-session", "-t", "t"]).0 {
        assert!(Instant::now() < end, "q ends it");
        std::thread::sleep(Duration::from_millis(50));
    }
}
