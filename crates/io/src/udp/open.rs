//! Opening sockets: address, interface, groups, buffers; the same for both directions.
//!
//! Buffers are requested, read back and reported: Linux silently grants less than requested. Refuses: a
//! port in use, an address of another host, an interface that does not exist or does not fit.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};

use super::options::ReceiveOptions;
use crate::endpoint::{Engine, InterfaceChoice, UdpUrl};
use crate::quantity::size_text;
use crate::sys;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum UdpError {
    #[error("{endpoint}: the address of '{host}' was not found: {cause}")]
    Resolve { endpoint: String, host: String, cause: io::Error },
    #[error(
        "{endpoint}: port {port} is in use; stop the other program (ss -ulpn 'sport = {port}' names it) or choose another port"
    )]
    PortInUse { endpoint: String, port: u16 },
    #[error(
        "{endpoint}: {address} is no address of this host; listen on 0.0.0.0 or [::], or on an address that 'ip addr' shows"
    )]
    NotHere { endpoint: String, address: IpAddr },
    #[error(
        "{endpoint}: not allowed to open port {port}; ports below 1024 need root or CAP_NET_BIND_SERVICE"
    )]
    NotAllowed { endpoint: String, port: u16 },
    #[error("{endpoint}: port 0 cannot be sent to; give the receiver's port, 1 to 65535")]
    NoPort { endpoint: String },
    #[error("{endpoint}: bind={address}: {problem}")]
    Bind { endpoint: String, address: IpAddr, problem: String },
    #[error("{endpoint}: interface={interface}: {problem}")]
    Interface { endpoint: String, interface: String, problem: String },
    #[error(
        "{endpoint}: cannot join the group {group}: {cause}; give the interface, for example ?interface=eth0"
    )]
    Join { endpoint: String, group: IpAddr, cause: io::Error },
    #[error(
        "{endpoint}: several workers or sockets cannot share {address}: the kernel gives every socket of a group \
         or broadcast address a copy of each packet; use one, or a port or group for each"
    )]
    Share { endpoint: String, address: IpAddr },
    #[error(
        "{endpoint}: engine={engine} is not available here: {cause}; leave it out to use the best there is"
    )]
    Engine { endpoint: String, engine: &'static str, cause: io::Error },
    #[error("{endpoint}: cannot find a way to that address: {cause}; {advice}")]
    NoWay { endpoint: String, cause: io::Error, advice: &'static str },
    #[error("{endpoint}: cannot {what}: {cause}")]
    System { endpoint: String, what: &'static str, cause: io::Error },
}

/// A socket buffer: requested and granted, in bytes without the kernel's overhead (Linux doubles the number; that is
/// reversed here).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes given.
    pub got: u64,
}

impl Buffer {
    /// One line for people; says what to change if it is less than asked.
    pub fn describe(self, name: &str, sysctl: &str) -> String {
        let Buffer { asked, got } = self;
        let line = format!("{name}: asked {}, got {}", size_text(asked), size_text(got));
        match got < asked {
            false => line,
            true => {
                format!("{line}; the host's limit: sysctl -w {sysctl}={asked}, or CAP_NET_ADMIN")
            }
        }
    }
}

/// Everything about one endpoint while it is being opened; makes the error sentences.
pub(super) struct Opening<'a> {
    url: &'a UdpUrl,
    pub(super) addr: SocketAddr,
}

impl<'a> Opening<'a> {
    pub(super) fn new(url: &'a UdpUrl) -> Result<Self, UdpError> {
        let addr = url.resolve().map_err(|cause| UdpError::Resolve {
            endpoint: url.to_string(),
            host: match &url.host {
                crate::endpoint::UdpHost::Name(name) => name.clone(),
                crate::endpoint::UdpHost::Addr(ip) => ip.to_string(),
            },
            cause,
        })?;
        let mut opening = Opening { url, addr };
        // Link-local addresses and IPv6 groups mean nothing without the number of an interface.
        if let (SocketAddr::V6(mut v6), Some(_)) = (addr, &url.interface) {
            let local = v6.ip().is_unicast_link_local() || v6.ip().is_multicast();
            if local {
                v6.set_scope_id(opening.index()?);
                opening.addr = SocketAddr::V6(v6);
            }
        }
        Ok(opening)
    }

    pub(super) fn socket(&self) -> Result<Socket, UdpError> {
        let domain = Domain::for_address(self.addr);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP));
        socket.map_err(|e| self.system("create a UDP socket", e))
    }

    pub(super) fn system(&self, what: &'static str, cause: io::Error) -> UdpError {
        UdpError::System { endpoint: self.url.to_string(), what, cause }
    }

    pub(super) fn engine(&self, engine: &'static str, cause: io::Error) -> UdpError {
        UdpError::Engine { endpoint: self.url.to_string(), engine, cause }
    }

    pub(super) fn no_port(&self) -> UdpError {
        UdpError::NoPort { endpoint: self.url.to_string() }
    }

    /// A destination that cannot be sent to.
    pub(super) fn no_way(&self, cause: io::Error) -> UdpError {
        let advice = way(self.addr.ip(), self.url.interface.is_some(), cause.kind());
        UdpError::NoWay { endpoint: self.url.to_string(), cause, advice }
    }

    fn bad_interface(&self, problem: impl Into<String>) -> UdpError {
        let interface =
            self.url.interface.as_ref().map_or(String::new(), InterfaceChoice::to_string);
        UdpError::Interface { endpoint: self.url.to_string(), interface, problem: problem.into() }
    }

    /// Number of the interface in the URL.
    fn index(&self) -> Result<u32, UdpError> {
        match &self.url.interface {
            Some(InterfaceChoice::Name(name)) => sys::interface_index(name).map_err(|_| {
                self.bad_interface("there is no such interface; 'ip link' lists them")
            }),
            Some(InterfaceChoice::Index(index)) => Ok(*index),
            Some(InterfaceChoice::V4(_) | InterfaceChoice::V6(_)) | None => Err(self
                .bad_interface("IPv6 wants the interface's name or number, for example eth0 or 2")),
        }
    }

    pub(super) fn bind(&self, socket: &Socket, addr: SocketAddr) -> Result<(), UdpError> {
        let endpoint = || self.url.to_string();
        socket.bind(&addr.into()).map_err(|cause| match cause.kind() {
            io::ErrorKind::AddrInUse => {
                UdpError::PortInUse { endpoint: endpoint(), port: addr.port() }
            }
            io::ErrorKind::AddrNotAvailable => {
                UdpError::NotHere { endpoint: endpoint(), address: addr.ip() }
            }
            io::ErrorKind::PermissionDenied => {
                UdpError::NotAllowed { endpoint: endpoint(), port: addr.port() }
            }
            _ => self.system("bind the socket", cause),
        })
    }

    /// Gives a sending socket the local address of the URL, or `local`.
    pub(super) fn bind_to_send(
        &self,
        socket: &Socket,
        local: Option<SocketAddr>,
    ) -> Result<(), UdpError> {
        let Some(address) = self.url.bind else {
            return local.map_or(Ok(()), |local| self.bind(socket, local));
        };
        let wrong =
            |problem: String| UdpError::Bind { endpoint: self.url.to_string(), address, problem };
        if address.is_ipv4() != self.addr.is_ipv4() {
            let kind = if self.addr.is_ipv4() { "IPv4" } else { "IPv6" };
            return Err(wrong(format!("the destination wants an {kind} address of this host")));
        }
        let mut at = SocketAddr::new(address, local.map_or(0, |local| local.port()));
        // A link-local address means nothing without the number of the destination's interface.
        if let (SocketAddr::V6(at), SocketAddr::V6(to)) = (&mut at, self.addr)
            && at.ip().is_unicast_link_local()
        {
            at.set_scope_id(to.scope_id());
        }
        match self.bind(socket, at) {
            Err(UdpError::NotHere { .. }) => {
                Err(wrong("it is no address of this host; 'ip addr' shows those".into()))
            }
            bound => bound,
        }
    }

    /// Lets other sockets of this process have the port too.
    pub(super) fn share(&self, socket: &Socket) -> Result<(), UdpError> {
        let address = self.addr.ip();
        if address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(UdpError::Share { endpoint: self.url.to_string(), address });
        }
        #[cfg(unix)]
        socket.set_reuse_port(true).map_err(|e| self.system("share the port", e))?;
        Ok(())
    }

    /// Lets other senders of this process use the local port too: each is connected to a different destination.
    pub(super) fn share_with_senders(&self, socket: &Socket) -> Result<(), UdpError> {
        socket.set_reuse_address(true).map_err(|e| self.system("share the local port", e))
    }

    /// Ties a socket that is no group member to the URL's interface.
    pub(super) fn tie(&self, socket: &Socket) -> Result<(), UdpError> {
        let name = match &self.url.interface {
            None => return Ok(()),
            Some(InterfaceChoice::Name(name)) => name,
            Some(other) => {
                let problem = match other {
                    InterfaceChoice::V4(_) | InterfaceChoice::V6(_) => {
                        "an address fits only multicast; give the name, or listen on that address"
                    }
                    _ => "a number fits only multicast; give the name",
                };
                return Err(self.bad_interface(problem));
            }
        };
        self.index()?;
        #[cfg(target_os = "linux")]
        let tied = socket.bind_device(Some(name.as_bytes()));
        #[cfg(not(target_os = "linux"))]
        let tied: io::Result<()> = {
            let _ = (socket, name);
            Err(io::ErrorKind::Unsupported.into())
        };
        tied.map_err(|e| self.bad_interface(format!("cannot be tied to the socket: {e}")))
    }

    /// Joins the URL's group, which the socket is bound to.
    pub(super) fn join(&self, socket: &Socket) -> Result<(), UdpError> {
        let joined = match self.addr.ip() {
            IpAddr::V4(group) => match &self.url.interface {
                None => socket.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED),
                Some(InterfaceChoice::V4(own)) => socket.join_multicast_v4(&group, own),
                Some(InterfaceChoice::V6(_)) => {
                    return Err(self
                        .bad_interface("an IPv4 group wants a name, a number or an IPv4 address"));
                }
                Some(InterfaceChoice::Name(_) | InterfaceChoice::Index(_)) => {
                    let index = InterfaceIndexOrAddress::Index(self.index()?);
                    socket.join_multicast_v4_n(&group, &index)
                }
            },
            IpAddr::V6(group) => {
                let index = match self.url.interface {
                    Some(_) => self.index()?,
                    None => 0,
                };
                socket.join_multicast_v6(&group, index)
            }
        };
        joined.map_err(|cause| UdpError::Join {
            endpoint: self.url.to_string(),
            group: self.addr.ip(),
            cause,
        })?;
        if self.addr.is_ipv4() {
            // Only a refinement (binding to the group already keeps others out), so no error.
            let _ = sys::set_only_own_groups(socket.as_fd());
        }
        Ok(())
    }

    /// Options of a socket that sends: broadcast, TTL, loop, outgoing interface.
    pub(super) fn prepare_to_send(&self, socket: &Socket) -> Result<(), UdpError> {
        let url = self.url;
        let ip = self.addr.ip();
        let sys_err = |what| move |e| self.system(what, e);
        let everyone = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        if url.broadcast.unwrap_or(everyone) {
            socket.set_broadcast(true).map_err(sys_err("allow broadcast"))?;
        }
        if let Some(ttl) = url.ttl.map(u32::from) {
            let set = match (ip, ip.is_multicast()) {
                (IpAddr::V4(_), true) => socket.set_multicast_ttl_v4(ttl),
                (IpAddr::V4(_), false) => socket.set_ttl_v4(ttl),
                (IpAddr::V6(_), true) => socket.set_multicast_hops_v6(ttl),
                (IpAddr::V6(_), false) => socket.set_unicast_hops_v6(ttl),
            };
            set.map_err(sys_err("set ttl (1 to 255; 0 only for multicast)"))?;
        }
        if let Some(on) = url.loop_ {
            let set = match ip {
                IpAddr::V4(_) => socket.set_multicast_loop_v4(on),
                IpAddr::V6(_) => socket.set_multicast_loop_v6(on),
            };
            set.map_err(sys_err("set loop"))?;
        }
        if !ip.is_multicast() {
            return self.tie(socket);
        }
        let set = match (ip, &url.interface) {
            (_, None) => Ok(()),
            (IpAddr::V4(_), Some(InterfaceChoice::V4(own))) => socket.set_multicast_if_v4(own),
            (IpAddr::V4(_), Some(InterfaceChoice::V6(_))) => {
                return Err(
                    self.bad_interface("an IPv4 group wants a name, a number or an IPv4 address")
                );
            }
            (IpAddr::V4(_), Some(_)) => {
                sys::set_multicast_interface_v4(socket.as_fd(), self.index()?)
            }
            (IpAddr::V6(_), Some(_)) => socket.set_multicast_if_v6(self.index()?),
        };
        set.map_err(|e| self.bad_interface(format!("cannot send a group there: {e}")))
    }
}

/// What to do about an address without a way to it.
fn way(to: IpAddr, interface: bool, cause: io::ErrorKind) -> &'static str {
    let link_local = matches!(to, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let v4 = to.is_ipv4() && !to.is_multicast();
    match cause {
        // What the system answers for a broadcast address without the permission.
        io::ErrorKind::PermissionDenied if v4 => "a broadcast address needs ?broadcast=1",
        _ if (to.is_multicast() || link_local) && !interface => {
            "give the interface, for example ?interface=eth0"
        }
        _ if to.is_multicast() || link_local => "is the interface up, and has it an address?",
        _ => "look at the routes: ip route, ip -6 route",
    }
}

/// Linux keeps twice the number that it was asked for and answers with that.
const OVERHEAD: usize = if cfg!(target_os = "linux") { 2 } else { 1 };

/// Requests a receive buffer: above the host's limit if allowed, otherwise within it.
pub(crate) fn receive_buffer(socket: &Socket, asked: u64) -> io::Result<Buffer> {
    let bytes = usize::try_from(asked).unwrap_or(usize::MAX);
    if sys::force_receive_buffer(socket.as_fd(), bytes).is_err() {
        // A system that refuses instead of cutting (macOS) gets smaller and smaller wishes.
        let mut wish = bytes;
        while socket.set_recv_buffer_size(wish).is_err() && wish > 4096 {
            wish /= 2;
        }
    }
    Ok(Buffer { asked, got: (socket.recv_buffer_size()? / OVERHEAD) as u64 })
}

/// Most sockets that a port has for its receive buffer, unless it is told how many. 32 of 212,992 B lose no heap of SPEAD at twice the rate
/// of 8: trains go to any of them, and a socket that holds six packets of 65,507 B is full long before all are.
pub const MOST_SOCKETS: u32 = 32;

/// Sockets of one port that together have the receive buffer that `url` asks for: 1 where the system grants it to one, at most 32. For receivers
/// that put trains of several sockets in order by the kernel's times; 1 where there are none, and of a group or broadcast address.
pub(crate) fn sockets_for_buffer(url: &UdpUrl) -> u32 {
    let Ok(at) = url.resolve() else { return 1 };
    let one = match at.ip() {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    if one
        || url.broadcast == Some(true)
        || url.engine == Engine::Plain
        || !cfg!(target_os = "linux")
    {
        return 1;
    }
    let asked = url.receive_buffer.unwrap_or(ReceiveOptions::default().receive_buffer);
    let probe = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP));
    // An error comes again when the socket is opened, and is told then.
    probe.and_then(|probe| receive_buffer(&probe, asked)).map_or(1, sockets_for)
}

/// To the nearest: the system may count a byte less.
fn sockets_for(buffer: Buffer) -> u32 {
    let got = buffer.got.max(1);
    (buffer.asked.saturating_add(got / 2) / got).clamp(1, MOST_SOCKETS.into()) as u32
}

/// Asks for a send buffer, like [`receive_buffer`].
pub(crate) fn send_buffer(socket: &Socket, asked: u64) -> io::Result<Buffer> {
    let bytes = usize::try_from(asked).unwrap_or(usize::MAX);
    if sys::force_send_buffer(socket.as_fd(), bytes).is_err() {
        let mut wish = bytes;
        while socket.set_send_buffer_size(wish).is_err() && wish > 4096 {
            wish /= 2;
        }
    }
    Ok(Buffer { asked, got: (socket.send_buffer_size()? / OVERHEAD) as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{NetworkUnreachable, PermissionDenied};

    #[test]
    fn a_buffer_that_one_socket_does_not_get_is_made_of_several() {
        let sockets = |asked, got| sockets_for(Buffer { asked, got });
        assert_eq!([(4096, 4096), (4096, 8192), (1, 0)].map(|(a, g)| sockets(a, g)), [1, 1, 1]);
        assert_eq!([(6143, 4096), (6144, 4096)].map(|(a, g)| sockets(a, g)), [1, 2]);
        assert_eq!(sockets(64 << 20, 212_992), 32);
        for one in ["239.1.2.3:9", "255.255.255.255:9", "[ff15::1]:9"] {
            let group = UdpUrl::new(one.parse().unwrap());
            let url = UdpUrl { receive_buffer: Some(1 << 40), ..group };
            assert_eq!(sockets_for_buffer(&url), 1, "{one}");
        }
        let plain = UdpUrl::new("127.0.0.1:0".parse().unwrap());
        let plain = UdpUrl { receive_buffer: Some(1 << 40), engine: Engine::Plain, ..plain };
        assert_eq!(sockets_for_buffer(&plain), 1);
        // More than the system can grant to one.
        #[cfg(target_os = "linux")]
        assert_eq!(sockets_for_buffer(&UdpUrl { engine: Engine::Auto, ..plain }), 32);
    }

    #[test]
    fn advice_fits_the_kind_of_address() {
        for (to, interface, cause, part) in [
            ("192.0.2.255", false, PermissionDenied, "broadcast=1"),
            ("192.0.2.255", false, NetworkUnreachable, "ip route"),
            ("2001:db8::1", false, NetworkUnreachable, "ip -6 route"),
            ("239.1.2.3", false, NetworkUnreachable, "?interface=eth0"),
            ("ff15::1", false, NetworkUnreachable, "?interface=eth0"),
            ("fe80::1", false, NetworkUnreachable, "?interface=eth0"),
            ("ff15::1", true, NetworkUnreachable, "is the interface up"),
        ] {
            let said = way(to.parse().unwrap(), interface, cause);
            assert!(said.contains(part), "{to}: {said}");
            assert_eq!(said.contains("broadcast"), part.contains("broadcast"), "{to}: {said}");
        }
    }
}
