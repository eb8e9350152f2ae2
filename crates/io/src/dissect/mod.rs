//! From frames as an interface receives them to trains in a batch: shared by the engines that bypass
//! the socket layer (`xdp`, `packet_ring`).
//!
//! [`datagram`] finds the UDP payload in a frame and checks its checksum, [`pack`] writes payloads contiguously.
//! Refuses: see [`datagram::DatagramRefusal`].

pub mod checksum;
pub mod datagram;
pub mod judged;
pub mod pack;

#[cfg(test)]
pub(crate) mod made;
