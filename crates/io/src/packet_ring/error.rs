//! Why an AF_PACKET source could not be opened, each with what to do.

use std::io;

/// See each variant.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// There is no such interface.
    #[error("{endpoint}: there is no interface '{interface}'; 'ip link' lists those of this host")]
    NoInterface {
        /// URL.
        endpoint: String,
        /// As given.
        interface: String,
    },
    /// The interface is switched off.
    #[error("{endpoint}: the interface is down; switch it on: ip link set {interface} up")]
    Down {
        /// URL.
        endpoint: String,
        /// As given.
        interface: String,
    },
    /// A capability is missing.
    #[error(
        "{endpoint}: not allowed to {what}; packet:// needs root or CAP_NET_RAW: setcap cap_net_raw+ep on the program"
    )]
    NotAllowed {
        /// URL.
        endpoint: String,
        /// What was being done.
        what: &'static str,
    },
    /// The group could not be joined.
    #[error("{endpoint}: cannot join the group {group}: {cause}")]
    Join {
        /// URL.
        endpoint: String,
        /// The group.
        group: std::net::IpAddr,
        /// The system's answer.
        cause: io::Error,
    },
    /// Any other answer of the system.
    #[error("{endpoint}: cannot {what}: {cause}")]
    System {
        /// URL.
        endpoint: String,
        /// What was being done.
        what: &'static str,
        /// The system's answer.
        cause: io::Error,
    },
}
