//! A service manager as systemd is one: it hears that a run is ready, answers, and ends.
//!
//! Source: sd_notify(3), `docs/operations.md`.
#![cfg(target_os = "linux")]

use std::os::unix::net::UnixDatagram;

use crate::service::{PATIENCE, Service, fullcount};

#[test]
fn systemd_is_told_of_the_start_of_each_beat_and_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 1000];
        let n = manager.recv(&mut buffer).expect("something is said");
        String::from_utf8(buffer[..n].to_vec()).expect("text")
    };
    let mut run =
        fullcount(&["run", "--source", "udp://127.0.0.1:0", "--web", "off", "--sink", "null"]);
    run.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000").env_remove("WATCHDOG_PID");
    let mut run = Service::run(run);
    run.udp_port();
    let wait = |what: &str| while !hear().lines().any(|line| line == what) {};
    wait("READY=1");
    (0..3).for_each(|_| wait("WATCHDOG=1"));
    run.interrupt();
    wait("STOPPING=1");
    assert_eq!(run.end().code, 0);
}
