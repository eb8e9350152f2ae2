//! Datagrams on sockets: [`UdpSource`] receives batches of trains, [`UdpSender`] sends them.
//!
//! The engine (one call per datagram, `recvmmsg`/`sendmmsg`, or those with GRO/GSO) is chosen once, when the socket is
//! opened, by a probe with fallbacks; io_uring only on request. Unicast, broadcast and multicast, IPv4 and IPv6.
//! Fails with [`UdpError`], whose message names the endpoint, the value and what to do. Sources: `udp(7)`,
//! `ip(7)`, `ipv6(7)`, `socket(7)`, `docs/architecture.md` hop 1.

mod destination;
mod gather;
mod kind;
mod nap;
mod open;
mod options;
mod receive;
pub mod shard;
mod split;
mod stamps;
mod tally;
mod transmit;
#[cfg(target_os = "linux")]
pub(crate) mod uring;
pub(crate) mod url;

pub use destination::UdpDestination;
pub use kind::UdpKind;
pub use open::{Buffer, MOST_SOCKETS, UdpError};
pub(crate) use open::{receive_buffer, send_buffer, sockets_for_buffer};
pub use options::ReceiveOptions;
pub use receive::UdpSource;
pub use split::SplitLimits;
pub use tally::Receive;
pub use transmit::{SendOptions, Transmit, TransmitError, UdpSender};

/// Largest UDP payload over IPv4, and the largest train.
pub const MAX_PAYLOAD_V4: usize = 65_507;
/// Largest UDP payload over IPv6 without jumbograms.
pub const MAX_PAYLOAD_V6: usize = 65_527;
