//! The kernel's settings that bound a UDP stream.
//!
//! In a network namespace of its own (a container) the kernel shows only some of them: the others are
//! `None`, and hold for the whole host. Sources: kernel `Documentation/admin-guide/sysctl/net`,
//! `Documentation/networking/ip-sysctl`.

use super::Host;

/// Settings below `/proc/sys/net`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tuning {
    /// Largest receive buffer that a program may ask for without `CAP_NET_ADMIN`, bytes.
    pub rmem_max: Option<u64>,
    /// Receive buffer of programs that do not ask, bytes.
    pub rmem_default: Option<u64>,
    /// Largest send buffer that a program may ask for without `CAP_NET_ADMIN`, bytes.
    pub wmem_max: Option<u64>,
    /// Packets that may wait on a core between an interface without rings and the protocols.
    pub netdev_max_backlog: Option<u64>,
    /// Packets that one round of network work may take.
    pub netdev_budget: Option<u64>,
    /// Time that one round of network work may take, µs.
    pub netdev_budget_usecs: Option<u64>,
    /// Pages of all UDP sockets together: low, pressure, most.
    pub udp_mem: Option<[u64; 3]>,
}

impl Host {
    /// The kernel's settings.
    pub fn tuning(&self) -> Tuning {
        let core = |name: &str| self.number(&format!("proc/sys/net/core/{name}"));
        let pages = |text: String| {
            let mut words = text.split_whitespace().map(str::parse);
            let mut next = || words.next()?.ok();
            Some([next()?, next()?, next()?])
        };
        Tuning {
            rmem_max: core("rmem_max"),
            rmem_default: core("rmem_default"),
            wmem_max: core("wmem_max"),
            netdev_max_backlog: core("netdev_max_backlog"),
            netdev_budget: core("netdev_budget"),
            netdev_budget_usecs: core("netdev_budget_usecs"),
            udp_mem: self.line("proc/sys/net/ipv4/udp_mem").and_then(pages),
        }
    }

    /// Memory of the host, bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.snapshot().memory_bytes
    }
}
