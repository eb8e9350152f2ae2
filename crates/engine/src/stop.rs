//! Ctrl-C, SIGTERM and SIGHUP: ask for a clean end once, take the process down at the second time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Shared wish to stop; cheap to test on the hot path.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A wish that SIGINT, SIGTERM and SIGHUP also express; the second signal ends the process with code 1.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Stop> {
        let stop = Stop::default();
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
        // A file that meets the limit of file sizes (`ulimit -f`, LimitFSIZE=) is an error of its writer (EFBIG); the
        // signal would take the process down.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        // A closed terminal (SIGHUP) must not cost the file either.
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Order matters: the shutdown tests the flag before the second handler sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 1, stop.0.clone())?;
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    /// Asks for the end.
    pub fn request(&self) {
        self.0.store(true, Relaxed);
    }

    /// True once the end was asked for.
    #[inline]
    pub fn requested(&self) -> bool {
        self.0.load(Relaxed)
    }
}
