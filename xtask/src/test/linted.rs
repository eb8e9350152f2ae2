//! Clippy's lints on what is compiled anyway: its driver is the compiler of the workspace's crates, which are so read once, and what
//! they use is not read a second time for lints alone.
//!
//! A lint never stops the build, whatever its level: tests run beside a warning, and the step `clippy` fails for it. The driver
//! compiles without rustc's own optimisation (of MIR), which lints must not see; LLVM's is as asked for. Refuses nothing: without
//! the driver the usual compiler builds, and the step `clippy` looks for itself.
//!
//! Source: the cargo book, `RUSTC_WORKSPACE_WRAPPER`, and "External tools", "JSON messages" (`compiler-message`); clippy's
//! `cargo clippy` for the form of `CLIPPY_ARGS`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::command::Job;
use crate::place;
use crate::tally::Tally;

/// What follows each argument in `CLIPPY_ARGS`.
const NEXT: &str = "__CLIPPY_HACKERY__";

/// Clippy's driver of the toolchain that builds, if it is installed.
fn driver() -> Option<&'static PathBuf> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            let mut rustc = Command::new("rustc");
            rustc.args(["--print", "sysroot"]).current_dir(place::root());
            let said = rustc.output().ok()?;
            let sysroot = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
            Some(sysroot.join("bin/clippy-driver")).filter(|path| path.is_file())
        })
        .as_ref()
}

/// The job of cargo, with lints on what it compiles of the workspace.
///
/// All jobs that use the same target directory must have it, else each compiles the workspace's crates for itself.
pub fn by_clippy(job: Job) -> Job {
    let Some(driver) = driver() else { return job };
    let arguments = ["--cap-lints", "warn"].map(|argument| format!("{argument}{NEXT}"));
    job.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", arguments.concat())
}

/// What lints said while cargo built; cargo says it again for what was built before.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lints {
    warnings: u32,
    errors: u32,
    /// Texts for people. Of a library and of its unit tests they are the same.
    said: Vec<String>,
}

impl Lints {
    /// Looks at one message of cargo; gives the text for people if it is one of the compiler that was not there before.
    pub fn read(&mut self, message: &Value) -> Option<String> {
        if message["reason"] != "compiler-message" {
            return None;
        }
        let message = &message["message"];
        let text = message["rendered"].as_str()?.trim_end().to_owned();
        if self.said.contains(&text) {
            return None;
        }
        self.said.push(text.clone());
        // Last the compiler says how many it has said.
        let counts = message["message"].as_str().is_some_and(|text| text.ends_with(" emitted"));
        match message["level"].as_str().filter(|_| !counts) {
            Some("warning") => self.warnings += 1,
            Some("error") => self.errors += 1,
            _ => {}
        }
        Some(text)
    }

    /// What the step comes to; nothing without the driver: then nobody has linted.
    pub fn tally(&self) -> Option<Tally> {
        driver()?;
        let Lints { warnings, errors, .. } = self;
        Some(match warnings + errors {
            0 => Tally::pass(),
            _ => Tally::fail(format!("clippy: {warnings} warnings, {errors} errors in the build")),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warnings_and_errors_of_the_compiler_are_counted_and_shown() {
        let of = |level: &str| {
            let message = json!({"level": level, "rendered": format!("{level}: x\n\n")});
            json!({"reason": "compiler-message", "message": message})
        };
        let mut lints = Lints::default();
        assert_eq!(lints.read(&json!({"reason": "compiler-artifact"})), None);
        assert_eq!(lints.read(&of("warning")), Some("warning: x".to_owned()));
        assert_eq!(lints.read(&of("error")), Some("error: x".to_owned()));
        assert_eq!(lints.read(&of("failure-note")), Some("failure-note: x".to_owned()));
        assert_eq!(lints.read(&of("warning")), None, "said before");
        assert_eq!((lints.warnings, lints.errors), (1, 1));
        // The toolchain of this workspace has clippy.
        let failed = lints.tally().unwrap().failed;
        assert_eq!(failed, ["clippy: 1 warnings, 1 errors in the build"]);
        assert_eq!(Lints::default().tally(), Some(Tally::pass()));
    }

    #[test]
    fn a_lint_that_is_denied_fails_the_step_and_not_the_build() {
        let folder = std::env::temp_dir().join(format!("fullcount-linted-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = "[package]\nname = \"linted\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                        [lints.clippy]\nneedless_return = \"deny\"\n[workspace]\n";
        std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        std::fs::write(folder.join("src/lib.rs"), "pub fn a() -> u8 {\n    return 1;\n}\n")
            .unwrap();
        let build = || {
            let (mut lints, mut shown) = (Lints::default(), String::new());
            let job = Job::cargo(&["build", "--offline", "--message-format=json"]);
            let job = job.folder(&folder).env("CARGO_TARGET_DIR", folder.join("target"));
            let end = by_clippy(job).run_silently(|line| {
                let message = serde_json::from_str(line).unwrap_or_default();
                shown += &lints.read(&message).unwrap_or_default();
                crate::command::Show::No
            });
            (end.ok, lints, shown)
        };
        // The second time cargo compiles nothing, and says the same.
        let both = [build(), build()];
        std::fs::remove_dir_all(&folder).unwrap();
        for (ok, lints, shown) in both {
            assert!(ok && shown.contains("unneeded `return` statement"), "{shown}");
            assert_eq!((lints.warnings, lints.errors), (1, 0));
        }
    }
}
