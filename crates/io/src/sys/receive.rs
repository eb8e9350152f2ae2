//! `recvmmsg(2)` with control messages: many trains in one call, directly into a batch's slots.
//!
//! Returns the kernel's information about each train as [`ReceivedTrain`].

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use fullcount_core::batch::Origin;

use super::ReceivedTrain;

/// Space for the control messages of one train: timestamp 32 B, drop count 24 B, stride 24 B, address
/// 40 B.
const CONTROL: usize = 128;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Headers for one `recvmmsg` call; allocated once.
pub struct ReceiveRing {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
    names: Box<[libc::sockaddr_in6]>,
    controls: Box<[Control]>,
    /// Trains of the last call.
    received: usize,
    /// Headers, from the front, that must be made ready before the next call.
    stale: usize,
}

// SAFETY: the raw pointers inside point to this ring's own boxes or are rewritten from a live
// borrow in each call; nothing is tied to a thread.
unsafe impl Send for ReceiveRing {}

impl std::fmt::Debug for ReceiveRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveRing").field("slots", &self.headers.len()).finish()
    }
}

impl ReceiveRing {
    /// A ring for up to `slots` trains a call, at least 1.
    pub fn new(slots: usize) -> ReceiveRing {
        let slots = slots.max(1);
        // SAFETY: all of these are plain C structures for which all-zero is a valid value.
        let (header, part, name) = unsafe { (zeroed(), zeroed(), zeroed()) };
        ReceiveRing {
            headers: vec![header; slots].into_boxed_slice(),
            parts: vec![part; slots].into_boxed_slice(),
            names: vec![name; slots].into_boxed_slice(),
            controls: vec![Control([0; CONTROL]); slots].into_boxed_slice(),
            received: 0,
            stale: slots,
        }
    }

    /// Receives into `memory`, train `i` at `i * pitch`, at most `slot` bytes each. With `wait` it
    /// blocks (up to the socket's timeout) for the first train, never for the others. Returns the
    /// number of trains, at least 1.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came, `InvalidInput` if the memory holds no slot, or the system's.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        memory: &mut [u8],
        (pitch, slot): (usize, usize),
        wait: bool,
    ) -> io::Result<usize> {
        let slots = self.headers.len().min(memory.len() / pitch.max(slot).max(1));
        self.received = 0;
        if slots == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no memory to receive into"));
        }
        for (part, place) in self.parts.iter_mut().zip(memory.chunks_exact_mut(pitch.max(slot))) {
            part.iov_base = place.as_mut_ptr().cast();
            part.iov_len = slot;
        }
        for i in 0..self.stale {
            let h = &mut self.headers[i].msg_hdr;
            h.msg_name = (&raw mut self.names[i]).cast();
            h.msg_namelen = size_of::<libc::sockaddr_in6>() as u32;
            h.msg_iov = &raw mut self.parts[i];
            h.msg_iovlen = 1;
            h.msg_control = (&raw mut self.controls[i]).cast();
            h.msg_controllen = CONTROL as _;
            h.msg_flags = 0;
        }
        // MSG_TRUNC as a flag makes the kernel report the true length of a train that was cut.
        let flags = libc::MSG_TRUNC | if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: the first `slots` headers point to a name, a control space and a part of this
        // ring's own boxes; each part points to `slot` bytes of `memory`, disjoint, borrowed
        // mutably across the call. The kernel writes nowhere else.
        let n = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                slots as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        self.received = usize::try_from(n).unwrap_or(0);
        // The kernel writes to the headers of received messages, and to one more if it failed.
        self.stale = (self.received + 1).min(self.headers.len());
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(self.received) }
    }

    /// What the kernel said about train `i` of the last call; `None` beyond the number it returned.
    #[inline]
    pub fn message(&self, i: usize) -> Option<ReceivedTrain> {
        let header = self.headers[..self.received].get(i)?;
        let h = &header.msg_hdr;
        let mut message = ReceivedTrain {
            len: header.msg_len as usize,
            truncated: h.msg_flags & libc::MSG_TRUNC != 0,
            control_lost: h.msg_flags & libc::MSG_CTRUNC != 0,
            origin: origin(&self.names[i]),
            ..ReceivedTrain::default()
        };
        if h.msg_controllen == 0 {
            return Some(message);
        }
        // SAFETY: the last call filled this header, whose control pointer and length describe our
        // own 8-byte-aligned box; the CMSG macros stay inside that length. Reads are unaligned-safe.
        unsafe {
            let mut c = libc::CMSG_FIRSTHDR(h);
            while !c.is_null() {
                let data = libc::CMSG_DATA(c);
                match ((*c).cmsg_level, (*c).cmsg_type) {
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let stride = data.cast::<libc::c_int>().read_unaligned();
                        message.stride = usize::try_from(stride).ok().filter(|s| *s > 0);
                    }
                    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => {
                        let t = data.cast::<libc::timespec>().read_unaligned();
                        message.time_ns = Some(t.tv_sec as i64 * 1_000_000_000 + t.tv_nsec as i64);
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        message.drops = Some(data.cast::<u32>().read_unaligned());
                    }
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let told = data.cast::<libc::in_pktinfo>().read_unaligned();
                        message.to = Some(super::mapped(told.ipi_addr.s_addr.to_ne_bytes()));
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let told = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        message.to = Some(told.ipi6_addr.s6_addr);
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        let aux = data.cast::<libc::tpacket_auxdata>().read_unaligned();
                        message.vlan = super::frames::tag(&aux);
                    }
                    _ => {}
                }
                c = libc::CMSG_NXTHDR(h, c);
            }
        }
        Some(message)
    }
}

/// Origin from a socket address of either family (an IPv4 address lies in the first 16 bytes).
#[inline]
fn origin(name: &libc::sockaddr_in6) -> Origin {
    match libc::c_int::from(name.sin6_family) {
        libc::AF_INET => {
            // SAFETY: sockaddr_in (16 B) is shorter than sockaddr_in6 (28 B), less strictly or
            // equally aligned, and any bytes are a valid sockaddr_in.
            let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let mut ip = [0; 16];
            ip[10] = 0xFF;
            ip[11] = 0xFF;
            ip[12..].copy_from_slice(&v4.sin_addr.s_addr.to_ne_bytes());
            Origin { ip, port: u16::from_be(v4.sin_port) }
        }
        libc::AF_INET6 => Origin { ip: name.sin6_addr.s6_addr, port: u16::from_be(name.sin6_port) },
        _ => Origin::NONE,
    }
}
