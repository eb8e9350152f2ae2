//! How near two cores are: the time that a cache line takes from one to the other and back.
//!
//! Copying through the kernel from one core to another is five times as fast where both share a cache. On a
//! virtual machine the host moves cores between caches at will, for seconds at a time, and nothing in the
//! guest says so; the same programs then run at a quarter of their speed. So a trial can ask for two cores that are
//! near each other now, and be made again where they no longer are at its end. Refuses: fewer than two
//! cores, cores that cannot be pinned.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fullcount_io::host::cpu::CoreSet;
use fullcount_io::sys::pin_thread;
use serde::{Deserialize, Serialize};

/// Cores whose line comes back within this are near. EPYC guest: 50 to 100 ns within a core complex, 360 to
/// 460 ns across; two sockets take longer.
pub const NEAR_NS: f64 = 150.0;
/// One look at a pair: 100 µs are 200 round trips of the slowest kind.
const LOOK: Duration = Duration::from_micros(500);
/// Looks at a pair; the least counts, as anything else that runs only adds.
const LOOKS: usize = 8;
/// How long a trial waits for a pair that is near before it takes the nearest.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two rounds of looking at all pairs.
const PAUSE: Duration = Duration::from_millis(100);
/// Trials whose cores were moved are made again so often.
pub const TRIES: u32 = 5;

/// Two cores, and how near they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Near {
    /// Core of the receiver.
    pub receiver: usize,
    /// Core of the sender.
    pub sender: usize,
    /// Round trip of a cache line, ns.
    pub round_trip_ns: f64,
}

impl Near {
    /// True below [`NEAR_NS`].
    pub fn is_near(&self) -> bool {
        self.round_trip_ns < NEAR_NS
    }

    /// The same cores, looked at again; the larger of the two times.
    ///
    /// # Errors
    /// A core that can no longer be pinned.
    pub fn again(self) -> io::Result<Near> {
        let now = round_trip_ns(self.receiver, self.sender)?;
        Ok(Near { round_trip_ns: self.round_trip_ns.max(now), ..self })
    }
}

/// One line of memory to itself: neighbours would take part in the game.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU32);

/// Round trip of a cache line between two cores, ns: the least mean of eight looks of half a millisecond.
///
/// # Errors
/// A core that this process cannot be pinned to.
pub fn round_trip_ns(a: usize, b: usize) -> io::Result<f64> {
    let (line, over) = (Line::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let answer = || -> io::Result<()> {
            pin_thread(b)?;
            while !over.load(Ordering::Relaxed) {
                let seen = line.0.load(Ordering::Acquire);
                if !seen.is_multiple_of(2) {
                    line.0.store(seen.wrapping_add(1), Ordering::Release);
                }
                std::hint::spin_loop();
            }
            Ok(())
        };
        let ask = || -> io::Result<f64> {
            let pinned = pin_thread(a);
            let least = pinned.map(|()| (0..LOOKS).map(|_| look(&line.0)).fold(f64::MAX, f64::min));
            over.store(true, Ordering::Relaxed);
            least
        };
        // Threads of their own: the caller stays where it may run.
        let (answering, asking) = (scope.spawn(answer), scope.spawn(ask));
        let panicked = |_| io::Error::other("a measuring thread panicked");
        let least = asking.join().map_err(panicked)?;
        answering.join().map_err(panicked)??;
        least
    })
}

/// Mean round trip during one look; [`f64::MAX`] if the other core gave no answer at all.
fn look(line: &AtomicU32) -> f64 {
    let (begun, mut trips) = (Instant::now(), 0u32);
    loop {
        let asked = line.load(Ordering::Relaxed).wrapping_add(1);
        line.store(asked, Ordering::Release);
        // The other thread may not have begun, or may not run: then this look counts for nothing.
        let mut patience = 1_000_000u32;
        while line.load(Ordering::Acquire) == asked {
            patience -= 1;
            if patience == 0 || (patience.is_multiple_of(1024) && begun.elapsed() > LOOK) {
                // Even again, so that a late answer cannot be taken for one of the next look.
                line.store(asked.wrapping_add(1), Ordering::Release);
                return f64::MAX;
            }
            std::hint::spin_loop();
        }
        trips += 1;
        if trips.is_multiple_of(16) && begun.elapsed() >= LOOK {
            return begun.elapsed().as_nanos() as f64 / f64::from(trips);
        }
    }
}

/// Cores that this process may run on, ascending: fewer than the host has in a container, or below `taskset`.
///
/// # Errors
/// The system does not say.
pub fn allowed() -> io::Result<Vec<usize>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let cores = list.and_then(CoreSet::list).filter(|cores| !cores.is_empty());
    let cores = cores.map(|cores| cores.0.into_iter().map(|core| core as usize).collect());
    cores.ok_or_else(|| io::Error::other("/proc/self/status names no cores"))
}

/// All pairs of `cores`, nearest first. Core 0 is last among equals: most hosts serve their interrupts there.
///
/// # Errors
/// A core that cannot be pinned.
pub fn pairs(cores: &[usize]) -> io::Result<Vec<Near>> {
    let mut all = Vec::new();
    for (at, &receiver) in cores.iter().enumerate() {
        for &sender in &cores[at + 1..] {
            let round_trip_ns = round_trip_ns(receiver, sender)?;
            all.push(Near { receiver, sender, round_trip_ns });
        }
    }
    all.sort_by(|a, b| {
        let key = |n: &Near| (!n.is_near(), n.receiver == 0);
        key(a).cmp(&key(b)).then(a.round_trip_ns.total_cmp(&b.round_trip_ns))
    });
    Ok(all)
}

/// Two cores that are near each other now: `last` if they still are, else the best of all; after
/// five seconds without any, the nearest there are.
///
/// # Errors
/// Fewer than two cores, or one that cannot be pinned.
pub fn choose(last: Option<Near>) -> io::Result<Near> {
    if let Some(last) = last {
        let now = Near { round_trip_ns: round_trip_ns(last.receiver, last.sender)?, ..last };
        if now.is_near() {
            return Ok(now);
        }
    }
    let cores = allowed()?;
    let begun = Instant::now();
    let mut nearest: Option<Near> = None;
    loop {
        for pair in pairs(&cores)? {
            if pair.is_near() {
                return Ok(pair);
            }
            let better = |n: Near| pair.round_trip_ns < n.round_trip_ns;
            if nearest.is_none_or(better) {
                nearest = Some(pair);
            }
        }
        match nearest {
            None => return Err(io::Error::other("one core: two are needed to be near each other")),
            Some(nearest) if begun.elapsed() >= PATIENCE => return Ok(nearest),
            Some(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Makes a trial on two near cores, again where they were moved meanwhile, [`TRIES`] times at most; gives the
/// cores it was made on with the longest round trip seen.
///
/// # Errors
/// Those of the trial, or no such cores.
pub fn on_near_cores<T, E: From<io::Error>>(
    last: &mut Option<Near>,
    mut trial: impl FnMut(Near) -> Result<T, E>,
) -> Result<(T, Near), E> {
    let mut tries = 0;
    loop {
        let before = choose(*last)?;
        *last = Some(before);
        let outcome = trial(before)?;
        let during = before.again()?;
        tries += 1;
        if during.is_near() || !before.is_near() || tries == TRIES {
            return Ok((outcome, during));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_travels_between_two_cores_and_back() {
        let cores = allowed().unwrap();
        let [first, second, ..] = cores[..] else {
            assert!(choose(None).is_err());
            return;
        };
        let ns = round_trip_ns(first, second).unwrap();
        assert!(ns > 1.0, "{ns} ns: faster than light crosses a core");
        assert_eq!(pairs(&cores).unwrap().len(), cores.len() * (cores.len() - 1) / 2);
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(round_trip_ns(0, 1023).is_err());
        assert!(round_trip_ns(1023, 0).is_err());
    }

    #[test]
    fn the_first_error_of_a_trial_ends_it() {
        let mut last = Some(Near { receiver: 1023, sender: 0, round_trip_ns: 1.0 });
        let e = on_near_cores(&mut last, |_| Ok::<(), io::Error>(())).unwrap_err();
        assert!(!e.to_string().is_empty());
    }
}
