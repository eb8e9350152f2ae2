//! Fullcount's detectors: readout bytes to events.
//!
//! [`detector`] holds the kinds of this crate and those of the process; one folder per detector implements the seam of
//! [`fullcount_core::detector`], most of them in two [`steps`] with [`hits`] between them. [`geometry`] says where pixels are;
//! [`cluster`] joins hits that belong together; [`parallel`] holds the threads of builders that are exact on several; [`pulses`] gives events the pulse that they came from;
//! [`conformance`] is the suite that every detector must pass, also those outside this crate.
//! Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

/// What decoders of this crate are compiled for, and the choice among it.
pub use fullcount_instructions as instructions;

pub use fullcount_core::detector::{conformance, sample};

pub mod cluster;
pub mod detector;
pub mod fragments;
pub mod gdgem;
pub mod geometry;
pub mod heap;
pub mod hits;
pub mod listed;
pub mod multiblade;
pub mod multigrid;
mod oldest;
pub mod parallel;
pub mod pulses;
mod repeat;
pub mod sequence;
pub mod sonde;
pub mod steps;
pub mod thresholds;

#[cfg(test)]
mod alone;
#[cfg(test)]
mod every_kind_tests;
