//! What the host says that has to do with a wish, read once.
//!
//! Refuses: a core or an interface that the host does not have.

use std::collections::BTreeMap;

use fullcount_io::host::bounds::Bounds;
use fullcount_io::host::cpu::{Core, Cores};
use fullcount_io::host::firewall::Firewall;
use fullcount_io::host::interface::Interface;
use fullcount_io::host::offload::{CardQueues, Feature, Rings};
use fullcount_io::host::tuning::Tuning;
use fullcount_io::host::{CoreTime, Host, PortState, SoftnetBacklog, UdpCounters};

use super::wish::{Wish, WishError};

/// What one core did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CoreLoad {
    /// Share of the time that it worked, 0 to 1.
    pub busy: f64,
    /// Share that the hypervisor took, 0 to 1.
    pub stolen: f64,
}

/// The host as far as it matters for the wish.
#[derive(Debug, Clone, Default)]
pub struct HostFacts {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Names of all interfaces.
    pub interfaces: Vec<String>,
    /// The interface.
    pub card: Option<Interface>,
    /// Its rings.
    pub rings: Option<Rings>,
    /// Its receiving hardware queues.
    pub channels: Option<CardQueues>,
    /// Its offloads.
    pub features: Vec<Feature>,
    /// The kernel's settings.
    pub tuning: Tuning,
    /// Queues between cards and sockets.
    pub backlog: Option<SoftnetBacklog>,
    /// Counters of UDP.
    pub udp: Option<UdpCounters>,
    /// Sockets on the wish's port.
    pub port: Option<PortState>,
    /// All cores.
    pub cores: Cores,
    /// Each core that is on.
    pub each: Vec<Core>,
    /// What each core did: lately on this host, since the start in a saved tree.
    pub load: BTreeMap<u32, CoreLoad>,
    /// The loads are of just now.
    pub load_is_fresh: bool,
    /// Limits on this process.
    pub bounds: Bounds,
    /// Filters.
    pub firewall: Firewall,
}

impl HostFacts {
    /// Reads the host. `wait` lets some time pass between two looks at the cores; with `None`, or in a saved
    /// tree, their load counts from the host's start.
    pub fn read(host: &Host, wish: &Wish, wait: Option<&mut dyn FnMut()>) -> HostFacts {
        let before = host.cores();
        let interface = wish.interface.clone().or_else(|| host.default_interface());
        let name = interface.as_deref();
        let cores = host.topology();
        let each = cores.online.0.iter().map(|&c| host.core(c)).collect();
        let card = name.and_then(|n| host.interface(n));
        let known = card.as_ref().map(|c| c.name.as_str());
        let mut facts = HostFacts {
            kernel: host.snapshot().kernel,
            memory: host.memory_bytes(),
            interfaces: host.interfaces(),
            rings: known.and_then(|n| host.rings(n)),
            channels: known.and_then(|n| host.channels(n)),
            features: known.map(|n| host.features(n)).unwrap_or_default(),
            tuning: host.tuning(),
            backlog: host.backlog(),
            udp: host.udp(),
            port: wish.port.and_then(|p| host.port(p)),
            bounds: host.bounds(),
            firewall: host.firewall(known),
            cores,
            each,
            card,
            ..HostFacts::default()
        };
        let nothing = before.iter().map(|c| CoreTime { core: c.core, ..CoreTime::default() });
        let (from, to) = match wait {
            Some(wait) if host.is_this_one() => {
                wait();
                facts.load_is_fresh = true;
                (before, host.cores())
            }
            _ => (nothing.collect(), before),
        };
        facts.load = loads(&from, &to);
        facts
    }

    /// Refuses what the wish names and the host has not.
    ///
    /// # Errors
    /// The core or the interface. A host that says nothing of its cores is not held against the wish.
    pub fn check(&self, wish: &Wish) -> Result<(), WishError> {
        wish.check()?;
        if let Some(core) = wish.core
            && !self.cores.online.is_empty()
            && !self.cores.online.has(core)
        {
            return Err(WishError::Core { core, online: self.cores.online.to_string() });
        }
        match &wish.interface {
            Some(name) if self.card.is_none() => {
                let there = match self.interfaces.is_empty() {
                    true => "none that can be seen".to_owned(),
                    false => self.interfaces.join(", "),
                };
                Err(WishError::Interface { name: name.clone(), there })
            }
            _ => Ok(()),
        }
    }

    /// Cores that the wish is about: the pinned one, else all that are on.
    pub fn meant(&self, wish: &Wish) -> Vec<&Core> {
        self.each.iter().filter(|c| wish.core.is_none_or(|own| own == c.number)).collect()
    }

    /// An offload by the kernel's name.
    pub fn feature(&self, name: &str) -> Option<&Feature> {
        self.features.iter().find(|f| f.name == name)
    }
}

fn loads(from: &[CoreTime], to: &[CoreTime]) -> BTreeMap<u32, CoreLoad> {
    let load = |later: &CoreTime| {
        let earlier = from.iter().find(|c| c.core == later.core)?;
        let passed = |of: fn(&CoreTime) -> u64| of(later).saturating_sub(of(earlier)) as f64;
        let busy = passed(|c| c.user_ms)
            + passed(|c| c.system_ms)
            + passed(|c| c.irq_ms)
            + passed(|c| c.softirq_ms);
        let stolen = passed(|c| c.steal_ms);
        let all = busy + stolen + passed(|c| c.idle_ms);
        (all > 0.0).then(|| (later.core, CoreLoad { busy: busy / all, stolen: stolen / all }))
    };
    to.iter().filter_map(load).collect()
}
