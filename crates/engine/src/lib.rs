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
pub mod control;
pub mod failed;
pub mod fanout;
pub mod inspect;
mod modules;
mod named;
pub mod null;
pub mod open;
mod other_geometry;
pub mod outputs;
pub mod pipeline;
pub mod places;
pub mod progress;
pub mod refused;
pub mod registered;
mod replay;
pub mod run;
pub mod status;
pub mod stop;
pub mod summary;
pub mod timebase;
