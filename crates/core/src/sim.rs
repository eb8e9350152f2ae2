//! What a network does to packets, as pure functions of a seed: no socket, no clock.
//!
//! [`Fault`] drops, duplicates and reorders a packet sequence; `send` applies it before
//! segmentation, `io::fault` wraps a source with it, and tests use it on plain numbers.

pub mod fault;
pub mod spec;

pub use fault::{Action, Fault, FaultError, Line};
pub use spec::{Amount, Spec, SpecError};
