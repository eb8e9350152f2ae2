//! From frames as an interface receives them to trains in a batch: shared by the engines that bypass
//! the socket layer (`xdp`, `packet_ring`).
//!
//! [`datagram`] finds the UDP payload in a frame and judges its checksum, [`pack`] lays payloads one
//! behind the other. Refuses: see [`datagram::Refusal`].

pub mod checksum;
pub mod datagram;
pub mod judged;
pub mod pack;

#[cfg(test)]
pub(crate) mod made;

/// Joins a group on interface `index`, so that switches and the card let it through; the socket is
/// bound to no port and receives nothing. The membership ends with it.
///
/// # Errors
/// The system's error.
#[cfg(target_os = "linux")]
pub fn member(group: std::net::IpAddr, index: u32) -> std::io::Result<socket2::Socket> {
    use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};
    match group {
        std::net::IpAddr::V4(group) => {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?;
            Ok(socket)
        }
        std::net::IpAddr::V6(group) => {
            let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
            socket.join_multicast_v6(&group, index)?;
            Ok(socket)
        }
    }
}
