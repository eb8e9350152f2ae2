//! Benches of our own parts, for those who change them: what reading the loss counters costs ([`probes`]), events to a
//! broker beside Kafka's own tool ([`kafka`]), a topic into a file beside `dd` ([`write`](mod@write)), and the costs that
//! `lab capacity --measure` takes ([`costs`]).
//!
//! [`ground`] is the broker and the folder that some of them need. Source: `docs/lab.md`.

pub mod costs;
pub mod ground;
pub mod kafka;
mod ours;
mod payload;
pub mod probes;
pub mod write;

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, ms since 1970.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
