//! Fullcount's outputs to other people's monitoring: Graphite, Graylog (GELF), syslog.
//!
//! Each is an output of the run's state with threads of its own at a low priority. None can block or stop a run: what cannot
//! be handed on waits in a bounded queue, and then is dropped and counted. Source: `docs/operations.md`.
#![forbid(unsafe_code)]

mod backlog;
mod deliver;
mod graphite;
mod log;
mod peer;
mod retry;

pub use graphite::{Graphite, GraphiteCounter};
pub use log::{Log, LogCounter, MessageOutlets, MessagePlan};
