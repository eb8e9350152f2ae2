//! How fast this machine copies memory, on one thread or on several at once: what stands beside every rate
//! that is read from memory, as no decoder reads faster for long.
//!
//! Blocks of 256 MiB are larger than any cache; each thread has its own two. Refuses: a core that cannot be
//! pinned to is passed over, since a container may forbid it.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes in a block.
const BLOCK: usize = 256 << 20;

/// Bytes copied per second in units of 10⁹, summed over one thread for each entry of `cores` (`None`:
/// wherever the system puts it), for `time`.
pub fn bandwidth(cores: &[Option<usize>], time: Duration) -> f64 {
    with_blocks(BLOCK, cores, time)
}

fn with_blocks(block: usize, cores: &[Option<usize>], time: Duration) -> f64 {
    let together = &Barrier::new(cores.len());
    std::thread::scope(|scope| {
        let start = |&core| scope.spawn(move || one(block, core, time, together));
        let threads: Vec<_> = cores.iter().map(start).collect();
        threads.into_iter().filter_map(|t| t.join().ok()).sum()
    })
}

fn one(block: usize, core: Option<usize>, time: Duration, together: &Barrier) -> f64 {
    // Where it is not allowed the thread runs unpinned, as everything else there does.
    let _ = core.map(fullcount_io::sys::pin_thread);
    let from = vec![1u8; block];
    let mut to = vec![0u8; block];
    // Pages are there before the clock starts.
    to.copy_from_slice(&from);
    together.wait();
    let (begun, mut copied) = (Instant::now(), 0u64);
    loop {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        copied += block as u64;
        let passed = begun.elapsed();
        if passed >= time {
            return copied as f64 / passed.as_secs_f64() / 1e9;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_threads_copy_at_once() {
        assert!(with_blocks(1 << 20, &[None, Some(0)], Duration::ZERO) > 0.0);
        assert!(
            with_blocks(1 << 20, &[Some(usize::MAX)], Duration::ZERO) > 0.0,
            "no such core: unpinned"
        );
        assert_eq!(bandwidth(&[], Duration::ZERO), 0.0);
    }
}
