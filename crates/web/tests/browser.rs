//! The live page in a real browser: `tests/browser/page.py` and `projections.py` of the workspace check it.
//!
//! The page runs in a copy of this test, so that its end can be seen as well. Skips without Chromium or Python 3; with
//! `CI=true` that is a failure.

#[allow(dead_code, reason = "the example's main is not called here")]
#[path = "../examples/page.rs"]
mod page;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

const CHILD: &str = "FULLCOUNT_PAGE_CHILD";

/// True if there is such a program and it starts.
fn starts(program: &OsString) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// Program named by the environment, or the first of `names` that starts.
fn program(variable: &str, names: &[&str]) -> Option<OsString> {
    let named = std::env::var_os(variable).into_iter();
    named.chain(names.iter().map(OsString::from)).find(starts)
}

/// Serves the page of `made` in a copy of the test `name`, and lets `script` look at it.
fn look(name: &str, script: &str, made: page::detectors::Made, arguments: &[&str]) {
    if std::env::var_os(CHILD).is_some() {
        // Longer than the check's patience; the check ends this process.
        page::show("127.0.0.1:0".parse().unwrap(), 300, true, made).unwrap();
        return;
    }
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let browser = program("FULLCOUNT_BROWSER", &names);
    let python = program("FULLCOUNT_PYTHON", &["python3", "python"]);
    let (Some(browser), Some(python)) = (&browser, &python) else {
        let missing = if browser.is_none() { "Chromium" } else { "Python 3" };
        println!("skipped: {missing} is not installed");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI needs {missing}");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
    let output = Command::new(python)
        .arg(folder.join(script))
        .args(arguments)
        .arg("--browser")
        .arg(browser)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    println!("{text}");
}

#[test]
fn a_browser_shows_the_page_and_asks_nobody_else() {
    let name = "a_browser_shows_the_page_and_asks_nobody_else";
    look(name, "page.py", page::detectors::Made::Flat, &[]);
}

#[test]
fn a_browser_shows_projections_of_a_deep_detector() {
    let name = "a_browser_shows_projections_of_a_deep_detector";
    look(name, "projections.py", page::detectors::Made::Deep, &["--detector", "deep"]);
}

#[test]
fn a_browser_shows_unfolded_cassettes() {
    let name = "a_browser_shows_unfolded_cassettes";
    look(name, "projections.py", page::detectors::Made::Blades, &["--detector", "blades"]);
}

#[test]
fn a_browser_shows_single_events() {
    let name = "a_browser_shows_single_events";
    look(name, "projections.py", page::detectors::Made::Strips, &["--detector", "strips"]);
}

#[test]
fn a_browser_lays_a_high_picture_down() {
    let name = "a_browser_lays_a_high_picture_down";
    look(name, "projections.py", page::detectors::Made::Stack, &["--detector", "stack"]);
}
