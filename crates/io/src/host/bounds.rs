//! Limits of a process: processor time, cores, memory; by control groups and by rights.
//!
//! A limit of any group above the process holds as well, so the smallest counts. Both versions of
//! control groups are read. Refuses: group paths that climb out of the tree. Sources: kernel
//! `Documentation/admin-guide/cgroup-v2`, `.../cgroup-v1/memory`, `proc(5)`, `capabilities(7)`.

use super::Host;
use super::cpu::CoreSet;
use super::tree::step;

/// Bit of `CAP_NET_ADMIN`.
const NET_ADMIN: u32 = 12;

/// Limits on this process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bounds {
    /// Runs in a container, by its traces.
    pub container: bool,
    /// Processor time allowed, cores.
    pub cpu_quota: Option<f64>,
    /// Period of the quota, µs.
    pub cpu_period_us: Option<u64>,
    /// Times that the quota ran out.
    pub throttled: Option<u64>,
    /// Cores allowed.
    pub cores: Option<CoreSet>,
    /// Memory allowed, bytes; socket buffers count.
    pub memory: Option<u64>,
    /// Memory that may be locked, bytes; absent if unlimited.
    pub locked_memory: Option<u64>,
    /// May exceed `rmem_max` and change settings of the network (`CAP_NET_ADMIN`).
    pub net_admin: Option<bool>,
    /// Runs as root.
    pub root: Option<bool>,
}

impl Host {
    /// Limits on this process (of the saved one, in a tree).
    pub fn bounds(&self) -> Bounds {
        let mut b = Bounds { container: self.is_container(), ..Bounds::default() };
        for folder in self.groups() {
            self.group(&folder, &mut b);
        }
        let status = self.read("proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
            Some(line.trim())
        };
        let allowed = field("Cpus_allowed_list").and_then(CoreSet::list).filter(|c| !c.is_empty());
        b.cores = match (b.cores.take(), allowed) {
            (Some(a), Some(b)) => Some(CoreSet(a.0.intersection(&b.0).copied().collect())),
            (a, b) => a.or(b),
        };
        let rights = field("CapEff").and_then(|h| u64::from_str_radix(h, 16).ok());
        b.net_admin = rights.map(|r| r >> NET_ADMIN & 1 == 1);
        b.root = field("Uid").and_then(|u| u.split_whitespace().nth(1)).map(|u| u == "0");
        b.locked_memory = self.read("proc/self/limits").and_then(|text| {
            let rest = text.lines().find_map(|l| l.strip_prefix("Max locked memory"))?;
            rest.split_whitespace().next()?.parse().ok()
        });
        b
    }

    fn is_container(&self) -> bool {
        let first = self.read("proc/1/cgroup").unwrap_or_default();
        let words = ["docker", "kubepods", "containerd", "/lxc", "libpod"];
        self.has(".dockerenv")
            || self.has("run/.containerenv")
            || words.iter().any(|w| first.contains(w))
    }

    /// Folders of the process's groups and of all groups above them.
    fn groups(&self) -> Vec<String> {
        let mut folders = vec![];
        for line in self.read("proc/self/cgroup").unwrap_or_default().lines() {
            // hierarchy:controllers:path
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(sorts), Some(path)) = (parts.next(), parts.next()) else { continue };
            let steps: Vec<&str> = path.split('/').filter(|s| !s.is_empty()).collect();
            if sorts.contains('/') || !steps.iter().all(|s| step(s).is_some()) {
                continue;
            }
            let tops: &[&str] = if sorts.is_empty() { &["", "/unified"] } else { &[sorts] };
            for top in tops {
                let slash = if top.is_empty() || top.starts_with('/') { "" } else { "/" };
                for depth in 0..=steps.len() {
                    let mut folder = format!("sys/fs/cgroup{slash}{top}");
                    for s in &steps[..depth] {
                        folder.push('/');
                        folder.push_str(s);
                    }
                    folders.push(folder);
                }
            }
        }
        folders
    }

    fn group(&self, folder: &str, b: &mut Bounds) {
        let at = |name: &str| format!("{folder}/{name}");
        // Version 2: "200000 100000" or "max 100000"; version 1: two files, -1 for none.
        let two = self.line(&at("cpu.max")).and_then(|text| {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?))
        });
        let one = || {
            Some((self.number(&at("cpu.cfs_quota_us"))?, self.number(&at("cpu.cfs_period_us"))?))
        };
        if let Some((quota, period)) = two.or_else(one).filter(|(_, period)| *period > 0) {
            let cores = quota as f64 / period as f64;
            if b.cpu_quota.is_none_or(|least| cores < least) {
                (b.cpu_quota, b.cpu_period_us) = (Some(cores), Some(period));
            }
        }
        let throttled = self.read(at("cpu.stat")).unwrap_or_default();
        let count = throttled.lines().find_map(|l| l.strip_prefix("nr_throttled ")?.parse().ok());
        b.throttled = b.throttled.max(count);
        let memory = ["memory.max", "memory.limit_in_bytes"].map(|n| self.number(&at(n)));
        // Version 1 writes "no limit" as the largest number of pages.
        for limit in memory.into_iter().flatten().filter(|m| *m < 1 << 60) {
            b.memory = Some(b.memory.map_or(limit, |least| least.min(limit)));
        }
        let names = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
        let set = |name: &&str| CoreSet::list(&self.line(&at(name))?).filter(|c| !c.is_empty());
        if let Some(set) = names.iter().find_map(set) {
            // Groups come from the top down: the last is the narrowest.
            b.cores = Some(set);
        }
    }
}
