//! AF_PACKET with a ring of blocks (TPACKET_V3): the kernel writes copies of frames into memory that
//! we share, block by block.
//!
//! A block is the kernel's until it sets its user bit, then ours until [`PacketRing::advance`] has passed its last
//! packet. Each packet comes with the kernel's information on segmentation (`PACKET_VNET_HDR`), so that trains have
//! their stride. Lengths that do not fit their block end it. Sources: `packet(7)`, kernel `packet_mmap.rst`,
//! `linux/if_packet.h`, `linux/virtio_net.h`.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

use super::interface::{ClassicWord, attach_classic_filter};

const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TPACKET_V3: libc::c_int = 2;
const ETH_P_ALL: u16 = 0x0003;
/// Block status: it is ours.
const USER: u32 = 1;
/// Places in a block's header.
const STATUS: usize = 8;
const COUNT: usize = 12;
const FIRST: usize = 16;
/// The virtio header before each frame.
const VNET: usize = 10;
const VNET_PARTIAL: u8 = 1;
const VNET_UDP: u8 = 5;

/// Length of a ring's frame slots; of no meaning in version 3 but that blocks are multiples of it.
const FRAME: usize = 2048;

/// `struct tpacket_req3`.
#[repr(C)]
struct Request {
    block_size: u32,
    blocks: u32,
    frame_size: u32,
    frames: u32,
    timeout_ms: u32,
    private: u32,
    features: u32,
}

/// One received frame.
#[derive(Debug, Clone, Copy)]
pub struct RingFrame<'a> {
    /// From the Ethernet header on; the outer VLAN tag is taken out by the kernel.
    pub frame: &'a [u8],
    /// Bytes of the frame before it was cut by the filter.
    pub len: usize,
    /// Kernel receive time, ns since 1970 UTC.
    pub time_ns: i64,
    /// The checksum is not complete: the sender is on this host.
    pub partial: bool,
    /// Bytes per datagram, if this is a train of several.
    pub stride: Option<usize>,
}

/// What the kernel counted since the last question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingStatistics {
    /// Packets dropped because no block was free.
    pub drops: u64,
    /// Times that the ring was full.
    pub freezes: u64,
}

/// A packet socket with its ring.
pub struct PacketRing {
    socket: Socket,
    start: NonNull<u8>,
    block: usize,
    blocks: usize,
    /// Block that is ours or will be next.
    at: usize,
    /// Place of the next packet in it, and packets left; 0 left: not looked at yet.
    next: usize,
    left: u32,
}

// SAFETY: the mapping belongs to this socket alone and is reached through it only; nothing in the
// kernel is tied to the thread that made it.
unsafe impl Send for PacketRing {}

impl std::fmt::Debug for PacketRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketRing").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

fn set<T>(socket: &Socket, name: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, a plain C value alive across the call.
    let rc = unsafe {
        let value = (&raw const *value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, name, value, size)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl PacketRing {
    /// Opens a socket on interface `index` with `blocks` blocks of `block` bytes (a multiple of the
    /// page); a block with packets is handed over after `timeout_ms` at the latest. Only packets that
    /// arrive are seen, and of those what `filter` lets through.
    ///
    /// # Errors
    /// What could not be done, and the system's error.
    pub fn open(
        index: u32,
        block: usize,
        blocks: usize,
        timeout_ms: u32,
        filter: &[ClassicWord],
    ) -> Result<PacketRing, (&'static str, io::Error)> {
        // Protocol 0 receives nothing until it is bound, so nothing comes before the filter.
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))
            .map_err(|e| ("open a packet socket", e))?;
        attach_classic_filter(socket.as_fd(), filter).map_err(|e| ("set the filter", e))?;
        set(&socket, PACKET_VERSION, &TPACKET_V3).map_err(|e| ("choose TPACKET_V3", e))?;
        set(&socket, PACKET_VNET_HDR, &1i32).map_err(|e| ("ask for segment sizes", e))?;
        set(&socket, PACKET_IGNORE_OUTGOING, &1i32)
            .map_err(|e| ("leave out what this host sends (Linux 4.20)", e))?;
        let request = Request {
            block_size: block as u32,
            blocks: blocks as u32,
            frame_size: FRAME as u32,
            frames: (block / FRAME * blocks) as u32,
            timeout_ms,
            private: 0,
            features: 0,
        };
        set(&socket, PACKET_RX_RING, &request).map_err(|e| ("get memory for packets", e))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let len = block * blocks;
            libc::mmap(std::ptr::null_mut(), len, protection, flags, socket.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(("map the ring", io::Error::last_os_error()));
        }
        let none = || ("map the ring", io::ErrorKind::OutOfMemory.into());
        let start = NonNull::new(at.cast()).ok_or_else(none)?;
        let ring = PacketRing { socket, start, block, blocks, at: 0, next: 0, left: 0 };
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETH_P_ALL.to_be();
        address.sll_ifindex = index as i32;
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, alive across the call.
        let rc = unsafe { libc::bind(ring.socket.as_raw_fd(), (&raw const address).cast(), size) };
        if rc == 0 { Ok(ring) } else { Err(("bind to the interface", io::Error::last_os_error())) }
    }

    /// Status word of the present block.
    fn status(&self) -> &AtomicU32 {
        let at = self.at * self.block + STATUS;
        // SAFETY: inside the mapping (`at` is below `blocks`, a block is longer than its header),
        // aligned to 4 as blocks are to pages; the kernel accesses this word atomically as well.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU32>() }
    }

    /// Bytes of the present block; only while its status says that it is ours.
    fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, which lives as long as `self`. The caller saw the user bit with
        // an acquiring load: the kernel writes to the block no more, until `advance`, which borrows
        // `self` mutably, gives it back.
        unsafe {
            let start = self.start.as_ptr().add(self.at * self.block);
            std::slice::from_raw_parts(start, self.block)
        }
    }

    /// True if a packet waits; moves to the next block if it is ready.
    #[inline]
    pub fn look(&mut self) -> bool {
        while self.left == 0 {
            if self.status().load(Ordering::Acquire) & USER == 0 {
                return false;
            }
            let (count, first) = (word(self.bytes(), COUNT), word(self.bytes(), FIRST));
            self.left = count;
            self.next = first as usize;
            if count == 0 {
                // A block that was handed over by the timer without a packet.
                self.give_back();
            }
        }
        true
    }

    /// The packet at the cursor; `None` if nothing waits (see [`PacketRing::look`]) or the block makes
    /// no sense.
    #[inline]
    pub fn packet(&self) -> Option<RingFrame<'_>> {
        if self.left == 0 {
            return None;
        }
        let block = self.bytes();
        let h: &[u8; 28] = block.get(self.next..)?.first_chunk()?;
        let number = |at: usize| u32::from_ne_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let (seconds, nanos, snapped, len) = (number(4), number(8), number(12), number(16));
        let mac = usize::from(u16::from_ne_bytes([h[24], h[25]]));
        let start = self.next + mac;
        let frame = block.get(start..start + snapped as usize)?;
        let vnet: &[u8; VNET] = block.get(start.checked_sub(VNET)?..)?.first_chunk()?;
        let size = usize::from(u16::from_le_bytes([vnet[4], vnet[5]]));
        Some(RingFrame {
            frame,
            len: len as usize,
            time_ns: i64::from(seconds) * 1_000_000_000 + i64::from(nanos),
            partial: vnet[0] & VNET_PARTIAL != 0,
            stride: (vnet[1] & 0x7f == VNET_UDP && size > 0).then_some(size),
        })
    }

    /// Moves to the next packet; after its last one the block is returned to the kernel.
    #[inline]
    pub fn advance(&mut self) {
        if self.left == 0 {
            return;
        }
        let step = self.bytes().get(self.next..).map_or(0, |rest| word(rest, 0));
        self.next += step as usize;
        self.left -= 1;
        if self.left == 0 || step == 0 && self.left > 0 {
            self.left = 0;
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        self.status().store(0, Ordering::Release);
        self.at = (self.at + 1) % self.blocks;
    }

    /// What was dropped since the last call.
    pub fn statistics(&self) -> io::Result<RingStatistics> {
        // struct tpacket_stats_v3: packets, drops, freezes
        let mut answer = [0u32; 3];
        let mut size = size_of::<[u32; 3]>() as libc::socklen_t;
        // SAFETY: pointer and length describe `answer`; the kernel writes at most that much.
        let rc = unsafe {
            let to = answer.as_mut_ptr().cast();
            let fd = self.socket.as_raw_fd();
            libc::getsockopt(fd, libc::SOL_PACKET, PACKET_STATISTICS, to, &mut size)
        };
        match rc {
            0 => Ok(RingStatistics { drops: answer[1].into(), freezes: answer[2].into() }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned; references into it borrow `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.block * self.blocks) };
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|b| b.first_chunk());
    word.map_or(0, |w| u32::from_ne_bytes(*w))
}
