//! Ctrl-C, SIGTERM and SIGHUP: ask for a clean end once, for an end without waiting the second time, and take the process
//! down at the third. To a service SIGHUP says that its configuration has changed.
//!
//! A signal that comes within a second of the one before it is the same wish: a terminal gives Ctrl-C to a whole process
//! group, whose leader may hand it on once more, and the second must not cut short what the first one asked for. Time is
//! an argument of [`Judge`].

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Signals closer together than this are one.
const ONE_WISH: Duration = Duration::from_secs(1);

/// Shared wish to stop; cheap to test on the hot path.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    wish: Arc<AtomicBool>,
    hurry: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
    stuck: Arc<AtomicBool>,
    /// The run ends if an output says that it is stuck.
    heeds: Arc<AtomicBool>,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Nothing: it is the one before once more.
    Nothing,
    /// A clean end.
    End,
    /// An end without waiting for anybody.
    Hurry,
    /// The end of the process.
    Exit,
}

/// Tells the signals of a process apart.
#[derive(Debug, Default)]
struct Judge {
    /// The last one that asked for something.
    last: Option<Instant>,
    wishes: u32,
}

impl Judge {
    /// A signal that comes at `now`.
    fn signal(&mut self, now: Instant) -> Asked {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < ONE_WISH) {
            return Asked::Nothing;
        }
        self.last = Some(now);
        self.wishes += 1;
        match self.wishes {
            1 => Asked::End,
            2 => Asked::Hurry,
            _ => Asked::Exit,
        }
    }
}

impl Stop {
    /// A wish that SIGINT, SIGTERM and SIGHUP also express. A second signal, a second later or more, ends the process with
    /// code 1: for what has nothing to wait for.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Stop> {
        Stop::listen(false, false)
    }

    /// The same for what waits at its end, and looks at [`Stop::hurried`]: the second signal ends the waiting, and the third
    /// the process.
    pub fn on_signals_in_two_steps() -> std::io::Result<Stop> {
        Stop::listen(true, false)
    }

    /// The same for a service: SIGHUP has it read its configuration again ([`Stop::read_again`]), unless it was started from a terminal,
    /// whose end is that of the run.
    pub fn on_signals_of_a_service() -> std::io::Result<Stop> {
        let terminal = std::fs::File::open("/dev/tty").is_ok();
        Stop::listen(true, !terminal)
    }

    fn listen(two_steps: bool, service: bool) -> std::io::Result<Stop> {
        let stop = Stop::default();
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
        // A file that meets the limit of file sizes (`ulimit -f`, LimitFSIZE=) is an error of its writer (EFBIG); the
        // signal would take the process down.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let (mut told, tell) = UnixStream::pair()?;
        // A closed terminal (SIGHUP) must not cost the file either.
        if service {
            signal_hook::flag::register(SIGHUP, stop.again.clone())?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().take(if service { 2 } else { 3 }) {
            // At once, whatever the thread below has to wait for.
            signal_hook::flag::register(signal, stop.wish.clone())?;
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        let shared = stop.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let (mut judge, mut byte) = (Judge::default(), [0]);
            while matches!(told.read(&mut byte), Ok(1..)) {
                match judge.signal(Instant::now()) {
                    Asked::Nothing => {}
                    Asked::End => shared.request(),
                    Asked::Hurry if two_steps => shared.hurry.store(true, Relaxed),
                    Asked::Hurry | Asked::Exit => signal_hook::low_level::exit(1),
                }
            }
        })?;
        Ok(stop)
    }

    /// True if a service was asked to read its configuration again; asked for once.
    pub fn read_again(&self) -> bool {
        self.again.swap(false, Relaxed)
    }

    /// Asks for the end.
    pub fn request(&self) {
        self.wish.store(true, Relaxed);
    }

    /// True once the end was asked for.
    #[inline]
    pub fn requested(&self) -> bool {
        self.wish.load(Relaxed)
    }

    /// The run ends by itself (its time is over, its packets have come, its source has no more): whoever waits for somebody at the
    /// end begins to count the time, as if the end had been asked for.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    /// True once the run ends by itself.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// From now on the run ends if an output is stuck.
    pub fn heed_stuck_outputs(&self) {
        self.heeds.store(true, Relaxed);
    }

    /// An output has waited as long as it may at the end, and nothing went. True if the run ends for it.
    pub fn output_is_stuck(&self) -> bool {
        self.stuck.store(true, Relaxed);
        self.heeds.load(Relaxed)
    }

    /// True once an output was stuck for which the run ends.
    pub fn has_stuck_output(&self) -> bool {
        self.heeds.load(Relaxed) && self.stuck.load(Relaxed)
    }

    /// True once the end was asked for again: nothing is waited for any more.
    pub fn hurried(&self) -> bool {
        self.hurry.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubled_signal_is_one_wish_and_a_later_one_another() {
        let (begin, mut judge) = (Instant::now(), Judge::default());
        let mut at = |ms| judge.signal(begin + Duration::from_millis(ms));
        assert_eq!(at(0), Asked::End);
        // Twice by the terminal and the leader of the group, and a nervous third.
        assert_eq!([at(0), at(1), at(999)], [Asked::Nothing; 3]);
        assert_eq!(at(1000), Asked::Hurry);
        assert_eq!([at(1001), at(1999)], [Asked::Nothing; 2]);
        assert_eq!([at(2000), at(9000)], [Asked::Exit; 2]);
    }

    #[test]
    fn the_wish_of_one_is_the_wish_of_all() {
        let stop = Stop::default();
        let other = stop.clone();
        assert!(!other.requested() && !other.hurried());
        stop.request();
        assert!(other.requested() && !other.hurried(), "nobody asked for hurry");
    }
}
