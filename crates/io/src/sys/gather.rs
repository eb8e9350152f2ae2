//! `sendmmsg(2)` with messages of three parts: headers from here, payload from where it lies.
//!
//! Returns the kernel's error for the first message that failed.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::transmit::send_filled;

/// Parts of one message.
pub const PARTS: usize = 3;

/// Headers for one `sendmmsg` call; allocated once.
pub struct GatherRing {
    headers: Box<[libc::mmsghdr]>,
    parts: Box<[[libc::iovec; PARTS]]>,
}

// SAFETY: the raw pointers inside point to this ring's own boxes or are rewritten from live
// borrows in each call; nothing is tied to a thread.
unsafe impl Send for GatherRing {}

impl std::fmt::Debug for GatherRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatherRing").field("slots", &self.headers.len()).finish()
    }
}

fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

impl GatherRing {
    /// For up to `slots` messages a call, at least 1.
    pub fn new(slots: usize) -> GatherRing {
        let slots = slots.max(1);
        // SAFETY: both are plain C structures for which all-zero is a valid value.
        let (header, part) = unsafe { (zeroed(), zeroed()) };
        GatherRing {
            headers: vec![header; slots].into_boxed_slice(),
            parts: vec![[part; PARTS]; slots].into_boxed_slice(),
        }
    }

    /// Sends the first messages (as many as the ring holds) without waiting. Returns how many were sent, from the front; 0
    /// only if there were none.
    ///
    /// # Errors
    /// The system's error for the first message, if none was sent.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: impl Iterator<Item = [&'a [u8]; PARTS]>,
    ) -> io::Result<usize> {
        let mut filled = 0;
        for message in messages.take(self.headers.len()) {
            self.parts[filled] = message.map(part);
            let header = &mut self.headers[filled].msg_hdr;
            header.msg_iov = self.parts[filled].as_mut_ptr();
            header.msg_iovlen = PARTS as _;
            filled += 1;
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the first `filled` headers point to this ring's own boxes, and their parts to
        // slices borrowed for 'a, which outlives this call.
        unsafe { send_filled(socket, &mut self.headers[..filled], flags) }
    }
}

/// Writes one message of three parts to a device that takes a frame a call.
///
/// # Errors
/// The system's error.
pub fn write_parts(device: BorrowedFd<'_>, message: [&[u8]; PARTS]) -> io::Result<usize> {
    let parts = message.map(part);
    // SAFETY: the parts are slices that live across the call; the kernel only reads them.
    let n = unsafe { libc::writev(device.as_raw_fd(), parts.as_ptr(), PARTS as _) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
