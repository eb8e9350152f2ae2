//! One AF_XDP socket: its packet memory (UMEM) and the rings shared with the kernel.
//!
//! A chunk of memory always has exactly one owner: in the fill ring it is the kernel's, between the receive ring and
//! [`Queue::release`] it is ours and can be read through [`Queue::piece`]. The receive and fill rings are as long as
//! there are chunks, so neither can overflow, and the fill ring is full whenever nothing waits to be read. Returns the
//! system's errors. Sources: kernel `Documentation/networking/af_xdp.rst`, `linux/if_xdp.h`.
#![allow(unsafe_code)]

mod transmit;

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use transmit::SendQueue;

/// Whether the card may write into our memory itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroCopy {
    /// If its driver can.
    #[default]
    Auto,
    /// Or fail.
    Always,
    /// The kernel copies.
    Never,
}

/// Whether frames may come in several chunks (Linux 6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Segments {
    /// Each fits one; longer ones are dropped by the kernel.
    #[default]
    Never,
    /// If this system can.
    IfPossible,
    /// Or fail.
    Always,
}

/// How a socket is opened.
#[derive(Debug, Clone, Copy)]
pub struct QueueOptions {
    /// Number of the interface.
    pub interface: u32,
    /// Receive queue of the interface, from 0.
    pub queue: u32,
    /// Bytes of a chunk: 2048 or 4096.
    pub chunk: usize,
    /// Chunks: a power of two.
    pub chunks: u32,
    /// See there.
    pub zero_copy: ZeroCopy,
    /// See there.
    pub segments: Segments,
}

/// How often and after which pauses a queue that is taken is tried again: 1 s in all.
const BIND_TRIES: u32 = 100;
const BIND_NAP: Duration = Duration::from_millis(10);

/// What could not be done, with the system's error.
pub type Failed = (&'static str, io::Error);

/// Memory mapped into this process; unmapped when dropped.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Zeroed memory, in large pages if available: otherwise every chunk is a separate page, and each frame a TLB miss.
    fn anonymous(len: usize) -> io::Result<Mapping> {
        let map = Mapping::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        let start = map.start.as_ptr();
        // SAFETY: the range is this mapping, which nobody else knows yet; advice changes no content,
        // and every page is written once so that it is there before the kernel pins it.
        unsafe {
            libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE);
            (0..len).step_by(4096).for_each(|at| start.add(at).write(0));
        }
        Ok(map)
    }

    /// One of a socket's rings.
    fn ring(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Mapping> {
        Mapping::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: u64) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, flags, fd, offset as libc::off_t)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what map returned; references into it borrow the owner of this mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A ring of the kernel's layout; all offsets were checked against the mapping's length.
struct Ring {
    map: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
}

impl Ring {
    fn new(
        fd: BorrowedFd<'_>,
        offsets: &libc::xdp_ring_offset,
        entry: usize,
        length: u32,
        page_offset: u64,
    ) -> io::Result<Ring> {
        let len = offsets.desc as usize + entry * length as usize;
        let map = Mapping::ring(fd, len, page_offset)?;
        let place = |offset: u64, size: usize| -> io::Result<usize> {
            let at = offset as usize;
            let fits = at.is_multiple_of(size) && at + size <= len;
            fits.then_some(at)
                .ok_or_else(|| io::Error::other("the kernel's ring has an unknown form"))
        };
        Ok(Ring {
            producer: place(offsets.producer, 4)?,
            consumer: place(offsets.consumer, 4)?,
            flags: place(offsets.flags, 4)?,
            entries: place(offsets.desc, 8)?,
            mask: length - 1,
            map,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `at` is one of the offsets checked in `new`: aligned to 4 and inside the mapping,
        // which lives as long as `self`. The kernel accesses these words atomically as well.
        unsafe { &*self.map.start.as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// Place of an entry of type `T`, with which the mapping's length was computed.
    fn entry<T>(&self, number: u32) -> *mut T {
        let index = (number & self.mask) as usize;
        // SAFETY: the index is below the ring's length, so this stays inside the mapping.
        unsafe { self.map.start.as_ptr().add(self.entries).cast::<T>().add(index) }
    }
}

/// One piece of a frame: the whole of it, unless it is longer than a chunk.
#[derive(Debug, Clone, Copy)]
pub struct FramePiece<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The frame continues in the next piece.
    pub more: bool,
}

/// What the kernel counted for one socket (`XDP_STATISTICS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Frames dropped because there was no chunk, or they were longer than what fits.
    pub dropped: u64,
    /// Frames dropped because the receive ring was full.
    pub ring_full: u64,
    /// Times that the fill ring was empty.
    pub fill_empty: u64,
    /// Chunks that we gave and the kernel did not take.
    pub invalid: u64,
}

/// A bound AF_XDP socket with its memory.
pub struct Queue {
    socket: OwnedFd,
    receive: Ring,
    fill: Ring,
    // The kernel wants one, although nothing is sent.
    _completion: Ring,
    memory: Mapping,
    chunk: usize,
    zero_copy: bool,
    /// Next receive entry of ours.
    at: u32,
    /// Receive entries of ours, from `at`.
    seen: u32,
    /// Next free place in the fill ring.
    filled: u32,
}

// SAFETY: the mappings belong to this socket alone and are reached through it only; nothing in the
// kernel is tied to the thread that made them.
unsafe impl Send for Queue {}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("chunk", &self.chunk).finish_non_exhaustive()
    }
}

/// An AF_XDP socket that is not bound to anything yet.
///
/// # Errors
/// The system's error: `PermissionDenied` without `CAP_NET_RAW`, `EAFNOSUPPORT` without AF_XDP.
pub fn socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for us in this very call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, a plain C value alive across the call.
    let rc = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, (&raw const *value).cast(), size)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a plain C structure made of integers.
fn get<T: Copy>(fd: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: this module asks for xdp_mmap_offsets, xdp_statistics and xdp_options only, for which
    // all-zero is valid; the kernel writes at most `size` bytes. Older kernels write fewer.
    unsafe {
        let mut value: T = zeroed();
        let to = (&raw mut value).cast();
        match libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, to, &mut size) {
            0 => Ok(value),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Binds a socket to a queue of an interface.
fn bind(fd: BorrowedFd<'_>, (interface, queue): (u32, u32), flags: u16) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_xdp.
    let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = flags;
    address.sxdp_ifindex = interface;
    address.sxdp_queue_id = queue;
    let size = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: pointer and length describe `address`, alive across the call.
    let rc = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The ring that a socket's frames pass through: its option, its page, its place among the offsets.
struct DataRing {
    option: libc::c_int,
    page: u64,
    offsets: fn(&libc::xdp_mmap_offsets) -> &libc::xdp_ring_offset,
}

/// Of a socket that receives.
const RECEIVES: DataRing = DataRing {
    option: libc::XDP_RX_RING,
    page: libc::XDP_PGOFF_RX_RING as u64,
    offsets: |all| &all.rx,
};

/// Memory of a socket and its rings, before it is bound.
struct SocketRings {
    memory: Mapping,
    data: Ring,
    fill: Ring,
    completion: Ring,
}

impl SocketRings {
    /// Memory for `chunks` (a power of two, and the length of the data ring) of `chunk` bytes, and rings of these lengths to fill
    /// and to complete.
    ///
    /// # Errors
    /// What could not be done, and the system's error.
    fn make(
        fd: BorrowedFd<'_>,
        (chunk, chunks): (usize, u32),
        (fill, completion): (u32, u32),
        of: &DataRing,
    ) -> Result<SocketRings, Failed> {
        let memory = Mapping::anonymous(chunk * chunks as usize)
            .map_err(|e| ("get memory for packets", e))?;
        // SAFETY: all-zero is a valid xdp_umem_reg.
        let mut about: libc::xdp_umem_reg = unsafe { zeroed() };
        about.addr = memory.start.as_ptr() as u64;
        about.len = memory.len as u64;
        about.chunk_size = chunk as u32;
        set(fd, libc::XDP_UMEM_REG, &about).map_err(|e| ("register memory for packets", e))?;
        let rings = [
            (libc::XDP_UMEM_FILL_RING, fill),
            (libc::XDP_UMEM_COMPLETION_RING, completion),
            (of.option, chunks),
        ];
        for (name, length) in rings {
            set(fd, name, &length).map_err(|e| ("make rings", e))?;
        }
        let offsets: libc::xdp_mmap_offsets =
            get(fd, libc::XDP_MMAP_OFFSETS).map_err(|e| ("ask for the rings' form", e))?;
        let ring = |offsets, entry, length, page| {
            Ring::new(fd, offsets, entry, length, page).map_err(|e| ("map rings", e))
        };
        let descriptor = size_of::<libc::xdp_desc>();
        Ok(SocketRings {
            data: ring((of.offsets)(&offsets), descriptor, chunks, of.page)?,
            fill: ring(&offsets.fr, 8, fill, libc::XDP_UMEM_PGOFF_FILL_RING)?,
            completion: ring(&offsets.cr, 8, completion, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
            memory,
        })
    }
}

impl Queue {
    /// Gives `socket` its memory and rings, fills the fill ring and binds it to the queue.
    ///
    /// # Errors
    /// What could not be done, and the system's error.
    pub fn open(socket: OwnedFd, mut o: QueueOptions) -> Result<Queue, Failed> {
        let fd = socket.as_fd();
        let rings = SocketRings::make(fd, (o.chunk, o.chunks), (o.chunks, 2), &RECEIVES)?;
        let SocketRings { memory, data: receive, fill, completion } = rings;
        let mut queue = Queue {
            socket,
            receive,
            fill,
            _completion: completion,
            memory,
            chunk: o.chunk,
            zero_copy: false,
            at: 0,
            seen: 0,
            filled: 0,
        };
        for number in 0..o.chunks {
            queue.give(u64::from(number) * o.chunk as u64);
        }
        queue.fill.word(queue.fill.producer).store(queue.filled, Ordering::Release);
        // The kernel frees a queue some time after its last socket was closed (from a work
        // queue), so a restarted receiver waits for its own former self.
        let mut tries = BIND_TRIES;
        loop {
            match queue.bind(&o) {
                Ok(()) => break,
                Err(e)
                    if o.segments == Segments::IfPossible
                        && matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) =>
                {
                    o.segments = Segments::Never;
                }
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) && tries > 0 => {
                    tries -= 1;
                    std::thread::sleep(BIND_NAP);
                }
                Err(e) => return Err(("bind to the receive queue", e)),
            }
        }
        let options: libc::xdp_options =
            get(queue.socket.as_fd(), libc::XDP_OPTIONS).map_err(|e| ("ask how it is bound", e))?;
        queue.zero_copy = options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(queue)
    }

    fn bind(&self, o: &QueueOptions) -> io::Result<()> {
        let mut flags = libc::XDP_USE_NEED_WAKEUP;
        match o.zero_copy {
            // The kernel tries the driver first and copies if the driver cannot.
            ZeroCopy::Auto => {}
            ZeroCopy::Always => flags |= libc::XDP_ZEROCOPY,
            ZeroCopy::Never => flags |= libc::XDP_COPY,
        }
        if o.segments != Segments::Never {
            flags |= libc::XDP_USE_SG;
        }
        bind(self.socket.as_fd(), (o.interface, o.queue), flags)
    }

    /// True if the card writes into our memory itself.
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Looks how many pieces wait; they stay until they are released.
    #[inline]
    pub fn look(&mut self) -> u32 {
        let end = self.receive.word(self.receive.producer).load(Ordering::Acquire);
        self.seen = end.wrapping_sub(self.at).min(self.receive.mask + 1);
        self.seen
    }

    #[inline]
    fn descriptor(&self, i: u32) -> libc::xdp_desc {
        assert!(i < self.seen, "piece {i} of {}", self.seen);
        // SAFETY: the entry lies in the mapping; `look` saw the kernel's release of it, and it is
        // not given back before `release` moves the consumer on.
        unsafe { self.receive.entry::<libc::xdp_desc>(self.at.wrapping_add(i)).read() }
    }

    /// Piece `i` of those that [`Queue::look`] saw.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn piece(&self, i: u32) -> FramePiece<'_> {
        let d = self.descriptor(i);
        let (start, len) = (d.addr as usize, d.len as usize);
        // A kernel that names memory outside of what we gave it would be broken: nothing is read.
        let inside = start.checked_add(len).is_some_and(|end| end <= self.memory.len);
        let (start, len) = if inside { (start, len) } else { (0, 0) };
        // SAFETY: the range is inside the mapping, which lives as long as `self`. Its chunk is ours:
        // it came over the receive ring and only `release`, which borrows `self` mutably, gives it
        // back to the kernel.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().add(start), len) };
        FramePiece { bytes, more: d.options & libc::XDP_PKT_CONTD != 0 }
    }

    /// Begins to fetch the first two cache lines of piece `i`, if there is one: all headers, written
    /// by another core.
    #[inline]
    pub fn prefetch(&self, i: u32) {
        #[cfg(target_arch = "x86_64")]
        if i < self.seen {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = (self.descriptor(i).addr as usize).min(self.memory.len - 128);
            // SAFETY: a prefetch changes nothing, and both addresses are inside the mapping.
            unsafe {
                let at = self.memory.start.as_ptr().add(start).cast();
                _mm_prefetch::<_MM_HINT_T0>(at);
                _mm_prefetch::<_MM_HINT_T0>(at.add(64));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = i;
    }

    /// Gives the chunks of the first `n` pieces back to the kernel.
    ///
    /// # Panics
    /// If [`Queue::look`] did not see so many.
    #[inline]
    pub fn release(&mut self, n: u32) {
        if n == 0 {
            return;
        }
        for i in 0..n {
            self.give(self.descriptor(i).addr);
        }
        self.at = self.at.wrapping_add(n);
        self.seen -= n;
        self.fill.word(self.fill.producer).store(self.filled, Ordering::Release);
        self.receive.word(self.receive.consumer).store(self.at, Ordering::Release);
    }

    /// Writes a chunk's address into the fill ring; the kernel sees it with the next store of the
    /// producer.
    #[inline]
    fn give(&mut self, address: u64) {
        let chunk = address & !(self.chunk as u64 - 1);
        // SAFETY: the entry lies in the mapping. There are as many places as chunks, and this chunk
        // is not in the ring, so the place is free and the kernel does not read it yet.
        unsafe { self.fill.entry::<u64>(self.filled).write(chunk) };
        self.filled = self.filled.wrapping_add(1);
    }

    /// True if the driver has stopped and wants to be called.
    #[inline]
    pub fn wants_wakeup(&self) -> bool {
        self.fill.word(self.fill.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Calls the driver: it goes on receiving; with preferred busy polling it works on our thread.
    pub fn wake(&self) {
        // SAFETY: no buffer is given and none is written.
        unsafe {
            let none = std::ptr::null_mut();
            libc::recvfrom(
                self.socket.as_raw_fd(),
                none,
                0,
                libc::MSG_DONTWAIT,
                none.cast(),
                none.cast(),
            );
        }
    }

    /// True once the interface has gone: the only error that the kernel puts on such a socket (one
    /// that is down may come back).
    pub fn has_gone(&self) -> bool {
        matches!(socket2::SockRef::from(&self.socket).take_error(), Ok(Some(_)))
    }

    /// The kernel's counts since the socket was opened.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let s: libc::xdp_statistics = get(self.socket.as_fd(), libc::XDP_STATISTICS)?;
        Ok(Statistics {
            dropped: s.rx_dropped,
            ring_full: s.rx_ring_full,
            fill_empty: s.rx_fill_ring_empty_descs,
            invalid: s.rx_invalid_descs,
        })
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
