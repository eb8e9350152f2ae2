//! Common parts of tests of several crates: network namespaces, failing disks, synthetic events, Python. Not part of
//! the program.
//!
//! If a host lacks something, a test prints `skipped: reason`, and fails with `CI=true`. Source: `docs/testing.md`.
#![allow(missing_docs, reason = "only tests use it")]
#![forbid(unsafe_code)]

pub mod made_events;
pub mod python;
#[cfg(target_os = "linux")]
pub mod small_disk;
#[cfg(target_os = "linux")]
pub mod veth;
