//! Chunks: payloads of many heaps of one size go straight into large buffers of the user's, with a flag for each.
//!
//! A place function says for each heap which chunk it belongs to and where in it. Chunks leave in the order of their ids.
//! Source: `docs/formats/spead.md`, section 12.

mod group;
mod store;
mod window;

pub use group::{ChunkGroup, ChunkGroupMember, GroupEviction};
pub use store::{
    ChunkConfig, ChunkReceiver, ChunkStore, HeapPlace, PlaceHeap, PlaceRequest, PlacedHeap,
};
pub use window::{Chunk, ChunkMemory, ChunkRing, FilledPart, SharedChunkRing};

#[cfg(test)]
mod tests;
