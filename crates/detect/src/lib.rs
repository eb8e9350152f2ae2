//! Fullcount's detectors: readout bytes to events.
//!
//! [`detector`] holds the seam (`Kind`, `Detector`, `Reader`, `Builder`) and the registry; one folder
//! per detector implements it: [`sonde`], [`multigrid`], [`multiblade`], [`gdgem`], [`sequence`]. [`geometry`] says where pixels
//! are;
//! [`cluster`] joins hits that belong together; [`parallel`] holds the threads of builders that are exact on several; [`pulses`] gives events the pulse that they came from;
//! [`conformance`] is the suite that every detector must pass, also those outside this crate.
//! Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

/// What decoders of this crate are compiled for, and the choice among it.
pub use fullcount_instructions as instructions;

pub mod cluster;
pub mod conformance;
pub mod detector;
pub mod gdgem;
pub mod geometry;
pub mod listed;
pub mod multiblade;
pub mod multigrid;
pub mod parallel;
pub mod pulses;
pub mod sequence;
pub mod sonde;
