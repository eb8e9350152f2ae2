//! Which of many sockets have something: `epoll(7)`, edge-triggered.
//!
//! A socket is told of once when bytes, a hang-up or an error come; its user reads until nothing is left. A socket that is
//! closed is forgotten by the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::wait_readable;

/// What came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketNews {
    /// Bytes, a connection, or an end can be read.
    pub readable: bool,
    /// It can be written to; a connection that was begun is made.
    pub writable: bool,
    /// The peer sends no more, or the connection is broken.
    pub hung_up: bool,
}

/// A set of sockets.
#[derive(Debug)]
pub struct SocketSet {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl SocketSet {
    /// An empty set, which tells of at most so many sockets at once.
    ///
    /// # Errors
    /// The system's.
    pub fn new(most: usize) -> io::Result<SocketSet> {
        // SAFETY: takes a flag and no pointer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else has.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(SocketSet { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; most.max(1)] })
    }

    /// Adds a socket under a number of the caller's; `writing`: also tells when it can be written to.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, socket: BorrowedFd<'_>, number: u64, writing: bool) -> io::Result<()> {
        let wanted = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        let wanted = if writing { wanted | libc::EPOLLOUT } else { wanted };
        let mut event = libc::epoll_event { events: wanted as u32, u64: number };
        let (set, op) = (self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD);
        // SAFETY: the kernel reads `event`, which lives across the call; both descriptors are borrowed for it.
        let rc = unsafe { libc::epoll_ctl(set, op, socket.as_raw_fd(), &raw mut event) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits for news, at most `wait`, and tells of each socket. It waits for whole milliseconds, and for less than one to the precision
    /// of the thread's timer slack (50 µs); so who goes on to wait for what is left is exact, with one more call at its end.
    ///
    /// # Errors
    /// The system's; a signal is no error.
    pub fn wait(
        &mut self,
        wait: Duration,
        mut tell: impl FnMut(u64, SocketNews),
    ) -> io::Result<()> {
        let ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        if ms == 0 && !wait.is_zero() {
            // `epoll_wait` knows whole milliseconds alone; the set itself can be waited for as a socket can.
            wait_readable(self.fd.as_fd(), wait)?;
        }
        let (most, events) = (self.events.len() as i32, self.events.as_mut_ptr());
        // SAFETY: `events` has room for `most` entries and lives across the call, which writes at most so many.
        let n = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events, most, ms) };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(e) };
        }
        for event in &self.events[..n as usize] {
            let (bits, number) = (event.events as i32, event.u64);
            let ended = bits & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) != 0;
            let news = SocketNews {
                readable: bits & libc::EPOLLIN != 0 || ended,
                writable: bits & libc::EPOLLOUT != 0,
                hung_up: ended,
            };
            tell(number, news);
        }
        Ok(())
    }
}
