//! Common parts of `xdp://` and `packet://`: they take the frames of one UDP port from an interface, bypassing the
//! sockets.
//!
//! [`open`] checks the interface and prints the common lines, [`intake`] checks a frame and puts its datagram into the
//! batch, [`source`] is the [`Source`](crate::source::Source) around an engine's rings: waiting, sampling, batches,
//! timestamps. An engine provides its rings as [`source::Frames`], and says what it is as
//! [`kind::InterfaceEngine`]; [`url`] holds the keys of both. Sources: `docs/engines.md`, `docs/losses.md`.

pub(crate) mod counters;
#[cfg(not(target_os = "linux"))]
pub(crate) mod elsewhere;
mod error;
#[cfg(target_os = "linux")]
pub(crate) mod intake;
pub(crate) mod kind;
#[cfg(target_os = "linux")]
pub(crate) mod open;
#[cfg(target_os = "linux")]
pub(crate) mod source;
pub mod url;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::InterfaceSource;
pub use error::InterfaceError;
#[cfg(target_os = "linux")]
pub use source::InterfaceSource;
