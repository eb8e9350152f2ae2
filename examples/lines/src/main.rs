//! Fullcount with one more source: packets as lines of hexadecimal text.
#![forbid(unsafe_code)]

mod source;

fn main() -> std::process::ExitCode {
    let mut kinds = fullcount::Kinds::builtin();
    kinds.sources.register(Box::new(source::LineKind));
    fullcount::run(kinds, std::env::args_os())
}
