//! The `fullcount` binary: the library with the built-in kinds.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fullcount::run(fullcount::Kinds::builtin(), std::env::args_os())
}
