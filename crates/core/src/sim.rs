//! What a network does to packets, as pure functions of a seed: no socket, no clock.
//!
//! [`Fault`] drops, duplicates and reorders a packet sequence; `send` applies it before
//! segmentation, `io::fault` wraps a source with it, and tests use it on plain numbers. [`Channel`] is one direction of a link:
//! queue, rate, faults, delay; `lab link-emulator` puts real frames through it.

pub mod channel;
pub mod fault;
pub mod spec;

pub use channel::{Channel, ChannelError, ChannelSetup};
pub use fault::{Fault, FaultError, FaultyLine, PacketFate};
pub use spec::{Amount, Spec, SpecError};
