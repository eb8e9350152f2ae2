//! Fullcount's detectors: readout bytes to events.
//!
//! [`detector`] holds the seam (`Kind`, `Detector`, `Reader`, `Builder`) and the registry; one folder
//! per detector implements it. Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

pub mod detector;
