//! SPEAD over byte streams, without the connection.
//!
//! Two ways: [`PacketStream`] takes the form that spead2 speaks, packets back to back; [`HeapStream`] takes whole heaps, each
//! one packet of any length, whose payload goes straight into the heap's memory.

mod heaps;
mod live_memory;
mod packets;
mod resync;

pub use heaps::{HeapStream, HeapStreamCounts};
pub use live_memory::LiveMemory;
pub use packets::{PacketStream, PacketStreamCounts};
