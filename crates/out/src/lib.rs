//! Fullcount's outputs: NeXus files, the live page, metrics.
//!
//! [`sink`] is the seam; each output is one module behind one feature. Source: `docs/architecture.md`.
#![deny(unsafe_code)]

pub mod sink;
