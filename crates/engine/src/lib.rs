//! Fullcount's engine: the only place that wires source, detector and outputs together.
//!
//! Reading order: [`config`] (what is wanted), [`run`] (who is started), [`pipeline`] (the path of a
//! batch), [`fanout`] (to the sinks), [`account`] (what became of every packet),
//! [`places`] (where it was lost), [`status`] (for those
//! who watch). Source: `docs/architecture.md`.
#![forbid(unsafe_code)]

pub mod account;
pub mod catalogue;
mod claims;
pub mod config;
pub mod failed;
pub mod fanout;
#[cfg(feature = "kafka")]
mod group_place;
#[cfg(feature = "kafka")]
pub mod kafka_source;
pub mod open;
mod other_geometry;
pub mod outputs;
#[cfg(feature = "kafka")]
mod parting;
#[cfg(feature = "kafka")]
mod partition_order;
pub mod pipeline;
pub mod places;
mod ports;
#[cfg(feature = "kafka")]
pub mod raw;
pub mod refused;
#[cfg(feature = "kafka")]
mod replay;
pub mod run;
pub mod settle;
pub mod status;
pub mod stop;
pub mod summary;
pub mod timebase;
#[cfg(feature = "kafka")]
mod topic_begin;
#[cfg(feature = "kafka")]
pub mod topic_url;
