//! The live page: histograms over the products, and the web server that shows them.
//!
//! [`accumulate`] fills plots that are plain data ([`fullcount_core::view::Plot`]), so that a detector
//! adds a preset, not code. [`LiveSink`] takes products and publishes pictures at most ten times a
//! second; [`server`] (feature `web`) shows them with the ledger, the rates and `/metrics`. A slow or
//! absent viewer only loses pictures, never events: the two sides meet in one pointer swap.
//! Refuses plots that do not fit the detector ([`PlotError`]). Source: `docs/architecture.md`.

pub mod accumulate;
#[cfg(feature = "web")]
mod encode;
mod fill;
pub mod rates;
mod scale;
#[cfg(feature = "web")]
pub mod server;
mod sink;
pub mod snapshot;
#[cfg(feature = "web")]
mod state;
pub mod status;

pub use accumulate::{Accumulator, PlotError};
pub use sink::{LiveCounter, LiveOptions, LiveSink, live};
pub use snapshot::LiveView;
pub use status::{Facts, NumberedFacts, OutputState, SinkFacts, SpoolFacts, StatusSource};
