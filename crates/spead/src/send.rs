//! The sending side: heaps in, packets out, in spead2's cut and at its pace. No clock: time comes in with each call.
//!
//! Source: `docs/formats/spead.md`, sections 7 and 13.

mod counts;
mod generator;
mod kept;
mod out_heap;
mod pace;
mod packetise;
mod sender;

pub use counts::{SendCounts, SendError, SendRefusal};
pub use generator::{GenerateError, HeapGenerator, What};
pub use kept::ResendError;
pub use out_heap::{EntryBytes, OutEntry, OutHeap, PayloadParts};
pub use pace::{BurstPacer, PaceSettings};
pub use packetise::{CutRules, PacketCut, PacketError, Packetiser, PayloadSize};
pub use sender::{
    Completion, GroupMode, HeapNumbers, HeapRate, HeapSender, HeapTicket, NextPacket, SendHow,
    SenderConfig,
};

#[cfg(test)]
mod tests;
