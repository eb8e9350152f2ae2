//! `poll(2)`: waits until one of several descriptors can be read or written.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// So many descriptors are waited for without memory for their list.
const FEW: usize = 64;

/// Waits until one of `read` can be read, or `write` can be written, or the time is over. Any outcome is "look again".
pub fn wait_ready(read: &[BorrowedFd<'_>], write: Option<BorrowedFd<'_>>, wait: Duration) {
    const NOBODY: libc::pollfd = libc::pollfd { fd: -1, events: 0, revents: 0 };
    let (mut few, mut many) = ([NOBODY; FEW], Vec::new());
    let count = read.len() + usize::from(write.is_some());
    let polled = if count > FEW {
        many.resize(count, NOBODY);
        &mut many[..]
    } else {
        &mut few[..count]
    };
    let wanted =
        read.iter().map(|fd| (fd, libc::POLLIN)).chain(write.iter().map(|fd| (fd, libc::POLLOUT)));
    for (place, (fd, events)) in polled.iter_mut().zip(wanted) {
        *place = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    }
    // Below a millisecond this rounds up: it would spin otherwise.
    let ms = wait.as_micros().div_ceil(1000).min(60_000) as libc::c_int;
    // SAFETY: pointer and length are those of our own slice, which nobody else has; the kernel writes only its `revents`.
    let answer = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
    if answer < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        // Whoever waits would turn in circles.
        std::thread::sleep(Duration::from_millis(1).min(wait));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn any_of_many_descriptors_ends_the_wait() {
        let pairs: Vec<_> = (0..2 * FEW).map(|_| UnixStream::pair().unwrap()).collect();
        let read: Vec<_> = pairs.iter().map(|(reader, _)| reader.as_fd()).collect();
        (&pairs[2 * FEW - 1].1).write_all(&[1]).unwrap();
        let begun = Instant::now();
        wait_ready(&read, None, Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        wait_ready(&[], Some(pairs[0].1.as_fd()), Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}
