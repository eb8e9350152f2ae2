//! `advise --apply` and `--revert` for real: settings of this kernel, and a veth in a network namespace.
//!
//! Needs root and iproute2; without them it is skipped with a message, and with `CI=true` it fails. Every setting is
//! restored even if the test fails.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::service::fullcount;
use serde_json::Value;

/// Root with `ip`; otherwise prints the reason, which fails in CI.
fn may() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|l| l.split_whitespace().take(3).eq(["Uid:", "0", "0"]));
    let ip = Command::new("ip").arg("-V").output().is_ok_and(|o| o.status.success());
    if root && ip {
        return true;
    }
    let reason = "needs root and iproute2 to change settings and make a network namespace";
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{reason}");
    println!("skipped: {reason}");
    false
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let o = Command::new(program).args(arguments).output().unwrap();
    assert!(o.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&o.stderr));
    o
}

/// Puts a file of the kernel back when it goes.
struct Kept {
    path: PathBuf,
    text: String,
}

impl Kept {
    fn new(path: &str) -> Kept {
        Kept { path: path.into(), text: fs::read_to_string(path).unwrap() }
    }

    fn now(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.now() != self.text {
            let _ = fs::write(&self.path, &self.text);
        }
    }
}

/// A network namespace with a veth pair `adva`, `advb`; goes with the test.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Namespace {
        let n = Namespace(format!("fc-advise-{name}-{}", std::process::id()));
        run("ip", &["netns", "add", &n.0]);
        n.ip(&["link", "add", "adva", "type", "veth", "peer", "name", "advb"]);
        n.ip(&["link", "set", "adva", "up"]);
        n.ip(&["link", "set", "advb", "up"]);
        n
    }

    fn ip(&self, arguments: &[&str]) -> Output {
        run("ip", &[&["-n", &self.0], arguments].concat())
    }

    /// Runs the binary inside, where `/sys` shows this namespace's interfaces.
    fn fullcount(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.0, env!("CARGO_BIN_EXE_fullcount")]).args(arguments);
        let o = c.output().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (o.status.code().unwrap(), text(o.stdout), text(o.stderr))
    }

    /// What `advise` reads of `adva`: MTU, queue, GRO.
    fn reads(&self) -> [String; 3] {
        let rate = ["--rate", "14.88Mpps", "--size", "8972"];
        let ask =
            [&["advise", "--interface", "adva", "--for", "both", "--json"][..], &rate].concat();
        let (_, out, err) = self.fullcount(&ask);
        let object: Value = serde_json::from_str(out.lines().last().unwrap()).expect(&err);
        let lines = object["lines"].as_array().unwrap();
        ["mtu", "txqueuelen", "offload.rx-gro"].map(|key| {
            let line = lines.iter().find(|l| l["key"] == key).unwrap();
            line["now"].as_str().unwrap().to_owned()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

#[test]
fn settings_of_this_kernel_are_changed_and_put_back_exactly() {
    if !may() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let buffer = Kept::new("/proc/sys/net/core/rmem_max");
    let memory = Kept::new("/proc/sys/net/ipv4/udp_mem");
    let now: u64 = buffer.text.trim().parse().unwrap();
    // Time that needs the next larger power of two, at 10 Gbit/s: a small change, for a moment.
    let us = now * 8 / 10_000 + 1000;
    let hold = format!("{us}us");
    let file = state.to_str().unwrap();
    let base = ["advise", "--size", "8972", "--hold", &hold, "--state", file, "--json"];
    let only = ["--apply", "--only", "net.core.rmem_max,net.ipv4.udp_mem"];
    let say = |more: &[&str]| {
        let o = fullcount(&[&base[..], more].concat()).output().unwrap();
        let out = String::from_utf8(o.stdout).unwrap();
        let object: Value = serde_json::from_str(out.lines().last().unwrap_or_default())
            .unwrap_or_else(|e| panic!("{e}: {out}{}", String::from_utf8_lossy(&o.stderr)));
        (o.status.code().unwrap(), object)
    };
    let (code, object) = say(&only);
    assert_eq!((code, &object["failed"]), (0, &Value::from(0)), "{object}");
    let larger: u64 = buffer.now().trim().parse().unwrap();
    assert!(larger > now && object["steps"][0]["outcome"] == "done", "{object}");
    // Again: nothing is short any more, and the state still has the first value.
    assert_eq!(say(&only).1["steps"].as_array().unwrap().len(), 0);
    assert!(fs::read_to_string(&state).unwrap().contains(&format!("\"former\": \"{now}\"")));
    let (code, object) = say(&["--revert"]);
    assert_eq!((code, &object["failed"]), (0, &Value::from(0)), "{object}");
    assert_eq!((buffer.now(), memory.now()), (buffer.text.clone(), memory.text.clone()));
    assert!(!state.exists());
}

#[test]
fn a_veth_is_changed_and_put_back_exactly() {
    if !may() {
        return;
    }
    let namespace = Namespace::new("veth");
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let file = state.to_str().unwrap();
    let before = namespace.reads();
    assert_eq!(before[0], "1500 B");
    let only = "mtu,txqueuelen,offload.rx-gro";
    let rate = ["--rate", "14.88Mpps", "--size", "8972", "--for", "both", "--interface", "adva"];
    let apply = ["--apply", "--with-hints", "--only", only, "--state", file];
    let (code, out, err) = namespace.fullcount(&[&["advise"][..], &rate, &apply].concat());
    assert_eq!(code, 0, "{out}{err}");
    let after = namespace.reads();
    assert_eq!(after, ["9000 B", "15000 packets", "on"], "{out}");
    let link = String::from_utf8(namespace.ip(&["link", "show", "adva"]).stdout).unwrap();
    assert!(link.contains("mtu 9000") && link.contains("qlen 15000"), "iproute2 agrees: {link}");
    let (code, out, err) = namespace.fullcount(&["advise", "--revert", "--state", file]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(namespace.reads(), before);
    assert!(!state.exists());
}

#[test]
fn an_interface_that_has_gone_is_told_and_its_values_are_kept() {
    if !may() {
        return;
    }
    let namespace = Namespace::new("gone");
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    let file = state.to_str().unwrap();
    let apply = ["--apply", "--only", "mtu", "--state", file];
    let ask = ["advise", "--size", "8972", "--interface", "adva"];
    let (code, out, err) = namespace.fullcount(&[&ask[..], &apply].concat());
    assert_eq!(code, 0, "{out}{err}");
    namespace.ip(&["link", "del", "adva"]);
    let (code, out, _) = namespace.fullcount(&["advise", "--revert", "--state", file]);
    assert_eq!(code, 1);
    assert!(out.contains("failed") && out.contains("ip link set dev adva mtu 1500"), "{out}");
    assert!(state.exists(), "the next --revert can still do it");
}

#[test]
fn without_the_right_the_commands_are_printed_and_nothing_is_changed() {
    if !may() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state.json");
    // A copy that every user may run, independent of the build folder.
    let program = dir.path().join("fullcount");
    fs::copy(env!("CARGO_BIN_EXE_fullcount"), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path(), open).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut c = Command::new(&program);
        let file = state.to_str().unwrap();
        c.uid(65_534).gid(65_534).current_dir("/").args(arguments).args(["--state", file]);
        let o = c.output().unwrap();
        let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
        (o.status.code().unwrap(), text(o.stdout), text(o.stderr))
    };
    // 10 s of 10 Gbit/s: more than any host allows.
    let ask = ["advise", "--hold", "10s", "--apply", "--only", "net.core.rmem_max"];
    let (code, out, err) = nobody(&ask);
    assert_eq!(code, 1, "{out}{err}");
    assert_eq!(out, "sysctl -w net.core.rmem_max=1073741823\n");
    assert!(err.contains("root"), "{err}");
    let (code, _, err) = nobody(&["advise", "--revert"]);
    assert!(code == 1 && err.contains("sudo fullcount advise --revert"), "{err}");
    // Another test may be changing it meanwhile, but not to that.
    let now = fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    assert!(now.trim() != "1073741823" && !state.exists());
}
