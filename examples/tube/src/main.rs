//! Fullcount with one more detector: position-sensitive tubes.
//!
//! The format, invented for this example, little-endian: `TUBE`, pulse time u64 in ns since 1970, then readouts of 8 bytes:
//! tube u16 from 0, position u16 of 0 to 63 along it, time u32 in ns after the pulse.
#![forbid(unsafe_code)]

mod decoder;
mod simulator;

fn main() -> std::process::ExitCode {
    let mut kinds = fullcount::Kinds::builtin();
    kinds.detectors.register(Box::new(decoder::Tube));
    kinds.simulators.register(Box::new(simulator::TubeSimulator));
    fullcount::run(kinds, std::env::args_os())
}
