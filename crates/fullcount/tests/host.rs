//! Scenarios that set something for the whole host, or read what the whole host counts: nothing else may run at the
//! same time. Each file is a module, as in `main.rs`.
//!
//! `cargo test` runs one binary after the other, and `cargo xtask test` runs these alone, at the end. A test that lacks
//! something on this host prints `skipped: reason`, and fails with CI=true.
//!
//! Source: docs/testing.md.

// What both use.
#[cfg(target_os = "linux")]
mod places_net;
mod service;

mod advise_root;
mod places;
