//! Simulated detectors: numbered packets whose truth is known.
//!
//! The trait is in [`fullcount_core::simulator`]; one folder per detector implements it, with its packets, its wiring
//! and what `demo` and `lab` need to know of it. [`registered`] are the kinds of this process. Encoders share no code
//! with the decoders of `detect`.
#![forbid(unsafe_code)]

pub mod fragments;
pub mod gdgem;
pub mod heap;
pub mod multiblade;
pub mod multigrid;
pub mod noise;
mod orders;
mod random;
#[cfg(test)]
mod real_time_tests;
mod registry;
pub mod scattering;
pub mod sequence;
pub mod sonde;
mod tape;

pub use fullcount_core::simulator::{
    PreparedPackets, ReadyPackets, Traffic, TrafficError, TrafficTotals, made,
};
pub use random::{Random, splitmix};
pub use registry::{TooLate, builtin, register_all, registered};
pub use sonde::panel;
