//! An AF_XDP socket that only sends: frames are copied into chunks of its memory, and come back when the kernel has them.
//!
//! A chunk has one owner: it is free, or between the transmit ring and the completion ring, where it is the kernel's. The
//! rings are as long as there are chunks, so neither can overflow. Returns the system's errors. Sources: as
//! [`super`]; frames in several chunks: kernel `Documentation/networking/af_xdp.rst`, "XDP_USE_SG".

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::{DataRing, Failed, Mapping, Ring, SocketRings, bind};

/// The ring of a socket that sends.
const SENDS: DataRing = DataRing {
    option: libc::XDP_TX_RING,
    page: libc::XDP_PGOFF_TX_RING as u64,
    offsets: |all| &all.tx,
};

/// Calls to the driver after which the rest is left for later: each takes a bounded number of frames.
const KICKS: u32 = 64;

/// A bound socket with its memory.
pub struct SendQueue {
    socket: OwnedFd,
    transmit: Ring,
    completion: Ring,
    // The kernel wants one, although nothing is received.
    _fill: Ring,
    memory: Mapping,
    chunk: usize,
    /// Addresses of chunks that are ours.
    free: Vec<u64>,
    /// Next place in the transmit ring.
    at: u32,
    /// Next completion that is read.
    done: u32,
}

// SAFETY: the mappings belong to this socket alone and are reached through it only; nothing in the
// kernel is tied to the thread that made them.
unsafe impl Send for SendQueue {}

impl std::fmt::Debug for SendQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendQueue").field("free", &self.free.len()).finish_non_exhaustive()
    }
}

impl SendQueue {
    /// Gives `socket` `chunks` (a power of two) of `chunk` bytes and binds it to a queue of the interface; the kernel copies.
    ///
    /// # Errors
    /// What could not be done, and the system's error.
    pub fn open(
        socket: OwnedFd,
        (interface, queue): (u32, u32),
        (chunk, chunks): (usize, u32),
    ) -> Result<SendQueue, Failed> {
        let fd = socket.as_fd();
        let rings = SocketRings::make(fd, (chunk, chunks), (2, chunks), &SENDS)?;
        let SocketRings { memory, data: transmit, fill, completion } = rings;
        bind(fd, (interface, queue), libc::XDP_COPY | libc::XDP_USE_SG)
            .map_err(|e| ("bind to the queue (frames in several pieces: Linux 6.6)", e))?;
        let free = (0..u64::from(chunks)).rev().map(|n| n * chunk as u64).collect();
        Ok(SendQueue {
            socket,
            transmit,
            completion,
            _fill: fill,
            memory,
            chunk,
            free,
            at: 0,
            done: 0,
        })
    }

    /// Puts a frame, given in parts, at the end of what is to be sent; false if there is no room now. It leaves with
    /// [`SendQueue::kick`].
    pub fn put(&mut self, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        let pieces = length.div_ceil(self.chunk);
        if length == 0 || self.free.len() < pieces {
            return false;
        }
        let mut bytes = parts.iter().copied();
        let mut part: &[u8] = &[];
        for piece in 0..pieces {
            let Some(address) = self.free.pop() else { return false };
            let size = (length - piece * self.chunk).min(self.chunk);
            let mut filled = 0;
            while filled < size {
                if part.is_empty() {
                    match bytes.next() {
                        Some(next) => part = next,
                        None => break,
                    }
                    continue;
                }
                let n = part.len().min(size - filled);
                // SAFETY: the chunk at `address` is ours alone, as it was in `free`, and lies in the mapping;
                // `filled + n` is at most its size. `part` is a slice of somebody else's memory.
                unsafe {
                    let to = self.memory.start.as_ptr().add(address as usize + filled);
                    std::ptr::copy_nonoverlapping(part.as_ptr(), to, n);
                }
                (filled, part) = (filled + n, &part[n..]);
            }
            let more = piece + 1 < pieces;
            let options = if more { libc::XDP_PKT_CONTD } else { 0 };
            let entry = libc::xdp_desc { addr: address, len: size as u32, options };
            // SAFETY: the entry lies in the mapping. There are as many places as chunks, and this chunk was not in
            // the ring, so the place is free and the kernel does not read it before the producer moves on.
            unsafe { self.transmit.entry::<libc::xdp_desc>(self.at).write(entry) };
            self.at = self.at.wrapping_add(1);
        }
        true
    }

    /// Lets the kernel send what was put, and takes back the chunks that it is done with.
    ///
    /// # Errors
    /// The system's error, unless it is that there is no room now.
    pub fn kick(&mut self) -> io::Result<()> {
        self.transmit.word(self.transmit.producer).store(self.at, Ordering::Release);
        for _ in 0..KICKS {
            if self.transmit.word(self.transmit.consumer).load(Ordering::Acquire) == self.at {
                break;
            }
            // SAFETY: no buffer is given and none is read.
            let rc = unsafe {
                let (fd, none) = (self.socket.as_raw_fd(), std::ptr::null());
                libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), 0)
            };
            if rc < 0 {
                let e = io::Error::last_os_error();
                match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => {}
                    _ => return Err(e),
                }
            }
            self.reap();
        }
        self.reap();
        Ok(())
    }

    fn reap(&mut self) {
        let end = self.completion.word(self.completion.producer).load(Ordering::Acquire);
        while self.done != end {
            // SAFETY: the entry lies in the mapping, and the kernel released it with its producer.
            let address = unsafe { self.completion.entry::<u64>(self.done).read() };
            // A kernel that names memory outside of what we gave it would be broken: nothing is taken.
            if (address as usize) < self.memory.len && self.free.len() < self.free.capacity() {
                self.free.push(address & !(self.chunk as u64 - 1));
            }
            self.done = self.done.wrapping_add(1);
        }
        self.completion.word(self.completion.consumer).store(self.done, Ordering::Release);
    }

    /// Chunks that are free.
    pub fn room(&self) -> usize {
        self.free.len()
    }
}
