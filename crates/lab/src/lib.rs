//! Fullcount's measuring testbed: simulated detectors ([`traffic`]), measuring campaigns that run
//! the binary as child processes ([`child`], [`campaign`]) here, in namespaces of their own ([`namespace`]) or on another host
//! ([`agent`]), the rate without loss ([`lossless`]), detectors beside the published figures ([`detectors`]), peers
//! ([`peers`]), an emulated link ([`emulator`]), how near two
//! cores are ([`cores`]), what one spends its time on ([`profile`]), figures ([`plot`]), the files that keep results
//! ([`record`]), bytes a second to a broker or a disk ([`streaming`]), what was simulated ([`truth_file`]), what limits a
//! rate on a host ([`advise`]), what an instrument needs ([`capacity`]), how many simulated neutrons a decoder finds
//! ([`truth`]), and benches of our own parts ([`bench`]).
//!
//! The encoders here share no code with the decoders in `detect`: both follow the format documents,
//! so that a mistake in one shows in the other. Refuses: whatever each module names in its error
//! enum. Source: `docs/architecture.md`, `docs/formats/sonde.md`.
#![forbid(unsafe_code)]

pub mod advise;
pub mod agent;
pub mod bench;
pub mod campaign;
pub mod capacity;
pub mod child;
pub mod cores;
pub mod detectors;
pub mod emulator;
pub mod error;
pub mod lossless;
pub mod namespace;
pub mod peers;
pub mod plot;
pub mod profile;
pub mod record;
pub mod send;
pub mod streaming;
pub mod traffic;
pub mod truth;
pub mod truth_file;

/// Takes lines of progress, for a person.
pub type Tell = fn(&str);
