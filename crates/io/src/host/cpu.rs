//! The cores: their NUMA nodes, what they share, how fast they wake.
//!
//! What does not parse is absent. Sources: kernel `Documentation/admin-guide/cputopology`,
//! `.../admin-guide/pm/cpuidle`, `.../power/pm_qos_interface`.

use std::collections::BTreeSet;
use std::fmt;

use super::Host;

/// Largest number of a core that a list may hold: Linux has at most 8192 (`NR_CPUS`).
const MOST: u32 = 8191;

/// Numbers of cores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoreSet(pub BTreeSet<u32>);

impl CoreSet {
    /// Reads `0-3,8`, also empty. `None` if it is of another form or names a core above 8191.
    pub fn list(text: &str) -> Option<CoreSet> {
        let mut set = BTreeSet::new();
        for part in text.trim().split(',').filter(|p| !p.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last > MOST {
                return None;
            }
            set.extend(first..=last);
        }
        Some(CoreSet(set))
    }

    /// Reads a mask such as `ff` or `1,00000000` (words of 32 bits, the highest first).
    pub fn mask(text: &str) -> Option<CoreSet> {
        let mut set = BTreeSet::new();
        for (word, hex) in text.trim().rsplit(',').enumerate() {
            let bits = u32::from_str_radix(hex, 16).ok()?;
            let base = u32::try_from(word).ok()?.checked_mul(32).filter(|b| *b <= MOST)?;
            set.extend((0..32).filter(|b| bits >> b & 1 == 1).map(|b| base + b));
        }
        Some(CoreSet(set))
    }

    /// The core is in it.
    pub fn has(&self, core: u32) -> bool {
        self.0.contains(&core)
    }

    /// No core.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for CoreSet {
    /// As `0-3,8`; `none` if empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = vec![];
        for &core in &self.0 {
            match runs.last_mut() {
                Some(run) if run.1 + 1 == core => run.1 = core,
                _ => runs.push((core, core)),
            }
        }
        let run = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
        let runs: Vec<String> = runs.iter().map(run).collect();
        f.write_str(if runs.is_empty() { "none" } else { "" })?;
        f.write_str(&runs.join(","))
    }
}

/// One way of a core to sleep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Its number, as in `cpuidle/stateN`.
    pub number: u32,
    /// Name, for example `C6`.
    pub name: String,
    /// Time to wake up from it, µs.
    pub latency_us: u64,
    /// Switched off.
    pub disabled: bool,
}

/// One core.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Core {
    /// Number.
    pub number: u32,
    /// Logical cores of the same physical one, itself included.
    pub siblings: CoreSet,
    /// How its clock is chosen, for example `performance`.
    pub governor: Option<String>,
    /// How it may sleep, the deepest last.
    pub idle: Vec<IdleState>,
}

/// What holds for all cores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cores {
    /// Those that are on.
    pub online: CoreSet,
    /// Those kept free of other programs (`isolcpus`).
    pub isolated: CoreSet,
    /// Cores of each NUMA node.
    pub nodes: Vec<(u32, CoreSet)>,
    /// Longest wake-up that programs allow now (`/dev/cpu_dma_latency`), µs; the kernel's 2,000 s
    /// (2,000,000,000 µs) mean no limit.
    pub wake_limit_us: Option<i32>,
    /// The `irqbalance` service runs: it moves interrupts about by itself.
    pub irqbalance: bool,
}

impl Cores {
    /// NUMA node of a core.
    pub fn node_of(&self, core: u32) -> Option<u32> {
        self.nodes.iter().find(|(_, cores)| cores.has(core)).map(|(node, _)| *node)
    }

    /// Cores of a NUMA node.
    pub fn of_node(&self, node: u32) -> Option<&CoreSet> {
        self.nodes.iter().find(|(n, _)| *n == node).map(|(_, cores)| cores)
    }
}

impl Host {
    /// What holds for all cores.
    pub fn topology(&self) -> Cores {
        let cpu = "sys/devices/system/cpu";
        let list = |name: &str| CoreSet::list(&self.read(format!("{cpu}/{name}"))?);
        let nodes = "sys/devices/system/node";
        let node = |name: String| {
            let number = name.strip_prefix("node")?.parse().ok()?;
            Some((number, CoreSet::list(&self.read(format!("{nodes}/{name}/cpulist"))?)?))
        };
        let mut of_nodes: Vec<(u32, CoreSet)> =
            self.names(nodes).into_iter().filter_map(node).collect();
        of_nodes.sort_unstable_by_key(|(node, _)| *node);
        Cores {
            online: list("online").unwrap_or_default(),
            isolated: list("isolated").unwrap_or_default(),
            nodes: of_nodes,
            wake_limit_us: self.wake_limit(),
            irqbalance: self.runs("irqbalance"),
        }
    }

    /// One core; nothing but its number where the tree says nothing.
    pub fn core(&self, number: u32) -> Core {
        let cpu = format!("sys/devices/system/cpu/cpu{number}");
        let shared = ["core_cpus_list", "thread_siblings_list"];
        let siblings = |name| CoreSet::list(&self.line(&format!("{cpu}/topology/{name}"))?);
        Core {
            number,
            siblings: shared.into_iter().find_map(siblings).unwrap_or_default(),
            governor: self.line(&format!("{cpu}/cpufreq/scaling_governor")),
            idle: self.idle_states(&cpu),
        }
    }

    fn idle_states(&self, cpu: &str) -> Vec<IdleState> {
        let folder = format!("{cpu}/cpuidle");
        let state = |name: String| {
            let number = name.strip_prefix("state")?.parse().ok()?;
            let at = |file: &str| format!("{folder}/{name}/{file}");
            Some(IdleState {
                number,
                name: self.line(&at("name"))?,
                latency_us: self.number(&at("latency"))?,
                disabled: self.number(&at("disable"))? != 0,
            })
        };
        let mut states: Vec<_> = self.names(&folder).into_iter().filter_map(state).collect();
        states.sort_unstable_by_key(|s| s.number);
        states
    }

    /// The device answers with four bytes in the machine's own order (little-endian where saved).
    fn wake_limit(&self) -> Option<i32> {
        use std::io::Read;
        let mut answer = vec![];
        let file = std::fs::File::open(self.root.join("dev/cpu_dma_latency")).ok()?;
        file.take(5).read_to_end(&mut answer).ok()?;
        let bytes: [u8; 4] = answer.try_into().ok()?;
        let limit =
            if self.is_this_one() { i32::from_ne_bytes(bytes) } else { i32::from_le_bytes(bytes) };
        (limit >= 0).then_some(limit)
    }

    /// A process of that name runs.
    fn runs(&self, name: &str) -> bool {
        let number = |n: &String| n.bytes().all(|b| b.is_ascii_digit());
        let mut processes = self.names("proc").into_iter().filter(number);
        processes.any(|p| self.line(&format!("proc/{p}/comm")).as_deref() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_and_masks_mean_the_same_cores() {
        let eight = CoreSet::list("0-3,8\n").unwrap();
        assert_eq!(CoreSet::mask("10f\n"), Some(eight.clone()));
        assert_eq!(eight.to_string(), "0-3,8");
        assert_eq!(CoreSet::mask("1,00000000").unwrap().to_string(), "32");
        assert_eq!(CoreSet::list("").unwrap().to_string(), "none");
        for bad in ["3-1", "x", "1-", "0-4294967295", "-1", "8192"] {
            assert_eq!(CoreSet::list(bad), None, "{bad}");
        }
        for bad in ["", "x", "1,,2", "1ffffffff"] {
            assert_eq!(CoreSet::mask(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(cores in prop::collection::btree_set(0u32..8192, 1..40)) {
            let set = CoreSet(cores);
            prop_assert_eq!(CoreSet::list(&set.to_string()), Some(set));
        }

        #[test]
        fn no_text_panics(text in "[0-9a-f,x -]{0,40}") {
            let _ = (CoreSet::list(&text), CoreSet::mask(&text));
        }
    }
}
