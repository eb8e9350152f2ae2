//! `tcp://ADDRESS:PORT`: packets on many byte streams, read with plain Linux sockets.
//!
//! Listens for senders, or connects to one. A [`FrameRule`](fullcount_core::source::FrameRule) cuts each stream into packets: that of the
//! decoder, or one that the URL names. Bytes are read straight into shared memory that an event builder may keep, so
//! nothing is copied on the way. Each stream has a number and a credit ([`fullcount_core::source::streams`]): one without credit is left in the
//! kernel, and its sender waits. Loses nothing by itself. Refuses, with a counter each: lengths above the limit, bytes that
//! begin no frame, more streams than allowed, streams that the decoder refuses. Source: `docs/fragments.md`, "`tcp://`".

mod counters;
mod cut;
mod destination;
mod kind;
pub(crate) mod low_water;
mod memory;
mod news;
mod source;
mod stream;
pub mod url;

pub use counters::TcpCounter;
pub use destination::{TcpDestination, TcpSent, TcpToUrl};
pub use kind::TcpKind;
pub use source::TcpSource;
pub use url::{READ_TAKES, TcpUrl};
