//! Receivers and senders on real sockets: each file is a module of this one binary.
//!
//! Tests that count the allocations of their process are separate binaries. A test that lacks
//! something on this host prints `skipped: reason`, and fails with CI=true.
#![cfg(target_os = "linux")]

mod habits;
mod interfaces;
mod loopback;
mod raw;
mod raw_streams;
mod raw_units;
mod spead;
mod spead_chunks;
mod spead_differences;
mod spead_feedback;
mod spead_million;
mod spead_streams;
mod spead_ways;
