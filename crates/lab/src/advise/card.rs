//! The card: rings, hardware queues, offloads, the queue before the driver, native AF_XDP.
//!
//! Sources: `ethtool(8)`, kernel `Documentation/networking/segmentation-offloads`,
//! `.../scaling`.

use fullcount_core::quantity::time_text;
use fullcount_io::host::interface::{Interface, InterfaceKind};

use super::facts::HostFacts;
use super::line::{AdviceLine, AdviceStatus};
use super::need::{Need, count_text};
use super::place::{Change, InterfaceRing, SettingPlace};
use super::wish::Wish;

/// Time that a ring should hold: a core that is away from the card for one tick of the slowest clock in
/// use on servers (HZ = 1000) is away for 1 ms.
const RING_HOLD: f64 = 1e-3;
/// Bounds of the queue before the driver, packets.
const QUEUE: (u64, u64) = (1000, 20_000);
/// Packets a second above which one receive queue is not enough for many senders.
const ONE_QUEUE: f64 = 2e6;

/// Drivers known, on Linux 6.x, to run XDP before the kernel makes its packet structure; by the names
/// that they tell. No more than a hint: `xdp://` tries, and shows the mode that it got.
const XDP_NATIVE: [&str; 27] = [
    "atlantic",
    "bnxt_en",
    "bonding",
    "ena",
    "fec",
    "gve",
    "hv_netvsc",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mana",
    "mlx4_en",
    "mlx5_core",
    "mvneta",
    "mvpp2",
    "nfp",
    "qede",
    "sfc",
    "st_gmac",
    "tsnep",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
];
/// Those of them known to hand the card's own memory to the program.
const XDP_ZERO_COPY: [&str; 10] =
    ["gve", "i40e", "ice", "igb", "igc", "ixgbe", "mlx5_core", "nfp", "st_gmac", "tsnep"];

/// Lines about the card.
pub fn lines(wish: &Wish, facts: &HostFacts, need: &Need) -> Vec<AdviceLine> {
    let Some(card) = &facts.card else { return vec![] };
    let mut lines = vec![];
    if wish.role.receives() {
        lines.extend(ring(card, facts, need, InterfaceRing::Rx));
        lines.extend(queues(card, facts, need));
        lines.push(offload(card, facts, "rx-gro", AdviceStatus::Short, GRO));
        lines.push(offload(card, facts, "rx-checksum", AdviceStatus::Short, RX_CHECKSUM));
        lines.extend(forwarding(facts));
    }
    if wish.role.sends() {
        lines.extend(ring(card, facts, need, InterfaceRing::Tx));
        lines.push(queue_before_driver(card, need));
        lines.push(offload(card, facts, "tx-generic-segmentation", AdviceStatus::Short, GSO));
        lines.push(offload(card, facts, "tx-udp-segmentation", AdviceStatus::Hint, USO));
    }
    lines.push(driver(card));
    lines
}

fn ring(
    card: &Interface,
    facts: &HostFacts,
    need: &Need,
    ring: InterfaceRing,
) -> Option<AdviceLine> {
    let key = if ring == InterfaceRing::Rx { "ring.rx" } else { "ring.tx" };
    let Some(rings) = facts.rings.filter(|r| r.rx_max > 0 && r.tx_max > 0) else {
        if card.kind == InterfaceKind::Device {
            return Some(AdviceLine::unknown(key, format!("{} does not say its rings", card.name)));
        }
        let why =
            "an interface without a card has no ring: net.core.netdev_max_backlog takes its place";
        return Some(AdviceLine::new(key, "none", why));
    };
    let (now, most) = match ring {
        InterfaceRing::Rx => (u64::from(rings.rx), u64::from(rings.rx_max)),
        InterfaceRing::Tx => (u64::from(rings.tx), u64::from(rings.tx_max)),
    };
    let enough = need.frames_in(RING_HOLD).next_power_of_two();
    let wanted = enough.min(most);
    let holds = |entries| time_text(need.queue_seconds(entries));
    let whom = match ring {
        InterfaceRing::Rx => "while the core that empties it is busy",
        InterfaceRing::Tx => "while the sender is off its core",
    };
    let says = format!("{now} of {most}");
    if now < wanted && need.queue_seconds(now) < RING_HOLD {
        let why = format!("{now} hold {} {whom}, {wanted} hold {}", holds(now), holds(wanted));
        let change = Change {
            place: SettingPlace::Ring(card.name.clone(), ring),
            value: wanted.to_string(),
        };
        let line =
            AdviceLine::new(key, says, why).wanted(wanted.to_string()).status(AdviceStatus::Short);
        return Some(line.change(change));
    }
    let mut why = format!("{now} hold {} {whom}", holds(now));
    if enough > most {
        why.push_str("; the card has no larger one");
        if ring == InterfaceRing::Rx {
            why.push_str(": several source ports spread a stream over its queues");
        }
    }
    Some(AdviceLine::new(key, says, why))
}

fn queues(card: &Interface, facts: &HostFacts, need: &Need) -> Option<AdviceLine> {
    let channels = facts.channels.filter(|_| card.kind == InterfaceKind::Device)?;
    let now = format!("{} of {}", channels.rx, channels.rx_max);
    let why = "all packets of one source port land in one queue; several source ports use several";
    let line = AdviceLine::new("queues", now, why);
    let cores = facts.cores.online.0.len() as u32;
    let wanted = channels.rx_max.min(cores.max(1));
    if channels.rx < wanted && need.frames() > ONE_QUEUE {
        let why =
            format!("{} frames/s on {} queues; {why}", count_text(need.frames()), channels.rx);
        let command = format!("ethtool -L {} combined {wanted}", card.name);
        let line = AdviceLine { why, ..line }.wanted(wanted.to_string());
        return Some(line.status(AdviceStatus::Hint).command(command));
    }
    Some(line)
}

/// Texts of an offload: why it should be on, and what it means if the interface cannot.
type Why = (&'static str, &'static str);
const GRO: Why = (
    "hands packets to the socket in trains; without it each one crosses the kernel alone",
    "each packet crosses the kernel alone",
);
const RX_CHECKSUM: Why = (
    "the card checks checksums; without it a core reads every byte once more",
    "a core reads every byte once more to check it",
);
const GSO: Why = (
    "one train crosses the kernel instead of its packets; it is cut just before the driver",
    "each packet crosses the kernel alone",
);
const USO: Why = (
    "the card cuts trains; without it a core does just before the driver",
    "a core cuts trains just before the driver",
);

fn offload(
    card: &Interface,
    facts: &HostFacts,
    name: &str,
    status: AdviceStatus,
    why: Why,
) -> AdviceLine {
    let key = format!("offload.{name}");
    let Some(feature) = facts.feature(name) else {
        return AdviceLine::unknown(key, format!("{} does not say this offload", card.name));
    };
    match (feature.on, feature.fixed) {
        (true, _) => AdviceLine::new(key, "on", why.0),
        (false, true) => {
            AdviceLine::new(key, "off, fixed", format!("{} cannot: {}", card.name, why.1))
        }
        (false, false) => {
            let place = SettingPlace::Feature(card.name.clone(), name.to_owned());
            let change = Change { place, value: "on".into() };
            AdviceLine::new(key, "off", why.0).wanted("on").status(status).change(change)
        }
    }
}

/// Only matters to packets that this host passes on, so it is said and never asked for.
fn forwarding(facts: &HostFacts) -> Option<AdviceLine> {
    let feature = facts.feature("rx-udp-gro-forwarding")?;
    let now = if feature.on { "on" } else { "off" };
    let why = "needed only where packets go on to a container or a virtual machine; a socket that asks \
               for trains gets them without it";
    Some(AdviceLine::new("offload.rx-udp-gro-forwarding", now, why))
}

fn queue_before_driver(card: &Interface, need: &Need) -> AdviceLine {
    let key = "txqueuelen";
    let Some(now) = card.tx_queue_len else {
        return AdviceLine::unknown(key, format!("{} does not say its queue", card.name));
    };
    let wanted = need.frames_in(RING_HOLD).next_multiple_of(1000).clamp(QUEUE.0, QUEUE.1);
    let holds = |entries| time_text(need.queue_seconds(entries));
    let says = format!("{now} packets");
    // veth and the like send at once, unless somebody puts a queue before them.
    let (before, status) = match card.kind {
        InterfaceKind::Device => ("before the card's ring", AdviceStatus::Short),
        InterfaceKind::Virtual => {
            ("in a queueing discipline, if the interface gets one", AdviceStatus::Hint)
        }
        InterfaceKind::Loopback => {
            return AdviceLine::new(key, says, "the loopback sends at once; no queue is in use");
        }
    };
    if now >= wanted || need.queue_seconds(now) >= RING_HOLD {
        return AdviceLine::new(key, says, format!("{now} packets hold {} {before}", holds(now)));
    }
    let why = format!(
        "{now} packets hold {} {before}, {wanted} hold {}; beyond, packets are dropped",
        holds(now),
        holds(wanted)
    );
    let change = Change::file(format!("sys/class/net/{}/tx_queue_len", card.name), wanted);
    AdviceLine::new(key, says, why)
        .wanted(format!("{wanted} packets"))
        .status(status)
        .change(change)
}

fn driver(card: &Interface) -> AdviceLine {
    let Some(name) = card.driver.as_deref() else {
        let why = format!("{} has no driver that says its name", card.name);
        return AdviceLine::unknown("driver", why);
    };
    let native = XDP_NATIVE.contains(&name);
    let why = match (native, XDP_ZERO_COPY.contains(&name)) {
        (true, true) => {
            "xdp:// runs in the driver, on most cards without a copy; the mode in use is shown at its start"
        }
        (true, false) => {
            "xdp:// runs in the driver, with a copy; the mode in use is shown at its start"
        }
        (false, _) => "not known to run XDP in the driver: xdp:// falls back to the generic mode",
    };
    AdviceLine::new("driver", name, why)
}
