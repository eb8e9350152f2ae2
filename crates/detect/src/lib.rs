//! Fullcount's detectors: readout bytes to events.
//!
//! [`detector`] holds the seam (`Kind`, `Detector`, `Reader`, `Builder`) and the registry; one folder
//! per detector implements it: [`sonde`], [`sequence`]. [`geometry`] says where pixels are;
//! [`conformance`] is the suite that every detector must pass, also those outside this crate.
//! Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod detector;
pub mod geometry;
pub mod sequence;
pub mod sonde;
