//! The link: its speed against the rate on the wire, the MTU against the packets, the card's slot.
//!
//! Sources: IEEE 802.3, RFC 791 (fragments), PCI Express base specification (line codes).

use fullcount_core::quantity::bits_text;
use fullcount_io::host::interface::{Interface, InterfaceKind, Pcie};

use super::facts::HostFacts;
use super::line::{AdviceLine, AdviceStatus};
use super::need::{Need, count_text};
use super::place::Change;
use super::wish::Wish;

/// MTU of plain Ethernet.
const PLAIN: u64 = 1500;
/// Largest MTU that nearly every card and switch takes with jumbo frames.
const JUMBO: u64 = 9000;
/// Largest that some take; more is for interfaces without a card.
const JUMBO_MOST: u64 = 9216;
/// Largest of interfaces without a card.
const VIRTUAL_MOST: u64 = 65_535;
/// Share of a slot's bits that is left for packets: 256 B of payload carry about 24 B of headers, and
/// descriptors cross as well.
const SLOT_SHARE: f64 = 0.85;

/// Lines about the link.
pub fn lines(wish: &Wish, facts: &HostFacts, need: &Need) -> Vec<AdviceLine> {
    let Some(card) = &facts.card else {
        let why = "no interface was named and there is no default route: give --interface to have its \
                   speed, MTU, rings, offloads and interrupts looked at";
        return vec![AdviceLine::unknown("interface", why)];
    };
    let mut lines = vec![speed(card, need)];
    lines.extend(mtu(wish, card, need));
    lines.extend(card.pcie.map(|slot| pcie(&slot, need)));
    lines
}

fn speed(card: &Interface, need: &Need) -> AdviceLine {
    let key = "link.speed";
    let wire = need.wire_bits();
    if card.kind != InterfaceKind::Device {
        let why = format!("{} has no card: the cores and memory set its speed", card.name);
        return AdviceLine::new(key, "no link of its own", why);
    }
    if card.carrier == Some(false) {
        let why =
            format!("{} has no link: plug it in, or see `ip link show {}`", card.name, card.name);
        return AdviceLine::new(key, "no link", why)
            .wanted(bits_text(wire))
            .status(AdviceStatus::Short);
    }
    let Some(mbps) = card.speed_mbps else {
        let why = format!("{} does not say its speed; {} are needed", card.name, bits_text(wire));
        return AdviceLine::unknown(key, why);
    };
    let link = mbps as f64 * 1e6;
    let why = format!(
        "{} on the wire with headers and gaps, {:.1} % of the link",
        bits_text(wire),
        100.0 * wire / link
    );
    let line = AdviceLine::new(key, bits_text(link), why);
    if wire > link {
        return line.wanted(format!("{} or more", bits_text(wire))).status(AdviceStatus::Short);
    }
    if card.full_duplex == Some(false) {
        let why = "half duplex: sender and receiver share the link and collide";
        return AdviceLine { why: why.into(), ..line }
            .wanted("full duplex")
            .status(AdviceStatus::Short);
    }
    line
}

fn mtu(wish: &Wish, card: &Interface, need: &Need) -> Option<AdviceLine> {
    let key = "mtu";
    let Some(now) = card.mtu else {
        return Some(AdviceLine::unknown(key, format!("{} does not say its MTU", card.name)));
    };
    let (least, here) = (need.mtu(), need.overhead(need.wire.mtu));
    let headers = least - need.size as u64;
    let says = format!("{now} B");
    if now >= least {
        let why = format!(
            "{} B and {headers} B of headers are one frame; {:.1} % of the link are headers and gaps",
            need.size,
            100.0 * here
        );
        return Some(AdviceLine::new(key, says, why));
    }
    let frames = need.wire.frames(need.size);
    let better = match least {
        l if l <= PLAIN => PLAIN,
        l if l <= JUMBO => JUMBO,
        l => l,
    };
    let whole = need.overhead(usize::try_from(better).unwrap_or(usize::MAX));
    let mut why = format!(
        "{} B and {headers} B of headers go as {frames} IP fragments, {} frames/s: one lost loses the \
         whole packet, and there is no GRO; {:.1} % of the link are headers and gaps, {:.1} % at {better} B",
        need.size,
        count_text(need.pps * frames as f64),
        100.0 * here,
        100.0 * whole
    );
    let status = if wish.fragments { AdviceStatus::Hint } else { AdviceStatus::Short };
    let most = if card.kind == InterfaceKind::Device { JUMBO_MOST } else { VIRTUAL_MOST };
    let payload = now.saturating_sub(headers);
    if better > most {
        why.push_str(&format!("; hardly any card takes that: send packets of at most {payload} B"));
        return Some(AdviceLine::new(key, says, why).wanted(format!("{better} B")).status(status));
    }
    why.push_str(&format!(
        "; the far end and all switches between must take it too, else send packets of at most {payload} B"
    ));
    let change = Change::file(format!("sys/class/net/{}/mtu", card.name), better);
    Some(
        AdviceLine::new(key, says, why).wanted(format!("{better} B")).status(status).change(change),
    )
}

/// Bit/s that a slot carries in one direction, after its line code.
fn slot_bits(gigatransfers: f64, lanes: u32) -> f64 {
    let code = if gigatransfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    gigatransfers * 1e9 * f64::from(lanes) * code
}

fn pcie(slot: &Pcie, need: &Need) -> AdviceLine {
    let usable = SLOT_SHARE * slot_bits(slot.gigatransfers, slot.lanes);
    let wire = need.wire_bits();
    let now = format!("{} GT/s x{}", slot.gigatransfers, slot.lanes);
    let why = format!("about {} of packets; {} are needed", bits_text(usable), bits_text(wire));
    let line = AdviceLine::new("link.pcie", now, why);
    let lanes = slot.lanes_max.unwrap_or(slot.lanes).max(slot.lanes);
    let speed = slot.gigatransfers_max.unwrap_or(slot.gigatransfers).max(slot.gigatransfers);
    let best = format!("{speed} GT/s x{lanes}");
    let narrow = lanes > slot.lanes || speed > slot.gigatransfers;
    if usable < wire {
        let why = format!("{}; put the card into a wider slot", line.why);
        return AdviceLine { why, ..line }.wanted(best).status(AdviceStatus::Short);
    }
    if narrow {
        let why = format!("{}; the card could do {best} in another slot", line.why);
        return AdviceLine { why, ..line }.status(AdviceStatus::Fine);
    }
    line
}
