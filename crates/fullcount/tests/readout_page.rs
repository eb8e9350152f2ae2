//! The live page of a readout unit in a real browser: `tests/browser/readout.py` plays the senders and looks at what an operator needs.
//!
//! Source: `docs/fragments.md`, `docs/page.md`.

use std::path::Path;
use std::process::Command;

use crate::python;
use crate::service::browser;

#[test]
fn a_browser_shows_sources_that_are_missing_stalled_or_throttling_in_red() {
    let (Some(browser), Some(python)) = (browser(), python::interpreter()) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser/readout.py");
    let mut look = Command::new(python);
    look.arg(script).arg("--browser").arg(browser);
    if let Some(folder) = std::env::var_os("FULLCOUNT_SHOTS") {
        look.arg("--shots").arg(folder);
    }
    look.args(["--", env!("CARGO_BIN_EXE_fullcount"), "run", "--source", "tcp://127.0.0.1:0"]);
    look.args(["--detector", "fragments", "--sink", "null", "--web", "127.0.0.1:0"]);
    look.args(["--set", "detector.sources=4"]);
    let said = look.output().expect("Python runs");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(said.status.success(), "{}\n{}", text(&said.stdout), text(&said.stderr));
    let right = "the page of the readout unit is right";
    assert!(text(&said.stdout).contains(right), "{}", text(&said.stdout));
}
