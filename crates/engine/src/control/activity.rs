//! `RUNTIMESTATS`: which of three totals grew in the last second. Time is an argument.
//!
//! Source: `control-and-monitoring.md` section 3.4.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use fullcount_core::ledger::Entries;
use fullcount_core::status::StatusSource;

/// Totals of packets received, events made, bytes sent out.
type Totals = [u64; 3];

/// Compares once a second; read by whoever is asked.
#[derive(Debug, Default)]
pub struct Activity {
    before: Totals,
}

/// What was found last.
#[derive(Debug, Default)]
pub struct Mask(AtomicU64);

impl Mask {
    /// Bit 0: packets, bit 1: events, bit 2: output.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The totals of a run.
pub fn totals(entries: &Entries) -> Totals {
    let get = |name| entries.get(name).unwrap_or(0);
    // Outputs that send nothing take: events in a file are output as well.
    let taken = |name: &str| name.starts_with("queue.") && name.ends_with(".taken");
    let taken = entries.iter().filter(|e| taken(&e.info.name)).map(|e| e.value);
    let out = taken.fold(get("transmit.bytes"), u64::saturating_add);
    [get("receive.packets"), get("events.count"), out]
}

impl Activity {
    /// A second has gone.
    pub fn second(&mut self, now: Totals, mask: &Mask) {
        let grew = now.iter().zip(&self.before).enumerate();
        let bits = grew.map(|(bit, (now, before))| u64::from(now > before) << bit).sum();
        mask.0.store(bits, Relaxed);
        self.before = now;
    }
}

/// A thread that compares once a second; ends when it is dropped.
#[derive(Debug)]
pub struct ActivityWatch {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ActivityWatch {
    /// Starts it. It does not keep the run from ending.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(run: Weak<dyn StatusSource>, mask: Arc<Mask>) -> std::io::Result<ActivityWatch> {
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            // Not fatal: it is as good with the usual priority.
            let _ = fullcount_io::sys::be_nice();
            let mut activity = Activity::default();
            let second = Duration::from_secs(1);
            while stopped.recv_timeout(second) == Err(RecvTimeoutError::Timeout) {
                let Some(run) = run.upgrade() else { break };
                activity.second(totals(&run.entries()), &mask);
            }
        };
        let thread = std::thread::Builder::new().name("activity".into()).spawn(watch)?;
        Ok(ActivityWatch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ActivityWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_1_while_its_total_grows() {
        let (mut activity, mask) = (Activity::default(), Mask::default());
        let mut after = |totals| {
            activity.second(totals, &mask);
            mask.get()
        };
        assert_eq!(after([0, 0, 0]), 0);
        assert_eq!(after([1, 0, 0]), 1);
        assert_eq!(after([2, 5, 0]), 3);
        assert_eq!(after([3, 6, 7]), 7);
        assert_eq!(after([3, 6, 8]), 4);
        assert_eq!(after([3, 6, 8]), 0);
    }
}
