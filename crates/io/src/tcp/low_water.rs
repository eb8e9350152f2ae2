//! A reader of a fast byte stream is woken when much is there, not at each segment.
//!
//! A wake-up takes time of the core that sends over loopback, or of the one that takes the card's interrupts. So the low mark of the
//! socket (`SO_RCVLOWAT`) is raised once a look at a stream brings as much, and lowered again as soon as a wait brings less: a
//! slow stream is never held back, and one that becomes slow waits once, at most [`PATIENCE`]. Source: `socket(7)`.

use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The mark unless the options say, bytes. Over loopback with one core each side (`bbr`) a SPEAD connection carries 49 Gb/s with it and 35 without in packets
/// of 65,483 B, 44 and 36 in 1472 B (Xeon, `lab spead switches`).
pub const LOW_WATER: usize = 1 << 20;
/// How long less than the mark may wait to be read. A stream that brings the usual mark within this has 8 Gb/s.
const PATIENCE: Duration = Duration::from_millis(1);

/// The low mark of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowWater {
    mark: usize,
    raised: bool,
}

impl LowWater {
    /// Not raised yet; with 0 it never is.
    pub fn new(mark: usize) -> LowWater {
        LowWater { mark, raised: false }
    }

    /// How long a reader who would wait for `wait` may wait.
    pub fn wait(&self, wait: Duration) -> Duration {
        if self.raised { wait.min(PATIENCE) } else { wait }
    }

    /// What a look at the stream brought; `waited`: the reader had waited before it. What the socket is to be told, if anything is new.
    fn looked(&mut self, bytes: usize, waited: bool) -> Option<usize> {
        let much = self.mark > 0 && bytes >= self.mark;
        let raised = much || (self.raised && !waited);
        (std::mem::replace(&mut self.raised, raised) != raised).then_some(if raised {
            self.mark
        } else {
            1
        })
    }

    /// Raises or lowers the mark of `stream` after a look that brought `bytes`.
    pub fn came(&mut self, stream: BorrowedFd<'_>, bytes: usize, waited: bool) {
        let Some(mark) = self.looked(bytes, waited) else { return };
        if crate::sys::set_low_water(stream, mark).is_err() {
            // Not on this system.
            *self = LowWater::new(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_rises_with_a_fast_stream_and_falls_with_a_slow_one() {
        let mut mark = LowWater::new(1000);
        assert_eq!(mark.looked(999, true), None);
        assert_eq!(mark.wait(Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(mark.looked(1000, false), Some(1000));
        assert_eq!(mark.wait(Duration::from_secs(1)), PATIENCE);
        assert_eq!(mark.wait(Duration::ZERO), Duration::ZERO);
        // What is there between two waits says nothing.
        assert_eq!((mark.looked(1, false), mark.looked(2000, true)), (None, None));
        assert_eq!(mark.looked(0, true), Some(1));
        assert_eq!(mark.looked(0, true), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn below_a_raised_mark_nobody_is_told_and_once_it_is_lowered_all_are() {
        use std::io::{Read as _, Write as _};
        use std::net::{TcpListener, TcpStream};
        use std::os::fd::AsFd as _;

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let told = |stream: &TcpStream, wait: u64| {
            let (mut set, mut any) = (crate::sys::SocketSet::new(1).unwrap(), false);
            set.add(stream.as_fd(), 0, false).unwrap();
            set.wait(Duration::from_millis(wait), |_, _| any = true).unwrap();
            any
        };
        let mut mark = LowWater::new(4096);
        mark.came(stream.as_fd(), 4096, false);
        sender.write_all(&[1; 4095]).unwrap();
        let mut came = [0; 4095];
        while stream.peek(&mut came).unwrap() < came.len() {}
        assert!(!told(&stream, 1));
        sender.write_all(&[1]).unwrap();
        assert!(told(&stream, 10_000));
        stream.read_exact(&mut came).unwrap();
        assert!(!told(&stream, 1));
        mark.came(stream.as_fd(), 0, true);
        assert!(told(&stream, 10_000));
        mark.came(stream.as_fd(), 4096, true);
        assert!(!told(&stream, 1));
        sender.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(told(&stream, 10_000), "an end is told below the mark");
    }

    #[test]
    fn without_a_mark_nothing_is_told() {
        let mut mark = LowWater::new(0);
        assert_eq!((mark.looked(1 << 20, true), mark.looked(0, true)), (None, None));
    }
}
