//! Fullcount's measuring testbed: simulated detectors ([`traffic`]), measuring campaigns that run
//! the binary as a child process ([`sweep`]), the files that keep their results ([`record`]), and what
//! limits a rate on a host ([`advise`]).
//!
//! The encoders here share no code with the decoders in `detect`: both follow the format documents,
//! so that a mistake in one shows in the other. Refuses: whatever each module names in its error
//! enum. Source: `docs/architecture.md`, `docs/formats/sonde.md`.
#![forbid(unsafe_code)]

pub mod advise;
pub mod record;
pub mod send;
pub mod sweep;
pub mod traffic;
