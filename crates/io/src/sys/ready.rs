//! `poll(2)`: waits until one of several descriptors can be read or written.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Descriptors of one wait at most: more are not looked at in that turn.
const MOST: usize = 64;

/// Waits until one of `read` can be read, or `write` can be written, or the time is over. Any outcome is "look again".
pub fn wait_ready(read: &[BorrowedFd<'_>], write: Option<BorrowedFd<'_>>, wait: Duration) {
    let mut polled = [libc::pollfd { fd: -1, events: 0, revents: 0 }; MOST];
    let wanted =
        read.iter().map(|fd| (fd, libc::POLLIN)).chain(write.iter().map(|fd| (fd, libc::POLLOUT)));
    let mut many = 0;
    for (place, (fd, events)) in polled.iter_mut().zip(wanted) {
        *place = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        many += 1;
    }
    // Below a millisecond this rounds up: it would spin otherwise.
    let ms = wait.as_micros().div_ceil(1000).min(60_000) as libc::c_int;
    // SAFETY: the first `many` entries of our own array are initialised; the kernel writes only their `revents`.
    let answer = unsafe { libc::poll(polled.as_mut_ptr(), many, ms) };
    if answer < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        // Whoever waits would turn in circles.
        std::thread::sleep(Duration::from_millis(1).min(wait));
    }
}
