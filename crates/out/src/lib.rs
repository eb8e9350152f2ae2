//! Fullcount's outputs: NeXus files, Kafka with its spool, the live page, metrics.
//!
//! [`sink`] is the seam; each output is one module behind one feature. Source: `docs/architecture.md`.
#![deny(unsafe_code)]

pub mod flat;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod live;
#[cfg(feature = "nexus")]
pub mod nexus;
pub mod null;
pub mod prometheus;
pub mod sink;
#[cfg(unix)]
pub mod spool;
#[cfg(feature = "tables")]
pub mod tables;
pub mod write;
