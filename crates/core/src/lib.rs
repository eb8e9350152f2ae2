//! Fullcount's core: everything that can be said about packets, time and counts without touching
//! a socket, a file or a clock. Builds for wasm32 as it stands; time always comes in as an argument.
//!
//! Reading order follows a packet: [`batch`] (what a source hands on), [`bytes`] (how its fields are
//! read), [`slots`] (which stream it is of), [`sequence`] (whether one is missing), [`products`] (what
//! it becomes), [`ledger`] (how all of that is accounted for). Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

pub mod batch;
pub mod bytes;
pub mod frame;
pub mod ledger;
pub mod link;
pub mod products;
pub mod sequence;
pub mod sim;
pub mod slots;
pub mod tables;
pub mod time;
pub mod view;
pub mod wall;
