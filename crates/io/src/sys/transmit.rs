//! `sendmmsg(2)` with `UDP_SEGMENT`: many trains in one call, split into datagrams by the kernel or
//! the network card.
//!
//! Returns the kernel's error for the first message that failed.

use std::io::{self, IoSlice};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Space for one `UDP_SEGMENT` control message (header 16 B, u16, padding).
const CONTROL: usize = 24;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Headers for one `sendmmsg` call; allocated once.
pub struct SendRing {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
    controls: Box<[Control]>,
}

// SAFETY: the raw pointers inside point to this ring's own boxes or are rewritten from live
// borrows in each call; nothing is tied to a thread.
unsafe impl Send for SendRing {}

impl std::fmt::Debug for SendRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendRing").field("slots", &self.headers.len()).finish()
    }
}

impl SendRing {
    /// A ring for up to `slots` messages a call, at least 1.
    pub fn new(slots: usize) -> SendRing {
        let slots = slots.max(1);
        // SAFETY: both are plain C structures for which all-zero is a valid value.
        let (header, part) = unsafe { (zeroed(), zeroed()) };
        SendRing {
            headers: vec![header; slots].into_boxed_slice(),
            parts: vec![part; slots].into_boxed_slice(),
            controls: vec![Control([0; CONTROL]); slots].into_boxed_slice(),
        }
    }

    /// Sends the first messages (as many as the ring holds) on a connected socket: bytes and, where
    /// the kernel shall split them, the bytes per datagram. Returns how many were sent, from the
    /// front; 0 only if there were none.
    ///
    /// # Errors
    /// The system's error for the first message, if none was sent.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: impl Iterator<Item = (&'a [u8], Option<u16>)>,
    ) -> io::Result<usize> {
        let mut filled = 0;
        for (bytes, segment) in messages.take(self.headers.len()) {
            let h = &mut self.headers[filled].msg_hdr;
            self.parts[filled].iov_base = bytes.as_ptr().cast_mut().cast();
            self.parts[filled].iov_len = bytes.len();
            h.msg_iov = &raw mut self.parts[filled];
            h.msg_iovlen = 1;
            h.msg_control = std::ptr::null_mut();
            h.msg_controllen = 0;
            if let Some(segment) = segment {
                cut_into(h, &mut self.controls[filled], segment);
            }
            filled += 1;
        }
        // SAFETY: the first `filled` headers point to this ring's own boxes, and their parts to
        // slices borrowed for 'a, which outlives this call.
        unsafe { send_filled(socket, &mut self.headers[..filled], libc::MSG_NOSIGNAL) }
    }
}

/// The kernel shall cut this message into datagrams of `segment` bytes.
fn cut_into(h: &mut libc::msghdr, control: &mut Control, segment: u16) {
    h.msg_control = (&raw mut *control).cast();
    h.msg_controllen = CONTROL as _;
    // SAFETY: the control space is 24 B, 8-byte aligned, and CMSG_SPACE(2) is at most
    // 24 B on every Linux ABI, so header and data lie inside it.
    unsafe {
        let c = libc::CMSG_FIRSTHDR(h);
        (*c).cmsg_level = libc::SOL_UDP;
        (*c).cmsg_type = libc::UDP_SEGMENT;
        (*c).cmsg_len = libc::CMSG_LEN(2) as _;
        libc::CMSG_DATA(c).cast::<u16>().write_unaligned(segment);
        h.msg_controllen = libc::CMSG_SPACE(2) as _;
    }
}

/// Pieces of one message: the kernel's `UIO_MAXIOV`.
pub const MOST_PIECES: usize = 1024;

/// Sends pieces, one behind the other, as one message on a connected socket; with `segment` the kernel cuts it into datagrams of
/// so many bytes.
///
/// # Errors
/// The system's error; nothing was sent then.
pub fn send_pieces(
    socket: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    segment: Option<u16>,
) -> io::Result<()> {
    // SAFETY: a plain C structure for which all-zero is a valid value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    // `IoSlice` has the layout of `iovec`, as its documentation says; the kernel only reads.
    header.msg_iov = pieces.as_ptr().cast_mut().cast();
    header.msg_iovlen = pieces.len() as _;
    let mut control = Control([0; CONTROL]);
    if let Some(segment) = segment {
        cut_into(&mut header, &mut control, segment);
    }
    // SAFETY: the header points to `pieces` and `control`, which live across the call.
    let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    usize::try_from(n).map(drop).map_err(|_| io::Error::last_os_error())
}

/// Sends the messages of these headers; how many, from the front. 0 only if there are none.
///
/// # Errors
/// The system's error for the first message, if none was sent.
///
/// # Safety
/// Every header points to parts and control data that live across the call; the kernel only reads them.
pub(super) unsafe fn send_filled(
    socket: BorrowedFd<'_>,
    headers: &mut [libc::mmsghdr],
    flags: libc::c_int,
) -> io::Result<usize> {
    if headers.is_empty() {
        return Ok(0);
    }
    let count = headers.len() as libc::c_uint;
    // SAFETY: the headers are a slice of that length, and what they point to lives by the caller's word.
    let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags as _) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
