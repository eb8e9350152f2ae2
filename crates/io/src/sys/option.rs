//! Socket options that no safe crate offers: offloads, timestamps, forced buffers, drop counts.
//!
//! Returns the system's errors; callers fall back.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::SocketMemory;
use crate::udp::shard::ClassicInstruction;

/// `SO_MEMINFO` and the places in its answer (`linux/sock_diag.h`).
const SO_MEMINFO: libc::c_int = 55;
const SK_MEMINFO_RMEM_ALLOC: usize = 0;
const SK_MEMINFO_RCVBUF: usize = 1;
const SK_MEMINFO_DROPS: usize = 8;
/// `IP_MULTICAST_ALL` (`linux/in.h`).
const IP_MULTICAST_ALL: libc::c_int = 49;

fn set<T>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, a plain C value alive across the call.
    let rc = unsafe {
        let size = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), size)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option that is one number.
pub(super) fn set_number(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: u32,
) -> io::Result<()> {
    set(fd, level, name, &value)
}

fn switch(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, on: bool) -> io::Result<()> {
    set(fd, level, name, &libc::c_int::from(on))
}

/// Asks for trains of equal datagrams instead of single ones (UDP GRO).
///
/// # Errors
/// The system's error where the kernel (before 5.0) has none.
pub fn set_gro(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    switch(fd, libc::SOL_UDP, libc::UDP_GRO, on)
}

/// Below so many bytes a byte stream counts as empty for `poll` and nobody is woken (`SO_RCVLOWAT`); the end of the stream always counts. The
/// kernel takes at most half of the receive buffer.
///
/// # Errors
/// The system's error.
pub fn set_low_water(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = u32::try_from(bytes).unwrap_or(i32::MAX as u32);
    set_number(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes.min(i32::MAX as u32))
}

/// Congestion control of a TCP socket, one of `net.ipv4.tcp_available_congestion_control` (`TCP_CONGESTION`).
///
/// # Errors
/// The system's error: no such one, or one that needs CAP_NET_ADMIN.
pub fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    socket2::SockRef::from(&fd).set_tcp_congestion(name.as_bytes())
}

/// Gives the sockets that share this one's port a program that chooses among them.
///
/// # Errors
/// The system's error: no such option (before 4.5), or a program that it refuses.
pub fn set_steering(fd: BorrowedFd<'_>, program: &[ClassicInstruction]) -> io::Result<()> {
    let filter =
        |i: &ClassicInstruction| libc::sock_filter { code: i.code, jt: i.yes, jf: i.no, k: i.k };
    let mut filters: Vec<libc::sock_filter> = program.iter().map(filter).collect();
    let len = u16::try_from(filters.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel copies the program during the call, in which `filters` is alive.
    let program = libc::sock_fprog { len, filter: filters.as_mut_ptr() };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Asks for the kernel's receive time of each train.
pub fn set_timestamps(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    switch(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, on)
}

/// Asks for the address that each train was sent to; an IPv6 socket says it of IPv4 as well, mapped.
pub fn set_destinations(fd: BorrowedFd<'_>, ipv6: bool, on: bool) -> io::Result<()> {
    match ipv6 {
        true => switch(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, on),
        false => switch(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, on),
    }
}

/// Asks for the socket's drop count with each train (once it is above 0).
pub fn set_drop_reports(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    switch(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, on)
}

/// Makes local drops behind the socket (a full queue of the card) an error of the send call instead
/// of silence, along with what ICMP reports.
pub fn set_error_reports(fd: BorrowedFd<'_>, ipv6: bool, on: bool) -> io::Result<()> {
    match ipv6 {
        true => switch(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, on),
        false => switch(fd, libc::IPPROTO_IP, libc::IP_RECVERR, on),
    }
}

/// Limits an IPv4 socket to the groups that it joined itself, not those of the whole host.
pub fn set_only_own_groups(fd: BorrowedFd<'_>) -> io::Result<()> {
    switch(fd, libc::IPPROTO_IP, IP_MULTICAST_ALL, false)
}

/// Sets the interface that IPv4 multicast leaves through, by number.
///
/// # Errors
/// The system's error if there is no such interface.
pub fn set_multicast_interface_v4(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid ip_mreqn.
    let mut request: libc::ip_mreqn = unsafe { zeroed() };
    request.imr_ifindex = libc::c_int::try_from(index).unwrap_or(libc::c_int::MAX);
    set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
}

/// Sets the receive buffer past the host's limit; needs `CAP_NET_ADMIN`.
///
/// # Errors
/// `PermissionDenied` without that capability, or the system's.
pub fn force_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
}

/// Sets the send buffer past the host's limit; needs `CAP_NET_ADMIN`.
///
/// # Errors
/// `PermissionDenied` without that capability, or the system's.
pub fn force_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
}

/// Waiting bytes, limit and drops of a socket, at any time.
///
/// # Errors
/// The system's error where the kernel (before 4.12) cannot say.
pub fn socket_memory(fd: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    let mut answer = [0u32; 16];
    let mut size = size_of_val(&answer) as libc::socklen_t;
    // SAFETY: pointer and length describe `answer`; the kernel writes at most that much.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            answer.as_mut_ptr().cast(),
            &mut size,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    if (size as usize) < (SK_MEMINFO_DROPS + 1) * size_of::<u32>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(SocketMemory {
        queued: answer[SK_MEMINFO_RMEM_ALLOC],
        limit: answer[SK_MEMINFO_RCVBUF],
        drops: answer[SK_MEMINFO_DROPS],
    })
}

/// Empties the socket's error queue; returns how many reports were in it.
pub fn drain_errors(fd: BorrowedFd<'_>) -> u64 {
    let mut reports = 0;
    let mut control = [0u64; 64];
    loop {
        // SAFETY: all-zero is a valid msghdr (no name, no parts).
        let mut h: libc::msghdr = unsafe { zeroed() };
        h.msg_control = control.as_mut_ptr().cast();
        h.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the header points to `control`, alive and mutably borrowed across the call, and
        // to no payload parts.
        let rc = unsafe {
            libc::recvmsg(fd.as_raw_fd(), &mut h, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
        };
        // The queue is bounded by the receive buffer; the limit only guards against a report storm.
        if rc < 0 || reports == 4096 {
            return reports;
        }
        reports += 1;
    }
}
