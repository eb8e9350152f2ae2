//! Multishot `recvmsg(2)` of io_uring, directly into a batch's slots.
//!
//! One request stays armed on the socket; each train that comes fills the next slot of the provided buffer ring. Slots
//! belong to a batch only while a receive call runs: with deferred task work the kernel fills slots only inside this
//! thread's `io_uring_enter`, so each call lends the batch's memory, enters, and takes back slots that were not filled.
//! So nothing is copied, and the ring does not depend on the return of a batch. Refuses: kernels before 6.1, which have
//! no deferred task work. Sources: `io_uring_setup(2)`, `io_uring_enter(2)`, `io_uring_register_buf_ring(3)`,
//! `io_uring_prep_recvmsg_multishot(3)`.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::ReceivedTrain;
use crate::udp::uring::{CONTROL, HEAD, NAME, message, refusal};

/// `IORING_ENTER_GETEVENTS` (`linux/io_uring.h`): run deferred task work, and wait if told to.
const GETEVENTS: u32 = 1;
/// Number of our only group of provided buffers.
const GROUP: u16 = 0;
/// Mark of our only kind of request.
const RECEIVE: u64 = 1;

/// The provided buffer ring: pages shared with the kernel, which holds them as long as it needs them, even after we
/// unmap them. We write entries and tail; the kernel reads both.
struct Lent {
    entries: NonNull<BufRingEntry>,
    count: usize,
    /// Entries that the kernel has taken so far; wraps as its own count does.
    head: u16,
}

// SAFETY: the pages belong to this value alone, and nothing in it is tied to a thread.
unsafe impl Send for Lent {}

impl Lent {
    fn new(slots: usize) -> io::Result<Lent> {
        let count = slots.next_power_of_two();
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches no memory of ours.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * size_of::<BufRingEntry>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let entries = NonNull::new(pages.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Lent { entries, count, head: 0 })
    }

    fn tail(&self) -> &AtomicU16 {
        // SAFETY: the first entry is mapped and zeroed; its last two bytes are the tail, aligned to
        // two, written by us alone and always through this atomic.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) }
    }

    /// Lends `slots` pieces of `bytes` bytes, `pitch` apart, the first at `memory`; buffer `i` is
    /// piece `i`. The caller enters the kernel only while that memory is borrowed, and takes back.
    fn lend(&mut self, memory: u64, slots: usize, (pitch, bytes): (usize, usize)) {
        for i in 0..slots.min(self.count) {
            let at = (self.head as usize + i) & (self.count - 1);
            // SAFETY: `at` is below the number of mapped entries; the kernel does not write entries,
            // and does not read these before the tail says so. The setters leave the tail alone.
            let entry = unsafe { self.entries.add(at).as_mut() };
            entry.set_addr(memory + (i * pitch) as u64);
            entry.set_len(bytes as u32);
            entry.set_bid(i as u16);
        }
        self.tail().store(self.head.wrapping_add(slots as u16), Ordering::Release);
    }

    /// Takes back slots that the kernel has not filled: the ring is empty, no slot can be chosen.
    fn take_back(&mut self) {
        self.tail().store(self.head, Ordering::Release);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: these pages were mapped by `new` and nothing borrows them. The kernel keeps its own
        // hold on them, empty, until its ring is gone.
        unsafe {
            libc::munmap(self.entries.as_ptr().cast(), self.count * size_of::<BufRingEntry>());
        }
    }
}

/// One multishot receive request and the slots lent to it.
pub struct UringRing {
    // Dropped before the pages.
    ring: IoUring,
    lent: Lent,
    header: Box<libc::msghdr>,
    slots: usize,
    enabled: bool,
    armed: bool,
    messages: Box<[(usize, ReceivedTrain)]>,
    received: usize,
    /// Error of a call that brought trains as well; 0 for none.
    later: i32,
    overflow: u32,
    /// Times that all slots of a call were filled, so that the request ended and was made again.
    pub exhausted: u64,
    /// Completions that the kernel could not hand over; each is a train that was lost.
    pub completions_lost: u64,
    /// `io_uring_enter` calls.
    pub calls: u64,
}

// SAFETY: the message header holds lengths and null pointers only; ring and slots are `Send`.
unsafe impl Send for UringRing {}

impl std::fmt::Debug for UringRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringRing").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// A ring that works only on the thread that uses it first, and only when that thread asks.
fn build(slots: usize) -> io::Result<(IoUring, Lent)> {
    let said = |e: io::Error| {
        let switch = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
        match e.raw_os_error() {
            Some(errno) => io::Error::new(e.kind(), refusal(errno, switch.as_deref())),
            None => e,
        }
    };
    // A call brings at most `slots` trains and the request's end, so twice as many completions
    // never overflow.
    let completions = (2 * slots.max(2)).next_power_of_two() as u32;
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_r_disabled()
        .setup_cqsize(completions)
        .build(4)
        .map_err(said)?;
    let lent = Lent::new(slots)?;
    // SAFETY: address and count describe mapped, zeroed pages; the kernel takes a hold of its own on
    // them, and reads no entry while head and tail are equal.
    unsafe {
        let (at, count) = (lent.entries.as_ptr().addr() as u64, lent.count as u16);
        ring.submitter().register_buf_ring_with_flags(at, count, GROUP, 0).map_err(said)?;
    }
    Ok((ring, lent))
}

impl UringRing {
    /// A ring for up to `slots` trains a call, 1..=1024. The thread that receives first has it alone.
    ///
    /// # Errors
    /// A sentence that says what forbids it: the kernel's age, a sysctl, a filter.
    pub fn new(slots: usize) -> io::Result<UringRing> {
        let slots = slots.clamp(1, 1024);
        let (ring, lent) = build(slots)?;
        // SAFETY: all-zero is a valid msghdr: no name, no parts, no control.
        let mut header: Box<libc::msghdr> = Box::new(unsafe { zeroed() });
        // Multishot reads two lengths only: how much room to leave in each slot.
        header.msg_namelen = NAME as _;
        header.msg_controllen = CONTROL as _;
        Ok(UringRing {
            ring,
            lent,
            header,
            slots,
            enabled: false,
            armed: false,
            messages: vec![(0, ReceivedTrain::default()); slots].into_boxed_slice(),
            received: 0,
            later: 0,
            overflow: 0,
            exhausted: 0,
            completions_lost: 0,
            calls: 0,
        })
    }

    /// Receives into `memory`, slot `i` at `i * pitch`: up to `slot` bytes of payload behind 192 B of
    /// head. Waits up to `wait` for the first train, never for others;
    /// with zero it does not enter the kernel if the kernel has nothing. Returns the number of trains, at least 1.
    ///
    /// # Errors
    /// `WouldBlock` if nothing came, `InvalidInput` if the memory holds no slot, or the system's.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        memory: &mut [u8],
        (pitch, slot): (usize, usize),
        wait: Duration,
    ) -> io::Result<usize> {
        self.received = 0;
        if self.later != 0 {
            return Err(io::Error::from_raw_os_error(std::mem::take(&mut self.later)));
        }
        let slots = (memory.len() / pitch.max(1)).min(self.slots);
        if slots == 0 || pitch < HEAD + slot {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no memory to receive into"));
        }
        if self.armed && wait.is_zero() && !self.ring.submission().taskrun() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let entered = loop {
            let entered = self.enter(socket, memory, slots, (pitch, slot), wait);
            match &entered {
                // Another thread than before: a new ring.
                Err(e) if e.raw_os_error() == Some(libc::EEXIST) => self.rebuild()?,
                _ => break entered,
            }
        };
        self.reap(memory, pitch, HEAD + slot);
        if self.received > 0 {
            return Ok(self.received);
        }
        if self.later != 0 {
            return Err(io::Error::from_raw_os_error(std::mem::take(&mut self.later)));
        }
        match entered {
            Err(e) if e.raw_os_error() != Some(libc::ETIME) => Err(e),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// One `io_uring_enter`, with the slots of `memory` lent; the caller takes them back.
    fn enter(
        &mut self,
        socket: BorrowedFd<'_>,
        memory: &mut [u8],
        slots: usize,
        (pitch, slot): (usize, usize),
        wait: Duration,
    ) -> io::Result<usize> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        if !self.armed && self.ring.submission().is_empty() {
            // MSG_TRUNC as a flag makes the kernel report the true length of a train that was cut.
            let request = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), &*self.header, GROUP)
                .flags(libc::MSG_TRUNC as u32)
                .build()
                .user_data(RECEIVE);
            // SAFETY: the header lives in its own box as long as this ring; slots come from the ring
            // of lent buffers, empty outside this function. The socket is held by the request.
            unsafe { self.ring.submission().push(&request) }.map_err(io::Error::other)?;
        }
        let submit = self.ring.submission().len() as u32;
        // The kernel writes through this address while `memory` is borrowed mutably.
        let at = memory.as_mut_ptr().expose_provenance() as u64;
        self.lent.lend(at, slots, (pitch, HEAD + slot));
        self.calls += 1;
        let entered = if wait.is_zero() {
            // SAFETY: GETEVENTS without an argument reads no memory.
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(submit, 0, GETEVENTS, None) }
        } else {
            let timeout = Timespec::from(wait);
            let how = SubmitArgs::new().timespec(&timeout);
            self.ring.submitter().submit_with_args(1, &how)
        };
        if self.ring.submission().is_empty() && submit > 0 {
            self.armed = true;
        }
        entered
    }

    /// Reads all completions of the call – messages, the request's end, errors – and takes back the
    /// slots that were not filled.
    fn reap(&mut self, memory: &[u8], pitch: usize, slot: usize) {
        for done in self.ring.completion() {
            let (flags, result) = (done.flags(), done.result());
            if done.user_data() != RECEIVE {
                continue;
            }
            self.armed &= cqueue::more(flags);
            let buffer = cqueue::buffer_select(flags);
            if buffer.is_some() {
                self.lent.head = self.lent.head.wrapping_add(1);
            }
            match (result, buffer) {
                (0.., Some(i)) => {
                    let start = i as usize * pitch;
                    // The result counts head and payload as far as they were written.
                    let written = (result as usize).min(slot);
                    let told = memory.get(start..start + written).and_then(message);
                    if let (Some(told), Some(place)) = (told, self.messages.get_mut(self.received))
                    {
                        *place = (start + HEAD, told);
                        self.received += 1;
                    }
                }
                (0.., None) => {}
                (error, _) if -error == libc::ENOBUFS && self.received > 0 => self.exhausted += 1,
                (error, _) => self.later = -error,
            }
        }
        self.lent.take_back();
        let overflow = self.ring.completion().overflow();
        if overflow != self.overflow {
            // Slots were used without a completion: start again with a new ring.
            self.completions_lost += u64::from(overflow.wrapping_sub(self.overflow));
            if let Err(e) = self.rebuild() {
                self.later = e.raw_os_error().unwrap_or(libc::EIO);
            }
        }
    }

    fn rebuild(&mut self) -> io::Result<()> {
        self.lent.take_back();
        self.disarm();
        let (ring, lent) = build(self.slots)?;
        (self.ring, self.lent) = (ring, lent);
        (self.enabled, self.armed, self.overflow) = (false, false, 0);
        Ok(())
    }

    /// Ends the request, so that the socket's port is free as soon as the socket is closed. On another thread than the
    /// ring's the kernel does this, a moment after the ring is closed.
    fn disarm(&mut self) {
        if !self.armed {
            return;
        }
        let second = Timespec::new().sec(1);
        let cancelled = self
            .ring
            .submitter()
            .register_sync_cancel(Some(second), CancelBuilder::user_data(RECEIVE));
        if cancelled.is_ok() {
            // SAFETY: GETEVENTS without an argument reads no memory; no slot is lent.
            let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GETEVENTS, None) };
        }
    }

    /// Where train `i` of the last call begins in its memory, and the kernel's information about it; `None` beyond the
    /// returned number.
    #[inline]
    pub fn message(&self, i: usize) -> Option<(usize, ReceivedTrain)> {
        self.messages[..self.received].get(i).copied()
    }
}

impl Drop for UringRing {
    fn drop(&mut self) {
        self.disarm();
    }
}

#[cfg(test)]
#[path = "uring_tests.rs"]
mod tests;
