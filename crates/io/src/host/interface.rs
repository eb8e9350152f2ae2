//! A network interface: speed, MTU, queues, NUMA node, PCI Express, interrupts.
//!
//! Read from `/sys/class/net/NAME` and `/proc/interrupts`. Addresses are not read. What
//! an interface does not have is absent. Sources: kernel `Documentation/ABI/testing/sysfs-class-net*`,
//! `.../sysfs-bus-pci`, `Documentation/core-api/irq/irq-affinity`.

use super::cpu::CoreSet;
use super::tree::step;
use super::{Host, offload};

/// What an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InterfaceKind {
    /// The loopback.
    Loopback,
    /// Made by the kernel: veth, bridge, tunnel. No card, no rings, a speed that means nothing.
    #[default]
    Virtual,
    /// A device, emulated ones (virtio) included.
    Device,
}

/// PCI Express link of a card.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pcie {
    /// Transfers a second of each lane, 10⁹.
    pub gigatransfers: f64,
    /// Lanes in use.
    pub lanes: u32,
    /// Lanes that the card has.
    pub lanes_max: Option<u32>,
    /// Transfers a second that the card could, 10⁹.
    pub gigatransfers_max: Option<f64>,
}

/// One interrupt of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// Number.
    pub number: u32,
    /// Name in `/proc/interrupts`, for example `eth0-TxRx-0`.
    pub name: String,
    /// Cores that it may go to.
    pub cores: CoreSet,
}

impl Interrupt {
    /// By its name it counts received packets: not sent ones, the link or the firmware.
    pub fn receives(&self) -> bool {
        let name = self.name.to_ascii_lowercase();
        let others =
            ["config", "output", "-tx", "async", "misc", "fdir", "event", "lsc", "ctrl", "mgmnt"];
        name.contains("txrx") || !others.iter().any(|o| name.contains(o))
    }
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// Driver.
    pub driver: Option<String>,
    /// Largest IP packet, bytes.
    pub mtu: Option<u64>,
    /// Packets that may wait before the driver (`txqueuelen`).
    pub tx_queue_len: Option<u64>,
    /// Speed of the link, 10⁶ bit/s; absent where the link is down or has none.
    pub speed_mbps: Option<u64>,
    /// Both directions at once.
    pub full_duplex: Option<bool>,
    /// There is a link.
    pub carrier: Option<bool>,
    /// NUMA node of its slot.
    pub node: Option<u32>,
    /// Its slot.
    pub pcie: Option<Pcie>,
    /// For each receive queue the cores that its packets are handed on to (RPS); empty sets are off.
    pub rps: Vec<CoreSet>,
    /// Its interrupts, by number.
    pub interrupts: Vec<Interrupt>,
}

impl Host {
    /// Names of the interfaces, sorted.
    pub fn interfaces(&self) -> Vec<String> {
        // bonding_masters and the like are files of the folder, no interfaces.
        let has_mtu = |n: &String| self.has(&format!("sys/class/net/{n}/mtu"));
        self.names("sys/class/net").into_iter().filter(has_mtu).collect()
    }

    /// The interface of the default route, otherwise the only one that is not the loopback.
    pub fn default_interface(&self) -> Option<String> {
        let all = self.interfaces();
        let routes = self.read("proc/net/route").unwrap_or_default();
        for line in routes.lines().skip(1) {
            let mut words = line.split_whitespace();
            let (name, to) = (words.next(), words.next());
            if to == Some("00000000") {
                let known = all.iter().find(|i| Some(i.as_str()) == name);
                if let Some(known) = known {
                    return Some(known.clone());
                }
            }
        }
        let mut others = all.into_iter().filter(|i| i != "lo");
        let first = others.next();
        if others.next().is_some() { None } else { first }
    }

    /// One interface; `None` if there is none of that name.
    pub fn interface(&self, name: &str) -> Option<Interface> {
        let at = format!("sys/class/net/{}", step(name)?);
        if !self.has(&format!("{at}/mtu")) {
            return None;
        }
        let file = |name: &str| format!("{at}/{name}");
        let device = self.has(&file("device"));
        let kind = match (self.number(&file("type")), device) {
            (Some(772), _) => InterfaceKind::Loopback,
            (_, true) => InterfaceKind::Device,
            (_, false) => InterfaceKind::Virtual,
        };
        // A virtio device sits one step below the PCI device that has slot and interrupts.
        let slot = ["device", "device/.."].map(file);
        let numa = |s: &String| self.signed(&format!("{s}/numa_node"));
        let node = slot.iter().find_map(numa).and_then(|n| u32::try_from(n).ok());
        let rps = |queue: String| {
            queue.strip_prefix("rx-")?;
            let mask = self.line(&file(&format!("queues/{queue}/rps_cpus")))?;
            CoreSet::mask(&mask)
        };
        Some(Interface {
            name: name.to_owned(),
            kind,
            driver: self.driver(name),
            mtu: self.number(&file("mtu")),
            tx_queue_len: self.number(&file("tx_queue_len")),
            // -1 (and, from older kernels, 2³²−1) mean "unknown".
            speed_mbps: self.number(&file("speed")).filter(|s| *s > 0 && *s < 4_294_967_295),
            full_duplex: match self.line(&file("duplex")).as_deref() {
                Some("full") => Some(true),
                Some("half") => Some(false),
                _ => None,
            },
            carrier: self.number(&file("carrier")).map(|c| c == 1),
            node: if device { node } else { None },
            pcie: slot.iter().filter(|_| device).find_map(|s| self.pcie(s)),
            rps: self.names(&file("queues")).into_iter().filter_map(rps).collect(),
            interrupts: if device { self.interrupts(&slot) } else { vec![] },
        })
    }

    fn pcie(&self, slot: &str) -> Option<Pcie> {
        let speed = |name: &str| {
            // "8.0 GT/s PCIe"
            let text = self.line(&format!("{slot}/{name}"))?;
            let number: f64 = text.split_whitespace().next()?.parse().ok()?;
            (number.is_finite() && number > 0.0).then_some(number)
        };
        let lanes = |name: &str| {
            let lanes = self.number(&format!("{slot}/{name}"))?;
            u32::try_from(lanes).ok().filter(|l| (1..=32).contains(l))
        };
        Some(Pcie {
            gigatransfers: speed("current_link_speed")?,
            lanes: lanes("current_link_width")?,
            lanes_max: lanes("max_link_width"),
            gigatransfers_max: speed("max_link_speed"),
        })
    }

    fn interrupts(&self, slot: &[String]) -> Vec<Interrupt> {
        let numbers = slot.iter().map(|s| self.names(&format!("{s}/msi_irqs")));
        let numbers = numbers.into_iter().find(|n| !n.is_empty()).unwrap_or_default();
        let mut numbers: Vec<u32> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
        numbers.sort_unstable();
        let table = self.read("proc/interrupts").unwrap_or_default();
        let name = |number: u32| {
            let of = |line: &&str| {
                line.split_once(':').and_then(|(n, _)| n.trim().parse().ok()) == Some(number)
            };
            let line = table.lines().find(of)?;
            line.split_whitespace().last().map(str::to_owned)
        };
        let interrupt = |number: u32| {
            // Where it really goes; older kernels only report where it may go.
            let at = |name: &str| CoreSet::list(&self.line(&format!("proc/irq/{number}/{name}"))?);
            let cores = at("effective_affinity_list").filter(|c| !c.is_empty());
            Some(Interrupt {
                number,
                name: name(number)?,
                cores: cores.or_else(|| at("smp_affinity_list"))?,
            })
        };
        numbers.into_iter().filter_map(interrupt).collect()
    }

    /// Driver: the kernel's word, the saved `ethtool -i`, or the link in sysfs.
    fn driver(&self, name: &str) -> Option<String> {
        if self.is_this_one()
            && let Ok(driver) = crate::sys::ethtool::driver(name)
        {
            return Some(driver);
        }
        if let Some(driver) = offload::saved_driver(self, name) {
            return Some(driver);
        }
        let link = self.root.join(format!("sys/class/net/{name}/device/driver"));
        let target = std::fs::read_link(link).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}
