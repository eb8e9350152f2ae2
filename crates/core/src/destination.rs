//! The seam between a sender and what takes its packets away: `send --to URL`.
//!
//! Simulated packets and captures end in [`Destination::send`]; what is in front cannot tell sockets, byte streams and files apart except by
//! [`Destination::lossless`]. How one comes to be opened, from its URL on, is said by its [`kind`]; all of a process stand in
//! [`registry`]. It is the counterpart of [`crate::source`]. Source: `docs/architecture.md`, "Seams".

pub mod kind;
pub mod registry;

use std::sync::Arc;

use crate::batch::Batch;
use crate::ledger::Sheet;
use crate::link::Wire;

pub use kind::{DestinationEndpoint, DestinationKind, DestinationOpening, PacketNumbers};
pub use registry::Destinations;

/// A destination that could not be opened or that failed for good; the sentence names the endpoint and the system's words.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DestinationError(#[from] Box<dyn std::error::Error + Send + Sync>);

impl DestinationError {
    /// Of an error that names its endpoint.
    pub fn of(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DestinationError {
        DestinationError(cause.into())
    }
}

/// What has left to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Departed {
    /// Datagrams, frames or messages that left: what the destination's protocol counts.
    pub datagrams: u64,
    /// Packets that were given and did not leave because the system refused them for good.
    pub failed: u64,
    /// System calls that were answered with something taken.
    pub calls: u64,
}

/// How often and how long a destination told its source to hold, although it could have taken more; and how soon the source saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldBack {
    /// Times that it said so.
    pub times: u64,
    /// From saying so to taking it back, ns in all.
    pub time_ns: u64,
    /// Of these times, those that the source saw. It looks when it has something to send: what was taken back before that it did not see.
    pub seen: u64,
    /// From saying so to the source's first look at it, ns: half of those that were seen took no longer.
    pub seen_after_median_ns: u64,
    /// The same: 99 of a hundred took no longer.
    pub seen_after_p99_ns: u64,
    /// The same: the longest.
    pub seen_after_most_ns: u64,
}

/// A part of a destination that goes its own way: one connection of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationPart {
    /// As people tell it from the others.
    pub name: String,
    /// Why it ended while the others went on.
    pub ended: Option<String>,
    /// What was measured of it; names end in their unit where they have one.
    pub values: Vec<(&'static str, u64)>,
}

/// Takes packets away. Opened by [`DestinationEndpoint::open`].
pub trait Destination: Send {
    /// Sends `bytes` as packets of `stride` bytes, the last may be shorter; with `stride` 0 as one packet. Returns when the bytes may
    /// be reused; waits while the other side or the system takes nothing, for as long as the endpoint allows.
    ///
    /// # Errors
    /// Some packets were not sent and are in [`Departed::failed`]. It may be tried again with the next ones.
    fn send(&mut self, bytes: &[u8], stride: usize) -> Result<(), DestinationError>;

    /// Sends all trains of a batch, packet by packet as they are.
    ///
    /// # Errors
    /// As [`Destination::send`].
    fn send_batch(&mut self, batch: &Batch) -> Result<(), DestinationError> {
        batch.trains().try_for_each(|train| self.send(train.bytes, train.stride))
    }

    /// Nothing more comes: what waits leaves, and the other side is told where the protocol has a word for it. Called once.
    ///
    /// # Errors
    /// What waited did not leave.
    fn finish(&mut self) -> Result<(), DestinationError> {
        Ok(())
    }

    /// What has left so far.
    fn departed(&self) -> Departed;

    /// How often and how long [`Destination::send`] waited because the other side asked for it; `None` where nobody can ask.
    fn held(&self) -> Option<HeldBack> {
        None
    }

    /// True if what was sent arrives, or sending fails.
    fn lossless(&self) -> bool;

    /// Bits of link time of one packet of `payload` bytes.
    fn wire_bits(&self, payload: usize) -> u64 {
        Wire::usual(false, payload).bits(payload)
    }

    /// Its parts, as they were at its end; empty where it has none.
    fn parts(&self) -> Vec<DestinationPart> {
        vec![]
    }

    /// This destination's counters.
    fn sheet(&self) -> Arc<Sheet>;

    /// For people, one fact a line: address, buffers, engine.
    fn describe(&self) -> Vec<String>;
}
