//! Datagrams on sockets: [`UdpSource`] receives batches of trains, [`UdpSender`] sends them.
//!
//! The engine (one call per datagram, `recvmmsg`/`sendmmsg`, or those with GRO/GSO) is chosen once,
//! when the socket is opened, by a probe that falls back; io_uring only when it is asked for. Unicast, broadcast and multicast, IPv4 and
//! IPv6. Refuses: with [`UdpError`], a sentence that names the endpoint, the value and what to do.
//! Sources: `udp(7)`, `ip(7)`, `ipv6(7)`, `socket(7)`, `docs/architecture.md` hop 1.

mod nap;
mod open;
mod receive;
pub mod shard;
mod split;
mod transmit;
#[cfg(target_os = "linux")]
pub(crate) mod uring;

pub use open::{Buffer, UdpError};
pub use receive::{Receive, ReceiveOptions, UdpSource};
pub use split::Limits;
pub use transmit::{SendError, SendOptions, Transmit, UdpSender};

/// Largest UDP payload over IPv4, and the largest train.
pub const MAX_PAYLOAD_V4: usize = 65_507;
/// Largest UDP payload over IPv6 without jumbograms.
pub const MAX_PAYLOAD_V6: usize = 65_527;
