//! The receiving side: packets in, heaps out. No clock: time comes in with each call.
//!
//! Source: `docs/formats/spead.md`, sections 8, 10 and 11.

mod again;
mod config;
mod counters;
mod heap;
mod live;
mod loss;
mod memory;
mod presence;
mod receiver;
mod recent;
mod statistics;
mod store;

pub use again::Unfit;
pub use config::{NumberSequence, OnIncomplete, ReceiverConfig};
pub use counters::{Outcome, Refused, SpeadCounter};
pub use heap::{Heap, HeapItem, IncompleteHeap, ItemValue};
pub use live::{Arrival, HeapEnd};
pub use loss::{Losses, SenderTotals};
pub use memory::{HeapBytes, HeapMemory, MemoryPool, PayloadCopy, PlainMemory};
pub use presence::{Added, PresenceMap};
pub use receiver::{AheadRoom, HeapReceiver, StreamEnd, StreamReceiver};
pub use statistics::{StatisticMode, StreamStatistics, UserStatistic};
pub use store::{Delivery, HeapStore, Store};

#[cfg(test)]
mod tests;
