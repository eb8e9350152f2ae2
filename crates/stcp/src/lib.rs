//! The simplified TCP of a one-way link: the sender's state machine, with no clock, no socket, no allocation and no dependency.
//!
//! A sender opens, sends and aborts: three states stand for the eleven of RFC 793 ([`state`]). The receiver is any complete TCP.
//! Time is an argument of every call, ns from any origin; the same calls give the same segments. [`StcpSender`] knows
//! lengths and offsets only: bytes, boundaries of fragments, counters and histograms lie in memory that the caller supplies
//! ([`StcpMemory`]). [`wire`] makes and reads frames, [`receiver`] is a receiver for simulations, [`trace`] a text format
//! that hardware simulators read.
//!
//! No timestamps and no PAWS: at 10 Gb/s sequence numbers repeat every 3.4 s, so a segment that is delayed by more than 3 s
//! may be taken for new data. For a LAN with bounded delay only (RFC 7323 section 5).
//!
//! Refuses: settings out of range ([`settings::SettingsError`]), calls in the wrong state ([`sender::SubmitError`],
//! [`sender::OpenError`]), frames that are not well formed ([`wire::WireError`]).
//! Source: docs/stcp.md; P. Zejdl et al., J. Phys.: Conf. Ser. 513 (2014) 012042; RFC 9293, 6298, 5681, 6582, 5961, 7323.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod congestion;
pub mod counters;
pub mod memory;
pub mod neighbour;
pub mod receiver;
pub mod rtt;
pub mod schedule;
pub mod sender;
pub mod seq;
pub mod settings;
pub mod state;
pub mod trace;
pub mod wire;

pub use congestion::Strategy;
pub use counters::{StcpCounters, StcpHistograms, StcpRange};
pub use memory::{Borrowed, FragmentMark, StcpMemory};
pub use sender::{Accepted, Ended, Notice, Outbound, Pressure, StcpSender, SubmitError};
pub use settings::{Coalescing, StcpSettings};
pub use state::StcpState;
