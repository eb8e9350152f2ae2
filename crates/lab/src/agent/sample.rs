//! What a core does while packets flow: user, system, softirq and irq time over intervals, and how often a
//! program was taken off its core.
//!
//! Read from `/proc/stat` and `/proc/PID/task/*/status` at the borders of the intervals only: the paper found
//! that measuring causes drops, so this is done in a pass of its own. `/proc/stat` counts in ticks of 10 ms: an
//! interval of 1 s is exact to 1 %. What the host does not tell is absent.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fullcount_io::host::{CoreTime, Host};
use serde::{Deserialize, Serialize};

/// Intervals to take, from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Time until the first interval begins, ms.
    pub delay_ms: u64,
    /// Length of an interval, ms.
    pub interval_ms: u64,
    /// Number of intervals, 1 to 10000.
    pub count: u32,
}

impl Sampling {
    /// Intervals of `interval` inside a run of `duration`, leaving out its first and last tenth; a run that is
    /// too short for one gets one shorter interval.
    pub fn within(duration: Duration, interval: Duration) -> Sampling {
        let ms = |d: Duration| d.as_millis() as u64;
        let (all, edge) = (ms(duration), ms(duration) / 10);
        let inside = (all - 2 * edge).max(1);
        let interval = ms(interval).max(1);
        match inside / interval {
            0 if all >= interval => {
                // A run of just one interval, as the paper's: its edges are inside.
                let edge = (all - interval) / 2;
                Sampling { delay_ms: edge, interval_ms: interval.min(all - edge), count: 1 }
            }
            0 => Sampling { delay_ms: edge, interval_ms: inside, count: 1 },
            n => Sampling { delay_ms: edge, interval_ms: interval, count: n.min(10_000) as u32 },
        }
    }
}

/// Shares of one core's time in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// In programs.
    pub user: f64,
    /// In the kernel for programs.
    pub system: f64,
    /// In soft interrupts: most of the network's work.
    pub softirq: f64,
    /// In hardware interrupts.
    pub irq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

impl Share {
    /// Time between two readings; `None` if no time went by.
    pub(crate) fn between(from: &CoreTime, to: &CoreTime) -> Option<Share> {
        let spent = |of: fn(&CoreTime) -> u64| of(to).saturating_sub(of(from)) as f64;
        let parts = [
            spent(|t| t.user_ms),
            spent(|t| t.system_ms),
            spent(|t| t.softirq_ms),
            spent(|t| t.irq_ms),
            spent(|t| t.steal_ms),
            spent(|t| t.idle_ms),
        ];
        let all: f64 = parts.iter().sum();
        let [user, system, softirq, irq, steal, idle] = parts.map(|p| 100.0 * p / all);
        (all > 0.0).then_some(Share { user, system, softirq, irq, steal, idle })
    }

    /// All that was not idle and not taken by others.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.softirq + self.irq
    }
}

/// One interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its length in s.
    pub seconds: f64,
    /// The core that the program is pinned to, and what it did.
    pub core: Option<(usize, Share)>,
    /// Times a second that the program went to sleep or waited (voluntary context switches).
    pub voluntary_per_s: Option<f64>,
    /// Times a second that it was taken off its core (involuntary context switches).
    pub involuntary_per_s: Option<f64>,
}

#[derive(Debug, Clone)]
struct Reading {
    at: Instant,
    core: Option<CoreTime>,
    switches: Option<(u64, u64)>,
}

fn read(process: u32, core: Option<usize>) -> Reading {
    let find = |n: usize| Host::default().cores().into_iter().find(|c| c.core as usize == n);
    Reading { at: Instant::now(), core: core.and_then(find), switches: switches(process) }
}

/// Voluntary and involuntary switches of all threads; `None` if the process is gone.
fn switches(process: u32) -> Option<(u64, u64)> {
    let mut all = (0, 0);
    for task in std::fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten() {
        // A thread may end while we look: what it did is then missing, as it will be in every later sum.
        let Ok(text) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let (voluntary, involuntary) = switches_of(&text);
        all = (all.0 + voluntary, all.1 + involuntary);
    }
    Some(all)
}

fn switches_of(status: &str) -> (u64, u64) {
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|l| l.trim().parse().ok()).unwrap_or(0)
    };
    (field("voluntary_ctxt_switches"), field("nonvoluntary_ctxt_switches"))
}

/// Takes the intervals of a process that is pinned to `core`; ends early when `end` says so or is dropped, or the
/// process is gone.
pub fn take(
    process: u32,
    core: Option<usize>,
    sampling: Sampling,
    end: &Receiver<()>,
) -> Vec<Interval> {
    let waits = |ms| end.recv_timeout(Duration::from_millis(ms)) == Err(RecvTimeoutError::Timeout);
    let mut intervals = Vec::new();
    if !waits(sampling.delay_ms) {
        return intervals;
    }
    let mut from = read(process, core);
    for _ in 0..sampling.count.min(10_000) {
        if !waits(sampling.interval_ms) {
            break;
        }
        let to = read(process, core);
        let seconds = to.at.duration_since(from.at).as_secs_f64();
        let share = from.core.as_ref().zip(to.core.as_ref());
        let share = share.and_then(|(a, b)| Some((a.core as usize, Share::between(a, b)?)));
        let Some(((v0, i0), (v1, i1))) = from.switches.zip(to.switches) else { break };
        let per_s = |a: u64, b: u64| (seconds > 0.0).then(|| b.saturating_sub(a) as f64 / seconds);
        intervals.push(Interval {
            seconds,
            core: share,
            voluntary_per_s: per_s(v0, v1),
            involuntary_per_s: per_s(i0, i1),
        });
        from = to;
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_lie_inside_the_run() {
        let s = |duration, interval| {
            let ms = Duration::from_millis;
            let s = Sampling::within(ms(duration), ms(interval));
            (s.delay_ms, s.interval_ms, s.count)
        };
        assert_eq!(s(60_000, 10_000), (6000, 10_000, 4));
        assert_eq!(s(10_000, 10_000), (0, 10_000, 1));
        assert_eq!(s(11_000, 10_000), (500, 10_000, 1));
        assert_eq!(s(300, 10_000), (30, 240, 1));
        assert_eq!(s(0, 10), (0, 1, 1));
        for duration in [1u64, 7, 299, 10_001, 123_456] {
            let (delay, interval, count) = s(duration, 10_000);
            assert!(delay + interval * u64::from(count) <= duration.max(1), "{duration}");
        }
    }

    #[test]
    fn shares_add_up_to_the_whole_core() {
        let at = |user_ms, softirq_ms, idle_ms| CoreTime {
            core: 1,
            user_ms,
            softirq_ms,
            idle_ms,
            ..CoreTime::default()
        };
        let share = Share::between(&at(10, 0, 100), &at(30, 30, 150)).unwrap();
        assert_eq!((share.user, share.softirq, share.idle), (20.0, 30.0, 50.0));
        assert_eq!(share.busy(), 50.0);
        assert_eq!(Share::between(&at(1, 1, 1), &at(1, 1, 1)), None);
    }

    #[test]
    fn switches_are_read_from_the_kernels_text() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches_of(text), (150, 7));
        assert_eq!(switches_of(""), (0, 0));
        let own = switches(std::process::id()).unwrap();
        assert!(own.0 + own.1 > 0, "this process has slept or been interrupted");
        assert_eq!(switches(u32::MAX), None);
    }

    #[test]
    fn a_process_that_ends_ends_the_sampling() {
        let sampling = Sampling { delay_ms: 0, interval_ms: 3_600_000, count: 1 };
        let (end, ended) = std::sync::mpsc::channel();
        drop(end);
        assert_eq!(take(std::process::id(), None, sampling, &ended), []);
        let (_end, ended) = std::sync::mpsc::channel();
        let short = Sampling { delay_ms: 0, interval_ms: 1, count: 2 };
        assert_eq!(take(u32::MAX, None, short, &ended), []);
        let own = take(std::process::id(), Some(0), short, &ended);
        assert!(own.len() == 2 && own.iter().all(|i| i.seconds > 0.0), "{own:?}");
    }
}
