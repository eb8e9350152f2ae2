//! Fullcount with one more output: events of each pulse, counted, as lines of text.
#![forbid(unsafe_code)]

mod output;

fn main() -> std::process::ExitCode {
    let mut kinds = fullcount::Kinds::builtin();
    kinds.outputs.register(Box::new(output::PulseLines));
    fullcount::run(kinds, std::env::args_os())
}
