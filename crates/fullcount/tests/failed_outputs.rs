//! An output that fails while the run continues: red on the page, in the metrics and in the summary, with its reason.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::service::{PATIENCE, Service, answer, fullcount, get, seen_by_a_browser};
use serde_json::Value;

/// A disk of this many bytes, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if nothing may be mounted, which is printed, and fails with CI=true.
    fn mount(at: PathBuf, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir(&at).expect("a folder");
        let option = format!("size={size}");
        let mut mount = Command::new("mount");
        let made = mount.args(["-t", "tmpfs", "-o", &option, "tmpfs"]).arg(&at).output();
        let reason = match made {
            Ok(out) if out.status.success() => return Some(SmallDisk(at)),
            Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_owned(),
            Err(e) => e.to_string(),
        };
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        println!("skipped: a full disk needs root and mount: {reason}");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Waits until the metrics say that an output has failed.
fn wait_for_failure(page: &str, output: &str) -> String {
    let (begun, want) = (std::time::Instant::now(), format!("output=\"{output}\"}} 1"));
    loop {
        let text = get(page, "/metrics");
        let mut lines = text.lines().filter(|l| l.starts_with("fullcount_output_failed"));
        if lines.any(|l| l.ends_with(&want)) {
            return text;
        }
        assert!(begun.elapsed() < PATIENCE, "{output} has not failed: {text}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// A live run with `flags`, whose output must fail when its disk is full, and the expected reports.
fn fails(disk: &Path, output: &str, flags: &[&str], data: (&str, &[&str])) {
    let (detector, of_detector) = data;
    let run = ["run", "--source", "udp://127.0.0.1:0", "--detector", detector];
    let more = ["--web", "127.0.0.1:0", "--json"];
    let mut run = Service::start(&[&run[..], of_detector, &more, flags].concat());
    let (page, port) = (run.page(), run.udp_port());
    let fine = get(&page, "/metrics");
    assert!(fine.contains(&format!("fullcount_output_failed{{output=\"{output}\"}} 0")), "{fine}");
    assert_eq!(get(&page, "/readyz").trim(), "ok");
    let to = format!("udp://127.0.0.1:{port}");
    let send = ["send", "--to", &to, "--source", detector, "--rate", "5kpps", "--duration", "60s"];
    let mut send = fullcount(&send);
    let quiet = || std::process::Stdio::null();
    let mut send = send.stdout(quiet()).stderr(quiet()).spawn().expect("a sender");
    let metrics = wait_for_failure(&page, output);
    // The page is another output, and works.
    assert!(metrics.contains("fullcount_output_failed{output=\"live\"} 0"), "{metrics}");
    let (status, reason) = answer(&page, "/readyz");
    let named = format!("output {output} has failed: ");
    assert!(status.contains(" 503 ") && reason.starts_with(&named), "{status}: {reason}");
    assert_eq!(get(&page, "/healthz").trim(), "ok");
    let state: Value = serde_json::from_str(&get(&page, "/api/state")).unwrap();
    if let Some(shown) =
        Some(()).filter(|()| output == "nexus").and_then(|()| seen_by_a_browser(&page))
    {
        let badge = shown.split("id=\"state\"").nth(1).unwrap_or_else(|| panic!("{shown}"));
        let badge = badge.split("</span>").next().unwrap();
        assert!(badge.contains("pill bad") && badge.contains("Output failed"), "{badge}");
        assert!(shown.contains("Output nexus has failed"), "{shown}");
    }
    send.kill().expect("stopped");
    send.wait().expect("a child");
    let failed = &state["outputs_failed"][0];
    assert_eq!(failed["name"], output, "{state}");
    let reason = failed["reason"].as_str().expect("a reason");
    assert!(reason.contains("No space left on device"), "{output}: {reason}");
    run.interrupt();
    let said = run.end();
    assert_eq!(said.code, 3, "{output}: {}", said.err);
    let s = said.summary();
    let told = s["outputs"][output]["failure"].as_str().unwrap_or_else(|| panic!("{s}"));
    assert!(told.contains("No space left on device"), "{told}");
    assert!(said.err.contains(&format!("{output} failed: ")), "{}", said.err);
    assert_eq!(said.err.matches(&format!("fullcount: output {output}")).count(), 1);
    assert_eq!(s["balance"], 0, "{}", disk.display());
}

#[test]
fn a_full_disk_is_red_for_the_events_file_the_tables_and_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    for (output, file, flag) in [
        ("nexus", "run.nxs", "--nexus"),
        ("hits", "hits.h5", "--hits"),
        ("clusters", "clusters.h5", "--clusters"),
        ("capture", "run.pcapng", "--capture"),
    ] {
        let at = folder.path().join(output);
        let Some(disk) = SmallDisk::mount(at.clone(), "3m") else { return };
        let path = at.join(file).display().to_string();
        let tables = ["hits", "clusters"].contains(&output);
        let data = if tables { ("gdgem", &[][..]) } else { ("sonde", &["--tick", "1ns"][..]) };
        fails(&disk.0, output, &[flag, &path], data);
    }
}
