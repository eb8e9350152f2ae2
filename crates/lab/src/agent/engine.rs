//! How the two ends of a measurement send and receive: the engines of an end, and the pairs that options name.
//!
//! AF_XDP, the packet ring and io_uring only receive; with them the sender is the fastest that sockets have.
//! Refuses: names that are none, see [`Method::named`]. Source: `docs/engines.md`.

use std::net::{IpAddr, UdpSocket};

use fullcount_engine::config::{ConfigError, refuse};
use serde::{Deserialize, Serialize};

use super::order::SIZES;
use crate::namespace::NamespaceNetwork;

/// How one end receives or sends datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndEngine {
    /// The best that sockets of the host have.
    Auto,
    /// One system call per datagram: the paper's method.
    Plain,
    /// Many per call, without offload.
    Mmsg,
    /// Many per call, trains of equal datagrams cut (UDP GSO) or joined (UDP GRO) by the kernel.
    Gro,
    /// io_uring's multishot receive, with UDP GRO. Receives only.
    Uring,
    /// A ring of an interface's packets (AF_PACKET). Receives only, from an interface.
    Packet,
    /// Frames before the kernel's network stack (AF_XDP). Receives only, from an interface.
    Xdp,
}

impl EndEngine {
    /// Name in options and tables.
    pub fn name(self) -> &'static str {
        match self {
            EndEngine::Auto => "auto",
            EndEngine::Plain => "plain",
            EndEngine::Mmsg => "mmsg",
            EndEngine::Gro => "gro",
            EndEngine::Uring => "uring",
            EndEngine::Packet => "packet",
            EndEngine::Xdp => "xdp",
        }
    }

    /// True if it can send.
    pub fn sends(self) -> bool {
        match self {
            EndEngine::Auto | EndEngine::Plain | EndEngine::Mmsg | EndEngine::Gro => true,
            EndEngine::Uring | EndEngine::Packet | EndEngine::Xdp => false,
        }
    }

    /// True if it takes packets from an interface instead of a socket.
    pub fn takes_interface(self) -> bool {
        matches!(self, EndEngine::Packet | EndEngine::Xdp)
    }
}

/// How both ends do it, under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Method {
    /// Name in options and tables.
    pub name: &'static str,
    /// How the receiver receives.
    pub receive: EndEngine,
    /// How the sender sends.
    pub send: EndEngine,
}

const fn method(name: &'static str, receive: EndEngine, send: EndEngine) -> Method {
    Method { name, receive, send }
}

/// Names of [`Method::ALL`], for messages.
pub const NAMES: &str = "auto, plain, mmsg, gso, gro, both, uring, packet or xdp";

impl Method {
    /// All of them: sockets first, slowest first.
    pub const ALL: [Method; 9] = [
        method("plain", EndEngine::Plain, EndEngine::Plain),
        method("mmsg", EndEngine::Mmsg, EndEngine::Mmsg),
        method("gso", EndEngine::Mmsg, EndEngine::Gro),
        method("gro", EndEngine::Gro, EndEngine::Mmsg),
        Method::BOTH,
        method("auto", EndEngine::Auto, EndEngine::Auto),
        Method::URING,
        Method::PACKET,
        Method::XDP,
    ];
    /// Both offloads: GSO at the sender, GRO at the receiver.
    pub const BOTH: Method = method("both", EndEngine::Gro, EndEngine::Gro);
    /// io_uring at the receiver.
    pub const URING: Method = method("uring", EndEngine::Uring, EndEngine::Gro);
    /// AF_PACKET ring at the receiver.
    pub const PACKET: Method = method("packet", EndEngine::Packet, EndEngine::Gro);
    /// AF_XDP at the receiver.
    pub const XDP: Method = method("xdp", EndEngine::Xdp, EndEngine::Gro);

    /// The method with that name.
    pub fn named(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|m| m.name == name)
    }
}

/// A UDP port that is free at `address`, in a namespace if one is given. A URL with an interface has no
/// "system's choice"; nobody else is in a namespace of ours, and on a host the port may be taken again before
/// it is used, which the receiver then says.
///
/// # Errors
/// The system's error: no such address here, or no port left.
pub fn free_port(
    inside: Option<(&NamespaceNetwork, usize)>,
    address: IpAddr,
) -> std::io::Result<u16> {
    let free = || UdpSocket::bind((address, 0)).and_then(|s| s.local_addr()).map(|a| a.port());
    match inside {
        None => free(),
        Some((network, host)) => network.inside(host, free)?,
    }
}

/// Sizes that a numbered packet can have.
///
/// # Errors
/// The first that it cannot.
pub fn check_sizes(sizes: &[usize]) -> Result<(), ConfigError> {
    match sizes.iter().find(|s| !SIZES.contains(*s)) {
        Some(size) => Err(refuse("sizes", size, "24 to 65507 bytes")),
        None => Ok(()),
    }
}

/// Engines are known, and can receive at the place: on loopback there is no driver to take frames from.
///
/// # Errors
/// One that is not known, or cannot receive there.
pub fn check_engine(engine: &str, loopback: bool) -> Result<Method, ConfigError> {
    match Method::named(engine) {
        None => Err(refuse("engine", engine, NAMES)),
        Some(method) if loopback && method.receive == EndEngine::Xdp => {
            let why = "AF_XDP needs an interface with a driver, which loopback has not: give another \
                       --where, or engine packet";
            Err(refuse("engine", engine, why))
        }
        Some(method) => Ok(method),
    }
}

/// A veth has an MTU, and what takes frames puts no fragments together.
///
/// # Errors
/// The first size that does not fit.
pub fn check_fit(method: Method, sizes: &[usize], mtu: usize) -> Result<(), ConfigError> {
    // Headers of IPv4 and UDP.
    match sizes.iter().find(|size| method.receive.takes_interface() && **size + 28 > mtu) {
        None => Ok(()),
        Some(size) => {
            let why = format!(
                "at most {} B with engine {}, which puts no fragments together",
                mtu.saturating_sub(28),
                method.name
            );
            Err(refuse("sizes", size, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_method_and_only_what_sends_sends() {
        for m in Method::ALL {
            assert_eq!(Method::named(m.name), Some(m));
            assert!(NAMES.contains(m.name) && m.send.sends(), "{}", m.name);
            let text = serde_json::to_string(&m.receive).unwrap();
            assert_eq!(text, format!("\"{}\"", m.receive.name()));
        }
        assert_eq!(Method::named("dpdk"), None);
        // The one offload, the other, and both.
        let ends = |name| Method::named(name).map(|m| (m.receive, m.send)).unwrap();
        assert_eq!(ends("gso"), (EndEngine::Mmsg, EndEngine::Gro));
        assert_eq!(ends("gro"), (EndEngine::Gro, EndEngine::Mmsg));
        assert_eq!(ends("both"), (EndEngine::Gro, EndEngine::Gro));
    }

    #[test]
    fn a_free_port_can_be_bound() {
        let lo = IpAddr::from([127, 0, 0, 1]);
        assert!(free_port(None, lo).unwrap() > 0);
        // TEST-NET-1 is nobody's address.
        assert!(free_port(None, IpAddr::from([192, 0, 2, 1])).is_err());
    }
}
