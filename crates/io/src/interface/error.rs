//! Why frames cannot be taken from an interface, each with what to do; errors of AF_XDP alone are in
//! [`XdpError`](crate::xdp::XdpError).

use std::io;

/// See each variant.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum InterfaceError {
    /// There is no such interface.
    #[error("{endpoint}: there is no interface '{interface}'; 'ip link' lists those of this host")]
    NoInterface { endpoint: String, interface: String },
    /// The interface is switched off.
    #[error("{endpoint}: the interface is down; switch it on: ip link set {interface} up")]
    Down { endpoint: String, interface: String },
    /// A capability is missing.
    #[error("{endpoint}: not allowed to {what}; {needs}")]
    NotAllowed { endpoint: String, what: &'static str, needs: &'static str },
    /// The group could not be joined.
    #[error("{endpoint}: cannot join the group {group}: {cause}")]
    Join { endpoint: String, group: std::net::IpAddr, cause: io::Error },
    /// Any other answer of the system.
    #[error("{endpoint}: cannot {what}: {cause}")]
    System { endpoint: String, what: &'static str, cause: io::Error },
}
