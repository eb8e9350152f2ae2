//! Benches of our own parts, for those who change them: what reading the loss counters costs ([`probes`]), a run under
//! its operators ([`service`]), one trial of a receiver and its senders ([`trial`]), a plain C program flat out ([`flood`]), events to a
//! broker beside Kafka's own tool (`kafka`), a topic into a file beside `dd` (`write`), and the costs that
//! `lab capacity --measure` takes ([`costs`]).
//!
//! `ground` is the broker and the folder that some of them need. Source: `docs/lab.md`.

pub mod costs;
pub mod flood;
#[cfg(feature = "kafka")]
pub mod ground;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "kafka")]
mod ours;
#[cfg(feature = "kafka")]
mod payload;
pub mod probes;
#[cfg(feature = "kafka")]
mod produce;
pub mod service;
pub mod trial;
#[cfg(feature = "kafka")]
pub mod write;

#[cfg(feature = "kafka")]
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, ms since 1970.
#[cfg(feature = "kafka")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
