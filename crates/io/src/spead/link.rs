//! The link that a send stream's datagrams take, by the MTU of the route that the system chose.
//!
//! Nothing is guessed: without a known MTU, and for destinations behind different links, there is none. Source: `ip(7)` and
//! `ipv6(7)`, `IP_MTU` and `IPV6_MTU`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use fullcount_core::link::Wire;
use socket2::{Domain, Socket, Type};

use crate::sys;
use crate::udp::UdpSender;
use crate::udp::url::{InterfaceChoice, UdpUrl};

/// Sends a socket's datagrams where those of the URL's senders go.
fn choose(socket: &Socket, interface: &InterfaceChoice, to: SocketAddr) -> io::Result<()> {
    match (interface, to) {
        #[cfg(target_os = "linux")]
        (InterfaceChoice::Name(name), _) => socket.bind_device(Some(name.as_bytes())),
        (InterfaceChoice::V4(own), SocketAddr::V4(_)) => socket.set_multicast_if_v4(own),
        (InterfaceChoice::Index(index), SocketAddr::V4(_)) => {
            sys::set_multicast_interface_v4(socket.as_fd(), *index)
        }
        (InterfaceChoice::Index(index), SocketAddr::V6(_)) => socket.set_multicast_if_v6(*index),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// MTU of the way from one of this host's addresses to another one.
fn mtu(url: &UdpUrl, from: SocketAddr, to: SocketAddr) -> io::Result<usize> {
    // The senders' sockets are theirs; one like them has the same route.
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None)?;
    if url.broadcast.unwrap_or(true) && to.is_ipv4() {
        socket.set_broadcast(true)?;
    }
    url.interface.as_ref().map_or(Ok(()), |interface| choose(&socket, interface, to))?;
    let mut from = from;
    from.set_port(0);
    socket.bind(&from.into())?;
    socket.connect(&to.into())?;
    sys::path_mtu(socket.as_fd(), to.is_ipv6())
}

/// The link of one sender; `None`: it is not known.
fn of(url: &UdpUrl, sender: &UdpSender) -> Option<Wire> {
    let to = sender.to();
    let mtu = mtu(url, *sender.local_addrs().first()?, to).ok().filter(|mtu| *mtu > 0)?;
    Some(Wire { ipv6: to.is_ipv6(), mtu })
}

/// The one link of all these senders with their URLs; `None`: it is not known, or there are several.
pub(super) fn of_all(urls: &[&UdpUrl], senders: &[UdpSender]) -> Option<Wire> {
    let mut links = urls.iter().zip(senders).map(|(url, sender)| of(url, sender));
    let wire = links.next()??;
    links.all(|other| other == Some(wire)).then_some(wire)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::SendOptions;

    fn link(to: &[&str]) -> Option<Wire> {
        let urls: Vec<UdpUrl> =
            to.iter().map(|to| fullcount_core::url::read(to).unwrap()).collect();
        let open = |url| UdpSender::open(url, &SendOptions::default()).unwrap();
        let senders: Vec<UdpSender> = urls.iter().map(open).collect();
        of_all(&urls.iter().collect::<Vec<_>>(), &senders)
    }

    #[test]
    fn the_link_is_that_of_the_route_and_none_if_there_are_several_or_it_is_not_known() {
        let wire = link(&["udp://127.0.0.1:9"]).unwrap();
        // A loopback of 65536 B carries any datagram whole.
        assert_eq!((wire.ipv6, wire.frames(65_507)), (false, 1), "{wire:?}");
        for same in [
            &["udp://127.0.0.1:9", "udp://127.0.0.2:9"][..],
            &["udp://127.0.0.1:9?bind=127.0.0.3&source_ports=2"],
            &["udp://239.255.77.19:9?interface=127.0.0.1&ttl=0"],
            &["udp://239.255.77.19:9?interface=lo&ttl=0"],
            &["udp://239.255.77.19:9?interface=1&ttl=0"],
        ] {
            assert_eq!(link(same), Some(wire), "{same:?}");
        }
        assert!(link(&["udp://[::1]:9"]).unwrap().ipv6);
        assert_eq!(link(&["udp://127.0.0.1:9", "udp://[::1]:9"]), None);
        assert_eq!(link(&[]), None);
    }
}
