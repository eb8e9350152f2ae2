//! Read-only information about the host: where datagrams were dropped, what its cores do, its hardware.
//!
//! Text files of `/proc` and `/sys` are read below a root directory, so that a saved tree of another host can be read
//! as well; on the running host, cards and queues are read over netlink, which sees the right network namespace where
//! `/sys` may not. Absent files are `None`, never 0. Kernel counters name the *place* of a loss only: with GRO they
//! count trains (see the ledger). A line that does not parse is skipped. Sources: `proc(5)`, kernel
//! `net/core/net-procfs.c`.

pub mod bounds;
pub mod card;
pub mod cpu;
pub mod disks;
pub mod driver;
pub mod firewall;
pub mod interface;
mod misses;
mod netlink;
pub mod offload;
pub mod probe;
pub mod qdisc;
pub mod snmp;
pub mod sockets;
pub mod softnet;
mod tree;
pub mod tuning;
pub mod unit;

use std::fs;
use std::path::{Path, PathBuf};

pub use snmp::UdpCounters;
pub use sockets::PortState;
pub use softnet::SoftnetBacklog;

/// A host, or a saved tree of one.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

/// Time that one core spent, in ms since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreTime {
    /// Number of the core.
    pub core: u32,
    /// In programs (nice ones included).
    pub user_ms: u64,
    /// In the kernel on behalf of programs.
    pub system_ms: u64,
    /// Idle, waiting for disks included.
    pub idle_ms: u64,
    /// In hardware interrupts.
    pub irq_ms: u64,
    /// In soft interrupts: most of the network's work.
    pub softirq_ms: u64,
    /// Taken by the hypervisor.
    pub steal_ms: u64,
}

/// Description of the host in a results file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSnapshot {
    /// Processor, as it calls itself.
    pub cpu: Option<String>,
    /// Cores that are on.
    pub cores: Option<u32>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Largest receive buffer that an ordinary process may ask for (`net.core.rmem_max`).
    pub rmem_max: Option<u64>,
    /// Largest send buffer that an ordinary process may ask for (`net.core.wmem_max`).
    pub wmem_max: Option<u64>,
}

impl Default for Host {
    fn default() -> Self {
        Host::at("/")
    }
}

impl Host {
    /// The host whose `/proc` lies below `root`; `/` is this one.
    pub fn at(root: impl Into<PathBuf>) -> Host {
        Host { root: root.into() }
    }

    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        // Names in a CPU model or an interface may be in any encoding.
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }

    /// True for the running host, false for a saved tree.
    pub fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Time of each core; empty without `/proc/stat`.
    pub fn cores(&self) -> Vec<CoreTime> {
        let text = self.read("proc/stat").unwrap_or_default();
        let ms = 1000 / crate::sys::clock_ticks().min(1000);
        let core = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            let core = words.next()?.parse().ok()?;
            // Garbage in a saved tree must not overflow the sums: 2⁵⁶ ticks are beyond any host.
            let ticks = |w: &str| w.parse::<u64>().unwrap_or(0).min(1 << 56);
            let t: Vec<u64> = words.map(|w| ticks(w) * ms).collect();
            let at = |i: usize| t.get(i).copied().unwrap_or(0);
            Some(CoreTime {
                core,
                user_ms: at(0) + at(1),
                system_ms: at(2),
                idle_ms: at(3) + at(4),
                irq_ms: at(5),
                softirq_ms: at(6),
                steal_ms: at(7),
            })
        };
        // The first line, `cpu ` with a blank, is the sum: its first word is no core number but a
        // count, so it must not be taken for one.
        text.lines().filter(|l| !l.starts_with("cpu ")).filter_map(core).collect()
    }

    /// What the host is.
    pub fn snapshot(&self) -> HostSnapshot {
        let cpuinfo = self.read("proc/cpuinfo").unwrap_or_default();
        let field = |text: &str, name: &str| -> Option<String> {
            let value = |l: &str| {
                let (key, value) = l.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            };
            text.lines().find_map(value)
        };
        let cores = cpuinfo.lines().filter(|l| l.starts_with("processor")).count();
        let memory = self.read("proc/meminfo").and_then(|t| field(&t, "MemTotal"));
        let kib = memory.and_then(|m| m.split_whitespace().next()?.parse::<u64>().ok());
        HostSnapshot {
            // aarch64 has no model name; the implementer's number is better than nothing.
            cpu: field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "CPU implementer")),
            cores: u32::try_from(cores).ok().filter(|c| *c > 0),
            kernel: self.read("proc/sys/kernel/osrelease").map(|k| k.trim().to_owned()),
            memory_bytes: kib.map(|k| k * 1024),
            rmem_max: self.number("proc/sys/net/core/rmem_max"),
            wmem_max: self.number("proc/sys/net/core/wmem_max"),
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
