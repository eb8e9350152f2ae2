//! Fullcount's core: packets, time and counts, without a socket, a file or a clock. It also builds for
//! wasm32; time is always an argument.
//!
//! Reading order follows a packet: [`batch`] (what a source hands on), [`bytes`] (how its fields are read),
//! [`slots`] (which stream it is of), [`sequence`] (whether one is missing), [`products`] (what it becomes),
//! [`progress`] (which batches are complete and safe), [`ledger`] (how everything is counted). Source:
//! `docs/architecture.md`.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bytes;
pub mod command;
pub mod conformance;
pub mod destination;
pub mod detector;
pub mod frame;
pub mod heaps;
pub mod key;
pub mod ledger;
pub mod link;
pub mod naming;
pub mod number;
pub mod output;
pub mod products;
pub mod progress;
pub mod quantity;
pub mod records;
pub mod refusal;
pub mod sequence;
pub mod shape;
pub mod sim;
pub mod simulator;
pub mod sink;
pub mod slots;
pub mod source;
pub mod status;
pub mod tables;
pub mod text;
pub mod time;
pub mod trace;
pub mod url;
pub mod view;
pub mod wall;

pub use fullcount_instructions::{PagesAhead, next_page_ahead, stream_into, stream_onto};
