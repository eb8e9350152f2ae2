//! What `lab udp` refuses, and what it says on hosts that lack something.

use std::net::UdpSocket;

use super::*;

#[test]
fn wrong_options_and_busy_ports_are_said() {
    let dir = tempfile::tempdir().unwrap();
    for (more, sentence) in [
        (
            &["--no-fragments", "--parameters", "default"][..],
            "8972: does not fit the MTU of 1500 B",
        ),
        (&["--parameters", "best"], "default or tuned"),
        (&["--engines", "dpdk"], "plain, mmsg, gso, gro, both, uring, packet or xdp"),
        (&["--engines", "xdp"], "loopback"),
        (&["--cut-segments"], "--where namespaces"),
        (&["--cores", "1"], "two core numbers"),
        (&["--cores", "near", "--where", "192.0.2.1"], "two hosts"),
        (&["--repeats", "0"], "--repeats 0"),
        (&["--profile"], "--cpu-pass"),
        (&["--profile", "--cpu-pass", "--cores", "none"], "pinned"),
        (&["--parameters", "tuned,tuned"], "nothing twice"),
        (&["--mtu", "1"], "68 to 65535"),
        (&["--name", "../x"], "1 to 80"),
        (&["--ablate", "--engines", "plain,both"], "one engine with --ablate"),
        (&["--far", "both", "--where", "x"], "receive or send"),
        (&["--link-speed", "1kpps"], "bits per second"),
        (&["--cpu-pass", "--cpu-interval", "0s"], "--cpu-interval"),
    ] {
        let mut words = udp(dir.path(), more);
        if more.contains(&"--name") {
            // Given twice, clap itself would refuse.
            words.retain(|w| w != "tiny");
            words.remove(words.iter().position(|w| w == "--name").unwrap());
        }
        let said = run(&words);
        assert_eq!(said.code, 2, "{more:?}: {}", said.err);
        assert!(said.err.contains(sentence), "{more:?}: {}", said.err);
    }
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = run(&udp(dir.path(), &["--port", &port, "--parameters", "default"]));
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains(&format!("port {port} is in use")), "{}", said.err);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn namespaces_without_root_are_refused_and_explained() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let out: PathBuf = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    for path in [dir.path(), &out] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullcount"));
    command.args(udp(&out, &["--where", "namespaces"])).current_dir(dir.path());
    if namespace::allowed() {
        // As nobody.
        command.uid(65_534);
    }
    let done = match command.output() {
        Ok(done) => done,
        Err(e) => {
            // A binary below a home that others may not enter.
            println!("skipped: cannot run it as another user: {e}");
            return;
        }
    };
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.contains("network namespaces need root"), "{err}");
}

#[test]
fn a_host_without_ip_is_told_what_to_install() {
    if lacks_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullcount"));
    command.args(udp(&dir.path().join("out"), &["--where", "namespaces"]));
    // A folder without any program.
    let done = command.env("PATH", dir.path()).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(err.contains("the program ip is missing") && err.contains("iproute2"), "{err}");
}
