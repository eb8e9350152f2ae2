//! `fullcount --version --verbose`: what this binary is, and what it uses of the processor that it runs on.
//!
//! Looked for before the flags are read, because `--version` alone ends the program where it stands.

use std::ffi::OsString;

use fullcount_detect::instructions::{Instructions, available};
use fullcount_lab::detectors::campaign::features;

/// True for `--version` (or `-V`) and `--verbose`, in any order and with nothing else.
pub fn is_asked_for(arguments: impl Iterator<Item = OsString>) -> bool {
    let (mut version, mut verbose) = (false, false);
    for argument in arguments {
        match argument.to_str() {
            Some("--version" | "-V") => version = true,
            Some("--verbose") => verbose = true,
            _ => return false,
        }
    }
    version && verbose
}

/// Several lines: a name, a colon and a value each, behind that of `--version`.
pub fn text() -> String {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let all: Vec<&str> = available().map(Instructions::name).collect();
    format!(
        "fullcount {}\nsystem: {system}, {processor}\nbuild: {}\ninstructions: {} (this processor has {}; \
         engine.instructions chooses)\n",
        env!("CARGO_PKG_VERSION"),
        features(),
        Instructions::default(),
        all.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_for_in_any_order_and_alone() {
        let asked = |words: &str| is_asked_for(words.split_whitespace().map(OsString::from));
        assert!(asked("--version --verbose") && asked("--verbose -V"));
        for other in ["", "--version", "--verbose", "run --version --verbose", "--verbose --help"] {
            assert!(!asked(other), "{other}");
        }
    }
}
