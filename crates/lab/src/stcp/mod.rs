//! The simplified TCP in a network that exists in memory only: several senders, one port with a finite queue, and what then happens.
//!
//! The senders are those of `fullcount-stcp`, the queue and the links [`fullcount_core::sim::Channel`]; time is a number, and
//! the same seed gives the same segments. [`congestion`] runs the experiment of P. Zejdl et al., J. Phys.: Conf. Ser.
//! 513 (2014) 012042 (figures 4 to 6), scans around it, and two larger layouts; [`watch`] writes frames and trace of one sender. [`live`] is the same sender with real frames and the
//! real Linux stack, and [`readout`] what reads such streams. Refuses: see [`cell::CellError`]. Source: docs/stcp-congestion.md.

pub mod cell;
pub mod congestion;
pub mod figures;
pub mod live;
mod memory;
mod network;
pub mod readout;
pub mod variant;
pub mod watch;

#[cfg(test)]
mod records_tests;
#[cfg(test)]
mod stcp_tests;
