//! What the `uring` engine finds in a slot, and its error if it is not allowed.
//!
//! A multishot `recvmsg` of io_uring writes one block to each slot: a header of 16 B, room for the
//! sender's address, room for the control messages, then the payload. All of it is read here from
//! plain bytes. Refuses a block that is shorter than its own head, or whose lengths do not fit it.
//! Sources: `io_uring_prep_recvmsg_multishot(3)` (`struct io_uring_recvmsg_out`), `cmsg(3)`,
//! `io_uring_setup(2)`.

use fullcount_core::batch::Origin;

use crate::sys::{ReceivedTrain, mapped};

/// Bytes of `struct io_uring_recvmsg_out`: lengths of name, control and payload, and flags.
const HEADER: usize = 16;
/// Room for the sender's address: a `sockaddr_in6` takes 28 B.
pub(crate) const NAME: usize = 32;
/// Room for the control messages: timestamp 32 B, drop count 24 B, stride 24 B, address 40 B. With 144 B the
/// payload begins at a multiple of 64 B.
pub(crate) const CONTROL: usize = 144;
/// Where the payload begins in a slot, bytes.
pub(crate) const HEAD: usize = HEADER + NAME + CONTROL;

/// Bytes of `struct cmsghdr` before its data, with its padding.
const CMSG_HEADER: usize = size_of::<usize>() + 8;
const CMSG_ALIGN: usize = size_of::<usize>();

const MSG_CTRUNC: u32 = libc::MSG_CTRUNC as u32;
const MSG_TRUNC: u32 = libc::MSG_TRUNC as u32;
const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

/// What the kernel said about the train in `block`: the slot's bytes as far as it wrote them. The
/// payload begins at [`HEAD`]; of a train that was cut, `len` is the true length. `None` if the block
/// contradicts itself, which a kernel does not do.
#[inline]
pub(crate) fn message(block: &[u8]) -> Option<ReceivedTrain> {
    let (_name, control) = (word(block, 0)?, word(block, 4)? as usize);
    let (payload, flags) = (word(block, 8)? as usize, word(block, 12)?);
    let mut message = ReceivedTrain {
        len: payload,
        truncated: flags & MSG_TRUNC != 0,
        control_lost: flags & MSG_CTRUNC != 0,
        origin: origin(block.get(HEADER..HEADER + NAME)?),
        ..ReceivedTrain::default()
    };
    if !message.truncated && block.len() < HEAD + payload {
        return None;
    }
    let mut rest = block.get(HEADER + NAME..)?.get(..control.min(CONTROL))?;
    while let Some(len) = array(rest, 0).map(usize::from_ne_bytes) {
        let kind = (word(rest, CMSG_ALIGN)? as i32, word(rest, CMSG_ALIGN + 4)? as i32);
        let data = rest.get(CMSG_HEADER..len)?;
        match kind {
            (libc::SOL_UDP, libc::UDP_GRO) => {
                message.stride = word(data, 0).map(|s| s as usize).filter(|s| *s > 0);
            }
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                // struct timespec: two C longs.
                let long = |at| array(data, at * CMSG_ALIGN).map(isize::from_ne_bytes);
                let ns = |s: isize, ns: isize| s as i64 * 1_000_000_000 + ns as i64;
                message.time_ns = long(0).zip(long(1)).map(|(s, n)| ns(s, n));
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => message.drops = word(data, 0),
            // struct in_pktinfo: interface, local address, address in the header.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => message.to = array(data, 8).map(mapped),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => message.to = array(data, 0),
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(CMSG_ALIGN)..).unwrap_or(&[]);
    }
    Some(message)
}

/// Origin from a socket address of either family.
#[inline]
fn origin(name: &[u8]) -> Origin {
    let family = array(name, 0).map(u16::from_ne_bytes);
    let port = array(name, 2).map_or(0, u16::from_be_bytes);
    match family {
        Some(AF_INET) => {
            let mut ip = [0; 16];
            ip[10] = 0xFF;
            ip[11] = 0xFF;
            ip[12..].copy_from_slice(&name[4..8]);
            Origin { ip, port }
        }
        Some(AF_INET6) => Origin { ip: array(name, 8).unwrap_or_default(), port },
        _ => Origin::NONE,
    }
}

/// Why there is no io_uring, in words that say what to do. `errno` is the system's answer, `switch`
/// the content of `/proc/sys/kernel/io_uring_disabled` (Linux 6.6 and later).
pub(crate) fn refusal(errno: i32, switch: Option<&str>) -> String {
    let switch = switch.map(str::trim);
    match errno {
        libc::EPERM | libc::EACCES => match switch {
            Some("2") => "the host forbids io_uring to everybody (kernel.io_uring_disabled = 2); \
                          sysctl -w kernel.io_uring_disabled=0 allows it"
                .into(),
            Some("1") => {
                "the host allows io_uring to few (kernel.io_uring_disabled = 1); run with \
                          CAP_SYS_ADMIN, or in the group that kernel.io_uring_group names, or set \
                          kernel.io_uring_disabled=0"
                    .into()
            }
            _ => "io_uring is forbidden to this process, as containers do with a seccomp filter; \
                  allow io_uring_setup, io_uring_enter and io_uring_register in its profile"
                .into(),
        },
        libc::ENOSYS => "this kernel has no io_uring, or a seccomp filter hides it".into(),
        libc::EINVAL => "io_uring with deferred work needs Linux 6.1 or later".into(),
        libc::ENOMEM => {
            "io_uring got no memory; raise the limit of locked memory (ulimit -l)".into()
        }
        other => format!("io_uring: {}", std::io::Error::from_raw_os_error(other)),
    }
}

#[cfg(test)]
#[path = "uring_tests.rs"]
mod tests;
