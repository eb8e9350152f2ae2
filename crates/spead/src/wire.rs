//! What stands in a packet: flavour, header, item pointers, and the reader that takes a packet apart.
//!
//! Source: `docs/formats/spead.md`, sections 2 and 3.

mod flavour;
mod follower;
mod packet;

pub use flavour::{Flavour, FlavourError, ItemPointer, control, id};
pub(crate) use follower::Follower;
pub use packet::{Malformed, SpeadPacket, header, prefix_of, size_of};

/// Bytes of a packet's header.
pub const HEADER_BYTES: usize = 8;
/// Bytes of an item pointer.
pub const POINTER_BYTES: usize = 8;
/// Header and the four pointers that every packet has.
pub const PREFIX_BYTES: usize = HEADER_BYTES + 4 * POINTER_BYTES;
/// Least size of a packet that a sender may be asked for: prefix, one pointer, 8 bytes of payload.
pub const LEAST_PACKET: usize = 56;
