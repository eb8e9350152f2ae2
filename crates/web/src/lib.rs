//! The live page: histograms over the products, and the web server that shows them.
//!
//! [`accumulate`] fills plots that are plain data ([`fullcount_core::view::Plot`]), so that a detector
//! adds a preset, not code. [`LiveSink`] takes products and publishes pictures at most ten times a
//! second; [`server`] shows them with the ledger, the rates and `/metrics`. A slow or
//! absent viewer only loses pictures, never events: the two sides share only one pointer, which is swapped.
//! Refuses plots that do not fit the detector ([`PlotError`]). Source: `docs/architecture.md`.

#![forbid(unsafe_code)]

pub mod accumulate;
mod encode;
mod fill;
mod kind;
pub mod prometheus;
pub mod rates;
mod scale;
pub mod server;
mod sink;
pub mod snapshot;
mod state;
mod waterfall;

pub use accumulate::{Accumulator, PlotError};
pub use fullcount_core::status;
pub use fullcount_core::status::{
    Facts, NumberedFacts, OutputState, SinkFacts, SpoolFacts, StatusSource,
};
pub use kind::Page;
pub use sink::{LiveCounter, LiveOptions, LiveSink, live};
pub use snapshot::LiveView;
