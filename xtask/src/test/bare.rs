//! The program without the features that need a C library or a runtime: builds, runs, and refuses by name what it lacks.
//!
//! Refuses a build that brings one of these in after all. Source: docs/architecture.md, "The house".

use std::path::Path;
use std::process::Command;

use super::{Host, rust};
use crate::command::Job;
use crate::place;
use crate::tally::Tally;

/// Folder below the target directory: the build must not replace the whole program.
pub const FOLDER: &str = "bare";

/// What the features bring: C libraries and a runtime.
const HEAVY: [&str; 4] = ["rdkafka-sys", "hdf5-metno-sys", "tokio", "axum"];

/// What is refused, and the feature that is named.
const REFUSED: [(&[&str], &str); 10] = [
    (&["run", "--nexus", "x.nxs"], "nexus"),
    (&["run", "--set", "output.nexus.path=x.nxs"], "nexus"),
    (&["run", "--kafka", "kafka://localhost/x"], "kafka"),
    (&["run", "--set", "output.kafka.brokers=localhost"], "kafka"),
    (&["run", "--web", "127.0.0.1:0"], "web"),
    (&["run", "--set", "web.listen=127.0.0.1:0"], "web"),
    (&["recover", "x.nxs"], "nexus"),
    (&["write", "--brokers", "localhost"], "write"),
    (&["send", "--to", "kafka://localhost/x", "--source", "logs"], "kafka"),
    (&["lab", "bench", "kafka"], "kafka"),
];

pub fn check(_: &Host) -> Tally {
    let mut tally = match heavy() {
        Ok(found) if found.is_empty() => Tally::pass(),
        Ok(found) => Tally::fail(format!("--no-default-features builds {}", found.join(", "))),
        Err(error) => Tally::fail(error),
    };
    let folder = place::target().join(FOLDER);
    // It decodes one capture: what optimising takes is not gained again.
    let end = Job::cargo(&["build", "--package", "fullcount", "--bin", "fullcount"])
        .args(["--no-default-features", "--target-dir"])
        .args([&folder])
        .args(["--config", "profile.dev.opt-level=0", "--config", "profile.dev.debug=false"])
        .env("RUSTFLAGS", "-D warnings")
        .run();
    tally += rust::check("cargo build --no-default-features", &end);
    if !end.ok {
        return tally;
    }
    let program = folder.join("debug/fullcount");
    let capture = place::root().join("vectors/pcap/udp_capture.pcap").display().to_string();
    let source = format!("pcap:{capture}?flat-out");
    // 3: it is the capture of something else.
    tally += said(&program, &["run", "--source", &source, "--sink", "null"], &[0, 3], "balance");
    for (words, feature) in REFUSED {
        tally += said(&program, words, &[2], &format!("made without the feature `{feature}`"));
    }
    tally
}

/// What must not be built, and is.
fn heavy() -> Result<Vec<&'static str>, String> {
    let words = ["tree", "--package", "fullcount", "--no-default-features", "--offline"];
    let out = Command::new("cargo")
        .args(words)
        .args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .current_dir(place::root())
        .output()
        .map_err(|e| format!("cargo tree: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    if !names.contains(&"fullcount-core") {
        return Err("cargo tree names no crate of ours".to_owned());
    }
    Ok(HEAVY.into_iter().filter(|name| names.contains(name)).collect())
}

/// The program ends with one of the codes and says the words.
fn said(program: &Path, arguments: &[&str], codes: &[i32], words: &str) -> Tally {
    let shown = arguments.join(" ");
    let out = match Command::new(program).args(arguments).output() {
        Ok(out) => out,
        Err(e) => return Tally::fail(format!("{}: {e}", program.display())),
    };
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let code = out.status.code();
    match code.is_some_and(|code| codes.contains(&code)) && text.contains(words) {
        true => Tally::pass(),
        false => Tally::fail(format!("bare fullcount {shown}: {code:?}: {text}")),
    }
}
