//! Why an AF_XDP source could not be opened, each with what to do.

use std::io;

use crate::interface::InterfaceError;

/// See each variant.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum XdpError {
    /// Loopback hands over trains of datagrams uncut and has no driver.
    #[error(
        "{endpoint}: '{interface}' is the loopback interface, where trains of datagrams come uncut; receive with udp://, or with packet://{interface}:PORT"
    )]
    Loopback { endpoint: String, interface: String },
    #[error(
        "{endpoint}: '{interface}' has a packet program already: another fullcount with xdp:// on it, or another program ('ip link show {interface}' shows its number); stop it, or receive with udp:// or packet://"
    )]
    Taken { endpoint: String, interface: String },
    #[error(
        "{endpoint}: '{interface}' takes no packet program ({tried}); receive with packet:// or udp://"
    )]
    NoProgram { endpoint: String, interface: String, tried: String },
    #[error("{endpoint}: queue={queue} does not exist; '{interface}' has queues 0 to {last}")]
    NoQueue { endpoint: String, queue: u32, interface: String, last: u32 },
    #[error(
        "{endpoint}: receive queue {queue} belongs to another AF_XDP socket; stop that program"
    )]
    QueueTaken { endpoint: String, queue: u32 },
    #[error(
        "{endpoint}: an MTU of {mtu} needs frames in several chunks (Linux 6.6 and a driver that has them): {cause}; lower it (ip link set {interface} mtu 3500), or receive with udp://"
    )]
    Mtu { endpoint: String, interface: String, mtu: usize, cause: io::Error },
    #[error(
        "{endpoint}: the driver cannot write into our memory itself: {cause}; leave zero_copy=1 out"
    )]
    NoZeroCopy { endpoint: String, cause: io::Error },
    #[error(
        "{endpoint}: cannot lock {size} of packet memory a queue: {cause}; raise the limit (ulimit -l, LimitMEMLOCK=), add CAP_IPC_LOCK, or give less: ?receive_buffer=4MiB"
    )]
    Memory { endpoint: String, size: String, cause: io::Error },
    #[error("{endpoint}: this kernel does not take the packet filter: {cause}; it says: {log}")]
    Refused { endpoint: String, cause: io::Error, log: String },
    #[error("{endpoint}: this system has no AF_XDP ({cause}); receive with udp://")]
    Unsupported { endpoint: String, cause: io::Error },
    #[error(transparent)]
    Interface(#[from] InterfaceError),
}
