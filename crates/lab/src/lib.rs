//! Fullcount's measuring testbed: measuring campaigns that run
//! the binary as child processes ([`fullcount_child`], [`campaign`]) here, in namespaces of their own ([`namespace`]) or on another host
//! ([`agent`]), the rate without loss ([`lossless`]), detectors beside the published figures ([`detectors`]), peers
//! ([`peers`]), an emulated link ([`emulator`]), how near two
//! cores are ([`cores`]), what one spends its time on ([`profile`]), figures ([`plot`]), the files that keep results
//! ([`record`]), bytes a second to a broker or a disk ([`streaming`]), what `send` sends ([`send`]) and publishes (`publish`), what was simulated ([`truth_file`]), what limits a
//! rate on a host ([`advise`]), what an instrument needs ([`capacity`]), how many simulated neutrons a decoder finds
//! ([`truth`]), several senders of the simplified TCP in a simulated network ([`stcp`]), and benches of our own parts ([`bench`]).
//!
//! Refuses: whatever each module names in its error
//! enum. Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

pub mod advise;
pub mod agent;
pub mod bench;
pub mod campaign;
pub mod capacity;
pub mod cores;
pub mod detectors;
pub mod emulator;
pub mod error;
pub mod lossless;
pub mod namespace;
pub mod peers;
pub mod plot;
pub mod profile;
#[cfg(feature = "kafka")]
pub mod publish;
pub mod record;
pub mod send;

pub mod spead;
pub mod stcp;
pub mod streaming;
pub mod truth;
pub mod truth_file;

/// Takes lines of progress, for a person.
pub type Tell = fn(&str);
