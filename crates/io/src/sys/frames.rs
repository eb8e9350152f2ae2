//! Sockets for whole Ethernet frames (`AF_PACKET`), with the kernel's note about checksums and trains before each
//! (`PACKET_VNET_HDR`).
//!
//! Refuses: interfaces that do not exist; needs `CAP_NET_RAW`. Sources: `packet(7)`, `linux/if_packet.h`,
//! `linux/virtio_net.h`.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

/// Options of `linux/if_packet.h` that libc does not name everywhere.
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;
/// Type of a VLAN tag where the kernel does not say (IEEE 802.1Q).
const TAG: u16 = 0x8100;

fn set<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, a plain C value alive across the call.
    let rc = unsafe {
        let size = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, (&raw const *value).cast(), size)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A socket tied to an interface of the calling thread's namespace; `protocol` 0 receives nothing.
fn tied(interface: &str, protocol: u16) -> io::Result<(Socket, u32)> {
    let index = super::interface_index(interface)?;
    // Without a protocol until it is bound: otherwise frames of all interfaces would come first.
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
    set(socket.as_fd(), PACKET_VNET_HDR, &1i32)?;
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: sockaddr_ll is a plain C structure, smaller than the storage.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = libc::c_int::try_from(index).unwrap_or(libc::c_int::MAX);
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the storage holds a sockaddr_ll of that size.
    let address = unsafe { SockAddr::new(storage, size) };
    if protocol != 0 {
        // Before frames come: drop what this host sends itself, and accept frames for others.
        set(socket.as_fd(), PACKET_IGNORE_OUTGOING, &1i32)?;
        set(socket.as_fd(), libc::PACKET_AUXDATA, &1i32)?;
        // SAFETY: all-zero is a valid packet_mreq.
        let mut request: libc::packet_mreq = unsafe { zeroed() };
        request.mr_ifindex = libc::c_int::try_from(index).unwrap_or(libc::c_int::MAX);
        request.mr_type = libc::PACKET_MR_PROMISC as u16;
        set(socket.as_fd(), libc::PACKET_ADD_MEMBERSHIP, &request)?;
    }
    socket.bind(&address)?;
    Ok((socket, index))
}

/// A socket that receives every frame that comes in at an interface, those for other hosts too, but not what
/// this host sends there. Before each frame are 10 bytes of `virtio_net_hdr`.
///
/// # Errors
/// No such interface, no `CAP_NET_RAW`, or the system's error.
pub fn frame_receiver(interface: &str) -> io::Result<Socket> {
    Ok(tied(interface, libc::ETH_P_ALL as u16)?.0)
}

/// A socket that sends frames at an interface; before each are 10 bytes of `virtio_net_hdr`. `bypass`: past its
/// queueing discipline.
///
/// # Errors
/// No such interface, no `CAP_NET_RAW`, or the system's error.
pub fn frame_sender(interface: &str, bypass: bool) -> io::Result<Socket> {
    let (socket, _) = tied(interface, 0)?;
    set(socket.as_fd(), PACKET_QDISC_BYPASS, &i32::from(bypass))?;
    Ok(socket)
}

/// Frames that a receiver missed since the last call, because its buffer was full.
pub fn frames_missed(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // struct tpacket_stats: packets, drops.
    let mut answer = [0u32; 2];
    let mut size = size_of_val(&answer) as libc::socklen_t;
    // SAFETY: pointer and length describe `answer`; the kernel writes at most that much.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            answer.as_mut_ptr().cast(),
            &mut size,
        )
    };
    if rc == 0 { Ok(u64::from(answer[1])) } else { Err(io::Error::last_os_error()) }
}

/// Waits until a socket has something to read, at most `limit`, to the precision of the thread's timer slack.
pub fn wait_readable(fd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = libc::timespec {
        tv_sec: limit.as_secs().min(3600) as _,
        tv_nsec: limit.subsec_nanos() as _,
    };
    // SAFETY: one pollfd and one timespec, alive across the call; no signal mask.
    let n = unsafe { libc::ppoll(&raw mut poll, 1, &raw const limit, std::ptr::null()) };
    match n {
        0.. => Ok(n > 0),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            e => Err(e),
        },
    }
}

/// The VLAN tag that the kernel took out of a frame.
pub(super) fn tag(aux: &libc::tpacket_auxdata) -> Option<(u16, u16)> {
    let has = |bit| aux.tp_status & bit != 0;
    has(TP_STATUS_VLAN_VALID).then(|| {
        let kind = if has(TP_STATUS_VLAN_TPID_VALID) { aux.tp_vlan_tpid } else { TAG };
        (kind, aux.tp_vlan_tci)
    })
}
