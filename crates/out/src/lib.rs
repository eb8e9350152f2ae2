//! Fullcount's outputs: NeXus files, the live page, metrics.
//!
//! [`sink`] is the seam; each output is one module behind one feature. Source: `docs/architecture.md`.
#![deny(unsafe_code)]

pub mod live;
#[cfg(feature = "nexus")]
pub mod nexus;
pub mod null;
pub mod prometheus;
pub mod sink;
#[cfg(feature = "tables")]
pub mod tables;
