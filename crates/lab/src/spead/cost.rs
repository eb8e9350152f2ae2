//! What a trial took of the host: processor time of every program, cores that were busy, packets that were dropped on the way; and what
//! it was allowed to reach.
//!
//! Processor time of a program is what the system counts for it when it has ended, over the time of the trial: 1 is one core. A
//! receiver that this program plays itself is counted with this program's time. Refuses nothing: what is not known is left out.
//! Source: `docs/lab-spead.md`.

use std::time::Instant;

use fullcount_io::host::Host;
use fullcount_io::sys::{CpuTime, children_cpu_time, process_cpu_time};
use serde_json::{Value, json};

use super::drops::{DropCounts, TrialDrops};
use super::ground::{SpeadGround, spead_share};
use super::rights;
use super::tools::SpeadWish;

/// Resources of a trial and its bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialCost {
    /// From the start of the first sender to the end of the last one, s.
    pub seconds: f64,
    /// Processor time of each sender over that time, cores.
    pub sender_cores: Vec<f64>,
    /// The same of each receiver; empty if nobody read.
    pub receiver_cores: Vec<f64>,
    /// Processor time of this program, cores: it plays the emulated link. What it took as a light receiver is above.
    pub own_cores: f64,
    /// Cores that were not idle, whoever used them.
    pub busy_cores: Option<f64>,
    /// Where packets were dropped.
    pub drops: Option<TrialDrops>,
    /// Rate that all senders together were asked for, Gb/s; `None`: as fast as possible.
    pub asked: Option<f64>,
    /// SPEAD bytes that the links carry, Gb/s; `None`: loopback.
    pub carries: Option<f64>,
    /// What the socket buffers allow TCP at the round trip of the link, Gb/s; `None`: no delay.
    pub window: Option<f64>,
}

impl TrialCost {
    /// For results files.
    pub fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "sender_cores": self.sender_cores, "receiver_cores": self.receiver_cores,
            "own_cores": self.own_cores, "busy_cores": self.busy_cores, "drops": self.drops.map(TrialDrops::json), "asked_gbps": self.asked,
            "carries_gbps": self.carries, "window_gbps": self.window,
        })
    }

    /// Receivers that are programs of their own took so long each. Without any, this program read over TCP, and nobody over UDP.
    pub(super) fn receivers(&mut self, receiver_seconds: &[f64], tcp: bool) {
        self.receiver_cores = match receiver_seconds {
            [] if tcp => vec![std::mem::take(&mut self.own_cores)],
            all => all.iter().map(|s| s / self.seconds).collect(),
        };
    }

    /// Processor time of all programs of the trial, cores.
    pub fn all_cores(&self) -> f64 {
        self.sender_cores.iter().chain(&self.receiver_cores).sum::<f64>() + self.own_cores
    }

    /// From a results file.
    pub fn of(value: &Value) -> Option<TrialCost> {
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        let list = |name: &str| -> Option<Vec<f64>> {
            value.get(name)?.as_array()?.iter().map(Value::as_f64).collect()
        };
        Some(TrialCost {
            seconds: number("seconds")?,
            sender_cores: list("sender_cores")?,
            receiver_cores: list("receiver_cores")?,
            own_cores: number("own_cores")?,
            busy_cores: number("busy_cores"),
            drops: value.get("drops").and_then(TrialDrops::of),
            asked: number("asked_gbps"),
            carries: number("carries_gbps"),
            window: number("window_gbps"),
        })
    }
}

fn seconds(time: std::io::Result<CpuTime>) -> f64 {
    time.map_or(0.0, |t| (t.user_ns + t.system_ns) as f64 / 1e9)
}

/// Runs `end`, which waits for one child; the child's processor time, s.
pub(super) fn of_child<T>(end: impl FnOnce() -> T) -> (T, f64) {
    let before = seconds(children_cpu_time());
    let ended = end();
    (ended, seconds(children_cpu_time()) - before)
}

/// Counters at the begin of a trial.
pub(super) struct CostMeter<'a> {
    ground: &'a SpeadGround,
    links: &'a [usize],
    began: Instant,
    own: f64,
    cores: Vec<(u64, u64)>,
    drops: DropCounts,
}

/// Idle and all time of each core, ms.
fn cores() -> Vec<(u64, u64)> {
    let all = Host::default().cores();
    let one = |c: &fullcount_io::host::CoreTime| {
        (c.idle_ms, c.idle_ms + c.user_ms + c.system_ms + c.irq_ms + c.softirq_ms + c.steal_ms)
    };
    all.iter().map(one).collect()
}

/// Cores that were not idle between two readings.
fn busy(before: &[(u64, u64)], after: &[(u64, u64)]) -> Option<f64> {
    let shares = before.iter().zip(after).filter_map(|(b, a)| {
        let (idle, all) = (a.0.saturating_sub(b.0) as f64, a.1.saturating_sub(b.1) as f64);
        (all > 0.0).then(|| 1.0 - (idle / all).min(1.0))
    });
    let shares: Vec<f64> = shares.collect();
    (!shares.is_empty()).then(|| shares.iter().sum())
}

impl<'a> CostMeter<'a> {
    /// Begins with the first sender.
    pub fn begin(ground: &'a SpeadGround, links: &'a [usize]) -> CostMeter<'a> {
        let drops = ground.drops(links);
        let (own, cores) = (seconds(process_cpu_time()), cores());
        CostMeter { ground, links, began: Instant::now(), own, cores, drops }
    }

    /// The senders have ended: time, cores, and what this program used itself.
    pub fn sent(&self, wish: &SpeadWish, sender_seconds: &[f64]) -> TrialCost {
        let took = self.began.elapsed().as_secs_f64().max(1e-9);
        let own = seconds(process_cpu_time()) - self.own;
        let window = || {
            let round_trip = self.ground.round_trip_time().filter(|_| wish.tcp)?.as_secs_f64();
            Some(rights::allowed(wish.buffer?) as f64 * 8.0 / 1e9 / round_trip.max(1e-9))
        };
        TrialCost {
            seconds: took,
            sender_cores: sender_seconds.iter().map(|s| s / took).collect(),
            receiver_cores: vec![],
            own_cores: own / took,
            busy_cores: busy(&self.cores, &cores()),
            drops: None,
            asked: wish.rate.map(|rate| rate * self.links.len() as f64),
            carries: self.ground.carries(self.links).map(|gbps| gbps * spead_share(wish.packet)),
            window: window(),
        }
    }

    /// What was dropped since the begin.
    pub fn dropped(&self) -> TrialDrops {
        self.ground.drops(self.links).since(&self.drops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_child_is_its_own() {
        let shell = |text: &str| {
            let mut child = std::process::Command::new("sh").args(["-c", text]).spawn().unwrap();
            of_child(|| child.wait().unwrap().success())
        };
        let (ok, worked) = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
        assert!(ok && worked > 0.02, "{worked} s");
        // Children of other tests may end in the same moment, but not always.
        let idle = (0..20).any(|_| {
            let (ok, slept) = shell("exec sleep 0.1");
            ok && slept < 0.02
        });
        assert!(idle, "a child that sleeps costs nothing");
    }

    #[test]
    fn cores_are_busy_as_far_as_they_are_not_idle() {
        let before = [(100, 1000), (0, 0)];
        assert_eq!(busy(&before, &[(175, 1100), (0, 100)]), Some(0.25 + 1.0));
        assert_eq!(busy(&before, &before), None, "no time has passed");
        assert_eq!(busy(&[], &[]), None);
    }

    #[test]
    fn what_a_trial_took_is_kept() {
        let cost = TrialCost {
            seconds: 2.0,
            sender_cores: vec![0.5, 1.0],
            receiver_cores: vec![0.25],
            own_cores: 0.125,
            busy_cores: Some(1.5),
            drops: Some(TrialDrops { queue: 1, interface: 2, socket: 3 }),
            asked: Some(0.5),
            carries: None,
            window: Some(0.2),
        };
        assert_eq!(TrialCost::of(&cost.json()), Some(cost.clone()));
        assert!((cost.all_cores() - 1.875).abs() < 1e-9);
        let mut light = cost.clone();
        light.receivers(&[], true);
        assert_eq!((light.receiver_cores.clone(), light.all_cores()), (vec![0.125], 1.625));
        light.receivers(&[], false);
        assert!(light.receiver_cores.is_empty(), "nobody reads");
        light.receivers(&[1.0, 3.0], true);
        assert_eq!(light.receiver_cores, [0.5, 1.5]);
        let bare = TrialCost { seconds: 1.0, ..TrialCost::default() };
        assert_eq!(TrialCost::of(&bare.json()), Some(bare));
        assert_eq!(TrialCost::of(&json!({"sender_cores": []})), None);
    }
}
