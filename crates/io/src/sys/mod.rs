//! The system calls that no safe crate offers, each behind a safe function. The only `unsafe` of
//! this crate.
//!
//! Linux has batches, offloads, drop counts and thread pinning; elsewhere the same functions answer "unsupported" and
//! the portable calls (`receive_one`, `interface_index`) are used. Nothing here keeps a pointer to a caller's memory
//! across calls into the kernel: every such pointer is written from a live borrow in the call that uses it. io_uring's
//! rings are separate pages. Sources: `recvmmsg(2)`, `sendmmsg(2)`, `cmsg(3)`, `udp(7)`, `socket(7)`.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

use fullcount_core::batch::Origin;
use socket2::Socket;

#[cfg(target_os = "linux")]
pub mod bpf;
#[cfg(target_os = "linux")]
mod epoll;
pub mod ethtool;
#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod gather;
#[cfg(target_os = "linux")]
pub mod interface;
mod limits;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod option;
#[cfg(target_os = "linux")]
pub mod packet_ring;
#[cfg(target_os = "linux")]
mod perf;
mod ready;
#[cfg(target_os = "linux")]
mod receive;
#[cfg(target_os = "linux")]
mod tap;
#[cfg(target_os = "linux")]
mod tcp_info;
#[cfg(target_os = "linux")]
mod thread;
#[cfg(target_os = "linux")]
mod transmit;
#[cfg(target_os = "linux")]
mod uring;
pub use limits::allow_open_files;
pub use ready::wait_ready;
#[cfg(target_os = "linux")]
pub use tcp_info::{TcpCounts, tcp_counts};
#[cfg(target_os = "linux")]
pub use {
    epoll::*,
    file::*,
    frames::*,
    gather::*,
    network::*,
    option::*,
    perf::CacheMisses,
    receive::ReceiveRing,
    tap::*,
    thread::*,
    transmit::{MOST_PIECES, SendRing, send_pieces},
    uring::UringRing,
};

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;

/// What the kernel said about one received train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceivedTrain {
    /// Bytes of the train as sent, also where the slot was too small.
    pub len: usize,
    /// The slot was too small: the rest is gone.
    pub truncated: bool,
    /// The control space was too small: the stride may be missing.
    pub control_lost: bool,
    /// Sender.
    pub origin: Origin,
    /// Bytes per datagram (UDP GRO), `None` for a single datagram.
    pub stride: Option<usize>,
    /// Kernel receive time, ns since 1970 UTC.
    pub time_ns: Option<i64>,
    /// Trains that this socket has dropped so far; wraps at 2³².
    pub drops: Option<u32>,
    /// Address that the train was sent to, where the socket was asked to say it.
    pub to: Option<[u8; 16]>,
    /// VLAN tag that the kernel took out of a frame (AF_PACKET): type and content.
    pub vlan: Option<(u16, u16)>,
}

/// State of a socket's receive memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMemory {
    /// Bytes waiting, with the kernel's overhead.
    pub queued: u32,
    /// Most bytes that may wait.
    pub limit: u32,
    /// Trains dropped so far; wraps at 2³².
    pub drops: u32,
}

/// CPU time of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTime {
    /// In the program, ns.
    pub user_ns: u64,
    /// In the kernel on its behalf, ns.
    pub system_ns: u64,
    /// Times it was taken off its core although it wanted to run.
    pub preempted: u64,
}

/// Receives one datagram, on any system. A datagram longer than `buffer` is truncated silently: pass one byte more than
/// allowed and refuse a datagram that fills it.
///
/// # Errors
/// `WouldBlock` or `TimedOut` if nothing came, or the system's error.
pub fn receive_one(socket: &Socket, buffer: &mut [u8], wait: bool) -> io::Result<(usize, Origin)> {
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: u8 and MaybeUninit<u8> have the same layout, and recvfrom writes only initialised
    // bytes, so the bytes behind the borrow stay initialised.
    let buffer = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
    let (n, from) = socket.recv_from_with_flags(buffer, flags)?;
    Ok((n, from.as_socket().map_or(Origin::NONE, Origin::from)))
}

/// An IPv4 address in network order, in mapped form.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn mapped(v4: [u8; 4]) -> [u8; 16] {
    let mut ip = [0; 16];
    ip[10..12].fill(0xff);
    ip[12..].copy_from_slice(&v4);
    ip
}

/// Number of the interface called `name`.
///
/// # Errors
/// The system's error if there is none.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: `name` is a terminated string that lives across the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn allowed_cores() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }

    #[test]
    fn a_pinned_thread_stays_on_its_core() {
        let all = allowed_cores();
        let core: usize = all.split([',', '-']).next().unwrap().parse().unwrap();
        let pinned = std::thread::spawn(move || {
            pin_thread(core).unwrap();
            allowed_cores()
        });
        assert_eq!(pinned.join().unwrap(), core.to_string());
        assert_eq!(allowed_cores(), all, "other threads stay free");
        for absent in [1023, 1024, usize::MAX] {
            let told = std::thread::spawn(move || pin_thread(absent)).join().unwrap();
            assert_eq!(told.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{absent}");
        }
    }

    #[test]
    fn cpu_time_grows_with_work_and_only_in_the_working_thread() {
        let before = thread_cpu_time().unwrap();
        let mut x = 1u64;
        let after = loop {
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005) + 1);
            }
            let now = thread_cpu_time().unwrap();
            if now.user_ns + now.system_ns > before.user_ns + before.system_ns {
                break now;
            }
        };
        let fresh = std::thread::spawn(|| thread_cpu_time().unwrap()).join().unwrap();
        assert!(after.user_ns >= before.user_ns && fresh.user_ns <= 1_000_000_000);
    }

    #[test]
    fn a_ring_without_memory_says_so_and_has_no_message() {
        let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        let mut ring = ReceiveRing::new(4);
        let fd = std::os::fd::AsFd::as_fd(&socket);
        let told = ring.receive(fd, &mut [0; 63], (64, 64), false).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(ring.message(0), None);
        assert_eq!(SendRing::new(1).send(fd, std::iter::empty()).unwrap(), 0);
    }

    #[test]
    fn loopback_is_an_interface_and_nonsense_is_none() {
        assert!(interface_index("lo").unwrap() > 0);
        for absent in ["", "no such interface", "a\0b"] {
            assert!(interface_index(absent).is_err());
        }
    }
}
