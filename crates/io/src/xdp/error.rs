//! Why an AF_XDP source could not be opened, each with what to do.

use std::io;

/// See each variant.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// There is no such interface.
    #[error("{endpoint}: there is no interface '{interface}'; 'ip link' lists those of this host")]
    NoInterface {
        /// URL.
        endpoint: String,
        /// As given.
        interface: String,
    },
    /// Loopback hands over trains of datagrams uncut and has no driver.
    #[error(
        "{endpoint}: '{interface}' is the loopback interface, where trains of datagrams come uncut; receive with udp://, or with packet://{interface}:PORT"
    )]
    Loopback {
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
        "{endpoint}: not allowed to {what}; xdp:// needs root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: setcap cap_net_raw,cap_net_admin,cap_bpf+ep on the program"
    )]
    NotAllowed {
        /// URL.
        endpoint: String,
        /// What was being done.
        what: &'static str,
    },
    /// The interface has a program already.
    #[error(
        "{endpoint}: '{interface}' has a packet program already: another fullcount with xdp:// on it, or another program ('ip link show {interface}' shows its number); stop it, or receive with udp:// or packet://"
    )]
    Taken {
        /// URL.
        endpoint: String,
        /// As given.
        interface: String,
    },
    /// No mode works.
    #[error(
        "{endpoint}: '{interface}' takes no packet program ({tried}); receive with packet:// or udp://"
    )]
    NoProgram {
        /// URL.
        endpoint: String,
        /// As given.
        interface: String,
        /// Modes tried, with the system's answers.
        tried: String,
    },
    /// No such receive queue.
    #[error("{endpoint}: queue={queue} does not exist; '{interface}' has queues 0 to {last}")]
    NoQueue {
        /// URL.
        endpoint: String,
        /// As given.
        queue: u32,
        /// As given.
        interface: String,
        /// Last one.
        last: u32,
    },
    /// Another AF_XDP socket has the queue.
    #[error(
        "{endpoint}: receive queue {queue} belongs to another AF_XDP socket; stop that program"
    )]
    QueueTaken {
        /// URL.
        endpoint: String,
        /// The queue.
        queue: u32,
    },
    /// Frames longer than a chunk need a newer kernel or driver.
    #[error(
        "{endpoint}: an MTU of {mtu} needs frames in several chunks (Linux 6.6 and a driver that has them): {cause}; lower it (ip link set {interface} mtu 3500), or receive with udp://"
    )]
    Mtu {
        /// URL.
        endpoint: String,
        /// As given.
        interface: String,
        /// MTU of the interface.
        mtu: usize,
        /// The system's answer.
        cause: io::Error,
    },
    /// Zero copy was asked for.
    #[error(
        "{endpoint}: the driver cannot write into our memory itself: {cause}; leave zero_copy=1 out"
    )]
    NoZeroCopy {
        /// URL.
        endpoint: String,
        /// The system's answer.
        cause: io::Error,
    },
    /// Packet memory was refused.
    #[error(
        "{endpoint}: cannot lock {size} of packet memory a queue: {cause}; raise the limit (ulimit -l, LimitMEMLOCK=), add CAP_IPC_LOCK, or give less: ?receive_buffer=4MiB"
    )]
    Memory {
        /// URL.
        endpoint: String,
        /// How much.
        size: String,
        /// The system's answer.
        cause: io::Error,
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
    /// The kernel's verifier refused our program.
    #[error("{endpoint}: this kernel does not take the packet filter: {cause}; it says: {log}")]
    Refused {
        /// URL.
        endpoint: String,
        /// The system's answer.
        cause: io::Error,
        /// Last words of the verifier.
        log: String,
    },
    /// The system has no AF_XDP.
    #[error("{endpoint}: this system has no AF_XDP ({cause}); receive with udp://")]
    Unsupported {
        /// URL.
        endpoint: String,
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
