//! What the host says about itself, read-only: where datagrams were dropped, what its cores do, what
//! it is.
//!
//! Everything is read from text files of `/proc` below a root directory, so that a saved tree of
//! another host reads as well. Absent files are `None`, never 0. Kernel counters name the *place* of
//! a loss only: with GRO they count trains (see the ledger). Refuses: nothing; a line that does not
//! parse is skipped. Sources: `proc(5)`, RFC 1213 (UDP group), kernel `net/core/net-procfs.c`.

pub mod bounds;
pub mod cpu;
pub mod firewall;
pub mod interface;
pub mod offload;
mod tree;
pub mod tuning;

use std::fs;
use std::path::{Path, PathBuf};

/// A host, or a saved tree of one.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

/// Counters of UDP over IPv4 and IPv6 together, since the network namespace exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UdpCounters {
    /// Datagrams delivered.
    pub in_datagrams: u64,
    /// Datagrams to a port where nobody listens.
    pub no_ports: u64,
    /// Datagrams dropped for any reason, full buffers included.
    pub in_errors: u64,
    /// Datagrams sent.
    pub out_datagrams: u64,
    /// Dropped because a receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Not sent because a send buffer was full.
    pub send_buffer_errors: u64,
    /// Dropped because the checksum was wrong.
    pub checksum_errors: u64,
    /// Dropped because the limit of all UDP memory was reached (`net.ipv4.udp_mem`).
    pub memory_errors: u64,
    /// IP fragments that could not be put together.
    pub reassembly_errors: u64,
}

/// All sockets on one UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortState {
    /// How many sockets.
    pub sockets: u32,
    /// Bytes waiting, with the kernel's overhead.
    pub queued_bytes: u64,
    /// Dropped because the buffer was full (trains count once).
    pub drops: u64,
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

/// Queue between card and sockets on one core, since the host started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because the queue was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// Times that processing stopped with work left (`net.core.netdev_budget`).
    pub squeezed: u64,
}

/// What a results file says about where it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
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

    fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        // Names in a CPU model or an interface may be in any encoding.
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.trim().parse().ok()
    }

    /// UDP counters of the calling process's network namespace; `None` without `/proc/net/snmp`.
    pub fn udp(&self) -> Option<UdpCounters> {
        let mut all = UdpCounters::default();
        let text = self.read("proc/net/snmp")?;
        // Two lines a group: names, then values.
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let Some((group, names)) = names.split_once(':') else { continue };
            let values = values.split_once(':').map_or("", |(_, v)| v);
            for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                all.add(group, name, value.parse().unwrap_or(0));
            }
        }
        // One name and value a line, the group as the name's beginning.
        for line in self.read("proc/net/snmp6").unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            let value = value.parse().unwrap_or(0);
            for group in ["Udp6", "Ip6"] {
                if let Some(name) = name.strip_prefix(group) {
                    all.add(&group[..group.len() - 1], name, value);
                }
            }
        }
        Some(all)
    }

    /// State of the sockets on UDP port `port`; `None` without `/proc/net/udp`.
    pub fn port(&self, port: u16) -> Option<PortState> {
        let mut state = PortState::default();
        let tables = [self.read("proc/net/udp"), self.read("proc/net/udp6")];
        if tables.iter().all(Option::is_none) {
            return None;
        }
        for line in tables.iter().flatten().flat_map(|t| t.lines().skip(1)) {
            // sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops
            let f: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(queues), Some(drops)) = (f.get(1), f.get(4), f.get(12)) else {
                continue;
            };
            let own = local.rsplit_once(':').and_then(|(_, p)| u16::from_str_radix(p, 16).ok());
            if own != Some(port) {
                continue;
            }
            let queued =
                queues.split_once(':').and_then(|(_, rx)| u64::from_str_radix(rx, 16).ok());
            state.sockets += 1;
            state.queued_bytes += queued.unwrap_or(0);
            state.drops += drops.parse().unwrap_or(0);
        }
        Some(state)
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

    /// Backlog of all cores together; `None` without `/proc/net/softnet_stat`.
    pub fn backlog(&self) -> Option<Backlog> {
        let mut all = Backlog::default();
        for line in self.read("proc/net/softnet_stat")?.lines() {
            let mut words =
                line.split_whitespace().map(|w| u64::from_str_radix(w, 16).unwrap_or(0));
            all.processed += words.next().unwrap_or(0);
            all.dropped += words.next().unwrap_or(0);
            all.squeezed += words.next().unwrap_or(0);
        }
        Some(all)
    }

    /// What the host is.
    pub fn snapshot(&self) -> Snapshot {
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
        Snapshot {
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

impl UdpCounters {
    fn add(&mut self, group: &str, name: &str, value: u64) {
        let line = match (group, name) {
            ("Udp", "InDatagrams") => &mut self.in_datagrams,
            ("Udp", "NoPorts") => &mut self.no_ports,
            ("Udp", "InErrors") => &mut self.in_errors,
            ("Udp", "OutDatagrams") => &mut self.out_datagrams,
            ("Udp", "RcvbufErrors") => &mut self.receive_buffer_errors,
            ("Udp", "SndbufErrors") => &mut self.send_buffer_errors,
            ("Udp", "InCsumErrors") => &mut self.checksum_errors,
            ("Udp", "MemErrors") => &mut self.memory_errors,
            ("Ip", "ReasmFails") => &mut self.reassembly_errors,
            _ => return,
        };
        *line += value;
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &UdpCounters) -> UdpCounters {
        UdpCounters {
            in_datagrams: self.in_datagrams.wrapping_sub(earlier.in_datagrams),
            no_ports: self.no_ports.wrapping_sub(earlier.no_ports),
            in_errors: self.in_errors.wrapping_sub(earlier.in_errors),
            out_datagrams: self.out_datagrams.wrapping_sub(earlier.out_datagrams),
            receive_buffer_errors: self
                .receive_buffer_errors
                .wrapping_sub(earlier.receive_buffer_errors),
            send_buffer_errors: self.send_buffer_errors.wrapping_sub(earlier.send_buffer_errors),
            checksum_errors: self.checksum_errors.wrapping_sub(earlier.checksum_errors),
            memory_errors: self.memory_errors.wrapping_sub(earlier.memory_errors),
            reassembly_errors: self.reassembly_errors.wrapping_sub(earlier.reassembly_errors),
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
