//! SPEAD heaps over sockets, captures and memory: what [`fullcount_spead`] says, done with system calls.
//!
//! Reading order: [`url`] (endpoints), [`intake`] (many readers into one receive stream), [`tcp`] (byte streams, framed as packets or as
//! whole heaps), [`outlet`] (a send stream and its ways out), [`back`] (reports, re-requests and totals over UDP), [`heaps`] (a sender of test
//! heaps, whose values can be checked), [`carrier`] and [`carry`] (datagrams of any readout in heaps, as a source and as a destination).
//! ibverbs is not there: it needs a card that the project cannot test with. Source: `docs/formats/spead.md`, sections 9, 13 and 14.

pub mod back;
pub mod carrier;
pub mod carry;
mod handed;
pub mod heaps;
pub mod intake;
mod link;
pub mod outlet;
mod spread;
mod taking;
pub mod tcp;
mod train;
pub mod url;
mod way;

pub use back::{BackChannel, BackError, SenderSide};
pub use carrier::{CarrierCounter, SpeadKind};
pub use carry::SpeadDestination;
pub use heaps::{HeapsJob, HeapsSent, TestValues};
pub use intake::{Arrived, IntakeCounter, IntakeStep, SpeadIntake};
pub use outlet::{OutletError, Pumped, SpeadOutlet, TransportCount};
pub use tcp::{TcpIntake, TcpIntakeOptions};
pub use url::{
    ItemChoice, SpeadFraming, SpeadInput, SpeadOutput, SpeadTransport, SpeadUrl, end_when_stalled,
};
